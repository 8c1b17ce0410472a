"""Settings that say of single sources and values what varies; what modules hold."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.compiler.config

import magneto


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def graphs(compile: Any, make: Callable[[], Callable[..., Any]], calls: list[Any]) -> int:
    """How many graphs a sequence of calls makes; each result is compared with eager's."""
    count = 0

    def backend(module: torch.fx.GraphModule, inputs: list[Any]) -> Any:
        nonlocal count
        count += 1
        return module.forward

    function, other = make(), make()
    compiled = compile(function, backend=backend)
    for call in calls:
        args = call(function) if callable(call) else call
        expected = other(*(call(other) if callable(call) else call))
        torch.testing.assert_close(compiled(*args), expected)
    return count


def pair(x: torch.Tensor, y: torch.Tensor, k: int) -> torch.Tensor:
    return x.sum(0) * k + y.sum(0)


def call(n: int, m: int, k: int) -> tuple[Any, ...]:
    return torch.ones(n, 3), torch.ones(m, 3), k


LISTS: dict[str, tuple[dict[str, str], list[tuple[Any, ...]], int]] = {
    "a tensor": ({"dynamic_sources": "L['x']"}, [call(4, 5, 6), call(7, 5, 6)], 1),
    "a pattern": ({"dynamic_sources": r"L\['[xy]'\]"}, [call(4, 5, 6), call(7, 8, 6)], 1),
    "a dimension": ({"dynamic_sources": "L['x']:0"}, [call(4, 5, 6), call(7, 5, 6)], 1),
    "another dimension": ({"dynamic_sources": "L['x']:1"}, [call(4, 5, 6), call(7, 5, 6)], 2),
    "an int": ({"dynamic_sources": "L['k']"}, [call(4, 5, 6), call(4, 5, 7)], 1),
    "several": ({"dynamic_sources": "L['k'], L['y']"}, [call(4, 5, 6), call(4, 6, 7)], 1),
    "values": ({"dynamic_values": "4, 6"}, [call(4, 5, 6), call(7, 5, 8)], 1),
    "other values": ({"dynamic_values": "3"}, [call(4, 5, 6), call(7, 5, 6)], 2),
    "none": ({}, [call(4, 5, 6), call(7, 5, 6)], 2),
    "unbacked": ({"unbacked_sources": "L['x']:0"}, [call(4, 5, 6), call(7, 5, 6)], 1),
}


@pytest.mark.parametrize("name", LISTS)
@pytest.mark.no_leak_hunt("torch.compile keeps what it compiled")
def test_lists_of_sources_and_values(name: str) -> None:
    settings, calls, expected = LISTS[name]
    counts = []
    for compile in (torch.compile, magneto.compile):
        torch._dynamo.reset()
        with torch.compiler.config.patch(**settings):
            counts.append(graphs(compile, lambda: pair, calls))
    assert counts == [expected, expected]


@pytest.mark.no_leak_hunt("torch.compile keeps what it compiled")
def test_dynamic_sources_count_also_where_nothing_is_dynamic() -> None:
    for compile in (torch.compile, magneto.compile):
        torch._dynamo.reset()
        with torch.compiler.config.patch(dynamic_sources="L['x']"):
            compiled = compile(pair, backend="eager", dynamic=False)
            before = torch._dynamo.utils.counters["stats"]["unique_graphs"]
            for n in (4, 5, 6):
                compiled(*call(n, 5, 6))
        assert torch._dynamo.utils.counters["stats"]["unique_graphs"] - before == 1


@pytest.mark.no_leak_hunt("torch.compile keeps what it compiled")
def test_pattern_that_is_none_is_an_error() -> None:
    errors = []
    for compile in (torch.compile, magneto.compile):
        torch._dynamo.reset()
        with torch.compiler.config.patch(dynamic_sources="("), pytest.raises(Exception) as caught:
            compile(pair, backend="eager")(*call(4, 5, 6))
        errors.append(caught.value)
    assert str(errors[1]) in str(errors[0])


