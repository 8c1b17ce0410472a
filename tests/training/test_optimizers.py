"""Compiled steps of torch's optimizers: eager's parameters and state, few graphs, and none after the third step.

A part of the table by default; all of it with MAGNETO_TRAINING=all.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import nn, optim
from torch.optim import lr_scheduler

from . import loops

ALL = os.environ.get("MAGNETO_TRAINING") == "all"

OPTIMIZERS: dict[str, tuple[Any, dict[str, Any]]] = {
    "SGD": (optim.SGD, {}),
    "SGD-momentum": (optim.SGD, {"momentum": 0.9, "weight_decay": 0.1, "nesterov": True}),
    "Adam": (optim.Adam, {}),
    "Adam-amsgrad": (optim.Adam, {"amsgrad": True, "weight_decay": 0.1}),
    "AdamW": (optim.AdamW, {}),
    "Adamax": (optim.Adamax, {}),
    "NAdam": (optim.NAdam, {}),
    "RAdam": (optim.RAdam, {}),
    "Adagrad": (optim.Adagrad, {"lr_decay": 0.1}),
    "Adadelta": (optim.Adadelta, {}),
    "RMSprop": (optim.RMSprop, {"momentum": 0.9}),
    "ASGD": (optim.ASGD, {"t0": 4}),
    "Rprop": (optim.Rprop, {}),
    "Muon": (optim.Muon, {}),
}


def table() -> Iterator[tuple[str, str, str, bool, bool]]:
    """Optimizer, how it loops, what its rate is, whether a schedule changes it, whether the whole step is compiled."""
    for name, (cls, _) in OPTIMIZERS.items():
        known = inspect.signature(cls).parameters
        loop = ["for", *(["foreach"] if "foreach" in known else []), *(["fused"] if "fused" in known else [])]
        for how in loop:
            for rate in ("float", "tensor"):
                for scheduled in (False, True):
                    for whole in (False, True):
                        # torch refuses it
                        refused = rate == "tensor" and how == "foreach" and name.startswith("Adam")
                        if not refused or name == "Adamax":
                            yield name, how, rate, scheduled, whole


def maker(name: str, how: str, rate: str, scheduled: bool, whole: bool) -> loops.Make:
    cls, options = OPTIMIZERS[name]

    def make(wrap: loops.Wrap) -> tuple[loops.Step, Any]:
        model = loops.net(bias=name != "Muon")
        flags = {"for": {"foreach": False}, "foreach": {"foreach": True}, "fused": {"fused": True}}[how]
        if name == "Muon":
            flags = {}
        lr = 0.01 if rate == "float" else torch.tensor(0.01)
        optimizer = cls(model.parameters(), lr=lr, **options, **flags)
        scheduler = lr_scheduler.ExponentialLR(optimizer, 0.9) if scheduled else None

        def train(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            loss = nn.functional.mse_loss(model(x), y)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            return loss

        def update() -> None:
            optimizer.step()

        compiled = wrap(train if whole else update)

        def step(x: torch.Tensor, y: torch.Tensor) -> Any:
            if whole:
                result = compiled(x, y)
            else:
                optimizer.zero_grad()
                result = nn.functional.mse_loss(model(x), y)
                result.backward()
                compiled()
            if scheduler is not None:
                scheduler.step()
            return result

        return step, lambda: loops.watched(model, optimizer)

    return make


def cls_of(name: str) -> Any:
    return OPTIMIZERS[name][0]


def is_quick(case: tuple[str, str, str, bool, bool]) -> bool:
    """Each optimizer as a whole step with a rate that changes, and tensors as rates in for-loops."""
    name, how, rate, scheduled, whole = case
    return whole and scheduled and (rate == "float" or how == "for") and name != "Adam-amsgrad"


# Numbers out of tensors that TorchDynamo does not ask for.
MORE_BREAKS = {("Rprop", "tensor"), ("Muon", "tensor")}


# AOTAutograd finds no tensor arithmetic for the rate: each one is a constant, as with torch.compile.
AGAIN = {("SGD", "for", "float"), ("SGD-momentum", "for", "float"), ("Muon", "for", "float")}


@pytest.mark.parametrize("backend", ["eager", "aot_eager"] if ALL else ["eager"])
@pytest.mark.parametrize(
    "case", [case for case in table() if ALL or is_quick(case)], ids=lambda case: "-".join(map(str, case))
)
def test_steps_are_eagers(case: tuple[str, str, str, bool, bool], backend: str) -> None:
    name, how, rate, scheduled, whole = case
    varies = (name, how, rate) in AGAIN and scheduled and backend == "aot_eager"
    found = loops.check(maker(*case), backend, late=5 if varies else 0)
    if varies:
        return
    if (name, rate) in MORE_BREAKS:
        return
    # forward; the step before there is state, and with it; once more where the rate is first seen to vary
    assert sum(found.graphs) <= whole + 2 + (scheduled and rate == "float"), found.graphs
    # backward(), and two that torch.optim asks for, once in each recompile; what is fused is called at one
    most = 7 if how != "fused" or backend == "eager" else 20
    if hasattr(
        cls_of(name)._init_group, "_torchdynamo_disable"
    ):  # torch.compile has done it, in this process
        most += 5
    assert found.breaks <= most, found.breaks
