"""What programs add to torch.Tensor and nn.Parameter, replace in them, or give to single tensors: as in eager."""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import pytest
import torch
from torch import nn
from torch.nn import functional

import magneto

_ABSENT = object()


@contextlib.contextmanager
def changed(owner: Any, name: str, value: Any) -> Iterator[None]:
    """An attribute for a while."""
    before = vars(owner).get(name, _ABSENT)
    setattr(owner, name, value)
    try:
        yield
    finally:
        if before is _ABSENT:
            delattr(owner, name)
        else:
            setattr(owner, name, before)


def add_seven(self: torch.Tensor, *args: Any) -> Any:
    return torch.add(self, 7)


def add_nine(self: torch.Tensor, *args: Any) -> Any:
    return torch.add(self, 9)


def plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, torch.Tensor) else value


def check(program: Callable[..., Any], owner: Any, name: str, *values: Any, make: Any = None) -> None:
    """Compare with eager: as it is, with each value in place, and as it is again, whichever is captured first."""
    make = make or (lambda: torch.ones(2, 2))
    plainly = contextlib.nullcontext
    states = [plainly, *[lambda value=value: changed(owner, name, value) for value in values]]
    for order in (states * 2, states[::-1] * 2):
        compiled = magneto.compile(program, backend="eager")
        for state in order:
            with state():
                results = []
                for function in (program, compiled):
                    try:
                        results.append(plain(function(make())))
                    except (AttributeError, TypeError) as error:
                        results.append(type(error))
                assert results[0] == results[1]


def test_method_that_is_added() -> None:
    check(lambda x: x.foo() * 2, torch.Tensor, "foo", add_seven, add_nine)


def test_whether_there_is_a_method() -> None:
    check(lambda x: (hasattr(x, "foo"), getattr(x, "foo", None) is None), torch.Tensor, "foo", add_seven)


@pytest.mark.parametrize("name", ["sin", "norm", "view", "tile", "sum"])
def test_method_that_is_replaced(name: str) -> None:
    arguments = {"view": (4,), "tile": (2,)}.get(name, ())
    check(lambda x: getattr(x, name)(*arguments), torch.Tensor, name, add_seven, add_nine)


def test_method_that_is_replaced_and_called_by_name() -> None:
    check(lambda x: x.sin() + x.cos(), torch.Tensor, "sin", add_seven)
    check(lambda x: torch.Tensor.sin(x), torch.Tensor, "sin", add_seven)


def test_method_that_is_mocked() -> None:
    def f(x: torch.Tensor) -> Any:
        return x.sin() + 1

    compiled = magneto.compile(f, backend="eager")
    x = torch.ones(2)
    expected = f(x).tolist()
    assert compiled(x).tolist() == expected
    with mock.patch.object(torch.Tensor, "sin", return_value=torch.full((2,), 5.0)) as mocked:
        assert compiled(x).tolist() == [6, 6]
        assert mocked.call_count == 1
    with mock.patch("torch.Tensor.sin", new=add_seven):
        assert compiled(x).tolist() == f(x).tolist() == [9, 9]
    assert compiled(x).tolist() == expected


@pytest.mark.parametrize("value", [staticmethod(lambda: 3), classmethod(lambda cls: cls.__name__), 5, [1, 2]])
def test_class_attribute_of_another_kind(value: Any) -> None:
    def f(x: torch.Tensor) -> Any:
        found = x.foo  # type: ignore[attr-defined]
        return found() if callable(found) else found

    check(f, torch.Tensor, "foo", value)


@pytest.mark.parametrize("name", ["T", "shape", "foo", "dtype", "requires_grad", "ndim"])
def test_property(name: str) -> None:
    check(lambda x: getattr(x, name), torch.Tensor, name, property(add_seven), property(lambda self: 3))


BINARY = [
    operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod, operator.pow,
    operator.matmul, operator.eq, operator.lt, operator.ge,
]  # fmt: skip


@pytest.mark.parametrize("function", BINARY)
def test_operator_that_is_replaced(function: Callable[..., Any]) -> None:
    name = function.__name__
    check(lambda x: function(x, x), torch.Tensor, f"__{name}__", add_seven)
    if name not in ("eq", "lt", "ge", "matmul"):
        check(lambda x: function(2, x), torch.Tensor, f"__r{name}__", add_seven)


def test_syntax_of_operators_that_are_replaced() -> None:
    def in_place(x: torch.Tensor) -> Any:
        x += 1
        return x

    check(lambda x: x + 1, torch.Tensor, "__add__", add_seven)
    check(lambda x: 1 - x, torch.Tensor, "__rsub__", add_seven)
    check(in_place, torch.Tensor, "__iadd__", add_seven)
    check(lambda x: -x, torch.Tensor, "__neg__", add_seven)
    check(lambda x: abs(x), torch.Tensor, "__abs__", add_seven)
    check(lambda x: x[0], torch.Tensor, "__getitem__", add_seven)
    check(lambda x: x < 2, torch.Tensor, "__lt__", add_seven)
    check(lambda x: len(x), torch.Tensor, "__len__", lambda self: 77)
    check(lambda x: [len(row) for row in x], torch.Tensor, "__iter__", lambda self: iter([[1], [1, 2]]))


def test_operator_that_is_replaced_before_the_first_capture() -> None:
    def f(x: torch.Tensor) -> Any:
        return x + x

    compiled = magneto.compile(f, backend="eager")
    with changed(torch.Tensor, "__add__", add_seven):
        assert compiled(torch.ones(2)).tolist() == [8, 8]
    assert compiled(torch.ones(2)).tolist() == [2, 2]


