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

# Programs of which there are more graphs than torch.compile's: how many, and what torch.compile does in place of the others.
_SKIPS = "torch.compile leaves the function to eager from then on: "
_LOOPS = "torch.compile captures no loop with a break in it, and leaves the function to eager"
_RAISES = (
    "the calls that raise are captured up to there, and so is the handler; torch.compile runs them in eager"
)
_ANSWERS = "a comparison is decided at once, also if nothing but its result is asked for"
_ONE_OBJECT = "torch.compile takes two ints for one object if they once were, which is wrong"
MORE = {
    "bit operations": (2, _SKIPS + "it has no ~ for ints that vary"),
    "divmod": (2, _SKIPS + "it has no divmod for ints that vary"),
    "a power that becomes complex": (
        4, "for a negative base torch.compile runs in eager; here a power that is complex is a constant of a graph",
    ),
    "sorted ints": (4, "a graph for each order; torch.compile breaks, and sorts in eager"),
    "one int twice": (3, _ANSWERS),
    "str, repr and format of numbers": (3, "a text takes the value, as in f-strings; torch.compile breaks at str"),
    "an int that a cached function gets": (
        3, "the cache of lru_cache is used as in eager, by values; torch.compile captures past it",
    ),
    "an int that becomes None": (2, _SKIPS + "for None it returns its argument, without an operation"),
    "large ints": (4, "ints beyond 64 bits are constants, one graph each; torch.compile's ints have no bounds"),
    "an error below a key function, with sizes that vary": (4, _RAISES),
    "an operation that fails for one size": (4, _RAISES),
    "an error raised with a size in it": (4, _RAISES + ", and the error has the value of the size in it"),
    "resize of an output given": (2, _SKIPS + "an output of another size is a break"),
    "an lstm over lengths": (2, _SKIPS + "recurrent layers are breaks"),
    "a loop that counts over a break": (3, _LOOPS),
    "a for loop over a break": (5, _LOOPS),
    "a tensor that grows over a break": (3, _LOOPS),
    "a loop over a size with a break in it": (2, _LOOPS),
    "membership among values beyond 64": (5, "large values are compared one by one: their product may overflow"),
    "two ints are one object": (3, _ONE_OBJECT),
    "identity of ints with constants and computed ints": (4, _ONE_OBJECT),
    "an iterator of sizes over a break": (2, _SKIPS + "it can't go on with an iterator behind a break"),
    "pads of all kinds": (4, "padding by nothing copies the layout of what is padded, here a transposed tensor"),
    "f-strings and keys of module dicts": (4, _SKIPS + "it has no format of ints that vary"),
    "division and remainder with negative numbers": (8, _SKIPS + "it has no divmod for ints that vary"),
    "mixes of floats and ints": (3, _ANSWERS),
    "floats and ints in min and max": (5, "min and max of an int and a float have the type of the one that is chosen"),
    "answers that are returned": (4, _ANSWERS),
    "answers that are stored": (4, _ANSWERS),
    "rounded floats as sizes": (4, _ANSWERS),
    "a rounded float as an index": (3, _ANSWERS),
    "a cached property that is a size": (2, _SKIPS + "it can't write to the dict of the object"),
    "a remainder of floats": (3, _SKIPS + "it has no divmod for floats that vary"),
    "int of a float that is too large": (4, "ints beyond 64 bits are constants, one graph each; torch.compile's ints have no bounds"),
    "numpy arrays as arguments": (4, "an array is an object of C code, of which only the identity is known"),
    "range objects kept": (3, _SKIPS + "it has no range objects of ints that vary outside of loops"),
    "views at rows": (4, "storage_offset is a break"),
}  # fmt: skip

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
        assert ours <= THEIRS[name], f"{ours} graphs"


@pytest.mark.parametrize("name", COMPARED)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.no_leak_hunt("torch.compile keeps what it has compiled")
def test_graphs_of_torch(name: str) -> None:
    assert theirs(PROGRAMS[name]) == THEIRS[name]


def test_all_programs_are_counted() -> None:
    assert len(COUNTED) >= 200
    assert set(COUNTED) == set(THEIRS)
    assert set(MORE) <= set(THEIRS)
