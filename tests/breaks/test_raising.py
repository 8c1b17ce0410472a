"""Graphs that raise when they run: the program sees the error where eager raises it, after all that comes before it."""

from __future__ import annotations

import traceback
import warnings
from typing import Any

import pytest
import torch
from programs import harness
from programs.texts import parse

import magneto
from magneto import _core

PROGRAMS = parse(r"""
### an index out of range is caught
def f(x, i):
    y = x + 1
    try:
        y = y[i]
    except IndexError:
        y = y * 2
    return y - 1
---
f(X, torch.tensor([0, 1]))
f(X, torch.tensor([0, 7]))
f(X, torch.tensor([1, 1]))
f(Y, torch.tensor([5]))
### an item that nobody uses, by a tensor
def f(x, i):
    try:
        x[i]
    except IndexError:
        return x * 2
    return x - 1
---
f(X, torch.tensor([0, 1]))
f(X, torch.tensor([0, 7]))
f(X, torch.tensor([1, 1]))
### an item that nobody uses, by a list, in a tuple
def f(x, i):
    try:
        x[:, [0, i]]
    except IndexError:
        return x * 2
    return x - 1
---
f(X, 1)
f(X, 9)
f(X, -9)
f(torch.empty(3, 0), 0)
### an item that nobody uses, by a mask
def f(x, i):
    try:
        x[i], x[None, i]
    except IndexError:
        return x * 2
    return x - 1
---
f(X, X > 0)
f(X, torch.ones(X.shape[0] + 1, dtype=torch.bool))
### an exception is thrown into a generator that no_grad drives
log = []
@torch.no_grad()
def items(x):
    while True:
        try:
            x = (yield x * 2) + 1
        except ValueError as error:
            log.append((str(error), torch.is_grad_enabled()))
        except KeyError:
            raise LookupError("other") from None
def f(x, kind):
    steps = items(x)
    out = [next(steps), steps.send(x), steps.throw(ValueError("a")), steps.send(x)]
    try:
        steps.throw(kind)
    except kind as error:
        log.append(type(error).__name__)
    except LookupError as error:
        log.append(repr(error))
    return out, torch.is_grad_enabled()
---
f(X, KeyError)
f(X, KeyError)
f(X, IndexError)
f(X, KeyboardInterrupt)
### an exception is thrown into a generator below a break
def items(x):
    print("break")
    try:
        yield x
    except ValueError as error:
        yield str(error)
def f(x):
    steps = items(x + 1)
    return next(steps) * 2, steps.throw(ValueError("a"))
---
f(X)
f(Y)
### effects before the error stay, those behind it do not come
log, table = [], {}
def f(x, i):
    log.append("before")
    table["n"] = table.get("n", 0) + 1
    y = F.embedding(i, x) + 1
    log.append("behind")
    return y
---
f(X, torch.tensor([0]))
f(X, torch.tensor([9]))
f(X, torch.tensor([1]))
f(X, torch.tensor([-4]))
### finally, else and nested handlers
log = []
def g(x, i):
    try:
        return x.index_select(0, i)
    except ValueError:
        log.append("wrong")
    finally:
        log.append("finally")
def f(x, i):
    try:
        y = g(x * 2, i)
    except (IndexError, RuntimeError) as error:
        log.append(type(error).__name__)
        y = x
    else:
        log.append("else")
    return y + 1
---
f(X, torch.tensor([0]))
f(X, torch.tensor([3]))
f(X, torch.tensor([1]))
### a singular matrix
def f(x):
    try:
        return torch.linalg.inv(x) + 1
    except torch.linalg.LinAlgError as error:
        return str(error)
---
f(torch.eye(3))
f(torch.zeros(3, 3))
f(torch.eye(3) * 2)
### in no_grad and after a break
log = []
def f(x, i):
    y = x * 2
    print("break")
    with torch.no_grad():
        log.append(len(log))
        y = y[i]
    return y + 1, torch.is_grad_enabled()
---
f(X.clone().requires_grad_(), torch.tensor([0]))
f(X.clone().requires_grad_(), torch.tensor([4]))
log.append(torch.is_grad_enabled())
f(X.clone().requires_grad_(), torch.tensor([1]))
### in a callee that is captured on its own
def g(x, i):
    return x[i] * 3
def f(x, i):
    print("break")
    out = []
    for k in range(3):
        try:
            out.append(g(x + k, i + k))
        except IndexError:
            out.append(k)
    return out
---
f(X, torch.tensor([0]))
f(X, torch.tensor([1]))
f(X, torch.tensor([-2]))
### a write that autograd refuses is caught
w = T(2, 3).requires_grad_()
def g():
    return (w * 1).unbind(0)[0]
log = []
def f(x, y):
    log.append(1)
    try:
        y.mul_(2)
    except RuntimeError:
        log.append("refused")
    return x + 1
---
f(X, g())
f(X, T(3))
f(X, g())
### what was written to a tensor before the error stays written once
def f(x, i):
    x += 1
    return x[i]
---
f(X, torch.tensor([0]))
f(X, torch.tensor([5]))
f(X, torch.tensor([1]))
### random numbers before the error are drawn once
def f(x, i):
    y = x + torch.rand(3)
    return y[i]
---
f(X, torch.tensor([0]))
f(X, torch.tensor([5]))
torch.rand(2)
f(X, torch.tensor([1]))
### statistics before the error are kept once
m = nn.BatchNorm1d(3)
def f(x, i):
    return m(x)[i]
---
f(X, torch.tensor([0]))
f(X, torch.tensor([5]))
f(X, torch.tensor([1]))
""")


