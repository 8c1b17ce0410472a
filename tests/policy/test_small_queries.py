"""Small functions of torch's that tell a setting, or give back what they are given: no break."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import magneto

PROGRAMS: list[Callable[[Any], Any]] = [
    lambda x: x + torch._C._are_functorch_transforms_active(),
    lambda x: x + torch.autograd._is_checkpoint_valid(),
    lambda x: torch.jit.annotate(Any, x + 1) * 2,
    lambda x: torch.jit._unwrap_optional(x) * 2,
    lambda x: x.type(torch.HalfTensor),
    lambda x: x.type(torch.LongTensor) + 1,
    lambda x: x.type(x.double().type()),
    lambda x: x + np.finfo(np.float32).min,
    lambda x: x * float(np.finfo("float16").eps),
]


@pytest.mark.parametrize("program", PROGRAMS)
def test_in_one_graph(program: Callable[[Any], Any]) -> None:
    compiled = magneto.compile(program, backend="eager", fullgraph=True)
    for value in (1.5, 1.5, 2.0):
        x = torch.full((2,), value)
        found, expected = compiled(x), program(x)
        assert (found.dtype, found.tolist()) == (expected.dtype, expected.tolist())


def test_what_transforms_change_is_asked_again() -> None:
    asked = []

    def program() -> bool:
        return bool(torch._C._are_functorch_transforms_active())

    compiled = magneto.compile(program, backend="eager")

    def inside(x: Any) -> Any:
        asked.append(compiled())
        return x

    asked.append(compiled())
    torch.func.vmap(inside)(torch.ones(2))
    asked.append(compiled())
    assert asked == [False, True, False]


def test_what_a_backward_pass_changes_is_asked_again() -> None:
    asked = []

    def program() -> bool:
        return bool(torch.autograd._is_checkpoint_valid())

    compiled = magneto.compile(program, backend="eager")
    x = torch.ones(2, requires_grad=True)
    y = x * 2
    y.register_hook(lambda grad: asked.append(compiled()))
    asked.append(compiled())
    torch.autograd.grad(y.sum(), x)  # which does not run the hooks that accumulate
    asked.append(compiled())
    assert asked == [True, False, True]
