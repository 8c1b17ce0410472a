"""Sessions: one compilation of a frame, from the first look at it to what the backend made, as tools see it.

A session has a compile id, runs the callbacks of `torch._dynamo.callback`, is timed by `torch._dynamo.utils`, and
leaves a record in `get_compilation_metrics()`. None of this imports torch._dynamo, unless `TORCH_TRACE` is set: nobody
who has not imported it can ask for it.
"""

from __future__ import annotations

import contextlib
import functools
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from types import CodeType, ModuleType
from typing import TYPE_CHECKING, Any

from torch._guards import CompileContext, compile_context
from torch.autograd import profiler
from torch.utils._traceback import CapturedTraceback

from magneto import _config, _core, _debug, _ids, _metrics, _stack, _trace

if TYPE_CHECKING:
    from magneto._cprofile import Profile
    from magneto._events import BreakReason
    from magneto._recipe import Shapes


def loaded(name: str) -> Any:
    """A module that somebody has imported, all of it; or None."""
    module: ModuleType | None = sys.modules.get(name)
    if module is None or getattr(module.__spec__, "_initializing", False):
        return None
    return module


class _Open(threading.local):
    def __init__(self) -> None:
        self.sessions: list[Session] = []


_open = _Open()


def current() -> Session | None:
    """The session that is under way on this thread."""
    return _open.sessions[-1] if _open.sessions else None


