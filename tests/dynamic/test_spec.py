"""`shapes_spec`, against torch.compile."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch.fx.experimental.dynamic_spec import (
    DictSpec,
    IntVar,
    ObjectSpec,
    ParamsSpec,
    SeqSpec,
    ShapesSpec,
    ShapeVar,
    TensorSpec,
)

import magneto

o = torch.ones


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


class Holder:
    """A plain object with a tensor."""

    def __init__(self, n: int) -> None:
        self.x = o(n)


def pair(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return x.sum(0) + y.sum(0)


def times(x: torch.Tensor, k: int) -> torch.Tensor:
    return x * k


def both(parts: Any) -> torch.Tensor:
    return parts[0] + parts[1]


def named(parts: Any) -> torch.Tensor:
    return parts["a"] * 2


def held(holder: Holder) -> torch.Tensor:
    return holder.x * 2


def many(*args: torch.Tensor) -> torch.Tensor:
    return args[0] + args[1]


def branch(x: torch.Tensor) -> torch.Tensor:
    return x + 1 if x.shape[0] > 5 else x


A, B = ShapeVar("a"), ShapeVar("b", min=2, max=10)
K = IntVar("k")
X = {"x": TensorSpec([A, None])}

COUNTS: dict[str, tuple[Callable[..., Any], Any, list[tuple[Any, ...]]]] = {
    "a size": (pair, X, [(o(4, 3), o(5, 3)), (o(6, 3), o(5, 3)), (o(7, 3), o(5, 3))]),
    "a size that is not named": (pair, X, [(o(4, 3), o(5, 3)), (o(4, 3), o(6, 3)), (o(4, 3), o(7, 3))]),
    "a size that is constant": (pair, {"x": TensorSpec([4, 3])}, [(o(4, 3), o(5, 3)), (o(4, 3), o(5, 3))]),
    "one variable twice": (
        pair,
        {"x": TensorSpec([A, None]), "y": TensorSpec([A, None])},
        [(o(4, 3), o(4, 3)), (o(5, 3), o(5, 3))],
    ),
    "an expression": (
        pair,
        {"x": TensorSpec([A, None]), "y": TensorSpec([A * 2, None])},
        [(o(4, 3), o(8, 3)), (o(5, 3), o(10, 3))],
    ),
    "an int": (times, {"k": K}, [(o(3), 2), (o(3), 3), (o(3), 4)]),
    "an int that is not named": (times, {"x": TensorSpec([A])}, [(o(3), 2), (o(4), 3), (o(5), 4)]),
    "a list": (both, {"parts": SeqSpec([TensorSpec([A]), TensorSpec([A])])}, [([o(3), o(3)],), ([o(4), o(4)],)]),
    "a dict": (named, {"parts": DictSpec({"a": TensorSpec([A])})}, [({"a": o(3)},), ({"a": o(4)},)]),
    "an object": (held, {"holder": ObjectSpec({"x": TensorSpec([A])})}, [(Holder(3),), (Holder(4),)]),
    "arguments without names": (
        many, ShapesSpec(ParamsSpec({"*args": [TensorSpec([A]), TensorSpec([A])]})), [(o(3), o(3)), (o(4), o(4))],
    ),
    "nothing": (pair, {}, [(o(4, 3), o(5, 3)), (o(5, 3), o(5, 3)), (o(6, 3), o(5, 3))]),
}  # fmt: skip


@pytest.mark.parametrize("name", COUNTS)
@pytest.mark.no_leak_hunt("torch.compile keeps what it compiled")
def test_as_many_graphs_as_torch_compile(name: str) -> None:
    function, spec, calls = COUNTS[name]
    counts = []
    for compile in (torch.compile, magneto.compile):
        graphs: list[Any] = []

        def backend(module: torch.fx.GraphModule, inputs: list[Any], graphs: list[Any] = graphs) -> Any:
            graphs.append(module)
            return module.forward

        compiled = compile(function, backend=backend, shapes_spec=spec)
        for args in calls:
            torch.testing.assert_close(compiled(*args), function(*args))
        counts.append(len(graphs))
    assert counts[1] == counts[0]


ERRORS: dict[str, tuple[Callable[..., Any], Any, list[tuple[Any, ...]]]] = {
    "another constant": (pair, {"x": TensorSpec([4, 3])}, [(o(4, 3), o(5, 3)), (o(5, 3), o(5, 3))]),
    "another rank": (pair, {"x": TensorSpec([4])}, [(o(4, 3), o(5, 3))]),
    "another int": (times, {"k": 3}, [(o(3), 3), (o(3), 4)]),
}
VIOLATED: dict[str, tuple[Callable[..., Any], Any, list[tuple[Any, ...]]]] = {
    "one variable, two values": (
        pair,
        {"x": TensorSpec([A, None]), "y": TensorSpec([A, None])},
        [(o(4, 3), o(4, 3)), (o(5, 3), o(6, 3))],
    ),
    "bounds": (pair, {"x": TensorSpec([B, None])}, [(o(4, 3), o(5, 3)), (o(11, 3), o(5, 3))]),
    "an expression": (
        pair,
        {"x": TensorSpec([A, None]), "y": TensorSpec([A * 2, None])},
        [(o(4, 3), o(8, 3)), (o(5, 3), o(6, 3))],
    ),
    "an assumption": (
        pair,
        ShapesSpec({"x": TensorSpec([A, None]), "y": TensorSpec([B, None])}, assumptions=[A > B]),
        [(o(4, 3), o(3, 3)), (o(3, 3), o(4, 3))],
    ),
}


def outcome(compile: Any, function: Callable[..., Any], spec: Any, calls: list[tuple[Any, ...]]) -> Any:
    """The error of the last call."""
    torch._dynamo.reset()
    compiled = compile(function, backend="eager", shapes_spec=spec)
    for args in calls[:-1]:
        compiled(*args)
    with pytest.raises(Exception) as caught:
        compiled(*calls[-1])
    return caught.value


@pytest.mark.parametrize("name", ERRORS)
@pytest.mark.no_leak_hunt("torch.compile keeps what it compiled")
def test_wrong_value_has_torchs_text(name: str) -> None:
    theirs, ours = (outcome(compile, *ERRORS[name]) for compile in (torch.compile, magneto.compile))
    assert isinstance(ours, ValueError)
    assert str(ours) in str(theirs)


@pytest.mark.parametrize("name", VIOLATED)
@pytest.mark.no_leak_hunt("torch.compile keeps what it compiled")
def test_relation_that_does_not_hold_is_an_error(name: str) -> None:
    assert outcome(torch.compile, *VIOLATED[name]) is not None
    ours = outcome(magneto.compile, *VIOLATED[name])
    assert isinstance(ours, RuntimeError) and "shapes_spec: this does not hold" in str(ours)


@pytest.mark.parametrize("size", [0, 1])
def test_sizes_of_0_and_1(size: int) -> None:
    compiled = magneto.compile(pair, backend="eager", shapes_spec=X)
    for n in (size, 6, 7, size):
        x, y = o(n, 3), o(5, 3)
        torch.testing.assert_close(compiled(x, y), pair(x, y))


def test_branch_on_a_size_is_a_guard() -> None:
    compiled = magneto.compile(branch, backend="eager", shapes_spec={"x": TensorSpec([A, None])})
    for n in (4, 7, 3, 8):
        x = o(n, 3)
        torch.testing.assert_close(compiled(x), branch(x))
    assert len(magneto.cache_entries(compiled)) == 2


def test_what_is_wrong_is_refused() -> None:
    for arguments in ({"dynamic": True, "shapes_spec": {}}, {"shapes_spec": 3}):
        with pytest.raises((ValueError, TypeError)):
            magneto.compile(pair, backend="eager", **arguments)
