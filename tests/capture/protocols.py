"""Expressions that have C code look up special methods, and programs that change these between two calls.

A case is an expression over `o` and `p`, two objects of a class of the user's, a special method, and a change of it: added
to the class, to its base, replaced, deleted, set to None. Only cases are kept in which the change makes a difference in
eager; so nothing has to be said about which function looks for what.
"""

from __future__ import annotations

import collections
import contextlib
import functools
import re
import types
from collections.abc import Callable, Iterator
from typing import Any

import torch

EXPRESSIONS = r"""
hash(o) in (7, 8)
{o: 1}[o]
len({o, p})
repr(o)
str(o)
ascii(o)
format(o)
format(o, "x")
f"{o}"
f"{o!r:>20}"
"%s" % o
"%r" % (o,)
"%d" % o
"%x" % o
"%f" % o
"%c" % o
"%(a)s" % o
"{}".format(o)
"{0!r}".format(o)
"{0.field}".format(o)
"{0[k]}".format(o)
"{k}".format_map(o)
repr([o])
str((o,))
str({1: o})
",".join(o)
"abc".translate(o)
"abc".startswith(o)
"abc".find("c", o)
"x".center(o)
str(o, "ascii")
bool(o)
not o
o and 1
1 if o else 2
any([o])
all([o])
list(filter(None, [o]))
len(o)
operator.length_hint(o)
operator.truth(o)
operator.not_(o)
list(o)
tuple(o)
set(o)
frozenset(o)
sorted(o)
sorted([o, p])
sorted([(o, 1), (p, 2)])
[o, p].sort()
max(o, p)
min([o, p])
max(o)
sum(o)
sum([o, p])
sum([o, p], o)
any(o)
all(o)
list(enumerate(o))
list(zip(o, o))
list(map(str, o))
list(map(repr, [o]))
list(filter(None, o))
list(reversed(o))
list(iter(o))
next(o)
next(o, 5)
next(iter(o))
[*o]
[v for v in o]
(lambda a, *b: (a, b))(*o)
(lambda **k: k)(**o)
{**o}
dict(o)
dict([o])
{}.update(o)
{"a": 1} | o
o | {"a": 1}
dict.fromkeys(o)
unpack(o)
loop(o)
[].extend(o)
[1, 2, 3] + o
[1] * o
o * [1]
[1, 2] == o
(1,) < o
[o] == [p]
(o,) < (p,)
{1: o} == {1: p}
{1}.union(o)
{1} | o
{1} <= o
{1}.isdisjoint(o)
o in [p]
o in (p, p)
o in {p}
o in {p: 1}
1 in o
[p, p].count(o)
[p].index(o)
[p].remove(o)
o == p
o != p
o < p
o <= p
o > p
o >= p
o == 1
1 == o
1 < o
o + p
o - p
o * p
o @ p
o / p
o // p
o % p
o ** p
o << p
o >> p
o & p
o | p
o ^ p
o + 1
1 + o
1 - o
2 * o
1 @ o
1 / o
1 // o
1 % o
2 ** o
1 << o
1 & o
"%s" + o
"ab" * o
augmented(o)
divmod(o, 2)
divmod(2, o)
pow(o, 2)
pow(2, o)
pow(2, o, 5)
round(o)
round(o, 1)
round(1.2345, o)
abs(o)
-o
+o
~o
int(o)
float(o)
complex(o)
complex(1, o)
bytes(o)
bytearray(o)
bin(o)
hex(o)
oct(o)
chr(o)
list(range(o))
range(10)[o]
[1, 2, 3, 4, 5][o]
(1, 2, 3, 4, 5)[o]
"abcde"[o]
[1, 2, 3, 4, 5][:o]
slice(1, o).indices(4)
[0, 1, 2].pop(o)
[0, 1].insert(o, 5)
(5).to_bytes(o, "big")
int.from_bytes(o, "big")
(1).__add__(o)
int.__add__(o, 1)
math.floor(o)
math.ceil(o)
math.trunc(o)
math.sqrt(o)
math.gcd(o, 2)
math.factorial(o)
math.isnan(o)
math.prod(o)
math.prod([o, p])
math.fsum(o)
math.hypot(o, 1)
operator.index(o)
operator.contains(o, 1)
operator.getitem(o, 0)
operator.setitem(o, 0, 1)
operator.delitem(o, 0)
operator.concat(o, o)
operator.indexOf(o, 1)
operator.countOf(o, 1)
operator.neg(o)
operator.add(o, p)
operator.iadd(o, p)
operator.eq(o, p)
operator.call(o)
operator.attrgetter("field")(o)
operator.itemgetter(0)(o)
operator.methodcaller("method")(o)
list(itertools.chain(o, o))
list(itertools.chain.from_iterable([o]))
list(itertools.islice(o, 1))
list(itertools.islice([1, 2, 3, 4], o))
list(itertools.accumulate(o))
list(itertools.groupby([o, p]))[0][0] is o
list(itertools.product(o, o))
list(itertools.takewhile(bool, [o]))
list(itertools.compress([1], [o]))
list(itertools.repeat(1, o))
list(itertools.combinations([1, 2, 3, 4], o))
next(itertools.count(o))
len(itertools.tee(o))
os.fspath(o)
os.path.join(o, "b")
isinstance(o, int)
isinstance(o, B)
isinstance(o, (B, A))
isinstance(o, collections.abc.Sized)
isinstance(o, collections.abc.Iterable)
isinstance(o, collections.abc.Hashable)
isinstance(o, collections.abc.Callable)
isinstance(o, typing.SupportsInt)
issubclass(A, collections.abc.Sized)
callable(o)
o()
o(1, k=2)
o[0]
o[1:2]
o["k"]
store_item(o)
delete_item(o)
enter(o)
list(collections.deque(o))
collections.deque([1], o).maxlen
dict(collections.Counter(o))
dict(collections.OrderedDict(o))
dict(collections.defaultdict(list, o))
dict(collections.ChainMap({}, o))
collections.deque([o]).count(p)
copy.copy(o).field
copy.deepcopy(o).field
o.field
o.other
o.method()
getattr(o, "other", 5)
hasattr(o, "other")
store(o)
delete(o)
vars(o)["field"]
dir(o)[:0]
matched(o)
struct.pack("i", o)
struct.pack("d", o)
struct.pack("?", o)
heap(o, p)
bisect.bisect([p, p], o)
bisect.bisect(o, 1)
bisect.insort(o, 1)
functools.reduce(lambda a, b: (a, b), o)
functools.partial(o)()
functools.cmp_to_key(o)
sorted([2, 1], key=o)
list(map(o, [1]))
list(filter(o, [1]))
list(iter(o, 7))
property(o).fget is o
type(o).__name__
o.__class__ is A
o.__dict__["field"]
o.__hash__ is None
o.__eq__(p)
o.__len__()
o.__str__()
o.__doc__
o.__module__
x + o
x * o
o * x
x[o]
x[o:]
torch.zeros(o)
torch.full((2,), o)
torch.add(x, o)
x.sum(o)
x.reshape(o)
x.view(-1, o)
torch.tensor(o)
torch.is_tensor(o)
torch.cat(o)
torch.stack([x, o])
x == o
torch.overrides.has_torch_function((o,))
torch.overrides.is_tensor_like(o)
""".strip().splitlines()

