"""Methods of tensors that are bound and not called at once: which objects they are, and what they do."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable
from typing import Any
from unittest import mock

import pytest
import torch
from torch import nn

import magneto

ADDRESS = re.compile("0x[0-9a-f]+")
X = torch.ones(2)
ADD, PARAMETER = X.add, nn.Parameter(torch.ones(2))


class Holder:
    """Has attributes."""


HOLDER = Holder()


def plain(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return type(value), value.tolist()
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return [(plain(key), plain(item)) for key, item in value.items()]
    return type(value), ADDRESS.sub("", repr(value))


def kinds(x):
    return (
        type(x.add),
        type(x.norm),
        type(x.__init__),
        type(x.__hash__),
        type(x.__len__),
        type(x._make_subclass),
    )


def names(x):
    add = x.add
    return add.__name__, add.__qualname__, add.__module__, PARAMETER.add.__qualname__, x.norm.__qualname__


def texts(x):
    return str(x.add)[:30], repr(PARAMETER.add)[:34], hex(id(x))[2:] in repr(x.add), f"{x.mul}"[:20]


def questions(x):
    add = x.add
    return inspect.isbuiltin(add), inspect.ismethod(add), isinstance(add, type(len)), hasattr(add, "__func__")


def missing(x):
    found = []
    for name in ("__func__", "__code__", "__objclass__", "anything"):
        try:
            found.append(getattr(x.add, name))
        except AttributeError as error:
            found.append(str(error))
    return found


def identity(x):
    add = x.add
    return (
        add is x.add,
        add == x.add,
        add == x.mul,
        hash(add) == hash(x.add),
        add.__self__ is x,
        x.add in [add],
    )


def identity_of_what_is_given_back(x):
    y = x.add_(1)
    return y.add == x.add, y.add.__self__ is x, y.mul(2)


def from_outside(x):
    return ADD(1), ADD == X.add, ADD is X.add, ADD.__self__ is X, ADD.__self__ is x


def as_argument(x):
    return (
        functools.partial(x.add, 1)(),
        list(map(x.add, [1, 2])),
        [method(2) for method in (x.add, x.mul, x.norm)],
    )


def as_key(x):
    table = {x.add: 1, x.mul: 2}
    return table[x.add], table[x.mul], table


def as_result(x):
    return x.add, [x.mul, x.mul], (x + 1).t, PARAMETER.add, x.norm


def behind_a_break(x):
    add, mul = x.add, (x + 1).mul
    magneto.graph_break()
    return add(1), mul(2), add.__self__ is x, type(mul)


def stored(x):
    HOLDER.method = x.mul
    return HOLDER.method(2)


def replaced_later(x):
    add = x.add
    with mock.patch.object(torch.Tensor, "add", lambda self, other: "another"):
        return add(1), x.add(1)


def arguments(x):
    return (lambda add: add(1, alpha=2))(x.add), (lambda add: add(other=1))(x.add), x.add.__call__(1)


def wrong_arguments(x):
    found = []
    for method, args in ((x.add, ()), (x.t, (1,)), (x.__bool__, (0,)), (x.__invert__, (0,))):
        try:
            found.append(method(*args))
        except TypeError as error:
            found.append(str(error))
    return found


def of_classes(x):
    return x._make_subclass(torch.Tensor, x), x.__torch_function__ == torch.Tensor.__torch_function__


PROGRAMS: list[Callable[[torch.Tensor], Any]] = [
    kinds, names, texts, questions, missing, identity, identity_of_what_is_given_back, from_outside, as_argument, as_key,
    as_result, behind_a_break, stored, replaced_later, arguments, wrong_arguments, of_classes,
]  # fmt: skip


@pytest.mark.parametrize("program", PROGRAMS)
def test_methods_that_are_bound(program: Callable[[torch.Tensor], Any]) -> None:
    def results(function: Callable[[torch.Tensor], Any]) -> list[Any]:
        found = [plain(function(torch.ones(2))) for _ in range(3)]
        found.append(plain(vars(HOLDER)))
        vars(HOLDER).clear()
        return found

    assert results(magneto.compile(program, backend="eager")) == results(program)


def test_a_bound_method_that_is_an_argument_is_guarded_by_what_it_binds() -> None:
    compiled = magneto.compile(lambda method, x: method(x) + 1, backend="eager")
    x, y = torch.ones(2), torch.full((2,), 5.0)
    for method in (x.add, y.add, x.mul, x.add, torch.ones(2).add, y.mul, torch.ones(2, dtype=torch.long).mul):
        assert plain(compiled(method, y)) == plain(method(y) + 1)
