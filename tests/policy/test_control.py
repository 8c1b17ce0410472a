"""What users say about functions, breaks and captures, through magneto and through torch; the results are eager's."""

from __future__ import annotations

import gc
import logging
import math
import operator
import subprocess
import sys
import threading
import warnings
import weakref
from typing import Any

import pytest
import torch
import torch._dynamo
from torch import nn

import magneto
from magneto import exc

from .control import X, assert_equal, check, eager, graphs

# --- graph_break ---


@pytest.mark.parametrize("graph_break", [magneto.graph_break, torch._dynamo.graph_break])
def test_graph_break(graph_break):
    def f(x):
        y = x + 1
        graph_break()
        return y * 2

    assert graphs(check(f, X, same_as_torch=graph_break is not magneto.graph_break)) == [1, 1]
    assert graph_break() is None


@pytest.mark.parametrize("graph_break", [magneto.graph_break, torch._dynamo.graph_break])
@pytest.mark.parametrize("by_name", [False, True])
def test_the_message_of_a_graph_break(graph_break, by_name):
    def f(x):
        if by_name:
            graph_break(msg="look here")
        else:
            graph_break("look here")
        return x

    with pytest.raises(exc.Unsupported, match="look here") as caught:
        eager(f, fullgraph=True)(X)
    assert caught.value.reason == "USER_BREAK"


def test_graph_break_in_a_callee_and_in_a_loop():
    def callee(x, i):
        y = x * i
        magneto.graph_break()
        return y.sin()

    def f(x):
        for i in range(10):
            x = callee(x, i + 1)
        return x

    compiled = eager(f)
    for _ in range(3):
        assert_equal(compiled(X), f(X))


# --- functions that are captured in another way ---


@pytest.mark.parametrize(
    "allow", [magneto.allow_in_graph, torch.compiler.allow_in_graph, torch._dynamo.allow_in_graph]
)
def test_allow_in_graph(allow):
    @allow
    def allowed(x):
        return x.sin() + x.cos()

    def f(x):
        return allowed(x + 1) + 1

    compiled = check(f, X, same_as_torch=allow is not magneto.allow_in_graph)
    assert graphs(compiled) == [3]
    targets = [node.target for node in magneto.cache_entries(compiled)[0].graph.graph.nodes]
    assert allowed in targets


def test_allow_in_graph_takes_lists():
    def one(x):
        return x.sin() * 2

    def two(x):
        return x.cos() * 2

    assert magneto.allow_in_graph([one, two]) == [one, two]
    assert graphs(check(lambda x: one(x) + two(x), X, same_as_torch=False)) == [3]


def test_what_an_allowed_function_gives_is_asked_in_each_capture():
    count = [1]

    @magneto.allow_in_graph
    def first(x):
        return x[: count[0]] * 2

    compiled = eager(lambda x, n: (first(x).shape[0] + n, first(x)), dynamic=False)
    for n in (1, 2, 3):
        count[0] = n
        size, result = compiled(X, n)
        assert size == 2 * n
        assert torch.equal(result, first(X))


def test_an_allowed_function_is_not_kept_alive():
    def make():
        @magneto.allow_in_graph
        def allowed(x):
            return x + 1

        compiled = eager(lambda x: allowed(x) + 1)
        assert torch.equal(compiled(X), X + 2)
        assert graphs(compiled) == [2]
        return weakref.ref(allowed)

    alive = make()
    gc.collect()
    assert alive() is None


@pytest.mark.no_leak_hunt("torch._dynamo keeps a finalizer for each call")
def test_disallow_in_graph_of_torch():
    torch._dynamo.disallow_in_graph(torch.sub)
    try:

        def f(x):
            return torch.sub(x + 1, 1) * 2

        assert graphs(check(f, X)) == [1, 1]
    finally:
        torch._dynamo.allow_in_graph(torch.sub)


def unmark(function: Any) -> None:
    for name in [name for name in vars(function) if "dynamo" in name or "magneto" in name]:
        delattr(function, name)


@pytest.mark.parametrize("mark", [magneto.disallow_in_graph, magneto.skip])
def test_break_at_a_function_that_is_recorded_by_itself(mark):
    def f(x):
        return torch.nn.functional.relu(x + 1) * 2

    assert graphs(check(f, X, same_as_torch=False)) == [3]
    mark(torch.nn.functional.relu)
    try:
        assert graphs(check(f, X, same_as_torch=False)) == [1, 1]
        magneto.allow_in_graph(torch.nn.functional.relu)
    finally:
        unmark(torch.nn.functional.relu)
    assert graphs(check(f, X, same_as_torch=False)) == [3]