PRELUDE = """
import bisect, collections, collections.abc, copy, functools, heapq, itertools, math, operator, os, struct, types, typing
import torch
class B: pass
def unpack(o):
    a, *b = o
    return a, b
def loop(o):
    r = []
    for v in o: r.append(v)
    return r
def augmented(o):
    r = []
    a = o; a += 1; r.append(a)
    a = [1]; a += o; r.append(a)
    return r
def store_item(o): o[0] = 1
def delete_item(o): del o[0]
def enter(o):
    with o as v: return v
def store(o):
    o.other = 1
    return o.__dict__.get("other")
def delete(o):
    o.gone = 1
    del o.gone
    return "gone" in o.__dict__
def matched(o):
    match o:
        case [a, b]: return a, b
        case {"k": v}: return v
        case int(): return "int"
        case A(field=v): return v
        case A(v): return v
def heap(o, p):
    h = []
    heapq.heappush(h, o)
    heapq.heappush(h, p)
    return h[0] is o
"""

CLASSES = """
class Root: pass
class Meta(type): pass
class Base(Root, metaclass=Meta): pass
class A(Base):
    def __init__(self, field=3): self.field = field
    def method(self): return self.field
"""


def _iterate(self: Any) -> Iterator[int]:
    return iter([3, 4])


def _item(self: Any, key: Any) -> Any:
    if isinstance(key, int) and key > 1:
        raise IndexError(key)
    return 6 if isinstance(key, int) else "item"


# Special methods: two implementations each, told apart by what they give.
METHODS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {}


def _define(names: str, first: Callable[..., Any], second: Callable[..., Any]) -> None:
    for name in names.split():
        METHODS[name] = (first, second)


