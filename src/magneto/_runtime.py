"""Sets the core up on first use: its tables, the class of twins, the propagation function."""

from __future__ import annotations

import logging
import threading
from typing import Any

import torch

from magneto import _core, _propagate, rules


class Twin(torch.Tensor):
    """Stands for a tensor during a capture: no data, and every torch function on it is recorded."""

    __slots__ = ("_magneto",)

    __torch_function__ = staticmethod(_core.torch_function)  # no Python frame in between


_lock = threading.RLock()
_torch_log = logging.getLogger("torch._subclasses.fake_tensor")


def propagate(*args: Any) -> Any:
    """What an operation gives; for one thread at a time, since a FakeTensorMode can't be used by two."""
    with _lock:
        _torch_log.disabled = (
            True  # it writes down each operation that fails; the program does what it wants with it
        )
        try:
            return _propagate.propagate(*args)
        finally:
            _torch_log.disabled = False


_tables = rules.tables()
_tables["calls"][_core.capturing] = "is_compiling"  # behind magneto.is_compiling()
_core.configure(_tables, Twin, propagate)
