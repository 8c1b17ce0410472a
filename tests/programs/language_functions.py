"""Functions in captured code: closures, arguments, decorators, functools, itertools and the like."""

from __future__ import annotations

from .texts import parse

PROGRAMS = parse(r"""
### nested functions and closures
def f(x, n=2):
    def add(v):
        return v + n
    def twice(g):
        return lambda v: g(g(v))
    return twice(add)(x), twice(twice(add))(1)
### nonlocal counter
def f(x):
    count = 0
    def bump(by=1):
        nonlocal count
        count += by
        return count
    bump(); bump(3)
    return x + count, count
### closure made outside
def make(n):
    k = [n]
    def f(x):
        return x + n + k[0]
    return f, k
f, k = make(3)
---
f(X)
k[0] = 10
f(X)
### closure with nonlocal outside
def make():
    n = 0
    def f(x):
        nonlocal n
        n += 1
        return x * n
    def get():
        return n
    return f, get
f, get = make()
---
f(X)
f(X)
get()
f(X)
### returned closure
def f(x, n=2):
    y = x + 1
    def g(z):
        return y + z + n
    return g
---
f(X)(1)
f(X)(Y)
f(X, 3)(Y)
### returned closure with shared cell
def f(x):
    n = 0
    def inc():
        nonlocal n
        n += 1
        return n
    def get():
        return n
    inc()
    return inc, get, x + 1
---
(lambda r: (r[0](), r[1](), r[0](), r[1]()))(f(X))
(lambda r: (r[0](), r[1](), r[0](), r[1]()))(f(X))
### default arguments
def g(a, b=2, *c, d=4, **e):
    return a + b + sum(c) + d + sum(e.values())
def f(x):
    return g(x), g(x, 3), g(x, 3, 4, 5), g(x, d=5), g(x, z=9, y=8), g(*[x, 1], **{"d": 2})
### mutable default
def f(x, seen=[]):
    seen.append(len(seen))
    return x + len(seen), seen
---
f(X)
f(X)
f(X, [])
f(X)
### args and kwargs
def g(*args, **kwargs):
    return args, kwargs
def f(*args, **kwargs):
    a, k = g(*args, y=1, **kwargs)
    return a[0] + len(a) + sum(k.values()), k, args
---
f(X)
f(X, 1, z=2)
f(X, 2, z=3)
f(X, z=3)
### kwargs mutated
def f(x, **kw):
    kw["new"] = x
    kw.pop("a", None)
    return kw
---
f(X, a=1)
f(X, b=2)
f(X, a=1)
### positional only and keyword only
def g(a, /, b, *, c):
    return a * b + c
def f(x):
    try:
        g(a=1, b=2, c=3)
    except TypeError as e:
        m = str(e)
    return g(x, 2, c=3), g(x, b=2, c=1), m
### lambda and recursion
def f(x, n=4):
    fact = lambda k: 1 if k <= 1 else k * fact(k - 1)
    def depth(l):
        return 1 + max(map(depth, l), default=0) if isinstance(l, list) else 0
    return x + fact(n), depth([1, [2, [3]]])
### global function recursion
def walk(t, n):
    return t if n == 0 else walk(t * 2, n - 1) + n
def f(x):
    return walk(x, 5)
### decorators with wraps
def deco(scale):
    def wrap(fn):
        @functools.wraps(fn)
        def inner(*a, **k):
            return fn(*a, **k) * scale
        return inner
    return wrap
@deco(3)
def g(x):
    "doc"
    return x + 1
def f(x):
    return g(x), g.__name__, g.__doc__, g.__wrapped__(x)
### decorated root
def deco(fn):
    @functools.wraps(fn)
    def inner(x, *a):
        return fn(x + 1, *a)
    return inner
@deco
def f(x, n=2):
    return x * n
### partial
def g(a, b, c=1):
    return a * b + c
h = functools.partial(g, c=5)
def f(x):
    k = functools.partial(g, x)
    return h(x, 2), k(3), k(3, c=4), k.func is g, functools.partial(h, x)(7)
### partial returned
def g(a, b):
    return a + b
def f(x):
    return functools.partial(g, x * 2)
---
f(X)(1)
f(X)(2)
### partial of tensor op
p = functools.partial(torch.add, alpha=2)
def f(x):
    return p(x, x), functools.partial(torch.sum, dim=0)(x)
### partialmethod
class A:
    def m(self, a, b):
        return a + b
    m2 = functools.partialmethod(m, 2)
def f(x):
    return A().m2(x)
### reduce
def f(x):
    return functools.reduce(lambda a, b: a + b, [x, x, 1]), functools.reduce(operator.mul, [1, 2, 3], 4), functools.reduce(torch.add, (x, x))
### lru_cache
@functools.lru_cache(None)
def g(n):
    return n * 2
def f(x):
    return x + g(3) + g(3)
### cached_property
class A:
    def __init__(self, n):
        self.n = n
    @functools.cached_property
    def v(self):
        return self.n * 2
a = A(3)
def f(x):
    b = A(4)
    return x + a.v + b.v + b.v
---
f(X)
f(X)
a = A(9)
f(X)
### singledispatch
@functools.singledispatch
def g(v):
    return "other"
@g.register
def _(v: int):
    return "int"
@g.register(list)
def _(v):
    return "list"
def f(x):
    return x + 1, g(1), g([]), g("s")
### total_ordering and cmp_to_key
@functools.total_ordering
class V:
    def __init__(self, n): self.n = n
    def __eq__(self, o): return self.n == o.n
    def __lt__(self, o): return self.n < o.n
def f(x):
    return x + 1, V(1) <= V(2), V(3) >= V(2), max(V(1), V(5)).n, sorted([3, 1, 2], key=functools.cmp_to_key(lambda a, b: b - a))
### itertools
def f(x):
    return (x + sum(itertools.chain([1], (2, 3))), list(itertools.islice(itertools.count(5, 2), 3)), list(itertools.product("ab", [1, 2])),
            list(itertools.permutations([1, 2, 3], 2)), list(itertools.combinations("abc", 2)), list(itertools.accumulate([1, 2, 3])),
            list(itertools.zip_longest([1], [2, 3])), [(k, list(g)) for k, g in itertools.groupby("aab")], list(itertools.repeat(1, 2)),
            list(itertools.starmap(pow, [(2, 3)])), list(itertools.takewhile(lambda v: v < 3, [1, 5])), list(itertools.pairwise("abc")),
            list(itertools.chain.from_iterable([[1], [2]])), list(itertools.compress("abc", [1, 0, 1])), list(itertools.dropwhile(bool, [1, 0])))
### itertools over tensors
def f(x):
    return [a + b for a, b in itertools.product([x, x + 1], [1, 2])], list(itertools.accumulate([x, x, x], torch.add))
### operator functions
def f(x):
    return (operator.add(x, 1), operator.itemgetter(1)([1, 2]), operator.attrgetter("shape")(x), operator.mul(2, 3),
            operator.methodcaller("upper")("a"), operator.getitem([1, 2], 0), operator.matmul(x, x.t()), operator.not_(0), operator.index(3))
### math functions
def f(x, n=2.5):
    return x * math.sqrt(n) + math.pi, math.floor(n), math.ceil(n), math.log(n), math.isnan(n), math.prod([1, 2, 3]), math.gcd(4, 6), math.inf
### copy
def f(x):
    a = {"k": [1, 2, x]}
    b = copy.copy(a)
    c = copy.deepcopy({"k": [1, (2, 3)]})
    return x + 1, b, b["k"] is a["k"], c, copy.copy([1, 2])
### copy of instance
class A:
    def __init__(self): self.l = [1]; self.n = 2
def f(x):
    a = A()
    b = copy.copy(a)
    b.n = 3
    c = copy.deepcopy(a)
    c.l.append(5)
    return x + b.n, a, b, c, a.l is b.l, a.l is c.l""")
