"""`torch._dynamo.optimize` and `optimize_assert` after `magneto.install()`: arguments, hooks, torch's tables."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
import torch
import torch._dynamo
import torch._dynamo.convert_frame
from torch._dynamo.eval_frame import _optimize, _optimize_assert
from torch._dynamo.hooks import Hooks
from torch._guards import Guard, GuardsSet

import magneto
from magneto import _core, _install, exc


@pytest.fixture(autouse=True)
def installed() -> Any:
    torch._dynamo.reset()
    magneto.install()
    yield
    magneto.uninstall()
    torch._dynamo.reset()


def scale(x: torch.Tensor, n: int) -> torch.Tensor:
    return x * n


def breaks(x: torch.Tensor) -> torch.Tensor:
    y = x.sin()
    torch._dynamo.graph_break()
    return y.cos()


X = torch.ones(3)


# ---- arguments ----


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [(_optimize, _install._optimize), (_optimize_assert, _install._optimize_assert)],
)
def test_every_argument_of_torchs_is_taken(theirs: Any, ours: Any) -> None:
    taken = {**inspect.signature(ours).parameters, **inspect.signature(_install._decorator).parameters}
    assert set(inspect.signature(theirs).parameters) <= {*taken, "rebuild_ctx"}


GIVEN: list[dict[str, Any]] = [
    {},
    {"nopython": True},
    {"dynamic": False},
    {"recompile_limit": 2},
    {"isolate_recompiles": True},
    {"error_on_graph_break": True},
    {"guard_fail_fn": print},
    {"guard_export_fn": lambda guards: None},
    {"guard_filter_fn": torch.compiler.keep_tensor_guards_unsafe},
]


@pytest.mark.parametrize("given", GIVEN, ids=lambda given: "".join(given))
def test_magneto_compiles_whatever_is_given(given: dict[str, Any]) -> None:
    compiled = torch._dynamo.optimize("eager", **given)(scale)
    assert type(compiled) is _core.Compiled
    assert torch.equal(compiled(X, 2), X * 2)
    assert len(magneto.cache_entries(compiled)) == 1
    module = torch._dynamo.optimize("eager", **given)(torch.nn.ReLU())
    assert torch.equal(module(X), X)
    assert len(magneto.cache_entries(module)) == 1


def test_disable_returns_what_it_was_given() -> None:
    assert torch._dynamo.optimize("eager", disable=True)(scale) is scale


def test_a_backend_that_there_is_not_is_told_at_once() -> None:
    with pytest.raises(exc.InvalidBackend):
        torch._dynamo.optimize("no_such_backend")


def test_an_argument_that_there_is_not_is_an_error() -> None:
    with pytest.raises(TypeError, match="no_such_argument"):
        torch._dynamo.optimize("eager", no_such_argument=1)


def test_what_can_not_be_compiled_is_an_error() -> None:
    with pytest.raises(TypeError, match="a tensor"):
        torch._dynamo.optimize("eager")(X)


def test_a_package_is_refused_with_the_reason() -> None:
    with pytest.raises(exc.MagnetoError, match="can't be saved"):
        torch._dynamo.optimize("eager", package=object())
    with pytest.raises(exc.MagnetoError, match="can't be saved"):
        torch._dynamo.optimize_assert("eager", package=object())


def test_export_is_refused_with_the_reason() -> None:
    with pytest.raises(exc.MagnetoError, match="torch.export"):
        torch._dynamo.optimize_assert("eager", export=True)


def test_aot_compile_says_what_to_do() -> None:
    compiled = torch.compile(scale, fullgraph=True, backend="eager")
    with pytest.raises(exc.MagnetoError, match="torch.export"):
        compiled.aot_compile(((X, 2), {}))
    with pytest.raises(exc.MagnetoError, match="torch.export"):
        torch.compile(torch.nn.ReLU(), fullgraph=True, backend="eager")._aot_compile([])


def test_optimize_assert_is_one_graph_or_an_error() -> None:
    assert torch.equal(torch._dynamo.optimize_assert("eager")(scale)(X, 2), X * 2)
    with pytest.raises(torch._dynamo.exc.Unsupported):
        torch._dynamo.optimize_assert("eager")(breaks)(X)


# ---- error_on_graph_break ----


def test_breaks_are_errors_if_that_is_asked_for() -> None:
    with pytest.raises(torch._dynamo.exc.Unsupported):
        torch._dynamo.optimize("eager", error_on_graph_break=True)(breaks)(X)
    assert torch.equal(torch._dynamo.optimize("eager", error_on_graph_break=False)(breaks)(X), breaks(X))


def test_captured_code_may_say_otherwise() -> None:
    def lenient(x: torch.Tensor) -> torch.Tensor:
        with torch._dynamo.error_on_graph_break(False):
            return breaks(x)

    compiled = torch._dynamo.optimize("eager", error_on_graph_break=True)(lenient)
    assert torch.equal(compiled(X), breaks(X))
    assert len(magneto.cache_entries(compiled)) > 1


def test_the_callable_says_it_for_its_own_calls_only() -> None:
    strict = torch._dynamo.optimize("eager", error_on_graph_break=True)(breaks)
    lenient = torch._dynamo.optimize("eager", error_on_graph_break=False)(breaks)
    with torch._dynamo.error_on_graph_break(True):
        assert torch.equal(lenient(X), breaks(X))
    with pytest.raises(torch._dynamo.exc.Unsupported):
        strict(X)
    assert torch.equal(torch.compile(breaks, backend="eager")(X), breaks(X))


def test_modules_say_it_too() -> None:
    class Breaks(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return breaks(x)

    with pytest.raises(torch._dynamo.exc.Unsupported):
        torch._dynamo.optimize("eager", error_on_graph_break=True)(Breaks())(X)


# ---- hooks ----


@pytest.mark.parametrize("by_hooks", [False, True])
def test_guard_fail_fn_is_told_of_each_guard_that_fails(by_hooks: bool) -> None:
    failed: list[Any] = []
    if by_hooks:
        decorate = torch._dynamo.optimize_assert(
            "eager", hooks=Hooks(guard_fail_fn=failed.append), dynamic=False
        )
    else:
        decorate = torch._dynamo.optimize("eager", guard_fail_fn=failed.append, dynamic=False)
    compiled = decorate(scale)
    compiled(X, 2)
    compiled(X, 2)
    assert failed == []
    compiled(X, 3)
    (fail,) = failed
    assert isinstance(fail, torch._dynamo.types.GuardFail)
    assert fail.orig_code is scale.__code__
    assert fail.reason.startswith("0/0: ") and "L['n'] == 2, but it is 3" in fail.reason
    compiled(X, 4)
    assert len(failed) == 3


def test_guard_fail_fn_is_told_of_guards_behind_a_break() -> None:
    def rest(x: torch.Tensor, n: int) -> torch.Tensor:
        torch._dynamo.graph_break()
        return x * n

    failed: list[Any] = []
    compiled = torch._dynamo.optimize("eager", guard_fail_fn=failed.append)(rest)
    compiled(X, 2)
    compiled(X, 3)
    assert [fail.orig_code for fail in failed] == [rest.__code__]


def test_a_guard_fail_fn_that_raises_does_no_harm() -> None:
    def fail(failure: Any) -> None:
        raise ZeroDivisionError

    compiled = torch._dynamo.optimize("eager", guard_fail_fn=fail)(scale)
    assert torch.equal(compiled(X, 2), X * 2)
    assert torch.equal(compiled(X, 3), X * 3)


def test_guard_export_fn_gets_the_guards_of_each_entry() -> None:
    exported: list[Any] = []
    compiled = torch._dynamo.optimize("eager", guard_export_fn=exported.append)(scale)
    compiled(X, 2)
    compiled(X, 2)
    (guards,) = exported
    assert isinstance(guards, GuardsSet) and all(isinstance(guard, Guard) for guard in guards)
    found = {(guard.name, guard.create_fn_name()): guard.code_list for guard in guards}
    assert found["L['n']", "CONSTANT_MATCH"] == ["L['n'] == 2"]
    assert ("L['x']", "TENSOR_MATCH") in found
    compiled(X, 3)
    assert len(exported) == 2


def test_guard_export_fn_gets_the_guards_that_a_filter_has_left() -> None:
    exported: list[Any] = []
    compiled = torch._dynamo.optimize(
        "eager",
        guard_export_fn=exported.append,
        guard_filter_fn=lambda guards: [guard.guard_type == "TENSOR_MATCH" for guard in guards],
    )(scale)
    compiled(X, 2)
    assert {guard.create_fn_name() for guard in exported[0]} == {"TENSOR_MATCH"}


def test_guard_export_fn_is_not_told_of_a_graph_without_operations() -> None:
    exported: list[Any] = []
    torch._dynamo.optimize("eager", guard_export_fn=exported.append)(lambda n: n + 1)(2)
    assert exported == []


# ---- torch's tables ----


def test_the_codes_that_were_looked_at_are_noted() -> None:
    codes = torch._dynamo.convert_frame.input_codes
    torch.compile(scale, backend="eager")(X, 2)
    assert scale.__code__ in codes
    torch._dynamo.reset()
    assert scale.__code__ not in codes


def test_torch_compile_still_compiles_what_magneto_has_compiled() -> None:
    magneto.compile(scale, backend="eager")(X, 2)
    magneto.uninstall()
    graphs: list[Any] = []

    def backend(module: Any, inputs: Any) -> Any:
        graphs.append(module)
        return module.forward

    torch.compile(scale, backend=backend)(X, 2)
    assert len(graphs) == 1


def test_failed_guards_are_noted_by_code() -> None:
    compiled = torch.compile(scale, backend="eager")
    compiled(X, 2)
    compiled(X, 3)
    (reason,) = torch._dynamo.guard_failures[scale.__code__]
    assert "L['n'] == 2, but it is 3" in reason


def test_breaks_are_noted() -> None:
    torch.compile(breaks, backend="eager")(X)
    (reason,) = torch._dynamo.graph_break_reasons
    assert reason.graph_break and reason.user_stack[-1].name == "breaks"
    assert "torch._dynamo.graph_break()" in reason.reason


def test_frames_that_are_left_to_cpython_are_noted_while_somebody_asks() -> None:
    from torch._dynamo import eval_frame

    def generates(x: torch.Tensor) -> Any:
        yield x

    torch.compile(generates, backend="eager")(X)
    assert eval_frame.get_skip_reasons() == []
    eval_frame.reset_skip_reasons()
    try:
        torch.compile(generates, backend="eager")(X)
        (reason,) = eval_frame.get_skip_reasons()
    finally:
        eval_frame.clear_dynamo_tls()
    line = generates.__code__.co_firstlineno
    assert reason.startswith(f"generates ({__file__}:{line}): ") and "generator" in reason
