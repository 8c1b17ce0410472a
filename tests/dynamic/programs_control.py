"""Sizes and numbers across breaks, errors, calls, threads; marks and settings. See texts.py for the form."""

from __future__ import annotations

from .texts import parse

PROGRAMS = parse("""
### a size across a break
def f(x):
    n = x.shape[0] * 2
    y = x + 1
    print("break")
    return y * n, n
---
@ f(T(n, 3)) | 3 4 5 7

### an int argument across a break
def f(x, k):
    y = x + k
    print("break")
    return y * k, k
---
@ f(X, n) | 3 4 5 7

### a loop that counts over a break
def f(x):
    i = 0
    while i < 6:
        x = x + i
        print("turn")
        i += 1
    return x, i
---
f(X)
f(Y)

### a for loop over a break
def f(x):
    for i in range(6):
        x = x * i + x.shape[0]
        print("turn", i)
    return x
---
@ f(T(n, 3)) | 3 4 5

### a tensor that grows over a break
def f(x):
    for i in range(6):
        x = torch.cat([x, x[:1]])
        print("turn")
    return x
---
f(X)
f(Y)

### a size made after a break
def f(x):
    y = x[x > 0]
    print("break")
    return y * y.shape[0]
---
@ f(T(n, 3)) | 3 4 5 7

### a break in a callee with a number
def g(x, k):
    print("in g")
    return x * k
def f(x):
    n = x.shape[0]
    return g(x, n + 1) + n
---
@ f(T(n, 3)) | 3 4 5 7

### a float computed of a size across a break
def f(x):
    s = x.shape[0] / 4
    y = x * s
    print("break")
    return y + s, s
---
@ f(T(n, 3)) | 3 4 5 7

### an operation that breaks, of a size that varies
def f(e, x):
    mask = e[0] != e[1]
    e = e[:, mask]
    return x * 2, e
---
@ f(torch.arange(2 * n).view(2, n) % 4, T(n, 3)) | 3 5 6 7 9

### numbers in containers across a break
def f(x, k):
    d = {"k": k, "l": [k, x.shape[0]]}
    y = x + 1
    print("break")
    return y * d["l"][1], d
---
@ f(T(n, 3), n) | 3 4 5 7

### a shape across a break
def f(x):
    s = x.shape
    y = x.reshape(-1)
    print("break")
    return y.view(s) + s[0], s
---
@ f(T(n, 3)) | 3 4 5 7

### a closure over a number across a break
def f(x, k):
    def g(v):
        return v * k
    y = g(x)
    print("break")
    return g(y)
---
@ f(X, n) | 3 4 5 7

### an operation that fails for one size
def f(x):
    try:
        y = x.view(-1, 4)
    except RuntimeError:
        y = x * 0
    return y + 1
---
@ f(T(n, 2)) | 4 6 8 5 10 7 12

### an error that depends on an int
def f(x, k):
    if k > 4:
        raise ValueError(f"too large: {k}")
    return x * k
---
@ f(X, n) | 2 3 5 4 6 1

### an error raised with a size in it
def f(x):
    y = x * 2
    if x.shape[0] > 4:
        raise KeyError(x.shape[0], x.shape)
    return y
---
@ f(T(n, 3)) | 2 3 5 4 6

### an error after a write
L = []
def f(x, k):
    L.append(k)
    return x[k] * 2
---
@ f(T(4, 2), n) | 1 2 3 4 5 0

### an error handled outside of the call that raises
def g(x, k):
    return x[k]
def f(x, k):
    try:
        return g(x, k) * k
    except IndexError:
        return x.sum() - k
---
@ f(T(4, 2), n) | 1 2 3 4 5 0 6

### finally and with around numbers
log = []
@contextlib.contextmanager
def cm(k):
    log.append(("in", k))
    try:
        yield k + 1
    finally:
        log.append(("out", k))
def f(x, k):
    with cm(k) as m:
        y = x * m
    return y
---
@ f(X, n) | 1 2 3 4

### a module in training and evaluation
m = nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.5), nn.BatchNorm1d(4))
def f(x):
    return m(x)
---
@ f(T(n, 3)) | 3 4 5
m.eval()
@ f(T(n, 3)) | 3 4 5
m.train()
@ f(T(n, 3)) | 6 7

### a module that is compiled by its method
class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(T(3, 4))
        self.register_buffer("b", T(8, 4))
    def forward(self, x):
        return x @ self.w + self.b[: x.shape[0]]
m = M()
def f(x):
    return m.forward(x)
---
@ f(T(n, 3)) | 3 4 5 6

### a generator that is kept
def gen(x, k):
    for i in range(2):
        yield x * (k + i)
def f(x, k):
    return list(gen(x, k))
---
@ f(X, n) | 3 4 5 6

### two functions that call each other
def g(x, k):
    return f2(x, k - 1) if k > 0 else x
def f2(x, k):
    return g(x * 2, k - 1) if k > 0 else x
def f(x, k):
    return g(x, k), f2(x, k)
---
@ f(X, n) | 3 4 5 3

### a decorated function
def twice(fn):
    @functools.wraps(fn)
    def inner(x, k):
        return fn(fn(x, k), k + 1)
    return inner
@twice
def g(x, k):
    return x * k
def f(x, k):
    return g(x, k)
---
@ f(X, n) | 3 4 5 6

### dynamic=True
# options: dynamic=True
def f(x, k):
    return x * k + x.shape[0]
---
@ f(T(n, 3), n) | 3 4 5 6

### dynamic=True, sizes that are equal once
# options: dynamic=True
def f(x, y):
    return x.sum() + y.sum() + x.shape[0] * y.shape[0]
---
f(T(3, 3), T(3, 3))
f(T(4, 3), T(4, 3))
f(T(4, 3), T(5, 3))
f(T(5, 4), T(6, 3))

### dynamic=True with 0 and 1
# options: dynamic=True
def f(x):
    return x * 2 + x.shape[0]
---
@ f(T(n, 3)) | 1 0 3 4 1 0

### dynamic=False
# options: dynamic=False
def f(x, k):
    return x * k + x.shape[0]
---
@ f(T(n, 3), n) | 3 4 5 6

### assume_static_by_default=False
# settings: assume_static_by_default=False
def f(x):
    return x * x.shape[0]
---
@ f(T(n, 3)) | 3 4 5 6

### automatic_dynamic_shapes=False
# settings: automatic_dynamic_shapes=False
def f(x):
    return x * x.shape[0]
---
@ f(T(n, 3)) | 3 4 5 6

### specialize_int=True
# settings: specialize_int=True
def f(x, k):
    return x * k
---
@ f(X, n) | 3 4 5 6

### mark_dynamic
def M(n):
    x = T(n, 3)
    torch._dynamo.mark_dynamic(x, 0)
    return x
def f(x):
    return x * x.shape[0]
---
@ f(M(n)) | 3 4 5 6

### mark_dynamic with bounds
def M(n):
    x = T(n, 3)
    torch._dynamo.mark_dynamic(x, 0, min=2, max=10)
    return x
def f(x):
    return x * x.shape[0] if x.shape[0] < 11 else x
---
@ f(M(n)) | 3 4 5 6 10

### maybe_mark_dynamic of a size that becomes a constant
def M(n):
    x = T(n, 3)
    torch._dynamo.maybe_mark_dynamic(x, 0)
    return x
def f(x):
    return x * 2, [0] * x.shape[0]
---
@ f(M(n)) | 3 4 5

### mark_static
def M(n):
    x = T(n, 3)
    torch._dynamo.mark_static(x, 0)
    return x
def f(x):
    return x * x.shape[0]
---
@ f(M(n)) | 3 4 5

### allow_ignore_mark_dynamic
# settings: allow_ignore_mark_dynamic=True
def M(n):
    x = T(n, 3)
    torch._dynamo.mark_dynamic(x, 0)
    return x
def f(x):
    return x * 2, [0] * x.shape[0]
---
@ f(M(n)) | 3 4 5

### a marked size of 1
def M(n):
    x = T(n, 3)
    torch._dynamo.mark_dynamic(x, 0)
    return x
def f(x):
    return x * 2
---
@ f(M(n)) | 3 4 1 5

### two marked sizes that must be equal
def M(n):
    x = T(n, 3)
    torch._dynamo.mark_dynamic(x, 0)
    return x
def f(x, y):
    return x + y
---
@ f(M(n), M(n)) | 3 4 5

### the recompile limit
# settings: recompile_limit=3
def f(x):
    return x * 2, [0] * x.shape[0]
---
@ f(T(n, 3)) | 2 3 4 5 6 7 3 2

### grad mode changes
def f(x):
    return x * x.shape[0]
def g(x):
    with torch.no_grad():
        return f(x)
---
@ f(T(n, 3).requires_grad_()) | 3 4 5
@ g(T(n, 3).requires_grad_()) | 3 4 5
@ f(T(n, 3).requires_grad_()) | 6 7

### autograd.Function with a size saved
class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, k):
        ctx.k = k
        return x * k
    @staticmethod
    def backward(ctx, g):
        return g * ctx.k, None
def f(x):
    return Scale.apply(x, x.shape[0]).sum()
def back(x):
    f(x).backward()
    return x.grad
---
@ back(T(n, 3).requires_grad_()) | 3 4 5

### checkpointing
import torch.utils.checkpoint
def f(x):
    return torch.utils.checkpoint.checkpoint(lambda v: (v * v.shape[0]).sin(), x, use_reentrant=False)
---
@ f(T(n, 3)) | 3 4 5

### torch.cond like branches on data
def f(x, k):
    if x.sum() > 0:
        return x * k
    return x - k
---
@ f(T(n, 3), n) | 3 4 5 6

### torch._check on a size
def f(x):
    torch._check(x.shape[0] > 1)
    return x * 2
---
@ f(T(n, 3)) | 3 4 5 6

### is_compiling and sizes
def f(x):
    return x * x.shape[0], torch.jit.is_scripting()
---
@ f(T(n, 3)) | 3 4 5 6

### torch.Size arithmetic
def f(x):
    s = x.shape + (2,)
    t = x.shape[:-1] + torch.Size([3])
    return torch.zeros(s), x.view(t), s, s[::-1], (1, *x.shape), 2 * x.shape, len(s), s.index(3), s.count(2)
---
@ f(T(n, 3)) | 4 5 6 7

### shapes as dict keys
cache = {}
def f(x):
    if x.shape not in cache:
        cache[x.shape] = 1
    return x * 2
---
@ f(T(n, 3)) | 4 5 4 6 5

### vmap over a varying batch
def f(x):
    return torch.vmap(lambda v: v * 2 + v.shape[0])(x)
---
@ f(T(n, 3)) | 4 5 6 7

### torch.func.grad over varying sizes
def f(x):
    return torch.func.grad(lambda v: (v ** 2).sum() * v.shape[0])(x)
---
@ f(T(n, 3)) | 4 5 6 7
""")
