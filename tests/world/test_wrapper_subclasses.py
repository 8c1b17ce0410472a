"""Tensors that wrap others (`__torch_dispatch__`, `__tensor_flatten__`): as in eager, in the graphs that TorchDynamo makes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.testing._internal.two_tensor import TwoTensor

import magneto

pytestmark = pytest.mark.filterwarnings("ignore:.*_stable_hash_for_caching")


class Scaled(torch.Tensor):
    """A tensor of ints and a factor, with something beside: what a library of quantised weights has."""

    data_: torch.Tensor
    factor: float
    options: Any

    @staticmethod
    def __new__(cls, data_: torch.Tensor, factor: float, options: Any = None) -> Any:
        return torch.Tensor._make_wrapper_subclass(cls, data_.shape, dtype=torch.float32, device=data_.device)

    def __init__(self, data_: torch.Tensor, factor: float, options: Any = None) -> None:
        self.data_ = data_
        self.factor = factor
        self.options = options

    def __repr__(self, **_: Any) -> str:
        return f"Scaled({self.data_}, {self.factor})"

    def __tensor_flatten__(self) -> Any:
        return ["data_"], (self.factor, self.options)

    @classmethod
    def __tensor_unflatten__(cls, inner: Any, context: Any, size: Any, stride: Any) -> Any:
        return cls(inner["data_"], *context)

    def plain(self) -> torch.Tensor:
        return self.data_.to(torch.float32) * self.factor

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.ops.aten.detach.default:
            return cls(args[0].data_.detach(), args[0].factor, args[0].options)
        plain = [arg.plain() if isinstance(arg, Scaled) else arg for arg in args]
        return func(*plain, **(kwargs or {}))


def pair(size: int = 3, grad: bool = False) -> Any:
    torch.manual_seed(size)
    return TwoTensor(torch.randn(size, 4), torch.randn(size, 4)).requires_grad_(grad)


def arithmetic(x: Any) -> Any:
    return (x * 2 + 1).sin()


def product(x: Any) -> Any:
    return (x @ x.t()).sum()


def parts_of_an_input(x: Any) -> Any:
    return x.a + x.b, x.a is x.a


def parts_of_a_result(x: Any) -> Any:
    y = x.cos()
    return y.a + 1, y.b, y


def types(x: Any) -> Any:
    y = x.sin()
    return (
        type(x) is TwoTensor,
        isinstance(y, TwoTensor),
        type(y.a) is torch.Tensor,
        isinstance(x.a, TwoTensor),
    )


def made_inside(x: Any) -> Any:
    return TwoTensor(x.a * 2, x.b + 1).sin()


def copy_is_written_to(x: Any) -> Any:
    y = x.clone()
    y.add_(1)
    return y * x


def views(x: Any) -> Any:
    return x.view(-1), x[0], x.t()


def with_a_plain_tensor(x: Any) -> Any:
    return x + torch.ones(4)


def metadata(x: Any) -> Any:
    return x.shape, x.dim(), x.dtype, x.device, x.requires_grad, x * x.size(0)


def several_results(x: Any) -> Any:
    left, right = x.split(2, dim=1)
    return left + right


def over_a_break(x: Any) -> Any:
    y = x.sin()
    magneto.graph_break()
    return y.cos(), y.a


def flattened(x: Any) -> Any:
    names, context = x.__tensor_flatten__()
    return [getattr(x, name) + 1 for name in names], context


PROGRAMS: list[Callable[[Any], Any]] = [
    arithmetic, product, parts_of_an_input, parts_of_a_result, types, made_inside, copy_is_written_to, views,
    with_a_plain_tensor, metadata, several_results, over_a_break, flattened,
]  # fmt: skip


def write(x: Any) -> Any:
    x.mul_(2)
    return x + 1


def write_to_a_part(x: Any) -> Any:
    x.a.add_(1)
    return x * 2


def write_and_read_a_part(x: Any) -> Any:
    x.mul_(2)
    return x.a + 1


def assert_same(found: Any, expected: Any) -> None:
    assert type(found) is type(expected)
    if isinstance(expected, TwoTensor):
        assert (found.shape, found.requires_grad) == (expected.shape, expected.requires_grad)
        assert_same(found.a, expected.a)
        assert_same(found.b, expected.b)
    elif isinstance(expected, torch.Tensor):
        torch.testing.assert_close(found, expected)
    elif isinstance(expected, (list, tuple)):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            assert_same(one, other)
    else:
        assert found == expected


def graphs(compiler: Any, function: Any, *args: Any) -> int:
    seen = []

    def backend(module: Any, inputs: Any) -> Any:
        seen.append(module)
        return module.forward

    compiler(function, backend=backend)(*args)
    return len(seen)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_program(program: Any, backend: str) -> None:
    compiled = magneto.compile(program, backend=backend)
    for size in (3, 3, 5):
        assert_same(compiled(pair(size)), program(pair(size)))


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("program", [write, write_to_a_part, write_and_read_a_part])
def test_program_that_writes(program: Any, backend: str) -> None:
    compiled = magneto.compile(program, backend=backend)
    for _ in range(2):
        one, other = pair(), pair()
        assert_same(compiled(one), program(other))
        assert_same(one, other)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("program", [arithmetic, product, copy_is_written_to])
def test_gradients(program: Any, backend: str) -> None:
    compiled = magneto.compile(program, backend=backend)
    found = []
    for function in (compiled, program):
        x = pair(grad=True)
        result = function(x)
        result.backward(torch.ones_like(result))
        found.append((result.detach(), x.grad))
    assert_same(*found)


@pytest.mark.parametrize("program", [arithmetic, parts_of_a_result, made_inside, views, flattened])
def test_is_one_graph(program: Any) -> None:
    assert graphs(magneto.compile, program, pair()) == graphs(torch.compile, program, pair()) == 1
    magneto.compile(program, backend="eager", fullgraph=True)(pair())


def test_the_graph_takes_the_wrapper() -> None:
    seen: list[Any] = []

    def backend(module: Any, inputs: Any) -> Any:
        nodes = list(module.graph.nodes)
        seen.append((list(map(type, inputs)), [type(node.meta.get("example_value")) for node in nodes[:-1]]))
        return module.forward

    magneto.compile(arithmetic, backend=backend)(pair())
    assert seen == [([TwoTensor], [TwoTensor] * 4)]


def linear(x: Any, weight: Any) -> Any:
    return nn.functional.linear(x, weight)


@pytest.mark.parametrize(
    "other",
    [
        Scaled(torch.ones(2, 4, dtype=torch.int8), 3.0),
        Scaled(torch.ones(2, 4, dtype=torch.int16), 2.0),
        Scaled(torch.ones(2, 4, dtype=torch.int8), 2.0, [1, {"a": 2}]),
        Scaled(torch.ones(4, 2, dtype=torch.int8).t(), 2.0),
        Scaled(torch.ones(3, 4, dtype=torch.int8), 2.0),
        torch.ones(2, 4),
    ],
)
def test_what_a_wrapper_holds_is_guarded(other: Any) -> None:
    compiled = magneto.compile(linear, backend="eager")
    x = torch.randn(3, 4)
    one = Scaled(torch.ones(2, 4, dtype=torch.int8), 2.0)
    for weight in (one, other, one):
        torch.testing.assert_close(compiled(x, weight), linear(x, weight))
    assert len(compiled.entries()) == 2


def test_a_container_in_it_is_guarded() -> None:
    def options(x: Any, weight: Any) -> Any:
        return nn.functional.linear(x, weight) * weight.options[0]

    compiled = magneto.compile(options, backend="eager")
    x, weight = torch.randn(3, 4), Scaled(torch.ones(2, 4, dtype=torch.int8), 2.0, [2])
    torch.testing.assert_close(compiled(x, weight), options(x, weight))
    weight.options[0] = 5
    torch.testing.assert_close(compiled(x, weight), options(x, weight))


def test_another_with_the_same_content_needs_no_capture() -> None:
    compiled = magneto.compile(linear, backend="eager")
    x = torch.randn(3, 4)
    for number in range(3):
        weight = Scaled(torch.full((2, 4), number, dtype=torch.int8), 2.0, [1])
        torch.testing.assert_close(compiled(x, weight), linear(x, weight))
    assert len(compiled.entries()) == 1


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(pair(2))
        self.register_buffer("scale", Scaled(torch.ones(4, dtype=torch.int8), 0.5))

    def forward(self, x: Any) -> Any:
        return isinstance(self.weight, nn.Parameter), x @ self.weight.t(), x * self.scale


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_parameters_and_buffers(backend: str) -> None:
    net = Net()
    compiled = magneto.compile(net, backend=backend, fullgraph=True)
    for _ in range(2):
        x = torch.randn(3, 4)
        assert_same(compiled(x), net(x))


class Recorded(TwoTensor):
    """A wrapper whose sizes are told by code: not captured, but right."""

    @staticmethod
    def __new__(cls, a: Any, b: Any, *rest: Any) -> Any:
        return torch.Tensor._make_wrapper_subclass(
            cls, a.shape, dtype=a.dtype, dispatch_sizes_strides_policy="sizes"
        )

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in (torch.ops.aten.sym_size.default, torch.ops.aten.size.default):
            return args[0].a.shape
        if func is torch.ops.aten.dim.default:
            return args[0].a.dim()
        return super().__torch_dispatch__(func, types, args, kwargs)


def test_sizes_told_by_code_are_a_break() -> None:
    def parts(x: Any) -> Any:
        return x.a + 1, x.b * 2

    compiled = magneto.compile(parts, backend="eager")
    x = Recorded(torch.randn(2), torch.randn(2))
    for _ in range(2):
        assert_same(compiled(x), parts(x))
