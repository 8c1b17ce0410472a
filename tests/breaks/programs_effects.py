"""What is written around a break; identity over it; in-place operations, views, gradients, random numbers."""

from __future__ import annotations

from programs.texts import parse

PROGRAMS = parse(r"""
### append before and after
log = []
def f(x):
    log.append("before")
    y = x + 1
    print(len(log))
    log.append("after")
    return y * 2
### append of tensors before and after
log = []
def f(x):
    log.append(x + 1)
    print(len(log))
    log.append(x * 2)
    return log[-1] + log[-2]
### dict before and after
d = {"n": 0}
def f(x):
    d["n"] += 1
    d["x"] = x + 1
    print(sorted(d))
    d["n"] += 1
    d["y"] = d["x"] * 2
    return d["y"] + d["n"]
### dict deletions around
d = {"a": 1, "b": 2}
def f(x):
    d["c"] = 3
    del d["a"]
    print(list(d))
    d["a"] = 4
    d.pop("c")
    return x * d["a"], list(d)
### set around
s = set()
def f(x):
    s.add("a")
    y = x + 1
    print(sorted(s))
    s.add("b")
    s.discard("a")
    return y * len(s)
### attributes around
class O:
    n = 0
o = O()
def f(x):
    o.n += 1
    o.t = x * 2
    print(o.n)
    o.n += 1
    o.t = o.t + o.n
    return o.t
### attribute that is deleted
class O: pass
o = O()
def f(x):
    o.a = x + 1
    y = o.a * 2
    del o.a
    print(hasattr(o, "a"))
    o.a = 1
    return y
### globals around
N, M = 0, None
def f(x):
    global N, M
    N = N + 1
    M = x * N
    print(N)
    N = N + 1
    return M + N
### module attributes around
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.calls = 0
        self.register_buffer("seen", torch.zeros(3))
    def forward(self, x):
        self.calls += 1
        self.seen = self.seen + x.sum(0)
        print("calls", self.calls)
        self.seen += 1
        self.calls += 1
        return x * self.calls + self.seen
net = Net()
def f(x):
    return net(x)
---
f(X)
f(Y)
f(T(4, 3))
### class attribute around
class C:
    total = 0
def f(x):
    C.total += 1
    y = x * C.total
    print(C.total)
    C.total += 1
    return y + C.total
### the print sees the write
log = []
class Show:
    def __str__(self):
        return "log " + str(log)
show = Show()
def f(x):
    log.append(1)
    print(show)
    log.append(2)
    print(show)
    return x + len(log)
### writes in a callee around its break
log = []
def g(v):
    log.append("g1")
    print(len(log))
    log.append("g2")
    return v * 2
def f(x):
    log.append("f1")
    y = g(x)
    log.append("f2")
    return y + 1
### writes before a raise after a break
log = []
def f(x):
    log.append("a")
    print("p")
    log.append("b")
    if len(log) % 4 == 0:
        raise ValueError(len(log))
    return x + 1
---
f(X)
f(X)
f(X)
f(X)
### swap of list items around
l = [1, 2, 3]
def f(x):
    l[0], l[2] = l[2], l[0]
    y = x * l[0]
    print(l)
    l.reverse()
    l.insert(1, 9)
    return y + l[0]
### slice assignment around
l = [1, 2, 3, 4]
def f(x):
    l[1:3] = [7]
    print(l)
    l[:] = l + [8]
    return x * len(l)
### clear and refill
l = [1]
def f(x):
    l.clear()
    print(l)
    l.extend([x + 1, x + 2])
    return l[0] + l[1]
### nested containers from outside
d = {"a": [1, {"b": [2]}]}
def f(x):
    d["a"][1]["b"].append(3)
    y = x * len(d["a"][1]["b"])
    print(d)
    d["a"].append(4)
    return y + len(d["a"])
### an outside list stays itself
l = [1]
m = l
def f(x):
    l.append(2)
    print(l is m)
    m.append(3)
    return x + len(l), l is m
### the argument list stays itself
def f(x, out):
    out.append(x + 1)
    print(len(out))
    out.append(x + 2)
    return out
---
f(X, [])
f(X, [1])
f(X, [])
### an inside list in two places
def f(x):
    a = [x + 1]
    b = {"a": a}
    c = (a, a)
    print("between")
    a.append(2)
    return a is b["a"], c[0] is c[1], len(b["a"]), c
### an inside list put outside before the break
kept = []
def f(x):
    a = [1]
    kept.append(a)
    print(kept)
    a.append(x + 1)
    return kept[-1] is a, len(kept[-1])
### an inside object put outside before the break
class O: pass
kept = []
def f(x):
    o = O()
    o.t = x + 1
    kept.append(o)
    print(len(kept))
    o.u = o.t * 2
    return o.u, kept[-1] is o
### a cycle over the break
def f(x):
    a = [x + 1]
    a.append(a)
    print("cycle")
    return a[1] is a, a[0] * 2
### objects that point at each other
class N:
    def __init__(self, v):
        self.v, self.next = v, None
def f(x):
    a, b = N(x), N(x + 1)
    a.next, b.next = b, a
    print("linked")
    return a.next.next is a, a.v + b.v
### one tensor in two places
def f(x):
    y = x + 1
    a, b = [y], {"y": y}
    print("between")
    return a[0] is b["y"], a[0] is y, a[0] * 2
### a tensor stays itself over the break
def f(x):
    y = x
    print("between")
    return y is x, y
### the argument is returned after the break
def f(x):
    print("between")
    return x
### tuple identity
def f(x):
    t = (x + 1, [1])
    u = t
    print("between")
    return t is u, u[1] is t[1], t[0] * 2
### equal but distinct lists
def f(x):
    a, b = [1], [1]
    print(a is b)
    a.append(2)
    return x + len(a) - len(b), b
### is comparisons of outside objects
o1, o2 = object(), object()
def f(x, o):
    y = x + 1
    print(o is o1)
    return y * 2 if o is o1 else y * 3
---
f(X, o1)
f(X, o2)
f(X, o1)
### in-place on an input before the break
def f(x):
    x.add_(1)
    print("between")
    return x * 2
---
f(X)
f(X)
f(Y)
### in-place on an input after the break
def f(x):
    y = x * 2
    print("between")
    x.mul_(3)
    return y + x
---
f(X)
f(X)
f(Y)
### in-place on an input on both sides
def f(x):
    x.add_(1)
    print(float(x.sum()) > -1e9)
    x.add_(2)
    y = x * 2
    print("again")
    x.sub_(3)
    return y
---
f(X)
f(X)
f(Y)
### in-place seen by what the break calls
def f(x):
    y = x + 1
    y.mul_(2)
    print(y.sum().item() < 1e9)
    y.add_(1)
    return y
### augmented assignment of a tensor
def f(x):
    y = x + 1
    z = y
    y += 2
    print("between")
    y *= 3
    return y, z, y is z
### a view over the break
def f(x):
    y = x + 1
    v = y[0]
    print("between")
    v.add_(10)
    return y, v
### a view made before, base written after
def f(x):
    y = x * 2
    v = y.view(-1)
    print("between")
    y.add_(1)
    return v * 1, v
### a view of an input
def f(x):
    v = x.t()
    print("between")
    v.mul_(2)
    return v + 1
---
f(X)
f(X)
f(Y)
### item assignment around
def f(x):
    y = x.clone()
    y[0] = 0
    print("between")
    y[:, 1] = 5
    y[0, 0] += 3
    return y
### item assignment into an input
def f(x):
    x[0, 0] = 7
    print("between")
    x[1] = x[0] * 2
    return x.sum()
---
f(X)
f(X)
f(Y)
### out argument
def f(x):
    out = torch.empty_like(x)
    torch.add(x, 1, out=out)
    print("between")
    torch.mul(out, 2, out=out)
    return out
### copy_ into a buffer
buffer = torch.zeros(2, 3)
def f(x):
    buffer.copy_(x)
    print("between")
    buffer.add_(buffer)
    return buffer * 2
---
f(X)
f(Y)
f(X)
### two inputs that are one tensor
def f(x, y):
    x.add_(1)
    print(x is y)
    return y * 2
---
f(X, X)
f(X, Y)
f(Y, Y)
f(X, X)
### two inputs that share storage
def f(x, y):
    x.add_(1)
    print("between")
    y.mul_(2)
    return x + y
---
f(X, X[:])
f(X, Y)
f(X, X.view(2, 3))
### resize of the shape in place
def f(x):
    y = x + 1
    y.unsqueeze_(0)
    print(tuple(y.shape))
    y.squeeze_(0)
    return y * 2
### detach shares memory
def f(x):
    y = x + 1
    d = y.detach()
    print("between")
    d.add_(1)
    return y, d
### data of a parameter
p = nn.Parameter(torch.ones(3))
def f(x):
    y = x * p
    print("between")
    p.data.mul_(2)
    return y + p
---
f(X)
f(Y)
### gradient through a print
def f(x):
    y = x * 2
    print("between")
    return (y * y).sum()
def grad(g, v):
    v = v.clone().requires_grad_()
    g(v).backward()
    return v.grad
---
grad(f, X)
grad(f, X)
grad(f, Y)
grad(f, T(3, 4))
### gradient through three parts
def f(x):
    y = x.sin()
    print("one")
    z = y * x
    print("two")
    return (z.cos() + y).sum()
def grad(g, v):
    v = v.clone().requires_grad_()
    g(v).backward()
    return v.grad
---
grad(f, X)
grad(f, Y)
grad(f, X)
### gradient through a branch on data
def f(x):
    y = x * 2
    if y.sum() > 0:
        z = y * y
    else:
        z = y.abs()
    return z.sum()
def grad(g, v):
    v = v.clone().requires_grad_()
    g(v).backward()
    return v.grad
---
grad(f, X.abs())
grad(f, -X.abs())
grad(f, X.abs())
### gradient of parameters
lin = nn.Linear(3, 2)
def f(x):
    h = lin(x)
    print("between")
    return (h * h).sum()
def train(g, v):
    lin.zero_grad()
    loss = g(v)
    loss.backward()
    return loss, lin.weight.grad, lin.bias.grad
---
train(f, X)
train(f, X)
train(f, Y)
train(f, T(5, 3))
### backward inside, after a break
lin = nn.Linear(3, 2)
def f(x):
    lin.zero_grad()
    loss = lin(x).pow(2).sum()
    print("loss")
    loss.backward()
    return lin.weight.grad.clone()
---
f(X)
f(Y)
f(X)
### optimizer step inside
lin = nn.Linear(3, 2)
opt = torch.optim.SGD(lin.parameters(), lr=0.1)
def f(x):
    opt.zero_grad()
    loss = lin(x).pow(2).sum()
    loss.backward()
    opt.step()
    return loss.detach() * 2
---
f(X)
f(X)
f(X)
### gradient stops at detach
def f(x):
    y = (x * 2).detach()
    print("between")
    return (y * x).sum()
def grad(g, v):
    v = v.clone().requires_grad_()
    g(v).backward()
    return v.grad
---
grad(f, X)
grad(f, Y)
### requires_grad_ inside
def f(x):
    y = (x + 1).requires_grad_()
    print(y.requires_grad)
    z = (y * y).sum()
    z.backward()
    return y.grad
### a tensor hook over the break
def f(x):
    y = x * 2
    seen = []
    if y.requires_grad:
        y.register_hook(lambda g: seen.append(1))
    print("between")
    return (y * 3).sum()
def grad(g, v):
    v = v.clone().requires_grad_()
    g(v).backward()
    return v.grad
---
grad(f, X)
grad(f, X)
### retain_grad over the break
def f(x):
    y = x * 2
    y.retain_grad()
    print("between")
    z = (y * y).sum()
    z.backward()
    return y.grad * 1
def go(g, v):
    return g(v.clone().requires_grad_())
---
go(f, X)
go(f, Y)
### autograd function of the user's
class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx, t):
        print("forward")
        return t * 2
    @staticmethod
    def backward(ctx, g):
        return g * 2
def f(x):
    return (Double.apply(x + 1) * x).sum()
def grad(g, v):
    v = v.clone().requires_grad_()
    g(v).backward()
    return v.grad
---
grad(f, X)
grad(f, Y)
### random before and after
def f(x):
    a = torch.rand(3)
    print("between")
    b = torch.randn(3)
    return x.sum() + a + b
### dropout on both sides
def f(x):
    y = F.dropout(x, 0.5)
    print("between")
    return F.dropout(y + 1, 0.5)
### random in place and like
def f(x):
    y = torch.empty_like(x).uniform_()
    print("between")
    z = torch.rand_like(x)
    return y + z + x
### a generator of random numbers
def f(x):
    g = torch.Generator().manual_seed(3)
    y = torch.rand(2, generator=g)
    print("between")
    return y + torch.rand(2, generator=g), x + 1
### seed in the middle
def f(x):
    a = torch.rand(2)
    torch.manual_seed(5)
    b = torch.rand(2)
    print("between")
    c = torch.rand(2)
    return a, b, c, x + 1
### random state saved and put back
def f(x):
    state = torch.get_rng_state()
    a = torch.rand(2)
    print("between")
    torch.set_rng_state(state)
    b = torch.rand(2)
    return a == b, x + 1
### random of Python around
import random
def f(x):
    a = random.random()
    y = x * a
    print("between")
    b = random.randint(0, 10)
    return y + b
### random of numpy around
import numpy as np
def f(x):
    np.random.seed(3)
    y = x * float(np.random.rand())
    print("between")
    return y + int(np.random.randint(5))
### a random number decides
def f(x):
    y = x + 1
    if torch.rand(()) > 0.5:
        y = y * 2
    else:
        y = y * 3
    return y + torch.rand(())
### order of output and writes
import sys
events = []
def note(s):
    events.append(s)
    sys.stdout.write(s + "\n")
def f(x):
    note("a")
    y = x + 1
    events.append("b")
    note("c")
    events.append("d")
    return y * len(events)
### batch norm in training
bn = nn.BatchNorm1d(3)
def f(x):
    y = bn(x)
    print("between")
    return bn(y * 2) + 1
---
f(X)
f(Y)
f(T(4, 3))
### swap of attributes of two objects
class O: pass
a, b = O(), O()
a.v, b.v = 1, 2
def f(x):
    a.v, b.v = b.v, a.v
    print(a.v, b.v)
    a.v, b.v = b.v, a.v * 2
    return x * a.v + b.v
### property with state over a break
class Counter:
    def __init__(self):
        self._n = 0
    @property
    def n(self):
        self._n += 1
        return self._n
c = Counter()
def f(x):
    y = x * c.n
    print("between")
    return y + c.n
### slots
class P:
    __slots__ = ("a", "b")
p = P()
def f(x):
    p.a = x + 1
    print("between")
    p.b = p.a * 2
    q = P()
    q.a = 3
    print(q.a)
    q.b = p.b
    return q.b + q.a
### dataclass instances over the break
@dataclasses.dataclass
class State:
    h: typing.Any
    steps: int = 0
    tags: list = dataclasses.field(default_factory=list)
def f(x):
    s = State(x + 1)
    s.tags.append("a")
    print(s.steps, s.tags)
    s.steps += 1
    t = dataclasses.replace(s, h=s.h * 2)
    return t.h, t.tags is s.tags, s
### user dict and list subclasses
class L(list):
    pass
class D(dict):
    pass
def f(x):
    l, d = L([1, 2]), D(a=3)
    l.tag = "t"
    y = x * len(l)
    print(l.tag, d)
    l.append(y)
    d["b"] = l
    return d, l.tag
### memo in a dict from outside
memo = {}
def f(x, k):
    if k not in memo:
        print("compute", k)
        memo[k] = x * k
    return memo[k] + 1
---
f(X, 1)
f(X, 1)
f(X, 2)
f(Y, 1)
### a counter decides when to print
n = 0
def f(x):
    global n
    n += 1
    y = x * 2
    if n % 3 == 0:
        print("third")
    return y + 1
---
f(X)
f(X)
f(X)
f(X)
f(X)
f(X)
### the list that is iterated is changed after a break
l = [1, 2, 3]
def f(x):
    for n in list(l):
        x = x + n
        print(n)
        l.append(n * 2)
        l.pop(0)
    return x, l
### an opaque local that becomes none
import re
def f(x, use):
    it = re.compile("a") if use else None
    print("between")
    if it is None:
        return x + 1
    return x * 2
---
f(X, True)
f(X, True)
f(X, False)
f(X, True)
### an opaque local of another type
import re, zlib
def f(x, make):
    it = make()
    print("between")
    if isinstance(it, re.Pattern):
        return x + 1
    return x * 2
def a(): return re.compile("a")
def b(): return zlib.compressobj()
---
f(X, a)
f(X, b)
f(X, a)
f(X, b)
### two opaque locals that are the same or not
import zlib
def f(x, same):
    a = zlib.compressobj()
    b = a if same else zlib.compressobj()
    print("between")
    if a is b:
        return x + 1
    return x * 2
---
f(X, True)
f(X, False)
f(X, True)
f(X, False)
### an opaque local compared with a global
import zlib
g = zlib.compressobj()
def f(x, same):
    a = g if same else zlib.compressobj()
    print("between")
    if a is g:
        return x + 1
    return x * 2
---
f(X, False)
f(X, True)
f(X, True)
f(X, False)
### type of an opaque local
import re, zlib
def f(x, make):
    it = make()
    print("between")
    return x * len(type(it).__name__)
def a(): return re.compile("a")
def b(): return zlib.compressobj()
---
f(X, a)
f(X, b)
f(X, a)
### an opaque local in a list
import zlib
def f(x):
    it = zlib.compressobj()
    print("between")
    l = [it, it]
    print("again")
    return x + 1, l[0] is it, l[0] is l[1]
### truth of an opaque local
import array
def f(x, n):
    a = array.array("i", [1] * n)
    print("between")
    if a:
        return x + len(a)
    return x * 2
---
f(X, 2)
f(X, 0)
f(X, 3)
f(X, 2)
### an opaque dict key
import re
def f(x, which):
    a, b = re.compile("a"), re.compile("b")
    d = {a: 1, b: 2}
    k = a if which else b
    print("between")
    return x * d[k]
---
f(X, True)
f(X, False)
f(X, True)
### a generator of random numbers from outside
g = torch.Generator().manual_seed(3)
def f(x):
    y = torch.rand(2, generator=g)
    print("between")
    return y + torch.rand(2, generator=g), x + 1
### a generator of random numbers as an argument
def f(x, g):
    y = torch.rand(2, generator=g)
    print("between")
    return y + torch.rand(2, generator=g), x + 1
g1, g2 = torch.Generator().manual_seed(3), torch.Generator().manual_seed(4)
---
f(X, g1)
f(X, g1)
f(X, g2)
f(X, g1)
""")
