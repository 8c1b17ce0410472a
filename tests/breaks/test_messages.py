"""What users are told of breaks: errors, explain, and torch's logs."""

from __future__ import annotations

import io
import logging
import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
import torch._dynamo

import magneto
from magneto import _core, _hints, _stack, exc

X = torch.arange(4.0)


def eager(function: Any, **kwargs: Any) -> Any:
    return magneto.compile(function, backend="eager", **kwargs)


def error_of(function: Any, *args: Any) -> exc.Unsupported:
    with pytest.raises(exc.Unsupported) as caught:
        eager(function, fullgraph=True)(*args)
    return caught.value


# --- the table ---


@pytest.mark.parametrize("name", _core.reasons())
def test_each_reason_has_a_name_an_explanation_and_a_hint(name):
    text, hint = _core.reasons()[name]
    assert name.isupper()
    assert text
    assert text[0].islower()
    if name != "FAULT":  # asked for by tests only
        assert hint
        assert hint[0].isupper()
        assert hint.endswith(".")


def test_reasons_are_explained_to_users():
    page = os.path.join(os.path.dirname(__file__), os.pardir, os.pardir, "docs", "breaks.md")
    with open(page) as file:
        text = file.read()
    for name in _core.reasons():
        assert name == "FAULT" or f"`{name}`" in text, name


# --- errors ---


def marked(text: str) -> list[str]:
    """The lines of a message that are marked, each with what is marked of it."""
    lines = text.splitlines()
    found = []
    for line, below in zip(lines, lines[1:], strict=False):
        if below.strip() and set(below.strip()) == {"^"}:
            start = below.index("^")
            found.append(line[start : start + below.count("^")])
    return found


def test_the_instruction_is_marked():
    def f(x):
        y = x + 1
        return y * 2 + len(y.numpy())

    assert marked(str(error_of(f, X))) == ["y.numpy()"]


def test_a_whole_line_is_marked_too():
    def f(x):
        print(x)
        return x

    assert marked(str(error_of(f, X))) == ["print(x)"]


def test_an_instruction_of_several_lines_is_marked_to_the_end_of_its_first():
    def f(x):
        return x + magneto.graph_break(
            "here"
        )  # fmt: skip

    assert marked(str(error_of(f, X)))[-1].startswith("magneto.graph_break(")


def test_a_line_with_letters_beyond_ascii_is_marked_right():
    def f(x):
        return (x + len("äöü"), x.numpy())

    assert marked(str(error_of(f, X))) == ["x.numpy()"]


def test_all_frames_of_the_user_are_shown():
    def inner(x):
        return x.numpy()

    def outer(x):
        return inner(x) + 1

    error = error_of(outer, X)
    assert [frame.name for frame in error.stack] == ["outer", "inner"]
    assert marked(str(error)) == ["inner(x)", "x.numpy()"]
    assert error.stack[0].filename == __file__


def test_library_frames_are_not_shown():
    class Printing(torch.nn.Module):
        def forward(self, x):
            print(x)
            return x

    model = torch.nn.Sequential(Printing())
    error = error_of(lambda x: model(x), X)
    assert [frame.name for frame in error.stack] == ["<lambda>", "forward"]


@pytest.mark.parametrize(
    ("body", "reason", "detail"),
    [
        ("if x.sum() > 0: pass", "DATA_DEPENDENT", None),
        ("x.numpy()", "TENSOR_VALUE", "numpy"),
        ("print(x)", "OUTPUT", "builtins.print"),
        ("open('/dev/null')", "OUTPUT", "open"),
        ("import time; time.time()", "UNKNOWN_CALL", "time.time"),
        ("magneto.graph_break('why not')", "USER_BREAK", "why not"),
        ("import logging; logging.getLogger('a').warning('b')", "SKIPPED_CALL", "logging"),
        ("import random; random.shuffle([1, 2])", "SKIPPED_CALL", "random.Random.shuffle"),
        ("import torch; torch.func.linearize(torch.sin, x)", "SKIPPED_CALL", "torch.func.linearize"),
    ],
)
def test_what_and_why(body, reason, detail):
    space: dict[str, Any] = {"magneto": magneto}
    exec(f"def f(x):\n    y = x + 1\n    {body}\n    return y\n", space)
    error = error_of(space["f"], X)
    assert error.reason == reason
    text, hint = _core.reasons()[reason]
    assert text in str(error)
    assert error.hint == _hints.hint_for(reason, error.detail, hint)
    assert f"hint: {error.hint}" in str(error)
    if detail is not None:
        assert detail in error.detail


