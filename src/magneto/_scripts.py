"""Functions that torch.jit.script has compiled: where the Python function that one was made of does the same."""

from __future__ import annotations

import builtins
import types
from typing import Any

import torch

_PLAIN: dict[str, tuple[type, ...]] = {"int": (int,), "float": (float,), "bool": (bool,), "str": (str,)}

# What a script is told otherwise, or knows nothing of.
_UNLIKE = frozenset(("jit", "is_scripting", "is_tracing", "is_compiling", "is_dynamo_compiling", "print"))


def _takes(text: str, kind: type) -> bool:
    """Whether an argument of this class is taken as it is by a parameter with this annotation: none is converted."""
    if text.startswith("Optional[") and text.endswith("]"):
        return kind is type(None) or _takes(text[len("Optional[") : -1], kind)
    return issubclass(kind, torch.Tensor) if text == "Tensor" else kind in _PLAIN.get(text, ())


def _is_plain(function: Any, seen: list[Any]) -> bool:
    """Whether a Python function reads nothing that a script has taken once and for all, and asks nothing that it is
    told otherwise."""
    if (
        type(function) is not types.FunctionType
        or function.__closure__ is not None
        or function.__kwdefaults__
    ):
        return False
    if any(function is other for other in seen):
        return True
    seen.append(function)
    codes = [function.__code__]
    for code in codes:
        codes.extend(constant for constant in code.co_consts if isinstance(constant, types.CodeType))
        if not _UNLIKE.isdisjoint(code.co_names):
            return False
        for name in code.co_names:  # of globals and of attributes
            value = function.__globals__.get(name, vars(builtins).get(name))
            if type(value) is types.FunctionType and not value.__module__.startswith("torch."):
                if not _is_plain(value, seen):
                    return False
            elif type(value) not in (
                types.FunctionType, types.BuiltinFunctionType, types.ModuleType, type, type(None),
                torch.jit.ScriptFunction,
            ):  # fmt: skip
                return False
    return True


def is_as_written(script: Any, kinds: list[type], names: tuple[str, ...]) -> bool:
    """Whether a script does what its Python function does, if that raises nothing and returns tensors and numbers.

    Args:
        script: a function that torch.jit.script, or torch.jit.trace, has made.
        kinds: the classes of the arguments.
        names: those of the last ones, which are given by keyword.
    """
    function = script._torchdynamo_inline
    find: Any = torch.jit._state._try_get_jit_cached_function
    made = find(function)  # None for a trace, which is what once happened
    if made is None or made.qualified_name != script.qualified_name:
        return False
    parameters = list(script.schema.arguments)
    by_name = {parameter.name: parameter for parameter in parameters}
    given = parameters[: len(kinds) - len(names)] + [by_name[name] for name in names if name in by_name]
    return (
        len(given) == len(kinds)
        and all(
            _takes(parameter.type.annotation_str, kind) for parameter, kind in zip(given, kinds, strict=True)
        )
        and _is_plain(function, [])
    )
