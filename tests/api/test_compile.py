"""`magneto.compile`: what it takes, what it gives, and what it raises."""

from __future__ import annotations

import copy
import functools
import gc
import inspect
import logging
import pickle
import signal
import threading
import warnings
import weakref

import pytest
import torch
from torch import nn

import magneto
from magneto import exc

eager = functools.partial(magneto.compile, backend="eager", fullgraph=True)


@pytest.fixture(autouse=True)
def fresh_counters():
    magneto.counters.clear()
    yield
    magneto.counters.clear()


def captured(function) -> int:
    """How many entries something compiled has."""
    return len(magneto.cache_entries(function))


# --- what can be compiled ---


def plain(x, y=2):
    """Adds."""
    return x + y


class Adder:
    def __init__(self, amount):
        self.amount = amount

    def method(self, x):
        return x + self.amount

    def __call__(self, x):
        return x * self.amount

    @eager
    def decorated(self, x):
        return x - self.amount


def test_function():
    f = eager(plain)
    x = torch.ones(2)
    assert torch.equal(f(x), x + 2)
    assert torch.equal(f(x, y=3), x + 3)
    assert captured(f) == 2


def test_function_keeps_its_metadata():
    f = eager(plain)
    assert (f.__name__, f.__qualname__, f.__doc__, f.__module__) == ("plain", "plain", "Adds.", __name__)
    assert f.__wrapped__ is plain
    assert f._torchdynamo_orig_callable is plain
    assert inspect.signature(f) == inspect.signature(plain)


def test_lambda():
    f = eager(lambda x: x * 2)
    assert torch.equal(f(torch.ones(2)), torch.full((2,), 2.0))
    assert captured(f) == 1


def test_bound_method():
    f = eager(Adder(3).method)
    assert torch.equal(f(torch.ones(2)), torch.full((2,), 4.0))
    assert captured(f) == 1


def test_callable_object():
    f = eager(Adder(3))
    assert torch.equal(f(torch.ones(2)), torch.full((2,), 3.0))
    assert captured(f) == 1


def test_partial():
    f = eager(functools.partial(plain, y=5))
    assert torch.equal(f(torch.ones(2)), torch.full((2,), 6.0))
    assert captured(f) == 1


def test_builtin_function():
    f = eager(torch.sin)
    x = torch.randn(3)
    assert torch.equal(f(x), x.sin())
    assert captured(f) == 1


def test_method_decorated_in_its_class():
    a, b = Adder(1), Adder(2)
    x = torch.zeros(2)
    assert torch.equal(a.decorated(x), x - 1)
    assert torch.equal(b.decorated(x), x - 2)
    assert torch.equal(Adder.decorated(a, x), x - 1)
    assert captured(Adder.decorated) == 2
    magneto.reset()


def test_decorator_without_arguments():
    @magneto.compile(backend="eager")
    def f(x):
        return x + 1

    @magneto.compile
    def g(x):
        return x + 1

    assert f.__name__ == "f"
    assert g.__name__ == "g"
    assert torch.equal(f(torch.ones(2)), torch.full((2,), 2.0))


def test_disable_gives_the_function_back():
    assert magneto.compile(plain, disable=True) is plain
    module = nn.Linear(2, 2)
    assert magneto.compile(module, disable=True) is module


def test_compiling_what_is_compiled_starts_from_the_function():
    f = eager(eager(plain))
    assert f.function is plain
    module = nn.Linear(2, 2)
    assert magneto.compile(magneto.compile(module, backend="eager"), backend="eager")._orig_mod is module


@pytest.mark.parametrize("value", [3, "text", [1]])
def test_what_is_not_callable_is_refused(value):
    with pytest.raises(TypeError, match="only a callable"):
        magneto.compile(value)


def test_mode_and_options_together_are_refused():
    with pytest.raises(RuntimeError, match="either mode or options"):
        magneto.compile(plain, mode="default", options={"max_autotune": True})


def test_wrong_arguments_raise_what_the_function_raises():
    f = eager(plain)
    with pytest.raises(TypeError, match=r"plain\(\) missing 1 required positional argument: 'x'"):
        f()
    with pytest.raises(TypeError, match="unexpected keyword argument 'z'"):
        f(torch.ones(1), z=1)


def test_compiled_function_in_a_compiled_function():
    inner = eager(plain)

    @eager
    def outer(x):
        return inner(x) * 2

    assert torch.equal(outer(torch.ones(2)), torch.full((2,), 6.0))
    assert captured(outer) == 1
    assert captured(inner) == 0


def test_compiled_bound_method_in_a_compiled_function():
    adder = Adder(3)
    inner = eager(adder.method)

    @eager
    def outer(x):
        return inner(x) * 2

    x = torch.ones(2)
    assert torch.equal(outer(x), (x + 3) * 2)
    adder.amount = 4
    assert torch.equal(outer(x), (x + 4) * 2)


