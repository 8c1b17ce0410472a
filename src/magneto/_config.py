"""`magneto.config`: the settings."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import Any

from magneto import _core


class Config:
    """Settings for all compiled callables. They take effect at once, also on those that exist already."""

    recompile_limit: int
    """How many entries a compiled callable may have; past it, a call that fits none runs in eager."""

    accumulated_recompile_limit: int
    """The same limit again; the smaller one counts."""

    fail_on_recompile_limit_hit: bool
    """Raise `magneto.exc.FailOnRecompileLimitHit` at the limit, in place of a warning."""

    error_on_recompile: bool
    """Raise `magneto.exc.RecompileError` where a second entry would be made."""

    suppress_errors: bool
    """If the backend fails, run its graph without it, with a warning, and raise nothing."""

    verbose: bool
    """Log each break and recompile with the whole stack, as warnings of the logger `magneto`."""

    skip_modules: tuple[str, ...]
    """Names of modules and packages whose functions captures don't look into: calls of them are breaks."""

    ignore_logging_functions: set[Any]
    """Functions and methods, such as `logger.info`, whose calls captured code leaves out."""

    capture_scalar_outputs: bool
    """Capture `x.item()` and the like as numbers that depend on data. With `fullgraph` that is always done."""

    capture_dynamic_output_shape_ops: bool
    """Capture operations whose result has a size that depends on data. With `fullgraph` that is always done."""

    def __init__(self) -> None:
        self.__dict__.update(
            recompile_limit=8,
            accumulated_recompile_limit=256,
            fail_on_recompile_limit_hit=False,
            error_on_recompile=False,
            suppress_errors=False,
            verbose=False,
            skip_modules=(),
            ignore_logging_functions=set(),
            capture_scalar_outputs=False,
            capture_dynamic_output_shape_ops=False,
        )

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in self.__dict__:
            raise AttributeError(f"magneto.config has no setting {name!r}; it has {', '.join(self.__dict__)}")
        if type(value) is not type(self.__dict__[name]):
            raise TypeError(
                f"magneto.config.{name} is of type {type(self.__dict__[name]).__name__}, not {value!r}"
            )
        self.__dict__[name] = value
        self._apply()

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"the setting {name!r} can't be deleted")

    def _apply(self) -> None:
        _core.recompile_limit(min(self.recompile_limit, self.accumulated_recompile_limit))
        _core.allow_symbols(self.capture_scalar_outputs, self.capture_dynamic_output_shape_ops)
        runtime = sys.modules.get("magneto._runtime")
        if runtime is not None:
            runtime.judge_again()

    @contextlib.contextmanager
    def patch(self, changes: dict[str, Any] | None = None, /, **more: Any) -> Iterator[None]:
        """Change settings for a `with` block, or as a decorator for each call of a function.

        `config.patch(recompile_limit=1)`, or `config.patch({"recompile_limit": 1})`.
        """
        before = dict(self.__dict__)
        try:
            for name, value in {**(changes or {}), **more}.items():
                setattr(self, name, value)
            yield
        finally:
            self.__dict__.update(before)
            self._apply()

    def to_dict(self) -> dict[str, Any]:
        """All settings."""
        return dict(self.__dict__)

    def __repr__(self) -> str:
        return f"magneto.config({', '.join(f'{name}={value!r}' for name, value in self.__dict__.items())})"


config = Config()
