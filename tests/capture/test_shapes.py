"""The shape functions in C against FakeTensorMode, for the operations of torch's own test database.

Each call that a sample makes is asked of the shape function with the metadata of the sample's tensors, and then again with
other layouts of the same sizes (permuted, expanded, with gaps, channels last), other flags, and without grad mode. Where
the shape function answers, FakeTensorMode must give the same outcome: metadata, changes, views. With MAGNETO_SWEEP=1 there
are more samples, dtypes and layouts.
"""

from __future__ import annotations

import itertools
import os
import random
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

from magneto import _core, _propagate

from . import opinfo  # must come before op_db

from torch.testing._internal.common_methods_invocations import op_db  # isort: skip

SWEEP = os.environ.get("MAGNETO_SWEEP") == "1"
SAMPLES = 40 if SWEEP else 8
VARIANTS = 10 if SWEEP else 4
DTYPES = [torch.float32, torch.int64, torch.bool, torch.float16, torch.complex64] if SWEEP else [torch.float32]
SHARDS = 16
FUNCTION, METHOD = 1, 2
STATE = (True, False, torch.float32, None, False, (), 0)


class Calls(TorchFunctionMode):
    """Notes each call of torch's API, and does not look into it."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, tuple[Any, ...], dict[str, Any]]] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if getattr(func, "__name__", "") not in ("__get__", "__set__"):
            self.calls.append((func, args, dict(kwargs or {})))
        return func(*args, **(kwargs or {}))


def _strides(sizes: tuple[int, ...], order: list[int]) -> tuple[int, ...]:
    """Dense strides, with the dimensions laid out in an order, the slowest first."""
    strides = [0] * len(sizes)
    step = 1
    for dim in reversed(order):
        strides[dim] = step
        step *= max(sizes[dim], 1)
    return tuple(strides)


def _layouts(sizes: tuple[int, ...], rng: random.Random) -> Iterator[tuple[int, ...]]:
    """Other strides for the sizes."""
    dims = list(range(len(sizes)))
    while True:
        order = dims[:]
        rng.shuffle(order)
        kind = rng.randrange(7)
        strides = list(_strides(sizes, order if kind in (0, 1, 5) else dims))
        if kind in (1, 2):  # gaps
            strides = [stride * 2 for stride in strides]
        elif kind == 3 and dims:  # expanded
            strides[rng.choice(dims)] = 0
        elif kind == 4 and len(dims) in (4, 5):
            strides = list(_strides(sizes, [0, *dims[2:], 1]))
        elif kind == 6:  # whatever a dimension of one element says
            strides = [rng.randrange(9) if size == 1 else stride for size, stride in zip(sizes, strides, strict=True)]
        yield tuple(strides)


def same_outcome(left: Any, right: Any) -> bool:
    return _propagate._same(left, right)


def check(kind: int, target: Any, args: Any, kwargs: Any, inputs: list[Any], grad: bool) -> str | None:
    """What is wrong with the answer; an empty text if nothing is, None if there is none."""
    state = (grad, *STATE[1:])
    mine = _core.shape_outcome(kind, target, args, kwargs, inputs, state)
    if mine is None:
        return None
    with torch.set_grad_enabled(grad):
        theirs = _propagate._propagate(kind, target, args, kwargs, inputs)
    if same_outcome(mine, theirs):
        return ""
    return f"{getattr(target, '__name__', target)} {args} {kwargs} with {inputs} grad={grad}: {mine} is {theirs}"


def with_refs(value: Any, inputs: list[Any], known: dict[int, int]) -> Any:
    """The arguments with references in place of tensors, whose metadata is added to the inputs."""
    if isinstance(value, torch.Tensor):
        if type(value) not in (torch.Tensor, torch.nn.Parameter) or value.layout != torch.strided:
            raise TypeError
        if id(value) not in known:
            known[id(value)] = len(inputs)
            inputs.append((len(inputs), _propagate.meta_of(value)))
        return _core.ref(known[id(value)])
    if isinstance(value, torch.Size):
        return tuple(value)
    if isinstance(value, tuple):
        return tuple(with_refs(item, inputs, known) for item in value)
    if type(value) is list:
        return [with_refs(item, inputs, known) for item in value]
    if type(value) is slice:
        return slice(*(with_refs(item, inputs, known) for item in (value.start, value.stop, value.step)))
    return value


class Report:
    """What was compared."""

    def __init__(self) -> None:
        self.answered: Counter[str] = Counter()
        self.asked: Counter[str] = Counter()
        self.wrong: list[str] = []

    def ask(self, name: str, kind: int, target: Any, args: Any, kwargs: Any, inputs: list[Any], grad: bool) -> None:
        text = check(kind, target, args, kwargs, inputs, grad)
        self.asked[name] += 1
        self.answered[name] += text is not None
        if text:
            self.wrong.append(text)


def _forms(func: Any, args: tuple[Any, ...]) -> tuple[int, Any] | None:
    """What a graph would hold for a call: a function, or the name of a method."""
    name = getattr(func, "__name__", None)
    if isinstance(func, type(torch.Tensor.add)):
        return METHOD, name
    return FUNCTION, func


def vary(
    report: Report, name: str, func: Any, args: Any, kwargs: Any, rng: random.Random, variants: int
) -> None:
    """Ask for a call with its own metadata, and with other layouts and flags."""
    form = _forms(func, args)
    inputs: list[Any] = []
    known: dict[int, int] = {}
    try:
        args = with_refs(args, inputs, known)
        kwargs = {key: with_refs(value, inputs, known) for key, value in kwargs.items()}
    except (TypeError, _propagate._Unsupported):
        return
    report.ask(name, *form, args, kwargs, inputs, True)
    for _ in range(variants):
        changed = []
        for number, meta in inputs:
            flags = meta.flags
            strides = meta.strides
            if rng.randrange(3):
                strides = next(_layouts(tuple(meta.sizes), rng))
            if meta.dtype.is_floating_point:
                flags = rng.choice([0, 1, 3])
            changed.append((number, _core.meta(meta.dtype, meta.device, tuple(meta.sizes), strides, flags)))
        report.ask(name, *form, args, kwargs, changed, rng.random() < 0.7)


def run_op(report: Report, op: Any, dtypes: list[torch.dtype], samples: int, variants: int) -> None:
    """All calls that the samples of an operation make."""
    rng = random.Random(op.name)
    for dtype in opinfo.dtypes(op, dtypes):
        for case in itertools.islice(opinfo.cases(op, dtype, samples), 4 * samples):
            calls = Calls()
            args, kwargs = opinfo._fresh(case.args, case.inplace), opinfo._fresh(case.kwargs, False)
            try:
                with calls:
                    case.function(*args, **kwargs)
            except Exception:
                continue
            if calls.calls:
                func, first_args, first_kwargs = calls.calls[-1]
                if first_kwargs.get("out") is None:
                    args, kwargs = opinfo._fresh(case.args, case.inplace), opinfo._fresh(case.kwargs, False)
                    with calls:
                        calls.calls.clear()
                        calls_of = calls.calls
                        stop = _Stop(func)
                        with stop:
                            try:
                                case.function(*args, **kwargs)
                            except StopIteration:
                                pass
                    if stop.args is not None:
                        vary(report, getattr(func, "__name__", str(func)), func, stop.args, stop.kwargs, rng, variants)


class _Stop(TorchFunctionMode):
    """Keeps the arguments of a function as they were before it ran."""

    def __init__(self, func: Any) -> None:
        self.func = func
        self.args: Any = None
        self.kwargs: Any = None

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is self.func:
            self.args, self.kwargs = args, dict(kwargs or {})
            raise StopIteration
        return func(*args, **(kwargs or {}))
