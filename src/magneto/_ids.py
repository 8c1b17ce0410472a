"""Compile ids, which count as torch.compile's do: `3/1` is the second compilation of the fourth frame.

A frame is a code object, or one of its resume points. Where torch._dynamo is loaded its counters are used, so that an
id is never given twice in a process.
"""

from __future__ import annotations

import threading
import types
import weakref
from collections import Counter
from types import CodeType
from typing import Any

from torch._guards import CompileContext, CompileId

from magneto import _imports

_lock = threading.RLock()  # a finalizer may come while it is held

_frames: dict[int, tuple[weakref.ref[CodeType], dict[int, int]]] = {}
"""By the `id()` of a code object: the numbers of its frames, by offset."""

_seen = 0
"""What the counter of frames was when we last looked: if it is less, torch._dynamo was reset."""

_counters: Any = types.SimpleNamespace(FRAME_COUNTER=0, FRAME_COMPILE_COUNTER=Counter())


def _take_over(module: Any) -> None:
    """torch._dynamo.convert_frame was imported: count there from now on."""
    global _counters
    with _lock:
        module.FRAME_COUNTER += _counters.FRAME_COUNTER
        module.FRAME_COMPILE_COUNTER.update(_counters.FRAME_COMPILE_COUNTER)
        _counters = module


_imports.when_imported("torch._dynamo.convert_frame", _take_over)


def _forget(address: int, reference: weakref.ref[CodeType]) -> None:
    with _lock:
        known = _frames.get(address)
        if known is not None and known[0] is reference:
            del _frames[address]
            counts = _counters.FRAME_COMPILE_COUNTER
            for frame in known[1].values() if counts is not None else ():  # None: the interpreter exits
                counts.pop(frame, None)  # no id has this number again


def allocate(code: CodeType, offset: int) -> CompileId:
    """The id of a new compilation of a frame: of a code object (offset -1), or of the rest of it from an offset on."""
    global _seen
    prior = CompileContext.current_compile_id()
    with _lock:
        if _seen > _counters.FRAME_COUNTER:
            _frames.clear()
        address = id(code)
        known = _frames.get(address)
        if known is None:
            known = weakref.ref(code, lambda reference: _forget(address, reference)), {}
            _frames[address] = known
        frame = known[1].get(offset)
        if frame is None:
            frame = known[1][offset] = _counters.FRAME_COUNTER
            _counters.FRAME_COUNTER += 1
        _seen = _counters.FRAME_COUNTER
        compilation = _counters.FRAME_COMPILE_COUNTER[frame]
        _counters.FRAME_COMPILE_COUNTER[frame] += 1
    return CompileId(
        frame_id=frame,
        frame_compile_id=compilation,
        compiled_autograd_id=None if prior is None else prior.compiled_autograd_id,
    )


def reset() -> None:
    """Count from the start again."""
    global _seen
    with _lock:
        _frames.clear()
        _counters.FRAME_COUNTER = _seen = 0
        _counters.FRAME_COMPILE_COUNTER.clear()
