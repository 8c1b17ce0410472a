"""What magneto makes is to others what torch.compile makes: classes, exceptions, functions."""

from __future__ import annotations

import copy
import functools
import inspect
import pickle
import textwrap
import traceback
import types
import typing
from unittest import mock

import pytest
import torch
import torch._dynamo
from torch._dynamo import exc as torch_exc

import magneto
from magneto import exc

X = torch.ones(3)


# ---- modules ----


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Linear(3, 3)

    def forward(self, x):
        return self.inner(x).relu()


def test_a_compiled_module_is_an_instance_of_torchs_class():
    net = Net()
    compiled = magneto.compile(net, backend="eager")
    assert isinstance(compiled, torch._dynamo.OptimizedModule)
    assert isinstance(compiled, torch._dynamo.eval_frame.OptimizedModule) and isinstance(
        compiled, torch.nn.Module
    )
    assert issubclass(magneto.OptimizedModule, torch._dynamo.OptimizedModule)
    assert type(compiled).__name__ == "OptimizedModule"
    assert not isinstance(net, torch._dynamo.OptimizedModule)
    assert torch.equal(compiled(X), net(X)) and len(magneto.cache_entries(compiled)) == 1
    for other in (copy.copy(compiled), copy.deepcopy(compiled), pickle.loads(pickle.dumps(compiled))):
        assert type(other) is type(compiled) and torch.equal(other(X), net(X))
    assert isinstance(magneto.disable(Net()), torch._dynamo.OptimizedModule)


def test_a_compiled_module_has_what_torchs_has():
    net = Net()
    ours, theirs = magneto.compile(net, backend="eager"), torch.compile(net, backend="eager")
    assert set(dir(theirs)) - set(dir(ours)) == {"_super_module_initialized"}  # torch's own note to itself
    assert ours._orig_mod is theirs._orig_mod is net
    assert ours._torchdynamo_orig_callable == theirs._torchdynamo_orig_callable == net.forward
    assert ours._torchdynamo_wrapper_id == id(ours)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    assert [name for name, _ in ours.named_modules()] == [name for name, _ in theirs.named_modules()]
    assert ours.get_compiler_config() is theirs.get_compiler_config() is None
    assert repr(ours) == repr(theirs)


def test_the_context_of_a_module_compiles_functions_in_the_same_way():
    seen = []

    def backend(module, inputs):
        seen.append(module)
        return module.forward

    context = magneto.compile(Net(), backend=backend, fullgraph=True).dynamo_ctx
    assert torch.equal(context(lambda x: x + 1)(X), X + 1) and len(seen) == 1
    assert context.fullgraph and context.callback is backend and context.compiler_config is None
    with pytest.raises(magneto.exc.Unsupported):
        context(lambda x: print(x))(X)
    with pytest.raises(RuntimeError, match="a decorator"), context:
        pass


def test_the_settings_of_inductor_can_be_asked_for():
    def settings(compile):
        return compile(Net(), options={"max_fusion_size": 7}).get_compiler_config()

    assert settings(magneto.compile) == settings(torch.compile)
    assert settings(magneto.compile)["max_fusion_size"] == 7


def test_compiling_what_was_compiled_is_compiling_the_module():
    net = Net()
    for first in (magneto.compile, torch.compile):
        compiled = magneto.compile(first(net, backend="eager"), backend="eager")
        assert type(compiled) is magneto.OptimizedModule and compiled._orig_mod is net


def test_torchs_checkpoints_look_through_it():
    from torch.distributed.checkpoint.state_dict import get_model_state_dict, set_model_state_dict

    compiled = magneto.compile(Net(), backend="eager")
    found = get_model_state_dict(compiled)
    assert list(found) == ["inner.weight", "inner.bias"]
    set_model_state_dict(compiled, {name: torch.zeros_like(value) for name, value in found.items()})
    assert compiled._orig_mod.inner.weight.abs().sum() == 0


