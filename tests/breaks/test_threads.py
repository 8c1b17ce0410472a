"""Compiled functions with breaks on many threads, in recursion, and under trace and profile functions."""

from __future__ import annotations

import gc
import os
import random
import subprocess
import sys
import textwrap
import threading
import time
import traceback
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch

import magneto
from magneto import _core

THREADS = 10


def graph_backend(module: torch.fx.GraphModule, _inputs: Any) -> Callable[..., Any]:
    return module.forward


BACKENDS = pytest.mark.parametrize("backend", ["eager", graph_backend], ids=["eager", "graph"])


@pytest.fixture(autouse=True)
def short_turns() -> Iterator[None]:
    """Threads take turns every few instructions."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)
    sink.lines.clear()


class Sink:
    """What the programs write to: a break, like print()."""

    def __init__(self) -> None:
        self.lines: list[Any] = []

    def write(self, value: Any) -> None:
        eval("self.lines.append(value)")  # a C function that nobody looks into


sink = Sink()


def scale(v: torch.Tensor) -> torch.Tensor:
    v = v * 2
    sink.write(threading.get_ident())
    if v.sum() > 0:
        return v + 1
    return v - 1


def program(x: torch.Tensor, n: int) -> tuple[torch.Tensor, list[float]]:
    seen = []
    for i in range(n):
        x = scale(x) * 0.5
        with torch.no_grad():
            seen.append(x.sum().item())
        try:
            sink.write(i)
            if i % 2:
                raise ValueError(i)
        except ValueError as error:
            x = x + error.args[0]
    return x * n, seen


def in_threads(work: Callable[[int], Any]) -> list[Any]:
    """Runs it on all threads at once; a deadlock is a failure."""
    barrier = threading.Barrier(THREADS)

    def start(number: int) -> Any:
        barrier.wait(60)
        return work(number)

    with ThreadPoolExecutor(THREADS) as pool:
        futures = [pool.submit(start, number) for number in range(THREADS)]
        return [future.result(timeout=300) for future in futures]


def expect(result: tuple[torch.Tensor, list[float]], argument: torch.Tensor, n: int) -> None:
    wanted, seen = program(argument, n)
    assert torch.equal(result[0], wanted)
    assert result[1] == seen


@BACKENDS
def test_ten_threads_call_one_function_with_breaks(backend: Any) -> None:
    compiled = magneto.compile(program, backend=backend)

    def work(number: int) -> None:
        source = random.Random(number)
        for _ in range(6):
            argument = torch.full((source.choice((2, 3)), 2), float(source.randint(-3, 3)))
            n = source.randint(1, 3)
            expect(compiled(argument, n), argument, n)

    in_threads(work)


@BACKENDS
def test_ten_threads_begin_with_the_same_call(backend: Any) -> None:
    compiled = magneto.compile(program, backend=backend)
    argument = torch.ones(2, 2)
    for result in in_threads(lambda _: compiled(argument, 3)):
        expect(result, argument, 3)


def test_each_thread_has_its_own_module() -> None:
    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(2))
            self.calls = 0

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.calls += 1
            y = x * self.weight
            sink.write(self.calls)
            self.calls += 1
            return y + self.calls

    def work(number: int) -> list[Any]:
        net = Net()
        with torch.no_grad():
            net.weight.fill_(number)
        compiled = magneto.compile(net, backend="eager")
        return [compiled(torch.ones(2)).tolist() for _ in range(4)] + [net.calls]

    for number, found in enumerate(in_threads(work)):
        assert found == [[number + 2.0 * (i + 1)] * 2 for i in range(4)] + [8]


def test_one_list_is_written_by_all_threads() -> None:
    log: list[int] = []

    def function(x: torch.Tensor, number: int) -> torch.Tensor:
        log.append(number)
        y = x + number
        sink.write(number)
        return y * 2

    compiled = magneto.compile(function, backend="eager")

    def work(number: int) -> None:
        for _ in range(5):
            assert compiled(torch.ones(2), number % 3).tolist() == [2.0 * (1 + number % 3)] * 2

    in_threads(work)
    assert sorted(log) == sorted(number % 3 for number in range(THREADS) for _ in range(5))


def test_exceptions_stay_on_their_threads() -> None:
    def function(x: torch.Tensor, number: int) -> torch.Tensor:
        y = x + number
        sink.write(number)
        if number % 2:
            raise KeyError(number)
        return y

    compiled = magneto.compile(function, backend="eager")

    def work(number: int) -> None:
        for _ in range(5):
            assert sys.exc_info() == (None, None, None)
            if number % 2:
                with pytest.raises(KeyError) as caught:
                    compiled(torch.ones(2), number)
                assert caught.value.args == (number,)
            else:
                assert compiled(torch.ones(2), number).tolist() == [1.0 + number] * 2

    in_threads(work)


def test_grad_mode_stays_on_its_thread() -> None:
    def function(x: torch.Tensor) -> tuple[bool, torch.Tensor]:
        with torch.no_grad():
            y = x * 2
            sink.write(0)
            inside = torch.is_grad_enabled()
            y = y + 1
        return inside, y * x

    compiled = magneto.compile(function, backend="eager")

    def work(number: int) -> None:
        for _ in range(5):
            with torch.set_grad_enabled(number % 2 == 0):
                x = torch.ones(2, requires_grad=True)
                inside, y = compiled(x)
                assert not inside
                assert y.requires_grad == (number % 2 == 0)
                assert torch.is_grad_enabled() == (number % 2 == 0)

    in_threads(work)


def test_a_break_waits_for_another_thread_that_is_in_the_same_function() -> None:
    """Nothing is locked while a break is executed."""
    meeting = threading.Barrier(THREADS)

    def function(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        meeting.wait(120)
        return y * 2

    compiled = magneto.compile(function, backend="eager")
    for _ in range(2):
        for result in in_threads(lambda _: compiled(torch.ones(2))):
            assert result.tolist() == [4.0, 4.0]


def test_reset_while_others_run() -> None:
    compiled = magneto.compile(program, backend="eager")

    def work(number: int) -> None:
        for turn in range(5):
            if number == 0:
                magneto.reset()
            else:
                argument = torch.full((2, 2), float(turn - 2))
                expect(compiled(argument, 2), argument, 2)

    in_threads(work)


# ---- recursion ----


@BACKENDS
def test_recursion_through_the_compiled_function(backend: Any) -> None:
    def factorial(x: torch.Tensor, n: int) -> torch.Tensor:
        y = x * n
        sink.write(n)
        return y if n == 1 else compiled(y, n - 1) + 0

    compiled = magneto.compile(factorial, backend=backend)
    for n in (1, 5, 3, 12):
        wanted = 1
        for i in range(2, n + 1):
            wanted *= i
        assert compiled(torch.ones(2), n).tolist() == [float(wanted)] * 2


def test_two_compiled_functions_call_each_other() -> None:
    def even(x: torch.Tensor, n: int) -> torch.Tensor:
        sink.write(n)
        return x if n == 0 else odd(x + 1, n - 1) * 1

    def odd_(x: torch.Tensor, n: int) -> torch.Tensor:
        y = x * 2
        sink.write(n)
        return even_compiled(y, n - 1) + 0

    even_compiled = magneto.compile(even, backend="eager")
    odd = magneto.compile(odd_, backend="eager")

    def plain(x: float, n: int) -> float:
        for i in range(n):
            x = x + 1 if i % 2 == 0 else x * 2
        return x

    # odd_ doubles after even has added one
    for n in (2, 4, 6, 4):
        assert even_compiled(torch.ones(2), n).tolist() == [plain(1.0, n)] * 2


def test_a_compiled_function_called_back_from_its_break() -> None:
    def function(x: torch.Tensor, depth: int) -> torch.Tensor:
        y = x + depth
        rows = sorted([3, 1, 2], key=lambda n: -compiled(x, depth - 1)[0].item() * n if depth else n)
        return y * rows[0]

    def plain(x: float, depth: int) -> float:
        rows = sorted([3, 1, 2], key=lambda n: -plain(x, depth - 1) * n if depth else n)
        return (x + depth) * rows[0]

    compiled = magneto.compile(function, backend="eager")
    for depth in (0, 1, 2, 1):
        assert compiled(torch.ones(2), depth).tolist() == [plain(1.0, depth)] * 2


def test_too_deep_recursion_is_an_error_and_no_crash() -> None:
    def endless(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        sink.write(0)
        return compiled(y)

    compiled = magneto.compile(endless, backend="eager")
    for _ in range(2):
        with pytest.raises(RecursionError):
            compiled(torch.ones(2))
    sink.lines.clear()


# ---- trace and profile functions ----


def observed(x: torch.Tensor) -> torch.Tensor:
    y = x + 1
    sink.write("a")
    z = scale(y)
    for i in range(2):
        z = z * 2
        sink.write(i)
    return z - y


def wanted() -> list[Any]:
    return observed(torch.ones(2)).tolist()


@pytest.mark.parametrize("setter", [sys.settrace, sys.setprofile])
@pytest.mark.parametrize("warm", [False, True])
def test_under_a_trace_or_profile_function(setter: Any, warm: bool) -> None:
    compiled = magneto.compile(observed, backend="eager")
    expected = wanted()
    if warm:
        assert compiled(torch.ones(2)).tolist() == expected
    events = []

    def tracer(frame: Any, event: str, _argument: Any) -> Any:
        events.append((frame.f_code.co_name, event))
        return tracer

    before = sys.gettrace(), sys.getprofile()
    setter(tracer)
    try:
        result = compiled(torch.ones(2))
    finally:
        sys.settrace(before[0])
        sys.setprofile(before[1])
    assert result.tolist() == expected
    assert ("observed", "call") in events and ("scale", "return") in events
    assert compiled(torch.ones(2)).tolist() == expected


@pytest.mark.parametrize("setter", [sys.settrace, sys.setprofile])
def test_a_trace_function_that_is_set_at_a_break(setter: Any) -> None:
    events = []

    def tracer(frame: Any, event: str, _argument: Any) -> Any:
        events.append((frame.f_code.co_name, event))
        return tracer

    def callee(v: torch.Tensor) -> torch.Tensor:
        return v * 3

    def function(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        setter(tracer)
        z = callee(y) + 1
        setter(None)
        w = callee(z) - 1
        return w

    compiled = magneto.compile(function, backend="eager")
    before = sys.gettrace(), sys.getprofile()
    try:
        for _ in range(3):
            events.clear()
            assert compiled(torch.ones(2)).tolist() == [20.0, 20.0]
            assert events.count(("callee", "call")) == 1
    finally:
        sys.settrace(before[0])
        sys.setprofile(before[1])


def test_a_trace_function_that_is_set_in_a_callee_of_a_break() -> None:
    seen = []

    def tracer(frame: Any, event: str, _argument: Any) -> Any:
        seen.append(event)
        return tracer

    def inner(v: torch.Tensor) -> torch.Tensor:
        v = v * 2
        sys.settrace(tracer)
        v = v + 1
        sink.write(1)
        sys.settrace(None)
        return v

    def function(x: torch.Tensor) -> torch.Tensor:
        return inner(x + 1) * 3

    compiled = magneto.compile(function, backend="eager")
    before = sys.gettrace()
    try:
        for _ in range(3):
            seen.clear()
            assert compiled(torch.ones(2)).tolist() == [15.0, 15.0]
            assert "call" in seen
    finally:
        sys.settrace(before)


def test_line_events_are_those_of_eager() -> None:
    """A trace function that is on from the start sees each line."""

    def lines(function: Any) -> list[int]:
        found = []

        def tracer(frame: Any, event: str, _argument: Any) -> Any:
            if frame.f_code is observed.__code__ and event == "line":
                found.append(frame.f_lineno)
            return tracer

        before = sys.gettrace()
        sys.settrace(tracer)
        try:
            function(torch.ones(2))
        finally:
            sys.settrace(before)
        return found

    compiled = magneto.compile(observed, backend="eager")
    compiled(torch.ones(2))
    assert lines(compiled) == lines(observed)


def test_cprofile_and_coverage_like_tools(tmp_path: Any) -> None:
    """In a process of its own: trace.Trace counts lines, cProfile counts calls, and the results are right."""
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent("""
        import cProfile, trace, threading, torch, magneto

        def callee(v):
            v = v * 2
            print(end="")
            return v + 1

        def function(x):
            y = callee(x)
            print(end="")
            return callee(y)

        compiled = magneto.compile(function, backend="eager")
        assert compiled(torch.ones(2)).tolist() == [7.0, 7.0]
        profile = cProfile.Profile()
        profile.enable()
        assert compiled(torch.ones(2)).tolist() == [7.0, 7.0]
        profile.disable()
        names = {entry.code.co_name for entry in profile.getstats() if hasattr(entry.code, "co_name")}
        assert {"function", "callee"} <= names, names
        tracer = trace.Trace(count=1, trace=0)
        assert tracer.runfunc(compiled, torch.ones(2)).tolist() == [7.0, 7.0]
        counts = tracer.results().counts
        assert sum(name.endswith("script.py") for name, _ in counts) >= 6, counts
        threading.settrace(lambda *_: None)
        results = []
        thread = threading.Thread(target=lambda: results.append(compiled(torch.ones(2)).tolist()))
        thread.start()
        thread.join()
        threading.settrace(None)
        assert results == [[7.0, 7.0]]
        assert compiled(torch.ones(2)).tolist() == [7.0, 7.0]
        print("right")
        """)
    )
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.stdout == "right\n", done.stderr


# ---- fork ----


def in_child(work: Callable[[], None]) -> int:
    """Runs it in a child of this process; 0 if all went well."""
    pid = os.fork()
    if pid == 0:
        try:
            work()
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    return os.waitpid(pid, 0)[1]


def test_a_fork_at_a_break_leaves_the_hook_in_order() -> None:
    """In the child the hook is still in use by the call under way, and by nobody afterwards."""
    outcome = []

    def function(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        pid = os.fork()
        y = scale(y)
        outcome.append(pid)
        return y * 2

    compiled = magneto.compile(function, backend="eager")
    wanted = (scale(torch.ones(2) + 1) * 2).tolist()
    for _ in range(2):
        outcome.clear()
        found = compiled(torch.ones(2)).tolist()
        if outcome == [0]:
            users = _core.hook_state()["users"]
            os._exit(0 if found == wanted and users == 0 else 1)
        assert os.waitpid(outcome[0], 0)[1] == 0
        assert found == wanted


def is_collected() -> bool:
    """Whether collections happen, whatever `gc.isenabled` says: it tells what the program has asked for."""
    before = gc.get_stats()[0]["collections"]
    kept = [[] for _ in range(20 * gc.get_threshold()[0])]
    return len(kept) > 0 and gc.get_stats()[0]["collections"] > before


def test_a_fork_while_another_thread_captures_leaves_collections_on() -> None:
    inside, done = threading.Event(), threading.Event()

    @magneto.assume_constant_result
    def number() -> int:  # called in the midst of a capture
        inside.set()
        done.wait(60)
        return 3

    assert gc.isenabled()
    captured = magneto.compile(lambda x: x + number(), backend="eager")
    thread = threading.Thread(target=lambda: captured(torch.ones(2)))
    thread.start()
    try:
        assert inside.wait(60)
        assert not is_collected()

        def work() -> None:
            assert gc.isenabled() and is_collected()
            magneto.compile(scale, backend="eager")(torch.ones(2))
            assert gc.isenabled() and is_collected()

        assert in_child(work) == 0
    finally:
        done.set()
        thread.join()
    assert gc.isenabled() and is_collected()


# ---- backends ----


def test_backends_are_called_by_one_thread_at_a_time() -> None:
    busy = []
    most = []

    def backend(module: torch.fx.GraphModule, _inputs: Any) -> Callable[..., Any]:
        busy.append(1)
        for _ in range(5):
            time.sleep(0.001)  # others run
            most.append(len(busy))
        busy.pop()
        return module.forward

    def work(number: int) -> None:
        compiled = magneto.compile(lambda x: x * number, backend=backend)
        assert compiled(torch.ones(2)).tolist() == [number] * 2

    in_threads(work)
    assert max(most) == 1


# ---- what entries keep alive ----


def test_a_weak_reference_that_was_made_before_a_break_goes_with_its_frame() -> None:
    class Thing:
        pass

    calls = []

    def function(x: torch.Tensor, thing: Thing) -> torch.Tensor:
        reference = weakref.ref(thing, calls.append)  # noqa: F841
        y = x + 1
        sink.write(1)
        return y * 2

    compiled = magneto.compile(function, backend="eager")
    for _ in range(3):
        thing = Thing()
        assert compiled(torch.ones(2), thing).tolist() == [4.0, 4.0]
        assert weakref.getweakrefs(thing) == []
        del thing
    assert calls == []


def test_code_that_is_made_for_each_call_does_not_stay() -> None:
    """A bounded number of the places behind breaks is kept: those that were not met for long go."""

    def make(n: int) -> Any:
        names: dict[str, Any] = {}
        exec(f"def function(x):\n    y = x * 2\n    eval('1')\n    return y + {n}", names)
        return names["function"]

    def program(x: torch.Tensor, n: int) -> torch.Tensor:
        function = make(n)
        return function(x) * 1

    compiled = magneto.compile(program, backend="eager")
    argument = torch.ones(2)
    for n in range(3000):
        assert compiled(argument, n).tolist() == [2.0 + n] * 2
    assert 0 < len(compiled.entries()) < 1500
