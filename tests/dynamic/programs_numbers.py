"""Numbers that vary in captured code: arithmetic, comparisons, `math`, builtins, texts, keys. See programs.py for the form."""

from __future__ import annotations

from .texts import parse

PROGRAMS = parse("""
### a size in arithmetic
def f(x):
    n = x.shape[0]
    return x * (n * 2 + 1 - n // 3) + (n % 5)
---
@ f(T(n, 3)) | 3 4 5 7 12 2

### sizes of two dimensions in arithmetic
def f(x):
    a, b = x.shape
    return x + (a * b - b * 2) // (a + 1), a * b
---
@ f(T(n, n + 1)) | 3 4 5 7 12 2

### an int argument
def f(x, k):
    return x + k
---
@ f(X, n) | 3 4 5 7 -2 0 1

### an int argument in arithmetic
def f(x, k):
    return x * (k * k - 3 * k + 2), k * k
---
@ f(X, n) | 3 4 5 7 -2 0 1

### floor division and remainder of negative ints
def f(x, k):
    return x + k // 3, k % 3, k // -3, k % -3, -k // 3
---
@ f(X, n) | 3 4 -4 -7 0 1 8

### floor division by an int argument
def f(x, k):
    return x + 17 // k, 17 % k, -17 // k
---
@ f(X, n) | 3 4 -4 -7 1 8

### division by an int that becomes 0
def f(x, k):
    try:
        return x + 17 // k
    except ZeroDivisionError as e:
        return x, str(e)
---
@ f(X, n) | 3 4 5 0 6 0

### true division of a size
def f(x):
    return x / x.shape[0] * (x.shape[0] / 7)
---
@ f(T(n, 3)) | 3 4 5 7 12 2

### true division of ints
def f(x, k):
    return x * (k / 4), k / 4
---
@ f(X, n) | 3 4 5 7 -2 0

### powers
def f(x, k):
    n = x.shape[0]
    return x * (n ** 2) + n ** 0.5, n ** 3, 2 ** k
---
@ f(T(n, 3), n) | 3 4 5 7 2

### a negative power
def f(x, k):
    return x * 2.0 ** -k, k ** -1
---
@ f(X, n) | 3 4 5 7 2

### bit operations
def f(x, k):
    return x + (k & 6) + (k | 1) + (k ^ 3) + (~k), k & 6, k | 1, k ^ 3, ~k
---
@ f(X, n) | 3 4 5 7 -2 0

### shifts
def f(x, k):
    return x + (k << 2) + (k >> 1), 1 << k
---
@ f(X, n) | 3 4 5 7 2 0

### negation and absolute value
def f(x, k):
    return x * abs(k) + -k, abs(k), +k, -k
---
@ f(X, n) | 3 4 5 -7 -2 0

### in-place arithmetic on a local number
def f(x):
    n = x.shape[0]
    n += 2
    n *= 3
    n -= 1
    n //= 2
    return x + n, n
---
@ f(T(n, 3)) | 3 4 5 7 12 2

### a sum of sizes
def f(x, y):
    return x.sum() + y.sum() + (x.shape[0] + y.shape[0])
---
@ f(T(n, 3), T(n + 2, 3)) | 3 4 5 7 12 2

### sum over a shape
def f(x):
    return x + sum(x.shape), sum(x.shape)
---
@ f(T(n, 3)) | 3 4 5 7

### sum of a list of ints with a start
def f(x, a, b):
    return x + sum([a, b, 3], 5)
---
@ f(X, n, n + 1) | 3 4 5 7

### math.prod of a shape
def f(x):
    return x.reshape(math.prod(x.shape)), math.prod(x.shape)
---
@ f(T(n, 3)) | 3 4 5 7

### math.sqrt of a size
def f(x):
    return x / math.sqrt(x.shape[-1]), math.sqrt(x.shape[-1])
---
@ f(T(2, n)) | 3 4 5 9 16

### math.log and exp of a size
def f(x):
    return x * math.log(x.shape[0]) + math.exp(-x.shape[0])
---
@ f(T(n, 3)) | 3 4 5 9 16

### math.floor and ceil of a quotient
def f(x):
    n = x.shape[0]
    return x + math.ceil(n / 2) + math.floor(n / 2), math.ceil(n / 2), math.floor(n / 2)
---
@ f(T(n, 3)) | 3 4 5 9 16

### math.gcd, isqrt, comb
def f(x, k):
    return x + math.gcd(k, 12) + math.isqrt(k) + math.comb(k, 2)
---
@ f(X, n) | 3 4 5 9 16

### math.pow and math.trunc
def f(x, k):
    return x + math.pow(k, 2), math.trunc(k / 2)
---
@ f(X, n) | 3 4 5 9 16

### round and int of a quotient
def f(x):
    n = x.shape[0]
    return x + round(n / 3) + int(n / 2) + int(n * 0.75), int(n * 0.75)
---
@ f(T(n, 3)) | 3 4 5 9 16

### int of a scaled size as a slice
def f(x):
    return x[: int(x.shape[0] * 0.5)] * 2
---
@ f(T(n, 3)) | 4 6 8 10 12

### divmod
def f(x, k):
    q, r = divmod(k, 4)
    return x * q + r, q, r
---
@ f(X, n) | 3 4 5 9 -3

### min and max of two sizes
def f(x, y):
    n = min(x.shape[0], y.shape[0])
    return x[:n] + y[:n], max(x.shape[0], y.shape[0])
---
@ f(T(n, 3), T(n + 2, 3)) | 3 4 5 7
@ f(T(n + 1, 3), T(n, 3)) | 3 4 5 7

### min and max with a constant
def f(x):
    n = min(x.shape[0], 6)
    return x[:n] * max(x.shape[0], 4)
---
@ f(T(n, 3)) | 3 4 5 7 8 9

### min and max of a list
def f(x, a, b):
    return x + max([a, b, 4]) - min((a, b, 4)), max(a, b, 4)
---
@ f(X, n, n + 2) | 3 4 5 7 1

### min with a key and a default
def f(x, a, b):
    return x + min([a, b], key=lambda v: -v) + max([], default=a)
---
@ f(X, n, n + 2) | 3 4 5 7 1

### sorted ints
def f(x, a, b):
    s = sorted([a, b, 5])
    return x + s[0] - s[-1], s
---
@ f(X, n, n + 2) | 3 4 6 7 1

### a comparison decides a branch
def f(x):
    if x.shape[0] > 5:
        return x * 2
    return x + 1
---
@ f(T(n, 3)) | 3 4 5 6 7 8 2 9

### chained comparisons
def f(x, k):
    if 2 < k <= 5:
        return x * 2
    if k == 7 or k != 8 and k < 0:
        return x + 1
    return x - 1
---
@ f(X, n) | 3 4 5 6 7 8 -2 9

### equality of two sizes
def f(x, y):
    if x.shape[0] == y.shape[0]:
        return x + y
    return x.sum() + y.sum()
---
@ f(T(n, 3), T(n, 3)) | 3 4 5
@ f(T(n, 3), T(n + 1, 3)) | 3 4 5
@ f(T(n, 3), T(n, 3)) | 6 7

### equality of shapes
def f(x, y):
    if x.shape == y.shape:
        return x + y
    return x.sum() + y.sum()
---
@ f(T(n, 3), T(n, 3)) | 3 4 5
@ f(T(n, 3), T(n + 1, 3)) | 3 4 5

### a shape compared with a tuple
def f(x):
    if x.shape == (4, 3) or x.size() == torch.Size([6, 3]):
        return x * 2
    return x + 1
---
@ f(T(n, 3)) | 3 4 5 6 7

### comparison with a float
def f(x, k):
    if k < 4.5:
        return x * 2
    if 6.5 <= k:
        return x + 1
    return x if k == 5.0 else -x
---
@ f(X, n) | 3 4 5 6 7 8

### comparison of a quotient
def f(x):
    n = x.shape[0]
    if n / 2 > 2.5:
        return x * 2
    return x + 1
---
@ f(T(n, 3)) | 3 4 5 6 7 8

### truth of a number
def f(x, k):
    if k:
        return x * 2
    return x + 1
---
@ f(X, n) | 3 4 0 5 0 6

### not, and, or with numbers
def f(x, k):
    m = k or 7
    n = k and 5
    return x * m + n, not k, m, n
---
@ f(X, n) | 3 4 0 5 0 6

### a number is a conditional expression's value
def f(x):
    n = x.shape[0]
    k = n if n % 2 == 0 else n + 1
    return x * k, k
---
@ f(T(n, 3)) | 3 4 5 6 7 8

### a remainder decides
def f(x):
    n = x.shape[0]
    if n % 2 == 0:
        return x.reshape(n // 2, 2, -1)
    return x
---
@ f(T(n, 3)) | 4 6 8 10 12

### isinstance and type of a number
def f(x, k):
    n = x.shape[0]
    return x + n + k, isinstance(n, int), isinstance(k, (float, int)), type(k) is int, isinstance(n / 2, float)
---
@ f(T(n, 3), n) | 3 4 5 6

### an f-string of a size
def f(x):
    return x * 2, f"{x.shape[0]} rows of {x.shape[1]}"
---
@ f(T(n, 3)) | 3 4 5

### str, repr and format of numbers
def f(x, k):
    return x * 2, str(k), repr(k), format(k, "04d"), "%d" % k
---
@ f(X, n) | 3 4 5

### a number printed
def f(x, k):
    print("k is", k)
    return x * k
---
@ f(X, n) | 3 4 5

### a number as a dict key
D = {3: "three", 4: "four"}
def f(x, k):
    return x * 2, D.get(k, "other")
---
@ f(X, n) | 3 4 5 3

### a dict made with number keys
def f(x):
    d = {x.shape[0]: "a", x.shape[1]: "b"}
    return x * 2, d
---
@ f(T(n, 3)) | 4 5 3 4

### membership of a number
def f(x, k):
    if k in (3, 5, 7):
        return x * 2
    if k in {4: 1}:
        return x * 3
    return x
---
@ f(X, n) | 3 4 5 6 7 8

### a list of sizes returned
def f(x):
    return [x.shape[0], x.shape[0] * 2, (x.shape[1],)], x * 2
---
@ f(T(n, 3)) | 4 5 3 4

### a shape returned
def f(x):
    y = x * 2
    return y.shape, y.size(), x.shape[1:], list(y.shape), y.numel(), y.dim(), len(x)
---
@ f(T(n, 3)) | 4 5 3 4

### only numbers returned
def f(x):
    return x.shape[0] + 1
---
@ f(T(n, 3)) | 4 5 3 4

### an int returned as it came
def f(x, k):
    return k, x
---
@ f(X, n) | 4 5 3 4

### a float computed of a size returned
def f(x):
    return x.shape[0] / 3, x * 2
---
@ f(T(n, 3)) | 4 5 3 4

### an int stored in an attribute
class C: pass
c = C()
def f(x, k):
    c.n = k
    c.m = x.shape[0] + k
    return x * k
---
@ f(T(n, 3), n) | 4 5 3 4

### a size stored in a list outside
L = []
def f(x):
    L.append(x.shape[0])
    return x * len(L)
---
@ f(T(n, 3)) | 4 5 3 4

### a size stored in a dict outside
D = {}
def f(x):
    D["n"] = x.shape[0]
    D["h"] = x.shape[0] // 2
    return x * 2
---
@ f(T(n, 3)) | 4 5 3 4

### a global int that is written
count = 0
def f(x):
    global count
    count += x.shape[0]
    return x * 2
---
@ f(T(n, 3)) | 4 5 3 4

### a counter on a plain object
class C:
    def __init__(self): self.n = 0
c = C()
def f(x):
    c.n += 1
    return x * c.n
---
@ f(T(2, 3)) | 1 2 3 4 5 6

### a global counter read and written
step = 0
def f(x):
    global step
    step += 1
    return x + step
---
@ f(T(2, 3)) | 1 2 3 4 5 6

### a global int changed outside
k = 3
def f(x):
    return x * k
---
f(X)
k = 4
f(X)
k = 5
f(X)
k = 6
f(X)

### a closure's int
def make():
    n = 0
    def inner(x):
        nonlocal n
        n += 1
        return x + n
    return inner
f = make()
---
@ f(T(2, 3)) | 1 2 3 4 5 6

### a default that changes
def f(x, k=3):
    return x * k
---
f(X)
f(X, 4)
f(X, k=5)
f(X)
f(X, 7)

### keyword-only ints
def f(x, *, k, m=2):
    return x * k + m
---
@ f(X, k=n, m=n + 1) | 3 4 5 6

### ints in *args
def f(x, *args):
    return x * sum(args) + len(args)
---
@ f(X, n, n + 1) | 3 4 5 6
@ f(X, n, n + 1, n) | 3 4 5 6

### ints in **kwargs
def f(x, **kw):
    return x * kw["a"] + kw.get("b", 3)
---
@ f(X, a=n, b=n + 1) | 3 4 5 6

### an int in a list argument
def f(x, l):
    return x * l[0] + l[1]
---
@ f(X, [n, 2]) | 3 4 5 6

### an int in a dict argument
def f(x, d):
    return x * d["n"]
---
@ f(X, {"n": n}) | 3 4 5 6

### an int in a tuple argument
def f(x, t):
    a, (b, c) = t
    return x * a + b - c
---
@ f(X, (n, (n + 1, 2))) | 3 4 5 6

### an int in a dataclass
@dataclasses.dataclass
class C:
    n: int
    t: torch.Tensor
def f(c):
    return c.t * c.n, dataclasses.replace(c, n=c.n + 1)
---
@ f(C(n, X)) | 3 4 5 6

### an int in a named tuple
P = collections.namedtuple("P", "n t")
def f(p):
    return p.t * p.n, p._replace(n=p.n + 1)
---
@ f(P(n, X)) | 3 4 5 6

### an int attribute of a plain object
class C:
    def __init__(self, n): self.n = n
def f(x, c):
    return x * c.n
---
@ f(X, C(n)) | 3 4 5 6

### an int in __slots__
class C:
    __slots__ = ("n",)
    def __init__(self, n): self.n = n
def f(x, c):
    return x * c.n
---
@ f(X, C(n)) | 3 4 5 6

### an int attribute of a module
class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.n = 3
    def forward(self, x):
        self.n = self.n + 1
        return x * self.n
m = M()
def f(x):
    return m(x)
---
@ f(X) | 3 4 5 6

### bools are no ints that vary
def f(x, flag):
    return x * flag + (1 if flag else 2)
---
f(X, True)
f(X, False)
f(X, True)

### an int, then a bool, then a float
def f(x, k):
    return x * k
---
f(X, 3)
f(X, 4)
f(X, True)
f(X, 2.5)
f(X, 5)
f(X, 3.5)

### an int that becomes None
def f(x, k):
    if k is None:
        return x
    return x * k
---
f(X, 3)
f(X, None)
f(X, 4)
f(X, 5)
f(X, None)

### large ints
def f(x, k):
    return x.double() * k, k + 1, k * 2
---
@ f(X, n) | 3 2**40 2**62 2**63 -2**63 2**70 5

### ints that overflow in captured arithmetic
def f(x, k):
    m = k * k
    return x, m, m * k
---
@ f(X, n) | 3 4 2**40 2**31 2**62 5

### the smallest int
def f(x, k, m):
    return x, ~k, k // -2, -k, k + m, m - k, abs(k), k - 1
---
@ f(X, n, 2) | 3 4 -2**63 5 -2**63
@ f(X, -2**63, n) | 3 4 -1 5

### a hash of a number
def f(x, k):
    return x * 2, hash(k), {k}, frozenset((k, 2))
---
@ f(X, n) | 3 4 5

### a number in string methods
def f(x, k):
    return x, "ab" * k, "x".rjust(k), "abcdefgh"[k]
---
@ f(X, n) | 3 4 5

### list indices
L = [1, 2, 3, 4, 5, 6, 7, 8]
def f(x, k):
    return x * L[k] + L[-k], L[k:], L[:k]
---
@ f(X, n) | 3 4 5 2

### a list multiplied
def f(x):
    return x * 2, [0] * x.shape[0], (1, 2) * x.shape[1]
---
@ f(T(n, 3)) | 4 5 3

### range over a size
def f(x):
    y = x.sum()
    for i in range(x.shape[0]):
        y = y + i * x[i].sum()
    return y
---
@ f(T(n, 3)) | 4 5 3 4

### a while loop with an int
def f(x, k):
    while k > 2:
        x = x * 2
        k -= 2
    return x, k
---
@ f(X, n) | 4 5 3 4 7

### enumerate, zip and len of sizes
def f(x, y):
    return [a + i for i, (a, b) in enumerate(zip(x.shape, y.shape))], x.sum() + y.sum()
---
@ f(T(n, 3), T(n + 1, 3)) | 4 5 3

### an int of a numeric string
def f(x, k):
    return x * int(str(k)) + float(k)
---
@ f(X, n) | 4 5 3

### bit_length and other methods of int
def f(x, k):
    return x, k.bit_length(), k.real, k.numerator, k.conjugate(), (k).__add__(2), int.__mul__(k, 3)
---
@ f(X, n) | 4 5 3

### operator functions
def f(x, k):
    return x * operator.add(k, 2) + operator.floordiv(k, 2), operator.index(k), operator.lt(k, 5)
---
@ f(X, n) | 4 5 3 7

### functools.reduce over a shape
def f(x):
    return x.reshape(functools.reduce(operator.mul, x.shape, 1))
---
@ f(T(n, 3)) | 4 5 3 7

### any and all on comparisons
def f(x):
    if all(s > 2 for s in x.shape) and any(s > 4 for s in x.shape):
        return x * 2
    return x + 1
---
@ f(T(n, 3)) | 4 5 3 7 2

### comprehension over a shape
def f(x):
    return x.reshape([s for s in x.shape] + [1]), [s * 2 for s in x.shape], {i: s for i, s in enumerate(x.shape)}
---
@ f(T(n, 3)) | 4 5 3 7 2

### match on a number
def f(x, k):
    match k:
        case 3: return x * 3
        case 4 | 5: return x + 1
        case int() if k > 8: return x - k
        case _: return x
---
@ f(X, n) | 3 4 5 6 9 10

### match on a shape
def f(x):
    match x.shape:
        case [a, 3]: return x * a
        case [a, b]: return x + b
---
@ f(T(n, 3)) | 4 5 6
@ f(T(n, n)) | 4 5 6

### assert on sizes
def f(x, y):
    assert x.shape[0] == y.shape[0], f"{x.shape} {y.shape}"
    return x + y
---
@ f(T(n, 3), T(n, 3)) | 4 5 6
f(T(3, 3), T(4, 3))
@ f(T(n, 3), T(n, 3)) | 7

### a recursive function of an int
def fact(x, k):
    return x if k <= 1 else fact(x * k, k - 1)
def f(x, k):
    return fact(x, k)
---
@ f(X, n) | 3 4 5 3

### a generator over a size
def gen(n):
    i = 0
    while i < n:
        yield i
        i += 2
def f(x):
    return x + sum(gen(x.shape[0]))
---
@ f(T(n, 3)) | 3 4 5 6 7

### a lambda with a number in its closure
def f(x, k):
    g = lambda v: v * k + x.shape[0]
    return g(x), g(k)
---
@ f(T(n, 3), n) | 3 4 5 6

### a returned closure over a number
def f(x, k):
    def g(v):
        return v + k
    return x * k, g
---
@ f(X, n)[1](2) | 3 4 5 6

### a partial of a number
def g(a, x): return x * a
def f(x, k):
    return functools.partial(g, k)(x), functools.partial(g, k + 1)
---
@ f(X, n)[1](X) | 3 4 5 6

### a class instance made with a number
class P:
    def __init__(self, n):
        self.n = n
        self.m = n * 2
def f(x, k):
    p = P(k)
    return x * p.m, p
---
@ f(X, n) | 3 4 5 6

### a property computed of an int
class C:
    def __init__(self, n): self.n = n
    @property
    def twice(self): return self.n * 2
def f(x, c):
    return x * c.twice
---
@ f(X, C(n)) | 3 4 5 6

### setdefault and update with sizes
D = {}
def f(x):
    D.setdefault("first", x.shape[0])
    D.update(last=x.shape[0], all=x.numel())
    return x
---
@ f(T(n, 3)) | 3 4 5 6

### an id of equal ints
def f(x, k):
    a = k
    return x, a is k, k is None, k is not x
---
@ f(X, n) | 300 400 500

### an int that a cached function gets
@functools.lru_cache
def g(k, shape):
    return k * 2 + len(shape)
def f(x, k):
    return x * g(k, x.shape)
---
@ f(T(n, 3), n) | 3 4 5 4

### a list with a varying int is left alone
def f(x, l, d):
    return x * l[0] + d["a"], sum(l)
L = [1000, 2]
first = L[0]
---
@ f(X, [n * 1000, 2], {"a": n}) | 3 4 5 6
f(X, L, {"a": 1})
L[0] is first

### an error below a key function, with sizes that vary
def f(x, log, i):
    x.add_(1)
    try:
        return sorted([2, 1], key=lambda n: log.append(n) or x[i] is None)
    except IndexError:
        log.append("caught")
        return x * 2, log
---
@ f(T(n), [], torch.tensor([n % 2 * 9])) | 3 4 5 6 7

### a power that becomes complex
def f(x, k):
    r = k ** 0.5
    return x * r, type(r).__name__, isinstance(r, float), (x * r).dtype
---
@ f(X, n) | 3 4 5 -2 -4 6

### a quotient whose divisor becomes 0
def f(x, k):
    try:
        return x * (8 / k), k / 2
    except ZeroDivisionError as e:
        return str(e)
---
@ f(X, n) | 3 4 5 0 6 0

### a root of a number that becomes negative
def f(x, k):
    try:
        return x * math.sqrt(k), math.log(k)
    except ValueError as e:
        return str(e)
---
@ f(X, n) | 3 4 5 -2 0 6

### one int twice
def f(x, a, b):
    return x * a + b, a == b, a - b
---
@ f(X, n, n) | 3 4 5
@ f(X, n, n + 1) | 3 4 5

### a float argument that varies
def f(x, s):
    return x * s
---
@ f(X, n) | 0.5 0.25 1.5 2.0 -0.5

### a float argument in arithmetic
def f(x, s):
    return x * (s * 2 + 1), s * 2 + 1
---
@ f(X, n) | 0.5 0.25 1.5

### a float that is NaN or infinite
def f(x, s):
    return x * s
---
@ f(X, n) | 0.5 0.25 float("inf") float("nan") 3.5

### int in torch.tensor and torch.full
def f(x, k):
    return x + torch.tensor(k) + torch.full((2, 3), k), torch.tensor([k, x.shape[0]])
---
@ f(X, n) | 3 4 5 6

### a size in torch.tensor
def f(x):
    return torch.tensor(x.shape), torch.tensor(x.shape[0] / 2), x * torch.tensor(x.shape[0])
---
@ f(T(n, 3)) | 3 4 5 6
""")