_define("__hash__", lambda self: 7, lambda self: 8)
_define("__eq__ __ne__", lambda self, other: True, lambda self, other: False)
_define("__lt__ __le__", lambda self, other: True, lambda self, other: False)
_define("__gt__ __ge__", lambda self, other: False, lambda self, other: True)
_define("__bool__", lambda self: False, lambda self: True)
_define("__contains__", lambda self, item: False, lambda self, item: True)
_define("__len__", lambda self: 0, lambda self: 2)
_define("__length_hint__", lambda self: 3, lambda self: 4)
_define("__iter__", _iterate, lambda self: iter([("k", 1), ("m", 2)]))
_define("__next__", lambda self: 5, lambda self: 7)
_define("__reversed__", lambda self: iter([4, 3]), lambda self: iter([9]))
_define("__getitem__", _item, lambda self, key: {0: 1, "k": 2}[key])
_define("__setitem__", lambda self, key, value: None, lambda self, key, value: setattr(self, "field", 9))
_define("__delitem__", lambda self, key: None, lambda self, key: setattr(self, "field", 9))
_define("__missing__", lambda self, key: 1, lambda self, key: 2)
_define("__index__ __int__", lambda self: 2, lambda self: 3)
_define("__float__", lambda self: 2.0, lambda self: 3.5)
_define("__complex__", lambda self: 1j, lambda self: 2j)
_define("__str__ __repr__", lambda self: "one", lambda self: "two")
_define("__format__", lambda self, spec: "one" + spec, lambda self, spec: "two" + spec)
_define("__bytes__", lambda self: b"a", lambda self: b"bc")
_define("__fspath__", lambda self: "a", lambda self: "/b")
_define("__call__", lambda self, *a, **k: 7, lambda self, *a, **k: 8 if a else 7)
_define("__enter__", lambda self: 1, lambda self: 2)
_define("__exit__", lambda self, *a: None, lambda self, *a: True)
_define("__getattr__", lambda self, name: 1, lambda self, name: 2)
_define(
    "__getattribute__",
    lambda self, name: object.__getattribute__(self, name),
    lambda self, name: 4 if name in ("field", "other") else object.__getattribute__(self, name),
)
_define(
    "__setattr__",
    lambda self, name, value: object.__setattr__(self, name, value),
    lambda self, name, value: object.__setattr__(self, name, 99),
)
_define("__delattr__", lambda self, name: object.__delattr__(self, name), lambda self, name: None)
_define("__neg__ __pos__ __invert__ __abs__", lambda self: 1, lambda self: 2)
_define("__round__", lambda self, *a: 1, lambda self, *a: 2)
_define("__trunc__ __floor__ __ceil__", lambda self: 1, lambda self: 2)
for _name in "add sub mul matmul truediv floordiv mod pow lshift rshift and or xor divmod".split():
    _define(f"__{_name}__", lambda self, *a: 1, lambda self, *a: 2)
    _define(f"__r{_name}__", lambda self, *a: 3, lambda self, *a: 4)
    if _name != "divmod":
        _define(f"__i{_name}__", lambda self, *a: 5, lambda self, *a: 6)
_define("__copy__", lambda self: self, lambda self: type(self)(8))
_define("__deepcopy__", lambda self, memo: self, lambda self, memo: type(self)(8))
_define("__reduce_ex__", lambda self, protocol: (type(self), (7,)), lambda self, protocol: (type(self), (8,)))
_define("__reduce__", lambda self: (type(self), (7,)), lambda self: (type(self), (8,)))
_define("__getstate__", lambda self: {"field": 7}, lambda self: {"field": 8})
_define("__setstate__", lambda self, state: None, lambda self, state: setattr(self, "field", 9))
_define("__getnewargs__", lambda self: (), lambda self: (1,))
_define("__dir__", lambda self: [], lambda self: ["a"])
_define("keys", lambda self: ["k"], lambda self: [0])
_define("items", lambda self: [("a", 1)], lambda self: [("b", 1)])
_define("get", lambda self, key, default=None: 1, lambda self, key, default=None: 2)
_define("insert", lambda self, index, value: None, lambda self, index, value: setattr(self, "field", 9))
_define("__torch_function__", lambda *a, **k: 1, lambda *a, **k: 2)
METHODS["__class__"] = (property(lambda self: int), property(lambda self: list))  # type: ignore[assignment]
METHODS["__dict__"] = (property(lambda self: {"field": 1}), property(lambda self: {"field": 2}))  # type: ignore[assignment]
METHODS["__doc__"] = ("one", "two")  # type: ignore[assignment]
METHODS["__module__"] = ("one", "two")  # type: ignore[assignment]
METHODS["__name__"] = ("one", "two")  # type: ignore[assignment]
METHODS["__qualname__"] = ("one", "two")  # type: ignore[assignment]
METHODS["__match_args__"] = (("field",), ("other",))  # type: ignore[assignment]
METHODS["__instancecheck__"] = (lambda cls, value: True, lambda cls, value: False)
METHODS["__subclasscheck__"] = (lambda cls, value: True, lambda cls, value: False)

