"""What users say about functions, breaks and captures, through magneto and through torch; the results are eager's."""

from __future__ import annotations

import functools
import gc
import logging
import math
import operator
import os
import pickle
import subprocess
import sys
import threading
import warnings
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch._dynamo
from torch import nn

import magneto
from magneto import exc

X = torch.arange(4.0)


def eager(function: Any, **kwargs: Any) -> Any:
    return magneto.compile(function, backend="eager", **kwargs)


def graphs(compiled: Any) -> list[int]:
    """How many operations each graph has, of those that have any; in the order in which they were captured."""
    entries = [entry.entry for entry in magneto.cache_entries(compiled)]
    return sorted(entry.operations for entry in entries if entry.operations)


assert_equal = functools.partial(torch.testing.assert_close, rtol=0, atol=0)

_known: dict[Any, list[int]] = {}


def torch_graphs(function: Any, *args: Any) -> list[int]:
    """The same for torch.compile; asked once for each test, as it keeps what it has made."""
    key = os.environ["PYTEST_CURRENT_TEST"], function.__code__
    if key in _known:
        return _known[key]
    found: list[int] = []

    def backend(module: torch.fx.GraphModule, _: Any) -> Any:
        found.append(sum(node.op.startswith("call_") for node in module.graph.nodes))
        return module.forward

    torch._dynamo.reset()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.compile(function, backend=backend, dynamic=False)(*args)
    _known[key] = sorted(filter(None, found))
    return _known[key]


def check(function: Callable[..., Any], *args: Any, calls: int = 3, same_as_torch: bool = True) -> Any:
    """Captured, a function gives what it gives in eager, and the graphs are torch.compile's. Gives the compiled one."""
    compiled = eager(function)
    for _ in range(calls):
        assert_equal(compiled(*args), function(*args))
    if same_as_torch:
        assert graphs(compiled) == torch_graphs(function, *args)
    return compiled


@pytest.fixture(params=["magneto", "torch.compiler", "torch._dynamo"])
def disable(request: pytest.FixtureRequest) -> Any:
    return {
        "magneto": magneto.disable, "torch.compiler": torch.compiler.disable, "torch._dynamo": torch._dynamo.disable,
    }[request.param]  # fmt: skip


# --- disable ---


def test_a_disabled_function_is_a_break(disable):
    seen = []

    @disable
    def disabled(x):
        seen.append((torch.compiler.is_compiling(), magneto.is_compiling()))
        return x * 2

    def f(x):
        return disabled(x + 1) + 1

    assert graphs(check(f, X, same_as_torch=disable is not magneto.disable)) == [1, 1]
    assert set(seen) == {(False, False)}
    assert disabled.__name__ == "disabled"


def test_a_disabled_function_reached_by_inlining(disable):
    @disable
    def disabled(x):
        return x * 2

    def middle(x):
        y = x.sin()
        return disabled(y).cos()

    def f(x):
        return middle(x + 1) + 1

    assert graphs(check(f, X, same_as_torch=False)) == [
        1,
        1,
        2,
    ]  # torch.compile breaks in the outermost frame only


def test_disable_with_arguments(disable):
    @disable(reason="it talks to the network")
    def disabled(x):
        return x * 2

    with pytest.raises(exc.Unsupported, match="it talks to the network") as caught:
        eager(lambda x: disabled(x) + 1, fullgraph=True)(X)
    assert caught.value.reason == "DISABLED"


def test_disable_leaves_the_function_itself_alone(disable):
    def function(x):
        return x * 2

    disabled = disable(function)
    assert graphs(check(lambda x: function(x + 1), X, same_as_torch=disable is not magneto.disable)) == [2]
    assert graphs(check(lambda x: disabled(x + 1), X, same_as_torch=disable is not magneto.disable)) == [1]


def test_compile_of_a_disabled_function_compiles_it(disable):
    @disable
    def function(x):
        return x * 2

    compiled = eager(function, fullgraph=True)
    assert torch.equal(compiled(X), X * 2)
    assert graphs(compiled) == [1]
    assert torch_graphs(function, X) == [1]


def test_a_disabled_method(disable):
    class Thing:
        def __init__(self):
            self.calls = 0

        @disable
        def method(self, x):
            self.calls += 1
            return x * self.calls

    def f(thing, x):
        return thing.method(x + 1) + 1

    compiled, ours, theirs = eager(f), Thing(), Thing()
    for _ in range(4):
        assert torch.equal(compiled(ours, X), f(theirs, X))
    assert ours.calls == theirs.calls == 4
    assert graphs(compiled) == [1, 1]


