"""What is looked up on types: special methods, descriptors, names; and types that only look like others."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch
from programs import harness
from programs.texts import parse

import magneto

PROGRAMS = parse(r"""
### class with the name of a partial
Fake = type("functools.partial", (), {})
def f(x): return x + 1, Fake()
---
f(X)
f(X)
### class with the name of a getter
Fake = type("operator.itemgetter", (), {"__call__": lambda self, value: value + 2})
g = Fake()
def f(x): return g(x), Fake(), g
---
f(X)
f(X)
### class with the name of a cached function
Fake = type("functools._lru_cache_wrapper", (), {"__call__": lambda self, value: value + 2})
g = Fake()
def f(x): return g(x), g
---
f(X)
f(X)
### class with the name of a namedtuple's field
Fake = type("_collections._tuplegetter", (), {"__get__": lambda self, owner, kind: 7, "__set__": None})
class P(tuple):
    a = Fake()
p = P((1, 2))
def f(x): return x + p.a
---
f(X)
f(X)
### class with the name of a dtype
Fake = type("torch.dtype", (), {})
g = Fake()
def f(x, y): return x + 1, y is g
---
f(X, g)
f(X, g)
### metaclass whose hash has effects
seen = []
class Meta(type):
    def __hash__(cls):
        seen.append(cls.__name__)
        return 7
    def __eq__(cls, other): return cls is other
class A(metaclass=Meta):
    def __init__(self): self.n = 1
a = A()
def f(x): return x + a.n, A().n, A, isinstance(a, A)
---
f(X)
f(X)
### object whose hash has effects, called, returned and compared
seen = []
class A:
    def __hash__(self):
        seen.append(1)
        return 7
    def __eq__(self, other): return self is other
    def __call__(self, x): return x + 1
    def method(self, x): return x + 2
a = A()
class B(list):
    __hash__ = A.__hash__
b = B([1])
def f(x): return a(x), a.method(x), a, b.count(1), b
---
f(X)
f(X)
### descriptor with a __set__ and no __get__
class D:
    def __set__(self, owner, value): owner.__dict__["a"] = value + 1
class A:
    a = D()
o = A()
empty = A()
o.__dict__["a"] = 5
def f(x):
    o.a = o.a + 1
    return x + o.a, type(empty.a)
---
f(X)
f(X)
D.__get__ = lambda self, owner, kind: 40
f(X)
del D.__get__
f(X)
### descriptor with a __set__ and no __get__ on a metaclass
class D:
    def __set__(self, owner, value): pass
class Meta(type):
    a = D()
class A(metaclass=Meta):
    a = 3
class B(metaclass=Meta): pass
def f(x): return x + A.a, type(B.a)
---
f(X)
f(X)
D.__get__ = lambda self, owner, kind: 40
f(X)
del D.__set__
f(X)
### descriptor with a __delete__ and no __get__
class D:
    def __delete__(self, owner): owner.__dict__["gone"] = 1
class A:
    a = D()
o = A()
o.__dict__["a"] = 5
def f(x):
    del o.a
    return x + o.a, o.gone
---
f(X)
f(X)
### object found through super gets a __get__
class D: pass
class Base:
    d = D()
class A(Base):
    def read(self): return super().d
    @classmethod
    def read_class(cls): return super().d
a = A()
def f(x): return x + 1, type(a.read()), type(A.read_class())
---
f(X)
f(X)
D.__get__ = lambda self, owner, kind: 7
f(X)
D.__get__ = lambda self, owner, kind: 8
f(X)
del D.__get__
f(X)
### object found on a metaclass gets a __get__
class D: pass
class Meta(type):
    d = D()
class A(metaclass=Meta): pass
def f(x): return x + 1, type(A.d)
---
f(X)
f(X)
D.__get__ = lambda self, owner, kind: 7
f(X)
D.__set__ = lambda self, owner, value: None
f(X)
del D.__get__
f(X)
### class value gets a __set__
class D: pass
class A:
    d = D()
a, b = A(), A()
def f(x):
    a.d = 3
    made = A()
    made.d = 4
    return x + 1, a.__dict__.get("d"), made.__dict__.get("d")
---
f(X)
f(X)
D.__set__ = lambda self, owner, value: owner.__dict__.update(d=value + 10)
f(X)
D.__set__ = lambda self, owner, value: None
f(X)
del D.__set__
f(X)
### class value gets a __delete__
class D: pass
class A:
    d = D()
def f(x):
    a = A()
    a.__dict__["d"] = 1
    del a.d
    return x + 1, a.__dict__.get("d")
