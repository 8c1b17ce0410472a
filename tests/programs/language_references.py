"""What is passed, stored, shared and returned: functions and methods, structures, cycles, names bound anew."""

from __future__ import annotations

from .texts import parse

PROGRAMS = parse(r"""
### late binding closures
def f(x):
    fs = [lambda v: v + i for i in range(3)]
    gs = [lambda v, i=i: v + i for i in range(3)]
    return [g(x) for g in fs], [g(x) for g in gs]
### function attributes
def g(x): return x + g.k
g.k = 3
def f(x):
    return g(x)
---
f(X)
g.k = 5
f(X)
### method stored and passed
class A:
    def __init__(self, n): self.n = n
    def m(self, x): return x + self.n
a = A(2)
m = a.m
def apply(fn, *args): return fn(*args)
def f(x):
    return apply(a.m, x), apply(m, x), apply(A.m, a, x), m.__self__ is a, m.__func__ is A.m, list(map(a.m, [1, 2]))
---
f(X)
a.n = 5
f(X)
### list of functions
ops = [torch.relu, torch.neg, lambda v: v + 1]
table = {"a": torch.sin, "b": torch.cos}
def f(x, k="a"):
    for o in ops:
        x = o(x)
    return table[k](x)
---
f(X)
f(X, "b")
ops.append(torch.exp)
f(X)
table["a"] = torch.tan
f(X)
### function as argument
def f(x, g):
    return g(x) + 1
---
f(X, torch.relu)
f(X, torch.neg)
f(X, lambda v: v * 2)
f(X, lambda v: v * 3)
### closure as argument
def make(n):
    return lambda v: v * n
def f(x, g):
    return g(x) + 1
---
f(X, make(2))
f(X, make(3))
f(X, make(2))
### string keys and interning
def f(x, d={"ab": 1}):
    k = "a" + "b"
    return x + d[k] + d["".join(["a", "b"])], d.get("a" "b")
### torch device and dtype values
def f(x, dt=torch.float64, dev=torch.device("cpu")):
    return x.to(dt), x.to(dev), dt.is_floating_point, torch.finfo(dt).max, dev.type, x.to(dtype=torch.int32), torch.iinfo(torch.int8).max
---
f(X)
f(X, torch.float16)
### size arithmetic
def f(x):
    b, c = x.shape
    n = b * c // 2
    return x.reshape(n, 2), torch.zeros(b, c + 1), x.view(b, -1), (b, c) == tuple(x.shape)
### tuple returned from many paths
def f(x, mode="a"):
    if mode == "a":
        return x
    elif mode == "b":
        return x, x
    return {"k": [x, (x + 1,)]}
---
f(X)
f(X, "b")
f(X, "c")
f(X)
### return nothing
def f(x):
    x + 1
### return constants only
def f(x):
    return 1, "a", None, [1, 2], {"k": (1,)}
### returns its argument
def f(x, y):
    return y, x, [x, y]
---
f(X, Y)
f(X, X)
f(Y, X)
### swap and multiple assignment
def f(x, y):
    x, y = y, x
    a = b = [x]
    a.append(y)
    return x - y, b, a is b
---
f(X, Y)
f(Y, X)
### augmented assignment on attributes and items
class A: pass
a = A(); a.n = 1; a.d = {"k": 2}; a.l = [3]
def f(x):
    a.n += 1
    a.d["k"] *= 2
    a.l[0] -= 1
    a.l += [9]
    return x + a.n + a.d["k"] + a.l[0]
---
f(X)
f(X)
a.n, a.d, a.l
### exec-time class with slots and weak values
import weakref
def f(x):
    return x + 1, weakref
### nested data structure round trip
def f(s):
    out = []
    for item in s["items"]:
        out.append({"name": item["name"], "t": item["t"] * item["w"], "tags": [*item["tags"], "done"]})
    return {"items": out, "n": len(out), "first": out[0]}
---
f({"items": [{"name": "a", "t": X, "w": 2, "tags": ["p"]}, {"name": "b", "t": Y, "w": 3, "tags": []}]})
f({"items": [{"name": "a", "t": X, "w": 2, "tags": ["p"]}, {"name": "b", "t": Y, "w": 3, "tags": []}]})
f({"items": [{"name": "c", "t": X, "w": 2, "tags": ["q"]}]})
### cyclic structure
def f(x):
    a = [1]
    a.append(a)
    d = {"x": x + 1}
    d["self"] = d
    return a, d
### instance cycle
class N:
    def __init__(self, v): self.v = v; self.next = None
def f(x):
    a, b = N(x), N(x + 1)
    a.next, b.next = b, a
    return a
### staticmethod and classmethod from outside instance
class A:
    n = 2
    @staticmethod
    def s(x): return x + 1
    @classmethod
    def c(cls, x): return x * cls.n
a = A()
def f(x):
    return a.s(x), a.c(x), A.s(x), A.c(x)
---
f(X)
A.n = 3
f(X)
### int conversions
def f(x, s="42"):
    return x + int(s) + float("1.5"), str(12), bool("a"), int(3.9), list("ab"), tuple([1]), set("a"), bytes([1, 2]), complex(1, 2), ord("a"), chr(98), hex(255), bin(5)
### object identity of shared inside lists
def f(x):
    a = [x]
    return {"p": a, "q": a, "r": (a, a), "s": [a[0], x]}
### truthiness of containers
l, d, s = [], {}, set()
def f(x):
    return x + (1 if l else 2) + (1 if d else 2) + (1 if s else 2), not l
---
f(X)
l.append(1)
f(X)
d["a"] = 1
f(X)
s.add(1)
f(X)
### del of global attribute
class A: pass
a = A(); a.n = 1
def f(x):
    if hasattr(a, "n"):
        del a.n
        return x + 1
    a.n = 2
    return x - 1
---
f(X)
f(X)
f(X)
vars(a)
### star args passthrough of lists
def g(*a, k=0, **kw): return sum(a) + k + len(kw)
def f(l, d):
    return g(*l, **d), g(*l, *l), g(*[v + 1 for v in l]), g(*[], **{}), g(*iter([]), *())
---
f([X, Y], {"k": 2})
f([X, Y], {"k": 2, "z": 1})
f([X], {})
""")
