"""Metadata that is made when it is first read: whoever reads it takes it for a dict."""

from __future__ import annotations

import collections
import copy
import gc
import json
import operator
import pickle
import threading
import weakref

import pytest

from magneto import _core

PLAIN = {"a": "made a", "b": [1, 2], "c": 3, "d": None}
UNMADE = ("a", "b")


class Maker:
    """Makes values, the same each time, and notes for which keys."""

    def __init__(self):
        self.asked = []
        self.values = {key: PLAIN[key] for key in UNMADE}

    def __call__(self, number, key):
        assert number == 7
        self.asked.append(key)
        return self.values[key]


@pytest.fixture
def maker():
    return Maker()


@pytest.fixture
def meta(maker):
    return _core.node_meta({key: _core.UNMADE if key in UNMADE else PLAIN[key] for key in PLAIN}, maker, 7)


def test_it_is_a_dict(meta):
    assert isinstance(meta, dict)


def test_keys_are_there_from_the_start(meta, maker):
    assert list(meta) == list(PLAIN)
    assert list(meta.keys()) == list(PLAIN)
    assert list(reversed(meta)) == list(reversed(PLAIN))
    assert len(meta) == len(PLAIN)
    assert "a" in meta
    assert "e" not in meta
    assert bool(meta)
    assert meta.keys() | {"e"} == {*PLAIN, "e"}
    assert maker.asked == []


@pytest.mark.parametrize(
    "read",
    [
        lambda meta: meta["a"],
        lambda meta: meta.get("a"),
        lambda meta: meta.get("a", 5),
        lambda meta: meta.setdefault("a", 5),
        lambda meta: meta.pop("a"),
        lambda meta: meta.pop("a", 5),
        lambda meta: meta.__getitem__("a"),
        lambda meta: operator.getitem(meta, "a"),
        lambda meta: operator.itemgetter("a")(meta),
        lambda meta: "{a}".format_map(meta),
        lambda meta: "%(a)s" % meta,
        lambda meta: collections.ChainMap({}, meta)["a"],
        lambda meta: type(meta).__getitem__(meta, "a"),
    ],
)
def test_one_value_is_made_when_it_is_read(meta, maker, read):
    assert read(meta) == "made a"
    assert maker.asked == ["a"]


def test_match_reads_one_value(meta, maker):
    match meta:
        case {"a": found}:
            assert found == "made a"
    assert maker.asked == ["a"]


def _unpacked(**values):
    return values


@pytest.mark.parametrize(
    "read",
    [
        dict,
        lambda meta: {**meta},
        lambda meta: _unpacked(**meta),
        lambda meta: dict(**meta),
        lambda meta: dict(meta.items()),
        lambda meta: dict(zip(meta, meta.values(), strict=True)),
        lambda meta: {key: meta[key] for key in meta},
        lambda meta: meta | {},
        lambda meta: {} | meta,
        lambda meta: operator.ior({}, meta),
        lambda meta: dict(collections.OrderedDict(meta)),
        lambda meta: dict(collections.UserDict(meta)),
        lambda meta: dict(collections.ChainMap(meta)),
        lambda meta: [values := {}, values.update(meta)][0],
        lambda meta: dict(meta.copy()),
        lambda meta: dict(copy.copy(meta)),
        lambda meta: dict.copy(meta),
        copy.deepcopy,
        lambda meta: copy.deepcopy([meta])[0],
        lambda meta: pickle.loads(pickle.dumps(meta)),
        lambda meta: pickle.loads(pickle.dumps(meta, protocol=0)),
        lambda meta: pickle.loads(pickle._dumps(meta)),
        lambda meta: json.loads(json.dumps(meta)),
        lambda meta: eval(repr(meta)),
        lambda meta: eval(f"{meta}"),
        lambda meta: dict([meta.popitem() for _ in range(4)][::-1]),
    ],
)  # fmt: skip
def test_all_values_are_made_when_all_are_read(meta, read):
    found = read(meta)
    assert found == PLAIN
    assert list(found) == list(PLAIN)
    assert type(found) is dict


