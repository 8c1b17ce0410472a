"""Whole train steps: eager's losses, gradients, parameters, state, random numbers; torch.compile's graphs or fewer.

What torch.compile makes of each program is recorded in reference.json; `reference.py` makes it again.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

import magneto

from . import loops, programs

REFERENCE: dict[str, list[int]] = json.loads(Path(__file__).with_name("reference.json").read_text())

# More graphs in a step than torch.compile's, and why.
MORE = {
    "accumulated_chunks": "torch.compile leaves the frame of a loop with a break in it to CPython",
    "actor_critic": "constraints of distributions are checked with values of tensors",
    "autocast_over_a_break": "leaving a manager that was entered before a break is a break",
    "autocast_over_two_breaks": "leaving a manager that was entered before a break is a break",
    "hook_before_backward": "hooks of modules on gradients",
    "hook_on_module": "hooks of modules on gradients",
    "lazy_batchnorm": "the first call of a lazy module",
    "lazy_linear": "the first call of a lazy module",
    "logged": "torch.compile leaves the frame of a loop with a break in it to CPython",
    "model_checkpoint_reentrant": "a checkpoint that is a torch.autograd.Function",
    "model_lstm": "LSTMs with other backends than eager",
    "model_lstm_two_layers": "LSTMs with other backends than eager",
    "module_made": "torch.compile runs the module's __init__ in CPython",
    "retained": "torch.compile captures nothing of it",
    "update_data_assigned": "`.data =` is a break",
}

# Less is captured than by torch.compile, and why.
LESS = {
    "autocast_uncached": "casts that are not cached",
    "hook_after_accumulation": "hooks that backward() calls",
    "hook_on_parameter": "hooks that backward() calls",
    "hook_on_tensor": "hooks that are registered in captured code",
    "model_checkpoint_reentrant": "a checkpoint that is a torch.autograd.Function",
    "update_data_assigned": "`.data =` is a break",
}


def test_there_are_many() -> None:
    assert set(REFERENCE) == set(programs.PROGRAMS)


# Programs that leak in eager, and what.
LEAKING = {
    "hook_after_accumulation": "torch does not collect cycles through register_post_accumulate_grad_hook"
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.no_leak_hunt(LEAKING[name])] if name in LEAKING else [])
        for name in programs.PROGRAMS
    ],
)
def test_steps_are_eagers(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.distributions.Distribution, "_validate_args", True)  # libraries switch it off
    make = programs.PROGRAMS[name]
    _, expected = loops.counted(make, lambda function, backend: function)
    magneto.reset()
    counts, found = loops.counted(make, magneto.compile)
    for index, (left, right) in enumerate(zip(expected, found, strict=True)):
        assert len(left) == len(right)
        differences = [pair for pair in zip(left, right, strict=True) if loops.differs(*pair)]
        assert not differences, (index, differences[0])
    if name == "module_made" and torch.nn.Module.__init__.__module__.startswith("torch._dynamo"):
        pytest.skip("torch.compile has run in this process: it keeps books about each module that is made")
    assert sum(counts.graphs[3:]) == 0, counts
    if REFERENCE[name]:
        graphs, ran, operations = REFERENCE[name]
        is_more = sum(counts.graphs) > graphs or counts.ran > ran
        assert is_more == (name in MORE), (counts, REFERENCE[name])
        # an operation that is written in another way counts differently
        is_less = counts.operations < operations * 0.85
        assert is_less == (name in LESS), (counts, REFERENCE[name])


@pytest.mark.parametrize("change", ["loss", "parameter", "random"])
def test_a_difference_is_noticed(change: str) -> None:
    def make(wrap: loops.Wrap) -> Any:
        step, watch = loops.trained(wrap, loops.mlp())
        spoilt = wrap is not plain

        def other(x: torch.Tensor, y: torch.Tensor) -> Any:
            return step(x, y) * (1.01 if spoilt and change == "loss" else 1)

        def seen() -> list[Any]:
            if spoilt and change == "random":
                torch.rand(1)
            found = watch()
            return [
                value * 1.01 if spoilt and isinstance(value, torch.nn.Parameter) else value for value in found
            ]

        return other, seen if change != "loss" else watch

    plain = lambda function: function  # noqa: E731
    logs = []
    for wrap in (plain, lambda function: function):
        torch.manual_seed(0)
        step, watch = make(wrap)
        x, y = next(iter(loops.batches(1)))
        logs.append([*loops.flat([step(x, y), watch()])])
    assert any(loops.differs(*pair) for pair in zip(*logs, strict=True))
