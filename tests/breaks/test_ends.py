"""Objects and generators go when they go in eager, though captures stop in between; what they do then is not lost."""

from __future__ import annotations

import sys
from typing import Any

import pytest
import torch
from programs import harness

import magneto
from magneto import _core


def compiled(function: object) -> _core.Compiled:
    """Compiled with breaks, and no backend."""
    made = _core.Compiled(function, None, lambda *_: None, None, 8)
    made.breaks = 1
    return made


def test_the_handlers_of_a_generator_that_nobody_reads_again() -> None:
    """A suspended generator in a local that is dead at the break: what its `finally` does is not lost."""
    program = """
log = []
def gen():
    try:
        yield 1
    finally:
        log.append("end")
def f(x):
    g = gen()
    y = x + next(g)
    print("between")
    return y * 2
"""
    harness.run(program, ["f(X)", "f(X)", "f(Y)"], compile=compiled)


@pytest.mark.parametrize(
    "watch",
    [
        "weakref.finalize(n, log.append, 'gone')",
        "refs.append(weakref.ref(n, lambda _: log.append('gone')))",
        "register(n)",
        "register(n, note=None)",
        "n = make()",
        "n = [make()]",
        "n = make(); print(n is None); n = None",
        "n = make(); x = x + 1; m = n; print(m is None); del n; x = x + 1; m = 0",
    ],
)
def test_an_object_whose_end_is_awaited_goes_with_its_frame(watch: str) -> None:
    """A weak reference with a callback is a finalizer that is not of the object's class. A break may make it."""
    program = f"""
import weakref
log, refs = [], []
class Plain: pass
def note(text): log.append(text)
def register(object, note=note):
    object.name = "registered"
    weakref.finalize(object, log.append, "gone")
    log.append("is registered")
def make():
    n = Plain()
    weakref.finalize(n, log.append, "gone")
    return n
def f(x):
    n = Plain()
    y = x + 1
    {watch}
    log.append("captured")
    print("between")
    log.append("captured again")
    return x * y
"""
    harness.run(program, ["f(X)", "f(X)", "f(Y)"], compile=compiled)


def test_a_dead_local_goes_when_its_frame_ends() -> None:
    """Parts of a frame that are captured after a break leave it what it has, though nobody reads it again."""
    program = """
log = []
class Noisy:
    def __del__(self): log.append("gone")
def gen():
    try:
        yield 1
        yield 2
    finally:
        log.append("end")
def f(x):
    g, n, m = gen(), [Noisy()], [{"a": (Noisy(),)}]
    print(next(g), len(n))
    x = x + 1
    print("between")
    log.append("captured")
    x = x * 2
    m = None
    log.append("let go")
    x = x * 2
    print("again")
    log.append("last")
    return x
"""
    harness.run(program, ["f(X)", "f(X)", "f(Y)"], compile=compiled)


def test_a_loop_that_is_left_closes_its_generator_at_once() -> None:
    program = """
log = []
def gen():
    try:
        yield from (1, 2, 3)
    finally:
        log.append("end")
def f(x):
    for v in gen():
        print(v)
        x = x + v
        if v > 1:
            break
    x = x * (len(log) + 1)
    log.append("after")
    return x + len(log)
"""
    harness.run(program, ["f(X)", "f(X)", "f(Y)"], compile=compiled)


def test_a_generator_that_an_exception_leaves_behind() -> None:
    """A handler finds that the generator of the loop it is around is closed already."""
    program = """
log = []
def gen():
    try:
        yield 1
        yield 2
    finally:
        log.append("end")
def f(x):
    try:
        for i in gen():
            x = x + i
            print("between")
            x = x * 2
            if i == 2:
                raise ValueError
    except ValueError:
        log.append("caught")
    return x + 1
"""
    harness.run(program, ["f(X)", "f(X)", "f(Y)"], compile=compiled)


def test_a_stop_in_what_a_generator_does_when_it_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    program = """
log = []
def inner(n):
    try:
        for i in range(n):
            yield i
    finally:
        log.append(("inner", n))
def gen(n):
    try:
        yield from inner(n)
    finally:
        log.append(("end", n))
def f(x):
    g = gen(3)
    x = x + next(g)
    h = gen(2)
    x = x * (next(h) + 1)
    h = None
    return x + len(log)
"""
    ignored: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", ignored.append)
    for stop in range(1, 120):
        try:
            harness.run(program, ["f(X)", "f(X)"], compile=compiled, before=lambda: _core.inject_fault(stop))  # noqa: B023
        finally:
            _core.inject_fault(0)
    assert ignored == []


