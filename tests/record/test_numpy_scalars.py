"""Numpy's scalars and arrays of no dimensions, in captured code as in eager: dtypes, promotion, values, errors."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import magneto

SCALARS: list[Any] = [
    np.bool_(True), np.int8(3), np.uint8(3), np.int16(3), np.uint16(3), np.int32(3), np.uint32(3), np.int64(3),
    np.uint64(3), np.longlong(3), np.float16(1.5), np.float32(1.5), np.float64(1.5), np.longdouble(1.5),
    np.complex64(1 + 2j), np.complex128(1 + 2j),
]  # fmt: skip

TENSORS = {
    "int32": torch.tensor([1, 2], dtype=torch.int32),
    "float32": torch.tensor([1.5, 2.5]),
    "bool": torch.tensor([True, False]),
}

MAKE: dict[str, Callable[[Any], Any]] = {
    "tensor": lambda s: torch.tensor(s),
    "tensor of a list": lambda s: torch.tensor([s, s]),
    "tensor of a list with a number": lambda s: torch.tensor([s, 1]),
    "tensor of a number and this": lambda s: torch.tensor([1, s]),
    "tensor of lists": lambda s: torch.tensor([[s], [s]]),
    "tensor with a dtype": lambda s: torch.tensor(s, dtype=torch.complex64),
    "asarray": lambda s: torch.asarray(s),
    "as_tensor": lambda s: torch.as_tensor(s),
    "as_tensor of a list": lambda s: torch.as_tensor([s]),
    "scalar_tensor": lambda s: torch.scalar_tensor(s),
    "full": lambda s: torch.full((2,), s),
    "full with a dtype": lambda s: torch.full((2,), s, dtype=torch.complex64),
    "Tensor": lambda s: torch.Tensor([s]),
    "item": lambda s: (type(s.item()), s.item()),
    "type": lambda s: (type(s), type(s + s), type(s * 2), type(2 * s), type(float(s.real)), str(s), repr(s)),
    "int": lambda s: (int(s), type(int(s))),
    "dtype": lambda s: (s.dtype, s.shape, s.ndim),
    "arange": lambda s: torch.arange(s),
    "linspace": lambda s: torch.linspace(s, s + s, 3),
}

APPLY: dict[str, Callable[[torch.Tensor, Any], Any]] = {
    "x + s": operator.add,
    "s + x": lambda x, s: s + x,
    "x - s": operator.sub,
    "s - x": lambda x, s: s - x,
    "x * s": operator.mul,
    "s * x": lambda x, s: s * x,
    "x / s": operator.truediv,
    "s / x": lambda x, s: s / x,
    "x // s": operator.floordiv,
    "x ** s": operator.pow,
    "s ** x": lambda x, s: s**x,
    "x % s": operator.mod,
    "x == s": operator.eq,
    "s == x": lambda x, s: s == x,
    "x < s": operator.lt,
    "s < x": lambda x, s: s < x,
    "x & s": operator.and_,
    "s | x": lambda x, s: s | x,
    "x << s": operator.lshift,
    "add": lambda x, s: torch.add(x, s),
    "add alpha": lambda x, s: torch.add(x, x, alpha=s),
    "mul": lambda x, s: x.mul(s),
    "in place": lambda x, s: x.clone().add_(s),
    "fill_": lambda x, s: x.clone().fill_(s),
    "where": lambda x, s: torch.where(x > 1, x, s),
    "clamp": lambda x, s: x.clamp(max=s),
    "maximum": lambda x, s: torch.maximum(x, torch.tensor(s)),
    "new_tensor": lambda x, s: x.new_tensor(s),
    "new_full": lambda x, s: x.new_full((2,), s),
    "full_like": lambda x, s: torch.full_like(x, s),
    "masked_fill": lambda x, s: x.masked_fill(x > 1, s),
    "setitem": lambda x, s: set_first(x.clone(), s),
    "index": lambda x, s: x.repeat(4)[s],
    "slice": lambda x, s: x.repeat(4)[:s],
    "size": lambda x, s: torch.zeros(s),
    "reshape": lambda x, s: x.repeat(3).reshape(s, 2),
    "sum": lambda x, s: sum([s, x]),
    "pow": lambda x, s: torch.pow(s, x),
    "result_type": lambda x, s: torch.result_type(x, s),
    "lerp": lambda x, s: torch.lerp(x, x, s),
    "math": lambda x, s: x * math.sqrt(s),
    "isin": lambda x, s: torch.isin(x, s),
    "to a tensor first": lambda x, s: x * torch.tensor(s),
    "stack": lambda x, s: torch.stack([torch.tensor(s), torch.tensor(s)]),
    "numpy's sqrt": lambda x, s: x + np.sqrt(s),
    "sum of scalars": lambda x, s: x + (s + s),
    "condition": lambda x, s: x + 1 if s else x,
}


def set_first(x: torch.Tensor, value: Any) -> torch.Tensor:
    x[0] = value
    return x


def outcome(function: Callable[..., Any], *args: Any) -> Any:
    """What can be seen of a result, or the type of what it raises."""
    try:
        result = function(*args)
    except Exception as error:
        return type(error)
    if isinstance(result, torch.Tensor):
        return (result.dtype, tuple(result.shape), result.stride(), str(result.tolist()))
    if isinstance(result, np.ndarray):
        return (np.ndarray, result.dtype, result.shape, str(result.tolist()))
    return (type(result), str(result))


def text_of(scalar: Any) -> str:
    return f"{type(scalar).__name__}"


SHAPES: dict[str, Callable[[Any], Any]] = {"scalar": lambda s: s, "array": lambda s: np.asarray(s)}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("scalar", SCALARS, ids=text_of)
@pytest.mark.filterwarnings("ignore")
def test_tensors_made_of_it(scalar: Any, shape: str) -> None:
    wrong = []
    value = SHAPES[shape](scalar)
    for name, make in MAKE.items():
        wanted = outcome(make, value)
        compiled = magneto.compile(lambda s, make=make: make(s), backend="eager")
        inside = magneto.compile(lambda make=make: make(SHAPES[shape](scalar)), backend="eager")
        for found in (outcome(compiled, value), outcome(compiled, value), outcome(inside), outcome(inside)):
            if found != wanted:
                wrong.append((name, found, wanted))
    assert wrong == []


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", TENSORS)
@pytest.mark.parametrize("scalar", SCALARS, ids=text_of)
@pytest.mark.filterwarnings("ignore")
def test_operations_with_it(scalar: Any, dtype: str, shape: str) -> None:
    wrong = []
    value = SHAPES[shape](scalar)
    for name, apply in APPLY.items():
        x = TENSORS[dtype]
        wanted = outcome(apply, x, value)
        compiled = magneto.compile(lambda x, s, apply=apply: apply(x, s), backend="eager")
        for found in (outcome(compiled, x, value), outcome(compiled, x, value)):
            if found != wanted:
                wrong.append((name, found, wanted))
    assert wrong == []


def test_which_object_a_result_is() -> None:
    given = np.float64(1.5)

    def f(n: Any) -> Any:
        m = n + 1
        return m, n, [m, m], np.int64(3) + 2, np.longdouble(1) / 3, max(n, m), np.bool_(True) & np.bool_(True)

    def results(function: Callable[[Any], Any]) -> Any:
        a, b = function(given), function(given)
        same = [left is right for left, right in zip(a, b, strict=True)]
        return repr((a, b)), same, a[1] is given, a[2][0] is a[2][1] is a[0] is a[5]

    compiled = magneto.compile(f, backend="eager")
    assert results(compiled) == results(f)
    another = np.float64(1.5)
    assert compiled(another)[1] is another


def test_dtypes_and_limits_of_integers() -> None:
    def f(x: torch.Tensor) -> Any:
        dtype, limits = np.dtype("float32"), np.iinfo(np.int16)
        kept = dtype is np.dtype(np.float32), dtype == np.float32, dtype.kind, dtype.itemsize
        return x * dtype.itemsize + limits.max + np.iinfo("uint8").min, dtype, kept, limits.bits

    wanted = f(torch.ones(2))
    compiled = magneto.compile(f, backend="eager", fullgraph=True)
    for _ in range(2):
        found = compiled(torch.ones(2))
        assert torch.equal(found[0], wanted[0])
        assert found[1] is wanted[1]
        assert found[2:] == wanted[2:]


def test_a_dtype_that_a_class_tells_is_not_kept() -> None:
    class Told:
        dtype = np.dtype("int8")

    def f(x: torch.Tensor) -> torch.Tensor:
        return x * np.dtype(Told).itemsize

    compiled = magneto.compile(f, backend="eager")
    assert compiled(torch.ones(1)).tolist() == [1]
    Told.dtype = np.dtype("int64")
    assert compiled(torch.ones(1)).tolist() == [8]
