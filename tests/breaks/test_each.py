"""Small programs with a break before each of their instructions, at one call and then at none."""

from __future__ import annotations

import os
from typing import Any

import pytest
import torch
from programs import harness
from programs.texts import parse

import magneto
from magneto import _core

PROGRAMS = parse(r"""
### defaults of a function that is made after the break
g = 1
def f(x, n):
    def inner(p, q=n, *, k=n):
        return p + q + g + k
    return inner(x)
---
f(X, 1)
f(X, 2)
f(X, 1)
### an iterator over a list that grew before the break
l = [1, 2, 3]
def f(x, n):
    l.extend([n * i for i in range(3)])
    return x + len([v for v in l if v != 2]) % 3
---
f(X, 1)
f(X, 2)
f(X, 1)
### the class of what lies on the stack
it, keys = iter([1]), {}.keys()
def f(x, v):
    return x + 1, str(type(v)), type(v) is int, isinstance(v, (str, type(keys)))
---
f(X, 3)
f(X, keys)
f(X, 3)
f(X, it)
f(X, 3)
f(X, {}.keys())
### keys of a pattern
class K:
    a, b = "a", "b"
def f(x, d):
    match d:
        case {K.a: v, K.b: w}:
            return x + v - w
        case {"c": v, **rest}:
            return x + v * len(rest)
    return x
---
f(X, {"a": 1, "b": 2})
f(X, {"c": 1, "d": 2})
f(X, {"a": 3, "b": 2})
""")

LAST = 400  # no program is as long


@pytest.mark.parametrize("name", PROGRAMS)
def test_break_before_each_instruction(name: str) -> None:
    text, steps = PROGRAMS[name]
    if "n" in text.partition("def f(x, ")[2][:1] and os.environ.get("MAGNETO_ALL_DYNAMIC") == "1":
        pytest.skip("one entry serves all ints: there is no capture to be stopped at later calls")
    for number in range(1, LAST):
        breaks: list[str] = []

        def compiled(function: object, breaks: list[str] = breaks) -> _core.Compiled:
            made = _core.Compiled(function, None, lambda name, *_: breaks.append(name), None, 64)
            made.breaks = True
            return made

        faults = iter((0, number) * len(steps))
        try:
            harness.run(
                text,
                [*steps, *steps],
                compile=compiled,
                before=lambda faults=faults: _core.inject_fault(next(faults)),
            )
        except harness.Difference as error:
            raise AssertionError(f"break before instruction {number}: {error}") from None
        finally:
            _core.inject_fault(0)
        if "FAULT" not in breaks:  # all captures are shorter
            break
    assert 20 < number < LAST - 1, f"{number} instructions"


def test_a_helper_with_a_break_has_entries_for_each_of_a_few_strings() -> None:
    def scatter(x: torch.Tensor, i: torch.Tensor, reduce: str) -> torch.Tensor:
        n = int(i.max()) + 1
        if reduce == "sum":
            return x.new_zeros(n, 3).index_add(0, i, x)
        if reduce == "mean":
            return x.new_zeros(n, 3).index_add(0, i, x) / 2
        return x.new_zeros(n, 3).index_add(0, i, x).relu()

    def function(x: torch.Tensor, i: torch.Tensor) -> list[torch.Tensor]:
        return [scatter(x, i, reduce) for reduce in ("sum", "mean", "max")]

    magneto.counters.clear()
    graphs: list[Any] = []

    def backend(module: Any, _inputs: Any) -> Any:
        graphs.append(module)
        return module.forward

    compiled: Any = magneto.compile(function, backend=backend)
    i, counts = torch.tensor([0, 1, 1, 0, 1]), []
    for _ in range(6):
        x = torch.randn(5, 3)
        for found, expected in zip(compiled(x, i), function(x, i), strict=True):
            assert torch.equal(found, expected)
        counts.append(len(graphs))
    assert counts[1:] == counts[1:2] * 5
    assert _core.reasons()["CHANGING"][0] not in magneto.counters["graph_break"]
