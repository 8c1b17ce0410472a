"""Compiling in the background: graphs wait in a queue, and processes of their own (`_worker`) compile them.

What is compiled goes through the caches on disk. An entry whose graph is under way is replayed by the core; when it is
there, the entry's next call takes it (`Entry.pending`). A process that ends before it has answered is a line in the
log, and the replay stays.

Nothing here can keep the program from ending: threads are daemons, and the processes are killed at exit. They also end
by themselves when the pipe to them does. A child of a fork has none of them; what its entries wait for is sent again
when it next has something compiled, or waits.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import select
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable
from typing import Any

from magneto import _config, _core, _logs, _progress, _worker

log = logging.getLogger("magneto")

MOST = 1000
"""How many graphs may wait; others stay in replay."""

LIMIT = 3600.0
"""For how many seconds a graph may be compiled."""

_REAP = 5.0
"""For how many seconds a process that was killed, or a thread that reads from it, is waited for."""

Adopt = Callable[[_core.Entry, tuple[Any, ...]], Any]


def is_asked(backend: Any) -> bool:
    """Whether what this backend compiles is to be compiled in the background."""
    asked = getattr(backend, "background", False)
    return bool(_config.get("background") if asked is None else asked)


def _workers() -> int:
    """How many processes there may be."""
    asked = int(_config.get("background_workers"))
    return asked if asked > 0 else max(1, min(4, (os.cpu_count() or 1) // 2))


class Job:
    """A graph that is to be compiled.

    Args:
        key: that of the graph in the cache on disk.
        graph: the graph as `_remake` describes it; empty as soon as it is compiled.
    """

    def __init__(self, key: str, graph: dict[str, Any]) -> None:
        self.key = key
        self.name = str(graph["name"])
        self.graph = graph
        self.waiting: list[tuple[weakref.ref[_core.Entry], Callable[[str], Adopt | None]]] = []
        self.outcome: str | None = None
        """"made", "other" or "failed", once that is known."""
        self.since = time.monotonic()


def _command() -> list[str]:
    """How a process that compiles is started."""
    code = f"import sys; sys.path[:] = {sys.path!r}; from magneto import _worker; _worker.main()"
    return [sys.executable, "-c", code]


class Worker:
    """A process that compiles."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            _command(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=None if log.isEnabledFor(logging.DEBUG) else subprocess.DEVNULL,
            start_new_session=True,
            env={**os.environ, "MAGNETO_BACKGROUND": "0"},
        )

    def compile(self, graph: dict[str, Any]) -> tuple[str, str]:
        """What became of a graph; raises EOFError if the process is gone, and TimeoutError."""
        assert self.process.stdin is not None and self.process.stdout is not None
        try:
            _worker.send(self.process.stdin, graph)  # type: ignore[arg-type]
        except (OSError, ValueError):
            raise EOFError from None
        if not select.select([self.process.stdout], [], [], LIMIT)[0]:
            raise TimeoutError
        outcome: tuple[str, str] = _worker.receive(self.process.stdout)  # type: ignore[arg-type]
        return outcome

    def kill(self) -> str:
        """End it, and all that it has started. How it has ended, as a text."""
        with contextlib.suppress(OSError):
            if self.process.returncode is None:  # else the number may be another's
                os.killpg(self.process.pid, signal.SIGKILL)
        try:
            status = self.process.wait(_REAP)
        except subprocess.TimeoutExpired:
            return "does not end"
        finally:
            self.forget()
        return f"signal {-status}" if status < 0 else f"status {status}"

    def forget(self) -> None:
        """Close the pipes."""
        for pipe in (self.process.stdin, self.process.stdout):
            with contextlib.suppress(OSError, ValueError):
                if pipe is not None:
                    pipe.close()

    def disown(self) -> None:
        """In the child of a fork: it is another's."""
        self.process.returncode = 0
        for pipe in (self.process.stdin, self.process.stdout):
            with contextlib.suppress(OSError, ValueError):
                if pipe is not None:
                    os.close(pipe.fileno())


def _import() -> None:
    """Import what loads code that inductor's own caches keep, so that no call waits for that."""
    from magneto import _locks

    try:
        _locks.compile_lock()
        with _locks.loading:
            import torch._inductor.compile_fx  # noqa: F401
    except Exception as error:  # the call will see it as well
        _logs.say(log, logging.DEBUG, "inductor can't be imported: %s", error)


