"""`magneto.compile` and what goes with it."""

from __future__ import annotations

import copyreg
import functools
import inspect
import os
import sys
import types
import warnings
import weakref
from collections.abc import Callable
from typing import Any, TypeVar, overload

from magneto import _control, _core, _hints, exc

_F = TypeVar("_F", bound=Callable[..., Any])

_made: weakref.WeakSet[_core.Compiled] = weakref.WeakSet()


class Settings:
    """How something is compiled; can be copied and pickled if its backend can."""

    def __init__(
        self,
        *,
        fullgraph: bool = False,
        dynamic: bool | None = None,
        backend: Any = None,
        mode: str | None = None,
        options: dict[str, Any] | None = None,
        name: str | None = None,
        recompile_limit: int | None = None,
        isolate_recompiles: bool = False,
        shapes_spec: Any = None,
        guard_export_fn: Callable[[Any], None] | None = None,
        guard_fail_fn: Callable[[Any], None] | None = None,
        error_on_graph_break: bool | None = None,
        background: bool | None = None,
    ) -> None:
        if mode is not None and options is not None:
            raise RuntimeError("give either mode or options, not both")
        options = dict(options) if isinstance(options, dict) else options
        self.fullgraph = fullgraph
        self.dynamic = dynamic
        self.guard_filter_fn = options.pop("guard_filter_fn", None) if options else None
        self.use_aoti = bool(options.pop("use_aoti", False)) if options else False
        self.aot = _aot_option(options)
        self.background = background
        self.backend = _backend_now(backend)
        self.mode = mode
        self.options = options
        self.name = name
        self.recompile_limit = recompile_limit
        self.isolate_recompiles = isolate_recompiles
        self.shapes_spec = _check_shapes(dynamic, shapes_spec)
        self.guard_export_fn = guard_export_fn
        self.guard_fail_fn = guard_fail_fn
        self.error_on_graph_break = error_on_graph_break
        self.find()

    def find(self) -> Any:
        """The backend; raises if there is none of this name, or if it does not take the mode or options."""
        from magneto import _backends

        return _backends.find(
            self.backend,
            self.mode,
            self.options,
            self.dynamic,
            name=self.name,
            use_aoti=self.use_aoti,
            aot=self.aot,
            background=self.background,
        )

    def make(
        self, function: Callable[..., Any], name: str | None = None, seen: Any = None, compiler: Any = None
    ) -> _core.Compiled:
        """A compiled callable for something that has a Python frame. `compiler` is a class in place of
        `_backends.Compiler`."""
        from magneto import _backends, _events, _filter, _shared
        from magneto import _runtime as _runtime  # sets the core up

        backend = self.find()
        hooks = _events.Hooks(self.guard_export_fn, self.guard_fail_fn)
        observer = _events.Observer(name or exc.name_of(function), self.fullgraph, function, hooks)
        observer.spec = self.shapes_spec
        observer.maker = None if seen is not None else _shared.maker(backend)
        by = compiler or _backends.Compiler
        compiled = _core.Compiled(
            function,
            None if backend is None else by(backend, function, seen, observer),
            observer.stopped,
            observer.missed,
            captured=observer.captured,
            fullgraph=self.fullgraph,
            limit=-1 if self.recompile_limit is None else self.recompile_limit,
            started=observer.started,
            ended=observer.ended,
            filter=functools.partial(_filter.chosen, self.guard_filter_fn, self.guard_export_fn is not None),
            strict=-1 if self.error_on_graph_break is None else bool(self.error_on_graph_break),
        )
        compiled.breaks = not self.fullgraph
        compiled.dynamic = -1 if self.dynamic is None else int(self.dynamic)
        _made.add(compiled)
        return compiled

    def __call__(self, model: Any) -> Any:
        """A function, module or class, compiled in this way."""
        import torch

        if not callable(model):
            raise TypeError(f"only a callable can be compiled, not {_short(model)}")
        model = _control.innermost(model)
        if isinstance(model, torch.nn.Module):
            from magneto._module import OptimizedModule

            if isinstance(model, torch.jit.ScriptModule):
                return model
            return OptimizedModule(getattr(model, "_orig_mod", model), self)
        if isinstance(model, type):
            return self._compile_class(model)
        if isinstance(model, _core.Compiled):
            model = getattr(model, "__wrapped__", model.function)
        compiled = self.make(with_frame(model), exc.name_of(model))
        compiled.is_object = inspect.ismethod(compiled.function) and not inspect.ismethod(model)
        compiled.plain = inspect.isfunction(model) and bool(getattr(model, "_torchdynamo_disable", False))
        functools.update_wrapper(compiled, model)
        compiled._torchdynamo_inline = compiled._torchdynamo_orig_callable = model
        compiled._torchdynamo_wrapper_id = id(compiled)
        compiled._isolate_recompiles_id = -1
        compiled._is_torch_compile = True
        compiled.get_compiler_config = self.get_compiler_config
        compiled.aot_compile = aot_compile
        return compiled

    def _compile_class(self, cls: type) -> type:
        """A class stays the class: calls of its instances are compiled."""
        import torch

        names = ("__call__", "_call_impl") if issubclass(cls, torch.nn.Module) else ("__call__",)
        for name in names:
            method = inspect.getattr_static(cls, name, None)
            if callable(method):
                setattr(cls, name, self(method))
        return cls

    def __enter__(self) -> None:
        raise RuntimeError("what compiles functions is a decorator, and not a context manager")

    def __exit__(self, *exception: Any) -> None: ...

    def get_compiler_config(self) -> Any:
        """The settings of inductor; None for other backends."""
        config = getattr(self.find(), "get_compiler_config", None)
        return None if config is None else config()

    compiler_config = property(get_compiler_config)
    callback = property(find)
    first_ctx = True
    export = False

    @property
    def _dynamic(self) -> bool | None:
        return self.dynamic


