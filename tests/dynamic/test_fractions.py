"""Floats that are a number divided by a constant, rounded and compared with ints: as Python does it with doubles."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest
import torch

import magneto

FUNCTIONS: list[Any] = [
    lambda k: (math.floor(k / 3), math.ceil(k / 3), int(k / 3), math.trunc(k / 3)),
    lambda k: (math.floor(k / 7), math.ceil(k / 1000003), int(k / 2)),
    lambda k: (int(k * 0.75), math.floor(0.5 * k), math.ceil(k * -1.25), int(k * 3.0)),
    lambda k: (int(k * 0.1), math.floor(k * 1e-9), math.ceil(k * 1e30)),
    lambda k: (round(k / 3), round(k / 8), round(k * 0.5)),
    lambda k: (k / 3 > 2.5, k / 3 == 4, k / 7 <= 1.0, 2.25 < k / 4, k / 2 != 1.5),
    lambda k: (k * 0.5 >= 1.25, float(k) < 4.5, int(float(k)), round(float(k)), bool(k / 3)),
    lambda k: (k / 3 > k, k / 3 < k // 3 + 1, (k // 5) / 2 >= k),
    lambda k: (k / 0x10000000 > 0.1, k / 3 == 0.3333333333333333, k / 10 < 0.1),
]


@pytest.mark.parametrize("index", range(len(FUNCTIONS)))
def test_as_with_doubles(index: int) -> None:
    chance = random.Random(index)
    function = FUNCTIONS[index]
    compiled = magneto.compile(lambda x, k: (x * 2, function(k)), backend="eager")
    values = [*range(-12, 13), *(chance.randint(-1000, 1000) for _ in range(20))]
    for bits in (31, 40, 50, 51, 52, 53, 54, 60, 62):
        values += [sign * ((1 << bits) + chance.randint(-3, 3)) for sign in (1, -1)]
    chance.shuffle(values)
    for k in values:
        assert compiled(torch.ones(2), k)[1] == function(k), k


def test_one_entry_for_all_sizes() -> None:
    compiled = magneto.compile(
        lambda x: x[: int(x.shape[0] * 0.5)] * math.ceil(x.shape[0] / 3), backend="eager"
    )
    before = magneto.counters["stats"]["unique_graphs"]
    for n in range(4, 20):
        compiled(torch.ones(n, 2))
    assert magneto.counters["stats"]["unique_graphs"] - before == 2
