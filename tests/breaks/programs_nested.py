"""Breaks in callees: what was captured before them is kept in all frames, and capture goes on in each of them."""

from __future__ import annotations

from programs.texts import parse

PROGRAMS = parse(r"""
### one level
def g(v):
    v = v * 2
    print("g")
    return v + 1
def f(x):
    y = g(x + 1)
    return y - 1
### two levels
def h(v):
    v = v * 3
    print("h")
    return v + 2
def g(v):
    v = h(v * 2)
    return v + 1
def f(x):
    y = g(x + 1)
    return y - 1
### three levels
def k(v):
    v = v.sin()
    print("k")
    return v.cos()
def h(v):
    return k(v * 3) + 3
def g(v):
    return h(v * 2) + 2
def f(x):
    return g(x + 1) + 1
### four levels with values on all stacks
def k(a, b):
    c = a + b
    print("k", c.shape)
    return c * 4
def h(a):
    return [a, k(a, a + 1), a * 3]
def g(a):
    return {"h": h(a * 2), "a": a}
def m(a):
    return (a, g(a + 1), a - 1)
def f(x):
    y = x * 2
    t = m(y)
    return y + t[0] + t[1]["h"][1] + t[2]
### a break on each level
def h(v):
    v = v * 3
    print("h")
    return v + 3
def g(v):
    v = v * 2
    print("g before")
    v = h(v)
    print("g after")
    return v + 2
def f(x):
    x = x + 1
    print("f before")
    y = g(x)
    print("f after")
    return y - 1
### the same callee twice
def g(v):
    v = v * 2
    print("g", v.dim())
    return v + 1
def f(x):
    return g(x) + g(x + 1)
### the same callee with other types
def g(v):
    v = v * 2
    print("g")
    return v + 1
def f(x):
    return g(x) + g(3) + g(1.5)
### a callee in an expression
def g(v):
    print("g")
    return v + 1
def f(x):
    return (x * 2) + g(x) * (x - 1) / (g(x).abs() + 1)
### a callee as an argument of a callee
def g(v):
    print("g")
    return v + 1
def f(x):
    return g(g(g(x * 2)))
### branch on data in a callee
def g(v):
    if v.sum() > 0:
        return v + 1
    return v - 1
def f(x):
    y = x * 2
    return g(y) * 3 + g(-y)
---
f(X)
f(-X)
f(X.abs())
f(-X.abs())
### item two levels down
def amount(v):
    return v.max().item()
def scale(v):
    return v / (amount(v) + 10)
def f(x):
    return scale(x + 1) * 2
---
f(X)
f(Y)
f(X)
### a method
class Model:
    def __init__(self):
        self.k = 3
    def step(self, v):
        v = v * self.k
        print("step", self.k)
        self.k += 1
        return v + self.k
m = Model()
def f(x):
    return m.step(m.step(x)) - 1
### a bound method as a value
class Model:
    k = 2
    def step(self, v):
        print("step")
        return v * self.k
m = Model()
def f(x):
    step = m.step
    y = step(x + 1)
    return step(y) - 1
### super
class Base:
    def run(self, v):
        v = v * 2
        print("base")
        return v + 1
class Derived(Base):
    def run(self, v):
        v = super().run(v + 1)
        return v - 1
d = Derived()
def f(x):
    return d.run(x) * 3
### super in init
class Base:
    def __init__(self, v):
        print("base")
        self.v = v * 2
class Derived(Base):
    def __init__(self, v):
        super().__init__(v + 1)
        self.w = self.v - 1
def f(x):
    d = Derived(x)
    return d.v + d.w
### super over a break
class Base:
    def run(self, v):
        return v * 2
class Derived(Base):
    def run(self, v):
        v = v + 1
        print("before super")
        return super().run(v) - 1
d = Derived()
def f(x):
    return d.run(x) * 3
### diamond of supers
class A:
    def go(self, v):
        print("A")
        return v + 1
class B(A):
    def go(self, v):
        v = super().go(v * 2)
        print("B")
        return v
class C(A):
    def go(self, v):
        v = super().go(v * 3)
        print("C")
        return v
class D(B, C):
    def go(self, v):
        return super().go(v) - 1
d = D()
def f(x):
    return d.go(x) * 2
### a module
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(3, 4)
        self.b = nn.Linear(4, 2)
    def forward(self, x):
        h = self.a(x).relu()
        print("hidden", tuple(h.shape))
        return self.b(h)
net = Net()
def f(x):
    return net(x) * 2
---
f(X)
f(X)
f(T(5, 3))
### a module in a module in a module
class Inner(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.ones(3))
    def forward(self, x):
        y = x * self.w
        print("inner")
        return y + 1
class Middle(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Inner()
        self.lin = nn.Linear(3, 3)
    def forward(self, x):
        return self.lin(self.inner(x) * 2)
class Outer(nn.Module):
    def __init__(self):
        super().__init__()
        self.middle = Middle()
    def forward(self, x):
        return self.middle(x + 1).relu()
net = Outer()
def f(x):
    return net(x) - 1
---
f(X)
f(Y)
f(T(4, 3))
### a sequential with a module that prints
class Show(nn.Module):
    def forward(self, x):
        print("show", tuple(x.shape))
        return x
net = nn.Sequential(nn.Linear(3, 4), Show(), nn.ReLU(), Show(), nn.Linear(4, 1))
def f(x):
    return net(x) + 1
---
f(X)
f(T(4, 3))
f(X)
### a forward pre hook that prints
lin = nn.Linear(3, 3)
def hook(module, args):
    print("pre", len(args))
    return (args[0] * 2,)
lin.register_forward_pre_hook(hook)
def f(x):
    return lin(x) + 1
---
f(X)
f(Y)
### a forward hook that prints
lin = nn.Linear(3, 3)
def hook(module, args, output):
    print("hook", tuple(output.shape))
    return output + 1
lin.register_forward_hook(hook)
def f(x):
    return lin(x * 2) - 1
---
f(X)
f(Y)
### a forward hook that stores
lin = nn.Linear(3, 3)
kept = {}
def hook(module, args, output):
    kept["out"] = output.detach()
    print("kept")
lin.register_forward_hook(hook)
def f(x):
    y = lin(x * 2) - 1
    return y + kept["out"]
---
f(X)
f(Y)
### a closure that reads
def f(x):
    k = 3
    def inner(v):
        v = v * k
        print("inner", k)
        return v + k
    return inner(x + 1) - 1
### a closure with nonlocal
def f(x):
    n = 0
    def inner(v):
        nonlocal n
        n += 1
        print("inner", n)
        n += 1
        return v * n
    y = inner(x)
    y = inner(y)
    return y, n
### a closure over a tensor that changes
def f(x):
    t = x + 1
    def bump():
        nonlocal t
        t = t * 2
        print("bump")
        t = t + 1
    bump()
    bump()
    return t - 1
### closures made before the break and called after
def f(x):
    fs = [lambda v, k=k: v * k for k in range(3)]
    y = x + 1
    print("made", len(fs))
    for g in fs:
        y = y + g(x)
    return y
### a closure returned after a break
def make(k):
    print("make", k)
    def inner(v):
        return v * k
    return inner
def f(x):
    g = make(3)
    h = make(4)
    return g(x) + h(x)
### two closures share a cell over a break
def f(x):
    n = 1
    def up():
        nonlocal n
        n += 1
    def read():
        return n
    y = x * read()
    up()
    print("n", read())
    up()
    return y + read(), n
### a closure in a closure
def f(x):
    a = 2
    def outer(v):
        b = 3
        def inner(w):
            print("inner", a, b)
            return w * a + b
        return inner(v) + b
    return outer(x + 1) - a
### closure over a loop variable
def f(x):
    out = []
    for i in range(3):
        def g():
            return x * i
        print(i)
        out.append(g)
    return out[0]() + out[2]()
### recursion
def g(v, n):
    if n == 0:
        return v
    print("down", n)
    v = g(v * 2, n - 1)
    return v + n
def f(x):
    return g(x, 3) - 1
### recursion of the compiled function itself
def f(x, n=3):
    if n == 0:
        print("bottom")
        return x
    return f(x + n, n - 1) * 2
### mutual recursion on data
def even(v, n):
    if v.sum() > 1e6 or n == 0:
        return v
    return odd(v * 2, n - 1)
def odd(v, n):
    if n == 0:
        return v + 1
    return even(v + 1, n - 1)
def f(x):
    return even(x, 5)
---
f(X)
f(X * 1e6)
### recursion over a tree
def walk(tree, v):
    if isinstance(tree, tuple):
        left, right = tree
        print("node")
        return walk(left, v * 2) + walk(right, v * 3)
    return v + tree
def f(x):
    return walk(((1, 2), (3, (4, 5))), x) - 1
### a lambda
def f(x):
    g = lambda v: (v * 2, print("in lambda"))[0] + 1
    return g(x) - g(x + 1)
### lambda default and keyword
def f(x):
    g = lambda v, k=2, *, b=1: print("g", k, b) or v * k + b
    return g(x) + g(x, 3) + g(x, b=5)
### star arguments
def g(*args, **kwargs):
    print(len(args), sorted(kwargs))
    return sum(args) * kwargs.get("k", 1)
def f(x):
    return g(x, x + 1) + g(x, k=3) + g(*[x, x, x], **{"k": 2, "j": 1})
### star arguments passed on
def h(a, b=2, *rest, c=3, **more):
    print("h", b, len(rest), c, more)
    return a * b + c + len(rest)
def g(*args, **kwargs):
    return h(*args, **kwargs) + 1
def f(x):
    return g(x) + g(x, 5, 6, 7, c=8, d=9)
### positional only and keyword only
def g(a, b, /, c, *, d=4):
    a = a + b
    print("g", c, d)
    return a * c - d
def f(x):
    return g(x, 1, 2) + g(x, 1, c=3, d=5)
### default argument that is mutable
def g(v, seen=[]):
    seen.append(len(seen))
    print("seen", seen)
    return v * len(seen)
def f(x):
    return g(x) + g(x, [5, 6])
### default argument that is a tensor
W = torch.full((3,), 2.0)
def g(v, w=W):
    v = v * w
    print("g")
    return v + w
def f(x):
    return g(x) + g(x, w=W + 1)
---
f(X)
f(Y)
### a decorator that prints
def loud(function):
    def inner(*args, **kwargs):
        print("call", function.__name__)
        result = function(*args, **kwargs)
        print("done", function.__name__)
        return result
    return inner
@loud
def g(v, k=2):
    return v * k
def f(x):
    return g(x) + g(x, k=3)
### a stack of decorators
def tag(name):
    def outer(function):
        @functools.wraps(function)
        def inner(v):
            v = function(v + 1)
            print(name)
            return v * 2
        return inner
    return outer
@tag("a")
@tag("b")
@tag("c")
def g(v):
    return v - 1
def f(x):
    return g(x) + 1
### a decorator on f itself
def loud(function):
    @functools.wraps(function)
    def inner(x):
        y = function(x + 1)
        print("after", function.__name__)
        return y * 2
    return inner
@loud
def f(x):
    print("inside")
    return x * 3
### a break in a comprehension's callee
def g(v, i):
    v = v * i
    print("g", i)
    return v + 1
def f(x):
    l = [g(x, i) for i in range(3)]
    return sum(l) - 1
### a break in a generator's consumer
def pairs(v):
    for i in range(3):
        yield v * i, i
def f(x):
    total = 0
    for a, i in pairs(x + 1):
        total = total + a
        print("got", i)
    return total
### yield from
def one(v):
    yield v
    print("one")
    yield v * 2
def two(v):
    yield from one(v)
    yield v * 3
def f(x):
    return sum(two(x + 1)) - 1
### generator send
def acc():
    total = 0
    while True:
        v = yield total
        if v is None:
            return
        total = total + v
        print("sent")
def f(x):
    g = acc()
    next(g)
    a = g.send(x)
    b = g.send(x * 2)
    g.close()
    return a + b
### generator from outside
def source():
    n = 0
    while True:
        n += 1
        yield n
gen = source()
def f(x):
    y = x * next(gen)
    print("next")
    return y + next(gen)
### a break in a property of a nested call
class C:
    def __init__(self, t):
        self.t = t
    @property
    def norm(self):
        return self.t.norm().item()
    def unit(self):
        return self.t / self.norm
def f(x):
    return C(x + 1).unit() * 2
---
f(X)
f(Y)
### a break under an operator of a nested call
class V:
    def __init__(self, t):
        self.t = t
    def __matmul__(self, other):
        print("matmul")
        return V(self.t @ other.t.T)
def g(a, b):
    return (a @ b).t + 1
def f(x):
    return g(V(x), V(x * 2)) - 1
### map of a callee with nested break
def h(v):
    print("h")
    return v * 2
def g(v):
    return h(v) + 1
def f(x):
    return torch.stack(list(map(g, [x, x + 1]))).sum(0)
### callable object in a list
class Scale:
    def __init__(self, k):
        self.k = k
    def __call__(self, v):
        v = v * self.k
        print("scale", self.k)
        return v + 1
pipeline = [Scale(2), Scale(3), torch.relu, Scale(4)]
def f(x):
    for stage in pipeline:
        x = stage(x)
    return x
### a function passed as an argument
def apply(function, v, times):
    for _ in range(times):
        v = function(v)
    return v
def g(v):
    print("g")
    return v * 2
def f(x):
    return apply(g, x + 1, 2) + apply(torch.sin, x, 2) + apply(lambda v: v - 1, x, 1)
### dispatch by a dict of functions
def add(v):
    print("add")
    return v + 1
def mul(v):
    return v * 2
table = {"add": add, "mul": mul}
def f(x, *names):
    for name in names:
        x = table[name](x)
    return x
---
f(X, "add", "mul", "add")
f(X, "add", "mul", "add")
f(X, "mul")
f(Y, "mul", "add")
### values of all kinds live over a nested break
Point = collections.namedtuple("Point", "a b")
def g(v):
    print("g")
    return v
def f(x):
    p = Point(x + 1, [x * 2])
    d = collections.OrderedDict(a=p, b=p.b)
    s = slice(0, 1)
    c = collections.Counter("aab")
    dd = collections.defaultdict(list, k=[x])
    q = collections.deque([1, x])
    z = {1, 2}, frozenset({3}), range(3), b"b", 1j, ..., None
    y = g(x)
    dd["n"].append(y)
    return d["a"].b is d["b"], p.a[s] + y.sum(), c, dd, q, z
### the callee raises after its break
def g(v):
    v = v + 1
    print("g")
    raise ValueError("in g")
def f(x):
    y = x * 2
    try:
        y = g(y)
    except ValueError as error:
        y = y * len(str(error))
    return y - 1
### the callee raises after its break, three levels
def h(v):
    print("h")
    raise KeyError("h")
def g(v):
    return h(v + 1) + 1
def f(x):
    return g(x * 2)
### a callee's finally
log = []
def g(v):
    try:
        v = v * 2
        print("g")
        return v + 1
    finally:
        log.append("left")
def f(x):
    return g(x) - 1, list(log)
### a break in a callee of a callee of C code
def key(n):
    return weight(n)
def weight(n):
    print("weight", n)
    return -n
def f(x):
    y = x + 1
    l = sorted([1, 3, 2], key=key)
    return y * l[0]
### many locals
def g(v):
    print("g")
    return v + 1
def f(x):
    a, b, c, d, e = x + 1, x + 2, x + 3, x + 4, x + 5
    h, i, j, k, l = 1, "s", (2, 3), [4], {5: 6}
    y = g(x)
    return a + b + c + d + e + y + h + len(i) + j[1] + k[0] + l[5]
### del of a local before a break
def f(x):
    a = x + 1
    b = a * 2
    del a
    print("b")
    return b - 1
### an unbound local after a break
def f(x):
    if x.dim() > 5:
        a = 1
    print("go")
    return a
### global statement in a callee
N = 0
def g(v):
    global N
    N += 1
    print("N", N)
    N += 1
    return v * N
def f(x):
    return g(x) + g(x) + N
### import inside
def f(x):
    import string
    y = x + 1
    print(string.digits)
    from os import path as p
    return y * len(p.join("a", "b"))
### match statement
def f(x, command):
    y = x + 1
    match command:
        case ("scale", k):
            print("scale", k)
            y = y * k
        case {"op": op, **rest}:
            print("op", op, rest)
            y = y + len(rest)
        case str() as s:
            y = y - len(s)
        case _:
            print("nothing")
    return y * 2
---
f(X, ("scale", 3))
f(X, {"op": "a", "b": 1})
f(X, "abc")
f(X, 5)
f(X, ("scale", 3))
### chained method calls
class Chain:
    def __init__(self, t):
        self.t = t
    def add(self, n):
        print("add", n)
        self.t = self.t + n
        return self
    def mul(self, n):
        self.t = self.t * n
        return self
def f(x):
    return Chain(x).add(1).mul(2).add(3).mul(4).t
### compiled method of an object
class Model:
    def __init__(self):
        self.k = 2
    def forward(self, x):
        y = x * self.k
        print("k", self.k)
        self.k += 1
        return y + self.k
model = Model()
f = model.forward
""")
