"""C code that keeps results, looks into its arguments, or calls back: nothing it depends on may be missed."""

from __future__ import annotations

import collections
import functools
from typing import Any

import pytest
import torch
from programs import harness
from programs.texts import join

import magneto

from . import programs_caches, programs_classes, programs_functions, programs_hooks

PROGRAMS = join(
    programs_caches,
    programs_classes,
    programs_functions,
    programs_hooks,
)


@pytest.mark.parametrize("name", PROGRAMS)
def test_nothing_is_missed(name: str) -> None:
    program, steps = PROGRAMS[name]
    harness.run(program, steps)


def test_an_entry_finds_its_keys_in_a_cache_again() -> None:
    """Keys that are compared by C code alone: the same call does not need another capture."""

    @functools.lru_cache(8)
    def sizes(*key: Any) -> int:
        return len(key)

    pair = collections.namedtuple("pair", "a b")  # noqa: PYI024

    def f(x: torch.Tensor) -> torch.Tensor:
        return x * sizes(x.shape, (x.device, x.dtype)) + sizes(pair(1, x.shape)) + sizes(frozenset([1, "a"]))

    compiled = magneto.compile(f, backend="eager", fullgraph=True)
    x = torch.ones(2, 3)
    assert [compiled(x).sum().item() for _ in range(3)] == [24.0] * 3
    assert len(magneto.cache_entries(compiled)) == 1
    assert magneto.cache_entries(compiled)[0].hits >= 2
