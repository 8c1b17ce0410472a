"""Frames are CPython's own: whatever looks at them sees what it would see in CPython."""

from __future__ import annotations

import gc
import inspect
import sys
import threading
import types
import weakref

import pytest
from interp.differential import assert_same_call, interpreted

from magneto import _core


def test_getframe_is_the_current_frame():
    def f():
        frame = sys._getframe()
        return frame.f_code is f.__code__, frame.f_lineno - f.__code__.co_firstlineno

    assert interpreted(f) == (True, 2)


def test_f_back_chain():
    def inner():
        names, frame = [], sys._getframe()
        while frame is not None:
            names.append(frame.f_code.co_name)
            frame = frame.f_back
        return names

    def outer():
        return [inner() for _ in range(1)][0]

    expected = outer()
    found = interpreted(outer)
    assert found[:3] == ["inner", "<listcomp>", "outer"]
    assert found[:3] + found[4:] == expected  # and the frame of `interpreted` between


def test_f_back_chain_through_c():
    def key(x):
        frame = sys._getframe()
        names.append((frame.f_code.co_name, frame.f_back.f_code.co_name))
        return x

    def caller():
        sorted([2, 1], key=key)

    names = []
    interpreted(caller)
    assert names == [("key", "caller")] * 2


def test_f_locals():
    def f(a, *b, c=3):
        d = 4
        e = lambda: (d, a)  # noqa: E731
        for i in range(1):
            pass
        result = dict(sys._getframe().f_locals)
        result.pop("e")
        return result

    assert_same_call(f, 1, 2)


def test_f_locals_of_the_caller():
    def inner():
        return dict(sys._getframe(1).f_locals)

    def outer(x):
        y = x + 1
        return inner()

    assert_same_call(outer, 1)


def test_locals_shows_bound_names_only():
    def f(flag):
        if flag:
            x = 1
        y = 2
        del y
        return sorted(locals())

    assert_same_call(f, False)


def test_locals_is_one_dict_for_the_frame():
    def f():
        a = 1
        first = locals()
        a = 2
        before = first["a"]
        second = locals()
        return first is second, before, second["a"]

    assert_same_call(f)


def test_exec_and_eval_see_the_locals():
    def f(x):
        y = 2
        exec("z = x + y")
        return eval("x * y"), "z" in locals()

    assert_same_call(f, 3)


def test_f_lineno_while_it_runs():
    def f():
        lines = [sys._getframe().f_lineno]
        lines.append(
            sys._getframe().f_lineno,
        )
        for _ in range(2):
            lines.append(sys._getframe().f_lineno)
        return [line - lines[0] for line in lines]

    assert_same_call(f)


def test_f_lasti_is_at_the_same_instruction():
    def f():
        return sys._getframe().f_lasti, [sys._getframe().f_lasti], sys._getframe().f_lasti

    assert_same_call(f)


def test_inspect_stack_names_and_positions():
    def inner():
        return [(info.function, info.lineno, info.positions) for info in inspect.stack()[:2]]

    def outer():
        return [inner(), (1, inner())]

    assert_same_call(outer)


def test_clear_an_executing_frame_is_refused():
    def f():
        try:
            sys._getframe().clear()
        except RuntimeError as exc:
            return str(exc)

    assert_same_call(f)


def test_clear_a_finished_frame():
    class Token:
        pass

    def f():
        token = Token()
        refs.append(weakref.ref(token))
        return sys._getframe()

    refs = []
    frame = interpreted(f)
    assert refs[0]() is not None
    frame.clear()
    assert refs[0]() is None


def test_frame_outlives_its_function():
    def f(a):
        b = [a]
        return sys._getframe()

    frame = interpreted(f, 5)
    assert frame.f_locals["b"] == [5]
    assert frame.f_back.f_code.co_name == "interpreted"
    assert frame.f_lineno == f.__code__.co_firstlineno + 2


def test_traceback_frames_keep_their_locals():
    def fails(x):
        y = x * 2
        raise ValueError

    with pytest.raises(ValueError) as info:
        interpreted(fails, 4)
    tb = info.value.__traceback__
    while tb.tb_next is not None:
        tb = tb.tb_next
    assert tb.tb_frame.f_locals == {"x": 4, "y": 8}


def test_function_frees_its_locals_when_it_ends():
    class Token:
        pass

    def f():
        token = Token()
        refs.append(weakref.ref(token))

    refs = []
    interpreted(f)
    assert refs[0]() is None