def test_compiled_module_in_a_compiled_function():
    module = nn.Linear(2, 2)
    compiled = eager(module)

    @eager
    def outer(x):
        return compiled(x) * 2

    x = torch.ones(2)
    assert torch.equal(outer(x), module(x) * 2)
    assert captured(outer) == 1
    assert captured(compiled) == 0


def test_function_is_pickled_and_copied_by_name():
    assert pickle.loads(pickle.dumps(Adder.decorated)) is Adder.decorated
    assert copy.deepcopy(Adder.decorated) is Adder.decorated


def test_threads_share_a_compiled_function():
    f = eager(lambda x, n: (x * n).sum(), dynamic=False)
    wrong = []
    start = threading.Barrier(4)

    def work(number):
        x = torch.full((8,), float(number))
        start.wait()
        for step in range(50):
            if f(x, step % 4).item() != number * (step % 4) * 8:
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert captured(f) == 4


def test_function_and_its_tensors_are_freed():
    def make():
        weight = torch.randn(2)
        adder = Adder(weight)
        f = eager(adder.method)
        f(torch.ones(2))
        return f, weakref.ref(weight), weakref.ref(adder)

    f, weight, adder = make()
    assert weight() is not None
    del f
    gc.collect()
    assert weight() is None
    assert adder() is None


def test_cycles_through_entries_are_collected():
    def make():
        class Local:
            @eager
            def method(self, x):
                return x + type(self).weight

        Local.weight = torch.ones(2)
        Local().method(torch.ones(2))
        assert captured(Local.method) == 1
        return weakref.ref(Local), weakref.ref(Local.weight)

    references = make()
    gc.collect()
    assert [reference() for reference in references] == [None, None]


def test_namespace_with_a_compiled_function_is_collected():
    namespace = {"weight": torch.ones(2)}
    exec("def f(x): return x + weight", namespace)
    namespace["f"] = eager(namespace["f"])
    namespace["f"](torch.ones(2))
    weight = weakref.ref(namespace["weight"])
    del namespace
    gc.collect()
    assert weight() is None


# --- exceptions ---


def test_exceptions_of_the_program_are_its_own():
    @eager
    def f(x):
        y = x + 1
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        f(torch.ones(1))


def test_exceptions_of_operations_are_eagers():
    @eager
    def f(x, y):
        return x @ y

    def message(function):
        with pytest.raises(RuntimeError) as caught:
            function(torch.ones(2, 3), torch.ones(2, 3))
        return str(caught.value)

    assert message(f) == message(lambda x, y: x @ y)


def test_nothing_is_logged_for_operations_that_fail():
    records = []
    handler = logging.Handler()
    handler.emit = records.append
    logger = logging.getLogger("torch._subclasses.fake_tensor")
    logger.addHandler(handler)
    try:
        with pytest.raises(RuntimeError):
            eager(lambda x, y: x @ y)(torch.ones(4, 3), torch.ones(4, 3))
    finally:
        logger.removeHandler(handler)
    assert records == []


def test_unsupported_tells_where_what_why_and_what_to_do():
    @eager
    def f(x):
        y = x + 1
        if y.sum() > 0:  # here
            y = y * 2
        return y

    with pytest.raises(exc.Unsupported) as caught:
        f(torch.ones(1))
    error = caught.value
    assert error.reason == "DATA_DEPENDENT"
    assert error.stack[-1].filename == __file__
    assert "if y.sum() > 0:  # here" in error.stack[-1].line
    text = str(error)
    assert f'File "{__file__}", line {error.stack[-1].lineno}, in f' in text
    assert "the value of a tensor decides what Python does" in text
    assert "torch.where" in text


def test_unsupported_is_raised_each_time():
    f = eager(lambda x: "yes" if x.item() else "no")
    for _ in range(5):
        with pytest.raises(exc.Unsupported):
            f(torch.ones(1))


def test_unsupported_shows_the_users_line_for_code_in_torch():
    class Printing(nn.Module):
        def forward(self, x):
            print("hello")
            return x

    @eager
    def f(x):
        return nn.Sequential.forward(model, x)

    model = nn.Sequential(Printing())
    with pytest.raises(exc.Unsupported) as caught:
        f(torch.ones(1))
    assert 'print("hello")' in str(caught.value)
    assert "container.py" not in str(caught.value)


def test_without_fullgraph_the_graph_breaks():
    f = magneto.compile(lambda x: x.sum().item() + 1, backend="eager")
    for _ in range(4):
        assert f(torch.ones(2)) == 3.0
    assert f.failures == 0
    assert sum(magneto.counters["graph_break"].values()) == 1
    assert [entry.operations for entry in f.entries()] == [1]


