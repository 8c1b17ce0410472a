"""Statements in captured code: exceptions, generators, context managers, loops, match, imports, builtins."""

from __future__ import annotations

from .texts import parse

PROGRAMS = parse(r"""
### exceptions raised and caught
class E(Exception):
    def __init__(self, n): super().__init__(n, "x"); self.n = n
def g(n):
    if n > 2: raise E(n)
    return n
def f(x):
    out = []
    for i in range(5):
        try:
            out.append(g(i))
        except E as e:
            out.append(e.args)
        else:
            out.append("ok")
        finally:
            out.append("fin")
    return x + len(out), out
### exception chaining and reraise
def f(x):
    try:
        try:
            {}["k"]
        except KeyError as e:
            raise ValueError("v") from e
    except ValueError as e:
        a = type(e.__cause__).__name__
    try:
        try:
            1 / 0
        finally:
            x = x + 1
    except (ZeroDivisionError, KeyError) as e:
        b = str(e)
    try:
        [][1]
    except Exception:
        try:
            raise
        except IndexError as e:
            c = str(e)
    return x, a, b, c
### exceptions of builtins
def f(x):
    out = []
    for g in (lambda: int("q"), lambda: None.foo, lambda: [][3], lambda: {}[1], lambda: next(iter([])), lambda: 1 + "a", lambda: undefined, lambda: len(3), lambda: x.nope, lambda: (1)(), lambda: [].remove(1)):
        try:
            g()
        except Exception as e:
            out.append((type(e).__name__, str(e)))
    return x + 1, out
### exception group
def f(x):
    try:
        raise ExceptionGroup("g", [ValueError(1), TypeError(2)])
    except* ValueError as e:
        a = len(e.exceptions)
    except* TypeError as e:
        b = e.exceptions[0].args
    return x + a, b
### assert statement
def f(x, n=2):
    assert n > 1, "no"
    assert x.shape[0] > 0
    return x + n
---
f(X)
f(X, 0)
f(X, 3)
### generators
def gen(n):
    for i in range(n):
        k = yield i
        if k: yield k * 10
def f(x):
    g = gen(3)
    a = next(g)
    b = g.send(5)
    c = list(g)
    def sub():
        r = yield from gen(2)
        return r
    return x + a + b, c, list(sub())
### generator of tensors
def gen(x):
    while True:
        x = x * 2
        yield x
def f(x):
    g = gen(x)
    return next(g) + next(g), [v for v, _ in zip(gen(x), range(2))]
### generator with try finally
log = []
def gen():
    try:
        yield 1
        yield 2
    finally:
        log.append("closed")
def f(x):
    g = gen()
    a = next(g)
    g.close()
    h = gen()
    next(h)
    try:
        h.throw(ValueError("t"))
    except ValueError:
        a += 1
    return x + a
---
f(X)
f(X)
log
### context managers
class CM:
    def __init__(self, log): self.log = log
    def __enter__(self): self.log.append("in"); return 5
    def __exit__(self, t, v, tb): self.log.append(t and t.__name__); return t is ValueError
def f(x):
    log = []
    with CM(log) as n, CM(log) as m:
        x = x + n + m
    with CM(log):
        raise ValueError
    return x, log
### contextlib
@contextlib.contextmanager
def cm(n, log):
    log.append("enter")
    try:
        yield n * 2
    except KeyError:
        log.append("caught")
    finally:
        log.append("exit")
def f(x):
    log = []
    with cm(3, log) as v:
        x = x + v
    with cm(1, log):
        raise KeyError
    with contextlib.suppress(ValueError):
        raise ValueError
    with contextlib.nullcontext(7) as k:
        x = x + k
    return x, log
### exitstack
@contextlib.contextmanager
def cm(n, log):
    log.append(n)
    yield n
    log.append(-n)
def f(x):
    log = []
    with contextlib.ExitStack() as s:
        a = s.enter_context(cm(1, log))
        b = s.enter_context(cm(2, log))
        s.callback(log.append, "cb")
        x = x + a + b
    return x, log
### no_grad and friends
w = torch.ones(3, requires_grad=True)
def f(x):
    a = x * w
    with torch.no_grad():
        b = x * w
        with torch.enable_grad():
            c = x * w
    with torch.set_grad_enabled(False):
        d = x * w
    return a, b, c, d, torch.is_grad_enabled(), a.requires_grad, b.requires_grad
---
f(X)
f(X)
### no_grad decorator
w = torch.ones(3, requires_grad=True)
@torch.no_grad()
def g(x): return x * w
def f(x):
    return g(x), x * w
---
f(X)
f(X)
### while loops and break continue else
def f(x, n=5):
    i = 0
    while True:
        i += 1
        if i == 2: continue
        if i > n: break
        x = x + i
    else:
        x = x * 0
    for j in range(3):
        pass
    else:
        x = x + j
    return x
---
f(X)
f(X, 2)
### match statement
class P:
    __match_args__ = ("a", "b")
    def __init__(self, a, b): self.a = a; self.b = b
def g(v):
    match v:
        case 0: return "zero"
        case int() | float() if v > 5: return "big"
        case [a, b, *rest]: return a, b, rest
        case {"k": k, **r}: return k, r
        case P(1, b): return "P1", b
        case P(a=a): return "P", a
        case str() as s: return s
        case None: return None
        case _: return "other"
def f(x):
    return x + 1, [g(v) for v in (0, 7, 3, [1, 2, 3], (1, 2), {"k": 1, "z": 2}, P(1, 5), P(2, 3), "s", None)]
### match on outside instance
class P:
    def __init__(self, a): self.a = a
p = P(3)
def f(x):
    match p:
        case P(a=3): return x + 1
        case P(a=n): return x + n
---
f(X)
p.a = 5
f(X)
### del statements
def f(x):
    a = [1, 2, 3]; d = {"a": 1}; b = 5
    del a[0], d["a"], b
    try:
        b
    except UnboundLocalError as e:
        return x + len(a), d, str(e)
### global statement
n = 0
def f(x):
    global n, fresh
    n += 1
    fresh = n * 2
    return x + n + fresh
---
f(X)
n
f(X)
n = 10
f(X)
fresh
### global of another module
other = types.ModuleType("other")
other.k = 3
exec("def g(x): return x * k\ndef bump():\n    global k\n    k += 1", other.__dict__)
def f(x):
    other.bump()
    return other.g(x) + other.k
---
f(X)
f(X)
other.k = 30
f(X)
### import inside
def f(x):
    import math as m
    from collections import OrderedDict
    import torch.nn.functional as FF
    return FF.relu(x) + m.pi, OrderedDict(a=1)
### typing helpers
def f(x):
    a = typing.cast(int, 3)
    y: typing.Optional[int] = 4
    z: "list[int]" = [1]
    return x + a + y, typing.List[int], typing.TYPE_CHECKING, z
### isinstance and friends
class A: n = 1
a = A()
def f(x):
    return (x + 1, isinstance(a, A), isinstance(1, (str, int)), isinstance(x, torch.Tensor), isinstance(True, int), issubclass(A, object),
            hasattr(a, "n"), hasattr(a, "zz"), getattr(a, "zz", 3), type(a) is A, type(x) is torch.Tensor, isinstance([], list | tuple), a.__class__ is A)
### getattr setattr delattr
class A: pass
a = A()
def f(x):
    setattr(a, "n", 5)
    b = A()
    setattr(b, "z", x)
    delattr(b, "z")
    a.__dict__["q"] = 3
    return x + getattr(a, "n") + a.q, hasattr(b, "z"), vars(a)["n"]
---
f(X)
f(X)
a.n = 7
f(X)
### vars of what has no dict
l = [1]
class Slots: __slots__ = ("a",)
class Odd:
    @property
    def __dict__(self): raise ZeroDivisionError
def f(x):
    out = []
    for value in (l, 3, {}, object(), Slots(), Odd()):
        try:
            out.append(vars(value))
        except (TypeError, ZeroDivisionError) as error:
            out.append((type(error), str(error)))
    return x + 1, out
### id and is
def f(x, l=[1]):
    m = l
    y = x
    return x + 1, m is l, y is x, id(m) == id(l), x is not y, l is [1], {id(x): 1}[id(y)]
### hash and equality of objects
class A: pass
a, b = A(), A()
def f(x):
    d = {a: 1, b: 2}
    return x + d[a], a == b, a in [b], a in d, {a, b} == {b, a}, (a, 1) == (a, 1)
### string formatting of objects
class A:
    def __str__(self): return "A!"
    def __format__(self, spec): return spec + "?"
a = A()
def f(x):
    return x + 1, str(a), f"{a:zz}", "%s" % a, "{}".format(a), str([1, "a"]), repr("q"), str(x.shape), str(x.dtype), f"{x.device}"
### sorting with key objects
def f(x):
    l = [("b", 2), ("a", 3), ("c", 1)]
    l.sort(key=lambda p: p[1])
    return x + l[0][1], l, sorted(l, key=operator.itemgetter(0)), sorted({"b": 1, "a": 2}.items()), sorted(l, key=len)
### bisect and heapq
import bisect, heapq
def f(x):
    l = [1, 3, 5]
    bisect.insort(l, 4)
    h = [3, 1, 2]
    heapq.heapify(h)
    return x + bisect.bisect(l, 3), l, heapq.heappop(h), heapq.nlargest(2, [1, 5, 3])
### pytree
import torch.utils._pytree as pytree
def f(d):
    flat, spec = pytree.tree_flatten(d)
    return pytree.tree_map(lambda t: t + 1, d), len(flat), pytree.tree_unflatten([t * 2 for t in flat], spec)
---
f({"a": X, "b": [Y, (Z, X)]})
f({"a": X, "b": [Y, (Z, X)]})
f({"a": X})
""")
