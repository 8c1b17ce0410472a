"""Tensors whose sizes vary: operations, layouts, 0 and 1, ranks, in-place, gradients. See texts.py for the form."""

from __future__ import annotations

from .texts import parse

PROGRAMS = parse("""
### pointwise operations
def f(x, y):
    return torch.relu(x * 2 + y) - x.exp().clamp(0, 3)
---
@ f(T(n, 3), T(n, 3)) | 3 4 5 7 2

### a size of 1 met later
def f(x):
    return x * 2 + x.shape[0]
---
@ f(T(n, 3)) | 3 4 5 1 6 1

### a size of 0 met later
def f(x):
    return x * 2, x.sum(), x.shape[0]
---
@ f(T(n, 3)) | 3 4 5 0 6 0

### a size of 1 met first
def f(x):
    return x * 2 + x.shape[0]
---
@ f(T(n, 3)) | 1 4 5 1 6

### a size of 0 met first
def f(x):
    return torch.cat([x, x]) * 2
---
@ f(T(n, 3)) | 0 4 5 0 6

### broadcasting a varying size against 1
def f(x, y):
    return x + y
---
@ f(T(n, 3), T(1, 3)) | 3 4 5
@ f(T(n, 3), T(n, 3)) | 3 4 5

### broadcasting two varying sizes
def f(x, y):
    return x[:, None] * y[None, :]
---
@ f(T(n), T(n + 2)) | 3 4 5 7
@ f(T(n), T(n)) | 3 4 5 7

### sizes that must be equal and are not
def f(x, y):
    try:
        return x + y
    except RuntimeError as e:
        return str(e)
---
@ f(T(n, 3), T(n, 3)) | 3 4 5
f(T(3, 3), T(4, 3))
@ f(T(n, 3), T(n, 3)) | 6

### rank changes
def f(x):
    return x.sum(-1) * x.shape[0]
---
@ f(T(n, 3)) | 3 4 5
@ f(T(n, 3, 2)) | 3 4 5
@ f(T(n)) | 3 4 5

### all dimensions vary
def f(x):
    a, b, c = x.shape
    return x.permute(2, 0, 1).reshape(c, a * b)
---
@ f(T(n, n + 1, n + 2)) | 3 4 5 7

### a transposed input
def f(x):
    return x.t() * 2, x.stride()
---
@ f(T(n, 5).t()) | 3 4 6 7

### contiguous, then transposed
def f(x):
    return x * 2, x.is_contiguous()
---
@ f(T(n, 5)) | 3 4 6
@ f(T(5, n).t()) | 3 4 6

### a permuted input
def f(x):
    return x.contiguous().view(-1) + 1, x.stride()
---
@ f(T(n, 5, 2).permute(2, 0, 1)) | 3 4 6 7

### an expanded input
def f(x):
    return x + 1, x.stride()
---
@ f(T(n, 1).expand(n, 5)) | 3 4 6 7

### an input expanded to varying sizes
def f(x):
    return x.sum(1), x.stride(0)
---
@ f(T(3, 1).expand(3, n)) | 3 4 6 7

### a slice whose stride varies
def f(x):
    return x * 2, x.stride()
---
@ f(T(6, n)[:, :2]) | 3 4 6 7

### a slice with steps
def f(x):
    return x + 1, x.stride(), x.storage_offset()
---
@ f(T(12, 3)[::n]) | 2 3 4

### a view with an offset
def f(x):
    return x + 1
---
@ f(T(12, 3)[n:]) | 2 3 4 5

### storage_offset read
def f(x):
    return x + x.storage_offset()
---
@ f(T(12)[n:n+3]) | 2 3 4 5

### as_strided
def f(x):
    return x.as_strided((x.shape[0] - 1, 2), (1, 1)) * 2
---
@ f(T(n)) | 4 5 6 7

### reshape(-1)
def f(x):
    return x.reshape(-1) + 1, x.flatten(), x.view(-1, x.shape[-1])
---
@ f(T(n, 3, 2)) | 3 4 5 7

### view to heads
def f(x):
    b, t, c = x.shape
    return x.view(b, t, 2, c // 2).transpose(1, 2).contiguous().view(b, -1, c)
---
@ f(T(n, n + 1, 4)) | 3 4 5 7

### view by a rotated shape
def f(x):
    s = x.shape
    return x.reshape(s[1:] + s[:1])
---
@ f(T(n, 3)) | 3 4 5 7

### reshape that must divide
def f(x):
    try:
        return x.reshape(-1, 4)
    except RuntimeError as e:
        return str(e)
---
@ f(T(n, 3)) | 4 8 12 5 16 6

### unflatten and unsqueeze
def f(x):
    return x.unflatten(0, (-1, 2)).unsqueeze(1), x.unsqueeze(0).expand(2, -1, -1)
---
@ f(T(n, 3)) | 4 8 12 6

### squeeze of a size that may be 1
def f(x):
    return x.squeeze(), x.squeeze(0) * 2
---
@ f(T(n, 3)) | 4 8 1 6 1

### slices by ints
def f(x, a, b):
    return x[a:b] * 2, x[-b:], x[..., :a]
---
@ f(T(9, 4), n, n + 2) | 1 2 3 4

### slices out of range
def f(x, a):
    return x[a:] * 2, x[:a]
---
@ f(T(4, 3), n) | 2 3 4 5 6 -1 -2 -6

### slices by sizes
def f(x, y):
    return x[: y.shape[0]] + y[: x.shape[0]]
---
@ f(T(6, 3), T(n, 3)) | 2 3 4 5 8
@ f(T(n, 3), T(n, 3)) | 2 3 4 5 8

### an index by an int
def f(x, i):
    return x[i] * 2, x[:, i]
---
@ f(T(4, 4), n) | 0 1 2 3 -1

### an index that fails
def f(x, i):
    try:
        return x[i] * 2
    except IndexError as e:
        return str(e)
---
@ f(T(4, 4), n) | 2 1 3 4 5 -5 0

### the last half
def f(x):
    h = x.shape[-1] // 2
    return torch.cat((-x[..., h:], x[..., :h]), -1)
---
@ f(T(2, n)) | 4 6 8 5 10

### cat of varying sizes
def f(x, y):
    return torch.cat([x, y]), torch.cat((x, y), 0).shape[0]
---
@ f(T(n, 3), T(n + 1, 3)) | 3 4 5 7
@ f(T(n, 3), T(n, 3)) | 3 4 5 7

### cat of a list of varying length
def f(l):
    return torch.cat(l) * 2
---
@ f([T(n, 3), T(n + 1, 3)]) | 3 4 5
@ f([T(n, 3), T(n + 1, 3), T(2, 3)]) | 3 4 5

### stack and unbind
def f(x, y):
    a, b = torch.stack([x, y]).unbind(0)
    return a + b
---
@ f(T(n, 3), T(n, 3)) | 3 4 5 7

### split by a size
def f(x):
    return [t * 2 for t in x.split(2)]
---
@ f(T(n, 3)) | 4 6 5 8

### chunk
def f(x):
    a, b = x.chunk(2)
    return a * 2, b
---
@ f(T(n, 3)) | 4 6 5 8

### split by sizes
def f(x, k):
    a, b = x.split([k, x.shape[0] - k])
    return a * 2, b
---
@ f(T(9, 3), n) | 4 6 5 2
@ f(T(n + 4, 3), n) | 4 6 5 2

### matmul of varying sizes
def f(x, y):
    return x @ y
---
@ f(T(n, n + 1), T(n + 1, 4)) | 3 4 5 7

### batched matmul
def f(x, y):
    return torch.bmm(x, y), x @ y, torch.einsum("bij,bjk->bik", x, y)
---
@ f(T(n, 3, n + 1), T(n, n + 1, 4)) | 3 4 5 7

### linear and layer_norm
w, b = T(4, 6), T(4)
def f(x):
    return F.layer_norm(F.linear(x, w, b), (4,))
---
@ f(T(n, n + 1, 6)) | 3 4 5 7

### attention
def f(q, k, v):
    return F.scaled_dot_product_attention(q, k, v)
---
@ f(T(2, 2, n, 4), T(2, 2, n, 4), T(2, 2, n, 4)) | 3 4 5 7

### attention with a cache
def f(q, k, v):
    return F.scaled_dot_product_attention(q, k, v)
---
@ f(T(2, 2, 1, 4), T(2, 2, n, 4), T(2, 2, n, 4)) | 3 4 5 7

### attention with a causal mask
def f(q):
    n = q.shape[-2]
    m = torch.ones(n, n, dtype=torch.bool).tril()
    s = (q @ q.transpose(-1, -2)) / math.sqrt(q.shape[-1])
    return s.masked_fill(~m, float("-inf")).softmax(-1) @ q
---
@ f(T(2, n, 4)) | 3 4 5 7

### a growing cache
def f(k, new):
    k = torch.cat([k, new], 1)
    return k, k.sum(1)
---
@ f(T(2, n, 4), T(2, 1, 4)) | 3 4 5 6 7 8

### conv2d over image sizes
w = T(4, 3, 3, 3)
def f(x):
    return F.conv2d(x, w, stride=2, padding=1).relu()
---
@ f(T(1, 3, n, n + 1)) | 8 9 12 16

### conv1d over lengths
w = T(4, 3, 3)
def f(x):
    return F.conv1d(x, w)
---
@ f(T(2, 3, n)) | 8 9 12 16

### transposed convolution
w = T(3, 4, 2, 2)
def f(x):
    return F.conv_transpose2d(x, w, stride=2)
---
@ f(T(1, 3, n, n)) | 8 9 12 16

### pooling
def f(x):
    return F.max_pool2d(x, 2), F.avg_pool2d(x, 2), F.adaptive_avg_pool2d(x, 2)
---
@ f(T(1, 3, n, n)) | 8 9 12 16

### interpolate to a scaled size
def f(x):
    return F.interpolate(x, scale_factor=2.0), F.interpolate(x, size=(x.shape[2] * 2, 5), mode="bilinear")
---
@ f(T(1, 3, n, n)) | 8 9 12 16

### interpolate to an int
def f(x, k):
    return F.interpolate(x, size=(k, k), mode="bicubic")
---
@ f(T(1, 3, 4, 4), n) | 8 9 12 16

### embedding of varying lengths
w = T(10, 4)
def f(i):
    return F.embedding(i, w) + i.shape[1]
---
@ f(torch.arange(n).view(1, n)) | 3 4 5 7

### embedding with positions
w, p = T(10, 4), T(20, 4)
def f(i):
    pos = torch.arange(i.shape[1])
    return F.embedding(i, w) + F.embedding(pos, p) + p[: i.shape[1]]
---
@ f(torch.arange(n).view(1, n)) | 3 4 5 7

### a boolean mask by comparison
def f(x):
    return torch.where(x > 0, x, torch.zeros_like(x)), x.masked_fill(x < 0, 0)
---
@ f(T(n, 3)) | 3 4 5 7

### masked selection
def f(x):
    return x[x > 0]
---
@ f(T(n, 3)) | 3 4 5 7

### factories by sizes
def f(x):
    n = x.shape[0]
    return x + torch.zeros(n, 3) + torch.ones(x.shape) + torch.full((n, 1), 2.0) + torch.empty(n, 3).fill_(1) + torch.eye(n, 3)
---
@ f(T(n, 3)) | 3 4 5 7

### arange by sizes and ints
def f(x, k):
    return torch.arange(x.shape[0]), torch.arange(k, k + x.shape[0]), torch.arange(0, x.shape[0], 2), torch.arange(k).sum()
---
@ f(T(n, 3), n) | 3 4 5 7
@ f(T(n, 3), n - 1) | 3 4 5 7

### arange of floats
def f(x):
    return torch.arange(x.shape[0] / 2), torch.linspace(0, 1, x.shape[0])
---
@ f(T(n, 3)) | 3 4 5 7

### random tensors by sizes
def f(x):
    return x + torch.randn(x.shape[0], 3), torch.rand_like(x), torch.randint(0, 9, (x.shape[0],)), torch.randperm(x.shape[0])
---
@ f(T(n, 3)) | 3 4 5 7

### dropout
def f(x):
    return F.dropout(x, 0.5)
---
@ f(T(n, 3)) | 3 4 5 7

### reductions
def f(x):
    return x.mean(0), x.sum(1, keepdim=True), x.std(), x.amax(-1), x.argmax(0), x.cumsum(0), x.norm()
---
@ f(T(n, 3)) | 3 4 5 7

### softmax, cross entropy
def f(x, t):
    return F.softmax(x, -1), F.log_softmax(x, 0), F.cross_entropy(x, t)
---
@ f(T(n, 3), torch.arange(n) % 3) | 3 4 5 7

### mse of two inputs
def f(x, y):
    return F.mse_loss(x, y)
---
@ f(T(n, 3), T(n, 3)) | 3 4 5 7

### sort, topk
def f(x, k):
    return x.sort(0), x.topk(k, 0), x.flip(0), x.roll(1, 0)
---
@ f(T(n + 3, 3), n) | 2 3 4 5

### topk that asks for too much
def f(x, k):
    try:
        return x.topk(k, 0)[0]
    except RuntimeError:
        return None
---
@ f(T(5, 3), n) | 2 3 4 5 6 7

### gather and scatter
def f(x, i):
    return x.gather(0, i), torch.zeros_like(x).scatter(0, i, x), x.index_select(0, i[:, 0]), x[i[:, 0]]
---
@ f(T(n, 3), torch.arange(n * 3).view(n, 3) % n) | 3 4 5 7

### index_add of a graph
def f(x, e):
    return torch.zeros(x.shape[0], 3).index_add_(0, e[1], x[e[0]]), x.shape[0] + e.shape[1]
---
@ f(T(n, 3), torch.arange(2 * n + 2).view(2, n + 1) % n) | 3 4 5 7

### pad
def f(x):
    n = x.shape[0]
    return F.pad(x, (1, 2)), F.pad(x, (0, 0, 0, 8 - n)), F.pad(x, (0, 1), value=2.0)
---
@ f(T(n, 3)) | 3 4 5 7 8

### repeat and repeat_interleave
def f(x, k):
    return x.repeat(k, 2), x.repeat_interleave(k, 0), x.tile(k)
---
@ f(T(2, 3), n) | 2 3 4 5
@ f(T(n, 3), n) | 2 3 4 5

### expand to a size
def f(x, y):
    return x.expand(y.shape[0], -1), x.expand_as(y), x.broadcast_to(y.shape)
---
@ f(T(1, 3), T(n, 3)) | 2 3 4 5

### kron and outer
def f(x, y):
    return torch.kron(x, y), torch.outer(x[0], y[0])
---
@ f(T(n, 3), T(2, n)) | 2 3 4 5

### tril, triu, diag
def f(x):
    return x.tril(), x.triu(1), x.diag(), x.diagonal()
---
@ f(T(n, n)) | 2 3 4 5

### unfold
def f(x):
    return x.unfold(0, 2, 1) * 2
---
@ f(T(n, 3)) | 2 3 4 5

### movedim and swapaxes
def f(x):
    return x.movedim(0, -1).contiguous(), x.swapaxes(0, 1), x.mT
---
@ f(T(n, 3, n + 1)) | 2 3 4 5

### in-place operations on an input
def f(x):
    x.add_(1)
    x[0] = 5
    x.mul_(x.shape[0])
    return x.sum()
---
x3 = T(3, 2)
f(x3)
x4 = T(4, 2)
f(x4)
x5 = T(5, 2)
f(x5)
f(x5)

### in-place on a view of an input
def f(x):
    x[1:].add_(1)
    x.view(-1)[: x.shape[0]] *= 2
    return x
---
x3 = T(3, 2)
f(x3)
x4 = T(4, 2)
f(x4)
x5 = T(5, 2)
f(x5)
f(x5)

### assignment to a slice by an int
buf = torch.zeros(8, 3)
def f(x, k):
    buf[k : k + x.shape[0]] = x
    return buf.sum()
---
@ f(T(2, 3), n) | 0 1 2 3 4
@ f(T(n, 3), n) | 1 2 3 4

### out=
def f(x, out):
    torch.add(x, 1, out=out)
    return out * 2
---
@ f(T(n, 3), torch.empty(n, 3)) | 3 4 5 7

### resize of an output given
def f(x, out):
    torch.mul(x, 2, out=out)
    return out
---
@ f(T(n, 3), torch.empty(0)) | 3 4 5 7

### gradients
def f(x):
    return (x * x.shape[0]).sin().mean(0).sum()
w3 = [T(n, 3).requires_grad_() for n in range(9)]
def back(i, loss):
    loss.backward()
    return w3[i].grad
---
@ back(n, f(w3[n])) | 3 4 5 7 2

### gradients inside
def f(x):
    g, = torch.autograd.grad((x ** 2).sum() * x.shape[0], x)
    return g * 2
---
@ f(T(n, 3).requires_grad_()) | 3 4 5 7

### requires_grad changes
def f(x):
    return x * 2
---
@ f(T(n, 3)) | 3 4 5
@ f(T(n, 3).requires_grad_()) | 3 4 5

### dtype changes
def f(x):
    return x * 2
---
@ f(T(n, 3)) | 3 4 5
@ f(T(n, 3).double()) | 3 4 5

### backward in the function
w = T(3, 3).requires_grad_()
def f(x):
    loss = (x @ w).pow(2).mean()
    loss.backward()
    return loss.detach(), w.grad.clone()
---
@ f(T(n, 3)) | 3 4 5 7

### tensors in a list
def f(l):
    return l[0] * 2 + l[1].sum(), l[0].shape[0] + l[1].shape[0]
---
@ f([T(n, 3), T(n + 1)]) | 3 4 5 7

### tensors in a dict
def f(d):
    return {k: v * 2 for k, v in d.items()}, d["a"].shape[0]
---
@ f({"a": T(n, 3), "b": T(n + 1)}) | 3 4 5 7

### tensors in a dataclass
@dataclasses.dataclass
class Batch:
    x: torch.Tensor
    n: int
def f(b):
    return Batch(b.x * b.n + b.x.shape[0], b.n + b.x.shape[0])
---
@ f(Batch(T(n, 3), n + 1)) | 3 4 5 7

### a tensor attribute of a plain object
class C: pass
c = C()
def f():
    return c.t * c.t.shape[0]
---
c.t = T(3, 2)
f()
c.t = T(4, 2)
f()
c.t = T(5, 2)
f()
c.t = T(6, 2)
f()

### a global tensor replaced
t = T(3, 2)
def f(x):
    return t.sum() + x
---
f(X)
t = T(4, 2)
f(X)
t = T(5, 2)
f(X)
t = T(6, 2)
f(X)

### the same tensor twice
def f(x, y):
    x = x + 1
    return x * y, x.shape == y.shape
---
@ (lambda t: f(t, t))(T(n, 3)) | 3 4 5
@ f(T(n, 3), T(n, 3)) | 3 4 5

### len and iteration over a tensor
def f(x):
    s = 0
    for row in x:
        s = s + row.sum()
    return s * len(x)
---
@ f(T(n, 3)) | 3 4 3

### unpacking a tensor
def f(x):
    a, *rest = x
    return a, len(rest)
---
@ f(T(n, 3)) | 3 4 3

### size(), shape, numel, nelement, ndim
def f(x):
    return x * x.size(0) + x.size(-1) + x.numel() + x.nelement() + x.ndim, x.size()[0], x.shape.numel()
---
@ f(T(n, 3)) | 3 4 5

### stride and is_contiguous
def f(x):
    return x.t().stride(), x.t().is_contiguous(), x.stride(0), x.view(-1).stride()
---
@ f(T(n, 3) + 1) | 3 4 5
@ f(T(3, n) + 1) | 3 4 5

### element counts decide
def f(x):
    if x.numel() > 12:
        return x * 2
    return x + 1
---
@ f(T(n, 3)) | 3 4 5 6 7 2

### nested shapes
def f(x):
    b, *rest = x.shape
    return x.view(b * rest[0], *rest[1:]), x.new_zeros(b, 2), x.new_ones(x.shape)
---
@ f(T(n, 3, 2)) | 3 4 5

### complex and bool inputs
def f(x, m):
    return torch.view_as_real(x * 2), m & ~m, m.any()
---
@ f(torch.ones(n, 2, dtype=torch.complex64), torch.ones(n, dtype=torch.bool)) | 3 4 5

### a 0-dimensional input
def f(x, y):
    return x * y + y.shape[0]
---
@ f(torch.tensor(2.0), T(n)) | 3 4 5

### channels last
def f(x):
    return x * 2, x.stride()
---
@ f(T(2, 3, n, n).contiguous(memory_format=torch.channels_last)) | 4 5 6

### to and type conversions
def f(x):
    return x.to(torch.float64) + x.shape[0], x.half().float(), x.long() // x.shape[0], x.bool()
---
@ f(T(n, 3)) | 4 5 6

### clone, detach, contiguous
def f(x):
    return x.clone(), x.detach() * 2, x.contiguous() is x, x[::2].contiguous()
---
@ f(T(n, 3)) | 4 5 6

### item with a size
def f(x):
    k = x.sum().item()
    return x * k + x.shape[0]
---
@ f(T(n, 3)) | 4 5 6

### nonzero with a size
def f(x):
    i = (x > 0).nonzero()
    return x.shape[0], i * 2
---
@ f(T(n, 3)) | 4 5 6

### lerp, addmm, baddbmm
def f(x, y):
    return torch.lerp(x, x * 2, 0.3), torch.addmm(x, x @ y, x), torch.addcmul(x, x, x, value=2)
---
@ f(T(n, 3), T(3, n)) | 4 5 6

### cdist and pairwise
def f(x, y):
    return torch.cdist(x, y), (x[:, None] - y[None]).pow(2).sum(-1)
---
@ f(T(n, 3), T(n + 2, 3)) | 4 5 6

### grid_sample and affine_grid
def f(x):
    theta = torch.tensor([[[1.0, 0, 0], [0, 1, 0]]])
    g = F.affine_grid(theta, [1, 3, x.shape[2], x.shape[3]], align_corners=False)
    return F.grid_sample(x, g, align_corners=False)
---
@ f(T(1, 3, n, n + 1)) | 4 5 6

### meshgrid
def f(x, y):
    a, b = torch.meshgrid(x, y, indexing="ij")
    return a + b
---
@ f(T(n), T(n + 1)) | 4 5 6

### pixel_shuffle
def f(x):
    return F.pixel_shuffle(x, 2), F.pixel_unshuffle(x, 2)
---
@ f(T(1, 4, n, n)) | 4 6 8

### group and batch norm
bn = nn.BatchNorm2d(4)
gn = nn.GroupNorm(2, 4)
def f(x):
    return bn(x), gn(x)
---
@ f(T(n, 4, n + 1, 3)) | 4 6 8

### an lstm over lengths
m = nn.LSTM(3, 4, batch_first=True)
def f(x):
    return m(x)[0]
---
@ f(T(2, n, 3)) | 4 6 8

### multihead attention
m = nn.MultiheadAttention(4, 2, batch_first=True).eval()
def f(x):
    return m(x, x, x)[0]
---
@ f(T(2, n, 4)) | 4 6 8

### a transformer layer
m = nn.TransformerEncoderLayer(4, 2, 8, batch_first=True, dropout=0.0)
def f(x):
    return m(x)
---
@ f(T(2, n, 4)) | 4 6 8
""")
