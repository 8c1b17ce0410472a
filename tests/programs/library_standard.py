"""Programs around the standard library: copy, typing, functools, dataclasses."""

from __future__ import annotations

from .texts import parse

PROGRAMS = parse("""
### constructors that take a torch.Size for a size, and a tuple for data
def f(x):
    s = x.size()
    made = x.new(s), x.new(torch.Size([2]) + s), x.new(torch.Size([])), x.long().new(s), x.new(s, device="cpu")
    made += torch.Tensor.new(x, s), torch.Tensor(s), torch.FloatTensor(s), torch.LongTensor(s), torch.Tensor(s[:0])
    return x + 1, [t.zero_() for t in made], x.new((2, 3)), torch.Tensor((2, 3)), torch.Tensor([s]), x.new([2, 3])
---
f(X)
f(Y)
f(X[0])
### samples of distributions
from torch.distributions import Exponential, Geometric, Laplace
def f(x):
    rate = x.abs() + 1
    p = Exponential(rate, validate_args=False).sample(), Laplace(x, rate, validate_args=False).rsample()
    return p, Geometric(logits=x, validate_args=False).sample((2,))
---
f(X)
f(Y)
f(X)
### copy list
def f(x):
    a = [x, 1, [2, x]]
    b = copy.copy(a)
    b.append(3)
    return b, a, len(b)
---
f(X)
f(Y)
### copy outside list
L = [1, 2, [3]]
def f(x):
    b = copy.copy(L)
    b.append(3)
    c = copy.copy(b)
    return x + len(b), b, c
---
f(X)
f(Y)
L.append(4)
f(X)
### copy dict
D = {"a": 1, "b": [1]}
def f(x):
    b = copy.copy(D)
    b["c"] = x
    return b["c"] * b["a"], b
---
f(X)
f(Y)
D["a"] = 7
f(X)
### copy outside instance
class A:
    def __init__(self): self.v = 2; self.l = [1]
a = A()
def f(x):
    b = copy.copy(a)
    b.v = 3
    b.l.append(2)
    return x * b.v, b, a.v
---
f(X)
f(Y)
a.v = 9
f(X)
### copy inside instance
class A:
    def __init__(self): self.v = 2; self.l = [1]
def f(x):
    a = A()
    a.t = x
    b = copy.copy(a)
    b.v = 3
    return x * b.v, b, a
---
f(X)
f(Y)
### copy dunder
class A:
    def __init__(self, v): self.v = v
    def __copy__(self): return A(self.v + 1)
a = A(1)
def f(x):
    b = copy.copy(a)
    return x * b.v, b
---
f(X)
f(Y)
a.v = 4
f(X)
### deepcopy containers
D = {"a": [1, 2, (3, [4])], "b": {"c": {1, 2}}}
def f(x):
    d = copy.deepcopy(D)
    d["a"].append(5)
    d["a"][2][1].append(8)
    return x * len(d["a"]), d
---
f(X)
f(Y)
D["a"].append(1)
f(X)
### deepcopy instance
class A:
    def __init__(self): self.v = 2; self.l = [1]
a = A()
def f(x):
    b = copy.deepcopy(a)
    b.v = 3
    b.l.append(2)
    return x * b.v, b
---
f(X)
f(Y)
a.l.append(7)
f(X)
### deepcopy dunder
class A:
    def __init__(self, v): self.v = v
    def __deepcopy__(self, memo): return A(copy.deepcopy(self.v, memo))
a = A([1, 2])
def f(x):
    b = copy.deepcopy(a)
    return x * b.v[1], b
---
f(X)
f(Y)
a.v[1] = 4
f(X)
### deepcopy dataclass
@dataclasses.dataclass
class C:
    hidden: int = 3
    names: list = dataclasses.field(default_factory=lambda: ["a"])
c = C()
def f(x):
    d = copy.deepcopy(c)
    d.hidden += 1
    return x * d.hidden, d
---
f(X)
f(Y)
c.hidden = 8
f(X)
### deepcopy shared
l = [1]
D = [l, l]
def f(x):
    d = copy.deepcopy(D)
    return x + 1, d, d[0] is d[1]
---
f(X)
f(Y)
### deepcopy cycle
l = [1]
l.append(l)
def f(x):
    d = copy.deepcopy(l)
    return x + 1, d[0], d[1] is d
---
f(X)
f(Y)
### typing subscripts
def f(x):
    t = typing.List[int]
    u = typing.Optional[torch.Tensor]
    v = typing.Dict[str, typing.Any]
    return x + 1, t is typing.List[int], str(u), v
---
f(X)
f(Y)
### typing cast
def f(x):
    y = typing.cast(torch.Tensor, x)
    z: typing.List[int] = typing.cast("typing.List[int]", [1])
    return y + z[0]
---
f(X)
f(Y)
### typing local annotations
def f(x):
    def g(a: typing.List[int], b: typing.Optional[int] = None) -> typing.Tuple[int, ...]:
        return (len(a),)
    return x + g([1])[0], g.__annotations__
---
f(X)
f(Y)
### typing Union isinstance
def f(x, v):
    if isinstance(v, int | float): return x * v
    return x
---
f(X, 2)
f(X, "a")
f(X, 2.5)
### typing get_origin
H = typing.List[int]
def f(x):
    return x + (1 if typing.get_origin(H) is list else 2), typing.get_args(H)
---
f(X)
f(Y)
H = typing.Dict[str, int]
f(Y)
### typing NamedTuple
class P(typing.NamedTuple):
    a: torch.Tensor
    b: int = 3
def f(x):
    p = P(x)
    q = p._replace(b=4)
    return q.a * q.b, q, p._asdict()
---
f(X)
f(Y)
### typing generic class
TT = typing.TypeVar("TT")
class Box(typing.Generic[TT]):
    def __init__(self, v): self.v = v
def f(x):
    b = Box[int](x)
    return b.v + 1, b
---
f(X)
f(Y)
### singledispatch
@functools.singledispatch
def g(v, x): return x
@g.register
def _(v: int, x): return x * v
@g.register(list)
def _(v, x): return x + len(v)
def f(v, x): return g(v, x)
---
f(2, X)
f([1, 2], X)
f("a", X)
f(2, Y)
### singledispatch tensor
@functools.singledispatch
def g(v): return 0
@g.register(torch.Tensor)
def _(v): return v * 2
@g.register(tuple)
def _(v): return sum(v)
def f(v): return g(v)
---
f(X)
f((X, Y))
f(Y)
### singledispatchmethod
class A:
    @functools.singledispatchmethod
    def g(self, v): return v
    @g.register
    def _(self, v: int): return v + 1
    @g.register
    def _(self, v: torch.Tensor): return v + 2
a = A()
def f(x, n): return a.g(x) * a.g(n)
---
f(X, 1)
f(Y, 1)
### lru_cache
calls = []
@functools.lru_cache(maxsize=None)
def g(n):
    return n * 2
def f(x, n): return x * g(n)
---
f(X, 2)
f(Y, 2)
f(X, 3)
### lru_cache kw
@functools.lru_cache(maxsize=8)
def g(n, k=1):
    return (n * 2, k)
def f(x, n): return x * g(n, k=3)[1] + g(n)[0]
---
f(X, 2)
f(Y, 2)
f(X, 3)
### cache method
class A:
    def __init__(self): self.v = 3
    @functools.cache
    def g(self, n): return n * self.v
a = A()
def f(x): return x * a.g(2)
---
f(X)
f(Y)
### lru_cache side effects
log = []
@functools.lru_cache
def g(n):
    log.append(n)
    return n + 1
def f(x, n): return x * g(n)
---
f(X, 2)
f(Y, 2)
f(X, 3)
g.cache_clear()
f(Y, 2)
### lru_cache of sizes and instances
class A:
    def __init__(self, n): self.n = n
a, b = A(2), A(3)
@functools.lru_cache(16)
def g(size, o): return size[0] + o.n
@functools.lru_cache(None)
def h(size, o): return size[0] + o.n
def f(x, o): return x * g(x.shape, o) + h(x.shape, o) - h(x.shape[:1], o)
---
f(X, a)
f(Y, a)
f(X, b)
f(X, b)
f(X.repeat(2, 1), b)
g.cache_clear()
f(X, b)
### cached lru tensor result
W = T(3)
@functools.lru_cache
def g(n):
    return W * n
def f(x, n): return x * g(n)
---
f(X, 2)
f(Y, 2)
### cached_property
class A:
    def __init__(self): self.v = 3
    @functools.cached_property
    def w(self): return self.v * 2
a = A()
def f(x): return x * a.w
---
f(X)
f(Y)
a = A()
f(Y)
del a.w
f(X)
### cached_property tensor
class A:
    def __init__(self): self.v = T(3)
    @functools.cached_property
    def w(self): return self.v * 2
a = A()
def f(x): return x * a.w
---
f(X)
f(Y)
a = A()
f(Y)
### dataclasses replace
@dataclasses.dataclass
class C:
    a: int = 1
    b: object = None
c = C(2)
def f(x):
    d = dataclasses.replace(c, b=x)
    return d.b * d.a, d
---
f(X)
f(Y)
c.a = 5
f(X)
### dataclasses replace frozen
@dataclasses.dataclass(frozen=True)
class C:
    a: int = 1
    b: object = None
def f(x):
    d = dataclasses.replace(C(4), b=x)
    return d.b * d.a, d
---
f(X)
f(Y)
### dataclass asdict fields
@dataclasses.dataclass
class C:
    a: int = 1
    b: float = 2.0
c = C(2)
def f(x):
    n = [q.name for q in dataclasses.fields(c)]
    d = dataclasses.asdict(c)
    return x * d["a"], d, n, dataclasses.is_dataclass(c), dataclasses.astuple(c)
---
f(X)
f(Y)
c.a = 3
f(X)
""")
