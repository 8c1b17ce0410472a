"""sys.settrace and sys.setprofile: every event that CPython sends, from whatever moment they are set."""

from __future__ import annotations

import sys

import pytest
from interp.differential import build, interpreted, load, parse_programs, require_equal

from magneto import _core

TEXT = r"""
### calls_and_lines
def f(x):
    y = x
    for i in range(2):
        y += i
    return y
def main():
    f(1)
    z = 2
    f(z)

### exceptions
def f():
    try:
        g()
    except ValueError as exc:
        x = 1
    finally:
        y = 2
def g():
    raise ValueError("x")
def main():
    f()
    try:
        g()
    finally:
        z = 3

### generators
def g(n):
    for i in range(n):
        got = yield i
    return 5
def outer():
    x = yield from g(2)
    yield x
def main():
    list(outer())
    it = g(3)
    next(it)
    it.send(1)
    try:
        it.throw(KeyError("k"))
    except KeyError:
        pass
    it = g(1)
    next(it)
    it.close()
    for x in g(2):
        pass

### classes_and_comprehensions
def main():
    class A:
        x = 1
        def __init__(self): self.y = 2
        @property
        def p(self): return [i for i in range(self.y)]
    a = A()
    return a.p, {i: i for i in a.p}, sorted([2, 1], key=lambda v: -v)

### c_functions
import math
class C(list):
    def __len__(self): return super().__len__()
def main():
    len([1])
    math.sqrt(4)
    [].append(1)
    "a".upper()
    print(end="")
    dict(a=1)
    max(1, 2, key=lambda v: v)
    len(C())
    "%d" % 5
    min(*[1, 2])
    sorted([1], **{"key": None})
    try:
        math.sqrt(-1)
    except ValueError:
        pass

### with_and_match
class C:
    def __enter__(self): return 1
    def __exit__(self, *a): return True
def main():
    with C() as c:
        x = 1
        raise KeyError
    match x:
        case 0:
            y = 0
        case 1:
            y = 1
    while x < 3:
        x += 1
    return y

### coroutines
class Once:
    def __await__(self): yield 1
async def agen():
    yield 1
    await Once()
    yield 2
async def main_coro():
    async for x in agen():
        y = x
    return y
def main():
    c = main_coro()
    while True:
        try:
            c.send(None)
        except StopIteration as exc:
            return exc.value

### loops_and_jumps
def main():
    n = 0
    while True:
        n += 1
        if n == 2: continue
        if n > 4:
            break
    for a, b in [(1, 2), (3, 4)]: n += a
    x = (n and
         n or
         0)
    return (lambda: x)()
"""

PROGRAMS = parse_programs(TEXT)
SOURCES = [pytest.param(source, id=name) for name, source in PROGRAMS.items()]

# Programs that call turn_on() (and turn_off()) themselves.
MIDWAY = r"""
### in_the_frame_itself
def main():
    x = 1
    turn_on()
    y = 2
    for i in range(2):
        y += i
    turn_off()
    z = 3
    return z

### in_a_callee
def on():
    turn_on()
    x = 1
    return x
def after(n):
    m = n
    return m
def main():
    on()
    y = after(2)
    z = 3
    turn_off()
    return y

### in_a_callee_two_frames_down
def a():
    b()
    x = 1
    return x
def b():
    turn_on()
    y = 1
def main():
    a()
    z = [q for q in range(2)]
    turn_off()
    return z

### in_a_callee_that_raises
def on():
    turn_on()
    raise ValueError("x")
def middle():
    on()
def main():
    try:
        middle()
    except ValueError:
        x = 1
    y = 2
    turn_off()
    return y

### raising_through_a_frame_that_handles
def on():
    turn_on()
    raise ValueError("x")
def middle():
    try:
        on()
    finally:
        x = 1
def main():
    try:
        middle()
    except ValueError as exc:
        y = 2
    turn_off()
    return y

### raising_through_with
class C:
    def __enter__(self):
        return self
    def __exit__(self, *a):
        x = 1
        return True
def on():
    turn_on()
    raise ValueError("x")
def main():
    with C():
        on()
    y = 2
    turn_off()
    return y

### in_a_generator
def g():
    yield 1
    turn_on()
    yield 2
    yield 3
def main():
    for x in g():
        y = x
    turn_off()
    return y

### in_a_delegated_generator
def inner():
    yield 1
    turn_on()
    yield 2
    return 3
def outer():
    r = yield from inner()
    yield r
def main():
    out = [x for x in outer()]
    turn_off()
    return out

### in_a_generator_that_ends
def g():
    yield 1
    turn_on()
def main():
    for x in g():
        y = x
    z = 1
    turn_off()
    return y

### in_a_c_callback
def key(x):
    turn_on()
    return x
def main():
    x = sorted([2, 1], key=key)
    y = len(x)
    turn_off()
    return y

### in_an_operator
class A:
    def __add__(self, o):
        turn_on()
        return 5
    def __bool__(self):
        turn_on()
        return True
    def __getattr__(self, n):
        turn_on()
        return n
def main():
    x = A() + 1
    y = x
    turn_off()
    if A():
        y = 2
    turn_off()
    z = A().attr
    w = f"{z}"
    turn_off()
    return w

### in_a_keyword_call
def f(a, b):
    turn_on()
    return a
def main():
    x = f(a=1, b=2)
    y = f(*[1], **{"b": 2})
    turn_off()
    return y

### with_long_jumps_ahead
def on():
    turn_on()
exec("def f(x):\n" + "".join(f"    v{i} = x + {i}\n" for i in range(280)) + "    on()\n    for i in range(2):\n"
     + "".join(f"        v{i} = v{i + 1}\n" for i in range(0, 270, 9)) + "    return v3\n")
def main():
    x = f(1)
    turn_off()
    return x

### off_in_a_callee_and_on_again
def off():
    turn_off()
    x = 1
def on():
    turn_on()
def main():
    on()
    a = 1
    off()
    b = 2
    on()
    c = 3
    turn_off()
    return c

### in_a_class_body
def main():
    class A:
        turn_on()
        x = 1
        y = 2
    turn_off()
    return A.x

### in_an_import_of_names
def main():
    turn_on()
    from math import pi
    import os.path
    turn_off()
    return pi

### in_a_finally
def main():
    try:
        try:
            raise KeyError
        finally:
            turn_on()
            x = 1
    except KeyError:
        y = 2
    turn_off()
    return y

### in_a_deleter
class D:
    def __del__(self):
        turn_on()
def main():
    d = D()
    d = 1
    x = 2
    turn_off()
    return x
"""

