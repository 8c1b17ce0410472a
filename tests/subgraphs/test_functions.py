"""torch.autograd.Function that is no graph: one break, results and gradients as eager's. And what is noticed of it."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.autograd import Function
from torch.utils import _pytree as pytree

import magneto

pytestmark = pytest.mark.filterwarnings("ignore")

seen: list[str] = []


class Dirty(Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> Any:
        x.mul_(2)
        ctx.mark_dirty(x)
        return x

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        return grad * 2


class Same(Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> Any:
        return x

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        return grad * 3


class View(Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> Any:
        return x.view(-1)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        return grad.view(3)


class Effects(Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> Any:
        seen.append("forward")
        return x * 2

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        seen.append("backward")
        return grad * 2


class EffectsBackward(Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> Any:
        return x * 2

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        seen.append("backward")
        return grad * 2


class OnData(Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> Any:
        return x * 2

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        return grad * 2 if bool(grad.sum() > 0) else grad * 5


class NoMaterial(Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> Any:
        ctx.set_materialize_grads(False)
        return x * 2, x * 3

    @staticmethod
    def backward(ctx: Any, one: Any, other: Any) -> Any:
        return (0 if one is None else one * 2) + (7 if other is None else other * 3)


class InPlaceOnGradient(Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> Any:
        return x * 2

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        return grad.clone().mul_(2)


class WrongCount(Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> Any:
        return x * 2

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        return grad, grad


class Raises(Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> Any:
        raise KeyError("forward")


def _outcome(function: Callable[..., Any]) -> Any:
    seen.clear()
    x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    try:
        result = function(x)
        first = result[0] if isinstance(result, tuple) else result
        (grad,) = torch.autograd.grad(first.sum(), x)
    except Exception as error:
        return type(error).__name__, list(seen)
    return pytree.tree_map(torch.Tensor.detach, result), grad, list(seen)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize(
    "cls",
    [Dirty, Same, View, Effects, EffectsBackward, OnData, NoMaterial, InPlaceOnGradient, WrongCount, Raises],
)
def test_as_eager(cls: type[Function], backend: str) -> None:
    def f(x: torch.Tensor) -> Any:
        y = cls.apply(x * 1)
        return y if isinstance(y, tuple) else y.sin()

    expected = _outcome(f)
    compiled = magneto.compile(f, backend=backend)
    for _ in range(2):
        assert str(_outcome(compiled)) == str(expected)


def test_one_tensor_twice() -> None:
    class Product(Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor, y: torch.Tensor) -> Any:
            ctx.save_for_backward(x, y)
            return x * y

        @staticmethod
        def backward(ctx: Any, grad: torch.Tensor) -> Any:
            x, y = ctx.saved_tensors
            return grad * y, grad * x

    def f(x: torch.Tensor) -> Any:
        return Product.apply(x, x)

    x = torch.rand(3, requires_grad=True)
    compiled = magneto.compile(f, backend="eager")
    torch.testing.assert_close(torch.autograd.grad(compiled(x).sum(), x), torch.autograd.grad(f(x).sum(), x))


def test_what_the_backward_reads_is_guarded() -> None:
    class Scale(Function):
        factor = 2.0

        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> Any:
            return x * 1

        @staticmethod
        def backward(ctx: Any, grad: torch.Tensor) -> Any:
            return grad * Scale.factor

    def f(x: torch.Tensor) -> Any:
        return Scale.apply(x)

    compiled = magneto.compile(f, backend="eager", fullgraph=True)
    x = torch.rand(3, requires_grad=True)
    assert torch.autograd.grad(compiled(x).sum(), x)[0].tolist() == [2.0] * 3
    Scale.factor = 5.0
    assert torch.autograd.grad(compiled(x).sum(), x)[0].tolist() == [5.0] * 3


def test_saved_tensors_are_checked_for_writes() -> None:
    class Square(Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> Any:
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx: Any, grad: torch.Tensor) -> Any:
            return grad * 2 * ctx.saved_tensors[0]

    def f(x: torch.Tensor) -> Any:
        return Square.apply(x)

    for function in (f, magneto.compile(f, backend="eager", fullgraph=True)):
        leaf = torch.rand(3, requires_grad=True)
        x = leaf * 2
        result = function(x)
        x.add_(1)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            result.sum().backward()


def test_nothing_outlives_the_graph() -> None:
    class Keep(Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> Any:
            y = x.exp()
            ctx.save_for_backward(y)
            return y

        @staticmethod
        def backward(ctx: Any, grad: torch.Tensor) -> Any:
            return grad * ctx.saved_tensors[0]

    compiled = magneto.compile(lambda x: Keep.apply(x), backend="eager", fullgraph=True)
    x = torch.rand(3, requires_grad=True)
    for _ in range(3):
        result = compiled(x)
        ref = weakref.ref(result)
        del result
        gc.collect()
        assert ref() is None
