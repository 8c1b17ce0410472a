"""torch.vmap, and associative_scan, which is made of it on CPUs."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch._higher_order_ops import associative_scan

from .check import Made, program


def _input(*shape: int) -> torch.Tensor:
    return torch.rand(*shape).requires_grad_()


@program
def vmap_plain() -> Made:
    def f(x: torch.Tensor) -> Any:
        return torch.vmap(lambda r: r.sin() * r.sum())(x)

    return f, [(_input(4, 3),), (_input(4, 3),)], []


@program
def vmap_dimensions() -> Made:
    def f(x: torch.Tensor, w: torch.Tensor) -> Any:
        y = x + 1

        def g(a: torch.Tensor, b: torch.Tensor) -> Any:
            return a * b + y[0, 0], a.sum()

        return torch.vmap(g, in_dims=(1, None), out_dims=(1, 0))(x, w)

    return f, [(_input(3, 4), _input(3))], []


@program
def vmap_parameters() -> Made:
    layer = nn.Linear(3, 2)

    def f(x: torch.Tensor) -> Any:
        return torch.func.vmap(layer)(x)

    return f, [(_input(4, 3),)], layer.parameters()


@program
def vmap_pytree() -> Made:
    def f(x: torch.Tensor) -> Any:
        def g(item: Any, k: float) -> Any:
            return {"s": item["a"] * k + item["b"][0], "m": (item["b"][1].mean(),)}

        return torch.vmap(g, in_dims=({"a": 0, "b": (0, 1)}, None))({"a": x, "b": (x * 2, x.t())}, 3.0)

    return f, [(_input(4, 3),)], []


@program
def vmap_nested() -> Made:
    def f(x: torch.Tensor, y: torch.Tensor) -> Any:
        return torch.vmap(lambda a: torch.vmap(lambda b: (a * b).sum())(y))(x)

    return f, [(_input(4, 3), _input(5, 3))], []


@program
def vmap_keyword_arguments() -> Made:
    def f(x: torch.Tensor) -> Any:
        return torch.vmap(lambda r, scale: r * scale)(x, scale=2.0)

    return f, [(_input(4, 3),)], []


@program
def vmap_attention() -> Made:
    def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return ((q @ k.t()) / q.shape[-1] ** 0.5).softmax(-1) @ v

    def f(x: torch.Tensor) -> Any:
        return torch.vmap(torch.vmap(attend))(x, x * 2, x + 1)

    return f, [(_input(2, 3, 4, 5),)], []


@program
def associative_scan_sums() -> Made:
    def f(x: torch.Tensor) -> Any:
        return associative_scan(lambda a, b: a + b, x, 0, combine_mode="generic")

    return f, [(_input(5, 3),)], []


@program
def associative_scan_pytree() -> Made:
    def combine(left: Any, right: Any) -> Any:
        return left[0] * right[0], right[0] * left[1] + right[1]

    def f(x: torch.Tensor) -> Any:
        return associative_scan(combine, (x.exp(), x * 2), dim=1, combine_mode="generic")[1]

    return f, [(_input(2, 6, 3),)], []


@program
def associative_scan_reverse() -> Made:
    def f(x: torch.Tensor) -> Any:
        return associative_scan(torch.maximum, x, 0, reverse=True, combine_mode="generic")

    return f, [(_input(4, 3),)], []
