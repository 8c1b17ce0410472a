"""What C code calls when something is missing, read or set: factories, properties, hooks, special methods."""

from __future__ import annotations

from programs.texts import parse

PROGRAMS = parse(r"""
### defaultdict with a clock
import time
seen = []
def f(x):
    d = collections.defaultdict(time.perf_counter)
    seen.append(d["a"])
    return x + 1
---
f(X) is not None, f(X) is not None, len(set(seen)), seen.clear()
### defaultdict with a counter
c = itertools.count()
d = collections.defaultdict(c.__next__)
def f(x, k): return x * d[k]
---
f(X, "a")
f(X, "b")
f(X, "a")
f(X, "c")
dict(d)
### defaultdict with a bound C method
L = [1]
d = collections.defaultdict(L.copy)
def f(x, k): return x * len(d[k])
---
f(X, "a")
L.append(2)
f(X, "b")
f(X, "b")
### defaultdict with a partial
class A:
    n = 1
def g(k): return A.n * k
d = collections.defaultdict(functools.partial(g, 3))
def f(x, k): return x * d[k]
---
f(X, "a")
A.n = 2
f(X, "b")
### defaultdict with functions and classes
class A:
    made = []
    def __init__(self):
        A.made.append(1)
        self.n = len(A.made)
class B(dict):
    def __init__(self): self["n"] = 5
n = 2
d = collections.defaultdict(lambda: n)
e = collections.defaultdict(A)
def f(x, k):
    i = collections.defaultdict(list)
    i[k].append(k)
    j = collections.defaultdict(B)
    m = collections.defaultdict(collections.OrderedDict)
    m[k][1] = 2
    return x * d[k], e[k].n, i, j[k]["n"], m
---
f(X, "a")
n = 3
f(X, "b")
A.__init__ = lambda self: setattr(self, "n", 8)
f(X, "c")
f(X, "a")
### defaultdict set later
import time
seen = []
def f(x):
    d = collections.defaultdict()
    d.default_factory = time.perf_counter
    seen.append(d["a"])
    return x + 1
---
f(X) is not None, f(X) is not None, len(set(seen)), seen.clear()
### defaultdict of a class
import time
seen = []
class D(collections.defaultdict):
    def __init__(self, k): super().__init__(k)
def f(x):
    seen.append(D(time.perf_counter)["a"])
    return x + 1
---
f(X) is not None, f(X) is not None, len(set(seen)), seen.clear()
### defaultdict of no function
def f(x):
    try: collections.defaultdict(5)
    except TypeError as e: return x + 1, str(e)
---
f(X)
f(X)
### cached_property of another library
class cached_property:
    def __init__(self, func): self.func = func
    def __get__(self, o, t=None): return self.func(o) * 10
class P:
    @cached_property
    def z(self): return 2
p = P()
def f(x): return x * p.z
---
f(X)
vars(p)
f(X)
### cached_property
class P:
    n = 2
    @functools.cached_property
    def z(self): return self.n
p = P()
def f(x): return x * p.z
---
f(X)
vars(p)
f(X)
p.z = 7
f(X)
del p.z
P.n = 5
f(X)
### cached_property under another name
class P:
    @functools.cached_property
    def y(self): return 3
P.z = P.y
def f(x):
    p = P()
    return x * p.z, vars(p)
---
f(X)
f(X)
### cached_property subclass
class Mine(functools.cached_property):
    def __get__(self, o, t=None): return 5 if o is None else super().__get__(o, t) + 1
class P:
    @Mine
    def z(self): return 3
p = P()
def f(x): return x * p.z
---
f(X)
vars(p)
f(X)
### getattr hook that is cached
class Q:
    @functools.lru_cache
    def __getattr__(self, n): return len(n)
q = Q()
def f(x): return x * getattr(q, "w", 10), q.abc, hasattr(q, "u")
---
f(X)
f(X)
### getattr hooks of other kinds
class Q:
    @staticmethod
    def __getattr__(n): return len(n)
class R:
    @classmethod
    def __getattr__(cls, n): return cls.__name__ + n
class V:
    def __init__(self, n): self.n = n
    def __call__(self, name): return self.n * len(name)
v = V(2)
class S: __getattr__ = v
q, r, s = Q(), R(), S()
def f(x): return x * q.ab, r.ab, s.ab
---
f(X)
v.n = 3
f(X)
### getattr hook of a metaclass
class M(type):
    def __getattr__(cls, n): return len(n)
class N(type):
    @functools.lru_cache
    def __getattr__(cls, n): return len(n) * K[0]
K = [2]
class A(metaclass=M): pass
class B(metaclass=N): pass
def f(x): return x * A.abc, B.abc
---
f(X)
M.__getattr__ = lambda cls, n: 50
f(X)
### descriptor that counts
class D:
    def __init__(self): self.n = 0
    def __get__(self, o, t=None): return self.n
    def __set__(self, o, v): self.n += v
d = D()
class A: a = d
o = A()
def f(x, v):
    o.a = v
    return x * o.a
---
f(X, 1)
f(X, 1)
d.n
d.n = 10
f(X, 1)
d.n
### property with a C setter
log = []
class A:
    a = property(lambda self: 1, functools.partial(lambda log, self, v: log.append(v), log))
o = A()
def f(x, v):
    o.a = v
    return x * len(log)
---
f(X, 1)
f(X, 1)
log
### deleter of a property
log = []
class A:
    @property
    def a(self): return 1
    @a.deleter
    def a(self): log.append(1)
o = A()
def f(x):
    del o.a
    return x * len(log)
---
f(X)
f(X)
log
### special methods that are no functions
class V:
    def __init__(self, n): self.n = n; self.calls = 0
    def __call__(self, *a):
        self.calls += 1
        return self.n
v = V(3)
class A:
    __len__ = v
    __index__ = v
a = A()
def f(x): return x * len(a), [5, 6, 7, 8][a], [1, 2, 3, 4][:a]
---
f(X)
v.calls
v.n = 2
f(X)
v.calls
### special methods that are cached
st = [2]
class A:
    @functools.lru_cache
    def __len__(self): return st[0]
    @functools.lru_cache
    def __getitem__(self, i): return i * st[0]
a = A()
def f(x): return x * len(a), a[3]
---
f(X)
st[0] = 5
f(X)
A.__len__.cache_clear()
f(X)
### special methods that are C functions
class A:
    __call__ = staticmethod(len)
    __add__ = functools.partialmethod(lambda self, k, o: k * o, 3)
    __hash__ = object.__hash__
    __eq__ = object.__eq__
a = A()
def f(x): return x * a([1, 2]), a + 4, a == a, a in {a: 1}
---
f(X)
f(X)
### random numbers of Python
import random
def f(x):
    r = random.Random(5)
    return x * r.random(), r.randint(0, 9)
---
f(X)
f(X)
### random numbers of Python without a seed
import random
seen = []
def f(x):
    r = random.Random()
    seen.append(r.random())
    return x + 1
---
f(X) is not None, f(X) is not None, len(set(seen)), seen.clear()
### arrays and structs
import array, struct
def f(x):
    a = array.array("i", [1, 2])
    a.append(3)
    s = struct.Struct("i")
    return x * sum(a), s.pack(4), a
---
f(X)
f(X)
### json
import json
class A:
    def __init__(self, n): self.n = n
a = A(2); n = 3
def f(x): return x * len(json.dumps({"a": [1, a]}, default=lambda o: o.n)), json.dumps(a, default=lambda o: o.n), json.loads('{"k": [1, 2]}', object_hook=lambda d: n), json.loads("[1.5]", parse_float=lambda s: n)
---
f(X)
a.n = 55; n = 7
f(X)
### string formatter and template
import string
class Fm(string.Formatter):
    def format_field(self, v, spec): return f"{v}{spec}{K}"
K = 1
def f(x): return Fm().format("{0:a} {b}", 3, b=4), string.Template("$a b").substitute(a=K), x + 1
---
f(X)
K = 2
f(X)
### state of an object without attributes
class S:
    def __setstate__(self, st): self.hit = st
class U:
    __slots__ = ("a", "__dict__")
    def __setstate__(self, st): self.hit = st
def f(x):
    u = U(); u.a = 1
    return x + 1, hasattr(copy.copy(S()), "hit"), S().__getstate__(), u.__getstate__(), U().__getstate__(), copy.copy(u).hit
---
f(X)
f(X)
### state of an outside object without attributes
class S:
    def __setstate__(self, st): self.hit = st
s = S()
def f(x):
    c = copy.copy(s)
    return x + 1, hasattr(c, "hit"), c.__dict__, s.__getstate__()
---
f(X)
s.n = 1
f(X)
del s.n
f(X)
### wrong numbers of arguments
def t(g):
    try: return g()
    except TypeError as e: return str(e)
def f(x):
    return (x + 1, t(lambda: callable()), t(lambda: callable(1, 2)), t(lambda: bool(1, 2)), t(lambda: bool()), t(lambda: bool(x=1)), t(lambda: getattr(1, "a", default=2)), t(lambda: getattr(1)), t(lambda: getattr(1, 2)), t(lambda: hasattr(1)), t(lambda: hasattr(1, 2)), t(lambda: setattr(1, "a")), t(lambda: setattr([], 1, 2)), t(lambda: delattr(1)), t(lambda: isinstance(1)), t(lambda: isinstance(1, 2)), t(lambda: issubclass(1, int)), t(lambda: len()), t(lambda: len([], [])), t(lambda: len(obj=[])), t(lambda: iter()), t(lambda: next([])), t(lambda: id()), t(lambda: isinstance(x)), t(lambda: isinstance(x, 3)), t(lambda: isinstance(x, (3,))), t(lambda: sum()), t(lambda: object.__getattribute__(1)))
---
f(X)
f(X)
### callable that becomes one
class A: pass
a = A()
def f(x): return x + callable(a)
---
f(X)
A.__call__ = lambda self: 1
f(X)
### single dispatch registered inside
@functools.singledispatch
def g(a): return 1
def f(x):
    r = g(3)
    g.register(int, lambda a: 5)
    return x * g(3), r
---
f(X)
f(X)
""")
