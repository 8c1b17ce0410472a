"""torch.autograd.Function where gradients flow."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable
from torch.utils.checkpoint import checkpoint

from .check import Made, program


def _input(*shape: int) -> torch.Tensor:
    return torch.rand(*shape).requires_grad_()


class Sine(Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> Any:
        ctx.save_for_backward(x)
        return x.sin()

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        (x,) = ctx.saved_tensors
        return grad * x.cos()


@program
def function_saves_an_input() -> Made:
    def f(x: torch.Tensor) -> Any:
        return Sine.apply(x * 2) + x

    return f, [(_input(3),), (_input(3),)], []


class Exp(Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> Any:
        y = x.exp()
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        return grad * ctx.saved_tensors[0]


@program
def function_saves_an_output() -> Made:
    def f(x: torch.Tensor) -> Any:
        return Exp.apply(x) * x

    return f, [(_input(3),)], []


class Round(Function):
    """A straight-through estimator."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, steps: int) -> Any:
        ctx.steps = steps
        return (x * steps).round() / steps

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        return grad.clone(), None


@program
def function_straight_through() -> Made:
    layer = nn.Linear(3, 3)

    def f(x: torch.Tensor) -> Any:
        return nn.functional.linear(x, Round.apply(layer.weight, 4), layer.bias)

    return f, [(_input(2, 3),)], layer.parameters()


class FakeQuantise(Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, scale: torch.Tensor, low: int, high: int) -> Any:
        q = (x / scale).round()
        inside = (q >= low) & (q <= high)
        ctx.save_for_backward(inside, scale)
        return q.clamp(low, high) * scale

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        inside, scale = ctx.saved_tensors
        return grad * inside, (grad * scale).sum().reshape(1), None, None


@program
def function_quantisation() -> Made:
    scale = nn.Parameter(torch.tensor([0.1]))

    def f(x: torch.Tensor) -> Any:
        return FakeQuantise.apply(x, scale, -3, 3).sum(-1)

    return f, [(_input(4, 3),)], [scale]


class Two(Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, w: torch.Tensor, k: float) -> Any:
        ctx.save_for_backward(x, w)
        ctx.k = k
        y = x.sin()
        ctx.y = y
        return y * w * k, y.exp()

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor, h: torch.Tensor) -> Any:
        x, w = ctx.saved_tensors
        return g * x.cos() * w * ctx.k + h, g * ctx.y, None


@program
def function_two_outputs() -> Made:
    weight = nn.Parameter(torch.rand(3))

    def f(x: torch.Tensor) -> Any:
        a, b = Two.apply(x, weight * 2, 3.0)
        return a + b * weight

    return f, [(_input(3),)], [weight]


@program
def function_one_output_unused() -> Made:
    weight = nn.Parameter(torch.rand(3))

    def f(x: torch.Tensor) -> Any:
        return Two.apply(x, weight, 3.0)[0].sum()

    return f, [(_input(3),)], [weight]


class Apart(Function):
    @staticmethod
    def forward(x: torch.Tensor, w: torch.Tensor) -> Any:  # type: ignore[override]
        return x * w + x

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        x, w = ctx.saved_tensors
        return grad * w + grad, grad * x


@program
def function_setup_context() -> Made:
    weight = nn.Parameter(torch.rand(3))

    def f(x: torch.Tensor) -> Any:
        return Apart.apply(x, weight).sin()

    return f, [(_input(3),)], [weight]


