"""Python's values in captured code: numbers, strings, enums, containers of every kind, iterators, comprehensions."""

from __future__ import annotations

from .texts import parse

PROGRAMS = parse(r"""
### arithmetic on ints and floats
def f(x, n=3, s=0.5):
    return x * (n + 2) - s ** 2 + n // 2 + n % 2 + (n << 1) + (n & 1) - -s
### float nan and inf
def f(x, a=float("nan"), b=float("inf")):
    return x, a, b, -b, a != a, -0.0, 0.0
### complex number
def f(x, c=1 + 2j):
    return x * c.real, c.conjugate(), abs(c)
### big int
def f(x, n=10 ** 30):
    return x + 1, n + 1, hash(n) == hash(n + 0)
### string methods
def f(x, s="Hello, World"):
    return x + len(s), s.upper(), s.split(", "), s.replace("l", "L"), s[::-1], s.startswith("He"), s.encode()
### f-strings
def f(x, n=3, s="a"):
    return x, f"{n:04d} {s!r:>5} {n / 7:.3f} {x.shape} {x.dtype} {s + s}", "%s-%d" % (s, n), "{}/{k}".format(n, k=s)
### bytes
def f(x, b=b"abc"):
    return x, b + b"d", b[0], b.hex(), bytearray(b)
### none and ellipsis
def f(x, y=None):
    if y is None:
        y = x
    return x[..., 0] + y[..., 1], y is None, ...
### bool logic
def f(x, a=True, b=False):
    return (x + 1 if a and not b else x - 1), a or b, a ^ b, not a, a + a
---
f(X)
f(X, False)
f(X, True, True)
### chained comparison
def f(x, n=3):
    if 1 < n <= 3 != 4:
        return x + n
    return x - n
---
f(X)
f(X, 1)
f(X, 4)
### conditional expression and walrus
def f(x, n=2):
    return x + m if (m := n * 2) > 3 else x
---
f(X)
f(X, 1)
### enum members
class Color(enum.Enum):
    RED = 1
    BLUE = 2
    def describe(self):
        return self.name + str(self.value)
def f(x, c=Color.RED):
    if c is Color.RED:
        return x + c.value, c.name, c == Color.BLUE, c.describe()
    return x - c.value, c, list(Color)
---
f(X)
f(X, Color.BLUE)
f(X)
### intenum and flag
class N(enum.IntEnum):
    A = 1
    B = 5
class Fl(enum.Flag):
    P = 1
    Q = 2
def f(x, n=N.A, g=Fl.P):
    return x + n, n < N.B, (g | Fl.Q) == Fl(3), bool(g & Fl.Q), n
---
f(X)
f(X, N.B)
### enum lookup by value and name
class C(enum.Enum):
    A = "a"
    B = "b"
def f(x, s="a"):
    return x + 1, C(s), C["B"], C.A.value
### tuples
def f(x, t=(1, 2, (3, 4))):
    a, b, (c, d) = t
    return x + a + d, t + (b,), t * 2, t[-1][0], t.index(2), t.count(1), len(t), (1, 2) < t, c in t[2]
### tuple argument of tensors
def f(t):
    a, b = t
    return a + b, t, t[0] is a
---
f((X, Y))
f((Y, Y))
f((X, Y))
### star unpacking
def f(x, t=(1, 2, 3, 4)):
    a, *b, c = t
    *d, e = b
    return x + a, b, c, d, e, [*t, *b], (*b, *d), {*t}, {**{"a": 1}, "b": 2}
### namedtuple
P = collections.namedtuple("P", "a b")
def f(p):
    return p.a + p.b, P(p.b, p.a), p._replace(a=p.b), p._fields, p[0] is p.a, P._make([1, 2]), p._asdict()
---
f(P(X, Y))
f(P(X, 2))
f(P(X, 3))
### typing namedtuple
class P(typing.NamedTuple):
    a: typing.Any
    b: int = 3
    def total(self):
        return self.a + self.b
def f(x):
    p = P(x)
    q = P(b=2, a=x)
    return p.total() + q.total(), p, q, p == q._replace(b=3) if False else None
### structseq results
def f(x):
    r = torch.max(x, dim=0)
    v, i = r
    s = x.sort(dim=0)
    return r.values + 1, i, r, s.indices, torch.return_types.max((v, i)), r[0] is v
### torch size
def f(x):
    s = x.shape
    return x.view(s[0] * s[1]), s, s.numel(), s[:1], len(s), tuple(s), s + (1,), x.size(0), x.size() == s, list(s), torch.Size([1, 2])
### lists
def f(x, l=None):
    a = [1, 2, 3]
    a.append(4); a.extend((5, 6)); a.insert(0, 0); a.remove(3); b = a.pop(); a.reverse(); a.sort(key=lambda v: -v)
    a[1:2] = [9, 9]; del a[0]; a += [1]; c = a * 2
    return x + b, a, c, a.index(9), a.count(9), a.copy() is a, 9 in a, [a, a]
### list argument
def f(l):
    return l[0] + l[-1], l[1:], len(l), [v + 1 for v in l], l
---
f([X, Y])
f([X, Y, Z])
f([X])
f([Y, X])
### nested list argument
def f(l):
    t = 0
    for row in l:
        for v in row:
            t = t + v
    return t, l[0], l[0][0] is l[1][0]
---
f([[X, Y], [Z, 1]])
f([[X, Y], [X, 1]])
f([[X, Y], [X, 2]])
### list comparisons
def f(x, a=(1, 2)):
    l = list(a)
    return x + 1, l == [1, 2], l < [1, 3], l != [], not l, bool([])
### dicts
def f(x):
    d = {"a": 1, "b": x}
    d["c"] = 3; d.update(e=5); d.setdefault("g", 6); d.pop("a"); e = d | {"z": 1}; d |= {"q": 2}
    k = list(d.keys()); v = list(d.values()); i = [(a, b) for a, b in d.items()]
    return d["b"] + d.get("c"), d.get("nope", 7), e, k, v, i, "b" in d, len(d), list(reversed(d)), dict.fromkeys("ab", 0)
### dict argument
def f(d):
    t = d["x"] * d["n"]
    for k in sorted(d):
        if k != "x":
            t = t + d[k]
    return t, list(d), d
---
f({"x": X, "n": 2})
f({"n": 2, "x": X})
f({"x": X, "n": 3, "m": 1})
### dict with odd keys
K = object()
class Key: pass
k = Key()
def f(x, d={1: 2, None: 3, (1, 2): 4, K: 5, 1.5: 6, k: 7, True: 9}):
    return x + d[1] + d[None] + d[(1, 2)] + d[K] + d[1.5] + d[k], list(d.values()), {k: x}
### dict views and iteration order
def f(x, d={"b": 1, "a": 2}):
    return x + 1, list(zip(d, d.values())), d.keys() & {"a"}, d.keys() == {"a", "b"}, d.items() >= {("a", 2)}, max(d, key=d.get)
### dict of tensors in and out
def f(d):
    return {k: v * 2 for k, v in d.items()}
---
f({"a": X, "b": Y})
f({"a": X, "b": Y})
f({"b": X, "a": Y})
f({"b": X})
### dict subclass
class D(dict):
    def __missing__(self, key):
        return len(key)
    def total(self):
        return sum(self.values())
def f(x):
    d = D(a=1)
    d["b"] = 2
    return x + d["abc"] + d.total(), d, type(d) is D
### list subclass
class L(list):
    def total(self):
        return sum(self)
def f(x):
    l = L([1, 2])
    l.append(3)
    return x + l.total(), list(l), isinstance(l, list), len(l)
### outside dict subclass
class D(dict):
    pass
d = D(a=1, b=2)
d.extra = 5
def f(x):
    return x + d["a"] + d.extra, len(d), "a" in d, list(d)
---
f(X)
d["a"] = 7
f(X)
d.extra = 6
f(X)
### outside list subclass
class L(list):
    def first(self):
        return self[0]
l = L([1, 2])
def f(x):
    return x + l.first() + l[1], len(l), [v for v in l]
---
f(X)
l[0] = 5
f(X)
l.append(9)
f(X)
### outside tuple and str and int subclasses
class I(int):
    def twice(self):
        return self * 2
class S(str):
    pass
class Tu(tuple):
    pass
i, s, t = I(3), S("ab"), Tu((1, 2))
def f(x):
    return x + i.twice() + i + len(s) + t[0], s + "c", isinstance(s, S), t, list(t)
---
f(X)
i = I(4)
f(X)
s = S("abc")
t = Tu((5, 6))
f(X)
### sets
def f(x, s={1, 2, 3}):
    a = {1, 2}
    a.add(5); a.discard(1); a |= {7}; b = a & s; c = a ^ s; a.update([8]); a.remove(8)
    return x + len(a), a, b, c, a - s, a | s, 2 in a, a <= s, s.isdisjoint({9}), {v * 2 for v in s}, frozenset(a)
### frozenset
def f(x, s=frozenset({1, 2})):
    return x + len(s), s | {3}, 1 in s, s == {1, 2}, {s: 1}
### set of strings argument
def f(x, s):
    return x + ("a" in s), sorted(s), len(s)
---
f(X, {"a", "b"})
f(X, {"b"})
f(X, {"a", "b"})
### deque inside
def f(x):
    d = collections.deque([1, 2, 3], maxlen=4)
    d.append(4); d.appendleft(0); d.rotate(1); a = d.pop(); b = d.popleft()
    return x + a + b, d, list(d), len(d), d[0], d.maxlen
### deque outside
q = collections.deque([1, 2, 3])
def f(x):
    q.append(4)
    return x + q[0] + len(q), list(q)
---
f(X)
f(X)
q.clear(); q.extend([5, 6])
f(X)
### ordereddict inside
def f(x):
    d = collections.OrderedDict(a=1, b=2)
    d["c"] = 3
    d.move_to_end("a")
    return x + d["a"], d, list(d), d.popitem(last=False), d == {"c": 3, "a": 1}
### ordereddict outside
d = collections.OrderedDict(a=1, b=2)
def f(x):
    t = x
    for k, v in d.items():
        t = t * v + len(k)
    return t, d["b"], len(d), list(reversed(d)), d
---
f(X)
d.move_to_end("a")
f(X)
d["c"] = 4
f(X)
### defaultdict inside
def f(x):
    d = collections.defaultdict(list)
    d["a"].append(1)
    d["b"].append(x)
    return x + len(d), d, d["a"], d.default_factory
### defaultdict outside
d = collections.defaultdict(list, a=[1])
def f(x):
    return x + d["a"][0], "z" in d, d.get("z"), len(d)
---
f(X)
d["a"][0] = 3
f(X)
d["z"].append(1)
f(X)
### counter
def f(x, s="abca"):
    c = collections.Counter(s)
    c.update("b")
    return x + c["a"], c.most_common(1), c, c["zz"]
### chainmap and mappingproxy
P = types.MappingProxyType({"a": 1})
def f(x):
    c = collections.ChainMap({"a": 5}, {"b": 6})
    return x + P["a"] + c["b"] + c["a"], len(P), "b" in P, list(P)
---
f(X)
P = types.MappingProxyType({"a": 2})
f(X)
### simplenamespace
n = types.SimpleNamespace(a=1)
def f(x):
    m = types.SimpleNamespace(b=2)
    m.c = m.b + n.a
    return x + m.c, m
---
f(X)
n.a = 5
f(X)
### range and slice
def f(x, r=range(1, 10, 3), s=slice(0, 2)):
    return x[s] + sum(r), list(r), r[1], len(r), s.start, [1, 2, 3][s], slice(1, None), 4 in r, x[:, slice(1, 2)]
### iterators
def f(x):
    it = iter([1, 2, 3])
    a = next(it)
    b = list(it)
    c = next(it, "end")
    e = iter(range(3)); next(e)
    return x + a, b, c, sum(e), next(iter({"k": 1})), [v for v in iter(lambda l=[3]: l.pop() if l else 0, 0)]
### enumerate zip map filter reversed
def f(x, l=(3, 1, 2)):
    return (x + sum(i * v for i, v in enumerate(l, 1)), list(zip(l, l[1:], "ab")), list(map(lambda a, b: a + b, l, l)),
            list(filter(None, [0, 1, 2])), list(reversed(l)), list(filter(lambda v: v > 1, l)), dict(zip("ab", l)))
### zip strict
def f(x, l=(1, 2)):
    try:
        list(zip(l, (1,), strict=True))
    except ValueError as e:
        return x + 1, str(e)
### min max sum any all sorted
def f(x, l=(3, 1, 2)):
    return (x + max(l) - min(l), sum(l, 10), any(v > 2 for v in l), all(l), sorted(l, reverse=True), max(l, key=lambda v: -v),
            min([], default=5), max("a", "b"), sorted("bca"), round(2.567, 2), abs(-3), divmod(7, 2), pow(2, 3, 5))
### sum of tensors
def f(x):
    return sum([x, x + 1, x + 2]), sum((v for v in (x, x)), x), sum([x], start=1)
### max of python and tensor list
def f(x):
    l = [x, x * 2]
    return torch.stack(l), len(l), torch.cat(tuple(l), dim=-1), torch.stack([v for v in l], 1)
### comprehensions
def f(x):
    a = [i * j for i in range(3) for j in range(i) if j % 2 == 0]
    b = {k: v for k, v in zip("abc", range(3))}
    c = {i % 2 for i in range(4)}
    g = (i for i in a)
    return x + sum(g), a, b, c, [[j for j in range(i)] for i in range(3)]""")