def _aot_option(options: dict[str, Any] | None) -> bool | None:
    """Take the option `aot` out of those for the backend."""
    found = options.pop("aot", None) if options else None
    if not isinstance(found, (bool, types.NoneType)):
        raise TypeError(f"the option aot is True or False, not {found!r}")
    return found


def _backend_now(backend: Any) -> Any:
    """The backend that is meant: None is the default one, and a search for a fault in torch may ask for another."""
    if backend is None:
        registry = sys.modules.get("torch._dynamo.backends.registry")
        backend = "inductor" if registry is None else registry.get_default_backend()
    if "TORCH_BISECT_BACKEND" in os.environ or "torch._inductor.compiler_bisector" in sys.modules:
        from torch._inductor import config
        from torch._inductor.compiler_bisector import CompilerBisector

        asked = CompilerBisector.get_backend()
        keeps = config.test_configs.bisect_keep_custom_backend_for_inductor
        if asked and not (keeps and asked == "inductor" and not isinstance(backend, str)):
            return asked
    return backend


def _check_shapes(dynamic: bool | None, shapes_spec: Any) -> Any:
    """What is said about shapes as a specification; what is wrong in it is refused."""
    if shapes_spec is None:
        return None
    from magneto import _advice, _spec

    made = _spec.made(shapes_spec)
    if dynamic is not None:
        raise ValueError("give either dynamic or shapes_spec, not both")
    _advice.expect_specs()
    return made


@overload
def compile(
    model: _F,
    *,
    fullgraph: bool = ...,
    dynamic: bool | None = ...,
    backend: str | Callable[..., Any] | None = ...,
    mode: str | None = ...,
    options: dict[str, Any] | None = ...,
    name: str | None = ...,
    disable: bool = ...,
    recompile_limit: int | None = ...,
    isolate_recompiles: bool = ...,
    shapes_spec: Any = ...,
    background: bool | None = ...,
) -> _F: ...


@overload
def compile(
    model: None = ...,
    *,
    fullgraph: bool = ...,
    dynamic: bool | None = ...,
    backend: str | Callable[..., Any] | None = ...,
    mode: str | None = ...,
    options: dict[str, Any] | None = ...,
    name: str | None = ...,
    disable: bool = ...,
    recompile_limit: int | None = ...,
    isolate_recompiles: bool = ...,
    shapes_spec: Any = ...,
    background: bool | None = ...,
) -> Callable[[_F], _F]: ...


