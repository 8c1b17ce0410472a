"""Code that runs in the middle of a call, in a comparison, a finalizer or a collection; and functions that change."""

from __future__ import annotations

import gc
import itertools
import types
from collections.abc import Iterator
from typing import Any

import pytest
import torch

import magneto
from magneto import _core

X = torch.arange(6.0).reshape(2, 3)


@pytest.fixture(params=[1, 2], ids=["quick", "both"])
def _mode(request: Any) -> Iterator[None]:
    before = _core.guard_mode(request.param)
    yield
    _core.guard_mode(before)


class Options:
    def __init__(self, n: int = 1) -> None:
        self.n = n


@pytest.mark.usefixtures("_mode")
@pytest.mark.parametrize("count", [1, 6])
def test_code_with_fewer_arguments(count: int) -> None:
    def f(a: Any, b: Any, c: Any) -> Any:
        return a + c.n

    def fewer(a: Any) -> Any:
        return a * 2

    def more(a: Any, b: Any, c: Any, d: int = 1, *rest: Any, e: int = 2) -> Any:
        return a + c.n + d + e + len(rest)

    compiled: Any = magneto.compile(f, backend="eager")
    first = f.__code__
    for _ in range(2):
        for n in range(count):
            assert compiled(X, X, Options(n)).tolist() == (X + n).tolist()
        f.__code__ = fewer.__code__
        assert compiled(X).tolist() == (X * 2).tolist()
        with pytest.raises(TypeError):
            compiled(X, X, Options(0))
        f.__code__, f.__defaults__, f.__kwdefaults__ = more.__code__, (1,), {"e": 2}
        assert compiled(X, X, Options(5), 7, 8, 9).tolist() == (X + 16).tolist()
        f.__code__, f.__defaults__, f.__kwdefaults__ = first, None, None


@pytest.mark.usefixtures("_mode")
def test_function_with_the_same_code_and_other_globals() -> None:
    space: dict[str, Any] = {}
    exec("def h(x): return x + n", space)
    inner = [types.FunctionType(space["h"].__code__, {"n": n}) for n in (1, 5)]

    def f(x: Any, h: Any) -> Any:
        return h(x)

    compiled: Any = magneto.compile(f, backend="eager")
    for _ in range(3):
        assert compiled(X, inner[0]).tolist() == (X + 1).tolist()
        assert compiled(X, inner[1]).tolist() == (X + 5).tolist()


def test_arguments_that_do_not_fit_are_no_recompile() -> None:
    def f(x: Any) -> Any:
        return x + 1

    compiled: Any = magneto.compile(f, backend="eager")
    compiled(X)
    with (
        magneto.set_stance("fail_on_recompile"),
        pytest.raises(TypeError, match="missing 1 required positional"),
    ):
        compiled()


def test_backends_guard_calls_the_function_again() -> None:
    inner: list[int] = []
    made = 0

    def compile(entry: Any) -> Any:
        nonlocal made
        number = made
        made += 1

        def check(inputs: Any) -> bool:
            if inner:
                n = inner.pop()
                assert compiled(X, n).tolist() == (X + n).tolist()
            return True

        return lambda x: (x + number,), check

    def f(x: Any, n: int) -> Any:
        return x + n

    magneto.compile(f, backend="eager")  # has torch looked at
    compiled = _core.Compiled(f, compile, lambda *args: None)
    compiled.dynamic = 0
    for n in range(3):
        compiled(X, n)
    for a, b in list(itertools.permutations(range(3), 2)) * 3:
        inner.append(b)
        assert compiled(X, a).tolist() == (X + a).tolist()
        assert len({id(entry) for entry in compiled.entries()}) == 3
    assert made == 3


def test_collection_in_the_guards() -> None:
    held = [torch.ones(2, 3)]

    def f(x: Any, held: Any, options: Any) -> Any:
        y = held[0]
        return x + y + options.n, y

    compiled: Any = magneto.compile(f, backend="eager")
    for _ in range(10):
        compiled(X, held, Options())
    waiting = True

    def callback(phase: str, info: Any) -> None:
        nonlocal waiting
        if waiting and phase == "start":
            waiting = False
            held[0] = torch.zeros(2, 3)

    instances = [Options() for _ in range(300)]  # each gets its dict when the guards ask for it
    dicts: list[Any] = [{} for _ in range(200)]  # none is kept for reuse
    before = gc.get_threshold()
    gc.collect()
    gc.callbacks.append(callback)
    try:
        for options in instances:
            held[0] = old = torch.ones(2, 3)
            first = held[0].tolist()
            waiting = True
            gc.set_threshold(1)
            result, y = compiled(X, held, options)
            gc.set_threshold(0)
            assert y.tolist() == first
            assert y is old
            assert result.tolist() == (X + 2).tolist()
            dicts.append(result)
    finally:
        gc.callbacks.remove(callback)
        gc.set_threshold(*before)


