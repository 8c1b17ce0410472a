"""`magneto.compile` and what goes with it."""

from __future__ import annotations

import copyreg
import functools
import inspect
import os
import types
import weakref
from collections.abc import Callable
from typing import Any, TypeVar, overload

from magneto import _control, _core, exc

_F = TypeVar("_F", bound=Callable[..., Any])

_made: weakref.WeakSet[_core.Compiled] = weakref.WeakSet()


class Settings:
    """How something is compiled; can be copied and pickled if its backend can."""

    def __init__(
        self,
        *,
        fullgraph: bool = False,
        dynamic: bool | None = None,
        backend: Any = "inductor",
        mode: str | None = None,
        options: dict[str, Any] | None = None,
    ) -> None:
        self.fullgraph = fullgraph
        self.dynamic = dynamic
        self.backend = backend
        self.mode = mode
        self.options = options
        self.find()

    def find(self) -> Any:
        """The backend; raises if there is none of this name, or if it does not take the mode or options."""
        from magneto import _backends

        return _backends.find(self.backend, self.mode, self.options, self.dynamic)

    def make(self, function: Callable[..., Any], name: str | None = None, seen: Any = None) -> _core.Compiled:
        """A compiled callable for something that has a Python frame."""
        from magneto import _backends, _events
        from magneto import _runtime as _runtime  # sets the core up

        backend = self.find()
        observer = _events.Observer(name or exc.name_of(function), self.fullgraph, function)
        compiler = None if backend is None else _backends.Compiler(backend, function, seen, observer)
        compiled = _core.Compiled(
            function,
            compiler,
            observer.failed,
            observer.missed,
            captured=observer.captured,
            fullgraph=self.fullgraph,
            stopped=observer.stopped,
        )
        compiled.breaks = not self.fullgraph
        _made.add(compiled)
        return compiled


@overload
def compile(
    model: _F,
    *,
    fullgraph: bool = ...,
    dynamic: bool | None = ...,
    backend: str | Callable[..., Any] = ...,
    mode: str | None = ...,
    options: dict[str, Any] | None = ...,
    disable: bool = ...,
) -> _F: ...


@overload
def compile(
    model: None = ...,
    *,
    fullgraph: bool = ...,
    dynamic: bool | None = ...,
    backend: str | Callable[..., Any] = ...,
    mode: str | None = ...,
    options: dict[str, Any] | None = ...,
    disable: bool = ...,
) -> Callable[[_F], _F]: ...


def compile(
    model: Any = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: str | Callable[..., Any] = "inductor",
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    disable: bool = False,
) -> Any:
    """Compile a function, a method, a callable object or an `nn.Module`, as `torch.compile` does.

    Also a decorator, with or without arguments.

    - `fullgraph`: raise `magneto.exc.Unsupported` where capture has to stop, in place of a graph break; values that
      depend on data are captured, which else are breaks.
    - `dynamic`: taken for the sake of `torch.compile`; shapes are static so far.
    - `backend`: a name (`magneto.list_backends()`), or a callable that gets a `torch.fx.GraphModule` and its example
      inputs and gives a callable. `"eager"` runs the captured operations as they are.
    - `mode`, `options`: for the backend, as in `torch.compile`.
    - `disable`: give `model` back as it is.
    """
    if model is None:

        def decorate(model: Any) -> Any:
            if model is None:
                raise RuntimeError("there is nothing to compile: the model is None")
            return compile(
                model,
                fullgraph=fullgraph,
                dynamic=dynamic,
                backend=backend,
                mode=mode,
                options=options,
                disable=disable,
            )

        return decorate
    if not callable(model):
        raise TypeError(f"only a callable can be compiled, not {model!r}")
    if disable or "1" in (os.environ.get("TORCHDYNAMO_DISABLE"), os.environ.get("TORCH_COMPILE_DISABLE")):
        return model
    import torch

    model = _control.innermost(model)

    settings = Settings(fullgraph=fullgraph, dynamic=dynamic, backend=backend, mode=mode, options=options)
    if isinstance(model, torch.nn.Module):
        from magneto._module import OptimizedModule

        if isinstance(model, torch.jit.ScriptModule):
            return model
        return OptimizedModule(getattr(model, "_orig_mod", model), settings)
    if isinstance(model, _core.Compiled):
        model = getattr(model, "__wrapped__", model.function)
    compiled = settings.make(with_frame(model), exc.name_of(model))
    compiled.is_object = inspect.ismethod(compiled.function) and not inspect.ismethod(model)
    compiled.plain = inspect.isfunction(model) and bool(getattr(model, "_torchdynamo_disable", False))
    functools.update_wrapper(compiled, model)
    compiled._torchdynamo_orig_callable = model
    return compiled


def with_frame(function: Any) -> Any:
    """A Python function or method that does what `function` does."""
    if isinstance(function, types.FunctionType) or (
        isinstance(function, types.MethodType) and isinstance(function.__func__, types.FunctionType)
    ):
        return function
    if isinstance(function, types.MethodType) and isinstance(function.__func__, _core.Compiled):
        return types.MethodType(function.__func__.function, function.__self__)
    if not isinstance(function, type) and isinstance(type(function).__call__, types.FunctionType):
        return types.MethodType(type(function).__call__, function)

    def call(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return call


def _reduce(compiled: _core.Compiled) -> Any:
    """A compiled function is pickled and copied as a function is: by its name."""
    return compiled.__qualname__


copyreg.pickle(_core.Compiled, _reduce)


def is_compiling() -> bool:
    """Whether the code that asks is being captured."""
    return _core.capturing()


def reset() -> None:
    """Forget everything that was captured; the next call of each compiled callable captures again."""
    noted: set[weakref.ref[_core.Compiled]] = _made.data.copy()  # type: ignore[attr-defined]
    for ref in noted:  # copied at one stroke: other threads may add to it
        compiled = ref()
        if compiled is not None:
            compiled.reset()


def find_compiled(function: Any) -> list[_core.Compiled]:
    """The core's callables behind something that `compile` gave."""
    if isinstance(function, types.MethodType):
        function = function.__func__
    if isinstance(function, _core.Compiled):
        return [function]
    callables = getattr(function, "_magneto_callables", None)
    if callables is not None:
        return list(callables())
    raise TypeError(f"magneto.compile did not make this: {function!r}")
