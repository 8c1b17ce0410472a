"""What captured code has read is changed afterwards: the compiled function must notice."""

from __future__ import annotations

import builtins
import sys
import types
from collections.abc import Callable
from typing import Any

import pytest
import torch

import magneto

from . import harness
from .programs import parse

PROGRAMS = parse(r"""
### argument int
def f(x, n): return x + n
---
f(X, 1)
f(X, 2)
f(X, 1)
f(X, True)
f(X, 1.0)
f(X, -1)
### argument float
def f(x, n): return n, 1 / n if n else n
---
f(X, 0.0)
f(X, -0.0)
f(X, float("nan"))
f(X, float("inf"))
f(X, 0)
f(X, False)
f(X, 0.0)
### object that is known by its identity goes, and None comes
def gen(): yield 1
held = gen()
def f(x): return x + 1 if held is None else x + 2
---
f(X)
f(X)
held = None
f(X)
held = gen()
f(X)
### modes that see operations
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack
def f(x): return x + len(_get_current_dispatch_mode_stack())
---
f(X)
f(Y)
### name that a module does not have
def f(x):
    try:
        from sys import no_such_name
    except Exception as e:
        return x + 1, type(e), str(e)
    return x + no_such_name
---
f(X)
f(X)
### argument slice
def f(x, s): return x[s], s.start, s == slice(0, 1)
---
f(X, slice(0, 1))
f(X, slice(0, 1))
f(X, slice(0, 2))
f(X, slice(None, 1))
f(X, slice(0, 1, 1))
f(X, slice(0, True))
f(X, slice(torch.tensor(0), 1))
f(X, slice(0, 1))
### argument partial
from functools import partial
def g(x, y=1, z=0): return x + y * 2 + z
def f(x, p): return p(x), p(x, z=2), p.func is g, p.args, p.keywords
def h(x, p, q):
    p.note = 1
    return p(x), p is q, p.note, isinstance(p, partial), partial(p, z=3)(x), callable(p)
same = partial(g, y=2)
---
f(X, partial(g, y=2))
f(X, partial(g, y=2))
f(X, partial(g, y=3))
f(X, partial(g, y=Y))
f(X, partial(g, z=2))
f(X, partial(g, Y))
f(X, partial(g))
f(X, same)
f(X, partial(torch.add, Y, alpha=2))
h(X, same, same)
h(X, same, partial(g))
h(X, partial(g, 3), same)
same.keywords.update(y=5)
f(X, same)
h(X, same, same)
list(map(same, [X, Y]))
### partial that C code calls
from functools import partial
def g(x, y=1): return x + y
def f(x, p): return list(map(p, [x, x + 1])), sorted([2, 1, 3], key=p)
---
f(X, partial(g, y=2))
f(X, partial(g, y=3))
f(X, partial(g, y=2))
### argument range
def f(x, r): return x + sum(r), len(r), r[-1] if r else None, bool(r)
---
f(X, range(3))
f(X, range(3))
f(X, range(0, 4, 2))
f(X, range(0, 3, 2))
f(X, range(0))
f(X, range(3, 0, -1))
f(X, range(10 ** 20, 10 ** 20 + 2))
### OrderedDict whose items are not those of its order
from collections import OrderedDict
d = OrderedDict(b=2, a=1)
def f(x): return x + 1, list(d.items()), len(d), "b" in d, d.get("zzz")
---
f(X)
dict.__setitem__(d, "zzz", 4)
f(X)
dict.__delitem__(d, "zzz")
f(X)
dict.__setitem__(d, "zzz", 5)
dict.__delitem__(d, "zzz")
f(X)
d.move_to_end("b")
f(X)
### OrderedDict that captured code changes with dict's methods
from collections import OrderedDict
d = OrderedDict(b=2, a=1)
def f(x):
    dict.__setitem__(d, "q", 4)
    e = OrderedDict(c=1)
    dict.__setitem__(e, "r", 4)
    return x + 1, list(d.items()), e.get("r"), list(e), e
---
f(X)[:4]
d.get("q"), list(d)
f(X)[4].get("r")
### argument string
class S(str): pass
def f(x, s): return x + len(s), type(s), s
---
f(X, "ab")
f(X, "abc")
f(X, S("ab"))
f(X, b"ab")
f(X, "ab")
### argument int subclass
class I(int):
    def __add__(self, o): return 100
class J(int): pass
def f(x, n): return x, n + 1, type(n)
---
f(X, 1)
f(X, I(1))
f(X, J(1))
f(X, J(2))
f(X, J(1))
### argument bool and none
def f(x, b): return (x + 1 if b else x - 1), b
---
f(X, True)
f(X, False)
f(X, None)
f(X, 1)
f(X, 0)
f(X, "")
f(X, [])
f(X, [0])
### argument tensor or number
def f(x): return x + 1, type(x)
---
f(X)
f(3)
f(3.5)
f(X)
f(nn.Parameter(X))
### shape
def f(x): return x.reshape(-1), x.shape[0]
---
f(X)
f(T(3, 2))
f(T(6))
f(T(1, 2, 3))
f(X)
### dtype
def f(x): return x / 2, x.dtype
---
f(X)
f(X.double())
f(X.int())
f(X.half())
f(X.bool())
### strides
def f(x): return x.is_contiguous(), x + 1, x.stride()
---
f(T(3, 3))
f(T(3, 3).t())
f(T(3, 3))
f(T(3, 6)[:, ::2])
### requires grad
def f(x): return x * 2, x.requires_grad, (x * 2).requires_grad
---
f(X)
f(X.clone().requires_grad_())
f(X)
### leaf and non leaf
def f(x): return x.is_leaf, x * 2
---
f(X.clone().requires_grad_())
f(X.clone().requires_grad_() * 2)
f(X)
### grad mode
w = torch.ones(3, requires_grad=True)
def f(x): return x * w, torch.is_grad_enabled()
def off(g, x):
    with torch.no_grad():
        return g(x)
---
f(X)
off(f, X)
f(X)
### default dtype
def f(x): return torch.ones(2), torch.get_default_dtype()
def dt(d): torch.set_default_dtype(d)
---
f(X)
dt(torch.float64)
f(X)
dt(torch.float32)
f(X)
### default argument changed
def f(x, n=2): return x * n
root = f
---
f(X)
root.__defaults__ = (5,)
f(X)
f(X, 2)
### kwdefaults changed
def f(x, *, n=2): return x * n
root = f
---
f(X)
root.__kwdefaults__ = {"n": 7}
f(X)
root.__kwdefaults__.update(n=9)
f(X)
### inner default changed
def g(x, n=2, *, k=[1]): return x * n + k[0]
def f(x): return g(x)
---
f(X)
g.__defaults__ = (6,)
f(X)
g.__kwdefaults__["k"] = [8]
f(X)
g.__kwdefaults__["k"][0] = 9
f(X)
g.__defaults__ = None
f(X)
### code swapped
def a(x): return x + 1
def b(x): return x - 1
def f(x): return a(x)
---
f(X)
a.__code__ = b.__code__
f(X)
### root code swapped
def f(x): return x + 1
def b(x): return x - 1
root = f
---
f(X)
root.__code__ = b.__code__
f(X)
### closure cell changed
def make():
    n = 1
    l = [1]
    def f(x): return x + n + l[0]
    def put(v):
        nonlocal n
        n = v
    return f, put, l
f, put, l = make()
---
f(X)
put(5)
f(X)
l[0] = 9
f(X)
put(X)
f(X)
### global changed
n = 1
def f(x): return x + n
---
f(X)
n = 2
f(X)
n = X
f(X)
n = Y
f(X)
n = 1.0
f(X)
del n
f(X)
### builtin shadowed by a global
def f(x): return x + len([1, 2]), max(1, 2)
---
f(X)
len = lambda l: 50
f(X)
max = min
f(X)
del len
f(X)
### global appears
def f(x):
    try:
        return x + late
    except NameError:
        return x
---
f(X)
late = 3
f(X)
del late
f(X)
### module attribute
mod = types.ModuleType("mod")
mod.n = 1
mod.g = lambda x: x + 1
def f(x): return mod.g(x) + mod.n
---
f(X)
mod.n = 2
f(X)
mod.g = lambda x: x - 1
f(X)
### module getattr added
mod = types.ModuleType("mod")
def f(x): return x + getattr(mod, "zz", 0)
---
f(X)
mod.__getattr__ = lambda name: 5
f(X)
mod.zz = 7
f(X)
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
### torch function patched
def f(x): return torch.relu(x), F.gelu(x)
old = torch.relu, F.gelu
---
f(X)
setattr(torch, "relu", torch.neg)
f(X)
setattr(F, "gelu", torch.abs)
f(X)
setattr(torch, "relu", old[0]), setattr(F, "gelu", old[1])
f(X)
### hook added to a module
m = nn.Linear(3, 3)
def f(x): return m(x)
---
f(X)
h = m.register_forward_hook(lambda mod, a, o: o * 2)
f(X)
h.remove()
f(X)
h = m.register_forward_pre_hook(lambda mod, a: (a[0] * 3,))
f(X)
h.remove()
h = torch.nn.modules.module.register_module_forward_hook(lambda mod, a, o: o + 100)
f(X)
h.remove()
f(X)
### parameter swapped
m = nn.Linear(3, 3)
def f(x): return m(x)
---
f(X)
m.weight = nn.Parameter(torch.ones(3, 3))
f(X)
m.bias = None
f(X)
m.weight.requires_grad_(False) is None
f(X)
m.weight.data = torch.ones(5, 3)
f(X)
### buffer replaced
m = nn.Module()
m.register_buffer("b", torch.ones(3))
def f(x): return x + m.b
---
f(X)
m.b = torch.zeros(3)
f(X)
m.b = torch.zeros(1)
f(X)
m.b = None
f(X)
### submodule replaced
m = nn.Sequential(nn.Linear(3, 3), nn.ReLU())
def f(x): return m(x)
---
f(X)
m[1] = nn.Tanh()
f(X)
m.append(nn.Sigmoid()) is m
f(X)
m[0] = nn.Identity()
f(X)
### forward patched on the instance
m = nn.ReLU()
def f(x): return m(x)
---
f(X)
m.forward = lambda x: x + 5
f(X)
nn.ReLU.forward, setattr(m, "forward", lambda x: x + 6)
f(X)
### training flag
m = nn.Dropout(0.5)
def f(x): return m(x), m.training
---
f(X)
m.eval() is m
f(X)
m.p = 0.0
m.train() is m
f(X)
### same tensor passed twice
def f(a, b):
    c = a.clone()
    c.add_(b)
    return c, a is b
---
f(X, Y)
f(X, X)
f(Y, X)
### same tensor passed twice with mutation
def f(a, b):
    a.add_(1)
    return a + b
---
f(X.clone(), Y)
(lambda t: f(t, t))(X.clone())
f(X.clone(), Y)
### same list passed twice with mutation
def f(a, b):
    a.append(1)
    return len(a), len(b), a is b
---
f([], [])
(lambda l: f(l, l))([])
f([], [])
### same dict passed twice with mutation
def f(a, b):
    a["k"] = 1
    return b.get("k"), len(b)
---
f({}, {})
(lambda d: f(d, d))({})
f({}, {})
### same object passed twice with mutation
class A:
    def __init__(self): self.n = 0
def f(a, b):
    a.n += 1
    return a.n, b.n, a is b
---
f(A(), A())
(lambda o: f(o, o))(A())
f(A(), A())
### same slotted object passed twice with mutation
class A:
    __slots__ = ("n",)
    def __init__(self): self.n = 0
def f(a, b):
    a.n += 1
    return a.n, b.n
---
f(A(), A())
(lambda o: f(o, o))(A())
f(A(), A())
### nested alias appears
def f(l, m):
    l[0].append(5)
    return len(m[0]), l
---
f([[1]], [[1]])
(lambda k: f([k], [k]))([1])
f([[1]], [[1]])
### objects that become one in a list
class A: pass
a, b = A(), A()
def f(x, l): return x + l.count(l[0]), l[0] in l[1:]
---
f(X, [a, b])
f(X, [a, a])
f(X, [b, a])
### two closures over one cell
def make():
    n = 0
    def inc():
        nonlocal n
        n += 1
    def get(): return n
    return inc, get
p, q = make(), make()
def f(x, inc, get):
    inc()
    return x + get()
---
f(X, p[0], p[1])
f(X, p[0], q[1])
f(X, q[0], p[1])
### two objects with one dict
class A: pass
a, b = A(), A()
b.__dict__ = a.__dict__
a.n = 1
def f(x):
    a.n += 1
    return x + b.n
---
f(X)
f(X)
c = A(); c.n = 50; b.__dict__ = c.__dict__
f(X)
### dict shared with an object
class A: pass
a = A()
a.n = 1
d = {"n": 1}
def f(x):
    a.n += 1
    return x + d["n"]
---
f(X)
d = a.__dict__
f(X)
d = {"n": 7}
f(X)
### identity of arguments
def f(a, b, c): return a is b, b is c, a is None
---
f([1], [1], None)
(lambda l: f(l, l, l))([1])
f(X, X, Y)
f(X, Y, Y)
f(None, None, None)
### type of an argument
def f(x, t): return x + isinstance(t, int), t
---
f(X, int)
f(X, str)
f(X, list[int])
### string built outside
def f(x, d, k): return x + d[k]
---
f(X, {"ab": 1}, "ab")
f(X, {"ab": 2}, "a" + "b")
f(X, {"ab": 1, "b": 3}, "b")
### device and dtype arguments
def f(x, d, dt): return x.to(dt), d.type
---
f(X, torch.device("cpu"), torch.float64)
f(X, torch.device("meta"), torch.float64)
f(X, torch.device("cpu"), torch.float16)
### torch size argument
def f(x, s): return x.expand(s), s.numel(), s
---
f(T(1), torch.Size([2, 2]))
f(T(1), torch.Size([3]))
f(T(1), torch.Size([2, 2]))
### args and kwargs of the root
def f(*a, **k): return sum(a), sorted(k), len(a)
---
f(X, 1)
f(X, 1, 2)
f(X, 1, b=2)
f(X, 1, c=2)
f(X, 1, c=2, b=1)
### metaclass attribute
class Meta(type):
    k = 1
class A(metaclass=Meta): pass
def f(x): return x + A.k
---
f(X)
Meta.k = 2
f(X)
A.k = 3
f(X)
### static and class methods patched
class A:
    n = 1
    @staticmethod
    def s(x): return x + 1
    @classmethod
    def c(cls, x): return x + cls.n
a = A()
def f(x): return a.s(x), A.c(x)
---
f(X)
A.s = staticmethod(lambda x: x + 5)
f(X)
A.c = classmethod(lambda cls, x: x - cls.n)
f(X)
A.n = 10
f(X)
### new and init patched
class A:
    def __init__(self, n): self.n = n
def f(x): return x + A(1).n
---
f(X)
A.__init__ = lambda self, n: setattr(self, "n", n * 100)
f(X)
### dataclass field changed
@dataclasses.dataclass
class D:
    a: int = 1
    b: object = None
d = D()
def f(x): return x + d.a, d == D(), d
---
f(X)
d.a = 5
f(X)
d.b = [1]
f(X)
d.b.append(2)
f(X)
### addresses in texts, hashes and ids
class A: pass
a, b = A(), A()
def f(x, o): return x, str(o) == str(a), f"{o}" == repr(b), hash(o) == hash(b), id(o) == id(a), str([o]) == str([a])
---
f(X, a)
f(X, b)
f(X, a)
### attributes read by C functions
class A: pass
a = A(); a.n = 1; a.sub = a
g, h = operator.attrgetter("n"), operator.attrgetter("sub.n", "n")
def f(x): return x + g(a), h(a), sum(map(getattr, [a], ["n"])), functools.reduce(getattr, ["sub", "n"], a), max(map(g, [a])), sorted([a], key=g)
---
f(X)
a.n = 5
f(X)
### items read by C functions
d = {"a": [1], "b": [2]}
g = operator.itemgetter("a")
def f(x):
    g(d).append(5)
    return x + len(g(d)), list(map(operator.itemgetter("b"), [d]))
---
f(X)
d["b"].append(1)
f(X)
### types asked for by C functions
class A: pass
a = A(); a.n = 1
def f(x): return list(map(type, [x, a])), list(map(isinstance, [x, x], [nn.Parameter, torch.Tensor])), list(filter(callable, [a])), list(map(vars, [a]))
---
f(X)
a.n = 3
f(X)
### class name
class A: pass
a = A()
def f(x): return x, type(a).__name__, A.__qualname__
---
f(X)
A.__name__ = "Z"
f(X)
A.__qualname__ = "Q"
f(X)
### function name
def g(): pass
def f(x): return x, g.__name__, g.__doc__, g.__module__
---
f(X)
g.__name__ = "other"
f(X)
g.__doc__ = "other"
f(X)
### tensor attribute of a user
t = torch.ones(3)
t.tag = 1
def f(x): return x + t.tag
---
f(T(3))
t.tag = 2
f(T(3))
### lru cache cleared
calls = []
@functools.lru_cache
def g(n):
    calls.append(n)
    return n * 2
def f(x): return x + g(3)
---
f(X)
f(X)
g.cache_clear()
f(X)
### grad of a parameter
p = nn.Parameter(torch.ones(3))
def f(x): return x + 1 if p.grad is None else x + p.grad
---
f(T(3))
p.sum().backward()
f(T(3))
### object on a class becomes a descriptor
class D: pass
class C: d = D()
c = C()
def f(x): return x + 1 if c.d is C.__dict__["d"] else x - 1
---
f(X)
D.__get__ = lambda self, owner, kind=None: 5
f(X)
del D.__get__
f(X)
### descriptor becomes a data descriptor
class D:
    def __get__(self, owner, kind=None): return 5
class C: d = D()
c = C()
c.__dict__["d"] = 1
def f(x): return x + c.d
---
f(X)
D.__set__ = lambda self, owner, value: None
f(X)
del D.__set__
f(X)
### getattribute added to a metaclass
class M(type): pass
class C(metaclass=M): k = 1
def f(x): return x + C.k
---
f(X)
M.__getattribute__ = lambda cls, name: 40
f(X)
del M.__getattribute__
f(X)
### instancecheck added to a metaclass
class M(type): pass
class C(metaclass=M): pass
class D: pass
d = D()
def f(x, deep): return x + 1 if isinstance(d, (int, (str, C)) if deep else C) else x - 1
---
f(X, False), f(X, True)
M.__instancecheck__ = lambda cls, object: True
f(X, False), f(X, True)
del M.__instancecheck__
f(X, False), f(X, True)
### attribute of a partial
p = functools.partial(lambda a, x: x + a, 1)
p.k = 3
def f(x): return p(x) + p.k, hasattr(p, "z"), p.args
---
f(X)
p.k = 4
f(X)
p.z = 1
f(X)
### slice and range arguments
def f(x, s, r): return x[s], list(r)
---
f(X, slice(0, 1), range(2))
f(X, slice(1, 2), range(3))
f(X, slice(0, 1), range(2))
### keys that are arguments, read
class A: pass
a, b, c = A(), A(), A()
d = {a: 1, b: 2}
def f(x, o):
    return x + d.get(o, 0), o in d
---
f(X, a)
f(X, b)
f(X, c)
d[c] = 7
f(X, c)
d.pop(a)
f(X, a)
### an argument is none of the keys
class A: pass
a, b, c = A(), A(), A()
d = {a: 1, b: 2}
def f(x, o):
    return x + d.get(o, 0), o in d
---
f(X, c)
f(X, a)
f(X, b)
d[c] = 7
f(X, c)
d.pop(a)
f(X, a)
### tuples of objects as keys
class A: pass
a, b, c = A(), A(), A()
d = {(a, 1): 1, (b, (c, 2)): 2}
def f(x, o, p):
    return x + d.get((o, 1), 0), (b, (p, 2)) in d, d.get((o, (p, 2)))
---
f(X, c, c)
f(X, a, a)
f(X, b, c)
f(X, b, a)
### functions compared by C code
def g1(x): return x
def g2(x): return x
def mk(n):
    def g(x): return x + n
    return g
m1, m2 = mk(1), mk(2)
d = {m1: 1, g1: 2}
l = [m1, g2]
def f(x, h):
    return x + d.get(h, 0), h in l, h == m1, h in (m1, m2), l.index(m1)
---
f(X, g1)
f(X, g2)
f(X, m2)
f(X, m1)
f(X, m2)
f(X, mk(3))
### methods compared by C code
class A:
    def run(self): pass
a, b = A(), A()
d = {a.run: 1}
def f(x, m, o):
    return x + 1, m == o.run, m in [o.run], d.get(m, 0)
---
f(X, a.run, b)
f(X, a.run, a)
f(X, b.run, a)
f(X, b.run, b)
### hashes of tensors
def f(x):
    y = x + 1
    return y, hash(x), hash((x, 1))
---
(lambda r: (r[1] == hash(X), r[2] == hash((X, 1))))(f(X))
(lambda r: (r[1] == hash(Y), r[2] == hash((Y, 1))))(f(Y))
(lambda r: (r[1] == hash(X), r[2] == hash((X, 1))))(f(X))
### a dict of tensors that is made here
def f(x, y):
    memo = {X: 1}
    return Z + memo.get(x, 5), x in memo, {x: 1, y: 2}.get(y), len({x, y, X})
---
f(Y, Z)
f(X, X)
f(Y, Y)
f(X, Y)
f(Y, X)
### sets of tensors
def f(x, y): return x + len({x, y}), len({x, y, X}), (x, y) in {(X, Y): 1}
---
f(Y, Z)
f(X, X)
f(Y, Y)
f(X, Y)
f(Y, X)
### texts that tell addresses
class A: pass
a = A()
def f(x, o):
    b = A()
    s = f"{o} {o!r}"
    return x + 1, s == repr(o) + " " + repr(o), "{}".format(b) == str(b), "%s" % o == str(a), f"{b}" == repr(b)
---
f(X, a)
f(X, A())
f(X, a)
""")