def test_a_disabled_forward(disable):
    class Inner(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(4, 4)

        @disable
        def forward(self, x):
            return self.linear(x)

    inner = Inner()

    def f(x):
        return inner(x + 1) * 2

    assert graphs(check(f, X, same_as_torch=False)) == [1, 1]


def test_a_disabled_module(disable):
    module = nn.Linear(4, 4)
    disabled = disable(module)

    def f(x):
        return disabled(x + 1) * 2

    assert graphs(check(f, X, same_as_torch=False)) == [1, 1]
    assert torch.equal(disabled(X), module(X))
    assert disabled.weight is module.weight
    assert [name for name, _ in disabled.named_parameters()] == ["_orig_mod.weight", "_orig_mod.bias"]


def test_a_disabled_module_in_a_module():
    model = nn.Sequential(nn.Linear(4, 4), magneto.disable(nn.ReLU()), nn.Linear(4, 4))
    compiled = eager(model)
    for _ in range(3):
        assert_equal(compiled(X), model(X))
    assert graphs(compiled) == [1, 1]


def test_a_disabled_module_can_be_pickled_and_compiled():
    disabled = magneto.disable(nn.Linear(4, 4))
    other = pickle.loads(pickle.dumps(disabled))
    assert torch.equal(other(X), disabled(X))
    compiled = eager(disabled)
    compiled(X)
    assert graphs(compiled) == [1]


def test_a_disabled_class(disable):
    @disable
    class Thing:
        def __init__(self, x):
            self.x = x.sin()

        def __call__(self, x):
            return self.x * x

    def f(x):
        return Thing(x + 1)(x - 1) + 1

    assert graphs(check(f, X, same_as_torch=False)) == [1, 1, 1]


def test_a_disabled_property_and_key_function(disable):
    class Thing:
        @property
        @disable
        def scale(self):
            return 3

    @disable
    def key(value):
        return -value

    thing = Thing()

    def f(x):
        y = x + 1
        y = y * thing.scale
        return y + sorted([1, 3, 2], key=key)[0]

    check(f, X, same_as_torch=False)


def test_recursive_disable_leaves_callees_to_cpython(disable):
    compiling = []

    def callee(x):
        compiling.append(torch.compiler.is_compiling())
        return x.sin().cos()

    @disable
    def disabled(x):
        return callee(x) + callee(x)

    def f(x):
        return disabled(x + 1) + 1

    compiled = check(f, X, same_as_torch=disable is not magneto.disable)
    assert graphs(compiled) == [1, 1]
    assert not any(compiling)


def test_non_recursive_disable_captures_callees(disable):
    def callee(x):
        return x.sin().cos().tan()

    @disable(recursive=False)
    def disabled(x):
        return callee(x) * 2

    def f(x):
        return disabled(x + 1) + 1

    compiled = check(f, X, same_as_torch=disable is not magneto.disable)
    assert graphs(compiled) == [1, 1, 3]


def test_a_compiled_function_below_a_disabled_one_is_captured(disable):
    inner = eager(lambda x: x.sin().cos())

    @disable
    def disabled(x):
        return inner(x)

    def f(x):
        return disabled(x + 1) + 1

    check(f, X, same_as_torch=False)
    assert graphs(inner) == [2]


def test_skip_marks_the_function():
    @magneto.skip
    def skipped(x):
        return helper(x) * 2

    def helper(x):
        return x.sin().cos()

    def f(x):
        return skipped(x + 1) + 1

    assert graphs(check(f, X, same_as_torch=False)) == [1, 1, 2]


def test_compile_of_a_skipped_function_captures_its_callees():
    def helper(x):
        return x.sin().cos()

    @magneto.skip
    def skipped(x):
        return helper(x) * 2

    compiled = eager(skipped)
    for _ in range(3):
        assert_equal(compiled(X), skipped(X))
    assert graphs(compiled) == [2]


@pytest.mark.parametrize("name", ["TORCHDYNAMO_DISABLE", "TORCH_COMPILE_DISABLE"])
def test_all_is_disabled_by_the_environment(monkeypatch, name):
    monkeypatch.setenv(name, "1")

    def f(x):
        return x + 1

    assert eager(f) is f


def test_disable_wants_a_callable():
    with pytest.raises(TypeError):
        magneto.disable(3)


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


# --- error_on_graph_break ---


@pytest.fixture(params=["magneto", "torch"])
def strict(request: pytest.FixtureRequest) -> Any:
    return magneto.error_on_graph_break if request.param == "magneto" else torch._dynamo.error_on_graph_break


def broken(x):
    y = x + 1
    magneto.graph_break()
    return y * 2


def test_error_on_graph_break_around_a_call(strict):
    compiled = eager(broken)
    for _ in range(3):
        with strict(True), pytest.raises(exc.Unsupported):
            compiled(X)
    for _ in range(3):
        assert torch.equal(compiled(X), broken(X))
    with strict(True), pytest.raises(exc.Unsupported):  # also now that there is something captured
        compiled(X)
    with strict(False):
        assert torch.equal(compiled(X), broken(X))


def test_error_on_graph_break_in_captured_code(strict):
    def f(x, inside):
        y = x + 1
        magneto.graph_break()
        with strict(True):
            y = y * 2
            if inside:
                magneto.graph_break()
        magneto.graph_break()
        return y - 1

    compiled = eager(f)
    for _ in range(3):
        assert torch.equal(compiled(X, False), f(X, False))
        with pytest.raises(exc.Unsupported) as caught:
            compiled(X, True)
        assert caught.value.stack[-1].line.strip() == "magneto.graph_break()"


def test_error_on_graph_break_as_a_decorator(strict):
    @strict(True)
    def whole(x):
        return x.sin()

    @strict(True)
    def callee(x):
        return broken(x)

    compiled = eager(lambda x: broken(whole(x)))
    for _ in range(2):
        assert_equal(compiled(X), broken(X.sin()))
    with pytest.raises(exc.Unsupported):
        eager(lambda x: callee(x + 1))(X)


def test_error_on_graph_break_can_be_switched_off_inside(strict):
    def f(x):
        with strict(True):
            y = x + 1
            with strict(False):
                magneto.graph_break()
            return y * 2

    compiled = eager(f)
    for _ in range(3):
        assert torch.equal(compiled(X), f(X))
    assert graphs(compiled) == [1, 1]


def test_error_on_graph_break_can_be_switched_off_by_a_decorator(strict, capsys):
    @strict(False)
    def lenient(v):
        v = v * 2
        print("lenient")
        return v + 1

    def f(x):
        with strict(True):
            return lenient(x * 2) + 1

    compiled = magneto.compile(f, backend="eager")
    for x in (X, X + 1, X):
        assert torch.equal(compiled(x), x * 4 + 2)
    assert capsys.readouterr().out == "lenient\n" * 3


def test_fullgraph_goes_before_error_on_graph_break(strict):
    compiled = eager(broken, fullgraph=True)
    with strict(False), pytest.raises(exc.Unsupported):
        compiled(X)


# --- stances ---


@pytest.fixture(params=["magneto", "torch"])
def set_stance(request: pytest.FixtureRequest) -> Any:
    stance = magneto.set_stance if request.param == "magneto" else torch.compiler.set_stance
    yield stance
    stance("default")


class Made:
    """What was captured of a compiled callable."""

    def __init__(self, compiled: Any) -> None:
        self.compiled = compiled

    def __len__(self) -> int:
        return len(magneto.cache_entries(self.compiled))


def counting() -> tuple[Any, Made]:
    """A function, and what was captured of it."""

    def f(x, n=2):
        return x * n

    compiled = eager(f)
    return compiled, Made(compiled)


def test_force_eager(set_stance):
    f, made = counting()
    with set_stance("force_eager"):
        assert torch.equal(f(X), X * 2)
    assert len(made) == 0
    f(X)
    assert len(made) == 1
    with set_stance("force_eager"):
        f(X)
    assert magneto.cache_entries(f)[0].hits == 1


def test_eager_on_recompile(set_stance):
    f, made = counting()
    f(X)
    with set_stance("eager_on_recompile"):
        assert torch.equal(f(X), X * 2)
        assert torch.equal(f(X, 3), X * 3)
    assert len(made) == 1
    assert magneto.cache_entries(f)[0].hits == 2


def test_fail_on_recompile(set_stance):
    f, made = counting()
    with set_stance("fail_on_recompile"), pytest.raises(RuntimeError, match="Detected recompile"):
        f(X)
    f(X)
    with set_stance("fail_on_recompile"):
        assert torch.equal(f(X), X * 2)
        with pytest.raises(RuntimeError, match="Detected recompile.*fail_on_recompile.*function name: 'f'"):
            f(X, 3)
    assert len(made) == 1


@pytest.mark.parametrize("warm", [1, 2, 3])
def test_fail_on_recompile_with_nothing_to_capture(set_stance, warm, capsys):
    def tail(x):
        y = x * 2
        print("a")
        y = y + 1
        print("b")
        return y

    def loop(x):
        for i in range(3):
            x = x + 1
            print(i)
        return x

    def nothing(x):
        print("c")
        return x

    for function in (tail, loop, nothing):
        f = magneto.compile(function, backend="eager")
        for _ in range(warm):
            f(X)
        with set_stance("fail_on_recompile"):
            assert torch.equal(f(X), function(X))
            if function is not nothing:
                with pytest.raises(RuntimeError, match="Detected recompile"):
                    f(X.double())


def test_eager_then_compile(set_stance):
    f, made = counting()
    with set_stance("eager_then_compile"):
        assert torch.equal(f(X), X * 2)
        assert len(made) == 0
        assert torch.equal(f(X), X * 2)
        assert torch.equal(f(X), X * 2)
    assert len(made) == 1


def test_aot_eager_then_compile(set_stance):
    made = []

    def backend(module: torch.fx.GraphModule, _: Any) -> Any:
        made.append(module)
        return module.forward

    f = magneto.compile(lambda x, n: x * n, backend=backend)
    with set_stance("aot_eager_then_compile"):
        assert torch.equal(f(X, 2), X * 2)
        assert made == []
        assert len(magneto.cache_entries(f)) == 1
        assert torch.equal(f(X, 3), X * 3)
    assert len(made) == 1


def test_force_backend(set_stance):
    f, made = counting()
    other: list[str] = []

    def backend(module: torch.fx.GraphModule, _: Any) -> Any:
        other.append("other")
        return module.forward

    f(X)
    for _ in range(2):
        with set_stance("default", force_backend=backend):
            assert torch.equal(f(X), X * 2)
    assert torch.equal(f(X), X * 2)
    assert (len(made), other) == (1, ["other"])


def test_skip_guard_eval_unsafe(set_stance):
    f, _ = counting()
    f(X)
    f(X, 3)
    with set_stance("default", skip_guard_eval_unsafe=True):
        assert torch.equal(f(X), X * 2)
        assert torch.equal(f(X, 3), X * 3)
        with pytest.raises(RuntimeError, match="skip_guard_eval_unsafe"):
            f(X, 4)


def test_a_stance_as_a_function(set_stance):
    f, made = counting()
    set_stance("force_eager")
    f(X)
    assert len(made) == 0
    set_stance("default")
    f(X)
    assert len(made) == 1


def test_a_stance_as_a_decorator(set_stance):
    f, made = counting()

    @set_stance("force_eager")
    def outer(x):
        return f(x)

    assert torch.equal(outer(X), X * 2)
    assert len(made) == 0
    f(X)
    assert len(made) == 1


def test_stances_nest(set_stance):
    f, made = counting()
    with set_stance("force_eager"):
        with set_stance("default"):
            f(X)
        assert len(made) == 1
        f(X, 3)
    assert len(made) == 1


def test_stances_are_forbidden_in_captured_code(set_stance):
    def f(x):
        with set_stance("force_eager"):
            return x + 1

    with pytest.raises(AssertionError, match="forbidden"):
        eager(f)(X)


def test_force_eager_with_breaks(set_stance):
    compiled = eager(broken)
    compiled(X)
    with set_stance("force_eager"):
        assert torch.equal(compiled(X), broken(X))
    with set_stance("eager_on_recompile"):
        assert torch.equal(compiled(X), broken(X))
        assert torch.equal(compiled(X[:2]), broken(X[:2]))


def test_unknown_stances():
    with pytest.raises(RuntimeError, match="no stance"):
        magneto.set_stance("sideways")
    with pytest.raises(RuntimeError, match="force_backend"):
        magneto.set_stance("force_eager", force_backend="eager")


def test_run_uses_what_there_is():
    f, made = counting()
    f(X)
    only = magneto.run(f)
    assert torch.equal(only(X, 3), X * 3)
    assert torch.equal(only(X), X * 2)
    assert len(made) == 1
    with magneto.run():
        f(X, 4)
    assert len(made) == 1
    f(X, 4)
    assert len(made) == 2


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
            return torch.vmap(lambda t: t * 2)(x)
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
