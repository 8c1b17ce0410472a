"""The list of tests that are known to differ, each with its reason (tests/conformance/known.toml)."""

from __future__ import annotations

import tomllib
from pathlib import Path

LIMIT = 20
DEFAULT = Path("tests", "conformance", "known.toml")


class KnownError(Exception):
    """The list is not well-formed."""


def find() -> Path | None:
    """The list in the current directory's checkout, else in the one that this file belongs to, if any."""
    for root in (Path.cwd(), Path(__file__).resolve().parents[3]):
        if (root / DEFAULT).is_file():
            return root / DEFAULT
    return None


def load(path: Path | None) -> dict[str, str]:
    """The reasons by test id."""
    if path is None:
        return {}
    with open(path, "rb") as stream:
        try:
            table = tomllib.load(stream)
        except tomllib.TOMLDecodeError as error:
            raise KnownError(f"{path}: {error}") from error
    reasons: dict[str, str] = {}
    for entry in table.get("known", []):
        test, reason = entry.get("test"), entry.get("reason")
        if not test or not reason or set(entry) != {"test", "reason"}:
            raise KnownError(f"{path}: an entry needs `test` and `reason`, and nothing else: {entry}")
        if test in reasons:
            raise KnownError(f"{path}: {test} is listed twice")
        reasons[test] = reason
    if len(reasons) > LIMIT:
        raise KnownError(f"{path}: {len(reasons)} entries, and {LIMIT} are allowed")
    return reasons
