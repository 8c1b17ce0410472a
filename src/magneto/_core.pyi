"""The C extension. Private: use the functions of `magneto` instead."""

from collections.abc import Callable
from types import CodeType
from typing import ParamSpec, TypeVar

_P = ParamSpec("_P")
_R = TypeVar("_R")

checks: bool
"""Whether this build checks the whole interpreter state before each instruction."""

def interpret(func: Callable[_P, _R], /, *args: _P.args, **kwargs: _P.kwargs) -> _R:
    """Call `func`, with every Python frame below it on this thread executed by magneto's interpreter."""

def interpret_all(enable: bool, /) -> bool:
    """Have every Python frame that starts from now on, on any thread, executed by magneto's interpreter, or
    by CPython again. Gives the former setting."""

def count_opcodes(enable: bool, /) -> bool:
    """Switch the counting of executed opcodes on or off. Gives the former setting."""

def opcode_counts() -> list[int]:
    """How often each opcode was executed while counting was on: 256 counts."""

def handled_opcodes() -> frozenset[int]:
    """The opcodes that the interpreter has a handler for."""

def hook_state() -> dict[str, int]:
    """The state of the frame hook: whether it is `installed`, its `users`, and the `frames` it was given."""

def stack_depths(code: CodeType, /) -> list[int]:
    """The stack depth before each unit of a code object, -1 where no path leads."""
