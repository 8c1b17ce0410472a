"""The lock of whoever propagates or compiles: TorchDynamo's own, since much of torch can't be used by two threads.

There is but this one, so there is no order in which to take it. It is taken by a `with` statement and nothing else:
that is a single instruction, between which and the block no signal handler can raise.
"""

from __future__ import annotations

import sys
import threading
from typing import Any

from magneto import _core

loading = threading.RLock()
"""Held while large parts of torch are imported: a thread that forks waits, since a child can't use half of a module."""

_core.keep_at_fork(loading)

_fallback = threading.RLock()
"""Where there is no other yet: code that is run while `torch._dynamo` is being imported."""

_core.keep_at_fork(_fallback)

_found: Any = None


def compile_lock() -> Any:
    """The lock, an `RLock`. Imports `torch._dynamo`, as every `FakeTensorMode` does.

    It is there in whole afterwards. A thread that imports a part of it waits for that part only, and finds what
    another thread has half loaded; so the package comes first, which has one wait for all of it.
    """
    global _found
    if _found is None:
        with loading:  # a thread that forks waits: a half-loaded module can't be used by the child
            import torch._dynamo  # noqa: F401

        lock = getattr(sys.modules.get("torch._dynamo.convert_frame"), "compile_lock", None)
        if lock is None:
            return _fallback
        _core.keep_at_fork(lock)
        _found = lock
    return _found
