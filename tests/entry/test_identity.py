"""Which object is which: what captured code returns and stores must be the objects that eager would give."""

from __future__ import annotations

import pytest
from programs import harness
from programs.texts import parse

PROGRAMS = parse(r"""
### returns an argument
def f(x): return x
---
f(X) is X
f(Y) is Y
### numbers and strings that are one object or two
a, b = int("1000"), int("1000")
s, t = "abc def", "".join(["abc", " def"])
SENTINEL = "no value given"
def f(x, n, m): return x + 1, n is m, n is not m
def g(x, o): return x * 5 if o is SENTINEL else x + 1
---
f(X, a, a)
f(X, a, b)
f(X, b, b)
f(X, s, s)
f(X, s, t)
f(X, 5, int("5"))
f(X, 1.5, float("1.5"))
g(X, SENTINEL)
g(X, "".join(["no value", " given"]))
g(X, SENTINEL)
### strings in a dict that are one object or two
s, t = "abc def", "".join(["abc", " def"])
d = {"k": s}
def f(x, n): return x + (n is s), d["k"] is s
---
f(X, s)
f(X, t)
d.update(k=t)
f(X, s)
### a NaN is found by its identity
nan = float("nan")
other = float("nan")
d = {nan: 1}
def f(x, n): return x + (n in [nan]), [n] == [nan], n is nan, [n].count(n)
def g(x): return x + d.get(nan, 5), nan in list(d)
---
f(X, nan)
f(X, nan)
f(X, other)
f(X, float("nan"))
f(X, nan)
g(X)
g(X)
nan, other = other, nan
g(X)
f(X, nan)
f(X, other)
nan, other = other, nan
g(X)
### a NaN among the keys of a dict
nan = float("nan")
d = {nan: 1}
def f(x, n): return x + d.get(n, 5)
---
f(X, nan)
f(X, float("nan"))
f(X, nan)
f(X, 1.5)
### NaNs that are passed on
def f(x, n, m): return x + 1, n, m, n is m
def g(x, n, m): return [n, m, x * 2]
a, b = float("nan"), float("nan")
---
f(X, a, a)
f(X, a, b)
(lambda r: (r[0] is a, r[1] is a))(g(X, a, a))
(lambda r: (r[0] is a, r[1] is b))(g(X, a, b))
(lambda r: (r[0] is b, r[1] is a))(g(X, b, a))
(lambda r: (r[0] is b, r[1] is b))(g(X, b, b))
### plain objects that are passed
S = object()
T = object()
names = {S: "s"}
def f(x, o): return x + (o is S), o, o is not T, o == S, o in [T, S], [T, o].index(o)
def g(x, o): return x * 2, names.get(o), hash(o) == hash(S), isinstance(o, object), type(o) is object
def h(x, o, p): return x + 1, o is p, {o: 1, p: 2}, len({o, p})
def shown(r): return r[0], r[1] is S, r[2:]
def sizes(r): return r[0], r[1], len(r[2]), r[3]
---
shown(f(X, S))
shown(f(X, T))
shown(f(X, object()))
shown(f(X, S))
g(X, S)
g(X, T)
g(X, S)
sizes(h(X, S, T))
sizes(h(X, S, S))
sizes(h(X, T, S))
### slices and ranges that are passed
def f(x, s, r): return x[s] + sum(r), s, r, [s, r]
---
(lambda s, r: (lambda o: (o[0], o[1] is s, o[2] is r, o[3][0] is s))(f(X, s, r)))(slice(0, 1), range(3))
(lambda s, r: (lambda o: (o[0], o[1] is s, o[2] is r, o[3][0] is s))(f(X, s, r)))(slice(0, 1), range(3))
f(X, slice(0, 2), range(3))
f(X, slice(None, 1), range(0, 3, 1))
f(X, slice(0, 1, 1), range(0, 4, 2))
f(X, slice(0, 1, None), range(0, 3, 2))
f(X, slice(0, 1, None), range(0))
### returns an argument in containers
def f(x, l): return {"x": x, "l": l, "t": (x, l)}
---
(lambda l: (lambda r: (r["x"] is X, r["l"] is l, r["t"][1] is l))(f(X, l)))([1])
(lambda l: (lambda r: (r["x"] is Y, r["l"] is l, r["t"][1] is l))(f(Y, l)))([1])
### returns the same tensor twice
def f(x):
    y = x + 1
    return y, y, [y]
---
(lambda r: (r[0] is r[1], r[2][0] is r[0]))(f(X))
(lambda r: (r[0] is r[1], r[2][0] is r[0]))(f(X))
### returns equal tensors that are not one
def f(x): return x + 1, x + 1, x.clone(), x.clone()
---
(lambda r: (r[0] is r[1], r[2] is r[3]))(f(X))
(lambda r: (r[0] is r[1], r[2] is r[3]))(f(X))
### returns a view
def f(x): return x.view(-1), x[0], x.t(), x.detach(), x.expand(2, 2, 3)
---
[t.untyped_storage()._cdata == X.untyped_storage()._cdata for t in f(X)]
f(X)
(lambda t: (f(t)[0].zero_(), t))(X.clone())
### returns an iterator over a tensor
def f(x):
    rows = iter(x * 2)
    return next(rows), rows
---
type(f(X)[1]).__name__
list(f(X)[1])
list(f(Y)[1])
### returns a parameter
p = nn.Parameter(torch.ones(3))
m = nn.Linear(3, 3)
def f(x): return p, m.weight, m, x
---
(lambda r: (r[0] is p, r[1] is m.weight, r[2] is m))(f(X))
(lambda r: (r[0] is p, r[1] is m.weight, r[2] is m))(f(X))
### result of an in-place operation
def f(x):
    y = x.add_(1)
    return y, y is x
---
(lambda t: f(t)[0] is t)(X.clone())
(lambda t: f(t)[0] is t)(X.clone())
### operations that may give their input
def f(x): return x.contiguous(), x.to(torch.float32), x.float(), x.reshape(x.shape), x.expand_as(x), x.view_as(x)
---
[t is X for t in f(X)]
[t is X for t in f(X)]
### inside objects are new for each call
class A: pass
def f(x):
    a = A()
    a.l = [x]
    return a, [], {}, set(), A(), object
---
f(X)[0] is f(X)[0], f(X)[1] is f(X)[1], f(X)[4] is f(X)[4]
f(X)[0].l is f(X)[0].l
### shared inside objects stay shared
def f(x):
    l = [1]
    d = {"a": l, "b": l}
    e = (d, d, l)
    return e, [e, e]
---
(lambda r: (r[0][0] is r[0][1], r[0][2] is r[0][0]["a"], r[1][0] is r[0]))(f(X))
(lambda r: (r[0][0] is r[0][1], r[0][2] is r[0][0]["a"], r[1][0] is r[0]))(f(X))
### closures share their cells
def f(x):
    n = [0]
    y = x + 1
    def a(): n[0] += 1; return y
    def b(): return n, y
    return a, b
---
(lambda r: (r[0]() is r[1]()[1], r[0]() is r[0](), r[1]()[0]))(f(X))
(lambda r: (r[0]() is r[1]()[1], r[0]() is r[0](), r[1]()[0]))(f(X))
### globals and modules
G = object()
L = [1]
def g(): pass
def f(x): return G, L, g, torch, math, int, torch.relu, F.relu
---
(lambda r: (r[0] is G, r[1] is L, r[2] is g, r[3] is torch, r[6] is torch.relu))(f(X))
(lambda r: (r[0] is G, r[1] is L, r[2] is g, r[3] is torch, r[6] is torch.relu))(f(X))
### bound methods
class A:
    def m(self): return 1
a = A()
def f(x): return a.m, A().m, a
---
(lambda r: (r[0].__self__ is a, r[0].__func__ is A.m, r[1]()))(f(X))
(lambda r: (r[0].__self__ is a, r[0].__func__ is A.m, r[1]()))(f(X))
### items of outside containers
class A: pass
d = {"a": A(), "l": [A()], "t": (A(), [A()])}
def f(x): return d["a"], d["l"][0], d["t"][0], d["t"][1][0], list(d.values()), d["t"]
---
(lambda r: (r[0] is d["a"], r[1] is d["l"][0], r[2] is d["t"][0], r[3] is d["t"][1][0], r[4][1] is d["l"], r[5] is d["t"]))(f(X))
(lambda r: (r[0] is d["a"], r[1] is d["l"][0], r[2] is d["t"][0], r[3] is d["t"][1][0], r[4][1] is d["l"], r[5] is d["t"]))(f(X))
### tuple of outside containers seen by C code
t = ([1], {"a": 2})
def f(x):
    s = str(t)
    t[0].append(2)
    return t, t[0], sorted(t[0]), s, (t,)
---
(lambda r: (r[0] is t, r[1] is t[0], r[4][0] is t))(f(X))
(lambda r: (r[0] is t, r[1] is t[0], r[4][0] is t))(f(X))
### sorted keeps objects
class A:
    def __init__(self, n): self.n = n
l = [A(2), A(1)]
def f(x): return sorted(l, key=lambda a: a.n), min(l, key=lambda a: a.n), list(reversed(l)), {a.n: a for a in l}
---
(lambda r: (r[0][0] is l[1], r[1] is l[1], r[2][0] is l[1], r[3][2] is l[0]))(f(X))
(lambda r: (r[0][0] is l[1], r[1] is l[1], r[2][0] is l[1], r[3][2] is l[0]))(f(X))
### arguments that are one object
def f(a, b): return a, b, a is b
---
f([1], [1])
(lambda l: (lambda r: (r[0] is r[1], r[2]))(f(l, l)))([1])
(lambda r: (r[0] is r[1], r[2]))(f(X, X))
(lambda r: (r[0] is r[1], r[2]))(f(X, Y))
### kwargs are new for each call
def f(x, **k): return k
def g(d): return f(X, **d)
---
(lambda d: (f(X, **d) is d, f(X, **d)))({"a": 1})
(lambda d: (f(X, **d) is d, f(X, **d)))({"a": 1})
### args are a tuple of the arguments
def f(*a): return a, a[0]
---
(lambda r: (r[0][0] is X, r[1] is X))(f(X, Y))
(lambda r: (r[0][0] is X, r[1] is X))(f(X, Y))
### default arguments
def f(x, l=[1], t=(1, [2])): return l, t, t[1]
root = f
---
(lambda r: (r[0] is root.__defaults__[0], r[1] is root.__defaults__[1], r[2] is root.__defaults__[1][1]))(f(X))
(lambda r: (r[0] is root.__defaults__[0], r[1] is root.__defaults__[1], r[2] is root.__defaults__[1][1]))(f(X))
f(X, [5])
### stored and returned
class A: pass
a = A()
def f(x):
    a.t = x * 2
    a.l = [a.t]
    return a.t, a.l
---
(lambda r: (r[0] is a.t, r[1] is a.l, a.l[0] is a.t))(f(X))
(lambda r: (r[0] is a.t, r[1] is a.l, a.l[0] is a.t))(f(X))
### views of one base
def f(x):
    y = x + 1
    a, b = y[0], y[1]
    a.add_(10)
    return y, a, b
---
(lambda r: (r[1].add_(1), r[0]))(f(X))
(lambda r: (r[1].add_(1), r[0]))(f(X))
### chunks and their parts
def f(x):
    a, b = x.split(1)
    m = torch.max(x, 0)
    return a, b, m, m.values, m[0]
---
(lambda r: r[2].values is r[3] and r[3] is r[4])(f(X))
(lambda r: r[2].values is r[3] and r[3] is r[4])(f(X))
### gradients flow to what was passed
w = torch.ones(3, requires_grad=True)
def f(x): return (x * w).sum()
---
f(X).backward()
w.grad
f(X).backward()
w.grad
### hash and dict keys by identity
class A: pass
a, b = A(), A()
def f(x, k):
    d = {a: 1, b: 2}
    return d[k], d
---
(lambda r: (r[0], a in r[1], list(r[1])[0] is a))(f(X, a))
(lambda r: (r[0], a in r[1], list(r[1])[0] is a))(f(X, b))
### instances with slots and dict
class A:
    __slots__ = ("s", "__dict__")
def f(x):
    a = A(); a.s = [x]; a.d = a.s
    return a
---
(lambda r: r.s is r.d)(f(X))
(lambda r: r.s is r.d)(f(X))
### instance dict taken out
class A: pass
def f(x):
    a = A(); a.n = x
    return a, a.__dict__
---
(lambda r: r[0].__dict__ is r[1])(f(X))
(lambda r: r[0].__dict__ is r[1])(f(X))
### dict of an outside instance
class A: pass
a = A(); a.n = 1
def f(x): return a.__dict__, vars(a), x
---
(lambda r: (r[0] is a.__dict__, r[1] is r[0]))(f(X))
(lambda r: (r[0] is a.__dict__, r[1] is r[0]))(f(X))
### containers of every kind
def f(x):
    y = x + 1
    return (collections.OrderedDict(a=y), collections.defaultdict(list, a=[y]), collections.deque([y], 3), {1, 2}, frozenset("a"), slice(1, 2),
            types.SimpleNamespace(y=y), types.MappingProxyType({"y": y}), bytearray(b"a"), collections.Counter("aa"), {"a": y}.keys(), {"a": y}.values())
---
[type(v).__name__ for v in f(X)]
f(X)[1]["zz"]
f(X)[:10]
### what an operation gives back is its argument
class A: pass
a = A(); a.l = []
def f(x):
    z = x + 0
    w = z.add_(1)
    v = w.to(z.dtype).contiguous()
    a.z, a.w = z, w
    a.l.append(v)
    return w is z, v is z, w is x, z * 2, w * 3, (z, [w], {"v": v}), id(w) == id(z), isinstance(w, torch.Tensor)
---
(lambda r: (r, r[5][0] is r[5][1][0], r[5][2]["v"] is r[5][0], a.z is a.w, a.l[-1] is a.z))(f(X))
(lambda r: (r, r[5][0] is r[5][1][0], r[5][2]["v"] is r[5][0], a.z is a.w, a.l[-1] is a.z))(f(Y))
### an argument given back is the argument
W = T(3)
l = [W]
def f(x):
    y = x.add_(1)
    v = W.float()
    l[0] = v
    W.mul_(2)
    return y, v, [y.view_as(x), x], y is x, v is W
---
(lambda x: (lambda r: (r, r[0] is x, r[2][1] is x, r[1] is W, l[0] is W))(f(x)))(X.clone())
(lambda x: (lambda r: (r, r[0] is x, r[2][1] is x, r[1] is W, l[0] is W))(f(x)))(Y.clone())
W
### shapes change for all names of a tensor
def f(x):
    y = x + 1
    z = y.t_()
    w = z.unsqueeze_(0)
    return y.shape, z.shape, w.shape, y is w, y + 1, z * 2, torch.stack([y, z, w])
---
f(X)
f(Y)
f(T(4, 2))
### gradients through what is given back
W = T(3).requires_grad_(True)
def f(x):
    y = x * 1
    z = y.mul_(W)
    return y * 2 + z, z.requires_grad, y.requires_grad
---
f(X)[0].sum().backward()
f(Y)[0].sum().backward()
W
### getters
class A:
    n = 3
    def __init__(self, n): self.n = n
    def __index__(self): return self.n
def f(x, o):
    g = operator.itemgetter(o)
    h, m = operator.attrgetter("n"), operator.methodcaller("__index__")
    return x + g([1, 2]), g, h, m
---
(lambda r: (r[1]([1, 2]), r[2](A(8)), r[3](A(9))))(f(X, A(0)))
(lambda r: (r[1]([1, 2]), r[2](A(8)), r[3](A(9))))(f(X, A(0)))
(lambda r: (r[1]([1, 2]), r[2](A(8)), r[3](A(9))))(f(X, A(1)))
### iterators that are at their end
def f(x, d):
    its = iter(d), iter(d.values()), iter(d.items())
    return x + 1, [list(i) for i in its], its
---
[(type(i).__name__, next(i, 5)) for i in f(X, {})[2]]
[(type(i).__name__, next(i, 5)) for i in f(X, {1: 2})[2]]
[(type(i).__name__, next(i, 5)) for i in f(X, {1: 2})[2]]
### all parts of a function
def f(x, n):
    def g(a: x, b: [1] = 2, *, c: "y" = 3) -> (x + 1): "doc"
    g.__name__ = "h" + str(n)
    g.__qualname__ = "q"
    g.extra = [x]
    return x + 1, g, g.__annotations__
---
(lambda r: (r[1].__name__, r[1].__doc__, r[1].__qualname__, r[1].extra, r[1].__annotations__, r[1].__annotations__ is r[2], r[1].__module__, r[1].__annotations__['a'] is X))(f(X, 1))
(lambda r: (r[1].__name__, r[1].__doc__, r[1].__qualname__, r[1].extra, r[1].__annotations__, r[1].__annotations__ is r[2], r[1].__module__, r[1].__annotations__['a'] is Y))(f(Y, 1))
(lambda r: (r[1].__name__, r[1].__doc__, r[1].__qualname__, r[1].extra, r[1].__annotations__, r[1].__annotations__ is r[2], r[1].__module__, r[1].__annotations__['a'] is Y))(f(Y, 2))
### a wrapped function
def deco(fn):
    @functools.wraps(fn)
    def w(*a): "no"; return fn(*a)
    return w
def h(x: int) -> str: "yes"; return x * 2
def f(x):
    g = deco(h)
    return g(x), g
---
(lambda r: (r[1].__name__, r[1].__doc__, r[1].__wrapped__ is h, r[1].__annotations__, r[1].__module__))(f(X))
(lambda r: (r[1].__name__, r[1].__doc__, r[1].__wrapped__ is h, r[1].__annotations__, r[1].__module__))(f(X))
### cycles through tuples
class A: pass
def f(x):
    a = A()
    t = (a, x + 1)
    a.t = t
    l = []
    u = (l, 1)
    l.append(u)
    return t, a.t is t, u
---
(lambda r: (r[0][0].t is r[0], r[2][0][0] is r[2]))(f(X))
(lambda r: (r[0][0].t is r[0], r[2][0][0] is r[2]))(f(X))
### an object that is its own key
class P:
    def __init__(self, u): self.u = u; self.v = {}
    def __eq__(self, o): return self.u == o.u
    def __hash__(self): return hash(self.u)
def f(x):
    p = P(3)
    p.v[p] = x + 1
    p.s = {p}
    return p
---
f(X)
f(X)
### an object that is a key of its dict
class P:
    def __init__(self, u): self.v = {}; self.w = [self.v]; self.u = u
    def __eq__(self, o): return self.u == o.u
    def __hash__(self): return hash(self.u)
def f(x):
    p = P(3)
    p.v[p, 1] = x + 1
    return p, p.v
---
f(X)
f(X)
### the hash of an object that is made here
class A: pass
def f(x):
    a = A()
    d = {a: 1}
    return x + d[a], hash(a), a
---
(lambda r: r[1] == hash(r[2]))(f(X))
(lambda r: r[1] == hash(r[2]))(f(X))
### iterators kept
its = []
l = [1, 2, 3]
def f(x):
    it = iter(l)
    next(it)
    its[:] = [it, enumerate(it), zip(l, it), map(str, l), reversed(l)]
    l.append(4)
    return x + 1
---
f(X)
next(its[0]), list(its[2]), list(its[3]), list(its[4])
l[:] = [1, 2, 3]
f(X)
next(its[1]), list(its[2])
### methods as objects
class A:
    def __init__(self, n): self.n = n
    def run(self, x): return x + self.n
a, b = A(1), A(2)
ra = a.run
kept = []
def f(x, m, k):
    i = A(3)
    r = i.run
    i.m = r
    kept[:] = [m, r]
    return m(x) + k(x), m, m is k, k is ra, bool(m), r, i, [m, k], {m: 1}.get(k)
---
f(X, ra, ra)
f(X, ra, ra)
f(X, ra, b.run)
f(X, b.run, ra)
f(X, a.run, a.run)
kept[0] == ra, kept[1].__self__.m is kept[1]
### tensors as keys of what is returned
def f(x): return {x: 1}, {x}, {(x, 1): 2, frozenset([x]): 3}, x + 1
def g(r, x): return x in r[0], x in r[1], (x, 1) in r[2], frozenset([x]) in r[2]
---
g(f(X), X)
g(f(Y), Y)
g(f(Z), Z)
### own tensors as keys of what is returned
def f(x):
    y = x + 1
    return {y: 1}, {y}, {(y, 2)}, y
def g(r): return r[3] in r[0], r[3] in r[1], (r[3], 2) in r[2]
---
g(f(X))
g(f(Y))
g(f(X))
### parameters as keys of what is returned
p, q = nn.Parameter(T(3)), nn.Parameter(T(3))
def f(p): return {p: 1}, {p}, p * 2
def g(r, p): return p in r[0], p in r[1], r[0].get(p)
---
g(f(p), p)
g(f(q), q)
g(f(p), p)
### tensors as keys of what was there
d, s, dd, od, c = {}, set(), collections.defaultdict(list), collections.OrderedDict(), collections.Counter()
def f(x):
    d[x] = 1; s.add(x); dd[x].append(2); od[x] = 3; c[x] += 1
    return x + 1
def look(x): return x in d, x in s, x in dd, x in od, x in c, len(d), len(s), len(dd), len(c)
def clear():
    for each in d, s, dd, od, c: each.clear()
---
f(X)
look(X)
clear()
f(Y)
look(Y)
clear()
f(Z)
look(Z)
""")

NOT_CAPTURED = {
    "an object that is its own key": "it would be hashed half made",
    "an object that is a key of its dict": "it would be hashed half made",
    "the hash of an object that is made here": "it tells an address",
    "iterators kept": "map holds a function",
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_identity(name: str) -> None:
    program, steps = PROGRAMS[name]
    harness.check(program, *steps, captured=name not in NOT_CAPTURED)
