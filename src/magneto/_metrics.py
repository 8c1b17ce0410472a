"""Records of compilations, as `torch._dynamo.utils.get_compilation_metrics` returns them, and their times."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import logging
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import torch

from magneto import _core, _trace

if TYPE_CHECKING:
    from torch._guards import CompileId

    from magneto._session import Session


_sink = logging.getLogger("torch._utils_internal")


def is_heard() -> bool:
    """Whether records go to somebody as soon as they are made."""
    return _trace.is_on() or _sink.isEnabledFor(logging.INFO)


@contextlib.contextmanager
def timed_from(utils: Any, gap: int) -> Iterator[None]:
    """The time of a whole compilation, which began so many nanoseconds ago."""
    key, event, column = "_compile.compile_inner", "entire_frame_compile", "dynamo_cumulative_compile_time_us"
    try:
        with utils.dynamo_timed(key, phase_name=event, dynamo_compile_column_us=column):
            yield
    finally:
        utils.compilation_time_metrics[key][-1] += gap * 1e-9
        utils.cumulative_time_spent_ns[event] += gap
        context = utils.get_metrics_context()
        context.increment(column, gap // 1000)
        context.increment("duration_us", gap // 1000)


@contextlib.contextmanager
def record(utils: Any, session: Session) -> Iterator[None]:
    """A record of a session. If nobody listens, what is expensive of it is made when it is read."""
    context = utils.get_metrics_context()
    if context.in_progress():  # a compilation within another has no record of its own
        with context:
            yield
        return
    edits = len(context._edits)
    try:
        with context:
            context._start_time_ns = session.start
            try:
                yield
            finally:
                if not is_heard():
                    context._on_exit = functools.partial(_keep, utils, context, context._on_exit, session)
    finally:
        del context._edits[edits:]  # torch keeps a traceback for each change, for good


def _keep(
    utils: Any,
    context: Any,
    on_exit: Callable[..., None],
    session: Session,
    start: int,
    end: int,
    metrics: dict[str, Any],
    kind: type[BaseException] | None,
    error: BaseException | None,
) -> None:
    """What a context of metrics calls at its end, in place of `on_exit`."""
    context._on_exit = on_exit
    number, stack, shapes = session.id, session.stack_lines, session.shapes
    values = dict(metrics)

    def make() -> Any:
        values["stack_trace"] = stack()
        if shapes is not None and values.get("graph_op_count") is not None:
            values["graph_node_shapes"] = str(shapes)
        return _make(utils, number, start, end, values)

    utils._compilation_metrics.append(_later_class(utils)(make))


def _make(utils: Any, number: CompileId, start: int, end: int, values: dict[str, Any]) -> Any:
    """A record with the settings as they are."""
    has_triton = torch.utils._triton.has_triton()
    common = {
        "compile_id": number,
        "start_time_us": start // 1000,
        "end_time_us": end // 1000,
        "dynamo_config": utils._get_dynamo_config_for_logging(),
        "config_suppress_errors": utils.config.suppress_errors,
        "config_inline_inbuilt_nn_modules": True,
        "inductor_config": utils._scrubbed_inductor_config_for_logging(),
        "compiler_config": utils._compiler_config_for_logging(),
        "functorch_config": utils._functorch_config_for_logging(),
        "cuda_version": torch.version.cuda,
        "triton_version": utils.triton.__version__ if has_triton else "",
        "python_version": sys.version,
        "pytorch_version": torch.__version__,
    }
    return utils.CompilationMetrics.create({**common, **values})


@functools.cache
def _later_class(utils: Any) -> Any:
    """The class of records that are made when they are read."""
    base = utils.CompilationMetrics
    names = frozenset(field.name for field in dataclasses.fields(base))

    class CompilationMetrics(base):  # type: ignore[misc, valid-type]
        def __init__(self, make: Callable[[], Any]) -> None:
            self.__dict__["_make"] = make

        def __getattribute__(self, name: str) -> Any:
            if name in names:
                values = object.__getattribute__(self, "__dict__")
                make = values.get("_make")
                if make is not None:
                    for key, value in vars(make()).items():
                        values.setdefault(key, value)  # what was set stays
                    values.pop("_make", None)
            return object.__getattribute__(self, name)

        def __eq__(self, other: object) -> bool:
            return isinstance(other, base) and dataclasses.astuple(self) == dataclasses.astuple(other)

        __hash__ = None  # type: ignore[assignment]

        def __reduce__(self) -> Any:
            return base, dataclasses.astuple(self)

    CompilationMetrics.__qualname__ = base.__qualname__
    return CompilationMetrics


def add_time(utils: Any, key: str, nanoseconds: int) -> None:
    """Note a time as `dynamo_timed` does."""
    utils.compilation_time_metrics.setdefault(key, []).append(nanoseconds * 1e-9)


def leave(utils: Any, session: Session, entry: _core.Entry | None, error: BaseException | None) -> None:
    """The times and the record of a session that nobody has looked at."""
    end = time.time_ns()
    spent, frame, number = end - session.start, utils.curr_frame, session.id
    add_time(utils, "_compile.compile_inner", spent)
    if session.tracing > 0:
        add_time(utils, "bytecode_tracing", session.tracing)
    utils.cumulative_time_spent_ns["entire_frame_compile"] += spent
    seconds = None if entry is not None else spent * 1e-9
    known = {
        "dynamo_cumulative_compile_time_us": spent // 1000,
        "duration_us": spent // 1000,
        **_figures_of_graph(session, entry),
        **_figures_of_failure(session, entry, error),
        **told_by_user(utils),
    }

    shapes = _shapes(session, entry)

    def make() -> Any:
        values = {**_figures_of_session(utils, session, frame, seconds), **known}
        values["graph_node_shapes"] = str(shapes)
        values["stack_trace"] = session.stack_lines()
        return _make(utils, number, session.start, end, values)

    utils._compilation_metrics.append(_later_class(utils)(make))


def told_by_user(utils: Any) -> dict[str, Any]:
    """What hooks of the user's say about a recompile."""
    hooks = utils.get_hook_for_recompile_user_context()
    return {"recompile_user_contexts": {hook()[:256] for hook in hooks}} if hooks else {}


