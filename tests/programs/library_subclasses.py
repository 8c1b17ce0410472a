"""Tensor subclasses: those that override `__torch_function__`, and those that wrap other tensors."""

from __future__ import annotations

from .texts import parse

PROGRAMS = parse("""
### subclass without methods
class A(torch.Tensor): pass
x = T(2, 3).as_subclass(A)
def f(x):
    y = x * 2 + 1
    return type(y).__name__, isinstance(y, A), type(x) is A, y
---
f(x)
f(X.as_subclass(A))
f(X)
### subclass that logs
LOG = []
class A(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        LOG.append((getattr(func, "__name__", "?"), len(args), kwargs is None, [t.__name__ for t in types]))
        return super().__torch_function__(func, types, args, kwargs)
x = T(4, 3).as_subclass(A)
def f(x):
    a, b = x.split(2)
    y = torch.cat([a, b]) + 1 - x.sin()
    return 2 - y, F.silu(y), y[0], y.shape, y > 0, -y, len(y), x.T.dtype
---
f(x)
LOG
f(x)
LOG
### subclass with units
class A(torch.Tensor):
    @staticmethod
    def __new__(cls, data, unit="m"):
        return torch.Tensor._make_subclass(cls, data)
    def __init__(self, data, unit="m"):
        self.unit = unit
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        units = [one.unit for one in args if isinstance(one, A)]
        with torch._C.DisableTorchFunctionSubclass():
            result = func(*args, **(kwargs or {}))
        if type(result) is torch.Tensor:
            result = A(result, "*".join(units) if func is torch.Tensor.mul else units[0])
        return result
    def twice(self):
        return self + self
    @property
    def label(self):
        return f"in {self.unit}"
a, b = A(T(3), "kg"), A(T(3, seed=1), "m")
def f(a, b):
    c = a * b
    return c, c.unit, c.twice().label, A(torch.ones(2), "s").sin(), (a + 1).unit
---
f(a, b)
f(b, a)
a.unit = "g"
f(a, b)
### subclass with a table of functions
TABLE = {}
class A(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if func in TABLE:
            return TABLE[func](*args, **(kwargs or {}))
        return super().__torch_function__(func, types, args, kwargs)
TABLE[torch.sin] = lambda x: x.cos() + 1
x = T(3).as_subclass(A)
def f(x):
    return torch.sin(x), x.sin()
---
f(x)
TABLE[torch.sin] = lambda x: x * 2
f(x)
### subclass with an attribute given to a result
class A(torch.Tensor): pass
x = T(3).as_subclass(A)
def f(x):
    y = x + 1
    y.note = ["here"]
    z = y.sin()
    y.note.append(z)
    return y * 2, y.note, z, y, hasattr(z, "note")
---
f(x)
f(x)
### __torch_function__ that raises
class A(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if func is torch.Tensor.mul:
            raise ValueError("no products")
        return super().__torch_function__(func, types, args, kwargs)
x = T(3).as_subclass(A)
def f(x):
    y = x + 1
    try:
        return y * 2
    except ValueError as error:
        return y - 1, str(error)
---
f(x)
f(x)
### two subclasses
class A(torch.Tensor): pass
class B(A): pass
class C(torch.Tensor): pass
a, b = T(3).as_subclass(A), T(3, seed=1).as_subclass(B)
def f(a, b):
    return type(a + b).__name__, a * b, b - a
---
f(a, b)
f(b, a)
f(a, a)
### subclass written to
class A(torch.Tensor): pass
x = T(3).as_subclass(A)
def f(x):
    y = x.mul_(2)
    x[0] = 7
    x += 1
    return y is x, y
---
f(x)
x
f(x)
x
### subclass with gradients
class A(torch.Tensor): pass
w = T(3).requires_grad_(True)
def f(x):
    return (w.as_subclass(A) * x).sin()
---
f(T(3)).as_subclass(torch.Tensor).sum().backward()
w.grad
f(T(3, seed=1)).as_subclass(torch.Tensor).sum().backward()
w.grad
### subclass as a parameter
class A(torch.Tensor): pass
class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(T(3).as_subclass(A))
        self.register_buffer("b", T(3, seed=1).as_subclass(A))
    def forward(self, x):
        return isinstance(self.w, nn.Parameter), x * self.w + self.b
m = M()
def f(x):
    return m(x)
---
f(T(3))
f(T(3, seed=2))
### subclass replaced between calls
class A(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return super().__torch_function__(func, types, args, kwargs)
x = T(3).as_subclass(A)
def other(cls, func, types, args=(), kwargs=None):
    with torch._C.DisableTorchFunctionSubclass():
        result = func(*args, **(kwargs or {}))
        return result * 2 if isinstance(result, torch.Tensor) else result
def f(x):
    return x + 1
---
f(x)
A.__torch_function__ = classmethod(other)
f(x)
### an object with __torch_function__
class A:
    def __init__(self, values):
        self.values = values
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        plain = [one.values if isinstance(one, A) else one for one in args]
        return A(func(*plain, **(kwargs or {}))), [t.__name__ for t in types]
def f(x):
    a = A(x)
    return torch.add(x, a)[0].values, torch.sin(a)[0].values, torch.add(x, a)[1], F.silu(a)[1]
---
f(X)
f(Y)
### overrides switched off
class A(torch.Tensor): pass
x = T(3).as_subclass(A)
def f(x):
    with torch._C.DisableTorchFunctionSubclass():
        y = x + 1
        on = torch._C._is_torch_function_enabled()
    return type(y).__name__, y, on, torch._C._is_torch_function_enabled(), x + 1
---
f(x)
f(x)
### subclass with a method of tensors of its own
class A(torch.Tensor):
    def sin(self):
        return torch.cos(self)
    ndim = 7
x = T(3).as_subclass(A)
def f(x):
    return x.sin(), x.ndim, torch.sin(x)
---
f(x)
f(x)
### subclass with an operator of its own
class A(torch.Tensor):
    def __add__(self, other):
        return 5
x = T(3).as_subclass(A)
def f(x):
    return x + 1, x * 2
---
f(x)
f(x)
### wrapper
from torch.testing._internal.two_tensor import TwoTensor
def f(x):
    y = x * 2
    return type(y).__name__, y.a, y.b + x.a, isinstance(y, TwoTensor)
---
f(TwoTensor(X, Y))
f(TwoTensor(Y, X))
""")
