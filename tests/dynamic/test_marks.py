"""Marks that captured code violates: the error that torch.compile raises."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import magneto


def marked(n: int, **bounds: int) -> torch.Tensor:
    x = torch.ones(n, 3)
    torch._dynamo.mark_dynamic(x, 0, **bounds)
    return x


def to_constant(x: torch.Tensor) -> Any:
    return x * 2, [0] * x.shape[0]


def by_equality(x: torch.Tensor) -> torch.Tensor:
    return x * 2 if x.shape[0] == 4 else x


def by_weights(x: torch.Tensor) -> torch.Tensor:
    return x.t() @ torch.ones(4, 2)


def narrowed(x: torch.Tensor) -> torch.Tensor:
    return x * 2 if x.shape[0] < 8 else x


def multiple(x: torch.Tensor) -> torch.Tensor:
    return x * 2 if x.shape[0] % 2 == 0 else x


CASES: list[tuple[Callable[..., Any], dict[str, int]]] = [
    (to_constant, {}),
    (by_equality, {}),
    (by_weights, {}),
    (narrowed, {"min": 2, "max": 16}),
    (multiple, {"min": 2, "max": 16}),
    (narrowed, {"min": 5, "max": 16}),
]


@pytest.mark.no_leak_hunt("torch.compile keeps what it compiled")
@pytest.mark.parametrize("index", range(len(CASES)))
def test_violation_raises_as_torch_does(index: int) -> None:
    function, bounds = CASES[index]
    errors = []
    for compile in (torch.compile, magneto.compile):
        torch._dynamo.reset()
        with pytest.raises(Exception) as caught:
            compile(function, backend="eager")(marked(4, **bounds))
        errors.append(caught.value)
    theirs, ours = errors
    assert type(ours).__name__ == type(theirs).__name__
    text = str(theirs).splitlines()
    for line in str(ours).splitlines()[:1]:
        assert line.split("!")[0] == text[0].split("!")[0], (str(ours), str(theirs))


HOLD: list[tuple[Callable[..., Any], dict[str, int]]] = [
    (narrowed, {}),
    (multiple, {}),
    (narrowed, {"min": 2, "max": 7}),
    (lambda x: x * x.shape[0], {"min": 2, "max": 16}),
    (lambda x: x + x.flip(0), {}),
    (lambda x: torch.cat([x, x]).reshape(-1), {"min": 3}),
]


@pytest.mark.parametrize("index", range(len(HOLD)))
def test_marks_that_hold_raise_nothing(index: int) -> None:
    function, bounds = HOLD[index]
    compiled = magneto.compile(function, backend="eager")
    before = magneto.counters["stats"]["unique_graphs"]
    for n in (4, 6):
        assert torch.equal(compiled(marked(n, **bounds)), function(marked(n, **bounds)))
    assert magneto.counters["stats"]["unique_graphs"] - before == 1


@pytest.mark.no_leak_hunt("torch.compile keeps what it compiled")
def test_a_size_outside_of_its_bounds() -> None:
    errors = []
    for compile in (torch.compile, magneto.compile):
        torch._dynamo.reset()
        with pytest.raises(Exception) as caught:
            compile(narrowed, backend="eager")(marked(20, min=2, max=16))
        errors.append(caught.value)
    assert type(errors[1]).__name__ == type(errors[0]).__name__