class Holder(torch.nn.Module):
    """A module with sizes and numbers of all kinds."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(4, 3))
        self.register_buffer("kept", torch.ones(4, 3))
        self.cache = torch.ones(4, 3)
        self.rate = 0.5
        self.count = 2
        self.part = torch.nn.ReLU()
        self.part.extra = torch.ones(4, 3)


class UsesCache(Holder):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.cache.sum()


class UsesRate(Holder):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.rate


class UsesCount(Holder):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.count


class UsesWeight(Holder):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.weight.sum()


class UsesBuffer(Holder):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.kept.sum()


class UsesPart(Holder):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.part(x) + self.part.extra.sum()


def grow(name: str, *values: Any) -> list[Any]:
    """Calls with a part of the module changed before each."""

    def one(value: Any) -> Any:
        def change(module: Any) -> tuple[Any, ...]:
            owner, _, attribute = name.rpartition(".")
            target = getattr(module, owner) if owner else module
            setattr(target, attribute, value() if callable(value) else value)
            return (torch.ones(2),)

        return change

    return list(map(one, values))


def tensors(kind: Callable[[torch.Tensor], Any] = lambda x: x) -> list[Any]:
    return [lambda n=n: kind(torch.ones(n, 3)) for n in (4, 5, 6, 7)]


MODULES: dict[str, tuple[Callable[[], Any], list[Any], dict[str, Any]]] = {
    "a tensor that is no buffer": (UsesCache, grow("cache", *tensors()), {}),
    "an int": (UsesCount, grow("count", 2, 3, 4, 5), {}),
    "an int that may vary": (UsesCount, grow("count", 2, 3, 4, 5), {"allow_unspec_int_on_nn_module": True}),
    "a parameter": (UsesWeight, grow("weight", *tensors(torch.nn.Parameter)), {}),
    "a parameter that may vary": (
        UsesWeight, grow("weight", *tensors(torch.nn.Parameter)), {"force_parameter_static_shapes": False},
    ),
    "a buffer": (UsesBuffer, grow("kept", *tensors()), {}),
    "a buffer that may vary": (UsesBuffer, grow("kept", *tensors()), {"force_parameter_static_shapes": False}),
    "a tensor of torch's own module": (UsesPart, grow("part.extra", *tensors()), {}),
    "a tensor of torch's own module that may vary": (
        UsesPart, grow("part.extra", *tensors()), {"force_nn_module_property_static_shapes": False},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MODULES)
@pytest.mark.no_leak_hunt("torch.compile keeps what it compiled")
def test_what_modules_hold_varies_as_for_torch_compile(name: str) -> None:
    make, calls, settings = MODULES[name]
    counts = []
    for compile in (torch.compile, magneto.compile):
        torch._dynamo.reset()
        with torch._dynamo.config.patch(**settings):
            counts.append(graphs(compile, make, calls))
    assert counts[1] == counts[0]


def test_float_of_a_module_varies() -> None:
    module = UsesRate()
    compiled = magneto.compile(module, backend="eager")
    before = magneto.counters["stats"]["unique_graphs"]
    for rate in (0.5, 0.25, 0.125, 0.75):
        module.rate = rate
        assert torch.equal(compiled(torch.ones(2)), torch.ones(2) * rate)
    assert magneto.counters["stats"]["unique_graphs"] - before == 2


@pytest.mark.no_leak_hunt("torch.compile keeps what it compiled")
def test_parameter_that_is_named_is_dynamic() -> None:
    for compile in (torch.compile, magneto.compile):
        torch._dynamo.reset()
        with torch.compiler.config.patch(dynamic_sources=r"L\['self'\].*weight"):
            assert graphs(compile, UsesWeight, grow("weight", *tensors(torch.nn.Parameter))) == 1