@pytest.mark.no_leak_hunt("runs in a process of its own")
def test_identity_holds_when_dynamo_is_imported_later(run_python):
    program = """
    import sys, torch, magneto
    compiled = magneto.compile(torch.nn.Linear(3, 3), backend="eager")
    expected = compiled(torch.ones(3))
    assert "torch._dynamo" not in sys.modules

    def stop(x):
        print(x)

    try:
        magneto.compile(stop, fullgraph=True, backend="eager")(torch.ones(3))
    except torch._dynamo.exc.Unsupported as error:  # imported by this line
        assert type(error) is magneto.exc.Unsupported
    assert isinstance(compiled, torch._dynamo.OptimizedModule)
    assert torch.equal(compiled(torch.ones(3)), expected)
    assert len(magneto.cache_entries(compiled)) == 1
    assert sys.meta_path[0].__class__.__module__ != "magneto._imports"  # nothing is waited for any more
    """
    done = run_python(textwrap.dedent(program))
    assert done.returncode == 0, done.stderr


# ---- exceptions ----

NAMES = [name for name in exc.__all__ if hasattr(torch_exc, name)]


def test_exceptions_are_torchs_too():
    magneto.compile(lambda x: x, backend="eager")
    assert issubclass(exc.MagnetoError, torch_exc.TorchDynamoException)
    assert len(NAMES) >= 5
    for name in NAMES:
        assert issubclass(getattr(exc, name), getattr(torch_exc, name))


@pytest.mark.no_leak_hunt("torch.compile keeps what compiled a frame when that failed")
def test_a_break_is_caught_as_torchs():
    def stop(x):
        print(x)

    def caught(compile):
        with pytest.raises(torch_exc.Unsupported) as info:
            compile(stop, fullgraph=True, backend="eager")(X)
        return info.value

    ours, theirs = caught(magneto.compile), caught(torch.compile)
    # what TorchDynamo notes for itself while it traces
    missing = {name for name in set(dir(theirs)) - set(dir(ours)) if not name.startswith("_")}
    assert missing == set()
    assert isinstance(ours.real_stack, traceback.StackSummary)
    assert ours.real_stack[-1].name == theirs.real_stack[-1].name == "stop"
    assert ours.real_stack[-1].lineno == theirs.real_stack[-1].lineno
    assert ours.msg == str(ours) and ours.gb_type and not ours.skip_frame


@pytest.mark.no_leak_hunt("torch.compile keeps what compiled a frame when that failed")
def test_a_backends_error_is_caught_as_torchs():
    def backend(module, inputs):
        raise ValueError("no")

    for compile in (magneto.compile, torch.compile):
        with pytest.raises(torch_exc.BackendCompilerFailed) as info:
            compile(lambda x: x + 1, backend=backend)(X)
        assert isinstance(info.value.inner_exception, ValueError) and info.value.backend_name
        assert info.value.remove_dynamo_frames() is info.value
    with pytest.raises(torch_exc.InvalidBackend):
        magneto.compile(lambda x: x, backend="no such backend")


def test_exceptions_are_pickled():
    with pytest.raises(exc.Unsupported) as info:
        magneto.compile(lambda x: print(x), fullgraph=True, backend="eager")(X)
    error = pickle.loads(pickle.dumps(info.value))
    assert type(error) is exc.Unsupported and str(error) == str(info.value) and error.args == info.value.args
    failed = pickle.loads(pickle.dumps(exc.BackendCompilerFailed("b", ValueError("no"))))
    assert failed.backend_name == "b" and str(failed.inner_exception) == "no"


# ---- functions ----


def function(x: torch.Tensor, factor: int = 2, *, more: float = 1.0) -> torch.Tensor:
    """Says so."""
    return x * factor + more


def test_a_compiled_function_looks_as_torchs_does():
    ours, theirs = magneto.compile(function, backend="eager"), torch.compile(function, backend="eager")
    assert vars(theirs).keys() - vars(ours).keys() == set()
    assert set(dir(theirs)) - set(dir(ours)) == set()
    for name in ("__name__", "__qualname__", "__module__", "__doc__", "__annotations__", "__wrapped__"):
        assert getattr(ours, name) == getattr(theirs, name)
    for name in (
        "_torchdynamo_orig_callable",
        "_torchdynamo_inline",
        "_isolate_recompiles_id",
        "_is_torch_compile",
    ):
        assert getattr(ours, name) == getattr(theirs, name)
    assert ours._torchdynamo_wrapper_id == id(ours) and theirs._torchdynamo_wrapper_id == id(theirs)
    assert ours.get_compiler_config() is theirs.get_compiler_config() is None
    asked = (
        inspect.isfunction, inspect.isroutine, inspect.ismethod, inspect.isbuiltin, inspect.isclass, callable,
        inspect.signature, inspect.getsource, inspect.getdoc, inspect.unwrap,
        inspect.getmodule, inspect.iscoroutinefunction, inspect.isgeneratorfunction, typing.get_type_hints,
    )  # fmt: skip
    for ask in asked:
        assert ask(ours) == ask(theirs), ask
    assert isinstance(ours, types.FunctionType)
    assert torch._dynamo.eval_frame.innermost_fn(ours) is function


