"""What the core tells while it captures: counted, logged, and turned into errors where that was asked for."""

from __future__ import annotations

import dataclasses
import logging
import os
import sys
import traceback
from typing import Any

from magneto import _core, _logs, _stack, exc
from magneto._config import config
from magneto._counters import counters

log = logging.getLogger("magneto")

OWN_ERRORS = frozenset(("EXCEPTION", "OPERATION_FAILED"))
"""The reasons for which the program itself raises: it is run in CPython, which then does so."""

MOST_REASONS = 1000
"""How many reasons of a group are counted apart, so that a process that runs for long does not grow."""

OTHERS = "other reasons"

_OWN = os.path.dirname(__file__) + os.sep


@dataclasses.dataclass(frozen=True)
class BreakReason:
    """Where capture stopped, and why."""

    name: str
    reason: str
    detail: str | None
    hint: str
    user_stack: list[traceback.FrameSummary]
    graph_break: bool = True

    def __str__(self) -> str:
        text = self.reason + (f": {self.detail}" if self.detail else "")
        if self.user_stack:
            frame = self.user_stack[-1]
            text += f" ({frame.filename}:{frame.lineno}: {frame.line})"
        return text


class Observer:
    """The core's ear for one compiled callable."""

    def __init__(self, name: str, fullgraph: bool, function: Any = None) -> None:
        self.name = name
        self.fullgraph = fullgraph
        self.writer = _logs.Writer(function, name)
        self.recompiled = False
        self.reasons: list[BreakReason] | None = None
        self.seconds = 0.0

    def captured(self, entry: _core.Entry, seconds: float) -> None:
        """A capture succeeded."""
        frames, stats = counters["frames"], counters["stats"]
        frames["total"] += 1
        frames["ok"] += 1
        operations = entry.operations
        if operations:
            stats["calls_captured"] += operations
            stats["unique_graphs"] += 1
        self.seconds += seconds
        self.writer.captured(entry, seconds)

    def stopped(
        self, outcome: str, name: str, text: str, detail: str | None, where: _stack.Stack | None
    ) -> None:
        """A capture was aborted. The call is made in CPython ("skip"), or the graph ends there and another one begins
        ("break"), or this has to raise ("error"), as it may in any case."""
        if name == "FORBIDDEN":
            frames = _stack.format_frames(_stack.user_frames(where))
            raise AssertionError(f"Attempt to trace forbidden callable {detail}\n\nfrom user code:\n{frames}")
        self.failed(name, text, detail, where, outcome)

    def failed(
        self, name: str, text: str, detail: str | None, where: _stack.Stack | None, outcome: str = "skip"
    ) -> None:
        """The same, for whoever does not ask what becomes of the call."""
        counters["frames"]["total"] += 1
        counters["graph_break"][text] += 1
        reason = BreakReason(name, text, detail, _core.reasons()[name][1], _stack.user_frames(where))
        if self.reasons is not None:
            self.reasons.append(reason)
        if name not in OWN_ERRORS:
            self.writer.stopped("error" if self.fullgraph else outcome, reason)
        if name in OWN_ERRORS:
            _logs.say(log, logging.DEBUG, "%s is run in CPython: %s", self.name, reason)
            return
        if self.fullgraph or outcome == "error":
            counters["unimplemented"][text] += 1
            raise exc.Unsupported(name, text, detail, reason.hint, reason.user_stack)
        what = "the graph of %s ends: %s" if outcome == "break" else "%s is run in CPython: %s"
        if config.verbose:
            frames = _stack.format_frames(reason.user_stack)
            _logs.say(log, logging.WARNING, what + "\n%s%s", self.name, reason, frames, reason.hint)
        else:
            _logs.say(log, logging.INFO, what, self.name, reason)

    def missed(self, texts: list[str], at_limit: bool) -> bool:
        """A call fits no entry. True if this need not be told again at this limit."""
        guard = texts[0] if texts else ""
        self.recompiled = True
        if not at_limit:
            self.writer.missed(texts)
            for text in texts:
                count("recompiles", text)
            if config.error_on_recompile:
                raise exc.RecompileError(
                    f"{self.name} would be captured again, because this does not hold:\n{_list(texts)}"
                )
            _logs.say(
                log, logging.WARNING if config.verbose else logging.INFO,
                "%s is captured again, because this does not hold:\n%s", self.name, _list(texts),
            )  # fmt: skip
            return False
        text = (
            f"{self.name} has reached the limit of {len(texts)} entries (magneto.config.recompile_limit), and a call "
            f"fits none of them. The guard that failed last: {guard}"
        )
        counters["unimplemented"]["recompile_limit"] += 1
        if self.fullgraph or config.fail_on_recompile_limit_hit:
            raise exc.FailOnRecompileLimitHit(text)
        _logs.say(
            log, logging.WARNING,
            "%s. Such calls run in eager from now on. Keep what the guard names the same from call to call, or raise "
            "the limit; magneto.cache_entries() shows all guards. The call is at %s.", text, _caller(),
        )  # fmt: skip
        return True


def _caller() -> str:
    """The line that called a compiled function, for our caller to name."""
    frame = sys._getframe(2)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_OWN):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


def count(group: str, text: str) -> None:
    """Count a reason whose text has values of the program in it: those beyond `MOST_REASONS` are counted as one."""
    counts = counters[group]
    if text not in counts and len(counts) >= MOST_REASONS:
        text = OTHERS
    counts[text] += 1


def _list(texts: list[str]) -> str:
    return "\n".join(f"  {text}" for text in texts)


def observer_of(compiled: Any) -> Observer:
    """The observer of a compiled callable."""
    observer: Observer = compiled.failed.__self__
    return observer
