"""Dicts from outside with tensors for keys: as in eager, in one graph."""

from __future__ import annotations

import collections
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import magneto


class Things:
    """A dict, the tensors that are its keys, one that is not, and an argument."""

    def __init__(self, make: Callable[[dict[Any, Any]], Any]) -> None:
        self.p, self.q = nn.Parameter(torch.ones(2)), torch.zeros(2)
        self.other, self.x = torch.ones(3), torch.full((2,), 3.0)
        self.items = {"a": 1, self.p: 2, self.q: torch.ones(2)}
        self.d = make(self.items)

    def renew(self) -> None:
        self.d.clear()
        self.d.update(self.items)
        self.q.zero_()
        self.x = torch.full((2,), 3.0)

    def state(self) -> Any:
        names = {id(self.p): "p", id(self.q): "q", id(self.other): "other", id(self.x): "x"}
        return [(names.get(id(key), key), plain(value)) for key, value in self.d.items()]


def plain(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return type(value), value.tolist()
    return [plain(item) for item in value] if isinstance(value, (list, tuple)) else value


def read(d: Any, p: Any, q: Any, other: Any, x: Any) -> Any:
    d["z"] = x + 1
    return d[p] * x, d.get(other), d.get(q)


def write(d: Any, p: Any, q: Any, other: Any, x: Any) -> Any:
    d[p] = 123
    return d[q] + x, p in d, other in d, x in d


def add_and_delete(d: Any, p: Any, q: Any, other: Any, x: Any) -> Any:
    d[other] = x + 1
    d[p] = x
    del d[q]
    return [d[key] for key in d][2]


def methods(d: Any, p: Any, q: Any, other: Any, x: Any) -> Any:
    return x + 1, [type(key).__name__ for key in d], d.pop(p), d.setdefault(x, 5), len(d)


def keys_in_operations(d: Any, p: Any, q: Any, other: Any, x: Any) -> Any:
    q.add_(1)
    return [key * 2 for key in d if isinstance(key, torch.Tensor)], d[q]


def over_a_break(d: Any, p: Any, q: Any, other: Any, x: Any) -> Any:
    d[q] = 1
    magneto.graph_break()
    d[p] = 4
    return x + d[q] + d[p]


def cleared(d: Any, p: Any, q: Any, other: Any, x: Any) -> Any:
    d.clear()
    d[p] = 1
    d[x] = 2
    return x + 1


def deleted_in_a_loop(d: Any, p: Any, q: Any, other: Any, x: Any) -> Any:
    for key in list(d):
        if isinstance(key, nn.Parameter):
            del d[key]
    return x + len(d)


PROGRAMS = [
    read,
    write,
    add_and_delete,
    methods,
    keys_in_operations,
    over_a_break,
    cleared,
    deleted_in_a_loop,
]


@pytest.mark.parametrize(
    "make", [dict, lambda items: collections.defaultdict(list, items)], ids=["dict", "default"]
)
@pytest.mark.parametrize("program", PROGRAMS)
def test_as_eager(program: Callable[..., Any], make: Any) -> None:
    expected = Things(make)
    result = plain(program(expected.d, expected.p, expected.q, expected.other, expected.x))
    compiled = magneto.compile(program, backend="eager", fullgraph=program is not over_a_break)
    for _ in range(2):
        found = Things(make)
        for call in range(2):
            if call:
                found.renew()
            entries = len(magneto.cache_entries(compiled))
            assert plain(compiled(found.d, found.p, found.q, found.other, found.x)) == result
            assert found.state() == expected.state()
            assert call == 0 or len(magneto.cache_entries(compiled)) == entries


def test_other_arguments_are_none_of_the_keys() -> None:
    def program(d: Any, x: Any) -> Any:
        return x + 1, x in d

    key = torch.ones(2)
    d = {key: 1}
    compiled = magneto.compile(program, backend="eager", fullgraph=True)
    assert [compiled(d, one)[1] for one in (torch.ones(2), key, torch.ones(2), key)] == [
        False,
        True,
        False,
        True,
    ]


def test_tensor_that_is_reached_as_a_key_only() -> None:
    kept = {torch.ones(2): "a", torch.zeros(2): "b"}

    def program(x: Any) -> Any:
        return {value: key + x for key, value in kept.items()}

    compiled = magneto.compile(program, backend="eager", fullgraph=True)
    for x in (torch.ones(2), torch.zeros(2)):
        assert plain(list(compiled(x).values())) == plain(list(program(x).values()))


def _in_one_graph(function: Callable[..., Any], *make: Callable[[], torch.Tensor]) -> Any:
    """What a function returns and does to its arguments, captured whole; compared with eager."""
    plain_arguments, arguments = [[one() for one in make] for _ in range(2)]
    expected = function(*plain_arguments)
    found = magneto.compile(function, backend="eager", fullgraph=True)(*arguments)
    assert plain([found, arguments]) == plain([expected, plain_arguments])
    return found


def test_what_an_operation_in_place_returns_is_its_argument_in_sets_and_dicts() -> None:
    def sets(x: torch.Tensor) -> Any:
        y = x.add_(1)
        s = {x}
        s.add(y)
        found = [len(s), y in s]
        s.discard(x.mul_(2))
        return found, len(s)

    def dicts(x: torch.Tensor) -> Any:
        d = {x: 1}
        d[x.add_(1)] = 2
        return len(d), d[x.mul_(3)], d.get(x.sub_(1)), d.pop(x.add_(2)), len(d)

    def lists(x: torch.Tensor, z: torch.Tensor) -> Any:
        return x.add_(1) in [x], [x, z].index(x.mul_(2))

    assert _in_one_graph(sets, lambda: torch.ones(2)) == ([1, True], 0)
    assert _in_one_graph(dicts, lambda: torch.ones(2)) == (1, 2, 2, 2, 0)
    assert magneto.compile(lists, backend="eager")(torch.ones(2), torch.ones(2)) == (True, 0)


def test_a_set_tells_whether_two_arguments_are_one_tensor() -> None:
    def program(x: torch.Tensor, y: torch.Tensor) -> Any:
        return x.add_(1) in {y}

    compiled = magneto.compile(program, backend="eager", fullgraph=True)
    x = torch.ones(2)
    assert [compiled(x, torch.ones(2)), compiled(x, x), compiled(x, torch.ones(2))] == [False, True, False]