# --- generators and coroutines ---


def numbers(n):
    total = 0
    for i in range(n):
        got = yield i
        total += got or 0
    return total


def test_suspended_generators_frame():
    def f():
        it = numbers(3)
        states = [inspect.getgeneratorstate(it)]
        next(it)
        states.append(inspect.getgeneratorstate(it))
        frame = it.gi_frame
        seen = frame.f_code.co_name, frame.f_lineno, dict(frame.f_locals), frame.f_back, it.gi_running
        it.close()
        states.append(inspect.getgeneratorstate(it))
        return states, seen, it.gi_frame

    assert_same_call(f)


def test_running_generator():
    def f():
        def g():
            seen.append((it.gi_running, it.gi_frame is sys._getframe(), inspect.getgeneratorstate(it)))
            yield

        seen = []
        it = g()
        next(it)
        return seen, it.gi_running

    assert_same_call(f)


def test_gi_yieldfrom():
    def f():
        def outer():
            yield 0
            yield from inner
            yield from [7]

        inner = numbers(1)
        it = outer()
        seen = [it.gi_yieldfrom]
        next(it)
        seen.append(it.gi_yieldfrom)
        next(it)
        seen.append(it.gi_yieldfrom is inner)
        next(it)
        seen.append(type(it.gi_yieldfrom).__name__)
        return seen, list(it), it.gi_yieldfrom

    assert_same_call(f)


def test_cr_await():
    @types.coroutine
    def pause():
        yield

    async def inner():
        await pause()

    async def outer():
        await inner()

    def f():
        c = outer()
        seen = [c.cr_await]
        c.send(None)
        seen.append(c.cr_await.__name__)
        seen.append(c.cr_await.cr_await.__name__)
        seen.append((inspect.getcoroutinestate(c), c.cr_frame.f_lineno))
        c.close()
        return seen, c.cr_await, inspect.getcoroutinestate(c)

    assert_same_call(f)


def test_ag_await():
    @types.coroutine
    def pause():
        yield "paused"

    async def agen():
        await pause()
        yield 1

    def f():
        a = agen()
        step = a.asend(None)
        first = step.send(None)
        seen = a.ag_await.__name__, a.ag_running
        try:
            step.send(None)
        except StopIteration as exc:
            return first, seen, exc.value, a.ag_await, a.ag_running

    assert_same_call(f)


def test_suspended_generator_is_collected():
    def f():
        def g():
            token = Token()
            refs.append(weakref.ref(token))
            me = it  # a cycle: the frame holds the generator
            yield me

        it = g()
        next(it)

    class Token:
        pass

    refs = []
    interpreted(f)
    gc.collect()
    assert refs[0]() is None


def test_collecting_while_generators_are_suspended_with_values_on_the_stack():
    def f():
        def g():
            return [1, "a" * 3, (yield 1), [2, (yield 2)], (yield 3)]

        it = g()
        out = []
        for value in (None, "x", "y"):
            gc.collect()
            out.append(it.send(value))
        gc.collect()
        try:
            it.send("z")
        except StopIteration as exc:
            return out, exc.value

    assert_same_call(f)


def test_collecting_in_the_middle_of_an_expression():
    def f():
        return [[1], {"a": [2]}, gc.collect() < 0, ([3], gc.collect() < 0)]

    assert_same_call(f)


def test_finalizer_of_a_suspended_generator_runs_its_finally():
    def f():
        def g():
            try:
                yield
            finally:
                seen.append("finally")

        seen = []
        it = g()
        next(it)
        del it
        return seen

    assert_same_call(f)


def test_generator_frame_changes_hands_at_each_step():
    it = numbers(6)
    values = [interpreted(it.send, None)]
    for i in range(1, 6):
        send = it.send if i % 2 else (lambda v: interpreted(it.send, v))
        values.append(send(i))
    with pytest.raises(StopIteration) as info:
        interpreted(it.send, 6)
    assert values == list(range(6))
    assert info.value.value == sum(range(1, 7))


def test_async_generator_hooks():
    def f():
        async def agen():
            yield 1

        seen = []
        former = sys.get_asyncgen_hooks()
        sys.set_asyncgen_hooks(lambda a: seen.append("first"), lambda a: seen.append("final"))
        try:
            a = agen()
            step = a.asend(None)
            try:
                step.send(None)
            except StopIteration as exc:
                seen.append(exc.value)
            del a, step
        finally:
            sys.set_asyncgen_hooks(*former)
        return seen

    assert_same_call(f)


