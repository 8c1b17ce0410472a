"""Questions about classes: isinstance, abstract classes, protocols, and how match asks them."""

from __future__ import annotations

from programs.texts import parse

PROGRAMS = parse(r"""
### isinstance of a tensor
K = (torch.Tensor,)
def f(x): return x + 1 if isinstance(x, K) else x - 1
---
f(X)
K = (int,)
f(X)
K = (int, (str, (torch.Tensor,)))
f(X)
K = int | str
f(X)
K = int | torch.Tensor
f(X)
### isinstance of a number
K = (int, float)
def f(x, n): return x + 1 if isinstance(n, K) else x - 1
---
f(X, 1)
K = (str, float)
f(X, 1)
f(X, 1.0)
### issubclass
K = (int, float)
def f(x, c): return x + 1 if issubclass(c, K) else x - 1
---
f(X, bool)
K = (str, float)
f(X, bool)
f(X, torch.Tensor)
K = (torch.Tensor,)
f(X, torch.Tensor)
### classes in a list item
K = [(torch.Tensor,)]
def f(x): return x + 1 if isinstance(x, K[0]) else x - 1
---
f(X)
K[0] = (nn.Parameter,)
f(X)
### class and metaclass methods
class M(type):
    def __instancecheck__(cls, o): return cls.answer
    def __subclasscheck__(cls, o): return not cls.answer
class A(metaclass=M): answer = True
def f(x): return (x + 1 if isinstance(x, A) else x - 1), isinstance(3, A), issubclass(int, A)
---
f(X)
A.answer = False
f(X)
M.__instancecheck__ = lambda cls, o: True
f(X)
M.__subclasscheck__ = lambda cls, o: "yes"
f(X)
### abstract class registered later
import abc
class A(abc.ABC): pass
class B: pass
b = B()
def f(x): return x + isinstance(b, A), issubclass(B, A), isinstance(x, A), isinstance(1, (A, str))
---
f(X)
A.register(B)
f(X)
A.register(int)
f(X)
A.register(torch.Tensor)
f(X)
### abstract class registered later, with nothing that matters
import abc
class A(abc.ABC): pass
class Other(abc.ABC): pass
class B: pass
class C: pass
b = B()
def f(x): return x + isinstance(b, A), isinstance(x, collections.abc.Mapping), issubclass(B, collections.abc.Sized)
---
f(X)
Other.register(C)
f(X)
Other.register(B)
f(X)
A.register(C)
f(X)
collections.abc.Sized.register(B)
f(X)
### abstract class whose token is read
import abc
class A(abc.ABC): pass
class B: pass
def f(x): return x + 1, isinstance(B(), A), abc.get_cache_token() - start
---
start = abc.get_cache_token()
f(X)
A.register(list)
f(X)
A.register(B)
f(X)
### abstract class asked about what says that it is another
import abc
class A(abc.ABC): pass
class Proxy:
    kind = int
    def __repr__(self): return "Proxy"
    @property
    def __class__(self): return self.kind
p = Proxy()
def f(x): return x + isinstance(p, A)
---
f(X)
A.register(int)
f(X)
A.register(Proxy)
p.kind = str
f(X)
### abstract class asked about what says by __getattribute__ that it is another
import abc
class A(abc.ABC): pass
class Meta(type):
    def __getattribute__(cls, n): return str if n == "__class__" else type.__getattribute__(cls, n)
class P:
    def __repr__(self): return "P"
    def __getattribute__(self, n): return int if n == "__class__" else object.__getattribute__(self, n)
class Q(metaclass=Meta): pass
p = P()
def f(x): return x + isinstance(p, A), isinstance(Q, A)
---
f(X)
A.register(int)
f(X)
A.register(str)
f(X)
### abstract class after one that says yes
import abc
class A(abc.ABC): pass
class B: pass
b = B()
log = []
class H(A):
    @classmethod
    def __subclasshook__(cls, C):
        log.append(C.__name__)
        return NotImplemented
def f(x): return x + isinstance(b, (B, A)), isinstance(b, B | A), issubclass(B, (B, A)), issubclass(B, A)
---
f(X)
log
A.register(list)
f(X)
log
### abstract class that was never asked, and a method later
class B: pass
b = B()
def f(x): return x + isinstance(b, (B, collections.abc.Sized)), issubclass(B, (object, collections.abc.Iterable))
---
f(X)
B.__len__ = lambda self: 3
B.__iter__ = lambda self: iter(())
isinstance(b, collections.abc.Sized), issubclass(B, collections.abc.Iterable)
f(X)
### abstract class whose subclass raises when it is asked
import abc
class A(abc.ABC): pass
class B: pass
b = B()
flag = False
class H(A):
    @classmethod
    def __subclasshook__(cls, C):
        if flag: raise ValueError
        return False
def f(x, c=True): return x + isinstance(b, A) if c else x
---
f(X)
f(X)
A.register(int)
flag = True
f(X, False)
f(X)
flag = False
f(X)
### match after a class was registered
import abc
class B:
    def __len__(self): return 1
    def __getitem__(self, i):
        if i: raise IndexError
        return 5
class A(abc.ABC): pass
b = B()
def f(x):
    x = x + isinstance(b, A)
    match b:
        case [n]: return x + n
        case _: return x
def g(x):
    match b:
        case {"a": n}: return x + 2
        case [n]: return x + n
        case _: return x
---
f(X)
f(X)
collections.abc.Sequence.register(B)
f(X)
### match after a class was registered as a mapping
class B:
    def keys(self): return ["a"]
    def get(self, key, default=None): return 5
b = B()
def f(x):
    match b:
        case {"a": n}: return x + n
        case _: return x
---
f(X)
f(X)
collections.abc.Mapping.register(B)
f(X)
### abstract class of collections
class B:
    def __len__(self): return 3
class C(B):
    def __iter__(self): return iter(())
    def __contains__(self, o): return False
b, c = B(), C()
def f(x, o): return x + isinstance(o, collections.abc.Sized), isinstance(o, collections.abc.Collection), isinstance(o, collections.abc.Sequence)
---
f(X, b)
f(X, c)
f(X, [1])
f(X, (1,))
f(X, X)
### subclass hook
import abc
class A(abc.ABC):
    @classmethod
    def __subclasshook__(cls, c): return True if hasattr(c, "mark") else NotImplemented
class B: pass
class C: mark = 1
def f(x): return x + isinstance(B(), A), isinstance(C(), A), issubclass(C, A)
---
f(X)
f(X)
### protocol
@typing.runtime_checkable
class P(typing.Protocol):
    def run(self): ...
class B: pass
class C:
    def run(self): return 1
b = B()
def f(x, o): return x + 1 if isinstance(o, P) else x - 1
---
f(X, C())
f(X, b)
b.run = 3
f(X, b)
del b.run
f(X, b)
### protocol with data
@typing.runtime_checkable
class P(typing.Protocol):
    n: int
class B: pass
b = B()
def f(x): return x + 1 if isinstance(b, P) else x - 1
---
f(X)
b.n = 1
f(X)
B.n = 2
del b.n
f(X)
### class of an object that claims another
class A: pass
class B:
    @property
    def __class__(self): return K
K = A
def f(x): return x + 1 if isinstance(B(), A) else x - 1
---
f(X)
K = int
f(X)
### bases changed
class A: pass
class B: pass
class C(A): pass
c = C()
def f(x): return x + 1 if isinstance(c, B) else x - 1
---
f(X)
C.__bases__ = (B,)
f(X)
""")
