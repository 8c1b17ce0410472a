"""`torch._dynamo.utils.counters` counts what magneto does."""

from __future__ import annotations

import pytest
import torch
import torch._dynamo.utils

import magneto

from .side_by_side import agree, both, broken, whole


def test_is_the_same_object():
    assert magneto.counters is torch._dynamo.utils.counters
    assert magneto.counters is torch._dynamo.convert_frame.counters


@pytest.mark.parametrize("function", [whole, broken])
def test_frames_graphs_and_resumes(function):
    def program(compiler):
        compiled = compiler(function, backend="eager")
        for _ in range(2):
            compiled(torch.ones(3))
        counters = torch._dynamo.utils.counters
        return {key: dict(counters[key]) for key in ("frames", "stats", "resumes")}

    counted = agree(program)
    assert counted["frames"]["ok"] == (1 if function is whole else 2)


def test_breaks_are_counted_once_each():
    def program(compiler):
        compiler(broken, backend="eager")(torch.ones(3))
        return sum(torch._dynamo.utils.counters["graph_break"].values())

    assert agree(program) == 1


def test_what_backends_count():
    def program(compiler):
        compiler(whole, backend="aot_eager", fullgraph=True)(torch.ones(3))
        counters = torch._dynamo.utils.counters
        return dict(counters["aot_autograd"]), dict(counters["frames"])

    assert agree(program) == ({"total": 1, "ok": 1}, {})


def test_a_frame_that_is_not_captured_is_not_ok():
    def fails(x):
        with torch.profiler.profile():
            torch._dynamo.graph_break()
        return x + 1

    def program(compiler):
        compiler(fails, backend="eager")(torch.ones(3))
        frames = torch._dynamo.utils.counters["frames"]
        return frames["total"] >= frames["ok"] >= 0

    assert both(program) == (True, True)


@pytest.mark.no_leak_hunt("runs in a process of its own")
def test_what_was_counted_before_torch_dynamo_was_imported_is_kept(run_python):
    done = run_python(
        """
import sys, torch, magneto
from magneto import counters
magneto.compile(lambda x: x + 1, backend="eager")(torch.ones(3))
assert counters["frames"] == {"total": 1, "ok": 1}
assert not any(name.startswith("torch._dynamo") for name in sys.modules), "it was imported"
import torch._dynamo.utils
assert torch._dynamo.utils.counters is counters is torch._dynamo.output_graph.counters
assert counters["frames"] == {"total": 1, "ok": 1}
assert torch._dynamo.convert_frame.FRAME_COUNTER == 1
ids = []
def backend(module, inputs):
    ids.append(str(torch._guards.CompileContext.current_compile_id()))
    return module.forward
torch.compile(lambda x: x + 2, backend=backend)(torch.ones(3))
magneto.compile(lambda x: x + 3, backend=backend)(torch.ones(3))
assert ids == ["1/0", "2/0"], ids
assert counters["frames"] == {"total": 3, "ok": 3}
print("good")
"""
    )
    assert done.stdout == "good\n", done.stderr
