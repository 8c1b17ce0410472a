"""Run one program in CPython and in magneto's interpreter, and compare all that can be seen of it."""

from __future__ import annotations

import contextlib
import difflib
import io
import itertools
import linecache
import pprint
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from types import CodeType, TracebackType

from magneto import _core

FILE = "<program>"


@dataclass
class Outcome:
    """What can be seen of a run."""

    value: str | None
    printed: str
    raised: object


def entry_position(tb: TracebackType) -> tuple[int | None, ...]:
    """The line, end line, column and end column of a traceback's entry."""
    return next(itertools.islice(tb.tb_frame.f_code.co_positions(), tb.tb_lasti // 2, None))


def traceback_entries(tb: TracebackType | None) -> list[object]:
    """The entries of a traceback: where each frame was, without those of the harness."""
    entries: list[object] = []
    while tb is not None:
        code = tb.tb_frame.f_code
        if code.co_filename != __file__:
            entries.append((code.co_qualname, tb.tb_lineno, entry_position(tb)))
        tb = tb.tb_next
    return entries


def describe(exc: BaseException | None, seen: tuple[int, ...] = ()) -> object:
    """An exception with all that hangs on it, as plain data."""
    if exc is None:
        return None
    if id(exc) in seen:
        return "seen"
    seen = (*seen, id(exc))
    entries = traceback_entries(exc.__traceback__)
    if type(exc) is UnboundLocalError and entries:
        # CPython runs two loads of locals as one instruction, and takes an error in the second for one in the first.
        entries[-1] = "somewhere in the frame"
    return {
        "type": type(exc).__qualname__,
        "text": str(exc),
        "arguments": [str(argument) for argument in exc.args if not isinstance(argument, list)],
        "name": getattr(exc, "name", None),
        "notes": getattr(exc, "__notes__", None),
        "traceback": entries,
        "cause": describe(exc.__cause__, seen),
        "context": describe(exc.__context__, seen),
        "suppressed": exc.__suppress_context__,
        "members": [describe(member, seen) for member in getattr(exc, "exceptions", ())],
    }


def observe(call: Callable[..., object], *args: object) -> Outcome:
    """Call a function, and note its value, its output, its exception."""
    printed = io.StringIO()
    value = raised = None
    with contextlib.redirect_stdout(printed):
        try:
            value = repr(call(*args))
        except BaseException as exc:
            raised = describe(exc)
            exc.__traceback__ = None
    return Outcome(value, printed.getvalue(), raised)


def interpreted(call: Callable[..., object], *args: object) -> object:
    """Call a function in magneto's interpreter; fails if that executed nothing."""
    before = _core.hook_state()["frames"]
    try:
        return _core.interpret(call, *args)
    finally:
        assert _core.hook_state()["frames"] > before


def require_equal(found: object, expected: object) -> None:
    """Fail with the lines that differ."""
    if found != expected:
        lines = (pprint.pformat(side, width=100).splitlines() for side in (expected, found))
        raise AssertionError(
            "\n" + "\n".join(difflib.unified_diff(*lines, "CPython", "magneto", lineterm="", n=1))
        )


def build(source: str, filename: str = FILE) -> CodeType:
    """Compile a program afresh: none of its code has been specialised by CPython."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return compile(source, filename, "exec", dont_inherit=True)


def load(code: CodeType) -> dict[str, object]:
    namespace: dict[str, object] = {"__name__": "program"}
    exec(code, namespace)
    return namespace


def run_program(code: CodeType) -> object:
    """Execute a program's module, and then its main()."""
    namespace: dict[str, object] = {"__name__": "program"}
    exec(code, namespace)
    return namespace["main"]()


def warm_up(main: Callable[[], object]) -> None:
    """Call main() in CPython until it has specialised what it can."""
    with contextlib.redirect_stdout(io.StringIO()):
        for _ in range(40):
            try:
                main()
            except BaseException as exc:
                exc.__traceback__ = None


def assert_same(source: str) -> None:
    """A program does the same in both, from its module's first instruction on."""
    expected = observe(run_program, build(source))
    require_equal(observe(interpreted, run_program, build(source)), expected)


def assert_same_when_specialised(source: str) -> None:
    """A program whose code CPython has specialised does the same in both."""
    namespace = load(build(source))
    main = namespace["main"]
    warm_up(main)
    expected = observe(main)
    require_equal(observe(interpreted, main), expected)


def assert_same_call(function: Callable[..., object], *args: object) -> None:
    """A function does the same in both."""
    expected = observe(function, *args)
    require_equal(observe(interpreted, function, *args), expected)


def parse_programs(text: str) -> dict[str, str]:
    """Split a text into programs; each starts with a line `### its name`."""
    programs = {}
    for part in text.split("\n### ")[1:]:
        name, _, source = part.partition("\n")
        assert name not in programs, name
        programs[name.strip()] = source
    return programs


def remember_source(source: str, filename: str = FILE) -> None:
    """Let tracebacks and `inspect` find the text of a program."""
    linecache.cache[filename] = (len(source), None, source.splitlines(True), filename)
