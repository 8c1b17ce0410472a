"""Classes in captured code: instances, attributes and the hooks for them, operators, inheritance, dataclasses."""

from __future__ import annotations

from .texts import parse

PROGRAMS = parse(r"""
### classes made inside
def f(x):
    class A:
        k = 3
        def __init__(self, v): self.v = v
        def go(self): return self.v + self.k
    class B(A):
        def go(self): return super().go() * 2
    return B(x).go(), A(x).go()
### instances
class A:
    k = 2
    def __init__(self, v, n=1):
        self.v = v
        self.n = n
    def go(self, y):
        return self.v * self.n + y + self.k
def f(x):
    a = A(x)
    b = A(x, n=3)
    b.k = 9
    return a.go(1), b.go(2), a.n, b
### instance from outside
class A:
    def __init__(self): self.n = 1; self.l = [1, 2]; self.t = X
    def go(self, y): return y + self.n + self.l[0] + self.t
a = A()
def f(x):
    return a.go(x), a.l, a
---
f(X)
a.n = 5
f(X)
a.l[0] = 7
f(X)
a.t = Y
f(X)
### instance argument
class A:
    def __init__(self, n): self.n = n
def f(a, x):
    a.n += 1
    return x * a.n, a
---
f(A(1), X)
f(A(1), X)
f(A(2), X)
### slots
class A:
    __slots__ = ("a", "b")
    def __init__(self, a): self.a = a
a = A(3)
def f(x):
    b = A(x)
    b.b = a.a
    a.b = 4
    return b.a + b.b + a.b, hasattr(b, "zz"), b
---
f(X)
a.a = 8
f(X)
a.b
### slots inherited with dict
class A:
    __slots__ = ("a",)
class B(A):
    def __init__(self): self.a = 1; self.z = 2
b = B()
def f(x):
    c = B()
    c.a = x
    return x + b.a + b.z, c
---
f(X)
b.a = 4
f(X)
b.z = 5
f(X)
### property
class A:
    def __init__(self): self._v = 1
    @property
    def v(self): return self._v * 2
    @v.setter
    def v(self, n): self._v = n
    @v.deleter
    def v(self): self._v = -1
a = A()
def f(x):
    a.v = a.v + 1
    b = A()
    b.v = 7
    del b.v
    return x + a.v, a._v, b.v
---
f(X)
f(X)
a._v = 30
f(X)
### descriptors
class D:
    def __set_name__(self, owner, name): self.name = "_" + name
    def __get__(self, obj, cls=None): return self if obj is None else getattr(obj, self.name, 0) + 1
    def __set__(self, obj, v): setattr(obj, self.name, v * 2)
class ND:
    def __get__(self, obj, cls=None): return cls.__name__
class A:
    d = D()
    n = ND()
a = A()
def f(x):
    a.d = 3
    b = A()
    b.d = 1
    b.__dict__["n"] = "shadow"
    return x + a.d + b.d, a.n, A.n, b.n, A.d.name
---
f(X)
f(X)
### getattr hook
class A:
    def __init__(self): self.n = 1
    def __getattr__(self, name):
        if name.startswith("m_"): return len(name)
        raise AttributeError(name)
a = A()
def f(x):
    b = A()
    return x + a.n + a.m_abc + b.m_a, hasattr(a, "q"), getattr(a, "q", 5)
---
f(X)
a.m_abc = 100
f(X)
### getattribute hook
class A:
    def __init__(self): self.n = 1
    def __getattribute__(self, name):
        if name == "magic": return 42
        return object.__getattribute__(self, name)
a = A()
def f(x):
    return x + a.magic + a.n, A().magic
---
f(X)
a.n = 4
f(X)
### setattr hook
class A:
    def __setattr__(self, name, v): object.__setattr__(self, name, v * 2)
    def __delattr__(self, name): object.__setattr__(self, "deleted", 1)
a = A()
def f(x):
    a.n = 3
    b = A()
    b.z = x
    del b.z
    return x + a.n, b.deleted, b.z
---
f(X)
f(X)
### callable instance
class A:
    def __init__(self, n): self.n = n
    def __call__(self, x, k=1): return x * self.n + k
a = A(3)
def f(x):
    return a(x), A(2)(x, k=5), callable(a), callable(3)
---
f(X)
a.n = 4
f(X)
### operators of a class
class V:
    def __init__(self, v): self.v = v
    def __add__(self, o): return V(self.v + (o.v if isinstance(o, V) else o))
    def __radd__(self, o): return V(o + self.v)
    def __mul__(self, o): return V(self.v * o)
    def __iadd__(self, o): self.v = self.v + o; return self
    def __neg__(self): return V(-self.v)
    def __getitem__(self, i): return self.v[i]
    def __len__(self): return 3
    def __bool__(self): return True
    def __contains__(self, i): return i == 2
    def __eq__(self, o): return isinstance(o, V)
    def __lt__(self, o): return True
    def __matmul__(self, o): return "mm"
    def __iter__(self): yield self.v; yield 2
    def __hash__(self): return 5
    def __repr__(self): return "V!"
    def __int__(self): return 7
    def __index__(self): return 1
    def __enter__(self): return self
    def __exit__(self, *a): return True
def f(x):
    a, b = V(x), V(x + 1)
    c = a + b + 1
    c += 2
    with a as z: raise ValueError
    return (c.v, (1 + a).v, (-a).v, a[0], len(a), bool(a), 2 in a, a == b, a < b, a @ b, list(a)[1], hash(a), f"{a}", int(a), [1, 2][a], {a: 1}[b])
### operators on outside instance
class V:
    def __init__(self, v): self.v = v
    def __add__(self, o): return self.v + o
    def __mul__(self, o): return self.v * o
    def __neg__(self): return -self.v
    def __len__(self): return 2
v = V(3)
def f(x):
    return v + x, v * 2, -v, len(v), bool(v)
---
f(X)
v.v = 4
f(X)
### comparison methods on outside instances
class V:
    def __init__(self, v): self.v = v
    def __lt__(self, o): return self.v < o.v
l = [V(3), V(1), V(2)]
def f(x):
    return x + min(l).v, [a.v for a in sorted(l)], max(l) is l[0]
---
f(X)
l[0].v = 0
f(X)
### inheritance and super
class A:
    def __init__(self, n): self.n = n
    def go(self, x): return x + self.n
    @classmethod
    def make(cls, n): return cls(n)
    @staticmethod
    def st(x): return x * 2
class M:
    def go(self, x): return super().go(x) * 10
class B(M, A):
    def __init__(self, n): super().__init__(n + 1)
    def go(self, x): return super().go(x) + 1
b = B(1)
def f(x):
    return b.go(x), B.make(5).go(x), B.st(x), b.st(x), isinstance(b, A), issubclass(B, M), super(B, b).go(x), B.__mro__[1] is M, type(b).__name__
---
f(X)
b.n = 7
f(X)
### class attributes
class A:
    k = 1
    l = [1, 2]
class B(A): pass
def f(x):
    return x + A.k + B.k + B().k + B.l[0], A.l is B.l
---
f(X)
B.k = 5
f(X)
A.k = 6
f(X)
A.l[0] = 9
f(X)
### metaclass and abc
import abc
class Meta(type):
    def __getattr__(cls, name): return len(name)
    def __len__(cls): return 4
    @property
    def p(cls): return 8
class A(metaclass=Meta): pass
class B(abc.ABC):
    @abc.abstractmethod
    def m(self): ...
class C(B):
    def m(self): return 3
def f(x):
    return x + A.hello + len(A) + A.p + C().m(), isinstance(C(), B)
### new and init
class A:
    def __new__(cls, n):
        self = super().__new__(cls)
        self.made = n
        return self
    def __init__(self, n): self.n = n + self.made
def f(x):
    a = A(3)
    return x + a.n, a
### init_subclass and class getitem
class A:
    def __class_getitem__(cls, k): return k
def f(x):
    return x + A[3], list[int], dict[str, int] == dict[str, int]
### dataclasses
@dataclasses.dataclass
class D:
    a: typing.Any
    b: int = 2
    c: list = dataclasses.field(default_factory=list)
    def __post_init__(self): self.d = self.b * 2
o = D(1)
def f(x):
    p = D(x, 3)
    p.c.append(1)
    q = dataclasses.replace(p, b=9)
    return p.a + o.a + q.d, p, q, D(1) == D(1), dataclasses.is_dataclass(p), [fl.name for fl in dataclasses.fields(p)]
---
f(X)
o.a = 6
f(X)
### dataclass asdict
@dataclasses.dataclass
class D:
    a: int
    b: list
def f(x):
    return x + 1, dataclasses.asdict(D(1, [2, 3])), dataclasses.astuple(D(1, [2]))
### frozen dataclass
@dataclasses.dataclass(frozen=True)
class D:
    a: typing.Any
    b: int = 2
o = D(1)
def f(x):
    d = D(x)
    try:
        d.b = 3
    except dataclasses.FrozenInstanceError as e:
        m = str(e)
    return d.a + d.b + o.b, d, m, hash(D(1)) == hash(D(1)), {D(1): 2}
### slotted ordered dataclass
@dataclasses.dataclass(slots=True, order=True)
class D:
    a: int
    b: int = 2
def f(x):
    return x + D(1).b, D(1) < D(2), max(D(1), D(4)), sorted([D(3), D(2)])""")