def compile(
    model: Any = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: str | Callable[..., Any] | None = None,
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    name: str | None = None,
    disable: bool = False,
    recompile_limit: int | None = None,
    isolate_recompiles: bool = False,
    shapes_spec: Any = None,
    background: bool | None = None,
    **unknown: Any,
) -> Any:
    """Compile a function, a method, a callable object or an `nn.Module`, as `torch.compile` does.

    Also a decorator, with or without arguments.

    - `fullgraph`: raise `magneto.exc.Unsupported` where capture has to stop, in place of a graph break; values that
      depend on data are captured, which else are breaks.
    - `dynamic`: which sizes and ints become symbols, so that one graph serves all of them: True for all, False for
      none, None for those that were seen to change from call to call.
    - `shapes_spec`: which sizes and ints of the arguments vary, as `torch.compile` takes it; all others are constants.
    - `backend`: a name (`magneto.list_backends()`), or a callable that gets a `torch.fx.GraphModule` and its example
      inputs and returns a callable. `"eager"` runs the captured operations as they are. None is the default backend,
      inductor unless `torch.compiler.set_default_backend` says otherwise.
    - `mode`, `options`: for the backend, as in `torch.compile`; but `options["guard_filter_fn"]` is given the guards of
      each entry, and says which are kept.
    - `name`: what inductor calls the region in its records.
    - `disable`: return `model` as it is.
    - `recompile_limit`: how many entries this callable may have, in place of `magneto.config.recompile_limit`.
    - `background`: have processes of their own compile with inductor: calls run the captured operations as they are
      until that is done. `magneto.wait()` waits for it. None is what `magneto.config.background` says.
    - `isolate_recompiles`: each compiled callable has its own entries, so there is nothing to isolate.
    """
    _check_arguments(fullgraph, dynamic, background, unknown)
    if model is None:

        def decorate(model: Any) -> Any:
            if model is None:
                raise RuntimeError("there is nothing to compile: the model is None")
            if not callable(model):
                raise TypeError(
                    f"compile without a model returns a decorator, which takes a function or a module: it was given an "
                    f"object of class {type(model).__name__}. Is the model None that was given to compile?"
                )
            return compile(
                model,
                fullgraph=fullgraph,
                dynamic=dynamic,
                backend=backend,
                mode=mode,
                options=options,
                name=name,
                disable=disable,
                recompile_limit=recompile_limit,
                isolate_recompiles=isolate_recompiles,
                shapes_spec=shapes_spec,
                background=background,
            )

        return decorate
    if not callable(model):
        raise TypeError(f"only a callable can be compiled, not {_short(model)}")
    if disable or os.environ.get("TORCHDYNAMO_DISABLE") == "1":
        return model
    import torch

    if torch.compiler.is_exporting():
        warnings.warn("what torch.export traces is not compiled", stacklevel=2)
        return model
    settings = Settings(
        fullgraph=fullgraph,
        dynamic=dynamic,
        backend=backend,
        mode=mode,
        options=options,
        name=name,
        recompile_limit=recompile_limit,
        isolate_recompiles=isolate_recompiles,
        shapes_spec=shapes_spec,
        background=background,
    )
    return settings(model)


_parameters = inspect.signature(compile).parameters
compile.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
    [parameter for name, parameter in _parameters.items() if name != "unknown"]
)


def _check_arguments(fullgraph: Any, dynamic: Any, background: Any, unknown: dict[str, Any]) -> None:
    """Arguments of the wrong name or type are errors: they would have no effect, or not the one that was meant."""
    for name in unknown:
        near = _hints.did_you_mean(name, (other for other in _parameters if other != "unknown"))
        raise TypeError(f"compile() got an unexpected keyword argument {name!r}{near}")
    if not isinstance(fullgraph, (int, types.NoneType)):
        raise TypeError(f"fullgraph is True or False, not {fullgraph!r}")
    if not isinstance(background, (bool, types.NoneType)):
        raise TypeError(f"background is True, False or None, not {background!r}")
    if not isinstance(dynamic, (bool, types.NoneType)):
        raise TypeError(f"dynamic is True, False or None, not {dynamic!r}")


def _short(value: Any) -> str:
    """What was given in place of something else, and what may have been meant."""
    import torch

    if isinstance(value, torch.Tensor):
        return "a tensor: compile the function itself, as in compile(f)(x), not what it returns, as in compile(f(x))"
    if isinstance(value, str):
        return f"the text {value!r}: a model is loaded before it is compiled"
    return repr(value) if isinstance(value, (int, float)) else f"an object of class {type(value).__name__}"


def with_frame(function: Any) -> Any:
    """A Python function or method that does what `function` does."""
    if isinstance(function, types.MethodType) and isinstance(function.__func__, _core.Compiled):
        return types.MethodType(function.__func__.function, function.__self__)
    if isinstance(function, types.FunctionType) or (
        isinstance(function, types.MethodType) and isinstance(function.__func__, types.FunctionType)
    ):
        return function
    if not isinstance(function, type) and type(type(function).__call__) is types.FunctionType:
        return types.MethodType(type(function).__call__, function)

    def call(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return call


def aot_compile(example_inputs: Any) -> Any:
    """What `torch.compile` has for making a file of what was compiled; not here yet."""
    raise exc.MagnetoError(
        "aot_compile is not there yet: what magneto captures can't be saved. For a file of compiled code use "
        "torch.export and torch._inductor.aoti_compile_and_package; or torch.compile itself, without magneto.install()."
    )


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
    for name, clear in (
        ("magneto._ids", "reset"),
        ("magneto._advice", "reset"),
        ("magneto._shared", "clear"),
        ("magneto._background", "reset"),
    ):
        module = sys.modules.get(name)
        if module is not None:
            getattr(module, clear)()


def forget(code: Any) -> None:
    """Forget what was captured of functions with this code."""
    noted: set[weakref.ref[_core.Compiled]] = _made.data.copy()  # type: ignore[attr-defined]
    for ref in noted:
        compiled = ref()
        if compiled is not None and getattr(compiled.function, "__code__", None) is code:
            compiled.reset()
    shared = sys.modules.get("magneto._shared")
    if shared is not None:
        shared.clear()


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
