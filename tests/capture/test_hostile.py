"""Objects that do what no object should: the core may run none of their code by itself, and must survive what they do.

MAGNETO_RANDOM_HOSTILE says how many random programs, MAGNETO_RANDOM_SEED where they start; `make fuzz` runs many more.
"""

from __future__ import annotations

import gc
import os
import sys
import threading
import time

import pytest
import torch
from programs import harness

import magneto

from . import random_hostile

COUNT = int(os.environ.get("MAGNETO_RANDOM_HOSTILE", "75"))
FIRST = int(os.environ.get("MAGNETO_RANDOM_SEED", "0"))
BATCH = 25


@pytest.mark.no_leak_hunt("CPython never lets go of what a __hash__ returns that is no number")
@pytest.mark.parametrize("first", range(FIRST, FIRST + COUNT, BATCH))
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_random_programs(first, monkeypatch):
    monkeypatch.setattr(sys, "unraisablehook", lambda _: None)  # finalizers raise
    for seed in range(first, min(first + BATCH, FIRST + COUNT)):
        try:
            random_hostile.run(seed, faults=seed % 2 == 1)
        except harness.Difference as error:
            raise AssertionError(f"seed {seed}: {error}") from None
    gc.collect()


LOUD = """
LOG = []
class Loud({base}):
    def __iter__(self):
        LOG.append("iter")
        return iter([])
    def __len__(self):
        LOG.append("len")
        return 1 // 0
    def __contains__(self, other):
        LOG.append("contains")
        return False
    def __getattribute__(self, name):
        LOG.append("getattribute " + name)
        return super().__getattribute__(name)
loud = Loud({content})
def f(x, loud):
    kept = [loud, {{"a": loud}}]
    return x + len(kept), kept, {use}
"""


@pytest.mark.parametrize(
    "base, content",
    [
        ("list", "[1, 2]"),
        ("tuple", "[1, 2]"),
        ("set", "[1, 2]"),
        ("frozenset", "[1, 2]"),
        ("dict", "a=1"),
        ("collections.OrderedDict", "a=1"),
        ("collections.defaultdict", "list, a=1"),
        ("collections.deque", "[1, 2], 4"),
    ],
)
@pytest.mark.parametrize(
    "use", ["1", "isinstance(loud, int)", "type(loud) is Loud", "loud is kept[0]", "callable(loud)"]
)
def test_the_core_runs_no_method_of_a_container(base, content, use):
    harness.run(
        LOUD.format(base=base, content=content, use=use), ["f(X, loud)", "f(X, loud)", "f(Y, Loud(loud))"]
    )


@pytest.mark.parametrize("base", ["set", "collections.deque"])
def test_effects_on_a_container_with_methods_of_its_own(base):
    program = f"""
class Loud({base}):
    def __iter__(self):
        raise ValueError("iter")
    def __len__(self):
        raise ValueError("len")
loud = Loud()
def f(x, loud, n):
    (loud.add if {base!r} == "set" else loud.append)(n)
    return x + 1
"""
    harness.run(program, ["f(X, loud, 1)", "f(X, loud, 1)", "f(X, loud, 2)"])


def test_a_tuple_class_without_fields_is_made_without_its_code():
    harness.check(
        """
LOG = []
class Row(tuple):
    __slots__ = ()
    def __new__(cls, *items):
        LOG.append(items)
        return super().__new__(cls, items)
def f(x):
    return x + 1, Row(1, x, 3)
""",
        "f(X)",
        "f(X)",
    )


def test_a_number_whose_class_answers_for_its_attributes():
    harness.run(
        """
LOG = []
class Number(float):
    def __getattr__(self, name):
        LOG.append(name)
        raise AttributeError(name)
n = Number(2.0)
def f(x):
    return n + x, x * n, torch.add(x, n)
""",
        ["f(X)", "f(X)"],
    )


def test_a_factory_that_the_class_hides():
    harness.run(
        """
class Table(collections.defaultdict):
    def __getattribute__(self, name):
        if name == "default_factory":
            raise ValueError(name)
        return super().__getattribute__(name)
def f(x):
    table = Table(list)
    table["a"] = x
    return x + 1, table
""",
        ["f(X)", "f(X)"],
    )


@pytest.mark.parametrize("kind", ["list", "dict", "deque", "set", "object"])
def test_containers_that_threads_change(kind):
    """No crash, whatever is read: what comes out depends on the moment."""
    make = {
        "list": "box = [torch.ones(2)] * 50",
        "dict": "box = {i: torch.ones(2) for i in range(50)}",
        "deque": "box = collections.deque([torch.ones(2)] * 50)",
        "set": "box = set(range(50))",
        "object": "box = types.SimpleNamespace(**{f'a{i}': torch.ones(2) for i in range(50)})",
    }[kind]
    change = {
        "list": "del box[1:]; box.extend([torch.ones(2)] * 60); box.pop()",
        "dict": "box.clear(); box.update({i: torch.ones(2) for i in range(60)}); box.pop(3)",
        "deque": "box.clear(); box.extend([torch.ones(2)] * 60); box.popleft()",
        "set": "box.clear(); box.update(range(60)); box.discard(3)",
        "object": "vars(box).clear(); vars(box).update(a1=torch.ones(2), n=1)",
    }[kind]
    space = {}
    exec(f"import collections, torch, types\n{make}\ndef change():\n    {change}\n", space)
    box, stop = space["box"], threading.Event()

    class Mode(torch.overrides.TorchFunctionMode):
        """Python code that runs whenever the core asks a tensor for something: threads are switched there."""

        def __torch_function__(self, function, types, args=(), kwargs=None):
            time.sleep(0)
            return function(*args, **(kwargs or {}))

    def mutate():
        while not stop.is_set():
            space["change"]()
            time.sleep(0)

    def program(x, box):
        y = x + 1
        kept = list(vars(box).values()) if kind == "object" else list(box)
        return y + len(kept), [box, kept], kept == kept[:0]

    interval = sys.getswitchinterval()
    thread = threading.Thread(target=mutate)
    sys.setswitchinterval(1e-6)
    thread.start()
    try:
        for _ in range(30):
            compiled = magneto.compile(program, backend="eager")
            for _ in range(3):
                try:
                    with Mode():
                        compiled(torch.ones(2), box)
                except (RuntimeError, KeyError, AttributeError, IndexError):
                    pass  # as eager: a container that changed during iteration
    finally:
        stop.set()
        thread.join()
        sys.setswitchinterval(interval)


def test_a_frame_that_torch_calls_with_an_error_set():
    """torch's parser of arguments asks for the length again when `__len__` has raised."""
    seen = []

    class Halves(tuple):
        def __len__(self):
            seen.append(1)
            return 0.5

    halves = Halves((1,))

    def f(x):
        y = x + 1
        try:
            torch.where(x > 0, x, halves)
        except Exception as error:
            return y, type(error).__name__
        return y, None

    x = torch.ones(2)
    expected = f(x)[1], list(seen)
    seen.clear()
    assert (magneto.compile(f, backend="eager")(x)[1], seen) == expected
