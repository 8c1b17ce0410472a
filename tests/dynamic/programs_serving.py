"""Programs as serving and training code has them: decoding, padding, buckets, masks, ragged batches, floats that are compared."""

from __future__ import annotations

from .texts import parse

PROGRAMS = parse("""
### a float that is compared with a bound
def f(x, rate):
    if rate > 0.5:
        return x * rate
    return x + rate
---
@ f(X, n) | 0.75 0.625 0.875 0.25 0.125 1.5 0.5

### a rate of zero
def f(x, rate):
    if rate == 0.0:
        return x
    return x * (1 - rate)
---
@ f(X, n) | 0.25 0.5 0.75 0.0 -0.0 0.125

### a float that is asked for its truth
def f(x, scale):
    return x * scale if scale else x + 1
---
@ f(X, n) | 0.25 0.5 0.75 0.0 0.125

### two floats that are compared
def f(x, low, high):
    assert low < high
    return x.clamp(min=low) * high
---
@ f(X, n, n + 1) | 0.25 0.5 0.75 -0.5 0.125

### a float and a size that are compared
def f(x, share):
    if share * x.shape[0] > 2:
        return x[: int(share * x.shape[0])] * share
    return x * share
---
@ f(T(n, 3), 0.5) | 6 7 8 9
@ f(T(8, 3), n) | 0.625 0.75 0.875 0.125 1.0

### floats that are clamped in Python
def f(x, t):
    t = min(max(t, 0.1), 1.0)
    return x / t, t
---
@ f(X, n) | 0.25 0.5 0.75 0.05 2.0 1.0 -1.0

### floats and ints in min and max
def f(x, t):
    return x * max(0, t), min(1, t), max(t, 2, 0.5)
---
@ f(X, n) | 0.25 0.5 0.75 -0.5 3.5 1.0 0.0

### a temperature
def f(x, temperature):
    if temperature < 1e-4:
        return x.argmax(-1)
    if temperature != 1.0:
        x = x / temperature
    return x.softmax(-1)
---
@ f(X, n) | 0.25 0.5 0.75 1.0 1e-5 0.0 2.0

### a warmup
def f(x, step, warmup):
    factor = min(1.0, (step + 1) / warmup)
    return x * factor, factor
---
@ f(X, n, 8) | 0 1 2 5 7 8 9 20

### a cosine schedule
def f(x, step, total):
    if step >= total:
        return x * 0.1
    return x * (0.1 + 0.45 * (1 + math.cos(math.pi * step / total)))
---
@ f(X, n, 8) | 0 1 2 5 7 8 9 20

### an average that decays
def f(x, mean, decay):
    d = min(decay, (1 + mean) / (10 + mean))
    return x * d + (1 - d), d
---
@ f(X, n, 0.5) | 0.25 0.5 1.5 90.5 100.5
@ f(X, 0.5, n) | 0.01 0.02 0.75

### a float that is rounded to a size
def f(x, ratio):
    k = int(ratio * 8)
    return x[:, :k], k
---
@ f(T(2, 8), n) | 0.25 0.5 0.75 1.0 0.375

### a share of a size that is kept
def f(x, share):
    k = max(1, math.ceil(x.shape[-1] * share))
    return x.topk(k).values
---
@ f(T(2, 9), n) | 0.25 0.5 0.75 1.0 0.01
@ f(T(2, n), 0.5) | 4 5 6 7

### floats in an if chain
def f(x, v):
    if v < 0:
        return x - v
    elif v < 1:
        return x + v
    elif v < 2:
        return x * v
    return x / v
---
@ f(X, n) | 0.25 0.5 1.25 1.5 -0.5 -1.5 2.5 3.5

### floats of a dataclass that are compared
@dataclasses.dataclass
class C:
    low: float
    high: float
    steps: int
def f(x, c):
    if c.high - c.low > 1 and c.steps > 2:
        return x * c.high
    return x * c.low * c.steps
---
f(X, C(0.5, 2.5, 3))
f(X, C(0.25, 2.75, 4))
f(X, C(0.125, 3.75, 5))
f(X, C(0.125, 0.75, 5))
f(X, C(0.125, 0.5, 2))

### a float that decides how often
def f(x, v):
    i = 0
    while v > 1:
        x, v, i = x + v, v / 2, i + 1
    return x, i
---
@ f(X, n) | 4.5 5.5 6.5 1.5 0.5 9.0

### floats sorted
def f(x, a, b):
    lo, hi = (a, b) if a <= b else (b, a)
    return x * lo + hi, sorted([a, b]) == [lo, hi]
---
@ f(X, n, 1.0) | 0.25 0.5 0.75 1.5 1.0

### a float in a chained comparison
def f(x, p):
    if not 0.0 <= p <= 1.0:
        raise ValueError("p is no probability")
    return x * p
---
@ f(X, n) | 0.25 0.5 0.75 1.5 -1.0 0.0

### nan and infinity where a float was
def f(x, v):
    return x + 1 if v > 0 else x - 1, v == v
---
@ f(X, n) | 0.25 0.5 0.75 float("nan") float("inf") -float("inf")

### functions that are made anew with other ints
def make(k, r):
    def g(x):
        return x * k + r
    return g
def f(x, g):
    return g(x)
---
@ f(X, make(n, 0.5)) | 3 4 5 6 0
@ f(X, make(3, n)) | 0.25 0.75 0.125

### defaults of functions that are made anew
def make(n):
    return lambda x, k=n, *, r=n * 2: x * k + r
def f(x, g):
    return g(x)
---
@ f(X, make(n)) | 3 4 5 6

### methods of objects with other ints
class C:
    def __init__(self, k):
        self.k = k
    def go(self, x):
        return x * self.k
def f(x, go):
    return go(x)
---
@ f(X, C(n).go) | 3 4 5 6

### a tensor and then a number
def f(x, y):
    return x * y
---
f(T(2), T(2))
f(T(3), 3)
f(T(4), T(4))
f(T(5), 4)
f(T(6), T(6))
f(T(7), 0.5)
f(T(7), 0.75)

### a decode loop with a cache that grows
def f(x, cache):
    keys = torch.cat([cache, x], 0)
    scores = x @ keys.t() / math.sqrt(keys.shape[-1])
    return scores.softmax(-1) @ keys, keys
---
C = T(3, 4)
@ f(T(1, 4, seed=n), T(n, 4)) | 3 4 5 6 7 8 9

### positions of a decode loop
def f(x, past):
    n = x.shape[1]
    p = torch.arange(past, past + n)
    return x + p[None, :, None], past + n
---
@ f(T(1, 4, 3), n) | 0
@ f(T(1, 1, 3), n) | 4 5 6 7

### a static cache that is written to
K = torch.zeros(1, 16, 3)
def f(x, at):
    K[:, at : at + x.shape[1]] = x
    return K[:, : at + x.shape[1]].sum(1)
---
@ f(T(1, 5, 3), n) | 0
@ f(T(1, 1, 3), n) | 5 6 7 8

### a causal mask of a window
def f(x, window):
    n = x.shape[1]
    i = torch.arange(n)
    mask = (i[:, None] >= i[None]) & (i[:, None] - i[None] < window)
    return (x @ x.transpose(1, 2)).masked_fill(~mask, -1e9)
---
@ f(T(2, n, 3), 2) | 4 5 6 7
@ f(T(2, 6, 3), n) | 3 4 5

### padding to a multiple
def f(x, multiple):
    rest = -x.shape[-1] % multiple
    if rest:
        x = F.pad(x, (0, rest))
    return x.view(*x.shape[:-1], -1, multiple).sum(-1)
---
@ f(T(2, n), 4) | 5 6 7 8 9 12 13
@ f(T(2, 9), n) | 2 3 5

### buckets by powers of two
def f(x):
    n = x.shape[0]
    bucket = 1 << (n - 1).bit_length()
    return F.pad(x, (0, 0, 0, bucket - n))
---
@ f(T(n, 3)) | 3 4 5 6 7 8 9

### buckets of a list
BUCKETS = (4, 8, 16)
def f(x):
    for b in BUCKETS:
        if x.shape[0] <= b:
            return F.pad(x, (0, 0, 0, b - x.shape[0])), b
    return x, None
---
@ f(T(n, 3)) | 3 4 5 6 7 8 9 17

### a ragged batch that is padded
def f(xs):
    longest = max(x.shape[0] for x in xs)
    return torch.stack([F.pad(x, (0, 0, 0, longest - x.shape[0])) for x in xs])
---
@ f([T(n, 3), T(n + 1, 3), T(2, 3)]) | 3 4 5 6 7

### lengths of a ragged batch
def f(x, lengths):
    out, at = [], 0
    for n in lengths:
        out.append(x[at : at + n].mean(0))
        at += n
    return torch.stack(out), at
---
@ f(T(20, 3), [n, n + 1, 2]) | 2 3 4 5
@ f(T(20, 3), [n, 3]) | 2 3 4

### split by sizes from outside
def f(x, sizes):
    return [p.sum() for p in x.split(sizes)]
---
@ f(T(n + 5, 3), [n, 5]) | 2 3 4 6
@ f(T(n * 2, 3), [n, n]) | 2 3 4 6

### a mask with item
def f(x):
    k = (x > 0).sum().item()
    return x * 2 if k >= 0 else x
---
@ f(T(n, 3)) | 3 4 5 6

### rows that a mask keeps
def f(x):
    rows = x[x[:, 0] > 0]
    return rows * 2, rows.shape[0], rows.numel() // 3
---
@ f(T(n, 3)) | 3 4 5 6 7

### an item as a size
def f(x, n):
    k = n.item()
    torch._check(k >= 1)
    torch._check(k <= x.shape[0])
    return x[:k].sum(), torch.zeros(k)
---
@ f(T(8, 3), torch.tensor(n)) | 3 4 5 6 7

### interpolation to a size that is computed
def f(x, s):
    h, w = x.shape[-2:]
    return F.interpolate(x, size=(h * s // 2, w * s // 2), mode="nearest")
---
@ f(T(1, 2, n, 6), 4) | 4 5 6 7
@ f(T(1, 2, 4, 6), n) | 2 3 5

### interpolation by a factor
def f(x, s):
    return F.interpolate(x, scale_factor=s, mode="bilinear", align_corners=False).shape
---
@ f(T(1, 2, n, 6), 2) | 4 5 6 7
@ f(T(1, 2, 4, 6), n) | 1.5 2.5 3.0

### windows by unfold
def f(x, k, step):
    w = x.unfold(-1, k, step)
    return w.mean(-1), w.shape[-2]
---
@ f(T(2, n), 3, 2) | 7 8 9 10
@ f(T(2, 12), n, 1) | 2 4 5

### patches by unfold and fold
def f(x):
    n = x.shape[-1]
    p = F.unfold(x, 2, stride=2)
    return F.fold(p * 2, (n, n), 2, stride=2)
---
@ f(T(1, 2, n, n)) | 4 6 8 10

### heads as einops does it
def f(x, heads):
    b, n, d = x.shape
    y = x.reshape(b, n, heads, d // heads).permute(0, 2, 1, 3)
    z = torch.einsum("bhid,bhjd->bhij", y, y)
    return z.softmax(-1).matmul(y).permute(0, 2, 1, 3).reshape(b, n, d)
---
@ f(T(2, n, 8), 2) | 3 4 5 6
@ f(T(n, 4, 8), 4) | 2 3 4

### pixel shuffles by views
def f(x, r):
    b, c, h, w = x.shape
    x = x.view(b, c // (r * r), r, r, h, w).permute(0, 1, 4, 2, 5, 3)
    return x.reshape(b, c // (r * r), h * r, w * r)
---
@ f(T(1, 8, n, 3), 2) | 2 3 4 5

### patches of an image
def f(x, p):
    b, c, h, w = x.shape
    torch._check(h % p == 0)
    torch._check(w % p == 0)
    return x.reshape(b, c, h // p, p, w // p, p).permute(0, 2, 4, 3, 5, 1).flatten(3).flatten(1, 2)
---
@ f(T(1, 3, n, 8), 2) | 4 6 8 10
@ f(T(n, 3, 4, 8), 4) | 2 3

### torch._check of sizes
def f(x, y):
    torch._check(x.shape[0] == y.shape[0], lambda: "sizes differ")
    torch._check(x.shape[0] > 1)
    return x + y.sum()
---
@ f(T(n, 3), T(n, 2)) | 3 4 5 6
f(T(4, 3), T(5, 2))

### negative steps in Python
def f(x):
    order = list(range(x.shape[0]))[::-2]
    return x[order], len(order)
---
@ f(T(n, 3)) | 5 6 5 6

### flips and rolls by sizes
def f(x, k):
    return x.flip(0).roll(k, 0), x.roll(-k % x.shape[0], 0), x[-k:], x[:-k]
---
@ f(T(n, 3), 2) | 3 4 5 6
@ f(T(6, 3), n) | 1 3 4 5 0

### sizes of zero and one
def f(x):
    return x.sum(0), x.shape[0], x * x.shape[0], x.reshape(-1)
---
@ f(T(n, 3)) | 0 1 2 3 4 5 0 1

### both sizes of zero and one
def f(x):
    return x @ x.t(), x.mean(), x.flatten().shape[0]
---
@ f(T(n, n)) | 1 2 3 4 1
@ f(T(0, n)) | 2 3

### a batch of one among others
def f(x, y):
    return x + y, torch.broadcast_shapes(x.shape, y.shape)
---
@ f(T(n, 3), T(n, 3)) | 2 3 4
@ f(T(1, 3), T(n, 3)) | 2 3 4
@ f(T(n, 3), T(1, 3)) | 2 3 4

### an int that overflows
def f(x, n):
    return x * (n % 7), n * n, n * n * n, n << 40
---
@ f(X, n) | 3 4 5 2**31 2**33 2**62 -2**40

### hashes and checksums
def f(x, n):
    h = (n * 2654435761) & 0xFFFFFFFF
    return x * (h % 5), h >> 16
---
@ f(X, n) | 3 4 5 6 70000 -3

### answers that are returned
def f(x, n):
    return x + n, n > 4, n == 5, x.shape[0] <= n, not n
---
@ f(X, n) | 3 4 5 6 7

### answers that are stored
class C:
    pass
def f(x, c, n):
    c.large = n > 4
    c.flags = [n % 2 == 0, n != 3]
    return x * n
---
c = C()
@ f(X, c, n) | 3 4 5 6 7

### answers in arithmetic
def f(x, n):
    return x * (n > 4), (n > 4) + (n > 5), sum(n > k for k in (1, 3, 5))
---
@ f(X, n) | 3 4 5 6 7

### ints as keys
D = {i: T(2, 3, seed=i) for i in range(4)}
def f(x, k):
    return x + D[k]
---
@ f(X, n) | 0 1 2 3 0

### ints as keys of a dict that is made
def f(x, k):
    d = {k: x, k + 1: x * 2}
    return d[k + 1], list(d), k in d
---
@ f(X, n) | 3 4 5 6

### counts by key
def f(x, ks):
    c = collections.Counter(ks)
    return x * c[1], len(c)
---
f(X, [1, 2, 1])
f(X, [1, 3, 1])
f(X, [1, 4, 4])

### a range that is stepped
def f(x, a, b):
    return [x[i] for i in range(a, b, 2)], len(range(a, b, 2))
---
@ f(T(8, 3), 0, n) | 3 4 5 6
@ f(T(8, 3), n, 8) | 1 2 3

### recursion by size
def g(x):
    n = x.shape[0]
    if n <= 1:
        return x.sum()
    return g(x[: n // 2]) + g(x[n // 2 :])
def f(x):
    return g(x)
---
@ f(T(n)) | 3 4 5 6 7 8

### a tree sum
def f(x):
    while x.shape[0] > 1:
        n = x.shape[0] // 2
        x = torch.cat([x[:n] + x[n : 2 * n], x[2 * n :]])
    return x
---
@ f(T(n, 2)) | 4 5 6 7 8

### chunks of a fixed size
def f(x, size):
    return torch.cat([c.sum(0, keepdim=True) for c in x.split(size)])
---
@ f(T(n, 3), 3) | 6 7 8 9
@ f(T(9, 3), n) | 2 4 5

### number of chunks by division
def f(x, size):
    n = (x.shape[0] + size - 1) // size
    x = F.pad(x, (0, 0, 0, n * size - x.shape[0]))
    return x.view(n, size, -1).sum(1)
---
@ f(T(n, 3), 4) | 6 7 8 9 11
@ f(T(9, 3), n) | 2 3 5
""")
