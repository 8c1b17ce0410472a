"""Programs of tests/programs, entry, guard and record with a break before their k-th instruction, and then before
every k-th that follows.

Where no capture of a program is that long, k is halved until one is: each test has a break.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from entry import test_effects, test_identity
from guard import test_guards
from programs import harness, test_language, test_library, test_module_programs
from record import test_recording, test_symbols

import magneto
from magneto import _core

PROGRAMS = {
    f"{group}: {name}": (prelude + text, steps)
    for group, programs, prelude in (
        ("language", test_language.PROGRAMS, ""),
        ("effects", test_effects.PROGRAMS, ""),
        ("identity", test_identity.PROGRAMS, ""),
        ("guards", test_guards.PROGRAMS, ""),
        ("library", test_library.PROGRAMS, ""),
        ("modules", test_module_programs.PROGRAMS, ""),
        ("symbols", test_symbols.PROGRAMS, test_symbols.DATA),
    )
    for name, (text, steps) in programs.items()
}
# A string that lies over a break may be another equal one behind it: see docs/limits.md.
del PROGRAMS["identity: strings in a dict that are one object or two"]

# The first instructions, where frames are small, and a few further in, in callees, loops and handlers.
STEPS = (1, 2, 3, 5, 16, 37)

# `make stress` takes all up to a number.
ALL = int(os.environ.get("MAGNETO_BREAK_STEPS", "0"))


def picks(names: Any, every: int) -> list[tuple[str, int]]:
    """Which programs are run with which k: for each program every so many of STEPS, others for the next one."""
    if ALL:
        return [(name, step) for name in names for step in range(1, ALL + 1)]
    return [
        (name, step)
        for number, name in enumerate(names)
        for index, step in enumerate(STEPS)
        if (number + index) % every == 0
    ]


@pytest.fixture(autouse=True)
def no_break_afterwards() -> Iterator[None]:
    yield
    _core.inject_fault(0)


FAULT = _core.reasons()["FAULT"][0]


def core(function: Any) -> _core.Compiled:
    made = _core.Compiled(
        function, None, lambda _, text, *rest: magneto.counters["graph_break"].update([text]), None, 64
    )
    made.breaks = True
    return made


def with_graphs(function: Any) -> Any:
    return magneto.compile(function, backend=lambda module, _inputs: module.forward)


def with_breaks(run: Callable[[], None], step: int) -> None:
    """Run it with a break before every `step`-th instruction, or where there is none with more of them."""
    before = magneto.counters["graph_break"][FAULT]
    while magneto.counters["graph_break"][FAULT] == before:
        assert step > 0, "no capture was stopped"
        _core.inject_fault(step)
        run()
        step //= 2


@pytest.mark.parametrize(("name", "step"), picks(PROGRAMS, 2))
@pytest.mark.filterwarnings("ignore")
def test_break_before_every_kth_instruction(name: str, step: int) -> None:
    text, steps = PROGRAMS[name]
    with_breaks(lambda: harness.run(text, steps, compile=core), step)


# A graph does not know that a tensor which a break left outside is one of several views. Where a backend has compiled
# it, it raises when it runs, out of the call, and not to the handler: see docs/limits.md.
COMPILED = [name for name in PROGRAMS if name != "effects: one of several views changed in place"]


@pytest.mark.parametrize(("name", "step"), picks(COMPILED, 4))
@pytest.mark.filterwarnings("ignore")
def test_break_with_a_backend(name: str, step: int) -> None:
    text, steps = PROGRAMS[name]
    with_breaks(lambda: harness.run(text, steps, compile=with_graphs), step)


RECORDED = {program.__name__: program for program in test_recording.PROGRAMS}


@pytest.mark.parametrize("compile", [core, with_graphs])
@pytest.mark.parametrize(("name", "step"), picks(RECORDED, 2))
@pytest.mark.filterwarnings("ignore")
def test_break_in_recorded_programs(name: str, step: int, compile: Callable[..., Any]) -> None:
    def run(function: Callable[..., Any]) -> Any:
        torch.manual_seed(0)
        x = torch.randn(3, 4, requires_grad=True)
        walk = harness._Walk("program")
        torch.manual_seed(1)
        try:
            result = walk(function(x))
        except Exception as error:
            result = type(error), str(error)
        return result, walk(x)

    program = RECORDED[name]
    expected = run(program)

    def check() -> None:
        compiled = compile(program)
        for _ in range(3):
            assert run(compiled) == expected

    with_breaks(check, step)
