"""`magneto.config`: the settings.

`torch._dynamo.config` is where they are once it is loaded. Before that they are here, and nobody imports it for them.
"""

from __future__ import annotations

import contextlib
import copy
import os
import posix
import sys
import threading
from collections.abc import Container, Iterator
from typing import Any

from magneto import _imports
from magneto._settings import ALIASES, COMPILER_SETTINGS, OWN, SETTINGS

_NAME = "torch._dynamo.config"

_set: dict[str, Any] = {}
"""What was set here while torch's configuration was not loaded; and the settings that torch does not have."""

_lock = threading.Lock()
_carried: Any = None
"""Torch's configuration, once what was set here has been put there."""

_plain: frozenset[str] = frozenset()
"""The settings of torch's configuration that have a value and nothing else to them."""
_unset: Any = None
"""What torch's configuration has in place of a value that was not set."""

_compiler: Any = None
"""torch.compiler.config, once it is loaded."""
_plain_of_compiler: frozenset[str] = frozenset()
"""As `_plain`, of that."""

_waits = False
"""Whether somebody tells when it is loaded."""


def _keep(name: str, value: Any) -> Any:
    """Set a name here, until torch's configuration is loaded."""
    global _waits
    _set[name] = value
    if not _waits and name not in OWN:
        _waits = True
        _imports.when_imported(_NAME, _carry)
    return value


def _torch_config() -> Any:
    """`torch._dynamo.config` if it is loaded, with all in it that was set here before."""
    module = sys.modules.get(_NAME)
    if module is _carried or module is None:
        return module
    if not hasattr(module, "_config"):  # another thread is loading it
        return None
    return _carry(module)


def _carry(module: Any) -> Any:
    global _carried, _plain, _unset
    with _lock:
        if module is not _carried:
            for name in [name for name in _set if name not in OWN]:
                value = _set.pop(name)
                if name in module._config and value != module._config[name].default:
                    _put(module, name, value)
            _plain, _unset = _find_plain(module, SETTINGS.keys() - OWN.keys() - ALIASES.keys())
            _carried = module
    return module


def _find_plain(module: Any, names: Container[str]) -> tuple[frozenset[str], Any]:
    """Which settings have a value and nothing else to them, and what stands for a value that was not set."""
    from torch.utils._config_module import _UNSET_SENTINEL as UNSET

    return frozenset(
        name
        for name, entry in module._config.items()
        if name in names and not entry.deprecated and entry.alias is None and entry.justknob is None
        if entry.env_value_force is UNSET
    ), UNSET


def _put(module: Any, name: str, value: Any) -> None:
    """Set a name of torch's configuration for all threads; if this one has set it already, for this one."""
    entry = module._config[name]
    if _is_overridden(entry):
        setattr(module, name, value)
        return
    entry.env_value_default = value  # as if it came from the environment: the others are of one thread each
    module._hash_dirty_var.set(True)
    module._mark_get_dict_dirty(name)


def _is_overridden(entry: Any) -> bool:
    from torch.utils._config_module import _UNSET_SENTINEL

    return entry.user_override.get() is not _UNSET_SENTINEL


_simple = {
    name: (setting.default, setting.variable.encode() or None)
    for name, setting in (*SETTINGS.items(), *OWN.items())
    if name not in ALIASES and not isinstance(setting.default, (set, list, dict))
}
"""The defaults of settings that can't be changed in place, and the environment variables that say otherwise."""


def _find(name: str) -> Any:
    """A setting while torch's configuration is not loaded."""
    if name in _set:
        return _set[name]
    setting = SETTINGS[name] if name in SETTINGS else OWN[name]
    if setting.variable and setting.variable in os.environ:
        return setting.read(os.environ[setting.variable])
    if isinstance(setting.default, (set, list, dict)):  # the program may change it in place
        return _keep(name, copy.deepcopy(setting.default))
    return setting.default


def _read(entry: Any) -> Any:
    """The value of a plain setting, in a sixth of the time that torch takes; `_unset` if only torch can tell."""
    if entry.hide:
        return _unset
    value = entry.user_override.get()
    if value is _unset:
        value = entry.env_value_default
    if value is _unset and not isinstance(entry.default, (set, list, dict)):
        return entry.default
    return value


def get(name: str) -> Any:
    """The value of a setting, as the running thread sees it."""
    loaded: Any = sys.modules.get(_NAME)
    if loaded is None and name in _simple and name not in _set:
        default, variable = _simple[name]
        if variable is None or variable not in posix.environ:  # what os.environ keeps; quick to ask
            return default
    if name in _plain and loaded is _carried:
        value = _read(loaded._config[name])
        if value is not _unset:
            return value
    name = ALIASES.get(name, name)
    module = None if name in OWN else _torch_config()
    return _find(name) if module is None else getattr(module, name)