def test_frames_without_source_or_columns():
    frame = _stack.summary(compile("x = 1", "<nowhere>", "exec"), 2)
    assert _stack.format_frame(frame) == '  File "<nowhere>", line 1, in <module>\n'
    code = _stack.format_frame.__code__.replace(co_linetable=b"")
    assert "in format_frame" in _stack.format_frame(_stack.summary(code, 4))


# --- explain ---

PROGRAMS = {
    "no break": """
def f(x):
    return x.sin() + 1
""",
    "print": """
def f(x):
    y = x + 1
    print("hello")
    return y * 2
""",
    "two breaks": """
def f(x):
    y = x + 1
    print("one")
    y = y * 2
    print("two")
    return y - 3
""",
    "branch": """
def f(x):
    y = x * 2
    if y.sum() > 0:
        return y + 1
    return y - 1
""",
    "item": """
def f(x):
    y = x * 2
    n = y.sum().item()
    return y + n
""",
    "break first": """
def f(x):
    print("hello")
    return x * 2
""",
    "break last": """
def f(x):
    y = x * 2
    print("hello")
    return y
""",
    "graph_break": """
import torch
def f(x):
    y = x * 2
    torch._dynamo.graph_break()
    return y + 1
""",
    "disabled": """
import torch
@torch.compiler.disable
def disabled(x):
    return x - 1
def f(x):
    return disabled(x * 2) + 1
""",
}


@pytest.mark.no_leak_hunt("torch.compile keeps what it compiled")
@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.filterwarnings("ignore")
def test_explain_counts_as_torch_does(name, capsys):
    space: dict[str, Any] = {}
    exec(PROGRAMS[name], space)
    ours = magneto.explain(space["f"])(X)
    theirs = torch._dynamo.explain(space["f"])(X)
    assert (ours.graph_count, ours.graph_break_count) == (theirs.graph_count, theirs.graph_break_count)
    assert len(ours.graphs) == ours.graph_count == len(ours.ops_per_graph)
    assert ours.op_count == sum(map(len, ours.ops_per_graph))
    # torch counts no methods
    functions = [
        [node.target for node in graph.graph.nodes if node.op == "call_function"] for graph in ours.graphs
    ]
    assert functions == theirs.ops_per_graph
    assert len(ours.break_reasons) >= len(theirs.break_reasons)
    lines = {reason.user_stack[-1].lineno for reason in ours.break_reasons}
    assert {reason.user_stack[-1].lineno for reason in theirs.break_reasons} <= lines
    assert all(reason.graph_break for reason in ours.break_reasons)
    assert ours.out_guards
    assert ours.compile_times


def test_explain_shows_breaks(capsys):
    def f(x):
        y = x + 1
        print("hello")
        return y * 2

    output = magneto.explain(f)(X)
    text = str(output)
    assert text.startswith(
        "Graph Count: 2\nGraph Break Count: 1\nOp Count: 2\nBreak Reasons:\n  Break Reason 1:\n"
    )
    assert marked(text) == ['print("hello")']
    assert "builtins.print" in text
    assert _hints.hint_for("OUTPUT", "builtins.print", "") in text
    [reason] = output.break_reasons
    assert (reason.name, reason.detail) == ("OUTPUT", "builtins.print")
    assert reason.user_stack[-1].line.strip() == 'print("hello")'
    assert __file__ in str(reason)


def test_explain_changes_nothing(capsys):
    compiled = eager(lambda x: x + 1)
    compiled(X)
    before = magneto.cache_entries(compiled)[0].hits
    magneto.explain(compiled)(X)
    assert magneto.cache_entries(compiled)[0].hits == before


# --- torch's logs ---


@contextmanager
def logged(**settings: Any) -> Iterator[io.StringIO]:
    """What torch's loggers write with these settings."""
    stream = io.StringIO()
    handlers = []
    torch._logging.set_logs(**settings)
    for handler in logging.getLogger("torch._dynamo").handlers:
        if torch._logging._internal._is_torch_handler(handler):
            handlers.append((handler, handler.stream))
            handler.stream = stream
    try:
        yield stream
    finally:
        for handler, before in handlers:
            handler.stream = before
        torch._logging.set_logs()


def program(x):
    y = x + 1
    magneto.graph_break("on purpose")
    return y * 2


