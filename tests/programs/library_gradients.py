"""Autograd functions, gradients, and writes to views."""

from __future__ import annotations

from .texts import parse

PROGRAMS = parse("""
### autograd function without gradients
class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, k, name=None):
        ctx.save_for_backward(x)
        ctx.k = k
        ctx.set_materialize_grads(False)
        return x.tanh() * ctx.k + len(ctx.needs_input_grad), None, name, torch.is_grad_enabled()
    @staticmethod
    def backward(ctx, g, *_): return g, None, None
def f(x): return Scale.apply(x + 1, 3.0), Scale.apply(x, 2, "n"), torch.is_grad_enabled()
---
f(X)
f(Y)
torch.no_grad()(f)(X.clone().requires_grad_(True))
### autograd function with setup_context
class Both(torch.autograd.Function):
    @staticmethod
    def forward(x, y): return x + y, x * y
    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)
        seen.append(len(output))
    @staticmethod
    def backward(ctx, a, b): return a, b
seen = []
def f(x): return Both.apply(x, x + 1)
---
f(X)
f(Y)
seen
### autograd function in place
class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        x.mul_(2)
        return x
    @staticmethod
    def backward(ctx, g): return g * 2
def f(x):
    y = Double.apply(x)
    return y, y is x
---
f(X)
f(Y)
X
### autograd function over a parameter
W = T(3).requires_grad_(True)
class Times(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x): return x * W
    @staticmethod
    def backward(ctx, g): return g
def f(x):
    y = Times.apply(x)
    return y, y.requires_grad, (y * W).requires_grad
---
f(X)
f(Y)
### kernels of attention
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention as attend
kernels = [SDPBackend.MATH, SDPBackend.EFFICIENT_ATTENTION]
def on(): return torch.backends.cuda.flash_sdp_enabled()
def f(x):
    x = x.reshape(1, 1, *x.shape)
    with sdpa_kernel(SDPBackend.MATH):
        y = attend(x, x, x)
        a = on()
        with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
            b = on()
        c = on()
    with sdpa_kernel(kernels):
        y = y + attend(x, x, x)
    return y, a, b, c, on()
---
f(X)
on()
f(Y)
torch.backends.cuda.enable_flash_sdp(False)
f(X)
on()
torch.backends.cuda.enable_flash_sdp(True)
f(X)
kernels.append(SDPBackend.FLASH_ATTENTION)
f(X)
on()
### a question about data with an answer that is no tensor
def f(x, m): return torch._nested_tensor_from_mask_left_aligned(x[None], m[None])
---
f(X, torch.tensor([True, False]))
f(X, torch.tensor([False, True]))
### grad store
W = T(3).requires_grad_(True)
def f(x):
    W.grad = None
    return x * W
---
f(X).sum().backward()
f(Y).sum().backward()
W.grad
### grad of argument
def f(x): return x * 2 if x.grad is None else x.grad * 3
---
f(X)
f(X)
(lambda x: ((x * x).sum().backward(), f(x)))(Y.clone().requires_grad_(True))
### write to a view of a leaf without grad mode
W = T(3).requires_grad_(True)
def f(x):
    with torch.no_grad():
        W[:2].mul_(2)
        W.view(3)[0] = 1
    return x + W
---
f(X)
f(Y)
W
### write to a view of what is no leaf
def f(x, w):
    y = w * 2
    y[0] = 1
    y[1:].add_(x[0, 1:])
    z = torch.zeros(3)
    z[:2] += w[:2]
    return y, z
---
f(X, T(3).requires_grad_(True))
f(Y, T(3).requires_grad_(True))
### write to one of several views without grad
def f(x):
    a, b = x.clone().unbind()
    a.add_(b)
    return a
---
f(X)
f(Y)
### signature of a method
import inspect
class A:
    def m(self, a, b=2): return a
    def n(self, a): return a
a = A()
def f(x): return x * len(inspect.signature(a.m).parameters)
---
f(X)
f(Y)
A.m = A.n
f(X)
### a tensor stored by the module operator
D, L = {"a": 1}, [1, 2]
def f(x):
    y = x + 1
    operator.setitem(D, "z", y)
    operator.setitem(L, 0, y * 2)
    operator.iadd(L, y)
    return y * 3, len(L)
---
f(X)
f(X)
""")
