"""Captured code that gives attributes to tensors from outside, changes them and deletes them: as in eager, in one graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import magneto
from magneto import exc


def set_and_read(x: Any, y: Any) -> Any:
    x.y = y
    x.z = 3
    return x * x.y + x.z


def delete(x: Any, y: Any) -> Any:
    x.z = 1
    before = hasattr(x, "z")
    del x.z
    return x + before + hasattr(x, "z")


def delete_what_was_there(x: Any, y: Any) -> Any:
    result = x + y.old
    del y.old
    return result, hasattr(y, "old"), getattr(y, "old", 4)


def replace(x: Any, y: Any) -> Any:
    y.old = y.old + 1
    y.old += x.numel()
    return x * y.old


def list_in_it(x: Any, y: Any) -> Any:
    x.items = [1]
    x.items.append(y)
    return x + len(x.items)


def one_tensor_in_another(x: Any, y: Any) -> Any:
    x.y = y
    y.x = x
    return x.y.x is x, x.y.x.y * 2


def result_of_the_graph(x: Any, y: Any) -> Any:
    x.total = (x * y).sum()
    return x.total + 1


def over_a_break(x: Any, y: Any) -> Any:
    x.total = x + y
    magneto.graph_break()
    x.count = 2
    return x.total * x.count


def attributes_of(x: Any) -> dict[str, Any]:
    return {
        name: value.tolist() if isinstance(value, torch.Tensor) else value for name, value in vars(x).items()
    }


def plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(plain(item) for item in value)
    return value.tolist() if isinstance(value, torch.Tensor) else value


def release(tensors: tuple[Any, Any]) -> None:
    """Take the attributes away: a parameter whose `grad_fn` leads to itself is never freed, in eager too."""
    for tensor in tensors:
        vars(tensor).clear()


PROGRAMS = [set_and_read, delete, delete_what_was_there, replace, result_of_the_graph, over_a_break]


@pytest.mark.parametrize(
    "make", [torch.Tensor.clone, lambda x: nn.Parameter(x.clone())], ids=["tensor", "parameter"]
)
@pytest.mark.parametrize("program", PROGRAMS)
def test_as_eager(program: Callable[..., Any], make: Any) -> None:
    def arguments() -> tuple[Any, Any]:
        x, y = make(torch.ones(2)), make(torch.arange(2.0))
        y.old = 5
        return x, y

    expected = arguments()
    result = program(*expected)
    compiled = magneto.compile(program, backend="eager", fullgraph=program is not over_a_break)
    for _ in range(3):
        found = arguments()
        assert plain(compiled(*found)) == plain(result)
        assert [attributes_of(one) for one in found] == [attributes_of(one) for one in expected]
        release(found)
    assert len(magneto.cache_entries(compiled)) == 1 + (program is over_a_break)
    release(expected)


def test_what_is_written_is_the_object_itself() -> None:
    x, y = torch.ones(2), torch.zeros(2)
    same, product = magneto.compile(one_tensor_in_another, backend="eager", fullgraph=True)(x, y)
    assert same and torch.equal(product, y * 2)
    assert x.y is y and y.x is x  # type: ignore[attr-defined]
    del x.y, y.x  # type: ignore[attr-defined]
    magneto.compile(list_in_it, backend="eager", fullgraph=True)(x, y)
    assert x.items[0] == 1 and x.items[1] is y  # type: ignore[attr-defined]


def test_one_tensor_under_two_names() -> None:
    def program(x: Any, y: Any) -> Any:
        x.count = 1
        y.count = 2
        return x + x.count

    compiled = magneto.compile(program, backend="eager")
    one, other = torch.ones(2), torch.ones(2)
    assert compiled(one, other).tolist() == [2, 2]
    assert compiled(one, one).tolist() == [3, 3]
    assert compiled(one, other).tolist() == [2, 2]


def test_what_a_later_call_finds_is_guarded() -> None:
    def program(x: Any) -> Any:
        x.count = getattr(x, "count", 0) + 1
        return x * x.count

    compiled = magneto.compile(program, backend="eager")
    x = torch.ones(2)
    assert [compiled(x).tolist() for _ in range(3)] == [[1, 1], [2, 2], [3, 3]]


def test_setattr_of_the_program_ends_the_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    def program(x: Any) -> Any:
        x.count = 1
        return x + 1

    compiled = magneto.compile(program, backend="eager", fullgraph=True)
    compiled(torch.ones(2))
    names = []

    def note(self: Any, name: str, value: Any) -> None:
        names.append(name)

    monkeypatch.setattr(torch.Tensor, "__setattr__", note, raising=False)
    with pytest.raises(exc.Unsupported, match="attribute count of a tensor"):
        compiled(torch.ones(2))
    magneto.compile(program, backend="eager")(torch.ones(2))
    assert names == ["count"]
