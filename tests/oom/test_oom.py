"""Memory that runs out: a sample of what `make oom` does, and what has gone wrong before."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch.library import custom_op

import magneto
from magneto import _core

from . import trial

pytestmark = [
    pytest.mark.skipif(not _core.checks, reason="only builds with checks can refuse memory"),
    pytest.mark.no_leak_hunt("refuses memory at another place each time"),
    pytest.mark.filterwarnings("ignore"),
]

# Some programs of every kind, and for each of them so many allocations, evenly spread. Symbols are slow.
SAMPLE = [name for name in trial.PROGRAMS if not name.startswith("symbols")][::23]
RUNS = 8


@pytest.fixture(autouse=True)
def enough_afterwards() -> Iterator[None]:
    yield
    _core.starve()


@pytest.mark.parametrize("name", SAMPLE)
def test_sample(name: str) -> None:
    program = trial.Trial(name)
    made = program.run(trial.NEVER).made
    for number in range(RUNS):
        program.run(1 + made * number // RUNS)


@pytest.mark.parametrize("name", SAMPLE[::4])
def test_sample_with_no_memory_from_there_on(name: str) -> None:
    program = trial.Trial(name)
    made = program.run(trial.NEVER).made
    for number in range(RUNS):
        program.run(1 + made * number // RUNS, trial.NEVER)


def test_what_the_core_asks_for_is_counted() -> None:
    compiled = magneto.compile(lambda x: [x + 1], backend="eager")
    _core.starve(trial.NEVER)
    compiled(torch.ones(2))
    made, failed, place, leaks = _core.starve()
    assert made > 50
    assert (failed, place, leaks) == (0, (), False)


def test_what_others_ask_for_is_not() -> None:
    _core.starve(1, trial.NEVER)
    made = [str(number) * 100 for number in range(1000)]
    assert torch.ones(3).tolist() == [1, 1, 1]
    assert _core.starve()[:2] == (0, 0)
    assert len(made) == 1000


@pytest.mark.parametrize(
    "function", [lambda items: sorted(items), lambda items: tuple(item for item in items)]
)
def test_what_cpython_leaks_is_told_apart(function: Callable[[Any], Any]) -> None:
    """Without memory for a list's first items CPython keeps what they come from; if it can't cut a tuple, the items."""
    testcapi = pytest.importorskip("_testcapi")
    items = [torch.tensor(1)]

    def references() -> int:
        return sys.getrefcount(items) + sys.getrefcount(items[0])

    before = references()
    for start in range(6):
        try:
            testcapi.set_nomemory(start, start + 1)
            function(items)
        except MemoryError:
            pass
        finally:
            testcapi.remove_mem_hooks()
    assert references() > before

    def f(x: Any) -> Any:
        print(end="")
        return function(items)

    told = []
    for number in range(1, 1000):
        compiled = magneto.compile(f, backend="eager")
        _core.starve(number)
        with contextlib.suppress(MemoryError):
            compiled(torch.ones(2))
        failed, leaks = _core.starve()[1::2]
        told.append(leaks)
        if not failed:
            break
    assert 0 < sum(told) < len(told) / 10


def test_one_allocation_fails_at_each_place() -> None:
    def count() -> int:
        for runs in range(1000):
            compiled = magneto.compile(lambda x: {"a": x + 1}, backend="eager")
            _core.starve(-1)
            try:
                compiled(torch.ones(2))
            except MemoryError:
                pass
            if _core.starve()[1] == 0:
                return runs
        raise AssertionError("always another place")

    assert count() > count() == 0


def test_a_handler_in_captured_code_does_not_take_it_for_an_error_of_the_program() -> None:
    def f(x: Any) -> Any:
        try:
            return x + len({"a": [1, 2]})
        except Exception:
            return None

    compiled = magneto.compile(f, backend="eager")
    for number in range(1, 200):
        magneto.reset()
        _core.starve(number)
        try:
            found = compiled(torch.ones(2))
        except MemoryError:
            found = torch.ones(2) + 1
        _core.starve()
        assert found.tolist() == [2, 2]
        assert compiled(torch.ones(2)).tolist() == [2, 2]


def test_what_a_graph_wrote_is_followed_by_all_effects() -> None:
    kept: list[Any] = []

    def f(x: Any) -> Any:
        x.add_(1)
        kept.append({"a": [x * 2]})
        return [x, (x, {"b": x})]

    compiled = magneto.compile(f, backend="eager")
    x = torch.zeros(2)
    compiled(x)
    for number in range(1, 200):
        kept.clear()
        x = torch.zeros(2)
        _core.starve(number, trial.NEVER)
        try:
            compiled(x)
        except MemoryError:
            pass
        failed = _core.starve()[1]
        assert len(kept) == x[0].item()
        if not failed:
            break


def test_locals_survive_a_break_without_memory() -> None:
    def f(x: Any, flag: Any) -> Any:
        a, b = [x + 1], {"k": x}
        print(end="")
        return a[0] + b["k"] if flag else None

    compiled = magneto.compile(f, backend="eager")
    compiled(torch.ones(2), True)
    for number in range(1, 400):
        _core.starve(number)
        try:
            found = compiled(torch.ones(2), True)
        except MemoryError:
            found = None
        failed = _core.starve()[1]
        assert found is None or found.tolist() == [3, 3]
        assert compiled(torch.ones(2), True).tolist() == [3, 3]
        if not failed:
            break


def test_what_a_break_leaves_on_the_stack_goes_without_memory() -> None:
    log: list[int] = []

    class Loud:
        def __del__(self) -> None:
            log.append(1)

    def f(x: Any, items: Any) -> Any:
        items.pop()
        return x + len(log)

    for number in range(1, 2000):
        compiled = magneto.compile(f, backend="eager")
        items = [Loud()]
        log.clear()
        found = None
        _core.starve(number)
        with contextlib.suppress(MemoryError):
            found = compiled(torch.zeros(2), items)
        failed = _core.starve()[1]
        assert len(items) + len(log) == 1
        assert found is None or found.tolist() == [1, 1]
        if not failed:
            break


class Alarm(BaseException):
    pass


@custom_op("magneto_oom::interrupted", mutates_args=())
def interrupted(x: torch.Tensor) -> torch.Tensor:
    return x + 1


ARMED = False


@interrupted.register_fake
def _(x):
    if ARMED:
        raise Alarm
    return torch.empty_like(x)


def test_an_interrupted_capture_leaves_nothing_behind_without_memory() -> None:
    """What is raised in Python code that a capture calls for its own ends goes to the caller."""
    global ARMED

    def f(x: Any) -> Any:
        with torch.no_grad():
            y = interrupted(x * 2)
        return y + 1

    seen = set()
    for number in range(1, 1000, 3):
        compiled = magneto.compile(f, backend="eager")
        ARMED = True
        _core.starve(number)
        try:
            compiled(torch.ones(2))
        except (Alarm, MemoryError) as error:
            seen.add(type(error))
        failed = _core.starve()[1]
        ARMED = False
        assert torch.is_grad_enabled()
        assert torch._C._len_torch_function_stack() + torch._C._len_torch_dispatch_stack() == 0
        assert not _core.capturing()
        assert not _core.hook_state()["users"]
        assert compiled(torch.ones(2)).tolist() == [4, 4]
        if not failed:
            break
    assert Alarm in seen


def test_a_block_around_a_break_is_left_without_memory() -> None:
    def f(x: Any) -> Any:
        with torch.device("cpu"):
            y = torch.ones(2)
            print(end="")
            z = torch.zeros(2)
        return x + y + z

    compiled = magneto.compile(f, backend="eager")
    for rest in (0, trial.NEVER):
        for number in range(1, 2000, 7):
            magneto.reset()
            _core.starve(number, rest)
            try:
                found = compiled(torch.ones(2))
            except MemoryError:
                found = None
            failed = _core.starve()[1]
            assert torch._C._len_torch_function_stack() == 0
            assert found is None or found.tolist() == [2, 2]
            if not failed:
                break


def test_a_capture_is_given_up_wherever_memory_ran_out() -> None:
    compiled = magneto.compile(lambda x: (x * 3 - 1)[0], backend="eager")
    for number in range(1, 1000):
        magneto.reset()
        _core.starve(number)
        try:
            found = compiled(torch.ones(2))
        except MemoryError:
            found = torch.tensor(2)
        assert found.item() == 2
        if _core.starve()[1] == 0:
            break
