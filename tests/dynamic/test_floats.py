"""Floats that vary, as backends get them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import fx

import magneto

from .test_backends import Recorder, _text

pytestmark = pytest.mark.no_leak_hunt("torch.compile and AOTAutograd keep something of what they compiled")

RATES = (0.5, 0.25, 0.125, 0.75)

Program = Callable[..., Any]


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def scaled(x: torch.Tensor, rate: float) -> torch.Tensor:
    return x * rate


def computed(x: torch.Tensor, rate: float) -> torch.Tensor:
    return x * rate + (rate * 2 + 1) * 3 - rate**2


def with_a_size(x: torch.Tensor, rate: float) -> torch.Tensor:
    return x * (x.shape[0] * rate) + x.shape[0]


def written(x: torch.Tensor, rate: float) -> torch.Tensor:
    return x.mul_(rate).add_(1)


def two(x: torch.Tensor, rate: float, other: float) -> torch.Tensor:
    return x * rate + other


def returned(x: torch.Tensor, rate: float) -> tuple[torch.Tensor, float]:
    return x * rate, rate


def in_a_list(x: torch.Tensor, rates: list[float]) -> torch.Tensor:
    return x * rates[0] + rates[1]


def after_a_break(x: torch.Tensor, rate: float) -> torch.Tensor:
    y = x * rate
    torch._dynamo.graph_break()
    return y + rate


def as_alpha(x: torch.Tensor, rate: float) -> torch.Tensor:
    return torch.add(x, x, alpha=rate)


def as_a_bound(x: torch.Tensor, rate: float) -> torch.Tensor:
    return x.clamp(min=rate) + torch.full((3,), rate)


def doubled_outside(x: torch.Tensor, rate: float) -> tuple[torch.Tensor, float]:
    return x * rate, rate * 2


def calls_of(program: Program) -> list[tuple[Any, ...]]:
    x = torch.linspace(-1, 1, 3)
    if program is two:
        return [(x.clone(), rate, rate + 1) for rate in RATES]
    if program is in_a_list:
        return [(x.clone(), [rate, rate * 3]) for rate in RATES]
    if program is with_a_size:
        return [(torch.linspace(-1, 1, n), rate) for n, rate in enumerate(RATES, 3)]
    return [(x.clone(), rate) for rate in RATES]


def clone(args: tuple[Any, ...]) -> list[Any]:
    return [arg.clone() if isinstance(arg, torch.Tensor) else arg for arg in args]


def compiles(compile: Any, backend: Any, program: Program) -> int:
    """How often a sequence of floats is compiled; each result is compared with eager's."""
    count = 0

    def counting(module: fx.GraphModule, inputs: list[Any]) -> Any:
        nonlocal count
        count += 1
        return backend(module, inputs)

    compiled = compile(program, backend=counting)
    for args in calls_of(program):
        mine, other = clone(args), clone(args)
        torch.testing.assert_close(compiled(*mine), program(*other))
        torch.testing.assert_close(mine, other)
    return count


ALL = [scaled, computed, with_a_size, written, two, returned, in_a_list, after_a_break]
BACKENDS: dict[str, Any] = {
    "a function": lambda module, inputs: module.forward,
    "aot_eager": lambda module, inputs: torch._dynamo.lookup_backend("aot_eager")(module, inputs),
    "inductor": lambda module, inputs: torch._dynamo.lookup_backend("inductor")(module, inputs),
}


@pytest.mark.parametrize(
    ("program", "backend"),
    [(program, backend) for program in ALL for backend in ("a function", "aot_eager")]
    + [(program, "inductor") for program in (scaled, computed, with_a_size, after_a_break)],
)
def test_a_schedule_is_compiled_twice(program: Program, backend: str) -> None:
    expected = 4 if program is after_a_break else 2
    assert compiles(magneto.compile, BACKENDS[backend], program) == expected
    assert compiles(torch.compile, BACKENDS[backend], program) == expected


@pytest.mark.parametrize("program", [as_alpha, as_a_bound, doubled_outside])
def test_float_that_aot_autograd_makes_a_constant_is_one(program: Program) -> None:
    ours = compiles(magneto.compile, BACKENDS["aot_eager"], program)
    assert ours <= len(RATES) + 1
    assert compiles(magneto.compile, BACKENDS["a function"], program) == 2


