"""Functions in C that look into their arguments or call them: signatures, keys, heaps, itertools, re."""

from __future__ import annotations

from programs.texts import parse

PROGRAMS = parse(r"""
### broadcast_shapes
def f(x, s): return x * torch.broadcast_shapes(s, (1, 3))[0]
---
f(X, (2, 1))
f(X, (7, 1))
f(X, torch.Size([5, 1]))
### promote and cast
D = (torch.float32, torch.int64)
def f(x): return x.to(torch.promote_types(*D)), torch.can_cast(D[1], D[0]), torch.can_cast(from_=D[0], to=D[1])
---
f(X)
D = (torch.float64, torch.int64)
f(X)
### result_type
def f(x, n): return torch.result_type(x, n), torch.result_type(tensor=x, other=n), x * 2
---
f(X, 1)
f(X.long(), 1.5)
f(X.long(), 2)
### signature of a closure
import inspect
def make(d):
    def g(a=d): return a
    return g
def f(x, h): return x * inspect.signature(h).parameters["a"].default
---
f(X, make(2))
f(X, make(3))
### parts of a function
def h(a=1, *, b=2) -> int: return a
def make(n):
    def k(): return n
    return k
k = make(3)
def f(x): return x * h.__defaults__[0] + h.__kwdefaults__["b"], dict(h.__annotations__), k.__closure__[0].cell_contents, make.__defaults__
---
f(X)
h.__defaults__ = (5,)
f(X)
h.__kwdefaults__ = {"b": 7}
f(X)
h.__kwdefaults__["b"] = 8
f(X)
h.__annotations__["a"] = "int"
f(X)
k = make(4)
f(X)
make.__defaults__ = (1,)
f(X)
### globals of a function
n = 2
def h(): return n
space = {"n": 3}
exec("def k(): return n", space)
k = space["k"]
def f(x): return x * h.__globals__["n"] + k.__globals__["n"], len(k.__globals__)
---
f(X)
n = 5
f(X)
space["n"] = 9
f(X)
space["m"] = 1
f(X)
### signature of a changed function
import inspect
def h(a=1, *, b=2): return a
def f(x): return [(p.name, str(p.kind), p.default) for p in inspect.signature(h).parameters.values()], x + 1
---
f(X)
h.__defaults__ = (5,)
f(X)
h.__kwdefaults__ = {"b": 7}
f(X)
exec("def h(c=9): pass", globals())
f(X)
### signature with a list
import inspect
def h(a=[1]): return a
def f(x):
    d = inspect.signature(h).parameters["a"].default
    d.append(2)
    return x * len(d)
---
f(X)
f(X)
h.__defaults__
### signature of a class and a method
import inspect
class A:
    def __init__(self, n=1): self.n = n
    def m(self, k=3): return k
a = A()
def f(x): return list(inspect.signature(A).parameters), list(inspect.signature(a.m).parameters), inspect.signature(A).parameters["n"].default, x + 1
---
f(X)
A.__init__.__defaults__ = (4,)
f(X)
A.__init__ = lambda self, other=2: None
f(X)
### operator.call
log = []
def g(a, *b, k=1): return a + sum(b) * k
def f(x):
    operator.call(log.append, 1)
    return operator.call(g, x, 2, k=3), operator.call(torch.add, x, 1), operator.call(lambda: len(log))
---
f(X)
f(X)
log
### operator.call print
def f(x):
    operator.call(print, "called")
    return x + 1
---
f(X)
f(X)
### operator.call without arguments
def f(x):
    try: operator.call()
    except TypeError: return x + 1
---
f(X)
f(X)
### bisect by key
import bisect
class A:
    def __init__(self, v): self.v = v
L = [A(1), A(3), A(5)]
def f(x):
    k = operator.attrgetter("v")
    return x * bisect.bisect(L, 2, key=k), bisect.bisect_left(L, 3, key=k), bisect.bisect_right(L, 3, key=k)
---
f(X)
L[1].v = 0; L[0].v = 0
f(X)
### insort by key
import bisect
class A:
    def __init__(self, v): self.v = v
L = [A(1), A(3), A(5)]
def f(x):
    a = A(2)
    bisect.insort(L, a, key=operator.attrgetter("v"))
    bisect.insort_left(L, A(4), key=lambda a: a.v)
    return x * len(L)
---
f(X)
[a.v for a in L]
L[1].v = 0
f(X)
[a.v for a in L]
### bisect of objects
import bisect
class A:
    def __init__(self, v): self.v = v
    def __lt__(self, other): return self.v < other.v
L = [A(1), A(3), A(5)]
def f(x): return x * bisect.bisect(L, A(4))
---
f(X)
L[2].v = 2
f(X)
### heap of objects
import heapq
class A:
    def __init__(self, v): self.v = v
    def __lt__(self, other): return self.v < other.v
L = [A(1), A(3), A(5)]
def f(x):
    heapq.heappush(L, A(0))
    return x * heapq.heappop(L).v, [a.v for a in heapq.nsmallest(2, L)], [a.v for a in heapq.nlargest(1, L, key=operator.attrgetter("v"))], heapq.heappushpop(L, A(2)).v
---
f(X)
[a.v for a in L]
L[0].v = 9
f(X)
### key functions in C
class A:
    def __init__(self, v): self.v = v
L = [A(3), A(1), A(2)]
def f(x):
    k = operator.attrgetter("v")
    g = functools.partial(getattr, A(0))
    return x * max(L, key=k).v, min(L, key=k).v, [a.v for a in sorted(L, key=k)], [list(b)[0].v for a, b in itertools.groupby(L, k)], [a.v for a in sorted(L, key=functools.cmp_to_key(lambda a, b: a.v - b.v))]
---
f(X)
L[1].v = 9
f(X)
### cmp_to_key of a C function
class A:
    def __init__(self, v): self.v = v
    def cmp(self, other): return self.v - other.v
L = [A(3), A(1), A(2)]
D = {"c": operator.methodcaller}
def f(x): return [a.v for a in sorted(L, key=functools.cmp_to_key(functools.partial(A.cmp)))], x + 1
---
f(X)
L[1].v = 9
f(X)
### itertools with C functions
class A:
    def __init__(self, v): self.v = v
L = [A(3), A(1), A(0)]
def f(x):
    k = operator.attrgetter("v")
    return (x * sum(itertools.takewhile(bool, map(k, L))), [a.v for a in itertools.dropwhile(k, L)], [a.v for a in itertools.filterfalse(k, L)], list(itertools.starmap(getattr, [(a, "v") for a in L])), list(itertools.accumulate([a.v for a in L], operator.sub)), list(itertools.accumulate([1, 2], func=max)))
---
f(X)
L[1].v = 9
f(X)
### iter of a C function
import itertools
L = [3, 2, 1, 0]
def f(x): return x * sum(iter(L.pop, 2))
---
f(X)
L
L.extend([2, 7])
f(X)
L
### re.sub with functions
import re
p = re.compile("[a-z]")
class A:
    def __init__(self): self.n = 1
    def up(self, m): return m.group().upper() * self.n
a = A()
def f(x, s): return p.sub(a.up, s), p.sub(lambda m: m.group() + "!", s), p.subn(repl=functools.partial(A.up, a), string=s), x + 1
---
f(X, "ab1")
a.n = 2
f(X, "ab1")
### re.sub with a C method
import re
p = re.compile("[a-z]")
D = {}
def f(x, s): return p.sub(operator.methodcaller("group"), s), x + len(p.sub(operator.itemgetter(0), s))
---
f(X, "ab1")
f(X, "ab2")
### format with a method
class A:
    def __init__(self, n): self.n = n
    def __format__(self, spec): return f"{self.n}:{spec}"
    def __index__(self): return self.n
    def __str__(self): return f"<{self.n}>"
a = A(3)
def f(x): return x * int(a), "{:>4}".format(a), f"{a:x}", "%s %d" % (a, a), format(a, "q"), [1, 2, 3, 4][a], hex(a), range(a), "ab" * a, operator.index(a), math.floor(2.5)
---
f(X)
a.n = 2
f(X)
""")
