"""Changes of arguments, of tensors and modes, and of the functions, globals and modules that are read."""

from __future__ import annotations

from programs.texts import parse

PROGRAMS = parse(r"""
### argument int
def f(x, n): return x + n
---
f(X, 1)
f(X, 2)
f(X, 1)
f(X, True)
f(X, 1.0)
f(X, -1)
### argument float
def f(x, n): return n, 1 / n if n else n
---
f(X, 0.0)
f(X, -0.0)
f(X, float("nan"))
f(X, float("inf"))
f(X, 0)
f(X, False)
f(X, 0.0)
### object that is known by its identity goes, and None comes
def gen(): yield 1
held = gen()
def f(x): return x + 1 if held is None else x + 2
---
f(X)
f(X)
held = None
f(X)
held = gen()
f(X)
### modes that see operations
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack
def f(x): return x + len(_get_current_dispatch_mode_stack())
---
f(X)
f(Y)
### name that a module does not have
def f(x):
    try:
        from sys import no_such_name
    except Exception as e:
        return x + 1, type(e), str(e)
    return x + no_such_name
---
f(X)
f(X)
### argument slice
def f(x, s): return x[s], s.start, s == slice(0, 1)
---
f(X, slice(0, 1))
f(X, slice(0, 1))
f(X, slice(0, 2))
f(X, slice(None, 1))
f(X, slice(0, 1, 1))
f(X, slice(0, True))
f(X, slice(torch.tensor(0), 1))
f(X, slice(0, 1))
### argument partial
from functools import partial
def g(x, y=1, z=0): return x + y * 2 + z
def f(x, p): return p(x), p(x, z=2), p.func is g, p.args, p.keywords
def h(x, p, q):
    p.note = 1
    return p(x), p is q, p.note, isinstance(p, partial), partial(p, z=3)(x), callable(p)
same = partial(g, y=2)
---
f(X, partial(g, y=2))
f(X, partial(g, y=2))
f(X, partial(g, y=3))
f(X, partial(g, y=Y))
f(X, partial(g, z=2))
f(X, partial(g, Y))
f(X, partial(g))
f(X, same)
f(X, partial(torch.add, Y, alpha=2))
h(X, same, same)
h(X, same, partial(g))
h(X, partial(g, 3), same)
same.keywords.update(y=5)
f(X, same)
h(X, same, same)
list(map(same, [X, Y]))
### partial that C code calls
from functools import partial
def g(x, y=1): return x + y
def f(x, p): return list(map(p, [x, x + 1])), sorted([2, 1, 3], key=p)
---
f(X, partial(g, y=2))
f(X, partial(g, y=3))
f(X, partial(g, y=2))
### argument range
def f(x, r): return x + sum(r), len(r), r[-1] if r else None, bool(r)
---
f(X, range(3))
f(X, range(3))
f(X, range(0, 4, 2))
f(X, range(0, 3, 2))
f(X, range(0))
f(X, range(3, 0, -1))
f(X, range(10 ** 20, 10 ** 20 + 2))
### OrderedDict whose items are not those of its order
from collections import OrderedDict
d = OrderedDict(b=2, a=1)
def f(x): return x + 1, list(d.items()), len(d), "b" in d, d.get("zzz")
---
f(X)
dict.__setitem__(d, "zzz", 4)
f(X)
dict.__delitem__(d, "zzz")
f(X)
dict.__setitem__(d, "zzz", 5)
dict.__delitem__(d, "zzz")
f(X)
d.move_to_end("b")
f(X)
### OrderedDict that captured code changes with dict's methods
from collections import OrderedDict
d = OrderedDict(b=2, a=1)
def f(x):
    dict.__setitem__(d, "q", 4)
    e = OrderedDict(c=1)
    dict.__setitem__(e, "r", 4)
    return x + 1, list(d.items()), e.get("r"), list(e), e
---
f(X)[:4]
d.get("q"), list(d)
f(X)[4].get("r")
### argument string
class S(str): pass
def f(x, s): return x + len(s), type(s), s
---
f(X, "ab")
f(X, "abc")
f(X, S("ab"))
f(X, b"ab")
f(X, "ab")
### argument int subclass
class I(int):
    def __add__(self, o): return 100
class J(int): pass
def f(x, n): return x, n + 1, type(n)
---
f(X, 1)
f(X, I(1))
f(X, J(1))
f(X, J(2))
f(X, J(1))
### argument bool and none
def f(x, b): return (x + 1 if b else x - 1), b
---
f(X, True)
f(X, False)
f(X, None)
f(X, 1)
f(X, 0)
f(X, "")
f(X, [])
f(X, [0])
### argument tensor or number
def f(x): return x + 1, type(x)
---
f(X)
f(3)
f(3.5)
f(X)
f(nn.Parameter(X))
### shape
def f(x): return x.reshape(-1), x.shape[0]
---
f(X)
f(T(3, 2))
f(T(6))
f(T(1, 2, 3))
f(X)
### dtype
def f(x): return x / 2, x.dtype
---
f(X)
f(X.double())
f(X.int())
f(X.half())
f(X.bool())
### strides
def f(x): return x.is_contiguous(), x + 1, x.stride()
---
f(T(3, 3))
f(T(3, 3).t())
f(T(3, 3))
f(T(3, 6)[:, ::2])
### requires grad
def f(x): return x * 2, x.requires_grad, (x * 2).requires_grad
---
f(X)
f(X.clone().requires_grad_())
f(X)
### leaf and non leaf
def f(x): return x.is_leaf, x * 2
---
f(X.clone().requires_grad_())
f(X.clone().requires_grad_() * 2)
f(X)
### grad mode
w = torch.ones(3, requires_grad=True)
def f(x): return x * w, torch.is_grad_enabled()
def off(g, x):
    with torch.no_grad():
        return g(x)
---
f(X)
off(f, X)
f(X)
### default dtype
def f(x): return torch.ones(2), torch.get_default_dtype()
def dt(d): torch.set_default_dtype(d)
---
f(X)
dt(torch.float64)
f(X)
dt(torch.float32)
f(X)
### default argument changed
def f(x, n=2): return x * n
root = f
---
f(X)
root.__defaults__ = (5,)
f(X)
f(X, 2)
### kwdefaults changed
def f(x, *, n=2): return x * n
root = f
---
f(X)
root.__kwdefaults__ = {"n": 7}
f(X)
root.__kwdefaults__.update(n=9)
f(X)
### inner default changed
def g(x, n=2, *, k=[1]): return x * n + k[0]
def f(x): return g(x)
---
f(X)
g.__defaults__ = (6,)
f(X)
g.__kwdefaults__["k"] = [8]
f(X)
g.__kwdefaults__["k"][0] = 9
f(X)
g.__defaults__ = None
f(X)
### code swapped
def a(x): return x + 1
def b(x): return x - 1
def f(x): return a(x)
---
f(X)
a.__code__ = b.__code__
f(X)
### root code swapped
def f(x): return x + 1
def b(x): return x - 1
root = f
---
f(X)
root.__code__ = b.__code__
f(X)
### closure cell changed
def make():
    n = 1
    l = [1]
    def f(x): return x + n + l[0]
    def put(v):
        nonlocal n
        n = v
    return f, put, l
f, put, l = make()
---
f(X)
put(5)
f(X)
l[0] = 9
f(X)
put(X)
f(X)
### global changed
n = 1
def f(x): return x + n
---
f(X)
n = 2
f(X)
n = X
f(X)
n = Y
f(X)
n = 1.0
f(X)
del n
f(X)
### builtin shadowed by a global
def f(x): return x + len([1, 2]), max(1, 2)
---
f(X)
len = lambda l: 50
f(X)
max = min
f(X)
del len
f(X)
### global appears
def f(x):
    try:
        return x + late
    except NameError:
        return x
---
f(X)
late = 3
f(X)
del late
f(X)
### module attribute
mod = types.ModuleType("mod")
mod.n = 1
mod.g = lambda x: x + 1
def f(x): return mod.g(x) + mod.n
---
f(X)
mod.n = 2
f(X)
mod.g = lambda x: x - 1
f(X)
### module getattr added
mod = types.ModuleType("mod")
def f(x): return x + getattr(mod, "zz", 0)
---
f(X)
mod.__getattr__ = lambda name: 5
f(X)
mod.zz = 7
f(X)
""")
