"""Guards as functions of the user's see them that drop some: `options={"guard_filter_fn": ...}`.

Each guard of magneto's is shown as the guard of TorchDynamo that says the same, in a `GuardFilterEntry`.
"""

from __future__ import annotations

import dataclasses
import functools
import re
import sys
import types
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._guards import Guard, GuardSource, Source

from magneto import _config, _session

GuardFilter = Callable[[Sequence[Any]], Sequence[bool]]
Described = list[tuple[str, str, bool, Any, list[Any], Any, str]]

_GLOBAL_STATE = (
    "AUTOGRAD_SAVED_TENSORS_HOOKS", "DEFAULT_DEVICE", "DETERMINISTIC_ALGORITHMS", "GLOBAL_STATE", "GRAD_MODE",
    "SHAPE_ENV", "TORCH_FUNCTION_STATE",
)  # fmt: skip
"""Guards of TorchDynamo on no object. Torch's state is one guard here: that of GLOBAL_STATE."""


@dataclasses.dataclass(frozen=True)
class GuardFilterEntry:
    """A guard: what `torch._dynamo.types.GuardFilterEntry` has."""

    name: str
    has_value: bool
    value: object
    guard_type: str
    derived_guard_types: tuple[str, ...]
    is_global: bool
    orig_guard: Guard


class GuardedSource(Source):
    """Where a guarded object is found."""

    def __init__(self, name: str, guard_source: GuardSource) -> None:
        self.__dict__.update(name=name, guard_source=guard_source)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, GuardedSource) and self.__dict__ == other.__dict__

    def __hash__(self) -> int:
        return hash((self.name, self.guard_source))


def chosen(function: GuardFilter | None, shown: bool) -> Callable[[Described], list[bool]] | None:
    """What the core asks which guards are kept; None if all are, and they need not be `shown` to a hook later."""
    modules = _config.get("guard_nn_modules")
    if function is None and modules and not shown:
        return None
    return functools.partial(_keep, function, modules)


def _keep(function: GuardFilter | None, modules: bool, described: Described) -> list[bool]:
    """A bool for each guard of an entry, and one for torch's global state."""
    shown = [_entry(*one) for one in described] + [_state(name) for name in _GLOBAL_STATE]
    kept = [True] * len(shown)
    if not modules:
        kept = [not entry.orig_guard.source.is_unspecialized_nn_module() for entry in shown]
    if function is not None:
        said = list(function(shown))
        if len(said) != len(shown):
            raise AssertionError(
                f"guard_filter_fn has said {len(said)} times what is kept, of {len(shown)} guards"
            )
        if not all(type(one) is bool for one in said):
            raise AssertionError("guard_filter_fn must return bools")
        kept = [one and other for one, other in zip(kept, said, strict=True)]
    session = _session.current()
    if session is not None:
        session.guards = [entry.orig_guard for entry, keep in zip(shown, kept, strict=True) if keep]
    count = len(described)
    return [*kept[:count], kept[count + _GLOBAL_STATE.index("GLOBAL_STATE")]]


def _class() -> Any:
    """That of torch if it is loaded."""
    module = sys.modules.get("torch._dynamo.types")
    return GuardFilterEntry if module is None else module.GuardFilterEntry


@functools.cache
def _creator(name: str) -> Callable[..., None]:
    """What `Guard` takes for the method of TorchDynamo that makes such guards."""

    def create(builder: Any, guard: Any) -> None:
        """Nothing: the guard is made already."""

    create.__name__ = create.__qualname__ = name
    return create


def _make(
    text: str,
    has: bool,
    value: Any,
    kind: str,
    derived: tuple[str, ...],
    source: GuardSource,
    code: str | None,
) -> Any:
    guard = Guard(
        GuardedSource(text, source),
        _creator(kind),
        guard_types=list(derived),
        code_list=None if code is None else [code],
    )
    if has:
        try:
            guard.obj_weakref = weakref.ref(value)
        except TypeError:  # as in torch, which has none then
            guard.obj_weakref = None
    return _class()(
        name=re.sub(r"\bL\['(\w+)'\]", r"\1", text),
        has_value=has,
        value=value,
        guard_type=kind,
        derived_guard_types=derived,
        is_global=source in _GLOBAL and text != "",
        orig_guard=guard,
    )


