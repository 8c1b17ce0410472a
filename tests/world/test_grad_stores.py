"""Stores to `.grad` in captured code are held back, and read back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import magneto


def leaf(fill: float | None = 2.0) -> torch.Tensor:
    parameter = nn.Parameter(torch.arange(3.0))
    parameter.grad = None if fill is None else torch.full((3,), fill)
    return parameter


def clear(p: Any) -> Any:
    p.grad = None
    return p.grad is None


def delete(p: Any) -> Any:
    del p.grad
    return p.grad


def scale(p: Any) -> Any:
    old = p.grad
    p.grad = old * 3
    return p.grad is old, p.grad + 1, old


def twice(p: Any) -> Any:
    p.grad = p.grad * 3
    p.grad = p.grad + 1
    p.grad.mul_(2)
    return p.grad


def swap(p: Any) -> Any:
    old, p.grad = p.grad, torch.zeros(3)
    p.grad.add_(old)
    return old


def keep(p: Any) -> Any:
    p.grad = p.grad
    return p.grad


def detached(p: Any) -> Any:
    p.grad = p.detach() * 2
    return p * 2


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize(
    "function", [clear, delete, scale, twice, swap, keep, detached], ids=lambda f: f.__name__
)
def test_one_graph_and_eagers_gradients(function: Callable[[Any], Any], backend: str) -> None:
    compiled = magneto.compile(function, backend=backend, fullgraph=True)
    for _ in range(3):
        one, other = leaf(), leaf()
        expected, found = function(one), compiled(other)
        torch.testing.assert_close(found, expected)
        torch.testing.assert_close(other.grad, one.grad)


def test_identity() -> None:
    def f(p: Any, g: Any) -> Any:
        p.grad = g
        return p.grad

    p, g = leaf(), torch.ones(3)
    assert magneto.compile(f, backend="eager", fullgraph=True)(p, g) is g
    assert p.grad is g


@pytest.mark.parametrize(
    "value",
    [torch.ones(2), torch.ones(3, dtype=torch.float64), 3, "self"],
    ids=["size", "dtype", "number", "self"],
)
def test_what_torch_refuses_raises(value: Any) -> None:
    def f(p: Any) -> None:
        p.grad = p.grad + 1
        p.grad = p if isinstance(value, str) else value

    def error(call: Any) -> tuple[type, str, Any]:
        p = leaf()
        with pytest.raises((RuntimeError, TypeError)) as caught:
            call(p)
        return caught.type, str(caught.value), p.grad

    expected, found = error(f), error(magneto.compile(f, backend="eager"))
    assert found[:2] == expected[:2]
    assert torch.equal(found[2], expected[2])


def test_a_gradient_of_another_dtype() -> None:
    def f(p: Any, g: Any) -> None:
        p.grad = g

    p = leaf(None)
    p.grad_dtype = torch.float64
    g = torch.ones(3, dtype=torch.float64)
    magneto.compile(f, backend="eager")(p, g)
    assert p.grad is g
    with pytest.raises(RuntimeError):
        magneto.compile(f, backend="eager")(p, torch.ones(3))


def test_a_break_sees_what_was_stored() -> None:
    seen = []

    @torch.compiler.disable
    def look(p: Any) -> None:
        seen.append(p.grad)

    def f(p: Any) -> Any:
        p.grad = p.grad * 2
        look(p)
        p.grad = None
        look(p)
        p.grad = torch.ones(3)
        return p.grad * 2

    p = leaf()
    found = magneto.compile(f, backend="eager")(p)
    assert torch.equal(seen[0], torch.full((3,), 4.0))
    assert seen[1] is None
    assert torch.equal(found, torch.full((3,), 2.0))
    assert torch.equal(p.grad, torch.ones(3))


def test_a_gradient_that_is_there_or_not_is_captured_twice() -> None:
    def f(p: Any) -> Any:
        if p.grad is not None:
            p.grad = None
            return p + 1
        p.grad = torch.ones(3)
        return p + 2

    compiled = magneto.compile(f, backend="eager", fullgraph=True)
    p = leaf()
    assert torch.equal(compiled(p), p + 1)
    assert p.grad is None
    assert torch.equal(compiled(p), p + 2)
    assert torch.equal(p.grad, torch.ones(3))


def test_an_operation_that_raises_behind_a_store() -> None:
    def f(p: Any, index: Any) -> Any:
        p.grad = p.grad * 2
        try:
            return p[index]
        except IndexError:
            return p.grad + 1

    compiled = magneto.compile(f, backend="eager")
    assert torch.equal(compiled(leaf(), torch.tensor([1])), torch.tensor([1.0]))
    p = leaf()
    assert torch.equal(compiled(p, torch.tensor([9])), torch.full((3,), 5.0))
    assert torch.equal(p.grad, torch.full((3,), 4.0))


def test_many_parameters() -> None:
    model = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1))
    model(torch.ones(1, 2)).sum().backward()

    def f() -> None:
        for parameter in model.parameters():
            parameter.grad = None

    magneto.compile(f, backend="eager", fullgraph=True)()
    assert all(parameter.grad is None for parameter in model.parameters())
