"""Aborting leaves nothing behind: a capture that stops before any of its instructions has changed nothing outside."""

from __future__ import annotations

import sys

import pytest
from entry import test_effects
from programs import harness, test_language

from magneto import _core

# Programs that write to outside objects of every kind, and some that make a lot of objects of their own.
PROGRAMS = {
    **dict(list(test_effects.PROGRAMS.items())[:40]),
    **dict(list(test_language.PROGRAMS.items())[::9]),
}
LAST = 150  # instructions; the later ones of a long program are like the earlier ones


def faults(text: str, steps: tuple[str, ...]) -> int:
    """Run a program once for each instruction of its captures, stopping there. How many stops there were."""
    stops = 0
    for number in range(1, LAST, 1 if len(text) < 400 else 3):
        failed: list[str] = []

        def compile(function: object, failed: list[str] = failed) -> _core.Compiled:
            return _core.Compiled(function, None, lambda name, *rest: failed.append(name), None, 64)

        _core.inject_fault(number)
        try:
            harness.run(text, steps, compile=compile)
        finally:
            _core.inject_fault(0)
        if "FAULT" not in failed:
            break
        stops += 1
    return stops


@pytest.mark.parametrize("name", PROGRAMS)
def test_stopping_anywhere_leaves_everything_as_it_was(name: str) -> None:
    text, steps = PROGRAMS[name]
    assert faults(text, tuple(steps)[:3]) > 0


def test_a_capture_that_stops_in_an_exception_handler_leaves_it() -> None:
    def program(x: int) -> object:
        try:
            raise ValueError(x)
        except ValueError:
            print(end="")  # stops the capture
            return sys.exc_info()[0]

    compiled = _core.Compiled(program, None, lambda *rest: None)
    for breaks in (0, 1):
        compiled.breaks = breaks
        compiled.reset()
        assert compiled(1) is ValueError
        assert sys.exc_info() == (None, None, None)
        with pytest.raises(RuntimeError, match="No active exception"):
            raise
