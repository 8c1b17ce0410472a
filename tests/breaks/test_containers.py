"""Containers and iterators in use where a capture stops: what follows finds in them what eager's code finds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from programs import harness
from programs.texts import parse

import magneto
from magneto import _core

PROGRAMS = parse(r"""
### outside set that grows
s = {1, 2, 3}
def f(x):
    seen = []
    try:
        for v in s:
            seen.append(v)
            print(v)
            s.add(v + 10)
    except RuntimeError as e:
        seen.append(str(e))
    return x + len(seen), seen
---
f(X)
f(X)
s.clear()
f(X)
### own set that grows
def f(x):
    s, seen = {1, 2, 3}, []
    try:
        for v in s:
            seen.append(v)
            print(v)
            s.add(v + 10)
    except RuntimeError as e:
        seen.append(str(e))
    return x + len(seen), seen
### set that grows and shrinks again
def f(x):
    s, seen = {1, 2, 3}, []
    for v in s:
        s.add(100)
        print(v)
        s.remove(100)
        seen.append(v)
    return x + len(seen), seen
### set whose items go before it comes to them
def f(x):
    s, seen = {1, 2, 3, 4}, []
    for v in s:
        seen.append(v)
        print(v)
        if v < 3:
            s.remove(v + 2)
            s.add(v)
            s.add(v + 40)
    return x + len(seen), seen
### what an iterator of a set says of itself
def f(x):
    s = {1, 2, 3}
    first, all_of, none = iter(s), iter(frozenset(s)), iter(s)
    next(first)
    list(none)
    print("break")
    return x, [(type(i).__name__, i.__length_hint__(), list(i)) for i in (first, all_of, none)]
### set of tensors and of objects
class A: pass
def f(x):
    y = x + 1
    s = {x, y, A, A(), (1, y)}
    count = 0
    for v in s:
        print(len(s))
        count += 1
    return y + count, s & {x, y} == {x, y}
### sets and dicts of tensors are asked after a break
def f(x, y):
    s, d = {x, y}, {x: 1, y: 2}
    print(len(s))
    return x in s, y in s, d[x], d[y], s == {y, x}, len(s | {x, y}), s - {x} == {y}
---
f(X, Y)
f(Y, Z)
f(Z, X)
f(X, X)
### dict whose items go to the end
d = {"a": 1, "b": 2, "c": 3}
def f(x):
    seen = []
    try:
        for k in d:
            seen.append(k)
            d[k] = d.pop(k) + 1
            print(k)
    except RuntimeError as e:
        seen.append(str(e))
    return x + len(seen), seen
---
f(X)
f(X)
### dict that grows and shrinks again
def f(x):
    d, seen = {"a": 1, "b": 2}, []
    for k, v in d.items():
        d["z"] = 1
        print(k)
        del d["z"]
        seen.append(v)
    return x + len(seen), seen
### dict whose iterator has failed
def f(x):
    d = {"a": 1, "b": 2}
    i = iter(d)
    d["z"] = 1
    said = []
    for _ in range(3):
        try:
            next(i)
        except RuntimeError as e:
            said.append(str(e))
        print("break")
        d.pop("z", None)
    return x, said
### special methods of strings and numbers after a break
def f(x, s, n):
    a, b, c = s.__add__, n.__add__, s.__contains__
    print("break")
    return x + b(1), a("z"), c("a")
---
f(X, "abc", 5)
f(X, "bcd", 5)
f(X, "bcd", 6)
### special methods of lists after a break
l = [1, 2]
def f(x):
    l.append(len(l))
    a, b = l.__len__, l.__setitem__
    print(a())
    b(0, 100 + a())
    return x + l[0], a
---
f(X)
f(X)
f(X)[1]()
### special methods of arguments
def f(x, m): return x + 1, m(0), sorted([0, 1, 2], key=m), functools.partial(m, 1)(), m.__self__
one, other = [5, 6, 1], [7, 1, 8]
---
f(X, one.__getitem__)
f(X, other.__getitem__)
other[0] = 0
f(X, other.__getitem__)
### special methods in objects
l = [1, 2]
h, o = [l.__getitem__], types.SimpleNamespace(g=l.__len__)
def f(x): return x + h[0](0), o.g(), list(map(h[0], [1]))
---
f(X)
l[0] = 50
f(X)
l.append(3)
f(X)
h[0] = [9, 9].__getitem__
f(X)
o.g = "abcdef".__len__
f(X)
### deque that is set up again
q = collections.deque([1, 2, 3], 5)
def f(x, *args):
    y = x + len(q)
    q.__init__(*args)
    q.append(4)
    return y * 2, q.maxlen
---
f(X, [1, 2], 2)
f(X, [1, 2], 2)
f(X, [1, 2, 3])
f(X, q, 3)
f(X)
### deque that is set up again between calls
q = collections.deque([1, 2, 3], 5)
def f(x):
    q.append(4)
    return x + len(q), q.maxlen
---
f(X)
q.__init__([1, 2, 3], 5)
f(X)
q.__init__([1, 2, 3], 3)
f(X)
q.__init__([1, 2, 3])
f(X)
### defaultdict that is set up again
d = collections.defaultdict(list, a=1)
def f(x, *args, **keywords):
    y = x + len(d)
    d.__init__(*args, **keywords)
    return y * 2, d.default_factory, d["z"] if d.default_factory else None
---
f(X, int, b=2)
f(X, int, b=2)
d.clear()
f(X)
f(X, dict)
### hash of a NaN, which is that of its address
def f(x, v):
    before = hash(v)
    print("break")
    return x + 1, before == hash(v), hash((v, 1)) == hash((v, 1))
---
f(X, float("nan"))
f(X, float("nan"))
f(X, math.nan)
f(X, math.nan)
""")


@pytest.fixture(autouse=True)
def no_break_afterwards() -> Iterator[None]:
    yield
    _core.inject_fault(0)


@pytest.mark.parametrize(
    "backend", ["eager", lambda module, _inputs: module.forward], ids=["eager", "graphs"]
)
@pytest.mark.parametrize("name", PROGRAMS)
def test_goes_on(name: str, backend: Any) -> None:
    text, steps = PROGRAMS[name]
    harness.run(text, steps, compile=lambda function: magneto.compile(function, backend=backend))


@pytest.mark.parametrize("name", PROGRAMS)
def test_goes_on_after_any_instruction(name: str) -> None:
    text, steps = PROGRAMS[name]
    for step in range(1, 40, 2):
        _core.inject_fault(step)
        harness.run(text, steps, compile=lambda function: magneto.compile(function, backend="eager"))
