"""What backends ask for about the program: the code that was traced; and the helpers of `torch._dynamo.testing`."""

from __future__ import annotations

import pytest
import torch
import torch._dynamo.testing
import torch._dynamo.utils
from torch._guards import TracingContext

import magneto

from .side_by_side import agree, both, broken, helper, whole


def number():
    """Has no operation of torch's."""
    return 2


def outer(x):
    return helper(x) + number() + sum(number() for _ in range(2))


def codes_seen(compiler, function):
    seen = []

    def backend(module, inputs):
        codes = TracingContext.get_traced_code()
        assert codes == torch._dynamo.utils.get_traced_code()
        seen.append([code.co_name for code in codes if "dropin" in code.co_filename])
        return module.forward

    compiler(function, backend=backend)(torch.ones(3))
    return seen


def test_traced_code_has_all_functions_the_outermost_first():
    theirs, ours = both(lambda compiler: codes_seen(compiler, outer))
    assert [set(names) for names in ours] == [set(names) for names in theirs]
    assert ours[0][:3] == ["outer", "helper", "number"] and len(ours[0]) == len(set(ours[0]))


@pytest.mark.no_leak_hunt("torch.compile leaves a global behind for each frame")
def test_traced_code_behind_a_break():
    _, ours = both(lambda compiler: codes_seen(compiler, broken))
    assert ours[0][0] == "broken" and ours[1] == ["broken", "helper"]


@pytest.mark.no_leak_hunt("torch.compile leaves a global behind for each frame")
@pytest.mark.parametrize("name", ["CompileCounter", "EagerAndRecordGraphs", "CompileCounterWithBackend"])
def test_counting_backends(name):
    def program(compiler):
        make = getattr(torch._dynamo.testing, name)
        backend = make("aot_eager") if name == "CompileCounterWithBackend" else make()
        compiled = compiler(broken, backend=backend)
        compiled(torch.ones(3))
        compiled(torch.ones(3, dtype=torch.float64))
        graphs = getattr(backend, "graphs", [])
        return (
            getattr(backend, "frame_count", None),
            getattr(backend, "op_count", None),
            [[node.name for node in graph.graph.nodes] for graph in graphs],
        )

    assert agree(program) != (None, None, [])


def test_normalized_graphs_are_the_same():
    def program(compiler):
        backend = torch._dynamo.testing.EagerAndRecordGraphs()
        compiler(whole, backend=backend, fullgraph=True)(torch.ones(3))
        return torch._dynamo.testing.normalize_gm(backend.graphs[0].print_readable(print_output=False))

    assert "l_x_ * 2" in agree(program)


def test_results_are_collected():
    module = torch.nn.Linear(2, 2)
    example = torch.ones(3, 2)

    def program(compiler):
        module.zero_grad()
        compiled = compiler(module, backend="aot_eager")
        out = compiled(example)
        loss = torch._dynamo.testing.reduce_to_scalar_loss(out)
        loss.backward()
        return torch._dynamo.testing.collect_results(module, out, loss, [example])

    theirs, ours = both(program)
    assert torch._dynamo.testing.same(theirs, ours)


def test_a_standard_test():
    magneto.install()
    try:
        counter = torch._dynamo.testing.CompileCounter()
        compiled = torch._dynamo.optimize_assert(counter)(whole)
        assert torch._dynamo.testing.same(compiled(torch.ones(3)), whole(torch.ones(3)))
        assert (counter.frame_count, counter.op_count) == (1, 2)
    finally:
        magneto.uninstall()
