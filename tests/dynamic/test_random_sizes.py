"""Random programs over random sequences of sizes and ints, against eager; also with breaks, and with all sizes as symbols.

MAGNETO_RANDOM_DYNAMIC says how many, MAGNETO_RANDOM_SEED where to start.
"""

from __future__ import annotations

import os
import random
from typing import Any

import pytest
from programs import harness

from magneto import _core

from . import random_sizes

COUNT = int(os.environ.get("MAGNETO_RANDOM_DYNAMIC", "60"))
FIRST = int(os.environ.get("MAGNETO_RANDOM_SEED", "0"))
BATCH = 20


def run(seed: int, breaks: bool) -> tuple[int, int]:
    """Run the program of a seed: how many captures there were, and how many hits."""
    chance = random.Random(seed)
    program, steps = random_sizes.write(seed)
    made: list[Any] = []

    def compiled(function: object) -> _core.Compiled:
        made.append(_core.Compiled(function, None, lambda *_: None, None, 16))
        made[0].breaks = True
        made[0].dynamic = 1 if seed % 4 == 3 else -1
        return made[0]

    def inject() -> None:
        _core.inject_fault(chance.choice((0, chance.randint(1, 12), chance.randint(1, 60))) if breaks else 0)

    try:
        harness.run(program, steps, compile=compiled, before=inject)
    finally:
        _core.inject_fault(0)
    return made[0].captures, sum(entry.hits for entry in made[0].entries())


@pytest.mark.parametrize("breaks", [False, True])
@pytest.mark.parametrize("first", range(FIRST, FIRST + COUNT, BATCH))
def test_random_programs_over_sizes(first: int, breaks: bool) -> None:
    captures = 0
    for seed in range(first, min(first + BATCH, FIRST + COUNT)):
        try:
            captures += run(seed, breaks)[0]
        except harness.Difference as error:
            raise AssertionError(f"seed {seed}: {error}") from None
    assert captures > BATCH
