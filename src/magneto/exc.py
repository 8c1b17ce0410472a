"""The exceptions that magneto raises. What a program raises by itself stays the program's own."""

from __future__ import annotations

import traceback
from collections.abc import Iterable
from types import ModuleType
from typing import Any

from magneto import _hints, _stack

__all__ = [
    "BackendCompilerFailed",
    "FailOnRecompileLimitHit",
    "InvalidBackend",
    "MagnetoError",
    "RecompileError",
    "RecompileLimitExceeded",
    "Unsupported",
]


class _Error(RuntimeError):
    """A class of Python's between `MagnetoError` and `RuntimeError`: bases can be added beside it."""

    def __init__(self, *args: Any) -> None:
        RuntimeError.__init__(self, *args)  # not what comes next: that may be a class of torch's


class MagnetoError(_Error):
    """The base of all exceptions of magneto.

    Where `torch._dynamo` is imported, before or after, this is a `torch._dynamo.exc.TorchDynamoException`, and each of
    the others is also torch's exception of its name.
    """

    _torch_dynamo_tracer_output: Any = None
    frame_exec_strategy: Any = None

    def __reduce__(self) -> Any:
        return _rebuild, (type(self), self.args), self.__dict__

    def __getstate__(self) -> Any:
        return self.__dict__

    def __setstate__(self, state: dict[str, Any] | None) -> None:
        self.__dict__.update(state or {})


def _rebuild(cls: type[MagnetoError], args: tuple[Any, ...]) -> MagnetoError:
    error = cls.__new__(cls)
    error.args = args
    return error


class Unsupported(MagnetoError):
    """Something in the program can't be captured, and `fullgraph=True` asks for all of it.

    `reason` is the short name of the reason, `explanation` what it means, `detail` what was met (or None), `hint` what
    can be done about it, and `stack` the program's frames, innermost last.
    """

    def __init__(
        self,
        reason: str,
        explanation: str = "",
        detail: str | None = None,
        hint: str = "",
        stack: list[traceback.FrameSummary] | None = None,
    ) -> None:
        super().__init__(reason, explanation, detail, hint)
        self.reason = reason
        self.explanation = explanation
        self.detail = detail
        self.hint = hint
        self.stack = stack or []

    skip_frame = False
    category = "unimplemented"
    logged = True
    case_name: str | None = None
    compile_id: Any = None

    @property
    def msg(self) -> str:
        """The whole message, as torch's has it."""
        return str(self)

    @property
    def gb_type(self) -> str:
        """What kind of break it is, as torch's has it."""
        return self.explanation or self.reason

    @property
    def real_stack(self) -> traceback.StackSummary:
        """The program's frames, as torch's has them."""
        return traceback.StackSummary.from_list(self.stack)

    @property
    def innermost_user_frame_summary(self) -> traceback.FrameSummary | None:
        """The last of the program's frames."""
        return self.stack[-1] if self.stack else None

    def add_to_stats(self, category: str = "unimplemented") -> None:
        """Does nothing: breaks are counted where they are met."""

    remove_from_stats = add_to_stats

    def __str__(self) -> str:
        text = self.explanation or self.reason
        if self.detail:
            text += f": {self.detail}"
        if self.stack:
            text += "\n\nfrom user code:\n" + _stack.format_frames(self.stack)
        text += f"\nreason: {self.reason}"
        if self.hint:
            text += f"\nhint: {self.hint}"
        return text


class BackendCompilerFailed(MagnetoError):
    """The backend raised an exception; it is the cause (`__cause__`) and `inner_exception`."""

    first_useful_frame = None

    def __init__(self, backend: Any, inner_exception: Exception, note: str = "") -> None:
        self.backend_name: str = backend if isinstance(backend, str) else name_of(backend)
        self.inner_exception = inner_exception
        super().__init__(
            f"the backend {self.backend_name!r} raised\n{type(inner_exception).__name__}: {inner_exception}\n\n{note}"
            "Set magneto.config.suppress_errors = True to run such graphs without the backend."
        )


class RecompileError(MagnetoError):
    """A call fits no entry, and `magneto.config.error_on_recompile` is set."""


class RecompileLimitExceeded(MagnetoError):
    """A call fits no entry, and there may be no more of them."""


class FailOnRecompileLimitHit(RecompileLimitExceeded):
    """`RecompileLimitExceeded` with `fullgraph=True` or `magneto.config.fail_on_recompile_limit_hit`."""


class InvalidBackend(MagnetoError):
    """There is no backend of this name."""

    def __init__(self, name: str, names: Iterable[str] = ()) -> None:
        near = _hints.did_you_mean(name, names)
        super().__init__(
            f"there is no backend {name!r}{near or '; magneto.list_backends(None) lists them all'}"
        )


def join_torch(module: ModuleType) -> None:
    """Make the classes above also those of torch._dynamo.exc, so that its handlers catch them."""
    own = [MagnetoError, *(value for value in globals().values() if _is_own(value))]
    for cls in own:
        name = "TorchDynamoException" if cls is MagnetoError else cls.__name__
        theirs = getattr(module, name, None)
        if theirs is not None and not issubclass(cls, theirs):
            cls.__bases__ = (*cls.__bases__, theirs)


def _is_own(value: Any) -> bool:
    return isinstance(value, type) and issubclass(value, MagnetoError) and value is not MagnetoError


def name_of(function: Any) -> str:
    """How a callable is called in messages."""
    for key in ("__qualname__", "compiler_name", "__name__"):
        name = getattr(function, key, None)
        if isinstance(name, str):
            return name
    return type(function).__name__