---
f(X)
f(X)
D.__delete__ = lambda self, owner: None
f(X)
del D.__delete__
f(X)
### names of classes and functions in errors that are handled
class A: pass
def g(a): return a
o = A()
def f(x):
    texts = []
    for action in (lambda: o + 1, lambda: o.missing, lambda: g(), lambda: g(1, 2), lambda: o(), lambda: len(o), lambda: A(1)):
        try: action()
        except Exception as e: texts.append(str(e))
    return x + 1, texts
---
f(X)
f(X)
A.__name__ = "Other"
f(X)
A.__qualname__ = "Outer.Other"
f(X)
g.__name__ = "h"
f(X)
g.__qualname__ = "outer.h"
f(X)
### names of classes and functions in texts
class A: pass
def g(a): return a
def f(x): return x + 1, str(A), f"{A}", "%s" % A, "{}".format([A]), [repr(v) for v in (A,)], list(map(repr, [A]))
---
f(X)
f(X)
A.__qualname__ = "Other"
f(X)
A.__module__ = "elsewhere"
f(X)
### errors that name the class of a tensor
class A: pass
a = A()
def f(x):
    y, texts = x + 1, []
    for action in (lambda: x + "s", lambda: "s" + y, lambda: [1] + y, lambda: a * x, lambda: y < "s", lambda: y.missing):
        try: action()
        except Exception as e: texts.append((type(e).__name__, str(e)))
    return y, texts
### checks against legacy tensor types
def f(x):
    values = x, x + 1, x.long(), x.double(), x > 0, 3
    kinds = torch.FloatTensor, torch.LongTensor, torch.DoubleTensor, torch.BoolTensor, (torch.IntTensor, torch.FloatTensor)
    return [isinstance(value, kind) for value in values for kind in kinds]
---
f(X)
f(X)
f(X.double())
f(X)
### checks against the classes of parameters and buffers
b, p, t = nn.Buffer(torch.ones(3)), nn.Parameter(torch.ones(3)), torch.ones(3)
def f(x):
    y = x + 1
    return y, [isinstance(v, k) for v in (b, p, t, x, y) for k in (nn.Buffer, nn.Parameter, (int, nn.Buffer), nn.Parameter | int)]
---
f(X)
f(X)
b._is_buffer = False
f(X)
### objects with a torch function
from torch.overrides import has_torch_function, has_torch_function_unary, has_torch_function_variadic, is_tensor_like
class Like:
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None): return func.__name__
class Dynamic:
    def __getattr__(self, name):
        if name != "__torch_function__": raise AttributeError(name)
        return lambda *args, **kwargs: 7
class Plain: pass
like, dynamic, plain, own = Like(), Dynamic(), Plain(), Plain()
own.__torch_function__ = lambda *args, **kwargs: 8
def f(x):
    objects = like, dynamic, plain, own, x, 1, None, "s"
    return (
        x + 1, [has_torch_function((o,)) for o in objects], [has_torch_function_unary(o) for o in objects],
        has_torch_function_variadic(x, like), has_torch_function_variadic(x, plain), has_torch_function([x, like]),
        has_torch_function_variadic(), [is_tensor_like(o) for o in objects], torch.nn.init.constant_(like, 1.0),
    )
---
f(X)
f(X)
del own.__torch_function__
f(X)
Plain.__torch_function__ = Like.__torch_function__
f(X)
### generators under no_grad that get an exception
def gen(x):
    try: yield x + 1
    except ValueError: yield torch.is_grad_enabled()
    yield 2
def f(x):
    g = torch.no_grad()(gen)(x)
    made = next(g)
    return made, g.throw(ValueError), list(g), torch.is_grad_enabled()
### generators that get an exception before they start
def gen(): yield 1
def f(x):
    texts = []
    for g in (gen(), torch.no_grad()(gen)()):
        try: g.throw(ValueError("a"))
        except ValueError as e: texts.append(repr(e))
    return x + 1, texts
### hooks that are always called
class M(nn.Module):
    def forward(self, x):
        if self.bad: raise ValueError("bad")
        return x + 1
log = []
m = M()
m.bad = True
handle = m.register_forward_hook(lambda module, args, output: log.append(output is None), always_call=True)
def f(x):
    try: m(x)
    except ValueError as e: log.append(str(e))
    return x + 1, list(log)
---
f(X)
f(X)
m.bad = False
f(X)
f(X)
""")


BROKEN = parse(r"""
### checks against protocols and wrong classes
@typing.runtime_checkable
class Shaped(typing.Protocol):
    shape: tuple
@typing.runtime_checkable
class Other(typing.Protocol):
    def other(self): ...