def _state(kind: str) -> Any:
    source = GuardSource.SHAPE_ENV if kind == "SHAPE_ENV" else GuardSource.GLOBAL
    return _make("", False, None, kind, (), source, None)


def _entry(kind: str, text: str, has: bool, value: Any, chain: list[Any], expected: Any, code: str) -> Any:
    name, derived = _type(kind, expected)
    return _make(text, has, value, name, derived, _source(text, chain), code)


_GLOBAL = frozenset((
    GuardSource.GLOBAL, GuardSource.GLOBAL_UNSPECIALIZED_NN_MODULE, GuardSource.GLOBAL_UNSPECIALIZED_BUILTIN_NN_MODULE,
))  # fmt: skip


def _source(text: str, chain: list[Any]) -> GuardSource:
    """Where the source starts, and whether it goes through a module: the one that comes last tells which."""
    is_local = text.startswith(("L[", "type(L["))
    for value in chain:
        if isinstance(value, torch.nn.Module):
            if type(value).__module__.startswith(("torch.nn.", "torch.ao.")):
                return (
                    GuardSource.LOCAL_UNSPECIALIZED_BUILTIN_NN_MODULE
                    if is_local
                    else GuardSource.GLOBAL_UNSPECIALIZED_BUILTIN_NN_MODULE
                )
            return (
                GuardSource.LOCAL_UNSPECIALIZED_NN_MODULE
                if is_local
                else GuardSource.GLOBAL_UNSPECIALIZED_NN_MODULE
            )
    return GuardSource.LOCAL if is_local else GuardSource.GLOBAL


_TYPES: dict[str, tuple[str, tuple[str, ...]]] = {
    "TYPE": ("TYPE_MATCH", ("TYPE_MATCH",)),
    "VALUE": ("CONSTANT_MATCH", ("EQUALS_MATCH",)),
    "ABSENT": ("NOT_PRESENT_IN_GENERIC_DICT", ()),
    "LACKS": ("NOT_PRESENT_IN_GENERIC_DICT", ()),
    "LENGTH": ("SEQUENCE_LENGTH", ("TYPE_MATCH", "SEQUENCE_LENGTH")),
    "LIMIT": ("SEQUENCE_LENGTH", ("TYPE_MATCH", "SEQUENCE_LENGTH")),
    "KEYS": ("DICT_KEYS_MATCH", ("DICT_KEYS_MATCH",)),
    "TENSOR": ("TENSOR_MATCH", ("TENSOR_MATCH",)),
    "SIZES": ("SHAPE_ENV", ("SHAPE_ENV",)),
    "ALIAS": ("DUPLICATE_INPUT", ("OBJECT_ALIASING",)),
    "DISTINCT": ("DUPLICATE_INPUT", ("NO_TENSOR_ALIASING",)),
    "APART": ("DUPLICATE_INPUT", ("NO_TENSOR_ALIASING",)),
    "METHODS": ("TYPE_MATCH", ("TYPE_MATCH",)),
    "QUERY": ("GLOBAL_STATE", ()),
    "REFERENT": ("WEAKREF_ALIVE", ()),
    "WEAK": ("ID_MATCH", ("ID_MATCH",)),
    "QUIET": ("TYPE_MATCH", ("TYPE_MATCH",)),
    "PRESENT": ("TYPE_MATCH", ("TYPE_MATCH",)),
}  # fmt: skip
"""By the kind of guard in csrc/guard: the one that TorchDynamo has for that, and what it consists of."""


def _type(kind: str, expected: Any) -> tuple[str, tuple[str, ...]]:
    if kind != "IDENTITY":
        return _TYPES[kind]
    if expected is None or isinstance(expected, (bool, int, float, str)):
        return "CONSTANT_MATCH", ("ID_MATCH",)
    if isinstance(expected, (types.FunctionType, types.CodeType)):
        return "CLOSURE_MATCH", ("ID_MATCH",)
    if isinstance(expected, types.ModuleType):
        return "MODULE_MATCH", ("ID_MATCH",)
    if isinstance(expected, type):
        return "CLASS_MATCH", ("ID_MATCH",)
    if isinstance(
        expected, (types.BuiltinFunctionType, types.MethodDescriptorType, types.WrapperDescriptorType)
    ):
        return "BUILTIN_MATCH", ("ID_MATCH",)
    return "ID_MATCH", ("ID_MATCH",)
