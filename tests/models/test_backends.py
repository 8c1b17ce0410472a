"""aot_eager and inductor look into the graph, and give what eager gives on some of the models; gradients too."""

from __future__ import annotations

import os
from typing import Any

import pytest
import torch

import magneto

from . import cases, compare

ALL = os.environ.get("MAGNETO_MODELS") == "all"
NAMES = [
    "BERT, a mask, hidden states and attentions", "Llama, a mask, hidden states, labels", "T5", "ResNet", "DeBERTa-v2",
]  # fmt: skip

pytestmark = [
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.no_leak_hunt("transformers and inductor keep what they have made"),
]


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.skipif(not ALL, reason="make models")
def test_results(name: str, backend: str) -> None:
    case = cases.CASES[name]
    target, drive = case.build()
    expected = [drive(target, which) for which in (0, 1)]
    compiled = magneto.compile(target, backend=backend, dynamic=False)
    for call, which in enumerate((0, 0, 1)):
        found = compare.difference(expected[which], drive(compiled, which), close=True)
        assert found is None, f"call {call}: {found}"


def gradients(model: torch.nn.Module, forward: Any, inputs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """The loss, and the gradient of each parameter."""
    model.zero_grad(set_to_none=True)
    loss = forward(**inputs).loss
    loss.backward()
    return loss.detach(), {name: parameter.grad for name, parameter in model.named_parameters()}


@pytest.mark.parametrize("backend", ["eager", "aot_eager", *(["inductor"] if ALL else [])])
@pytest.mark.parametrize("train", [False, True])
def test_gradients(backend: str, train: bool) -> None:
    """A step of training with BERT; with dropout too, where the backend draws random numbers in the order of eager."""
    model, _ = cases.CASES["BERT for masked words, labels"].build()
    model.train(train)
    if train and backend == "inductor":
        pytest.skip("inductor has random numbers of its own")
    inputs = {"input_ids": cases.ids(0), "attention_mask": cases.mask(0), "labels": cases.ids(1)}
    compiled = magneto.compile(model, backend=backend)
    for _ in range(2):
        torch.manual_seed(3)
        expected = gradients(model, model, inputs)
        torch.manual_seed(3)
        found = gradients(model, compiled, inputs)
        different = compare.difference(expected, found, close=backend != "eager")
        assert different is None, different
