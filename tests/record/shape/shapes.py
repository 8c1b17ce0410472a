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

FUNCTION, METHOD = _core.NODE_FUNCTION, _core.NODE_METHOD
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
        if mine.kind != _core.OUTCOME_KNOWN:  # eager raises, though FakeTensorMode may not
            with torch.set_grad_enabled(grad):
                theirs = _eager(*target, args, kwargs, inputs)
            mine = theirs if isinstance(theirs, Exception) else mine
        if not _propagate._same(mine, theirs):
            label = f".{target[1]}" if target[0] == METHOD else target[1].__name__
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


def any_strides(sizes: tuple[int, ...], rng: random.Random) -> tuple[int, ...]:
    """Strides that few programs make: those above, expanded and stepped and overlapping in several dimensions, odd ones
    where a size is one, and channels last."""
    dims = list(range(len(sizes)))
    strides = list(other_strides(sizes, rng))
    if len(dims) in (4, 5) and rng.random() < 0.3:
        strides = list(dense_strides(sizes, [0, *dims[2:], 1]))
    for dim in dims:
        chance = rng.random()
        if chance < 0.1:
            strides[dim] = 0
        elif chance < 0.2:
            strides[dim] *= rng.choice([2, 3])
        elif chance < 0.25:
            strides[dim] = rng.randrange(1, 8)
        elif chance < 0.6 and sizes[dim] == 1:
            strides[dim] = rng.choice([0, 1, 2, 5, 100])
    return tuple(strides)


_DTYPES = [
    torch.bool, torch.uint8, torch.int32, torch.int64, torch.float16, torch.bfloat16, torch.float32, torch.float64,
    torch.complex64,
]  # fmt: skip


def _referred(value: Any) -> set[int]:
    """The numbers of the inputs that some arguments refer to."""
    if type(value) is _core.Ref:
        return {value.index}
    if isinstance(value, slice):
        return _referred((value.start, value.stop, value.step))
    if isinstance(value, dict):
        return _referred(tuple(value.values()))
    return set().union(*map(_referred, value)) if isinstance(value, (tuple, list)) else set()


def mutate(kind: int, args: Any, kwargs: Any, inputs: list[Any], rng: random.Random) -> tuple[Any, list[Any]]:
    """A call like another one: with other sizes (the same wherever they were the same, or of one tensor alone), other
    dtypes, layouts and flags, and perhaps a number in place of a tensor. Most of them are still good calls."""
    shapes = {number: list(meta.sizes) for number, meta in inputs}
    dtypes = {number: meta.dtype for number, meta in inputs}
    known = sorted({size for sizes in shapes.values() for size in sizes})
    if known and rng.random() < 0.5:
        old, new = rng.choice(known), rng.choice([0, 1, 1, 2, 4])
        shapes = {
            number: [new if size == old else size for size in sizes] for number, sizes in shapes.items()
        }
    if shapes and rng.random() < 0.3:
        sizes = rng.choice(list(shapes.values()))
        change = rng.choice(["one", "shorter", "longer", "scalar"])
        if change == "one" and sizes:
            sizes[rng.randrange(len(sizes))] = 1
        elif change == "shorter" and sizes:
            del sizes[0]
        elif change == "longer":
            sizes.insert(0, rng.choice([1, 2]))
        elif change == "scalar":
            sizes.clear()
    if dtypes and rng.random() < 0.4:
        chosen = rng.choice(list(dtypes))
        new = rng.choice(_DTYPES)
        dtypes = {
            n: new if n == chosen or (dtype == dtypes[chosen] and len(inputs) % 2) else dtype
            for n, dtype in dtypes.items()
        }
    if len(args) > 1 and rng.random() < 0.2:
        at = rng.randrange(1 if kind == METHOD else 0, len(args))
        if type(args[at]) is _core.Ref:
            args = (*args[:at], rng.choice([0, 1, 2, -1, 0.5, 2.0, True, 1j]), *args[at + 1 :])
    changed = []
    used = _referred((args, kwargs))
    for number, meta in inputs:
        if number not in used:
            continue
        sizes = tuple(shapes[number])
        same = sizes == tuple(meta.sizes) and rng.random() < 0.3
        strides = meta.strides if same else any_strides(sizes, rng)
        if not same and rng.random() < 0.2:
            strides = dense_strides(sizes, list(range(len(sizes))))
        flags = rng.choice([0, 0, 1, 3, 35, 99]) if dtypes[number].is_floating_point else 0
        changed.append((number, _core.meta(dtypes[number], meta.device, sizes, strides, flags)))
    return args, changed


def _other_constant(value: Any, rng: random.Random) -> Any:
    """A constant of the same kind, or of a kind that is taken for it by mistake."""
    if type(value) is bool:
        return rng.choice([not value, not value, 1, None])
    if type(value) is int:
        return rng.choice([value + 1, value - 1, -value, 0, 1, -1, 2, 300, True, 1.0])
    if type(value) is float:
        return rng.choice([0.0, 1.0, 0.5, -0.5, 1e9, 1e39, float("inf"), float("nan"), 1, 0, True, 1j, 0j])
    if isinstance(value, torch.dtype):
        return rng.choice(_DTYPES)
    if type(value) in (tuple, list) and value and not _referred(value):
        items = list(value)
        at = rng.randrange(len(items))
        change = rng.choice(["one", "one", "fewer", "more", "order"])
        if change == "one":
            items[at] = _other_constant(items[at], rng)
        elif change == "fewer":
            del items[at]
        elif change == "more":
            items.insert(at, rng.choice(items))
        else:
            rng.shuffle(items)
        return items if type(value) is list else tuple(items)
    return value


def other_constants(args: Any, kwargs: Any, rng: random.Random) -> tuple[Any, Any]:
    """The arguments with other constants in some places. Many of these calls are errors: they must not be answered."""
    args = tuple(_other_constant(value, rng) if rng.random() < 0.5 else value for value in args)
    return args, {
        key: _other_constant(value, rng) if rng.random() < 0.5 else value for key, value in kwargs.items()
    }


def mutate_often(
    report: Report,
    name: str,
    targets: list[Target],
    args: Any,
    kwargs: Any,
    rng: random.Random,
    count: int,
) -> None:
    """Ask for calls of each target that are like this one."""
    inputs: list[Any] = []
    known: dict[int, int] = {}
    try:
        args = with_refs(args, inputs, known)
        kwargs = {key: with_refs(value, inputs, known) for key, value in kwargs.items()}
    except (_propagate.Unsupported, NotImplementedError, RuntimeError):  # not a plain tensor
        return
    for target in targets:
        for _ in range(count):
            other, changed = mutate(target[0], args, kwargs, inputs, rng)
            named = kwargs
            if rng.random() < 0.3:
                other, named = other_constants(other, kwargs, rng)
            report.ask(name, target, other, named, changed, rng.random() < 0.7)


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
