"""An exception that is raised after a break shows the traceback that eager shows: the same frames, the same lines."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Any

import pytest
import torch
from programs import harness
from programs.texts import parse

import magneto

PROGRAMS = parse(r"""
### after a break
def f(x):
    y = x + 1
    print("a")
    raise ValueError("v")
### one from outside
ERROR = ValueError("v")
def f(x):
    y = x + 1
    try:
        raise ERROR
    finally:
        y = y + 1
        print("a")
### one that a break has made
def f(x):
    y = x + 1
    print("a")
    try:
        raise OSError(2, "x")
    finally:
        y = y + 1
### one that a break has made, and a break behind it
def f(x):
    y = x * 2
    print("a")
    try:
        raise ImportError("no", name="n")
    except KeyError:
        pass
    finally:
        print("b")
### one from outside that is caught and raised again
ERROR = KeyError("k")
def g(v):
    try:
        raise ERROR
    except KeyError as e:
        v = v + len(str(e))
        print("g")
        raise
def f(x):
    with torch.no_grad():
        return g(x + 1)
### at the break itself
def f(x):
    y = x + 1
    n = int("no number")
    return y * n
### in a callee after its break
def g(v):
    v = v * 2
    print("g")
    raise KeyError("k")
def f(x):
    y = g(x + 1)
    return y
### in a callee after the caller's break
def g(v):
    v = v * 2
    raise KeyError("k")
def f(x):
    print("f")
    y = g(x + 1)
    return y
### after nested breaks
def h(v):
    print("h")
    return v.no_such_attribute
def g(v):
    print("g")
    return h(v + 1) + 1
def f(x):
    print("f")
    return g(x * 2) * 2
### three levels down, break at the bottom
def h(v):
    v = v.sin()
    print("h")
    raise RuntimeError("deep")
def g(v):
    return h(v + 1) + 1
def f(x):
    return g(x * 2) * 2
### after the callee came back
def g(v):
    print("g")
    return v * 2
def f(x):
    y = g(x)
    z = g(y)
    raise ValueError(
        "several lines"
    )
### in a loop
def f(x):
    for i in range(5):
        x = x + 1
        print(i)
        if i == 3:
            raise ValueError(i)
    return x
### in a callee in a loop
def g(v, i):
    print(i)
    if i == 2:
        raise IndexError(i)
    return v + i
def f(x):
    for i in range(5):
        x = g(x * 2, i)
    return x
### a branch on data that raises
def f(x):
    y = x + 1
    if y.sum() > -1e9:
        raise ValueError("data")
    return y
### a tensor operation that fails
def f(x):
    y = x + 1
    print("a")
    z = y @ torch.ones(17, 3)
    return z
### a tensor operation that fails in a callee
def g(v):
    print("g")
    return v.view(17)
def f(x):
    y = g(x + 1)
    return y * 2
### a tensor operation that fails without a break
def f(x):
    y = x + 1
    return y.view(17) * 2
### in a method and a property
class C:
    def __init__(self, t):
        self.t = t
    @property
    def bad(self):
        print("bad")
        return self.t.foo
    def run(self):
        return self.bad + 1
def f(x):
    return C(x + 1).run()
### in a module
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(3, 3)
    def forward(self, x):
        print("net")
        return self.lin(x) @ torch.ones(19, 1)
net = Net()
def f(x):
    return net(x) + 1
### in a constructor
class C:
    def __init__(self, t):
        print("init")
        raise TypeError("c")
def f(x):
    return C(x + 1).t
### in a key function
def key(n):
    print(n)
    return {}[n]
def f(x):
    y = x + 1
    return sorted([2, 1], key=key)