@pytest.mark.usefixtures("_mode")
@pytest.mark.parametrize("resets", [False, True])
def test_default_that_the_guards_were_the_last_to_hold(resets: bool) -> None:
    held = [torch.ones(2, 3)]
    gone = 0

    class Default:
        n = 1

        def __del__(self) -> None:
            nonlocal gone
            gone += 1
            held[0] = torch.ones(2, 3)
            if resets:
                compiled.reset()

    def h(x: Any, held: Any, default: Any = Default()) -> Any:  # noqa: B008
        return x + held[0] + default.n

    def f(x: Any, held: Any, n: int) -> Any:
        return h(x, held) + n

    compiled: Any = magneto.compile(f, backend="eager")
    for n in range(3):
        for _ in range(3):
            compiled(X, held, n)
    for i in range(60):
        h.__defaults__ = (Default(),)
        for _ in range(3):
            assert compiled(X, held, i % 3).tolist() == (X + 2 + i % 3).tolist()
    assert gone > 0


@pytest.mark.usefixtures("_mode")
def test_key_whose_comparison_runs_code() -> None:
    held = [torch.ones(2, 3)]
    calls = 0

    class Key:
        def __hash__(self) -> int:
            return hash("k")

        def __eq__(self, other: object) -> bool:
            nonlocal calls
            calls += 1
            held[0] = torch.zeros(2, 3)
            return self.equal

        equal = False

    def f(x: Any, held: Any, table: Any) -> Any:
        y = held[0]
        return x + y + table.get("k", 7)

    compiled: Any = magneto.compile(f, backend="eager")
    for table, expected in (({"k": 1}, 2), ({}, 8)):
        for _ in range(3):
            assert compiled(X, held, table).tolist() == (X + expected).tolist()
    for equal, expected in ((False, 2), (True, 11)):
        Key.equal = False
        table = {Key(): 10, "k": 1}  # this compares the keys, too
        Key.equal = equal
        for i in range(20):
            counts = []
            for function in (f, compiled):  # with some hashes a dict asks the same key twice
                held[0] = torch.ones(2, 3)
                calls = 0
                assert function(X, held, table).tolist() == (X + expected).tolist(), i
                counts.append(calls)
            assert counts[0] == counts[1] > 0


@pytest.mark.usefixtures("_mode")
@pytest.mark.parametrize("kind", ["function", "signature", "generator", "method"])
def test_graph_that_drops_its_own_inputs(kind: str) -> None:
    """What the backend gives may be a function of Python, which is given borrowed inputs, or anything else."""

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w = torch.nn.Parameter(torch.full((2, 3), 2.0))
            self.b = torch.nn.Parameter(torch.full((3,), 0.5))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * self.w + self.b

    net = Net()
    seen: list[float] = []

    def replace() -> None:
        net.w = torch.nn.Parameter(net.w.detach() + 1)
        net.b = torch.nn.Parameter(net.b.detach() + 1)
        gc.collect()
        for _ in range(100):
            torch.full((2, 3), -1.0)

    def backend(graph: Any, inputs: Any) -> Any:
        def starred(*args: Any) -> Any:
            replace()
            seen.append(sum(float(a.detach().sum()) for a in args))
            return graph.forward(*args)

        def named(a: Any, b: Any, c: Any) -> Any:
            replace()
            seen.append(sum(float(t.detach().sum()) for t in (a, b, c)))
            return graph.forward(a, b, c)

        def lazily(*args: Any) -> Any:
            yield starred(*args)[0]

        class Bound:
            def run(self, *args: Any) -> Any:
                return starred(*args)

        if kind == "generator":
            return lambda *args: tuple(lazily(*args))
        return {"function": starred, "signature": named, "method": Bound().run}[kind]

    compiled: Any = magneto.compile(net, backend=backend)
    for i in range(6):
        x = X + i
        expected = (x * (i + 2.0) + (i + 0.5)).tolist()
        assert compiled(x).tolist() == expected
        assert seen[-1] == float(x.sum()) + 6 * (i + 2.0) + 3 * (i + 0.5)


def test_call_in_a_graph_where_dicts_are_replaced() -> None:
    """What is pinned is not in the registers of a call that is made within another."""

    class Box:
        n = 0

    box, depth = Box(), 0
    box.n = 1

    def backend(graph: Any, inputs: Any) -> Any:
        def run(*args: Any) -> Any:
            nonlocal depth
            if 0 < depth < 50:
                depth += 1
                compiled(X)
            return graph.forward(*args)

        return run

    compiled: Any = magneto.compile(lambda x: x + box.n, backend=backend)
    for _ in range(6):
        box.__dict__ = dict(box.__dict__)
        for _ in range(3):
            assert compiled(X).tolist() == (X + 1).tolist()
    junk = [bytes([0xAB]) * n for n in range(16, 200) for _ in range(50)]
    del junk  # freed memory that is not zero
    depth = 1
    assert compiled(X).tolist() == (X + 1).tolist()
    assert depth == 50


def test_graph_with_another_number_of_arguments_is_an_error() -> None:
    compiled: Any = magneto.compile(lambda x, y: x + y, backend=lambda graph, inputs: lambda a: (a,))
    for _ in range(3):
        with pytest.raises(TypeError, match="positional argument"):
            compiled(X, X + 1)
