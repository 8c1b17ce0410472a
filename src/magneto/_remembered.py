"""What varied, on disk: a process with the id of an earlier job captures with symbols at once.

The state has, by code object and source, the sizes and numbers that were met first, and None for those that were others
later. It is a JSON file in inductor's cache folder, beside the one that TorchDynamo would write: `TORCH_COMPILE_JOB_ID`
says which. A file that is damaged, or can't be read or written, is as none: nothing is an error.

The state is also an artifact of the kind `pgo` for `torch.compiler.save_cache_artifacts`, under a key of our own:
torch's `load_cache_artifacts` writes it to the file that is read here.
"""

from __future__ import annotations

import base64
import contextlib
import functools
import getpass
import json
import logging
import math
import os
import re
import sys
import tempfile
import threading
import types
import zlib
from typing import Any

from magneto import _config, _logs

log = logging.getLogger("magneto")

_FORMAT = "magneto sizes 1"
_MOST_BYTES = 64 << 20

Values = list[Any]
"""Ints or floats, with None for those that have varied."""
Sources = dict[str, dict[str, tuple[Values, Values]]]
"""By source and rank ("int" and "float" for numbers): sizes and strides."""
State = dict[str, Sources]
"""By code object."""

_lock = threading.RLock()
_state: State | None = None
"""None until somebody asks."""
_is_changed = False
_seen: tuple[int, ...] | None = None
"""Which version of the file is in the state."""


# ---- names ----


def _key_of(name: str) -> str:
    distributed = sys.modules.get("torch.distributed")
    rank = None
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        rank = distributed.get_rank()
    return f"magneto:{name}:{rank}:{_config.of_compiler('cache_key_tag')}"


def _key() -> str | None:
    """The name of this job's state; None if there is none."""
    job = _config.of_compiler("job_id")
    if job is None or _config.of_compiler("force_disable_caches"):
        return None
    if job.startswith("mast:"):
        from torch._dynamo.pgo import ReservedWorkflowIdUserError

        raise ReservedWorkflowIdUserError(
            "torch.compiler.config.job_id with prefix 'mast:' is reserved for automatically generated job id "
            "associated with a specific MAST job name and version."
        )
    return _key_of(job)


def _folder() -> str:
    """Inductor's cache folder, without importing it."""
    folder = os.environ.get("TORCHINDUCTOR_CACHE_DIR")
    if folder is None:
        try:
            user = getpass.getuser()
        except (KeyError, ModuleNotFoundError, OSError):
            user = f"uid_{os.getuid()}"
        name = "torchinductor_" + re.sub(r'[\\/:*?"<>|]', "_", user)
        folder = os.path.join(tempfile.gettempdir(), name)
    return os.path.abspath(folder)


def path_of(key: str) -> str:
    """The file of a state: where torch writes an artifact of this key."""
    return os.path.join(_folder(), "dynamo", re.sub(r'[<>:"/\\|?*]', "_", f"code_state_{key}.pkl"))


@functools.cache
def _hash_of(filename: str) -> str:
    """The content of a file: a job that starts again may find its code in another place."""
    try:
        with open(filename, "rb") as file:
            return format(zlib.crc32(file.read()), "08x")
    except (OSError, ValueError):
        return filename


def _place_of(code: types.CodeType) -> str:
    return f"{_hash_of(code.co_filename)}:{code.co_firstlineno}:{code.co_qualname}"


def _code_of(session: Any) -> str:
    """A text for the frame that is captured: its code, where the capture starts, which functions it closes over."""
    parts = [_place_of(session.code)]
    if session.offset >= 0:
        parts.append(str(session.offset))
    function = session.function
    while not isinstance(function, types.FunctionType) and hasattr(function, "__func__"):
        function = function.__func__
    if isinstance(function, types.FunctionType) and function.__code__ is session.code:
        for cell in function.__closure__ or ():
            try:
                held = cell.cell_contents
            except ValueError:
                continue
            if isinstance(held, types.FunctionType):
                parts.append(_place_of(held.__code__))
    return "|".join(parts)


def _kind_of(dim: int) -> str:
    return {-1: "int", -2: "float"}.get(dim, str(dim))


