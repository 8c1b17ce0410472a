"""Calls back when a module has been imported, now or later. Nothing is imported for it.

While somebody waits, one finder stands first in `sys.meta_path`. This file needs nothing of the package, since
`_magneto_startup` loads it alone at the start of a process.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

Callback = Callable[[ModuleType], None]

_waiting: dict[str, list[Callback]] = {}
_ended: set[str] = set()  # modules whose code has run, and of which this is being told


def when_imported(name: str, callback: Callback) -> None:
    """Call `callback` with the module of this name: at once if it is imported, else when that has been done."""
    module = _imported(name)
    if module is not None:
        callback(module)
        return
    _waiting.setdefault(name, []).append(callback)
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)


def forget(name: str, callback: Callback) -> None:
    """Don't call it any more."""
    callbacks = _waiting.get(name, [])
    if callback in callbacks:
        callbacks.remove(callback)
    if not callbacks:
        _waiting.pop(name, None)
    _leave_if_idle()


def _imported(name: str) -> ModuleType | None:
    """The module, if its code has run to its end."""
    module = sys.modules.get(name)
    initializing = getattr(getattr(module, "__spec__", None), "_initializing", False)
    return None if initializing and name not in _ended else module


def _call_back(name: str, module: ModuleType) -> None:
    callbacks = _waiting.pop(name, ())
    _leave_if_idle()
    for callback in callbacks:
        callback(module)


def _leave_if_idle() -> None:
    if not _waiting and _finder in sys.meta_path:
        sys.meta_path.remove(_finder)


class _Finder:
    """Finds nothing by itself: has the loader of a module that is waited for tell when it has run."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """What the other finders say."""
        for waited in list(_waiting):  # what was half imported when it was asked for
            module = _imported(waited)
            if module is not None:
                _call_back(waited, module)
        if name not in _waiting:
            return None
        for finder in list(sys.meta_path):
            find = None if finder is self else getattr(finder, "find_spec", None)
            spec: ModuleSpec | None = None if find is None else find(name, path, target)
            if spec is not None:
                if spec.loader is not None and hasattr(spec.loader, "exec_module"):
                    spec.loader = _Loader(spec.loader)  # type: ignore[assignment]
                return spec
        return None


class _Loader:
    """Stands before a module's loader until the module runs."""

    def __init__(self, loader: Any) -> None:
        self.loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        module: ModuleType | None = self.loader.create_module(spec)
        return module

    def exec_module(self, module: ModuleType) -> None:
        module.__loader__ = self.loader
        if module.__spec__ is not None:
            module.__spec__.loader = self.loader
        self.loader.exec_module(module)
        name = module.__name__
        _ended.add(name)
        try:
            _call_back(name, sys.modules.get(name, module))
        finally:
            _ended.discard(name)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.loader, name)


_finder: Any = _Finder()
