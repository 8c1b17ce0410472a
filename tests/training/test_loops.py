"""What train steps have besides an optimizer: clipping, groups, averages, scalers, schedules inside and outside."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn, optim
from torch.optim import lr_scheduler as schedules
from torch.optim import swa_utils

import magneto

from . import loops


def maker(
    optimizer_of: Callable[[Any], Any] = lambda model: optim.Adam(model.parameters(), 0.01),
    clip: Callable[[Any], Any] | None = None,
    schedule: Callable[[Any], Any] | None = None,
    inside: bool = False,
    average: Callable[[Any], Any] | None = None,
    scaler_of: Callable[[], Any] | None = None,
) -> loops.Make:
    """A loop: with gradients clipped, a schedule inside of the compiled step or outside, averages, a scaler."""

    def make(wrap: loops.Wrap) -> tuple[loops.Step, Any]:
        model: Any = loops.net()
        optimizer = optimizer_of(model)
        scheduler = None if schedule is None else schedule(optimizer)
        averaged = None if average is None else average(model)
        scaler = None if scaler_of is None else scaler_of()

        def train(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            loss = nn.functional.mse_loss(model(x), y)
            (loss if scaler is None else scaler.scale(loss)).backward()
            if clip is not None:
                clip(model.parameters())
            if scaler is None:
                optimizer.step()
            else:
                scaler.step(optimizer)
                scaler.update()
            optimizer.zero_grad()
            if averaged is not None:
                averaged.update_parameters(model)
            if inside:
                scheduler.step()
            return loss

        compiled = wrap(train)

        def step(x: torch.Tensor, y: torch.Tensor) -> Any:
            loss = compiled(x, y)
            if scheduler is not None and not inside:
                scheduler.step()
            return loss

        def watch() -> list[Any]:
            averages = [] if averaged is None else list(averaged.parameters())
            scale = [] if scaler is None else [scaler.get_scale()]
            return [*loops.watched(model, optimizer), *averages, *scale]

        return step, watch

    return make


def two_groups(model: Any) -> optim.Optimizer:
    groups = [
        {"params": model[0].parameters(), "lr": 0.02},
        {"params": model[2].parameters(), "weight_decay": 0.0},
    ]
    return optim.AdamW(groups, lr=0.01)


CASES: dict[str, dict[str, Any]] = {
    "clip_grad_norm": {"clip": functools.partial(nn.utils.clip_grad_norm_, max_norm=0.1)},
    "clip_grad_norm_foreach": {
        "clip": functools.partial(nn.utils.clip_grad_norm_, max_norm=0.1, foreach=True)
    },
    "clip_grad_value": {"clip": functools.partial(nn.utils.clip_grad_value_, clip_value=0.01)},
    "groups": {
        "optimizer_of": two_groups,
        "schedule": lambda one: schedules.LambdaLR(one, [lambda i: 0.9**i, lambda i: 1 / (i + 1)]),
    },
    "ema": {
        "average": lambda m: swa_utils.AveragedModel(m, multi_avg_fn=swa_utils.get_ema_multi_avg_fn(0.9))
    },
    "swa": {"average": swa_utils.AveragedModel},
    "scaler": {"scaler_of": lambda: torch.amp.GradScaler("cpu", init_scale=4.0, growth_interval=3)},
    "exponential": {"schedule": lambda one: schedules.ExponentialLR(one, 0.9), "inside": True},
    "cosine": {"schedule": lambda one: schedules.CosineAnnealingLR(one, 10), "inside": True},
    "steps": {"schedule": lambda one: schedules.StepLR(one, 2), "inside": True},
    "one_cycle": {"schedule": lambda one: schedules.OneCycleLR(one, 0.1, total_steps=20)},
    "one_cycle_fused": {
        "optimizer_of": lambda m: optim.SGD(m.parameters(), 0.01, momentum=0.9, fused=True),
        "schedule": lambda one: schedules.OneCycleLR(one, 0.1, total_steps=20),
    },
}


@pytest.mark.parametrize("name", CASES)
def test_loops_are_eagers(name: str) -> None:
    loops.check(maker(**CASES[name]), "eager")


def test_lbfgs_is_called_whole() -> None:
    def make(wrap: loops.Wrap) -> tuple[loops.Step, Any]:
        model = loops.net()
        optimizer = optim.LBFGS(model.parameters(), lr=0.1, max_iter=4)

        def train(x: torch.Tensor, y: torch.Tensor) -> Any:
            def closure() -> torch.Tensor:
                optimizer.zero_grad()
                loss = nn.functional.mse_loss(model(x), y)
                loss.backward()
                return loss

            return optimizer.step(closure)

        return wrap(train), lambda: list(model.parameters())

    found = loops.check(make, "eager", exact=True)
    assert sum(found.graphs) == 0
    assert found.breaks == 1


@pytest.mark.parametrize("method", ["add_", "addcmul_", "addcdiv_"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_factors_that_are_tensors(method: str, dtype: torch.dtype) -> None:
    keyword = "alpha" if method == "add_" else "value"
    others = [torch.rand(7, 5, dtype=torch.float32).to(dtype) + 1 for _ in range(1 + (method != "add_"))]
    factor = torch.tensor(-0.123)

    def f(x: torch.Tensor, factor: torch.Tensor) -> torch.Tensor:
        return getattr(x, method)(*others, **{keyword: factor})

    expected = f(torch.ones(7, 5, dtype=dtype), factor)
    magneto.counters.clear()
    found = magneto.compile(f, backend="eager")(torch.ones(7, 5, dtype=dtype), factor)
    assert torch.equal(found, expected)
    assert (sum(magneto.counters["graph_break"].values()) == 0) == (dtype != torch.bfloat16)


def test_a_factor_with_a_gradient_is_a_number() -> None:
    def f(x: torch.Tensor, factor: torch.Tensor) -> torch.Tensor:
        return (x * 2).add_(x, alpha=factor.detach() * 1)

    x, factor = torch.ones(3, requires_grad=True), torch.tensor(0.5, requires_grad=True)
    magneto.compile(f, backend="eager")(x, factor).sum().backward()
    assert x.grad is not None
    assert torch.equal(x.grad, torch.full((3,), 2.5))
    assert factor.grad is None


def test_tensors_grouped_by_dtype() -> None:
    group = torch.utils._foreach_utils._group_tensors_by_device_and_dtype

    def f(first: list[Any], second: list[Any]) -> Any:
        return [(key, lists, indices) for key, (lists, indices) in group([first, second, []], True).items()]

    tensors = [torch.ones(2), torch.ones(2, dtype=torch.float64), torch.zeros(3)]
    states: list[Any] = [None, torch.zeros(2), None]
    found = magneto.compile(f, backend="eager", fullgraph=True)(tensors, states)
    expected = f(tensors, states)
    assert sorted(map(str, found)) == sorted(map(str, expected))
    assert all(
        one is tensors[place]
        for _, lists, places in found
        for one, place in zip(lists[0], places, strict=True)
    )


def test_the_flag_in_the_group_is_left_alone() -> None:
    parameter = nn.Parameter(torch.ones(3))
    parameter.grad = torch.ones(3)
    optimizer = optim.Adam([parameter], 0.01)
    magneto.compile(lambda: optimizer.step(), backend="eager")()
    assert optimizer.param_groups[0]["capturable"] is False


def test_a_sparse_gradient_is_eagers() -> None:
    def trained(wrap: Any) -> torch.Tensor:
        torch.manual_seed(0)
        table = nn.Embedding(5, 3, sparse=True)
        optimizer = optim.Adagrad(table.parameters(), 0.1)
        step = wrap(lambda: optimizer.step())
        for _ in range(4):
            optimizer.zero_grad()
            table(torch.tensor([1, 3, 1])).sum().backward()
            step()
        return table.weight.detach()

    assert torch.equal(trained(lambda f: f), trained(lambda f: magneto.compile(f, backend="eager")))


@pytest.mark.parametrize("how", ["add", "mul", "div"])
def test_foreach_with_a_float_that_varies(how: str) -> None:
    def f(tensors: list[torch.Tensor], others: list[torch.Tensor], rate: float) -> None:
        if how == "add":
            torch._foreach_add_(tensors, others, alpha=-rate)
        elif how == "mul":
            torch._foreach_mul_(tensors, 1 - rate)
        else:
            torch._foreach_div_(tensors, rate)

    compiled = magneto.compile(f, backend="aot_eager", fullgraph=True)
    others = [torch.rand(3, 2), torch.rand(())]
    magneto.counters.clear()
    for rate in (0.1, 0.2, 0.3, 0.4):
        expected, found = [torch.ones(3, 2), torch.ones(())], [torch.ones(3, 2), torch.ones(())]
        f(expected, others, rate)
        compiled(found, others, rate)
        assert all(torch.allclose(*pair, rtol=1e-6, atol=0) for pair in zip(found, expected, strict=True))
    assert magneto.counters["stats"]["unique_graphs"] == 2