class Session:
    """One compilation of a frame."""

    def __init__(self, code: CodeType, offset: int, function: Any = None) -> None:
        self.code = code
        self.offset = offset
        self.function = function
        """What was compiled."""
        self.binding: Any = None
        """What `shapes_spec` says of a call."""
        self.id = _ids.allocate(code, offset)
        self.start = time.time_ns()
        self.stack: Any = None
        self.missed: list[str] = []
        """Why what was captured before does not fit, the latest first."""
        self.reason: BreakReason | None = None
        self.shapes: Shapes | None = None
        """The sizes of the graph that a backend was given."""
        self.guards: list[Any] = []
        """Those of the entry, as TorchDynamo's; empty unless a filter or a hook looks at them."""
        self.profile: Profile | None = None
        self.tracing = 0
        """For how many nanoseconds the program was captured; if that is not over, when it began, less than 0."""
        self._contexts: contextlib.ExitStack | None = None
        """What tools see of the session while it is under way; None as long as none of them looks."""
        self._tracing: contextlib.ExitStack | None = None
        self._utils: Any = None
        self._wait: Any = None

    @functools.cached_property
    def context(self) -> CompileContext:
        """What torch takes for the compilation that is under way."""
        return CompileContext(self.id)

    @functools.cached_property
    def line(self) -> int:
        """Where the frame starts; for the rest of one, where it goes on."""
        if self.offset < 0:
            return self.code.co_firstlineno
        return _stack.summary(self.code, 2 * (self.offset - 1)).lineno or self.code.co_firstlineno

    @property
    def name(self) -> str:
        """That of the code, or for the rest of a frame the name that TorchDynamo would give it."""
        if self.offset < 0:
            return self.code.co_name
        return f"torch_dynamo_resume_in_{self.code.co_name}_at_{self.line}"

    def named(self) -> contextlib.AbstractContextManager[Any]:
        """For a `with` block: logs, callbacks and backends see the compile id.

        Not for code that is captured: it would see it too.
        """
        return compile_context(self.context)

    def open(self) -> None:
        """The compilation starts."""
        _open.sessions.append(self)
        try:
            if self._is_watched():
                self._show()
                return
            utils = self._utils = loaded("torch._dynamo.utils")
            if utils is not None:
                self.stack = CapturedTraceback.extract()  # type: ignore[no-untyped-call]
                utils.increment_frame()
                self._wait = utils._WaitCounter("pytorch.wait_counter.dynamo_compile").guard()
                self._wait.__enter__()
        except BaseException as error:
            self.close(None, error)
            raise

    def _is_watched(self) -> bool:
        """Whether somebody would notice while the session is under way: else its record is all that is left of it."""
        if _metrics.is_heard() or _config.get("cprofile") or _debug.is_overridden():
            return True
        callbacks = loaded("torch._dynamo.callback")
        if callbacks is not None:
            handler = callbacks.callback_handler
            if handler.start_callbacks or handler.end_callbacks:
                return True
        utils = loaded("torch._dynamo.utils")
        return utils is not None and (
            profiler._is_profiler_enabled or utils.get_metrics_context().in_progress()
        )

    def _show(self) -> None:
        """Let tools see the session."""
        self._contexts = contextlib.ExitStack()
        with self.named():
            self._contexts.enter_context(_debug.settings(self.id))
            self.take_time()
            _trace.started(self)
            if _config.get("cprofile"):
                from magneto._cprofile import Profile

                self.profile = Profile()
            callbacks = loaded("torch._dynamo.callback")
            if callbacks is not None:
                trigger = callbacks.CallbackTrigger.DYNAMO
                self._contexts.enter_context(
                    callbacks.callback_handler.install_callbacks(trigger, str(self.id))
                )

    def take_time(self) -> None:
        """Have torch._dynamo take the time, if it is loaded: at the start, or for a backend, which may import it."""
        if self._utils is not None and self._contexts is not None:
            return
        if _trace.is_on() and loaded("torch._dynamo.utils") is None:  # the metrics are among what it wants
            import torch._dynamo.utils as _  # noqa: F401

            self.start = time.time_ns()
        utils = loaded("torch._dynamo.utils")
        if self._contexts is None:
            self._contexts = contextlib.ExitStack()
        if utils is None:
            return
        if self._utils is None:
            self.stack = CapturedTraceback.extract()  # type: ignore[no-untyped-call]
            utils.increment_frame()
        self._utils = utils
        self._stop_waiting()
        gap = time.time_ns() - self.start
        enter = self._contexts.enter_context
        enter(utils.chromium_event_timed("dynamo", reset_event_log_on_exit=True, log_pt2_compile_event=True))
        enter(_metrics.record(utils, self))
        enter(_metrics.timed_from(utils, gap))
        if self.tracing > 0:
            _metrics.add_time(utils, "bytecode_tracing", self.tracing)

    def _stop_waiting(self) -> None:
        if self._wait is not None:
            wait, self._wait = self._wait, None
            wait.__exit__(None, None, None)

    def trace(self) -> None:
        """The program runs, and is captured."""
        if self._contexts is None:
            self.tracing = -time.time_ns()
        elif self._utils is not None:
            self._tracing = contextlib.ExitStack()
            with self.named():
                self._tracing.enter_context(
                    self._utils.dynamo_timed("bytecode_tracing", log_pt2_compile_event=True)
                )

    def traced(self) -> None:
        """What the program does was captured, or can't be."""
        if self.tracing < 0:
            self.tracing += time.time_ns()
        if self._tracing is not None:
            with self.named():
                self._tracing.close()

    def profiled(self) -> contextlib.AbstractContextManager[None]:
        """For a `with` block: what it calls is in the profile, if one was asked for."""
        return contextlib.nullcontext() if self.profile is None else self.profile.on()

    @contextlib.contextmanager
    def backend(self) -> Iterator[None]:
        """The backend compiles the graph."""
        with self.named():
            self.take_time()
            utils = self._utils
            if utils is None:
                yield
                return
            with utils.dynamo_timed(
                "OutputGraph.call_user_compiler",
                phase_name="backend_compile",
                log_pt2_compile_event=True,
                log_waitcounter=True,
                waitcounter_name_override="compile_aot_autograd",
                dynamo_compile_column_us="aot_autograd_cumulative_compile_time_us",
            ):
                yield

    def close(self, entry: _core.Entry | None, error: BaseException | None) -> None:
        """The compilation is over."""
        self.function = None  # traces may keep the session
        self.traced()
        if self._contexts is None:
            _open.sessions.remove(self)
            self._stop_waiting()
            if self._utils is not None:
                _metrics.leave(self._utils, self, entry, error)
            return
        with self.named():
            try:
                if error is not None:
                    _trace.failed(error)
                self._note(entry, error)
            finally:
                try:
                    self._contexts.close()
                finally:
                    _open.sessions.remove(self)
                    if self.profile is not None:
                        self.profile.write(self)

    def _note(self, entry: _core.Entry | None, error: BaseException | None) -> None:
        """Tell the record what came of the compilation."""
        if self._utils is None:
            return
        context = self._utils.get_metrics_context()
        context.update_outer(_metrics.figures(self._utils, self, entry, error))
        for name, value in _metrics.told_by_user(self._utils).items():
            context.set(name, value, overwrite=True)

    def frames(self) -> list[traceback.FrameSummary]:
        """The stack above the frame, outermost first, without our own frames."""
        frames = [] if self.stack is None else self.stack.summary()
        frames = [frame for frame in frames if not frame.filename.startswith(_stack.OWN)]
        if self.offset >= 0 and frames and frames[-1].name == self.code.co_name:
            frames.pop()  # the frame itself, which has begun
        return frames

    def stack_lines(self) -> list[str]:
        """The stack down to the frame, as torch._dynamo notes it."""
        places = [(frame.lineno, frame.name, frame.filename) for frame in self.frames()]
        places.append((self.line, self.name, self.code.co_filename))
        return [f"Line: {line}, Name: {name}, Filename: {file}" for line, name, file in places]