MIDWAY_PROGRAMS = parse_programs(MIDWAY)
MIDWAY_SOURCES = [pytest.param(source, id=name) for name, source in MIDWAY_PROGRAMS.items()]


class Events:
    """A trace or profile function that writes down what it is told."""

    def __init__(self, opcodes=False):
        self.seen = []
        self.opcodes = opcodes

    def __call__(self, frame, event, argument):
        if frame.f_code.co_filename != "<program>":
            return None
        if event == "exception":
            argument = argument[0].__name__, str(argument[1]), argument[2] is not None
        elif event.startswith("c_"):
            argument = argument.__qualname__
        else:
            argument = None if argument is None else type(argument).__name__
        # At other events f_lasti may be anywhere in an instruction: CPython inlines calls only if there is no hook.
        offset = frame.f_lasti if event == "opcode" else None
        self.seen.append((event, frame.f_code.co_name, frame.f_lineno, argument, offset))
        if self.opcodes:
            frame.f_trace_opcodes = True
        return self


def events_around(call, source, install, events):
    """The events of a program under a trace function that is on from before its start."""
    main = load(build(source))["main"]

    def run():
        install(events)
        try:
            return repr(main())
        except Exception as exc:
            return repr(exc)
        finally:
            install(None)

    former = sys.gettrace() if install is sys.settrace else sys.getprofile()
    try:
        value = call(run)
    finally:
        install(former)
    return value, events.seen


def events_midway(call, source, install, events, local):
    """The events of a program that sets the trace function itself, for all frames below it too if `local`."""
    namespace = load(build(source))

    def turn_on():
        install(events)
        frame = sys._getframe(1)
        while local and frame is not None:
            if frame.f_code.co_filename == "<program>":
                frame.f_trace = events
            frame = frame.f_back

    def turn_off():
        install(None)

    namespace.update(turn_on=turn_on, turn_off=turn_off)
    former = sys.gettrace() if install is sys.settrace else sys.getprofile()
    try:
        value = repr(call(namespace["main"]))
    finally:
        install(former)
    return value, events.seen


def plain(call):
    return call()


@pytest.mark.parametrize("opcodes", [False, True], ids=["lines", "opcodes"])
@pytest.mark.parametrize("source", SOURCES)
def test_trace_function_set_before(source, opcodes):
    expected = events_around(plain, source, sys.settrace, Events(opcodes))
    assert len(expected[1]) > 5
    require_equal(events_around(interpreted, source, sys.settrace, Events(opcodes)), expected)


@pytest.mark.parametrize("source", SOURCES)
def test_profile_function_set_before(source):
    expected = events_around(plain, source, sys.setprofile, Events())
    assert len(expected[1]) > 2
    require_equal(events_around(interpreted, source, sys.setprofile, Events()), expected)


