"""Settings: `torch._dynamo.config`, `torch.compiler.config` and `magneto.config` are one; each name has its place."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import torch
import torch._dynamo.config
import torch.compiler.config

import magneto
from magneto import _settings, exc

X = torch.ones(3)


def add(x, n):
    return x + n


def eager(function, **more):
    return magneto.compile(function, backend="eager", **more)


def entries(compiled) -> int:
    return len(magneto.cache_entries(compiled))


# --- the tables ---


def test_each_name_of_torch_is_in_the_table_and_the_other_way_round():
    theirs = torch._dynamo.config._config
    assert set(theirs) == {*_settings.SETTINGS, *_settings.ALIASES}
    assert {name for name, entry in theirs.items() if entry.alias} == set(_settings.ALIASES)
    for alias, name in _settings.ALIASES.items():
        assert theirs[alias].alias == f"torch._dynamo.config.{name}"


def test_each_name_of_torch_compiler_is_in_the_table_and_the_other_way_round():
    theirs = torch.compiler.config._config
    assert set(theirs) == {*_settings.COMPILER_SETTINGS, *_settings.COMPILER_ALIASES}
    for name in _settings.COMPILER_ALIASES:
        assert theirs[name].alias == f"torch._dynamo.config.{name}"


def test_defaults_are_those_of_torch():
    program = """
import torch._dynamo.config, torch.compiler.config
from magneto import _settings
for module, table in ((torch._dynamo.config, _settings.SETTINGS), (torch.compiler.config, _settings.COMPILER_SETTINGS)):
    for name, one in table.items():
        if name not in ("base_dir", "debug_dir_root"):
            assert module._config[name].default == one.default, name
"""
    assert run(program) == ""


def test_variables_are_those_that_torch_reads():
    text = Path(torch._dynamo.config.__file__).read_text() + Path(torch.compiler.config.__file__).read_text()
    for one in (*_settings.SETTINGS.values(), *_settings.COMPILER_SETTINGS.values()):
        assert not one.variable or f'"{one.variable}"' in text


def test_the_page_is_made_from_the_tables():
    page = Path(__file__).parents[2] / "docs/settings.md"
    assert page.read_text() == _settings.page(), "see magneto._settings"


# --- one truth ---


def test_what_torch_is_told_magneto_knows():
    with torch._dynamo.config.patch(recompile_limit=3):
        assert magneto.config.recompile_limit == magneto.config.cache_size_limit == 3
        assert torch.compiler.config.recompile_limit == 3
    with magneto.config.patch(cache_size_limit=5):
        assert torch._dynamo.config.recompile_limit == torch.compiler.config.recompile_limit == 5
    with torch.compiler.config.patch(recompile_limit=6):
        assert magneto.config.recompile_limit == 6
    assert magneto.config.recompile_limit == torch._dynamo.config.recompile_limit == 8


def test_patch_takes_what_torch_takes():
    with magneto.config.patch("recompile_limit", 3):
        assert magneto.config.recompile_limit == 3
    with magneto.config.patch({"recompile_limit": 4}):
        assert magneto.config.recompile_limit == 4


def test_a_misspelt_setting_is_refused_with_the_right_name():
    with pytest.raises(AttributeError, match="did you mean 'recompile_limit'"):
        magneto.config.recompil_limit = 4
    with pytest.raises(AttributeError, match="did you mean 'verbose'"):
        magneto.config.verbos  # noqa: B018
    with pytest.raises(AttributeError, match="torch.compiler.config"):
        magneto.config.job_id = "a"


def run(program: str, **environment: str) -> str:
    """What a program of its own prints."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


SETTING_BEFORE = """
import sys, threading
import torch, magneto
magneto.config.recompile_limit = 3
magneto.config.ignore_logging_functions.add(print)
assert magneto.config.recompile_limit == 3
assert magneto.config.verbose is True and magneto.config.suppress_errors is False
f = magneto.compile(lambda x, n: x + n, backend="eager", dynamic=False)
for n in range(5):
    f(torch.ones(1), n)
assert len(magneto.cache_entries(f)) == 3
assert "torch._dynamo" not in sys.modules
import torch._dynamo
assert torch._dynamo.config.recompile_limit == magneto.config.recompile_limit == 3
assert torch._dynamo.config.ignore_logging_functions == {print}
assert torch._dynamo.config.verbose is True
seen = []
def look():
    seen.append((torch._dynamo.config.recompile_limit, magneto.config.recompile_limit))
thread = threading.Thread(target=look)
thread.start(); thread.join()
assert seen == [(3, 3)], seen
torch._dynamo.config.recompile_limit = 4
assert magneto.config.recompile_limit == 4
"""


def test_what_is_set_before_torch_dynamo_is_imported_is_carried_over():
    assert run(SETTING_BEFORE, TORCHDYNAMO_VERBOSE="1") == ""


ENVIRONMENT = """
import sys
import torch, magneto
f = magneto.compile(lambda x: x + 1, backend="eager")
f(torch.ones(1))
print(len(magneto.cache_entries(f)), magneto.config.disable, "torch._dynamo" in sys.modules)
"""


