"""What captured code has read is changed afterwards: the compiled function must notice."""

from __future__ import annotations

import builtins
import sys
import types
from collections.abc import Callable
from typing import Any

import pytest
import torch
from programs import harness
from programs.texts import join

import magneto

from . import programs_aliases, programs_arguments, programs_objects, programs_types

PROGRAMS = join(
    programs_arguments,
    programs_objects,
    programs_aliases,
    programs_types,
)


@pytest.mark.parametrize("name", PROGRAMS)
def test_change_is_noticed(name: str) -> None:
    program, steps = PROGRAMS[name]
    assert harness.run(program, steps).captures > 0


def import_whole(x: torch.Tensor) -> torch.Tensor:
    import zork  # type: ignore[import-not-found]

    return x + zork.v  # type: ignore[no-any-return]


def import_inner(x: torch.Tensor) -> torch.Tensor:
    import zork.sub  # type: ignore[import-not-found]

    return x + zork.v + zork.sub.w  # type: ignore[no-any-return]


def import_names(x: torch.Tensor) -> torch.Tensor:
    from zork import sub, v  # type: ignore[import-not-found]
    from zork.sub import w  # type: ignore[import-not-found]

    return x + v + sub.w + w  # type: ignore[no-any-return]


def import_or_not(x: torch.Tensor) -> Any:
    try:
        return import_whole(x)
    except ImportError as error:
        return type(error), str(error)


def import_relative(x: torch.Tensor) -> torch.Tensor:
    from . import v  # type: ignore[attr-defined]
    from .sub import w  # type: ignore[import-not-found]

    return x + v + w  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    "function", [import_whole, import_inner, import_names, import_or_not, import_relative]
)
def test_imported_module_is_guarded(function: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    def module(name: str, **content: Any) -> types.ModuleType:
        made = types.ModuleType(name)
        vars(made).update(content)
        return made

    sub = module("zork.sub", w=7)
    first, second = (module("zork", v=v, sub=sub, __path__=[], __package__="zork") for v in (1, 100))
    if function is import_relative:
        function = types.FunctionType(function.__code__, vars(first))
    compiled: Any = magneto.compile(function, backend="eager")
    x, real = torch.zeros(2), builtins.__import__

    def other(name: str, *args: Any) -> Any:
        return first if name.startswith("zork") else real(name, *args)

    def both() -> None:
        expected, found = [], []
        for made, call in ((expected, function), (found, compiled)):
            try:
                made.append(str(call(x)))
            except ImportError as error:
                made.append(repr(error))
        assert found == expected

    for changes in (
        {"zork": first, "zork.sub": sub},
        {"zork": second},
        {"zork.sub": module("zork.sub", w=9)},
        {"zork": first},
        {"zork.sub": None},
        {"zork": None, "zork.sub": sub},
        {"zork": first},
    ):
        for name, value in changes.items():
            monkeypatch.setitem(sys.modules, name, value)
        both()
        both()
    monkeypatch.setattr(builtins, "__import__", other)
    both()
    monkeypatch.setattr(builtins, "__import__", real)
    both()
    first.__dict__["v"] = 3
    both()
    monkeypatch.delitem(sys.modules, "zork")
    both()
    assert magneto.cache_entries(compiled)