@pytest.mark.parametrize("compare", [operator.eq, lambda a, b: not a != b])
def test_equality(meta, maker, compare):
    other = meta.copy()
    assert compare(meta, PLAIN)
    assert compare(PLAIN, meta)
    assert compare([meta], [PLAIN])
    assert compare(meta, other)
    assert not compare(meta, {})
    assert not compare({**PLAIN, "a": 0}, meta)


def test_what_is_written_is_not_made(meta, maker):
    meta["a"] = 1
    del meta["b"]
    meta.update(c=4)
    meta |= {"e": 5}
    assert meta == {"a": 1, "c": 4, "d": None, "e": 5}
    assert type(meta) is _core.NodeMeta
    meta.clear()
    assert meta == {}
    assert maker.asked == []


def test_a_default_takes_the_place_of_what_is_not_there(meta, maker):
    assert meta.get("e") is None
    assert meta.get("e", 5) == 5
    assert meta.pop("e", 5) == 5
    assert meta.setdefault("e", 6) == 6
    assert meta["e"] == 6
    with pytest.raises(KeyError, match="'x'"):
        meta["x"]
    with pytest.raises(KeyError, match="'x'"):
        meta.pop("x")
    with pytest.raises(TypeError, match="unhashable"):
        meta[[]]
    with pytest.raises(TypeError, match="1 or 2 arguments"):
        meta.get()
    assert maker.asked == []


def test_a_value_is_made_once(meta, maker):
    assert meta["b"] is meta["b"]
    assert list(meta.items()) == list(PLAIN.items())
    assert maker.asked == ["b", "a"]


@pytest.mark.parametrize("copied", [copy.copy, dict.copy, lambda meta: meta.copy()])
def test_a_copy_has_the_same_values(meta, copied):
    other = copied(meta)
    assert other["b"] is meta["b"]
    other["b"] = 0
    assert meta["b"] == [1, 2]


def test_a_copy_makes_nothing(meta, maker):
    other = copy.copy(meta.copy())
    assert list(other) == list(PLAIN)
    assert maker.asked == []
    assert other["a"] == "made a"
    assert maker.asked == ["a"]
    assert _core.made(meta) == {"c": 3, "d": None}
    assert _core.made(other) == {"a": "made a", "c": 3, "d": None}


def test_what_can_not_be_made_raises_and_can_be_read_later(maker):
    def make(number, key):
        if fails:
            raise ValueError("not now")
        return 1

    fails = True
    meta = _core.node_meta({"a": _core.UNMADE}, make, 0)
    for read in (
        lambda: meta["a"],
        lambda: meta.get("a"),
        lambda: dict(meta),
        lambda: repr(meta),
        meta.items,
    ):
        with pytest.raises(ValueError, match="not now"):
            read()
    fails = False
    assert meta == {"a": 1}


def test_what_was_set_while_it_was_made_stays():
    def make(number, key):
        meta["a"] = "set"
        return "made"

    meta = _core.node_meta({"a": _core.UNMADE}, make, 0)
    assert meta["a"] == "set"


def test_two_threads_get_one_value():
    def make(number, key):
        barrier.wait(10)
        return object()

    barrier = threading.Barrier(2)
    meta = _core.node_meta({"a": _core.UNMADE}, make, 0)
    found = []
    threads = [threading.Thread(target=lambda: found.append(meta["a"])) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found[0] is found[1]


def test_nothing_is_held_once_all_is_made():
    maker = Maker()
    meta = _core.node_meta({"a": _core.UNMADE}, maker, 7)
    gone = weakref.ref(maker)
    del maker
    assert gone() is not None
    assert dict(meta.items()) == {"a": "made a"}
    assert gone() is None


def test_a_cycle_is_collected():
    class Holder:
        def __call__(self, number, key):
            return 1

    holder = Holder()
    holder.meta = _core.node_meta({"a": _core.UNMADE}, holder, 0)
    gone = weakref.ref(holder)
    del holder
    gc.collect()
    assert gone() is None


def test_an_empty_one_is_an_empty_dict():
    meta = _core.NodeMeta()
    meta["x"] = 1
    assert meta == {"x": 1}
    assert _core.NodeMeta.fromkeys("ab", 0) == {"a": 0, "b": 0}
