"""The garbage collector is as the program wants it: what it says of it while a capture is under way is not lost."""

from __future__ import annotations

import collections
import gc
import itertools
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

import magneto

_during: list[Callable[[], Any]] = []
_seen: list[Any] = []
_sizes = itertools.count(2)


@torch.library.custom_op("magneto_tests::calls_back", mutates_args=())
def calls_back(x: torch.Tensor) -> torch.Tensor:
    return x + 1


@calls_back.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    # runs in the middle of a capture, as code of other threads does
    for function in _during:
        thread = threading.Thread(target=lambda function=function: _seen.append(function()))
        thread.start()
        thread.join()
    return torch.empty_like(x)


@pytest.fixture(autouse=True)
def _collector() -> Iterator[None]:
    enabled, threshold = gc.isenabled(), gc.get_threshold()
    yield
    (gc.enable if enabled else gc.disable)()
    gc.set_threshold(*threshold)
    _during.clear()
    _seen.clear()


def capture_while(*functions: Callable[[], Any]) -> list[Any]:
    """What each function gave that another thread called in the middle of a capture."""
    _during[:] = functions
    compiled = magneto.compile(lambda x: calls_back(x * 2), backend="eager", fullgraph=True)
    size = next(_sizes)  # one that no result is known for
    assert compiled(torch.ones(size)).tolist() == [3] * size
    assert len(_seen) >= len(functions)
    return _seen[: len(functions)]


def test_another_thread_disables_collections_during_a_capture() -> None:
    gc.enable()
    assert capture_while(gc.isenabled, gc.disable, gc.isenabled) == [True, None, False]
    assert not gc.isenabled()


def test_another_thread_enables_collections_during_a_capture() -> None:
    gc.disable()
    assert capture_while(gc.isenabled, gc.enable, gc.isenabled) == [False, None, True]
    assert gc.isenabled()


@pytest.mark.parametrize("enabled", [True, False])
def test_a_capture_leaves_collections_as_they_were(enabled: bool) -> None:
    (gc.enable if enabled else gc.disable)()
    assert capture_while(gc.isenabled) == [enabled]
    assert gc.isenabled() == enabled


def test_another_thread_sets_thresholds_during_a_capture() -> None:
    capture_while(lambda: gc.set_threshold(123, 4, 5))
    assert gc.get_threshold() == (123, 4, 5)


def test_another_thread_collects_and_freezes_during_a_capture() -> None:
    cycle: list[Any] = []
    cycle.append(cycle)
    gc.collect()
    before = gc.get_freeze_count()
    try:
        collected, _, frozen = capture_while(gc.collect, gc.freeze, gc.get_freeze_count)
        assert collected >= 0
        assert frozen > before
    finally:
        gc.unfreeze()


@pytest.mark.parametrize("enabled", [True, False])
def test_captured_code_says_whether_there_are_collections(enabled: bool) -> None:
    def f(x: torch.Tensor) -> Any:
        before = gc.isenabled()
        gc.disable()
        y = x + 1
        off = gc.isenabled()
        gc.enable()
        return y * 2, before, off, gc.isenabled()

    (gc.enable if enabled else gc.disable)()
    expected = f(torch.ones(2))
    (gc.enable if enabled else gc.disable)()
    compiled = magneto.compile(f, backend="eager")
    for _ in range(3):
        (gc.enable if enabled else gc.disable)()
        assert compiled(torch.ones(2))[1:] == expected[1:]
        assert gc.isenabled()


COUNTED = """
LOG = []
class Key:
    def __init__(self, n):
        self.n = n
    def __hash__(self):
        LOG.append("hash")
        return self.n % 2
    def __eq__(self, other):
        LOG.append("eq")
        return isinstance(other, Key) and self.n == other.n
one, two, three = Key(1), Key(2), Key(3)
BAG, TABLE, ORDER = {1, "a"}, {"a": 1}, collections.OrderedDict(a=1)
class Mapping(dict):
    pass
"""