def test_log_of_graph_breaks():
    with logged(graph_breaks=True) as stream:
        eager(program)(X)
    text = stream.getvalue()
    assert text.count("Graph break in user code at") == 1
    assert "[__graph_breaks]" in text
    assert f"{__file__}:{program.__code__.co_firstlineno + 2}" in text
    assert "on purpose" in text
    assert "User code traceback:" in text
    assert "[__guards]" not in text


def test_log_of_recompiles():
    compiled = eager(program)
    compiled(X)
    with logged(recompiles=True) as stream:
        compiled(X[:2])
    text = stream.getvalue()
    assert "[__recompiles] Recompiling function program in" in text
    assert "triggered by the following guard failure(s):" in text
    assert "L['x']" in text


def test_log_of_guards():
    with logged(guards=True) as stream:
        eager(program)(X)
    text = stream.getvalue()
    assert "[__guards]" in text
    assert "L['x']: tensor torch.float32" in text


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_logs_of_graphs(backend):
    with logged(graph_code=True, graph=True, graph_sizes=True) as stream:
        magneto.compile(program, backend=backend)(X)
    text = stream.getvalue()
    assert text.count("def forward(self") == 2
    assert "l_x_ + 1" in text
    assert "placeholder" in text
    assert "y: (4,)" in text


def test_log_of_dynamo():
    with logged(dynamo=logging.INFO) as stream:
        eager(program)(X)
    assert "captured program in" in stream.getvalue()


def test_no_logs_by_default():
    with logged() as stream:
        compiled = eager(program)
        compiled(X)
        compiled(X[:2])
    assert stream.getvalue() == ""


def test_captures_are_numbered():
    with logged(guards=True) as stream:
        compiled = eager(lambda x: x + 1)
        compiled(X)
        compiled(X[:2])
    lines = [line for line in stream.getvalue().splitlines() if "[__guards]" in line]
    numbers = {line.split("[")[1].split("]")[0] for line in lines}
    assert len(numbers) == 2
    assert {number.split("/")[1] for number in numbers} == {"0", "1"}


@pytest.mark.no_leak_hunt("runs in a process of its own")
def test_torch_logs_in_the_environment(tmp_path):
    path = tmp_path / "program.py"
    path.write_text(
        textwrap.dedent("""
        import sys
        import magneto, torch

        @magneto.compile(backend="eager")
        def f(x):
            y = x + 1
            print("hello")
            return y * 2

        f(torch.ones(2))
        f(torch.ones(3))
        """)
    )
    environment = {**os.environ, "TORCH_LOGS": "graph_breaks,recompiles,guards,graph_code"}
    done = subprocess.run(
        [sys.executable, str(path)], env=environment, capture_output=True, text=True, check=True, timeout=300
    )
    assert done.stdout == "hello\nhello\n"
    for artifact in ("graph_breaks", "recompiles", "guards", "graph_code"):
        assert f"[__{artifact}]" in done.stderr
    assert 'print("hello")' in done.stderr
    assert done.stderr.count("Recompiling function f") == 2  # and of the rest of it behind the break


def test_the_log_of_symbols_says_what_they_are_and_what_was_decided(tmp_path):
    path = tmp_path / "program.py"
    path.write_text(
        textwrap.dedent("""
        import magneto, torch

        @magneto.compile(backend="eager")
        def f(x, n):
            return x * n if x.size(0) > 3 else x

        f(torch.ones(4), 2)
        f(torch.ones(5), 3)
        """)
    )
    done = subprocess.run(
        [sys.executable, str(path)], env={**os.environ, "TORCH_LOGS": "dynamic"}, capture_output=True, text=True,
        check=True, timeout=300,
    )  # fmt: skip
    assert "create_symbol s0 = 5 for L['x'].size()[0] [2, int_oo]" in done.stderr
    assert "= 3 for L['n'] [-int_oo, int_oo]" in done.stderr
    assert "3 < L['x'].size()[0]" in done.stderr


@pytest.mark.no_leak_hunt("the hunt runs without pytest's capture of logs")
def test_verbose_shows_the_stack(caplog):
    with magneto.config.patch(verbose=True), caplog.at_level(logging.INFO, logger="magneto"):
        eager(program)(X)
    [record] = [record for record in caplog.records if record.name == "magneto"]
    assert record.levelno == logging.WARNING
    assert "the graph of program ends" in record.getMessage()
    assert marked(record.getMessage()) == ['magneto.graph_break("on purpose")']
