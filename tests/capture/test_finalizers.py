"""What runs when an object goes runs where captured code lets go of it, and what comes next sees it."""

from __future__ import annotations

import collections
import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch

import magneto

LOG: list[str] = []


class Loud:
    def __init__(self, name: str) -> None:
        self.name = name

    def __del__(self) -> None:
        LOG.append(self.name)


class Quiet:
    pass


class Slotted:
    __slots__ = ("loud",)


class Holder:
    def __init__(self) -> None:
        self.loud: Any = Loud("attribute")
        self.items: Any = [Loud("item"), 1]
        self.table: Any = {"key": Loud("value"), "other": 1}
        self.watched: Any = Quiet()
        weakref.finalize(self.watched, LOG.append, "watched")
        self.nested: Any = Quiet()
        self.nested.loud = Loud("nested")
        self.tensor: Any = torch.ones(2)
        weakref.finalize(self.tensor, LOG.append, "tensor")
        self.slotted: Any = Slotted()
        self.slotted.loud = Loud("slot")


WORLD: Any = None

PROGRAMS = {
    "attribute set": "holder.loud = None",
    "attribute deleted": "del holder.loud",
    "attribute set by setattr": "setattr(holder, 'loud', 1)",
    "attribute deleted by delattr": "delattr(holder, 'loud')",
    "attribute set after it was changed": "holder.loud.more = 1; holder.loud = None",
    "attribute that something else has": "loud = holder.loud; holder.loud = None; holder.more = loud.name",
    "attribute with a list": "holder.items = []",
    "attribute that is watched": "holder.watched = None",
    "attribute whose attribute has a finalizer": "holder.nested = None",
    "attribute that is a tensor": "holder.tensor = None",
    "attribute that is a tensor that was used": "x = x + holder.tensor; holder.tensor = x",
    "item set": "holder.items[0] = 1",
    "item set from the end": "holder.items[-2] = 1",
    "item deleted": "del holder.items[0]",
    "item set in a list that was looked at": "n = len(holder.items) + holder.items.count(2); holder.items[0] = n",
    "value set": "holder.table['key'] = 1",
    "value deleted": "del holder.table['key']",
    "slot set": "holder.slotted.loud = 1",
    "slot deleted": "del holder.slotted.loud",
    "global set": "global WORLD; WORLD = None",
    "global deleted": "global WORLD; del WORLD",
}


def made(text: str) -> Callable[..., Any]:
    space: dict[str, Any] = {"LOG": LOG}
    body = "".join(f"    {line.strip()}\n" for line in text.split(";"))
    exec(f"def run(x, holder):\n{body}    seen = list(LOG)\n    return x + len(seen), seen\n", space)
    run: Callable[..., Any] = space["run"]
    return run


@pytest.mark.parametrize("text", PROGRAMS.values(), ids=PROGRAMS)
def test_finalizers_run_where_objects_go(text: str) -> None:
    def results(run: Callable[..., Any], space: dict[str, Any]) -> list[Any]:
        found = []
        for _ in range(3):
            holder = Holder()
            space["WORLD"] = Loud("global")
            LOG.clear()
            result, seen = run(torch.ones(2), holder)
            found.append((result.tolist(), seen, list(LOG), sorted(vars(holder))))
        space["WORLD"] = None  # not in a later collection
        return found

    plain, run = made(text), made(text)
    assert results(magneto.compile(run, backend="eager"), run.__globals__) == results(
        plain, plain.__globals__
    )


def test_finalizers_run_where_cells_let_go() -> None:
    def cells() -> Callable[..., Any]:
        loud: Any = Loud("cell")

        def run(x: torch.Tensor) -> Any:
            nonlocal loud
            loud = None
            seen = list(LOG)
            return x + len(seen), seen

        return run

    LOG.clear()
    assert magneto.compile(cells(), backend="eager")(torch.ones(2))[1] == ["cell"]


