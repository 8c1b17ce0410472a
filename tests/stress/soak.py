"""Threads that compile and call, a signal handler that raises at random moments, forks, collections and resets.

    python tests/stress/soak.py --minutes 60 --seed 1

Every result is compared with eager's. A hang ends in the stacks of all threads and an error. What a signal handler
raises may end any call of the main thread; the next one must be right, with torch's state as it was.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import faulthandler
import gc
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn

import magneto

HANG = 300
"""After so many seconds without a turn of the main thread it is a hang. Not a measure of anything."""


class Interrupt(BaseException):
    """Raised by the signal handler, or set from another thread."""


class Timeout(Exception):
    """The same, as programs define their own."""


def graph_backend(module: torch.fx.GraphModule, _inputs: Any) -> Callable[..., Any]:
    return module.forward


BACKENDS: tuple[Any, ...] = ("eager", "eager", "aot_eager", graph_backend)


ALL = tuple(range(len(BACKENDS)))
INTERRUPTIBLE = tuple(i for i in ALL if BACKENDS[i] != "aot_eager")
"""Without AOTAutograd: where that is interrupted, destructors in libtorch throw what the handler raised; the process
ends (SIGABRT). So it does with `torch.compile(backend="aot_eager")` and the same signals, after a few calls."""


def breaks() -> None:
    eval("None")


def pointwise(x: torch.Tensor, n: int) -> torch.Tensor:
    for i in range(n):
        x = torch.erfinv(x.tanh() * 0.5) + i
    return x


def broken(x: torch.Tensor, n: int) -> torch.Tensor:
    y = x * n
    breaks()
    with torch.no_grad():
        z = y.sum()
        breaks()
        z = z + 1
    return y + z


def propagated(x: torch.Tensor, n: int) -> torch.Tensor:
    return torch.special.zeta(x.abs() + 2, torch.tensor(float(n + 1))).logcumsumexp(0)


def handled(x: torch.Tensor, n: int) -> torch.Tensor:
    try:
        return x.view(n, 7, 11)
    except RuntimeError:
        return x + n


def in_place(x: torch.Tensor, n: int) -> torch.Tensor:
    y = x.clone()
    y.mul_(n)
    y[0] = 3
    return y.t()


def gradient(x: torch.Tensor, n: int) -> torch.Tensor:
    x = x.detach().requires_grad_()
    (x * x * n).sum().backward()
    assert x.grad is not None
    return x.grad


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.norm = nn.LayerNorm(4)

    def forward(self, x: torch.Tensor, n: int) -> torch.Tensor:
        for _ in range(n):
            x = self.norm(self.first(x)).relu()
        return x


torch.manual_seed(0)
NET = Net()
PROGRAMS: tuple[Any, ...] = (pointwise, broken, propagated, handled, in_place, gradient, NET)


def expected(function: Any, rows: int, n: int) -> torch.Tensor:
    return function(torch.linspace(-1, 1, rows * 4).reshape(rows, 4), n)


WANTED = {
    (number, rows, n): expected(function, rows, n)
    for number, function in enumerate(PROGRAMS)
    for rows in (1, 2, 3)
    for n in (1, 2)
}


class Worker:
    """Compiles programs and calls them, each with several shapes and numbers."""

    def __init__(self, seed: int) -> None:
        self.source = random.Random(seed)
        self.compiled: dict[tuple[int, int], Any] = {}
        self.calls = 0
        self.uses_contexts = self.may_raise = False

    def turn(self, kinds: tuple[int, ...] = ALL) -> None:
        number = self.source.randrange(len(PROGRAMS))
        kind = self.source.choice(kinds)
        self.uses_contexts = PROGRAMS[number] is broken
        if self.source.random() < 0.2:
            self.compiled.pop((number, kind), None)
        compiled = self.compiled.get((number, kind))
        if compiled is None:
            compiled = magneto.compile(PROGRAMS[number], backend=BACKENDS[kind])
            self.compiled[number, kind] = compiled
        rows, n = self.source.choice((1, 2, 3)), self.source.choice((1, 2))
        found = compiled(torch.linspace(-1, 1, rows * 4).reshape(rows, 4), n)
        wanted = WANTED[number, rows, n]
        if type(found) is not torch.Tensor or not torch.allclose(found, wanted, equal_nan=True):
            raise AssertionError(f"{PROGRAMS[number]} {BACKENDS[kind]} {rows} {n}: {found}, and not {wanted}")
        self.calls += 1


def repair_state() -> None:
    """What torch's own context managers, written in Python, leave behind when they are interrupted, in eager too."""
    torch._C._set_grad_enabled(True)
    magneto._rules._pop_modes(0)