def test_replacement_that_calls_what_it_replaces() -> None:
    add, sin = torch.Tensor.__add__, torch.Tensor.sin
    check(lambda x: x + x, torch.Tensor, "__add__", lambda self, other: add(self, other) * 10)
    check(lambda x: x.sin() + 1, torch.Tensor, "sin", lambda self: sin(self) * 10)


def test_torch_function_that_is_replaced() -> None:
    seen = []

    def torch_function(cls: type, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        seen.append(func)
        with torch._C.DisableTorchFunctionSubclass():
            return func(*args, **(kwargs or {}))

    check(lambda x: torch.sin(x) + 1, torch.Tensor, "__torch_function__", classmethod(torch_function))


def test_getattr_that_is_added() -> None:
    check(lambda x: x.foo, torch.Tensor, "__getattr__", lambda self, name: f"<{name}>")


def parameter() -> nn.Parameter:
    return nn.Parameter(torch.ones(2, 2))


def test_methods_of_parameters() -> None:
    check(lambda x: x.foo() * 2, nn.Parameter, "foo", add_seven, add_nine, make=parameter)
    check(lambda x: x.sin() * 2, nn.Parameter, "sin", add_seven, make=parameter)
    check(lambda x: x.sin() * 2, torch.Tensor, "sin", add_seven, make=parameter)
    check(lambda x: x + 1, nn.Parameter, "__add__", add_seven, make=parameter)
    check(lambda x: x.sin() * 2, nn.Parameter, "sin", add_seven)


@pytest.mark.parametrize("name", ["foo", "sin", "view", "T"])
def test_attribute_of_one_tensor(name: str) -> None:
    """Of the instance: it comes before a method of the class, and after a property."""

    def f(x: torch.Tensor) -> Any:
        found = getattr(x, name, None)
        return found() if callable(found) and name != "view" else callable(found)

    def make(own: bool) -> torch.Tensor:
        x = torch.ones(2, 2)
        if own and name != "T":
            setattr(x, name, lambda: 42)
        return x

    for order in ([False, True, False, True], [True, False, True]):
        compiled = magneto.compile(f, backend="eager")
        for own in order:
            assert plain(compiled(make(own))) == plain(f(make(own)))


def test_attributes_that_nobody_asks_for_are_not_guarded() -> None:
    compiled = magneto.compile(lambda x: x.sin() + 1, backend="eager")
    x = torch.ones(2)
    compiled(x)
    x._mark = True  # type: ignore[attr-defined]
    compiled(x)
    with changed(torch.Tensor, "never_asked_for", 3):
        compiled(x)
    assert len(magneto.cache_entries(compiled)) == 1


@pytest.mark.parametrize(
    ("owner", "name", "program"),
    [
        (torch, "sin", lambda x: torch.sin(x) * 2),
        (functional, "relu", lambda x: functional.relu(x) * 2),
        (functional, "relu", lambda x: nn.ReLU()(x) * 2),
        (torch, "relu", lambda x: functional.relu(x) * 2),
    ],
)
def test_function_of_a_module_that_is_replaced(owner: Any, name: str, program: Callable[..., Any]) -> None:
    check(program, owner, name, add_seven, mock.Mock(side_effect=add_nine))


def sines(x):
    return x.sin() * 2, torch.sin(x)


def tens(args):
    return torch.full((2,), 10.0 + len(args))


MOCKS = {
    "with a specification": lambda: mock.patch.object(
        torch.Tensor, "sin", autospec=True, side_effect=lambda *args: tens(args)
    ),
    "by name": lambda: mock.patch("torch.Tensor.sin", autospec=True, side_effect=lambda *args: tens(args)),
    "one by one": lambda: mock.patch("torch.Tensor.sin", side_effect=[torch.zeros(2), torch.ones(2)]),
    "raises": lambda: mock.patch.object(
        torch.Tensor, "sin", autospec=True, side_effect=ValueError("no sine")
    ),
    "a function": lambda: mock.patch("torch.Tensor.sin", lambda x: x + 10),
    "wraps": lambda: mock.patch.object(torch.Tensor, "sin", wraps=lambda: torch.zeros(2)),
    "a function of torch": lambda: mock.patch("torch.sin", autospec=True, side_effect=lambda x: x),
    "an operator": lambda: mock.patch.object(
        torch.Tensor, "__mul__", autospec=True, side_effect=lambda *args: tens(args)
    ),
}


@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize("how", MOCKS)
def test_mocks(how, inside):
    """In captured code, and around its calls: with the calls that the mock has seen."""

    def within(x):
        with MOCKS[how]() as double:
            return sines(x), getattr(double, "call_count", None)

    def outcome(call):
        try:
            return repr(call(torch.ones(2)))
        except (ValueError, TypeError) as error:
            return repr(error)

    def history(call):
        seen = []
        for patched in (False, True, False, True, True):
            with MOCKS[how]() if patched and not inside else contextlib.nullcontext() as double:
                seen.append((outcome(call), getattr(double, "call_count", None)))
        return seen

    function = within if inside else sines
    expected = history(function)
    assert history(magneto.compile(function, backend="eager")) == expected
    if not inside:  # the first call sees the mock
        with MOCKS[how]() as double:
            seen = outcome(function), getattr(double, "call_count", None)
        compiled = magneto.compile(function, backend="eager")
        with MOCKS[how]() as double:
            assert (outcome(compiled), getattr(double, "call_count", None)) == seen
        assert outcome(compiled) == expected[0][0]
