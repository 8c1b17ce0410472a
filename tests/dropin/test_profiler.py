"""Regions that torch's profilers show: the look-up, and the run of what was compiled, as by torch.compile."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import torch
import torch._dynamo
import torch.profiler

import magneto

LOOKUP, REGION = "TorchDynamo Cache Lookup", "Torch-Compiled Region: "

pytestmark = pytest.mark.no_leak_hunt("a profiler keeps what it has seen")


def by_torch_profiler(call: Any) -> list[str]:
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        call()
    return [event.name for event in profile.events()]


def by_autograd_profiler(call: Any) -> list[str]:
    with torch.autograd.profiler.profile() as profile:
        call()
    return [event.name for event in profile.function_events]


def regions(names: list[str]) -> list[str]:
    return [name for name in names if name == LOOKUP or name.startswith(REGION)]


@pytest.fixture(autouse=True)
def forget() -> Any:
    torch._dynamo.reset()
    magneto.reset()
    yield
    torch._dynamo.reset()
    magneto.reset()


@pytest.mark.parametrize("record", [by_torch_profiler, by_autograd_profiler])
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_hit_is_a_lookup_and_a_region(record: Any, backend: str) -> None:
    compiled = magneto.compile(lambda x: x.sin(), backend=backend)
    x = torch.ones(3)
    compiled(x)
    found = record(lambda: compiled(x))
    assert regions(found) == [LOOKUP, f"{REGION}0/0"]
    assert found.index(f"{REGION}0/0") < found.index("aten::sin")


def test_the_operations_lie_in_the_region() -> None:
    compiled = magneto.compile(lambda x: x.sin(), backend="eager")
    x = torch.ones(3)
    compiled(x)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        compiled(x)
    (sin,) = (event for event in profile.events() if event.name == "aten::sin")
    assert sin.cpu_parent.name == f"{REGION}0/0"
    assert sin.cpu_parent.cpu_parent is None


def test_a_region_has_the_id_of_its_compilation() -> None:
    compiled = magneto.compile(lambda x: x + 1, backend="eager", dynamic=False)
    for size in (2, 3, 4):
        compiled(torch.ones(size))
    for number, size in enumerate((2, 3, 4)):
        found = by_torch_profiler(lambda size=size: compiled(torch.ones(size)))
        assert regions(found) == [LOOKUP, f"{REGION}0/{number}"]


def test_each_part_of_a_function_that_breaks_is_a_region() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        y = x.sin()
        torch._dynamo.graph_break()
        return y.cos()

    def run(compiler: Any) -> list[str]:
        compiled = compiler(f, backend="eager")
        compiled(torch.ones(3))
        return regions(by_torch_profiler(lambda: compiled(torch.ones(3))))

    ours = run(magneto.compile)
    assert ours == [LOOKUP, f"{REGION}0/0", LOOKUP, f"{REGION}1/0"]
    torch._dynamo.reset()
    magneto.reset()
    assert ours == run(torch.compile)


def test_a_first_call_is_a_lookup_then_the_compilation_then_a_region() -> None:
    compiled = magneto.compile(lambda x: x.sin(), backend="eager")
    found = by_torch_profiler(lambda: compiled(torch.ones(3)))
    assert regions(found) == [LOOKUP, LOOKUP, f"{REGION}0/0"]
    assert found.index("dynamo") < found.index(f"{REGION}0/0")


def test_a_region_ends_where_the_graph_raises() -> None:
    compiled = magneto.compile(lambda x, i: x[i], backend="eager")
    x, good, bad = torch.ones(3), torch.tensor([0]), torch.tensor([9])
    compiled(x, good)

    def call() -> None:
        with pytest.raises(IndexError):
            compiled(x, bad)
        x.neg()

    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        call()
    (neg,) = (event for event in profile.events() if event.name == "aten::neg")
    assert f"{REGION}0/0" in [event.name for event in profile.events()]
    assert neg.cpu_parent is None


def test_a_thread_that_is_not_profiled_has_no_region() -> None:
    compiled = magneto.compile(lambda x: x.sin(), backend="eager")
    x = torch.ones(3)
    compiled(x)

    def call() -> None:
        thread = threading.Thread(target=compiled, args=(x,))
        thread.start()
        thread.join()

    assert regions(by_autograd_profiler(call)) == []


def test_the_second_profiler_sees_regions_too() -> None:
    compiled = magneto.compile(lambda x: x.sin(), backend="eager")
    x = torch.ones(3)
    for _ in range(3):
        compiled(x)
        assert regions(by_torch_profiler(lambda: compiled(x)))[-1:] == [f"{REGION}0/0"]
