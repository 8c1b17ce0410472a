"""Checkpoints: gradients, random numbers and writes as in eager, in both forms."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint

import magneto

pytestmark = pytest.mark.filterwarnings("ignore")


class Net(nn.Module):
    """Layers that draw random numbers and write to buffers."""

    def __init__(self) -> None:
        super().__init__()
        self.enter, self.norm, self.drop = nn.Linear(3, 3), nn.BatchNorm1d(3), nn.Dropout(0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.drop(self.norm(self.enter(x)).relu())


def _run(make: Callable[[nn.Module], Callable[..., Any]], backend: str | None, calls: int = 2) -> list[Any]:
    torch.manual_seed(0)
    net = Net()
    function = make(net)
    if backend is not None:
        function = magneto.compile(function, backend=backend)
    found: list[Any] = []
    for call in range(calls):
        torch.manual_seed(call)
        x = (torch.ones(4, 3).cumsum(0) + call).requires_grad_()
        net.zero_grad()
        result = function(x)
        result.sum().backward()
        found.append(
            (result.detach(), x.grad, [one.grad.clone() for one in net.parameters() if one.grad is not None])
        )
        found.append(({name: one.clone() for name, one in net.named_buffers()}, torch.rand(())))
    return found


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("reentrant", [False, True])
def test_dropout_and_buffers(reentrant: bool, backend: str) -> None:
    def make(net: nn.Module) -> Callable[..., Any]:
        return lambda x: checkpoint(net, x * 2, use_reentrant=reentrant).sin() + x

    torch.testing.assert_close(_run(make, backend), _run(make, None))


def test_dropout_is_captured_and_draws_the_same_numbers_again() -> None:
    drop = nn.Dropout(0.5)
    weight = torch.rand(8, requires_grad=True)

    def f(x: torch.Tensor) -> Any:
        return checkpoint(lambda x: drop(x * weight).sin(), x, use_reentrant=False)

    compiled = magneto.compile(f, backend="eager", fullgraph=True)
    for seed in range(4):
        found = []
        for function in (compiled, f):
            torch.manual_seed(seed)
            result = function(torch.ones(8))
            found.append((result.detach(), torch.autograd.grad(result.sum(), weight), torch.rand(())))
        torch.testing.assert_close(found[0], found[1])


class _Count(TorchDispatchMode):
    """Counts operators."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: Counter[str] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.counts[func.overloadpacket.__name__] += 1
        return func(*args, **(kwargs or {}))


def test_the_backward_recomputes() -> None:
    def f(x: torch.Tensor) -> Any:
        return checkpoint(lambda x: x.sin().exp().sin().exp(), x, use_reentrant=False)

    counts = []
    for function in (magneto.compile(f, backend="eager", fullgraph=True), f):
        x = torch.rand(10, requires_grad=True)
        result = function(x)
        with _Count() as mode:
            result.sum().backward()
        counts.append(mode.counts)
    assert counts[0]["sin"] == 2
    assert counts[0] == counts[1]


def test_parameters_may_change_before_the_backward() -> None:
    """They are no arguments of the checkpoint, so their versions are nobody's business."""
    layer = nn.Linear(3, 3)

    def f(x: torch.Tensor) -> Any:
        return checkpoint(lambda x: layer(x).sin(), x, use_reentrant=False)

    found = []
    for function in (f, magneto.compile(f, backend="eager", fullgraph=True)):
        with torch.no_grad():
            layer.weight.fill_(0.5)
            layer.bias.fill_(0.1)
        x = torch.ones(2, 3, requires_grad=True)
        result = function(x)
        with torch.no_grad():
            layer.weight.mul_(2)
        result.sum().backward()
        found.append((result.detach(), x.grad))
    torch.testing.assert_close(found[0], found[1])


def test_with_cond_inside() -> None:
    def body(x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 1, lambda x: x.sin(), lambda x: x.cos(), (x,)) * 2

    def f(x: torch.Tensor) -> Any:
        return checkpoint(body, x * 2, use_reentrant=False)

    for backend in ("eager", "aot_eager"):
        compiled = magneto.compile(f, backend=backend)
        for value in (1.0, -1.0):
            found = []
            for function in (compiled, f):
                x = torch.full((3,), value, requires_grad=True)
                result = function(x)
                found.append((result.detach(), torch.autograd.grad(result.sum(), x)))
            torch.testing.assert_close(found[0], found[1])


def test_effects_are_one_break() -> None:
    seen: list[int] = []

    def body(x: torch.Tensor) -> torch.Tensor:
        seen.append(1)
        return x.sin()

    def f(x: torch.Tensor) -> Any:
        return checkpoint(body, x * 2, use_reentrant=False) + x

    magneto.counters.clear()
    x = torch.ones(3, requires_grad=True)
    torch.testing.assert_close(magneto.compile(f, backend="eager")(x), (x * 2).sin() + x)
    assert seen == [1]
    assert sum(magneto.counters["graph_break"].values()) == 1


def test_without_use_reentrant_is_a_warning() -> None:
    def f(x: torch.Tensor) -> Any:
        return checkpoint(lambda x: x.sin(), x)

    with pytest.warns(UserWarning, match="use_reentrant"):
        magneto.compile(f, backend="eager")(torch.ones(3, requires_grad=True))
