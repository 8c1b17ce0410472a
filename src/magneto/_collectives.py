"""Collectives of torch.distributed in captured code.

Process groups are known by their identity, and what they are called, their ranks and sizes are constants. A collective
that writes to a tensor becomes the functional operator, which returns its result, and a copy, as TorchDynamo has it.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.distributed import distributed_c10d as c10d

from magneto._polyfills import give_up

_ops = torch.ops._c10d_functional
_all_reduce, _broadcast, _wait = _ops.all_reduce.default, _ops.broadcast.default, _ops.wait_tensor.default
_gather, _scatter = _ops.all_gather_into_tensor.default, _ops.reduce_scatter_tensor.default

GROUP_TYPES: tuple[type, ...] = (c10d.ProcessGroup, c10d.ReduceOp, c10d.ReduceOp.RedOpType)

_REDUCTIONS = ("SUM", "AVG", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR")


def facts(group: Any) -> tuple[str, int, int] | None:
    """Of a process group its name, the rank in it and its size. A constant of captured code."""
    if type(group) is not c10d.ProcessGroup:
        return None
    return str(group.group_name), int(group.rank()), int(group.size())


def reduction(op: Any) -> str:
    """The name of a reduction for functional operators; none if they do not know it. A constant of captured code."""
    for name in _REDUCTIONS:
        if op is getattr(c10d.ReduceOp, name):
            return name.lower()
    return ""


CONSTANTS = (facts, reduction)


def _of(group: Any) -> tuple[str, int, int]:
    if group is None:
        group = c10d._world._default_pg
        if group is None:
            give_up("a process group that has not been initialized")
    found = facts(group)
    if found is None:
        give_up("a process group of another kind")
        raise AssertionError
    return found


def is_initialized() -> bool:
    return c10d._world._default_pg is not None


def get_rank(group: Any = None) -> int:
    return _of(group)[1]


def get_world_size(group: Any = None) -> int:
    return _of(group)[2]


def group_name(group: Any) -> Any:
    """`_group_or_group_name` of the functional collectives."""
    return group if isinstance(group, str) else _of(group)[0]


def _check(async_op: bool, *tensors: Any) -> None:
    if async_op:
        give_up("an asynchronous collective")
    for tensor in tensors:
        if not isinstance(tensor, torch.Tensor):
            give_up("a collective of what is no tensor")
        if tensor.requires_grad:
            give_up("a collective of a tensor that requires grad")
        if tensor.is_complex() or not tensor.is_contiguous():
            give_up("a collective of a tensor that is complex, or not contiguous")


def _reduction(op: Any) -> str:
    found = reduction(op)
    if not found:
        give_up("a collective with a reduction of another kind")
    return found


def all_reduce(tensor: Any, op: Any = c10d.ReduceOp.SUM, group: Any = None, async_op: bool = False) -> None:
    _check(async_op, tensor)
    found = _all_reduce(tensor, _reduction(op), _of(group)[0])
    tensor.copy_(_wait(found))


def broadcast(
    tensor: Any, src: Any = None, group: Any = None, async_op: bool = False, group_src: Any = None
) -> None:
    _check(async_op, tensor)
    if group is not None or group_src is not None or src is None:
        give_up("a broadcast in a group")  # whose ranks are others
    found = _broadcast(tensor, src, _of(group)[0])
    tensor.copy_(_wait(found))


def all_gather_into_tensor(
    output_tensor: Any, input_tensor: Any, group: Any = None, async_op: bool = False
) -> None:
    _check(async_op, output_tensor, input_tensor)
    name, _, size = _of(group)
    found = _wait(_gather(input_tensor, size, name))
    if output_tensor.dtype != input_tensor.dtype or found.numel() != output_tensor.numel():
        give_up("a collective whose tensors do not fit")
    output_tensor.copy_(found.view(output_tensor.shape))


def reduce_scatter_tensor(
    output: Any, input: Any, op: Any = c10d.ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> None:
    _check(async_op, output, input)
    name, _, size = _of(group)
    if output.dtype != input.dtype or input.dim() == 0 or output.numel() * size != input.numel():
        give_up("a collective whose tensors do not fit")
    if output.dim() != input.dim() or input.shape[0] != output.shape[0] * size:
        give_up("a collective whose tensors have other shapes")
    output.copy_(_wait(_scatter(input, _reduction(op), size, name)))


def all_gather(tensor_list: Any, tensor: Any, group: Any = None, async_op: bool = False) -> None:
    _check(async_op, tensor, *tensor_list)
    name, _, size = _of(group)
    if len(tensor_list) != size:
        give_up("a collective whose tensors do not fit")
    for one in tensor_list:
        if one.dtype != tensor.dtype or one.shape != tensor.shape:
            give_up("a collective whose tensors do not fit")
    flat = tensor.view(-1)
    rows = _wait(_gather(flat, size, name)).view(size, *tensor.shape)
    for index, one in enumerate(tensor_list):
        one.copy_(rows[index])


# What captured code is led through in place of torch's functions; at a break, torch's are called whole.
COLLECTIVES: dict[Any, Any] = {
    c10d.all_reduce: all_reduce,
    c10d.broadcast: broadcast,
    c10d.all_gather_into_tensor: all_gather_into_tensor,
    c10d.reduce_scatter_tensor: reduce_scatter_tensor,
    c10d.all_gather: all_gather,
    c10d.is_initialized: is_initialized,
    c10d.get_rank: get_rank,
    c10d.get_world_size: get_world_size,
}
