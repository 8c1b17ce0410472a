"""Graphs that look alike: what was compiled for one is not used for another that a backend can tell from it.

Each group has functions that differ in one thing. All of them are compiled for all inputs, one after the other and in
the reverse order, without a reset: whoever is given what was made for another gives another result than eager.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import pytest
import torch
from torch import nn

import magneto

Function = Callable[..., Any]

GROUPS: dict[str, list[Function]] = {
    "zeros": [lambda x: x * 0.0, lambda x: x * -0.0, lambda x: x * 0, lambda x: x * False],
    "ones": [
        lambda x: x.real.long() + True,
        lambda x: x.real.long() + 1,
        lambda x: x.real.long() + 1.0,
        lambda x: x.real.long() + (1 + 0j),
    ],
    "values": [
        lambda x: torch.full((2,), True),
        lambda x: torch.full((2,), 1),
        lambda x: torch.full((2,), 1.0),
        lambda x: torch.full((2,), 0.0),
        lambda x: torch.full((2,), -0.0),
        lambda x: torch.full((2,), 2**40),
        lambda x: torch.full((2,), 2**40 + 1),
    ],
    "powers": [lambda x: x**2, lambda x: x**2.0, lambda x: 2**x],
    "dtypes": [
        lambda x: x.real.to(torch.float64),
        lambda x: x.real.to(torch.int64),
        lambda x: x.real.sum(dtype=torch.float64),
        lambda x: x.real.sum(dtype=torch.int32),
    ],
    "formats": [
        lambda x: x.reshape(1, 3, 2, 2).contiguous(memory_format=torch.channels_last),
        lambda x: x.reshape(1, 3, 2, 2).contiguous(memory_format=torch.contiguous_format),
        lambda x: x.reshape(1, 3, 2, 2).clone(memory_format=torch.channels_last),
        lambda x: x.reshape(1, 3, 2, 2).clone(),
    ],
    "dimensions": [
        lambda x: x.sum(0),
        lambda x: x.sum(1),
        lambda x: x.sum((0, 1)),
        lambda x: x.sum(0, keepdim=True),
        lambda x: x.sum(0, False),
    ],
    "keywords": [
        lambda x: torch.clamp(x.real, min=1, max=5),
        lambda x: torch.clamp(x.real, max=1, min=5),
        lambda x: torch.clamp(x.real, min=5),
        lambda x: torch.clamp(x.real, max=5),
    ],
    "outputs": [lambda x: (x + 1, x + 2), lambda x: (x + 2, x + 1), lambda x: [x + 1, x + 2]],
    "indexes": [
        lambda x: x[0],
        lambda x: x[[0]],
        lambda x: x[0:1],
        lambda x: x[(0,)],
        lambda x: x[..., 0],
        lambda x: x[None, 0],
        lambda x: x[True],
    ],
    "differences": [
        lambda x: x - 1,
        lambda x: 1 - x,
        lambda x: torch.sub(x, 1, alpha=2),
        lambda x: torch.rsub(x, 1),
    ],
    "branches": [
        lambda x: torch.cond(x.real.sum() > 0, lambda a: (a + 1,), lambda a: (a - 1,), (x,)),
        lambda x: torch.cond(x.real.sum() > 0, lambda a: (a + 2,), lambda a: (a - 1,), (x,)),
        lambda x: torch.cond(x.real.sum() > 0, lambda a: (a - 1,), lambda a: (a + 1,), (x,)),
    ],
    "infinities": [
        lambda x: torch.where(x.real > 2, x.real, math.nan),
        lambda x: torch.where(x.real > 2, x.real, math.inf),
        lambda x: torch.where(x.real > 2, x.real, -math.inf),
    ],
    "texts": [
        lambda x: nn.functional.gelu(x),
        lambda x: nn.functional.gelu(x, approximate="tanh"),
        lambda x: nn.functional.gelu(x, approximate="none"),
    ],
}


def _table() -> torch.Tensor:
    return torch.arange(12.0).reshape(3, 4)


INPUTS: list[Callable[[], torch.Tensor]] = [
    _table,
    lambda: torch.arange(12.0).reshape(4, 3).t(),
    lambda: _table().requires_grad_(),
    lambda: _table().requires_grad_() * 1,
    lambda: nn.Parameter(_table()),
    lambda: _table().double(),
    lambda: _table().long(),
    lambda: torch.arange(40.0)[2:14].reshape(3, 4),
    lambda: torch.ones(1, 4).expand(3, 4),
    lambda: torch.complex(_table(), _table()),
    lambda: torch.complex(_table(), _table()).conj(),
]


def same(one: Any, other: Any) -> bool:
    """Whether results are the same, bit by bit but for the kind of nan, with all that is known of tensors."""
    if isinstance(one, (tuple, list)):
        return type(one) is type(other) and len(one) == len(other) and all(map(same, one, other))
    if not isinstance(one, torch.Tensor):
        return type(one) is type(other) and one == other
    if (one.dtype, one.shape, one.stride(), one.device, one.requires_grad) != (
        other.dtype, other.shape, other.stride(), other.device, other.requires_grad,
    ):  # fmt: skip
        return False
    if one.is_meta:
        return True
    one, other = one.detach().resolve_conj(), other.detach().resolve_conj()
    if one.is_complex():
        one, other = torch.view_as_real(one), torch.view_as_real(other)
    nan = one.isnan() & other.isnan()
    return bool(((one == other) & (one.signbit() == other.signbit()) | nan).all())


def check(function: Function, make: Callable[[], tuple[Any, ...]]) -> None:
    """Compare a function with itself, compiled: results, what is written to the arguments, whether it raises."""
    plain, given = make(), make()
    expected, found, errors = None, None, []
    try:
        expected = function(*plain)
    except Exception as error:
        errors.append(error)
    try:
        found = magneto.compile(function, backend="aot_eager")(*given)
    except Exception as error:
        errors.append(error)
    assert len(errors) in (0, 2), errors
    assert same(expected, found), (expected, found)
    assert same(list(plain), list(given))


def both_ways(items: list[Any]) -> list[Any]:
    return [*items, *reversed(items)]


@pytest.fixture(autouse=True)
def _fresh() -> Any:
    magneto.reset()
    yield
    magneto.reset()


@pytest.mark.parametrize("name", GROUPS)
def test_what_looks_alike_is_told_apart(name: str) -> None:
    for order in (1, -1):
        magneto.reset()
        for make in INPUTS[::order]:
            for function in GROUPS[name][::order]:
                check(function, lambda make=make: (make(),))


def _add(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return x + y


def _scale(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    y.mul_(2)
    return x + y


def _view(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return x.reshape(-1)[:2], y.t()


def _parts(first: slice, second: slice) -> Callable[[], tuple[torch.Tensor, torch.Tensor]]:
    def make() -> tuple[torch.Tensor, torch.Tensor]:
        base = torch.arange(30.0)
        return base[first].view(3, 4), base[second].view(3, 4)

    return make


def test_inputs_that_share_memory_are_told_apart() -> None:
    def twice() -> tuple[torch.Tensor, torch.Tensor]:
        x = _table()
        return x, x

    pairs = [
        twice,
        lambda: (_table(), _table()),
        _parts(slice(0, 12), slice(12, 24)),
        _parts(slice(0, 12), slice(4, 16)),
        _parts(slice(0, 12), slice(8, 20)),
        _parts(slice(4, 16), slice(0, 12)),
    ]
    for make in both_ways(pairs):
        for function in (_add, _scale, _view):
            check(function, make)


def test_places_in_a_storage_are_told_apart() -> None:
    def relative(x: torch.Tensor) -> torch.Tensor:
        return x.as_strided((2,), (1,)) + 0

    def absolute(x: torch.Tensor) -> torch.Tensor:
        return x.as_strided((2, 2), (1, 1), 3) * 2

    def offset(x: torch.Tensor) -> torch.Tensor:
        return x + x.storage_offset()

    def writes(x: torch.Tensor) -> torch.Tensor:
        x.as_strided((2,), (1,), 6).mul_(10)
        return x + 1

    for start in both_ways([0, 2, 5]):
        for function in (relative, absolute, offset, writes):
            check(function, lambda start=start: (torch.arange(40.0)[start : start + 12],))


@contextmanager
def _default(dtype: torch.dtype) -> Any:
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


@contextmanager
def _deterministic() -> Any:
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(False)


STATES: list[Callable[[], AbstractContextManager[Any]]] = [
    nullcontext,
    lambda: _default(torch.float64),
    lambda: _default(torch.float16),
    torch.no_grad,
    torch.inference_mode,
    lambda: torch.autocast("cpu"),
    lambda: torch.autocast("cpu", dtype=torch.float16),
    lambda: torch.device("meta"),
    lambda: torch.device("cpu"),
    _deterministic,
]


def test_states_of_torch_are_told_apart() -> None:
    def function(x: torch.Tensor) -> Any:
        return torch.zeros(2), torch.ones(3) * 1.5, x.sum(), x @ x.t()

    for state in both_ways(STATES):
        for make in INPUTS[:5]:
            plain, given = make(), make()
            with state():
                expected = function(plain)
                found = magneto.compile(function, backend="aot_eager")(given)
            assert same(expected, found), (expected, found)


def test_tensors_of_inference_mode_are_told_apart() -> None:
    def writes(x: torch.Tensor) -> torch.Tensor:
        x.add_(1)
        return x * 2

    def inference() -> tuple[torch.Tensor]:
        with torch.inference_mode():
            return (torch.ones(3),)

    for make in both_ways([lambda: (torch.ones(3),), inference]):
        check(writes, make)  # eager raises for one of them