def case(name: str, whole: bool) -> Any:
    leaks = name == "an item that nobody uses, by a list, in a tuple"
    mark = pytest.mark.no_leak_hunt("an index that is a list leaks a number for each SymInt in it")
    return pytest.param(name, whole, marks=[mark] if leaks else [])


CASES = [
    case(name, whole)
    for whole in (False, True)
    for name in PROGRAMS
    if not whole or "print(" not in PROGRAMS[name][0]
]


@pytest.mark.parametrize(
    ("name", "whole"), CASES, ids=lambda value: value if isinstance(value, str) else str(value)
)
def test_as_eager(name: str, whole: bool) -> None:
    text, steps = PROGRAMS[name]
    made: list[_core.Compiled] = []

    def compile(function: Any) -> _core.Compiled:
        made.append(_core.Compiled(function, None, lambda *_: None, None, 64))
        made[0].breaks = not whole
        return made[0]

    harness.run(text, [*steps, *steps], compile=compile)
    assert made[0].captures > 0


# Operations whose errors only the kernel knows of, for `d` of doubles, `w` and `b` of floats, `n` of whole numbers
KERNELS = {
    "linear": "F.linear(d, w, b)", "matmul": "d @ w", "addmm": "torch.addmm(b, d, w)", "mv": "torch.mv(d, b)",
    "layer_norm": "F.layer_norm(d, (3,), b, b)", "group_norm": "F.group_norm(d.view(1, 2, 3), 1, b[:2], b[:2])",
    "batch_norm": "F.batch_norm(d, b.clone(), b.abs(), b, b, True)", "cdist": "torch.cdist(d, w)",
    "index_select": "torch.index_select(d, 0, b)", "index_add": "d.index_add(0, torch.tensor([0]), w[:1])",
    "index_put": "d.clone().index_put_((torch.tensor([0]),), w[0])", "bitwise": "d & d",
    "softmax": "torch.softmax(n, 0)", "gelu": "F.gelu(n)", "silu": "F.silu(n)", "relu": "F.relu(d > 0)",
    "abs": "(d > 0).abs()", "max_pool2d": "F.max_pool2d(d[None] > 0, 1)", "floor": "torch.complex(d, d).floor()",
    "complex max": "torch.complex(d, d).max()", "less": "torch.complex(d, d) < 1", "bool matmul": "(d > 0) @ (w > 0)",
    "sort": "d.sort(4)", "index out of range": "d[torch.tensor([7])]", "embedding": "F.embedding(n + 50, w)",
}  # fmt: skip


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("broken", [False, True])
def test_writes_before_an_error_of_a_kernel(name: str, broken: bool) -> None:
    """Effects and writes before the error are there once, those of handlers too, the first time and later."""
    text = f"""
log, table = [], {{}}
d, w, b, n = T(2, 3, seed=1).double(), T(3, 3, seed=2), T(3, seed=3), torch.arange(6).view(2, 3)
def f(x):
    x[0] += 1
    x[1:].mul_(2)
    x.add_(b.expand_as(x))
    log.append(len(log))
    with torch.no_grad():
        x.sub_(0.5)
    try:
        y = {KERNELS[name]}
    finally:
        table["n"] = table.get("n", 0) + 1
        x.add_(1)
    log.append("behind")
    return y
"""
    made: list[_core.Compiled] = []

    def compile(function: Any) -> _core.Compiled:
        made.append(_core.Compiled(function, None, lambda *_: None, None, 64))
        made[0].breaks = broken
        return made[0]

    harness.run(text, ["f(X)", "f(X)", "f(T(4, 3, seed=4))", "X", "f(X)"], compile=compile)
    assert made[0].captures > 0