class Once(Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> Any:
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        return grad * 2 * ctx.saved_tensors[0]


@program
def function_once_differentiable() -> Made:
    def f(x: torch.Tensor) -> Any:
        return Once.apply(x).sin()

    return f, [(_input(3),)], []


class TopTwo(Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> Any:
        values, places = x.topk(2)
        ctx.mark_non_differentiable(places)
        ctx.save_for_backward(places)
        ctx.size = x.shape[-1]
        return values, places

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor, _: Any) -> Any:
        (places,) = ctx.saved_tensors
        return grad.new_zeros(*grad.shape[:-1], ctx.size).scatter(-1, places, grad)


@program
def function_non_differentiable() -> Made:
    def f(x: torch.Tensor) -> Any:
        values, places = TopTwo.apply(x * 2)
        return values.sin(), places

    return f, [(_input(2, 5),)], []


class Some(Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, w: torch.Tensor) -> Any:
        ctx.save_for_backward(x, w)
        return x * w

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        x, w = ctx.saved_tensors
        return grad * w if ctx.needs_input_grad[0] else None, grad * x if ctx.needs_input_grad[1] else None


@program
def function_needs_input_grad() -> Made:
    def f(x: torch.Tensor, w: torch.Tensor) -> Any:
        return Some.apply(x, w)

    return f, [(_input(3), torch.rand(3)), (torch.rand(3), _input(3)), (_input(3), _input(3))], []


class CrossEntropy(Function):
    """A fused loss, as training libraries write it: the gradient is computed in the forward."""

    @staticmethod
    def forward(ctx: Any, hidden: torch.Tensor, weight: torch.Tensor, target: torch.Tensor) -> Any:
        logits = hidden @ weight.t()
        chance = logits.softmax(-1)
        loss = -logits.log_softmax(-1).gather(1, target[:, None]).mean()
        chance = chance - nn.functional.one_hot(target, weight.shape[0])
        chance = chance / hidden.shape[0]
        ctx.save_for_backward(chance @ weight, chance.t() @ hidden)
        return loss

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        for_hidden, for_weight = ctx.saved_tensors
        return grad * for_hidden, grad * for_weight, None


@program
def function_fused_loss() -> Made:
    body, head = nn.Linear(3, 4), nn.Linear(4, 5, bias=False)

    def f(x: torch.Tensor, target: torch.Tensor) -> Any:
        return CrossEntropy.apply(body(x), head.weight, target)

    return f, [(_input(6, 3), torch.arange(6) % 5)], [*body.parameters(), *head.parameters()]


@program
def function_nested() -> Made:
    class Outer(Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> Any:
            ctx.save_for_backward(x)
            return Sine.apply(x) * 2

        @staticmethod
        def backward(ctx: Any, grad: torch.Tensor) -> Any:
            return 2 * grad * ctx.saved_tensors[0].cos()

    def f(x: torch.Tensor) -> Any:
        return Outer.apply(Sine.apply(x))

    return f, [(_input(3),)], []


@program
def function_in_module() -> Made:
    class Swish(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return Sine.apply(x) * x

    net = nn.Sequential(nn.Linear(3, 4), Swish(), nn.Linear(4, 2), Swish())
    return net, [(_input(2, 3),)], net.parameters()


@program
def function_in_loop() -> Made:
    def f(x: torch.Tensor) -> Any:
        for _ in range(3):
            x = Exp.apply(x * 0.5)
        return x

    return f, [(_input(3),)], []


@program
def function_class_method() -> Made:
    class Scaled(Function):
        scale = 3.0

        @classmethod
        def _scaled(cls, x: torch.Tensor) -> torch.Tensor:
            return x * cls.scale

        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> Any:
            return Scaled._scaled(x)

        @staticmethod
        def backward(ctx: Any, grad: torch.Tensor) -> Any:
            return Scaled._scaled(grad)

    def f(x: torch.Tensor) -> Any:
        return Scaled.apply(x)

    return f, [(_input(3),)], []


@program
def function_unused_input() -> Made:
    class First(Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor, y: torch.Tensor) -> Any:
            return x * 2

        @staticmethod
        def backward(ctx: Any, grad: torch.Tensor) -> Any:
            return grad * 2, None

    def f(x: torch.Tensor, y: torch.Tensor) -> Any:
        return First.apply(x, y * 2) + y

    return f, [(_input(3), _input(3))], []


@program
def function_without_gradients() -> Made:
    def f(x: torch.Tensor) -> Any:
        with torch.no_grad():
            y = Sine.apply(x)
        return y * x + Sine.apply(x.detach())

    return f, [(_input(3),)], []


@program
def function_dtypes() -> Made:
    class Half(Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor, dtype: torch.dtype) -> Any:
            ctx.before = x.dtype
            return x.to(dtype)

        @staticmethod
        def backward(ctx: Any, grad: torch.Tensor) -> Any:
            return grad.to(ctx.before), None

    def f(x: torch.Tensor) -> Any:
        return Half.apply(x * 2, torch.float64).sin()

    return f, [(_input(3),)], []


@program
def function_in_checkpoint() -> Made:
    def f(x: torch.Tensor) -> Any:
        return checkpoint(lambda x: Sine.apply(x).exp(), x * 2, use_reentrant=False)

    return f, [(_input(3),)], []
