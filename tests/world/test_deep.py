"""Structures that are deep, cyclic, or small and endless to walk: nothing that looks into them may run out of C stack."""

from __future__ import annotations

import collections
import functools
import threading
import types

import pytest
import torch

import magneto

DEEP = 1_000_000


def nested_list(depth):
    deep = []
    for _ in range(depth):
        deep = [deep]
    return deep


def nested_tuple(depth):
    deep = ()
    for _ in range(depth):
        deep = (deep,)
    return deep


def nested_dict(depth):
    deep = {}
    for _ in range(depth):
        deep = {"k": deep}
    return deep


def nested_deque(depth):
    deep = collections.deque()
    for _ in range(min(depth, 5000)):  # CPython frees them by recursion
        deep = collections.deque([deep])
    return deep


class Box:
    def __init__(self, inner):
        self.inner = inner


def nested_box(depth):
    deep = None
    for _ in range(depth):
        deep = Box(deep)
    return deep


class Slot:
    __slots__ = ("inner",)


def nested_slot(depth):
    deep = None
    for _ in range(depth):
        outer = Slot()
        outer.inner = deep
        deep = outer
    return deep


class Items(list):
    pass


def nested_subclass(depth):
    deep = Items()
    for _ in range(depth):
        deep = Items([deep])
    return deep


MAKERS = [
    nested_list,
    nested_tuple,
    nested_dict,
    nested_deque,
    nested_box,
    nested_slot,
    nested_subclass,
]
IDS = [maker.__name__ for maker in MAKERS]


def step_in(value):
    """The one thing in a nested container; None at its end."""
    if isinstance(value, (Box, Slot, types.SimpleNamespace)):
        return value.inner
    if isinstance(value, dict):
        return value.get("k")
    return value[0] if len(value) else None


def levels(value):
    count = 0
    while (value := step_in(value)) is not None:
        count += 1
    return count


@pytest.mark.parametrize("maker", MAKERS, ids=IDS)
@pytest.mark.parametrize("depth", [200, 300, 5000])
def test_made_inside_and_returned(maker, depth):
    def program(x):
        deep = maker(depth)
        return x + 1, deep

    compiled = magneto.compile(program, backend="eager")
    for _ in range(2):
        result, deep = compiled(torch.ones(2))
        assert torch.equal(result, torch.full((2,), 2.0))
        assert levels(deep) == levels(maker(depth))


def test_40000_lists_made_inside_and_returned():
    def program(x):
        deep = []
        for _ in range(40000):
            deep = [deep]
        return x + 1, deep

    compiled = magneto.compile(program, backend="eager")
    result, deep = compiled(torch.ones(2))
    assert torch.equal(result, torch.full((2,), 2.0))
    assert levels(deep) == 40000


@pytest.mark.parametrize("maker", MAKERS, ids=IDS)
def test_an_argument_that_is_returned(maker):
    deep = maker(DEEP)

    def program(x, deep):
        return x + 1, deep, [deep]

    result = magneto.compile(program, backend="eager")(torch.ones(2), deep)
    assert torch.equal(result[0], torch.full((2,), 2.0))
    assert result[1] is deep and result[2][0] is deep


@pytest.mark.parametrize("maker", MAKERS, ids=IDS)
def test_an_argument_that_C_code_is_given(maker):
    deep = maker(DEEP)

    def program(x, deep):
        return (
            x + len([deep, 1]),
            isinstance(deep, list),
            id(deep) == id(deep),
            (deep,) == (deep,),
            bool(deep),
        )

    result = magneto.compile(program, backend="eager")(torch.ones(2), deep)
    assert torch.equal(result[0], torch.full((2,), 3.0))
    assert result[1:] == (isinstance(deep, list), True, True, True)


@pytest.mark.parametrize("maker", MAKERS, ids=IDS)
def test_an_effect_on_an_object_from_outside(maker):
    outside = {"list": [], "box": Box(None)}

    def program(x):
        deep = maker(2000)
        outside["list"].append(deep)
        outside["box"].inner = deep
        outside["key"] = deep
        return x + 1

    compiled = magneto.compile(program, backend="eager")
    for count in (1, 2):
        assert torch.equal(compiled(torch.ones(2)), torch.full((2,), 2.0))
        assert len(outside["list"]) == count
        assert outside["list"][-1] is outside["box"].inner is outside["key"]
        assert levels(outside["key"]) == levels(maker(2000))


