"""Runs operations of torch's own test database, captured and in eager, and compares all that can be seen of them."""

from __future__ import annotations

import importlib.util
import sys
import types
import unittest
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils import _pytree as pytree

import magneto._runtime  # noqa: F401  sets the core up
from magneto import _core

if (
    importlib.util.find_spec("expecttest") is None
):  # torch's test database imports it, and needs just this name of it
    sys.modules["expecttest"] = types.ModuleType("expecttest")
    sys.modules["expecttest"].TestCase = unittest.TestCase  # type: ignore[attr-defined]

from torch.testing._internal import common_methods_invocations as _database  # noqa: E402


def _without_seed(op: Any, *args: Any, **kwargs: Any) -> Any:
    return op(*args, **kwargs)


_database.wrapper_set_seed = _without_seed  # the random state is compared here, so nothing may set it


@dataclass
class Outcome:
    """What came of one comparison: "captured", "aborted" (`text` says why), "wrong" (`text` says how), "eager" if
    eager itself raises."""

    kind: str
    text: str = ""


@dataclass
class Case:
    """One call to compare: `function(*args, **kwargs)`."""

    name: str
    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    inplace: bool = False


def _copy_tensor(tensor: torch.Tensor, non_leaf: bool) -> torch.Tensor:
    with torch.no_grad():
        if tensor.layout != torch.strided or tensor.is_quantized or tensor.is_nested:
            copy = tensor.detach().clone()
        else:
            copy = torch.empty_strided(
                tensor.shape, tensor.stride(), dtype=tensor.dtype, device=tensor.device
            )
            if 0 in tensor.stride() or tensor.numel() == 0:
                copy = tensor.detach().clone()
            else:
                copy.copy_(tensor)
            if tensor.is_conj():
                copy = copy.conj_physical_().conj()
            if tensor.is_neg():
                copy = torch._neg_view(copy.neg_())
    if type(tensor) is torch.nn.Parameter:
        return torch.nn.Parameter(copy, tensor.requires_grad)
    copy.requires_grad_(tensor.requires_grad)
    if non_leaf and tensor.requires_grad:
        copy = copy.clone()
    return copy


def _fresh(value: Any, non_leaf: bool) -> Any:
    """The same arguments with tensors of their own, shared where they were shared."""
    known: dict[int, torch.Tensor] = {}

    def copy(item: Any) -> Any:
        if isinstance(item, torch.Tensor):
            if id(item) not in known:
                known[id(item)] = _copy_tensor(item, non_leaf)
            return known[id(item)]
        if isinstance(item, torch.Generator):
            return item.clone_state()
        return item

    return pytree.tree_map(copy, value)


def tensors(value: Any) -> list[torch.Tensor]:
    return [item for item in pytree.tree_leaves(value) if isinstance(item, torch.Tensor)]


