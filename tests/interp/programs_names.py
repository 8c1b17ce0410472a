"""Closures, classes, names and imports, calls, unpacking."""

from __future__ import annotations

from interp.differential import parse_programs

PROGRAMS = parse_programs(r"""
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
""")
