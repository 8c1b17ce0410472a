"""Which line of the program asked for a guard that fails, and what is told of it."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
import torch

import magneto
from magneto import _stack

X = torch.ones(2, 3)


def one(x):
    return x + 1


def two(x):
    return x + 2


chosen = one


def failing(function: Any, *calls: tuple[Any, ...]) -> str:
    """Why the last of some calls is captured again."""
    compiled = magneto.compile(function, backend="eager")
    for call in calls[:-1]:
        compiled(*call)
    with (
        magneto.config.patch(error_on_recompile=True),
        pytest.raises(magneto.exc.RecompileError) as caught,
    ):
        compiled(*calls[-1])
    return str(caught.value).splitlines()[1].strip()


def line_of(function: Any, text: str) -> str:
    """How a line of a function shows behind a guard."""
    lines, first = inspect.getsourcelines(function)
    [number] = [number for number, line in enumerate(lines, first) if text in line]
    return f" ({__file__}:{number} in {function.__name__}: {lines[number - first].strip()})"


def test_a_number_that_is_used_late() -> None:
    def f(x, n):
        y = x.sin()
        return y * n

    assert failing(f, (X, 1), (X, 2)) == "L['n'] == 1, but it is 2" + line_of(f, "y * n")


def test_an_argument_that_is_guarded_at_the_start_has_the_line_that_reads_it() -> None:
    def f(x, mask):
        y = x.sin()
        if mask is not None:
            y = y * mask
        return y

    text = failing(f, (X, None), (X, X))
    assert text == "L['mask'] is None, but it is an object of class Tensor" + line_of(f, "if mask")


def test_an_argument_that_nobody_reads_has_the_line_of_the_def() -> None:
    def f(x, unused):
        return x.sin()

    text = failing(f, (X, None), (X, True))
    assert text == "L['unused'] is None, but it is True" + line_of(f, "def f")


@pytest.mark.parametrize(
    ("other", "what"),
    [
        (torch.ones(5, 3), "L['x'].size(0) == 2, but it is 5"),
        (torch.ones(5, 4), "L['x'].size() == (2, 3), but it is (5, 4)"),
        (torch.ones(2), "L['x'].dim() == 2, but it is 1"),
        (torch.ones(3, 2).t(), "L['x'].stride() == (3, 1), but it is (1, 2)"),
        (torch.ones(2, 3, dtype=torch.int32), "L['x'].dtype == torch.float32, but it is torch.int32"),
        (torch.ones(2, 3, device="meta"), "L['x'].device == cpu, but it is meta"),
        (torch.ones(2, 3, requires_grad=True), "L['x'].requires_grad == False, but it is True"),
    ],
)
def test_what_a_tensor_differs_in(other: torch.Tensor, what: str) -> None:
    def f(x):
        return x + 1

    assert failing(f, (X,), (other,)) == what + line_of(f, "x + 1")


def test_the_line_of_the_user_in_place_of_that_of_a_library() -> None:
    drop = torch.nn.Dropout()

    def f(x):
        y = x + 1
        return drop(y)

    compiled = magneto.compile(f, backend="eager")
    compiled(X)
    drop.eval()
    with magneto.config.patch(error_on_recompile=True), pytest.raises(magneto.exc.RecompileError) as caught:
        compiled(X)
    assert "training is True, but it is False" + line_of(f, "drop(y)") in str(caught.value)


def test_the_line_of_an_inner_function() -> None:
    def inner(x, config):
        return x * config["scale"]

    def f(x, config):
        return inner(x, config) + 1

    text = failing(f, (X, {"scale": 1}), (X, {"scale": 2}))
    assert text == "L['config']['scale'] == 1, but it is 2" + line_of(inner, "x * config")


def test_a_function_that_is_another_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def f(x):
        return chosen(x)

    compiled = magneto.compile(f, backend="eager")
    compiled(X)
    monkeypatch.setitem(globals(), "chosen", two)
    with magneto.config.patch(error_on_recompile=True), pytest.raises(magneto.exc.RecompileError) as caught:
        compiled(X)
    assert "but it is <function two> in place of <function one>" in str(caught.value)
    assert line_of(f, "chosen(x)") in str(caught.value)


@pytest.mark.parametrize(
    ("first", "second", "what"),
    [
        ({"a": X}, {"a": X, "b": X}, "('a', 'b'): 'b' is new"),
        ({"a": X, "b": X}, {"a": X}, "('a',): 'b' is missing"),
        ({"a": X, "b": X}, {"b": X, "a": X}, "('b', 'a'): the order is another one"),
    ],
)
def test_the_key_of_a_dict(first: dict[str, Any], second: dict[str, Any], what: str) -> None:
    def f(batch):
        return sum(value.sum() for value in batch.values())

    text = failing(f, (first,), (second,))
    assert text.startswith(f"tuple(L['batch']) == {tuple(first)}, but it is {what} ("), text
    assert text.endswith(line_of(f, "return sum"))


def test_a_list() -> None:
    def f(items):
        return sum(item.sum() for item in items)

    assert failing(f, ([X],), ([X, X],)) == "len(L['items']) == 1, but it is 2" + line_of(f, "return sum")


def test_a_variable_of_an_enclosing_function_has_its_name() -> None:
    scale = 1

    def f(x):
        return x * scale

    compiled = magneto.compile(f, backend="eager")
    compiled(X)
    scale = 2
    with magneto.config.patch(error_on_recompile=True), pytest.raises(magneto.exc.RecompileError) as caught:
        compiled(X)
    assert "L['scale'] == 1, but it is 2" + line_of(f, "x * scale") in str(caught.value)


def test_tensors_that_are_one_object() -> None:
    def f(x, y):
        x.add_(1)
        return x + y

    text = failing(f, (X.clone(), X), (X, X))
    assert text.startswith("L['x'] is not L['y'], but they are one object (")


@pytest.mark.parametrize(
    ("context", "what"),
    [
        (torch.no_grad(), "torch.is_grad_enabled() == True, but it is False"),
        (torch.inference_mode(), "torch.is_grad_enabled() == True, but it is False"),
        (torch.autocast("cpu"), "torch.autocast, by device, == None, but it is"),
    ],
)
def test_what_of_torchs_state_has_changed(context: Any, what: str) -> None:
    compiled = magneto.compile(lambda x: x + 1, backend="eager")
    compiled(X)
    with (
        context,
        magneto.config.patch(error_on_recompile=True),
        pytest.raises(magneto.exc.RecompileError) as caught,
    ):
        compiled(X)
    assert what in str(caught.value)


def test_a_break_after_the_last_line_is_told_of_the_return() -> None:
    def f(x):
        return (row.sin() for row in x)

    with pytest.raises(magneto.exc.Unsupported) as caught:
        magneto.compile(f, backend="eager", fullgraph=True)(X)
    assert [frame.name for frame in caught.value.stack] == ["f"]
    assert (caught.value.stack[-1].line or "").strip() == "return (row.sin() for row in x)"


def test_a_function_without_source() -> None:
    space: dict[str, Any] = {}
    exec("def f(x, n):\n    return x * n\n", space)
    assert failing(space["f"], (X, 1), (X, 2)) == "L['n'] == 1, but it is 2 (<string>:2 in f)"


def test_a_guard_that_has_no_line_is_told_as_it_is() -> None:
    assert _stack.told("torch.is_grad_enabled() == True") == "torch.is_grad_enabled() == True"
