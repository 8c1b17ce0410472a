"""Programs around nn.Module: containers that change, hooks, parametrizations, buffers, parameters that are replaced."""

from __future__ import annotations

import pytest

from . import harness, texts

PROGRAMS = texts.parse("""
### modulelist mutated
m = nn.ModuleList([nn.Linear(3, 3), nn.ReLU()])
def f(x):
    for l in m: x = l(x)
    return x, len(m)
---
f(X)
f(Y)
m.append(nn.Tanh())
f(X)
m[0] = nn.Identity()
f(X)
del m[1]
f(X)
### moduledict mutated
m = nn.ModuleDict({"a": nn.Linear(3, 3), "b": nn.ReLU()})
def f(x, k): return m[k](x), list(m.keys()), "a" in m, len(m)
---
f(X, "a")
f(X, "b")
m["c"] = nn.Tanh()
f(X, "c")
m.pop("b")
f(X, "a")
### parameterlist mutated
p = nn.ParameterList([torch.ones(3), torch.zeros(3)])
def f(x):
    for q in p: x = x + q
    return x * p[0], len(p)
---
f(X)
p.append(torch.ones(3))
f(X)
p[0] = torch.full((3,), 4.0)
f(X)
### parameterdict mutated
p = nn.ParameterDict({"a": torch.ones(3)})
def f(x):
    for k, v in p.items(): x = x + v
    return x * p["a"], list(p)
---
f(X)
p["b"] = torch.ones(3)
f(X)
### sequential
m = nn.Sequential(collections.OrderedDict(a=nn.Linear(3, 3), b=nn.ReLU()))
def f(x): return m(x), m[0](x), m.a.weight.sum(), len(m), [type(l).__name__ for l in m], m[:1](x)
---
f(X)
f(Y)
m.add_module("c", nn.Tanh())
f(X)
### forward hooks
m = nn.Linear(3, 3)
log = []
def hook(mod, inp, out):
    log.append(1)
    return out * 2
def pre(mod, inp): return (inp[0] + 1,)
def f(x): return m(x)
---
f(X)
h = m.register_forward_hook(hook)
f(X)
g = m.register_forward_pre_hook(pre)
f(X)
h.remove()
f(X)
log
### forward hooks kwargs
class M(nn.Module):
    def forward(self, x, k=1): return x * k
m = M()
def hook(mod, args, kwargs, out): return out + kwargs["k"]
m.register_forward_hook(hook, with_kwargs=True)
def f(x): return m(x, k=3)
---
f(X)
f(Y)
### global hooks
m = nn.Linear(3, 3)
def f(x): return m(x)
---
f(X)
h = torch.nn.modules.module.register_module_forward_hook(lambda mod, i, o: o * 3)
f(X)
h.remove()
f(X)
### tensor hook
W = T(3).requires_grad_(True)
W.register_hook(lambda g: g * 2)
def f(x): return (x * W).sum()
---
f(X).backward()
f(Y).backward()
W.grad
### parametrize
import torch.nn.utils.parametrize as P
class Sym(nn.Module):
    def forward(self, w): return w.triu() + w.triu(1).T
m = nn.Linear(3, 3)
P.register_parametrization(m, "weight", Sym())
def f(x): return m(x)
---
f(X)
f(Y)
P.remove_parametrizations(m, "weight")
f(X)
### parametrize cached
import torch.nn.utils.parametrize as P
class Dbl(nn.Module):
    def forward(self, w): return w * 2
m = nn.Linear(3, 3)
P.register_parametrization(m, "weight", Dbl())
def f(x):
    with P.cached():
        return m(x) + m(x)
---
f(X)
f(Y)
### spectral norm
m = torch.nn.utils.parametrizations.spectral_norm(nn.Linear(3, 3))
def f(x): return m(x)
---
f(X)
f(Y)
m.eval()
f(X)
### weight norm
m = torch.nn.utils.parametrizations.weight_norm(nn.Linear(3, 3))
def f(x): return m(x)
---
f(X)
f(Y)
### old weight norm
m = torch.nn.utils.weight_norm(nn.Linear(3, 3))
def f(x): return m(x)
---
f(X)
f(Y)
### train eval
m = nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.5), nn.BatchNorm1d(3))
def f(x): return m(x), m.training
---
f(X)
m.eval()
f(X)
m.train()
f(X)
m[2].running_mean
### module attr mutation
class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.n = 0
        self.cache = None
        self.register_buffer("b", torch.zeros(3))
    def forward(self, x):
        self.n += 1
        self.b.add_(1)
        self.b = self.b * 2
        self.cache = x + self.b
        return self.cache * self.n
m = M()
def f(x): return m(x)
---
f(X)
f(X)
f(Y)
(m.n, m.cache, m.b, list(m._buffers))
### register buffer inside
class M(nn.Module):
    def forward(self, x):
        if not hasattr(self, "b"): self.register_buffer("b", torch.ones(3))
        return x + self.b
m = M()
def f(x): return m(x)
---
f(X)
f(Y)
m.b
### set parameter inside
class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.ones(3))
    def forward(self, x):
        with torch.no_grad(): self.w.mul_(2)
        self.w.data.add_(1)
        return x * self.w
m = M()
def f(x): return m(x)
---
f(X)
f(Y)
m.w
### parameter replaced
m = nn.Linear(3, 3)
def f(x): return m(x)
---
f(X)
m.weight = nn.Parameter(torch.ones(3, 3))
f(X)
m.bias = None
f(X)
m.weight.requires_grad_(False)
f(X)
### shared parameter
m = nn.Linear(3, 3); n = nn.Linear(3, 3); n.weight = m.weight
def f(x): return n(m(x)), m.weight is n.weight
---
f(X)
n.weight = nn.Parameter(torch.ones(3, 3))
f(X)
### named things
m = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))
def f(x):
    s = sum(p.sum() for p in m.parameters())
    n = [k for k, _ in m.named_parameters()]
    b = [k for k, _ in m.named_buffers()]
    c = [type(k).__name__ for k in m.modules()]
    d = [k for k, _ in m.named_children()]
    return x * s, n, b, c, d, m.get_submodule("0") is m[0], list(m.state_dict().keys())
---
f(X)
f(Y)
### apply inside
m = nn.Sequential(nn.Linear(3, 3))
def f(x):
    m.apply(lambda q: None)
    m.requires_grad_(True)
    m.zero_grad()
    m.train(False)
    return m(x), m.training
---
f(X)
f(Y)
### module call methods
class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.l = nn.Linear(3, 3)
    def helper(self, x): return self.l(x)
    def forward(self, x): return self.helper(x) + self.l.forward(x)
    def __len__(self): return 4
    def extra_repr(self): return "q"
m = M()
def f(x): return m.helper(x), m(x), len(m), m.forward(x), repr(m.l)
---
f(X)
f(Y)
### functional call
m = nn.Linear(3, 3)
def f(x, w): return torch.func.functional_call(m, {"weight": w}, (x,))
---
f(X, torch.ones(3, 3))
f(Y, torch.zeros(3, 3))
### attention modules
m = nn.MultiheadAttention(4, 2, batch_first=True)
def f(x): return m(x, x, x, need_weights=False)[0], m(x, x, x)[1]
---
f(T(2, 3, 4))
m.eval()
f(T(2, 3, 4))
### transformer eval
m = nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 8, batch_first=True, dropout=0.0), 2).eval()
def f(x): return m(x)
---
f(T(2, 3, 4))
f(T(2, 3, 4, seed=4))
### lstm gru
m = nn.LSTM(3, 4, 2, batch_first=True); g = nn.GRUCell(3, 4)
def f(x): return m(x[None])[0], g(x)
---
f(X)
f(Y)
### embedding
m = nn.Embedding(10, 3, padding_idx=0); b = nn.EmbeddingBag(10, 3)
def f(i): return m(i), b(i)
---
f(torch.tensor([[1, 2], [0, 3]]))
f(torch.tensor([[1, 2], [0, 4]]))
### losses
y = torch.tensor([0, 2])
ce = nn.CrossEntropyLoss(weight=torch.ones(3)); kl = nn.KLDivLoss(reduction="batchmean")
def f(x): return ce(x, y), F.mse_loss(x, x * 2), kl(x.log_softmax(1), x.softmax(1)), F.cosine_similarity(x, x + 1), nn.L1Loss()(x, x * 3), F.nll_loss(x, y), nn.BCEWithLogitsLoss()(x, x.sigmoid())
---
f(X)
f(Y)
### conv modules
m = nn.Sequential(nn.Conv2d(2, 3, 3, padding=1), nn.BatchNorm2d(3), nn.ReLU(inplace=True), nn.MaxPool2d(2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Unflatten(1, (3, 1)))
def f(x): return m(x)
---
f(T(1, 2, 4, 4))
f(T(1, 2, 4, 4, seed=2))
m[1].num_batches_tracked
### upsample interpolate
def f(x): return F.interpolate(x, scale_factor=2), nn.Upsample(scale_factor=2, mode="bilinear")(x), F.pad(x, (1, 1)), F.grid_sample(x, torch.zeros(1, 2, 2, 2), align_corners=False), nn.PixelShuffle(2)(x)
---
f(T(1, 4, 3, 3))
f(T(1, 4, 3, 3, seed=2))
### dynamic attr module
class M(nn.Module):
    def __init__(self):
        super().__init__()
        for i in range(2): setattr(self, f"l{i}", nn.Linear(3, 3))
    def forward(self, x):
        for i in range(2): x = getattr(self, f"l{i}")(x)
        return x
m = M()
def f(x): return m(x)
---
f(X)
m.l1 = nn.Identity()
f(X)
### module getattr override
class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(3, 3)
    def __getattr__(self, n):
        try: return super().__getattr__(n)
        except AttributeError: return getattr(self.inner, n)
    def forward(self, x): return x @ self.weight.T + self.bias
m = M()
def f(x): return m(x)
---
f(X)
f(Y)
### module subclass override call
class M(nn.Module):
    def __call__(self, x): return super().__call__(x) + 1
    def forward(self, x): return x * 2
m = M()
def f(x): return m(x)
---
f(X)
M.forward = lambda self, x: x * 5
f(X)
### forward replaced
m = nn.Linear(3, 3)
def f(x): return m(x)
---
f(X)
m.forward = lambda x: x * 7
f(X)
del m.forward
f(X)
### deepcopy module outside
m = nn.Linear(3, 3)
def f(x): return m(x)
---
f(X)
m = copy.deepcopy(m)
f(X)
### to dtype
m = nn.Linear(3, 3)
def f(x): return m(x)
---
f(X)
m.double()
f(X.double())
m.float()
f(X)
### load state dict
m = nn.Linear(3, 3)
def f(x): return m(x)
---
f(X)
m.load_state_dict({"weight": torch.ones(3, 3), "bias": torch.zeros(3)})
f(X)
### buffer class
class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.b = nn.Buffer(torch.ones(3))
        self.register_buffer("np", torch.ones(3), persistent=False)
    def forward(self, x): return x * self.b + self.np
m = M()
def f(x): return m(x)
---
f(X)
m.b = torch.zeros(3)
f(X)
### nested modules deep
class B(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.l = nn.Linear(3, 3)
        self.next = B(d - 1) if d else None
    def forward(self, x):
        x = self.l(x)
        return self.next(x) if self.next is not None else x
m = B(4)
def f(x): return m(x)
---
f(X)
m.next.next = None
f(X)
""")


@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name: str) -> None:
    program, steps = PROGRAMS[name]
    harness.check(program, *steps)


@pytest.mark.parametrize("name", PROGRAMS)
def test_changes_after_many_calls(name: str) -> None:
    program, steps = PROGRAMS[name]
    harness.check(
        program, *(f"[{step} for _ in range(6)][-1]" if step[:2] == "f(" else step for step in steps)
    )


def test_lazy_module_is_captured_once_it_has_parameters() -> None:
    program = """
m = nn.Sequential(nn.LazyLinear(4), nn.ReLU())
def f(x): return m(x)
"""
    report = harness.run(program, ["f(X)", "f(X)", "f(Y)", "m[0].weight"])
    assert (report.captures, report.hits, report.failures) == (1, 2, [])