def test_no_entry_keeps_a_generator() -> None:
    """One that captured code finds in a container goes when it goes in eager."""
    program = """
log = []
def gen():
    try:
        yield 1
    finally:
        log.append("end")
def f(x, items):
    mine = [gen()]
    print(next(mine[0]))
    x = x + len(items)
    log.append(mine[0] is items[0])
    return x
"""
    steps = ["f(X, [0])", "f(X, [0])", "(lambda it: (next(it), f(X, [it, it])))(gen())", "log.append('last')"]
    harness.run(program, steps, compile=compiled)


kept: list[BaseException] = []


@torch.library.custom_op("magneto_tests::keeps_an_error", mutates_args=())
def keeps_an_error(x: torch.Tensor) -> torch.Tensor:
    return x + 1


@keeps_an_error.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    try:
        raise ValueError("with a traceback")
    except ValueError as error:
        kept.append(error)
    return torch.empty_like(x)


def test_what_an_operation_keeps_does_not_keep_captured_frames() -> None:
    log: list[str] = []

    def gen() -> Any:
        try:
            yield 1
            yield 2
        finally:
            log.append("end")

    def f(x: torch.Tensor) -> torch.Tensor:
        g = gen()
        return keeps_an_error(x) * next(g)

    kept.clear()
    found = magneto.compile(f, backend="eager", fullgraph=True)(torch.ones(2))
    assert torch.equal(found, torch.full((2,), 2.0))
    assert log == ["end"]
    assert len(kept) > 0


@pytest.mark.parametrize("steps", [0, *range(20, 130, 5)])
def test_a_generator_in_a_frame_that_handled_an_exception(steps: int) -> None:
    """No cycle of frame and traceback is left, and what an aborted capture was handling is not finalized for real."""
    program = """
log = []
class Own(Exception): pass
def maybe(n):
    if n > 1: raise Own(n)
    if n == 0: raise KeyError("zero")
    return n
def gen(items):
    total = 0
    try:
        for i, v in enumerate(items):
            got = yield (i, v, total)
            if got is not None: total += got
    finally:
        log.append(("end", total))
    return total
def f(x, n, *z):
    r = []
    try:
        try:
            maybe(2)
        except Own as e1:
            raise ValueError(n) from e1
        finally:
            t = x - 1
            g = gen(z)
            r.append(next(g, None))
            try:
                r.append(g.send(1))
            except (StopIteration, TypeError) as e2:
                r.append(getattr(e2, "value", 0))
    except ValueError as e1:
        r.append(type(e1.__cause__).__name__)
    try:
        maybe(n)
    except KeyError:
        pass
    t = t + 1
    return t, r
"""
    calls = ["f(X, 0, 1, 2)", "f(X, 0, 1)", "f(X, 1, 1, 2)", "f(Y, 1, 1, 2)"]
    try:
        harness.run(program, calls * 2, compile=compiled, before=lambda: _core.inject_fault(steps))
    finally:
        _core.inject_fault(0)


def test_what_autograd_has_saved_lives_as_long_as_a_local_that_nobody_reads():
    def f(log):
        a = torch.ones(3, requires_grad=True)
        y = a * a
        y.grad_fn._raw_saved_self.register_hooks(lambda x: log.append("packed") or x, lambda x: x)
        y = a * 2 * a
        try:
            y.grad_fn._raw_saved_self.register_hooks(lambda x, b: x, lambda x: x)
        except TypeError as error:
            log.append(str(error).split(".")[-1])
        return a

    log: list[str] = []
    f(log)
    compiled = magneto.compile(f, backend="eager")
    for _ in range(2):
        captured: list[str] = []
        compiled(captured)
        assert captured == log


def test_a_finalizer_that_is_captured_itself_goes_on_behind_a_break() -> None:
    """Captured code leaves another finalizer, that of an object which lives at the break."""
    program = """
log = []
class Noisy:
    def __del__(self): log.append("gone")
def __del__(x):
    log.append(x * 2)
    noisy = Noisy()
    print("between")
    log.append(x * 3)
    return x + 1
f = __del__
"""
    harness.run(program, ["f(X)", "f(X)", "f(Y)"], compile=compiled)
