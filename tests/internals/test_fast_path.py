"""The quick way through the guards notices every change that the guards in full would notice.

Each case is a program: it defines `f`, and a change of something that `f` has read. `f` is called until its guards are
run the quick way; then comes the change, and the next call must give what eager gives.
"""

from __future__ import annotations

import collections
import functools
import gc
import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

import magneto
from magneto import _core

PRELUDE = """
import collections, torch
from torch import nn
X = torch.arange(6.0).reshape(2, 3)
args = (X,)
"""

# name: (program, change); `f` is compiled, and called with `args`
CASES: dict[str, tuple[str, str]] = {
    "dtype": ("def f(x): return x / 2, x.dtype", "args = (X.double(),)"),
    "device": ("def f(x): return x.device.type", "args = (X.to('meta'),)"),
    "shape": ("def f(x): return x + x.shape[0]", "args = (torch.ones(3, 2),)"),
    "dimensions": ("def f(x): return x.dim(), x + 1", "args = (torch.ones(2, 3, 1),)"),
    "stride": ("def f(x): return x.stride(), x + 1", "args = (torch.ones(3, 2).t(),)"),
    "requires_grad": ("def f(x): return x * 2, x.requires_grad", "args = (X.clone().requires_grad_(),)"),
    "no leaf": ("args = (X.clone().requires_grad_(),)\ndef f(x): return x.is_leaf", "args = (args[0] * 2,)"),
    "conjugate": ("args = (X.to(torch.complex64),)\ndef f(x): return x.is_conj(), x + 1", "args = (args[0].conj(),)"),
    "many dimensions": (
        "args = (torch.ones(1, 2, 1, 2, 1, 2, 1),)\ndef f(x): return x.shape, x + 1",
        "args = (torch.ones(1, 2, 1, 2, 1, 2, 2),)",
    ),
    "a tensor outside is no leaf any more": (
        "w = torch.ones(3)\ndef f(x): return x + w, w.is_leaf",
        "w.mul_(torch.ones(3, requires_grad=True))",
    ),
    "a tensor outside is no leaf any more, and has the flag of one": (
        "w = torch.ones(3, requires_grad=True)\ndef f(x): return x + w, w.is_leaf",
        "w.requires_grad_(False).mul_(torch.ones(3, requires_grad=True)).requires_grad_()",
    ),
    "a tensor outside that is no leaf any more can be written to": (
        "w = torch.ones(3, requires_grad=True)\n"
        "def f(x):\n    try:\n        return w.mul_(2) + x\n    except RuntimeError:\n        return 'a leaf', x + 1",
        "w.requires_grad_(False).mul_(torch.ones(3, requires_grad=True)).requires_grad_()",
    ),
    "a view that requires a gradient through its base": (
        "w = torch.ones(3, 3)\nargs = (w[1:],)\ndef f(x): return x * 2, x.requires_grad",
        "w.requires_grad_()",
    ),
    "a view whose base requires no gradient any more": (
        "w = torch.ones(3, 3, requires_grad=True)\nwith torch.no_grad(): v = w[1:]\n"
        "def f(x): return v * x, v.requires_grad",
        "w.requires_grad_(False)",
    ),
    "grad mode": ("w = torch.ones(3, requires_grad=True)\ndef f(x): return x * w", "torch.set_grad_enabled(False)"),
    "default dtype": ("def f(x): return torch.ones(2)", "torch.set_default_dtype(torch.float64)"),
    "deterministic": (
        "def f(x): return torch.are_deterministic_algorithms_enabled(), x + 1",
        "torch.use_deterministic_algorithms(True)",
    ),
    "autocast": ("def f(x): return x @ x.t()", "torch.set_autocast_enabled('cpu', True)"),
    "training flag": (
        "net = nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.0))\ndef f(x): return net(x), net[1].training",
        "net.eval()",
    ),
    "swapped parameter": (
        "net = nn.Linear(3, 3)\ndef f(x): return net(x)",
        "net.weight = nn.Parameter(torch.ones(3, 3))",
    ),
    "swapped parameter of another kind": (
        "net = nn.Linear(3, 3)\ndef f(x): return net(x), net.weight.requires_grad",
        "net.weight = nn.Parameter(torch.ones(3, 3), requires_grad=False)",
    ),
    "parameter that needs no gradient any more": (
        "net = nn.Linear(3, 3)\ndef f(x): return net(x), net.weight.requires_grad",
        "net.weight.requires_grad_(False)",
    ),
    "parameter's data": (
        "net = nn.Linear(3, 3)\ndef f(x): return net(x), net.weight.dtype, net.weight.shape",
        "net.weight.data = torch.ones(5, 3)\nnet.bias.data = torch.ones(5)",
    ),
    "parameter's dtype by its data": (
        "net = nn.Linear(3, 3)\ndef f(x): return net.weight.dtype, net.weight * 2",
        "net.weight.data = torch.ones(3, 3, dtype=torch.float64)",
    ),
    "resized parameter": (
        "net = nn.Linear(3, 3)\ndef f(x): return net.weight.shape, net.weight.sum()",
        "net.weight.data.resize_(1, 9)\nnet.weight.data = net.weight.data.reshape(1, 9)",
    ),
    "resized buffer": (
        "net = nn.Module()\nnet.register_buffer('b', torch.zeros(4))\ndef f(x): return net.b.shape, net.b + 1",
        "net.b.resize_(2)",
    ),
    "transposed buffer": (
        "net = nn.Module()\nnet.register_buffer('b', torch.zeros(2, 2))\ndef f(x): return net.b.stride(), net.b + 1",
        "net.b.t_()",
    ),
    "buffer of another class": (
        "net = nn.Module()\nnet.b = nn.Buffer(torch.zeros(2))\ndef f(x): return type(net.b).__name__, net.b + 1",
        "net.b.__class__ = nn.Parameter",
    ),
    "forward hook": (
        "net = nn.Linear(3, 3)\ndef f(x): return net(x)",
        "net.register_forward_hook(lambda m, a, out: out + 1)",
    ),
    "forward pre-hook of an inner module": (
        "net = nn.Sequential(nn.Linear(3, 3))\ndef f(x): return net(x)",
        "net[0].register_forward_pre_hook(lambda m, a: (a[0] + 1,))",
    ),
    "global hook": (
        "net = nn.Linear(3, 3)\ndef f(x): return net(x)",
        "handle = nn.modules.module.register_module_forward_hook(lambda m, a, out: out + 1)",
    ),
    "method of a class": (
        "class A:\n    def g(self, x): return x + 1\na = A()\ndef f(x): return a.g(x)",
        "A.g = lambda self, x: x + 2",
    ),
    "method of a base class": (
        "class B:\n    def g(self, x): return x + 1\nclass A(B): pass\na = A()\ndef f(x): return a.g(x)",
        "B.g = lambda self, x: x + 2",
    ),
    "method that a subclass now has": (
        "class B:\n    def g(self, x): return x + 1\nclass A(B): pass\na = A()\ndef f(x): return a.g(x)",
        "A.g = lambda self, x: x + 2",
    ),
    "method of an instance": (
        "class A:\n    def g(self, x): return x + 1\na = A()\ndef f(x): return a.g(x)",
        "a.g = lambda x: x + 2",
    ),
    "method of a module": (
        "net = nn.Linear(3, 3)\ndef f(x): return net(x)",
        "net.forward = lambda x: x + 2",
    ),
    "bases of a class": (
        "class B:\n    n = 1\nclass C:\n    n = 2\nclass A(B): pass\na = A()\ndef f(x): return x + a.n",
        "A.__bases__ = (C,)",
    ),
    "class of an object": (
        "class A:\n    n = 1\nclass B:\n    n = 2\na = A()\ndef f(x): return x + a.n",
        "a.__class__ = B",
    ),
    "dict of an object": (
        "class A: pass\na = A()\na.n = 1\ndef f(x): return x + a.n",
        "a.__dict__ = {'n': 2}",
    ),
    "attribute of an object": (
        "class A: pass\na = A()\na.n = 1\ndef f(x): return x + a.n",
        "a.n = 2",
    ),
    "attribute set by compiled code": (
        "class A:\n    def put(self, n): self.n = n\na = A()\nfor i in range(50): a.put(1)\ndef f(x): return x + a.n",
        "a.put(2)",
    ),
    "slot of an object": (
        "class A:\n    __slots__ = ('n',)\na = A()\na.n = 1\ndef f(x): return x + a.n",
        "a.n = 2",
    ),
    "deleted slot": (
        "class A:\n    __slots__ = ('n',)\na = A()\na.n = 1\ndef f(x): return x + getattr(a, 'n', 5)",
        "del a.n",
    ),
    "global": ("n = 1\ndef f(x): return x + n", "n = 2"),
    "global function": ("def g(x): return x + 1\ndef f(x): return g(x)", "def g(x): return x + 2"),
    "code of a function": ("def g(x): return x + 1\ndef f(x): return g(x)", "g.__code__ = (lambda x: x + 2).__code__"),
    "global that hides a builtin": ("def f(x): return x + len((1, 2))", "len = lambda t: 7"),
    "closure": (
        "def make():\n    n = 1\n    def f(x): return x + n\n    def put(m):\n        nonlocal n\n        n = m\n"
        "    return f, put\nf, put = make()",
        "put(2)",
    ),
    "tensor in a closure": (
        "def make():\n    n = torch.ones(3)\n    def f(x): return x + n\n    def put(m):\n        nonlocal n\n"
        "        n = m\n    return f, put\nf, put = make()",
        "put(torch.ones(1))",
    ),
    "default argument": ("def f(x, n=1): return x + n\nplain = f", "plain.__defaults__ = (2,)"),
    "default argument of an inner function": (
        "def g(x, n=1): return x + n\ndef f(x): return g(x)",
        "g.__defaults__ = (2,)",
    ),
    "keyword default": (
        "def g(x, *, n=1): return x + n\ndef f(x): return g(x)",
        "g.__kwdefaults__['n'] = 2",
    ),
    "order of a dict": (
        "d = {'a': 1, 'b': 2}\ndef f(x): return x * 1, list(d)",
        "d['a'] = d.pop('a')",
    ),
    "order of an OrderedDict": (
        "d = collections.OrderedDict(a=1, b=2)\ndef f(x): return x * 1, list(d)",
        "d.move_to_end('a')",
    ),
    "value in a dict": ("d = {'a': {'b': 1}}\ndef f(x): return x + d['a']['b']", "d['a']['b'] = 2"),
    "value that is missing": ("d = {}\ndef f(x): return x + d.get('a', 0)", "d['a'] = 3"),
    "dict in an argument": (
        "args = (X, {'a': 1})\ndef f(x, d): return x + d['a']",
        "args = (X, {'a': 2})",
    ),
    "length of a list": ("items = [1, 2]\ndef f(x): return x + len(items)", "items.append(3)"),
    "item of a list": ("items = [1, [2]]\ndef f(x): return x + items[1][0]", "items[1][0] = 5"),
    "item of a tuple": ("args = (X, (1, 2))\ndef f(x, t): return x + t[1]", "args = (X, (1, 3))"),
    "tuple in an attribute": (
        "class A: pass\na = A()\na.t = (1, (2, 3))\ndef f(x): return x + a.t[1][1]",
        "a.t = (1, (2, 4))",
    ),
    "set": ("s = {1, 2}\ndef f(x): return x + sum(s)", "s.add(5)"),
    "deque": ("q = collections.deque([1, 2])\ndef f(x): return x + q[0]", "q.rotate(1)"),
    "int that becomes a bool": ("n = 1\ndef f(x): return x + 1, type(n)", "n = True"),
    "zero that becomes a negative one": ("n = 0.0\ndef f(x): return x + 1, 1.0 * n", "n = -0.0"),
    "aliasing of arguments": (
        "args = (X, X.clone())\ndef f(x, y):\n    x.add_(0)\n    return x is y, x + y",
        "args = (X, X)",
    ),
    "aliasing that ends": (
        "args = (X, X)\ndef f(x, y): return x is y, x + y",
        "args = (X, X.clone())",
    ),
    "argument that is a parameter": (
        "net = nn.Linear(3, 3, bias=False)\nargs = (torch.ones(3, 3, requires_grad=True),)\n"
        "def f(x): return x is net.weight, net(x)",
        "args = (net.weight,)",
    ),
    "objects that become one": (
        "class A: pass\na, b = A(), A()\na.n = b.n = 0\ndef f(x):\n    a.n = 1\n    return x + b.n",
        "a = b\nb.n = 0",
    ),
    "module of a list": (
        "nets = [nn.Linear(3, 3), nn.Linear(3, 3)]\ndef f(x): return nets[0](x)",
        "nets[0] = nn.Linear(3, 2)",
    ),
    "submodule": (
        "net = nn.Sequential(nn.Linear(3, 3), nn.ReLU())\ndef f(x): return net(x)",
        "net[1] = nn.Tanh()",
    ),
    "name of a class": (
        "class A: pass\na = A()\ndef f(x): return x + len(type(a).__name__)",
        "A.__name__ = 'Longer'",
    ),
    "torch-function mode": (
        "def f(x): return x + torch.ones(3)",
        "torch.set_default_device('meta')\nargs = (X.to('meta'),)",
    ),
}  # fmt: skip


