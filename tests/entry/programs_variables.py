"""Writes to variables, to what is reached in several ways, to arguments and tensors; and exceptions after them."""

from __future__ import annotations

from programs.texts import parse

PROGRAMS = parse(r"""
### globals
n = 0
def f(x):
    global n, made
    n += 1
    made = [n]
    return x + n
---
f(X)
f(X)
n, made
### global set to a tensor
last = None
def f(x):
    global last
    old = last
    last = x * 2
    return last if old is None else last + old
---
f(X)
f(X)
f(X)
### nonlocal cells
def make():
    n, l = 0, []
    def f(x):
        nonlocal n
        n += 1
        l.append(n)
        return x * n
    def see(): return n, l
    return f, see
f, see = make()
---
f(X)
f(X)
see()
### nonlocal set to a tensor
def make():
    state = None
    def f(x):
        nonlocal state
        state = x if state is None else state + x
        return state
    return f, lambda: state
f, see = make()
---
f(X)
f(X)
f(X)
see()
### outside list stored in an inside dict
l = [1]
def f(x):
    d = {"l": l, "m": [l, l]}
    l.append(x)
    return d
---
f(X)
f(X)
### inside list stored in an outside list twice
out = []
def f(x):
    i = [x]
    out.append(i)
    out.append(i)
    i.append(2)
    return i
---
(lambda r: (r, out[-1] is out[-2], out[-1] is r))(f(X))
(lambda r: (r, out[-1] is out[-2], out[-1] is r))(f(X))
### one object in two places
class A: pass
a = A(); d = {}
def f(x):
    o = A()
    o.t = x + 1
    a.o = o
    d["o"] = o
    return o
---
(lambda r: (r is a.o, r is d["o"]))(f(X))
(lambda r: (r is a.o, r is d["o"]))(f(X))
### cycle through outside
class N: pass
root = N()
def f(x):
    n = N()
    n.up = root
    root.down = n
    n.self = n
    return x
---
f(X)
root.down.up is root, root.down.self is root.down
### cycle through a list
l = []
def f(x):
    l.append(l)
    return x, len(l)
---
f(X)
l[0] is l
### write to what was just stored
d = {}
def f(x):
    d["l"] = []
    d["l"].append(1)
    d["k"] = d["l"]
    d["k"].append(x)
    return d["l"]
---
f(X)
d["l"] is d["k"]
f(X)
### nested containers
state = {"log": [], "n": {"a": 0}}
def f(x):
    state["log"].append(x.shape)
    state["n"]["a"] += 1
    state["n"]["b"] = state["log"]
    return x + state["n"]["a"]
---
f(X)
f(X)
state["n"]["b"] is state["log"]
### container moved
a, b = {"l": [1]}, {}
def f(x):
    b["l"] = a.pop("l")
    b["l"].append(2)
    a["l"] = [b["l"]]
    return x
---
f(X)
a["l"][0] is b["l"]
### class attribute container through an instance
class A:
    seen = []
a = A()
def f(x):
    a.seen.append(1)
    A.seen.append(2)
    return x + len(a.seen)
---
f(X)
f(X)
A.seen
### default argument list
def g(x, l=[]):
    l.append(1)
    return x + len(l)
def f(x): return g(x) + g(x)
---
f(X)
f(X)
g.__defaults__
### keyword default dict
def g(x, *, d={}):
    d["n"] = d.get("n", 0) + 1
    return x + d["n"]
def f(x): return g(x)
---
f(X)
f(X)
g.__kwdefaults__
### argument containers
def f(l, d, s):
    l.append(d["x"])
    d["n"] = len(l)
    s.add(3)
    return l[-1] + 1
---
f([1], {"x": X}, {1})
(lambda l, d, s: (f(l, d, s), l, d, s))([1], {"x": X}, {1})
(lambda l: (f(l, {"x": X, "l": l}, set()), l))([1])
### in-place on an argument
def f(x):
    x.add_(1)
    x[0] = 7
    return x * 2
---
(lambda t: (f(t), t))(X.clone())
(lambda t: (f(t), t))(X.clone())
### in-place on a view of an argument
def f(x):
    v = x[:, 1:]
    v.mul_(10)
    w = x.view(-1)
    w[0] = -1
    return x.sum(), v
---
(lambda t: (f(t), t))(X.clone())
(lambda t: (f(t), t))(Y.clone())
### in-place on a buffer
m = nn.Module()
m.register_buffer("n", torch.zeros(3))
def f(x):
    m.n += 1
    m.n.mul_(2)
    return x + m.n
---
f(X)
f(X)
m.n
### in-place on a parameter
p = nn.Parameter(torch.ones(3))
def f(x):
    with torch.no_grad():
        p.add_(1)
    return x * p
---
f(X)
f(X)
p
### in-place on a tensor in a list
l = [torch.zeros(3)]
def f(x):
    l[0] += 1
    l[0].add_(1)
    return x + l[0]
---
f(X)
f(X)
l
### buffer replaced
m = nn.Module()
m.register_buffer("n", torch.zeros(3))
def f(x):
    m.n = m.n + 1
    return x + m.n
---
f(X)
f(X)
m.n, list(m._buffers)
### parameter attribute on a module
m = nn.Linear(3, 3)
def f(x):
    m.extra = x
    m.count = getattr(m, "count", 0) + 1
    return m(x)
---
f(X)
f(X)
m.extra is X, m.count
### batch norm statistics
m = nn.BatchNorm1d(3)
def f(x): return m(x)
---
f(T(4, 3))
f(T(4, 3))
m.num_batches_tracked, m.running_mean
### exception after a partial mutation
l, d = [], {}
def f(x, n):
    l.append(1)
    d["a"] = x
    if n:
        raise ValueError("stop", n)
    d["b"] = x
    return x
---
f(X, 1)
f(X, 0)
f(X, 2)
l, list(d)
### exception out of an operation
l = []
def f(x):
    l.append(x.shape)
    y = x @ x
    l.append("done")
    return y
---
f(X)
f(T(3, 3))
f(X)
l
### exception caught after a mutation
l = []
def f(x):
    try:
        l.append(1)
        raise KeyError("k")
    except KeyError:
        l.append(2)
    finally:
        l.append(3)
    return x + len(l)
---
f(X)
f(X)
l
""")
