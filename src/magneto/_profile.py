"""Where the time of later calls goes: `magneto.profile`."""

from __future__ import annotations

import dataclasses
from types import TracebackType
from typing import Any

from magneto import _core, exc
from magneto._compile import find_compiled


@dataclasses.dataclass(frozen=True)
class EntryProfile:
    """One captured version of a function: how often it was used, and what that cost, in seconds."""

    name: str
    tries: int
    """How often its guards were checked."""
    hits: int
    """How often they held, and the graph was run."""
    guard_time: float
    """For checking guards, also when they did not hold."""
    graph_time: float
    """For running the graph."""
    other_time: float
    """For gathering inputs, building the result and applying effects."""
    operations: int
    guard_figures: dict[str, int]
    entry: _core.Entry


class Profile:
    """What `magneto.profile(fn)` returns: a context manager that times the calls made in it.

        with magneto.profile(compiled) as figures:
            for batch in batches:
                compiled(batch)
        print(figures)

    `entries` has the figures, one item for each captured version that was tried.
    """

    def __init__(self, function: Any) -> None:
        module = getattr(function, "_orig_mod", None)
        self._name = exc.name_of(function) if module is None else type(module).__name__
        self._function = function
        self._before: list[tuple[_core.Entry, dict[str, int]]] = []
        self.entries: list[EntryProfile] = []

    def __enter__(self) -> Profile:
        for compiled in find_compiled(self._function):
            compiled.profiling += 1
            for entry in compiled.entries():
                self._before.append((entry, entry.profile()))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.entries = []
        before = {
            id(entry): figures for entry, figures in self._before
        }  # the entries live as long as the list
        for compiled in find_compiled(self._function):
            compiled.profiling = max(0, compiled.profiling - 1)
            for entry in compiled.entries():
                self._add(entry, before.get(id(entry), {}))
        self._before.clear()

    def _add(self, entry: _core.Entry, before: dict[str, int]) -> None:
        now = entry.profile()
        spent = {key: value - before.get(key, 0) for key, value in now.items()}
        if spent["tries"] == 0:
            return
        self.entries.append(
            EntryProfile(
                name=self._name,
                tries=spent["tries"],
                hits=spent["runs"],
                guard_time=spent["guard"] * 1e-9,
                graph_time=spent["graph"] * 1e-9,
                other_time=max(0, spent["whole"] - spent["guard"] - spent["graph"]) * 1e-9,
                operations=entry.operations,
                guard_figures=entry.guard_figures(),
                entry=entry,
            )
        )

    def __str__(self) -> str:
        lines = [
            f"{'entry':>5}{'tries':>9}{'hits':>9}{'guards':>13}{'graph':>13}{'other':>13}{'operations':>12}"
        ]
        for number, entry in enumerate(self.entries):
            times = "".join(
                f"{seconds / max(1, count) * 1e6:11.2f}us"
                for seconds, count in (
                    (entry.guard_time, entry.tries),
                    (entry.graph_time, entry.hits),
                    (entry.other_time, entry.hits),
                )
            )
            lines.append(f"{number:5}{entry.tries:9}{entry.hits:9}{times}{entry.operations:12}")
        return f"{self._name}, a call:\n" + "\n".join(lines)


def profile(function: Any) -> Profile:
    """Time the calls of something that `magneto.compile` made, while the context manager that this returns is entered.

    For each captured version: how often it was tried and used, and how long its guards, its graph and the rest took.
    """
    return Profile(function)