### in a comprehension
def f(x):
    print("a")
    return [x / n if n else 1 // n for n in (2, 1, 0)]
### in a generator
def g(v):
    yield v
    print("g")
    raise OSError("g")
def f(x):
    total = 0
    for v in g(x + 1):
        total = total + v
    return total
### in a lambda
def f(x):
    g = lambda v: print("l") or v.missing
    return g(x + 1)
### in finally
def f(x):
    try:
        print("try")
        y = x + 1
    finally:
        raise ValueError("finally")
### reraised
def g(v):
    print("g")
    raise KeyError("k")
def f(x):
    try:
        return g(x + 1)
    except KeyError:
        print("again")
        raise
### another one from it
def f(x):
    y = x + 1
    try:
        print("a")
        {}["k"]
    except KeyError as error:
        raise ValueError("v") from error
### through with
class M:
    def __enter__(self):
        return self
    def __exit__(self, *error):
        print("exit")
def f(x):
    with M():
        y = x + 1
        print("a")
        raise ValueError("v")
### through a contextmanager
@contextlib.contextmanager
def m():
    try:
        yield
    finally:
        print("left")
def f(x):
    with m():
        y = x + 1
        print("a")
        raise ValueError("v")
### through no_grad
def f(x):
    with torch.no_grad():
        y = x + 1
        print("a")
        return y @ torch.ones(23, 1)
### recursion
def g(v, n):
    print(n)
    if n == 0:
        raise ValueError("bottom")
    return g(v + 1, n - 1) * 2
def f(x):
    return g(x, 3)
### an assertion
def f(x):
    y = x + 1
    print("a")
    assert y.shape[0] == 99, "shape"
    return y
### an assertion on data
def f(x):
    y = x + 1
    assert (y.sum() > 1e9), (
        "data"
    )
    return y
### unpacking
def f(x):
    print("a")
    a, b, c = x.sum(0, keepdim=True).unbind(0)
    return a
### an unbound local
def f(x):
    if x.dim() == 9:
        y = 1
    print("a")
    return x + y
### division by zero in an argument
def g(a, b):
    return a + b
def f(x):
    print("a")
    return g(x + 1,
             1 / (len(x) - len(x)))
### an exception caught and one that is not
def g(n):
    print("g", n)
    return [1, 2][n]
def f(x):
    y = x + 1
    try:
        g(5)
    except IndexError:
        y = y * 2
    print("after")
    return y * g(7)
""")


def shape(error: BaseException | None) -> Any:
    """Frames of the traceback of an exception and of those it came from, without ours."""
    if error is None:
        return None
    frames = [
        (frame.name, frame.lineno, frame.line, frame.colno, frame.end_colno)
        for frame in traceback.extract_tb(error.__traceback__)
        if frame.filename != __file__
    ]
    return (
        type(error),
        error.args,
        frames,
        shape(error.__cause__),
        shape(error.__context__),
        error.__suppress_context__,
    )


def raised(side: harness.Side, call: str) -> Any:
    function = side.local.get("f", side.space["f"])
    argument = eval(call, side.space)
    try:
        function(argument)
    except Exception as error:
        return shape(error)
    raise AssertionError("nothing was raised")


@pytest.mark.parametrize("backend", ["eager", "graph"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_traceback_as_eager(name: str, backend: str, capsys: pytest.CaptureFixture[str]) -> None:
    text, _ = PROGRAMS[name]
    chosen: Callable[..., Any] | str = (
        "eager" if backend == "eager" else lambda module, _inputs: module.forward
    )
    eager = harness.Side(text, None)
    captured = harness.Side(text, lambda function: magneto.compile(function, backend=chosen))
    for call in ("X", "X", "T(3, 3)", "X"):
        expected = raised(eager, call)
        printed = capsys.readouterr().out
        assert raised(captured, call) == expected
        assert capsys.readouterr().out == printed


def test_traceback_of_a_failure_inside_the_graph() -> None:
    """What fails only when the graph runs is raised from the call."""

    def function(x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        y = x * 2
        print(end="")
        return y[index] + 1

    compiled = magneto.compile(function, backend="eager")
    x = torch.arange(3.0)
    assert compiled(x, torch.tensor([1])).tolist() == [3.0]
    with pytest.raises(IndexError):
        compiled(x, torch.tensor([7]))
    assert compiled(x, torch.tensor([2])).tolist() == [5.0]
