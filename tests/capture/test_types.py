"""What is looked up on types: special methods, descriptors, names; and types that only look like others."""

from __future__ import annotations

import pytest

from . import harness
from .programs import parse

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
""")


@pytest.mark.parametrize("name", PROGRAMS)
def test_types(name: str) -> None:
    text, steps = PROGRAMS[name]
    harness.check(text, *steps)
