"""Modules, tensors and torch's functions, as everyday Python uses them."""

from __future__ import annotations

from .texts import parse

PROGRAMS = parse(r"""
### module linear
m = nn.Linear(3, 4)
def f(x):
    return m(x)
---
f(X)
f(X)
f(T(5, 3))
### module with everything
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(3, 3)
        self.register_buffer("buf", torch.ones(3))
        self.par = nn.Parameter(torch.ones(3))
        self.layers = nn.ModuleList([nn.Linear(3, 3) for _ in range(2)])
        self.d = nn.ModuleDict({"a": nn.ReLU(), "b": nn.Linear(3, 3)})
        self.pl = nn.ParameterList([nn.Parameter(torch.ones(3))])
        self.pd = nn.ParameterDict({"k": nn.Parameter(torch.ones(3))})
        self.seq = nn.Sequential(collections.OrderedDict(l=nn.Linear(3, 3), r=nn.Tanh()))
        self.none = None
        self.calls = 0
    def forward(self, x):
        self.calls += 1
        x = self.lin(x) + self.buf * self.par
        for i, l in enumerate(self.layers):
            x = l(x) + i
        for k, v in self.d.items():
            x = v(x)
        x = self.layers[-1](x) + self.pl[0] + self.pd["k"]
        if self.none is None:
            x = self.seq(x)
        return x + len(self.layers) + len(self.seq), "a" in self.d, len(self.d)
m = Net()
def f(x):
    return m(x)
---
f(X)
m.training, m.calls
f(X)
m.calls = 0
m.eval() is m
f(X)
### batchnorm and dropout training flag
m = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3), nn.Dropout(0.5))
def f(x):
    return m(x)
---
f(X)
f(X)
m.eval() is m
f(X)
m.train() is m
f(X)
### module hooks
m = nn.Linear(3, 3)
log = []
h = m.register_forward_hook(lambda mod, a, o: o * 2)
p = m.register_forward_pre_hook(lambda mod, a: (a[0] + 1,))
def f(x):
    return m(x)
---
f(X)
f(X)
h.remove()
f(X)
k = m.register_forward_hook(lambda mod, a, o: o + 5)
f(X)
### module with kwargs hook
class M(nn.Module):
    def forward(self, x, *, k=1): return x * k
m = M()
def hook(mod, args, kwargs):
    return args, {"k": kwargs["k"] + 1}
m.register_forward_pre_hook(hook, with_kwargs=True)
def f(x):
    return m(x, k=3)
### parametrization
import torch.nn.utils.parametrize as P
class Sym(nn.Module):
    def forward(self, w): return w.triu() + w.triu(1).t()
m = nn.Linear(3, 3)
P.register_parametrization(m, "weight", Sym())
def f(x):
    return m(x)
---
f(X)
f(X)
### module methods and attributes
class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.ones(3))
        self.sub = nn.Linear(3, 3)
        self.cfg = {"k": 2}
    def forward(self, x):
        n = sum(p.numel() for p in self.parameters())
        names = [k for k, _ in self.named_parameters()]
        mods = [type(c).__name__ for c in self.modules()]
        ch = [k for k, _ in self.named_children()]
        return x * n + self.cfg["k"], names, mods, ch, self.training
m = M()
def f(x):
    return m(x)
---
f(X)
m.cfg["k"] = 3
f(X)
### module with property and super forward
class A(nn.Module):
    def __init__(self): super().__init__(); self.n = 2
    @property
    def twice(self): return self.n * 2
    def forward(self, x): return x * self.twice
class B(A):
    def forward(self, x): return super().forward(x) + 1
m = B()
def f(x):
    return m(x)
---
f(X)
m.n = 3
f(X)
### module created inside
def f(x):
    r = nn.ReLU()
    s = nn.Sequential(nn.ReLU(), nn.Identity())
    return r(x), s(x)
### functional modules
def f(x):
    return F.relu(x), F.softmax(x, dim=-1), F.gelu(x), F.layer_norm(x, (3,)), F.dropout(x, 0.5, training=False), F.pad(x, (1, 1)), F.one_hot(torch.tensor([1, 0]), 3)
---
f(X)
f(X)
### tensor attributes
def f(x):
    return x.shape, x.dtype, x.device, x.ndim, x.is_cuda, x.requires_grad, x.layout, x.dim(), x.numel(), len(x), x.T.shape, x.stride(), x.is_contiguous(), x.size(-1), x.element_size()
### gradient of an argument
def f(x): return x.grad
### iterate over tensor
def f(x):
    a, b = x
    return a + b, [r * 2 for r in x], torch.stack(list(x)), [r.shape for r in x]
---
f(X)
f(X)
### tensor indexing
def f(x):
    y = x.clone()
    y[0] = 1
    y[:, 1] += 2
    y[x > 0] = 0
    return x[0], x[-1, 1:], x[:, None], x[[0, 1]], x[torch.tensor([1, 0])], x[..., 0], y, x[x.shape[0] - 1]
---
f(X)
f(X)
### tensor operators
def f(x):
    return -x, abs(x), ~(x > 0), x ** 2, 2 ** x, x // 2, x % 2, 1 / x, x @ x.t(), x == x, x != 0, 3 - x, (x > 0) & (x < 1), x.sum() + 1, 2 * x, +x
### in-place operators
def f(x):
    y = x.clone()
    y += 1; y *= 2; y -= x; y /= 3
    z = y
    z += 1
    return y, z is y
### tensor in list mutated
def f(x):
    l = [x.clone(), x.clone()]
    for t in l:
        t.add_(1)
    l[0] += 1
    return l
### tensor methods
def f(x):
    return (x.view(-1), x.reshape(3, -1), x.t(), x.permute(1, 0), x.sum(0), x.mean(dim=1, keepdim=True), x.unsqueeze(0).squeeze(0), x.expand(2, 2, 3),
            x.chunk(2), x.split(1), x.float().double().to(torch.float32), x.type_as(x), x.new_zeros(2), x.max(), x.argmax(1), x.clamp(0, 1), x.detach(), x.clone())
---
f(X)
f(X)
### factories
def f(x):
    return torch.zeros(2), torch.ones_like(x), torch.arange(5), torch.tensor([1.0, 2.0]), torch.full((2,), 3), torch.eye(2), torch.empty(0), torch.zeros(x.shape, dtype=x.dtype, device=x.device), torch.linspace(0, 1, 3)
### random
def f(x):
    return torch.rand(2), F.dropout(x, 0.5), torch.randn_like(x), torch.bernoulli(torch.full((3,), 0.5))
### einsum and friends
def f(x):
    return torch.einsum("ij,kj->ik", x, x), torch.where(x > 0, x, 0), torch.cat([x, x]), torch.stack((x, x)), torch.matmul(x, x.t()), torch.meshgrid(torch.arange(2), torch.arange(2), indexing="ij")
### autograd function inside
def f(x):
    y = x.clone().requires_grad_()
    return (y * 2).sum()""")