def test_coroutine_never_awaited_is_reported():
    import warnings

    def f():
        async def c():
            pass

        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            c()
            gc.collect()
        return [str(w.message) for w in seen]

    assert_same_call(f)


def test_coroutine_origin_tracking():
    def f():
        async def c():
            pass

        former = sys.get_coroutine_origin_tracking_depth()
        sys.set_coroutine_origin_tracking_depth(1)
        try:
            coro = c()
            origin = [(line, name) for _, line, name in coro.cr_origin]
            coro.close()
            return origin
        finally:
            sys.set_coroutine_origin_tracking_depth(former)

    assert_same_call(f)


# --- what depends on the frame ---


def test_super_and_class_cell():
    def f():
        class A:
            def m(self):
                return [__class__.__name__]

        class B(A):
            def m(self):
                return [*super().m(), __class__.__name__, *(lambda s: super(B, s).m())(self)]

        return B().m()

    assert_same_call(f)


def test_super_in_a_generator_and_a_comprehension():
    def f():
        class A:
            def m(self):
                return 1

        class B(A):
            def g(self):
                yield super().m()

            def c(self):
                try:
                    return [super().m() for _ in range(1)]
                except TypeError as exc:
                    return str(exc)

        return list(B().g()), B().c()

    assert_same_call(f)


def test_globals_and_dir_are_the_frames_own():
    def f():
        x = 1
        return globals()["__name__"], dir(), vars() == {"x": 1}

    assert_same_call(f)


def test_warnings_name_the_right_line():
    import warnings

    def helper():
        warnings.warn("w", UserWarning, stacklevel=2)

    def f():
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            helper()
            warnings.warn("v")
        return [(str(w.message), w.lineno, w.filename == __file__) for w in seen]

    assert_same_call(f)


def test_namedtuple_and_enum_find_their_module():
    import collections
    import enum

    def f():
        return collections.namedtuple("N", "a b").__module__, enum.Enum("E", "A B").__module__

    assert_same_call(f)


def test_context_variables():
    import contextvars

    def f():
        var = contextvars.ContextVar("var", default=0)

        def set_it():
            var.set(5)
            return var.get()

        return contextvars.copy_context().run(set_it), var.get()

    assert_same_call(f)


def test_current_frames_from_another_thread():
    ready, leave = threading.Event(), threading.Event()
    ident = []

    def parked():
        marker = 7
        ident.append(threading.get_ident())
        ready.set()
        while not leave.is_set():
            pass
        return marker

    def outer():
        return parked()

    thread = threading.Thread(target=_core.interpret, args=(outer,))
    thread.start()
    ready.wait()
    frame = sys._current_frames()[ident[0]]
    names, locals_seen = [], None
    while frame is not None:
        names.append(frame.f_code.co_name)
        if frame.f_code.co_name == "parked":
            locals_seen = frame.f_locals["marker"]
        frame = frame.f_back
    leave.set()
    thread.join()
    assert names[names.index("parked") + 1] == "outer"
    assert locals_seen == 7


def test_faulthandler_shows_interpreted_frames():
    import faulthandler
    import tempfile

    def marker_function():
        with tempfile.TemporaryFile("w+") as file:
            faulthandler.dump_traceback(file)
            file.seek(0)
            return file.read()

    assert "marker_function" in interpreted(marker_function)


def test_code_replaced_while_it_runs():
    def f(change):
        change()
        return "old"

    def change():
        f.__code__ = (lambda change: "new").__code__

    assert interpreted(lambda: (f(change), f(change))) == ("old", "new")


def test_closure_cells_are_shared_with_the_running_frame():
    def f():
        x = 1

        def get():
            return x

        cell = get.__closure__[0]
        cell.cell_contents = 10
        first = x
        x = 20
        return first, cell.cell_contents, get()

    assert_same_call(f)


def test_function_deleted_while_it_runs():
    def f():
        namespace = {}
        source = "def g(h):\n    del namespace['g']\n    return [h() for _ in range(2)]"
        exec(source, {"namespace": namespace}, namespace)
        return namespace["g"](lambda: 3)

    assert_same_call(f)
