"""The arguments of `torch.compile`: all of them, with the same meaning and the same errors."""

from __future__ import annotations

import inspect

import pytest
import torch

import magneto
from magneto import exc

X = torch.ones(3)


def add(x, n=1):
    return x + n


def entries(compiled) -> int:
    return len(magneto.cache_entries(compiled))


def test_the_signature_is_that_of_torch_compile():
    ours, theirs = inspect.signature(magneto.compile), inspect.signature(torch.compile)
    assert [name for name in ours.parameters if name != "background"] == list(theirs.parameters)
    for name, parameter in theirs.parameters.items():
        assert ours.parameters[name].default == parameter.default
        assert ours.parameters[name].kind == parameter.kind


def both(**arguments):
    """What two of them raise."""
    errors = []
    for compile in (magneto.compile, torch.compile):
        with pytest.raises(Exception) as caught:  # noqa: PT011
            compile(add, **arguments)(X)
        errors.append(caught.value)
    return errors


@pytest.mark.parametrize(
    "arguments",
    [
        {"mode": "default", "options": {"max_autotune": True}},
        {"mode": "nonsense"},
        {"options": {"nonsense": 1}},
        {"options": {"max_autotune": "yes"}},
        {"dynamic": True, "shapes_spec": {}},
    ],
)
def test_errors_are_of_the_classes_of_torch(arguments):
    ours, theirs = both(**arguments)
    assert type(ours) is type(theirs)


def test_options_are_not_changed():
    options = {"guard_filter_fn": torch.compiler.skip_all_guards_unsafe, "max_autotune": False}
    magneto.compile(add, options=options)
    assert set(options) == {"guard_filter_fn", "max_autotune"}


def test_the_default_backend():
    calls = []

    def backend(module, inputs):
        calls.append(module)
        return module

    torch.compiler.set_default_backend(backend)
    try:
        assert torch.equal(magneto.compile(add)(X), X + 1)
        assert torch.equal(magneto.compile(add, backend=None)(X), X + 1)
    finally:
        torch.compiler.set_default_backend(None)
    assert len(calls) == 2


def test_recompile_limit():
    limited, free = (
        magneto.compile(add, backend="eager", recompile_limit=limit, dynamic=False) for limit in (2, None)
    )
    for n in range(5):
        assert torch.equal(limited(X, n), free(X, n))
    assert (entries(limited), entries(free)) == (2, 5)
    with torch._dynamo.config.patch(accumulated_recompile_limit=1):
        strict = magneto.compile(add, backend="eager", recompile_limit=2)
        strict(X, 1), strict(X, 2)
    assert entries(strict) == 1


def test_recompile_limit_with_fullgraph():
    compiled = magneto.compile(add, backend="eager", recompile_limit=1, fullgraph=True)
    compiled(X, 1)
    with pytest.raises(exc.FailOnRecompileLimitHit):
        compiled(X, 2)


def test_recompile_limit_of_a_module():
    module = magneto.compile(torch.nn.Identity(), backend="eager", recompile_limit=1)
    for size in (1, 2, 3):
        module(torch.ones(size))
    assert entries(module) == 1


def test_callables_of_one_function_have_entries_of_their_own():
    first, second = (
        magneto.compile(add, backend="eager", isolate_recompiles=is_so) for is_so in (True, False)
    )
    first(X, 1), first(X, 2), second(X, 1)
    assert (entries(first), entries(second)) == (2, 1)


def test_the_name_goes_to_inductor():
    from magneto._compile import Settings

    assert Settings(name="a region").find().name == "a region"


def test_aot_inductor():
    from magneto._compile import Settings

    backend = Settings(options={"use_aoti": True}).find()
    assert type(backend) is torch._TorchCompileAOTInductorWrapper and backend.config["cpp_wrapper"] is True


def test_the_mode_is_resolved_as_torch_does():
    from magneto._compile import Settings

    theirs = torch._TorchCompileInductorWrapper("max-autotune-no-cudagraphs", None, None)
    assert Settings(mode="max-autotune-no-cudagraphs").find().config == theirs.config


@pytest.mark.no_leak_hunt("the hunt runs without pytest's capture of logs")
def test_options_that_eager_has_no_use_for(caplog):
    assert torch.equal(magneto.compile(add, backend="eager", mode="reduce-overhead")(X), X + 1)
    assert "'reduce-overhead'" in caplog.text
