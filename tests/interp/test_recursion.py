"""Deep recursion gives RecursionError, and the interpreter lives on."""

from __future__ import annotations

import sys

import pytest
from interp.differential import interpreted

from magneto import _core

in_own_process = pytest.mark.no_leak_hunt("runs in a process of its own")


def endless(n=0):
    return endless(n + 1) + 1


class Attributes:
    def __getattr__(self, name):
        return getattr(self, name + "x")


class Equal:
    def __eq__(self, other):
        return Equal() == other


class Repr:
    def __repr__(self):
        return repr(self)


class Call:
    def __call__(self):
        return self()


class Add:
    def __add__(self, other):
        return self + other


class Descriptor:
    @property
    def p(self):
        return self.p


def through_sorted():
    return sorted([1, 2], key=lambda x: through_sorted())


def through_map():
    return list(map(lambda x: through_map(), [1]))


def through_generator():
    yield from through_generator()


def through_class_bodies():
    class A:
        through_class_bodies()


def through_with():
    class C:
        def __enter__(self):
            with C():
                pass

        def __exit__(self, *args):
            pass

    with C():
        pass


def through_exec():
    exec("f()", {"f": through_exec})


def through_handlers():
    try:
        through_handlers()
    finally:
        through_handlers


def through_comprehension():
    return [through_comprehension() for _ in range(1)]


async def through_await():
    await through_await()


def drive_await():
    through_await().send(None)


ENDLESS = {
    "function": endless,
    "getattr": lambda: Attributes().a,
    "eq": lambda: Equal() == Equal(),
    "repr": lambda: repr(Repr()),
    "call": lambda: Call()(),
    "add": lambda: Add() + 1,
    "property": lambda: Descriptor().p,
    "sorted": through_sorted,
    "map": through_map,
    "generator": lambda: list(through_generator()),
    "class_bodies": through_class_bodies,
    "with": through_with,
    "exec": through_exec,
    "handlers": through_handlers,
    "comprehension": through_comprehension,
    "await": drive_await,
}


@pytest.fixture
def limit():
    """Set the recursion limit."""
    former = sys.getrecursionlimit()
    yield sys.setrecursionlimit
    sys.setrecursionlimit(former)


@pytest.mark.parametrize("name", ENDLESS)
@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited")
def test_endless_recursion_gives_recursion_error(name):
    for _ in range(3):
        with pytest.raises(RecursionError):
            interpreted(ENDLESS[name])
    assert interpreted(lambda: sum(range(5))) == 10


def test_depth_is_what_cpython_allows():
    def depth():
        deepest = 0

        def down(n):
            nonlocal deepest
            deepest = n
            down(n + 1)

        try:
            down(1)
        except RecursionError:
            return deepest

    found, expected = interpreted(depth), depth()
    assert abs(found - expected) < 20


def test_recursion_error_is_caught_and_recursion_goes_on():
    def down(n):
        try:
            return down(n + 1)
        except RecursionError:
            return "caught"

    assert interpreted(down, 0) == "caught"
    assert interpreted(down, 0) == "caught"


def test_message_is_cpythons():
    messages = []
    for call in (lambda: endless(), lambda: interpreted(endless)):
        with pytest.raises(RecursionError) as info:
            call()
        messages.append(str(info.value))
    assert messages[0] == messages[1]


def test_higher_limit(limit):
    limit(5000)

    def down(n):
        return n and 1 + down(n - 1)

    assert interpreted(down, 4500) == 4500
    with pytest.raises(RecursionError):
        interpreted(endless)


def test_lower_limit(limit):
    def down(n):
        return n and 1 + down(n - 1)

    def inside():
        depth, frame = 0, sys._getframe()
        while frame is not None:
            depth, frame = depth + 1, frame.f_back
        limit(depth + 60)
        assert down(20) == 20
        with pytest.raises(RecursionError):
            down(200)
        limit(1000)
        return down(200)

    assert interpreted(inside) == 200


def test_recursion_depth_is_balanced_after_exceptions():
    def fails():
        raise ValueError

    def work():
        for _ in range(3000):
            try:
                fails()
            except ValueError:
                pass
        return "done"

    assert interpreted(work) == "done"


def test_recursion_depth_is_balanced_after_generators():
    def numbers():
        yield 1
        yield 2

    def work():
        for _ in range(3000):
            for _ in numbers():
                break
        return "done"

    assert interpreted(work) == "done"


@in_own_process
def test_c_stack_is_never_exhausted(run_python):
    done = run_python(
        """
import sys, threading
from magneto import _core
sys.setrecursionlimit(10 ** 6)
def endless(n=0): return endless(n + 1) + 1
def try_it():
    for _ in range(3):
        try:
            _core.interpret(endless)
        except RecursionError:
            print("RecursionError")
try_it()
thread = threading.Thread(target=try_it)
thread.start()
thread.join()
threading.stack_size(256 * 1024)
thread = threading.Thread(target=try_it)
thread.start()
thread.join()
"""
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.splitlines() == ["RecursionError"] * 9


@in_own_process
def test_uncaught_recursion_error_is_printed(run_python):
    done = run_python(
        """
from magneto import _core
_core.interpret_all(True)
def endless(): endless()
endless()
"""
    )
    assert done.returncode == 1
    assert "RecursionError: maximum recursion depth exceeded" in done.stderr


def test_hook_is_balanced_after_recursion_errors():
    before = _core.hook_state()["users"]
    with pytest.raises(RecursionError):
        interpreted(endless)
    assert _core.hook_state()["users"] == before