def test_the_environment_is_read_without_torch_dynamo():
    assert run(ENVIRONMENT) == "1 False False"
    assert run(ENVIRONMENT, TORCH_COMPILE_DISABLE="1") == "0 True False"


def test_settings_of_one_thread():
    compiled, seen = eager(add, dynamic=False), []

    def other():
        seen.append(magneto.config.recompile_limit)
        for n in range(5):
            compiled(X, n)

    with torch._dynamo.config.patch(recompile_limit=2):
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
    assert seen == [8] and entries(compiled) == 5


# --- what they do ---


def test_the_limit_is_read_live():
    compiled = eager(add, dynamic=False)
    with torch._dynamo.config.patch(cache_size_limit=2):
        for n in range(4):
            assert torch.equal(compiled(X, n), X + n)
        assert entries(compiled) == 2
    compiled(X, 9)
    assert entries(compiled) == 3
    with torch._dynamo.config.patch(accumulated_cache_size_limit=3):
        compiled(X, 10)
    assert entries(compiled) == 3


def test_the_limit_counts_at_resume_points_too():
    def breaks(x, n):
        x = x + 1
        eval("x")
        return x + n

    compiled = eager(breaks)
    with torch._dynamo.config.patch(recompile_limit=1):
        for n in range(4):
            assert torch.equal(compiled(X, n), X + 1 + n)
        assert entries(compiled) == 2


def test_disable():
    compiled = eager(add)
    with torch._dynamo.config.patch(disable=True):
        assert torch.equal(compiled(X, 1), X + 1)
        assert entries(compiled) == 0
    compiled(X, 1)
    assert entries(compiled) == 1


def test_errors_that_are_asked_for():
    compiled = eager(add)
    compiled(X, 1)
    with torch._dynamo.config.patch(error_on_recompile=True), pytest.raises(exc.RecompileError):
        compiled(X, 2)
    with (
        torch._dynamo.config.patch(recompile_limit=1, fail_on_cache_limit_hit=True),
        pytest.raises(exc.FailOnRecompileLimitHit),
    ):
        compiled(X, 2)


def raises(module, inputs):
    raise ValueError("too hard")


@pytest.mark.no_leak_hunt("the hunt runs without pytest's capture of logs")
def test_suppress_errors(caplog):
    with torch._dynamo.config.patch(suppress_errors=True):
        assert torch.equal(magneto.compile(add, backend=raises)(X, 1), X + 1)
    assert "too hard" in caplog.text
    with pytest.raises(exc.BackendCompilerFailed):
        magneto.compile(add, backend=raises)(X, 1)


@pytest.mark.no_leak_hunt("the hunt runs without pytest's capture of logs")
def test_verbose(caplog):
    def breaks(x):
        x = x + 1
        eval("x")
        return x

    with torch._dynamo.config.patch(verbose=True), caplog.at_level(logging.WARNING, logger="magneto"):
        eager(breaks)(X)
    assert "breaks" in caplog.text


def test_values_that_depend_on_data():
    def f(x):
        return x * x.sum().item()

    assert len(magneto.explain(f)(X).graphs) == 2
    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        compiled = eager(f)
        assert torch.equal(compiled(X), f(X)) and torch.equal(compiled(X + 1), f(X + 1))
        assert entries(compiled) == 1


def test_dont_skip_tracing():
    import textwrap

    def f(x):
        return x + len(textwrap.indent("a", "b"))

    assert len(magneto.explain(f)(X).graphs) < 2 and len(magneto.explain(f)(X).break_reasons) == 1
    with torch._dynamo.config.patch(dont_skip_tracing=True):
        assert magneto.explain(f)(X).break_reasons == []
    assert len(magneto.explain(f)(X).break_reasons) == 1


def test_a_compiled_function_under_symbolic_tracing():
    compiled = eager(add)

    def f(x):
        return compiled(x, 1)

    with pytest.raises(RuntimeError, match="using FX to symbolically trace"):
        torch.fx.symbolic_trace(f)
    with torch._dynamo.config.patch(error_on_nested_fx_trace=False):
        traced = torch.fx.symbolic_trace(f)
    assert torch.equal(traced(X), X + 1)
    assert [node.op for node in traced.graph.nodes] == ["placeholder", "call_function", "output"]


@pytest.mark.parametrize("is_error", [True, False])
def test_a_compiled_function_that_traces_symbolically(is_error):
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(3, 3)

        def forward(self, x):
            return self.linear(x).relu() + helper(x)

    def helper(x):
        return x * 2

    def f(model, x):
        y = x + 1
        traced = torch.fx.symbolic_trace(model)
        return traced(y), [node.op for node in traced.graph.nodes]

    model, x = Model(), torch.ones(2, 3)
    expected, operations = f(model, x)
    compiled = eager(f)
    with torch._dynamo.config.patch(error_on_nested_fx_trace=is_error):
        for _ in range(3):
            result, found = compiled(model, x)
            assert torch.equal(result, expected)
            assert found == operations


