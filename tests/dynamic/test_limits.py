"""Bounds of what captures do with sizes and numbers that vary."""

from __future__ import annotations

import torch

import magneto


def test_more_guards_than_an_entry_can_have_are_no_error() -> None:
    def f(x: torch.Tensor, n: int) -> torch.Tensor:
        i = 0
        while i < n:
            i += 1
        return x * i

    compiled = magneto.compile(f, backend="eager")
    x = torch.ones(2)
    for n in (1300, 1301, 1302):
        assert torch.equal(compiled(x, n), f(x, n))
