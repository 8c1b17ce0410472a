"""Every attribute of torch.Tensor, read or called by captured code and in eager, on tensors of many kinds.

Compared are the value or the error, what captured code reads of the metadata of the result and of the tensor, before and
behind a break, and what is seen of both outside. By default each attribute is tried on one kind, another for each name; with
MAGNETO_SWEEP=1 on all of them, and with more arguments.
"""

from __future__ import annotations

import inspect
import os
import re
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import magneto

SWEEP = os.environ.get("MAGNETO_SWEEP") == "1"
KINDS_EACH, CALLS_EACH, STEP = (1000, 2, 1) if SWEEP else (1, 1, 6)
SHARDS = 16
ADDRESS = re.compile("0x[0-9a-f]+")


class Sub(torch.Tensor):
    """A subclass that adds nothing."""


def base() -> torch.Tensor:
    return torch.arange(6.0).reshape(2, 3) + 1


def complex_one() -> torch.Tensor:
    return torch.complex(base(), base())


def leaf() -> torch.Tensor:
    return base().requires_grad_()


def inference() -> torch.Tensor:
    with torch.inference_mode():
        return base()


# What is given to captured code, and what it makes of that first.
KINDS: dict[str, tuple[Callable[[], torch.Tensor], str]] = {
    "plain": (base, ""),
    "permuted": (lambda: base().t(), ""),
    "expanded": (lambda: torch.ones(1, 3).expand(2, 3), ""),
    "empty": (lambda: torch.empty(0, 3), ""),
    "no dimensions": (lambda: torch.tensor(2.0), ""),
    "int64": (lambda: torch.arange(6).reshape(2, 3), ""),
    "bool": (lambda: torch.tensor([[True, False, True], [False, True, True]]), ""),
    "uint8": (lambda: torch.arange(6, dtype=torch.uint8).reshape(2, 3), ""),
    "complex": (complex_one, ""),
    "conjugate": (lambda: complex_one().conj(), ""),
    "negative": (lambda: complex_one().conj().imag, ""),
    "leaf": (leaf, ""),
    "non-leaf": (lambda: leaf() * 2, ""),
    "view of a leaf": (lambda: leaf()[0:2], ""),
    "view": (lambda: torch.arange(12.0).reshape(4, 3)[1:3], ""),
    "parameter": (lambda: nn.Parameter(base()), ""),
    "buffer": (lambda: nn.Buffer(base()), ""),
    "float64": (lambda: base().double(), ""),
    "float16": (lambda: base().half(), ""),
    "float8": (lambda: base().to(torch.float8_e4m3fn), ""),
    "uint16": (lambda: torch.arange(6).reshape(2, 3).to(torch.uint16), ""),
    "sparse": (lambda: base().to_sparse(), ""),
    "csr": (lambda: base().to_sparse_csr(), ""),
    "quantised": (lambda: torch.quantize_per_tensor(base(), 0.5, 1, torch.quint8), ""),
    "meta": (lambda: torch.ones(2, 3, device="meta"), ""),
    "subclass": (lambda: base().as_subclass(Sub), ""),
    "inference": (inference, ""),
    "square": (lambda: torch.arange(9.0).reshape(3, 3), ""),
    "channels last": (
        lambda: torch.arange(24.0).reshape(1, 2, 3, 4).to(memory_format=torch.channels_last),
        "",
    ),
    "one number": (lambda: torch.tensor([3]), ""),
    "made: new": (base, "x = x + 1"),
    "made: a view": (base, "x = x[1:]"),
    "made: with history": (leaf, "x = x * 2"),
    "made: a view of a leaf": (leaf, "x = x[1:]"),
    "made: detached": (leaf, "x = x.detach()"),
    "made: conjugate": (complex_one, "x = x.conj()"),
    "made: negative": (complex_one, "x = x.conj().imag"),
    "made: quantised": (base, "x = torch.quantize_per_tensor(x, 0.5, 1, torch.quint8)"),
    "made: sparse": (base, "x = x.to_sparse()"),
    "made: on meta": (base, "x = x.to('meta')"),
    "made: int64": (base, "x = x.long()"),
    "made: written to": (base, "x = x.clone(); x.add_(1); x.mul_(2)"),
    "written to": (base, "x.add_(1)"),
    "made: transposed in place": (base, "x = x.clone().t_()"),
    "made: a view without gradients": (leaf, "with torch.no_grad(): x = x[1:]"),
    "made: a leaf": (base, "x = torch.ones(2, 3, requires_grad=True)"),
    "made: data": (leaf, "x = x.data"),
    "made: one of several": (leaf, "x = x.unbind(0)[1]"),
    "made: float8": (base, "x = x.to(torch.float8_e5m2)"),
    "made: in inference mode": (base, "with torch.inference_mode(): x = x + 1"),
    "made: a subclass": (base, "x = x.as_subclass(Sub)"),
    "made: a parameter": (base, "x = nn.Parameter(x)"),
    "made: of numbers": (base, "x = torch.tensor([1.0, 2.0])"),
    "made: a sum": (base, "x = x.sum()"),
    "made: retains grad": (leaf, "x = x * 2; x.retain_grad()"),
    "made: zeros": (base, "x = torch._efficientzerotensor((2, 3))"),
    "made: nested": (base, "x = torch.nested.nested_tensor([x[0], x[1]])"),
    "made: expanded": (base, "x = x.sum(0).expand(2, 3)"),
}


