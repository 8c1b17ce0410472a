"""Programs on shapes as libraries have them: ragged data, recurrences, pyramids, graphs, objects that hold numbers, odd sizes."""

from __future__ import annotations

from .texts import parse

PROGRAMS = parse("""
### a sliding window over a sequence
def f(x, k):
    return torch.stack([x[i : i + k].mean(0) for i in range(0, x.shape[0] - k + 1, k)])
---
@ f(T(n, 3), 2) | 4 5 6 7
@ f(T(8, 3), n) | 3 4

### an overlap that is added up
def f(x, hop):
    frames, size = x.shape
    out = torch.zeros((frames - 1) * hop + size)
    for i in range(frames):
        out[i * hop : i * hop + size] += x[i]
    return out
---
@ f(T(3, n), 2) | 4 5 6
@ f(T(3, 6), n) | 3 4 5

### a spectrogram by hand
def f(x, n_fft, hop):
    w = x.unfold(0, n_fft, hop) * torch.hann_window(n_fft)
    return torch.fft.rfft(w).abs(), (x.shape[0] - n_fft) // hop + 1
---
@ f(T(n), 4, 2) | 8 9 10 12
@ f(T(16), n, 2) | 6 8

### a pyramid of poolings
def f(x):
    out = []
    while min(x.shape[-2:]) > 2:
        x = F.avg_pool2d(x, 2)
        out.append(x.mean())
    return out, tuple(x.shape)
---
@ f(T(1, 1, n, 8)) | 8 9 10 16 17 6

### adaptive pooling to sizes
def f(x, k):
    return F.adaptive_avg_pool2d(x, (k, x.shape[-1] // 2)).shape, F.adaptive_max_pool1d(x[0], k)
---
@ f(T(1, 2, n, 8), 2) | 4 5 6
@ f(T(1, 2, 6, n), 3) | 6 8 10

### convolutions with sizes that vary
w = T(4, 2, 3)
def f(x, p):
    y = F.conv1d(x, w, padding=p, stride=2)
    return F.relu(y), y.shape[-1]
---
@ f(T(2, 2, n), 1) | 6 7 8 9
@ f(T(2, 2, 9), n) | 0 2 3

### a transposed convolution back to a size
w = T(4, 3, 3)
def f(x, s):
    n = x.shape[-1]
    y = F.conv1d(x, w, stride=s)
    z = F.conv_transpose1d(y, w, stride=s)
    return z[..., : n - 2] + x[..., : n - 2]
---
@ f(T(1, 3, n), 2) | 7 9 11 13
@ f(T(1, 3, 13), n) | 1 5 10

### relative positions
def f(n, heads):
    i = torch.arange(n)
    d = i[None] - i[:, None]
    d = d.clamp(-2, 2) + 2
    table = torch.linspace(0, 1, 5 * heads).view(5, heads)
    return table[d].permute(2, 0, 1)
---
@ f(n, 2) | 3 4 5 6
@ f(4, n) | 3 4

### rotary embeddings by a base that varies
def f(x, base):
    n, d = x.shape[-2], x.shape[-1]
    inv = 1.0 / (base ** (torch.arange(0, d, 2).float() / d))
    a = torch.outer(torch.arange(n).float(), inv)
    c, s = a.cos(), a.sin()
    y, z = x[..., ::2], x[..., 1::2]
    return torch.stack([y * c - z * s, y * s + z * c], -1).flatten(-2)
---
@ f(T(2, n, 4), 100.0) | 3 4 5 6
@ f(T(2, 4, 4), n) | 10.0 1000.0 500.0

### alibi slopes
def f(x, heads):
    k = 2 ** math.floor(math.log2(heads))
    s = torch.tensor([2 ** (-8 * (i + 1) / k) for i in range(k)])
    return x[..., None] * s
---
@ f(T(n), 4) | 3 4 5
@ f(T(4), n) | 2 3 8

### a graph as an edge list
def f(x, edges):
    src, dst = edges
    n = x.shape[0]
    out = torch.zeros(n, x.shape[1]).index_add_(0, dst, x[src])
    deg = torch.bincount(dst, minlength=n).clamp(min=1)
    return out / deg[:, None]
---
@ f(T(n, 3), torch.arange(2 * n).view(2, n) % n) | 3 4 5 6
@ f(T(5, 3), torch.arange(2 * n).view(2, n) % 5) | 3 4 6

### scatter into a size that data tells
def f(x, index):
    n = int(index.max()) + 1
    return torch.zeros(n, x.shape[1]).index_add(0, index, x), n
---
@ f(T(4, 3), torch.arange(4) % n) | 2 3 4

### segments by cumsum
def f(x, lengths):
    ends = lengths.cumsum(0)
    starts = ends - lengths
    c = torch.cat([torch.zeros(1, x.shape[1]), x.cumsum(0)])
    return c[ends] - c[starts]
---
@ f(T(n, 3), torch.tensor([1, n - 1])) | 3 4 5 6
@ f(T(6, 3), torch.tensor([n, 2, 4 - n])) | 1 2 3

### a recurrence over time
def f(x, h):
    out = []
    for t in range(x.shape[0]):
        h = torch.tanh(x[t] + h)
        out.append(h)
    return torch.stack(out), h
---
@ f(T(n, 3), T(3)) | 3 4 5
@ f(T(3, n), T(n)) | 4 5 6

### a recurrence over unbind
def f(x):
    h = torch.zeros(x.shape[-1])
    for row in x.unbind(0):
        h = h * 0.5 + row
    return h
---
@ f(T(n, 3)) | 3 4 5
@ f(T(3, n)) | 4 5 6

### a beam that is reordered
def f(scores, k):
    b, v = scores.shape
    top = scores.view(-1).topk(k)
    return top.values, top.indices // v, top.indices % v
---
@ f(T(n, 5), 3) | 2 3 4
@ f(T(3, n), 2) | 6 7 8

### a dataclass that counts
@dataclasses.dataclass
class State:
    step: int = 0
    seen: int = 0
    scale: float = 1.0
def f(x, s):
    s.step += 1
    s.seen += x.shape[0]
    s.scale = s.scale * 0.5 + s.step
    return x * s.scale
---
s = State()
@ f(T(n, 3), s) | 3 4 5 6 6 2 1

### a named tuple of sizes
Box = collections.namedtuple("Box", "h w")
def f(x, box):
    return x[: box.h, : box.w].sum(), Box(x.shape[0] - box.h, box.w * 2)
---
@ f(T(9, 9), Box(n, 4)) | 2 3 5 6
@ f(T(9, 9), Box(4, n)) | 2 3 5 6

### a class with an index method
class I:
    def __init__(self, k):
        self.k = k
    def __index__(self):
        return self.k
def f(x, i):
    return x[i], operator.index(i), list(range(i))
---
@ f(T(6, 3), I(n)) | 1 2 3

### a property that is a size
class Batch:
    def __init__(self, x):
        self.x = x
    @property
    def size(self):
        return self.x.shape[0]
    def __len__(self):
        return self.size
def f(b):
    return b.x * b.size + len(b), b.size // 2
---
@ f(Batch(T(n, 3))) | 3 4 5 6

### a cached property that is a size
class Batch:
    def __init__(self, x):
        self.x = x
    @functools.cached_property
    def size(self):
        return self.x.shape[0] * 2
def f(b):
    return b.x * b.size, b.size
---
@ f(Batch(T(n, 3))) | 3 4 5 6

### a list that is cut by sizes
def f(xs, k):
    return sum(xs[:k]), xs[-k:][0] * 2, len(xs[k:])
---
L = [T(3, seed=i) for i in range(6)]
@ f(L, n) | 2 3 4

### slices with all kinds of bounds
def f(x, a, b, c):
    return x[a:b:c], x[-b:], x[:-a or None], x[a:a], x[b:a]
---
@ f(T(9, 2), 1, n, 2) | 4 5 6 8
@ f(T(9, 2), n, 7, 2) | 2 3 0
@ f(T(9, 2), 1, 8, n) | 1 3 4
@ f(T(n, 2), 1, 5, 2) | 4 5 6 7

### slices out of bounds
def f(x, k):
    return x[k:], x[:k], x[-k:], x[k : k + 3].shape[0]
---
@ f(T(4, 2), n) | 2 3 4 5 9 100 -3 -9 0
@ f(T(n, 2), 6) | 4 5 6 7 8

### an index out of range
def f(x, k):
    try:
        return x[k] * 2
    except IndexError as e:
        return str(e)
---
@ f(T(4, 2), n) | 1 2 3 4 5 -4 -5
@ f(T(n, 2), 4) | 3 4 5 6

### a view that fails for some sizes
def f(x, k):
    try:
        return x.view(k, -1) + 1
    except RuntimeError:
        return x - 1
---
@ f(T(12), n) | 2 3 4 5 6 7

### a division by a size that is zero
def f(x):
    try:
        return x.sum() + 10 // x.shape[0]
    except ZeroDivisionError:
        return x.sum()
---
@ f(T(n, 2)) | 2 3 4 0 1 5

### a division by a float that is zero
def f(x, v):
    try:
        return x * (1 / v)
    except ZeroDivisionError:
        return x - 1
---
@ f(X, n) | 0.5 0.25 0.125 0.0 0.75 -0.0

### a root of a float that becomes negative
def f(x, v):
    try:
        return x * math.sqrt(v)
    except ValueError:
        return x - 1
---
@ f(X, n) | 0.5 0.25 0.125 -1.0 0.75 0.0
@ f(X, n) | 2 3 4 -1 0

### a power of floats that overflows
def f(x, v):
    try:
        return x * v ** 200.0
    except OverflowError:
        return x - 1
---
@ f(X, n) | 0.5 1.25 1.5 100.0 1e300 0.75

### a remainder of floats
def f(x, v, w):
    return x * (v % w), v // w, divmod(v, w)
---
@ f(X, n, 0.5) | 0.75 1.25 -0.75 2.0
@ f(X, 1.5, n) | 0.25 -0.5 0.75

### int of a float that is too large
def f(x, v):
    return x + 1, int(v), round(v), math.floor(v)
---
@ f(X, n) | 0.5 1.5 2.5 1e18 1e19 -1e30 3.5

### rounding halves
def f(x, v):
    return x * round(v), round(v), round(v, 1), round(v, 0), round(v, -1)
---
@ f(X, n) | 0.5 1.5 2.5 -0.5 -1.5 0.25 12.35 15.0

### rounded floats as sizes
def f(x, s):
    h, w = x.shape
    nh, nw = round(h * s), int(w * s + 0.5)
    return x.new_zeros(nh, nw), nh * nw, nh > nw
---
@ f(T(4, 6), n) | 0.5 1.5 0.75 2.0
@ f(T(n, 6), 1.5) | 5 6 7

### a rounded float in a branch
def f(x, v):
    k = math.ceil(v)
    if k > 2:
        return x * k
    return x + k
---
@ f(X, n) | 0.5 1.5 1.25 2.5 3.5 2.0

### a rounded float as an index
def f(x, v):
    return x[int(v)], x[: int(v)], int(v) % 2 == 0
---
@ f(T(9, 2), n) | 1.5 2.5 3.25 4.0 0.5

### a rounded float over a break
def f(x, v):
    k = int(v * 2)
    y = x * k
    print("break")
    return y + k, k
---
@ f(X, n) | 1.5 2.5 3.25 4.0

### a rounded float that is stored
class C:
    pass
def f(x, c, v):
    c.k = int(v)
    c.ks = [math.floor(v), -int(v)]
    return x * c.k
---
c = C()
@ f(X, c, n) | 1.5 2.5 3.25 4.0

### floats over a break
def f(x, v):
    y = x * v if v > 1 else x + v
    print("break")
    return y * v if v < 3 else y - v
---
@ f(X, n) | 1.5 2.5 3.25 4.0 0.5

### floats in nested functions
def f(x, v):
    def g(y, w):
        return y * w if w > v / 2 else y
    return g(x, v) + g(x, v / 4)
---
@ f(X, n) | 1.5 2.5 3.25 -4.0 0.5

### floats in a dict of settings
def f(x, cfg):
    x = x * cfg["scale"] if cfg.get("scale", 1.0) != 1.0 else x
    return x + cfg["bias"] if cfg["bias"] else x
---
@ f(X, {"scale": n, "bias": 0.0}) | 1.5 2.5 1.0 3.5
@ f(X, {"scale": 2.0, "bias": n}) | 1.5 2.5 0.0 3.5

### floats of a module
class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.rate = 0.5
    def forward(self, x):
        return x * self.rate if self.rate > 0.1 else x
m = M()
def f(x):
    return m(x)
---
f(X)
m.rate = 0.25
f(X)
m.rate = 0.75
f(X)
m.rate = 0.05
f(X)
m.rate = 0.01
f(X)

### floats compared in a comprehension
def f(x, vs):
    kept = [v for v in vs if v > 0.5]
    return x * sum(kept), len(kept)
---
@ f(X, [n, 0.75, 0.25]) | 0.625 0.875 1.5 0.125

### floats and any, all
def f(x, vs):
    if any(v < 0 for v in vs):
        return x
    return x * vs[0] if all(v > 0.1 for v in vs) else x + vs[1]
---
@ f(X, [n, 0.75]) | 0.625 0.875 1.5 0.05 -0.5

### a float that is compared with an int that varies
def f(x, v, k):
    return x * v if v > k else x * k
---
@ f(X, n, 2) | 2.5 3.5 4.5 1.5
@ f(X, 2.5, n) | 1 3 4 2

### a float that is compared with a size
def f(x, v):
    return x * v if v >= x.shape[0] else x / v
---
@ f(T(n, 2), 4.0) | 3 4 5 6
@ f(T(4, 2), n) | 2.0 5.5 4.0

### a float against itself
def f(x, v):
    return x * 2 if v == v and v <= v else x
---
@ f(X, n) | 2.5 3.5 4.5 float("nan")

### an elastic norm
def f(xs, most):
    total = math.sqrt(sum(float(x.numel()) for x in xs))
    c = most / (total + 1e-6)
    return [x * min(c, 1.0) for x in xs]
---
@ f([T(n, 3), T(2)], 1.0) | 3 4 5
@ f([T(3, 3), T(2)], n) | 2.0 5.0 0.5

### a factor by size
def f(x):
    n = x.shape[-1]
    return x * n ** -0.5, x / math.sqrt(n), x * (2 / n) ** 0.5
---
@ f(T(2, n)) | 3 4 5 6

### meshgrids and coordinates
def f(h, w):
    y, x = torch.meshgrid(torch.arange(h), torch.arange(w), indexing="ij")
    return torch.stack([y / max(h - 1, 1), x / max(w - 1, 1)], -1)
---
@ f(n, 4) | 2 3 4 1
@ f(3, n) | 2 5 1

### triangles
def f(n, k):
    return torch.tril(torch.ones(n, n), k), torch.triu_indices(n, n, k).shape[1], torch.eye(n, n + k)
---
@ f(n, 1) | 2 3 4 5
@ f(4, n) | 0 2 3

### sums over the last sizes
def f(x, k):
    dims = tuple(range(x.ndim - k, x.ndim))
    return x.sum(dims), math.prod(x.shape[-k:]), x.flatten(-k)
---
@ f(T(2, n, 4), 2) | 3 4 5
@ f(T(2, 3, 4), n) | 1 3

### numbers of elements
def f(x, y):
    if x.numel() > y.numel():
        return x.view(-1)[: y.numel()] + y.view(-1)
    return y.view(-1)[: x.numel()] + x.view(-1)
---
@ f(T(n, 3), T(4, 3)) | 3 4 5 6
@ f(T(n, 3), T(3, n)) | 3 4 5

### equal shapes
def f(x, y):
    if x.shape == y.shape:
        return x + y
    if x.shape[1:] == y.shape[1:]:
        return torch.cat([x, y])
    return x.sum() + y.sum()
---
@ f(T(n, 3), T(n, 3)) | 3 4 5
@ f(T(n, 3), T(2, 3)) | 3 4 5
@ f(T(n, 3), T(2, 4)) | 3 4 5

### a group norm by views
def f(x, groups):
    b, c = x.shape[:2]
    y = x.reshape(b, groups, -1)
    y = (y - y.mean(-1, keepdim=True)) / (y.var(-1, keepdim=True, unbiased=False) + 1e-5).sqrt()
    return y.reshape(x.shape)
---
@ f(T(n, 4, 3), 2) | 2 3 4
@ f(T(2, 4, n), 4) | 4 5
@ f(T(2, n, 3), 2) | 6 8

### gradients of sizes that vary
def f(x, v):
    y = (x * v).pow(2).mean() * x.shape[0]
    return y
---
P = T(3, 4).requires_grad_()
f(P, 2.0).backward()
f(T(4, 4).requires_grad_(), 3.0).backward()
Q = T(5, 4).requires_grad_()
f(Q, 4.0).backward()
f(Q, 0.5).backward()

### numbers of an enum
class Mode(enum.IntEnum):
    A = 1
    B = 2
def f(x, m, k):
    return x * k if m == Mode.A else x + m
---
@ f(X, Mode.A, n) | 3 4 5
@ f(X, Mode.B, n) | 3 4

### booleans where ints were
def f(x, k):
    return x * k, k + 1, k is True
---
f(X, 2)
f(X, 3)
f(X, True)
f(X, False)
f(X, 4)

### many ints
def f(x, a, b, c, d, e):
    return x * (a + b * c - d) // max(e, 1), (a, b, c, d, e)
---
@ f(X, n, n + 1, n + 2, n + 3, n + 4) | 1 2 3 4
@ f(X, 1, n, 1, n, 1) | 1 2 3 4

### an int that counts down
def f(x, k):
    if k == 0:
        return x
    return f_(x * 2, k - 1)
def f_(x, k):
    return x if k <= 0 else f_(x + k, k - 1)
---
@ f(X, n) | 4 3 2 1 0

### products of many sizes
def f(x):
    a, b, c = x.shape
    return x.reshape(a * b, c), x.reshape(a, b * c), x.reshape(-1), a * b * c == x.numel()
---
@ f(T(n, 3, 4)) | 2 3 4
@ f(T(n, n, n)) | 2 3 4
@ f(T(2, n, 1)) | 2 3 4

### strides of a transposed input
def f(x):
    return x.contiguous().view(-1), x.stride(), x.is_contiguous(), x.t().reshape(-1)
---
@ f(T(n, 3).t()) | 2 3 4 5
@ f(T(4, n).t()) | 2 3 5

### a channels last input
def f(x):
    y = F.max_pool2d(x, 2)
    return y, y.is_contiguous(memory_format=torch.channels_last), x.permute(0, 2, 3, 1).reshape(-1, x.shape[1])
---
@ f(T(2, 3, n, 4).to(memory_format=torch.channels_last)) | 4 5 6 8
@ f(T(n, 3, 4, 4).to(memory_format=torch.channels_last)) | 3 4
""")
