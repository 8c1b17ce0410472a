"""Interrupts and forks while a thread compiles: no lock stays held, and torch's state is what it was."""

from __future__ import annotations

import dis
import itertools
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
import torch

import magneto
from magneto import _backends, _config, _locks, _propagate

SERVED_AFTER = frozenset(
    dis.opmap[name]
    for name in (
        "RESUME", "CALL", "CALL_FUNCTION_EX", "JUMP_BACKWARD", "POP_JUMP_BACKWARD_IF_TRUE",
        "POP_JUMP_BACKWARD_IF_FALSE",
    )
)  # fmt: skip
"""Behind these instructions CPython serves signals."""


def is_free(lock: Any) -> bool:
    """Whether another thread can take it."""
    got: list[int] = []

    def take() -> None:
        if lock.acquire(timeout=10):
            got.append(1)
            lock.release()

    thread = threading.Thread(target=take)
    thread.start()
    thread.join()
    return bool(got)


class Interrupt(BaseException):
    pass


class Interrupter:
    """A trace function that raises at the n-th place in some files where a signal handler could."""

    def __init__(self, at: int, *files: str) -> None:
        self.left = at
        self.files = files

    def __call__(self, frame: Any, event: str, argument: Any) -> Any:
        if frame.f_code.co_filename not in self.files:
            return None
        frame.f_trace_opcodes = True
        frame.f_trace_lines = False
        code, before = frame.f_code.co_code, [None]

        def local(frame: Any, event: str, argument: Any) -> Any:
            if event == "opcode":
                was, before[0] = before[0], code[frame.f_lasti]
                if was in SERVED_AFTER:
                    self.left -= 1
                    if self.left == 0:
                        raise Interrupt
            return local

        return local


def run_interrupted(function: Callable[[], Any], at: int, *files: str) -> BaseException | None:
    """What it raises if it is interrupted at the n-th place; None if there are not so many."""
    before = sys.gettrace()
    sys.settrace(Interrupter(at, *files))
    try:
        function()
    except Interrupt as error:
        return error
    finally:
        sys.settrace(before)
    return None


def graph_backend(module: torch.fx.GraphModule, _inputs: Any) -> Callable[..., Any]:
    return module.forward


def plain(x: torch.Tensor) -> torch.Tensor:
    return x * 2 + 1


def test_an_interrupt_anywhere_in_a_compile_leaves_the_lock_free(monkeypatch: pytest.MonkeyPatch) -> None:
    lock = _locks.compile_lock()
    real = _backends.Compiler.__call__
    kept: list[BaseException] = []  # somebody may keep the exceptions

    def compile_interrupted(self: Any, entry: Any) -> Any:
        while True:
            at = len(kept) + 1
            error = run_interrupted(lambda: real(self, entry), at, _backends.__file__, _locks.__file__)
            if error is None:
                return real(self, entry)
            kept.append(error)
            assert is_free(lock), f"after an interrupt at {at}"

    monkeypatch.setattr(_backends.Compiler, "__call__", compile_interrupted)
    compiled = magneto.compile(plain, backend=graph_backend)
    assert compiled(torch.ones(2)).tolist() == [3.0, 3.0]
    assert len(kept) > 20


def test_an_interrupt_anywhere_in_a_propagation_leaves_the_lock_free() -> None:
    from magneto import _core, _runtime

    meta = _core.meta(torch.float32, torch.device("cpu"), (3,), (1,), 0, None)
    lock = _locks.compile_lock()

    def work() -> None:
        outcome = _runtime.propagate(0, torch.sin, (_core.ref(0),), {}, [(0, meta)], None)
        assert outcome.result is meta

    kept, at = [], 0
    while True:
        at += 1
        error = run_interrupted(work, at, _propagate.__file__, _locks.__file__, _runtime.__file__)
        if error is None:
            break
        kept.append(error)
        assert is_free(lock), f"after an interrupt at {at}"
        assert not _propagate.quiet.on
        magneto._rules._pop_modes(0)  # here as the core does
    assert at > 20


