"""What users say about single functions, about breaks, and about capture at all.

The names, arguments and meanings are those of `torch.compiler` and `torch._dynamo`. The marks are attributes with the
names that torch gives them, so that each side understands the other's; torch._dynamo itself is never imported here.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import inspect
import sys
import threading
import types
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any, TypeVar

from magneto import _config, _core, _hints, _wrappers, exc

_F = TypeVar("_F", bound=Callable[..., Any])


# ---- functions that are not to be captured ----


def innermost(function: Any) -> Any:
    """The function behind the wrappers of `disable` and of torch.compile."""
    while getattr(function, "_torchdynamo_wrapper_id", None) == id(function):
        function = function._orig_mod if _is_module(function) else function._torchdynamo_orig_callable
    return function


def disable(fn: Any = None, recursive: bool = True, *, reason: str | None = None) -> Any:
    """Have captures stop at calls of a function, which is then called in CPython. Also a decorator.

    The result is a wrapper, so that the function itself can still be captured. Of a class, the making of instances and
    their calls are disabled; of a module, its calls.

    - `recursive`: whether the same holds for all that the function calls. If not, only the frame of the function itself
      is left to CPython, and the functions that it calls are captured one by one.
    - `reason`: shown where the break is.
    """
    if fn is None:
        return functools.partial(disable, recursive=recursive, reason=reason)
    fn = innermost(fn)
    if not callable(fn):
        raise TypeError(f"only a callable can be disabled, not {fn!r}")
    if isinstance(fn, type):
        for name in ("__init__", "__call__"):
            method = getattr(fn, name)
            if inspect.isfunction(method):
                setattr(fn, name, disable(method, recursive, reason=reason))
        return fn
    if _is_module(fn):
        from magneto._module import DisabledModule

        return DisabledModule(fn, recursive, reason)

    @functools.wraps(fn)
    def disabled(*args: Any, **kwargs: Any) -> Any:
        return fn(*args, **kwargs)

    return _mark_disabled(disabled, fn, recursive, reason)


def _mark_disabled(wrapper: Any, function: Any, recursive: bool, reason: str | None) -> Any:
    wrapper._torchdynamo_disable = True
    wrapper._torchdynamo_disable_msg = reason
    wrapper._torchdynamo_disable_recursive = recursive
    wrapper._torchdynamo_orig_callable = function
    wrapper._torchdynamo_wrapper_id = id(wrapper)
    return wrapper


def _is_module(value: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.nn.Module)


def skip(fn: Any = None) -> Any:
    """Have captures stop at calls of a function, which is marked and given back. Also a decorator.

    What it calls is captured function by function. `magneto.config.skip_modules` has captures stop at calls of all
    functions of a module.
    """
    if fn is None:
        return skip
    fn = innermost(fn)
    if not callable(fn):
        raise TypeError(f"only a callable can be skipped, not {fn!r}")
    fn._torchdynamo_disable = True
    fn._torchdynamo_disable_recursive = False
    return fn


def graph_break(msg: str = "") -> None:
    """End the graph here, and go on with another. Does nothing outside of captured code."""


def forbid_in_graph(fn: Any) -> Any:
    """Have captures fail with an `AssertionError` at calls of a function, or of several. Also a decorator."""
    if isinstance(fn, (list, tuple)):
        return [forbid_in_graph(one) for one in fn]
    if not callable(fn):
        raise TypeError(f"only a callable can be forbidden, not {fn!r}")
    fn._dynamo_forbidden = True
    return fn


# ---- functions that are captured in another way ----


def allow_in_graph(fn: Any) -> Any:
    """Have calls of a function, or of several, be one node of the graph, and not look into it. Also a decorator.

    It must not do anything but compute tensors from its arguments.
    """
    if isinstance(fn, (list, tuple)):
        return [allow_in_graph(one) for one in fn]
    return _rule(fn, "record")


def disallow_in_graph(fn: Any) -> Any:
    """Have captures stop at calls of a function that would be a node of the graph, such as `torch.sub`."""
    if isinstance(fn, (list, tuple)):
        return [disallow_in_graph(one) for one in fn]
    return _rule(fn, "break")


def nonstrict_trace(fn: _F) -> _F:
    """Like `allow_in_graph`, for a wrapper of the function: the function itself can still be captured."""
    if not callable(fn):
        raise TypeError(f"not a callable: {fn!r}")

    @functools.wraps(fn)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return fn(*args, **kwargs)

    result: _F = _rule(wrapper, "record")
    return result


def assume_constant_result(fn: _F) -> _F:
    """Have a function be called during captures only: what it returns then is its result for good. Also a decorator."""
    fn._dynamo_marked_constant = True  # type: ignore[attr-defined]
    return fn


replaced: dict[Any, Any] = {}
"""Callables, and what captured code calls in their place."""


def substitute_in_graph(
    original_fn: Callable[..., Any],
    *,
    can_constant_fold_through: bool = False,
    skip_signature_check: bool = False,
) -> Callable[[_F], _F]:
    """A decorator for a Python function that captured code is to call in place of `original_fn`, mostly a C function.

    What the decorator returns calls `original_fn` outside of captured code.
    """
    if not callable(original_fn) or isinstance(original_fn, type):
        raise TypeError(f"a function is needed, not {original_fn!r}")

    def decorate(traceable_fn: _F) -> _F:
        if not inspect.isfunction(traceable_fn):
            raise TypeError(f"a Python function is needed, not {traceable_fn!r}")
        if not skip_signature_check:
            _compare_signatures(original_fn, traceable_fn)
        if original_fn in replaced:
            raise ValueError(f"there is a substitute for {original_fn!r} already")

        @functools.wraps(traceable_fn)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            return original_fn(*args, **kwargs)

        wrapper.__torch_dynamo_original__ = original_fn  # type: ignore[attr-defined]
        wrapper.__torch_dynamo_polyfill__ = traceable_fn  # type: ignore[attr-defined]
        wrapper.__torch_dynamo_can_constant_fold_through__ = can_constant_fold_through  # type: ignore[attr-defined]
        replaced[original_fn] = traceable_fn
        return wrapper  # type: ignore[return-value]

    return decorate


def _compare_signatures(original: Callable[..., Any], other: Callable[..., Any]) -> None:
    try:
        first = inspect.signature(original)
    except ValueError:  # a C function may have none
        return
    second = inspect.signature(other)
    if _shape(first) != _shape(second) and _shape(first)[0] != () and _shape(second)[0] != ():
        raise TypeError(f"{original!r} takes {first}, and its substitute takes {second}")


def _shape(signature: inspect.Signature) -> tuple[tuple[str, ...], frozenset[str], dict[str, Any]]:
    """Names and defaults, without those of *args and **kwargs."""
    kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    named = [one for one in signature.parameters.values() if one.kind not in kinds]
    keywords = frozenset(one.name for one in named if one.kind is inspect.Parameter.KEYWORD_ONLY)
    return (
        tuple(one.name for one in named if one.name not in keywords),
        keywords,
        {one.name: one.default for one in named},
    )


def _rule(function: Any, rule: str) -> Any:
    if not callable(function):
        raise TypeError(f"not a callable: {function!r}")
    if type(function) is types.FunctionType:
        function._magneto_rule = (rule, id(function))  # type: ignore[attr-defined]
        return function
    from magneto import _runtime

    _core.configure({"calls": {function: rule}}, _runtime.Twin, _runtime.propagate)
    return function


# ---- breaks that are errors ----

_error_on_graph_break = False
"""Read by csrc/policy/control.c where a capture has to stop, as the captured code sees it."""


class error_on_graph_break:
    """Make breaks errors (`magneto.exc.Unsupported`), or breaks again, in a `with` block or a decorated function.

    It counts where the captured code is when it has to stop: part of a function may be strict. `fullgraph=True` makes
    all breaks errors whatever is said here.
    """

    def __init__(self, error_on_graph_break: bool = True) -> None:
        self.error_on_graph_break = error_on_graph_break
        self.previous: list[bool] = []

    def __call__(self, function: _F) -> _F:
        return _wrappers.within(self, function)  # type: ignore[return-value]

    def __enter__(self) -> None:
        global _error_on_graph_break
        self.previous.append(_error_on_graph_break)
        _error_on_graph_break = self.error_on_graph_break

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        global _error_on_graph_break
        _error_on_graph_break = self.previous.pop()


# ---- stances ----

_STANCES = (
    "default", "force_eager", "eager_on_recompile", "fail_on_recompile", "eager_then_compile", "aot_eager_then_compile",
)  # fmt: skip
_FORCE_BACKEND, _SKIP_GUARDS = 6, 7  # numbers in csrc/policy/stance.h; the others are places in the tuple


class _Stance:
    """A stance that can be in force."""

    def __init__(self, stance: str, skip_guard_eval_unsafe: bool, backend: Any) -> None:
        if stance not in _STANCES:
            raise RuntimeError(
                f"there is no stance {stance!r}{_hints.did_you_mean(stance, _STANCES)} There are {', '.join(_STANCES)}."
            )
        if backend is not None and stance != "default":
            raise RuntimeError("force_backend needs the stance 'default'")
        self.stance = stance
        self.skip_guard_eval_unsafe = skip_guard_eval_unsafe
        self.backend = backend

    def number(self) -> int:
        """That of csrc/policy/stance.h."""
        if self.backend is not None:
            return _FORCE_BACKEND
        if self.stance == "default" and self.skip_guard_eval_unsafe:
            return _SKIP_GUARDS
        return _STANCES.index(self.stance)


_stance = _Stance("default", False, None)


def _set_stance(stance: _Stance) -> _Stance:
    global _stance
    if _core.capturing():
        raise RuntimeError("the stance can't be set in captured code")
    previous, _stance = _stance, stance
    _core.stance(stance.number())
    return previous


class set_stance(contextlib.ContextDecorator):
    """Set what is done about captures: as a function for good, as a context manager or a decorator for a while.

    - `"default"`: captures are made as they are needed.
    - `"force_eager"`: compiled callables run in CPython, as if they had not been compiled.
    - `"eager_on_recompile"`: what was captured so far is used; what fits none of it runs in CPython.
    - `"fail_on_recompile"`: what was captured so far is used; what fits none of it is an error that names the guard.
    - `"eager_then_compile"`: the first call of each callable runs in CPython.
    - `"aot_eager_then_compile"`: the first call of each callable is compiled by the backend `aot_eager`.

    `force_backend` has all captures made for this backend while the stance is `"default"`. `skip_guard_eval_unsafe` has
    a call that fits nothing raise a `RuntimeError`; the guards are checked all the same.
    """

    _dynamo_forbidden = True

    def __init__(
        self,
        stance: str = "default",
        *,
        skip_guard_eval_unsafe: bool = False,
        force_backend: str | Callable[..., Any] | None = None,
    ) -> None:
        self.stance = _Stance(stance, skip_guard_eval_unsafe, force_backend)
        self.previous = _set_stance(self.stance)

    def __call__(self, function: Any) -> Any:
        _set_stance(self.previous)  # it was not meant for now
        stance = self.stance

        @functools.wraps(function)
        def inner(*args: Any, **kwargs: Any) -> Any:
            previous = _set_stance(stance)
            try:
                return function(*args, **kwargs)
            finally:
                _set_stance(previous)

        inner._dynamo_forbidden = True  # type: ignore[attr-defined]
        return inner

    def __enter__(self) -> None:
        _set_stance(self.stance)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        _set_stance(self.previous)


def run(fn: Any = None) -> Any:
    """Have a compiled callable use what was captured so far, and capture no more. Also a context manager."""
    if fn is None:
        return _run_only()
    if not callable(fn):
        raise TypeError(f"not a callable: {fn!r}")

    @functools.wraps(fn)
    def inner(*args: Any, **kwargs: Any) -> Any:
        with _run_only():
            return fn(*args, **kwargs)

    return inner


@contextlib.contextmanager
def _run_only() -> Iterator[None]:
    previous = _set_stance(_Stance("eager_on_recompile", False, None))
    try:
        yield
    finally:
        _set_stance(previous)


def is_first_by_aot() -> bool:
    """Whether the stance asks for first calls to be compiled by aot_eager."""
    return _core.stance() == _STANCES.index("aot_eager_then_compile")


def forced(compiled: _core.Compiled) -> Any:
    """What is called in place of a compiled callable while another backend is forced."""
    backend = _stance.backend
    if backend is None:
        backend = sys.modules["torch._dynamo.eval_frame"]._stance.backend
    made: dict[Any, _core.Compiled] | None = getattr(compiled, "_magneto_forced", None)
    if made is None:
        made = compiled._magneto_forced = {}
    other = made.get(backend)
    if other is None:
        from magneto._compile import Settings

        other = Settings(backend=backend, fullgraph=compiled.fullgraph).make(
            compiled.function, exc.name_of(compiled)
        )
        other.forced = 1
        made[backend] = other
    return other


# ---- shapes ----


@dataclasses.dataclass(frozen=True)
class _Bounds:
    """Within which bounds a dimension changes, as torch's functions note it."""

    dim: int
    min: int | None
    max: int | None


