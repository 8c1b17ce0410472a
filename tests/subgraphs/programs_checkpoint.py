"""torch.utils.checkpoint: both forms, nested, with keywords, with dropout, selective."""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import (
    CheckpointPolicy,
    checkpoint,
    checkpoint_sequential,
    create_selective_checkpoint_contexts,
)

from .check import Made, program


def _input(*shape: int) -> torch.Tensor:
    return torch.rand(*shape).requires_grad_()


def _block(width: int = 4) -> nn.Sequential:
    return nn.Sequential(nn.Linear(width, 8), nn.GELU(), nn.Linear(8, width))


@program
def checkpoint_function() -> Made:
    def f(x: torch.Tensor) -> Any:
        return checkpoint(lambda x: x.sin() * x.exp(), x * 2, use_reentrant=False).cos()

    return f, [(_input(3),), (_input(3),)], []


@program
def checkpoint_module() -> Made:
    block = _block()

    def f(x: torch.Tensor) -> Any:
        return checkpoint(block, x, use_reentrant=False) + x

    return f, [(_input(2, 4),)], block.parameters()


@program
def checkpoint_layers() -> Made:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList([_block() for _ in range(3)])
            self.head = nn.Linear(4, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for layer in self.layers:
                x = x + checkpoint(layer, x, use_reentrant=False)
            return self.head(x)

    net = Net()
    return net, [(_input(2, 4),)], net.parameters()


@program
def checkpoint_keywords() -> Made:
    def body(x: torch.Tensor, *, scale: float, other: torch.Tensor) -> torch.Tensor:
        return x.sin() * scale + other

    def f(x: torch.Tensor) -> Any:
        return checkpoint(body, x, use_reentrant=False, scale=2.0, other=x.exp())

    return f, [(_input(3),)], []


@program
def checkpoint_several_outputs() -> Made:
    def body(x: torch.Tensor) -> Any:
        y = x.sin()
        return {"a": y, "b": (x.cos(), None, 3), "c": [y * 2]}

    def f(x: torch.Tensor) -> Any:
        out = checkpoint(body, x, use_reentrant=False)
        return out["a"] + out["b"][0] * out["b"][2] + out["c"][0]

    return f, [(_input(3),)], []


@program
def checkpoint_returns_what_it_is_given() -> Made:
    def f(x: torch.Tensor) -> Any:
        same, other = checkpoint(lambda x: (x, x * 2), x, use_reentrant=False)
        assert same is x
        return same + other

    return f, [(_input(3),)], []


@program
def checkpoint_one_output_twice() -> Made:
    def body(x: torch.Tensor) -> Any:
        y = x.sin()
        return y, y

    def f(x: torch.Tensor) -> Any:
        a, b = checkpoint(body, x, use_reentrant=False)
        assert a is b
        return a * b

    return f, [(_input(3),)], []


@program
def checkpoint_nested() -> Made:
    inner, outer = _block(), _block()

    def body(x: torch.Tensor) -> torch.Tensor:
        return outer(x) + checkpoint(inner, x, use_reentrant=False)

    def f(x: torch.Tensor) -> Any:
        return checkpoint(body, x, use_reentrant=False).sin()

    return f, [(_input(2, 4),)], [*inner.parameters(), *outer.parameters()]


@program
def checkpoint_closure() -> Made:
    weight = nn.Parameter(torch.rand(3))

    def f(x: torch.Tensor) -> Any:
        y = x.exp()

        def body(x: torch.Tensor) -> torch.Tensor:
            return (x * weight + y).sin()

        return checkpoint(body, x, use_reentrant=False)

    return f, [(_input(3),)], [weight]


@program
def checkpoint_lists() -> Made:
    def body(items: Any, table: Any) -> Any:
        return [one * table["k"] for one in items]

    def f(x: torch.Tensor) -> Any:
        return checkpoint(body, [x, x + 1], {"k": x * 2}, use_reentrant=False)

    return f, [(_input(3),)], []


@program
def checkpoint_sequential_modules() -> Made:
    net = nn.Sequential(*[_block() for _ in range(4)])

    def f(x: torch.Tensor) -> Any:
        return checkpoint_sequential(net, 2, x, use_reentrant=False)

    return f, [(_input(2, 4),)], net.parameters()


@program
def checkpoint_without_gradients() -> Made:
    block = _block()

    def f(x: torch.Tensor) -> Any:
        with torch.no_grad():
            y = checkpoint(block, x, use_reentrant=False)
        return y * x

    return f, [(_input(2, 4),)], []


@program
def checkpoint_partial() -> Made:
    def body(scale: float, x: torch.Tensor, shift: torch.Tensor) -> torch.Tensor:
        return x.sin() * scale + shift

    def f(x: torch.Tensor) -> Any:
        save = functools.partial(checkpoint, use_reentrant=False)
        return save(functools.partial(body, 2.0, shift=x + 1), x)

    return f, [(_input(3),)], []


def _policy(ctx: Any, op: Any, *args: Any, **kwargs: Any) -> CheckpointPolicy:
    saved = op is torch.ops.aten.addmm.default
    return CheckpointPolicy.MUST_SAVE if saved else CheckpointPolicy.PREFER_RECOMPUTE


_contexts = functools.partial(create_selective_checkpoint_contexts, _policy)


@program
def checkpoint_selective() -> Made:
    block = _block()

    def f(x: torch.Tensor) -> Any:
        return checkpoint(block, x, use_reentrant=False, context_fn=_contexts)

    return f, [(_input(2, 4),)], block.parameters()


@program
def checkpoint_autocast_around() -> Made:
    block = _block()

    def f(x: torch.Tensor) -> Any:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return checkpoint(block, x, use_reentrant=False).float()

    return f, [(_input(2, 4),)], block.parameters()
