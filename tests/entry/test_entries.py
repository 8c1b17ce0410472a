"""Many entries of one function: the right one is found, whatever they differ in; and why none fits is told."""

from __future__ import annotations

import collections
import copy
import gc
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import nn

import magneto
from magneto import _core


@pytest.fixture(params=[1, 2], ids=["quick", "both"])
def _mode(request: Any) -> Iterator[None]:
    before = _core.guard_mode(request.param)
    with magneto.config.patch(recompile_limit=100):
        yield
    _core.guard_mode(before)


class Options:
    def __init__(self, n: int) -> None:
        self.n = n


def shape(x: Any, *rest: Any) -> Any:
    return x + x.shape[0]


def constant(x: Any, n: Any) -> Any:
    return x * len(n) if isinstance(n, str) else x + n


def kind(x: Any, n: Any) -> Any:
    if isinstance(n, torch.Tensor):
        return x + n
    return x * 2, type(n)


def attribute(x: Any, options: Options) -> Any:
    return x + options.n


def item(x: Any, table: dict[str, list[int]]) -> Any:
    return x + table["a"][1]


def branchy(x: Any, n: int, m: str) -> Any:
    """Some entries have no guard on m."""
    if n % 2:
        return x + n
    return x * n + len(m)


X = torch.arange(4.0)
CASES: dict[str, tuple[Any, list[tuple[Any, ...]]]] = {
    "sizes": (shape, [(torch.ones(n),) for n in range(2, 22)]),
    "sizes and dtypes": (
        shape,
        [(torch.ones(n, dtype=t),) for n in range(2, 6) for t in (torch.float32, torch.float64, torch.int32)],
    ),
    "many dimensions": (shape, [(torch.ones(*[1] * 6, n),) for n in range(2, 8)]),
    "gradient or not": (
        shape,
        [(torch.ones(n, requires_grad=g),) for n in range(2, 5) for g in (False, True)],
    ),
    "ints": (constant, [(X, n) for n in range(-5, 15)]),
    "ints, floats, bools": (constant, [(X, n) for n in (0, 1, 2, 0.0, 1.0, -0.0, True, False, 2.5, 1e300)]),
    "strings": (constant, [(X, "s" * n) for n in range(10)]),
    "types": (kind, [(X, n) for n in (None, 1, 1.0, "s", (), [], {}, X, X.double(), True)]),
    "attributes of arguments": (attribute, [(X, Options(n)) for n in range(12)]),
    "items in arguments": (item, [(X, {"a": [0, n]}) for n in range(12)]),
    "some guard less": (branchy, [(X, n, "s" * (n % 3)) for n in range(12)]),
    "two arguments": (branchy, [(X, n, "s" * m) for n in (2, 4, 6) for m in range(4)]),
}


