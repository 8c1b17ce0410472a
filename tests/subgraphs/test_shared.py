"""Equal graphs with subgraphs are compiled once; those whose subgraphs differ are not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

import magneto


class Counting:
    """A backend that says of itself that equal graphs are one to it."""

    magneto_shares = True

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, module: Any, inputs: Any) -> Any:
        self.count += 1
        return module


def _make(up: Callable[..., Any], down: Callable[..., Any]) -> Callable[..., Any]:
    def f(x: torch.Tensor) -> Any:
        y = x * 2
        return torch.cond(x.sum() > 0, lambda x: up(x) + y, lambda x: down(x), (x,))

    return f


def test_equal_subgraphs_are_compiled_once() -> None:
    backend = Counting()
    x = torch.ones(3)
    for _ in range(3):
        function = _make(lambda x: x.sin(), lambda x: x.cos())
        torch.testing.assert_close(magneto.compile(function, backend=backend, fullgraph=True)(x), function(x))
    assert backend.count == 1


def test_subgraphs_that_differ_are_others() -> None:
    backend = Counting()
    x = torch.ones(3)
    programs = [
        _make(lambda x: x.sin(), lambda x: x.cos()),
        _make(lambda x: x.cos(), lambda x: x.sin()),
        _make(lambda x: x.sin() + 1, lambda x: x.cos()),
        _make(lambda x: x.sin() + 2, lambda x: x.cos()),
        _make(lambda x: x * 2 - x, lambda x: x.cos()),
        _make(lambda x: x - x * 2, lambda x: x.cos()),
    ]
    for function in programs:
        torch.testing.assert_close(magneto.compile(function, backend=backend, fullgraph=True)(x), function(x))
        torch.testing.assert_close(
            magneto.compile(function, backend=backend, fullgraph=True)(-x), function(-x)
        )
    assert backend.count == len(programs)
