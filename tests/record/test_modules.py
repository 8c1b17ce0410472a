"""Every module of torch's own test database (`module_db`), captured and in eager: forward and backward, in training
and in evaluation. Buffers, gradients of parameters and of inputs, and the random state are compared too."""

from __future__ import annotations

import copy
import os
import warnings
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from magneto import _core

from . import opinfo  # must come before module_db

from torch.testing._internal.common_modules import module_db  # isort: skip

MOST = 8
SAMPLES = MOST if os.environ.get("MAGNETO_SWEEP") == "1" else 2
SHARDS = 8

_DATA = "what is done depends on data"
_CUMULATIVE = "with momentum=None the number of batches, a tensor, is needed as a number"

# Modules that can't be captured, for some samples at least, and why. All others must be.
UNSUPPORTED = {
    "nn.BatchNorm1d": _CUMULATIVE,
    "nn.BatchNorm2d": _CUMULATIVE,
    "nn.BatchNorm3d": _CUMULATIVE,
    "nn.CTCLoss": _DATA,
    "nn.GaussianNLLLoss": _DATA,
}


def _backward(result: Any) -> None:
    outputs = [item for item in opinfo.tensors(result) if item.requires_grad]
    if outputs:
        total = sum(item.abs().sum() if item.is_complex() else (item * item).sum() for item in outputs)
        total.backward()


def _compare(info: Any, sample: Any, training: bool) -> opinfo.Outcome:
    torch.manual_seed(0)
    module = info.module_cls(*sample.constructor_input.args, **sample.constructor_input.kwargs)
    module.train(training)
    eager, other = copy.deepcopy(module), copy.deepcopy(module)
    reasons: list[str] = []

    def stopped(reason: str, text: str, detail: Any, where: Any, action: str) -> None:
        reasons.append(f"{reason}: {detail}")

    captured = _core.Compiled(other.__call__, None, stopped)
    case = opinfo.Case("", module, sample.forward_input.args, sample.forward_input.kwargs)
    for call in range(2):
        expected = opinfo.run(eager, case, backward=_backward)
        if expected.error is not None:
            return opinfo.Outcome("eager", repr(expected.error)[:200])
        text = opinfo.differences(expected, opinfo.run(captured, case, backward=_backward))
        text = text or opinfo.same(dict(other.state_dict()), dict(eager.state_dict()))
        gradients = [[item.grad for item in each.parameters()] for each in (other, eager)]
        text = text or opinfo.same(*gradients)
        if text:
            return opinfo.Outcome("wrong", f"call {call}: {text}" + (f" ({reasons[0]})" if reasons else ""))
    return opinfo.Outcome("aborted", reasons[0]) if reasons else opinfo.Outcome("captured")


def test_the_table_names_modules_that_exist() -> None:
    assert sorted(set(UNSUPPORTED) - {info.name for info in module_db}) == []


def _outcomes(info: Any, count: int) -> Iterator[tuple[str, opinfo.Outcome]]:
    for training in (True, False):
        torch.manual_seed(0)
        samples = info.module_inputs_func(
            info, device="cpu", dtype=torch.float32, requires_grad=True, training=training
        )
        for number, sample in enumerate(samples[:count]):
            if sample.forward_input is not None:
                yield (
                    f"{info.name} {'train' if training else 'eval'} #{number}",
                    _compare(info, sample, training),
                )


@pytest.mark.parametrize("name", UNSUPPORTED)
@pytest.mark.filterwarnings("ignore")
def test_unsupported_modules_are_not_captured(name: str) -> None:
    """For one sample at least, of those that MAGNETO_SWEEP=1 takes."""
    (info,) = [info for info in module_db if info.name == name]
    aborted = any(outcome.kind == "aborted" for _, outcome in _outcomes(info, MOST))
    assert aborted, "it is captured now: take it off the list"


@pytest.mark.no_leak_hunt(reason="runs for minutes, and torch keeps caches of its own")
@pytest.mark.parametrize("shard", range(SHARDS))
def test_modules(shard: int) -> None:
    wrong: list[str] = []
    aborted: list[str] = []
    counts: Counter[str] = Counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for info in module_db[shard::SHARDS]:
            for name, outcome in _outcomes(info, SAMPLES):
                counts[outcome.kind] += 1
                if outcome.kind == "wrong":
                    wrong.append(f"{name}: {outcome.text}")
                elif outcome.kind == "aborted" and info.name not in UNSUPPORTED:
                    aborted.append(f"{name}: {outcome.text}")
    print(f"modules, part {shard}: {dict(counts)}")
    assert wrong == []
    assert aborted == []
    assert counts["captured"] > 0