@pytest.mark.parametrize("maker", [nested_list, nested_tuple, nested_dict], ids=["list", "tuple", "dict"])
@pytest.mark.parametrize("depth", [3, 300, DEEP])
def test_an_argument_of_an_operation(maker, depth):
    deep = maker(depth)

    def program(x, deep):
        y = x + 1
        try:
            torch.add(y, deep)
        except TypeError:
            y = y * 2
        return y

    result = magneto.compile(program, backend="eager")(torch.ones(2), deep)
    assert torch.equal(result, torch.full((2,), 4.0))


@pytest.mark.parametrize("maker", MAKERS, ids=IDS)
def test_an_argument_of_an_exception(maker):
    def program(x):
        deep = maker(2000)
        if x.sum() is not None:
            raise ValueError(deep)

    with pytest.raises(ValueError) as caught:
        magneto.compile(program, backend="eager")(torch.ones(2))
    assert levels(caught.value.args[0]) == levels(maker(2000))


@pytest.mark.parametrize("maker", MAKERS, ids=IDS)
def test_a_local_at_a_break(maker):
    def program(x):
        y = x + 1
        deep = maker(2000)
        torch._dynamo.graph_break()
        return y * 2, levels(deep)

    result = magneto.compile(program, backend="eager")(torch.ones(2))
    assert torch.equal(result[0], torch.full((2,), 4.0))
    assert result[1] == levels(maker(2000))


@pytest.mark.parametrize("maker", MAKERS, ids=IDS)
def test_walked_by_captured_code(maker):
    deep = maker(3000)

    def program(x, deep):
        count = 0
        while (deep := step_in(deep)) is not None:
            count += 1
        return x + count

    compiled = magneto.compile(program, backend="eager")
    for value in (deep, maker(3000), maker(2999)):
        assert torch.equal(compiled(torch.ones(2), value), torch.ones(2) + levels(value))


def test_methods_of_methods():
    deep = len
    for _ in range(5000):
        deep = types.MethodType(deep, 1)

    def program(x, deep):
        return x + 1, deep, deep.__self__

    result = magneto.compile(program, backend="eager")(torch.ones(2), deep)
    assert result[1] is deep and result[2] == 1


@pytest.mark.parametrize("kind", ["isinstance", "format", "repr", "key"])
@pytest.mark.parametrize("depth", [20, 300])
def test_tuples_that_C_code_looks_into(kind, depth):
    classes, values = int, ("a", 1)
    for _ in range(depth):
        classes, values = (classes, str), (values,)

    def program(x, classes, values):
        if kind == "isinstance":
            return x + 1, isinstance(3, classes), isinstance(x, classes), isinstance(3.0, classes)
        if kind == "format":
            return x + 1, f"{values}", "%s" % (values,)
        if kind == "repr":
            return x + 1, repr(values), str(values)
        return x + 1, {values: 1}[values], hash(values) == hash(values)

    expected = program(torch.ones(2), classes, values)
    compiled = magneto.compile(program, backend="eager")
    for _ in range(2):
        result = compiled(torch.ones(2), classes, values)
        assert torch.equal(result[0], expected[0]) and result[1:] == expected[1:]


@pytest.mark.parametrize(
    "maker", [nested_list, nested_tuple, nested_dict, nested_box], ids=["list", "tuple", "dict", "box"]
)
def test_defaults_cells_and_globals(maker):
    deep = maker(DEEP)

    def program(x, default=deep):
        return x + 1, default, deep

    def outer(x):
        return program(x)

    result = magneto.compile(outer, backend="eager")(torch.ones(2))
    assert result[1] is deep and result[2] is deep


def test_few_objects_that_are_a_long_way():
    lists, tuples = [1], (1,)
    for _ in range(40):
        lists, tuples = [lists, lists], (tuples, tuples)

    def program(x, lists, tuples):
        inner = [1]
        for _ in range(40):
            inner = [inner, inner]
        return x + len(lists) + len(tuples), inner, isinstance(lists, list), [lists, tuples]

    compiled = magneto.compile(program, backend="eager")
    for _ in range(2):
        result = compiled(torch.ones(2), lists, tuples)
        assert torch.equal(result[0], torch.full((2,), 5.0))
        assert result[1][0] is result[1][1] and result[3][0] is lists and result[3][1] is tuples


def test_a_small_stack():
    def program(x):
        return x + 1, nested_list(250), nested_box(100), nested_tuple(200)

    results = []
    compiled = magneto.compile(program, backend="eager")

    def run():
        for _ in range(3):
            results.append([levels(part) for part in compiled(torch.ones(2))[1:]])

    old = threading.stack_size(256 * 1024)
    try:
        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
    finally:
        threading.stack_size(old)
    assert results == [[250, 99, 200]] * 3


def cyclic_list():
    made = []
    made.append(made)
    return made