HASHED = {
    "a new set": "return x + 1, {one, two}",
    "a new frozenset": "return x + 1, frozenset([one, 3, two])",
    "a new dict": "return x + 1, {one: x, two: 2}",
    "a new dict with tuples": "return x + 1, {(one, 1): x, (two, (one,)): 2}",
    "a new dict of a class": "return x + 1, Mapping({one: x, two: 2})",
    "a new defaultdict": "d = collections.defaultdict(list); d[one].append(x); return x + 1, d",
    "a set outside": "BAG.add(one); BAG.add(two); return x + 1",
    "a set outside, emptied": "BAG.clear(); BAG.add(one); return x + 1",
    "a set outside, with one less": "BAG.discard('a'); BAG.add(one); return x + 1",
    "a dict outside": "TABLE[one] = x; TABLE[two] = 2; return x + 1",
    "a dict outside, emptied": "TABLE.clear(); TABLE[one] = x; return x + 1",
    "a dict outside, and back": "TABLE[one] = x; del TABLE[one]; return x + 1",
}


@pytest.mark.parametrize("body", HASHED.values(), ids=HASHED)
def test_hashes_are_made_once(body):
    """What a program's __hash__ and __eq__ do, they do as often as in eager."""

    def history(wrap):
        space = {"collections": collections}
        exec(COUNTED + f"\ndef f(x):\n    {body}\n", space)
        call, seen = wrap(space["f"]), []
        for step in range(3):
            space["BAG"].clear()
            space["BAG"].update([1, "a", step])
            space["TABLE"].clear()
            space["TABLE"]["a"] = 1
            del space["LOG"][:]
            result = call(torch.ones(2))
            counts = list(space["LOG"])
            keys = list(result[1]) if isinstance(result, tuple) else []
            numbers = [repr(getattr(key, "n", key)) for key in keys if not isinstance(key, tuple)]
            found = [space["one"] in result[1]] if isinstance(result, tuple) else []
            inside = [[repr(getattr(key, "n", key)) for key in space[name]] for name in ("BAG", "TABLE")]
            member = [space["one"] in space[name] for name in ("BAG", "TABLE")]
            seen.append((counts, numbers, found, inside, member))
        return seen

    assert history(lambda f: magneto.compile(f, backend="eager")) == history(lambda f: f)


OTHER_HASHES = {
    "an attribute": "self.n",
    "an address": "id(self)",
    "part of an address": "id(self) // 16 % 1000 + 7",
    "that of object": "object.__hash__(self)",
    "that of object, in a tuple": "hash((object.__hash__(self), 1))",
    "that of a part": "hash(self.part)",
    "a global": "SALT[0]",
    "how often it was asked": "self.asked()",
}


@pytest.mark.parametrize("made", ["outside", "inside"])
@pytest.mark.parametrize("text", OTHER_HASHES.values(), ids=OTHER_HASHES)
def test_hashes_that_are_others_in_each_call(text, made):
    source = f"""
SALT = [0]
class Key:
    def __init__(self, n):
        self.n, self.part, self.count = n, object(), 0
    def asked(self):
        self.count += 1
        return SALT[0]
    def __hash__(self):
        return {text}
BAG, TABLE = set(), {{}}
def f(x, key):
    key = Key(key.n) if {made == "inside"} else key
    BAG.add(key)
    TABLE[key] = 1
    return x + 1, key, {{key}}, {{key: x}}, {{(key, 1): x}}, frozenset([key])
"""
    space: dict[str, Any] = {}
    exec(source, space)
    compiled = magneto.compile(space["f"], backend="eager")
    kept = []
    for step in range(4):
        space["SALT"][0] = step
        given = space["Key"](step)
        _, key, single, table, pairs, frozen = compiled(torch.ones(2), given)
        assert (key is given) == (made == "outside")
        assert key in single and key in table and (key, 1) in pairs and key in frozen
        assert key in space["BAG"] and key in space["TABLE"]
        assert frozenset([key]) == frozen
        kept.append(key)
    if made == "outside" and "SALT" not in text and "asked" not in text:
        assert all(key in space["BAG"] and key in space["TABLE"] for key in kept)


def test_order_of_a_set_of_tuples() -> None:
    differ = []
    for number in range(40):
        items = [(f"k{number}", 1), (f"m{number}", 2), (f"p{number}", (3, "a"))]

        def program(x: torch.Tensor, items: list[object] = items) -> object:
            return {1}.union(item for item in items), x + 1

        compiled = magneto.compile(program, backend="eager")
        expected = list(program(torch.ones(2))[0])
        differ += [number for _ in range(2) if list(compiled(torch.ones(2))[0]) != expected]
    assert differ == []