def ones(x: torch.Tensor, *sizes: int) -> torch.Tensor:
    return torch.ones(sizes or tuple(x.shape), dtype=x.dtype)


def zeros(x: torch.Tensor) -> torch.Tensor:
    return torch.zeros(tuple(x.shape), dtype=torch.long)


def mask(x: torch.Tensor) -> torch.Tensor:
    return torch.ones(tuple(x.shape), dtype=torch.bool)


# Arguments that may do: those that eager takes are used.
ARGUMENTS: list[Callable[[torch.Tensor], tuple[Any, ...]]] = [
    lambda x: (),
    lambda x: (0,),
    lambda x: (1,),
    lambda x: (2.0,),
    lambda x: (x,),
    lambda x: (ones(x),),
    lambda x: (torch.float64,),
    lambda x: (True,),
    lambda x: ("cpu",),
    lambda x: (torch.contiguous_format,),
    lambda x: (0, 1),
    lambda x: (-1, 1),
    lambda x: (3, 2),
    lambda x: ((6,),),
    lambda x: (x.shape,),
    lambda x: (zeros(x),),
    lambda x: (mask(x),),
    lambda x: (mask(x), 1),
    lambda x: (mask(x), ones(x)),
    lambda x: (0, torch.tensor([0])),
    lambda x: (0, torch.tensor([0]), 1),
    lambda x: (0, zeros(x), ones(x)),
    lambda x: (0, zeros(x)),
    lambda x: (0, torch.tensor([0]), ones(x, 1, *x.shape[1:])),
    lambda x: (0, zeros(x), ones(x), "sum"),
    lambda x: (ones(x), ones(x)),
    lambda x: (ones(x), 0.5),
    lambda x: (0, 0, 1),
    lambda x: (0.5, 0),
    lambda x: (ones(x, *tuple(x.shape)[::-1]),),
    lambda x: (ones(x, x.shape[-1]),),
    lambda x: (ones(x, x.shape[0], 4), ones(x, 4, x.shape[1])),
    lambda x: ((2, 2), (1, 1)),
    lambda x: ((0,), (0,)),
    lambda x: ("torch.DoubleTensor",),
    lambda x: (lambda *args: args[0],),
    lambda x: ("shape",),
    lambda x: ([torch.zeros(1, dtype=torch.long)], ones(x, 1)),
    lambda x: ((0, 0), 1),
    lambda x: (slice(0, 1),),
    lambda x: ("",),
    lambda x: (0, (2, 1)),
    lambda x: ([1, 1],),
    lambda x: (-1,),
]

DESCRIBE = """
def look(r, x):
    if isinstance(r, (tuple, list)):
        return [type(r), [look(item, x) for item in r]]
    if not isinstance(r, torch.Tensor):
        return type(r)
    return [
        type(r), r.shape, r.dtype, r.device, r.layout, r.requires_grad, r.is_leaf, r is x, r.is_conj(), r.is_neg(), r.ndim,
        r.numel(), r.itemsize, r.is_quantized, r.is_sparse, r.is_meta, r.is_complex(), r.is_floating_point(), r.dim(),
        r.is_nested, r.element_size(), None if r.is_nested or r.layout is not torch.strided else r.stride(),
    ]
def look_closely(r, x):
    if isinstance(r, (tuple, list)):
        return [look_closely(item, x) for item in r]
    if not isinstance(r, torch.Tensor):
        return None
    found = [
        r._is_view(), type(r.grad_fn).__name__, r.output_nr, r._base is x, r._base is None, r.is_inference(),
        -1 if r.is_inference() else r._version, r.retains_grad, r.type(),
    ]
    if r.layout is torch.strided and not r.is_nested:
        found += [r.is_contiguous(), r.storage_offset(), r.untyped_storage().nbytes(), r.nbytes]
    return found
"""


