"""Asks the shape functions in C, and compares their answers with FakeTensorMode's."""

from __future__ import annotations

import contextlib
import operator
import random
from collections import Counter
from collections.abc import Iterator
from typing import Any

import torch
from torch.nn import functional as F

import magneto._runtime  # noqa: F401  sets the core up
from magneto import _core, _propagate

FUNCTION, METHOD = 1, 2
Target = tuple[int, Any]


def _eager(kind: int, target: Any, args: Any, kwargs: Any, inputs: list[Any]) -> Any:
    """What an operation gives, or raises, for tensors of zeros with the metadata of the inputs."""
    values = {
        number: torch.empty_strided(meta.sizes, meta.strides, dtype=meta.dtype).zero_()
        for number, meta in inputs
    }
    try:
        return _propagate.call(kind, target, args, kwargs, values, contextlib.nullcontext())  # type: ignore[arg-type]
    except Exception as error:
        return error


class Report:
    """What was asked, what was answered, and what was wrong."""

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()
        self.answered: Counter[str] = Counter()
        self.wrong: list[str] = []

    def ask(
        self, name: str, target: Target, args: Any, kwargs: Any, inputs: list[Any], grad: bool = True
    ) -> None:
        """Ask for one call; where the shape function answers, FakeTensorMode must say the same."""
        state = (grad, False, torch.get_default_dtype(), None, False, (), 0)
        mine = _core.shape_outcome(*target, args, kwargs, inputs, state)
        self.asked[name] += 1
        if mine is None:
            return
        self.answered[name] += 1
        with torch.set_grad_enabled(grad):
            theirs = _propagate._propagate(*target, args, kwargs, inputs)
        if isinstance(mine, str):  # eager raises, though FakeTensorMode may not
            with torch.set_grad_enabled(grad):
                theirs = _eager(*target, args, kwargs, inputs)
            mine = theirs if isinstance(theirs, Exception) else mine
        if not _propagate._same(mine, theirs):
            label = getattr(target[1], "__name__", target[1])
            self.wrong.append(f"{label} {args} {kwargs} with {inputs}, grad {grad}: {mine} is {theirs}")


def dense_strides(sizes: tuple[int, ...], order: list[int]) -> tuple[int, ...]:
    """Strides without gaps, the dimensions laid out in an order, the slowest first."""
    strides = [0] * len(sizes)
    step = 1
    for dim in reversed(order):
        strides[dim] = step
        step *= max(sizes[dim], 1)
    return tuple(strides)


def other_strides(sizes: tuple[int, ...], rng: random.Random) -> tuple[int, ...]:
    """Some strides for the sizes: permuted, with gaps, expanded, channels last, or odd where it has no meaning."""
    dims = list(range(len(sizes)))
    order = rng.sample(dims, len(dims))
    kind = rng.choice(["permuted", "gaps", "permuted gaps", "expanded", "channels last", "odd", "leading"])
    strides = list(dense_strides(sizes, order if "permuted" in kind else dims))
    if "gaps" in kind:
        strides = [stride * 2 for stride in strides]
    elif kind == "leading" and dims:  # a slice of something bigger
        strides[0] *= 3
    elif kind == "expanded" and dims:
        strides[rng.choice(dims)] = 0
    elif kind == "channels last" and len(dims) in (4, 5):
        strides = list(dense_strides(sizes, [0, *dims[2:], 1]))
    elif kind == "odd":
        strides = [
            rng.randrange(9) if size == 1 else stride for size, stride in zip(sizes, strides, strict=True)
        ]
    return tuple(strides)


def with_refs(value: Any, inputs: list[Any], known: dict[int, int]) -> Any:
    """The arguments as a recording holds them: references for tensors, whose metadata is added to the inputs."""
    if isinstance(value, torch.Tensor):
        if id(value) not in known:
            known[id(value)] = len(inputs)
            inputs.append((len(inputs), _propagate.meta_of(value)))
        return _core.ref(known[id(value)])
    if type(value) in (tuple, torch.Size):
        return tuple(with_refs(item, inputs, known) for item in value)
    if type(value) is list:
        return [with_refs(item, inputs, known) for item in value]
    if type(value) is slice:
        return slice(*(with_refs(item, inputs, known) for item in (value.start, value.stop, value.step)))
    return value


def vary(
    report: Report,
    name: str,
    targets: list[Target],
    args: Any,
    kwargs: Any,
    rng: random.Random,
    variants: int,
) -> None:
    """Ask for a call of each target with its own metadata, then with other layouts and flags."""
    inputs: list[Any] = []
    known: dict[int, int] = {}
    try:
        args = with_refs(args, inputs, known)
        kwargs = {key: with_refs(value, inputs, known) for key, value in kwargs.items()}
    except (_propagate.Unsupported, NotImplementedError, RuntimeError):  # not a plain tensor
        return
    for target in targets:
        report.ask(name, target, args, kwargs, inputs)
        for _ in range(variants):
            changed = []
            for number, meta in inputs:
                strides = other_strides(tuple(meta.sizes), rng) if rng.randrange(3) else meta.strides
                flags = rng.choice([0, 1, 3, 35, 99]) if meta.dtype.is_floating_point else 0
                changed.append(
                    (number, _core.meta(meta.dtype, meta.device, tuple(meta.sizes), strides, flags))
                )
            report.ask(name, target, args, kwargs, changed, rng.random() < 0.7)


_OPERATORS = {
    "__radd__": operator.add, "__rsub__": operator.sub, "__rmul__": operator.mul, "__rdiv__": operator.truediv,
    "__rpow__": operator.pow, "__rmod__": operator.mod, "__rmatmul__": operator.matmul, "__rand__": operator.and_,
    "__ror__": operator.or_, "__rxor__": operator.xor, "__getitem__": operator.getitem,
}  # fmt: skip


def targets_of(op: Any) -> list[Target]:
    """What a graph could hold for an operation of torch's test database."""
    name = op.name.rpartition(".")[2]
    found: list[Target] = []
    for owner in (torch, F, torch._C._nn, torch.special):
        value = getattr(owner, name, None)
        if callable(value) and (FUNCTION, value) not in found:
            found.append((FUNCTION, value))
    if op.name.count(".") == 0 and hasattr(torch.Tensor, name):
        found.append((METHOD, name))
        if hasattr(torch.Tensor, name + "_"):
            found.append((METHOD, name + "_"))
    for form in (op.operator_variant, op.inplace_operator_variant, _OPERATORS.get(name)):
        if callable(form):
            found.append((FUNCTION, form))
    return found


def samples_of(op: Any, dtype: torch.dtype, count: int) -> Iterator[tuple[Any, Any]]:
    """Arguments of an operation, from torch's test database."""
    requires_grad = dtype.is_floating_point and op.supports_autograd
    for number, sample in enumerate(op.sample_inputs("cpu", dtype, requires_grad=requires_grad)):
        if number >= count:
            return
        yield (sample.input, *sample.args), dict(sample.kwargs)
