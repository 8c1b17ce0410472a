"""What operations do besides giving a result: writes and random numbers, as the schemas of torch's operators tell.

An operation of a graph may be any function of torch's, one in Python too. It is called on tensors without data, and
the operators that this leads to are looked at, one by one, before they run.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from magneto import _core

_SPACES = frozenset(("aten", "prim", "prims"))
# Arguments that kernels write to though the schema says nothing of it: those of batch_norm.
_STATISTICS = frozenset(("running_mean", "running_var"))


_DATA_TAGS = frozenset((torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape))


class _Effect(Exception):
    """An operator does more than give a result, or may."""


class _Data(Exception):
    """An operator returns what only data can tell."""


def _arguments(schema: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[tuple[Any, Any]]:
    """The arguments of a schema with the values that they are given."""
    given = list(zip(schema.arguments, args, strict=False))
    return given + [(one, kwargs[one.name]) for one in schema.arguments if one.name in kwargs]


def _tensors(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    return [tensor for item in value for tensor in _tensors(item)] if isinstance(value, (tuple, list)) else []


# Keys whose kernels may run for a graph: not those of tensors without data, nor of the wrappers of transforms, for
# which torch registers kernels of its own.
_KEYS = tuple(
    name for name in torch._C.DispatchKey.__members__ if name != "Meta" and not name.startswith("FuncTorch")
)


def _is_replaced(name: str) -> bool:
    """Whether Python code has registered a kernel for an operator that may run for a graph."""
    return any(f"{name}/{key}" in torch.library._impls for key in _KEYS)


class _Watch(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Raises _Effect where an operator has one; all others run on tensors without data."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # else torch._dynamo is imported

    def __init__(self, inputs: list[torch.Tensor]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.outside = {tensor.untyped_storage()._cdata for tensor in inputs}

    def is_outside(self, value: Any) -> bool:
        """Whether one of the tensors shares the memory of an input."""
        return any(tensor.untyped_storage()._cdata in self.outside for tensor in _tensors(value))

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        schema = func._schema
        if func.namespace not in _SPACES or torch.Tag.nondeterministic_seeded in func.tags:
            raise _Effect
        name = schema.name.replace("::", "/")
        if _is_replaced(f"{name}.{schema.overload_name}" if schema.overload_name else name):
            raise _Effect
        for argument, value in _arguments(schema, args, kwargs):
            if isinstance(value, torch.device):
                kwargs[argument.name] = torch.device("meta")
            if value is not None and (argument.name in _STATISTICS or isinstance(value, torch.Generator)):
                raise _Effect
            written = argument.alias_info is not None and argument.alias_info.is_write
            if written and self.is_outside(value):
                raise _Effect
        try:
            return func(*args, **kwargs)
        except Exception:
            if _DATA_TAGS.intersection(func.tags):
                raise _Data(schema.name.partition("::")[2]) from None
            raise


def _make(meta: Any) -> Any:
    if isinstance(meta, (int, float)):
        return meta
    tensor = torch.empty_strided(meta.sizes, meta.strides, dtype=meta.dtype, device="meta")
    tensor = tensor.conj() if meta.flags & _core.META_CONJUGATE else tensor
    return torch._neg_view(tensor) if meta.flags & _core.META_NEGATIVE else tensor


def _fill_in(value: Any, inputs: dict[int, Any]) -> Any:
    """An argument with tensors in place of references, and without devices."""
    kind = type(value)
    if kind is _core.Ref:
        return inputs[value.index]
    if kind is torch.device:
        return torch.device("meta")
    if isinstance(value, torch.Tensor):
        raise _Effect  # a constant with data
    if kind is list or (isinstance(value, tuple) and kind is not torch.Size):
        items = [_fill_in(item, inputs) for item in value]
        return items if kind is list else kind._make(items) if hasattr(value, "_make") else tuple(items)
    if kind is dict:
        return {key: _fill_in(item, inputs) for key, item in value.items()}
    if kind is slice:
        return slice(*(_fill_in(item, inputs) for item in (value.start, value.stop, value.step)))
    return value


def _is_own(target: Any) -> bool:
    """Whether a function is torch's or Python's own: what others have allowed in graphs may do anything."""
    if isinstance(target, (torch._ops.OpOverload, torch._ops.OpOverloadPacket)):
        name: str = target._name if isinstance(target, torch._ops.OpOverload) else target._qualified_op_name
        return (
            "c10d" not in name.partition("::")[0]
        )  # the operator itself is looked at; others wait for collectives
    module = getattr(target, "__module__", None)
    if not isinstance(module, str):
        return not hasattr(target, "__code__") and type(target).__module__ == "builtins"
    return module == "torch" or module.startswith("torch.") or module in ("_operator", "math", "builtins")


def repeats(
    target: str | Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], metas: dict[int, Any]
) -> bool:
    """Whether an operation can be run once more and leaves nothing else than it left the first time.

    Args:
        target: a function, or the name of a method.
        args: the arguments, with references to nodes in place of tensors.
        kwargs: the same by keyword.
        metas: the metadata of the nodes that are referred to, or their numbers.

    Returns:
        False if it writes to tensors that it is given, draws random numbers, or if that is not known.
    """
    if not isinstance(target, str) and not _is_own(target):
        return False
    try:
        with torch.no_grad():
            inputs = {node: _make(meta) for node, meta in metas.items()}
            tensors = [value for value in inputs.values() if isinstance(value, torch.Tensor)]
            given, named = _fill_in(args, inputs), _fill_in(kwargs, inputs)
            function = getattr(given[0], target) if isinstance(target, str) else target
            if isinstance(target, str):
                given = given[1:]
            with _Watch(tensors):
                function(*given, **named)
    except _Data as error:  # nothing follows if that is all it is
        name = target if isinstance(target, str) else getattr(target, "__name__", "")
        return error.args[0] in (name, "_local_scalar_dense") and not hasattr(target, "__code__")
    except Exception:  # whatever can't be called so
        return False
    return True


@functools.cache
def is_view_in_place(name: str) -> bool:
    """Whether the operator of this name makes its first argument another view of the same memory, as `x.t_()` does."""
    packet = getattr(torch.ops.aten, name, None)
    return packet is not None and any(
        torch.Tag.inplace_view in getattr(packet, overload).tags for overload in packet.overloads()
    )