def f(x):
    y, texts = x + 1, []
    for action in (lambda: isinstance(y, 3), lambda: issubclass(y, int), lambda: isinstance(y, (int, "s"))):
        try: action()
        except Exception as e: texts.append(str(e))
    return y, isinstance(y, Shaped), isinstance(x, Other), isinstance(y, collections.abc.Sized), texts
### buffers and parameters that captured code makes
m = nn.Linear(2, 2)
def f(x):
    m.b, m.c, m.d = nn.Buffer(torch.ones(3)), nn.Buffer(torch.ones(2), persistent=False), torch.ones(3)
    return x + m.b, sorted(m._buffers), sorted(m.state_dict())
### errors that name the class of a parameter
p = nn.Parameter(torch.ones(3))
def f(x):
    y, texts = x + 1, []
    for action in (lambda: p + "s", lambda: p & "s", lambda: p(), lambda: list(map(p, [1])), lambda: p.missing):
        try: action()
        except Exception as e: texts.append((type(e).__name__, str(e)))
    return y, texts
### hooks that are always called, behind a break
class M(nn.Module):
    def forward(self, x):
        y = x + 1
        print("break")
        raise ValueError("bad")
class N(nn.Module):
    def __init__(self):
        super().__init__()
        self.m = M()
    def forward(self, x): return self.m(x * 2)
log = []
n = N()
n.register_forward_hook(lambda module, args, output: log.append(("outer", output is None)), always_call=True)
n.m.register_forward_hook(lambda module, args, output: log.append(("inner", output is None)), always_call=True)
n.m.register_forward_hook(lambda module, args, output: log.append("never"))
def f(x):
    try: n(x)
    except ValueError as e: log.append(str(e))
    return x + 1, list(log)
### functions with a torch function that are called whole
class Like:
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None): return func.__name__
like = Like()
def f(x): return torch.sin(like), F.relu(like), torch.add(x, like), x + like, torch.cat([x, like]), x + 1
### numbers with a torch function
class Count(int):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None): return func.__name__
class Weight(float):
    def __torch_function__(self, *args, **kwargs): return NotImplemented
class Phase(complex):
    @property
    def __torch_function__(self): raise ValueError("no function")
class Plain(int): pass
class Level(enum.IntEnum):
    low = 2
count, weight, phase, plain, level = Count(2), Weight(0.5), Phase(1j), Plain(3), Level.low
def attempt(action, x):
    try: return action(x)
    except Exception as e: return type(e).__name__, str(e).split("\n")[0]
actions = (
    lambda x: x + count, lambda x: count + x, lambda x: x[count], lambda x: x.sum(count), lambda x: torch.full((2,), count),
    lambda x: x.reshape(-1, count), lambda x: torch.stack([x, x], dim=count), lambda x: x * weight, lambda x: x + plain,
    lambda x: torch.add(x, x, alpha=weight), lambda x: x + phase, lambda x: x[:, level], lambda x: x.mul(count),
    lambda x: (x + 1).add_(count), lambda x: x.sum(dim=plain), lambda x: torch.tensor([plain, count]), lambda x: x[:count],
)
def f(x, i): return x + 1, attempt(actions[i], x), x + 2
---
[f(X, i) for i in range(len(actions))]
[f(X, i) for i in range(len(actions))]
Plain.__torch_function__ = Count.__torch_function__
[f(X, i) for i in range(len(actions))]
del Plain.__torch_function__
plain.__torch_function__ = lambda *args: 8
[f(X, i) for i in range(len(actions))]
del plain.__torch_function__
[f(X, i) for i in range(len(actions))]
Count.__torch_function__ = torch._C._disabled_torch_function_impl
[f(X, i) for i in range(len(actions))]
### numbers that get a torch function of their own
class Plain(int): pass
class Items(list): pass
plain, items = Plain(1), Items([1, 2])
def f(x): return x + plain, x.sum(plain), torch.full(items, 2.0)
---
f(X)
f(X)
plain.other = 1
f(X)
plain.__torch_function__ = lambda *args: 8
f(X)
del plain.__torch_function__
f(X)
items.__torch_function__ = lambda *args: 9
f(X)
### numbers that say what they are worth
log = []
def noted(value):
    def method(self):
        log.append(value)
        return value
    return method
class Count(int):
    __index__, __int__, __float__, __bool__ = noted(1), noted(1), noted(0.25), noted(False)
class Weight(float):
    __index__, __int__, __float__, __bool__ = noted(1), noted(1), noted(0.25), noted(False)
class Items(float):
    __len__ = noted(1)
    def __getitem__(self, i):
        log.append(i)
        return [1][i]
count, weight, items = Count(0), Weight(1.5), Items(1.0)
def attempt(action, x):
    try: return action(x)
    except Exception as e: return type(e)