class Queue:
    """What waits, and who works on it."""

    def __init__(self) -> None:
        self.changed = threading.Condition(threading.Lock())
        self.jobs: dict[str, Job] = {}
        """All that there were, by key."""
        self.waiting: deque[Job] = deque()
        self.running: dict[threading.Thread, Job] = {}
        self.threads: list[threading.Thread] = []
        self.workers: dict[threading.Thread, Worker] = {}
        self.closed = False

    def add(self, job: Job) -> bool:
        """Have a graph compiled. False if too many wait already."""
        with self.changed:
            if len(self.waiting) >= MOST or self.closed:
                return False
            self.jobs[job.key] = job
            self.waiting.append(job)
            self.start()
            self.changed.notify()
        return True

    def start(self) -> None:
        """Have a thread for what waits; the lock is held."""
        if self.waiting and len(self.threads) < min(_workers(), len(self.waiting) + len(self.running)):
            thread = threading.Thread(target=self._work, name="magneto compiles", daemon=True)
            self.threads.append(thread)
            thread.start()

    def is_busy(self) -> bool:
        """Whether something waits or is under way."""
        return bool(self.waiting or self.running)

    # ---- in threads of their own ----

    def _work(self) -> None:
        me = threading.current_thread()
        while True:
            with self.changed:
                while not self.waiting and not self.closed:
                    if not self.changed.wait(_worker.IDLE):
                        self._leave(me)
                        break
                if self.closed or me not in self.threads:
                    break
                job = self.waiting.popleft()
                self.running[me] = job
                job.since = time.monotonic()
            try:
                self._run(me, job)
            finally:
                with self.changed:
                    self.running.pop(me, None)
                    self.changed.notify_all()
        worker = self.workers.pop(me, None)
        if worker is not None:
            worker.kill()

    def _leave(self, me: threading.Thread) -> None:
        self.threads.remove(me)

    def _run(self, me: threading.Thread, job: Job) -> None:
        """Have a process compile a graph, and tell who waits for it."""
        outcome, text = "failed", ""
        try:
            worker = self.workers.get(me)
            if worker is None or worker.process.poll() is not None:
                worker = self.workers[me] = Worker()
                if self.closed:  # it was not there yet when the others were killed
                    raise EOFError
            outcome, text = worker.compile(job.graph)
        except (EOFError, TimeoutError, ConnectionError) as error:
            self.workers.pop(me, None)
            ended = "" if worker is None else worker.kill()
            late = (
                f"took more than {LIMIT:.0f} seconds"
                if isinstance(error, TimeoutError)
                else f"ended ({ended})"
            )
            text = f"the process that compiles it {late}"
        except Exception as error:  # whatever comes of it, others wait for this thread
            text = f"{type(error).__name__}: {error}"
        if not self.closed:
            self._tell(job, outcome, text)

    def _tell(self, job: Job, outcome: str, text: str) -> None:
        seconds = time.monotonic() - job.since
        if outcome == "made" and text == "jit":
            _import()
        if outcome == "failed":
            _logs.say(
                log,
                logging.WARNING,
                "the graph of %s is not compiled, and runs without it: %s",
                job.name,
                text,
            )
        elif outcome == "other":
            _logs.say(log, logging.INFO, "the graph of %s is compiled at its next call: %s", job.name, text)
        else:
            _logs.say(
                log,
                logging.INFO,
                "the graph of %s was compiled in the background, in %.1f s",
                job.name,
                seconds,
            )
        with self.changed:
            job.outcome = outcome
            waiting, job.waiting, job.graph = job.waiting, [], {}
        for reference, made in waiting:
            entry, adopt = reference(), made(outcome)
            if entry is not None and adopt is not None and entry.compiled is None:
                entry.pending = adopt

    # ---- the end ----

    def close(self) -> None:
        """Kill the processes, and wait for the threads: not for long."""
        with self.changed:
            self.closed = True
            self.waiting.clear()
            self.changed.notify_all()
        for worker in list(self.workers.values()):
            with contextlib.suppress(OSError):
                if worker.process.returncode is None:
                    os.killpg(worker.process.pid, signal.SIGKILL)
        until = time.monotonic() + _REAP
        for thread in list(self.threads):
            thread.join(max(0.0, until - time.monotonic()))


_queue = Queue()


def outcome_of(key: str) -> str | None:
    """What became of a graph that was compiled before: "made", "other" or "failed"; None if it was not."""
    job = _queue.jobs.get(key)
    return None if job is None else job.outcome


def submit(key: str, describe: Callable[[], dict[str, Any]], entry: _core.Entry, made: Any) -> None:
    """Have the graph of an entry compiled, and `made(outcome)` give what takes it at the next call.

    What was compiled before and is not in the cache any more, or could not be, is not tried again: the replay stays.
    """
    with _queue.changed:
        job = _queue.jobs.get(key)
        if job is not None and job.outcome is None:  # another entry has the same graph
            job.waiting.append((weakref.ref(entry), made))
    if job is not None:
        return
    job = Job(key, describe())
    job.waiting.append((weakref.ref(entry), made))
    if not _queue.add(job):
        _logs.say(log, logging.INFO, "too many graphs wait: that of %s runs without being compiled", job.name)


def figures() -> tuple[str, float, int] | None:
    """What is compiled the longest: its name, for how many seconds, and how many graphs wait. None if nothing is."""
    running = list(_queue.running.values())
    if not running:
        return None
    first = min(running, key=lambda job: job.since)
    return first.name, time.monotonic() - first.since, len(_queue.waiting) + len(running) - 1


def wait(timeout: float | None = None) -> bool:
    """Wait until nothing is compiled in the background any more, at most for so many seconds.

    True if that is so: the next calls use what was compiled. Returns at once where nothing is under way.
    """
    until = None if timeout is None else time.monotonic() + timeout
    queue = _queue
    with _progress.shown(None), queue.changed:
        queue.start()
        while queue.is_busy() and not queue.closed:
            left = 1.0 if until is None else min(1.0, until - time.monotonic())
            if left <= 0:
                return False
            queue.changed.wait(left)  # not for longer: a thread may have died of a signal handler
    return True


def reset() -> None:
    """Forget what was compiled, or could not be; what is under way goes on."""
    with _queue.changed:
        for key, job in list(_queue.jobs.items()):
            if job.outcome is not None:
                del _queue.jobs[key]


def _forked() -> None:
    """In the child of a fork: threads and processes are the parent's."""
    global _queue
    before, _queue = _queue, Queue()
    for worker in list(before.workers.values()):
        worker.disown()
    for key, job in before.jobs.items():
        _queue.jobs[key] = job
        if job.outcome is None and job.graph:
            _queue.waiting.append(job)


os.register_at_fork(after_in_child=_forked)
atexit.register(lambda: _queue.close())