def _equal(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether two plain tensors have the same values; a NaN is as good as another, and -0.0 is not 0.0."""
    if a.is_complex():
        a, b = torch.view_as_real(a), torch.view_as_real(b)
    if not a.is_floating_point():
        return torch.equal(a, b)
    if a.dtype.itemsize == 1:
        a, b = a.float(), b.float()
    if not torch.allclose(a, b, rtol=0, atol=0, equal_nan=True):
        return False
    return torch.equal(torch.signbit(a) & ~a.isnan(), torch.signbit(b) & ~b.isnan())


def same(left: Any, right: Any, values: bool = True) -> str:
    """How two results differ, or an empty text. Without `values` those of tensors are not compared."""
    if isinstance(left, torch.Tensor) or isinstance(right, torch.Tensor):
        if type(left) is not type(right):
            return f"type {type(left).__name__} is {type(right).__name__}"
        for name in ("dtype", "device", "shape", "layout", "requires_grad", "is_leaf"):
            if getattr(left, name) != getattr(right, name):
                return f"{name} {getattr(left, name)} is {getattr(right, name)}"
        if left.is_conj() != right.is_conj() or left.is_neg() != right.is_neg():
            return "conj or neg bit differs"
        if left.layout == torch.strided and left.stride() != right.stride():
            return f"stride {left.stride()} is {right.stride()}"
        if not values:
            return ""
        a, b = left.detach(), right.detach()
        if left.is_quantized:
            a, b = a.dequantize(), b.dequantize()
        elif left.layout != torch.strided:
            a, b = a.to_dense(), b.to_dense()
        a, b = a.resolve_conj().resolve_neg(), b.resolve_conj().resolve_neg()
        return "" if _equal(a, b) else "value differs"
    if type(left) is not type(right):
        return f"type {type(left).__name__} is {type(right).__name__}"
    if isinstance(left, (list, tuple)):
        if len(left) != len(right):
            return f"length {len(left)} is {len(right)}"
        for a, b in zip(left, right, strict=True):
            text = same(a, b, values)
            if text:
                return text
        return ""
    if isinstance(left, dict):
        if list(left) != list(right):
            return "keys differ"
        return next(filter(None, (same(left[key], right[key], values) for key in left)), "")
    if isinstance(left, float) and left != left and right != right:
        return ""
    if isinstance(left, torch.Generator):
        return "" if torch.equal(left.get_state(), right.get_state()) else "state of a generator"
    return "" if left == right else f"{left!r} is {right!r}"


def _identities(result: Any, given: list[torch.Tensor]) -> list[int]:
    """For each tensor of a result which of the given tensors it is, or -1."""
    return [next((i for i, item in enumerate(given) if item is out), -1) for out in tensors(result)]


def _aliases(result: Any, given: list[torch.Tensor]) -> list[int]:
    """For each tensor of a result with which of the given tensors it shares memory, or -1."""

    def storage(tensor: torch.Tensor) -> int:
        try:
            return tensor.untyped_storage()._cdata if tensor.layout == torch.strided else 0
        except Exception:
            return 0

    numbers = [storage(item) for item in given]
    return [
        next((i for i, number in enumerate(numbers) if number and number == storage(out)), -1)
        for out in tensors(result)
    ]


def _gradients(result: Any, inputs: list[torch.Tensor]) -> list[Any]:
    outputs = [out for out in tensors(result) if out.requires_grad]
    wanted = [item for item in inputs if item.requires_grad]
    if not outputs or not wanted:
        return []
    weights = []
    for out in outputs:
        generator = torch.Generator().manual_seed(7)
        real = torch.rand(out.shape, generator=generator, dtype=torch.float64)
        weights.append(real.to(out.dtype))
    return list(torch.autograd.grad(outputs, wanted, weights, allow_unused=True))


@dataclass
class Run:
    """What was seen of one call."""

    result: Any = None
    error: BaseException | None = None
    gradients: Any = None
    gradient_error: str = ""
    args: Any = None
    random: Any = None
    identities: Any = None
    aliases: Any = None


def run(function: Callable[..., Any], case: Case, backward: Callable[[Any], None] | None = None) -> Run:
    """Call a function with arguments of its own, and then `backward` with the result, or autograd's `grad`."""
    done = Run()
    leaves_args, leaves_kwargs = _fresh((case.args, case.kwargs), False)
    args, kwargs = leaves_args, leaves_kwargs
    if case.inplace:  # a leaf that requires grad can't be written to
        args, kwargs = pytree.tree_map(
            lambda item: item.clone() if isinstance(item, torch.Tensor) and item.requires_grad else item,
            (leaves_args, leaves_kwargs),
        )
    torch.manual_seed(1234)
    given = tensors((args, kwargs))
    leaves = tensors((leaves_args, leaves_kwargs))
    try:
        done.result = function(*args, **kwargs)
    except Exception as error:
        done.error = error
        return done
    done.random = torch.get_rng_state()
    done.identities = _identities(done.result, given)
    done.aliases = _aliases(done.result, given)
    done.args = (args, kwargs)
    try:
        if backward is not None:
            backward(done.result)
            done.gradients = [item.grad for item in leaves]
        else:
            done.gradients = _gradients(done.result, leaves)
    except Exception as error:
        done.gradient_error = type(error).__name__
    return done


def differences(eager: Run, captured: Run, values: bool = True) -> str:
    """How two calls differ, or an empty text. Without `values` those of tensors are not compared."""
    if captured.error is not None:
        return f"raises {captured.error!r}"[:300]
    text = same(captured.result, eager.result, values)
    if text:
        return f"result: {text}"
    text = same(captured.args, eager.args, values)
    if text:
        return f"arguments after the call: {text}"
    if captured.identities != eager.identities:
        return f"identity: {captured.identities} is {eager.identities}"
    if captured.aliases != eager.aliases:
        return f"aliases: {captured.aliases} is {eager.aliases}"
    if not torch.equal(captured.random, eager.random):
        return "random state"
    if captured.gradient_error != eager.gradient_error:
        return f"gradient: raises {captured.gradient_error} not {eager.gradient_error}"
    text = same(captured.gradients, eager.gradients, values)
    return f"gradient: {text}" if text else ""


def compare(case: Case, calls: int = 2, values: bool = True) -> Outcome:
    """Run a case in eager, then captured `calls` times, and compare; without `values` all but those of tensors."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        eager = run(case.function, case)
        if eager.error is not None:
            return Outcome("eager", repr(eager.error)[:200])
        reasons: list[str] = []

        def stopped(reason: str, text: str, detail: Any, where: Any, action: str) -> None:
            place = "" if not where else " at " + where[-1][0].co_qualname
            reasons.append(f"{reason}: {detail}{place}"[:300])

        compiled = _core.Compiled(case.function, None, stopped, fullgraph=True)
        text = ""
        for call in range(calls):
            captured = run(compiled, case)
            text = differences(eager, captured, values)
            if text:
                return Outcome("wrong", f"call {call}: {text}" + (f" ({reasons[0]})" if reasons else ""))
        if reasons:
            return Outcome("aborted", reasons[0])
        if not compiled.entries():
            return Outcome("aborted", "no entry")
        if len(compiled.entries()) > 1:
            return Outcome("wrong", "captured again for the same arguments")
        return Outcome("captured")


def cases(op: Any, dtype: torch.dtype, samples: int, variants: bool = True) -> Iterator[Case]:
    """The cases that an OpInfo gives: the function, and its other forms if `variants`."""
    requires_grad = (
        op.supports_autograd
        and (dtype.is_floating_point or dtype.is_complex)
        and (dtype in op.supported_backward_dtypes("cpu"))
    )
    torch.manual_seed(0)
    for number, sample in enumerate(op.sample_inputs("cpu", dtype, requires_grad=requires_grad)):
        if number >= samples:
            return
        args, kwargs = (sample.input, *sample.args), sample.kwargs
        name = f"{op.name}{'.' + op.variant_test_name if op.variant_test_name else ''} {dtype} #{number}"

        def call(*a: Any, _op: Any = op.op, **k: Any) -> Any:
            return _op(*a, **k)

        yield Case(f"{name} function", call, args, kwargs)
        if not variants:
            continue
        if isinstance(op.method_variant, type(lambda: 0)) or callable(op.method_variant):
            if isinstance(sample.input, torch.Tensor):

                def method(*a: Any, _op: Any = op.method_variant, **k: Any) -> Any:
                    return _op(*a, **k)

                yield Case(f"{name} method", method, args, kwargs)
        if callable(op.inplace_variant) and isinstance(sample.input, torch.Tensor):

            def inplace(*a: Any, _op: Any = op.inplace_variant, **k: Any) -> Any:
                return _op(*a, **k)

            yield Case(f"{name} inplace", inplace, args, kwargs, inplace=True)
        for kind, form in (
            ("operator", op.operator_variant),
            ("inplace operator", op.inplace_operator_variant),
        ):
            if callable(form) and not kwargs and isinstance(sample.input, torch.Tensor):

                def operate(*a: Any, _op: Any = form) -> Any:
                    return _op(*a)

                yield Case(f"{name} {kind}", operate, args, kwargs, inplace="inplace" in kind)
        if op.supports_out and number == 0:
            yield from _out_case(op, name, args, kwargs)


def _out_case(op: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[Case]:
    args, kwargs = pytree.tree_map(
        lambda item: item.detach() if isinstance(item, torch.Tensor) else item, (args, kwargs)
    )
    try:
        expected = op.op(*_fresh(args, False), **_fresh(kwargs, False))
    except Exception:
        return
    if isinstance(expected, torch.Tensor):
        out: Any = torch.empty_like(expected)
    elif isinstance(expected, tuple) and all(isinstance(item, torch.Tensor) for item in expected):
        out = tuple(torch.empty_like(item) for item in expected)
    else:
        return

    def into(*a: Any, out: Any, _op: Any = op.op, **k: Any) -> Any:
        return _op(*a, out=out, **k)

    yield Case(f"{name} out", into, args, {**kwargs, "out": out})


def dtypes(op: Any, wanted: list[torch.dtype]) -> list[torch.dtype]:
    """Those of the wanted dtypes that an operation supports; its first one if it supports none of them."""
    supported = op.supported_dtypes("cpu")
    found = [dtype for dtype in wanted if dtype in supported]
    return found or sorted(supported, key=str)[:1]
