"""Small programs which together execute every opcode of CPython 3.11.

Each defines main(), which returns, prints or raises something, and can be called again and again.
"""

from __future__ import annotations

from interp.differential import parse_programs

TEXT = r'''
### arithmetic
def main():
    a, b = 17, 5
    out = [a + b, a - b, a * b, a / b, a // b, a % b, a ** b, a << b, a >> 1, a & b, a | b, a ^ b]
    a += 1; a -= 2; a *= 3; a //= 2; a %= 100; a **= 2; a <<= 1; a >>= 1; a &= 255; a |= 1; a ^= 2
    f = 1.5
    f /= 2
    return out, a, f, -a, +a, ~a, not a, f * 2.0, f + 1.0, f - 0.5

### matrix_multiply
class M:
    def __init__(self, v): self.v = v
    def __matmul__(self, other): return M(self.v * other.v)
    def __imatmul__(self, other): self.v += other.v; return self
def main():
    m = M(2) @ M(3)
    m @= M(4)
    return m.v

### operators_fall_back
class Left:
    def __add__(self, other): return NotImplemented
class Right:
    def __radd__(self, other): return "radd"
    def __lt__(self, other): return "lt"
    def __contains__(self, item): return item == 3
    def __neg__(self): raise ValueError("neg")
def main():
    out = [Left() + Right(), Right() < 1, 3 in Right(), 4 not in Right(), 1 > Right()]
    try:
        -Right()
    except ValueError as exc:
        out.append(str(exc))
    try:
        Left() + Left()
    except TypeError as exc:
        out.append(str(exc))
    try:
        Left() < Left()
    except TypeError as exc:
        out.append(str(exc))
    return out

### comparisons
def main():
    a, b, c = 1, 2, 3
    s = "x"
    return [a < b < c, a < b > c, a == b != c, a is None, a is not None, a in (1, 2), a not in {1}, s == "x",
            1.0 <= 2.0,
            s != "y", a >= 1]

### in_place_string
def main():
    s = ""
    for i in range(50):
        s += str(i)
        t = s
        s += "-"
        s = s + s[:1]
    big = "a" * 10
    big += big
    return s, t, big

### in_place_string_of_many_locals
exec("def many():\n" + "".join(f"    v{i} = ''\n" for i in range(300)) +
     "    for i in range(20):\n        v299 += 'x'\n"
     "        v1 += v299\n    return v299, v1\n")
def main():
    return many()

### subscripts
class Sub(dict):
    def __missing__(self, key): return ("missing", key)
def main():
    l = [1, 2, 3, 4]
    t = (1, 2, 3)
    d = {"a": 1, (1, 2): 3}
    l[0] = 5
    d["b"] = 2
    del d["a"], l[1]
    out = [l[0], l[-1], l[1:], l[::2], t[1], t[-2], d[1, 2], d["b"], "abc"[1], Sub()["q"], l[True]]
    for key in (10, "x", 10 ** 30, -10):
        for container in (l, t, d, "abc"):
            try:
                out.append(container[key])
            except (LookupError, TypeError) as exc:
                out.append((type(exc).__name__, str(exc)))
    l[1:2] = [7, 8]
    return out, l

### subscript_errors
def attempt(f):
    try:
        return f()
    except Exception as exc:
        return type(exc).__name__, str(exc)
def store():
    x = (1,)
    x[0] = 2
def delete():
    x = "abc"
    del x[0]
def main():
    return [attempt(f) for f in (store, delete, lambda: {}[[]], lambda: {}[(1,)], lambda: None[0], lambda: 5 in 6,
                                 lambda: [][0], lambda: ()[0], lambda: {1: 2}[None])]

### builders
def main():
    a, b = 1, [2, 3]
    d = {"k": a, "l": b}
    e = {a: b, "x": a}
    return ((a, *b, a), [a, *b], sorted({a, *b}), {**d, "m": 1, **e}, d, e, {a, 5}, (a, b), [a, b], [1, 2, 3,
            4], {1, 2, 3},
            slice(a, 2), b[a:a], b[a:2:a], {}, [], ())

### f_strings
def main():
    x, y, w = 3.14159, "é", 10
    return f"{x:.2f}|{y!r}|{y!s}|{y!a}|{x!r:>{w}}|{w=}|{'nested' + f'{w}'}", f"{x}", f"", f"{y}", f"{w:{w}}{{}}"

### f_string_error
class Bad:
    def __format__(self, spec): raise ValueError("format " + spec)
def main():
    return f"{1} {Bad():abc}"

### loops
def main():
    out = []
    for i in range(5):
        if i == 1: continue
        if i == 4: break
        out.append(i)
    else:
        out.append("else")
    for i in []:
        pass
    else:
        out.append("empty")
    n = 10
    while n:
        n -= 1
        if n == 5: break
    while n > 3:
        n -= 1
    else:
        out.append("while else")
    return out, n

### backward_jumps
def main():
    out = []
    n = 0
    while n < 3:
        n += 1
    while not n > 5:
        n += 1
    x = None
    while x is None:
        n += 1
        if n > 9: x = 1
    while x is not None:
        x = None if n > 12 else x
        n += 1
    items = [None, 1, None]
    i = 0
    while items[i] is None:
        i += 1
    queue = [3, 2, 1, 0]
    while queue.pop(0):
        out.append(len(queue))
    queue = [0, 0, 5]
    while not queue.pop(0):
        out.append(len(queue))
    return n, i, out

### jump_or_pop
def main():
    a, b, c = 0, "", [1]
    return (a or b or c), (c and b), (a and b), (c or a), [x and y or z for x in (0, 1) for y in (0, 2) for z in (3,)]

### truth_raises
class Bad:
    def __bool__(self): raise ZeroDivisionError("truth")
def main():
    out = []
    for f in (lambda: not Bad(), lambda: Bad() or 1, lambda: Bad() and 1, lambda: 1 if Bad() else 2):
        try:
            f()
        except ZeroDivisionError as exc:
            out.append(str(exc))
    while Bad():
        pass

### none_jumps
def f(x):
    if x is None:
        return "none"
    if x is not None and x > 3:
        return "big"
    return "small"
def g(x):
    return 1 if x is not None else 2
def main():
    return f(None), f(5), f(1), g(None), g(1)

### comprehensions
def main():
    n = 3
    g = (i * n for i in range(3))
    return ([i for i in range(5) if i % 2], {i % 3 for i in range(9)}, {i: i * i for i in range(3)}, list(g),
            [(i, j) for i in range(2) for j in range(2)], [[k for k in range(i)] for i in range(3)],
            [y := 5, y * 2], [x for x in "ab" if x > "a" if x], [*(i for i in range(3))])

### closures
def counter():
    n = 0
    def up():
        nonlocal n
        n += 1
        return n
    def drop():
        nonlocal n
        del n
    return up, drop
def main():
    up, drop = counter()
    out = [up(), up()]
    drop()
    for f in (up, drop):
        try:
            f()
        except NameError as exc:
            out.append((type(exc).__name__, str(exc), exc.name))
    def arg_cell(a, b=2, *c, d, **e):
        return lambda: (a, b, c, d, e)
    out.append(arg_cell(1, d=4, f=5)())
    return out

### own_cell_unbound
def main():
    def inner():
        return x
    if False:
        x = 1
    try:
        inner()
    except NameError as exc:
        print(type(exc).__name__, exc, exc.name)
    try:
        x
    except UnboundLocalError as exc:
        print(exc, exc.name)
    del x

### class_deref
def make(x):
    class A:
        y = x
        x = 5
        z = x
        def m(self): return __class__, x
    return A
def unbound():
    class B:
        q = late
    late = 1
def main():
    A = make(2)
    out = [A.y, A.z, A().m()[1], A().m()[0].__name__]
    try:
        unbound()
    except NameError as exc:
        out.append((str(exc), exc.name))
    return out

### class_deref_in_a_custom_namespace
class Names(dict):
    def __missing__(self, key):
        if key == "found": return "in the namespace"
        if key == "broken": raise ValueError("broken")
        raise KeyError(key)
class Meta(type):
    @classmethod
    def __prepare__(mcs, name, bases): return Names()
def make(found, other, broken):
    class A(metaclass=Meta):
        a = found
        b = other
        c = len
        try:
            broken
        except ValueError as exc:
            d = str(exc)
        try:
            undefined
        except NameError as exc:
            e = str(exc)
    return A
def main():
    A = make(1, 2, 3)
    return A.a, A.b, A.c is len, A.d, A.e

### classes
class Base:
    def __init_subclass__(cls, tag=None): cls.tag = tag
    def who(self): return "base"
class Mixin:
    def who(self): return "mixin " + super().who()
class D(Mixin, Base, tag="t"):
    x: int = 1
    y: "str"
    def who(self): return "d " + super().who()
    @property
    def p(self): return self._p
    @p.setter
    def p(self, v): self._p = v
    @p.deleter
    def p(self): del self._p
    @classmethod
    def c(cls): return cls.__name__
    @staticmethod
    def s(): return "s"
def main():
    d = D()
    d.p = 3
    out = [d.who(), d.p, d.c(), d.s(), D.tag, D.__annotations__, D.x]
    del d.p
    try:
        d.p
    except AttributeError as exc:
        out.append(str(exc))
    try:
        del d.nothing
    except AttributeError as exc:
        out.append(str(exc))
    return out

### slots_and_getattr
class S:
    __slots__ = "a", "b"
    def __getattr__(self, name):
        if name == "z": raise AttributeError("no z")
        return "got " + name
def main():
    s = S()
    s.a = 1
    out = [s.a, s.q, s.method_like]
    for f in (lambda: s.z, lambda: s.z(), lambda: setattr(s, "c", 1)):
        try:
            f()
        except AttributeError as exc:
            out.append(str(exc))
    return out

### module_annotations
x: int = 1
y: "list[int]"
def main():
    return __annotations__

### annotations_in_exec
def main():
    a, b = {}, {"__annotations__": {"old": 1}}
    exec("x: int = 1\ny: str", a)
    exec("x: int = 1", b)
    class N(dict):
        pass
    n = N()
    exec("x: int = 1", {}, n)
    return a["__annotations__"], b["__annotations__"], n

### names_in_exec
class Strange(dict):
    def __getitem__(self, key):
        if key.startswith("s_"): return "strange " + key
        return dict.__getitem__(self, key)
def main():
    out = []
    ns = {}
    exec("a = 1\nb = a + 1\ndel a\nout = sorted(k for k in globals() if not k.startswith('_'))", ns)
    out.append((ns["b"], ns["out"]))
    for source, g, l in (("del nothing", {}, {}), ("nothing", {}, {}), ("x = s_a", {}, Strange()), ("x = s_a",
            Strange(), {}),
                         ("x = s_a", Strange(), None), ("del q", {}, Strange()),
                         ("def f():\n  return s_g\nx = f()", Strange(), {}),
                         ("def f():\n  global q\n  del q\nf()", {}, {})):
        l = g if l is None else l
        try:
            exec(source, g, l)
            out.append(l["x"])
        except Exception as exc:
            out.append((type(exc).__name__, str(exc), getattr(exc, "name", None)))
    return out

### builtins_replaced
import types
def main():
    out = []
    for b in ({"x": 1}, types.SimpleNamespace(x=2), {"__import__": lambda *a: a[0]}):
        for source in ("y = x", "class A: pass", "import some", "from some import thing", "def f(): return x\ny = f()"):
            g = {"__builtins__": b}
            try:
                exec(source, g)
                out.append([g.get("y"), g.get("some")])
            except SystemError:
                out.append("names a line of CPython's source")
            except Exception as exc:
                out.append((type(exc).__name__, str(exc)))
    return out

### globals
counter = 0
def main():
    global counter, fresh
    counter += 1
    fresh = counter
    del fresh
    out = [type(counter)]
    try:
        fresh
    except NameError as exc:
        out.append((str(exc), exc.name))
    try:
        del fresh
    except NameError as exc:
        out.append((str(exc), exc.name))
    return out

### unbound_locals
def f():
    print(x)
    x = 1
def g():
    x = 1
    del x
    del x
def h(a):
    del a
    return lambda: a
def main():
    out = []
    for function, args in ((f, ()), (g, ()), (h(1), ())):
        try:
            function(*args)
        except NameError as exc:
            out.append((type(exc).__name__, str(exc), exc.name))
    f()

### imports
import os.path as p
import sys, math
from os import path, sep as separator
from math import *
from json import decoder
import xml.dom.minidom
import importlib.util as iu
def main():
    import collections.abc
    from collections import OrderedDict as od
    modules = p, decoder, xml.dom.minidom, collections.abc, od, iu
    return [m.__name__ for m in modules], sin(0), separator

### import_errors
import sys, types
def attempt(source, **more):
    try:
        exec(source, {"__name__": "p", "__package__": more.get("package", "")})
    except Exception as exc:
        return type(exc).__name__, str(exc).split(" (/")[0], getattr(exc, "name", None)
def main():
    out = [attempt(s) for s in ("import no_such_module", "from math import nothing", "from os import nothing",
                                "from . import x", "from os.path import nothing", "import os.nothing",
                                        "from json import json_nothing")]
    odd = types.ModuleType("odd")
    sys.modules["odd"] = odd
    try:
        out.append(attempt("from odd import a"))
        odd.__file__ = 5
        out.append(attempt("from odd import a"))
        odd.__name__ = 7
        out.append(attempt("from odd import a"))
        del odd.__name__
        out.append(attempt("from odd import a"))
        odd.__all__ = ["b"]
        out.append(attempt("from odd import *"))
        odd.__all__ = [5]
        out.append(attempt("from odd import *"))
        odd.__name__ = "odd"
        out.append(attempt("from odd import *"))
        del odd.__all__
        odd.__dict__[5] = 5
        out.append(attempt("from odd import *"))
        sys.modules["odd"] = 5
        out.append(attempt("from odd import *"))
        out.append(attempt("from odd import real"))
        out.append(attempt("from odd import unreal"))
    finally:
        del sys.modules["odd"]
    return out

### import_star
import sys, types
def main():
    m = types.ModuleType("starry")
    m.public = 1
    m._private = 2
    sys.modules["starry"] = m
    try:
        ns = {}
        exec("from starry import *", ns)
        first = sorted(k for k in ns if k != "__builtins__")
        m.__all__ = ("_private",)
        ns = {}
        class L(dict): pass
        l = L()
        exec("from starry import *", ns, l)
        return first, l
    finally:
        del sys.modules["starry"]

### calls
def f(a, /, b, *args, c=3, **kw):
    return a, b, args, c, kw
class C:
    def m(self, *a, **k): return a, k
    def __call__(self, x): return x + 1
def main():
    c = C()
    bound = c.m
    l = [3, 4]
    d = {"x": 1}
    return [f(1, 2), f(1, b=2), f(*l), f(1, *l, c=5, **d), f(1, 2, 3, d=4), c.m(1, k=2), bound(1), bound(k=3),
            c(1), C.m(c, 5),
            (lambda: 7)(), max(1, 2), len("abc"), sorted([2, 1], key=lambda x: -x), print, f(**{"b": 1},
                    **d) if 0 else 0,
            "{}-{x}".format(1, x=2), dict(a=1, **d), int("5"), type(5), str(5), isinstance(5, int), tuple([1]),
                    f(*"ab", *[1]),
            bound(*l, **d), dict([(1, 2)], z=3), l.append(5), l.pop(), "a,b".split(","), "a".join(["b", "c"])][:14]

### call_errors
def f(a, b, *, c): pass
def g(**k): pass
class NotMapping: pass
class BadMapping:
    def keys(self): return [1]
    def __getitem__(self, k): raise KeyError(k)
class BadIter:
    def __iter__(self): raise ValueError("no iteration")
def gen():
    yield 1
    raise TypeError("inside")
def attempt(h):
    try:
        return h()
    except Exception as exc:
        return type(exc).__name__, str(exc)
def main():
    d = {"a": 1}
    return [attempt(h) for h in (
        lambda: f(), lambda: f(1), lambda: f(1, 2), lambda: f(1, 2, 3, c=4), lambda: f(1, 2, c=3, d=4),
                lambda: f(1, a=2, c=3),
        lambda: f(*5), lambda: f(**5), lambda: g(**d, **d), lambda: g(a=1, **d), lambda: g(**NotMapping()),
        lambda: g(**BadMapping()), lambda: g(**{1: 2}), lambda: f(*BadIter()), lambda: f(*gen()), lambda: [*5],
        lambda: [*gen()], lambda: {**5}, lambda: {**[1]}, lambda: {*5}, lambda: {*[[]]}, lambda: {[]: 1},
                lambda: {[], 1},
        lambda: 5(), lambda: "x".nothing(), lambda: None.x, lambda: g(1, **d), lambda: g(*[1], **d), lambda: len(5),
        lambda: {**BadMapping()}, lambda: f(1, 2, *5, c=5), lambda: print(**{"nosuch": 1}), lambda: int(*"ab", x=5),
        lambda: g(**{"x": 1}, **{"x": 2}), lambda: (*5,), lambda: f(*None, **None))]

### defaults_and_annotations
def main():
    n = 5
    def f(a: int, b: "x" = 2, *, c: list = None, d=n) -> str:
        return a, b, c, d, n
    parts = f.__defaults__, f.__kwdefaults__, sorted(f.__annotations__), f.__qualname__
    return f(1), parts, f.__closure__[0].cell_contents

### unpacking
def items():
    yield 1
    yield 2
    yield 3
def main():
    a, b, c = items()
    (d, e), f = (1, [2]), 3
    g, *h, i = range(6)
    *j, = "abc"
    [k, l] = [1, 2]
    m, n = {"x": 1, "y": 2}
    o, *p = (1,)
    x, y, z, *w = "abcd"
    a, b = b, a
    a, b, c = c, b, a
    q = r = 5
    return a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, x, y, z, w, q, r

### unpacking_errors
class BadIter:
    def __iter__(self): return 5
class Raises:
    def __iter__(self):
        yield 1
        raise ValueError("stop")
class Seq:
    def __getitem__(self, i):
        if i > 1: raise IndexError
        return i
def attempt(source, value):
    try:
        exec(source, {"v": value})
        return "fine"
    except Exception as exc:
        return type(exc).__name__, str(exc)
def main():
    sources = ("a, b = v", "a, *b = v", "a, *b, c, d = v", "[] = v", "(*a,) = v", "a, b, c = v", "a, = v")
    values = ((), [1], (1, 2), [1, 2, 3], 5, None, BadIter(), Raises(), {1, 2}, "ab", Seq(), range(2), iter([1,
            2, 3, 4]))
    return [attempt(s, v) for s in sources for v in values]

### generators
def simple(n):
    for i in range(n):
        got = yield i
        if got: print("got", got)
    return "done"
def delegating():
    result = yield from simple(2)
    print("result", result)
    yield from [10, 20]
    yield from (x for x in "ab")
    return result
def main():
    g = delegating()
    out = [next(g), g.send("hello")]
    out += list(g)
    h = simple(1)
    next(h)
    try:
        h.send(None)
    except StopIteration as exc:
        out.append(exc.value)
    h = simple(3)
    try:
        h.send(5)
    except TypeError as exc:
        out.append(str(exc))
    h.close()
    return out, list(h)

### generator_throw_and_close
def g():
    while True:
        try:
            x = yield
            print("x", x)
        except ValueError as exc:
            print("caught", exc)
            yield "handled"
        except GeneratorExit:
            print("exit")
            raise
        finally:
            print("finally")
def outer():
    yield from g()
def stubborn():
    try:
        yield
    except GeneratorExit:
        yield "no"
def main():
    for f in (g, outer):
        it = f()
        next(it)
        it.send(1)
        print(it.throw(ValueError("v")))
        next(it)
        it.close()
    s = stubborn()
    next(s)
    try:
        s.close()
    except RuntimeError as exc:
        print(exc)
    it = outer()
    try:
        it.throw(KeyError("early"))
    except KeyError as exc:
        print(exc)
    it = g()
    next(it)
    it.throw(TypeError("through"))

### stop_iteration_inside
def g():
    yield 1
    raise StopIteration("inner")
def main():
    list(g())

### generator_already_executing
def main():
    def g():
        try:
            next(it)
        except ValueError as exc:
            yield str(exc)
    it = g()
    return next(it)

### yield_from_objects
class Iter:
    def __init__(self): self.n = 0
    def __iter__(self): return self
    def __next__(self):
        self.n += 1
        if self.n > 2: raise StopIteration("value")
        return self.n
    def send(self, v): return ("sent", v)
    def throw(self, *exc): return "thrown"
def g():
    r = yield from Iter()
    print("r", r)
def bad():
    yield from 5
async def coro(): pass
def wrong():
    c = coro()
    try:
        yield from c
    finally:
        c.close()
def main():
    out = [list(g())]
    it = g()
    out += [next(it), it.send(9), it.throw(ValueError("x"))]
    for f in (bad, wrong):
        try:
            next(f())
        except TypeError as exc:
            out.append(str(exc))
    return out

### coroutines
import types
class Suspend:
    def __await__(self):
        got = yield "suspended"
        return got
@types.coroutine
def old_style():
    x = yield "old"
    return x
@types.coroutine
def old_delegating():
    return (yield from inner())
async def inner():
    a = await Suspend()
    b = await old_style()
    return a, b
async def outer():
    return await inner(), await old_delegating()
def drive(coro):
    out, value = [], None
    while True:
        try:
            out.append(coro.send(value))
            value = len(out)
        except StopIteration as exc:
            return out, exc.value
def main():
    return drive(outer())

### async_protocols
class Ctx:
    def __init__(self, swallow): self.swallow = swallow
    async def __aenter__(self): print("enter"); return self
    async def __aexit__(self, t, v, tb): print("exit", t and t.__name__); return self.swallow
class AIter:
    def __init__(self): self.n = 0
    def __aiter__(self): return self
    async def __anext__(self):
        self.n += 1
        if self.n > 3: raise StopAsyncIteration
        return self.n
async def agen(n):
    for i in range(n):
        got = yield i
        if got: print("agen got", got)
async def body():
    async with Ctx(False) as c:
        pass
    async with Ctx(True):
        raise ValueError("swallowed")
    out = []
    async for x in AIter():
        if x == 2: continue
        out.append(x)
    else:
        out.append("else")
    async for x in agen(5):
        if x == 3: break
        out.append(x)
    out.append([y async for y in agen(3) if y])
    out.append({y async for y in AIter()})
    out.append({y: y async for y in agen(2)})
    out.append([z async for z in (y async for y in agen(2))])
    a = agen(2)
    out.append(await a.asend(None))
    out.append(await a.asend("hi"))
    try:
        await a.athrow(KeyError("k"))
    except KeyError as exc:
        out.append(str(exc))
    await a.aclose()
    async with Ctx(False):
        raise KeyError("out")
def main():
    c = body()
    try:
        c.send(None)
    except StopIteration as exc:
        return exc.value

### async_errors
class No: pass
class BadAnext:
    def __aiter__(self): return self
    def __anext__(self): return 5
class BadAiter:
    def __aiter__(self): return 5
class RaisingAnext:
    def __aiter__(self): return self
    async def __anext__(self): raise OSError("anext")
class BadAwait:
    def __await__(self): return 5
class CoroAwait:
    def __await__(self):
        self.c = coro()
        return self.c
class SyncEnter:
    def __aenter__(self): return 5
    def __aexit__(self, *a): return 5
class SyncExit:
    async def __aenter__(self): return 5
    def __aexit__(self, *a): return 5
class NoExit:
    async def __aenter__(self): return 5
async def coro(): return 1
async def f1(): await 5
async def f2():
    async for x in No(): pass
async def f3():
    async for x in BadAnext(): pass
async def f4():
    async for x in BadAiter(): pass
async def f5():
    async for x in RaisingAnext(): pass
async def f6(): await BadAwait()
async def f7():
    k = CoroAwait()
    try:
        await k
    finally:
        k.c.close()
async def f8():
    async with SyncEnter(): pass
async def f9():
    async with SyncExit(): pass
async def f10():
    async with NoExit(): pass
async def f11():
    async with No(): pass
def sync_with(manager):
    with manager: pass
class OnlyEnter:
    def __enter__(self): pass
def main():
    out = []
    for f in (f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11):
        try:
            f().send(None)
        except Exception as exc:
            out.append((f.__name__, type(exc).__name__, str(exc), str(exc.__cause__)))
    for m in (No(), OnlyEnter()):
        try:
            sync_with(m)
        except Exception as exc:
            out.append((type(exc).__name__, str(exc)))
    return out

### awaited_already
import types
@types.coroutine
def pause(): yield
async def inner(): await pause()
async def outer(c): await c
def main():
    c = inner()
    a, b = outer(c), outer(c)
    a.send(None)
    try:
        b.send(None)
    except RuntimeError as exc:
        return str(exc)
    finally:
        a.close()

### async_gen_errors
async def stops():
    yield 1
    raise StopAsyncIteration
async def coro():
    raise StopIteration("x")
async def run():
    out = []
    try:
        async for x in stops(): out.append(x)
    except RuntimeError as exc:
        out.append(str(exc))
    return out
def main():
    out = []
    for f in (run, coro):
        try:
            f().send(None)
        except (StopIteration, RuntimeError) as exc:
            out.append(repr(exc))
    return out

### with_statements
class Ctx:
    def __init__(self, name, swallow=False): self.name, self.swallow = name, swallow
    def __enter__(self): print("enter", self.name); return self.name
    def __exit__(self, t, v, tb): print("exit", self.name, t and t.__name__, tb and tb.tb_lineno); return self.swallow
def early():
    with Ctx("a") as a, Ctx("b") as b:
        return a + b
def loop():
    for i in range(3):
        with Ctx(i):
            if i == 1: break
            continue
    with Ctx("s", True):
        1 / 0
    return "swallowed"
def main():
    print(early(), loop())
    with Ctx("outer"), Ctx("inner"):
        raise KeyError("k")

### try_forms
def f(n):
    try:
        try:
            if n == 0: return "return"
            if n == 1: raise ValueError("one")
            if n == 2: raise KeyError("two")
            if n == 3: raise OSError("three")
        except ValueError as exc:
            return "value", str(exc)
        except (KeyError, TypeError):
            raise RuntimeError("from key")
        else:
            print("else", n)
        finally:
            print("finally", n)
    except RuntimeError as exc:
        return "runtime", repr(exc.__context__)
    return "end"
def override():
    try:
        return 1
    finally:
        return 2
def swallow():
    for i in range(3):
        try:
            raise ValueError(i)
        finally:
            continue
    return "done"
def main():
    print([f(n) for n in (0, 1, 2, 4)], override(), swallow())
    f(3)

### except_star
def f(exc):
    try:
        raise exc
    except* ValueError as eg:
        print("value", eg.exceptions)
    except* (TypeError, KeyError) as eg:
        print("type or key", eg.exceptions)
        raise OSError("new")
    else:
        print("else")
    finally:
        print("finally")
def main():
    out = []
    for exc in (ValueError(1), ExceptionGroup("g", [ValueError(1), TypeError(2)]), ExceptionGroup("g", [ValueError(1)]),
                ExceptionGroup("g", [ExceptionGroup("h", [ValueError(1), IndexError(3)]), TypeError(2), IndexError(4)]),
                IndexError(5)):
        try:
            f(exc)
        except BaseException as caught:
            out.append(repr(caught))
    try:
        pass
    except* ValueError:
        pass
    return out

### except_star_reraise
def main():
    try:
        try:
            raise ExceptionGroup("g", [ValueError(1), TypeError(2), KeyError(3)])
        except* ValueError:
            raise
        except* TypeError:
            pass
    except ExceptionGroup as eg:
        eg.add_note("note")
        try:
            try:
                raise eg
            except* KeyError as k:
                print(k.__notes__)
                raise k
        except* ValueError as v:
            print(repr(v), v.__notes__)
            raise LookupError("new") from v

### except_star_errors
def main():
    out = []
    for types in (int, ExceptionGroup, (ValueError, BaseExceptionGroup), (ValueError, 5)):
        for exc in (ValueError(1), ExceptionGroup("x", [KeyError(1)])):
            try:
                try:
                    raise exc
                except* types:
                    pass
            except BaseException as e:
                out.append((type(e).__name__, str(e)))
    return out

### assertions
def main():
    assert 1
    try:
        assert 0, "message"
    except AssertionError as exc:
        print(exc)
    assert not 1

### match_statement
class Point:
    __match_args__ = ("x", "y")
    def __init__(self, x, y): self.x, self.y = x, y
def f(v):
    match v:
        case 0 | 1: return "small"
        case "text": return "text"
        case None: return "none"
        case True: return "true"
        case []: return "empty"
        case [x]: return "one", x
        case [x, y]: return "two", x, y
        case [1, *rest, 9]: return "ends", rest
        case [x, *rest]: return "many", x, rest
        case {"kind": "a", "value": v}: return "a", v
        case {"kind": k, **rest}: return "kind", k, rest
        case {}: return "mapping"
        case Point(0, 0): return "origin"
        case Point(x, y=0): return "axis", x
        case Point(x=a, y=b) if a == b: return "diagonal", a
        case Point(): return "point"
        case int(n) | float(n): return "number", n
        case str() as s: return "string", s
        case _: return "other"
def main():
    return [f(v) for v in (0, 1, "text", None, True, [], [5], (1, 2), [1, 2, 9], [3, 2, 1], {"kind": "a", "value": 1},
                           {"kind": "b", "z": 2}, {"q": 1}, Point(0, 0), Point(3, 0), Point(4, 4), Point(1, 2),
                                   7, 2.5, "s",
                           {1}, b"ab", "ab", range(2))]

### match_errors
class BadArgs:
    __match_args__ = "x"
class BadArg:
    __match_args__ = (5,)
class Twice:
    __match_args__ = ("a", "a")
    a = 1
class Few:
    __match_args__ = ("a",)
    a = 1
class RaisingAttr:
    __match_args__ = ("x",)
    @property
    def x(self): raise ValueError("attr")
class RaisingMeta(type):
    @property
    def __match_args__(cls): raise KeyError("meta")
class WithMeta(metaclass=RaisingMeta): pass
class Missing:
    __match_args__ = ("gone",)
class BadGet(dict):
    def get(self, *a): raise ValueError("get")
not_a_class = 5
k1 = k2 = "k"
class N: k1 = "k"; k2 = "k"
def attempt(f):
    try:
        return f()
    except Exception as exc:
        return type(exc).__name__, str(exc)
def a():
    match BadArgs():
        case BadArgs(1): pass
def b():
    match BadArg():
        case BadArg(1): pass
def c():
    match Twice():
        case Twice(1, 1): pass
def d():
    match Few():
        case Few(1, 2): pass
def e():
    match RaisingAttr():
        case RaisingAttr(1): pass
def f():
    match WithMeta():
        case WithMeta(1): pass
def g():
    match Missing():
        case Missing(1): return 1
        case _: return "missing"
def h():
    match BadGet(a=1):
        case {"a": 1}: pass
def i():
    match 5:
        case not_a_class(): pass
def j():
    match {"k": 1}:
        case {N.k1: 1, N.k2: 1}: pass
def k():
    match 5:
        case int(1, 2): pass
def l():
    match Few():
        case Few(1, a=1): pass
def m():
    match object():
        case object(1): pass
def n():
    match RaisingAttr():
        case RaisingAttr(y=1): return 1
        case RaisingAttr(x=1): return 2
def main():
    return [attempt(x) for x in (a, b, c, d, e, f, g, h, i, j, k, l, m, n)]

### match_default_dict
import collections
def main():
    d = collections.defaultdict(int, a=None)
    match d:
        case {"b": _}: return "created"
        case {"a": None, **rest}: return "fine", rest, dict(d)

### match_sequence_kinds
import array, collections
def main():
    out = []
    for v in (array.array("i", [1, 2]), collections.deque([1, 2]), b"ab", bytearray(b"ab"), memoryview(b"ab"),
            iter([1, 2]),
              collections.UserList([1, 2]), {1: 2}, collections.UserDict({1: 2})):
        match v:
            case [a, b]: out.append(("seq", a, b))
            case {1: a}: out.append(("map", a))
            case _: out.append("no")
    return out

### match_length_raises
import collections
class S(collections.UserList):
    def __len__(self): raise ValueError("len")
def main():
    match S([1]):
        case [x]: return x

### print_expressions
def main():
    exec(compile("1 + 1\n", "<s>", "single"))
    exec(compile("None\n", "<s>", "single"))
    exec(compile("for i in range(3): i * 2\n", "<s>", "single"))
    import builtins
    builtins._ = None
    del builtins._

### print_expression_without_hook
import sys
def main():
    hook = sys.displayhook
    out = []
    try:
        sys.displayhook = lambda v: out.append(v)
        exec(compile("1 + 1\n", "<s>", "single"))
        def bad(v): raise ValueError(v)
        sys.displayhook = bad
        try:
            exec(compile("5\n", "<s>", "single"))
        except ValueError as exc:
            out.append(str(exc))
        del sys.displayhook
        exec(compile("1 + 1\n", "<s>", "single"))
    except RuntimeError as exc:
        return out, str(exc)
    finally:
        sys.displayhook = hook

### extended_arguments
lines = ["def huge(n):", "    total = 0"]
lines += [f"    x{i} = {i}.5 + n" for i in range(400)]
lines += ["    for i in range(3):"]
lines += [f"        total += x{i}" for i in range(0, 400, 3)]
lines += ["        if total < 0:", "            continue"]
lines += [f"        if total == -{i}: total = g{i}.attr{i}(a{i}=1)" for i in range(300)]
lines += ["    return total"]
exec("\n".join(lines))
exec("def wide(" + ", ".join(f"a{i}=0" for i in range(300)) + "): return a299, a0\n")
exec("def call_wide(): return wide(" + ", ".join(f"a{i}={i}" for i in range(300)) + ")\n")
exec("def many(): return [" + ", ".join(f"f{i}" for i in range(300)) + "]\n")
exec("".join(f"f{i} = {i}\n" for i in range(300)))
exec("def unpack(): (" + ", ".join(f"a{i}" for i in range(300)) + ") = range(300); return a0, a299\n")
exec("def star(): (" + ", ".join(f"a{i}" for i in range(250)) + ", *b, c, d) = range(300); return a249, b, c, d\n")
def main():
    return huge(1), call_wide(), sum(many()), unpack(), star()

### extended_backward_conditions
body = "".join(f"        a = n + {i}.5\n" for i in range(200))
exec(f"""def f(n):
    while n < 5:
        n += 1
{body}
    while not n > 8:
        n += 1
{body}
    x = None
    while x is None:
        x = n if n > 12 else None
        n += 1
{body}
    while x is not None:
        x = None if n > 15 else 1
        n += 1
{body}
    return n, a
""")
def main():
    return f(0)

### handlers_far_away
body = "".join(f"            a = {i}.5 + n\n" for i in range(400))
exec(f"""def f(n):
    for i in range(2):
        try:
{body}
            1 / n
        except ZeroDivisionError:
{body}
        finally:
            n += 1
    return n
""")
def main():
    return f(0), f(1)

### deletions
class A: pass
def main():
    a = A()
    a.x = 1
    del a.x
    l = [1, 2, 3]
    del l[0]
    d = {1: 2}
    del d[1]
    x = 1
    del x
    y, z = 1, 2
    del (y, z), l[:]
    return l, d, vars(a)

### decorators_and_lambdas
def deco(tag):
    def wrap(f):
        def inner(*a, **k): return tag, f(*a, **k)
        return inner
    return wrap
@deco("a")
@deco("b")
def f(x, *, y=lambda: 5): return x, y()
def main():
    return f(1), f(1, y=lambda: 6)

### recursion_and_mutual
def fib(n): return n if n < 2 else fib(n - 1) + fib(n - 2)
def even(n): return True if n == 0 else odd(n - 1)
def odd(n): return False if n == 0 else even(n - 1)
def main():
    return fib(10), even(20), odd(7)

### callbacks_from_c
import functools
class K:
    def __init__(self, v): self.v = v
    def __lt__(self, o): return self.v < o.v
    def __eq__(self, o): return self.v == o.v
    def __hash__(self): return hash(self.v) % 3
    def __len__(self): return self.v
    def __iter__(self): return iter(range(self.v))
    def __repr__(self): return f"K({self.v})"
    def __getitem__(self, i): return (self.v, i)
    def __int__(self): return self.v
    def __index__(self): return self.v
    def __enter__(self): return self
    def __exit__(self, *a): return False
def main():
    ks = [K(i) for i in (3, 1, 2)]
    return (sorted(ks), {K(1): 1, K(4): 2}[K(4)], len(ks[0]), list(ks[0]), ks[0][5], [0, 1, 2, 3][ks[1]], int(ks[0]),
            functools.reduce(lambda a, b: a + b, range(5)), list(map(lambda x, y: x + y, [1], [2])),
                    list(filter(None, [0, 1])),
            max(ks), K(5) in ks, dict(zip("ab", ks)), sum((k.v for k in ks), 0), any(k.v > 2 for k in ks))

### finalizers
class F:
    def __init__(self, n): self.n = n
    def __del__(self): print("del", self.n)
def f():
    a = F("local")
    a = F("rebound")
    del a
    F("temporary")
    for x in [F("item")]:
        pass
    print("end of f")
def g():
    b = F("in generator")
    yield 1
    yield 2
def main():
    f()
    it = g()
    next(it)
    del it
    [F("list"), 1 // 1]
    try:
        c = F("raising")
        raise ValueError
    except ValueError:
        print("handler")
    return "returned"

### evaluation_order
def p(x): print(x); return x
class A:
    def __getitem__(self, k): print("get", k); return 1
    def __setitem__(self, k, v): print("set", k, v)
    def __setattr__(self, k, v): print("setattr", k, v)
def main():
    a = A()
    p(a) and None if False else 0
    a[p(1)] = p(2)
    a[p(3)] += p(4)
    a.x = p(5)
    {p(1): p(2), p(3): p(4)}
    dict(x=p(1), **{"y": p(2)})
    p(1) if p(0) else p(2)
    p(1) < p(2) < p(0) < p(9)
    [p(i) for i in (p(1), p(2))]

### slices_of_everything
class S:
    def __getitem__(self, k): return k
    def __setitem__(self, k, v): print(k, v)
    def __delitem__(self, k): print("del", k)
def main():
    s = S()
    s[1:2] = 3
    s[1:2:3, ..., None] = 4
    del s[::2]
    a = 5
    return s[:], s[a:], s[:a], s[a:a:a], s[1, 2:3], s[...]

### super_forms
class A:
    def f(self): return "A"
    @classmethod
    def g(cls): return "gA" + cls.__name__
class B(A):
    def f(self):
        def inner(): return __class__
        return super().f() + super(B, self).f() + inner().__name__
    @classmethod
    def g(cls): return super().g()
    def broken(self):
        del self
        super()
    def no_args(): super()
def main():
    b = B()
    out = [b.f(), B.g()]
    for f in (lambda: b.broken(), lambda: B.no_args()):
        try:
            f()
        except RuntimeError as exc:
            out.append(str(exc))
    return out

### properties_of_frames
import sys
def inner():
    f = sys._getframe()
    out = []
    while f is not None and f.f_code.co_filename == "<program>":
        out.append((f.f_code.co_name, f.f_lineno, sorted(k for k in f.f_locals if not k.startswith("__"))[:6]))
        f = f.f_back
    return out
def main():
    x = 1
    return (lambda y: inner())(2), [inner() for z in range(1)][0][:3]

### locals_and_eval
def f(a):
    b = 2
    c = lambda: b
    before = sorted(locals())
    locals()["a"] = 100
    exec("a = 5")
    eval("a + b")
    return before, a, eval("a + b"), eval("[a for _ in range(2)]", {"a": 7}), dir()
def main():
    return f(1)

### import_in_function_with_locals
def main():
    exec("import math as m, os.path\nfrom math import pi as q\nr = [m.floor(q)]", {}, d := {})
    return d["r"], sorted(d)
'''

PROGRAMS = parse_programs(TEXT)
