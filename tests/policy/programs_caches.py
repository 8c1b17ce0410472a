"""Results that functools.lru_cache keeps: what its keys and its functions depend on."""

from __future__ import annotations

from programs.texts import parse

PROGRAMS = parse(r"""
### lru items of a tuple
@functools.lru_cache
def g(s): return s[0] * 2
def f(x, s): return x * g(s)
---
f(X, (2, 3))
f(X, (5, 3))
f(X, (2, 3))
f(X, (2.0, 3))
f(X, ((1, 2), 3))
### lru nested tuple from a global
S = (1, (2, (3, "a")))
@functools.lru_cache
def g(s): return s[1][1][0]
def f(x): return x * g(S)
---
f(X)
S = (1, (2, (4, "a")))
f(X)
### lru keyword tuple
@functools.lru_cache(maxsize=None)
def g(a, *, s=()): return a + len(s) + sum(s)
def f(x, s): return x * g(1, s=s)
---
f(X, (2, 3))
f(X, (5, 3))
### lru function argument
@functools.lru_cache
def g(h): return h()
def make(n):
    def h(): return n
    return h
def f(x, h): return x * g(h)
---
f(X, make(2))
f(X, make(3))
f(X, make(2))
### lru function in a tuple
@functools.lru_cache
def g(p): return p[1]() + p[0]
def make(n):
    def h(): return n
    return h
def f(x, p): return x * g(p)
---
f(X, (1, make(2)))
f(X, (1, make(3)))
### lru inside function argument
count = []
@functools.lru_cache
def g(h):
    count.append(1)
    return h(2)
def f(x, n): return x * g(lambda k: k * n)
---
f(X, 1)
f(X, 1)
f(X, 2)
count
### lru frozenset and named tuple
P = collections.namedtuple("P", "a b")
@functools.lru_cache
def g(s, p): return sum(s) + p.a
def f(x, s, p): return x * g(s, p)
---
f(X, frozenset([1, 2]), P(1, 2))
f(X, frozenset([1, 4]), P(1, 2))
f(X, frozenset([1, 4]), P(7, 2))
### lru tuple of objects
class A:
    def __init__(self, n): self.n = n
a, b = A(1), A(2)
@functools.lru_cache
def g(p): return p[0].n * 10
def f(x, p): return x * g(p)
---
f(X, (a,))
f(X, (b,))
a.n = 5
f(X, (a,))
### lru object that compares by value
class A:
    def __init__(self, n): self.n = n
    def __eq__(self, other): return self.n == other.n
    def __hash__(self): return hash(self.n)
@functools.lru_cache
def g(a): return a.n * 10
def f(x, a): return x * g(a)
---
f(X, A(1))
f(X, A(2))
f(X, A(1))
### lru object in a tuple that compares by value
class A:
    def __init__(self, n): self.n = n
    def __eq__(self, other): return self.n == other.n
    def __hash__(self): return hash(self.n)
@functools.lru_cache
def g(p): return p[0].n * 10
def f(x, p): return x * g(p)
---
f(X, (A(1),))
f(X, (A(2),))
### lru list item written
st = [1]
@functools.lru_cache
def g(k): return st[0] * k
def f(x):
    st[0] = 5
    return x * g(2)
---
f(X)
g(2)
f(X)
st[0] = 7
g.cache_clear()
f(X)
### lru set written
st = {1, 2}
@functools.lru_cache
def g(k): return sum(st) * k
def f(x):
    st.remove(1)
    st.add(9)
    return x * g(2)
---
f(X)
st
g(2)
### lru dict value written
st = {"a": 1}
@functools.lru_cache
def g(k): return st["a"] * k
def f(x):
    for key in list(st): st[key] = 4
    return x * g(2)
---
f(X)
g(2)
### lru dict order written
st = {"a": 1, "b": 2}
@functools.lru_cache
def g(k): return list(st)
def f(x):
    st["a"] = st.pop("a")
    return x, g(2)
---
f(X)
g(2)
### lru deque written
st = collections.deque([1, 2])
@functools.lru_cache
def g(k): return st[0] * k
def f(x):
    st.rotate(1)
    return x * g(2)
---
f(X)
g(2)
### lru attribute and global written
class A: n = 1
a = A(); G = 1
@functools.lru_cache
def g(k): return a.n * k + G
def f(x):
    global G
    a.n = 3
    G = 10
    return x * g(2)
---
f(X)
g(2)
### lru tensor written
W = torch.ones(3)
@functools.lru_cache
def g(k): return W[0].item() * k
def f(x):
    W.add_(1)
    return x * g(2)
---
f(X)
g(2)
W
### lru view of a tensor written
W = torch.ones(3)
@functools.lru_cache
def g(k): return W[0].item() * k
def f(x):
    W[:2].mul_(4)
    return x * g(2)
---
f(X)
g(2)
### lru random numbers
@functools.lru_cache
def g(k): return torch.rand(2)
def f(x):
    a = torch.rand(2)
    return a, g(1), torch.rand(2)
---
torch.manual_seed(3)
f(X)
f(X)
g(1)
### lru writes what was read
st = [1]
@functools.lru_cache
def g(k):
    st[0] += 1
    return k
def f(x):
    a = st[0]
    b = g(3)
    return x * a, b, st[0], list(st)
---
f(X)
f(X)
st
g.cache_clear()
f(X)
st
### lru makes what was missing
class A: pass
a = A(); log = []
@functools.lru_cache
def g(k):
    log.append(k)
    a.n = k
    return k
def f(x): return x * (getattr(a, "n", 100) + g(1) + g(2)), a.n, len(log)
---
f(X)
f(X)
log
### lru after writes elsewhere
found = {}; log = []
class A: pass
a = A(); a.n = 0; a.calls = 0
@functools.lru_cache
def g(k):
    log.append(k)
    return (k * 2, a.calls)
def f(x, k):
    found[k] = len(found)
    return x * g(k)[0], g(k), dict(found), F.dropout(x, 0.5) + g(k + 1)[0]
---
torch.manual_seed(3)
f(X, 1)
f(X, 2)
a.calls = 7
f(X, 3)
f(X, 1)
[log, found]
### lru reads what was written
class A: pass
a = A(); a.n = 1
d = {}; l = [1]; s = {1}; N = 1
@functools.lru_cache
def attribute(k): return a.n * k
@functools.lru_cache
def item(k): return d.get(k, 0)
@functools.lru_cache
def length(k): return len(l) * k
@functools.lru_cache
def member(k): return k in s
@functools.lru_cache
def name(k): return N * k
@functools.lru_cache
def on_class(k): return getattr(A, "m", 5) * k
def f(x, k):
    global N
    a.n += k; d[k] = 3; l.append(k); s.add(k); N = k; A.m = k
    return x + 1, attribute(k), item(k), length(k), member(k), name(k), on_class(k)
---
f(X, 2)
f(X, 4)
f(X, 2)
[a.n, d, l, s, N, A.m]
### lru that calls another one after a write
l = [1]
@functools.lru_cache
def inner(k): return len(l) * k
@functools.lru_cache
def outer(k): return inner(k) + 1
@functools.lru_cache
def apart(k): return k + 1
@functools.lru_cache
def calls_apart(k): return apart(k) + 1
def f(x, k):
    l.append(k)
    return x * outer(k), inner(k), calls_apart(k)
---
f(X, 2)
f(X, 3)
f(X, 2)
[outer(2), inner(3), l]
### lru draws after a draw, and reads a tensor after a write
t = torch.ones(2)
@functools.lru_cache
def draw(k): return torch.rand(2)
@functools.lru_cache
def read(k): return t * k
@functools.lru_cache
def size(k): return t.numel() * k
def f(x, k):
    a = torch.rand(2)
    t.add_(k)
    return a, draw(k), read(k), size(k), torch.rand(2)
---
torch.manual_seed(3)
f(X, 1)
f(X, 2)
f(X, 1)
[t, draw(1), read(2), size(2)]
### lru with sizes, devices and sets in its keys
P = collections.namedtuple("P", "a b")
class E(enum.IntEnum): A = 1
@functools.lru_cache(8)
def g(*key): return [len(key), key[0]]
def f(x): return x * g(x.shape, (x.device, x.dtype))[0], g(P(1, x.shape)), g(frozenset([1, "a"])), g(E.A, "a")
---
f(X)
f(X)
f(T(3, 2))
f(X)
### lru without room
log = []
@functools.lru_cache(maxsize=0)
def g(k):
    log.append(k)
    return k
def f(x): return x * g(2)
---
f(X)
f(X)
log
g.cache_info()
### lru small
st = [1]
@functools.lru_cache(maxsize=1)
def g(k): return st[0] * k
def f(x): return x * g(2)
---
f(X)
st[0] = 5
g(3)
f(X)
st[0] = 6
g(3)
f(X)
### lru link used again
st = [1]
@functools.lru_cache(maxsize=2)
def g(k): return (st[0], k)
def f(x): return x * g(2)[0]
---
f(X)
[g(7), g(8)]
st[0] = 5
[g(9), g(2)]
f(X)
### lru another function of the same name
@functools.lru_cache
def g(k): return k * 2
def f(x): return x * g(3)
---
f(X)
exec("@functools.lru_cache\ndef g(k): return k * 5", globals())
f(X)
### lru in a dict
fs = {"a": functools.lru_cache(lambda k: k * 2)}
def f(x): return x * fs["a"](3)
---
f(X)
fs["a"] = functools.lru_cache(lambda k: k * 5)
f(X)
### lru made inside
st = [1]
def f(x):
    @functools.lru_cache
    def g(k): return st[0] * k
    return x * g(2) + g(2)
---
f(X)
st[0] = 5
f(X)
### lru of a C function
g = functools.lru_cache(len)
def f(x, s): return x * g(s)
---
f(X, "abc")
f(X, "abcd")
### lru with its own attributes
g = functools.lru_cache(lambda k: k * 2)
del g.cache_parameters
def f(x): return x * g(3)
---
f(X)
f(X)
### lru in a method with a tuple
class A:
    def __init__(self, k): self.k = k
    @functools.lru_cache(maxsize=4)
    def g(self, s): return self.k * s[0]
a = A(2)
def f(x, s): return x * a.g(s)
---
f(X, (1, 2))
f(X, (3, 2))
a = A(5)
f(X, (1, 2))
""")
