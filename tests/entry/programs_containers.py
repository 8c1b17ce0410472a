"""Writes to attributes, and to containers of every kind."""

from __future__ import annotations

from programs.texts import parse

PROGRAMS = parse(r"""
### attribute set and read back
class A: pass
a = A(); a.n = 1
def f(x):
    a.n = a.n + 1
    a.m = a.n * 2
    return x + a.n + a.m
---
f(X)
f(X)
a.n, list(vars(a))
### attribute set to a tensor
class A: pass
a = A()
def f(x):
    a.t = x + 1
    a.u = x
    a.v = a.t
    return a.t * 2
---
f(X)
a.t is a.v, a.u is X
f(Y)
a.t is a.v, a.u is Y
### attribute order
class A: pass
a = A(); a.b = 1; a.c = 2
def f(x):
    a.z = 1
    del a.b
    a.b = 3
    a.c = 5
    return x + 1
---
f(X)
list(vars(a).items())
del a.z, a.c
f(X)
list(vars(a).items())
### attribute made and deleted
class A: pass
a = A()
def f(x):
    a.tmp = 5
    x = x + a.tmp
    del a.tmp
    return x, hasattr(a, "tmp")
---
f(X)
vars(a)
a.tmp = 1
f(X)
vars(a)
### attribute deleted
class A: n = 7
a = A()
a.n = 1
def f(x):
    y = x + a.n
    if "n" in a.__dict__:
        del a.n
    return y + a.n
---
f(X)
f(X)
### swap of attributes
class A: pass
a = A(); a.p = X; a.q = Y; a.l = [1]; a.k = [2]
def f(x):
    a.p, a.q = a.q, a.p
    a.l, a.k = a.k, a.l
    return a.p - a.q
---
f(X)
a.p is Y, a.q is X, a.l, a.k
f(X)
a.p is Y, a.q is X, a.l, a.k
### slots
class A:
    __slots__ = ("n", "t")
a = A(); a.n = 1
def f(x):
    a.n += 1
    a.t = x * a.n
    return a.t
---
f(X)
f(X)
a.n
### slot deleted
class A:
    __slots__ = ("n",)
a = A(); a.n = 1
def f(x):
    had = hasattr(a, "n")
    if had:
        del a.n
    else:
        a.n = 3
    return x + had
---
f(X)
hasattr(a, "n")
f(X)
f(X)
hasattr(a, "n")
### deleting what is not there
class A:
    __slots__ = ("n",)
class B: pass
a, b, d = A(), B(), {}
def f(x):
    out = []
    for g in (lambda: delattr(a, "n"), lambda: delattr(b, "n"), lambda: d.pop("k"), lambda: d.__delitem__("k")):
        try:
            g()
        except (AttributeError, KeyError) as e:
            out.append((type(e).__name__, str(e)))
    return x + 1, out
---
f(X)
f(X)
### property setter
class A:
    def __init__(self): self._n = 0
    @property
    def n(self): return self._n
    @n.setter
    def n(self, v): self._n = v * 2
a = A()
def f(x):
    a.n = a.n + 1
    return x + a.n
---
f(X)
f(X)
vars(a)
### dict items and order
d = {"a": 1, "b": 2}
def f(x):
    d["c"] = 3
    d["a"] = 9
    del d["b"]
    d["b"] = 5
    return x + d["a"]
---
f(X)
list(d.items())
f(X)
list(d.items())
### dict set without reading
d = {}
def f(x):
    d["k"] = x + 1
    d["j"] = x
    return x
---
f(X)
f(Y)
d["j"] is Y
d["k"] = 5
f(X)
list(d)
### dict methods
d = {"a": 1, "b": 2, "c": 3}
def f(x):
    v = d.pop("a", 0)
    w = d.setdefault("z", []) 
    w.append(v)
    d.update(q=x, b=7)
    k = d.popitem()
    return x + v, k
---
f(X)
list(d)
f(X)
d
d.clear()
f(X)
### dict cleared and filled
d = {"a": 1}
def f(x):
    d.clear()
    for i in range(3):
        d[i] = x + i
    return len(d)
---
f(X)
f(Y)
### dict with a tensor as value replaced
d = {"t": X}
def f(x):
    d["t"] = d["t"] + x
    return d["t"]
---
f(Y)
f(Y)
f(Y)
### list methods
l = [3, 1, 2]
def f(x):
    l.append(5); l.insert(0, 9); l.remove(1); a = l.pop(); l.sort(); l.reverse(); l.extend([7, 7]); l[0] = 100
    return x + a + len(l)
---
f(X)
l
l[:] = [3, 1, 2]
f(X)
l
### list slices
l = [1, 2, 3, 4]
def f(x):
    l[1:3] = [x, x]
    del l[0]
    l[::2] = ["a"] * len(l[::2])
    return x
---
f(X)
l[:] = [1, 2, 3, 4]
f(X)
### list in-place operators
l = [1]
def f(x):
    global l
    k = l
    k += [2]
    l *= 2
    return x + len(l), k is l
---
f(X)
l
f(X)
l
### list cleared
l = [X, Y]
def f(x):
    y = x + len(l)
    l.clear()
    return y
---
f(X)
l.append(1)
f(X)
f(X)
### list of tensors appended
l = []
def f(x):
    l.append(x * 2)
    l.append(x)
    return l[-1] + l[-2]
---
f(X)
f(Y)
l[1] is X, l[3] is Y, len(l)
### list item replaced by itself
l = [[1], [2]]
def f(x):
    l[0], l[1] = l[1], l[0]
    l[0].append(9)
    return x
---
f(X)
f(X)
l
### set operations on a global
s = {1, 2}
def f(x):
    s.add(5)
    s.discard(1)
    s.update([8])
    return x + len(s), 5 in s
---
f(X)
s
s.clear()
f(X)
s
### deque
q = collections.deque([1, 2], maxlen=3)
def f(x):
    q.append(3); q.append(4); q.appendleft(0); q.rotate(1)
    return x + q[0]
---
f(X)
q
q.clear()
f(X)
q
### deque of tensors
q = collections.deque(maxlen=2)
def f(x):
    q.append(x)
    return sum(q)
---
f(X)
f(Y)
f(Z)
q[0] is Y
### ordereddict
d = collections.OrderedDict(a=1, b=2, c=3)
def f(x):
    d.move_to_end("a")
    d["d"] = 4
    d.popitem(last=False)
    return x + len(d)
---
f(X)
list(d.items())
f(X)
list(d.items())
### ordereddict set only
d = collections.OrderedDict(a=1, b=2)
def f(x):
    d["a"] = 7
    d["n"] = x
    return x
---
f(X)
list(d), d["n"] is X
### defaultdict made by reading
d = collections.defaultdict(list)
def f(x):
    d["a"].append(1)
    return x + len(d["b"])
---
f(X)
f(X)
d, d.default_factory
### counter
c = collections.Counter()
def f(x):
    c["a"] += 1
    c.update("ab")
    return x + c["a"]
---
f(X)
f(X)
c
### dict subclass
class D(dict):
    def __setitem__(self, k, v): dict.__setitem__(self, k, v * 2)
d = D()
def f(x):
    d["a"] = 2
    d.tag = 5
    return x + d["a"] + d.tag
---
f(X)
f(X)
dict(d), d.tag
### list subclass
class L(list):
    def push(self, v): self.append(v); self.count = len(self)
l = L()
def f(x):
    l.push(1)
    return x + l.count
---
f(X)
f(X)
list(l), l.count
""")
