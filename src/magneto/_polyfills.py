"""Python functions that do what some C functions do: captured code is led through them in place of those.

A C function runs as one piece: what it calls is seen, but not how it got there, and operands may come in another order.
Where that matters, or where a C function looks into an outside object by itself, the rules name a function here.
The names of variables are those that TorchDynamo's functions of the same kind have: nodes get their names from them.
"""

from __future__ import annotations

import copyreg
import sys
from collections.abc import Callable, Iterable
from typing import Any

import torch


def give_up(what: str) -> None:
    """Stop the capture."""
    raise AssertionError(what)  # never reached: the rules stop before it


def leave_graph(what: str) -> None:
    """Stop the capture; CPython goes on."""


def is_plain(classes: tuple[type, ...]) -> bool:
    """Whether these are Python classes: then dict and slots are all that an object has. The rules run it for real."""
    return all(cls is object or cls.__flags__ & 512 for cls in classes)


_MISSING = object()
_new: Any = copyreg.__newobj__  # type: ignore[attr-defined]
_new_ex: Any = copyreg.__newobj_ex__  # type: ignore[attr-defined]


def sum(iterable: Iterable[Any], /, start: Any = 0) -> Any:
    """`builtins.sum`."""
    if isinstance(start, str):
        raise TypeError("sum() can't sum strings [use ''.join(seq) instead]")
    if isinstance(start, bytes):
        raise TypeError("sum() can't sum bytes [use b''.join(seq) instead]")
    if isinstance(start, bytearray):
        raise TypeError("sum() can't sum bytearray [use b''.join(seq) instead]")
    value = start
    for element in iterable:
        value = value + element
    return value


_FEW = 64


def unwrap(func: Any, *, stop: Callable[[Any], Any] | None = None) -> Any:
    """`inspect.unwrap`, which asks for the recursion limit only if the chain is long: backends change that limit."""
    seen = [func]
    while hasattr(seen[-1], "__wrapped__") and (stop is None or not stop(seen[-1])):
        inner = seen[-1].__wrapped__
        if any(inner is one for one in seen) or (len(seen) >= _FEW and len(seen) >= sys.getrecursionlimit()):
            raise ValueError(f"wrapper loop when unwrapping {func!r}")
        seen.append(inner)
    return seen[-1]


def reduce(function: Callable[[Any, Any], Any], sequence: Iterable[Any], initial: Any = _MISSING, /) -> Any:
    """`functools.reduce`."""
    try:
        iterator = iter(sequence)
    except TypeError:
        raise TypeError("reduce() arg 2 must support iteration") from None
    if initial is _MISSING:
        try:
            value = next(iterator)
        except StopIteration:
            raise TypeError("reduce() of empty iterable with no initial value") from None
    else:
        value = initial
    for element in iterator:
        value = function(value, element)
    return value