def of_compiler(name: str) -> Any:
    """The value of a setting of `torch.compiler.config` that has no other name."""
    global _compiler, _plain_of_compiler, _unset
    module: Any = sys.modules.get("torch.compiler.config")
    if module is not None and hasattr(module, "_config"):
        if module is not _compiler:
            _plain_of_compiler, _unset = _find_plain(module, COMPILER_SETTINGS)
            _compiler = module
        value = _read(module._config[name]) if name in _plain_of_compiler else _unset
        return getattr(module, name) if value is _unset else value
    setting = COMPILER_SETTINGS[name]
    return setting.read(os.environ[setting.variable]) if setting.variable in os.environ else setting.default


class Config:
    """Settings for all compiled callables, under the names of `torch._dynamo.config`, which says the same.

    docs/settings.md has them all. They take effect at once, also on what is compiled already.
    """

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

    aot: bool
    """Whether inductor's graphs without gradients are compiled to libraries, which the cache on disk keeps."""

    background: bool
    """Whether inductor compiles in the background: calls run without it until it is done."""

    background_workers: int
    """How many processes compile in the background at once; 0 for half as many as there are processors, at most 4."""

    skip_modules: tuple[str, ...]
    """Names of modules and packages whose functions captures don't look into: calls of them are breaks."""

    ignore_logging_functions: set[Any]
    """Functions and methods, such as `logger.info`, whose calls captured code leaves out."""

    capture_scalar_outputs: bool
    """Capture `x.item()` and the like as numbers that depend on data. With `fullgraph` that is always done."""

    capture_dynamic_output_shape_ops: bool
    """Capture operations whose result has a size that depends on data. With `fullgraph` that is always done."""

    def __getattr__(self, name: str) -> Any:
        if name not in SETTINGS and name not in OWN and name not in ALIASES:
            if _torch_has(name):
                return getattr(_torch_config(), name)
            raise AttributeError(_unknown(name))
        return get(name)

    def __setattr__(self, name: str, value: Any) -> None:
        setting = SETTINGS.get(ALIASES.get(name, name)) or OWN.get(name)
        if setting is None and not _torch_has(name):
            raise AttributeError(_unknown(name))
        if setting is not None and type(value) is not type(setting.default) and name not in _OF_SEVERAL_TYPES:
            expected = type(setting.default)
            if expected in (bool, int, tuple, set):
                raise TypeError(f"magneto.config.{name} is of type {expected.__name__}, not {value!r}")
        name = ALIASES.get(name, name)
        module = None if name in OWN else _torch_config()
        if module is None:
            _keep(name, value)
        else:
            _put(module, name, value)

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"the setting {name!r} can't be deleted")

    def __dir__(self) -> list[str]:
        return sorted({*object.__dir__(self), *SETTINGS, *ALIASES, *OWN})

    @contextlib.contextmanager
    def patch(
        self, changes: dict[str, Any] | str | None = None, value: Any = None, /, **more: Any
    ) -> Iterator[None]:
        """Change settings for a `with` block, or as a decorator for each call of a function.

        `config.patch(recompile_limit=1)`, `config.patch({"recompile_limit": 1})`, `config.patch("recompile_limit", 1)`.
        """
        given = {changes: value} if isinstance(changes, str) else {**(changes or {}), **more}
        before = {name: getattr(self, name) for name in given}
        try:
            for name, new in given.items():
                setattr(self, name, new)
            yield
        finally:
            for name, old in before.items():
                setattr(self, name, old)

    def to_dict(self) -> dict[str, Any]:
        """All settings, without those that do nothing in any torch, and without other names of the same."""
        return {name: get(name) for name in (*SETTINGS, *OWN) if name not in _DEPRECATED}

    def __repr__(self) -> str:
        return f"magneto.config({', '.join(f'{name}={value!r}' for name, value in self.to_dict().items())})"


_OF_SEVERAL_TYPES = frozenset(("cprofile", "dynamo_profiler", "optimize_ddp"))
_DEPRECATED = frozenset(
    ("skip_code_recursive_on_recompile_limit_hit", "inline_inbuilt_nn_modules", "TYPE_CHECKING")
)
"""Torch warns where these are read."""


def _torch_has(name: str) -> bool:
    """Whether a torch that is newer than the table has the name."""
    module = _torch_config()
    return module is not None and not name.startswith("__") and name in module._config


def _unknown(name: str) -> str:
    import difflib

    text = f"magneto.config has no setting {name!r}"
    if name in COMPILER_SETTINGS:
        return f"{text}: it is one of torch.compiler.config"
    near = difflib.get_close_matches(name, [*SETTINGS, *ALIASES, *OWN], 1)
    return f"{text}; did you mean {near[0]!r}?" if near else f"{text}; docs/settings.md has them all"


config = Config()