def show(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.dtype, value.shape, value.requires_grad, value.tolist()
    return [show(item) for item in value] if isinstance(value, tuple) else value


@pytest.mark.usefixtures("_mode")
@pytest.mark.parametrize("name", CASES)
def test_right_entry_is_found(name: str) -> None:
    function, calls = CASES[name]
    compiled = magneto.compile(function, backend="eager", dynamic=False)
    expected = [show(function(*args)) for args in calls]
    for _ in range(3):
        for args, result in zip(calls, expected, strict=True):
            assert show(compiled(*args)) == result
    count = len(magneto.cache_entries(compiled))
    for args, result in zip(reversed(calls), reversed(expected), strict=True):
        assert show(compiled(*args)) == result
    assert len(magneto.cache_entries(compiled)) == count


@pytest.mark.usefixtures("_mode")
def test_entries_that_no_argument_tells_apart() -> None:
    space: dict[str, Any] = {}
    exec("n = 0\ndef f(x): return x + n", space)
    compiled = magneto.compile(space["f"], backend="eager")
    for _ in range(3):
        for n in range(8):
            space["n"] = n
            assert compiled(X).tolist() == (X + n).tolist()
    assert len(magneto.cache_entries(compiled)) == 8


@pytest.mark.usefixtures("_mode")
def test_entries_are_given_most_recent_first() -> None:
    compiled = magneto.compile(shape, backend="eager", dynamic=False)
    for n in range(2, 12):
        compiled(torch.ones(n))
    for n in (5, 9, 3):
        compiled(torch.ones(n))
    guards = [" ".join(entry.guards) for entry in magneto.cache_entries(compiled)[:4]]
    for n, text in zip((3, 9, 5, 11), guards, strict=True):
        assert f"torch.Size([{n}])" in text


def test_reset_in_the_middle() -> None:
    compiled = magneto.compile(constant, backend="eager")
    for _ in range(2):
        for n in range(6):
            assert compiled(X, n).tolist() == (X + n).tolist()
        compiled.reset()
    assert compiled(X, 3).tolist() == (X + 3).tolist()


def reasons(function: Any, first: tuple[Any, ...], second: tuple[Any, ...]) -> str:
    compiled = magneto.compile(function, backend="eager", dynamic=False)
    compiled(*first)
    with magneto.config.patch(error_on_recompile=True), pytest.raises(magneto.exc.RecompileError) as caught:
        compiled(*second)
    return str(caught.value)


@pytest.mark.parametrize(
    ("function", "first", "second", "texts"),
    [
        (constant, (X, 3), (X, 4), ["L['n'] == 3, but it is 4"]),
        (constant, (X, 3), (X, "s"), ["L['n'] == 3, but it is 's'"]),
        (shape, (X,), (torch.ones(5),), ["L['x'].size(0) == 4, but it is 5"]),
        (shape, (X,), (X.double(),), ["torch.float32", "but it is torch.float64"]),
        (attribute, (X, Options(1)), (X, Options(2)), ["L['options'].n == 1, but it is 2"]),
        (item, (X, {"a": [0, 1]}), (X, {"a": [0, 7]}), ["L['table']['a'][1] == 1, but it is 7"]),
        (kind, (X, None), (X, 1.5), ["L['n'] is None, but it is 1.5"]),
        (kind, (X, X.clone()), (X, [1]), ["type(L['n']) is Tensor, but it is list"]),
    ],
)  # fmt: skip
def test_reason_has_the_source_and_both_values(
    function: Any, first: tuple[Any, ...], second: tuple[Any, ...], texts: list[str]
) -> None:
    message = reasons(function, first, second)
    for text in texts:
        assert text in message


def test_reasons_run_no_code_of_the_user() -> None:
    class Loud:
        def __repr__(self) -> str:
            raise AssertionError("repr was called")

        __str__ = __repr__

    assert "an object of class" in reasons(kind, (X, None), (X, Loud()))


def test_reason_is_made_only_when_something_is_captured() -> None:
    told: list[Any] = []
    core = _core.Compiled(constant, None, lambda *args: None, lambda texts, *_: told.append(texts))
    core.dynamic = 0
    for _ in range(5):
        for n in range(3):
            core(X, n)
    assert [len(texts) for texts in told] == [1, 2]


# --- references ---


@pytest.mark.no_leak_hunt("torch.fx keeps the code of every graph that is made; it looks for leaks itself")
def test_references_are_level_after_many_calls() -> None:
    net = nn.Linear(3, 3)
    table = {"a": [1, (2, "text that is not interned")]}

    def f(x: torch.Tensor, n: int, *rest: Any, key: str = "a", **more: Any) -> Any:
        return net(x) + table[key][0] + n, table, more  # type: ignore[operator]

    output = (torch.ones(2, 3),)
    compiled: Any = magneto.compile(f, backend=lambda module, inputs: lambda *args: output)
    x, extra = torch.ones(2, 3), {"z": 1}

    def call(count: int) -> None:
        with torch.no_grad():
            for _ in range(count):
                compiled(x, 5, *(), **extra)

    watched = [
        x,
        net,
        net.weight,
        net.bias,
        table,
        table["a"],
        table["a"][1],
        extra,
        output,
        output[0],
        f,
        compiled,
    ]
    call(100)
    gc.collect()
    before = [sys.getrefcount(item) for item in watched]
    blocks = sys.getallocatedblocks()
    call(50_000 if _core.checks else 1_000_000)  # with checks a call takes ten times as long
    gc.collect()
    assert [sys.getrefcount(item) for item in watched] == before
    assert sys.getallocatedblocks() - blocks < 100
    assert len(magneto.cache_entries(compiled)) == 1


# --- threads ---


@pytest.mark.usefixtures("_mode")
def test_calls_from_four_threads() -> None:
    net = nn.Linear(3, 3)
    compiled = magneto.compile(lambda x, n: net(x) * n + x.shape[0], backend="eager", dynamic=False)
    wrong: list[Any] = []
    start = threading.Barrier(4)

    def work(number: int) -> None:
        start.wait()
        for i in range(300):
            size, n = (i + number) % 5 + 1, (i * number) % 3
            x = torch.full((size, 3), float(number))
            with torch.set_grad_enabled(number % 2 == 0):
                expected, found = net(x) * n + size, compiled(x, n)
            if expected.tolist() != found.tolist() or expected.requires_grad != found.requires_grad:
                wrong.append((number, i))
            if i % 50 == 0 and number == 0:
                net.note = i

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert wrong == []


@pytest.mark.usefixtures("_mode")
def test_the_guard_that_failed_last_is_made_first() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.Sequential(*(nn.Linear(3, 3) for _ in range(5)))
            self.tail = Options(0)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.layers(x) + self.tail.n

    net = Net()
    compiled = magneto.compile(net, backend="eager")
    x = torch.ones(2, 3)
    with torch.no_grad():
        for n in (0, 1, 0, 0, 1, 1, 0, 2, 0, 1):
            net.tail.n = n
            torch.testing.assert_close(compiled(x), net(x), rtol=0, atol=0)
    entries = magneto.cache_entries(compiled)
    assert len(entries) == 3
    for entry in entries:
        suspect = entry.entry.guard_figures()["suspect"]
        assert "tail.n ==" in entry.guards[suspect]


def test_an_item_that_is_only_written_is_not_guarded() -> None:
    """`dict.get` looks at one item; what is overwritten beside it may have been anything."""
    table: dict[str, Any] = {"written": torch.ones(2), "read": 2}
    weight = torch.ones(2, requires_grad=True)

    def f(x: torch.Tensor) -> Any:
        factor, missing = table.get("read"), table.get("missing", 3)
        table["written"] = weight * 2
        return x * factor + missing, table.get("missing")

    compiled = magneto.compile(f, backend="eager")
    for _ in range(3):
        assert torch.equal(compiled(torch.ones(2))[0], torch.full((2,), 5.0))
        assert table["written"].requires_grad
    assert len(magneto.cache_entries(compiled)) == 1
    table["missing"] = 4
    assert torch.equal(compiled(torch.ones(2))[0], torch.full((2,), 6.0))


MODEL = """
import torch, magneto
model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU())
x = torch.ones(1, 2)
compiled = magneto.compile(model, backend="eager")
compiled(x)
init = torch.nn.Module.__init__
torch.compile(model, backend="eager")(x)
assert torch.nn.Module.__init__ is not init  # it has put one of its own there
compiled(x)
assert len(magneto.cache_entries(compiled)) == 1, magneto.counters["recompiles"]
"""


def test_the_first_use_of_torch_compile_makes_no_entry_useless() -> None:
    subprocess.run([sys.executable, "-c", MODEL], check=True)


class Made:
    def __init__(self, value=1):
        self.value = value


class Restored(Made):
    def __getstate__(self):
        return {"value": self.value}

    def __setstate__(self, state):
        self.value = state["value"]


class Listed(collections.deque):
    def __init__(self, *args):
        super().__init__(*args)
        self.value = 1


CALLS = [
    lambda made, restored, listed: Made().value,
    lambda made, restored, listed: type(made)().value + made.value,
    lambda made, restored, listed: made.__class__(3).value,
    lambda made, restored, listed: sum(one.value for one in map(Made, [1, 2])),
    lambda made, restored, listed: copy.copy(made).value,
    lambda made, restored, listed: copy.copy(restored).value,
    lambda made, restored, listed: copy.deepcopy(restored).value,
    lambda made, restored, listed: listed.copy().value,
    lambda made, restored, listed: (made.__init__(7), made.value)[1],
    lambda made, restored, listed: (restored.__setstate__({"value": 4}), restored.value)[1],
]


@pytest.mark.parametrize("number", range(len(CALLS)))
def test_how_instances_are_made_is_guarded_where_they_are(
    number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def f(x, *objects):
        return x + CALLS[number](*objects)

    def run(function: Any) -> list[float]:
        objects = Made(), Restored(), Listed()
        found = [function(torch.ones(1), *objects).item() for _ in range(2)]
        with monkeypatch.context() as patch:
            patch.setattr(Made, "__init__", lambda self, value=1: setattr(self, "value", 10 * value))
            patch.setattr(Restored, "__setstate__", lambda self, state: setattr(self, "value", 50))
            patch.setattr(Listed, "__init__", lambda self, *args: setattr(self, "value", 20))
            found += [function(torch.ones(1), *objects).item() for _ in range(2)]
        return found

    assert run(magneto.compile(f, backend="eager")) == run(f)