def mark_dynamic(
    t: Any,
    index: int | list[int] | tuple[int, ...],
    *,
    min: int | None = None,
    max: int | None = None,
    **_: Any,
) -> None:
    """Say that dimensions of a tensor change from call to call, within `min` and `max`.

    A capture that takes one for a constant, or can't do with all sizes within the bounds, raises
    `ConstraintViolationError`.
    """
    _mark(t, index, "_dynamo_dynamic_indices")
    bounds = {_Bounds(one, min, max) for one in ((index,) if isinstance(index, int) else index)}
    t._dynamo_dynamic_range = getattr(t, "_dynamo_dynamic_range", set()) | bounds


def maybe_mark_dynamic(t: Any, index: int | list[int] | tuple[int, ...]) -> None:
    """Say that dimensions of a tensor may change from call to call; a capture may still take one for a constant."""
    _mark(t, index, "_dynamo_weak_dynamic_indices")


def mark_static(t: Any, index: int | list[int] | tuple[int, ...] | None = None) -> Any:
    """Say that dimensions of a tensor don't change; of a module class, that attributes of its instances don't."""
    if _core.capturing():
        return None
    if isinstance(t, type):
        t._dynamo_marked_static = True  # type: ignore[attr-defined]
        return t
    _mark(t, tuple(range(t.dim())) if index is None else index, "_dynamo_static_indices")
    return None