def test_the_traceback_is_that_of_eager() -> None:
    def g(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        y = x[i]
        return y + 1

    def f(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        return g(x * 2, i)

    compiled = magneto.compile(f, backend="eager")
    x = torch.ones(3)
    compiled(x, torch.tensor([1]))
    lines = []
    for function in (f, compiled):
        with pytest.raises(IndexError) as caught:
            function(x, torch.tensor([8]))
        frames = traceback.extract_tb(caught.value.__traceback__)
        lines.append([(frame.name, frame.lineno) for frame in frames][1:])
    assert lines[0] == lines[1]


@pytest.mark.no_leak_hunt("torch.library keeps something of each operator")
def test_an_operator_that_somebody_added_does_not_run_twice() -> None:
    calls = []

    @torch.library.custom_op("magneto_raising::once", mutates_args=())
    def once(x: torch.Tensor) -> torch.Tensor:
        calls.append(1)
        return x + 1

    @once.register_fake
    def _(x: torch.Tensor) -> torch.Tensor:
        return torch.empty_like(x)

    def f(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        return once(x)[i]

    compiled = magneto.compile(f, backend="eager", fullgraph=True)
    x = torch.ones(3)
    compiled(x, torch.tensor([1]))
    calls.clear()
    with pytest.raises(IndexError):
        compiled(x, torch.tensor([8]))
    assert calls == [1]


@pytest.mark.no_leak_hunt("torch.library keeps something of each operator")
def test_an_interrupt_is_not_taken_for_an_error_of_the_program() -> None:
    calls = []

    @torch.library.custom_op("magneto_raising::stop", mutates_args=())
    def stop(x: torch.Tensor) -> torch.Tensor:
        calls.append(1)
        if len(calls) > 1:
            raise KeyboardInterrupt
        return x + 1

    @stop.register_fake
    def _(x: torch.Tensor) -> torch.Tensor:
        return torch.empty_like(x)

    compiled = magneto.compile(lambda x: stop(x) * 2, backend="eager", fullgraph=True)
    compiled(torch.ones(3))
    with pytest.raises(KeyboardInterrupt):
        compiled(torch.ones(3))
    assert calls == [1, 1]


@pytest.mark.no_leak_hunt("torch.library keeps something of each operator")
@pytest.mark.parametrize("schema", ["act() -> ()", "act() -> None", "act(Tensor x) -> ()"])
@pytest.mark.parametrize("key", ["", "CompositeExplicitAutograd"])
def test_an_operator_that_gives_nothing_acts_once(schema: str, key: str) -> None:
    calls = []
    with torch.library._scoped_library("magneto_effects", "FRAGMENT") as library:
        library.define(schema)
        library.impl("act", lambda *_: calls.append(1), key)
        arguments = schema.count("Tensor")

        def f(x: torch.Tensor) -> torch.Tensor:
            y = x + 1
            torch.ops.magneto_effects.act(*[y] * arguments)
            torch.ops.magneto_effects.act.default(*[y] * arguments)
            return y * 2

        compiled = magneto.compile(f, backend="eager")
        for _ in range(3):
            calls.clear()
            assert torch.equal(compiled(torch.ones(2)), torch.full((2,), 4.0))
            assert calls == [1, 1]


@pytest.mark.parametrize("write", ["x[mask] = y", "x[0, mask] = y[:2]", "x.index_put_((mask,), y)"])
def test_a_write_by_a_mask_of_bytes_warns_where_it_is(write: str) -> None:
    text = f"""
def f(x, mask):
    x, y = x + 1, x[0] * 2
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        {write}
        return x, [type(one.message).__name__ for one in caught]
"""
    space: dict[str, Any] = {"warnings": warnings}
    exec(text, space)
    arguments = torch.zeros(4, 4), torch.tensor([1, 0, 1, 0], dtype=torch.uint8)
    expected = space["f"](*arguments)
    result = magneto.compile(space["f"], backend="eager")(*arguments)
    assert torch.equal(result[0], expected[0])
    assert result[1] == expected[1] != []


@pytest.mark.no_leak_hunt("torch.library keeps something of each operator")
def test_an_operation_that_raises_in_the_capture_only_is_told_with_fullgraph() -> None:
    with torch.library._scoped_library("magneto_unfit", "FRAGMENT") as library:
        library.define("twice(Tensor x) -> Tensor")
        library.impl("twice", lambda x: x * 2, "CPU")

        def fake(x: torch.Tensor) -> torch.Tensor:
            raise ValueError("no such sizes")

        torch.library.register_fake("magneto_unfit::twice", fake, lib=library)

        def f(x: torch.Tensor) -> torch.Tensor:
            return torch.ops.magneto_unfit.twice(x + 1)

        assert torch.equal(magneto.compile(f, backend="eager")(torch.ones(2)), torch.full((2,), 4.0))
        compiled = magneto.compile(f, backend="eager", fullgraph=True)
        for _ in range(2):
            with pytest.raises(magneto.exc.Unsupported, match="OPERATION_FAILED"):
                compiled(torch.ones(2))


def test_an_operation_that_raises_in_eager_too_raises_its_own_with_fullgraph() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return (x + 1) @ x

    with pytest.raises(RuntimeError, match="mat1 and mat2"):
        magneto.compile(f, backend="eager", fullgraph=True)(torch.ones(2, 3))
