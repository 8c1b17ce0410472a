"""Which Python and which PyTorch this version of magneto works with."""

from __future__ import annotations

import sys

PYTHON = (3, 11)
TORCH = "2.13.0"


def problem(implementation: str, python: tuple[int, ...], torch: str | None) -> str | None:
    """Say why magneto can't work here, or return None if it can.

    `torch` is the version of the installed distribution, or None if there is none.
    """
    wanted = ".".join(map(str, PYTHON))
    if implementation != "cpython" or python[:2] != PYTHON:
        found = ".".join(map(str, python[:3]))
        name = "CPython" if implementation == "cpython" else implementation
        return (
            f"magneto works on CPython {wanted} only, and this is {name} {found}. "
            f"It executes CPython's own frames, whose layout differs from version to version. "
            f"Use a CPython {wanted}."
        )
    if torch is None:
        return f"magneto needs torch {TORCH}, and no torch is installed. Run: pip install torch=={TORCH}"
    if torch.partition("+")[0] != TORCH:
        return f"magneto needs torch {TORCH}, and torch {torch} is installed. Run: pip install torch=={TORCH}"
    return None


def check() -> None:
    """Raise ImportError if magneto can't work with this Python or the installed torch."""
    # The metadata tells the version without importing torch, which takes seconds.
    from importlib import metadata

    try:
        torch: str | None = metadata.version("torch")
    except metadata.PackageNotFoundError:
        torch = None
    text = problem(sys.implementation.name, tuple(sys.version_info[:3]), torch)
    if text is not None:
        raise ImportError(text, name="magneto")
