"""Operators that a program has added to torch's, and what their Python kernels may read and write."""

from __future__ import annotations

import dis
import functools
import types
from collections.abc import Iterator
from typing import Any

import torch

_SPACES = frozenset(("aten", "prim", "prims"))
_PLAIN = (
    int,
    float,
    complex,
    bool,
    str,
    bytes,
    type(None),
    torch.dtype,
    torch.device,
    type,
    types.ModuleType,
)
_MOST = 256  # functions that are looked at

Names = tuple[dict[str, Any], frozenset[str], frozenset[str]]


def _overloads(target: Any) -> list[Any]:
    if isinstance(target, torch._ops.OpOverloadPacket):
        return [getattr(target, name) for name in target.overloads()]  # type: ignore[no-untyped-call]
    return [target] if isinstance(target, torch._ops.OpOverload) else []


# Keys of kernels that run on tensors in the CPU's memory.
_KEYS = (
    "CPU",
    "CompositeExplicitAutograd",
    "CompositeImplicitAutograd",
    "CompositeExplicitAutogradNonFunctional",
)


def _is_unknown(overload: Any) -> bool:
    """Whether Python code has registered a kernel with a library: torch does not tell which function it is."""
    schema = overload._schema
    name = schema.name.replace("::", "/")
    name = f"{name}.{schema.overload_name}" if schema.overload_name else name
    return any(f"{name}/{key}" in torch.library._impls for key in _KEYS)


def _kernels(made: Any) -> list[Any]:
    """The functions that torch.library.custom_op has made an operator of."""
    return [made._init_fn, *made._backend_fns.values()]


def _has_effects(fake: Any) -> bool:
    """Whether a fake kernel, which eager never calls, may change anything."""
    reach = _Reach()
    reach.value(fake)
    return bool(reach.objects) or any(writes or "print" in reads for _, reads, writes in reach.names)


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _codes(constant)


class _Reach:
    """What functions may get at: objects that can change, and globals by name."""

    def __init__(self) -> None:
        self.objects: list[Any] = []
        self.names: list[Names] = []
        self.seen: set[int] = set()

    def value(self, value: Any) -> None:
        """Adds what lies in a global or a cell."""
        if id(value) in self.seen or isinstance(value, (*_PLAIN, torch.Tensor, types.BuiltinFunctionType)):
            return
        self.seen.add(id(value))
        if isinstance(value, types.FunctionType):
            self.function(value)
        elif isinstance(value, types.MethodType):
            self.value(value.__func__)
            self.value(value.__self__)
        elif isinstance(value, functools.partial):
            for part in (value.func, *value.args, *value.keywords.values()):
                self.value(part)
        elif not type(value).__module__.startswith("torch.") or isinstance(value, torch.nn.Module):
            self.objects.append(value)

    def function(self, function: types.FunctionType) -> None:
        """Adds what a function may get at, and those that it may call."""
        if (function.__module__ or "").partition(".")[0] in ("torch", "numpy") or len(self.names) >= _MOST:
            return
        reads, writes = set(), set()
        for code in _codes(function.__code__):
            for step in dis.get_instructions(code):
                if step.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
                    reads.add(step.argval)
                elif step.opname in ("STORE_GLOBAL", "DELETE_GLOBAL"):
                    writes.add(step.argval)
        self.names.append((function.__globals__, frozenset(reads), frozenset(writes)))
        for name in reads:
            self.value(function.__globals__.get(name))
        for cell in function.__closure__ or ():
            self.objects.append(cell)
            try:
                self.value(cell.cell_contents)
            except ValueError:
                continue


def kernels_of(target: Any) -> tuple[bool, list[Any], list[Names]] | None:
    """What is known of an operator's kernels.

    Returns:
        None for torch's own operators. Else whether they may do anything; the objects that those in Python may change;
        and the dicts of globals with the names that they read and write.
    """
    overloads = _overloads(target)
    if not overloads or overloads[0].namespace in _SPACES:
        return None
    reach, unsure = _Reach(), False
    for overload in overloads:
        name = overload._schema.name
        made = torch._library.custom_ops.OPDEFS.get(name)
        for kernel in [] if made is None else _kernels(made):
            reach.value(kernel)
        fake = torch._library.simple_registry.singleton.find(name).fake_impl.kernel
        unsure = unsure or (made is None and _is_unknown(overload))
        unsure = unsure or (
            fake is not None and _has_effects(fake.func if made is None else made._abstract_fn)
        )
    return unsure, reach.objects, reach.names