# ---- the state ----


def _join_values(one: Values, other: Values) -> Values:
    return [a if a == b else None for a, b in zip(one, other, strict=True)]


def _join(one: tuple[Values, Values], other: tuple[Values, Values]) -> tuple[Values, Values]:
    """What is known of a source by two who have met it. Strides follow from sizes that vary."""
    sizes = _join_values(one[0], other[0])
    known = [a is None or b is None for a, b in zip(one[1], other[1], strict=True)]
    strides = _join_values(one[1], other[1]) if None not in sizes else one[1]
    return sizes, [None if varied else stride for varied, stride in zip(known, strides, strict=True)]


def _merge(state: State, other: State) -> None:
    for code, sources in other.items():
        mine = state.setdefault(code, {})
        for name, kinds in sources.items():
            known = mine.setdefault(name, {})
            for kind, found in kinds.items():
                known[kind] = _join(known[kind], found) if kind in known else found


def _is_values(values: Any, kind: str) -> bool:
    count = 1 if kind in ("int", "float") else int(kind)
    wanted = float if kind == "float" else int
    return (
        isinstance(values, list)
        and len(values) == count
        and all(
            value is None
            or (type(value) is wanted and (math.isfinite(value) if wanted is float else abs(value) < 1 << 63))
            for value in values
        )
    )


def _decode(content: bytes) -> State:
    """Raises if the content is not what `_encode` makes."""
    data = json.loads(content.decode())
    if data["format"] != _FORMAT:
        raise ValueError("another format")
    state: State = {}
    for code, sources in data["code"].items():
        mine = state[code] = {}
        for name, kinds in sources.items():
            for kind, (sizes, strides) in kinds.items():
                if not (kind in ("int", "float") or re.fullmatch(r"[1-8]", kind)):
                    raise ValueError(f"the rank {kind!r}")
                if not _is_values(sizes, kind) or not _is_values(strides, kind):
                    raise ValueError(f"values of {name}")
            mine[name] = {kind: (sizes, strides) for kind, (sizes, strides) in kinds.items()}
    return state


def _encode(state: State) -> bytes:
    return json.dumps({"format": _FORMAT, "code": state}).encode()


def _say(level: int, text: str, *args: Any) -> None:
    _logs.say(log, level, text, *args)


def _version(path: str) -> tuple[int, ...] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns


def _read(key: str) -> State | None:
    """What is in the file of a key; None if there is none, or it is no good."""
    if not _config.get("automatic_dynamic_local_pgo"):
        return None
    path = path_of(key)
    try:
        with open(path, "rb") as file:
            content = file.read(_MOST_BYTES)
    except OSError:
        return None
    try:
        state = _decode(content)
    except Exception as error:  # whatever is in it
        _say(logging.WARNING, "what varied in earlier runs can't be read from %s: %r", path, error)
        return None
    _record(key, content)
    _say(logging.INFO, "what varied in earlier runs was read from %s: %d code objects", path, len(state))
    return state


def _load() -> State:
    """The state of this job."""
    global _state, _seen, _is_changed
    if _state is None:
        key = _key()
        found = None
        if key is not None:
            _seen = _version(path_of(key))
            found = _read(key)
            if found is None:
                found = _fetch(key)
            extra = _config.of_compiler("pgo_extra_read_key")
            if found is None and extra is not None:
                extra = _key_of(extra)
                found = _read(extra)
                if found is None:
                    found = _fetch(extra)
        _state = {} if found is None else found
        _is_changed = False
    return _state


def find(session: Any, name: str, dim: int, strides: tuple[int, ...]) -> tuple[Any, Any] | None:
    """The sizes and strides that were noted of what lies at a source; None if it was not met."""
    with _lock:
        kinds = _load().get(_code_of(session), {}).get(name, {})
        found = kinds.get(_kind_of(dim))
        if found is not None:
            return tuple(found[0]), tuple(found[1])
        if dim > 0 and any(kind.isdigit() for kind in kinds):  # of another rank: all sizes vary
            return (None,) * dim, strides
    return None