def check_state() -> None:
    """Nothing that an interrupt may leave behind."""
    if not torch.is_grad_enabled() or torch.is_inference_mode_enabled():
        raise AssertionError("the grad mode is another")
    if torch._C._len_torch_dispatch_stack() or torch._C._len_torch_function_stack():
        raise AssertionError("a mode is on")
    if type(torch.empty(1)) is not torch.Tensor or torch.get_default_dtype() is not torch.float32:
        raise AssertionError("new tensors are others")
    if not gc.isenabled() and not threading.active_count() > 1:
        raise AssertionError("collections are off")


class Soak:
    def __init__(self, seed: int, threads: int) -> None:
        self.seed = seed
        self.source = random.Random(seed)
        self.stop = threading.Event()
        self.errors: list[str] = []
        self.threads = [threading.Thread(target=self.work, args=(i,), daemon=True) for i in range(threads)]
        self.workers = [Worker(seed * 100 + 1 + i) for i in range(threads)]
        self.armed = False
        self.raised = self.received = self.forks = 0

    def work(self, number: int) -> None:
        done = False
        while not done:
            try:
                self.take_turns(self.workers[number])
                done = True
            except Interrupt:  # one more, while the one before was handled
                pass

    def take_turns(self, worker: Worker) -> None:
        while True:
            try:
                if self.stop.is_set():
                    return
                worker.may_raise = worker.source.random() < 0.7
                worker.turn(INTERRUPTIBLE if worker.may_raise else ALL)
                worker.may_raise = False
                if worker.source.random() < 0.01:
                    magneto.reset()
                if worker.source.random() < 0.02:
                    gc.collect()
            except BaseException as error:
                if not is_by_interrupt(error):
                    self.fail(f"on a thread: {type(error).__name__}: {error}", error)
                    return
                worker.may_raise = False
                repair_state()

    def fail(self, text: str, error: BaseException) -> None:
        import traceback

        traceback.print_exception(error)
        self.errors.append(text)
        self.stop.set()

    def handle(self, *_: Any) -> None:
        if self.armed:
            self.armed = False
            self.raised += 1
            raise (Interrupt if self.source.random() < 0.5 else Timeout)

    def interrupted_turn(self, worker: Worker) -> None:
        """One turn of the main thread, with a signal at some moment."""
        delay = self.source.choice((1e-4, 1e-3, 1e-2)) * (0.2 + self.source.random())
        try:
            try:
                self.armed = True
                signal.setitimer(signal.ITIMER_REAL, delay)
                worker.turn(INTERRUPTIBLE)
            finally:
                self.armed = False
        except (Interrupt, Timeout):
            self.received += 1
        except Exception as error:
            if not is_by_interrupt(error):
                raise
            self.received += 1
        signal.setitimer(signal.ITIMER_REAL, 0)

    def fork(self) -> None:
        self.forks += 1
        seed = self.source.randrange(1 << 30)
        faulthandler.cancel_dump_traceback_later()  # its thread would not be in the child
        child = os.fork()
        if child == 0:
            code = 3
            try:
                signal.signal(signal.SIGALRM, signal.SIG_DFL)
                faulthandler.register(signal.SIGALRM, all_threads=True, chain=True)
                signal.alarm(HANG // 2)
                worker = Worker(seed)
                for _ in range(6):
                    worker.turn()
                check_state()
                code = 0
            except BaseException as error:
                import traceback

                traceback.print_exception(error)
            finally:
                os._exit(code)
        faulthandler.dump_traceback_later(HANG, exit=True)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if status != 0:
            raise AssertionError(f"a child ended with {status}")

    def poke(self) -> None:
        """Sets an exception on one of the other threads."""
        number = self.source.randrange(len(self.threads))
        thread = self.threads[number]
        if thread.ident is not None and thread.is_alive() and self.workers[number].may_raise:
            ctypes.pythonapi.PyThreadState_SetAsyncExc(
                ctypes.c_ulong(thread.ident), ctypes.py_object(Interrupt)
            )

    def run(self, is_over: Callable[[int], bool]) -> None:
        worker = Worker(self.seed)
        for number in range(len(PROGRAMS) * 4):  # what is imported on first use is imported now
            worker.turn()
            del number
        before = signal.signal(signal.SIGALRM, self.handle)
        for thread in self.threads:
            thread.start()
        turns = 0
        try:
            while not is_over(turns) and not self.stop.is_set():
                faulthandler.dump_traceback_later(HANG, exit=True)
                received = self.received
                self.interrupted_turn(worker)
                if self.received > received and worker.uses_contexts:
                    repair_state()
                check_state()
                if self.source.random() < 0.05:
                    worker.turn()
                if self.source.random() < 0.03:
                    self.fork()
                if self.source.random() < 0.02:
                    magneto.reset()
                if self.source.random() < 0.02:
                    gc.collect()
                if self.threads and self.source.random() < 0.1:
                    self.poke()
                turns += 1
        finally:
            faulthandler.cancel_dump_traceback_later()
            self.stop.set()
            signal.signal(signal.SIGALRM, before)
            for thread in self.threads:
                thread.join(HANG)
        if any(thread.is_alive() for thread in self.threads):
            faulthandler.dump_traceback()
            raise AssertionError("a thread hangs")
        if lost:
            raise AssertionError(f"not raised: {lost[0]}")
        if self.errors:
            raise AssertionError(self.errors[0])
        check_state()
        print(
            f"{turns} turns, {self.raised} interrupts raised, {self.received} received, {self.forks} forks, "
            f"seed {self.seed}",
            flush=True,
        )


def is_by_interrupt(error: BaseException | None) -> bool:
    """Whether what was raised goes back to an interrupt: a backend's error wraps it."""
    seen = 0
    while error is not None and seen < 20:
        if isinstance(error, (Interrupt, Timeout)):
            return True
        if "Interrupt" in str(error) or "Timeout" in str(error):
            return True
        error, seen = error.__cause__ or error.__context__, seen + 1
    return False


lost: list[str] = []
"""Errors that nobody could be told of, other than interrupts."""


def unraisable(found: Any) -> None:
    module = getattr(found.object, "__module__", None) or ""
    if not isinstance(found.exc_value, (Interrupt, Timeout)) and not module.startswith("torch"):
        import traceback

        traceback.print_stack()
        sys.__unraisablehook__(found)
        lost.append(f"{found.exc_type.__name__}: {found.exc_value}")


@contextlib.contextmanager
def short_turns() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-4)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--turns", type=int, default=0)
    parser.add_argument("--threads", type=int, default=3)
    parser.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(3), "big"))
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    faulthandler.enable()
    sys.unraisablehook = unraisable
    print(f"soak: seed {arguments.seed}", flush=True)
    end = time.monotonic() + arguments.minutes * 60
    with short_turns():
        if arguments.turns:
            Soak(arguments.seed, arguments.threads).run(lambda turns: turns >= arguments.turns)
            return
        round_number = 0
        while time.monotonic() < end:
            soak = Soak(arguments.seed + round_number, arguments.threads)
            soak.run(lambda turns: turns >= 2000 or time.monotonic() > end)
            round_number += 1


if __name__ == "__main__":
    main()
