"""What `TORCH_LOGS` and `torch._logging.set_logs` ask for, written by torch's own artifact loggers.

Levels, handlers and formats are those that the user has set up for torch.compile. A log that is off costs nothing.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import sys
import traceback
from typing import Any

import torch
from torch._logging._internal import getArtifactLogger

from magneto import _core, _session, _stack, _trace

_NAME = "torch._dynamo.magneto"  # below the logger that TORCH_LOGS="dynamo" is about

log = logging.getLogger(_NAME)
dynamic = logging.getLogger(
    "torch.fx.experimental.symbolic_shapes.magneto"
)  # the same for TORCH_LOGS="dynamic"


@functools.cache
def artifact(name: str) -> logging.Logger:
    """The logger of an artifact, such as "graph_breaks"."""
    return getArtifactLogger(_NAME, name)


def is_on(name: str) -> bool:
    """Whether anyone wants to read this artifact."""
    return artifact(name).isEnabledFor(logging.DEBUG)


def say(logger: logging.Logger, level: int, text: str, *args: Any, **kwargs: Any) -> None:
    """Write to a log. What a handler or a filter of the user's raises does not end the call that is told of: it is
    printed, as `logging` does with errors of its own handlers."""
    if not logger.isEnabledFor(level):
        return
    try:
        logger.log(level, text, *args, **kwargs)
    except Exception:
        if logging.raiseExceptions and sys.stderr is not None:
            with contextlib.suppress(OSError, ValueError):
                sys.stderr.write("--- Logging error ---\n" + traceback.format_exc())


def _named() -> contextlib.AbstractContextManager[Any]:
    session = _session.current()
    return contextlib.nullcontext() if session is None else session.named()


class Writer:
    """Writes about one compiled callable."""

    def __init__(self, function: Any, name: str) -> None:
        self.name = name
        self.function = function

    def _write(self, logger: logging.Logger, level: int, text: str, *args: Any) -> None:
        """With the compile id in front, as in [0/1]."""
        with _named():
            say(logger, level, text, *args, stacklevel=4)

    def _place(self) -> str:
        function = getattr(self.function, "__func__", self.function)
        code = getattr(function, "__code__", None)
        return f"{self.name} in {code.co_filename}:{code.co_firstlineno}" if code else self.name

    def captured(self, entry: _core.Entry, seconds: float) -> None:
        """A capture succeeded."""
        if log.isEnabledFor(logging.INFO):
            self._write(
                log, logging.INFO, "captured %s: %d operations, %d guards, in %.2f ms",
                self._place(), entry.operations, len(entry.guards()), seconds * 1e3,
            )  # fmt: skip
        if is_on("guards"):
            guards = "\n".join(f"| +- {guard}" for guard in entry.guards())
            self._write(artifact("guards"), logging.DEBUG, "\nGUARDS of %s:\n%s", self._place(), guards)
        if dynamic.isEnabledFor(logging.INFO):
            self._symbols(entry)
        if _trace.is_on():
            with _named():
                _trace.guards(entry)
        wanted = is_on("graph") or is_on("graph_code") or is_on("graph_sizes") or _trace.is_on()
        if entry.operations and wanted:
            self._graph(entry)

    def _symbols(self, entry: _core.Entry) -> None:
        """The symbols of an entry, where each comes from, and what was decided on them."""
        names = []
        for number, (source, _, kind, dimension) in enumerate(entry.size_origins()):
            name = f"{source}.{('size', 'stride')[kind]}()[{dimension}]" if kind < 2 else source
            value, low, high = _core.size_symbol(entry, number)
            bounds = f"[{'-int_oo' if low is None else low}, {'int_oo' if high is None else high}]"
            names.append(name)
            self._write(
                dynamic, logging.INFO, "create_symbol s%d = %d for %s %s", number, value, name, bounds
            )
        for guard in entry.guards():
            if any(name in guard for name in names) and any(sign in guard for sign in ("==", "!=", "<")):
                self._write(dynamic, logging.INFO, "eval %s", guard)

    def _graph(self, entry: _core.Entry) -> None:
        from torch._subclasses.fake_tensor import FakeTensorMode

        from magneto import _graph

        shapes = None if entry.symbols is None else entry.symbols.shape_env
        built = _graph.build(entry, FakeTensorMode(shape_env=shapes), function=self.function)
        module = built.module
        name = f"__compiled_fn_{str(entry.compile_id).replace('/', '_')}"
        session = _session.current()
        if _trace.is_on() and session is not None:
            session.shapes = built.shapes
            with session.named():
                _trace.graph(module)
        if is_on("graph_code"):
            code = module.print_readable(print_output=False, include_stride=True, include_device=True)
            self._write(
                artifact("graph_code"), logging.DEBUG, "TRACED GRAPH\n ===== %s =====\n %s\n", name, code
            )
        if is_on("graph"):
            rows = [("opcode", "name", "target", "args", "kwargs")]
            rows += [
                (node.op, node.name, str(node.target), str(node.args), str(node.kwargs))
                for node in module.graph.nodes
            ]
            widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
            lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
            lines.insert(1, "  ".join("-" * width for width in widths))
            self._write(
                artifact("graph"),
                logging.DEBUG,
                "TRACED GRAPH\n ===== %s =====\n %s\n",
                name,
                "\n ".join(lines),
            )
        if is_on("graph_sizes"):
            sizes = []
            for node in module.graph.nodes:
                value = node.meta.get("example_value")
                if isinstance(value, torch.Tensor):
                    sizes.append(f"{node.name}: {tuple(value.size())}")
            self._write(
                artifact("graph_sizes"), logging.DEBUG, "TRACED GRAPH TENSOR SIZES\n===== %s =====\n%s\n",
                name, "\n".join(sizes),
            )  # fmt: skip

    def stopped(self, outcome: str, reason: Any) -> None:
        """A graph ends, or there is none."""
        if outcome != "error" and _trace.is_on():
            with _named():
                _trace.stopped(reason)
        if not is_on("graph_breaks"):
            return
        frame = reason.user_stack[-1] if reason.user_stack else None
        where = f" at {frame.filename}:{frame.lineno}" if frame is not None else ""
        text = f"Graph break in user code{where}\nGraph Break Reason: {reason.reason}"
        if reason.detail:
            text += f": {reason.detail}"
        text += f"\n  Reason: {reason.name}"
        if reason.hint:
            text += f"\n  Hint: {reason.hint}"
        if outcome == "skip":
            text += f"\n  No graph was made: {self.name} runs in CPython from here on"
        text += "\n\nUser code traceback:\n" + _stack.format_frames(reason.user_stack)
        self._write(artifact("graph_breaks"), logging.DEBUG, "%s", text)

    def missed(self, texts: list[str], ids: list[str | None]) -> None:
        """There will be another capture, because what was captured does not fit."""
        told = list(map(_stack.told, texts))
        reasons = [f"{number}: {text}" for number, text in zip(ids, told, strict=True)] if ids else told
        session = _session.current()
        if session is not None:
            session.missed = reasons
            with session.named():
                _trace.missed(reasons)
        for name, shown in (("recompiles", reasons[:1]), ("recompiles_verbose", reasons)):
            if is_on(name):
                failures = "\n".join(f"    - {reason}" for reason in shown)
                self._write(
                    artifact(name), logging.DEBUG,
                    "Recompiling function %s\n    triggered by the following guard failure(s):\n%s",
                    self._place(), failures,
                )  # fmt: skip
