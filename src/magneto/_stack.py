"""Frames of the program as text, from the code objects and offsets that the core gives."""

from __future__ import annotations

import itertools
import linecache
import os
import sys
import sysconfig
import traceback
from types import CodeType
from typing import Any

Stack = tuple[tuple[Any, ...], ...]
"""Of (code, offset), with the number of its source and its class where a module is called; innermost last."""

_STDLIB = sysconfig.get_path("stdlib") + os.sep
_SITE = tuple(
    path + os.sep for path in {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")} if path
)
_OWN = os.path.dirname(os.path.abspath(__file__)) + os.sep


def _torch_folder() -> str:
    torch = sys.modules.get("torch")
    file = getattr(torch, "__file__", None)
    return os.path.dirname(file) + os.sep if file else "\0"


def is_library(code: CodeType) -> bool:
    """Whether code belongs to torch, magneto or Python itself: not what a user wants to be shown."""
    file = code.co_filename
    if file.startswith(("<frozen", _OWN, _torch_folder())):
        return True
    return file.startswith(_STDLIB) and not file.startswith(_SITE)


def summary(code: CodeType, offset: int) -> traceback.FrameSummary:
    """A frame that stands at an offset of its code."""
    line, end_line, column, end_column = next(
        itertools.islice(code.co_positions(), max(offset, 0) // 2, None),
        (code.co_firstlineno, None, None, None),
    )
    line = line or code.co_firstlineno
    text = linecache.getline(code.co_filename, line)
    return traceback.FrameSummary(
        code.co_filename,
        line,
        code.co_name,
        lookup_line=False,
        line=text,
        end_lineno=end_line,
        colno=column,
        end_colno=end_column,
    )


def user_frames(stack: Stack | None) -> list[traceback.FrameSummary]:
    """The frames that the user wrote, innermost last; all of them if the user wrote none."""
    pairs = list(stack or ())
    own = [pair for pair in pairs if not is_library(pair[0])]
    return [summary(pair[0], pair[1]) for pair in own or pairs]


class Formatter:
    """Texts of stacks; frames that occur again are formatted once."""

    def __init__(self) -> None:
        self._known: dict[tuple[Any, ...], str] = {}

    def format(self, stack: Stack | None) -> str:
        """As in a traceback, innermost last."""
        pairs = [pair for pair in stack or () if not is_library(pair[0])] or list(stack or ())
        parts = []
        for pair in pairs:
            text = self._known.get(pair)
            if text is None:
                text = "".join(traceback.StackSummary.from_list([summary(*pair[:2])]).format())
                self._known[pair] = text
            parts.append(text)
        return "".join(parts)
