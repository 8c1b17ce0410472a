"""What recompiles tell: which size it is, what it must be, what it is, and the user's line that asked."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest
import torch

import magneto


def branch(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    n = x.shape[0]
    if n > 5:  # the line that asks
        y = y + 1
    return y


def rest(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    if x.shape[0] % 2 == 0:
        y = y + 1
    return y


def constant(x: torch.Tensor) -> tuple[torch.Tensor, list[int]]:
    y = x * 2
    zeros = [0] * x.shape[0]
    return y, zeros


def meet(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    z = x * 2
    if x.shape[0] < y.shape[0]:
        return z
    return z + 1


def read(x: torch.Tensor) -> torch.Tensor:
    return x * 2


CASES: list[tuple[Callable[..., Any], list[tuple[int, ...]], str, str]] = [
    (branch, [(3,), (4,), (8,)], "L['x'].size()[0] <= 5, but it is 8", "if n > 5:  # the line that asks"),
    (rest, [(3,), (5,), (8,)], "L['x'].size()[0] is 8", "if x.shape[0] % 2 == 0:"),
    (constant, [(3,), (4,), (5,)], "L['x'].size()[0] == 4, but it is 5", "zeros = [0] * x.shape[0]"),
    (meet, [(3, 4), (4, 6), (8, 7)], "L['x'].size()[0] is 8 and L['y'].size()[0] is 7", "if x.shape[0] < y.shape[0]:"),
    (read, [(3,), (4,), (1,)], "2 <= L['x'].size()[0], but it is 1", "return x * 2"),
]  # fmt: skip


@pytest.mark.parametrize(("function", "calls", "text", "line"), CASES)
def test_reason_names_the_size_its_values_and_the_line(
    function: Callable[..., Any], calls: list[tuple[int, ...]], text: str, line: str
) -> None:
    compiled = magneto.compile(function, backend="eager")
    for call in calls[:-1]:
        compiled(*(torch.ones(n, 3) for n in call))
    with (
        magneto.config.patch(error_on_recompile=True),
        pytest.raises(magneto.exc.RecompileError) as caught,
    ):
        compiled(*(torch.ones(n, 3) for n in calls[-1]))
    first = str(caught.value).splitlines()[1]
    assert text in first and line in first


def compared(x: torch.Tensor, rate: float) -> torch.Tensor:
    y = x * 2
    if rate * 2 > 0.5:
        y = y + rate
    return y


@pytest.mark.parametrize(
    ("rates", "text"),
    [
        ((0.5, 0.75, 0.125), "(L['rate'] * 2) > 0.5, but L['rate'] is 0.125"),
        ((0.0625, 0.125, 0.75), "not ((L['rate'] * 2) > 0.5), but L['rate'] is 0.75"),
    ],
)
def test_reason_names_the_float_that_is_compared(rates: tuple[float, ...], text: str) -> None:
    compiled = magneto.compile(compared, backend="eager")
    for rate in rates[:-1]:
        compiled(torch.ones(3), rate)
    with (
        magneto.config.patch(error_on_recompile=True),
        pytest.raises(magneto.exc.RecompileError) as caught,
    ):
        compiled(torch.ones(3), rates[-1])
    first = str(caught.value).splitlines()[1]
    assert text in first and "if rate * 2 > 0.5:" in first


def test_symbols_tell_what_a_formula_computes() -> None:
    compiled = magneto.compile(compared, backend="eager")
    for rate in (0.5, 0.75):
        compiled(torch.ones(3), rate)
    symbols = magneto.cache_entries(compiled)[0].symbols
    assert [symbol.source for symbol in symbols] == ["(L['rate'] * 2) > 0.5"]


def test_counters_have_the_same_reason() -> None:
    magneto.counters.clear()
    compiled = magneto.compile(branch, backend="eager")
    for n in (3, 4, 8):
        compiled(torch.ones(n, 3))
    assert magneto.counters["recompiles"]["L['x'].size()[0] <= 5, but it is 8"] == 1


@pytest.mark.no_leak_hunt("the hunt runs without pytest's capture of logs")
def test_log_of_recompiles_has_the_line(caplog: pytest.LogCaptureFixture) -> None:
    compiled = magneto.compile(branch, backend="eager")
    torch._logging.set_logs(recompiles=True)
    try:
        with caplog.at_level(logging.DEBUG):
            for n in (3, 4, 8):
                compiled(torch.ones(n, 3))
    finally:
        torch._logging.set_logs()
    text = "\n".join(record.getMessage() for record in caplog.records)
    assert "L['x'].size()[0] <= 5, but it is 8" in text
    assert "if n > 5:" in text
