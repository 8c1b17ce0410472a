"""The exceptions that magneto raises. What a program raises by itself stays the program's own."""

from __future__ import annotations

import traceback
from typing import Any

from magneto import _stack

__all__ = [
    "BackendCompilerFailed",
    "FailOnRecompileLimitHit",
    "InvalidBackend",
    "MagnetoError",
    "RecompileError",
    "RecompileLimitExceeded",
    "Unsupported",
]


class MagnetoError(RuntimeError):
    """The base of all exceptions of magneto."""


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

    def __init__(self, backend: Any, inner_exception: Exception) -> None:
        self.backend_name: str = backend if isinstance(backend, str) else name_of(backend)
        self.inner_exception = inner_exception
        super().__init__(
            f"the backend {self.backend_name!r} raised\n{type(inner_exception).__name__}: {inner_exception}\n\n"
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

    def __init__(self, name: str) -> None:
        super().__init__(f"there is no backend {name!r}; magneto.list_backends(None) lists them all")


def name_of(function: Any) -> str:
    """How a callable is called in messages."""
    for key in ("__qualname__", "compiler_name", "__name__"):
        name = getattr(function, key, None)
        if isinstance(name, str):
            return name
    return type(function).__name__
