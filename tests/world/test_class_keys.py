"""Dicts from outside with classes as keys: a read is guarded by its key, and not by all keys."""

from __future__ import annotations

from typing import Any

import torch

import magneto


class A:
    pass


class B:
    pass


class Meta(type):
    """Whose classes are all equal."""

    def __eq__(cls, other: object) -> bool:
        return isinstance(other, Meta)

    def __hash__(cls) -> int:
        return 1


class C(metaclass=Meta):
    pass


class D(metaclass=Meta):
    pass


def _graphs() -> int:
    return int(magneto.counters["stats"]["unique_graphs"])


def test_other_keys_are_not_guarded() -> None:
    table: dict[Any, int] = {A: 1}

    def f(x: torch.Tensor, value: Any) -> torch.Tensor:
        return x + (table[type(value)] if type(value) in table else 10)

    compiled = magneto.compile(f, backend="eager", fullgraph=True)
    magneto.counters.clear()
    x = torch.zeros(1)
    assert compiled(x, A()) == 1
    table[B] = 5
    assert compiled(x, A()) == 1
    assert _graphs() == 1
    table[A] = 3
    assert compiled(x, A()) == 3
    del table[A]
    assert compiled(x, A()) == 10


def test_a_key_that_is_not_there() -> None:
    table: dict[Any, int] = {A: 1}

    def f(x: torch.Tensor, value: Any) -> torch.Tensor:
        return x + (1 if type(value) in table else 10)

    compiled = magneto.compile(f, backend="eager", fullgraph=True)
    magneto.counters.clear()
    x = torch.zeros(1)
    assert compiled(x, B()) == 10
    table[C] = 2
    assert compiled(x, B()) == 10
    assert _graphs() == 1
    table[B] = 2
    assert compiled(x, B()) == 1


def test_get_of_a_class() -> None:
    table: dict[Any, int] = {torch.Tensor: 1, list: 2}

    def f(x: torch.Tensor) -> torch.Tensor:
        return x + table[type(x)] + table[list]

    compiled = magneto.compile(f, backend="eager", fullgraph=True)
    x = torch.zeros(1)
    assert compiled(x) == 3
    table[list] = 7
    assert compiled(x) == 8


def test_classes_that_are_equal() -> None:
    """What a metaclass says about them counts."""
    table: dict[Any, int] = {C: 1}

    def f(x: torch.Tensor) -> torch.Tensor:
        return x + (1 if D in table else 10)

    compiled = magneto.compile(f, backend="eager")
    x = torch.zeros(1)
    assert compiled(x) == f(x)
    table.clear()
    assert compiled(x) == f(x)


def test_registries_of_pytrees() -> None:
    """Importing a library that registers a class is no reason to capture again."""

    class Pair:
        def __init__(self, left: Any, right: Any) -> None:
            self.left, self.right = left, right

    def f(x: torch.Tensor) -> Any:
        return torch.utils._pytree.tree_map(lambda a: a + 1, {"a": x, "b": [x * 2]})

    compiled = magneto.compile(f, backend="eager", fullgraph=True)
    magneto.counters.clear()
    x = torch.zeros(1)
    compiled(x)
    torch.utils._pytree.register_pytree_node(
        Pair, lambda p: ([p.left, p.right], None), lambda children, _: Pair(*children)
    )
    try:
        compiled(x)
        assert _graphs() == 1
    finally:
        torch.utils._pytree._deregister_pytree_node(Pair)
