"""Programs over sequences of sizes and numbers: as eager at each step, in no more graphs than torch.compile's."""

from __future__ import annotations

import contextlib
from typing import Any

import torch
from programs import harness

import magneto

from .texts import Program


def graphs() -> int:
    """How many graphs with operations have been made."""
    return magneto.counters["stats"]["unique_graphs"]


def run(program: Program) -> int:
    """Run a program captured and in eager; raises where they differ. How many graphs were made."""
    before = graphs()
    with torch._dynamo.config.patch(**program.settings) if program.settings else contextlib.nullcontext():
        harness.run(
            program.text,
            program.steps,
            compile=lambda function: magneto.compile(function, backend="eager", **program.options),
        )
    return graphs() - before


def theirs(program: Program) -> int:
    """How many graphs torch.compile makes."""
    count = 0

    def backend(module: Any, _inputs: Any) -> Any:
        nonlocal count
        count += any(
            node.op in ("call_function", "call_method", "call_module") for node in module.graph.nodes
        )
        return module.forward

    torch._dynamo.reset()
    with torch._dynamo.config.patch(**program.settings):
        side = harness.Side(
            program.text, lambda function: torch.compile(function, backend=backend, **program.options)
        )
        for step in program.steps:
            side.step(step)
    torch._dynamo.reset()
    return count
