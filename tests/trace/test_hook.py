"""The frame hook: per thread, installed only while needed, safe beside other users, forks and shutdown."""

from __future__ import annotations

import importlib
import operator
import os
import sys
import threading

import pytest
import torch
from interp.differential import interpreted

import magneto
from magneto import _core

in_own_process = pytest.mark.no_leak_hunt("runs in a process of its own")


def frames() -> int:
    return _core.hook_state()["frames"]


def callee(x):
    return x + 1


def caller(n):
    return [callee(i) for i in range(n)]


@pytest.fixture(autouse=True)
def hook_is_balanced():
    """Whatever a test does, the hook is as it was afterwards."""
    before = {**_core.hook_state(), "frames": 0}
    yield
    assert {**_core.hook_state(), "frames": 0} == before


@pytest.fixture
def nothing_interpreted():
    """The test starts with the hook not installed, even if all frames were being interpreted."""
    before = _core.interpret_all(False)
    yield
    _core.interpret_all(before)


# --- its state on one thread ---


def test_not_installed_at_rest(nothing_interpreted):
    assert not _core.hook_state()["installed"]
    assert _core.hook_state()["users"] == 0


def test_installed_while_interpreting(nothing_interpreted):
    state = _core.interpret(_core.hook_state)
    assert state["installed"]
    assert state["users"] == 1


def test_each_python_frame_is_executed_once():
    before = frames()
    _core.interpret(caller, 5)
    assert frames() - before == 1 + 1 + 5


def test_c_function_is_called_without_a_frame():
    before = frames()
    assert _core.interpret(len, "abc") == 3
    assert frames() == before


def test_nesting_counts_users(nothing_interpreted):
    def inner():
        return _core.hook_state()["users"]

    assert _core.interpret(lambda: (_core.interpret(inner), inner())) == (2, 1)


def test_exception_leaves_the_hook_balanced(nothing_interpreted):
    def fails():
        raise ValueError("x")

    with pytest.raises(ValueError):
        _core.interpret(fails)
    assert not _core.hook_state()["installed"]


def test_nested_exception_leaves_the_outer_level():
    def fails():
        raise ValueError("x")

    def outer():
        with pytest.raises(ValueError):
            _core.interpret(fails)
        before = frames()
        callee(1)
        return frames() - before

    assert _core.interpret(outer) == 2  # callee, and frames itself


def test_arguments_are_passed_on():
    def show(*args, **kwargs):
        return args, kwargs

    assert _core.interpret(show, 1, 2, a=3) == ((1, 2), {"a": 3})


def test_interpret_needs_a_callable():
    with pytest.raises(TypeError, match="callable"):
        _core.interpret()
    with pytest.raises(TypeError, match="not callable"):
        _core.interpret(5)


def test_interpret_all_gives_the_former_setting(nothing_interpreted):
    assert _core.interpret_all(True) is False
    assert _core.interpret_all(True) is True
    assert _core.hook_state()["users"] == 1
    assert _core.interpret_all(False) is True
    assert _core.interpret_all(False) is False


def test_interpret_all_refuses_what_has_no_truth():
    class NoTruth:
        def __bool__(self):
            raise ValueError("truth")

    with pytest.raises(ValueError):
        _core.interpret_all(NoTruth())


def test_interpret_all_switched_off_inside_interpret(nothing_interpreted):
    def inside():
        _core.interpret_all(True)
        _core.interpret_all(False)
        before = frames()
        callee(1)
        return frames() - before

    assert _core.interpret(inside) == 2


def test_generator_made_inside_and_finished_outside(nothing_interpreted):
    def numbers():
        x = 10
        for i in range(3):
            x += yield i

        return x

    it = _core.interpret(numbers)
    assert _core.interpret(next, it) == 0
    assert it.send(5) == 1
    assert _core.interpret(it.send, 6) == 2
    with pytest.raises(StopIteration) as info:
        it.send(7)
    assert info.value.value == 28


def test_generator_made_outside_and_finished_inside():
    def numbers():
        try:
            yield 1
        finally:
            seen.append("finally")

    seen = []
    it = numbers()
    next(it)
    _core.interpret(it.close)
    assert seen == ["finally"]


# --- threads ---


