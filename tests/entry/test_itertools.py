"""Iterators of itertools that captured code leaves behind: in the middle, as in eager."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch

import magneto

MAKERS: dict[str, Callable[[Any], Any]] = {
    "chain": lambda x: itertools.chain([x, x + 1], [x + 2]),
    "chain of none": lambda x: itertools.chain(),
    "combinations": lambda x: itertools.combinations([x, x + 1, x + 2], 2),
    "combinations with replacement": lambda x: itertools.combinations_with_replacement([x, x + 1], 2),
    "compress": lambda x: itertools.compress([x, x + 1, x + 2, x + 3], [1, 0, 1, 1]),
    "count": lambda x: itertools.islice(itertools.count(2, 3), 4),
    "count of floats": lambda x: itertools.islice(itertools.count(0.5, 0.25), 4),
    "cycle": lambda x: itertools.islice(itertools.cycle([x, 2, x + 3]), 8),
    "dropwhile": lambda x: itertools.dropwhile(bool, [1, 0, x, 2]),
    "filterfalse": lambda x: itertools.filterfalse(None, [1, 0, 2, 0, 0]),
    "islice": lambda x: itertools.islice([x, x + 1, x + 2, x + 3, x + 4], 1, 4, 2),
    "permutations": lambda x: itertools.permutations([x, x + 1, 3], 2),
    "product": lambda x: itertools.product([x, 1], [x + 1, 2]),
    "repeat": lambda x: itertools.repeat(x + 1, 3),
    "takewhile": lambda x: itertools.takewhile(bool, [1, 2, 0, 3]),
    "zip_longest": lambda x: itertools.zip_longest([x, x + 1], [1, 2, 3], fillvalue=x * 2),
    "zip_longest of None": lambda x: itertools.zip_longest([x], [1, 2]),
}


def plain(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.tolist()
    return [plain(item) for item in value] if isinstance(value, (list, tuple)) else value


@pytest.mark.parametrize("taken", [0, 1, 2])
@pytest.mark.parametrize("name", MAKERS)
def test_what_is_left(name: str, taken: int) -> None:
    def program(x: Any) -> Any:
        iterator = MAKERS[name](x)
        first = [next(iterator, None) for _ in range(taken)]
        return x + 1, first, iterator

    compiled = magneto.compile(program, backend="eager")
    for value in (1.0, 1.0, 5.0):
        x = torch.full((2,), value)
        found, expected = compiled(x), program(x)
        assert type(found[2]) is type(expected[2])
        assert plain([*found[:2], list(found[2])]) == plain([*expected[:2], list(expected[2])])


def test_in_one_graph() -> None:
    def program(x: Any) -> Any:
        ones, numbers = itertools.repeat(1), itertools.count(2)
        for _ in range(3):
            x = x + next(ones) + next(numbers)
        return ones, numbers, itertools.compress([x, x + 1, x + 2], [1, 0, 1]), x

    compiled = magneto.compile(program, backend="eager", fullgraph=True)
    ones, numbers, chosen, x = compiled(torch.ones(2))
    assert (next(ones), next(numbers), plain(list(chosen)), x.tolist()) == (
        1,
        5,
        [[13, 13], [15, 15]],
        [13, 13],
    )


def test_one_that_another_draws_from() -> None:
    def program(x: Any) -> Any:
        numbers = itertools.count(x.dim())
        few = itertools.islice(numbers, 3)
        next(few)
        return numbers, few, x + 1

    numbers, few, _ = magneto.compile(program, backend="eager", fullgraph=True)(torch.ones(2))
    assert [next(few), next(numbers), next(few), list(few), next(numbers)] == [2, 3, 4, [], 5]
