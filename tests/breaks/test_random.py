"""Random programs with breaks at random points.

MAGNETO_RANDOM_BREAKS says how many, MAGNETO_RANDOM_SEED where to start.
"""

from __future__ import annotations

import os
import random

import pytest
from programs import harness
from programs.test_random_programs import KINDS

from magneto import _core

COUNT = int(os.environ.get("MAGNETO_RANDOM_BREAKS", "100"))
FIRST = int(os.environ.get("MAGNETO_RANDOM_SEED", "0"))
BATCH = 25


def run(seed: int) -> int:
    """Run the program of a seed; captures break before their k-th instruction. How many breaks there were."""
    chance = random.Random(seed)
    program, steps = KINDS[seed % len(KINDS)].write(seed)
    breaks = []

    def compiled(function: object) -> _core.Compiled:
        made = _core.Compiled(function, None, lambda name, *_: breaks.append(name), None, 8)
        made.breaks = 1
        return made

    def inject() -> None:
        _core.inject_fault(
            chance.choice((0, chance.randint(1, 12), chance.randint(1, 60), chance.randint(20, 300)))
        )

    try:
        harness.run(program, steps, compile=compiled, before=inject)
    finally:
        _core.inject_fault(0)
    return breaks.count("FAULT")


@pytest.mark.parametrize("first", range(FIRST, FIRST + COUNT, BATCH))
def test_random_programs_with_breaks(first: int) -> None:
    breaks = 0
    for seed in range(first, min(first + BATCH, FIRST + COUNT)):
        try:
            breaks += run(seed)
        except harness.Difference as error:
            raise AssertionError(f"seed {seed}: {error}") from None
    assert breaks > BATCH, f"only {breaks} breaks in {BATCH} programs"