# Names whose results are whatever their memory held: what is in them is not compared.
UNINITIALISED = ("empty", "resize", "new")


def plain(value: Any, name: str = "") -> Any:
    """What method `name` has made of a tensor, or any value, in a form that can be compared."""
    if isinstance(value, torch.Tensor):
        strided = value.layout is torch.strided and not value.is_nested
        has_data = strided and not value.is_quantized and not value.is_meta
        is_compared = not any(word in name for word in UNINITIALISED)
        try:
            content = repr(value.detach().tolist() if has_data else value) if is_compared else ""
        except Exception as error:
            content = repr(error)
        return (
            type(value), ADDRESS.sub("", content), value.dtype, None if value.is_nested else value.shape,
            value.stride() if strided else None, value.storage_offset() if strided else None, value.device,
            value.requires_grad, value.is_leaf, type(value.grad_fn).__name__, value.is_conj(), value.is_neg(),
            value._is_view(), -1 if value.is_inference() else value._version, value.output_nr, value.retains_grad,
        )  # fmt: skip
    if isinstance(value, (list, tuple)):
        return type(value), [plain(item, name) for item in value]
    if isinstance(value, np.ndarray):
        return value.dtype, value.shape, value.strides, value.tolist()
    if isinstance(value, (torch.UntypedStorage, torch.TypedStorage)):
        return type(value), len(value)
    return type(value), ADDRESS.sub("", repr(value))[:300]


def run(
    function: Callable[..., Any],
    make: Callable[[], torch.Tensor],
    arguments: Callable[..., Any],
    name: str = "",
) -> Any:
    torch.manual_seed(3)
    x = make()
    try:
        args = arguments(x)
    except Exception:
        return None
    try:
        result = function(x, args)
    except Exception as error:
        return False, type(error), ADDRESS.sub("", str(error)), plain(x)
    return True, plain(result, name), plain(x, name), plain(args, name), torch.rand(1).item()


# Attributes that tell of the process or of addresses, and what can't be called so.
LEFT_OUT = frozenset((
    "__init_subclass__", "__subclasshook__", "__class__", "__new__", "__init__", "__dict__", "__weakref__", "__module__",
    "__doc__", "__del__", "__delattr__", "__setattr__", "__sizeof__", "__dir__", "__hash__", "_cdata", "_backward_hooks",
    "data_ptr", "const_data_ptr", "is_pinned", "pin_memory", "cuda", "hpu", "ipu", "xpu", "mtia", "__dlpack__", "_make_dtensor",
))  # fmt: skip
NAMES = sorted(name for name in dir(torch.Tensor) if name not in LEFT_OUT)


def ends_the_process(name: str, kind: str) -> bool:
    """Whether eager crashes: private operators look at nothing."""
    return ("quantised" in kind and name.startswith("_")) or (name == "apply_" and kind == "made: zeros")


def program(name: str, kind: str, is_called: bool) -> Callable[..., Any]:
    space: dict[str, Any] = {"torch": torch, "nn": nn, "Sub": Sub}
    exec(DESCRIBE, space)
    lines = [*filter(None, KINDS[kind][1].split("; ")), f"r = x.{name}{'(*args)' if is_called else ''}"]
    lines.append("return r, look(r, x), look(x, x), look_closely(r, x), look_closely(x, x)")
    exec("def f(x, args):\n" + "".join(f"    {line}\n" for line in lines), space)
    return space["f"]


def differences(name: str, kind: str, counts: list[int]) -> list[str]:
    static = inspect.getattr_static(torch.Tensor, name, None)
    is_called = callable(static) or isinstance(static, (staticmethod, classmethod))
    make = KINDS[kind][0]
    good, bad, found = 0, 0, []
    for number, arguments in enumerate(ARGUMENTS if is_called else ARGUMENTS[:1]):
        if good >= CALLS_EACH:
            break
        expected = run(program(name, kind, is_called), make, arguments, name)
        if expected is None or expected != run(program(name, kind, is_called), make, arguments, name):
            continue  # there are no such arguments, or eager gives another thing each time
        good += expected[0]
        bad += not expected[0]
        if not expected[0] and bad > 1:
            continue
        compiled = magneto.compile(program(name, kind, is_called), backend="eager")
        counts[0] += 1
        for _ in range(2):
            result = run(compiled, make, arguments, name)
            if result != expected:
                found.append(f"{name} of {kind}, arguments {number}: {result} instead of {expected}")
                break
    return found


