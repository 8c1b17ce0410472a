"""Programs with breaks: as eager over repeated calls with changed inputs, and no worse captured than torch.compile."""

from __future__ import annotations

import contextlib
import io
from typing import Any

import pytest
import torch
from capture import harness

from magneto import _core

from . import programs_flow, programs_values

PROGRAMS = {**programs_values.PROGRAMS, **programs_flow.PROGRAMS}

# What torch.compile puts into fewer graphs, or captures more of, and why.
WORSE: dict[str, str] = {
    "assert that fails": "torch.compile records torch._assert_async, which raises another error, and later",
    "max of tensors": "torch.compile records torch.maximum: a new tensor, and another answer for NaN",
    "numpy of a sum": "torch.compile runs numpy's functions as torch's; a break leaves them to numpy",
    "eval": "the text of eval() is code that is not looked into",
}


class Count:
    """What was captured by one call: how many graphs were made, and how many operations ran in them."""

    def __init__(self) -> None:
        self.graphs = 0
        self.operations = 0


def compiled(function: Any) -> _core.Compiled:
    made = _core.Compiled(function, None, lambda *_: None, None, 64)
    made.breaks = True
    return made


@pytest.mark.parametrize("name", PROGRAMS)
def test_as_eager(name: str) -> None:
    text, steps = PROGRAMS[name]
    made: list[_core.Compiled] = []

    def compile(function: Any) -> _core.Compiled:
        made.append(compiled(function))
        return made[0]

    harness.run(text, [*steps, *steps], compile=compile)
    assert made[0].captures > 0


def count_of_magneto(text: str, step: str) -> Count:
    """What magneto captures of the first call."""
    made: list[_core.Compiled] = []

    def compile(function: Any) -> _core.Compiled:
        made.append(compiled(function))
        return made[0]

    with contextlib.suppress(Exception):
        harness.Side(text, compile).step(step)
    count = Count()
    for entry in made[0].entries():
        count.graphs += entry.operations > 0
        count.operations += entry.operations * entry.hits
    return count


def count_of_torch(text: str, step: str) -> Count:
    """What torch.compile captures of the first call."""
    count = Count()

    def backend(module: torch.fx.GraphModule, _inputs: Any) -> Any:
        operations = sum(node.op.startswith("call") for node in module.graph.nodes)
        count.graphs += operations > 0

        def run(*args: Any) -> Any:
            count.operations += operations
            return module.forward(*args)

        return run

    torch._dynamo.reset()
    side = harness.Side(text, lambda function: torch.compile(function, backend=backend, dynamic=False))
    with contextlib.redirect_stderr(io.StringIO()):
        side.step(step)
    return count


@pytest.mark.parametrize("name", list(PROGRAMS)[::2])
@pytest.mark.filterwarnings("ignore")
@pytest.mark.no_leak_hunt("torch.compile keeps what it compiled")
def test_captured_as_well_as_by_torch_compile(name: str) -> None:
    text, steps = PROGRAMS[name]
    ours, theirs = count_of_magneto(text, steps[0]), count_of_torch(text, steps[0])
    more = ours.operations > theirs.operations
    as_good = ours.operations >= theirs.operations and (more or ours.graphs <= theirs.graphs)
    if name in WORSE:
        assert not as_good, "it is as good now: take it off the list"
        pytest.xfail(WORSE[name])
    assert as_good, f"{vars(ours)} by magneto, {vars(theirs)} by torch.compile\n{text}"
