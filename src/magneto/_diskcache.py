"""The cache on disk: compiled graphs as files, by key.

A file has a checksum over all that follows, a header in JSON and a content. It is written under another name and then
renamed, so that each file that has its name is whole; processes need not wait for each other. A file that is damaged,
or that somebody else could have written, is as if it were not there. The folder is bounded: what was used longest ago
goes first.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import logging
import os
import re
import secrets
import stat
import tarfile
import time
from collections.abc import Iterator
from io import BytesIO
from typing import Any, NamedTuple

from magneto import _logs

log = logging.getLogger("magneto")

MAGIC = b"magneto1"
_NAME = re.compile(r"[0-9a-f]{64}\.graph")
_LEFT = re.compile(r"\.[0-9a-f]{64}\.[0-9a-f]+")
_DIGEST = 32
_LENGTH = 8
MOST_BYTES = 2 << 30
"""How large the folder may become, unless `MAGNETO_CACHE_SIZE` says otherwise."""

_STALE = 3600.0
"""After so many seconds a file that was not renamed belongs to a process that is no more."""


def _tell(level: int, text: str, *args: Any) -> None:
    _logs.say(log, level, text, *args)


def folder() -> str:
    """Where the files are."""
    named = os.environ.get("MAGNETO_CACHE_DIR")
    if named:
        return os.path.abspath(named)
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(base, "magneto")


def limit() -> int:
    """How many bytes the files may have."""
    try:
        return int(os.environ.get("MAGNETO_CACHE_SIZE", MOST_BYTES))
    except ValueError:
        return MOST_BYTES


def _is_ours(found: os.stat_result) -> bool:
    """Whether nobody but us can have written it."""
    return found.st_uid == os.geteuid() and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


_refused: set[str] = set()


def _is_safe(path: str) -> bool:
    """Whether the folder is there, and is ours; told once if it is not."""
    try:
        found = os.stat(path)
    except OSError:
        return False
    if stat.S_ISDIR(found.st_mode) and _is_ours(found):
        return True
    if path not in _refused:
        _refused.add(path)
        _tell(
            logging.WARNING,
            "the cache folder %s is not used, because others can write to it: what is in it is run as code. "
            "`chmod go-w` it, or set MAGNETO_CACHE_DIR to a folder of your own",
            path,
        )
    return False


def _pack(header: dict[str, Any], content: bytes) -> bytes:
    text = json.dumps(header, sort_keys=True).encode()
    rest = len(text).to_bytes(_LENGTH, "little") + text + content
    return MAGIC + hashlib.sha256(rest).digest() + rest


def _unpack(data: bytes) -> tuple[dict[str, Any], memoryview] | None:
    """The header and the content; None if the file is damaged."""
    start = len(MAGIC) + _DIGEST
    rest = memoryview(data)[start:]
    if data[: len(MAGIC)] != MAGIC or hashlib.sha256(rest).digest() != data[len(MAGIC) : start]:
        return None
    length = int.from_bytes(rest[:_LENGTH], "little")
    header = json.loads(bytes(rest[_LENGTH : _LENGTH + length]))
    return header, rest[_LENGTH + length :]


def _read(path: str) -> bytes | None:
    """All of a file that is ours; None if there is none."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError as error:
        if error.errno != errno.ENOENT:
            _tell(logging.INFO, "the cache file %s can't be read: %s", path, error.strerror)
        return None
    try:
        with open(file, "rb") as opened:
            if _is_ours(os.fstat(file)):
                return opened.read()
    except OSError as error:
        _tell(logging.INFO, "the cache file %s can't be read: %s", path, error.strerror)
        return None
    _tell(logging.WARNING, "the cache file %s is not used, because others can write to it", path)
    return None


def find(key: str) -> tuple[dict[str, Any], memoryview] | None:
    """What is there under a key: its header and its content. None if there is nothing that is whole."""
    if not _is_safe(folder()):
        return None
    path = os.path.join(folder(), f"{key}.graph")
    data = _read(path)
    if data is None:
        return None
    found = _unpack(data)
    if found is None or found[0].get("key") != key:
        _tell(logging.WARNING, "the cache file %s is damaged: it is removed", path)
        _remove(path)
        return None
    with contextlib.suppress(OSError):
        os.utime(path)  # it was used
    return found


