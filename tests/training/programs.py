"""All programs, by name."""

from __future__ import annotations

from . import programs_state, programs_steps  # noqa: F401
from .loops import PROGRAMS

__all__ = ["PROGRAMS"]