def test_tracing_on_another_thread_does_not_count():
    compiled, waits, goes_on = eager(add), threading.Event(), threading.Event()

    def traced(x):
        waits.set()
        goes_on.wait(60)
        return x + 1

    thread = threading.Thread(target=torch.fx.symbolic_trace, args=(traced,))
    thread.start()
    try:
        waits.wait(60)
        assert torch.equal(compiled(X, 1), X + 1)
    finally:
        goes_on.set()
        thread.join()


def wrong(module, inputs):
    return lambda *args: tuple(result + 1 for result in module(*args))


def test_verify_correctness():
    with torch._dynamo.config.patch(verify_correctness=True):
        with pytest.raises(exc.BackendCompilerFailed, match="other results"):
            magneto.compile(add, backend=wrong)(X, 1)
        assert torch.equal(magneto.compile(add, backend="aot_eager")(X, 1), X + 1)
        assert torch.equal(eager(add)(X, 1), X + 1)


def test_another_backend_for_some_graphs():
    with torch._dynamo.config.patch(debug_backend_override=">=0:eager"):
        assert torch.equal(magneto.compile(add, backend=raises)(X, 1), X + 1)
    with (
        torch._dynamo.config.patch(debug_backend_override=">=0:nonsense"),
        pytest.raises(ValueError, match="nonsense"),
    ):
        magneto.compile(add, backend="aot_eager")(X, 1)


def test_repro_after_writes_a_program(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    settings = {"repro_after": "dynamo", "repro_level": 1, "debug_dir_root": str(tmp_path)}
    with torch._dynamo.config.patch(settings), pytest.raises(exc.BackendCompilerFailed, match="too hard"):
        magneto.compile(add, backend=raises)(X, 1)
    assert "def forward" in (tmp_path / "repro.py").read_text()


def test_lazy_graph_modules():
    def lazy(module, inputs):
        seen.append(isinstance(module, torch.fx._lazy_graph_module._LazyGraphModule))
        return module

    seen: list[bool] = []
    for is_lazy in (True, False):
        with torch._dynamo.config.patch(use_lazy_graph_module=is_lazy):
            magneto.compile(add, backend=lazy)(X, 1)
    assert seen == [True, False]


def test_making_a_lazy_graph_module_leaves_the_flag_of_the_process_alone(monkeypatch):
    """Two threads that set it and put it back could leave it set: `torch.export` fails then."""
    lazy = torch.fx._lazy_graph_module
    flags = []
    make = torch.fx.GraphModule.__init__

    def noting(*args, **kwargs):
        flags.append(lazy._use_lazy_graph_module_flag)
        make(*args, **kwargs)

    monkeypatch.setattr(torch.fx.GraphModule, "__init__", noting)
    magneto.compile(add, backend=lambda module, inputs: module.forward)(X, 1)
    assert flags
    assert not any(flags)


def test_weak_references_to_inputs_may_be_kept():
    def noting(module, inputs):
        contexts.append(torch._guards.TracingContext.get())
        return module

    contexts: list[torch._guards.TracingContext] = []
    for keeps in (None, True, False):
        with torch._dynamo.config.patch(invalidate_compile_context_weakrefs=keeps):
            magneto.compile(add, backend=noting)(X, 1)
        assert bool(len(contexts.pop().tensor_to_context)) is (keeps is False)


# --- settings for single compilations ---


def test_an_override_of_settings_holds_for_the_graphs_that_it_names():
    seen = []

    def backend(module, inputs):
        seen.append(magneto.config.verbose)
        return module.forward

    magneto.reset()
    with magneto.config.patch(debug_dynamo_config_override="1:verbose=True"):
        magneto.compile(lambda x: x + 1, backend=backend)(X)
        magneto.compile(lambda x: x + 2, backend=backend)(X)
        magneto.compile(lambda x: x + 3, backend=backend)(X)
    assert seen == [False, True, False]
    assert magneto.config.verbose is False


def test_an_override_of_settings_holds_for_the_capture():
    def item(x):
        return x * x.sum().item()

    counts = []
    for text in ("", ">=0:capture_scalar_outputs=True"):
        magneto.reset()
        magneto.counters.clear()
        with magneto.config.patch(debug_dynamo_config_override=text):
            eager(item)(X)
        counts.append(sum(magneto.counters["graph_break"].values()))
    assert counts == [1, 0]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("debug_dynamo_config_override", "0:no_such_setting=1"),
        ("debug_backend_override", "0:no_such_backend"),
        ("debug_inductor_config_override", "0:no_such_setting=1"),
    ],
)
def test_a_wrong_override_is_an_error_of_its_own(name, text):
    magneto.reset()
    with magneto.config.patch({name: text}), pytest.raises(ValueError, match="no_such"):
        magneto.compile(add, backend=lambda module, inputs: module.forward)(X, 1)
    assert torch.equal(magneto.compile(add, backend="eager")(X, 1), X + 1)
