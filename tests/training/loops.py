"""Train steps, run in eager and compiled, and compared step by step."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

import magneto

STEPS = 8

Wrap = Callable[[Callable[..., Any]], Callable[..., Any]]
Step = Callable[[torch.Tensor, torch.Tensor], Any]
Make = Callable[[Wrap], tuple[Step, Callable[[], list[Any]]]]


@dataclasses.dataclass
class Run:
    """What became of a loop."""

    log: list[list[Any]]
    """For each step what it returned, and what is watched: parameters, gradients, state, rates."""
    graphs: list[int]
    """How many graphs were captured in each step."""
    breaks: int


def net(bias: bool = True) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8, bias=bias), nn.ReLU(), nn.Linear(8, 3, bias=bias))


def watched(model: nn.Module, optimizer: torch.optim.Optimizer) -> list[Any]:
    """Parameters, gradients, the optimizer's state and its groups' numbers."""
    found: list[Any] = []
    for parameter in model.parameters():
        state = optimizer.state.get(parameter, {})
        found += [parameter, parameter.grad, *(state[key] for key in sorted(state))]
    for group in optimizer.param_groups:
        found += [group[key] for key in sorted(group) if key != "params"]
    return found


def _copy(value: Any) -> Any:
    return value.detach().clone() if isinstance(value, torch.Tensor) else value


def run(make: Make, wrap: Wrap, steps: int = STEPS) -> Run:
    """Drive a loop: `make` gives the step, in which it has wrapped what is to be compiled, and what to watch."""
    torch.manual_seed(0)
    magneto.reset()  # graphs that another test has captured are counted again
    magneto.counters.clear()
    step, watch = make(wrap)
    result = Run([], [], 0)
    for index in range(steps):
        generator = torch.Generator().manual_seed(index)
        x, y = torch.randn(5, 4, generator=generator), torch.randn(5, 3, generator=generator)
        before = magneto.counters["stats"]["unique_graphs"]
        returned = step(x, y)
        result.graphs.append(magneto.counters["stats"]["unique_graphs"] - before)
        result.log.append([_copy(value) for value in (returned, *watch())])
    result.breaks = sum(magneto.counters["graph_break"].values())
    return result


def differs(left: Any, right: Any, exact: bool = False) -> bool:
    if not isinstance(left, torch.Tensor):
        return type(left) is not type(right) or left != right
    tolerance = {"rtol": 0.0, "atol": 0.0} if exact else {"rtol": 1e-4, "atol": 2e-6}
    return left.dtype != right.dtype or not torch.allclose(left, right, **tolerance)


def check(make: Make, backend: str, late: int = 0, exact: bool = False) -> Run:
    """A compiled loop does what eager does, and captures nothing after its third step."""
    expected = run(make, lambda function: function)
    found = run(make, lambda function: magneto.compile(function, backend=backend))
    for index, (left, right) in enumerate(zip(expected.log, found.log, strict=True)):
        for one, other in zip(left, right, strict=True):
            assert not differs(one, other, exact), (index, one, other)
    assert sum(found.graphs[3:]) == late, found.graphs
    return found