def _mark(tensor: Any, index: int | list[int] | tuple[int, ...], name: str) -> None:
    marked = getattr(tensor, name, None)
    if marked is None:
        marked = set()
        setattr(tensor, name, marked)
    marked.update((index,) if isinstance(index, int) else index)
    tensor._has_dynamo_dim_marking = True


mark_dynamic._dynamo_forbidden = True  # type: ignore[attr-defined]
maybe_mark_dynamic._dynamo_forbidden = True  # type: ignore[attr-defined]


# ---- what was said through torch._dynamo ----

ignored: set[Any] = set()
"""Logging functions whose calls captured code leaves out."""


def refresh() -> None:
    """At the start of each capture: look at what torch._dynamo was told."""
    wanted = _config.get("ignore_logging_functions")
    if wanted != ignored:
        ignored.clear()
        ignored.update(wanted)
    skipped = (
        () if _config.get("dont_skip_tracing") else _config.get("skip_modules"),
        _config.get("dont_skip_tracing"),
    )
    if skipped != _seen_skipped[0]:
        _seen_skipped[0] = skipped
        sys.modules["magneto._runtime"].judge_again()
    functions = sys.modules.get("torch._dynamo.variables.functions")
    if functions is not None:
        handlers = functions.PolyfilledFunctionVariable._get_polyfill_handlers()
        if len(handlers) != _seen_handlers[0]:
            _seen_handlers[0] = len(handlers)
            for original, wrapper in handlers.items():
                polyfill = getattr(wrapper, "__torch_dynamo_polyfill__", None)
                if polyfill is not None and not str(polyfill.__module__).startswith("torch._dynamo."):
                    replaced[original] = polyfill


