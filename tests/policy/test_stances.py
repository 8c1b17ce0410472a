"""Errors at breaks and stances, around calls and in captured code, through magneto and through torch."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch._dynamo

import magneto
from magneto import exc

from .control import X, assert_equal, eager, graphs

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

    compiled = eager(f, dynamic=False)
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


def scaled(x, n):
    y = x.sin()
    return y * n


def refusal(function, *args) -> str:
    with pytest.raises(magneto.exc.RecompileError) as caught:
        function(*args)
    assert isinstance(caught.value, RuntimeError)
    return str(caught.value)


def test_fail_on_recompile_names_the_guard_both_values_and_the_line(set_stance):
    f = magneto.compile(scaled, backend="eager")
    f(X, 2)
    with set_stance("fail_on_recompile"):
        text = refusal(f, X, 3)
        sizes = refusal(f, torch.ones(7), 2)
    line = scaled.__code__.co_firstlineno + 2
    assert "does not fit the only entry" in text
    assert f"L['n'] == 2, but it is 3 ({__file__}:{line} in scaled: return y * n)" in text
    assert "7" in sizes and str(X.size(0)) in sizes and "L['x']" in sizes


def test_fail_on_recompile_names_the_guard_of_each_entry(set_stance):
    f = magneto.compile(scaled, backend="eager", dynamic=False)
    f(X, 2)
    f(X, 3)
    with set_stance("fail_on_recompile"):
        text = refusal(f, X, 4)
    assert "any of 2 entries" in text
    assert "L['n'] == 2, but it is 4" in text and "L['n'] == 3, but it is 4" in text


def test_fail_on_recompile_names_the_guard_behind_a_break(set_stance):
    def f(x, n):
        torch._dynamo.graph_break()
        return x * n

    compiled = magneto.compile(f, backend="eager")
    compiled(X, 2)
    with set_stance("fail_on_recompile"):
        assert "L['n'] == 2, but it is 3" in refusal(compiled, X, 3)


def test_fail_on_recompile_says_if_nothing_was_captured(set_stance):
    with set_stance("fail_on_recompile"):
        assert "Nothing was captured of scaled" in refusal(magneto.compile(scaled, backend="eager"), X, 2)


def test_the_stance_that_skips_guards_names_the_guard(set_stance):
    f = magneto.compile(scaled, backend="eager")
    f(X, 2)
    with set_stance(skip_guard_eval_unsafe=True):
        text = refusal(f, X, 3)
    assert "with skip_guard_eval_unsafe stance" in text and "L['n'] == 2, but it is 3" in text
