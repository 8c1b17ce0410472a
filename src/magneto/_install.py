"""`magneto.install()`: torch.compile and its kin are magneto's, for code that nobody edits.

The functions stay the objects that they are, since programs and libraries hold them under names of their own: each gets
other code, which has the same parameters and asks here who is to do the work. Calls from torch's own modules stay
torch's, but for those modules that call in the user's name.
"""

from __future__ import annotations

import functools
import gc
import os
import sys
import types
from collections.abc import Callable
from typing import Any

from magneto import _imports, exc

_USERS = frozenset((
    "torch.compiler", "torch.nn.modules.module", "torch._dynamo.testing", "torch._dynamo.test_case",
    "torch._dynamo.test_minifier_common",
))  # fmt: skip
"""Modules of torch's whose calls are the user's."""

_USER_PACKAGES = ("torch.testing.", "torch.utils.benchmark.")


class _Change:
    """A function of torch's whose code was changed."""

    def __init__(
        self, key: str, function: types.FunctionType, ours: Callable[..., Any], always: bool
    ) -> None:
        self.function = function
        self.before = function.__code__
        self.ours = ours
        self.always = always
        """Whether calls by torch itself are ours too."""
        self.original = types.FunctionType(
            function.__code__,
            function.__globals__,
            function.__name__,
            function.__defaults__,
            function.__closure__,
        )
        """Does what the function did."""
        self.original.__kwdefaults__ = function.__kwdefaults__
        self.code = _code_like(function, key)

    def apply(self) -> None:
        self.function.__code__ = self.code

    def undo(self) -> None:
        if self.function.__code__ is self.code:  # else somebody has changed it again
            self.function.__code__ = self.before


_changes: dict[str, _Change] = {}
_waiting: dict[str, _imports.Callback] = {}


def install() -> None:
    """Make `torch.compile`, `nn.Module.compile` and what belongs to them in `torch._dynamo` magneto's.

    It holds at once and for all code of the process, also for names that were imported before, until
    `magneto.uninstall()`. What was compiled before stays what it is. Nothing is imported for it.
    """
    for module, functions in _REPLACED.items():
        if module not in _waiting:
            callback = functools.partial(_change, functions)
            _waiting[module] = callback
            _imports.when_imported(module, callback)


def uninstall() -> None:
    """Make them torch's again, exactly as they were. What was compiled meanwhile stays compiled."""
    while _waiting:
        _imports.forget(*_waiting.popitem())
    while _changes:
        _changes.popitem()[1].undo()


def _change(functions: dict[str, tuple[Callable[..., Any], bool]], module: types.ModuleType) -> None:
    for name, (ours, always) in functions.items():
        key = f"{module.__name__}.{name}"
        function = _find(module, name)
        if function is not None and key not in _changes:
            change = _changes[key] = _Change(key, function, ours, always)
            change.apply()


def _find(module: types.ModuleType, name: str) -> types.FunctionType | None:
    """The module's own function of this name, also where somebody has put a wrapper in its place, as lightning does."""
    found = getattr(module, name, None)
    while found is not None and not _is_own(found, module):
        found = getattr(found, "__wrapped__", None)
    if found is None:
        own = (
            value
            for value in gc.get_objects()
            if type(value) is types.FunctionType and _is_own(value, module)
        )
        found = next((value for value in own if value.__qualname__ == name), None)
    return found


def _is_own(function: Any, module: types.ModuleType) -> bool:
    return type(function) is types.FunctionType and function.__globals__ is module.__dict__


def _code_like(function: types.FunctionType, key: str) -> types.CodeType:
    """Code with a function's parameters, number of free variables, and place for `inspect` and tracebacks."""
    code = function.__code__
    names = iter(code.co_varnames)
    positional = [next(names) for _ in range(code.co_argcount)]
    keywords = [next(names) for _ in range(code.co_kwonlyargcount)]
    star = ["*" + next(names)] if code.co_flags & 0x04 else []
    stars = ["**" + next(names)] if code.co_flags & 0x08 else []
    only = code.co_posonlyargcount
    slash = ["/"] if only else []
    bare = ["*"] if keywords and not star else []
    parameters = [*positional[:only], *slash, *positional[only:], *star, *bare, *keywords, *stars]
    arguments = [repr(key), *positional, *star, *(f"{name}={name}" for name in keywords), *stars]
    # all of it in one line, the first of torch's function; free variables need only be named
    text = (
        f"def outer({', '.join(code.co_freevars)}):\n"
        f" def {function.__name__}({', '.join(parameters)}): "
        f"return __import__('magneto._install', fromlist=('call',)).call({', '.join(arguments)}); "
        f"({''.join(name + ', ' for name in code.co_freevars)})\n"
        f" return {function.__name__}"
    )
    space: dict[str, Any] = {}
    exec(text, space)
    made: types.CodeType = space["outer"](*code.co_freevars).__code__
    return made.replace(
        co_filename=code.co_filename,
        co_firstlineno=code.co_firstlineno,
        co_name=code.co_name,
        co_qualname=code.co_qualname,
    )