def note(session: Any, name: str, dim: int, sizes: tuple[Any, ...], strides: tuple[Any, ...]) -> None:
    """Take what a capture has found out of what lies at a source."""
    global _is_changed
    with _lock:
        kinds = _load().setdefault(_code_of(session), {}).setdefault(name, {})
        kind = _kind_of(dim)
        new = ([*sizes], [*strides] if dim > 0 else [0.0 if dim == -2 else 0])
        old = kinds.get(kind)
        joined = new if old is None else _join(old, new)
        if joined != old:
            kinds[kind] = joined
            _is_changed = True


def reset() -> None:
    """Forget what is in memory."""
    global _state, _seen, _is_changed
    with _lock:
        _state, _seen, _is_changed = None, None, False


# ---- writing ----


def write() -> None:
    """Write what is new to disk."""
    global _is_changed, _seen
    with _lock:
        if not _is_changed or _state is None:
            return
        key = _key()
        if key is None:
            return
        _is_changed = False
        if _config.get("automatic_dynamic_local_pgo"):
            path = path_of(key)
            if _version(path) != _seen:  # another process of this job has written
                other = _read(key)
                if other is not None:
                    _merge(_state, other)
            _store(path, _encode(_state))
            _seen = _version(path)
        content = _encode(_state)
        _record(key, content)
        keys = [key]
        extra = _config.of_compiler("pgo_extra_write_key")
        if extra is not None:
            keys.append(_key_of(extra))
            if _config.get("automatic_dynamic_local_pgo"):
                _store(path_of(keys[1]), content)
        for one in keys:
            _send(one, content)


def _store(path: str, content: bytes) -> None:
    """Put a file in its place at one stroke, for nobody but this user to read."""
    made = None
    try:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        number, made = tempfile.mkstemp(prefix=".sizes", dir=os.path.dirname(path))
        with os.fdopen(number, "wb") as file:
            file.write(content)
        os.replace(made, path)
    except OSError as error:
        _say(logging.WARNING, "what varied can't be written to %s: %s", path, error)
        if made is not None:
            with contextlib.suppress(OSError):
                os.unlink(made)


_recorded: dict[str, bytes] = {}
"""The latest artifact of each key."""


def _record(key: str, content: bytes) -> None:
    """Have `torch.compiler.save_cache_artifacts` know of it: as TorchDynamo's own, which torch can load anywhere."""
    try:
        manager, artifact = _artifacts()
        made = artifact(key, content)
        if _recorded.get(key) == content and made in manager._seen_artifacts:
            return
        new = manager._new_cache_artifacts["pgo"]
        new[:] = [other for other in new if other.key != key]  # each one has all that the former had
        new.append(made)
        manager._seen_artifacts.add(made)
        _recorded[key] = content
    except Exception as error:  # another torch
        _say(logging.DEBUG, "what varied is no cache artifact: %r", error)


@functools.cache
def _artifacts() -> tuple[Any, Any]:
    from torch.compiler._cache import CacheArtifact, CacheArtifactManager

    class Artifact(CacheArtifact):
        def populate_cache(self) -> None:
            _store(path_of(self.key), self.content)

        @staticmethod
        def type() -> str:
            return "pgo"

    return CacheArtifactManager, Artifact


# ---- elsewhere ----


def _remote() -> Any:
    """Torch's cache on another machine; None if it is not asked for."""
    if not _config.get("automatic_dynamic_remote_pgo"):
        return None
    from torch._inductor.remote_cache import create_cache

    return create_cache("dynamo-pgo", False, "FbRemoteDynamoPGOCache", "RemoteDynamoPGOCache")


def _fetch(key: str) -> State | None:
    try:
        cache = _remote()
        data = None if cache is None else cache.get(key)
        if data is None:
            return None
        content = base64.b64decode(data["data"])
        state = _decode(content)
    except Exception as error:
        _say(logging.WARNING, "what varied in earlier runs can't be fetched: %r", error)
        return None
    _record(key, content)
    return state


def _send(key: str, content: bytes) -> None:
    try:
        cache = _remote()
        if cache is not None:
            cache.put(key, {"data": base64.b64encode(content).decode("ascii")})
    except Exception as error:
        _say(logging.WARNING, "what varied can't be sent: %r", error)
