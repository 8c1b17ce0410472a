"""What backends get for sizes that vary, and what becomes of it."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import fx

import magneto

pytestmark = pytest.mark.no_leak_hunt("torch.compile and AOTAutograd keep something of what they compiled")

SIZES = (4, 5, 6, 8, 7)

Program = Callable[..., Any]
Inputs = Callable[[int], tuple[Any, ...]]


class Recorder:
    """A backend that keeps what it is given."""

    def __init__(self) -> None:
        self.graphs: list[fx.GraphModule] = []
        self.inputs: list[list[Any]] = []
        self.arguments: list[list[Any]] = []
        """What is noted about inputs, which is gone when a backend is done."""

    def __call__(self, module: fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        self.graphs.append(module)
        self.inputs.append(inputs)
        self.arguments.append(
            [node.meta.get("grapharg") for node in module.graph.find_nodes(op="placeholder")]
        )
        return module.forward


def _captured(program: Program, inputs: Inputs, sizes: Sequence[int] = (4, 5)) -> Recorder:
    recorder = Recorder()
    compiled = magneto.compile(program, backend=recorder)
    for size in sizes:
        args = inputs(size)
        torch.testing.assert_close(compiled(*args), program(*args))
    return recorder


def _captured_by_torch(program: Program, inputs: Inputs, sizes: Sequence[int] = (4, 5)) -> Recorder:
    torch._dynamo.reset()
    recorder = Recorder()
    compiled = torch.compile(program, backend=recorder)
    for size in sizes:
        compiled(*inputs(size))
    torch._dynamo.reset()
    return recorder


def _shape(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return (str(tuple(value.shape)), str(value.stride()), value.dtype)
    if isinstance(value, (tuple, list)):
        return [_shape(item) for item in value]
    return (type(value).__name__, str(value))


def _text(module: fx.GraphModule) -> list[Any]:
    """A graph in a form that can be compared."""
    return [
        (node.op, node.name, node.target, str(node.args), str(node.kwargs), node.type,
         _shape(node.meta.get("example_value")))
        for node in module.graph.nodes
    ]  # fmt: skip


def _placeholders(module: fx.GraphModule) -> list[str]:
    return [node.name for node in module.graph.find_nodes(op="placeholder")]


def _compiles(
    backend: Any, program: Program, inputs: Inputs, sizes: Sequence[int] = SIZES, grad: bool = False
) -> int:
    """How many graphs the backend gets over a sequence of sizes; each result is compared with eager's."""
    count = 0

    def counting(module: fx.GraphModule, given: list[Any]) -> Any:
        nonlocal count
        count += 1
        return torch._dynamo.lookup_backend(backend)(module, given)

    compiled = magneto.compile(program, backend=counting)
    for size in sizes:
        args = inputs(size)
        runs = []
        for function in (program, compiled):
            mine = [
                arg.detach().clone().requires_grad_(arg.requires_grad)
                if isinstance(arg, torch.Tensor)
                else arg
                for arg in args
            ]
            result = function(*mine)
            grads: Any = ()
            if grad:
                leaves = [arg for arg in mine if isinstance(arg, torch.Tensor) and arg.requires_grad]
                grads = torch.autograd.grad(result.sum(), leaves)
            runs.append((result, grads, mine))
        torch.testing.assert_close(runs[1], runs[0])
    return count


r = torch.randn


