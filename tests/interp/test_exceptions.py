"""Exceptions: tracebacks with lines and columns, chaining, groups, and what finally and with do to them."""

from __future__ import annotations

import traceback

import pytest
from interp.differential import (
    assert_same,
    assert_same_when_specialised,
    build,
    entry_position,
    interpreted,
    load,
    parse_programs,
    remember_source,
)

TEXT = r"""
### column_of_a_binary_operator
def main():
    a, b = 1, 0
    return (a +
            (a / b) + a)

### column_of_a_subscript
def main():
    d = {"a": {"b": None}}
    return d["a"]["b"]["c"] + d["x"]

### column_of_an_attribute
def main():
    class A: b = None
    return A.b.c.d

### column_of_a_call
def f(*a): raise ValueError(a)
def main():
    return f(1) if 0 else len([f(
        2,
        3,
    )])

### column_of_a_method_call
class A:
    def m(self): return self.n()
    def n(self): return self.nothing()
def main():
    return A().m()

### column_of_a_comparison
def main():
    a = [1]
    return 1 < 2 < a

### column_of_a_name
def main():
    x = 1; y = undefined_name; z = 2

### column_in_a_comprehension
def main():
    return [1 / x for y in (1, 0) for x in [y]]

### column_in_a_generator
def g():
    yield 1
    yield (2 /
           0)
def main():
    return [x for x in g()]

### column_of_an_unpacking
def main():
    a, b = 1, 2
    (a, b), c = (1, 2, 3), 4

### column_in_extended_code
exec("\n".join(["def f(x):"] + [f"    v{i} = x" for i in range(300)] + ["    return v299 + v298.nothing"]))
def main():
    return f(1)

### column_of_a_keyword_call
def f(**k): raise KeyError(*k)
def main():
    return f(a=1,
             b=2)

### column_of_star_calls
def main():
    return print(*[1], *5)

### column_of_a_store
def main():
    t = ()
    t[0] = 1

### column_of_an_import
def main():
    import math; from math import (pi,
        nothing)

### column_of_with
class C:
    def __enter__(self): raise ValueError("enter")
    def __exit__(self, *a): pass
def main():
    x = 1
    with C() as c: pass

### exit_that_raises
class C:
    def __enter__(self): return self
    def __exit__(self, *a): raise KeyError("exit")
def main():
    with C():
        1 / 0

### exit_that_raises_without_error
class C:
    def __enter__(self): return self
    def __exit__(self, *a): raise KeyError("exit")
def main():
    with C():
        x = 1

### context_is_set
def main():
    try:
        1 / 0
    except ZeroDivisionError:
        raise KeyError("second")

### cause_is_set
def main():
    try:
        1 / 0
    except ZeroDivisionError as exc:
        raise KeyError("second") from exc

### cause_of_a_class
def main():
    raise KeyError from ValueError

### context_is_suppressed
def main():
    try:
        1 / 0
    except ZeroDivisionError:
        raise KeyError("second") from None

### context_three_deep
def main():
    try:
        try:
            try:
                1 / 0
            except ZeroDivisionError:
                {}[1]
        except KeyError:
            [][1]
    finally:
        None.x

### context_of_a_finally
def main():
    try:
        1 / 0
    finally:
        raise ValueError("in finally")

### context_inside_a_function_called_from_a_handler
def f():
    raise ValueError("called")
def main():
    try:
        raise KeyError("outer")
    except KeyError:
        f()

### context_in_a_generator
def g():
    try:
        yield 1
    except KeyError:
        raise ValueError("in generator")
def main():
    it = g()
    next(it)
    try:
        raise OSError("handled while throwing")
    except OSError:
        it.throw(KeyError("thrown"))

### context_does_not_leak_out_of_a_generator
import sys
def g():
    try:
        raise KeyError("inside")
    except KeyError:
        yield sys.exception()
        yield sys.exception()
def main():
    it = g()
    first = next(it)
    outside = sys.exception()
    try:
        raise OSError("outside")
    except OSError:
        second = next(it)
        now = sys.exception()
    return repr(first), outside, repr(second), repr(now)

### handled_exception_follows_the_handlers
import sys
def main():
    out = [sys.exception()]
    try:
        raise ValueError(1)
    except ValueError:
        out.append(repr(sys.exception()))
        try:
            raise KeyError(2)
        except KeyError:
            out.append(repr(sys.exception()))
        out.append(repr(sys.exception()))
    out.append(sys.exception())
    return out

### notes
def main():
    try:
        1 / 0
    except ZeroDivisionError as exc:
        exc.add_note("one")
        exc.add_note("two")
        raise

### bare_raise
def reraise():
    raise
def main():
    try:
        1 / 0
    except ZeroDivisionError:
        reraise()

### bare_raise_without_an_exception
def main():
    raise

### bare_raise_in_finally
def main():
    try:
        1 / 0
    except ZeroDivisionError:
        try:
            pass
        finally:
            raise

### reraise_by_name
def main():
    try:
        1 / 0
    except ZeroDivisionError as exc:
        e = exc
    raise e

### reraise_with_traceback
def main():
    try:
        1 / 0
    except ZeroDivisionError as exc:
        raise ValueError("x").with_traceback(exc.__traceback__)

### same_exception_raised_twice
E = ValueError("shared")
def f():
    raise E
def main():
    for _ in range(2):
        try:
            f()
        except ValueError as exc:
            n = 0
            tb = exc.__traceback__
            while tb: tb, n = tb.tb_next, n + 1
            print(n)
    E.__traceback__ = None

### raise_a_non_exception
def main():
    raise 5

### raise_a_class_that_is_no_exception
def main():
    raise int

### raise_from_a_non_exception
def main():
    raise ValueError from 5

### raise_a_class_whose_constructor_fails
class E(Exception):
    def __init__(self): raise KeyError("constructor")
def main():
    raise E

### raise_a_class_that_makes_something_else
class E(Exception):
    def __new__(cls): return 5
def main():
    try:
        raise E
    except TypeError as exc:
        return str(exc).replace("program.", "")

### cause_whose_constructor_fails
class E(Exception):
    def __init__(self): raise KeyError("constructor")
def main():
    raise ValueError("x") from E

### catching_a_non_exception
def main():
    try:
        1 / 0
    except int:
        pass

### catching_a_tuple_with_a_non_exception
def main():
    try:
        1 / 0
    except (ValueError, "text"):
        pass

### except_clause_that_raises
def types(): raise KeyError("types")
def main():
    try:
        1 / 0
    except types():
        pass

### name_of_the_handled_exception_is_deleted
def main():
    try:
        1 / 0
    except ZeroDivisionError as exc:
        pass
    return exc

### return_in_finally_swallows
def f():
    try:
        1 / 0
    finally:
        return "swallowed"
def main():
    return f()

### nested_finally_order
def f(out, how):
    for i in range(2):
        try:
            out.append("a")
            try:
                out.append("b")
                if how == "return": return out
                if how == "break": break
                if how == "continue": continue
                if how == "raise": raise ValueError(i)
            finally:
                out.append("c")
                try:
                    {}[0]
                except KeyError:
                    out.append("d")
                finally:
                    out.append("e")
        finally:
            out.append("f")
    return out
def main():
    out = [f([], how) for how in ("return", "break", "continue", "none")]
    print(out)
    f([], "raise")

### return_value_is_evaluated_before_finally
def f():
    x = 1
    try:
        return x
    finally:
        x = 2
def main():
    return f()

### generator_throw_traceback
def inner():
    yield 1
def middle():
    yield from inner()
def main():
    it = middle()
    next(it)
    it.throw(ValueError("thrown"))

### generator_throw_type_and_value
def g():
    try:
        yield 1
    except ValueError as exc:
        yield repr(exc)
def main():
    it = g()
    next(it)
    return it.throw(ValueError, "v", None)

### generator_throw_before_start
def g():
    yield 1
def main():
    g().throw(ValueError("early"))

### generator_close_with_return
def g():
    try:
        yield 1
    except GeneratorExit:
        return 5
def main():
    it = g()
    next(it)
    return it.close()

### stop_iteration_becomes_runtime_error
def g():
    yield next(iter(()))
def main():
    return list(g())

### stop_iteration_from_next_in_a_loop
class I:
    def __iter__(self): return self
    def __next__(self): raise StopIteration
def main():
    return [x for x in I()]

### iterator_that_raises
class I:
    def __iter__(self): return self
    def __next__(self): raise ValueError("next")
def main():
    for x in I():
        pass

### with_swallows
import contextlib
def main():
    with contextlib.suppress(ZeroDivisionError):
        1 / 0
    with contextlib.suppress(KeyError):
        1 / 0

### context_manager_generator
import contextlib
@contextlib.contextmanager
def ctx():
    try:
        yield 1
    except KeyError as exc:
        raise ValueError("translated") from exc
def main():
    with ctx() as x:
        raise KeyError(x)

### exit_truth_raises
class Bad:
    def __bool__(self): raise OSError("truth")
class C:
    def __enter__(self): return self
    def __exit__(self, *a): return Bad()
def main():
    with C():
        raise KeyError("x")

### exception_group_traceback
def f(n):
    raise ValueError(n)
def main():
    excs = []
    for i in range(2):
        try:
            f(i)
        except ValueError as exc:
            excs.append(exc)
    raise ExceptionGroup("group", excs)

### except_star_leaves_the_rest
def main():
    try:
        raise ExceptionGroup("g", [ValueError(1), ExceptionGroup("h", [KeyError(2), ValueError(3)]), OSError(4)])
    except* ValueError as eg:
        print(repr(eg))

### except_star_clause_raises
def main():
    try:
        raise ExceptionGroup("g", [ValueError(1), KeyError(2), OSError(4)])
    except* ValueError:
        raise TypeError("from the clause")
    except* KeyError:
        1 / 0

### except_star_naked
def main():
    try:
        raise ValueError(1)
    except* ValueError as eg:
        print(repr(eg))
        raise

### except_star_naked_unmatched
def main():
    try:
        raise ValueError(1)
    except* KeyError as eg:
        pass

### except_star_reraises_a_part
def main():
    try:
        try:
            raise ExceptionGroup("g", [ValueError(1), KeyError(2)])
        except* ValueError as eg:
            raise eg
    except ExceptionGroup as eg:
        eg.add_note("noted")
        raise

### except_star_derived_class
class MyGroup(ExceptionGroup):
    def __new__(cls, message, excs, code=0):
        self = super().__new__(cls, message, excs)
        self.code = code
        return self
    def derive(self, excs): return MyGroup(self.message, excs, self.code + 1)
def main():
    try:
        try:
            raise MyGroup("mine", [ValueError(1), KeyError(2), OSError(3)], 10)
        except* ValueError:
            raise
        except* KeyError:
            pass
    except MyGroup as eg:
        return repr(eg), eg.code

### except_star_with_break_out_of_a_nested_loop
def main():
    out = []
    for i in range(3):
        try:
            raise ExceptionGroup("g", [ValueError(i)])
        except* ValueError:
            for j in range(5):
                if j == i: break
            out.append(j)
    return out

### except_star_inside_a_generator
def g():
    try:
        yield 1
    except* ValueError as eg:
        yield repr(eg)
def main():
    it = g()
    next(it)
    return it.throw(ExceptionGroup("g", [ValueError(1)]))

### coroutine_traceback
async def inner():
    await Ready()
    raise ValueError("inner")
class Ready:
    def __await__(self): return iter(())
async def outer():
    return await inner()
def main():
    outer().send(None)

### async_with_body_raises
class C:
    async def __aenter__(self): return self
    async def __aexit__(self, *a): print(a[0].__name__)
async def f():
    async with C():
        raise ValueError("body")
def main():
    f().send(None)

### async_comprehension_raises
async def g():
    yield 1
    raise ValueError("agen")
async def f():
    return [x async for x in g()]
def main():
    f().send(None)

### class_body_raises
def main():
    class A:
        x = 1
        y = x / 0

### decorator_raises
def deco(f): raise ValueError("deco")
def main():
    @deco
    def f(): pass

### default_raises
def main():
    def f(a=1 / 0): pass

### del_that_raises_is_reported_not_raised
import sys
class D:
    def __del__(self): raise ValueError("del")
def main():
    seen = []
    hook = sys.unraisablehook
    sys.unraisablehook = lambda info: seen.append((info.exc_type.__name__, str(info.exc_value)))
    try:
        d = D()
        del d
        D()
        return seen
    finally:
        sys.unraisablehook = hook

### error_in_a_callback_from_c
def key(x): return 1 / x
def main():
    return sorted([3, 2, 0], key=key)

### error_in_repr
class R:
    def __repr__(self): return self.nothing
def main():
    return f"{R()!r}"

### system_exit
def main():
    raise SystemExit(3)

### keyboard_interrupt
def main():
    try:
        raise KeyboardInterrupt
    except Exception:
        pass

### unbound_after_except
def main():
    try:
        x = 1 / 0
    except ZeroDivisionError:
        pass
    return x

### deep_traceback
def f(n):
    if n == 0:
        raise ValueError("deep")
    return [f(n - 1)] if n % 2 else (lambda: f(n - 1))()
def main():
    f(30)

### exception_with_bad_normalisation
class E(Exception):
    def __init__(self, a, b): pass
def g():
    yield 1
def main():
    it = g()
    next(it)
    it.throw(E, 1)

### attribute_error_names
def main():
    out = []
    for f in (lambda: (1).nothing, lambda: "".nothing(), lambda: setattr(1, "x", 2)):
        try:
            f()
        except AttributeError as exc:
            out.append((exc.name, exc.obj))
    return out

### assertion_with_an_odd_message
def main():
    assert [], ("tuple", 1)

### suggestion_for_a_name
import traceback
def main():
    something = 1
    try:
        somethin
    except NameError as exc:
        return traceback.format_exception_only(exc)

### line_numbers_over_many_lines
def main():
    x = [
        1,
        2,
        (lambda:
            3 /
            0
        )(),
    ]

### assignment_target_raises
class A:
    def __setattr__(self, *a): raise ValueError("set")
def main():
    a = A()
    a.x = \
        5

### augmented_assignment_raises
def main():
    x = [1]
    x += \
        5

### chained_comparison_cleanup
class B:
    def __lt__(self, o): return True
    def __gt__(self, o): raise ValueError("gt")
def main():
    return [B() < B() > B()]

### cyclic_context
def main():
    try:
        raise ValueError("a")
    except ValueError as a:
        try:
            raise KeyError("b")
        except KeyError as b:
            try:
                raise a
            except ValueError:
                raise b
"""

