"""Tensors of classes that wrap other tensors (`__torch_dispatch__`): instances around FakeTensors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode, is_traceable_wrapper_subclass

from magneto import _control


class _Asked(Exception):
    """A wrapper has code of its own that tells its sizes."""


class _Sizes(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Sees whether the sizes of a tensor are told by code in Python."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise _Asked


def is_wrapper(value: Any) -> bool:
    """Whether a tensor wraps others, and tells which."""
    return type(value) is not FakeTensor and is_traceable_wrapper_subclass(value)


def parts(tensor: Any) -> Iterator[tuple[str, Any]]:
    """The tensors that a wrapper holds, with the names of their attributes."""
    for name in tensor.__tensor_flatten__()[0]:
        yield name, getattr(tensor, name)


def leaves(tensor: Any) -> Iterator[torch.Tensor]:
    """The plain tensors in a wrapper, and in those that it holds; a plain tensor itself."""
    if not is_wrapper(tensor):
        yield tensor
        return
    for _, part in parts(tensor):
        yield from leaves(part)


def storages(tensor: Any) -> set[int]:
    """The storages of a tensor, or of what it wraps."""
    return {leaf.untyped_storage()._cdata for leaf in leaves(tensor)}


def is_fake(value: Any) -> bool:
    """Whether a tensor is a FakeTensor, or a wrapper with nothing but these in it."""
    return all(isinstance(leaf, FakeTensor) for leaf in leaves(value))


def why_not(tensor: Any) -> str | None:
    """Why a wrapper can't be captured; None if it can."""
    cls = type(tensor)
    if not is_wrapper(tensor):
        return cls.__name__
    if not _control.is_traced_class(cls):
        return f"{cls.__name__}, which is among nontraceable_tensor_subclasses"
    if (
        tensor.is_nested
        or tensor.layout is not torch.strided
        or cls.__module__.startswith("torch.distributed")
    ):
        return cls.__name__
    try:
        with _Sizes():  # type: ignore[no-untyped-call]
            (*tensor.shape, *tensor.stride(), tensor.storage_offset())
    except _Asked:
        return f"{cls.__name__}, whose sizes are told by code of its own"
    for name, part in parts(tensor):
        if vars(tensor).get(name) is not part or not isinstance(part, torch.Tensor):
            return f"{cls.__name__}, whose {name} is not in its dict"
        inner = type(part) not in (torch.Tensor, torch.nn.Parameter)
        if inner and (why := why_not(part)) is not None:
            return f"{cls.__name__} of {why}"
    return None


def make_fake(tensor: Any, mode: FakeTensorMode) -> Any:
    """An instance of the same class around FakeTensors."""
    fake = mode.from_tensor(tensor, static_shapes=True)
    describer = mode.fake_tensor_converter.meta_converter.describer
    describer.lookup_tensor.clear()  # weak references, which programs see
    describer.lookup_storage.clear()
    if type(fake) is not type(tensor) or not is_fake(fake):
        raise NotImplementedError(f"a {type(fake).__name__} for a {type(tensor).__name__}")
    return fake
