"""Operators that a program adds to torch's: what their kernels in Python do, and when, in captured code as in eager."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.library import Library, custom_op, register_fake

import magneto

pytestmark = pytest.mark.no_leak_hunt("torch.library keeps something of each operator")

LOG: list[Any] = []
STATE = {"n": 0}
NUMBER = 5
LIBRARY = Library("magneto_operators", "DEF")


def added(schema: str, key: str) -> Callable[[Any], Any]:
    """Adds an operator with this kernel."""

    def add(kernel: Any) -> Any:
        LIBRARY.define(schema)
        LIBRARY.impl(schema.partition("(")[0], kernel, key)
        return kernel

    return add


@added("explicit(Tensor x) -> Tensor", "CompositeExplicitAutograd")
def _(x):
    LOG.append(tuple(x.shape))
    return x + 1


@added("implicit(Tensor x) -> Tensor", "CompositeImplicitAutograd")
def _(x):
    LOG.append("implicit")
    return x * 2


@added("raises(Tensor x) -> Tensor", "CompositeExplicitAutograd")
def _(x):
    LOG.append("raises")
    raise ValueError("of a kernel")


@added("warns(Tensor x) -> Tensor", "CompositeExplicitAutograd")
def _(x):
    LOG.append("warns")
    warnings.warn("of a kernel", stacklevel=1)
    return x + 1


@added("counts(Tensor x) -> Tensor", "CompositeExplicitAutograd")
def _(x):
    STATE["n"] += 1
    return x + STATE["n"]


@added("number(Tensor x) -> int", "CompositeExplicitAutograd")
def _(x):
    STATE["n"] += 1
    return STATE["n"]


@added("in_place(Tensor(a!) x) -> ()", "CompositeExplicitAutograd")
def _(x):
    LOG.append("in place")
    x.add_(1)


@added("with_fake(Tensor x) -> Tensor", "CPU")
def _(x):
    LOG.append("kernel")
    return x + 1


@register_fake("magneto_operators::with_fake", lib=LIBRARY)
def _(x):
    LOG.append("fake")
    return torch.empty_like(x)


@added("deletes(Tensor x) -> Tensor", "CPU")
def _(x):
    global NUMBER
    if "NUMBER" in globals():
        del NUMBER
    return x + 1


@register_fake("magneto_operators::deletes", lib=LIBRARY)
def _(x):
    return torch.empty_like(x)


@custom_op("magneto_operators::no_fake", mutates_args=())
def no_fake(x: torch.Tensor) -> torch.Tensor:
    LOG.append("no fake")
    return x + 1


def helper(text: str) -> None:
    LOG.append(text)


@custom_op("magneto_operators::logs", mutates_args=())
def logs(x: torch.Tensor) -> torch.Tensor:
    helper("logs")
    return x + 1


@logs.register_fake
def _(x):
    return torch.empty_like(x)


@custom_op("magneto_operators::logs_in_place", mutates_args=("x",))
def logs_in_place(x: torch.Tensor) -> None:
    helper("in place")
    x.add_(1)


@custom_op("magneto_operators::scales", mutates_args=())
def scales(x: torch.Tensor) -> torch.Tensor:
    return x * NUMBER


@scales.register_fake
def _(x):
    return torch.empty_like(x)


@custom_op("magneto_operators::grows", mutates_args=())
def grows(x: torch.Tensor) -> torch.Tensor:
    global NUMBER
    NUMBER += 1
    return x + NUMBER


@grows.register_fake
def _(x):
    return torch.empty_like(x)


@custom_op("magneto_operators::fake_raises", mutates_args=())
def fake_raises(x: torch.Tensor) -> torch.Tensor:
    return x + 1


@fake_raises.register_fake
def _(x):
    raise RuntimeError("of a fake kernel")


@custom_op("magneto_operators::fake_warns", mutates_args=())
def fake_warns(x: torch.Tensor) -> torch.Tensor:
    return x + 1


@fake_warns.register_fake
def _(x):
    warnings.warn("of a fake kernel", stacklevel=1)
    LOG.append("fake")
    return torch.empty_like(x)


@custom_op("magneto_operators::pure", mutates_args=())
def pure(x: torch.Tensor) -> torch.Tensor:
    return x * 2


@pure.register_fake
def _(x):
    return torch.empty_like(x)


ops = torch.ops.magneto_operators


def handled(x):
    try:
        return ops.raises(x), list(LOG)
    except ValueError as error:
        return str(error), list(LOG)


def deleted(x):
    y = ops.deletes(x)
    try:
        return y, NUMBER
    except NameError as error:
        return y, str(error)


def written_before(x):
    global NUMBER
    NUMBER = 7
    return scales(x), NUMBER


def written_after(x):
    global NUMBER
    y = scales(x)
    NUMBER = 9
    return y, scales(x)


def read_around(x):
    before = NUMBER
    y = grows(x)
    return before, y, NUMBER, grows(x), NUMBER


def states(x):
    before = STATE["n"]
    y = ops.counts(x)
    middle = STATE["n"]
    STATE["n"] = 10
    return before, y, middle, ops.counts(x), STATE["n"]


def gradients(x):
    x = x.requires_grad_()
    ops.implicit(x).sum().backward()
    return x.grad, list(LOG)


def replaced(x):
    runs = [0]

    def another(*args):
        runs[0] += 1
        return args[0].clone()

    with torch.library._scoped_library("aten", "IMPL") as library:
        library.impl("aten::sum", another, "CPU")
        library.impl("aten::sin", another, "CPU")
        y = torch.sum(x)
        found = [runs[0], y.shape, x.sum(), runs[0], x.sin() + torch.ops.aten.sin(x), runs[0]]
    return y, found, torch.sum(x), x.sin(), runs[0]


PROGRAMS: list[Callable[[torch.Tensor], Any]] = [
    replaced, handled, deleted, written_before, written_after, read_around, states, gradients,
    lambda x: (ops.explicit(x), list(LOG)),
    lambda x: (ops.explicit.default(ops.explicit(x)), len(LOG)),
    lambda x: (ops.implicit(x), list(LOG)),
    lambda x: (ops.warns(x), list(LOG)),
    lambda x: (ops.number(x), ops.number(x), x + ops.number(x)),
    lambda x: (ops.in_place(x), x, list(LOG)),
    lambda x: ops.with_fake(x) + 1,
    lambda x: (ops.with_fake(x), list(LOG)),
    lambda x: (no_fake(x), list(LOG)),
    lambda x: (logs(x) + 1, list(LOG), logs(x), len(LOG)),
    lambda x: (len(LOG), logs(x)),
    lambda x: (logs_in_place(x), x, list(LOG)),
    lambda x: (LOG.append("the program"), logs(x), LOG.append("again")),
    lambda x: fake_raises(x),
    lambda x: (fake_warns(x), list(LOG)),
    lambda x: (pure(x), LOG.append(NUMBER), pure(pure(x))),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(PROGRAMS)))
def test_kernels_run_when_they_run_in_eager(number: int) -> None:
    def results(function: Callable[[torch.Tensor], Any]) -> list[Any]:
        global NUMBER
        LOG.clear()
        STATE["n"], NUMBER = 0, 5
        found = []
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for _ in range(3):
                x = torch.ones(2)
                result = repr(function(x))
                texts = [str(one.message) for one in caught]
                found.append((result, x.tolist(), list(LOG), dict(STATE), globals().get("NUMBER"), texts))
        return found

    assert results(magneto.compile(PROGRAMS[number], backend="eager")) == results(PROGRAMS[number])


def test_operators_that_touch_nothing_are_captured_with_what_is_around_them() -> None:
    compiled = magneto.compile(
        lambda x: (pure(x + NUMBER), len(LOG), scales(x) + NUMBER), backend="eager", fullgraph=True
    )
    broken = magneto.compile(lambda x: (pure(x + NUMBER), len(LOG)), backend="eager")
    global NUMBER
    NUMBER = 5
    LOG.clear()
    for _ in range(2):
        assert repr(compiled(torch.ones(2))) == repr((torch.full((2,), 12.0), 0, torch.full((2,), 10.0)))
        assert repr(broken(torch.ones(2))) == repr((torch.full((2,), 12.0), 0))
    assert len(magneto.cache_entries(broken)) == 1