@pytest.mark.parametrize("source", SOURCES)
def test_nothing_is_interpreted_under_a_trace_function(source):
    main = load(build(source))["main"]
    counts = []

    def run():
        sys.settrace(getattr)  # a trace function with no frame of its own; it gives None for each call
        counts.append(_core.opcode_counts())
        try:
            main()
        except ValueError:
            pass
        counts.append(_core.opcode_counts())
        sys.settrace(None)

    former = sys.gettrace(), _core.count_opcodes(True)
    try:
        _core.interpret(run)
    finally:
        _core.count_opcodes(former[1])
        sys.settrace(former[0])
    assert counts[0] == counts[1]


@pytest.mark.parametrize("opcodes", [False, True], ids=["lines", "opcodes"])
@pytest.mark.parametrize("local", [False, True], ids=["new_frames", "all_frames"])
@pytest.mark.parametrize("source", MIDWAY_SOURCES)
def test_trace_function_set_midway(source, local, opcodes):
    expected = events_midway(plain, source, sys.settrace, Events(opcodes), local)
    require_equal(events_midway(interpreted, source, sys.settrace, Events(opcodes), local), expected)


@pytest.mark.parametrize("source", MIDWAY_SOURCES)
def test_profile_function_set_midway(source):
    expected = events_midway(plain, source, sys.setprofile, Events(), False)
    require_equal(events_midway(interpreted, source, sys.setprofile, Events(), False), expected)


def test_trace_function_that_raises():
    def main():
        def trace(frame, event, argument):
            if event == "line":
                raise KeyError("from the trace function")
            return trace

        def traced():
            return 1

        former = sys.gettrace()
        sys.settrace(trace)
        try:
            traced()
        except KeyError as exc:
            return str(exc), sys.gettrace()
        finally:
            sys.settrace(former)

    assert interpreted(main) == main()


@pytest.mark.parametrize("kind", ["exception", "return"])
def test_trace_function_that_raises_while_an_exception_passes(kind):
    def main():
        def trace(frame, event, argument):
            if event == kind:
                raise KeyError("from the trace function")
            return trace

        def on():
            sys.settrace(trace)
            sys._getframe(1).f_trace = trace
            raise ValueError("x")

        def middle():
            on()

        former = sys.gettrace()
        try:
            middle()
        except Exception as exc:
            return repr(exc), repr(exc.__context__), sys.gettrace()
        finally:
            sys.settrace(former)

    assert interpreted(main) == main()


def test_trace_function_itself_is_interpreted():
    counts = []

    def trace(frame, event, argument):
        before = _core.hook_state()["frames"]
        (lambda: None)()
        counts.append(_core.hook_state()["frames"] - before)

    def main():
        former = sys.gettrace()
        sys.settrace(trace)
        (lambda: None)()
        sys.settrace(former)

    interpreted(main)
    assert counts
    assert set(counts) == {1}


def test_jump_by_a_trace_function():
    def main():
        out = []

        def trace(frame, event, argument):
            if event == "line" and frame.f_lineno == first + 2 and not out:
                frame.f_lineno = first + 3
            return trace

        def jumped():
            a = 1
            a = 2
            return a

        first = jumped.__code__.co_firstlineno
        former = sys.gettrace()
        sys.settrace(trace)
        try:
            return jumped()
        finally:
            sys.settrace(former)

    assert interpreted(main) == main()


def test_coverage_like_tracing_sees_every_line():
    source = PROGRAMS["with_and_match"]
    lines = []
    for call in (plain, interpreted):
        events = Events()
        events_around(call, source, sys.settrace, events)
        lines.append({line for event, _, line, _, _ in events.seen if event == "line"})
    assert lines[0] == lines[1]


def test_debugger_that_stops_in_a_frame_steps_through_the_rest():
    import bdb

    class Debugger(bdb.Bdb):
        def __init__(self):
            super().__init__()
            self.lines = []

        def user_line(self, frame):
            self.lines.append((frame.f_code.co_name, frame.f_lineno))
            self.set_step()

    def main():
        debugger = Debugger()

        def helper(x):
            y = x
            return y

        def debugged():
            a = 1
            debugger.set_trace(sys._getframe())
            b = helper(2)
            c = a + b
            debugger.set_quit()
            return c

        former = sys.gettrace()
        try:
            debugged()
        except bdb.BdbQuit:
            pass
        finally:
            sys.settrace(former)
        return [(name, line) for name, line in debugger.lines if name in ("debugged", "helper")]

    assert main()
    assert interpreted(main) == main()


def test_c_profiler_counts_the_same_calls():
    import cProfile
    import pstats

    source = PROGRAMS["c_functions"]
    counts = []
    for call in (plain, interpreted):
        main = load(build(source))["main"]
        profile = cProfile.Profile()

        def run():
            profile.enable()
            try:
                main()
            finally:
                profile.disable()

        former = sys.getprofile()
        call(run)
        sys.setprofile(former)
        stats = pstats.Stats(profile).stats
        counts.append({key[2]: value[0] for key, value in stats.items()})
    assert counts[0] == counts[1]
