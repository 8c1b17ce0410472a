"""Bounds of what captures do with sizes and numbers that vary."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import magneto


def count_up(x: torch.Tensor, n: int) -> torch.Tensor:
    i = 0
    while i < n:
        i += 1
    return x * i


def count_until_equal(x: torch.Tensor, n: int) -> torch.Tensor:
    i = 0
    while i != n:
        i += 1
    return x * i


def search(x: torch.Tensor, n: int) -> torch.Tensor:
    steps = 0
    while n * n + steps * 7 < 100 * n:
        steps += 1
    return x * steps


@pytest.mark.parametrize("f", [count_up, count_until_equal])
def test_a_loop_that_compares_a_number_has_the_guards_of_its_last_turn(f: Any) -> None:
    compiled = magneto.compile(f, backend="eager")
    x = torch.ones(2)
    for n in (1300, 1301, 1302, 1301, 3):
        assert torch.equal(compiled(x, n), f(x, n))
    assert compiled.captures == 4


def test_bounds_on_one_expression_are_merged() -> None:
    compiled = magneto.compile(search, backend="eager")
    x = torch.ones(2)
    for n in (10, 20, 30, 20, 31):
        assert torch.equal(compiled(x, n), search(x, n))


def test_values_that_a_number_does_not_have_stay_guarded() -> None:
    def f(x: torch.Tensor, n: int) -> torch.Tensor:
        if n > 3 and n != 5 and n != 7 and n < 10 and n != 20:
            return x + 1
        return x - 1

    compiled = magneto.compile(f, backend="eager")
    x = torch.ones(2)
    for n in (4, 6, 5, 7, 8, 9, 10, 20, 3, 2):
        assert torch.equal(compiled(x, n), f(x, n)), n


def test_more_guards_than_an_entry_can_have_make_it_static() -> None:
    def f(x: torch.Tensor, n: int) -> torch.Tensor:
        count = 0
        for i in range(2, 1400):
            if n % i == 0:
                count += 1
        return x * count

    compiled = magneto.compile(f, backend="eager")
    x = torch.ones(2)
    for n in (1260, 1261, 1262, 1261):
        assert torch.equal(compiled(x, n), f(x, n))
    assert compiled.captures == 3
