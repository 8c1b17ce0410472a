"""Changes of classes, of objects' attributes, of containers, and of functions that are arguments."""

from __future__ import annotations

from programs.texts import parse

PROGRAMS = parse(r"""
### class attribute
class A: k = 1
class B(A): pass
b = B()
def f(x): return x + b.k
---
f(X)
A.k = 2
f(X)
B.k = 3
f(X)
b.k = 4
f(X)
del b.k, B.k
f(X)
### method patched on class
class A:
    def m(self, x): return x + 1
class B(A): pass
b = B()
def f(x): return b.m(x)
---
f(X)
A.m = lambda self, x: x - 1
f(X)
B.m = lambda self, x: x * 2
f(X)
b.m = lambda x: x * 3
f(X)
### getattr added to the class
class A: pass
a = A()
def f(x): return x + getattr(a, "n", 1)
---
f(X)
A.__getattr__ = lambda self, name: 5
f(X)
A.__getattribute__ = lambda self, name: 7
f(X)
### property replaced
class A:
    n = property(lambda self: 1)
a = A()
def f(x): return x + a.n
---
f(X)
A.n = property(lambda self: 2)
f(X)
A.n = 5
f(X)
a.n = 6
f(X)
### data descriptor appears over instance attribute
class A: pass
a = A()
a.n = 1
def f(x): return x + a.n
---
f(X)
A.n = property(lambda self: 9)
f(X)
### setattr hook added
class A: pass
a = A()
def f(x):
    a.n = 1
    return x + a.n
---
f(X)
A.__setattr__ = lambda self, name, v: object.__setattr__(self, name, v * 10)
f(X)
A.n = property(lambda self: 3, lambda self, v: None)
f(X)
### operator method patched
class A:
    def __add__(self, o): return o + 1
a = A()
def f(x): return a + x, bool(a)
---
f(X)
A.__add__ = lambda self, o: o + 2
f(X)
A.__bool__ = lambda self: False
f(X)
A.__len__ = lambda self: 0
del A.__bool__
f(X)
### unary and inplace operators patched
class A:
    def __neg__(self): return 1
    def __mul__(self, o): return 2
a = A()
def f(x):
    b = a
    b *= 3
    return x + -a + b
---
f(X)
A.__neg__ = lambda self: 10
f(X)
A.__imul__ = lambda self, o: 20
f(X)
### call patched
class A:
    def __call__(self, x): return x + 1
a = A()
def f(x): return a(x)
---
f(X)
A.__call__ = lambda self, x: x + 2
f(X)
### comparison of objects patched
class A:
    def __init__(self, n): self.n = n
a, b = A(1), A(2)
def f(x): return x + (a == b), a in [b], [a, b].index(b)
---
f(X)
A.__eq__ = lambda self, o: True
f(X)
### iteration patched
class A:
    def __iter__(self): return iter([1, 2])
a = A()
def f(x): return x + sum(a), list(a)
---
f(X)
A.__iter__ = lambda self: iter([5])
f(X)
### context manager patched
class A:
    def __enter__(self): return 1
    def __exit__(self, *a): return None
a = A()
def f(x):
    with a as n: return x + n
---
f(X)
A.__enter__ = lambda self: 2
f(X)
### super target patched in the base
class A:
    def m(self): return 1
class B(A):
    def m(self): return super().m() + 10
b = B()
def f(x): return x + b.m()
---
f(X)
A.m = lambda self: 2
f(X)
class Z:
    def m(self): return 5
B.__bases__ = (Z,) if False else (A,)
f(X)
### bases changed
class A:
    def m(self): return 1
class Z:
    def m(self): return 2
class M: pass
class B(A, M): pass
b = B()
def f(x): return x + b.m(), isinstance(b, A), isinstance(b, Z)
---
f(X)
B.__bases__ = (Z, M)
f(X)
### class of the object changed
class A:
    def m(self): return 1
class B:
    def m(self): return 2
a = A()
def f(x): return x + a.m(), type(a) is A
---
f(X)
a.__class__ = B
f(X)
### object of another class with equal attributes
class A:
    def __init__(self): self.n = 1
class B:
    def __init__(self): self.n = 1
def f(x, o): return x + o.n, type(o).__name__, isinstance(o, A)
---
f(X, A())
f(X, B())
f(X, A())
### instance attribute
class A: pass
a = A(); a.n = 1; a.sub = A(); a.sub.k = 2
def f(x): return x + a.n + a.sub.k
---
f(X)
a.n = 3
f(X)
a.sub.k = 4
f(X)
b = A(); b.k = 9; a.sub = b
f(X)
a.n = X
f(X)
del a.n
f(X)
### deleted attribute
class A: n = 5
a = A(); a.n = 1
def f(x): return x + a.n
---
f(X)
del a.n
f(X)
del A.n
f(X)
### slot
class A:
    __slots__ = "n"
a = A(); a.n = 1
def f(x): return x + getattr(a, "n", 50)
---
f(X)
a.n = 2
f(X)
del a.n
f(X)
a.n = X
f(X)
### dict value
d = {"a": 1}
def f(x): return x + d["a"]
---
f(X)
d["a"] = 2
f(X)
d["a"] = X
f(X)
d = {"a": 5}
f(X)
del d["a"]
f(X)
### dict key appears
d = {"a": 1}
def f(x): return x + d.get("b", 7), "c" in d
---
f(X)
d["b"] = 2
f(X)
d["c"] = 2
f(X)
### dict order and length
d = {"a": 1, "b": 2}
def f(x): return x + len(d), list(d), [v for v in d.values()]
---
f(X)
d["c"] = 3
f(X)
del d["a"]; d["a"] = 1
f(X)
d["b"] = 5
f(X)
### dict items with mutable values
d = {"a": [1, 2]}
def f(x): return x + sum(sum(v) for v in d.values()), str(d)
---
f(X)
d["a"].append(5)
f(X)
d["a"][0] = 9
f(X)
### dict key types
def f(x, d): return x, list(d), d.get(1)
---
f(X, {1: "a"})
f(X, {True: "a"})
f(X, {1.0: "a"})
f(X, {1: "a"})
### list item and length
l = [1, 2, 3]
def f(x): return x + l[0] + l[-1]
---
f(X)
l[0] = 5
f(X)
l.append(9)
f(X)
l.clear()
f(X)
### list length
l = [X, Y]
def f(x): return x + len(l), [t.shape for t in l]
---
f(X)
l.append(T(5))
f(X)
l[0] = T(1)
f(X)
### nested lists compared by C code
l = [[2, 1], [1, 5]]
def f(x): return x, sorted(l), l == [[2, 1], [1, 5]], [1, 5] in l, max(l), str(l), l.index([1, 5]) if [1, 5] in l else -1
---
f(X)
l[0][0] = 0
f(X)
l[1].append(7)
f(X)
l[0] = [9]
f(X)
### list of tuples sorted
l = [(2, "b"), (1, "a")]
def f(x): return x + sorted(l)[0][0], dict(l), min(l)
---
f(X)
l[0] = (0, "z")
f(X)
### tuple with a list in it
t = (1, [2, 3])
def f(x): return x + t[0], t == (1, [2, 3]), str(t), hash(t[0])
---
f(X)
t[1][0] = 9
f(X)
t = (1, [9, 3])
f(X)
### tuple item
def f(x, t): return x + t[0], t, len(t)
---
f(X, (1, 2))
f(X, (2, 2))
f(X, (1, 2, 3))
f(X, [1, 2])
f(X, (1, X))
f(X, (1, Y))
### named tuples
P = collections.namedtuple("P", "a b")
Q = collections.namedtuple("Q", "a b")
def f(x, p): return x + p.a, p
---
f(X, P(1, 2))
f(X, P(2, 2))
f(X, Q(1, 2))
f(X, P(X, 2))
### set content
s = {1, 2}
def f(x): return x + (1 in s), len(s), sorted(s), s | {9}
---
f(X)
s.add(3)
f(X)
s.remove(1)
f(X)
s = {True, 2}
f(X)
### frozenset
s = frozenset({1, 2})
def f(x): return x + (1 in s), len(s)
---
f(X)
s = frozenset({2, 3})
f(X)
### set of objects
class A: pass
a, b = A(), A()
s = {a}
def f(x): return x + (a in s), b in s, len(s)
---
f(X)
s.add(b)
f(X)
s.remove(a)
f(X)
### deque contents
q = collections.deque([1, 2], maxlen=3)
def f(x): return x + q[0], len(q), list(q), q.maxlen, 2 in q
---
f(X)
q.append(5)
f(X)
q.append(6)
f(X)
q = collections.deque([2, 5, 6])
f(X)
q[1] = 7
f(X)
### ordereddict contents
d = collections.OrderedDict(a=1, b=2)
def f(x): return x + d["a"], list(d), list(d.values()), next(iter(d))
---
f(X)
d.move_to_end("a")
f(X)
d["a"] = 7
f(X)
d.pop("b")
f(X)
### defaultdict factory
d = collections.defaultdict(int, a=1)
def f(x):
    try:
        return x + d["a"], d["zz"]
    finally:
        d.pop("zz", None)
---
f(X)
d.default_factory = list
f(X)
d.default_factory = None
f(X)
d["a"] = 4
f(X)
### mappingproxy content
base = {"a": 1}
p = types.MappingProxyType(base)
def f(x): return x + p["a"], len(p), list(p)
---
f(X)
base["a"] = 5
f(X)
base["b"] = 5
f(X)
### counter
c = collections.Counter("aab")
def f(x): return x + c["a"], c["q"], c.most_common(1), len(c)
---
f(X)
c["a"] = 7
f(X)
c.update("qq")
f(X)
### simple namespace
n = types.SimpleNamespace(a=1)
def f(x): return x + n.a
---
f(X)
n.a = 5
f(X)
### enum member
class E(enum.Enum):
    A = 1
    B = 2
class G(enum.Enum):
    A = 1
def f(x, e): return x + e.value, e.name, e is E.A
---
f(X, E.A)
f(X, E.B)
f(X, G.A)
f(X, E.A)
### partial swapped
def g(a, b): return a * b
p = functools.partial(g, 2)
def f(x): return p(x)
---
f(X)
p = functools.partial(g, 3)
f(X)
p.keywords["b"] = 5
f(X)
### partial with mutable argument
def g(l, x): return x + l[0]
l = [1]
p = functools.partial(g, l)
def f(x): return p(x)
---
f(X)
l[0] = 6
f(X)
### function attribute
def g(x): return x
g.n = 1
def f(x): return g(x) + g.n
---
f(X)
g.n = 2
f(X)
### lambda argument with other closure
def make(n): return lambda x: x + n
def other(n): return lambda x: x - n
def f(x, g): return g(x)
---
f(X, make(1))
f(X, make(2))
f(X, other(1))
f(X, torch.relu)
f(X, make(1))
### closure argument with a shared list
def make(l): return lambda x: x + l[0]
l, k = [1], [2]
def f(x, g, h): return g(x) + h(x)
---
f(X, make(l), make(l))
f(X, make(l), make(k))
l[0] = 5
f(X, make(l), make(l))
### bound method argument
class A:
    def __init__(self, n): self.n = n
    def m(self, x): return x + self.n
    def k(self, x): return x - self.n
def f(x, g): return g(x)
---
f(X, A(1).m)
f(X, A(2).m)
f(X, A(1).k)
### generator argument
def f(x, it): return x + sum(it), list(it)
---
f(X, (i for i in range(3)))
f(X, iter([1, 2]))
f(X, range(4))
f(X, map(abs, [-1]))
### iterator kept outside
it = iter([1, 2, 3, 4])
def f(x): return x + next(it)
---
f(X)
f(X)
f(X)
""")