@pytest.fixture(autouse=True)
def _put_back() -> Iterator[None]:
    dtype = torch.get_default_dtype()
    yield
    torch.set_grad_enabled(True)
    torch.set_default_dtype(dtype)
    torch.set_autocast_enabled("cpu", False)
    torch.use_deterministic_algorithms(False)
    torch.set_default_device(None)
    torch.nn.modules.module._global_forward_hooks.clear()


def show(value: Any) -> Any:
    """A value that can be compared."""
    if isinstance(value, torch.Tensor):
        data = None if value.is_meta else value.detach().resolve_conj().tolist()
        return value.dtype, value.device, value.shape, value.stride(), value.requires_grad, data
    if isinstance(value, (tuple, list)):
        return type(value), [show(item) for item in value]
    return repr(value)


def world(program: str) -> dict[str, Any]:
    torch.manual_seed(0)
    space: dict[str, Any] = {"__name__": "case"}
    exec(PRELUDE + program, space)
    return space


def quick_runs(compiled: Any) -> int:
    return sum(entry.entry.guard_figures()["fast_hits"] for entry in magneto.cache_entries(compiled))


@pytest.mark.parametrize("mode", [1, 2], ids=["quick", "both"])
@pytest.mark.parametrize("name", CASES)
def test_change_is_noticed(name: str, mode: int) -> None:
    program, change = CASES[name]
    ours, eager = world(program), world(program)
    compiled = magneto.compile(ours["f"], backend="eager")
    before = _core.guard_mode(mode)
    try:
        for _ in range(3):
            assert show(compiled(*ours["args"])) == show(eager["f"](*eager["args"]))
        runs = quick_runs(compiled)
        compiled(*ours["args"])
        eager["f"](*eager["args"])
        assert quick_runs(compiled) == runs + 1, "the guards were not run the quick way"
        for space in (ours, eager):
            torch.manual_seed(1)
            exec(change, space)
        for _ in range(3):
            assert show(compiled(*ours["args"])) == show(eager["f"](*eager["args"]))
    finally:
        _core.guard_mode(before)