# Where a method is to begin with and what is done to it: (class and version at first, class and version then).
CHANGES: dict[str, tuple[tuple[str, int] | None, tuple[str, int | None] | None]] = {
    "added": (None, ("A", 0)),
    "added, the other": (None, ("A", 1)),
    "added to the base": (None, ("Root", 0)),
    "None from the start": (("A", -1), ("A", 0)),
    "set to None": (None, ("A", -1)),
    "replaced": (("A", 0), ("A", 1)),
    "replaced by None": (("A", 0), ("A", -1)),
    "deleted": (("A", 0), ("A", None)),
    "replaced on the base": (("Root", 0), ("Root", 1)),
    "hidden by the class": (("Root", 0), ("A", 1)),
    "hidden by None": (("Root", 0), ("Base", -1)),
}


def _put(space: dict[str, Any], name: str, where: tuple[str, int | None] | None) -> None:
    if where is None:
        return
    cls, version = space[where[0]], where[1]
    if version is None:
        delattr(cls, name)
    else:
        value: Any = None if version < 0 else METHODS[name][version]
        if isinstance(value, types.FunctionType):  # one of its own for each program
            value = types.FunctionType(value.__code__, {**globals(), **space}, name, None, value.__closure__)
        setattr(cls, name, value)


_ADDRESS = re.compile(r"0x[0-9a-f]+")


def plain(value: Any, level: int = 0) -> Any:
    """A value as something that can be compared: texts without addresses."""
    kind = type(value)
    if kind in (int, float, bool, complex, type(None), bytes):
        return kind.__name__, repr(value)
    if kind is str:
        return _ADDRESS.sub("0x", value)
    if isinstance(value, torch.Tensor):
        return "tensor", kind.__name__, str(value.tolist())
    if kind in (list, tuple, set, frozenset, dict, collections.deque) and level < 5:
        items = value.items() if kind is dict else value
        return kind.__name__, *(plain(item, level + 1) for item in items)
    return object.__repr__(value).split(" at ")[0].split(".")[-1], getattr(value, "__dict__", {}).get(
        "field", None
    ).__class__.__name__


@functools.cache
def _code(text: str) -> types.CodeType:
    return compile(text, "<program>", "exec", dont_inherit=True)


class Program:
    """One side of a case: `f` evaluates the expression."""

    def __init__(self, expression: str, form: str, name: str, first: tuple[str, int] | None) -> None:
        self.space: dict[str, Any] = {"__name__": "program"}
        exec(_code(PRELUDE), self.space)
        exec(_code(CLASSES), self.space)
        exec(_code(FORMS[form].replace("EXPRESSION", expression)), self.space)
        with contextlib.suppress(AttributeError, TypeError):
            _put(self.space, name, first)
        self.name = name
        self.x = torch.ones(2, 3)

    def compile(self, compile: Callable[..., Any]) -> None:
        self.space["f"] = compile(self.space["f"])

    def call(self) -> Any:
        try:
            return plain(self.space["f"](self.x))
        except Exception as error:
            return type(error).__name__, plain(str(error))

    def change(self, then: tuple[str, int | None] | None) -> None:
        with contextlib.suppress(AttributeError, TypeError):
            _put(self.space, self.name, then)


# How the objects come to the expression.
FORMS = {
    "outside": """
o, p = A(1), A(2)
def f(x):
    y = x + 1
    try:
        return EXPRESSION, y, o.__dict__.get("field")
    except Exception as e:
        return type(e).__name__, str(e), y
""",
    "inside": """
def f(x):
    y = x + 1
    o, p = A(1), A(2)
    try:
        return EXPRESSION, y
    except Exception as e:
        return type(e).__name__, str(e), y
""",
    "handled": """
o, p = A(1), A(2)
def f(x):
    y = x + 1
    try:
        EXPRESSION
    except Exception:
        return 1, y
    return 2, y
""",
}