def test_other_threads_frames_are_left_to_cpython(nothing_interpreted):
    stop, ready = threading.Event(), threading.Event()

    def other():
        while not stop.is_set():
            caller(100)
            ready.set()

    def wait():
        before = frames()
        ready.clear()
        ready.wait()
        caller(1)
        return frames() - before

    thread = threading.Thread(target=other)
    thread.start()
    ready.wait()
    counts = [_core.interpret(wait) for _ in range(5)]
    stop.set()
    thread.join()
    assert max(counts) < 50  # the other thread alone makes 100 in each round


def test_new_thread_is_not_interpreting():
    def body():
        before = frames()
        callee(1)
        counts.append(frames() - before)

    counts = []

    def start():
        thread = threading.Thread(target=body)
        thread.start()
        thread.join()

    before = _core.interpret_all(False)
    try:
        _core.interpret(start)
    finally:
        _core.interpret_all(before)
    assert counts == [0]


def test_interpret_all_reaches_other_threads():
    counts = []

    def body():
        before = frames()
        callee(1)
        counts.append(frames() - before)

    former = _core.interpret_all(True)
    try:
        thread = threading.Thread(target=body)
        thread.start()
        thread.join()
    finally:
        _core.interpret_all(former)
    assert counts == [2]


def test_threads_interpret_at_the_same_time(nothing_interpreted):
    barrier = threading.Barrier(4)
    results = []

    def body(n):
        barrier.wait()
        results.append(_core.interpret(lambda: sum(caller(n))))

    threads = [threading.Thread(target=body, args=(n,)) for n in (10, 20, 30, 40)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results) == [sum(range(1, n + 1)) for n in (10, 20, 30, 40)]
    assert _core.hook_state()["users"] == 0


def test_thread_that_ends_by_an_exception_gives_its_use_back(nothing_interpreted):
    def body():
        with pytest.raises(SystemExit):
            _core.interpret(fails)

    def fails():
        raise SystemExit

    thread = threading.Thread(target=body)
    thread.start()
    thread.join()
    assert not _core.hook_state()["installed"]


# --- fork ---


def in_child(function) -> int:
    """Fork, and give the child's exit code: 0 if the function gives true."""
    pid = os.fork()
    if pid == 0:
        try:
            os._exit(0 if function() else 1)
        except BaseException:
            os._exit(2)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_fork_inside_interpret_goes_on_in_the_child():
    def child():
        before = frames()
        callee(1)
        return frames() - before == 2 and _core.hook_state()["users"] >= 1

    def both():
        code = in_child(child)
        return code, caller(2)

    assert interpreted(both) == (0, [1, 2])


def test_fork_drops_the_use_of_threads_that_are_gone(nothing_interpreted):
    inside, leave = threading.Event(), threading.Event()

    def body():
        inside.set()
        leave.wait()

    thread = threading.Thread(target=_core.interpret, args=(body,))
    thread.start()
    inside.wait()

    def child():
        callee(1)
        state = _core.hook_state()
        return state["users"] == 0 and not state["installed"]

    code = in_child(child)
    leave.set()
    thread.join()
    assert code == 0


def test_fork_with_interpret_all_keeps_it_on(nothing_interpreted):
    def child():
        before = frames()
        callee(1)
        return frames() - before == 2 and _core.interpret_all(False) and not _core.hook_state()["installed"]

    _core.interpret_all(True)
    try:
        assert in_child(child) == 0
    finally:
        _core.interpret_all(False)


# --- others who keep data with code objects ---


