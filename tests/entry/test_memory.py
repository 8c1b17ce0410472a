"""What a compiled callable holds: references stay level over many calls and captures, and all goes when it goes.

The counts are compared after the first calls, so caches are full; what leaks one reference for each call shows as
thousands.
"""

from __future__ import annotations

import functools
import gc
import sys
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch

import magneto
from magneto import _core

pytestmark = pytest.mark.no_leak_hunt("counts references itself, over many calls")

# With the interpreter's checks, and under a sanitizer, a call takes ten times as long.
CALLS = 50_000 if _core.checks else 1_000_000
CAPTURES = 200 if _core.checks else 1_000
SLACK = 60  # references and blocks: far fewer than one for each call or capture


class Thing:
    kind = "thing"

    def __init__(self) -> None:
        self.number = 3
        self.items = [1, 2, 3]
        self.table: dict[str, Any] = {"a": 1.5, "b": None}
        self.weight = torch.ones(2)
        self.count = 0

    def half(self) -> float:
        return self.number / 2


thing = Thing()
stored = [1, (2, 3)]


def figures(objects: tuple[Any, ...]) -> list[int]:
    gc.collect()
    return [sys.getrefcount(each) for each in objects] + [sys.getallocatedblocks()]


def check_level(objects: tuple[Any, ...], run: Callable[[], None]) -> None:
    """Run something until a run leaves the reference counts of the objects, and the number of blocks, as they were.

    CPython keeps some freed memory for later, up to a bound, so the first runs may leave blocks behind.
    """
    growth = []
    before = figures(objects)
    for _ in range(5):
        run()
        now = figures(objects)
        growth = [new - old for new, old in zip(now, before, strict=True)]
        if max(growth) < SLACK and min(growth[:-1]) > -SLACK:
            return
        before = now
    raise AssertionError(f"it grows each time: {growth}")


def call(function: Callable[..., Any], times: int, *args: Any, **kwargs: Any) -> None:
    for _ in range(times):
        function(*args, **kwargs)


def parts(function: Callable[..., Any], x: torch.Tensor) -> tuple[Any, ...]:
    return (
        function, function.__code__, x, torch.float32, thing, thing.items, thing.table, thing.weight, stored, stored[1],
        Thing, None, True, 3, "thing", Thing.half,
    )  # fmt: skip


def reads(x: Any, n: Any = 3, *rest: Any, key: str = "a", **more: Any) -> Any:
    return x.shape[0], n, thing.half(), thing.table[key], thing.items[-1], stored[1], rest, more, Thing.kind


def writes(x: Any) -> Any:
    thing.count = thing.items[0] + 1
    thing.items[1] = x
    thing.items[1] = 2
    thing.table["b"] = [thing]
    thing.table["b"] = None
    return [x, thing, {"x": (x, thing.items)}, lambda: x]


def computes(x: Any) -> Any:
    y = x * thing.weight + thing.number
    return y, [y, x], y.shape


def breaks(x: Any) -> Any:
    y = x + 1
    sys.getrefcount(None)  # C code that nobody knows
    return [y, thing.items, thing]