def test_only_the_float_that_was_taken_is_a_constant() -> None:
    def program(x: torch.Tensor, rate: float, bound: float) -> torch.Tensor:
        return (x * rate).clamp(min=bound)

    recorder = Recorder()

    def backend(module: fx.GraphModule, inputs: list[Any]) -> Any:
        recorder(module, inputs)
        return torch._dynamo.lookup_backend("aot_eager")(module, inputs)

    compiled = magneto.compile(program, backend=backend)
    for n, (rate, bound) in enumerate(zip((0.5, 0.25, 0.125, 0.75), (0.1, 0.2, 0.2, 0.2), strict=True), 3):
        x = torch.ones(n)
        torch.testing.assert_close(compiled(x, rate, bound), program(x, rate, bound))
    names = [[node.name for node in graph.graph.find_nodes(op="placeholder")] for graph in recorder.graphs]
    assert names == [["l_x_"], ["s77", "l_x_", "l_rate_", "l_bound_"], ["s77", "l_x_", "l_rate_"]]


@pytest.mark.parametrize("program", [scaled, computed, two, in_a_list])
def test_graph_is_that_of_torch_compile(program: Program) -> None:
    graphs = []
    for compile in (torch.compile, magneto.compile):
        recorder = Recorder()
        compiled = compile(program, backend=recorder)
        for args in calls_of(program)[:2]:
            compiled(*clone(args))
        graphs.append(recorder)
    theirs, ours = graphs
    assert [_text(graph) for graph in ours.graphs] == [_text(graph) for graph in theirs.graphs]
    for mine, other in zip(ours.inputs, theirs.inputs, strict=True):
        torch.testing.assert_close(mine, other)


def test_placeholder_has_what_torch_dynamo_notes() -> None:
    told: list[Any] = []

    def backend(module: fx.GraphModule, inputs: list[Any]) -> Any:
        if len(inputs) == 2:
            _, rate, item, *_ = module.graph.nodes
            argument = rate.meta["grapharg"]
            told.append((rate.type, rate._dynamo_source.name, type(item.meta["example_value"])))
            told.append((argument.pass_arg_as_tensor, argument.is_tensor, argument.source.name))
        return module.forward

    for compile in (torch.compile, magneto.compile):
        compiled = compile(scaled, backend=backend)
        for rate in (0.5, 0.25):
            compiled(torch.ones(3), rate)
    assert told[:2] == told[2:] == [(torch.Tensor, "L['rate']", torch.SymFloat), (True, False, "L['rate']")]


def test_gradients() -> None:
    def program(x: torch.Tensor, rate: float) -> torch.Tensor:
        return F.gelu(x * rate).sum() * rate

    for name in ("aot_eager", "inductor"):
        compiled = magneto.compile(program, backend=BACKENDS[name])
        for rate in RATES:
            grads = []
            for function in (program, compiled):
                x = torch.linspace(-1, 1, 5).requires_grad_()
                function(x, rate).backward()
                grads.append(x.grad)
            torch.testing.assert_close(grads[1], grads[0])


def test_backend_that_compares_a_float_has_a_guard() -> None:
    found: list[Any] = []

    def backend(module: fx.GraphModule, inputs: list[Any]) -> Any:
        found.append(None)
        for node in module.graph.find_nodes(op="call_method", target="item"):
            found[-1] = bool(node.meta["example_value"] > 0.3)
        return module.forward

    compiled = magneto.compile(scaled, backend=backend)
    for rate in (*RATES, 0.2, 0.8):
        assert torch.equal(compiled(torch.ones(3), rate), torch.ones(3) * rate)
    assert found == [None, False, True]


def test_backend_that_takes_a_float_gets_constants() -> None:
    counts: list[int] = []

    def backend(module: fx.GraphModule, inputs: list[Any]) -> Any:
        counts.append(len(inputs))
        for node in module.graph.find_nodes(op="call_method", target="item"):
            assert float(node.meta["example_value"]) < 1
        return module.forward

    compiled = magneto.compile(scaled, backend=backend)
    for rate in RATES:
        assert torch.equal(compiled(torch.ones(3), rate), torch.ones(3) * rate)
    assert counts == [1, 2, 1, 1, 1]


def test_a_root_of_a_float_that_becomes_negative() -> None:
    def program(x: torch.Tensor, rate: float) -> torch.Tensor:
        return x * rate**2

    compiled = magneto.compile(program, backend="aot_eager")
    for rate in (0.5, 0.25, -0.5, -0.25, 0.75):
        torch.testing.assert_close(compiled(torch.ones(3), rate), program(torch.ones(3), rate))