def test_writes_over_ordinary_values_end_no_graph() -> None:
    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.state = (torch.zeros(2), [torch.ones(2)])
            self.steps = {"count": 0, "last": Quiet()}
            self.register_buffer("mean", torch.zeros(2))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.state = (x, [x + 1])
            self.steps["last"] = Quiet()
            self.mean = self.mean * 0.9 + x
            return x * 2

    model = Model()
    compiled = magneto.compile(model, backend="eager", fullgraph=True)
    for _ in range(3):
        assert compiled(torch.ones(2)).tolist() == [2.0, 2.0]


class Box:
    """Containers of all kinds, with objects that have finalizers."""

    def __init__(self) -> None:
        self.items: Any = [Loud("i0"), 1, Loud("i2")]
        self.table: Any = {"a": Loud("ta"), "b": 2, 3: Loud("t3")}
        self.set: Any = {Loud("s0")}
        self.deque: Any = collections.deque([Loud("d0"), Loud("d1")], maxlen=3)
        self.ordered: Any = collections.OrderedDict(a=Loud("oa"), b=1)
        self.default: Any = collections.defaultdict(list, a=Loud("dda"))
        self.nested: Any = [[Loud("n0")], {"k": [Loud("n1")]}]
        self.loud: Any = Loud("attribute")
        self.two: Any = Loud("two")
        self.pair: Any = [self.two]
        self.watched: Any = Quiet()
        weakref.finalize(self.watched, LOG.append, "watched")
        self.listed: Any = [self.watched]
        self.tensors: Any = [torch.ones(2)]
        weakref.finalize(self.tensors[0], LOG.append, "tensor")
        self.keys: Any = {Loud("key"): 1}
        self.plain: Any = [Quiet(), Quiet()]


TAKEN = """
box.items.pop()
box.items.pop(0)
v = box.items.pop(); n = v.name; del v
v = box.items.pop(); v = None
box.items.clear()
box.items[:] = []
box.items[0:1] = [5]
del box.items[0]
del box.items[:]
box.items.remove(box.items[0])
box.items = box.items + [1]
box.items += [2]
box.items.append(3); box.items.pop(); box.items.pop()
box.items.reverse(); box.items.pop()
box.items.insert(0, 1); del box.items[1]
box.items[0], box.items[2] = box.items[2], box.items[0]; box.items[0] = 1
box.items[0] = box.items[2]
box.items = [i for i in box.items if isinstance(i, int)]
box.items.sort(key=lambda i: 0); box.items[2] = 0
while box.items: box.items.pop()
box.items *= 0
box.items = box.items[1:]
box.items.extend(box.items); box.items.pop()
box.items = box.items.copy()
for i in range(2): box.items[0] = i
(lambda a: a.clear())(box.items)
box.table.pop("a")
box.table.pop("a", None)
box.table.popitem()
box.table.clear()
box.table.update(a=1)
box.table.update({"a": 1})
box.table |= {"a": 1}
box.table[3] = 1
del box.table[3]
box.table.setdefault("a", 1); del box.table["a"]
box.table = {**box.table, "a": 1}
box.set.pop()
box.set.clear()
box.set.discard(next(iter(box.set)))
box.set -= set(box.set)
box.deque.pop()
box.deque.popleft()
box.deque.clear()
box.deque.append(1); box.deque.append(2)
box.deque.extend([1, 2])
box.deque.rotate(1); box.deque[0] = 1
del box.deque[0]
box.ordered.popitem()
box.ordered.popitem(last=False)
box.ordered.move_to_end("a"); box.ordered.popitem()
box.default.pop("a")
box.default["a"] = 1
box.nested.pop()
box.nested[0].pop()
box.nested[1]["k"] = 0
box.nested[1]["k"].clear()
box.nested = None
box.two = None
box.pair.pop()
box.two = None; box.pair.pop()
box.pair.clear(); del box.two
box.listed.pop()
box.watched = None; box.listed.clear()
box.tensors.pop()
box.tensors[0] = box.tensors[0] * 2
box.keys.clear()
box.keys.popitem()
v = box.loud; box.loud = None; box.more = v.name; del v
v = box.loud; box.loud = None; box.more = v
v = box.loud; box.loud = None; v = [v]; v.clear()
box.__dict__.pop("loud")
vars(box)["loud"] = 1
box.__dict__ = {}
box.loud, box.two = box.two, box.loud; box.two = None
box.loud = box.loud
box.plain.pop()
"""


def lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if line]


def runs(text: str, names: dict[str, Any], make: Callable[[], Any], *, compiled: bool) -> list[Any]:
    """What three calls do, each with an object of its own."""
    space = {"LOG": LOG, "torch": torch, **names}
    body = "".join(f"    {line.strip()}\n" for line in text.split(";"))
    exec(f"def run(x, box):\n{body}    seen = list(LOG)\n    return x + len(seen), seen\n", space)
    run = magneto.compile(space["run"], backend="eager") if compiled else space["run"]
    found = []
    for _ in range(3):
        box = make()
        LOG.clear()
        result, seen = run(torch.ones(2), box)
        found.append((result.tolist(), seen, list(LOG)))
    return found


@pytest.mark.parametrize("text", lines(TAKEN))
def test_finalizers_of_what_is_taken_out_of_containers(text: str) -> None:
    assert runs(text, {}, Box, compiled=True) == runs(text, {}, Box, compiled=False)


def make(name: str) -> Loud:
    magneto.graph_break()
    return Loud(name)


def watched(name: str) -> torch.Tensor:
    tensor = torch.ones(2)
    weakref.finalize(tensor, LOG.append, name)
    return tensor


def generator(name: str) -> Any:
    try:
        yield 1
        yield 2
    finally:
        LOG.append(name)


def use(loud: Any) -> Any:
    name = loud.name
    del loud
    return name, list(LOG)


LOCALS = """
v = make("a"); del v
v = make("a"); v = None
v = make("a"); w = v; del v; del w
v = make("a"); w = [v]; del v; w.clear()
v = [make("a")]; v.pop()
v = [make("a")]; v = 1
v = {"k": make("a")}; del v["k"]
v = Quiet(); v.a = make("a"); v.a = None
v = Quiet(); v.a = make("a"); del v
v = make("a"); box.x = v; del v; box.x = 1
make("a")
v = len([make("a")])
v = make("a").name
v = watched("t"); del v
v = watched("t") + 1
v = watched("t"); v = v + 1
v = watched("t"); box.t = v; del v; box.t = box.t + 1
v = [watched("t")]; w = v[0] + 1; v.clear()
v = generator("g"); next(v); del v
v = generator("g"); w = next(v); v = w
for v in generator("g"): break
for i in range(3): v = make(str(i))
v = make("a"); w = weakref.ref(v); del v; LOG.append(w() is None)
v = watched("t"); w = weakref.ref(v); del v; LOG.append(w() is None)
v = Quiet(); w = weakref.ref(v); del v; LOG.append(w() is None)
v = x + 1; w = weakref.ref(v, lambda _: LOG.append("callback")); del v; y = w() is None
v = Quiet(); w = weakref.WeakValueDictionary(); w["a"] = v; del v; LOG.append(len(w))
v = Quiet(); w = weakref.WeakKeyDictionary(); w[v] = 1; del v; LOG.append(len(w))
v = Quiet(); w = weakref.WeakSet([v]); v = None; LOG.append(len(w))
v = Quiet(); weakref.finalize(v, LOG.append, "end"); del v
v = x + 1; weakref.finalize(v, LOG.append, "end"); v = v + 1
v = x + 1; w = weakref.ref(v); y = v.sum(); del v; LOG.append(w() is None)
v = make("a"); v.me = v; del v; gc.collect()
v = make("a"); w = lambda: v; del v
v = lambda y, w=make("a"): y + 1; y = v(x); del v
v = lambda y, *, w=make("a"): y + 1; y = v(x); del v
v = make("a"); w = lambda: v; del w; v = 1
"""


