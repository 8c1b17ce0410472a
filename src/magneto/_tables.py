"""What torch._dynamo keeps tables of, for whoever looks there: codes, failed guards, breaks, frames that were skipped.

Told where torch._dynamo is loaded. A table that torch lets grow for good is not grown beyond `MOST`.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from types import CodeType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from magneto._events import BreakReason

log = logging.getLogger("magneto")

MOST = 1000
"""How many codes with failed guards, and how many breaks, are noted."""


def _loaded(name: str) -> Any:
    module = sys.modules.get(f"torch._dynamo.{name}")
    return None if module is None or getattr(module.__spec__, "_initializing", False) else module


def looked_at(code: CodeType) -> None:
    """A frame is about to be compiled."""
    module = _loaded("convert_frame")
    if module is not None:
        codes = module.input_codes  # not output_codes: torch.compile would leave the function alone
        codes.add(code)
        if len(codes.seen) > 2 * len(codes.seen_ids) + MOST:  # torch keeps references to dead ones
            codes.seen[:] = [reference for reference in codes.seen if reference() is not None]


def guard_failed(reason: str, code: CodeType, hook: Callable[[Any], None] | None) -> None:
    """A call does not fit an entry. The hook is torch's `guard_fail_fn`."""
    module = _loaded("utils")
    if module is not None and (code in module.guard_failures or len(module.guard_failures) < MOST):
        module.guard_failures[code].append(reason)
    if hook is None:
        return
    from torch._dynamo.types import GuardFail

    try:
        hook(GuardFail(reason, code))
    except Exception:  # as in torch
        log.exception("guard_fail_fn has failed")


def broke(reason: BreakReason) -> None:
    """A graph ends."""
    module, utils = _loaded("output_graph"), _loaded("utils")
    if module is not None and utils is not None:
        module.GraphCompileReason(str(reason), reason.user_stack)  # adds itself to graph_break_reasons
        del utils.graph_break_reasons[:-MOST]


def skipped(reason: BreakReason, code: CodeType) -> None:
    """A frame is left to CPython."""
    module = _loaded("eval_frame")
    if module is not None and module.dynamo_tls.skip_reasons is not None:
        where = f"{code.co_name} ({code.co_filename}:{code.co_firstlineno})"
        module.dynamo_tls.skip_reasons.append(f"{where}: {reason}")
