"""Frames of the program as text, from the code objects and offsets that the core passes."""

from __future__ import annotations

import dis
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
OWN = os.path.dirname(os.path.abspath(__file__)) + os.sep


_VARIABLES = frozenset(dis.haslocal + dis.hasfree)


def _torch_folder() -> str:
    torch = sys.modules.get("torch")
    file = getattr(torch, "__file__", None)
    return os.path.dirname(file) + os.sep if file else "\0"


class FailedGuard(str):
    """A guard that does not hold, as text; `frame` is the line of the program that asked for it.

    Arguments are guarded before anything is executed: of those it is the line that first reads the `variable`.
    """

    code: CodeType
    offset: int
    variable: str | None

    def __new__(cls, text: str, code: CodeType, offset: int, variable: str | None = None) -> FailedGuard:
        self = super().__new__(cls, text)
        self.code, self.offset, self.variable = code, offset, variable
        return self

    @property
    def frame(self) -> traceback.FrameSummary:
        offset = self.offset
        if self.variable is not None:
            offset = _first_read(self.code, max(offset, 0), self.variable)
        return summary(self.code, offset) if offset >= 0 else _header(self.code)


def _first_read(code: CodeType, start: int, variable: str) -> int:
    """Where a variable is first read behind an offset; -1 if it is nowhere."""
    for instruction in dis.get_instructions(code):
        if (
            instruction.offset >= start
            and instruction.opname.startswith("LOAD_")
            and instruction.opcode in _VARIABLES
            and instruction.argval == variable
        ):
            return instruction.offset
    return -1


def _header(code: CodeType) -> traceback.FrameSummary:
    """The line with the `def` of a function: decorators come before it."""
    for line in range(code.co_firstlineno, code.co_firstlineno + 20):
        text = linecache.getline(code.co_filename, line)
        if text.lstrip().startswith(("def ", "async def ")):
            return traceback.FrameSummary(code.co_filename, line, code.co_name, lookup_line=False, line=text)
    return summary(code, 0)


def told(text: str) -> str:
    """A guard that does not hold, and the line that asked for it where that is known."""
    if not isinstance(text, FailedGuard):
        return text
    frame = text.frame
    line = f": {frame.line}" if frame.line else ""
    return f"{text} ({frame.filename}:{frame.lineno} in {frame.name}{line})"


def user_stack(code: CodeType, offset: int) -> str:
    """A line of the program, as torch shows it behind the text of an error."""
    return "\n\nUser stack:\n" + format_frames([summary(code, offset)])


def is_library(code: CodeType) -> bool:
    """Whether code belongs to torch, magneto or Python itself: not what a user wants to be shown."""
    file = code.co_filename
    if file.startswith(("<frozen", OWN, _torch_folder())):
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


def format_frame(frame: traceback.FrameSummary) -> str:
    """A frame as in a traceback, with what it was doing marked on its line even where that is the whole line."""
    text = f'  File "{frame.filename}", line {frame.lineno}, in {frame.name}\n'
    line = frame._original_line.rstrip() if hasattr(frame, "_original_line") else (frame.line or "")
    if not line.strip():
        return text
    shown = line.lstrip()
    text += f"    {shown}\n"
    if frame.colno is None or frame.end_colno is None:
        return text
    start = _characters(line, frame.colno)
    end = _characters(line, frame.end_colno) if frame.end_lineno == frame.lineno else len(line)
    indent = len(line) - len(shown)
    return text + " " * (4 + max(start - indent, 0)) + "^" * max(end - start, 1) + "\n"


def _characters(line: str, column: int) -> int:
    """A column counted in bytes, as the compiler does, in characters."""
    return len(line.encode()[:column].decode(errors="replace"))


def format_frames(frames: list[traceback.FrameSummary]) -> str:
    """Frames as in a traceback, innermost last."""
    return "".join(map(format_frame, frames))


class Formatter:
    """Texts of stacks; frames that occur again are formatted once."""

    def __init__(self) -> None:
        self._frames: dict[tuple[CodeType, int], str] = {}
        self._libraries: dict[CodeType, bool] = {}
        self._stacks: dict[Stack, str] = {}

    def format(self, stack: Stack | None) -> str:
        """As in a traceback, innermost last."""
        if not stack:
            return ""
        text = self._stacks.get(stack)
        if text is None:
            own = [frame for frame in stack if not self._is_library(frame[0])] or stack
            text = self._stacks[stack] = "".join([self._format(frame[0], frame[1]) for frame in own])
        return text

    def _is_library(self, code: CodeType) -> bool:
        found = self._libraries.get(code)
        if found is None:
            found = self._libraries[code] = is_library(code)
        return found

    def _format(self, code: CodeType, offset: int) -> str:
        text = self._frames.get((code, offset))
        if text is None:
            text = "".join(traceback.StackSummary.from_list([summary(code, offset)]).format())
            self._frames[code, offset] = text
        return text
