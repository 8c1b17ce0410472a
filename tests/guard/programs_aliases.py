"""Changes of torch's functions and modules, and of what is one object or two."""

from __future__ import annotations

from programs.texts import parse

PROGRAMS = parse(r"""
### torch function patched
def f(x): return torch.relu(x), F.gelu(x)
old = torch.relu, F.gelu
---
f(X)
setattr(torch, "relu", torch.neg)
f(X)
setattr(F, "gelu", torch.abs)
f(X)
setattr(torch, "relu", old[0]), setattr(F, "gelu", old[1])
f(X)
### hook added to a module
m = nn.Linear(3, 3)
def f(x): return m(x)
---
f(X)
h = m.register_forward_hook(lambda mod, a, o: o * 2)
f(X)
h.remove()
f(X)
h = m.register_forward_pre_hook(lambda mod, a: (a[0] * 3,))
f(X)
h.remove()
h = torch.nn.modules.module.register_module_forward_hook(lambda mod, a, o: o + 100)
f(X)
h.remove()
f(X)
### parameter swapped
m = nn.Linear(3, 3)
def f(x): return m(x)
---
f(X)
m.weight = nn.Parameter(torch.ones(3, 3))
f(X)
m.bias = None
f(X)
m.weight.requires_grad_(False) is None
f(X)
m.weight.data = torch.ones(5, 3)
f(X)
### buffer replaced
m = nn.Module()
m.register_buffer("b", torch.ones(3))
def f(x): return x + m.b
---
f(X)
m.b = torch.zeros(3)
f(X)
m.b = torch.zeros(1)
f(X)
m.b = None
f(X)
### submodule replaced
m = nn.Sequential(nn.Linear(3, 3), nn.ReLU())
def f(x): return m(x)
---
f(X)
m[1] = nn.Tanh()
f(X)
m.append(nn.Sigmoid()) is m
f(X)
m[0] = nn.Identity()
f(X)
### forward patched on the instance
m = nn.ReLU()
def f(x): return m(x)
---
f(X)
m.forward = lambda x: x + 5
f(X)
nn.ReLU.forward, setattr(m, "forward", lambda x: x + 6)
f(X)
### training flag
m = nn.Dropout(0.5)
def f(x): return m(x), m.training
---
f(X)
m.eval() is m
f(X)
m.p = 0.0
m.train() is m
f(X)
### same tensor passed twice
def f(a, b):
    c = a.clone()
    c.add_(b)
    return c, a is b
---
f(X, Y)
f(X, X)
f(Y, X)
### same tensor passed twice with mutation
def f(a, b):
    a.add_(1)
    return a + b
---
f(X.clone(), Y)
(lambda t: f(t, t))(X.clone())
f(X.clone(), Y)
### same list passed twice with mutation
def f(a, b):
    a.append(1)
    return len(a), len(b), a is b
---
f([], [])
(lambda l: f(l, l))([])
f([], [])
### same dict passed twice with mutation
def f(a, b):
    a["k"] = 1
    return b.get("k"), len(b)
---
f({}, {})
(lambda d: f(d, d))({})
f({}, {})
### same object passed twice with mutation
class A:
    def __init__(self): self.n = 0
def f(a, b):
    a.n += 1
    return a.n, b.n, a is b
---
f(A(), A())
(lambda o: f(o, o))(A())
f(A(), A())
### same slotted object passed twice with mutation
class A:
    __slots__ = ("n",)
    def __init__(self): self.n = 0
def f(a, b):
    a.n += 1
    return a.n, b.n
---
f(A(), A())
(lambda o: f(o, o))(A())
f(A(), A())
### nested alias appears
def f(l, m):
    l[0].append(5)
    return len(m[0]), l
---
f([[1]], [[1]])
(lambda k: f([k], [k]))([1])
f([[1]], [[1]])
### objects that become one in a list
class A: pass
a, b = A(), A()
def f(x, l): return x + l.count(l[0]), l[0] in l[1:]
---
f(X, [a, b])
f(X, [a, a])
f(X, [b, a])
### two closures over one cell
def make():
    n = 0
    def inc():
        nonlocal n
        n += 1
    def get(): return n
    return inc, get
p, q = make(), make()
def f(x, inc, get):
    inc()
    return x + get()
---
f(X, p[0], p[1])
f(X, p[0], q[1])
f(X, q[0], p[1])
### two objects with one dict
class A: pass
a, b = A(), A()
b.__dict__ = a.__dict__
a.n = 1
def f(x):
    a.n += 1
    return x + b.n
---
f(X)
f(X)
c = A(); c.n = 50; b.__dict__ = c.__dict__
f(X)
### dict shared with an object
class A: pass
a = A()
a.n = 1
d = {"n": 1}
def f(x):
    a.n += 1
    return x + d["n"]
---
f(X)
d = a.__dict__
f(X)
d = {"n": 7}
f(X)
### identity of arguments
def f(a, b, c): return a is b, b is c, a is None
---
f([1], [1], None)
(lambda l: f(l, l, l))([1])
f(X, X, Y)
f(X, Y, Y)
f(None, None, None)
""")
