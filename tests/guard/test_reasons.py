"""Reasons for recompiles: the same in each run, never long, and made without the user's code."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import torch

import magneto
from magneto import _events

X = torch.ones(2)


@pytest.fixture(autouse=True)
def no_counts() -> None:
    magneto.counters.clear()


def reasons(function: Any, *calls: tuple[Any, ...]) -> list[str]:
    """Why the calls after the first are captured again."""
    compiled = magneto.compile(function, backend="eager")
    for call in calls:
        compiled(*call)
    found = list(magneto.counters["recompiles"])
    assert found
    return found


class Loud:
    """Must not be asked for a text."""

    def __init__(self, n: int = 0) -> None:
        self.n = n

    def __repr__(self) -> str:
        raise AssertionError("a text was asked for")

    __str__ = __repr__


def test_objects_as_keys_have_no_address() -> None:
    def function(x: torch.Tensor, d: dict[Any, int]) -> torch.Tensor:
        for value in d.values():
            x = x + value
        return x

    for text in reasons(function, (X, {object(): 1}), (X, {object(): 1}), (X, {Loud(): 2, "a": 1})):
        assert "0x" not in text, text


def test_the_same_program_counts_the_same_reasons() -> None:
    def run() -> dict[str, int]:
        magneto.counters.clear()
        keys = [Loud(), object(), len, lambda: 1, Loud]
        reasons(lambda x, d: x + sum(d.values()), *((X, {key: 1}) for key in keys))
        return dict(magneto.counters["recompiles"])

    kept = [Loud(), object()]  # so that addresses are others
    first = run()
    kept.append(object())
    assert run() == first


LONG = {
    "int": 10**5000,
    "str": "a" * 10**6,
    "bytes": b"b" * 10**6,
    "tuple": tuple(range(10**4)),
    "frozenset": frozenset(range(10**4)),
    "nested": ((((((1,),),),),),),
}


@pytest.mark.parametrize("kind", LONG)
def test_texts_are_short(kind: str) -> None:
    """Also where Python refuses to write a number out."""
    value = LONG[kind]

    def function(x: torch.Tensor, d: dict[Any, Any]) -> torch.Tensor:
        return x + 1 if d["k"] == value else x + len(d)

    def keyed(x: torch.Tensor, d: dict[Any, int]) -> torch.Tensor:
        return x + sum(d.values())

    for texts in (
        reasons(function, (X, {"k": value}), (X, {"k": 3}), (X, {"k": value, "l": 1})),
        reasons(keyed, (X, {value: 1}), (X, {"k": 3}), (X, {value: 2})),
    ):
        assert all(len(text) < 1500 for text in texts), max(map(len, texts))


def test_a_deep_structure_has_a_text() -> None:
    """That of a source which is hundreds of levels deep: only its end is shown."""

    class Node:
        def __init__(self, following: Node | None) -> None:
            self.following = following
            self.n = 1

    def chain(length: int) -> Node | None:
        node = None
        for _ in range(length):
            node = Node(node)
        return node

    def function(x: torch.Tensor, node: Node | None) -> torch.Tensor:
        while node is not None:
            x = x + node.n
            node = node.following
        return x

    compiled = magneto.compile(function, backend="eager")
    for length in (20, 40, 33, 300, 301):
        assert compiled(X, chain(length)).tolist() == [1.0 + length] * 2
    for entry in compiled.entries():
        assert all(len(text) < 2000 for text in entry.guards())


def test_the_number_of_reasons_is_bounded() -> None:
    observer = _events.Observer("f", False)
    for i in range(_events.MOST_REASONS + 500):
        observer.missed([f"L['n'] == {i}"], False)
    observer.missed(["L['n'] == 0"], False)
    counts = magneto.counters["recompiles"]
    assert len(counts) == _events.MOST_REASONS + 1
    assert counts[_events.OTHERS] == 500 and counts["L['n'] == 0"] == 2
    assert isinstance(counts, Counter)


def test_a_guard_on_an_object_that_is_not_kept() -> None:
    """Of a generator only the identity is guarded: the guard says so, and says when it is gone."""

    def f(x: torch.Tensor, items: list[Any]) -> Any:
        return x + 1, items[0] is None

    compiled = magneto.compile(f, backend="eager")

    def guards() -> list[str]:
        return [
            text for entry in magneto.cache_entries(compiled) for text in entry.guards if "items'][0]" in text
        ]

    items = [(i for i in range(3))]
    assert compiled(X, items)[1] is False
    assert compiled(X, items)[1] is False
    assert guards() == ["L['items'][0] is the same generator"]
    items.clear()
    assert guards() == ["L['items'][0] is the same object, which is gone"]
    assert compiled(X, [(i for i in range(3))])[1] is False
    assert len(magneto.cache_entries(compiled)) == 2


def test_the_newest_entries_are_told_and_not_all(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[int] = []
    missed = _events.Observer.missed

    def listen(self: _events.Observer, texts: list[str], *rest: Any, **named: Any) -> bool:
        told.append(len(texts))
        return missed(self, texts, *rest, **named)

    monkeypatch.setattr(_events.Observer, "missed", listen)
    compiled = magneto.compile(lambda x, name: x + len(name), backend="eager", recompile_limit=64)
    for index in range(40):
        assert compiled(X, f"name{index}").equal(X + len(f"name{index}"))
    assert told == [*range(1, 16), *[16] * 24]
