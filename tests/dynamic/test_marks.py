"""Marks that captured code violates: the error that torch.compile raises."""

from __future__ import annotations

import re
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
@pytest.mark.no_leak_hunt("torch.compile keeps what it compiled")
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


def errors_of(
    function: Callable[..., Any], make: Callable[[], torch.Tensor], backend: Any = "eager"
) -> list[Any]:
    """What torch.compile and magneto raise for a call; None for nothing."""
    found: list[Any] = []
    for compile in (torch.compile, magneto.compile):
        torch._dynamo.reset()
        try:
            compile(function, backend=backend)(make())
            found.append(None)
        except Exception as error:
            found.append(error)
    return found


@pytest.mark.parametrize("function", [to_constant, by_equality, by_weights])
@pytest.mark.no_leak_hunt("torch.compile keeps what it compiled")
def test_violation_has_torchs_text_and_the_line(function: Callable[..., Any]) -> None:
    theirs, ours = errors_of(function, lambda: marked(4))
    first, second = (
        re.sub(r" *\^+\n", "", str(error)) for error in (theirs, ours)
    )  # the marks below the line
    assert second == first
    assert "User stack" in str(ours) and function.__name__ in str(ours)


def takes_the_size(module: Any, inputs: list[Any]) -> Any:
    for value in inputs:
        if isinstance(value, torch.SymInt):
            int(value)
    return module.forward


def compares_the_size(module: Any, inputs: list[Any]) -> Any:
    for value in inputs:
        if isinstance(value, torch.SymInt):
            assert value > 3
    return module.forward


def branched(x: torch.Tensor) -> torch.Tensor:
    return x * 2 if x.shape[0] < 9 else x


def doubled(x: torch.Tensor) -> torch.Tensor:
    return x * 2


BY_BACKEND: list[tuple[Any, dict[str, int]]] = [
    (takes_the_size, {}),
    (compares_the_size, {}),
    (compares_the_size, {"min": 2, "max": 16}),
    (compares_the_size, {"min": 4, "max": 16}),
]


@pytest.mark.parametrize("index", range(len(BY_BACKEND)))
@pytest.mark.no_leak_hunt("torch.compile keeps what it compiled")
def test_violation_by_a_backend_raises_as_torch_does(index: int) -> None:
    backend, bounds = BY_BACKEND[index]
    theirs, ours = errors_of(doubled, lambda: marked(4, **bounds), backend)
    assert type(ours) is type(theirs)
    assert str(ours) == str(theirs)


@pytest.mark.no_leak_hunt("torch.compile keeps what it compiled")
def test_backend_may_take_a_size_if_marks_may_be_ignored() -> None:
    with torch._dynamo.config.patch(allow_ignore_mark_dynamic=True):
        assert errors_of(doubled, lambda: marked(4), takes_the_size) == [None, None]


def unbacked(n: int, **arguments: Any) -> torch.Tensor:
    x = torch.ones(n, 3)
    torch._dynamo.decorators.mark_unbacked(x, 0, **arguments)
    return x


@pytest.mark.parametrize("function", [to_constant, by_weights])
@pytest.mark.no_leak_hunt("torch.compile keeps what it compiled")
def test_strict_unbacked_size_that_becomes_a_constant(function: Callable[..., Any]) -> None:
    theirs, ours = errors_of(function, lambda: unbacked(4, strict=True))
    assert type(ours) is type(theirs)
    assert str(ours) == str(theirs)


@pytest.mark.parametrize("function", [to_constant, by_weights, branched, doubled])
@pytest.mark.no_leak_hunt("torch.compile keeps what it compiled")
def test_unbacked_size_may_become_a_constant(function: Callable[..., Any]) -> None:
    assert errors_of(function, lambda: unbacked(4)) == [None, None]


@pytest.mark.no_leak_hunt("torch.compile keeps what it compiled")
def test_hint_for_backends() -> None:
    hints: list[Any] = []

    def backend(module: Any, inputs: list[Any]) -> Any:
        hints.append(
            {str(key): value for key, value in inputs[0].node.shape_env.var_to_hint_override.items()}
        )
        return module.forward

    def make() -> torch.Tensor:
        x = torch.ones(4, 3)
        torch._dynamo.mark_dynamic(x, 0, hint_override=100)
        return x

    assert errors_of(doubled, make, backend) == [None, None]
    assert hints == [{"s77": 100}, {"s77": 100}]


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
@pytest.mark.no_leak_hunt("torch.compile keeps what it compiled")
def test_a_size_outside_of_its_bounds() -> None:
    errors = []
    for compile in (torch.compile, magneto.compile):
        torch._dynamo.reset()
        with pytest.raises(Exception) as caught:
            compile(narrowed, backend="eager")(marked(20, min=2, max=16))
        errors.append(caught.value)
    assert type(errors[1]).__name__ == type(errors[0]).__name__