def figures(
    utils: Any, session: Session, entry: _core.Entry | None, error: BaseException | None
) -> dict[str, Any]:
    """The fields of a record that a front end fills in."""
    seconds = None if entry is not None else (time.time_ns() - session.start) * 1e-9
    return {
        **_figures_of_session(utils, session, utils.curr_frame, seconds),
        "stack_trace": session.stack_lines() if is_heard() else None,
        **_figures_of_graph(session, entry),
        **_figures_of_failure(session, entry, error),
        "graph_node_shapes": str(_shapes(session, entry)) if is_heard() else "{}",
    }


def _figures_of_session(utils: Any, session: Session, frame: int, failed: float | None) -> dict[str, Any]:
    """`failed` is the time until there was no entry, or None if there is one."""
    return {
        "recompile_reason": session.missed[0] if session.missed else None,
        "inline_inbuilt_nn_modules_candidate": False,
        "frame_key": str(frame),
        "co_name": session.name,
        "co_filename": session.code.co_filename,
        "co_firstlineno": session.line,
        "cache_size": len(session.missed),
        "accumulated_cache_size": len(session.missed),
        "non_compliant_ops": set(),
        "compliant_custom_ops": set(),
        "dynamo_time_before_restart_s": failed or 0.0,
        "has_guarded_code": failed is None,
        "specialize_float": utils.config.specialize_float,
        "is_forward": True,
        "dynamo_compile_time_before_restart_us": int((failed or 0.0) * 1e6),
    }


def _shapes(session: Session, entry: _core.Entry | None) -> Any:
    """What has the sizes of the graph as its text."""
    return {} if session.shapes is None or entry is None else session.shapes


def _figures_of_graph(session: Session, entry: _core.Entry | None) -> dict[str, Any]:
    symbols = None if entry is None else entry.symbols
    return {
        "guard_count": None if entry is None else entry.guard_count,
        "shape_env_guard_count": (
            None if entry is None else 0 if symbols is None else len(symbols.shape_env.guards)
        ),
        "graph_op_count": None if entry is None else entry.operations,
        "graph_node_count": None if entry is None else entry.operations + entry.input_count + 1,
        "graph_input_count": None if entry is None else entry.input_count,
    }


def _figures_of_failure(
    session: Session, entry: _core.Entry | None, error: BaseException | None
) -> dict[str, Any]:
    reason = session.reason
    restarts = {str(reason)} if entry is not None and reason is not None else set()
    frame = reason.user_stack[-1] if entry is None and reason is not None and reason.user_stack else None
    kind = text = None
    if error is not None:
        kind, text = type(error).__qualname__, str(error)
    elif entry is None and reason is not None:
        kind, text = "Unsupported", str(reason)
    return {
        "fail_type": kind,
        "fail_reason": text,
        "fail_user_frame_filename": None if frame is None else frame.filename,
        "fail_user_frame_lineno": None if frame is None else frame.lineno,
        "restart_reasons": restarts,
        "exception_stack_trace": None if error is None else traceback.format_exception(error),
    }
