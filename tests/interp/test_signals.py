"""Signals, pending calls, asynchronous exceptions and the GIL, while interpreted code is busy."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
import time

import pytest
from interp.differential import interpreted

from magneto import _core

in_own_process = pytest.mark.no_leak_hunt("runs in a process of its own")

INTERRUPTED = """
import os, signal, sys, threading, time
from magneto import _core

def interrupt():
    time.sleep(0.2)
    os.kill(os.getpid(), signal.SIGINT)

def empty_loop():
    while True: pass

def for_loop():
    for i in iter(int, 1): pass

def backward_condition():
    n = 1
    while n: n = 1

def calls():
    def f(): return 1
    while f(): f()

def recursion():
    def f(n): return n and f(n - 1) + f(n - 1)
    f(900)

def generator():
    def g():
        while True: yield
    for x in g(): pass

def swallows():
    n = 0
    while n < 3:
        try:
            while True: pass
        finally:
            n += 1

def comprehension():
    [None for i in iter(int, 1) if i]

def while_not_none():
    x = None
    while x is None: x = None

signal.signal(signal.SIGINT, signal.default_int_handler)  # it may be ignored where this is started
threading.Thread(target=interrupt).start()
try:
    _core.interpret(globals()[sys.argv[1]])
except KeyboardInterrupt:
    print("stopped", _core.hook_state()["users"])
