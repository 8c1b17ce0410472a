"""`magneto.profile`: which entries were used, and where the time went."""

from __future__ import annotations

import time

import pytest
import torch
from torch import nn

import magneto


def test_hits_and_tries_are_counted_for_each_entry() -> None:
    compiled = magneto.compile(lambda x, n: x + n, backend="eager", dynamic=False)
    x = torch.ones(2)
    compiled(x, 1)
    compiled(x, 2)
    with magneto.profile(compiled) as figures:
        for _ in range(5):
            compiled(x, 1)
        for _ in range(3):
            compiled(x, 2)
        compiled(x, 3)
    assert sorted(entry.hits for entry in figures.entries) == [1, 3, 5]
    assert all(entry.tries >= entry.hits for entry in figures.entries)
    assert all(entry.guard_time >= 0 and entry.graph_time >= 0 for entry in figures.entries)
    assert all(entry.operations == 1 for entry in figures.entries)


def test_time_is_charged_to_what_takes_it() -> None:
    def backend(module: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> object:
        def run(*args: torch.Tensor) -> object:
            time.sleep(0.02)
            return module.forward(*args)

        return run

    compiled = magneto.compile(lambda x: x + 1, backend=backend)
    compiled(torch.ones(2))
    with magneto.profile(compiled) as figures:
        compiled(torch.ones(2))
    (entry,) = figures.entries
    assert entry.graph_time >= 0.02  # it slept there for that long, however busy the machine is


def test_nothing_is_timed_outside() -> None:
    compiled = magneto.compile(lambda x: x + 1, backend="eager")
    compiled(torch.ones(2))
    with magneto.profile(compiled) as figures:
        compiled(torch.ones(2))
    compiled(torch.ones(2))
    assert figures.entries[0].hits == 1
    assert figures.entries[0].entry.profile()["runs"] == 1
    with magneto.profile(compiled) as second:
        compiled(torch.ones(2))
        compiled(torch.ones(2))
    assert second.entries[0].hits == 2


def test_modules_and_text() -> None:
    compiled = magneto.compile(nn.Sequential(nn.Linear(3, 3), nn.ReLU()), backend="eager")
    x = torch.ones(2, 3)
    compiled(x)
    with magneto.profile(compiled) as figures:
        compiled(x)
    assert figures.entries[0].guard_figures["tensors"] == 2
    lines = str(figures).splitlines()
    assert lines[0] == "Sequential, a call:" and lines[1].split()[:3] == ["entry", "tries", "hits"]
    assert lines[2].split()[:3] == ["0", "1", "1"]


def test_what_was_not_compiled_is_refused() -> None:
    with pytest.raises(TypeError), magneto.profile(len):
        pass