@in_own_process
def test_free_functions_of_others_get_only_what_they_stored(run_python):
    done = run_python(
        """
import ctypes
from magneto import _core
freed = []
free = ctypes.CFUNCTYPE(None, ctypes.c_ssize_t)(freed.append)
api = ctypes.pythonapi
request = api._PyEval_RequestCodeExtraIndex
request.restype = ctypes.c_ssize_t
_core.interpret(lambda: 0)  # with checks, magneto keeps data with code objects too
index = request(free)
stranger, friend = (eval(f"lambda: {n}") for n in (1, 2))
assert api._PyCode_SetExtra(ctypes.py_object(friend.__code__), ctypes.c_ssize_t(index), ctypes.c_ssize_t(7)) == 0
assert _core.interpret(stranger) == 1 and _core.interpret(friend) == 2
del stranger
print(freed)
del friend
print(freed)
"""
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["[]", "[7]"]


# --- the end of the process ---


@in_own_process
def test_shutdown_with_interpret_all_on(run_python):
    done = run_python(
        """
import atexit, sys, threading, weakref
from magneto import _core
class Late:
    def __del__(self):
        print("del", [x for x in (1, 2)])
_core.interpret_all(True)
def goodbye():
    print("atexit", bool(_core.hook_state()["installed"]))
atexit.register(goodbye)
late = Late()
late.cycle = late
module_level = Late()
def generator():
    try:
        yield
    finally:
        print("generator closed")
suspended = generator()
next(suspended)
threading.local().x = Late()
"""
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert sorted(done.stdout.splitlines()) == ["atexit True", *["del [1, 2]"] * 3, "generator closed"]


@in_own_process
def test_shutdown_inside_interpret(run_python):
    done = run_python(
        """
import sys
from magneto import _core
def leave():
    try:
        sys.exit(7)
    finally:
        print("finally")
_core.interpret(leave)
"""
    )
    assert (done.returncode, done.stdout, done.stderr) == (7, "finally\n", "")


@in_own_process
def test_daemon_threads_at_shutdown(run_python):
    done = run_python(
        """
import threading, time
from magneto import _core
def busy():
    n = 0
    while True:
        n += len([i for i in range(10)])
def sleepy():
    while True:
        time.sleep(0.001)
for target in (busy, sleepy) * 3:
    threading.Thread(target=_core.interpret, args=(target,), daemon=True).start()
_core.interpret_all(True)
for target in (busy, sleepy):
    threading.Thread(target=target, daemon=True).start()
time.sleep(0.1)
print("end")
"""
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "end\n", "")


@in_own_process
def test_uncaught_exception_prints_its_traceback(run_python):
    done = run_python(
        """
from magneto import _core
def fails():
    return 1 / 0
_core.interpret(fails)
"""
    )
    assert done.returncode == 1
    assert "in fails" in done.stderr
    assert "ZeroDivisionError: division by zero" in done.stderr


# --- subinterpreters ---


@in_own_process
def test_subinterpreters_run_unharmed(run_python):
    done = run_python(
        """
import _xxsubinterpreters as interpreters
from magneto import _core
def run():
    i = interpreters.create()
    interpreters.run_string(i, "def f(n): return [x * n for x in range(3)]\\nprint(f(2), flush=True)")
    interpreters.destroy(i)
    return _core.hook_state()["installed"]
assert _core.interpret(run)
run()
_core.interpret_all(True)
run()
print("done")
"""
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["[0, 2, 4]"] * 3 + ["done"]


@in_own_process
def test_import_in_a_subinterpreter_is_refused(run_python):
    done = run_python(
        """
import _xxsubinterpreters as interpreters
import importlib.util, sys
from magneto import _core
i = interpreters.create()
program = '''
import importlib.machinery, importlib.util
loader = importlib.machinery.ExtensionFileLoader("magneto._core", PATH)
spec = importlib.util.spec_from_file_location("magneto._core", PATH, loader=loader)
try:
    spec.loader.exec_module(importlib.util.module_from_spec(spec))
except ImportError as exc:
    print("ImportError:", exc, flush=True)
'''
interpreters.run_string(i, program.replace("PATH", repr(_core.__file__)))
interpreters.destroy(i)
print(_core.interpret(lambda: "main goes on"))
"""
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith("ImportError:")
    assert lines[1] == "main goes on"


@pytest.mark.no_leak_hunt("imports a module")
def test_what_runs_because_a_module_is_imported_is_not_captured(tmp_path, monkeypatch):
    name = "magneto_test_module_with_functions"
    (tmp_path / f"{name}.py").write_text(
        "import torch\ndef double(x):\n    return x * 2\nTABLE = [double(torch.tensor(n)) for n in range(5)]\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))

    def f(x):
        y = x + 1
        return y + importlib.import_module(name).TABLE[2]

    graphs = []

    def backend(module, inputs):
        graphs.append([node.target for node in module.graph.nodes if node.op == "call_function"])
        return module.forward

    assert magneto.compile(f, backend=backend)(torch.ones(1)) == 6
    del sys.modules[name]
    assert graphs == [[operator.add], [operator.add]]
