"""What captures ask about sizes and numbers before they decide which of them vary.

The core asks only while something is set that has an answer: a job id, under which earlier processes have noted what
varied (`_remembered`), or lists of sources and values in `torch.compiler.config`.
"""

from __future__ import annotations

import functools
import re
import sys
import types
from typing import Any

from magneto import _config, _core, _session

_NAMES = ("job_id", "dynamic_sources", "dynamic_values", "unbacked_sources")
_asks = False
_has_specs = False


def expect_specs() -> None:
    """Something is compiled with a `shapes_spec`: captures ask from now on."""
    global _has_specs
    _has_specs = True


def take() -> None:
    """Have captures from now on ask, or not, as the settings say."""
    global _asks
    wanted = _has_specs or any(map(_config.of_compiler, _NAMES))
    if wanted != _asks:
        _asks = wanted
        _core.set_adviser(ask if wanted else None, tell if wanted else None)


def named(text: str, root: Any, function: Any) -> str:
    """The text of a source with the names that TorchDynamo uses for closures."""
    while not isinstance(function, types.FunctionType) and hasattr(function, "__func__"):
        function = function.__func__
    if isinstance(root, types.CellType) and isinstance(function, types.FunctionType):
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=False):
            if cell is root:
                return re.sub(r"^<cell>\.cell_contents", f"L[{name!r}]", text)
    return text


def _name(text: str, root: Any) -> str:
    session = _session.current()
    return text if session is None else named(text, root, session.function)


# ---- lists of sources ----


@functools.lru_cache(8)
def _sources(text: str) -> tuple[tuple[str, int | None], ...]:
    """Patterns of sources, each with the one dimension that it is about, if it names one."""
    found = []
    for entry in text.replace(" ", "").split(","):
        match = re.match(r"^(.+):(\d+)$", entry)
        if entry:
            found.append((match[1], int(match[2])) if match else (entry, None))
    return tuple(found)


def _bits(text: str, name: str, dim: int) -> int:
    """Which dimensions of what lies at a source a list names, as bits; of a number the first."""
    bits = 0
    for pattern, index in _sources(text) if text else ():
        if pattern == name or re.match(pattern, name):
            if dim < 0:
                bits |= 1
            else:
                bits |= (1 << dim) - 1 if index is None else (1 << index) & ((1 << dim) - 1)
    return bits


@functools.lru_cache(8)
def _values(text: str) -> frozenset[int]:
    return frozenset(int(entry) for entry in text.replace(" ", "").split(",") if entry)


def _told(name: str, dim: int, sizes: tuple[Any, ...]) -> tuple[int, int]:
    """Which dimensions vary because a list says so, and which of them are unbacked: bits."""
    if dim == -2:  # there is no such thing for floats
        return 0, 0
    unbacked = _bits(_config.of_compiler("unbacked_sources"), name, dim)
    dynamic = _bits(_config.of_compiler("dynamic_sources"), name, dim) | unbacked
    values = _config.of_compiler("dynamic_values")
    if values:
        for index, size in enumerate(sizes):
            dynamic |= (size in _values(values)) << index
    return dynamic, unbacked


# ---- what the core calls ----


def ask(
    text: str, root: Any, dim: int, is_static: bool, sizes: tuple[Any, ...], strides: tuple[Any, ...]
) -> Any:
    """What is said of a tensor, an int (`dim` is -1) or a float (-2) at a source, which has these sizes now.

    Returns:
        Bits of what varies, is unbacked, does not vary, whatever was seen; then sizes and strides that it had when it
        was met before, with None for those that have varied, or None. `None` if nothing is said. An exception is
        raised in the call that is captured.
    """
    try:
        name = _name(text, root)
        session = _session.current()
        if session is not None and session.binding is not None and dim != -2:
            dynamic, fixed = session.binding.ask(name, text, dim, sizes)
            return dynamic, dynamic, fixed, None, None
        dynamic, unbacked = _told(name, dim, sizes)
        known = None if is_static else _known(name, dim, strides)
    except Exception as error:  # a pattern that is none, a job id that is reserved
        return error
    if known is None:
        return (dynamic, unbacked, 0, None, None) if dynamic else None
    return (dynamic, unbacked, 0, *known)


def _known(name: str, dim: int, strides: tuple[Any, ...]) -> Any:
    session = _session.current()
    if session is None or _config.of_compiler("job_id") is None:
        return None
    from magneto import _remembered

    return _remembered.find(session, name, dim, strides)


def tell(text: str, root: Any, dim: int, sizes: tuple[Any, ...], strides: tuple[Any, ...]) -> None:
    """Sizes and strides of what lies at a source, with None for those that have varied."""
    session = _session.current()
    if session is not None and _config.of_compiler("job_id") is not None:
        from magneto import _remembered

        _remembered.note(session, _name(text, root), dim, sizes, strides)


def end() -> None:
    """A frame was captured: what was learnt of it is written."""
    remembered = sys.modules.get("magneto._remembered")
    if remembered is not None:
        remembered.write()


def reset() -> None:
    """Forget what is in memory; what is on disk stays."""
    remembered = sys.modules.get("magneto._remembered")
    if remembered is not None:
        remembered.reset()
