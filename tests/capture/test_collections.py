"""The garbage collector is as the program wants it: what it says of it while a capture is under way is not lost."""

from __future__ import annotations

import gc
import itertools
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

import magneto

_during: list[Callable[[], Any]] = []
_seen: list[Any] = []
_sizes = itertools.count(2)


@torch.library.custom_op("magneto_tests::calls_back", mutates_args=())
def calls_back(x: torch.Tensor) -> torch.Tensor:
    return x + 1


@calls_back.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    # runs in the middle of a capture, as code of other threads does
    for function in _during:
        thread = threading.Thread(target=lambda function=function: _seen.append(function()))
        thread.start()
        thread.join()
    return torch.empty_like(x)


@pytest.fixture(autouse=True)
def _collector() -> Iterator[None]:
    enabled, threshold = gc.isenabled(), gc.get_threshold()
    yield
    (gc.enable if enabled else gc.disable)()
    gc.set_threshold(*threshold)
    _during.clear()
    _seen.clear()


def capture_while(*functions: Callable[[], Any]) -> list[Any]:
    """What each function gave that another thread called in the middle of a capture."""
    _during[:] = functions
    compiled = magneto.compile(lambda x: calls_back(x * 2), backend="eager")
    size = next(_sizes)  # one that no result is known for
    assert compiled(torch.ones(size)).tolist() == [3] * size
    assert len(_seen) >= len(functions)
    return _seen[: len(functions)]


def test_another_thread_disables_collections_during_a_capture() -> None:
    gc.enable()
    assert capture_while(gc.isenabled, gc.disable, gc.isenabled) == [True, None, False]
    assert not gc.isenabled()


def test_another_thread_enables_collections_during_a_capture() -> None:
    gc.disable()
    assert capture_while(gc.isenabled, gc.enable, gc.isenabled) == [False, None, True]
    assert gc.isenabled()


@pytest.mark.parametrize("enabled", [True, False])
def test_a_capture_leaves_collections_as_they_were(enabled: bool) -> None:
    (gc.enable if enabled else gc.disable)()
    assert capture_while(gc.isenabled) == [enabled]
    assert gc.isenabled() == enabled


def test_another_thread_sets_thresholds_during_a_capture() -> None:
    capture_while(lambda: gc.set_threshold(123, 4, 5))
    assert gc.get_threshold() == (123, 4, 5)


def test_another_thread_collects_and_freezes_during_a_capture() -> None:
    cycle: list[Any] = []
    cycle.append(cycle)
    gc.collect()
    before = gc.get_freeze_count()
    try:
        collected, _, frozen = capture_while(gc.collect, gc.freeze, gc.get_freeze_count)
        assert collected >= 0
        assert frozen > before
    finally:
        gc.unfreeze()


@pytest.mark.parametrize("enabled", [True, False])
def test_captured_code_says_whether_there_are_collections(enabled: bool) -> None:
    def f(x: torch.Tensor) -> Any:
        before = gc.isenabled()
        gc.disable()
        y = x + 1
        off = gc.isenabled()
        gc.enable()
        return y * 2, before, off, gc.isenabled()

    (gc.enable if enabled else gc.disable)()
    expected = f(torch.ones(2))
    (gc.enable if enabled else gc.disable)()
    compiled = magneto.compile(f, backend="eager")
    for _ in range(3):
        (gc.enable if enabled else gc.disable)()
        assert compiled(torch.ones(2))[1:] == expected[1:]
        assert gc.isenabled()