@pytest.mark.no_leak_hunt("runs for minutes, and torch keeps caches of its own")
@pytest.mark.parametrize("shard", range(SHARDS))
def test_attributes(shard: int) -> None:
    wrong: list[str] = []
    counts = [0]
    kinds = list(KINDS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for number, name in list(enumerate(NAMES))[shard::SHARDS]:
            start = number * KINDS_EACH
            for kind in dict.fromkeys(
                kinds[(start + i) % len(kinds)] for i in range(min(KINDS_EACH, len(kinds)))
            ):
                if not ends_the_process(name, kind):
                    wrong += differences(name, kind, counts)
    assert wrong == []
    assert counts[0] > 0


FUNCTIONS: list[Callable[[torch.Tensor], Any]] = [
    lambda x: (torch.is_tensor(x), torch.is_storage(x), torch.is_complex(x), torch.is_floating_point(x), torch.is_conj(x)),
    lambda x: (torch.is_neg(x), torch.numel(x), torch.is_same_size(x, x), torch.is_signed(x), torch.is_inference(x)),
    lambda x: (torch.result_type(x, 1), torch.result_type(x, 1.5), torch.result_type(1, x), torch.result_type(x, 1j)),
    lambda x: (torch.can_cast(x.dtype, torch.int32), torch.promote_types(x.dtype, torch.float16)),
    lambda x: (torch.broadcast_shapes(x.shape, (1,)), torch.typename(x), torch.get_default_dtype(), torch._is_zerotensor(x)),
    lambda x: (torch.finfo(torch.float32).eps, torch.iinfo(torch.int8).max, str(torch.finfo(torch.bfloat16)), x.dtype.itemsize),
    lambda x: (x.dtype.is_floating_point, x.dtype.is_complex, x.dtype.is_signed, x.dtype.to_complex(), x.dtype.to_real()),
    lambda x: (torch.is_nonzero(x.flatten()[0]), bool(x.flatten()[0] == x.flatten()[0])),
    lambda x: (torch.get_device_module("cpu").__name__, torch.is_grad_enabled(), torch.is_warn_always_enabled()),
    lambda x: (torch.is_distributed(x), torch.is_vulkan_available(), torch.get_num_threads() > 0),
    lambda x: (x.dim_order(), x.is_contiguous(memory_format=torch.preserve_format), x.is_set_to(x), x.is_same_size(x)),
    lambda x: (x.untyped_storage().size(), x.storage_offset(), x.is_shared(), x.data_ptr() == x.data_ptr(), x.tolist()),
    lambda x: (repr(x), str(x), format(x), f"{x.flatten()[0]}", repr(x.dtype), repr(x.shape), repr(x.device)),
    lambda x: (x.numpy(force=True).strides, np.asarray(x.detach().resolve_conj().resolve_neg()).dtype, x.__array__),
    lambda x: (torch.equal(x, x), torch.allclose(x, x), x.is_nonzero() if x.numel() == 1 else None),
]  # fmt: skip


@pytest.mark.no_leak_hunt("torch keeps caches of its own")
@pytest.mark.parametrize("number", range(len(FUNCTIONS)))
def test_functions_without_tensors_in_their_results(number: int) -> None:
    wrong = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for kind, (make, prelude) in list(KINDS.items())[number % STEP :: STEP]:
            space: dict[str, Any] = {"torch": torch, "nn": nn, "Sub": Sub, "function": FUNCTIONS[number]}
            lines = [*filter(None, prelude.split("; ")), "return function(x)"]
            exec("def f(x, args):\n" + "".join(f"    {line}\n" for line in lines), space)
            expected = run(space["f"], make, lambda x: ())
            compiled = magneto.compile(space["f"], backend="eager")
            for _ in range(2):
                result = run(compiled, make, lambda x: ())
                if result != expected:
                    wrong.append(f"{kind}: {result} instead of {expected}")
                    break
    assert wrong == []