def test_attributes_of_functions_are_those_of_the_function():
    compiled = magneto.compile(function, backend="eager")
    for name in ("__code__", "__defaults__", "__kwdefaults__", "__closure__", "__globals__"):
        assert getattr(compiled, name) is getattr(function, name)
    method = magneto.compile(Net().forward, backend="eager")
    assert method.__code__ is Net.forward.__code__
    with pytest.raises(AttributeError):
        magneto._core.Compiled(len, None, print).__code__


def test_what_a_compiled_function_returns_is_known_to_inspect():
    async def coroutine(x):
        return x

    def generator(x):
        yield x

    assert inspect.iscoroutinefunction(magneto.compile(coroutine, backend="eager"))  # torch.compile's says no
    assert inspect.isgeneratorfunction(magneto.compile(generator, backend="eager"))


def test_tools_take_it_for_a_function():
    compiled = magneto.compile(function, backend="eager")
    assert copy.deepcopy(compiled) is copy.copy(compiled) is compiled

    @functools.wraps(compiled)
    def wrapper(*args, **kwargs):
        return compiled(*args, **kwargs)

    assert inspect.signature(wrapper) == inspect.signature(function)
    assert torch.equal(magneto.compile(wrapper, backend="eager")(X), function(X))
    spec = mock.create_autospec(compiled, return_value=7)
    assert spec(X, factor=3) == 7
    with pytest.raises(TypeError):
        spec()
    again = types.FunctionType(compiled.__code__, compiled.__globals__, "again", compiled.__defaults__)
    again.__kwdefaults__ = compiled.__kwdefaults__
    assert torch.equal(again(X), function(X))


def test_it_is_bound_as_a_method():
    class Owner:
        @magneto.compile(backend="eager")
        def method(self, x):
            return x + 1

    owner = Owner()
    assert inspect.ismethod(owner.method) and owner.method.__self__ is owner
    assert inspect.isfunction(Owner.method) and list(inspect.signature(owner.method).parameters) == ["x"]
    assert torch.equal(owner.method(X), X + 1)


def test_captured_code_may_ask_what_it_is():
    compiled = magneto.compile(function, backend="eager")

    def ask(x):
        return compiled(x) if inspect.isfunction(compiled) else x

    assert torch.equal(magneto.compile(ask, backend="eager")(X), function(X))


def test_compiled_methods_are_captured_like_others():
    class Owner:
        @magneto.compile(backend="eager")
        def method(self, x):
            return x + 1

    owner = Owner()
    compiled = magneto.compile(lambda x: owner.method(x) * 2, backend="eager", fullgraph=True)
    assert torch.equal(compiled(X), (X + 1) * 2)
    Owner.method = lambda self, x: x
    assert torch.equal(compiled(X), X * 2)


# ---- classes ----


def test_a_compiled_class_is_the_class():
    class Scale:
        def __init__(self, factor):
            self.factor = factor

        def __call__(self, x):
            return x * self.factor

    compiled = magneto.compile(Scale, backend="eager")
    assert compiled is Scale and isinstance(Scale(2), Scale)
    assert torch.equal(Scale(3)(X), X * 3)
    assert len(magneto.cache_entries(Scale.__call__)) == 1

    class Plain:
        pass

    assert magneto.compile(Plain, backend="eager") is Plain
    with pytest.raises(TypeError):
        Plain()()


def test_a_compiled_class_of_modules_is_the_class():
    @magneto.compile(backend="eager")
    class Module(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(3, 3)

        def forward(self, x):
            return self.linear(x) + 1

    assert isinstance(Module, type)
    module = Module()
    expected = module.linear(X) + 1
    before = magneto.counters["frames"]["ok"]
    assert torch.equal(module(X), expected) and torch.equal(module(X), expected)
    assert magneto.counters["frames"]["ok"] == before + 1
    assert torch.equal(magneto.compile(lambda x: module(x) * 2, backend="eager")(X), expected * 2)
