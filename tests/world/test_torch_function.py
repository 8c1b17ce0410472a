"""Tensor subclasses that override `__torch_function__`: it is captured, by every backend, in one graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import magneto

LOG: list[str] = []


class Plain(torch.Tensor):
    """With nothing of its own: operations return it."""


class Logged(torch.Tensor):
    """Notes which functions are called."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        LOG.append(getattr(func, "__name__", "?"))
        return super().__torch_function__(func, types, args, kwargs)


class Unit(torch.Tensor):
    """Carries a unit."""

    unit: str

    @staticmethod
    def __new__(cls, data: torch.Tensor, unit: str = "m") -> Any:
        return torch.Tensor._make_subclass(cls, data)  # type: ignore[attr-defined]

    def __init__(self, data: torch.Tensor, unit: str = "m") -> None:
        self.unit = unit

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        units = [arg.unit for arg in args if isinstance(arg, Unit)]
        with torch._C.DisableTorchFunctionSubclass():
            result = func(*args, **(kwargs or {}))
        if type(result) is torch.Tensor:
            result = result.as_subclass(cls)
            unit = "*".join(units) if func is torch.Tensor.mul else units[0] if units else "?"
            result.unit = unit  # type: ignore[attr-defined]
        return result


def arithmetic(x: Any) -> Any:
    return (x * 2 + 1).sin()


def functions(x: Any) -> Any:
    return nn.functional.silu(torch.relu(x)), nn.functional.linear(x, torch.ones(2, 4))


def reflected(x: Any) -> Any:
    return 2 - x, 1 / (x * x + 1)


def items(x: Any) -> Any:
    return x[0], x[:, 1:], [row * 2 for row in x], len(x)


def lists(x: Any) -> Any:
    return torch.cat([x, x * 2]), torch.stack((x, x))


def several_results(x: Any) -> Any:
    left, right = x.split(2, dim=1)
    return left * right, x.max(dim=1).values


def attributes(x: Any) -> Any:
    return x.shape, x.dtype, x.T, x.ndim, x.requires_grad


def types(x: Any) -> Any:
    return type(x).__name__, isinstance(x + 1, type(x)), isinstance(x, torch.Tensor), type(x * 2).__name__


def copy_is_written_to(x: Any) -> Any:
    y = x.clone()
    y.add_(1)
    y[0] = 5
    y += 2
    return y


def over_a_break(x: Any) -> Any:
    y = x + 1
    magneto.graph_break()
    return y * 2, y


PROGRAMS: list[Callable[[Any], Any]] = [
    arithmetic, functions, reflected, items, lists, several_results, attributes, types, copy_is_written_to,
    over_a_break,
]  # fmt: skip


def tensor(cls: Any, size: int = 3) -> Any:
    torch.manual_seed(size)
    values = torch.randn(size, 4)
    return Unit(values, "kg") if cls is Unit else values.as_subclass(cls)


def plain(value: Any) -> torch.Tensor:
    with torch._C.DisableTorchFunctionSubclass():
        return value.detach().as_subclass(torch.Tensor)  # type: ignore[no-any-return]


def assert_same(found: Any, expected: Any) -> None:
    assert type(found) is type(expected)
    if isinstance(expected, torch.Tensor):
        assert vars(found).get("unit") == vars(expected).get("unit")
        torch.testing.assert_close(plain(found), plain(expected))
    elif isinstance(expected, (list, tuple)):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            assert_same(one, other)
    else:
        assert found == expected


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("cls", [Plain, Logged, Unit])
@pytest.mark.parametrize("program", PROGRAMS)
def test_program(program: Any, cls: Any, backend: str) -> None:
    compiled = magneto.compile(program, backend=backend)
    for size in (3, 3, 5):
        LOG.clear()
        expected, noted = program(tensor(cls, size)), [*LOG]
        LOG.clear()
        assert_same(compiled(tensor(cls, size)), expected)
        assert noted == LOG


@pytest.mark.parametrize("cls", [Plain, Logged, Unit])
@pytest.mark.parametrize("program", [program for program in PROGRAMS if program is not over_a_break])
def test_is_one_graph(program: Any, cls: Any) -> None:
    magneto.compile(program, backend="eager", fullgraph=True)(tensor(cls))


@pytest.mark.parametrize("program", [arithmetic, functions, lists])
def test_graph_is_that_of_torch_compile(program: Any) -> None:
    found = []
    for compiler in (magneto.compile, torch.compile):
        seen: list[int] = []

        def backend(module: Any, inputs: Any, seen: list[int] = seen) -> Any:
            seen.append(sum(node.op.startswith("call") for node in module.graph.nodes))
            return module.forward

        compiler(program, backend=backend)(tensor(Plain))
        found.append(seen)
    assert found[0] == found[1]


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_gradients(backend: str) -> None:
    weight = torch.randn(4, requires_grad=True)

    def loss(x: Any) -> Any:
        return plain_sum((weight.as_subclass(Plain) * x).sin())

    def plain_sum(x: Any) -> Any:
        return x.as_subclass(torch.Tensor).sum()

    found = []
    for function in (magneto.compile(loss, backend=backend), loss):
        weight.grad = None
        function(tensor(Plain)).backward()
        found.append(weight.grad)
    torch.testing.assert_close(*found)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_an_input_is_written_to(backend: str) -> None:
    def write(x: Any) -> Any:
        x.mul_(2)
        return x + 1

    compiled = magneto.compile(write, backend=backend)
    for _ in range(2):
        one, other = tensor(Plain), tensor(Plain)
        assert_same(compiled(one), write(other))
        assert_same(one, other)


def test_the_graph_does_not_call_it_again() -> None:
    compiled = magneto.compile(arithmetic, backend="eager")
    compiled(tensor(Logged))
    LOG.clear()
    compiled(tensor(Logged))
    assert LOG == ["mul", "add", "sin"]


def test_a_break_inside_of_it(capsys: pytest.CaptureFixture[str]) -> None:
    class Printing(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            with torch._C.DisableTorchFunctionSubclass():
                print(func.__name__)
                return func(*args, **(kwargs or {})).as_subclass(cls)

    x = torch.randn(3).as_subclass(Printing)
    compiled = magneto.compile(arithmetic, backend="eager")
    for _ in range(2):
        found = compiled(x)
        printed = capsys.readouterr().out
        assert_same(found, arithmetic(x))
        assert printed == capsys.readouterr().out
    assert torch._C._is_torch_function_enabled()


def test_a_class_that_is_not_to_be_traced() -> None:
    import torch._dynamo

    with torch._dynamo.config.patch(nontraceable_tensor_subclasses={Plain}):
        x = tensor(Plain)
        with pytest.raises(magneto.exc.Unsupported, match="tensor subclass"):
            magneto.compile(arithmetic, backend="eager", fullgraph=True)(x)
        assert_same(magneto.compile(arithmetic, backend="eager")(x), arithmetic(x))


def test_in_a_subgraph() -> None:
    def branch(x: Any, y: Any) -> Any:
        return torch.cond(y.sum() > 0, lambda x: x.sin(), lambda x: x.cos(), (x,))

    compiled = magneto.compile(branch, backend="eager")
    for cls in (Plain, Logged):
        for y in (torch.ones(2), -torch.ones(2)):
            try:
                expected = branch(tensor(cls), y)
            except Exception as error:
                with pytest.raises(type(error)):
                    compiled(tensor(cls), y)
            else:
                assert_same(compiled(tensor(cls), y), expected)