@pytest.mark.parametrize("name", PROGRAMS)
def test_change_is_noticed(name: str) -> None:
    program, steps = PROGRAMS[name]
    assert harness.run(program, steps).captures > 0


def import_whole(x: torch.Tensor) -> torch.Tensor:
    import zork  # type: ignore[import-not-found]

    return x + zork.v  # type: ignore[no-any-return]


def import_inner(x: torch.Tensor) -> torch.Tensor:
    import zork.sub  # type: ignore[import-not-found]

    return x + zork.v + zork.sub.w  # type: ignore[no-any-return]


def import_names(x: torch.Tensor) -> torch.Tensor:
    from zork import sub, v  # type: ignore[import-not-found]
    from zork.sub import w  # type: ignore[import-not-found]

    return x + v + sub.w + w  # type: ignore[no-any-return]


def import_or_not(x: torch.Tensor) -> Any:
    try:
        return import_whole(x)
    except ImportError as error:
        return type(error), str(error)


def import_relative(x: torch.Tensor) -> torch.Tensor:
    from . import v  # type: ignore[attr-defined]
    from .sub import w  # type: ignore[import-not-found]

    return x + v + w  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    "function", [import_whole, import_inner, import_names, import_or_not, import_relative]
)
def test_imported_module_is_guarded(function: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    def module(name: str, **content: Any) -> types.ModuleType:
        made = types.ModuleType(name)
        vars(made).update(content)
        return made

    sub = module("zork.sub", w=7)
    first, second = (module("zork", v=v, sub=sub, __path__=[], __package__="zork") for v in (1, 100))
    if function is import_relative:
        function = types.FunctionType(function.__code__, vars(first))
    compiled: Any = magneto.compile(function, backend="eager")
    x, real = torch.zeros(2), builtins.__import__

    def other(name: str, *args: Any) -> Any:
        return first if name.startswith("zork") else real(name, *args)

    def both() -> None:
        expected, found = [], []
        for made, call in ((expected, function), (found, compiled)):
            try:
                made.append(str(call(x)))
            except ImportError as error:
                made.append(repr(error))
        assert found == expected

    for changes in (
        {"zork": first, "zork.sub": sub},
        {"zork": second},
        {"zork.sub": module("zork.sub", w=9)},
        {"zork": first},
        {"zork.sub": None},
        {"zork": None, "zork.sub": sub},
        {"zork": first},
    ):
        for name, value in changes.items():
            monkeypatch.setitem(sys.modules, name, value)
        both()
        both()
    monkeypatch.setattr(builtins, "__import__", other)
    both()
    monkeypatch.setattr(builtins, "__import__", real)
    both()
    first.__dict__["v"] = 3
    both()
    monkeypatch.delitem(sys.modules, "zork")
    both()
    assert magneto.cache_entries(compiled)