def test_forbid_a_function_that_is_recorded_by_itself():
    magneto.forbid_in_graph(torch.nn.functional.relu)
    try:
        with pytest.raises(AssertionError, match="Attempt to trace forbidden callable"):
            eager(lambda x: torch.nn.functional.relu(x) + 1)(X)
    finally:
        unmark(torch.nn.functional.relu)


def test_assume_constant_result_of_a_function_that_is_recorded_by_itself():
    function = torch.signal.windows.windows.hann
    magneto.assume_constant_result(function)
    try:
        assert graphs(check(lambda x: function(4) * x, X, same_as_torch=False)) == [1]
    finally:
        unmark(function)


def test_assume_constant_result_of_containers():
    made: list[Any] = []

    @magneto.assume_constant_result
    def function(sizes, names=(), *, scale=1):
        made.append(sizes)
        return sizes[0] * len(names) * scale

    def f(x, sizes, names, scale):
        return x * function(sizes, names, scale=scale[0])

    compiled = eager(f)
    for sizes, names, scale in [
        ((1, 2), ["a"], [1]),
        ((5, 2), ["a"], [1]),
        ((5, 2), ["a", "b"], [1]),
        ((5, 2), [], [3]),
    ]:
        for _ in range(2):
            assert torch.equal(compiled(X, sizes, names, scale), f(X, sizes, names, scale))


@pytest.mark.parametrize("forbid", [magneto.forbid_in_graph, torch._dynamo.forbid_in_graph])
@pytest.mark.parametrize("fullgraph", [False, True])
def test_forbid_in_graph(forbid, fullgraph):
    @forbid
    def forbidden(x):
        return x * 2

    compiled = eager(lambda x: forbidden(x) + 1, fullgraph=fullgraph)
    for _ in range(3):
        with pytest.raises(AssertionError, match="Attempt to trace forbidden callable"):
            compiled(X)


@pytest.mark.parametrize(
    "assume",
    [
        magneto.assume_constant_result,
        torch.compiler.assume_constant_result,
        torch._dynamo.assume_constant_result,
    ],
)
def test_assume_constant_result(assume):
    calls = []

    @assume
    def constant(n):
        calls.append(n)
        return n * 2

    compiled = eager(lambda x: x * constant(3), fullgraph=True)
    assert [compiled(X).tolist() for _ in range(3)] == [(X * 6).tolist()] * 3
    assert calls == [3]


def test_assume_constant_result_of_a_tensor():
    value = torch.full((4,), 5.0)

    @magneto.assume_constant_result
    def constant():
        return value

    compiled = eager(lambda x: x * constant() + 1, fullgraph=True)
    for _ in range(3):
        assert torch.equal(compiled(X), X * 5 + 1)
    assert graphs(compiled) == [2]


@pytest.mark.parametrize("trace", [magneto.nonstrict_trace, torch._dynamo.nonstrict_trace])
def test_nonstrict_trace(trace):
    def function(x):
        return x.sin() + x.cos()

    traced = trace(function)
    assert graphs(check(lambda x: traced(x) + 1, X, same_as_torch=False)) == [2]
    assert graphs(check(lambda x: function(x) + 1, X)) == [4]


def test_substitute_in_graph():
    @magneto.substitute_in_graph(operator.indexOf)
    def index_of(a, b, /):
        for i, item in enumerate(a):
            if item is b or item == b:
                return i
        raise ValueError("no")

    try:
        assert index_of([1, 2, 3], 3) == 2

        def f(x):
            return x + operator.indexOf([1, 2, 3], 3) + index_of([4, 5], 5)

        compiled = eager(f, fullgraph=True)
        for _ in range(2):
            assert torch.equal(compiled(X), f(X))
        with pytest.raises(ValueError, match="already"):
            magneto.substitute_in_graph(operator.indexOf)(lambda a, b, /: 0)
        with pytest.raises(TypeError):
            magneto.substitute_in_graph(math.hypot, skip_signature_check=True)(3)
    finally:
        from magneto import _control

        del _control.replaced[operator.indexOf]


@pytest.mark.no_leak_hunt("torch.compile keeps something of each function, called or not")
def test_a_function_of_torch_compile_is_inlined():
    @torch.compile(backend="eager")
    def inner(x):
        return x.sin()

    compiled = eager(lambda x: inner(x + 1) * 2, fullgraph=True)
    for _ in range(2):
        assert_equal(compiled(X), (X + 1).sin() * 2)
    assert graphs(compiled) == [3]


