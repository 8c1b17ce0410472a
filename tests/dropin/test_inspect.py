"""What captured code asks of compiled functions and modules: answered as in eager, and without a break."""

from __future__ import annotations

import functools
import gc
import inspect
import types
import weakref
from typing import Any

import pytest
import torch
import torch._dynamo

import magneto


def double(x: torch.Tensor, *, more: int = 1) -> torch.Tensor:
    """Says so."""
    return x * 2 + more


class Layer(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + 1


compiled = magneto.compile(double, backend="eager")
module = magneto.compile(Layer(), backend="eager")
negated = magneto.compile(lambda n: -n, backend="eager")
X = torch.arange(3.0)


def by(flag: Any, x: torch.Tensor) -> torch.Tensor:
    return x.sin() if flag else x.cos()


PROGRAMS: dict[str, Any] = {
    "isfunction": lambda x: by(inspect.isfunction(compiled), x),
    "isfunction of a module": lambda x: by(inspect.isfunction(module), x),
    "ismethod": lambda x: by(inspect.ismethod(compiled), x),
    "isroutine": lambda x: by(inspect.isroutine(compiled), x),
    "isclass": lambda x: by(inspect.isclass(compiled), x),
    "isbuiltin": lambda x: by(inspect.isbuiltin(compiled), x),
    "isgeneratorfunction": lambda x: by(inspect.isgeneratorfunction(compiled), x),
    "iscoroutinefunction": lambda x: by(inspect.iscoroutinefunction(compiled), x),
    "isinstance FunctionType": lambda x: by(isinstance(compiled, types.FunctionType), x),
    "type": lambda x: by(type(compiled) is types.FunctionType, x),
    "__class__": lambda x: by(compiled.__class__ is types.FunctionType, x),
    "callable": lambda x: by(callable(compiled), x),
    "signature": lambda x: x * len(inspect.signature(compiled).parameters),
    "names": lambda x: x * len(compiled.__name__ + compiled.__qualname__ + compiled.__module__),
    "__doc__": lambda x: by(compiled.__doc__ == "Says so.", x),
    "__wrapped__": lambda x: compiled.__wrapped__(x, more=4),
    "_torchdynamo_orig_callable": lambda x: compiled._torchdynamo_orig_callable(x),
    "unwrap": lambda x: inspect.unwrap(compiled)(x),
    "hasattr": lambda x: by(hasattr(compiled, "_torchdynamo_orig_callable"), x),
    "hasattr of what is not there": lambda x: by(hasattr(compiled, "no_such_attribute"), x),
    "getattr with a default": lambda x: x * getattr(compiled, "no_such_attribute", 3),
    "__code__": lambda x: x * compiled.__code__.co_argcount,
    "__kwdefaults__": lambda x: x * compiled.__kwdefaults__["more"],
    "__defaults__": lambda x: by(compiled.__defaults__ is None, x),
    "__dict__": lambda x: by("__wrapped__" in compiled.__dict__, x),
    "partial": lambda x: functools.partial(compiled, more=5)(x),
    "map": lambda x: sum(map(compiled, [x, x + 1])),
    "reduce": lambda x: functools.reduce(lambda a, b: compiled(a) + b, [x, x, x]),
    "sorted": lambda x: x * sorted([3, 1, 2], key=negated)[0],
    "identity": lambda x: by(compiled is not module, x),
    "a dict of them": lambda x: {compiled: x}[compiled] + 1,
    "isinstance OptimizedModule": lambda x: by(isinstance(module, torch._dynamo.OptimizedModule), x),
    "isinstance Module": lambda x: by(isinstance(module, (int, torch.nn.Module)), x),
    "isinstance of something else": lambda x: by(isinstance(module, torch.nn.Linear), x),
    "_orig_mod": lambda x: module._orig_mod(x),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_is_answered_as_in_eager_without_a_break(name: str) -> None:
    program = PROGRAMS[name]
    captured = magneto.compile(program, backend="eager", fullgraph=True)
    for _ in range(2):
        assert torch.equal(captured(X), program(X))
    assert len(magneto.cache_entries(captured)) == 1


def test_an_attribute_that_is_set_later_is_seen() -> None:
    function = magneto.compile(lambda x: x, backend="eager")
    captured = magneto.compile(lambda x: by(getattr(function, "mark", False), x), backend="eager")
    assert torch.equal(captured(X), X.cos())
    function.mark = True
    assert torch.equal(captured(X), X.sin())
    del function.mark
    assert torch.equal(captured(X), X.cos())


def test_code_that_is_exchanged_later_is_seen() -> None:
    def one(a: Any) -> Any:
        return a

    def two(a: Any, b: Any) -> Any:
        return a

    function = magneto.compile(one, backend="eager")
    captured = magneto.compile(lambda x: x * function.__code__.co_argcount, backend="eager")
    assert torch.equal(captured(X), X)
    one.__code__ = two.__code__
    assert torch.equal(captured(X), X * 2)


def test_another_compiled_function_in_its_place_is_seen() -> None:
    def named(function: Any, x: torch.Tensor) -> torch.Tensor:
        return x * len(function.__name__)

    captured = magneto.compile(named, backend="eager")
    first, second = magneto.compile(double, backend="eager"), magneto.compile(by, backend="eager")
    assert torch.equal(captured(first, X), X * 6)
    assert torch.equal(captured(second, X), X * 2)


def test_an_entry_does_not_keep_it_alive() -> None:
    def named(function: Any, x: torch.Tensor) -> torch.Tensor:
        return x * len(function.__name__)

    function = magneto.compile(lambda x: x, backend="eager")
    captured = magneto.compile(named, backend="eager")
    captured(function, X)
    reference = weakref.ref(function)
    del function
    gc.collect()
    assert reference() is None


def test_it_is_returned_as_the_object_that_it_is() -> None:
    captured = magneto.compile(lambda function, x: (function, [function], x + 1), backend="eager")
    for function in (compiled, negated, compiled):
        first, (second,), _ = captured(function, X)
        assert first is second is function


def test_an_attribute_that_only_magneto_has_is_a_break() -> None:
    captured = magneto.compile(lambda x: x * compiled.limit, backend="eager", fullgraph=True)
    with pytest.raises(magneto.exc.Unsupported, match="attribute limit of"):
        captured(X)
