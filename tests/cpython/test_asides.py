"""What the core asks of Python while it captures is no part of the program: it gives no guard, no node and no effect."""

from __future__ import annotations

import collections
import functools
import sys
import types
from typing import Any

import pytest
import torch

import magneto


def captured(function: object) -> object:
    return magneto.compile(function, backend="eager")


def test_questions_about_tensors_under_a_function_mode() -> None:
    base = torch.rand(3, 2, requires_grad=True)

    def program(view: torch.Tensor) -> torch.Tensor:
        return view * 2 + 1

    compiled = captured(program)
    with torch.device("cpu"):
        view = base[0]
        for _ in range(3):
            assert torch.equal(compiled(view), program(view))
    (entry,) = magneto.cache_entries(compiled)
    assert not any("DeviceContext" in text or "_device.py" in text for text in map(str, entry.guards))


def test_gradcheck_in_captured_code() -> None:
    def program(x: torch.Tensor) -> bool:
        return torch.autograd.gradcheck(lambda x: x.select(0, 1).sum(), (x,), fast_mode=True)

    compiled = captured(program)
    x = torch.rand(3, 2, dtype=torch.float64, requires_grad=True)
    assert compiled(x) is True
    assert compiled(x) is True


def test_transform_of_a_function() -> None:
    def program(x: torch.Tensor) -> object:
        return torch.func.jvp(torch.sin, (x,), (x,))

    x = torch.ones(2)
    for got, wanted in zip(captured(program)(x), program(x), strict=True):
        assert torch.equal(got, wanted)


@pytest.mark.parametrize(
    "operation", ["special.entr(x)", "max(x, 0)", "nn.functional.softshrink(x)", "lgamma(x)"]
)
def test_operation_in_a_frame_without_builtins(operation: str) -> None:
    code = compile(f"def program(x): return torch.{operation}", "<program>", "exec")
    scope = {"__builtins__": {}, "torch": torch}
    function = types.FunctionType(code.co_consts[0], scope)
    x = torch.rand(3) + 0.5
    torch.testing.assert_close(captured(function)(x), function(x))


def test_named_tuple_around_an_operation() -> None:
    Pair = collections.namedtuple("Pair", "left right")

    def program(x: torch.Tensor) -> object:
        return Pair(torch.special.ndtri(x), torch.sinc(x))

    x = torch.rand(3)
    torch.testing.assert_close(captured(program)(x), program(x))


def test_exception_that_is_handled_is_not_seen_by_questions() -> None:
    def program(x: torch.Tensor) -> object:
        try:
            raise ValueError("handled")
        except ValueError as error:
            y = torch.special.i0e(x)
            return y, error.args, error.__context__, sys.exc_info()[0]

    x = torch.rand(3)
    for _ in range(2):
        result, args, context, kind = captured(program)(x)
        torch.testing.assert_close(result, torch.special.i0e(x))
        assert (args, context, kind) == (("handled",), None, ValueError)


def test_name_of_a_callable_is_not_asked_of_the_program() -> None:
    asked = []

    class Callable:
        @property
        def __name__(self) -> str:
            asked.append(1)
            return "name"

        def __call__(self, x: torch.Tensor) -> torch.Tensor:
            return x + 1

    def program(f: object, x: torch.Tensor) -> torch.Tensor:
        return f(x) * 2

    x = torch.ones(2)
    assert torch.equal(captured(program)(Callable(), x), torch.full((2,), 4.0))
    assert asked == []


def add_numbers(_x: torch.Tensor) -> Any:
    return torch.add(1, 2)


def multiply(x: torch.Tensor) -> Any:
    for _ in range(3):
        x = x @ x
        x = x + x
    return x


def shift(x: torch.Tensor) -> Any:
    return torch.ldexp(x, x.view(-1)[:2])


def operations(profiler: torch.profiler.profile) -> list[tuple[str, int]]:
    """What was run, without the spans that say that something is compiled."""
    averages = [(event.key, event.count) for event in profiler.key_averages()]
    return sorted((key, count) for key, count in averages if key.startswith("aten::"))


@pytest.mark.parametrize("function", [add_numbers, multiply, shift])
def test_profilers_see_what_the_program_does(function: Any) -> None:
    """And neither the operations on FakeTensors nor those that make twins."""

    def program(x: torch.Tensor) -> Any:
        with torch.profiler.profile() as profiler:
            function(x)
        return operations(profiler)

    x = torch.ones(2, 2)
    expected = program(x)
    assert expected
    compiled = magneto.compile(program, backend="eager")
    for _ in range(2):
        assert compiled(x) == expected


def test_profilers_see_code_that_a_capture_runs_for_real() -> None:
    @functools.lru_cache
    def table(size: int) -> torch.Tensor:
        return torch.arange(size) * 2

    def program(x: torch.Tensor) -> Any:
        with torch.profiler.profile() as profiler:
            x = x + table(2)
        return operations(profiler)

    x = torch.ones(2)
    expected = [program(x), program(x)]
    assert len(expected[0]) > len(expected[1])
    table.cache_clear()
    compiled = magneto.compile(program, backend="eager")
    assert [compiled(x), compiled(x)] == expected