def test_a_function_of_magneto_is_inlined():
    inner = eager(lambda x: x.sin())
    compiled = eager(lambda x: inner(x + 1) * 2, fullgraph=True)
    assert_equal(compiled(X), (X + 1).sin() * 2)
    assert graphs(compiled) == [3]
    assert graphs(inner) == []


@pytest.mark.parametrize("module", [torch.compiler, magneto])
def test_is_compiling(module):
    def f(x):
        return x + 1 if module.is_compiling() else x - 1

    assert torch.equal(eager(f, fullgraph=True)(X), X + 1)
    assert torch.equal(f(X), X - 1)


def test_is_dynamo_compiling():
    def f(x):
        return x + 1 if torch.compiler.is_dynamo_compiling() or torch._dynamo.is_compiling() else x - 1

    assert torch.equal(eager(f, fullgraph=True)(X), X + 1)


def test_comptime_is_no_part_of_the_graph(capsys):
    from torch._dynamo.comptime import comptime

    def f(x):
        y = x + 1
        comptime.print(y)
        comptime(lambda context: None)
        comptime.force_static(x.shape[0])
        return y * 2

    compiled = eager(f, fullgraph=True)
    assert torch.equal(compiled(X), (X + 1) * 2)
    assert capsys.readouterr().out == ""


# --- marks on tensors ---


@pytest.mark.parametrize("module", [magneto, torch._dynamo])
def test_marks_on_tensors_are_taken(module):
    compiled = eager(lambda x: x * 2, fullgraph=True)
    for mark in (module.mark_dynamic, module.maybe_mark_dynamic, module.mark_static):
        x = torch.arange(4.0)
        mark(x, 0)
        assert torch.equal(compiled(x), x * 2)


@pytest.mark.parametrize("module", [magneto, torch._dynamo])
def test_mark_dynamic_is_forbidden_in_captured_code(module):
    def f(x):
        module.mark_dynamic(x, 0)
        return x + 1

    with pytest.raises(AssertionError, match="forbidden"):
        eager(f)(torch.arange(4.0))


@pytest.mark.parametrize("module", [magneto, torch._dynamo])
def test_mark_static_in_captured_code(module):
    def f(x):
        module.mark_static(x, 0)
        return x + 1

    assert torch.equal(eager(f)(X), X + 1)


# --- functions that are called whole ---


@pytest.mark.no_leak_hunt("the hunt runs without pytest's capture of logs")
def test_logging_is_one_break(caplog):
    log = logging.getLogger("magneto.tests.control")

    def f(x):
        y = x + 1
        log.warning("y has %d elements", y.numel())
        return y * 2

    with caplog.at_level(logging.WARNING):
        compiled = eager(f)
        for _ in range(3):
            assert torch.equal(compiled(X), f(X))
    assert [record.getMessage() for record in caplog.records] == ["y has 4 elements"] * 6
    assert len(magneto.explain(f)(X).break_reasons) == 1


def test_warnings_are_one_break():
    def f(x):
        y = x + 1
        warnings.warn("careful", UserWarning, stacklevel=1)
        return y * 2

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        compiled = eager(f)
        for _ in range(3):
            assert torch.equal(compiled(X), f(X))
    assert len(caught) == 6
    assert len({(warning.filename, warning.lineno) for warning in caught}) == 1


def test_seeding_is_one_break():
    def f(x, seed):
        torch.manual_seed(seed)
        return x + torch.rand(4)

    compiled = eager(f)
    for seed in (1, 2, 1, 3, 1, 2, 4, 1):
        assert torch.equal(compiled(X, seed), f(X, seed))
    assert len(magneto.explain(f)(X, 1).break_reasons) == 1


@pytest.mark.no_leak_hunt("the hunt runs without pytest's capture of logs")
@pytest.mark.parametrize("source", [magneto.config, torch._dynamo.config])
def test_logging_functions_can_be_ignored(source, caplog):
    log, other = logging.getLogger("magneto.tests.one"), logging.getLogger("magneto.tests.other")

    def f(x):
        y = x + 1
        log.warning("not shown")
        other.warning("shown")
        return y * 2

    with source.patch(ignore_logging_functions={log.warning}), caplog.at_level(logging.WARNING):
        compiled = eager(f)
        for _ in range(2):
            assert torch.equal(compiled(X), (X + 1) * 2)
    assert [record.getMessage() for record in caplog.records] == ["shown"] * 2