def _numbers(x: torch.Tensor, k: int, y: torch.Tensor) -> tuple[Any, ...]:
    z = x * k + x.shape[0]
    w = torch.zeros(x.shape[0] // 2 + 1) * (y.shape[1] / 2) * math.sqrt(x.shape[0])
    return z.view(-1), y.t() + 1, w, torch.ones(min(x.shape[0], y.shape[1]))


ALIKE: dict[str, tuple[Program, Inputs]] = {
    "numbers": (_numbers, lambda n: (r(n, 3), n + 1, r(3, n + 3))),
    "sizes in two tensors": (lambda x, y: (x + 1, y + 1), lambda n: (r(n, 3), r(2, n + 3))),
    "equal sizes": (lambda x, y: x + y, lambda n: (r(n, 3), r(n, 3))),
    "matmul": (lambda x, y: F.relu(x @ y).sum(0), lambda n: (r(n, 3), r(3, n + 1))),
    "a transposed input": (lambda x: x.contiguous().view(-1), lambda n: (r(3, n).t(),)),
    "an unused size": (lambda x: x.sum(1), lambda n: (r(n, 3),)),
    "a size of a tensor that is not used": (lambda x: torch.ones(x.shape[0]), lambda n: (r(n, 3),)),
    "an int that is not used": (lambda x, k: x + 1, lambda n: (r(3), n)),
    "an int": (lambda x, k: x * k, lambda n: (r(3), n)),
    "nothing that varies": (lambda x: x + 1, lambda n: (r(3),)),
    "slices": (lambda x: x[1:] + x[:-1], lambda n: (r(n, 3),)),
    "expand": (lambda x: x.unsqueeze(0).expand(2, -1, -1).reshape(-1, 3), lambda n: (r(n, 3),)),
    "softmax": (lambda x, y: torch.cat([x, y]).softmax(0), lambda n: (r(n, 3), r(n + 2, 3))),
}


@pytest.mark.parametrize("name", ALIKE)
def test_graph_is_that_of_torch_compile(name: str) -> None:
    program, inputs = ALIKE[name]
    ours, theirs = _captured(program, inputs), _captured_by_torch(program, inputs)
    assert len(ours.graphs) == len(theirs.graphs)
    for mine, other in zip(ours.graphs, theirs.graphs, strict=True):
        assert _text(mine) == _text(other)
    for given, expected in zip(ours.inputs, theirs.inputs, strict=True):
        assert list(map(_shape, given)) == list(map(_shape, expected))


def test_symbol_stands_before_the_first_tensor_that_has_it() -> None:
    def program(x: torch.Tensor, k: int, y: torch.Tensor) -> torch.Tensor:
        return x.sum() * k + y.sum()

    recorder = _captured(program, lambda n: (r(n, 3), n, r(2, n + 1)))
    assert _placeholders(recorder.graphs[1]) == ["s77", "l_x_", "l_k_", "s94", "l_y_"]


def test_placeholder_of_a_symbol_has_what_torch_dynamo_notes() -> None:
    recorder = _captured(lambda x: x + 1, lambda n: (r(n, 3),))
    symbol, tensor, *_ = recorder.graphs[1].graph.nodes
    assert symbol.type is torch.SymInt
    assert isinstance(symbol.meta["example_value"], torch.SymInt)
    assert symbol._dynamo_source.name == "L['x'].size()[0]"
    assert recorder.arguments[1][0].source.name == "L['x'].size()[0]"
    assert "grapharg" not in symbol.meta
    assert tensor.meta["tensor_dict"] == {}
    assert tensor.meta["example_value"].shape[0] is not None


def test_stride_that_varies_is_a_symbol() -> None:
    recorder = _captured(lambda x: x + 1, lambda n: (torch.as_strided(r(n * 20), (3, 2), (n, 1)),), (4, 5, 6))
    assert len(recorder.graphs) == 2
    symbol, tensor = recorder.graphs[1].graph.find_nodes(op="placeholder")
    assert symbol._dynamo_source.name == "L['x'].stride()[0]"
    assert str(tensor.meta["example_value"].stride()) == f"({symbol.meta['example_value']}, 1)"


def test_results_with_one_metadata_share_an_example_value() -> None:
    module = _captured(lambda x: (x + 1) * 2 - 3, lambda n: (r(n, 3),)).graphs[1]
    values = [
        node.meta["example_value"]
        for node in module.graph.find_nodes(op="call_function", target=operator.mul)
    ]
    values += [
        node.meta["example_value"]
        for node in module.graph.find_nodes(op="call_function", target=operator.sub)
    ]
    assert values[0] is values[1]


PROGRAMS: dict[str, tuple[Program, Inputs]] = {
    "numbers": (_numbers, lambda n: (r(n, 3), n + 1, r(3, n + 3))),
    "returned numbers": (
        lambda x: (x + 1, x.shape[0] * 2, x.shape[0] / 3, (x.shape[0] - 1) ** 2),
        lambda n: (r(n, 3),),
    ),
    "equal sizes": (lambda x, y: x + y, lambda n: (r(n, 3), r(n, 3))),
    "a view as an input": (lambda x: x * 2 + x.shape[0], lambda n: (r(n, 6)[:, ::2],)),
    "a view with an offset": (lambda x: x.t() * 2, lambda n: (r(n + 2, 6)[1:n],)),
    "a write to an input": (lambda x: x.add_(1).sum(), lambda n: (r(n, 6),)),
    "views and inputs as results": (lambda x: (x, x.shape[0], x + 1, x.view(-1)), lambda n: (r(n, 3),)),
    "an int": (lambda x, k: x * k if k > 2 else x + k, lambda n: (r(3), n)),
    "a tensor of the size": (lambda x: torch.arange(x.shape[0]) + x[:, 0], lambda n: (r(n, 3),)),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_one_graph_of_aot_eager_serves_all_sizes(name: str) -> None:
    assert _compiles("aot_eager", *PROGRAMS[name]) == 2


def test_one_graph_of_aot_eager_serves_all_gradients() -> None:
    model = torch.nn.Sequential(
        torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.LayerNorm(16), torch.nn.Linear(16, 4)
    )
    assert _compiles("aot_eager", model, lambda n: (r(n, 8, requires_grad=True),), grad=True) == 2
    attention: Program = F.scaled_dot_product_attention
    inputs: Inputs = lambda n: tuple(r(1, 2, n, 8, requires_grad=True) for _ in range(3))  # noqa: E731
    assert _compiles("aot_eager", attention, inputs, grad=True) == 2


def test_one_graph_of_inductor_serves_all_sizes_and_gradients() -> None:
    def program(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return F.relu(x @ y).sum(0) * (x.shape[0] / 2) + y.shape[1]

    inputs: Inputs = lambda n: (r(n, 3, requires_grad=True), r(3, n + 1, requires_grad=True))  # noqa: E731
    assert _compiles("inductor", program, inputs, grad=True) == 2


def test_backend_that_decides_on_a_size_has_a_guard() -> None:
    asked = []

    def backend(module: fx.GraphModule, inputs: list[Any]) -> Any:
        size = inputs[0] if isinstance(inputs[0], torch.SymInt) else None
        if size is not None:
            asked.append((bool(size % 3 == 0), bool(size > 3)))
        return module.forward

    compiled = magneto.compile(lambda x: x + 1, backend=backend)
    for n in (4, 5, 7, 8, 9, 10, 12, 3):
        x = r(n, 2)
        torch.testing.assert_close(compiled(x), x + 1)
    assert asked == [(False, True), (True, True), (True, False)]


def test_backend_that_specialises_a_size_is_called_for_each() -> None:
    sizes: list[int] = []

    def backend(module: fx.GraphModule, inputs: list[Any]) -> Any:
        sizes.append(int(inputs[0]) if isinstance(inputs[0], torch.SymInt) else -1)
        return module.forward

    compiled = magneto.compile(lambda x: x + 1, backend=backend)
    for n in (4, 5, 6, 5, 6, 4):
        x = r(n, 2)
        torch.testing.assert_close(compiled(x), x + 1)
    assert sizes == [-1, 5, 6]


def test_guard_of_a_backend_that_has_no_expression_makes_the_entry_static() -> None:
    given: list[list[Any]] = []

    def backend(module: fx.GraphModule, inputs: list[Any]) -> Any:
        given.append(inputs)
        if isinstance(inputs[0], torch.SymInt):
            assert torch._sym_sqrt(inputs[0]) > 1.5
        return module.forward

    compiled = magneto.compile(lambda x: x + 1, backend=backend)
    for n in (4, 5, 6):
        x = r(n, 2)
        torch.testing.assert_close(compiled(x), x + 1)
    kinds = [type(one[0]) for one in given]
    assert kinds == [torch.Tensor, torch.SymInt, torch.Tensor, torch.SymInt, torch.Tensor]


def test_inputs_that_share_memory_and_are_written_to() -> None:
    def program(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x.mul_(2)
        return y + 1

    compiled = magneto.compile(program, backend="aot_eager")
    magneto.counters.clear()
    for n in SIZES:
        one = r(2 * n, 3)
        other = one.clone()
        torch.testing.assert_close(compiled(one[:n], one[n:]), program(other[:n], other[n:]))
        torch.testing.assert_close(one, other)
    assert magneto.counters["stats"]["unique_graphs"] == 2
    one = r(12, 3)
    other = one.clone()
    torch.testing.assert_close(compiled(one[:8], one[4:]), program(other[:8], other[4:]))
    torch.testing.assert_close(one, other)


def test_backward_after_a_break_and_an_int() -> None:
    def program(x: torch.Tensor, k: int) -> torch.Tensor:
        y = x.sin() * k
        torch._dynamo.graph_break()
        return y.cos().sum(1)

    inputs: Inputs = lambda n: (r(n, 3, requires_grad=True), n)  # noqa: E731
    assert _compiles("aot_eager", program, inputs, grad=True) == 4


def test_dynamic_from_the_first_call() -> None:
    recorder = Recorder()
    compiled = magneto.compile(lambda x, y: x + y, backend=recorder, dynamic=True)
    for n in (4, 5, 6):
        x, y = r(n, 3), r(n, 3)
        torch.testing.assert_close(compiled(x, y), x + y)
    assert len(recorder.graphs) == 1


def test_dynamic_false_makes_a_graph_a_size() -> None:
    recorder = Recorder()
    compiled = magneto.compile(lambda x: x + 1, backend=recorder, dynamic=False)
    for n in (4, 5, 6):
        compiled(r(n, 3))
    assert [_placeholders(graph) for graph in recorder.graphs] == [["l_x_"]] * 3


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_filter_does_not_drop_what_was_decided_on_sizes(backend: str) -> None:
    def program(x: torch.Tensor, k: int) -> torch.Tensor:
        return x + k if x.shape[0] > 5 else x - k

    function = torch._dynamo.lookup_backend(backend)

    def chosen(module: fx.GraphModule, inputs: list[Any], **_: Any) -> Any:
        return function(module, inputs)

    dropped = {"guard_filter_fn": lambda guards: [guard.guard_type != "SHAPE_ENV" for guard in guards]}
    compiled = magneto.compile(program, backend=chosen, options=dropped)
    for n in (3, 4, 5, 7, 8, 4, 9):
        x = r(n, 2)
        torch.testing.assert_close(compiled(x, n), program(x, n))