"""


@in_own_process
@pytest.mark.parametrize(
    "loop",
    [
        "empty_loop",
        "for_loop",
        "backward_condition",
        "calls",
        "recursion",
        "generator",
        "swallows",
        "comprehension",
        "while_not_none",
    ],
)
def test_keyboard_interrupt_stops_what_would_not_end(run_python, loop):
    done = run_python(INTERRUPTED, loop, timeout=300)
    assert (done.returncode, done.stdout, done.stderr) == (0, "stopped 0\n", "")


@pytest.fixture
def on_alarm():
    """Set a handler for SIGALRM."""
    former = signal.getsignal(signal.SIGALRM)
    yield lambda handler: signal.signal(signal.SIGALRM, handler)
    signal.signal(signal.SIGALRM, former)


def test_handler_gets_the_interrupted_frame(on_alarm):
    seen = []

    def handler(number, frame):
        seen.append((frame.f_code.co_name, frame.f_locals["marker"], frame.f_back.f_code.co_name))

    def busy():
        marker = 5
        os.kill(os.getpid(), signal.SIGALRM)
        while not seen:
            pass

    def outer():
        busy()

    on_alarm(handler)
    interpreted(outer)
    assert seen == [("busy", 5, "outer")]


def test_exception_of_a_handler_is_raised_in_the_loop(on_alarm):
    class Stop(Exception):
        pass

    def handler(number, frame):
        raise Stop

    def busy():
        try:
            os.kill(os.getpid(), signal.SIGALRM)
            while True:
                pass
        except Stop as exc:
            return exc.__traceback__.tb_frame.f_code.co_name

    on_alarm(handler)
    assert interpreted(busy) == "busy"


def test_handler_is_interpreted_too(on_alarm):
    counts = []

    def handler(number, frame):
        before = _core.hook_state()["frames"]
        (lambda: None)()
        counts.append(_core.hook_state()["frames"] - before)

    def busy():
        os.kill(os.getpid(), signal.SIGALRM)
        while not counts:
            pass

    on_alarm(handler)
    interpreted(busy)
    assert counts == [1]


def test_signal_for_the_main_thread_while_another_is_busy(on_alarm):
    seen = []
    stop = threading.Event()

    def busy():
        while not stop.is_set():
            pass

    on_alarm(lambda number, frame: seen.append(threading.current_thread() is threading.main_thread()))
    thread = threading.Thread(target=_core.interpret, args=(busy,))
    thread.start()
    os.kill(os.getpid(), signal.SIGALRM)
    while not seen:
        time.sleep(0.001)
    stop.set()
    thread.join()
    assert seen == [True]


def test_pending_calls_are_served():
    testcapi = pytest.importorskip("_testcapi")
    seen = []

    def busy():
        testcapi._pending_threadfunc(lambda: seen.append(1))
        while not seen:
            pass

    interpreted(busy)
    assert seen == [1]


def test_pending_call_that_raises():
    testcapi = pytest.importorskip("_testcapi")

    def pending():
        raise KeyError("pending")

    def busy():
        testcapi._pending_threadfunc(pending)
        while True:
            pass

    with pytest.raises(KeyError, match="pending"):
        interpreted(busy)


def test_asynchronous_exception_stops_a_thread():
    class Stop(Exception):
        pass

    started = threading.Event()
    seen = []

    def busy():
        started.set()
        while True:
            pass

    def body():
        try:
            _core.interpret(busy)
        except Stop:
            seen.append("stopped")

    thread = threading.Thread(target=body)
    thread.start()
    started.wait()
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident), ctypes.py_object(Stop))
    thread.join(60)
    assert seen == ["stopped"]


def test_asynchronous_exceptions_again_and_again():
    class Stop(Exception):
        pass

    started = threading.Event()
    leave = []
    count = [0]

    def busy():
        while not leave:
            try:
                started.set()
                while not leave:
                    pass
            except Stop:
                count[0] += 1

    def body():
        while not leave:
            try:
                _core.interpret(busy)
            except Stop:  # it came between the loops
                count[0] += 1

    thread = threading.Thread(target=body)
    thread.start()
    started.wait()
    for n in range(1, 6):
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident), ctypes.py_object(Stop))
        while count[0] < n:
            time.sleep(0.001)
    leave.append(1)
    thread.join(60)
    assert count == [5]


@pytest.mark.parametrize("interval", [None, 1e-6], ids=["default", "short"])
def test_eight_busy_threads_share_the_gil_with_a_plain_one(interval):
    progress = [0] * 9
    stop = []

    def busy(index):
        while not stop:
            progress[index] += 1

    former = sys.getswitchinterval()
    threads = [threading.Thread(target=_core.interpret, args=(busy, i)) for i in range(8)]
    threads.append(threading.Thread(target=busy, args=(8,)))
    try:
        if interval is not None:
            sys.setswitchinterval(interval)
        for thread in threads:
            thread.start()
        deadline = time.monotonic() + 60
        while min(progress) < 100 and time.monotonic() < deadline:
            time.sleep(0.01)
    finally:
        stop.append(1)
        for thread in threads:
            thread.join()
        sys.setswitchinterval(former)
    assert min(progress) >= 100


def test_blocking_calls_release_the_gil():
    read, write = os.pipe()
    seen = []

    def reader():
        seen.append(os.read(read, 1))

    thread = threading.Thread(target=_core.interpret, args=(reader,))
    thread.start()
    os.write(write, b"x")
    thread.join()
    os.close(read)
    os.close(write)
    assert seen == [b"x"]


class Halt(BaseException):
    pass


def steps(log, made):
    """`made` is called, and then there is time to notice what it did."""
    log.append("begins")
    made()
    for _ in range(200_000):
        pass
    log.append("ends")


def test_signals_wait_for_what_must_not_end_halfway(on_alarm):
    log = []

    def handler(number, frame):
        log.append("handled")
        raise Halt

    def kill():
        os.kill(os.getpid(), signal.SIGALRM)

    on_alarm(handler)
    with pytest.raises(Halt):
        _core.uninterrupted(steps, log, kill)
    assert log == ["begins", "ends", "handled"]

    with pytest.raises(Halt):
        _core.uninterrupted(_core.uninterrupted, steps, log, kill)  # nested: on the main thread both times
    assert log[3:] == ["begins", "ends", "handled"]
    assert threading.current_thread() is threading.main_thread()
    on_alarm(signal.SIG_IGN)  # only the main thread may: it is that again


def test_an_error_of_what_must_not_end_halfway_is_raised(on_alarm):
    on_alarm(lambda *_: None)
    with pytest.raises(ZeroDivisionError):
        _core.uninterrupted(lambda: 1 // 0)
    on_alarm(signal.SIG_IGN)


def test_exceptions_of_other_threads_wait_for_what_must_not_end_halfway():
    log = []

    def poke():
        ident = ctypes.c_ulong(threading.get_ident())
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ident, ctypes.py_object(Halt))

    def body():
        try:
            _core.uninterrupted(steps, log, poke)
            for _ in range(200_000):
                pass
        except Halt:
            log.append("halted")

    thread = threading.Thread(target=body)
    thread.start()
    thread.join(60)
    assert log == ["begins", "ends", "halted"]
