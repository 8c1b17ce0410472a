"""Functions that can't be graphs: their operator is called at a break, as in eager, and nothing is left behind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch._higher_order_ops import scan, while_loop

import magneto
from magneto import _core

pytestmark = pytest.mark.filterwarnings("ignore")

# In eager, torch.cond and scan are compiled by TorchDynamo, which keeps what it made, and raises beyond a limit.
IN_EAGER_TOO = pytest.mark.no_leak_hunt("torch.cond compiles what it is given, and keeps it")

seen: list[Any] = []


class Counter:
    count = 0


counter = Counter()
total = 0


def _append_outside(x: torch.Tensor) -> torch.Tensor:
    seen.append(1)
    return x + 1


def _write_attribute(x: torch.Tensor) -> torch.Tensor:
    counter.count += 1
    return x + 1


def _write_global(x: torch.Tensor) -> torch.Tensor:
    global total
    total += 1
    return x + 1


def _write_tensor(x: torch.Tensor) -> torch.Tensor:
    x.add_(1)
    return x.clone()


def _return_input(x: torch.Tensor) -> torch.Tensor:
    return x


def _return_view(x: torch.Tensor) -> torch.Tensor:
    return x.view(-1)


def _return_text(x: torch.Tensor) -> Any:
    return x + 1, "text"


def _print(x: torch.Tensor) -> torch.Tensor:
    print("here")
    return x + 1


def _raise(x: torch.Tensor) -> torch.Tensor:
    raise ValueError("no")


def _branch_on_data(x: torch.Tensor) -> torch.Tensor:
    return x + 1 if bool(x.sum() > 3) else x - 1


def _leave_grad_mode(x: torch.Tensor) -> torch.Tensor:
    torch._C._set_grad_enabled(False)
    return x + 1


FUNCTIONS = [
    _append_outside, _write_attribute, _write_global, _write_tensor, _return_input, _return_view, _return_text, _print,
    _raise, _branch_on_data, _leave_grad_mode,
]  # fmt: skip


def _outcome(function: Callable[..., Any], *args: Any) -> Any:
    """What a call returns, or the class of what it raises; and what it has written to."""
    seen.clear()
    counter.count = 0
    try:
        result = function(*args)
    except Exception as error:
        result = type(error).__name__
    enabled = torch.is_grad_enabled()
    torch.set_grad_enabled(True)
    return (
        result,
        enabled,
        list(seen),
        counter.count,
        [one.clone() for one in args if isinstance(one, torch.Tensor)],
    )


@IN_EAGER_TOO
@pytest.mark.parametrize("branch", FUNCTIONS)
def test_a_branch_of_cond_that_is_no_graph(branch: Callable[[torch.Tensor], Any]) -> None:
    def f(x: torch.Tensor) -> Any:
        y = x * 2
        z = torch.cond(y.sum() > 0, branch, lambda x: x * 3, (y,))
        return z if isinstance(z, tuple) else z + 1

    for value in (1.0, -1.0):
        expected = _outcome(f, torch.full((2,), value))
        compiled = magneto.compile(f, backend="eager")
        for _ in range(2):
            assert str(_outcome(compiled, torch.full((2,), value))) == str(expected)
    assert not _core.capturing()


@pytest.mark.parametrize("branch", FUNCTIONS)
def test_is_an_error_with_fullgraph(branch: Callable[[torch.Tensor], Any]) -> None:
    def f(x: torch.Tensor) -> Any:
        return torch.cond(x.sum() > 0, branch, lambda x: x * 3, (x,))

    with pytest.raises((magneto.exc.Unsupported, ValueError)):
        magneto.compile(f, backend="eager", fullgraph=True)(torch.ones(2))
    assert torch.is_grad_enabled()
    assert magneto.compile(lambda x: x + 1, backend="eager", fullgraph=True)(torch.ones(1)) == 2


@IN_EAGER_TOO
def test_one_break_and_the_rest_is_captured() -> None:
    def f(x: torch.Tensor) -> Any:
        y = x.exp() * 2
        z = torch.cond(y.sum() > 0, _append_outside, lambda x: x * 3, (y,))
        return z.sin() + y

    magneto.counters.clear()
    x = torch.ones(3)
    with pytest.raises(torch._dynamo.exc.UncapturedHigherOrderOpError):  # as in eager
        magneto.compile(f, backend="eager")(x)
    assert sum(magneto.counters["graph_break"].values()) == 1


def test_writes_to_objects_that_captured_code_made() -> None:
    """They are real objects: what a branch does to one would be done by both."""

    class Box:
        value = 0

    def f(x: torch.Tensor, which: int) -> Any:
        items: list[int] = []
        table: dict[str, int] = {}
        box = Box()
        box.value = 1
        names: set[str] = set()
        local = 0

        def write(x: torch.Tensor) -> torch.Tensor:
            nonlocal local
            if which == 0:
                items.append(1)
            elif which == 1:
                table["a"] = 1
            elif which == 2:
                box.value = 5
            elif which == 3:
                names.add("a")
            else:
                local += 1
            return x + 1

        y = torch.cond(x.sum() > 0, write, lambda x: x - 1, (x,))
        return y, items, table, box.value, sorted(names), local

    for which in range(5):
        with pytest.raises(magneto.exc.Unsupported, match="writes to what was there before"):
            magneto.compile(f, backend="eager", fullgraph=True)(torch.ones(2), which)


@IN_EAGER_TOO
def test_reads_of_objects_that_captured_code_made() -> None:
    def f(x: torch.Tensor) -> Any:
        items = [x * 2, x * 3]
        table = {"k": x * 4}
        return torch.cond(x.sum() > 0, lambda x: x + items[0] + table["k"], lambda x: x - items[1], (x,))

    compiled = magneto.compile(f, backend="eager", fullgraph=True)
    for value in (1.0, -1.0):
        torch.testing.assert_close(compiled(torch.full((2,), value)), f(torch.full((2,), value)))


def test_a_tensor_of_a_branch_does_not_get_out() -> None:
    def f(x: torch.Tensor) -> Any:
        kept: list[torch.Tensor] = []

        def branch(x: torch.Tensor) -> torch.Tensor:
            kept.append(x + 1)
            return x + 2

        return torch.cond(x.sum() > 0, branch, lambda x: x * 2, (x,)) + kept[0]

    with pytest.raises(magneto.exc.Unsupported):
        magneto.compile(f, backend="eager", fullgraph=True)(torch.ones(2))


def test_an_iterator_from_around() -> None:
    def f(x: torch.Tensor) -> Any:
        numbers = iter([1, 2, 3])
        y = torch.cond(x.sum() > 0, lambda x: x + next(numbers), lambda x: x - next(numbers), (x,))
        return y, list(numbers)

    with pytest.raises(magneto.exc.Unsupported):
        magneto.compile(f, backend="eager", fullgraph=True)(torch.ones(2))


def test_branches_that_differ() -> None:
    def f(x: torch.Tensor) -> Any:
        return torch.cond(x.sum() > 0, lambda x: (x, x + 1), lambda x: x + 1, (x,))

    with pytest.raises(magneto.exc.Unsupported):
        magneto.compile(f, backend="eager", fullgraph=True)(torch.ones(2))


def test_a_carry_that_changes() -> None:
    def f(x: torch.Tensor) -> Any:
        return while_loop(lambda x: x.sum() < 9, lambda x: (x.double() * 2,), (x,))

    def g(x: torch.Tensor) -> Any:
        return scan(lambda c, x: (c.sum(), x + 1), torch.zeros(3), x)

    for function, shape in ((f, (2,)), (g, (2, 3))):
        with pytest.raises(magneto.exc.Unsupported):
            magneto.compile(function, backend="eager", fullgraph=True)(torch.ones(shape))


@IN_EAGER_TOO
def test_a_handler_around_the_operator() -> None:
    def f(x: torch.Tensor) -> Any:
        y = x * 2
        try:
            z = torch.cond(y.sum() > 0, _raise, lambda x: x * 3, (y,))
        except Exception:
            z = y + 5
        return z * 2

    compiled = magneto.compile(f, backend="eager")
    for value in (1.0, -1.0, 1.0):
        torch.testing.assert_close(compiled(torch.full((2,), value)), f(torch.full((2,), value)))


@IN_EAGER_TOO
def test_faults_at_every_instruction() -> None:
    """No recording outlives a capture that stopped."""
    weight = torch.ones(3)

    def f(x: torch.Tensor) -> Any:
        y = x * 2

        def left(x: torch.Tensor) -> torch.Tensor:
            return scan(lambda c, r: (c + r * weight, c * r), torch.zeros(3), x)[1]

        z = torch.cond(y.sum() > 0, left, lambda x: x + y, (y,))
        return z + 1

    expected = f(torch.ones(2, 3))
    try:
        for step in range(1, 400, 7):
            _core.inject_fault(step)
            compiled = magneto.compile(f, backend="eager")
            for _ in range(2):
                torch.testing.assert_close(compiled(torch.ones(2, 3)), expected)
    finally:
        _core.inject_fault(0)