# changes in a loop in which no dict changes otherwise: `change` must not make one either, where that can be
CALM = {
    "the class of an object": "class B(A): n = 2\ndef change(): objects[9].__class__ = B",
    "the dict of an object": "spare = {'m': 5}\ndef change(): objects[9].__dict__ = spare",
    "an item of a dict": "def change(): objects[9].__dict__['m'] = 7",
    "an attribute": "def change(): objects[9].m = 7",
    "a slot": "def change(): slotted.s = 7",
    "a cell": "def change(): put(7)",
    "an item of a list": "def change(): items[1] = 7",
    "another object": "def change(): objects[9] = spare_object",
    "the defaults of a function": "spare = (7,)\ndef change(): g.__defaults__ = spare",
    "the code of a function": "def change(): g.__code__ = h.__code__",
    "an attribute of the class": "def change(): A.n = 7",
    "a global": "def change():\n    global k\n    k = 7",
    "a tensor that needs a gradient": "def change(): w.requires_grad_()",
    "the data of a tensor": "other = torch.ones(1)\ndef change(): w.data = other",
    "a hook": "hook = lambda m, i, o: o + 1\ndef change(): net._forward_hooks[1] = hook",
}
CALM_PROGRAM = """
class A: n = 1
class Slotted: __slots__ = "s",
slotted = Slotted()
slotted.s, k, w, net = 1, 1, torch.ones(3), nn.Linear(3, 3)
objects, items = {i: A() for i in range(80)}, [1, 2]
for i, o in objects.items():
    o.m = i
spare_object = A()
spare_object.m = 90
def make():
    n = 1
    def get(): return n
    def put(value):
        nonlocal n
        n = value
    return get, put
get, put = make()
def g(a=1): return a
def h(a=1): return a * 2
def f(x):
    for o in objects.values():
        x = x + o.n * o.m
    return net(x) * w + slotted.s + get() + g() + k + items[1], w.requires_grad
"""


