"""torch.compiler.nested_compile_region."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.compiler import nested_compile_region

from .check import Made, program


def _input(*shape: int) -> torch.Tensor:
    return torch.rand(*shape).requires_grad_()


@program
def region_three_equal_calls() -> Made:
    weight = _input(3, 3)

    @nested_compile_region
    def layer(x: torch.Tensor, y: torch.Tensor) -> Any:
        return torch.tanh(x @ weight) + y.sin()

    def f(x: torch.Tensor) -> Any:
        for _ in range(3):
            x = layer(x, x * 2)
        return x

    return f, [(_input(2, 3),), (_input(2, 3),)], [weight]


@program
def region_of_a_module() -> Made:
    class Layer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(3, 3)

        @nested_compile_region
        def forward(self, x: torch.Tensor) -> Any:
            return x + self.linear(x).relu()

    model = nn.Sequential(Layer(), Layer(), Layer())
    return model, [(_input(2, 3),), (_input(2, 3),)], model.parameters()


@program
def region_with_other_sizes() -> Made:
    @nested_compile_region
    def double(x: torch.Tensor) -> Any:
        return x.sin() * 2

    def f(x: torch.Tensor) -> Any:
        return double(x * 1).sum() + double((x * 1)[:1]).sum() + double(x * 3).sum()

    return f, [(_input(2, 3),)], []


@program
def region_with_other_constants() -> Made:
    @nested_compile_region
    def scale(x: torch.Tensor, by: int) -> Any:
        return (x * by).sin()

    def f(x: torch.Tensor) -> Any:
        return scale(x, 2) + scale(x, 3) + scale(x, 2)

    return f, [(_input(2, 3),)], []


@program
def region_in_a_region() -> Made:
    @nested_compile_region
    def inner(x: torch.Tensor) -> Any:
        return x.cos() + 1

    @nested_compile_region
    def outer(x: torch.Tensor) -> Any:
        return inner(inner(x) * 2)

    def f(x: torch.Tensor) -> Any:
        return outer(outer(x))

    return f, [(_input(2, 3),)], []


@program
def region_returns_a_dict() -> Made:
    @nested_compile_region
    def both(x: torch.Tensor) -> Any:
        return {"sin": x.sin(), "cos": x.cos(), "many": 3}

    def f(x: torch.Tensor) -> Any:
        found = both(x * 2)
        return found["sin"] + found["cos"] * found["many"]

    return f, [(_input(2, 3),)], []
