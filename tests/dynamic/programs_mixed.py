"""Programs in which sizes and numbers that vary meet containers, classes, loops, layers and caches."""

from __future__ import annotations

from .texts import parse

PROGRAMS = parse("""
### membership in sets, dicts and lists
def f(x, k):
    a = k in {3, 5, 7}
    b = k in {4: "four", "five": 5}
    c = k not in [6, 9]
    return x * (1 if a else 2), b, c
---
@ f(X, n) | 3 4 5 6 7 8 9 -1 300

### membership among values beyond 64
def f(x, k):
    return x * 2 if k in (100, 200, 300) else x * 3
---
@ f(X, n) | 3 100 200 300 5 301

### membership of an expression
def f(x):
    return x * 2 if x.shape[0] % 4 in (0, 1) else x * 3
---
@ f(T(n, 3)) | 4 5 6 7 8 9

### a set made of ints that vary
def f(x, a, b):
    s = {a, b, 3}
    return x * len(s), s, a in s, 4 in s
---
@ f(X, n, n + 1) | 3 4 5 2

### a dict keyed by ints that vary, read and written
def f(x, d, k):
    d[k] = d.get(k, 0) + 1
    d.setdefault(k + 1, k)
    return x * d[k], sorted(d.items())
---
D = {}
@ f(X, D, n) | 3 4 4 5 3

### an int added to a set outside
S = set()
def f(x, k):
    S.add(k)
    S.discard(k - 2)
    return x + len(S)
---
@ f(X, n) | 3 4 5 6 7

### two ints are one object
def f(x, a, b):
    return x * 2 if a is b else x * 3
---
@ f(X, n, n) | 3 4 5
f(X, 5, 6)
f(X, 6, 7)

### an int is a constant
def f(x, a):
    return (x + 1 if a is None else x + 2), a is True
---
@ f(X, n) | 3 4 5 None 6

### a list of dicts of ints
def f(x, rows):
    total = 0
    for row in rows:
        total += row["n"] * row.get("w", 1)
    return x * total, total
---
@ f(X, [{"n": n}, {"n": n + 1, "w": 2}]) | 3 4 5 6 7

### a dataclass with defaults and post_init
@dataclasses.dataclass
class C:
    n: int
    m: int = 2
    def __post_init__(self):
        self.total = self.n * self.m
def f(x, n):
    c = C(n)
    return x * c.total, c, dataclasses.asdict(c), dataclasses.replace(c, m=n).total
---
@ f(X, n) | 3 4 5 6

### a frozen dataclass as an argument
@dataclasses.dataclass(frozen=True)
class C:
    n: int
    shape: tuple
def f(x, c):
    return x.new_zeros(c.shape) + c.n, c == C(c.n, c.shape), hash(c) == hash(C(c.n, c.shape))
---
@ f(X, C(n, (n, 2))) | 3 4 5 6

### nested closures over ints
def make(k):
    def g(x):
        def h(y):
            return y * k + x.shape[0]
        return h(x)
    return g
def f(x, k):
    return make(k)(x), make(k + 1)(x)
---
@ f(T(n, 3), n * 2) | 3 4 5 6

### a nonlocal counter
def f(x, k):
    count = 0
    def step(y):
        nonlocal count
        count += k
        return y + count
    for _ in range(3):
        x = step(x)
    return x, count
---
@ f(X, n) | 3 4 5 6

### module attributes that count
class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.steps = 0
        self.seen = []
    def forward(self, x):
        self.steps += 1
        self.seen.append(x.shape[0])
        return x * self.steps
m = M()
def f(x):
    return m(x), m.steps
---
@ f(T(n, 3)) | 3 4 5 6 7

### a counter in a global list over a break
L = [0]
def f(x):
    L[0] += x.shape[0]
    print("so far", L[0])
    return x * L[0]
---
@ f(T(n, 3)) | 3 4 5 6

### a loop over a size with a break in it
def f(x):
    total = 0
    for i in range(x.shape[0]):
        total += i * x.shape[1]
        if i == 1:
            print("one")
    return x + total
---
@ f(T(n, 3)) | 3 4 5 3

### a generator of slices
def parts(x, k):
    i = 0
    while i < x.shape[0]:
        yield x[i : i + k]
        i += k
def f(x, k):
    return [p.sum() for p in parts(x, k)]
---
@ f(T(n, 3), 2) | 4 5 6 7
@ f(T(6, 3), n) | 2 3 4 5

### slices with negative and None ends
def f(x, a, b):
    return x[a:], x[:b], x[a:b], x[-a:], x[:-b], x[a:None], x[None:b], x[::2][:a]
---
@ f(T(9, 3), n, n + 2) | 1 2 3 4 5
@ f(T(9, 3), -n, -1) | 3 4 5

### slices with steps that vary
def f(x, k):
    return x[::k], x[1::k], x[: 2 * k : k]
---
@ f(T(12, 2), n) | 2 3 4 5 6

### einsum
def f(q, k):
    s = torch.einsum("bqhd,bkhd->bhqk", q, k)
    return torch.einsum("bhqk,bkhd->bqhd", s.softmax(-1), k) / q.shape[1]
---
@ f(T(2, n, 2, 4), T(2, n + 1, 2, 4)) | 3 4 5 6

### unfold and fold
def f(x):
    u = x.unfold(1, 3, 2)
    w = F.unfold(x[None, None], (2, 2))
    return u, u.shape, w, F.fold(w, x.shape, (2, 2))
---
@ f(T(n, n + 2)) | 4 5 6 7

### pads of all kinds
def f(x, k):
    a = F.pad(x, (k, 0), value=1.0)
    b = F.pad(x[None], (1, k), mode="reflect")
    c = F.pad(x[None], (k, 1), mode="replicate")
    d = F.pad(x, (-1, k))
    return a, b, c, d, F.pad(x.t(), (0, k)), F.pad(x, (0, k, k, 0)).stride()
---
@ f(T(4, 6), n) | 1 2 3 0 4
@ f(T(n, 6), 2) | 4 5 6 2

### pad to a multiple
def f(x, m):
    n = x.shape[-1]
    return F.pad(x, (0, (m - n % m) % m))
---
@ f(T(2, n), 4) | 3 5 6 7 8 9 12

### interpolate by factors and sizes
def f(x, s):
    a = F.interpolate(x, scale_factor=2, mode="nearest")
    b = F.interpolate(x, size=(x.shape[2] * s, x.shape[3] + s), mode="bilinear", align_corners=False)
    return a, b, F.interpolate(x, size=s + 2, mode="nearest")
---
@ f(T(1, 2, n, n + 1), 2) | 3 4 5 6
@ f(T(1, 2, 4, 4), n) | 2 3 4

### cat, stack, split and chunk together
def f(x, k):
    parts = x.split(k)
    again = torch.cat(parts[::-1])
    halves = x.chunk(2, dim=1)
    return again, torch.stack(halves).sum(0), len(parts), [p.shape[0] for p in parts]
---
@ f(T(n, 4), 2) | 4 5 6 7 8

### split by a list of sizes
def f(x, k):
    a, b = x.split([k, x.shape[0] - k])
    c, d, e = torch.tensor_split(x, (1, k))
    return a, b, c, d, e
---
@ f(T(8, 2), n) | 2 3 4 5
@ f(T(n, 2), 2) | 5 6 7

### views with -1 in each place
def f(x):
    b, t, c = x.shape
    return x.view(-1, c), x.reshape(b, -1), x.view(b, t, 2, -1), x.reshape(-1, t), x.view(-1)[: t * c].view(t, c)
---
@ f(T(n, n + 1, 4)) | 2 3 4 5

### flatten and unflatten round trip
def f(x):
    y = x.flatten(1)
    return y, y.unflatten(1, x.shape[1:]), x.flatten().unflatten(0, (-1, x.shape[-1]))
---
@ f(T(n, 3, n)) | 2 3 4 5

### masks of lengths
def f(x, lengths):
    t = x.shape[1]
    mask = torch.arange(t)[None, :] < lengths[:, None]
    return x.masked_fill(~mask[..., None], 0.0), mask.sum(), torch.where(mask, 1, 0)
---
@ f(T(2, n, 3), torch.tensor([2, n])) | 3 4 5 6

### a causal mask from a cache
class Cache:
    def __init__(self):
        self.k = None
    def update(self, k):
        self.k = k if self.k is None else torch.cat([self.k, k], 1)
        return self.k
    def __len__(self):
        return 0 if self.k is None else self.k.shape[1]
def f(x, cache):
    past = len(cache)
    k = cache.update(x)
    t = x.shape[1]
    mask = torch.ones(t, past + t, dtype=torch.bool).tril(past)
    return (x @ k.transpose(1, 2)).masked_fill(~mask, float("-inf")).softmax(-1) @ k
---
C = Cache()
@ f(T(1, n, 4), C) | 3 1 1 1 1 2

### a static cache written at a position
cache = torch.zeros(1, 16, 4)
def f(x, pos):
    cache[:, pos : pos + x.shape[1]] = x
    return cache[:, : pos + x.shape[1]].sum(1), pos + x.shape[1]
---
p = 0
@ f(T(1, 1, 4), n) | 0 1 2 3 4 5
@ f(T(1, n, 4), 3) | 2 3 4

### positional embeddings with an offset
emb = nn.Embedding(32, 4)
def f(x, offset):
    pos = torch.arange(offset, offset + x.shape[1])
    return x + emb(pos)
---
@ f(T(2, n, 4), n) | 2 3 4 5
@ f(T(2, 3, 4), n) | 0 1 2 6

### rotary embeddings
def rotate(x):
    a, b = x[..., : x.shape[-1] // 2], x[..., x.shape[-1] // 2 :]
    return torch.cat((-b, a), -1)
def f(q, start):
    t, d = q.shape[-2:]
    inv = 1.0 / 10000 ** (torch.arange(0, d, 2).float() / d)
    angles = torch.outer(torch.arange(start, start + t).float(), inv)
    e = torch.cat((angles, angles), -1)
    return q * e.cos() + rotate(q) * e.sin()
---
@ f(T(1, 2, n, 4), 0) | 3 4 5
@ f(T(1, 2, 1, 4), n) | 5 6 7 8

### sinusoidal positions
def f(n, d):
    pos = torch.arange(n)[:, None]
    div = torch.exp(torch.arange(0, d, 2) * (-math.log(10000.0) / d))
    pe = torch.zeros(n, d)
    pe[:, 0::2] = torch.sin(pos * div)
    pe[:, 1::2] = torch.cos(pos * div)
    return pe
---
@ f(n, 4) | 3 4 5 6
@ f(5, n) | 4 6 8

### a gru cell over steps
cell = nn.GRUCell(3, 4)
def f(x):
    h = x.new_zeros(x.shape[0], 4)
    out = []
    for t in range(x.shape[1]):
        h = cell(x[:, t], h)
        out.append(h)
    return torch.stack(out, 1), h
---
@ f(T(n, 3, 3)) | 2 3 4 5
@ f(T(2, n, 3)) | 3 4

### a convolution with computed padding
w = T(4, 3, 3, 3)
def f(x, d):
    k = w.shape[-1]
    return F.conv2d(x, w, padding=d * (k - 1) // 2, dilation=d)
---
@ f(T(1, 3, n, n), 1) | 5 6 7 8
@ f(T(1, 3, 9, 9), n) | 1 2 3

### attention with grouped heads
def f(q, k, v):
    b, h, t, d = q.shape
    groups = h // k.shape[1]
    k, v = (e[:, :, None].expand(b, k.shape[1], groups, k.shape[2], d).reshape(b, h, k.shape[2], d) for e in (k, v))
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)
---
@ f(T(1, 4, n, 4), T(1, 2, n, 4), T(1, 2, n, 4, seed=3)) | 3 4 5 6

### relative position bias
def f(x):
    t = x.shape[1]
    rel = torch.arange(t)[None, :] - torch.arange(t)[:, None]
    bucket = rel.clamp(-2, 2) + 2
    return x + bucket.float().mean(1)[None, :, None]
---
@ f(T(1, n, 3)) | 3 4 5 6

### f-strings and keys of module dicts
layers = nn.ModuleDict({f"l{i}": nn.Linear(3, 3) for i in range(4)})
def f(x, i):
    return layers[f"l{i}"](x), f"{i:03d}|{x.shape[0]}|{i!r}"
---
@ f(X, n) | 0 1 2 3 0

### an index into a module list
layers = nn.ModuleList([nn.Linear(3, 3) for i in range(4)])
def f(x, i):
    return layers[i](x) + layers[-1 - i](x), len(layers[: i + 1])
---
@ f(X, n) | 0 1 2 3 1

### min, max and sorted with keys
def f(x, a, b, c):
    s = sorted([a, b, c], reverse=True)
    best = max((a, "a"), (b, "b"), (c, "c"))
    return x * s[0], best, min([a, b, c], key=lambda v: -v), max(a, b, default=0) if False else max(a, b)
---
@ f(X, n, 5, n + 2) | 1 2 4 6 7

### division and remainder with negative numbers
def f(x, a, b):
    return x * (a // b) + a % b, a // b, a % b, -a // b, -(a // b), divmod(-a, b), math.fmod(a, b), a // -b, a % -b
---
@ f(X, n, 4) | 3 7 -7 -3 8 -8
@ f(X, 7, n) | 3 -3 -4 2

### powers of negative numbers
def f(x, a):
    return x * a ** 2 + (-a) ** 3, a ** 3, (-2) ** abs(a), a ** 0, -a ** 2
---
@ f(X, n) | 2 3 -3 -2 4 0

### mixes of floats and ints
def f(x, a, b):
    c = a * b + 1
    return x * c, c, a + b, a - b, a > b, int(b), round(b), a / 2, b // 1, b % 2
---
@ f(X, n, n * 1.5) | 2 3 4 5
@ f(X, n, 2.5) | -3 1 7

### rounding of floats from outside
def f(x, v):
    return x * v, math.floor(v), math.ceil(v), int(v), round(v, 1)
---
@ f(X, n) | 1.26 2.5 -3.75 4.0

### truth of numbers and shapes
def f(x, k):
    a = bool(k)
    b = not k
    c = k or 7
    d = k and 9
    return x + a + c, a, b, c, d, bool(x.shape[0]), not x.shape[0]
---
@ f(X, n) | 3 4 0 -1 5 0
@ f(T(n, 3), 2) | 3 0 4

### numpy scalars of sizes
import numpy as np
def f(x):
    n = x.shape[0]
    return x * int(np.prod(x.shape)), np.int64(n) + 1, np.arange(n).sum().item()
---
@ f(T(n, 3)) | 3 4 5

### numpy arrays as arguments
import numpy as np
def f(x, a):
    t = torch.from_numpy(a)
    return x.sum() + t * a.shape[0], a.size
---
@ f(X, np.arange(n, dtype=np.float32)) | 3 4 5 6

### ints in nested tuples
def f(x, cfg):
    (h, w), scale = cfg
    return x.new_ones(h, w) * scale, cfg[0][::-1]
---
@ f(X, ((n, n + 1), 2)) | 3 4 5
@ f(X, ((3, 4), n)) | 2 3 4

### namedtuples and replaced fields
P = collections.namedtuple("P", "a b")
def f(x, p):
    q = p._replace(a=p.a + 1)
    return x * q.a + q.b, q, q._asdict(), p < q
---
@ f(X, P(n, 2)) | 3 4 5 6

### deque, defaultdict and Counter of sizes
def f(x):
    d = collections.deque(maxlen=3)
    for s in (*x.shape, x.numel()):
        d.append(s)
    c = collections.Counter(x.shape)
    m = collections.defaultdict(int)
    m[x.shape[0]] += x.shape[1]
    return x * d[-1], list(d), c, m
---
@ f(T(n, 3)) | 3 4 5 6

### zip, enumerate and accumulate of sizes
def f(x, y):
    return [a * b for a, b in zip(x.shape, y.shape)], list(itertools.accumulate(x.shape)), dict(enumerate(x.shape)), x.sum() + y.sum()
---
@ f(T(n, 3), T(2, n)) | 3 4 5 6

### range objects kept
def f(x, k):
    r = range(k)
    return x * len(r), list(r), r[-1], k - 1 in r
---
@ f(X, n) | 3 4 5

### an error message with a size in it, caught
def f(x, k):
    try:
        if x.shape[0] % k:
            raise ValueError(f"{x.shape[0]} does not divide by {k}")
        return x.view(k, -1)
    except ValueError as e:
        return str(e), x * 2
---
@ f(T(n, 2), 2) | 4 5 6 7 8

### asserts with messages
def f(x, k):
    assert x.shape[0] >= k, f"{x.shape} is shorter than {k}"
    return x[:k]
---
@ f(T(n, 2), 3) | 4 5 2 6

### early returns by sizes
def f(x):
    if x.numel() == 0:
        return x
    if x.shape[0] == 1:
        return x.squeeze(0)
    return x.mean(0)
---
@ f(T(n, 2)) | 4 5 1 0 6

### recursion over halves
def f(x):
    def go(y):
        if y.shape[0] <= 2:
            return y.sum()
        h = y.shape[0] // 2
        return go(y[:h]) + go(y[h:]) * 2
    return go(x)
---
@ f(T(n)) | 4 5 6 8 9

### a windowed mean
def f(x, w):
    n = x.shape[0] - w + 1
    idx = torch.arange(n)[:, None] + torch.arange(w)
    return x[idx].mean(1)
---
@ f(T(n), 3) | 6 7 8 9
@ f(T(9), n) | 2 3 4

### index_select, take_along_dim and one_hot
def f(x, k):
    i = torch.arange(x.shape[0] - 1, -1, -1)
    o = F.one_hot(torch.arange(k), k)
    return x.index_select(0, i), torch.take_along_dim(x, i[:, None], 0), o.sum(0)
---
@ f(T(n, 3), n) | 3 4 5 6

### cumsum, diff and searchsorted
def f(x):
    c = x.abs().cumsum(0)
    return c, torch.diff(c), torch.searchsorted(c, c[x.shape[0] // 2])
---
@ f(T(n)) | 4 5 6 7

### a batch of matrices solved
def f(a, b):
    n = a.shape[-1]
    m = a @ a.transpose(-1, -2) + torch.eye(n)
    return torch.linalg.solve(m, b), torch.linalg.det(m), m.diagonal(dim1=-2, dim2=-1).sum()
---
@ f(T(2, n, n), T(2, n, 1)) | 2 3 4 5

### gradients through a padded batch
def f(x, k):
    y = F.pad(x, (0, k)).unfold(-1, 2, 1).sum(-1)
    return (y * torch.arange(y.shape[-1])).sum()
---
@ (lambda v: (f(v, 2).backward(), v.grad))(T(2, n).requires_grad_()) | 3 4 5 6

### in-place updates of a buffer by sizes
class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.zeros(3))
        self.register_buffer("count", torch.tensor(0))
    def forward(self, x):
        self.total += x.sum(0)
        self.count += x.shape[0]
        return x - self.total / self.count
m = M()
def f(x):
    return m(x)
---
@ f(T(n, 3)) | 3 4 5 6

### batch statistics by sizes
bn = nn.BatchNorm1d(3)
def f(x):
    n = x.shape[0]
    return bn(x) * (n / (n - 1)), x.var(0, unbiased=n > 3)
---
@ f(T(n, 3)) | 3 4 5 6

### views of columns
def f(x):
    return x * 2, x.storage_offset(), x.stride()
---
B = T(6, 5)
@ f(B[:, n]) | 0 1 2 3 4

### views at rows
def f(x):
    return x.sum() + x.storage_offset()
---
B = T(8, 3)
@ f(B[n:]) | 1 2 3 4
@ f(B[n : n + 2]) | 1 2 3 4

### as_strided by an offset
def f(x, k):
    return x.as_strided((2, 2), (2, 1), k), x.as_strided((k, 2), (1, 1))
---
@ f(T(12), n) | 2 3 4 5

### mutated views at offsets that vary
def f(x):
    x.add_(1)
    x[0] = x.shape[0]
    return x.sum()
---
B = T(8, 3)
@ f(B[n:]) | 1 2 3 4
B

### a window that slides over a buffer
def f(buf, i):
    w = buf[i : i + 3]
    w *= 2
    return w.sum(), w.storage_offset()
---
B = T(10)
@ f(B, n) | 0 1 2 3 7 8

### bit tricks on sizes
def f(x):
    n = x.shape[0]
    p = 1 << (n - 1).bit_length()
    return F.pad(x, (0, 0, 0, p - n)), n & (n - 1) == 0, p
---
@ f(T(n, 2)) | 3 4 5 6 8 9

### ints as dtypes' bounds and clamps
def f(x, lo, hi):
    return x.clamp(lo, hi), x.clamp(min=-hi), torch.full((2,), hi, dtype=torch.int8), hi.bit_length()
---
@ f(X, -n, n) | 1 2 3 4

### a schedule of floats
def f(x, step, base):
    lr = base * 0.5 * (1 + math.cos(math.pi * step / 10))
    return x - lr * x, lr
---
@ f(X, n, 0.1) | 0 1 2 3 4
@ f(X, 3, n) | 0.1 0.2 0.3

### temperature and top k
def f(logits, temperature, k):
    v, _ = torch.topk(logits / temperature, min(k, logits.size(-1)))
    return logits.masked_fill(logits / temperature < v[..., [-1]], -float("inf")).softmax(-1)
---
@ f(T(2, 8), n, 3) | 0.5 0.7 0.9
@ f(T(2, 8), 0.5, n) | 2 3 4 20

### comparisons returned
def f(x, a, b):
    return x * a, a == b, a < b, a != 3, (a > 2) & (b > 2), [a >= b], not a == b
---
@ f(X, n, 4) | 3 4 5 6
@ f(X, n, n) | 7 8

### comparisons as factors
def f(x, a):
    return x * (a > 3) + (a == 4), (a > 3) + 1, sum([a > 3, a > 4])
---
@ f(X, n) | 2 3 4 5 6

### torch._check on ints and sizes
def f(x, k):
    torch._check(k < x.shape[0])
    torch._check(k >= 0, lambda: "k is negative")
    torch._check_is_size(k)
    return x[:k] + x.shape[0] - k
---
@ f(T(n, 2), 2) | 3 4 5
@ f(T(6, 2), n) | 1 3 4

### identity of ints with constants and computed ints
def f(x, a, b):
    return x + 1, a is b, a is a, a is not b, a is None, b is True, [a] == [b]
---
L = [1000, 1001, 1002]
f(X, 3, 3)
f(X, 4, 4)
f(X, 5, 6)
f(X, L[0], L[0])
f(X, L[1], L[1])
f(X, L[2], int("1002"))
f(X, 7, True)

### iterators of itertools over sizes
def f(x):
    n = x.shape[0]
    return (
        x + 1,
        list(itertools.chain(x.shape, [7])),
        list(itertools.product(x.shape, (1, 2))),
        [b - a for a, b in itertools.pairwise([0, n, 9])],
        list(itertools.zip_longest(x.shape, [1], fillvalue=n)),
        list(itertools.starmap(lambda a, b: a * b, [(n, 2), (3, n)])),
        list(itertools.accumulate(x.shape, operator.mul, initial=n)),
        list(itertools.repeat(n, 2)),
    )
---
@ f(T(n, 3)) | 3 4 5 6

### an iterator of sizes over a break
def f(x):
    it = itertools.chain(x.shape, [7])
    a = next(it)
    print("break")
    return a, list(it), x + 1
---
@ f(T(n, 3)) | 3 4 5 6

### views of inputs that lie at other offsets
def f(x):
    return x[1:], x.view(-1), x.t(), x.as_strided((2,), (1,)), x.expand(2, *x.shape), x.chunk(2)
---
B = T(10, 4)
@ f(B[n:]) | 1 2 3 4
@ f(B[n : n + 3]) | 1 2 3 4

### a length that is a size
class C:
    def __init__(self, t):
        self.t = t
    def __len__(self):
        return self.t.shape[0] - 3
def f(x, k):
    c = C(x)
    return x * len(c), len(c), bool(c), list(range(len(c)))[:1]
---
@ f(T(n, 3), 1) | 4 5 6 3
f(T(2, 3), 1)
""")