def test_abort_leaves_no_effects_behind():
    log = []

    def f(x):
        log.append(1)
        return x.sum().item()

    compiled = magneto.compile(f, backend="eager")
    compiled(torch.ones(1))
    assert log == [1]


# --- recompiles ---


class Adds(torch.nn.Module):
    def forward(self, x, n):
        return x + n


@pytest.mark.no_leak_hunt("the hunt runs without pytest's capture of logs")
@pytest.mark.parametrize("what", [lambda x, n: x + n, Adds()])
def test_recompile_limit_is_logged_once_and_names_the_guard(what, caplog):
    f = magneto.compile(what, backend="eager", dynamic=False)
    x = torch.ones(1)
    with magneto.config.patch(recompile_limit=2), warnings.catch_warnings():
        warnings.simplefilter("error")  # a program that is right does not raise
        for n in range(6):
            assert f(x, n).item() == 1 + n
    (record,) = caplog.records
    assert (record.name, record.levelname) == ("magneto", "WARNING")
    assert "L['n'] ==" in record.getMessage()
    assert "recompile_limit" in record.getMessage()
    line = test_recompile_limit_is_logged_once_and_names_the_guard.__code__.co_firstlineno + 8
    assert f"{__file__}:{line}" in record.getMessage()
    assert captured(f) == 2
    assert sum(magneto.counters["recompiles"].values()) > 0


class Raises(logging.Handler):
    """A handler that has an error of its own."""

    def emit(self, record):
        raise ZeroDivisionError("in a handler")


def test_a_handler_that_raises_does_not_end_the_call(capsys, monkeypatch):
    def backend(module, inputs):
        raise ValueError("too hard")

    def breaks(x, n):
        x = x + n
        eval("x")
        return x

    log, handler = logging.getLogger("magneto"), Raises()
    level = log.level
    log.addHandler(handler)
    log.setLevel(logging.DEBUG)
    try:
        with magneto.config.patch(recompile_limit=2, suppress_errors=True):
            for f in (magneto.compile(breaks, backend="eager"), magneto.compile(breaks, backend=backend)):
                for n in range(4):
                    assert f(torch.ones(1), n).item() == 1 + n
        assert "in a handler" in capsys.readouterr().err
        monkeypatch.setattr(logging, "raiseExceptions", False)
        assert magneto.compile(breaks, backend="eager")(torch.ones(1), 1).item() == 2
        assert capsys.readouterr().err == ""
    finally:
        log.removeHandler(handler)
        log.setLevel(level)


def test_at_the_recompile_limit_nothing_is_captured_of_what_a_call_calls():
    def inner(x, n):
        return x + n

    def outer(x, n):
        return inner(x * n, n)

    graphs = []

    def backend(module, inputs):
        graphs.append(module)
        return module.forward

    compiled = magneto.compile(outer, backend=backend)
    with magneto.config.patch(recompile_limit=2):
        for n in range(6):
            assert torch.equal(compiled(torch.ones(3), n), outer(torch.ones(3), n))
        assert len(graphs) == 2
        compiled(torch.ones(3), 0)  # its entry is still used
        assert len(graphs) == 2


def test_recompile_limit_with_fullgraph_raises():
    f = eager(lambda x, n: x + n)
    with magneto.config.patch(recompile_limit=1):
        f(torch.ones(1), 0)
        for _ in range(2):
            with pytest.raises(exc.FailOnRecompileLimitHit, match="limit of 1"):
                f(torch.ones(1), 1)
        assert f(torch.ones(1), 0).item() == 1


def test_fail_on_recompile_limit_hit():
    f = magneto.compile(lambda x, n: x + n, backend="eager")
    with magneto.config.patch(recompile_limit=1, fail_on_recompile_limit_hit=True):
        f(torch.ones(1), 0)
        with pytest.raises(exc.RecompileLimitExceeded):
            f(torch.ones(1), 1)


def test_error_on_recompile():
    f = eager(lambda x: x + 1)
    f(torch.ones(1))
    with magneto.config.patch(error_on_recompile=True):
        f(torch.ones(1))
        with pytest.raises(exc.RecompileError, match="size"):
            f(torch.ones(2))


def test_reset_forgets_all_entries():
    f = eager(plain)
    f(torch.ones(1))
    assert captured(f) == 1
    magneto.reset()
    assert captured(f) == 0
    f(torch.ones(1))
    assert captured(f) == 1


# --- config ---


def test_patch_is_a_decorator_too():
    @magneto.config.patch(recompile_limit=3)
    def f():
        return magneto.config.recompile_limit

    assert f() == 3
    assert f() == 3
    assert magneto.config.recompile_limit == 8


