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
""")


@pytest.mark.parametrize("name", PROGRAMS)
def test_types(name: str) -> None:
    text, steps = PROGRAMS[name]
    harness.check(text, *steps)