@pytest.mark.parametrize(
    "function, times", [(reads, CALLS), (writes, CALLS), (computes, CALLS // 20), (breaks, CALLS // 20)]
)
def test_hits_keep_references_level(function: Callable[..., Any], times: int) -> None:
    x = torch.ones(2)
    compiled = magneto.compile(function, backend="eager")
    arguments = ((x, 3, stored), {"key": "a", "z": thing}) if function is reads else ((x,), {})
    call(compiled, 10, *arguments[0], **arguments[1])
    captures = compiled.captures
    check_level(parts(function, x), lambda: call(compiled, times, *arguments[0], **arguments[1]))
    assert compiled.captures == captures


def raises(x: Any) -> Any:
    y = x + thing.number
    if x.shape[0] == 2:
        raise ValueError(y.shape, thing)
    return y


def test_calls_that_raise_keep_references_level() -> None:
    x = torch.ones(2)
    compiled = magneto.compile(raises, backend="eager")

    def run(times: int) -> None:
        for _ in range(times):
            with pytest.raises(ValueError, match="2"):
                compiled(x)

    run(10)
    check_level(parts(raises, x), lambda: run(CALLS // 100))


def unsupported(x: Any) -> Any:
    with torch.no_grad():
        y = [x + 1, thing]
        memoryview(b"abc")[0]  # an object of a kind that is not looked into
        return y


@pytest.mark.parametrize("function", [reads, writes, computes, breaks, raises, unsupported])
@pytest.mark.parametrize("stops", [False, True])
def test_captures_keep_references_level(function: Callable[..., Any], stops: bool) -> None:
    x = torch.ones(2)
    compiled = _core.Compiled(function, None, lambda *_: None)
    compiled.breaks = stops

    def capture(times: int) -> None:
        for _ in range(times):
            compiled.reset()
            try:
                compiled(x)
            except ValueError:
                assert function is raises

    capture(10)
    captures = compiled.captures
    check_level(parts(function, x), lambda: capture(CAPTURES))
    assert compiled.captures >= captures + CAPTURES


@pytest.mark.parametrize("stops", [False, True])
@pytest.mark.parametrize("backend", ["eager", "graphs"])
def test_all_that_a_callable_holds_is_freed_with_it(backend: str, stops: bool) -> None:
    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(2, 2)
            self.register_buffer("seen", torch.zeros(2))
            self.kept: list[Any] = []

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = self.layer(x)
            self.seen += 1
            self.kept = [y]
            if stops:
                sys.getrefcount(None)
            inner = lambda t: t + self.seen  # noqa: E731
            return inner(y)

    compilations = []

    def graphs(graph: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> Any:
        compilations.append(len(inputs))
        return graph.forward

    model, x = Model(), torch.ones(3, 2)
    compiled = magneto.compile(model, backend="eager" if backend == "eager" else graphs)
    for _ in range(3):
        result = compiled(x)
    result = [result, compiled(torch.ones(4, 2))]
    assert (len(compilations) > 0) == (backend == "graphs")
    references = [
        weakref.ref(each)
        for each in (
            model,
            model.layer,
            model.layer.weight,
            model.seen,
            x,
            result[0],
            result[1],
            Model,
            Model.forward,
        )
    ]
    del model, x, result, compiled, Model
    gc.collect()
    assert [reference() for reference in references] == [None] * len(references)


def test_arguments_are_not_kept() -> None:
    compiled = magneto.compile(breaks, backend="eager")
    for _ in range(3):
        x = torch.ones(2)
        result = compiled(x)
        references = [weakref.ref(x), weakref.ref(result[0])]
        del x, result
        assert [reference() for reference in references] == [None, None]


def test_collections_find_no_capture_under_way() -> None:
    """Code that a collection runs is not captured: finalizers run all the time here."""
    runs: list[int] = []

    class Phoenix:
        def __init__(self) -> None:
            self.me = self

        def __del__(self) -> None:
            runs.append(1)
            if len(runs) < 5_000:
                Phoenix()

    seen: list[Any] = []
    sets: list[set[int]] = [set() for _ in range(4)]  # what is made for them is counted by the collector

    def inner(x: Any, table: dict[str, Any]) -> Any:
        table["n"] = [x + 1, (x, 2)]
        seen.append({"y": table["n"]})
        magneto.graph_break()
        table["m"] = {"x": [x * 2]}
        for numbers in sets:
            numbers.add(len(numbers))
        return [table["n"][0] * 3]

    def f(x: Any) -> Any:
        table: dict[str, Any] = {}
        items = [inner(x, table), (x - 1,)]
        return items, table

    x = torch.arange(3.0)
    plain = magneto.compile(f, backend="eager")
    expected, count = str(plain(x)), len(magneto.cache_entries(plain))
    threshold = gc.get_threshold()
    gc.collect()
    gc.set_threshold(1, 1, 1)
    try:
        Phoenix()
        for _ in range(20):
            compiled = magneto.compile(f, backend="eager")
            assert str(compiled(x)) == expected
            assert len(magneto.cache_entries(compiled)) == count
            guards = [guard for entry in magneto.cache_entries(compiled) for guard in entry.guards]
            assert not [guard for guard in guards if "runs" in guard or "Phoenix" in guard]
    finally:
        gc.set_threshold(*threshold)
    assert len(runs) > 100
    assert len(seen) == len(sets[3]) == 21


def test_finalizers_that_cant_be_captured_run_once(capfd: pytest.CaptureFixture[str]) -> None:
    """What a finalizer does is neither lost nor done twice, wherever its object goes, and nothing is printed about it."""
    log: list[Any] = []

    class D:
        def __init__(self, n: Any) -> None:
            self.n = n

        def __del__(self) -> None:
            log.append(self.n)
            print("del", self.n)

    def in_a_call(x: Any) -> Any:
        d = D(1)
        return x + d.n

    def f(x: Any) -> Any:
        y = in_a_call(x) * 2
        d = D(2)
        e = [D(3)]
        D(4)
        return y + d.n + e[0].n

    x = torch.arange(3.0)
    expected = f(x)
    wanted = sorted(log)
    for compiled in (magneto.compile(f, backend="eager"), magneto.compile(in_a_call, backend="eager")):
        for _ in range(3):
            log.clear()
            capfd.readouterr()
            result = compiled(x)
            whole = result.equal(expected)
            assert whole or result.equal(x + 1)
            assert sorted(log) == (wanted if whole else [1])
            out, err = capfd.readouterr()
            assert sorted(out.split()[1::2]) == [str(n) for n in sorted(log)]
            assert not err


def test_what_a_capture_leaves_in_cycles_is_not_finalized() -> None:
    """A traceback, or the object itself, keeps what an aborted capture made: a later collection must not finalize it."""
    log: list[str] = []

    class D:
        def __init__(self, n: int) -> None:
            self.me = self
            self.n = n + 1

        def __del__(self) -> None:
            log.append("deleted")

    def closing() -> Any:
        try:
            yield 1
            yield 2
        finally:
            log.append("closed")

    def f(x: Any) -> Any:
        try:
            raise ValueError
        except ValueError as error:
            kept = error
            generator = closing()
            next(generator)
            x = x + 1
            for _ in generator:
                pass
        return x * D(2).n, len(kept.args)

    def g(x: Any) -> Any:
        return x + D(1).n

    x = torch.ones(2)
    gc.collect()
    gc.freeze()  # only what comes from here on is looked at
    gc.disable()
    try:
        for function, wanted in ((f, ["closed", "deleted"]), (g, ["deleted"])):
            for step in range(90):
                compiled = _core.Compiled(function, None, lambda *_: None, None, 8)
                compiled.breaks = 1
                for fault in (step, 0):
                    log.clear()
                    _core.inject_fault(fault)
                    compiled(x)
                    _core.inject_fault(0)
                    gc.collect()
                    assert log == wanted, (function.__name__, step, fault)
    finally:
        _core.inject_fault(0)
        gc.unfreeze()
        gc.enable()


def test_an_old_object_that_a_class_gives_keeps_its_finalizer() -> None:
    log: list[str] = []

    class One:
        made: Any = None

        def __new__(cls) -> Any:
            if cls.made is None:
                cls.made = super().__new__(cls)
            return cls.made

        def __del__(self) -> None:
            log.append("deleted")

    One()

    def f(x: Any) -> Any:
        One()
        return x + 1

    compiled = magneto.compile(f, backend="eager")
    for _ in range(3):
        compiled(torch.ones(2))
    assert log == []
    One.made = None
    gc.collect()
    assert log == ["deleted"]


def test_what_a_weak_reference_was_called_for_is_not_kept() -> None:
    class Thing:
        k = 5

    def local(x: torch.Tensor) -> Any:
        thing = Thing()
        reference = weakref.ref(thing)
        same = reference() is thing
        y = x + 1
        del thing
        return same, reference() is None, y.sum().item()

    def outside(x: torch.Tensor, reference: Any) -> torch.Tensor:
        thing = reference()
        return x * 2 if thing is None else x + thing.k

    x = torch.ones(4)
    compiled: Any = magneto.compile(local, backend="eager")
    for _ in range(3):
        assert compiled(x) == (True, True, 8.0)
    compiled = magneto.compile(outside, backend="eager")
    for _ in range(3):
        thing = Thing()
        reference = weakref.ref(thing)
        assert compiled(x, reference).tolist() == [6.0] * 4
        del thing
        assert reference() is None
        assert compiled(x, reference).tolist() == [2.0] * 4
    assert not any(type(item) is Thing for item in gc.get_objects())


def test_what_a_partial_binds_is_not_kept() -> None:
    def function(x: torch.Tensor, call: Any) -> torch.Tensor:
        return call(x)  # type: ignore[no-any-return]

    compiled: Any = magneto.compile(function, backend="eager")
    references = []
    for n in range(5):
        tensor = torch.full((3,), float(n))
        references.append(weakref.ref(tensor))
        assert compiled(torch.ones(3), functools.partial(torch.add, tensor)).tolist() == [n + 1.0] * 3
        del tensor
    assert [reference() for reference in references] == [None] * 5
    assert len(magneto.cache_entries(compiled)) == 1