def test_backend_that_fails_on_floats_gets_constants() -> None:
    def backend(module: fx.GraphModule, inputs: list[Any]) -> Any:
        if len(inputs) > 1:
            raise RuntimeError("no floats")
        return module.forward

    compiled = magneto.compile(scaled, backend=backend)
    for rate in RATES:
        assert torch.equal(compiled(torch.ones(3), rate), torch.ones(3) * rate)


@pytest.mark.parametrize("value", [float("inf"), float("nan"), -0.0])
def test_floats_that_are_special(value: float) -> None:
    compiled = magneto.compile(scaled, backend="aot_eager")
    for rate in (0.5, 0.25, value, 0.125, value):
        result = compiled(torch.ones(3), rate)
        torch.testing.assert_close(result, torch.ones(3) * rate, equal_nan=True)
        assert torch.equal(result.signbit(), (torch.ones(3) * rate).signbit())


def test_an_int_in_place_of_a_float() -> None:
    compiled = magneto.compile(scaled, backend="aot_eager")
    for rate in (0.5, 0.25, 2, 3, 0.125):
        x = torch.arange(3)
        assert torch.equal(compiled(x, rate), x * rate)
        assert compiled(x, rate).dtype is (x * rate).dtype


def test_inputs_that_share_memory_with_a_float() -> None:
    def program(x: torch.Tensor, y: torch.Tensor, rate: float) -> torch.Tensor:
        x.mul_(rate)
        return y + rate

    compiled = magneto.compile(program, backend="aot_eager")
    for n, rate in enumerate(RATES, 3):
        one = torch.linspace(0, 1, 2 * n)
        other = one.clone()
        torch.testing.assert_close(compiled(one[:n], one[n:], rate), program(other[:n], other[n:], rate))
        torch.testing.assert_close(one, other)
        torch.testing.assert_close(compiled(one[:n], one[1:], rate), program(other[:n], other[1:], rate))
        torch.testing.assert_close(one, other)


def test_specialize_float() -> None:
    with magneto.config.patch(specialize_float=True):
        assert compiles(magneto.compile, BACKENDS["a function"], scaled) == len(RATES)


def by_data(x: torch.Tensor, rate: float) -> torch.Tensor:
    return torch.zeros(int(x.sum().item())) + x.sum() * rate


def by_a_mask(x: torch.Tensor, rate: float) -> torch.Tensor:
    return x[x > 0] * rate + (rate * 2)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("program", [by_data, by_a_mask])
def test_floats_beside_values_that_depend_on_data(program: Program, backend: str) -> None:
    compiled = magneto.compile(program, backend=backend, fullgraph=True)
    for n, rate in enumerate(RATES, 3):
        x = torch.ones(n)
        torch.testing.assert_close(compiled(x, rate), program(x, rate))


@pytest.mark.parametrize(
    "program", [lambda x, a: (x + 1, min(a, 1.0)), lambda x, a: (x + 1, round(a, 1))], ids=["min", "round"]
)
def test_zeros_of_both_signs_are_told_apart(program: Program) -> None:
    compiled = magneto.compile(program, backend="eager")
    x = torch.ones(2)
    for value in (0.5, 1.5, 0.0, -0.0, 0.0):
        assert repr(compiled(x, value)[1]) == repr(program(x, value)[1])


NUMBERS = (1.5, 2.5, 3.75, -2.5, 0.0, -0.0, float("inf"), float("-inf"), float("nan"))


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize(
    "text",
    [
        "a % 1",
        "a % 1 * 2 + 1",
        "a - a",
        "a + 1 - a",
        "a * 0",
        "a * 0.0",
        "0.0 * a",
        "a // 2",
        "(a + 0.25) % 1",
        "-a",
    ],
)
def test_numbers_are_no_real_numbers(text: str, backend: str) -> None:
    """Backends' symbols are: x % 1 would be 0, and x - x as well where x is infinite."""
    program = eval(f"lambda x, a: (x + 1, {text}, x * ({text}))")
    magneto.reset()
    compiled = magneto.compile(program, backend=backend, recompile_limit=64)
    x = torch.ones(2)
    for number in NUMBERS:
        assert repr(compiled(x, number)) == repr(program(x, number))


@pytest.mark.parametrize("program", [lambda x, n: x.new_tensor(n), lambda x, n: x.new_tensor([n, 1])])
def test_new_tensors_of_large_ints(program: Program) -> None:
    compiled = magneto.compile(program, backend="aot_eager")
    x = torch.ones(1, dtype=torch.int64)
    for n in (2, 3, 2**31 + 2, 2**40):
        assert compiled(x, n).tolist() == program(x, n).tolist()