_seen_handlers = [0]
_seen_skipped: list[Any] = [((), False)]

_symbols = (False, False)

# Settings that say which sizes become symbols, in the order of `_core.set_dynamic`, and what makes each true there.
_DYNAMIC = (
    ("assume_static_by_default", True),
    ("automatic_dynamic_shapes", True),
    ("specialize_int", False),
    ("specialize_float", False),
    ("allow_ignore_mark_dynamic", False),
    ("force_parameter_static_shapes", True),
    ("force_nn_module_property_static_shapes", True),
    ("allow_unspec_int_on_nn_module", True),
)
_dynamic: tuple[bool, ...] = (True, True, True, True, True, True, True, False)


def take_symbols() -> None:
    """Have captures from now on make symbols of what depends on data, or not, as the settings say."""
    global _symbols, _dynamic
    symbols = (
        bool(_config.get("capture_scalar_outputs")),
        bool(_config.get("capture_dynamic_output_shape_ops")),
    )
    if symbols != _symbols:
        _symbols = symbols
        _core.allow_symbols(*symbols)
    dynamic = tuple(bool(_config.get(name)) is wanted for name, wanted in _DYNAMIC)
    if dynamic != _dynamic:
        _dynamic = dynamic
        _core.set_dynamic(*dynamic)
    advice = sys.modules.get("magneto._advice")
    if advice is not None:  # else nobody has observed a compilation yet: the core is used alone
        advice.take()


