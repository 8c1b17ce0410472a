"""What the core tells while it captures: counted, logged, and turned into errors where that was asked for."""

from __future__ import annotations

import dataclasses
import logging
import os
import sys
import traceback
import weakref
from collections.abc import Callable
from types import CodeType
from typing import Any

from magneto import _advice, _core, _hints, _logs, _session, _shared, _stack, _tables, exc
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


@dataclasses.dataclass(frozen=True)
class Hooks:
    """Functions of the user's, as `torch._dynamo.optimize` takes them."""

    guard_export_fn: Callable[[Any], None] | None = None
    guard_fail_fn: Callable[[Any], None] | None = None


class Observer:
    """The core's ear for one compiled callable."""

    def __init__(self, name: str, fullgraph: bool, function: Any = None, hooks: Hooks | None = None) -> None:
        self.name = name
        self.hooks = hooks or Hooks()
        self.fullgraph = fullgraph
        self.writer = _logs.Writer(function, name)
        self.spec: Any = None
        """`shapes_spec`."""
        self.recompiled = False
        self.reasons: list[BreakReason] | None = None
        self.seconds = 0.0
        self.maker: _shared.Maker | None = None
        """Who compiles, if what was compiled may be shared."""
        self._ticket: tuple[_core.Entry, _shared.Ticket | None] | None = None
        self._reference = weakref.ref(self)

    def started(self, code: CodeType, offset: int) -> None:
        """A frame is about to be captured: a call of a code object (offset -1), or the rest of it from an offset on."""
        if not self.fullgraph:  # as torch.compile counts
            counters["frames"]["total"] += 1
        session = _session.Session(code, offset, self.writer.function)
        if self.spec is not None and offset < 0:
            from magneto import _spec

            session.binding = _spec.Binding(self.spec, code)
        _tables.looked_at(code)
        session.open()
        session.trace()

    def ended(self, entry: _core.Entry | None, error: BaseException | None) -> None:
        """That is over."""
        session = _session.current()
        assert session is not None
        if entry is not None and not self.fullgraph:
            counters["frames"]["ok"] += 1
        if entry is not None:
            _advice.end()
        session.close(entry, error)
        if entry is not None and entry.operations and self.hooks.guard_export_fn is not None:
            from torch._guards import GuardsSet
            from torch.utils._ordered_set import OrderedSet

            self.hooks.guard_export_fn(GuardsSet(OrderedSet(session.guards)))

    def captured(self, entry: _core.Entry, seconds: float) -> None:
        """A capture succeeded."""
        session = _session.current()
        stats = counters["stats"]
        if session is not None:
            session.traced()
            entry.compile_id = str(session.id)
            if session.profile is not None:
                session.profile.seconds += seconds
                session.profile.captures += 1
            if session.binding is not None:
                session.binding.settle(entry)
        operations = entry.operations
        if operations and not self._is_repeated(entry):
            stats["calls_captured"] += operations
            stats["unique_graphs"] += 1
        self.seconds += seconds
        self.writer.captured(entry, seconds)

    def _is_repeated(self, entry: _core.Entry) -> bool:
        """Whether another callable of the same code has the same graph: it is counted once."""
        if self.maker is not None and self.maker.is_replay:
            return _shared.is_repeated(self._reference, entry)
        ticket = _shared.ticket(self, self.maker, entry)
        self._ticket = entry, ticket
        return ticket is not None and ticket.is_repeated

    def ticket(self, entry: _core.Entry) -> _shared.Ticket | None:
        """What finds others with the graph of a new entry."""
        found, self._ticket = self._ticket, None
        if found is not None and found[0] is entry:
            return found[1]
        return _shared.ticket(self, self.maker, entry)  # another thread captures with the same callable

    def stopped(
        self, name: str, text: str, detail: str | None, where: _stack.Stack | None, action: str
    ) -> Exception | None:
        """A capture was aborted. The call is made in CPython ("skip"), or the graph ends there and another one begins
        ("break"), or this has to raise ("error"), as it may in any case.

        Returns:
            What to raise if CPython makes the call, and raises nothing.
        """
        if name == "FORBIDDEN":
            frames = _stack.format_frames(_stack.user_frames(where))
            raise AssertionError(
                f"Attempt to trace forbidden callable {detail}\n\nfrom user code:\n{frames}\n"
                f"reason: {name}\nhint: {_core.reasons()[name][1]}"
            )
        if action == "break":
            for frame in where or ():
                line = _stack.summary(frame[0], frame[1]).lineno
                counters["resumes"][f"torch_dynamo_resume_in_{frame[0].co_name}_at_{line}"] += 1
        if name not in OWN_ERRORS or action != "skip":  # a call that raises in eager too ends no graph
            counters["graph_break"][text] += 1
        hint = _hints.hint_for(name, detail, _core.reasons()[name][1])
        reason = BreakReason(name, text, detail, hint, _stack.user_frames(where))
        if self.reasons is not None:
            self.reasons.append(reason)
        session = _session.current()
        if session is not None:
            session.traced()
            session.reason = reason
        if name not in OWN_ERRORS:
            self.writer.stopped("error" if self.fullgraph else action, reason)
            _tables.broke(reason)
            if action == "skip" and session is not None:
                _tables.skipped(reason, session.code)
        if name in OWN_ERRORS:
            _logs.say(log, logging.DEBUG, "%s is run in CPython: %s", self.name, reason)
            if self.fullgraph and name == "OPERATION_FAILED":  # unless the program raises it, as it should
                return exc.Unsupported(name, text, detail, reason.hint, reason.user_stack)
            return None
        if self.fullgraph or action == "error":
            counters["unimplemented"][text] += 1
            raise exc.Unsupported(name, text, detail, reason.hint, reason.user_stack)
        what = "the graph of %s ends: %s" if action == "break" else "%s is run in CPython: %s"
        if config.verbose:
            frames = _stack.format_frames(reason.user_stack)
            _logs.say(log, logging.WARNING, what + "\n%s%s", self.name, reason, frames, reason.hint)
        else:
            _logs.say(log, logging.INFO, what, self.name, reason)
        return None

    def missed(
        self,
        texts: list[str],
        at_limit: bool,
        entries: tuple[_core.Entry, ...] = (),
        stance: str | None = None,
        code: CodeType | None = None,
    ) -> bool:
        """A call fits no entry. True if this need not be told again at this limit.

        With a stance that forbids captures this has to raise; `code` is then that of the frame.
        """
        if stance is not None and code is not None:
            raise exc.RecompileError(_refusal(self.name, stance, code, texts))
        guard = _stack.told(texts[0]) if texts else ""
        self.recompiled = True
        for text, entry in zip(texts, entries, strict=False):
            if entry.codes:
                reason = f"{entry.compile_id}: {_stack.told(text)}"
                _tables.guard_failed(reason, entry.codes[0], self.hooks.guard_fail_fn)
        if not at_limit:
            self.writer.missed(texts, [entry.compile_id for entry in entries])
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
            raise exc.FailOnRecompileLimitHit(
                f"{text}. Keep what the guard names the same from call to call, or raise the limit; without "
                f"fullgraph=True "
                "such calls run in eager."
            )
        _logs.say(
            log, logging.WARNING,
            "%s. From now on calls that fit an entry still use it, and all others run in eager, until "
            "magneto.reset(). Keep "
            "what the guard names the same from call to call, or raise the limit; magneto.cache_entries() shows "
            "all guards. "
            "The call is at %s.", text, _caller(),
        )  # fmt: skip
        return True


def _refusal(name: str, stance: str, code: CodeType, texts: list[str]) -> str:
    """What is said of a call that would have to be captured under a stance that forbids it."""
    what = (
        "Recompilation triggered with skip_guard_eval_unsafe stance"
        if stance == "skip_guard_eval_unsafe"
        else f"Detected recompile when the stance is {stance!r}"
    )
    text = (
        f"{what}. filename: {code.co_filename!r}, function name: {code.co_name!r}, line number: "
        f"{code.co_firstlineno}\n"
    )
    if not texts:
        return (
            text
            + f"Nothing was captured of {name} here: call it with such arguments before the stance is set."
        )
    number = "the only entry" if len(texts) == 1 else f"any of {len(texts)} entries"
    return text + (
        f"The call does not fit {number}, because this does not hold:\n{_list(texts)}\n"
        "Keep what the guard names the same from call to call, or call it with such arguments before the stance is set."
    )


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
    return "\n".join(f"  {_stack.told(text)}" for text in texts)


def observer_of(compiled: Any) -> Observer:
    """The observer of a compiled callable."""
    observer: Observer = compiled.stopped.__self__
    return observer
