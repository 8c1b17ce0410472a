"""Numbers of other classes, tensors that are unpacked, torch's settings, dicts of classes."""

from __future__ import annotations

from .texts import parse

PROGRAMS = parse("""
### int subclass argument
class I(int): pass
i = I(3)
def f(x): return x * i, x.sum(dim=I(0)), i + 1
---
f(X)
f(Y)
i = I(4)
f(X)
### IntEnum argument
class E(enum.IntEnum):
    A = 0
    B = 1
def f(x, e): return x.sum(E.B), x * e, x[e], e + 1
---
f(X, E.A)
f(X, E.B)
f(Y, E.A)
### IntFlag
class E(enum.IntFlag):
    A = 1
    B = 2
def f(x, e): return x * (3 if e & E.B else 2), E.A | e
---
f(X, E.A)
f(X, E.A | E.B)
f(Y, E.A)
### str enum
class E(str, enum.Enum):
    A = "mean"
    B = "sum"
def f(x, e): return F.mse_loss(x, x * 2, reduction=e.value), E("sum") is e, e == "sum"
---
f(X, E.A)
f(X, E.B)
f(Y, E.A)
### float subclass
class Fl(float):
    def twice(self): return self * 2
v = Fl(2.5)
def f(x): return x * v, torch.add(x, x, alpha=v), v.twice()
---
f(X)
f(Y)
v = Fl(3.5)
f(Y)
### numpy scalars
import numpy as np
i = np.int64(3); g = np.float32(2.5)
def f(x): return x * int(i) + float(g)
---
f(X)
f(Y)
i = np.int64(2)
f(Y)
### numpy scalar as argument
import numpy as np
i = np.int64(1); g = np.float64(2.5)
def f(x): return x.sum(i), x * g
---
f(X)
f(Y)
### grad read None
W = T(3).requires_grad_(True)
def f(x): return x + (1 if W.grad is None else W.grad)
---
f(X)
f(Y)
W.grad = torch.ones(3)
f(X)
W.grad = None
f(X)
### module created inside no params
def f(x):
    m = nn.ReLU()
    s = nn.Sequential(nn.ReLU(), nn.Flatten())
    return s(m(x))
---
f(X)
f(Y)
### unpack tensor
def f(x):
    a, b = x
    return a + b
---
f(X)
f(Y)
### star tensor
def g(a, b): return a * b
def f(x):
    return g(*x), [*x], list(x), tuple(x)
---
f(X)
f(Y)
### zip tensor
def f(x, y):
    return [a * b for a, b in zip(x, y)], max(len(r) for r in x), [i for i, _ in enumerate(x)]
---
f(X, Y)
f(Y, X)
### map tensor
def f(x):
    return list(map(lambda r: r + 1, x)), list(reversed(x)), sum(x)
---
f(X)
f(Y)
### sum list
def f(x, y):
    return sum([x, y]), sum([x, y], x), sum((x * i for i in range(3)))
---
f(X, Y)
f(Y, X)
### noop to
def f(x):
    y = x.to(torch.float32)
    z = x.to("cpu")
    w = x.float()
    return y + z + w, y is x
---
f(X)
f(Y)
### contiguous
def f(x):
    y = x.contiguous()
    z = x.reshape(2, 3).expand_as(x)
    return y + z, y is x, x.detach() is x
---
f(X)
f(Y)
### closures order
a, b = T(3), T(3, seed=1)
def make(p, q):
    def f(x): return x * q + p
    return f
f = make(a, b)
---
f(X)
f(Y)
### neg bit
def f(x): return x * 2
---
f(torch.complex(X, Y).conj().imag)
f(torch.complex(X, Y).imag)
f(torch.complex(X, Y).conj().imag)
### neg bit 2
def f(x): return x.is_neg(), x.resolve_neg() is x, x + 1
---
f(torch.complex(X, Y).imag)
f(torch.complex(X, Y).conj().imag)
f(torch.complex(X, Y).imag)
### conj bit
def f(x): return x.is_conj(), x * 2
---
f(torch.complex(X, Y))
f(torch.complex(X, Y).conj())
f(torch.complex(X, Y))
### num threads
n0 = torch.get_num_threads()
def f(x): return x * torch.get_num_threads()
---
f(X)
torch.set_num_threads(2)
f(X)
torch.set_num_threads(1)
f(X)
torch.set_num_threads(n0)
### matmul precision
def f(x): return x * (2 if torch.get_float32_matmul_precision() == "highest" else 3)
---
f(X)
torch.set_float32_matmul_precision("high")
f(X)
torch.set_float32_matmul_precision("highest")
f(X)
### default dtype
def f(x): return x.to(torch.get_default_dtype())
---
f(X)
torch.set_default_dtype(torch.float64)
f(X)
torch.set_default_dtype(torch.float32)
f(X)
### backends flag
def f(x): return x * (2 if torch.backends.mkldnn.enabled else 3), x + (1 if torch.backends.cudnn.benchmark else 2)
---
f(X)
torch.backends.cudnn.benchmark = True
f(X)
torch.backends.cudnn.benchmark = False
f(X)
### autocast dtype
def f(x): return x.to(torch.get_autocast_dtype("cpu"))
---
f(X)
(torch.set_autocast_dtype("cpu", torch.float16), f(X), torch.set_autocast_dtype("cpu", torch.bfloat16))
f(X)
### deterministic warn only
def f(x): return x * (2 if torch.is_deterministic_algorithms_warn_only_enabled() else 3)
---
f(X)
(torch.use_deterministic_algorithms(True, warn_only=True), f(X), torch.use_deterministic_algorithms(False))
f(X)
(torch.use_deterministic_algorithms(True), f(X), torch.use_deterministic_algorithms(False))
### autocast cache
def f(x): return x * (2 if torch.is_autocast_cache_enabled() else 3)
---
f(X)
torch.set_autocast_cache_enabled(False)
f(X)
torch.set_autocast_cache_enabled(True)
f(X)
### class dict
class A:
    k = 3
    def m(self): return 1
def f(x): return x * A.__dict__["k"], sorted(n for n in vars(A) if not n.startswith("__")), "m" in A.__dict__
---
f(X)
A.k = 4
f(X)
A.z = 1
f(X)
### class annotations
class A:
    a: int
    b: str = "q"
def f(x): return x * len(A.__annotations__), list(A.__annotations__)
---
f(X)
A.__annotations__["c"] = float
f(X)
### tuple subclass with a dict
class Tp(tuple):
    def __new__(cls, *a): return super().__new__(cls, a)
    def first(self): return self[0]
t = Tp(3, 4)
def f(x):
    u = Tp(x, 2)
    u.note = 5
    return u.first() * t[1], u, len(t), t + (1,)
---
f(X)
t = Tp(3, 5)
f(X)
### record_function
def f(x):
    with torch.profiler.record_function("q"):
        y = x + 1
    with torch.autograd.profiler.record_function("z", "more"):
        y = y * 2
    return y
---
f(X)
f(Y)
### reflected comparisons
def f(x): return 1 < x, 2 <= x, 0 == x, 1 != x, 3 > x, 2.0 >= x, True == x
---
f(X)
f(Y)
""")
