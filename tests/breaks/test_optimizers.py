"""Steps of torch's optimizers: parameters and state come out as in eager, under the parameters themselves.

torch.optim asks whether it is compiled, and then keeps the number of steps a tensor of single precision: parameters may
differ from eager's in the last digits, as they do with torch.compile.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import magneto

CASES: list[tuple[str, dict[str, Any]]] = [
    ("SGD", {}),
    ("SGD", {"momentum": 0.9}),
    ("SGD", {"momentum": 0.9, "nesterov": True, "weight_decay": 0.1, "foreach": True}),
    ("Adam", {}),
    ("Adam", {"amsgrad": True, "foreach": True}),
    ("Adam", {"foreach": False, "weight_decay": 0.1, "maximize": True}),
    ("Adam", {"fused": True}),
    ("AdamW", {}),
    ("AdamW", {"foreach": True}),
    ("Adagrad", {}),
    ("Adagrad", {"foreach": True, "lr_decay": 0.1}),
    ("Adadelta", {}),
    ("Adadelta", {"foreach": True}),
    ("Adafactor", {}),
    ("Adamax", {}),
    ("Adamax", {"foreach": True}),
    ("ASGD", {}),
    ("ASGD", {"foreach": True}),
    ("NAdam", {}),
    ("NAdam", {"foreach": True}),
    ("RAdam", {}),
    ("RAdam", {"foreach": True}),
    ("RMSprop", {}),
    ("RMSprop", {"centered": True, "momentum": 0.9}),
    ("Rprop", {}),
    ("LBFGS", {"max_iter": 3}),
]


def train(name: str, options: dict[str, Any], how: str) -> tuple[list[Any], list[Any], list[Any]]:
    """Losses, parameters, and for each state whose it is and what it holds, after five steps."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
    optimizer = getattr(torch.optim, name)(model.parameters(), lr=0.05, **options)

    def loss_of(x: Any) -> Any:
        optimizer.zero_grad()
        loss = model(x).pow(2).mean()
        loss.backward()
        return loss

    def step(x: Any) -> Any:
        loss = loss_of(x)
        optimizer.step(lambda: loss_of(x)) if name == "LBFGS" else optimizer.step()
        return loss.detach()

    if how == "whole":
        step = magneto.compile(step, backend="eager")
    elif how == "step":
        optimizer.step = magneto.compile(optimizer.step, backend="eager")
    losses = [step(torch.randn(3, 4)) for _ in range(5)]
    parameters = list(model.parameters())
    owners = {id(parameter): i for i, parameter in enumerate(parameters)}
    states = [
        (owners.get(id(key), type(key)), name, value)
        for key, state in optimizer.state.items()
        for name, value in state.items()
    ]
    return losses, parameters, states


@pytest.mark.parametrize("how", ["whole", "step"])
@pytest.mark.parametrize(("name", "options"), CASES, ids=str)
def test_as_eager(name: str, options: dict[str, Any], how: str) -> None:
    losses, parameters, states = train(name, options, how)
    eager_losses, eager_parameters, eager_states = train(name, options, "eager")
    torch.testing.assert_close(losses + parameters, eager_losses + eager_parameters, rtol=1e-4, atol=2e-5)
    assert [(owner, key, type(value)) for owner, key, value in states] == [
        (owner, key, type(value)) for owner, key, value in eager_states
    ]
    for (_, _, value), (_, _, expected) in zip(states, eager_states, strict=True):
        if value is not None:
            torch.testing.assert_close(value, expected, rtol=1e-4, atol=2e-5)