@pytest.mark.parametrize("name", CALM)
def test_change_is_noticed_where_no_dict_was_changed(name: str) -> None:
    ours, eager = world(CALM_PROGRAM + CALM[name]), world(CALM_PROGRAM + CALM[name])
    f, (x,) = magneto.compile(ours["f"], backend="eager"), ours["args"]
    change, change_eager = ours["change"], eager["change"]
    for _ in range(4):
        f(x)
    before = [entry.entry.guard_figures()["unchanged"] for entry in magneto.cache_entries(f)]
    for _ in range(4):
        f(x)
    after = [entry.entry.guard_figures()["unchanged"] for entry in magneto.cache_entries(f)]
    assert after == [before[0] + 3]
    f(x)
    f(x)
    change()
    found = f(x)
    change_eager()
    assert show(found) == show(eager["f"](x))


MADE_FOR_CALLS = {
    "keywords": "def f(x, **kwargs): return net(x) + kwargs['n']\ncall = lambda f, x: f(x, n=2)",
    "a dict": "def f(x): return {'a': net(x), 'b': {'c': x}}",
    "an ordered dict": "def f(x): return collections.OrderedDict(a=net(x), b=collections.OrderedDict())",
    "an object": "class A: pass\ndef f(x):\n    a = A()\n    a.x, a.n, a.d = net(x), 3, {}\n    return a.x, a.d",
    "a dataclass": "D = dataclasses.make_dataclass('D', ['x', ('n', int, 1)])\ndef f(x): return D(net(x))",
    "a subclass of dict": "class S(collections.OrderedDict): pass\n"
    "def f(x):\n    s = S(a=net(x))\n    s.n = 1\n    return s",
}  # fmt: skip