def call(obj: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """`operator.call`."""
    return obj(*args, **kwargs)


def group_tensors(
    tensorlistlist: list[list[Any]], with_indices: bool = False
) -> dict[tuple[torch.device, torch.dtype], tuple[list[list[Any]], list[int]]]:
    """`torch._C._group_tensors_by_device_and_dtype`, of lists of which the first is as long as the longest."""
    if type(tensorlistlist) is not list or not tensorlistlist:
        give_up("no list of lists of tensors")
    first = tensorlistlist[0]
    result: dict[Any, Any] = {}
    for tensors in tensorlistlist:
        if type(tensors) is not list or (len(tensors) != 0 and len(tensors) != len(first)):
            give_up("lists of tensors that differ in length")
    for index, tensor in enumerate(first):
        if tensor is None:
            give_up("a list of tensors that starts with None")
        key = (tensor.device, tensor.dtype)
        if key not in result:
            result[key] = ([[] for _ in tensorlistlist], [])
        lists, indices = result[key]
        for place, tensors in enumerate(tensorlistlist):
            if tensors:
                lists[place].append(tensors[index])
        if with_indices:
            indices.append(index)
    return result


def reduce_ex(obj: Any, protocol: int, /) -> Any:
    """`object.__reduce_ex__`, which `copy` is made of."""
    cls: Any = type(obj)
    if cls.__reduce__ is not object.__reduce__:
        return obj.__reduce__()
    if protocol < 2:
        give_up("an old pickle protocol")
    args = None
    if hasattr(cls, "__getnewargs_ex__"):
        args, kwargs = obj.__getnewargs_ex__()
        made: tuple[Any, ...] = (_new, (cls, *args))
        if kwargs:
            made = (_new_ex, (cls, args, kwargs))
    else:
        if hasattr(cls, "__getnewargs__"):
            args = obj.__getnewargs__()
        made = (_new, (cls, *(args or ())))
    is_list, is_dict = isinstance(obj, list), isinstance(obj, dict)
    if cls.__getstate__ is not object.__getstate__:
        state = obj.__getstate__()
    else:
        if args is None and not is_list and not is_dict and not is_plain(cls.__mro__):
            give_up("an object of a C class that tells nobody what it holds")
        state = getstate(obj)
    return (*made, state, iter(obj) if is_list else None, iter(obj.items()) if is_dict else None)


def getstate(obj: Any, /) -> Any:
    """`object.__getstate__`."""
    state = getattr(obj, "__dict__", None) or None
    slots = {}
    for name in copyreg._slotnames(type(obj)):  # type: ignore[attr-defined]
        value = getattr(obj, name, _MISSING)
        if value is not _MISSING:
            slots[name] = value
    return (state, slots) if slots else state


class Unrecorded(torch.profiler.record_function):
    """`torch.profiler.record_function` made by captured code while no profiler runs."""

    def __init__(self, name: str, args: str | None = None) -> None:
        if torch._C._autograd._profiler_enabled():
            give_up("torch.profiler.record_function under a profiler")
        self.name = name
        self.args = args
        self.run_callbacks_on_exit = True
        self.record = None

    def __enter__(self) -> Unrecorded:
        if torch._C._autograd._profiler_enabled():  # by now
            leave_graph("torch.profiler.record_function under a profiler")
            super().__enter__()  # type: ignore[no-untyped-call]
        return self

    def __exit__(self, *exception: Any) -> None:
        if self.record is not None:
            leave_graph("torch.profiler.record_function under a profiler")
            super().__exit__(*exception)
            self.record = None


class Context:
    """What the forward of a `torch.autograd.Function` is given as `ctx` where there will be no backward."""

    saved_tensors = ()

    def __init__(self, needs_input_grad: tuple[bool, ...]) -> None:
        self.needs_input_grad = needs_input_grad

    def save_for_backward(self, *tensors: Any) -> None:
        self.to_save = tensors

    def save_for_forward(self, *tensors: Any) -> None:
        self.saved_for_forward = tensors

    def mark_dirty(self, *args: Any) -> None:
        self.dirty_tensors = args

    def mark_non_differentiable(self, *args: Any) -> None:
        self.non_differentiable = args

    def set_materialize_grads(self, value: bool) -> None:
        self.materialize_grads = value


def _is_among(value: Any, items: Iterable[Any]) -> bool:
    for item in items:  # noqa: SIM110 (no generator in captured code)
        if value is item:
            return True
    return False


def apply_function(cls: Any, *args: Any, **kwargs: Any) -> Any:
    """`torch.autograd.Function.apply` where no gradient can flow: only its forward counts."""
    needs = tuple([isinstance(arg, torch.Tensor) and arg.requires_grad for arg in args])
    if kwargs or (torch.is_grad_enabled() and True in needs):
        give_up("a torch.autograd.Function with a backward")
    if torch.autograd.forward_ad._current_level >= 0:
        give_up("a torch.autograd.Function inside torch.autograd.forward_ad.dual_level")
    apart = cls.setup_context is not torch.autograd.function._SingleLevelFunction.setup_context
    if apart and (cls.forward.__defaults__ or cls.forward.__kwdefaults__):
        give_up("a torch.autograd.Function with default arguments")
    ctx = Context(needs)
    with torch.no_grad():
        if apart:
            output = cls.forward(*args)
            cls.setup_context(ctx, args, output)
        else:
            output = cls.forward(ctx, *args)
    dirty = getattr(ctx, "dirty_tensors", ())
    outputs = output if isinstance(output, tuple) else (output,)
    for value in outputs:
        if isinstance(value, torch.Tensor):
            for arg in args:
                if value is arg and not _is_among(value, dirty):
                    give_up("a torch.autograd.Function that returns what it was given")
    for value in dirty:
        if not _is_among(value, args) or not _is_among(value, outputs):
            give_up("a torch.autograd.Function with another use of mark_dirty")
    return tuple(output) if isinstance(output, tuple) else output