def test_skipped_modules():
    import colorsys

    def f(x):
        return x + 1 + colorsys.rgb_to_hsv(0.5, 0.25, 0.125)[0]

    assert graphs(check(f, X, same_as_torch=False)) == [2]
    with magneto.config.patch(skip_modules=("colorsys",)):
        assert graphs(check(f, X, same_as_torch=False)) == [1, 1]
    assert graphs(check(f, X, same_as_torch=False)) == [2]


def test_control_from_several_threads():
    @magneto.disable
    def disabled(x):
        return x * 2

    def f(x):
        return disabled(x + 1) + 1

    compiled, results = eager(f), []

    def work():
        results.extend(torch.equal(compiled(X), f(X)) for _ in range(20))

    threads = [threading.Thread(target=work) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 100
    assert all(results)


@pytest.mark.no_leak_hunt("runs in a process of its own")
def test_nothing_is_imported_for_control():
    program = """
import sys, magneto

@magneto.disable
def disabled(x):
    return x * 2

@magneto.skip
def skipped(x):
    return x * 2

magneto.graph_break()
with magneto.error_on_graph_break(), magneto.set_stance("force_eager"):
    pass
assert "torch" not in sys.modules

import torch
compiled = magneto.compile(lambda x: disabled(x + 1), backend="eager")
with magneto.set_stance("force_eager"):
    compiled(torch.ones(1))
assert "torch._dynamo" not in sys.modules

compiled(torch.ones(1))
hits = magneto.cache_entries(compiled)[0].hits
with torch.compiler.set_stance("force_eager"):  # now it is loaded
    compiled(torch.ones(1))
assert magneto.cache_entries(compiled)[0].hits == hits
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=300)


def test_what_fails_only_when_compiled() -> None:
    """Where code that is told that it is compiled does what torch refuses, it is told that it is not."""

    def step_size(step: torch.Tensor) -> torch.Tensor | float:
        return step if torch.compiler.is_compiling() else step.item()

    def f(x: torch.Tensor, steps: list[torch.Tensor]) -> list[torch.Tensor]:
        y = [x + 1, x + 2]
        torch._foreach_addcdiv_(y, y, y, [step_size(step) for step in steps])
        return [z * 2 for z in y]

    def g(x: torch.Tensor) -> tuple[torch.Tensor, bool, str]:
        compiling = torch.compiler.is_compiling()
        try:
            y = x @ x
        except RuntimeError as error:
            return x + 1, compiling, type(error).__name__
        return y, compiling, ""

    compiled, other = magneto.compile(f, backend="eager"), magneto.compile(g, backend="eager")
    for i in range(4):
        x, steps = torch.full((2, 3), float(i)), [torch.tensor(i + 1.0), torch.tensor(2.0)]
        torch.testing.assert_close(compiled(x, steps), f(x, steps))
        y, compiling, error = other(x)  # fails in eager too
        assert torch.equal(y, x + 1)
        assert (compiling, error) == (True, "RuntimeError")


def test_transform_only_where_compiled() -> None:
    """A function that takes a transform because it is compiled is told that it is not; others are told they are."""

    def doubled(x: torch.Tensor) -> torch.Tensor:
        if torch.compiler.is_compiling():
            return torch.func.grad(lambda t: (t * t).sum())(x)
        return x * 2

    def f(x: torch.Tensor) -> tuple[torch.Tensor, bool]:
        return doubled(x) + 1, torch.compiler.is_compiling()

    compiled = magneto.compile(f, backend="eager", fullgraph=True)
    for i in range(3):
        x = torch.full((2, 3), float(i))
        y, compiling = compiled(x)
        assert torch.equal(y, x * 2 + 1)
        assert compiling
    assert len(magneto.cache_entries(compiled)) == 1


class Exported(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.relu = nn.ReLU()

    def forward(self, x: torch.Tensor) -> Any:
        return self.linear(self.relu(self.linear(x)))


@pytest.mark.no_leak_hunt("TorchDynamo keeps what it compiled")
def test_frames_that_torch_dynamo_is_set_to_work_on_are_left_to_it() -> None:
    def program(x: torch.Tensor) -> list[str]:
        graph, _ = torch._dynamo.export(Exported(), aten_graph=True)(x)
        return [str(node.target) for node in graph.graph.nodes]

    x = torch.randn(3, 3)
    expected = program(x)
    torch._dynamo.reset()
    compiled = magneto.compile(program, backend="eager")
    for _ in range(2):
        assert compiled(x) == expected
        torch._dynamo.reset()