@pytest.mark.parametrize("name", MADE_FOR_CALLS)
def test_dicts_made_for_a_call_are_no_changes(name: str) -> None:
    """The counter of dicts' tags moves with them, but nothing else is looked at again."""
    program = "import collections, dataclasses\nnet = nn.Sequential(*(nn.Linear(3, 3) for _ in range(9)))\n"
    ours = world(program + "args = (torch.ones(2, 3),)\ncall = lambda f, x: f(x)\n" + MADE_FOR_CALLS[name])
    f, call, (x,) = magneto.compile(ours["f"], backend="eager"), ours["call"], ours["args"]
    net = ours["net"]

    def unchanged() -> int:
        (entry,) = magneto.cache_entries(f)
        return int(entry.entry.guard_figures()["unchanged"])

    for _ in range(4):
        call(f, x)
    before = unchanged()
    for _ in range(12):
        call(f, x)
    assert (
        unchanged() >= before + 6
    )  # none, if they counted; now and then others of the process change a dict, as collections do
    # a change between two calls is seen nevertheless: of a dict that is made for the call, too, once it is looked at
    call(f, x)
    net[4].register_forward_hook(lambda module, args, output: output + 1)
    assert show(call(f, x)) == show(call(ours["f"], x))
    assert len(magneto.cache_entries(f)) == 2