actions = (
    lambda x: x + count, lambda x: x[count], lambda x: x[weight], lambda x: x.sum(count), lambda x: x.sum(weight),
    lambda x: F.dropout(x, count), lambda x: torch.tensor(count), lambda x: torch.tensor([count], dtype=torch.float64),
    lambda x: torch.tensor([weight, count]), lambda x: torch.tensor(count, dtype=torch.bool), lambda x: x * weight,
    lambda x: torch.full((2,), weight), lambda x: x.sum(0, count), lambda x: x.clamp(count, weight), lambda x: x[items],
    lambda x: torch.zeros(items), lambda x: x.quantile(count), lambda x: F.relu(x, count), lambda x: x[:count],
)
def f(x, i): return x + 1, attempt(actions[i], x), list(log)
---
[f(X, i) for i in range(len(actions))]
[f(X, i) for i in range(len(actions))]
Count.__float__ = noted(0.5)
[f(X, i) for i in range(len(actions))]
### weak references whose callbacks are called
import weakref
log = []
class A: pass
def callback(reference): log.append("gone")
def f(x):
    a = A()
    r = weakref.ref(a, callback)
    del a
    return x + 1, list(log), r() is None
""")

# Finalizers, each of which stops a capture: print can't be captured.
FINALIZERS = {
    "another name": "def close(self): print(1)\n    __del__ = close",
    "any arguments": "def close(*args): print(len(args))\n    __del__ = close",
    "lambda": "__del__ = lambda self: print(1)",
    "raises": "def close(self):\n        print(1)\n        raise ValueError(2)\n    __del__ = close",
    "builtin": "__del__ = print",
    "callable object": "__del__ = Closer()",
    "partial": "__del__ = functools.partial(print, 3)",
    "static": "__del__ = staticmethod(lambda: print(1))",
    "calls another": "def close(self): print(1)\n    def __del__(self): self.close()",
    "None": "__del__ = None",
}


@pytest.mark.parametrize("change", ["replaced", "hidden", "None", "deleted", "another class"])
def test_compiled_object_whose_class_gets_another_call(change: str) -> None:
    class Base:
        def __call__(self, x: torch.Tensor) -> torch.Tensor:
            return x + 1

    class Derived(Base):
        pass

    class Other:
        def __call__(self, x: torch.Tensor) -> torch.Tensor:
            return x + 4

    changes: dict[str, Callable[[], Any]] = {
        "replaced": lambda: setattr(Base, "__call__", lambda self, x: x + 2),
        "hidden": lambda: setattr(Derived, "__call__", lambda self, x: x + 3),
        "None": lambda: setattr(Derived, "__call__", None),
        "deleted": lambda: delattr(Base, "__call__"),
        "another class": lambda: setattr(model, "__class__", Other),
    }
    model = Derived()
    compiled = magneto.compile(model, backend="eager")
    outer = magneto.compile(lambda x: compiled(x) * 2, backend="eager")
    x = torch.ones(2)
    for function, factor in ((compiled, 1), (outer, 2)):
        assert function(x).tolist() == function(x).tolist() == [2 * factor] * 2
    changes[change]()
    for function, factor in ((compiled, 1), (outer, 2)):
        for _ in range(2):
            try:
                expected: Any = (model(x) * factor).tolist()  # type: ignore[operator]
            except TypeError as error:
                expected = str(error)
            try:
                found: Any = function(x).tolist()
            except TypeError as error:
                found = str(error)
            assert found == expected


@pytest.mark.parametrize("name", BROKEN)
def test_types_with_breaks(name: str) -> None:
    text, steps = BROKEN[name]
    with magneto.config.patch(recompile_limit=64):
        harness.run(text, steps, compile=lambda function: magneto.compile(function, backend="eager"))


@pytest.mark.parametrize("name", FINALIZERS)
def test_finalizer_shows_no_exception_of_ours(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[str] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda args: shown.append(repr(args.exc_value)))
    text = f"""
class Closer:
    def __call__(self, *args): print("called")
class A:
    {FINALIZERS[name]}
class B(A): pass
def f(x):
    a = A()
    a = None
    for i in range(2): b = B()
    del b
    with contextlib.suppress(BaseException): A()
    return x + 1
"""
    steps = ("f(X)", "f(X)")
    eager = harness.Side(text, None)
    for step in steps:
        eager.step(step)
    expected = list(shown)
    harness.run(text, steps, compile=lambda function: magneto.compile(function, backend="eager"))
    assert shown == expected * 3  # once above, and on both sides


@pytest.mark.parametrize("name", PROGRAMS)
def test_types(name: str) -> None:
    text, steps = PROGRAMS[name]
    harness.check(text, *steps)