PROGRAMS = parse_programs(TEXT)
SOURCES = [pytest.param(source, id=name) for name, source in PROGRAMS.items()]


@pytest.mark.parametrize("source", SOURCES)
def test_exception_is_the_same(source):
    assert_same(source)


@pytest.mark.parametrize("source", SOURCES)
def test_exception_is_the_same_when_specialised(source):
    assert_same_when_specialised(source)


def test_formatted_traceback_marks_the_same_columns():
    source = PROGRAMS["column_of_a_subscript"]
    remember_source(source)
    main = load(build(source))["main"]
    texts = []
    for call in (lambda: main(), lambda: interpreted(main)):
        try:
            call()
        except TypeError as exc:
            lines = traceback.format_exception(exc)
            texts.append(lines[-2:])
    assert texts[0] == texts[1]
    assert "^^^^^" in texts[1][0]


def test_unbound_local_is_reported_where_it_is_read():
    main = load(build("def main():\n    a = 1\n    return (a +\n            b)\n    b = 1\n"))["main"]
    with pytest.raises(UnboundLocalError) as info:
        interpreted(main)
    entry = info.value.__traceback__
    while entry.tb_next is not None:
        entry = entry.tb_next
    assert entry_position(entry) == (4, 4, 12, 13)


def test_split_that_returns_no_pair_is_an_error():
    # CPython 3.11 crashes here; later versions raise this TypeError.
    class Odd(ExceptionGroup):
        def split(self, condition):
            return 5

    def catch():
        try:
            raise Odd("odd", [ValueError(1), KeyError(2)])
        except* ValueError:
            pass

    with pytest.raises(TypeError, match=r"Odd\.split must return a 2-tuple") as info:
        interpreted(catch)
    assert isinstance(info.value.__context__, Odd)
