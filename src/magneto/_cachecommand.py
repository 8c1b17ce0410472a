"""`python -m magneto cache`: shows, empties and moves the cache on disk."""

from __future__ import annotations

import sys
import tarfile
import time

USAGE = """\
usage: python -m magneto cache list
       python -m magneto cache clear
       python -m magneto cache export FILE
       python -m magneto cache import FILE

The cache of compiled graphs, in MAGNETO_CACHE_DIR or the folder magneto of XDG_CACHE_HOME (~/.cache). An exported file
can be put into an image of a container, and imported there: it is for the same torch, magneto and kind of processor.
Import only what you trust: it is code.
"""


def main(arguments: list[str]) -> int:
    """Do what the command line asks for; returns the exit status."""
    from magneto import _diskcache

    if arguments in (["-h"], ["--help"]):
        print(USAGE, end="")
        return 0
    try:
        match arguments:
            case ["list"]:
                _list()
            case ["clear"]:
                print(f"removed {_diskcache.clear()} graphs from {_diskcache.folder()}")
            case ["export", path]:
                print(f"{path}: {_diskcache.pack(path)} graphs")
            case ["import", path]:
                print(f"{_diskcache.folder()}: {_diskcache.unpack(path)} graphs more")
            case _:
                print(USAGE, end="", file=sys.stderr)
                return 2
    except (OSError, tarfile.TarError) as error:
        print(f"python -m magneto cache: {error}", file=sys.stderr)
        return 1
    return 0


def _list() -> None:
    from magneto import _diskcache

    total = count = 0
    now = time.time()
    for entry, header in _diskcache.headers():
        total += entry.size
        count += 1
        what = "damaged" if header is None else _describe(header)
        print(f"{entry.path[-70:-58]}  {entry.size / 1024:8.0f} KiB  {_age(now - entry.used):>8}  {what}")
    print(
        f"{count} graphs, {total / 2**20:.1f} MiB of {_diskcache.limit() / 2**20:.0f}, in {_diskcache.folder()}"
    )


def _describe(header: dict[str, object]) -> str:
    count = f", {header['operations']} operations" if "operations" in header else ""
    name = f"{header.get('name')}{count}, torch {header.get('torch')}"
    refused = header.get("refused")
    return name if refused is None else f"{name}; left to inductor's own cache: {refused}"


def _age(seconds: float) -> str:
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= size:
            return f"{seconds / size:.0f} {unit}"
    return f"{max(seconds, 0):.0f} s"
