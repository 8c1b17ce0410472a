"""Copies of objects with methods for it, sums and caches in odd cases, NumPy's numbers."""

from __future__ import annotations

from .texts import parse

PROGRAMS = parse("""
### deepcopy with shared tensor
D = {"t": T(3), "n": 1}
def f(x):
    d = copy.copy(D)
    d["n"] += 1
    return x * d["t"], d["n"], d["t"] is D["t"]
---
f(X)
D["n"] = 5
f(Y)
### copy of slots object
class A:
    __slots__ = ("a", "b")
a = A(); a.a = 2
def f(x):
    b = copy.copy(a)
    b.b = 3
    return x * b.a + b.b, hasattr(a, "b"), b
---
f(X)
a.a = 7
f(X)
### copy getstate setstate
class A:
    def __init__(self): self.v = 1; self.skip = 2
    def __getstate__(self): return {"v": self.v + 1}
    def __setstate__(self, s): self.v = s["v"] * 10
a = A()
def f(x):
    b = copy.copy(a)
    return x * b.v, hasattr(b, "skip"), b
---
f(X)
a.v = 4
f(X)
### copy reduce
class A:
    def __init__(self, v): self.v = v
    def __reduce__(self): return (A, (self.v + 5,))
a = A(1)
def f(x):
    b = copy.deepcopy(a)
    return x * b.v, b
---
f(X)
a.v = 4
f(X)
### copy newargs
class A(tuple):
    def __new__(cls, a, b): return super().__new__(cls, (a, b))
    def __getnewargs__(self): return tuple(self)
a = A(1, 2)
def f(x):
    b = copy.copy(a); c = copy.deepcopy(A(3, [4]))
    return x * b[1] + c[0], b == a, c
---
f(X)
f(Y)
### copy list dict subclass
class L(list):
    def __init__(self, *a): super().__init__(*a); self.tag = 1
class D(dict): pass
l = L([1, 2]); l.tag = 5
d = D(a=[1])
def f(x):
    m = copy.copy(l); m.append(3)
    e = copy.deepcopy(d); e["a"].append(2); e.z = 1
    return x * len(m) + m.tag, m, e, len(l)
---
f(X)
l.append(9)
f(X)
### copy deque odict counter set
Q = collections.deque([1, [2]], maxlen=4); O = collections.OrderedDict(a=[1]); C = collections.Counter("aab"); S = {1, 2}; DD = collections.defaultdict(list, a=[1])
def f(x):
    r = copy.deepcopy((Q, O, C, S, DD)), copy.copy(Q), copy.copy(O), copy.copy(C), copy.copy(S), copy.copy(DD)
    r[0][0][1].append(5)
    return x * len(r), r
---
f(X)
Q.append(3)
f(X)
### copy functions modules classes
def g(): return 2
class K: pass
def f(x): return x * copy.deepcopy(g)(), copy.copy(K) is K, copy.deepcopy(None), copy.copy(2.5), copy.deepcopy("a"), copy.copy(int), copy.deepcopy(torch.float32), copy.copy(range(3)), copy.deepcopy((1, 2))
---
f(X)
f(Y)
### copy enum dtype
class E(enum.Enum):
    A = 1
def f(x): return x + 1, copy.copy(E.A) is E.A, copy.deepcopy([E.A])[0] is E.A
---
f(X)
f(Y)
### sum of odd things
class V:
    def __init__(self, v): self.v = v
    def __add__(self, o): return V(self.v + o.v)
    def __radd__(self, o): return self
def f(x):
    try: sum(["a"], "")
    except TypeError as e: m = str(e)
    try: sum([1, "a"])
    except TypeError as e: n = str(e)
    return sum([V(1), V(2)]).v, sum([[1], [2]], []), sum({1: 2, 3: 4}), sum({1, 2}), sum(range(4)), sum([0.1] * 3), sum([], 5), m, n, x + sum([True, 2])
---
f(X)
f(Y)
### reduce odd
def f(x):
    try: functools.reduce(lambda a, b: a, [])
    except TypeError as e: m = str(e)
    return functools.reduce(lambda a, b: a + b, [], x), functools.reduce(operator.mul, (i for i in [x, 2, 3])), m, functools.reduce(max, [1, 5, 2])
---
f(X)
f(Y)
### lru raising
@functools.lru_cache
def g(n):
    if n < 0: raise ValueError("neg")
    return n
def f(x, n):
    try: return x * g(n)
    except ValueError as e: return x, str(e)
---
f(X, 2)
f(X, -1)
f(X, 2)
### lru unhashable
@functools.lru_cache
def g(l): return 1
def f(x):
    try: return x * g([1])
    except TypeError as e: return x, str(e)
---
f(X)
f(Y)
### lru typed kw order
calls = []
@functools.lru_cache(typed=True)
def g(a, b=2): return (a, b)
def f(x): return g(1), g(1.0), g(a=1), g(1, b=2), g(True), x + 1
---
f(X)
f(Y)
### lru after write
state = {"k": 1}
@functools.lru_cache
def g(n): return n * state["k"]
def f(x, n):
    state["k"] += 1
    return x * g(n)
---
f(X, 3)
f(X, 4)
state
### lru class method cache
class A:
    def __init__(self, k): self.k = k
    @functools.lru_cache
    def g(self, n): return self.k * n
a = A(2); b = A(3)
def f(o, x): return x * o.g(4)
---
f(a, X)
f(b, X)
a.k = 10
f(a, X)
### star tensors and reversed
def f(x):
    a, *b = x
    first, = x[:1]
    return a, b, first, list(reversed(x)), max(range(len(x)), key=lambda i: -i), dict(enumerate(x)), set(range(len(x))), [*zip(x, x.flip(0))]
---
f(X)
f(T(3, 2))
### iterate 0d
def f(x):
    try: return list(x.sum())
    except TypeError as e: return str(e)
---
f(X)
f(Y)
### numpy misc
import numpy as np
n = np.int32(3); b = np.bool_(True); h = np.float16(1.5)
def f(x): return x * n, x + (1 if b else 2), x * h, n + 1, n == 3, float(h), isinstance(n, np.integer), x[:, n - 1], np.float64(2.0) * x
---
f(X)
n = np.int32(1)
f(X)
b = np.bool_(False)
f(X)
### dicts and sets with members of enums as keys
class S(str, enum.Enum): A = "a"; B = "b"
class I(enum.IntEnum): A = 1; B = 2
D = {S.A: 2, S.B: torch.relu}
J = {I.A: 3, 2: 4}
K = {S.A}
def f(x, s):
    E = dict(D)
    E[s] = 7
    return D[S.B](x) * D["a"] * J[I.A] * J[I.B], s in D, s in K, list(E.values())[0], [k for k in D], {I.B: 1}[2]
---
f(X, S.A)
f(Y, S.B)
D[S.A] = 5
f(X, S.A)
J[I.B] = 6
K.add(S.B)
f(X, S.B)
del D[S.A]
D["a"] = 9
f(X, S.B)
### numpy functions of numbers
import numpy as np
n = 4
def f(x): return x * np.sqrt(n), str(np.log(2.0)), float(np.maximum(n, 7)), torch.full((2,), np.exp(1)), np.pi * x
---
f(X)
n = 9
f(X)
f(Y)
""")