def _is_traced() -> bool:
    """Whether FX traces the code that calls. Its flag tells that it traces on some thread; frames tell on which."""
    tracing = sys.modules.get("torch.fx._symbolic_trace")
    if tracing is None or not tracing._is_fx_tracing_flag:
        return False
    here = threading.get_ident()
    for thread, top in sys._current_frames().items():
        frame: types.FrameType | None = (
            top if thread != here else None
        )  # the frames of the call are out of sight
        while frame is not None:
            if frame.f_globals is vars(tracing) and frame.f_code.co_name == "trace":
                return False
            frame = frame.f_back
    return True


def look(own: int, is_call: bool) -> int | None:
    """Where no entry fits: how many entries there may be, if the callable itself says `own` (-1 for nothing).

    None if the call is to be made in CPython, whatever else is said. A callable that runs already, and has FX trace
    something, is not called by what FX traces: that is left to CPython.
    """
    get = _config.get
    if get("disable"):
        return None
    if _is_traced() and not get("force_compile_during_fx_trace"):
        if is_call and get("error_on_nested_fx_trace"):
            raise RuntimeError(
                "Detected that you are using FX to symbolically trace a dynamo-optimized function. This is not "
                "supported at the moment. Trace the function itself; or set "
                "torch._dynamo.config.error_on_nested_fx_trace = False to have it traced as if it were not compiled."
            )
        return None
    take_symbols()
    limit = get("recompile_limit") if own < 0 else own
    return max(0, min(int(limit), int(get("accumulated_recompile_limit")), 1 << 30))


def is_traced_class(cls: type) -> bool:
    """Whether tensors of a class with behaviour of its own are captured: torch's settings may name it."""
    settings = sys.modules.get("torch._dynamo.config")
    return settings is None or cls not in settings.nontraceable_tensor_subclasses
