"""Functions and modules that torch.jit has compiled, called by captured code."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch

import magneto

pytestmark = pytest.mark.no_leak_hunt("torch.jit keeps what it has compiled")

with warnings.catch_warnings():
    warnings.simplefilter("ignore")

    def helper(x: torch.Tensor) -> torch.Tensor:
        return x * 3

    @torch.jit.script
    def plain(x):
        return helper(x) + 1

    @torch.jit.script
    def raising(x):
        if x.size(0) > 1:
            raise RuntimeError("too many")
        return x

    @torch.jit.script
    def appending(x, items: list[int]):
        items.append(5)
        return x + len(items)

    @torch.jit.script
    def halves(x, n: float):
        return x * n, n / 2

    @torch.jit.script
    def asking(x):
        if torch.jit.is_scripting():
            return x + 100
        return x

    @torch.jit.script
    def branching(x):
        if bool(x.sum() > 0):
            return x + 1
        return x - 1

    @torch.jit.script
    def shape_of(x):
        return x.shape

    @torch.jit.script
    def optional(x, y: torch.Tensor | None = None, n: int = 2):
        if y is not None:
            x = x + y
        return x * n

    @torch.jit.script
    def dividing(x, n: int):
        return x / (1 // n)

    @torch.jit.script
    def in_place(x):
        x.add_(1)
        return x

    @torch.jit.script
    def indexing(x, i):
        return x[i]

    def branch(x):
        return x + 1 if x.sum() > 0 else x - 1

    traced = torch.jit.trace(branch, torch.ones(2), check_trace=False)

    class Doubling(torch.nn.Module):
        """Doubles what has more than one element."""

        def forward(self, x):
            return x * 2 if x.size(0) > 1 else x

    scripted_module = torch.jit.script(Doubling())
    traced_module = torch.jit.trace(Doubling(), torch.ones(2))


def attempt(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    try:
        return function(*args, **kwargs)
    except Exception as error:
        return type(error).__name__


def lists(x):
    items = [1, 2]
    return appending(x, items), items


def same(x):
    y = in_place(x)
    return y is x, y


PROGRAMS: list[Callable[[torch.Tensor], Any]] = [
    lambda x: (x + 1, attempt(raising, x), attempt(raising, x[:1])),
    lists,
    lambda x: (attempt(halves, x, 2), halves(x, 2.0), halves(x, n=1.5), attempt(halves, x, True)),
    lambda x: asking(x),
    lambda x: (branching(x), branching(-x)),
    lambda x: (shape_of(x), type(shape_of(x))),
    lambda x: (optional(x), optional(x, x), optional(x, None, 3), optional(x, n=4), optional(x, y=x)),
    lambda x: attempt(dividing, x, 0),
    same,
    lambda x: (x * 2, attempt(indexing, x, torch.tensor([5])), indexing(x, torch.tensor([0]))),
    lambda x: (traced(x), traced(-x)),
    lambda x: (scripted_module(x), traced_module(x), scripted_module(x[:1])),
    lambda x: (plain.name, type(plain).__name__, str(plain.schema)),
    lambda x: (attempt(plain), attempt(plain, x, 1), attempt(plain, 3), attempt(plain, y=x)),
    lambda x: (functools.partial(optional, n=3)(x), list(map(plain, [x, x]))),
]


@pytest.mark.parametrize("number", range(len(PROGRAMS)))
def test_scripts_do_what_they_do_in_eager(number: int) -> None:
    def results(function: Callable[[torch.Tensor], Any]) -> list[Any]:
        found = []
        for _ in range(3):
            x = torch.ones(2)
            found.append((repr(function(x)), x.tolist()))
        return found

    assert results(magneto.compile(PROGRAMS[number], backend="eager")) == results(PROGRAMS[number])


@pytest.mark.parametrize("program", [plain, lambda x: optional(x, x, n=3), in_place])
def test_scripts_of_tensors_and_numbers_are_captured(program: Callable[[torch.Tensor], Any]) -> None:
    compiled = magneto.compile(lambda x: program(x) + 1, backend="eager", fullgraph=True)
    for _ in range(2):
        assert compiled(torch.ones(2)).tolist() == (program(torch.ones(2)) + 1).tolist()
