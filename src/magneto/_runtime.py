"""Sets the core up on first use: its tables, the class of twins, the propagation function."""

from __future__ import annotations

import logging
import threading
from typing import Any

import torch

from magneto import _control, _core, _propagate, rules
from magneto._compile import is_compiling


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
_tables["calls"].update(
    {_core.capturing: "is_compiling", is_compiling: "is_compiling", _control.graph_break: "user_break"}
)
_tables.update(
    judge=rules.judge,
    flags=[(vars(_control), "_error_on_graph_break")],
    forced=_control.forced,
    refresh=_control.refresh,
    replaced=_control.replaced,
    ignored=_control.ignored,
)
_core.configure(_tables, Twin, propagate)


def judge_again() -> None:
    """Forget which modules are skipped."""
    _core.configure({"judge": rules.judge}, Twin, propagate)
