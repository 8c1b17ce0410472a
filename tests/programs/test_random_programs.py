"""Random programs, run differentially with changes of the outside between the calls.

MAGNETO_RANDOM_PROGRAMS says how many, MAGNETO_RANDOM_SEED where to start; a failing seed is a program that
`KINDS[seed % len(KINDS)].write(seed)` gives again.
"""

from __future__ import annotations

import os

import pytest

from . import harness, random_keys, random_mix, random_objects, random_programs

COUNT = int(os.environ.get("MAGNETO_RANDOM_PROGRAMS", "300"))
FIRST = int(os.environ.get("MAGNETO_RANDOM_SEED", "0"))
BATCH = 25
KINDS = (random_programs, random_objects, random_keys, random_mix)


@pytest.mark.parametrize("first", range(FIRST, FIRST + COUNT, BATCH))
def test_random_programs(first: int) -> None:
    captured = 0
    for seed in range(first, min(first + BATCH, FIRST + COUNT)):
        program, steps = KINDS[seed % len(KINDS)].write(seed)
        try:
            captured += harness.run(program, steps, limit=8).captured
        except harness.Difference as error:
            raise AssertionError(f"seed {seed}: {error}") from None
    assert captured > BATCH // 3, f"only {captured} of {BATCH} were captured"
