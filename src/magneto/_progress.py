"""One line on a terminal while a backend takes long: who, for how long, how many wait.

It comes after two seconds, is written anew each second, and is gone when the backend is done. Where the standard error
is no terminal, there is none.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Iterator

AFTER = 2.0
"""Seconds until the line comes."""

EVERY = 1.0
"""Seconds until it is written anew."""


def is_shown() -> bool:
    """Whether there is a terminal to write to."""
    try:
        return sys.stderr is not None and sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
    except (AttributeError, OSError, ValueError):
        return False


class _Line:
    """The line, and what is compiled."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.names: list[tuple[str | None, float]] = []
        """What is compiled, since when; None for who waits for what is compiled in the background."""
        self.thread: threading.Thread | None = None
        self.stop = threading.Event()
        self.width = 0

    def enter(self, name: str | None) -> tuple[str | None, float]:
        one = (name, time.monotonic())
        with self.lock:
            self.names.append(one)
            if self.thread is None:
                self.stop = threading.Event()
                self.thread = threading.Thread(
                    target=self._show, args=(self.stop,), name="magneto progress", daemon=True
                )
                self.thread.start()
        return one

    def leave(self, one: tuple[str | None, float]) -> None:
        with self.lock:
            if one in self.names:
                self.names.remove(one)
            thread = None
            if not self.names:
                thread, self.thread = self.thread, None
                self.stop.set()
        if thread is not None:
            thread.join(1.0)

    def text(self) -> str | None:
        """What is written; None if nothing has taken long enough."""
        from magneto import _background

        with self.lock:
            now = time.monotonic()
            found = [(name, now - start) for name, start in self.names if name is not None]
        waits = max(0, len(found) - 1)
        behind = _background.figures()
        if behind is not None:
            found.append(behind[:2])
            waits += behind[2]
        if not found:
            return None
        name, seconds = max(found, key=lambda item: item[1])
        if seconds < AFTER:
            return None
        more = f", {waits} more to do" if waits else ""
        return f"magneto: compiling {name}, {seconds:.0f} s{more}"

    def _show(self, stop: threading.Event) -> None:
        stopped = stop.wait(AFTER)
        while not stopped:
            self._write(self.text() or "")
            stopped = stop.wait(EVERY)
        self._write("")

    def _write(self, text: str) -> None:
        """Write the line anew; nothing if there is none and was none."""
        if not text and not self.width:
            return
        with contextlib.suppress(OSError, ValueError, AttributeError):
            width = (os.get_terminal_size(sys.stderr.fileno()).columns or 80) - 1
            text = text[:width]
            sys.stderr.write("\r" + text.ljust(self.width)[:width] + ("" if text else "\r"))
            sys.stderr.flush()
            self.width = len(text)


_line = _Line()


@contextlib.contextmanager
def shown(name: str | None) -> Iterator[None]:
    """For a `with` block in which something of this name is compiled; None if it waits for others."""
    if not is_shown():
        yield
        return
    line = _line
    one = line.enter(name)
    try:
        yield
    finally:
        line.leave(one)


def _forked() -> None:
    """In the child of a fork: the thread is the parent's."""
    global _line
    _line = _Line()


os.register_at_fork(after_in_child=_forked)
