"""Programs of the language with a break before their k-th instruction, and then before every k-th that follows."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from capture import harness
from capture.test_language import PROGRAMS

from magneto import _core

# The first instructions, where frames are small, and a few further in, in callees, loops and handlers.
STEPS = (1, 5, 16, 37)


def compiled(function: object) -> _core.Compiled:
    made = _core.Compiled(function, None, lambda *_: None, None, 64)
    made.breaks = True
    return made


@pytest.fixture
def break_at(request: pytest.FixtureRequest) -> Iterator[int]:
    _core.inject_fault(request.param)
    yield request.param
    _core.inject_fault(0)


@pytest.mark.parametrize("break_at", STEPS, indirect=True)
@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.filterwarnings("ignore::SyntaxWarning")
def test_break_before_every_kth_instruction(name: str, break_at: int) -> None:
    text, steps = PROGRAMS[name]
    harness.run(text, steps, compile=compiled)
