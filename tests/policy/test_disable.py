"""Functions, methods, modules and classes that are disabled or skipped, through magneto and through torch."""

from __future__ import annotations

import pickle
import threading
from typing import Any

import pytest
import torch
import torch._dynamo
from torch import nn

import magneto
from magneto import exc

from .control import X, assert_equal, check, eager, graphs, torch_graphs


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

    compiled = check(f, X, same_as_torch=False)
    assert graphs(compiled) == [1, 1, 3]


@pytest.mark.no_leak_hunt("starts a thread, and TorchDynamo on it")
def test_a_disabled_frame_is_not_captured_when_dynamo_hands_it_back():
    """TorchDynamo works on another thread: its hook was put over ours, and then ours over it, so frames come back."""
    inside, leave = threading.Event(), threading.Event()

    @torch.compile(backend="eager")
    def other(x):
        y = x + 1
        torch._dynamo.graph_break()
        inside.set()
        leave.wait(60)
        return y * 2

    thread = threading.Thread(target=other, args=(X,))

    @magneto.disable
    def start():
        if not inside.is_set():
            thread.start()
            inside.wait(60)

    def callee(x):
        return x.sin().cos().tan()

    @magneto.disable(recursive=False)
    def disabled(x):
        return callee(x) * 2

    def f(x):
        start()
        return disabled(x + 1) + 1

    compiled = eager(f)
    try:
        results = [compiled(X) for _ in range(3)]
    finally:
        leave.set()
        thread.join()
    for result in results:
        assert torch.equal(result, f(X))
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


def test_all_is_disabled_by_the_environment(monkeypatch):
    monkeypatch.setenv("TORCHDYNAMO_DISABLE", "1")

    def f(x):
        return x + 1

    assert eager(f) is f


def test_disable_wants_a_callable():
    with pytest.raises(TypeError):
        magneto.disable(3)
