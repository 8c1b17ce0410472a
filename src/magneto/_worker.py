"""A process that compiles graphs for another one: `python -m magneto._worker`, started by `_background`.

It reads graphs (`_remake`) from its standard input, and writes what became of each to its standard output; what it
makes goes through the caches on disk. It ends when its input does: a process that is gone needs no more of it, whatever
is under way.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import queue
import signal
import struct
import sys
import threading
from typing import Any, BinaryIO

LENGTH = struct.Struct("<Q")
"""Comes before each message."""

IDLE = 300.0
"""After so many seconds without anything to do it ends."""


def send(file: BinaryIO, message: Any) -> None:
    """Write a message."""
    data = pickle.dumps(message)
    file.write(LENGTH.pack(len(data)) + data)
    file.flush()


def receive(file: BinaryIO) -> Any:
    """Read a message; raises EOFError where there is none any more."""
    head = _read(file, LENGTH.size)
    return pickle.loads(_read(file, LENGTH.unpack(head)[0]))


def _read(file: BinaryIO, size: int) -> bytes:
    data = file.read(size)
    if len(data) < size:
        raise EOFError
    return data


class _Done(BaseException):
    """What was captured is compiled: it is not run."""


def _end() -> None:
    """End at once, with all compilers that were started: they are of the same group."""
    with contextlib.suppress(OSError):
        os.killpg(0, signal.SIGKILL)
    os._exit(1)


def _listen(file: BinaryIO, jobs: queue.SimpleQueue[Any]) -> None:
    """Read graphs; end the process when there are none any more."""
    try:
        while True:
            jobs.put(receive(file))
    finally:
        _end()


def _eager_backward(entry: Any) -> contextlib.AbstractContextManager[Any]:
    """For a `with` block: backward graphs are compiled with the forward ones, and not when they are first run."""
    import torch

    if not torch.is_grad_enabled() or not entry.needs_grad:
        return contextlib.nullcontext()
    from torch._functorch import config

    patch: contextlib.AbstractContextManager[Any] = config.patch(force_non_lazy_backward_lowering=True)
    return patch


def compile_graph(graph: dict[str, Any]) -> tuple[str, str]:
    """Compile a graph for the caches on disk: what became of it ("made", "other", "failed"), and a text."""
    import magneto
    from magneto import _aot, _backends, _diskcache, _remake
    from magneto._compile import Settings

    outcome = ("other", "nothing was captured")

    class Compiler(_backends.Compiler):
        def __call__(self, entry: Any) -> Any:
            nonlocal outcome
            ticket = self.observer.ticket(entry)
            self.observer._ticket = entry, ticket
            key = None if ticket is None else _aot.key_of(ticket)
            if key != graph["key"]:
                outcome = ("other", "its capture in another process gives another graph")
                raise _Done
            with _eager_backward(entry):
                super().__call__(entry)
            outcome = ("made", "jit")
            if _aot.attempt(self.backend, ticket, "", entry) is not None:
                found = _diskcache.find(graph["key"])
                if found is None:
                    outcome = ("failed", "the cache folder can't be written to")
                elif "refused" not in found[0]:
                    outcome = ("made", "library")
            raise _Done

    magneto.reset()
    magneto.config.aot = graph["aot"] is not False
    with _remake.taken_state(graph):
        function, arguments = _remake.remake(graph)
        settings = Settings(fullgraph=True, dynamic=bool(graph["symbols"]), backend="inductor")
        backend: Any = _backends.find("inductor", aot=graph["aot"])
        backend.config, backend.dynamic = graph["options"], graph["dynamic"]
        settings.find = lambda: backend  # type: ignore[method-assign]
        compiled = settings.make(function, graph["name"], compiler=Compiler)
        with contextlib.suppress(_Done):
            compiled(*arguments)
    return outcome


def main() -> None:
    """Compile graphs until there are none."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    output = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what compilers print is no message
    jobs: queue.SimpleQueue[Any] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(os.fdopen(os.dup(0), "rb"), jobs), daemon=True).start()
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    while True:
        try:
            graph = jobs.get(timeout=IDLE)
        except queue.Empty:
            _end()
        try:
            outcome = compile_graph(graph)
        except Exception as error:
            lines = str(error).strip().splitlines()
            outcome = "failed", f"{type(error).__name__}: {lines[0] if lines else ''}"[:300]
        try:
            send(output, outcome)
        except OSError:
            _end()


if __name__ == "__main__":
    main()
    sys.exit()
