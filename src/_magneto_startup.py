"""Imported by magneto.pth at the start of a Python process with MAGNETO=1: installs magneto when torch is imported.

A process that never imports torch does not import magneto either.
"""

from __future__ import annotations

import importlib.util
import sys
from types import ModuleType


def _load_imports() -> ModuleType | None:
    """`magneto._imports`, without the package: this process may not need that."""
    package = importlib.util.find_spec("magneto")
    for folder in (package and package.submodule_search_locations) or ():
        spec = importlib.util.spec_from_file_location("magneto._imports", f"{folder}/_imports.py")
        if spec is not None and spec.loader is not None:
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            sys.modules[spec.name] = module  # the package will find it there
            return module
    return None


def _install(torch: ModuleType) -> None:
    import warnings

    try:
        import magneto

        magneto.install()
    except ImportError as error:
        warnings.warn(f"MAGNETO is set, but magneto can't be used: {error}", RuntimeWarning, stacklevel=1)


_imports = sys.modules.get("magneto._imports") or _load_imports()
if _imports is not None:
    _imports.when_imported("torch", _install)
