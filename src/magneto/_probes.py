"""What inductor finds out about the machine by trying, remembered for later processes.

It compiles a small library for each instruction set, and has a process of its own load it. The library it keeps in its
cache; that it could be loaded is remembered here, in the cache on disk, for this file and this processor.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterator
from typing import Any

import torch

from magneto import _aot, _diskcache


def _key(path: str) -> str | None:
    """The name under which it is remembered that a library could be loaded."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    said = ("probe", path, found.st_mtime_ns, found.st_size, torch.__version__, _aot.machine())
    return hashlib.sha256(repr(said).encode()).hexdigest()


@contextlib.contextmanager
def remembered(backend: Any) -> Iterator[None]:
    """For a `with` block in which inductor compiles: what was tried before is not tried again."""
    if not isinstance(backend, torch._TorchCompileInductorWrapper):
        yield
        return
    from torch._inductor.cpu_vec_isa import VecISA

    original = getattr(VecISA, "_probe_load", None)
    if original is None:
        yield
        return

    def probe(isa: Any, path: str) -> bool:
        key = _key(path)
        if key is not None and _diskcache.find(key) is not None:
            return True
        good = bool(original(isa, path))
        if good and key is not None:
            _diskcache.keep(key, {"name": f"instruction set {isa}", "torch": torch.__version__}, b"")
        return good

    VecISA._probe_load = probe  # type: ignore[assignment, method-assign]
    try:
        yield
    finally:
        VecISA._probe_load = original  # type: ignore[method-assign]