def many_dicts() -> tuple[dict[int, dict[str, int]], Any, Any]:
    """Dicts, a function that looks at all of them, and the same compiled."""
    table = {i: {"n": 1} for i in range(80)}

    def f(x: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        for row in table.values():
            x = x * row["n"]
        return x + sum(kwargs.values()) + len(args), dict(kwargs)

    return table, f, magneto.compile(f, backend="eager")


def calm_runs(compiled: Any) -> int:
    return sum(int(entry.entry.guard_figures()["unchanged"]) for entry in magneto.cache_entries(compiled))


def test_call_by_names_is_no_change() -> None:
    table, f, compiled = many_dicts()
    x = torch.ones(2)
    for _ in range(4):
        compiled(x, c=1, d=2)
    before = calm_runs(compiled)
    compiled(x, c=1, d=2)
    compiled(x, c=1, d=2)
    compiled(x, c=1, d=2)
    assert calm_runs(compiled) >= before + 2
    for n in (2, 3):
        table[40]["n"] = n
        torch.testing.assert_close(compiled(x, c=1, d=2), f(x, c=1, d=2))


class Changing(collections.UserDict):  # type: ignore[type-arg]
    """A mapping that changes a dict while it is read."""

    def keys(self) -> Any:
        row = self.data["row"]
        row["n"] += 1
        return ["c"]

    def __getitem__(self, key: Any) -> Any:
        return 1 if key == "c" else super().__getitem__(key)


ODD_FORMS: dict[str, Callable[[Any, Any, dict[str, int]], Any]] = {
    "a mapping that changes a dict": lambda f, x, row: f(x, **Changing(row=row)),
    "a partial that copies its keywords": lambda f, x, row: [
        (row.update(n=row["n"] + 1), functools.partial(f, c=1)(x))[1] for _ in range(3)
    ],
    "calls by C code with such a dict": lambda f, x, row: min(
        (row.update(n=n) or n for n in range(5)), **{"key": lambda n, p=functools.partial(f, x, c=1): float(p()[0][0])}
    ),
    "calls by C code of a partial": lambda f, x, row: list(
        map(functools.partial(f, c=1), ((row.update(n=n), x * n)[1] for n in range(5)))
    ),
    "a dict that is made by hand": lambda f, x, row: [
        (row.update(n=n), f.__call__(x, **dict([("c", n)])))[1] for n in range(5)
    ],
    "keywords of keywords": lambda f, x, row: [
        (lambda **k: (row.update(n=len(k)), f(x, **k))[1])(**{str(i): i for i in range(n)}) for n in range(5)
    ],
    "arguments that change a dict": lambda f, x, row: [
        f(*((row.update(n=n + m), x)[1] for m in range(2)), **{"c": n}) for n in range(4)
    ],
    "a generator as the arguments": lambda f, x, row: [
        (lambda args, k: f(*args, **k))(((row.update(n=n), x)[1] for _ in range(1)), {"c": n}) for n in range(5)
    ],
}  # fmt: skip


@pytest.mark.parametrize("form", ODD_FORMS)
def test_change_next_to_a_call_is_noticed(form: str) -> None:
    table, f, compiled = many_dicts()
    other, eager, _ = many_dicts()
    x, call = torch.ones(2), ODD_FORMS[form]
    for _ in range(4):
        torch.testing.assert_close(call(compiled, x, table[40]), call(eager, x, other[40]))
        keywords = {"c": 2}
        torch.testing.assert_close(compiled(x, **keywords), eager(x, **keywords))


@pytest.mark.parametrize("seed", range(40))
def test_random_changes_between_random_calls(seed: int) -> None:
    chosen = random.Random(seed)
    table, f, compiled = many_dicts()
    x, keywords, spare = torch.ones(2), {"c": 1, "d": 2}, {"e": 3}
    forms: list[Callable[[Any], Any]] = [
        lambda f: f(x), lambda f: f(x, **keywords), lambda f: f(x, **spare), lambda f: f(x, c=1),
        lambda f: f(x, 1, **keywords),
        functools.partial(lambda f, **k: f(x, **k), c=1), lambda f: f(*[x], **{**keywords}),
        lambda f: [f(x, **keywords) for _ in range(2)][1], lambda f: f(x, **dict(spare)),
    ]  # fmt: skip
    with magneto.config.patch(recompile_limit=100):
        for _ in range(60):
            for _ in range(chosen.choice([0, 0, 1, 1, 2, 3])):
                table[chosen.choice([7, 40])]["n"] = chosen.choice([1, 1, 2])
            form = chosen.choice(forms[: 2 + seed % 8])
            torch.testing.assert_close(form(compiled), form(f))


def test_dict_that_a_call_gave_is_guarded_like_others() -> None:
    ours = world(
        "table = {}\nargs = (torch.ones(2),)\ndef make(x): return {'n': 1, 'x': x}\n"
        "def f(x): return x + table['n'], {'y': x}"
    )
    make, f, (x,) = magneto.compile(ours["make"]), magneto.compile(ours["f"], backend="eager"), ours["args"]
    ours["table"] = table = make(x)
    for n in (1, 2, 3):
        table["n"] = n
        for _ in range(3):
            make(x)
            assert show(f(x)) == show(ours["f"](x))


UNRELATED: dict[str, tuple[str, str]] = {
    "another global": ("n = 1\ndef f(x): return x + n", "other = 5"),
    "another attribute": ("net = nn.Linear(3, 3)\ndef f(x): return net(x)", "net.note = 'seen'"),
    "another attribute of the class": (
        "class A:\n    n = 1\na = A()\ndef f(x): return x + a.n",
        "A.other = 5",
    ),
    "another key": ("d = {'a': 1}\ndef f(x): return x + d['a']", "d['b'] = 2"),
    "the same value again": ("d = {'a': 10**9}\ndef f(x): return x + d['a']", "d['a'] = int('1' + '0' * 9)"),
    "the data of a parameter": (
        "net = nn.Linear(3, 3)\ndef f(x): return net(x)",
        "net.weight.data = torch.ones(3, 3)",
    ),
    "a leaf where nobody asks for one": (
        "net = nn.Module()\nnet.w = torch.ones(3, requires_grad=True)\ndef f(x): return x * net.w",
        "net.w = torch.ones(3, requires_grad=True) * 2",
    ),
    "a parameter of the same kind": (
        "net = nn.Linear(3, 3)\ndef f(x): return net(x)",
        "net.weight = nn.Parameter(torch.ones(3, 3))",
    ),
}


@pytest.mark.parametrize("name", UNRELATED)
def test_unrelated_change_needs_no_new_entry_and_the_quick_way_goes_on(name: str) -> None:
    program, change = UNRELATED[name]
    ours, eager = world(program), world(program)
    compiled = magneto.compile(ours["f"], backend="eager")
    for _ in range(3):
        compiled(*ours["args"])
    for _ in range(12):
        exec(change, ours)
        exec(change, eager)
        for _ in range(2):
            assert show(compiled(*ours["args"])) == show(eager["f"](*eager["args"]))
    runs = quick_runs(compiled)
    for _ in range(4):  # even if it changes before each call
        exec(change, ours)
        compiled(*ours["args"])
    assert quick_runs(compiled) == runs + 4
    assert len(magneto.cache_entries(compiled)) == 1


def test_objects_are_not_kept_alive() -> None:
    class Thing:
        pass

    holder = {"thing": Thing()}
    holder["thing"].w = torch.ones(3)  # type: ignore[attr-defined]

    def f(x: torch.Tensor) -> Any:
        return x + holder["thing"].w  # type: ignore[attr-defined]

    compiled = magneto.compile(f, backend="eager")
    x = torch.ones(3)
    for _ in range(4):
        compiled(x)
    import weakref

    tensor, thing = weakref.ref(holder["thing"].w), weakref.ref(holder["thing"])  # type: ignore[attr-defined]
    argument = weakref.ref(x)
    del x
    holder.clear()
    gc.collect()
    assert tensor() is None and thing() is None and argument() is None
    new = Thing()
    new.w = torch.full((3,), 5.0)  # type: ignore[attr-defined]
    holder["thing"] = new
    assert compiled(torch.ones(3)).tolist() == [6.0] * 3


def test_metadata_and_state_are_read_from_memory() -> None:
    magneto.compile(lambda x: x + 1, backend="eager")(torch.ones(2))
    assert _core.layout_known() == (True, True)


def test_guard_mode_is_checked() -> None:
    with pytest.raises(ValueError):
        _core.guard_mode(3)
