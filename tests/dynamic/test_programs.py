"""Programs over sequences of sizes and numbers: as eager at each step, in no more graphs than torch.compile's.

graphs.py has how many those are. MAGNETO_DYNAMIC=all counts them anew for all programs, else for a few.
"""

from __future__ import annotations

import contextlib
import os
from typing import Any

import pytest
import torch
from programs import harness

import magneto

from .graphs import THEIRS
from .programs import PROGRAMS
from .texts import Program

# Programs of which there are more graphs than torch.compile's: how many, and why.
_LESS = "torch.compile captures less of it, or gives it up"
_AT_ONCE = "a comparison is decided at once, also if nothing but its result is asked for"
_ROUNDED = (
    "a float that is no quotient of an int and a constant has no expression: what looks at it takes its value"
)
_TEXT = "a text, a key or a length takes the value"
_HANDLED = (
    "what raises is captured up to there for each kind of size; torch.compile runs it in eager from then on"
)
MORE = {
    "bit operations": (2, _LESS),
    "a power that becomes complex": (4, _ROUNDED),
    "divmod": (2, _LESS),
    "sorted ints": (4, _AT_ONCE),
    "membership of a number": (4, _AT_ONCE),
    "one int twice": (3, _AT_ONCE),
    "str, repr and format of numbers": (3, _TEXT),
    "an int that a cached function gets": (3, _TEXT),
    "only numbers returned": (1, _LESS),
    "an int, then a bool, then a float": (5, "an int, a bool and two floats, and the int that varies"),
    "an int that becomes None": (2, _LESS),
    "large ints": (4, _LESS),
    "ints that overflow in captured arithmetic": (1, _LESS),
    "the smallest int": (4, _LESS),
    "setdefault and update with sizes": (3, _LESS),
    "an error below a key function, with sizes that vary": (4, _HANDLED),
    "an index that fails": (3, _HANDLED),
    "pad": (3, "padding by nothing is another layout"),
    "resize of an output given": (2, _LESS),
    "an lstm over lengths": (2, _LESS),
    "a loop that counts over a break": (4, _LESS),
    "a for loop over a break": (5, _LESS),
    "a tensor that grows over a break": (3, _LESS),
    "an operation that fails for one size": (6, _HANDLED),
    "an error raised with a size in it": (4, _HANDLED),
    "an error handled outside of the call that raises": (3, _HANDLED),
}

# C code of the library wants the values: there is a graph for each, up to what is asked for. torch.compile stops there.
COUNTED = [name for name in PROGRAMS if not name.startswith("library")]
COMPARED = COUNTED if os.environ.get("MAGNETO_DYNAMIC") == "all" else COUNTED[:: len(COUNTED) // 30 + 1]


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
    with torch._dynamo.config.patch(**program.settings) if program.settings else contextlib.nullcontext():
        side = harness.Side(
            program.text, lambda function: torch.compile(function, backend=backend, **program.options)
        )
        for step in program.steps:
            side.step(step)
    torch._dynamo.reset()
    return count


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.filterwarnings("ignore")
def test_program(name: str) -> None:
    ours = run(PROGRAMS[name])
    if name in MORE:
        assert ours == MORE[name][0] > THEIRS[name], f"{ours} graphs: mend the list"
    elif name in THEIRS:
        assert ours <= THEIRS[name], f"{ours} graphs: {magneto.counters['recompiles']}"


@pytest.mark.parametrize("name", COMPARED)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.no_leak_hunt("torch.compile keeps what it has compiled")
def test_graphs_of_torch(name: str) -> None:
    assert theirs(PROGRAMS[name]) == THEIRS[name]


def test_all_programs_are_counted() -> None:
    assert len(COUNTED) >= 200
    assert set(COUNTED) == set(THEIRS)
    assert set(MORE) <= set(THEIRS)
