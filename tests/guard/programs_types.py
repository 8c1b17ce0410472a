"""Changes of types, names and metaclasses, of what C functions read, and of keys with their hashes."""

from __future__ import annotations

from programs.texts import parse

PROGRAMS = parse(r"""
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