# ---- in the middle of captures ----


class Alarm(Exception):
    """What a signal handler raises: an exception that a program may handle."""


def raising(kind: type[BaseException]) -> Callable[..., None]:
    def handle(*_: Any) -> None:
        raise kind("by a signal handler")

    return handle


@pytest.fixture
def handler() -> Any:
    before = signal.getsignal(signal.SIGUSR1)
    yield lambda kind: signal.signal(signal.SIGUSR1, raising(kind))
    signal.signal(signal.SIGUSR1, before)


@pytest.fixture(scope="module")
def library() -> Any:
    with torch.library._scoped_library("magneto_locks", "FRAGMENT") as found:
        found.define("waits(Tensor x) -> Tensor")
        found.impl("waits", lambda x: x + 1, "CPU")
        torch.library.register_fake("magneto_locks::waits", lambda x: fake_kernel(x), lib=found)
        assert torch.ops.magneto_locks.waits(torch.zeros(1)).item() == 1  # torch.ops has it from now on
        yield found


def _no_more(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)


ranks = itertools.count()

fake_kernel: Callable[[torch.Tensor], torch.Tensor] = _no_more


@pytest.mark.parametrize("kind", [KeyboardInterrupt, Alarm, ValueError])
def test_a_signal_in_a_fake_kernel_reaches_the_caller(
    kind: type[BaseException], handler: Any, library: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    handler(kind)
    times: list[int] = []
    x = torch.zeros(2, *[1] * next(ranks))  # what an operation gives for the same metadata is remembered

    def kernel(x: torch.Tensor) -> torch.Tensor:
        times.append(1)
        if len(times) == 1:
            signal.raise_signal(signal.SIGUSR1)
        return torch.empty_like(x)

    monkeypatch.setattr(sys.modules[__name__], "fake_kernel", kernel)

    def function(x: torch.Tensor) -> Any:
        try:
            return torch.ops.magneto_locks.waits(x)
        except (KeyboardInterrupt, Alarm, ValueError):
            return "handled"

    compiled = magneto.compile(function, backend="eager", fullgraph=True)
    with pytest.raises(kind, match="by a signal handler"):
        compiled(x)
    assert torch._C._len_torch_dispatch_stack() == 0
    assert type(torch.empty(2)) is torch.Tensor
    assert is_free(_locks.compile_lock())
    assert compiled(x).flatten().tolist() == [1.0, 1.0]


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
def test_a_signal_in_a_backend_leaves_torch_as_it_was(kind: type[BaseException], handler: Any) -> None:
    handler(kind)
    times: list[int] = []

    def backend(module: torch.fx.GraphModule, inputs: Any) -> Callable[..., Any]:
        times.append(1)
        torch._C._set_grad_enabled(False)
        from torch._subclasses.fake_tensor import FakeTensorMode

        FakeTensorMode().__enter__()
        if len(times) == 1:
            signal.raise_signal(signal.SIGUSR1)
        torch._C._set_grad_enabled(True)
        torch._C._unset_dispatch_mode(torch._C._TorchDispatchModeKey.FAKE)
        return module.forward

    compiled = magneto.compile(plain, backend=backend)
    with pytest.raises(kind):
        compiled(torch.ones(2))
    assert torch.is_grad_enabled()
    assert torch._C._len_torch_dispatch_stack() == 0
    assert is_free(_locks.compile_lock())
    assert compiled(torch.ones(2)).tolist() == [3.0, 3.0]


# ---- forks ----


def in_child(work: Callable[[], Any]) -> None:
    """Runs it in a child that is given up on after a while; True is a success."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(60)
            code = 0 if work() is True else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def child_compiles() -> bool:
    for backend in (graph_backend, "aot_eager", "eager"):
        compiled = magneto.compile(lambda x: torch.erfinv(x * 2).sinc(), backend=backend)
        expected = torch.erfinv(torch.full((3,), 0.5)).sinc()
        if not torch.equal(compiled(torch.full((3,), 0.25)), expected):
            return False
    return True


@pytest.mark.no_leak_hunt("forks")
def test_a_child_compiles_though_it_was_forked_while_another_thread_did() -> None:
    child_compiles()  # imports
    inside, leave = threading.Event(), threading.Event()

    def backend(module: torch.fx.GraphModule, inputs: Any) -> Callable[..., Any]:
        inside.set()
        leave.wait(60)
        return module.forward

    results: list[torch.Tensor] = []
    thread = threading.Thread(
        target=lambda: results.append(magneto.compile(plain, backend=backend)(torch.ones(2)))
    )
    thread.start()
    assert inside.wait(60)
    try:
        in_child(child_compiles)
    finally:
        leave.set()
        thread.join()
    assert results[0].tolist() == [3.0, 3.0]
    assert is_free(_locks.compile_lock())


@pytest.mark.no_leak_hunt("forks")
def test_a_child_compiles_though_it_was_forked_while_another_thread_was_in_a_fake_kernel(
    library: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    child_compiles()
    inside, leave = threading.Event(), threading.Event()

    def kernel(x: torch.Tensor) -> torch.Tensor:
        inside.set()
        leave.wait(60)
        return torch.empty_like(x)

    monkeypatch.setattr(sys.modules[__name__], "fake_kernel", kernel)

    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.ops.magneto_locks.waits(x)

    results: list[torch.Tensor] = []
    x = torch.ones(2, *[1] * next(ranks))
    thread = threading.Thread(
        target=lambda: results.append(magneto.compile(function, backend="eager", fullgraph=True)(x))
    )
    thread.start()
    assert inside.wait(60)
    try:
        in_child(child_compiles)
    finally:
        leave.set()
        thread.join()
    assert results[0].flatten().tolist() == [2.0, 2.0]


@pytest.mark.no_leak_hunt("forks")
def test_a_backend_may_fork() -> None:
    """The thread that holds the lock still holds it in the child, and lets go of it there."""

    def backend(module: torch.fx.GraphModule, inputs: Any) -> Callable[..., Any]:
        in_child(child_compiles)
        return module.forward

    assert magneto.compile(plain, backend=backend)(torch.ones(2)).tolist() == [3.0, 3.0]
    assert is_free(_locks.compile_lock())


@pytest.mark.no_leak_hunt("forks")
def test_a_fork_waits_for_a_compile_that_ends_soon() -> None:
    inside = threading.Event()
    held: list[int] = []

    def backend(module: torch.fx.GraphModule, inputs: Any) -> Callable[..., Any]:
        inside.set()
        time.sleep(0.05)
        held.append(1)
        return module.forward

    thread = threading.Thread(target=lambda: magneto.compile(plain, backend=backend)(torch.ones(2)))
    thread.start()
    assert inside.wait(60)
    in_child(lambda: bool(held) and child_compiles())
    thread.join()


@pytest.mark.parametrize(("error", "reads"), [(KeyError, 4), (TimeoutError, 10), (KeyboardInterrupt, 10)])
def test_what_a_signal_handler_raises_while_settings_are_read(
    error: type[BaseException], reads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither lost, nor taken for an error of whoever reads them: it reaches the caller."""
    real, asked, at = _config.get, [], 0

    def get(name: str) -> Any:
        asked.append(name)
        try:
            if at and len(asked) == at:
                signal.raise_signal(signal.SIGUSR1)
            return real(name)
        except KeyError:
            raise AttributeError(name) from None

    def handler(*_: Any) -> None:
        raise error("from outside")

    monkeypatch.setattr(_config, "get", get)
    before = signal.signal(signal.SIGUSR1, handler)
    try:
        for number in range(1, reads + 1):
            at = 0
            compiled = magneto.compile(lambda x: x + 1, backend="eager")
            asked.clear()
            at = number
            with pytest.raises(error, match="from outside"):
                compiled(torch.ones(2))
            assert len(asked) >= number
            assert torch.equal(compiled(torch.ones(2)), torch.full((2,), 2.0))
    finally:
        signal.signal(signal.SIGUSR1, before)