def _remove(path: str) -> bool:
    try:
        os.unlink(path)
    except OSError:
        return False
    return True


def _write(path: str, data: bytes) -> None:
    """Write a file under another name, and rename it; raises OSError, and leaves nothing."""
    name = os.path.join(
        os.path.dirname(path), f".{os.path.basename(path)[:64]}.{os.getpid():x}{secrets.token_hex(4)}"
    )
    file = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        with open(file, "wb") as opened:
            opened.write(data)
        os.replace(name, path)
    except BaseException:
        _remove(name)
        raise


def keep(key: str, header: dict[str, Any], content: bytes) -> bool:
    """Put something there. False if that can't be done, which is told in the log and is no error."""
    path = folder()
    try:
        os.makedirs(path, 0o700, exist_ok=True)
        if not _is_safe(path):
            return False
        _write(os.path.join(path, f"{key}.graph"), _pack({**header, "key": key}, content))
    except OSError as error:
        _tell(
            logging.WARNING,
            "a compiled graph can't be put into the cache folder %s: %s",
            path,
            error.strerror,
        )
        return False
    shrink(limit())
    return True


class Entry(NamedTuple):
    """A file of the cache."""

    path: str
    size: int
    used: float


def entries() -> list[Entry]:
    """The files, those that were used longest ago first."""
    found = []
    for path, name in _files():
        if _NAME.fullmatch(name):
            with contextlib.suppress(OSError):
                status = os.stat(path, follow_symlinks=False)
                found.append(Entry(path, status.st_size, status.st_mtime))
    return sorted(found, key=lambda entry: (entry.used, entry.path))


def _files() -> Iterator[tuple[str, str]]:
    try:
        names = os.listdir(folder())
    except OSError:
        return
    for name in names:
        yield os.path.join(folder(), name), name


def shrink(most: int) -> int:
    """Remove what was used longest ago, until the files have no more than so many bytes. How many were removed."""
    now = time.time()
    for path, name in _files():
        if _LEFT.fullmatch(name):
            with contextlib.suppress(OSError):
                if abs(now - os.stat(path, follow_symlinks=False).st_mtime) > _STALE:
                    _remove(path)
    found = entries()
    size, removed = sum(entry.size for entry in found), 0
    for entry in found:
        if size <= most:
            break
        if _remove(entry.path):
            removed += 1
        size -= entry.size
    return removed


def clear() -> int:
    """Remove all files. How many there were."""
    return shrink(-1)


def headers() -> Iterator[tuple[Entry, dict[str, Any] | None]]:
    """Each file with its header; None if it is damaged."""
    for entry in entries():
        data = _read(entry.path)
        found = None if data is None else _unpack(data)
        yield entry, None if found is None else found[0]


def pack(path: str) -> int:
    """Write all files that are whole into one. How many there are."""
    count = 0
    with tarfile.open(path, "w:gz") as archive:
        for entry, header in headers():
            data = None if header is None else _read(entry.path)
            if data is not None:
                info = tarfile.TarInfo(os.path.basename(entry.path))
                info.size, info.mtime = len(data), int(entry.used)
                archive.addfile(info, BytesIO(data))
                count += 1
    return count


def unpack(path: str) -> int:
    """Take all files of such a one that are whole. How many there were; raises OSError."""
    count, target = 0, folder()
    os.makedirs(target, 0o700, exist_ok=True)
    if not _is_safe(target):
        raise PermissionError(errno.EPERM, "others can write to the cache folder", target)
    with tarfile.open(path, "r:*") as archive:
        for info in archive:
            file = archive.extractfile(info) if info.isreg() and _NAME.fullmatch(info.name) else None
            data = None if file is None else file.read()
            found = None if data is None else _unpack(data)
            if data is None or found is None or f"{found[0].get('key')}.graph" != info.name:
                _tell(logging.WARNING, "%s: %s is no compiled graph, or is damaged", path, info.name)
                continue
            _write(os.path.join(target, info.name), data)
            count += 1
    shrink(limit())
    return count
