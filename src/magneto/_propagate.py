"""What an operation gives, from metadata alone: the slow path behind the core's propagation cache."""

from __future__ import annotations

from typing import Any

import torch
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
    FakeTensorMode,
)

from magneto import _core

REQUIRES_GRAD, NON_LEAF, PARAMETER = 1, 2, 4

_mode: FakeTensorMode | None = None


def fake_mode() -> FakeTensorMode:
    """The mode in which all propagation happens."""
    global _mode
    if _mode is None:
        _mode = FakeTensorMode(allow_non_fake_inputs=False)
    return _mode


def _with_history(fake: torch.Tensor) -> torch.Tensor:
    """The same tensor as the result of an operation: it requires grad and is no leaf, nor a view of one."""
    if 0 in fake.stride() and fake.numel() > 1:  # expanded: can't be written to, so what it is a view of does not matter
        return fake.requires_grad_(True).view_as(fake)
    leaf = torch.empty((), dtype=fake.dtype, device=fake.device, requires_grad=True)
    return fake.copy_(leaf)


def make_fake(meta: Any, mode: FakeTensorMode) -> torch.Tensor:
    """A FakeTensor with this metadata."""
    with mode, torch.inference_mode(False), torch.enable_grad():
        fake = torch.empty_strided(meta.sizes, meta.strides, dtype=meta.dtype, device=meta.device)
        if meta.flags & REQUIRES_GRAD:
            if meta.flags & NON_LEAF:
                fake = _with_history(fake)
            else:
                fake.requires_grad_(True)
        if meta.flags & PARAMETER:
            fake._is_param = True  # type: ignore[attr-defined]
    return fake


def meta_of(tensor: torch.Tensor) -> Any:
    """The core's metadata for a tensor."""
    flags = 0
    if tensor.requires_grad:
        flags |= REQUIRES_GRAD
        if not tensor.is_leaf:
            flags |= NON_LEAF
    if getattr(tensor, "_is_param", False):
        flags |= PARAMETER
    if tensor.layout != torch.strided:
        raise _Unsupported(f"layout {tensor.layout}")
    return _core.meta(tensor.dtype, tensor.device, tuple(tensor.shape), tensor.stride(), flags)


class _Unsupported(Exception):
    pass


_PLAIN = (
    int, float, bool, complex, str, bytes, torch.Size, torch.dtype, torch.device, torch.layout, torch.memory_format,
    type(None),
)  # fmt: skip


def _wrap(value: Any, fakes: list[torch.Tensor]) -> Any:
    if isinstance(value, torch.Tensor):
        for index, fake in enumerate(fakes):
            if value is fake:
                return _core.ref(index)
        if not isinstance(value, FakeTensor):
            raise _Unsupported("a tensor with data")
        return meta_of(value)
    if type(value) in _PLAIN:
        return value
    if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
        raise DataDependentOutputException("a value that depends on data")
    if type(value) is list:
        return [_wrap(item, fakes) for item in value]
    if isinstance(value, tuple):
        items = [_wrap(item, fakes) for item in value]
        if type(value) is tuple:
            return tuple(items)
        if hasattr(value, "_make"):
            return type(value)._make(items)
        return type(value)(items)
    raise _Unsupported(f"a result of type {type(value).__name__}")


def propagate(kind: int, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run an operation on FakeTensors.

    Gives (result, changes), or a text that says why the operation can't be captured: `!` first if it depends on
    data, `?` if its result can't be held by a graph, `x` if it raised.
    """
    mode = fake_mode()
    fakes: list[torch.Tensor] = []
    metas: list[Any] = []

    def convert(value: Any) -> Any:
        if type(value) is _core.Meta:
            fake = make_fake(value, mode)
            fakes.append(fake)
            metas.append(value)
            return fake
        if type(value) is list:
            return [convert(item) for item in value]
        if isinstance(value, tuple) and type(value) is not torch.Size:
            items = [convert(item) for item in value]
            return type(value)._make(items) if hasattr(value, "_make") else tuple(items)
        if type(value) is dict:
            return {key: convert(item) for key, item in value.items()}
        if type(value) is slice:
            return slice(convert(value.start), convert(value.stop), convert(value.step))
        return value

    try:
        fake_args = convert(args)
        fake_kwargs = convert(kwargs)
        with mode:
            if kind == 2:
                result = getattr(fake_args[0], target)(*fake_args[1:], **fake_kwargs)
            else:
                result = target(*fake_args, **fake_kwargs)
        wrapped = _wrap(result, fakes)
        changes = []
        for index, (fake, meta) in enumerate(zip(fakes, metas, strict=True)):
            now = meta_of(fake)
            if now is not meta:
                changes.append((index, now))
        return wrapped, tuple(changes)
    except (DataDependentOutputException, DynamicOutputShapeException) as error:
        return f"!{error}"
    except _Unsupported as error:
        return f"?{error}"
    except Exception as error:  # whatever it is, the program gets it by running the operation for real
        return f"x{type(error).__name__}: {error}"