def cyclic_tuple():
    inner = []
    made = (inner, 1)
    inner.append(made)
    return made


def cyclic_dict():
    made = {}
    made["k"] = made
    return made


def cyclic_deque():
    made = collections.deque(maxlen=2)
    made.append(made)
    return made


def cyclic_box():
    made = Box(None)
    made.inner = made
    return made


def cyclic_exception():
    made = ValueError("a")
    made.args = (made,)
    return made


def cyclic_partial():
    made = functools.partial(len)
    made.__setstate__((len, (made,), {}, {}))
    return made


def cyclic_partial_function():
    made = functools.partial(len)
    made.__setstate__((len, (), {"k": made}, {}))
    return made


def cyclic_default():
    made = collections.defaultdict(list)
    made["k"] = made
    return made


def cyclic_ordered():
    made = collections.OrderedDict()
    made["k"] = made
    made.self = made
    return made


class Key:
    def __init__(self, number):
        self.number = number

    def __hash__(self):
        return hash(self.number)

    def __eq__(self, other):
        return self.number == other.number


def cyclic_key():
    key = Key(1)
    key.table = {key: key}
    return key


def cyclic_tuple_key():
    box = Box(None)
    key = (box, 1)
    box.inner = {key: box}
    return key


def cyclic_set():
    box = Box(None)
    box.inner = {box}
    return box


def cyclic_frozenset():
    box = Box(None)
    box.inner = frozenset([(box, 1)])
    return box


def cyclic_method():
    box = Box(None)
    box.inner = types.MethodType(len, box)
    return box


def cyclic_function():
    def made():
        return made

    made.attribute = made
    made.__defaults__ = (made,)
    return made


class Row(tuple):
    pass


def cyclic_row():
    made = Row([[], 1])
    made[0].append(made)
    made.attribute = made
    return made


def cyclic_slice():
    inner = []
    made = slice(inner, None, inner)
    inner.append(made)
    return made


def cyclic_proxy():
    inner = {}
    made = types.MappingProxyType(inner)
    inner["k"] = made
    return made


def cyclic_iterator():
    inner = []
    made = iter(inner)
    inner.append(made)
    return made


CYCLES = [value for name, value in list(globals().items()) if name.startswith("cyclic_")]


def shape_of(value, seen, depth=0):
    """A value as nested tuples in which an object that was met before is its number."""
    if (
        isinstance(value, (int, str, float, type(None), type))
        or callable(value)
        and hasattr(value, "__code__")
    ):
        return repr(type(value))
    if id(value) in seen:
        return seen[id(value)]
    seen[id(value)] = len(seen)
    parts = []
    if isinstance(value, (list, tuple, collections.deque)):
        parts += [shape_of(item, seen) for item in value]
    elif isinstance(value, (dict, types.MappingProxyType)):
        parts += [shape_of(part, seen) for item in value.items() for part in item]
    elif isinstance(value, (set, frozenset)):
        parts += [shape_of(item, seen) for item in value]
    elif isinstance(value, slice):
        parts += [shape_of(part, seen) for part in (value.start, value.stop, value.step)]
    elif isinstance(value, functools.partial):
        parts += [shape_of(part, seen) for part in (value.args, value.keywords)]
    elif isinstance(value, BaseException):
        parts += [shape_of(value.args, seen)]
    elif isinstance(value, types.MethodType):
        parts += [shape_of(value.__self__, seen)]
    parts += [shape_of(item, seen) for item in getattr(value, "__dict__", {}).values()]
    return (type(value).__name__, *parts)


@pytest.mark.parametrize("maker", CYCLES, ids=[maker.__name__ for maker in CYCLES])
def test_a_cycle_made_inside(maker):
    def program(x):
        y = x + 1
        made = maker()
        return y, made

    expected = shape_of(maker(), {})
    compiled = magneto.compile(program, backend="eager")
    for _ in range(2):
        result = compiled(torch.ones(2))
        assert torch.equal(result[0], torch.full((2,), 2.0))
        assert shape_of(result[1], {}) == expected


@pytest.mark.parametrize("maker", CYCLES, ids=[maker.__name__ for maker in CYCLES])
def test_a_cycle_from_outside(maker):
    def program(x, made):
        kept = [made]
        return x + len(kept), kept, type(made).__name__, isinstance(made, (list, tuple)), kept[0] is made

    compiled = magneto.compile(program, backend="eager")
    for _ in range(2):
        made = maker()
        result = compiled(torch.ones(2), made)
        assert torch.equal(result[0], torch.full((2,), 2.0))
        assert result[1][0] is made
        assert result[2:] == (type(made).__name__, isinstance(made, (list, tuple)), True)
