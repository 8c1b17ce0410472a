"""vmap: what it refuses, what draws random numbers, what stops within it; no level outlives anything."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import magneto
from magneto import _core

pytestmark = pytest.mark.filterwarnings("ignore")

seen: list[int] = []


def _effect(row: torch.Tensor) -> torch.Tensor:
    seen.append(1)
    return row * 2


def _write(row: torch.Tensor) -> torch.Tensor:
    row.add_(1)
    return row * 2


def _same(row: torch.Tensor) -> torch.Tensor:
    return row


def _view(row: torch.Tensor) -> torch.Tensor:
    return row[1:]


def _number(row: torch.Tensor) -> Any:
    return 3


def _random(row: torch.Tensor) -> torch.Tensor:
    return row + torch.rand(3)


def _branch(row: torch.Tensor) -> torch.Tensor:
    return row * 2 if bool(row.sum() > 0) else row


def _raise(row: torch.Tensor) -> torch.Tensor:
    raise KeyError("row")


def _inner_grad(row: torch.Tensor) -> torch.Tensor:
    return torch.func.grad(lambda r: (r * r).sum())(row)


FUNCTIONS = [_effect, _write, _same, _view, _number, _random, _branch, _raise, _inner_grad]


def _outcome(function: Callable[..., Any]) -> Any:
    seen.clear()
    x = torch.arange(12.0).reshape(4, 3)
    try:
        result = function(x)
    except Exception as error:
        result = type(error).__name__
    assert torch._C._functorch.peek_interpreter_stack() is None
    return result, x, list(seen)


@pytest.mark.parametrize("row", FUNCTIONS)
def test_as_eager(row: Callable[..., Any]) -> None:
    def f(x: torch.Tensor) -> Any:
        y = x * 1
        return torch.vmap(row)(y) + 1, y

    expected = _outcome(f)
    for backend in ("eager", "aot_eager"):
        compiled = magneto.compile(f, backend=backend)
        for _ in range(2):
            assert str(_outcome(compiled)) == str(expected)


@pytest.mark.parametrize("randomness", ["same", "different"])
def test_random_numbers(randomness: str) -> None:
    def f(x: torch.Tensor) -> Any:
        return torch.vmap(_random, randomness=randomness)(x)

    compiled = magneto.compile(f, backend="eager", fullgraph=True)
    for seed in range(3):
        found = []
        for function in (compiled, f):
            torch.manual_seed(seed)
            found.append((function(torch.zeros(4, 3)), torch.rand(())))
        torch.testing.assert_close(found[0], found[1])


def test_the_sizes_that_code_sees() -> None:
    def row(r: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
        return r.sum() * r.dim() + k.shape[0] * r.numel() + r.stride(0)

    def f(x: torch.Tensor) -> Any:
        return torch.vmap(row, in_dims=(1, None))(x, x)

    compiled = magneto.compile(f, backend="eager", fullgraph=True)
    x = torch.rand(5, 3)
    torch.testing.assert_close(compiled(x), f(x))


def test_faults_at_every_instruction() -> None:
    def f(x: torch.Tensor) -> Any:
        return torch.vmap(lambda a: torch.vmap(lambda b: (a * b).sum())(x))(x) + 1

    expected = f(torch.ones(2, 3))
    try:
        for step in range(1, 300, 11):
            _core.inject_fault(step)
            torch.testing.assert_close(magneto.compile(f, backend="eager")(torch.ones(2, 3)), expected)
            assert torch._C._functorch.peek_interpreter_stack() is None
    finally:
        _core.inject_fault(0)
