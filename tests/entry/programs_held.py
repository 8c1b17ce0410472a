"""Writes to what something else holds or goes over: iterators, methods, partials, caches, keys, views, generators."""

from __future__ import annotations

from programs.texts import parse

PROGRAMS = parse(r"""
### generator with effects
log = []
def gen(x):
    log.append("start")
    try:
        yield x
        log.append("mid")
        yield x + 1
    finally:
        log.append("end")
def f(x):
    g = gen(x)
    a = next(g)
    del g
    return a + sum(gen(x))
---
f(X)
f(X)
log
### iterating over what is changed
d = {"a": 1}
l = [1, 2, 3]
def f(x):
    for v in l:
        if v < 3:
            l.append(v + 2)
    try:
        for k in d:
            d[k + "x"] = 1
    except RuntimeError as e:
        return x, str(e)
---
f(X)
l, d
### mutation while a method is held
l = []
add = l.append
def f(x):
    add(1)
    g = l.append
    g(2)
    return x + len(l)
---
f(X)
f(X)
l
### bound method of a dict held outside
d = {"a": 1}
get, put = d.get, d.setdefault
def f(x):
    put("b", 5)
    return x + get("a") + get("b")
---
f(X)
d["a"] = 7
f(X)
d
### comparison sees the mutation
l = [1, 2]
def f(x):
    a = [l]
    l.append(3)
    return x, a == [[1, 2, 3]], l == [1, 2, 3], str(a), a[0] is l
---
f(X)
l[:] = [1, 2]
f(X)
### identity survives the mutation
class A: pass
a = A(); a.l = [1]
def f(x):
    before = a.l
    a.l.append(2)
    t = (before, a.l)
    return x, before is a.l, t[0] is t[1], before == a.l, id(before) == id(a.l)
---
f(X)
f(X)
### partial with a list
def g(l, x):
    l.append(1)
    return x + len(l)
p = functools.partial(g, [])
def f(x): return p(x)
---
f(X)
f(X)
p.args
### partial keywords changed
def g(x, n=0): return x + n
p = functools.partial(g, n=1)
def f(x):
    y = p(x)
    p.keywords["n"] = 5
    return y
---
f(X)
f(X)
p.keywords
### simple namespace
n = types.SimpleNamespace(a=1)
def f(x):
    n.a += 1
    n.b = x
    return x + n.a
---
f(X)
f(X)
n
### function attributes
def g(x):
    g.calls += 1
    return x + g.calls
g.calls = 0
def f(x): return g(x)
---
f(X)
f(X)
g.calls
### cached property
class A:
    calls = 0
    @functools.cached_property
    def v(self):
        return [1]
a = A()
def f(x): return x + a.v[0], a.v is a.v
---
f(X)
f(X)
vars(a), a.v is a.v
### dataclass
@dataclasses.dataclass
class D:
    n: int = 0
    l: list = dataclasses.field(default_factory=list)
d = D()
def f(x):
    d.n += 1
    d.l.append(d.n)
    return dataclasses.replace(d, n=x)
---
f(X)
f(X)
d
### memo dict keyed by value
memo = {}
def f(x, n):
    if n not in memo:
        memo[n] = x * n
    return memo[n]
---
f(X, 1)
f(X, 2)
f(Y, 1)
f(Y, 2)
memo
### keys that are tensors
from collections import defaultdict
d, e = {}, defaultdict(dict)
def f(x):
    y = x + 1
    d[x] = 1
    d[y] = y
    e[x]["m"] = y
    return y
---
f(X)
[k is X for k in d], [k is X for k in e], list(d)[1] is d[list(d)[1]]
d.clear(), e.clear()
f(Y)
[k is Y for k in d], [k is Y for k in e], list(d)[1] is d[list(d)[1]]
### keys that are new objects
class A: pass
d, seen = {}, []
def f(x):
    a = A()
    d[a] = a
    d[a, 1] = x + 1
    return x * 2
---
f(X)
seen.extend(d); d.clear()
f(X)
[k in seen for k in d], len(d), list(d)[0] is d[list(d)[0]], list(d)[1][0] is list(d)[0]
### keys that are arguments
class A: pass
a, b, d = A(), A(), {}
def f(x, o):
    d[o] = x + 1
    d[1, o] = 2
    return x * 2
---
f(X, a)
a in d, (1, a) in d, len(d)
d.clear()
f(X, b)
b in d, (1, b) in d, len(d)
### zeros in a set
s = {0.0, 1.5}
def f(x):
    s.discard(0.0)
    s.add(-0.0)
    return x + 1
---
f(X)
sorted(map(str, s))
s.discard(0.0); s.add(0.0)
f(X)
sorted(map(str, s))
### an argument that is a key, and one that is none
class A: pass
a, b = A(), A()
d = collections.OrderedDict([(a, 1), (b, 2)])
def f(x, o, w):
    if w in d:
        d.move_to_end(w)
    return x + d.get(w, 7)
---
f(X, a, A())
f(X, a, a)
[key is a for key in d]
f(X, a, b)
f(X, b, a)
[key is a for key in d]
### an ordered dict with attributes
def make(x):
    d = collections.OrderedDict(b=x, a=1)
    d.note = collections.OrderedDict()
    d.note["n"] = [x]
    d.me = d
    return d
kept = []
def f(x):
    d = make(x + 1)
    kept.append(make(x))
    return d, d.note
---
[(list(d), vars(d), d.me is d) for d in f(X)[:1]]
[(list(d), vars(d), d.me is d) for d in kept]
### vars and dict updates
class A: pass
a = A()
def f(x):
    vars(a).update(p=1, q=x)
    a.__dict__["r"] = 3
    a.s = 4
    return x + a.p + a.r, sorted(vars(a))
---
f(X)
f(X)
list(vars(a))
### object that is created and stored
class A:
    def __init__(self, v): self.v = v; self.l = [v]
made = []
def f(x):
    a = A(x)
    made.append(a)
    a.l.append(a)
    return a
---
f(X) is made[0]
f(X) is made[1]
made[0].l[1] is made[0]
### setitem on an outside object
class A:
    def __init__(self): self.d = {}
    def __setitem__(self, k, v): self.d[k] = v
    def __delitem__(self, k): del self.d[k]
a = A()
def f(x):
    a["k"] = x
    a["z"] = 1
    del a["z"]
    return x
---
f(X)
a.d
f(Y)
a.d["k"] is Y
### truth of what was changed
l, d = [1], {}
def f(x, k, e):
    k.clear()
    e["a"] = 1
    return x + 1 if k else x - 1, not e, bool(l), bool(d), len(k)
---
f(X, l, d)
f(X, [1], {})
f(X, l, {})
### writes made by C functions
class A:
    def __init__(self): self.n = 1
    def m(self): self.n += 1; return self.n
a, l, t = A(), [1], [torch.zeros(3)]
call = operator.methodcaller("m")
def f(x):
    list(map(setattr, [a], ["k"], [7]))
    list(map(l.append, [5]))
    list(map(torch.Tensor.add_, t, [1]))
    return x + call(a) + sum(map(call, [a])), len(l), t[0] + 1
---
f(X)
a.k, a.n, l, t
f(X)
a.k, a.n, l, t
### a view of a leaf changed in place
l, w = [], T(2, 3).requires_grad_()
def f(x):
    l.append(1)
    y = x.t()
    try:
        y.mul_(2)
    except RuntimeError as e:
        l.append(str(e))
    return x + 1
---
f(w)
f(w.t())
f(X)
f((w * 1).t())
### one of several views changed in place
l, w = [], T(2, 3).requires_grad_()
def f(x):
    l.append(1)
    y = (x * 1).unbind(0)[0][:1]
    try:
        y.mul_(2)
    except RuntimeError as e:
        l.append(str(e))
    return x + 1
---
f(w)
f(X)
### an expanded tensor changed in place
l = []
def f(x):
    l.append(1)
    y = x.sum(0, keepdim=True).expand(2, 3)
    try:
        y.mul_(2)
    except RuntimeError as e:
        l.append(str(e))
    y[:1].mul_(3)
    return x + 1, y
---
f(X)
f(T(2, 3).requires_grad_())
### print is not lost
def f(x):
    print("hello", x.shape)
    return x + 1
---
f(X)
f(X)
### equal values of a set
s = {1, 2}
def f(x):
    s.discard(1); s.add(True); s.add(3.0); s.discard(3)
    return x + 1
---
f(X)
[type(v).__name__ for v in s]
f(X)
[type(v).__name__ for v in s]
### where the items of a set lie
def made(kind):
    if kind == 0: return set(range(100))
    s = set(range(100)) if kind == 1 else set()
    if kind == 1: s.difference_update(v for v in range(100) if v not in (3, 5, 40, 64))
    for v in (16, 8, 0, 32, 24): s.add(v)
    if kind == 3: s.discard(0); s.add(0)
    return s
def f(x, what):
    if what == 0:
        for v in range(100):
            if v not in (3, 5, 64): s.discard(v)
    elif what == 1: s.add(7)
    elif what == 2: s.discard(40); s.add(40)
    elif what == 3: s.pop()
    own = set(s)
    for v in (48, 56, 72): own.add(v)
    own.discard(8)
    return x + 1, list(s), str(s), own, list(own), frozenset(own)
---
s = made(0)
(lambda r: (r[1:3], list(r[3]), list(r[5]), list(s)))(f(X, 0))
s = made(0)
(lambda r: (r[1:3], list(r[3]), list(r[5]), list(s)))(f(X, 0))
s = made(1)
(lambda r: (r[1:3], list(r[3]), list(r[5]), list(s)))(f(X, 1))
s = made(1)
(lambda r: (r[1:3], list(r[3]), list(r[5]), list(s)))(f(X, 1))
s = made(2)
(lambda r: (r[1:3], list(r[3]), list(r[5]), list(s)))(f(X, 2))
s = made(2)
(lambda r: (r[1:3], list(r[3]), list(r[5]), list(s)))(f(X, 2))
s = made(3)
(lambda r: (r[1:3], list(r[3]), list(r[5]), list(s)))(f(X, 3))
s = made(3)
(lambda r: (r[1:3], list(r[3]), list(r[5]), list(s), s.pop(), s.pop()))(f(X, 3))
(lambda r: (r[1:3], list(r[3]), list(r[5]), list(s), s.pop(), s.pop()))(f(X, 3))
### the keys that stay are those of the dict
def keys(): return [tuple([n, "k"]) for n in range(4)]
own = keys()
d = dict.fromkeys(own, 1)
def f(x):
    d[1, "k"] = d.pop((1, "k"))
    return x + 1
---
f(X)
[[k is o for o in own] for k in d]
own = keys()
d = dict.fromkeys(own, 1)
f(X)
[[k is o for o in own] for k in d]
### a deque is rotated
q = collections.deque([1, 2, 3], maxlen=3)
def f(x, n):
    q.rotate(n); q.append(n); q.extendleft([5])
    return x + q[0], q.maxlen, q.popleft()
---
f(X, 1)
f(X, 1)
f(X, 2)
q = collections.deque([1, 2, 3], maxlen=2)
f(X, 1)
### a suspended generator in a frame that an exception leaves
log = []
def gen():
    try:
        yield 1
    finally:
        log.append("end")
def f(x):
    g = gen()
    next(g)
    raise ValueError(x.dim())
---
f(X)
f(X)
### a suspended generator is returned
log = []
def gen():
    try:
        yield 1
    finally:
        log.append("end")
def f(x):
    g = gen()
    return next(g), x + 1, g
---
f(X)
f(X)
""")