@pytest.mark.parametrize("text", lines(LOCALS))
def test_finalizers_of_what_locals_have(text: str) -> None:
    names = {"make": make, "watched": watched, "generator": generator, "use": use, "Quiet": Quiet}
    names |= {"weakref": weakref, "gc": gc}
    assert runs(text, names, Quiet, compiled=True) == runs(text, names, Quiet, compiled=False)


ARGUMENTS = {
    'v = (lambda a: (a := None, list(LOG)))(make("a")); LOG.append(str(v))': ["a", "(None, ['a'])"],
    'v = use(make("a")); LOG.append(str(v))': ["a", "('a', ['a'])"],
}


@pytest.mark.parametrize("text", ARGUMENTS)
def test_finalizers_of_arguments(text: str) -> None:
    """They are the callee's alone. Where somebody has set a hook, CPython's own callers keep them until the call ends."""
    results = runs(text, {"make": make, "use": use}, Quiet, compiled=True)
    assert [seen for _, seen, _ in results] == [ARGUMENTS[text]] * 3


LATER = """
box.loud = None
del box.loud
box.items.pop()
box.items[0] = 1
box.items.clear()
box.table["key"] = 1
box.table.pop("key")
box.slotted.loud = 1
magneto.graph_break(); loud = box.loud; box.loud = 0; magneto.graph_break(); loud = None
"""


def boxes(kind: type, attach: Callable[[Any], None]) -> Any:
    box: Any = Quiet()
    box.slotted = Slotted()
    values = [Loud(f"{i}") if kind is Loud else Quiet() for i in range(4)]
    for value in values:
        attach(value)
    box.loud, box.items, box.table, box.slotted.loud = values[0], [values[1]], {"key": values[2]}, values[3]
    return box


@pytest.mark.parametrize("late", ["a finalizer of its class", "a weak reference with a callback"])
@pytest.mark.parametrize("text", lines(LATER))
def test_finalizers_that_came_after_the_capture(text: str, late: str) -> None:
    """What is written over had none in the first calls."""

    def attach(value: Any) -> None:
        weakref.finalize(value, LOG.append, "gone")

    def results(*, compiled: bool) -> list[Any]:
        space: dict[str, Any] = {"LOG": LOG, "magneto": magneto}
        body = "".join(f"    {line.strip()}\n" for line in text.split(";"))
        exec(f"def run(x, box):\n{body}    seen = list(LOG)\n    return x + len(seen), seen\n", space)
        run = magneto.compile(space["run"], backend="eager") if compiled else space["run"]
        found = []
        for loud in (False, False, True, False, True):
            kind = Loud if loud and "class" in late else Quiet
            box = boxes(kind, attach if loud and "weak" in late else lambda _: None)
            LOG.clear()
            result, seen = run(torch.ones(2), box)
            found.append((result.tolist(), seen, list(LOG)))
        return found

    assert results(compiled=True) == results(compiled=False)


def test_containers_that_change_end_no_graph() -> None:
    """Nothing in them has a finalizer, or something else refers to it."""
    loud = Loud("kept")

    def run(x: torch.Tensor, box: Any) -> torch.Tensor:
        box.plain.pop()
        box.items.append(x)
        box.items.pop(0)
        box.table.clear()
        box.louds.pop()
        return x + 1

    compiled = magneto.compile(run, backend="eager", fullgraph=True)
    for _ in range(3):
        box: Any = Quiet()
        box.plain, box.items, box.table = (
            [Quiet(), [Quiet()]],
            [torch.ones(2), 1],
            {"a": torch.ones(2), 1: Quiet()},
        )
        box.louds = [loud]
        assert compiled(torch.ones(2), box).tolist() == [2.0, 2.0]
    assert len(magneto.cache_entries(compiled)) == 1