def test_patch_puts_back_after_an_error():
    with pytest.raises(KeyError), magneto.config.patch({"verbose": True}):
        raise KeyError
    assert magneto.config.verbose is False


def test_unknown_settings_are_refused():
    with pytest.raises(AttributeError, match="no setting 'nonsense'"):
        magneto.config.nonsense = 1
    with pytest.raises(TypeError):
        magneto.config.recompile_limit = "8"


# --- is_compiling, allow_in_graph, disable ---


def test_is_compiling():
    def f(x):
        return x + 1, magneto.is_compiling(), torch.compiler.is_compiling()

    assert f(torch.ones(1))[1:] == (False, False)
    assert eager(f)(torch.ones(1))[1:] == (True, True)


@magneto.allow_in_graph
def opaque(x):
    return x * 2 + 1


def test_allow_in_graph():
    f = eager(lambda x: opaque(x) + 1)
    x = torch.ones(2)
    assert torch.equal(f(x), x * 4)
    nodes = list(magneto.cache_entries(f)[0].graph.graph.nodes)
    assert [node.target for node in nodes if node.op == "call_function"][0] is opaque


@magneto.disable
def left_alone(x):
    return x * 2


def test_disable():
    f = eager(lambda x: left_alone(x) + 1)
    with pytest.raises(exc.Unsupported, match="a function that is disabled"):
        f(torch.ones(1))
    assert (
        magneto.compile(left_alone, backend="eager", fullgraph=True)(torch.ones(1)) == 2
    )  # the outermost counts


# --- explain, cache_entries, counters ---


def test_explain_of_one_graph():
    def f(x):
        y = x.sin()
        return (y + 1).sum()

    output = magneto.explain(f)(torch.ones(2))
    assert (output.graph_count, output.graph_break_count, output.op_count) == (1, 0, 3)
    assert output.break_reasons == []
    assert [str(op) for op in output.ops_per_graph[0]][0] == "sin"
    assert any("L['x']" in guard for guard in output.out_guards)
    assert isinstance(output.graphs[0], torch.fx.GraphModule)
    text = str(output)
    assert "Graph Count: 1\nGraph Break Count: 0\nOp Count: 3\n" in text
    assert "capture" in output.compile_times


def test_explain_of_a_break():
    def f(x):
        return x.sum().item()

    output = magneto.explain(f)(torch.ones(2))
    assert (output.graph_count, output.graph_break_count, output.op_count) == (1, 0, 1)
    assert len(output.break_reasons) == 1
    assert output.break_reasons[0].user_stack[-1].line.strip() == "return x.sum().item()"
    assert "return x.sum().item()" in str(output)


def test_explain_of_a_module():
    module = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    assert magneto.explain(module)(torch.ones(2)).op_count == 2
    assert magneto.explain(magneto.compile(module))(torch.ones(2)).op_count == 2


def test_cache_entries():
    f = eager(plain, dynamic=False)
    x = torch.ones(2)
    f(x)
    f(x)
    f(x, 7)
    newest, oldest = magneto.cache_entries(f)
    assert (newest.hits, oldest.hits) == (1, 2)
    assert "L['y'] == 7" in newest.guards
    assert torch.equal(newest.graph(x)[0], x + 7)
    with pytest.raises(TypeError, match="did not make this"):
        magneto.cache_entries(plain)


def test_counters():
    magneto.reset()  # a graph of the function that another callable has had is not counted again
    f = magneto.compile(plain, backend="eager")
    f(torch.ones(2))
    f(torch.ones(3))
    assert magneto.counters["frames"] == {"total": 2, "ok": 2}
    assert magneto.counters["stats"] == {"calls_captured": 2, "unique_graphs": 2}
    assert sum(magneto.counters["recompiles"].values()) == 1


@pytest.mark.no_leak_hunt("runs in a process of its own")
def test_import_and_compile_do_not_import_dynamo(run_python):
    done = run_python(
        "import sys, torch, magneto\n"
        "f = magneto.compile(lambda x: x + 1, backend='eager')\n"
        "print('torch._dynamo' in sys.modules, 'sympy' in sys.modules)"
    )
    assert done.stdout.strip() == "False False", done.stderr


def test_what_a_signal_handler_raises_reaches_the_caller():
    class Alarm(Exception):
        pass

    def handler(number, frame):
        signal.setitimer(signal.ITIMER_REAL, 0)
        raise Alarm

    seen = []

    def f(x):
        try:
            for i in range(10_000_000):
                x = x if i else x + 1
        except Alarm:  # in a capture this must not be reached: it would be captured
            seen.append(1)
        return x

    compiled = eager(f)
    before = signal.signal(signal.SIGALRM, handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.02)
        with pytest.raises(Alarm):
            compiled(torch.ones(1))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert seen == []
    assert captured(compiled) == 0