def call(key: str, /, *args: Any, **kwargs: Any) -> Any:
    """A call of one of torch's functions that were changed: made by magneto, or by torch if it is torch that calls."""
    change = _changes.get(key)
    if change is None:  # it was changed back while this call was on its way
        module, _, name = key.rpartition(".")
        return getattr(sys.modules[module], name)(*args, **kwargs)
    if change.always or _is_users(sys._getframe(1).f_back):
        return change.ours(change, *args, **kwargs)
    return change.original(*args, **kwargs)


def _is_users(frame: types.FrameType | None) -> bool:
    name = "" if frame is None else str(frame.f_globals.get("__name__", ""))
    if name != "torch" and not name.startswith("torch."):
        return True
    return name in _USERS or name.startswith(_USER_PACKAGES)


# ---- what is called in the place of torch's functions; what torch has of its own defaults is not passed on ----


def _given(change: _Change, arguments: dict[str, Any]) -> dict[str, Any]:
    defaults = change.original.__kwdefaults__ or {}
    return {
        name: value
        for name, value in arguments.items()
        if name not in defaults or value is not defaults[name]
    }


def _compile(change: _Change, model: Any = None, **arguments: Any) -> Any:
    from magneto import compile

    if sys.modules["torch"].compiler.is_exporting():  # torch leaves it out, and says so
        return change.original(model, **arguments)
    return compile(model, **_given(change, arguments))


def _optimize(
    change: _Change,
    backend: Any = "inductor",
    *,
    nopython: bool = False,
    error_on_graph_break: bool | None = None,
    guard_export_fn: Callable[[Any], None] | None = None,
    guard_fail_fn: Callable[[Any], None] | None = None,
    guard_filter_fn: Any = None,
    disable: bool = False,
    **arguments: Any,
) -> Any:
    if disable:
        return _as_it_is
    return _decorator(
        backend,
        fullgraph=nopython,
        error_on_graph_break=None if nopython else error_on_graph_break,
        guard_export_fn=guard_export_fn,
        guard_fail_fn=guard_fail_fn,
        guard_filter_fn=guard_filter_fn,
        **arguments,
    )


def _optimize_assert(
    change: _Change,
    backend: Any,
    *,
    hooks: Any = None,
    export: bool = False,
    export_constraints: Any = None,
    rebuild_ctx: Any = None,
    **arguments: Any,
) -> Any:
    if export or export_constraints is not None:
        raise exc.MagnetoError("magneto does not export: call torch.export.export, which stays torch's own")
    return _decorator(
        backend,
        fullgraph=True,
        guard_export_fn=getattr(hooks, "guard_export_fn", None),
        guard_fail_fn=getattr(hooks, "guard_fail_fn", None),
        guard_filter_fn=getattr(hooks, "guard_filter_fn", None),
        **arguments,
    )


def _decorator(
    backend: Any,
    *,
    guard_filter_fn: Any,
    dynamic: bool | None = None,
    package: Any = None,
    recompile_limit: int | None = None,
    isolate_recompiles: bool = False,
    shapes_spec: Any = None,
    **arguments: Any,
) -> Any:
    from magneto._compile import Settings

    if package is not None:
        raise exc.MagnetoError(
            "what magneto captures can't be saved, so there is nothing to put into a CompilePackage: leave package out"
        )
    if os.environ.get("TORCHDYNAMO_DISABLE") == "1":
        return _as_it_is
    return Settings(
        backend=backend,
        options=None if guard_filter_fn is None else {"guard_filter_fn": guard_filter_fn},
        dynamic=dynamic,
        recompile_limit=recompile_limit,
        isolate_recompiles=isolate_recompiles,
        shapes_spec=shapes_spec,
        **arguments,
    )


def _as_it_is(model: Any) -> Any:
    """The decorator of `torch._dynamo.optimize(disable=True)`."""
    return model


def _run(change: _Change, fn: Any = None) -> Any:
    from magneto import run

    return run(fn)


def _explain(change: _Change, f: Any, *args: Any, **kwargs: Any) -> Any:
    from magneto import explain

    return explain(f, *args, **kwargs)


def _reset(change: _Change) -> None:
    from magneto import reset

    change.original()
    reset()


def _remove_from_cache(change: _Change, f: Any) -> None:
    from magneto import _compile

    change.original(f)
    code = f if isinstance(f, types.CodeType) else getattr(f, "__code__", None)
    if code is not None:
        _compile.forget(code)


_REPLACED: dict[str, dict[str, tuple[Callable[..., Any], bool]]] = {
    "torch": {"compile": (_compile, False)},
    "torch._dynamo": {"reset": (_reset, True), "reset_code_caches": (_reset, True)},
    "torch._dynamo.decorators": {"run": (_run, False)},
    "torch._dynamo.eval_frame": {
        "optimize": (_optimize, False),
        "optimize_assert": (_optimize_assert, False),
        "explain": (_explain, False),
        "remove_from_cache": (_remove_from_cache, True),
    },
}
"""Modules, and their functions that are changed. `nn.Module.compile` and those of torch.compiler call these."""
