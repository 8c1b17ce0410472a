"""The folders of csrc are floors: a file uses what lies below it, never what lies above."""

from __future__ import annotations

import os
import re
import subprocess
from collections import defaultdict
from pathlib import Path

import pytest

FLOORS = (
    "base", "size", "cpython", "torch", "ir", "capture", "guard", "entry",
    "fx", "record", "world", "policy", "trace", "interp", "api",
)  # fmt: skip

UPWARD: set[tuple[str, str]] = set()
"""Pairs of a file and a function above it that it uses all the same. Only to be made smaller."""


def objects() -> list[Path]:
    site = os.environ.get("MAGNETO_SITE")
    found = sorted(Path(site).parent.glob("_core*.p/csrc_*.o")) if site else []
    if not found:
        pytest.skip("no object files: not run by make")
    return found


def uses() -> dict[tuple[str, str], set[str]]:
    """(file, file) -> the symbols of the second that the first uses."""
    defined: dict[str, str] = {}
    wanted: dict[str, set[str]] = defaultdict(set)
    for path in objects():
        match = re.match(r"csrc_([a-z]+)_(\w+)\.c\.o$", path.name)
        assert match is not None, path.name
        file = f"{match[1]}/{match[2]}"
        for line in subprocess.run(
            ["nm", path], check=True, capture_output=True, text=True
        ).stdout.splitlines():
            kind, symbol = line.split()[-2:]
            if kind == "U":
                wanted[file].add(symbol)
            elif kind in "TDBRC":
                defined[symbol] = file
    found: dict[tuple[str, str], set[str]] = defaultdict(set)
    for file, symbols in wanted.items():
        for symbol in symbols & defined.keys():
            found[file, defined[symbol]].add(symbol)
    return found


def floor(file: str) -> int:
    return FLOORS.index(file.split("/")[0])


def test_nothing_is_used_from_below():
    upward = {
        (user, symbol)
        for (user, owner), symbols in uses().items()
        for symbol in symbols
        if floor(owner) > floor(user)
    }
    assert sorted(upward - UPWARD) == []
    assert sorted(UPWARD - upward) == []  # they are gone: take them out of the list


def test_headers_are_included_from_below():
    root = Path(__file__).parent.parent / "csrc"
    found = []
    for path in root.glob("**/*.[ch]"):
        own = FLOORS.index(path.relative_to(root).parts[0])
        for name in re.findall(r'#include "([a-z]+)/', path.read_text()):
            if name in FLOORS and FLOORS.index(name) > own:
                found.append((str(path.relative_to(root)), name))
    assert sorted(set(found)) == []
