"""Runs a program while memory runs out, and looks at all that can be seen.

A trial runs the steps of a program (see programs/harness.py) with some of the core's allocations refused, by
`_core.starve`. Each step has to end as in eager, or in a MemoryError: then what is outside of the call must be as it
was before, or as it is after the call, and the step is made again, with memory, and has to be right. A program that
is captured in parts may also end between them.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from breaks import test_everywhere, test_programs
from programs import harness

from magneto import _core

from . import programs

PROGRAMS: dict[str, tuple[str, tuple[str, ...]]] = {
    **test_everywhere.PROGRAMS,
    **{f"breaks: {name}": program for name, program in test_programs.PROGRAMS.items()},
    **programs.PROGRAMS,
}
for _name in (
    "breaks: eval",  # CPython's compiler crashes without memory
    "breaks: exec",
    "breaks: a weak reference to a tensor that is not read any more",  # they look at when memory is given back
    "breaks: the address of a tensor that is not read any more",
    "library: deterministic warn only",  # a step that raises leaves a setting of torch's as it is
    "library: numpy misc",  # n + 1 is one object in all calls of an entry
):
    PROGRAMS.pop(_name, None)

# An allocation that no program gets to.
NEVER = 1 << 40


class Wrong(AssertionError):
    """What happened is neither what eager does nor a clean MemoryError."""


@dataclass
class End:
    """How one run of a program ended."""

    made: int = 0
    """The allocations that the core made."""
    failed: int = 0
    """The number of the first that was refused, 0 if none was."""
    place: tuple[int, ...] = ()
    raised: bool = False
    """Whether a step ended in a MemoryError."""
    leaks: bool = False
    """Whether CPython itself leaks where one was refused: see `leaks_at` in starve.c."""


class Trial:
    """A program, and what eager makes of it."""

    def __init__(self, name: str) -> None:
        self.text, steps = PROGRAMS[name]
        self.steps = [*steps, *steps[-1:]]
        side = harness.Side(self.text, None)
        self.expected: list[tuple[Any, ...]] = []
        self.outside = [side.outside()]
        for step in self.steps:
            self.expected.append(side.step(step))
            self.outside.append(side.outside())
        self.stops = 0
        self.places: set[tuple[int, ...]] = set()
        """Where allocations were refused in the runs of the last call of `growth`."""

    def compile(self, function: Any) -> _core.Compiled:
        def stopped(*_: Any) -> None:
            self.stops += 1

        made = _core.Compiled(function, None, stopped, None, 64)
        made.breaks = True
        return made

    def run(self, first: int, last: int = 0) -> End:
        """Run all steps; the `first` allocation is refused, or those up to `last`, but in one step only; with -1 the
        first one at a place where none was refused before."""
        end = End()
        side = harness.Side(self.text, self.compile)
        self.stops = 0

        @contextlib.contextmanager
        def around() -> Iterator[None]:
            if first < 0 and end.failed:
                yield
                return
            shift = 0 if first < 0 else end.made
            _core.starve(
                first - shift if first < 0 or first > shift else 1,
                max(last - shift, 0) or NEVER if last else 0,
            )
            try:
                yield
            finally:
                made, failed, place, leaks = _core.starve()
                end.leaks |= leaks
                if failed and not end.failed:
                    end.failed, end.place = end.made + failed, place
                end.made += made

        side.around = around if first else contextlib.nullcontext
        for number, step in enumerate(self.steps):
            if end.failed and side.around is around:
                side.around = contextlib.nullcontext
            found = side.step(step)
            exception = dict(found)["exception"]
            if (
                end.failed
                and exception is not None
                and exception[0] == "MemoryError"
                and found != self.expected[number]
            ):
                end.raised = True
                side.around = contextlib.nullcontext
                side.results.pop()
                outside = side.outside()
                if outside == self.outside[number]:
                    found = side.step(step)
                elif self.globals_only(outside) == self.globals_only(self.outside[number + 1]):
                    break
                elif self.stops:
                    self.go_on(side, number)
                    break
                else:
                    raise Wrong(self.difference(number, "outside", self.outside[number + 1], outside))
            for (name, a), (_, b) in zip(self.expected[number], found, strict=False):
                if a != b:
                    if end.failed and (self.is_handled(end.place) or self.is_own(end)):
                        self.settled()
                        return end
                    raise Wrong(self.difference(number, name, a, b))
        self.settled()
        return end

    @staticmethod
    def globals_only(outside: tuple[Any, ...]) -> Any:
        return outside[0], outside[2]

    def go_on(self, side: harness.Side, number: int) -> None:
        """The steps that are left: what they give is not known, but they must not crash."""
        for step in self.steps[number:]:
            side.step(step)

    def difference(self, number: int, name: str, a: Any, b: Any) -> str:
        a, b = harness._first_difference(a, b)
        return f"step {number} ({self.steps[number]}), {name}:\n  eager    {a}\n  captured {b}"

    def settled(self) -> None:
        """The core has given back what it took of the process."""
        if torch._C._len_torch_function_stack():
            while torch._C._len_torch_function_stack():
                torch._C._pop_torch_function_stack()
            raise Wrong("a mode of torch's is still there")
        if _core.capturing():
            raise Wrong("a capture is under way")
        if _core.hook_state()["users"]:
            raise Wrong("the hook is in use")
        if not gc.isenabled():
            raise Wrong("garbage collection is off")

    def blocks(self) -> int:
        harness.linecache.cache.clear()
        gc.collect()
        return sys.getallocatedblocks()

    def growth(self, first: int, last: int = 0) -> int:
        """The least that stays behind in one run: 0 if there is a run that leaves nothing, or CPython is to blame."""
        least = 0
        self.places.clear()
        for turns in (4, 12, 40):
            figures = [self.blocks()]
            for _ in range(turns):
                end = self.run(first, last)
                if end.leaks:
                    return 0
                self.places.add(end.place)
                figures.append(self.blocks())
            least = min(b - a for a, b in zip(figures[1:], figures[2:], strict=False))
            if least <= 0:
                return 0
        return least

    @functools.cached_property
    def leaky(self) -> bool:
        """Whether the program leaves something behind each time also with memory."""
        return self.growth(0) > 0

    def is_handled(self, place: tuple[int, ...]) -> bool:
        """Whether the program may have handled the error itself, at an instruction that was executed for real."""
        return "except" in self.text and bool(
            {"mg_interp_resume", "mg_interp_watch"} & set(where(place).split())
        )

    def is_own(self, end: End) -> bool:
        """Whether the program itself asked, at an instruction that was executed for real: what C functions of CPython's
        leave behind there is the same in eager. It sees the error, unless it was in the repr of a container."""
        functions = [text.split()[0] for text in where(end.place).split(" < ") if text]
        functions = functions[functions[:1] == ["mg_ops_call"] :][:2]
        return (
            functions[:1] == ["run"]
            and functions[1:] in (["mg_interp_resume"], ["mg_interp_watch"])
            and (end.raised or "print(" in self.text)
        )


def where(place: tuple[int, ...]) -> str:
    """Function and line of each address of the core."""
    file = _core.__file__
    addresses = [hex(address - 1) for address in place if address]
    if not addresses:
        return ""
    out = subprocess.run(
        ["addr2line", "-spfe", file, *addresses], capture_output=True, text=True, check=False
    ).stdout
    return " < ".join(line.strip().replace(" at ", " ") for line in out.splitlines())
