"""Sets the core up on first use: its tables, the class of twins, the propagation function."""

from __future__ import annotations

from typing import Any

import torch

from magneto import _control, _core, _imports, _rules
from magneto._compile import is_compiling


class Twin(torch.Tensor):
    """Stands for a tensor during a capture: no data, and every torch function on it is recorded."""

    __slots__ = ("_alias", "_magneto")

    __torch_function__ = staticmethod(_core.torch_function)  # no Python frame in between


# C code puts the name of a class into errors, which handlers of the program's see.
Twin.__name__, Twin.__qualname__, Twin.__module__ = "Tensor", "Tensor", "torch"


def propagate(*args: Any) -> Any:
    """What an operation returns, from metadata alone."""
    from magneto import _locks  # rarely needed: most operations have a shape function in C

    with _locks.compile_lock():
        from magneto import _propagate

        return _core.uninterrupted(_propagate.propagate, *args)


def symbols(scalars: bool, shapes: bool) -> Any:
    """What a capture keeps its symbolic values in; made when it meets the first."""
    from magneto import _symbols

    return _symbols.Session(scalars, shapes)


_tables = _rules.tables()
_tables["calls"].update(
    {_core.capturing: "is_compiling", is_compiling: "is_compiling", _control.graph_break: "user_break"}
)
_tables.update(
    judge=_rules.judge,
    flags=[(vars(_control), "_error_on_graph_break")],
    forced=_control.forced,
    refresh=_control.refresh,
    look=_control.look,
    replaced=_control.replaced,
    ignored=_control.ignored,
)
_tables["symbols"] = symbols
_core.configure(_tables, Twin, propagate)
_imports.when_imported("torch.distributed._functional_collectives", _rules.take_functional_collectives)


def judge_again() -> None:
    """Forget which modules are skipped."""
    _core.configure({"judge": _rules.judge}, Twin, propagate)
