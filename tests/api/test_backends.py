"""Backends: by name, by function, with training, with failures."""

from __future__ import annotations

import abc
import collections.abc
import contextvars
import functools
import inspect
import sys
import warnings

import pytest
import torch
from torch import nn

import magneto
from magneto import exc

KEPT = pytest.mark.no_leak_hunt("inductor, and AOTAutograd for training, keep what they have made")


def mlp():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))


def step(model, module, x):
    """The result of a training step, and the gradients."""
    for parameter in module.parameters():
        parameter.grad = None
    x = x.clone().requires_grad_()
    result = model(x)
    result.pow(2).sum().backward()
    return [result, x.grad, *(parameter.grad for parameter in module.parameters())]


@pytest.mark.parametrize(
    "options",
    [
        {"backend": "eager"},
        pytest.param({"backend": "aot_eager"}, marks=KEPT),
        pytest.param({"backend": "aot_eager_decomp_partition"}, marks=KEPT),
        pytest.param({"backend": "inductor"}, marks=KEPT),
        pytest.param({"backend": "inductor", "mode": "reduce-overhead"}, marks=KEPT),
        pytest.param({"backend": "inductor", "options": {"epilogue_fusion": True}}, marks=KEPT),
        {"backend": "eager_noexcept"},
    ],
    ids=str,
)
def test_training_step_is_eagers(options):
    module = mlp()
    compiled = magneto.compile(module, fullgraph=True, **options)
    for seed in range(3):
        torch.manual_seed(seed)
        x = torch.randn(3, 4)
        for ours, eager in zip(step(compiled, module, x), step(module, module, x), strict=True):
            torch.testing.assert_close(ours, eager)
    assert len(magneto.cache_entries(compiled)) == 1


@pytest.mark.parametrize(
    "backend", ["eager", pytest.param("aot_eager", marks=KEPT), pytest.param("inductor", marks=KEPT)]
)
def test_several_steps_of_an_optimizer(backend):
    def train(compiled):
        module = mlp()
        model = magneto.compile(module, backend=backend, fullgraph=True) if compiled else module
        optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
        torch.manual_seed(1)
        for _ in range(4):
            optimizer.zero_grad()
            model(torch.randn(5, 4)).pow(2).sum().backward()
            optimizer.step()
        return [parameter.detach() for parameter in module.parameters()]

    for ours, eager in zip(train(True), train(False), strict=True):
        torch.testing.assert_close(ours, eager)


@pytest.mark.parametrize("backend", ["eager", "aot_eager", pytest.param("inductor", marks=KEPT)])
def test_mutation_of_an_argument(backend):
    def f(x, y):
        x.add_(1)
        y[0] = 5
        return x * y

    x, y = torch.ones(3), torch.ones(3)
    a, b = torch.ones(3), torch.ones(3)
    assert torch.equal(magneto.compile(f, backend=backend, fullgraph=True)(x, y), f(a, b))
    assert torch.equal(x, a)
    assert torch.equal(y, b)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_one_tensor_as_two_arguments(backend):
    def f(x, y):
        x.add_(1)
        return x * y

    compiled = magneto.compile(f, backend=backend, fullgraph=True)
    for _ in range(2):
        x, y = torch.ones(3), torch.ones(3)
        assert torch.equal(compiled(x, x), f(y, y))
        assert torch.equal(x, y)
        assert torch.equal(compiled(torch.ones(3), torch.ones(3)), f(torch.ones(3), torch.ones(3)))


def test_overlapping_arguments_have_a_guard_of_their_own():
    def f(x, y):
        x.add_(1)
        return x + y

    compiled = magneto.compile(f, backend="aot_eager", fullgraph=True)

    def overlapping():
        base = torch.zeros(6)
        return base[0:4], base[2:6]

    def apart():
        base = torch.zeros(8)
        return base[0:4], base[4:8]

    def two():
        return torch.zeros(4), torch.zeros(4)

    for make in (overlapping, apart, two, overlapping, two, apart):
        assert torch.equal(compiled(*make()), f(*make()))
    assert len(magneto.cache_entries(compiled)) == 3


def test_custom_backend_gets_the_graph_and_the_inputs():
    seen = []

    def backend(module, inputs):
        seen.append((module, inputs))
        return module.forward

    x, y = torch.ones(2), torch.zeros(2)
    f = magneto.compile(lambda a, b: a + b * 2, backend=backend)
    assert torch.equal(f(x, y), x)
    module, inputs = seen[0]
    assert isinstance(module, torch.fx.GraphModule)
    assert [a is b for a, b in zip(inputs, (y, x))] == [True, True]  # in the order of use
    f(y, x)
    assert len(seen) == 1


def test_custom_backend_can_change_the_graph():
    def backend(module, inputs):
        for node in module.graph.nodes:
            if node.target is torch.sin:
                node.target = torch.cos
        module.recompile()
        return module

    x = torch.randn(3)
    assert torch.equal(magneto.compile(lambda x: torch.sin(x), backend=backend)(x), x.cos())


def test_custom_backend_with_options():
    seen = {}

    def backend(module, inputs, **kwargs):
        seen.update(kwargs)
        return module.forward

    magneto.compile(lambda x: x + 1, backend=backend, options={"level": 3})(torch.ones(1))
    assert seen == {"options": {"level": 3}}
    seen.clear()
    magneto.compile(lambda x: x + 1, backend=backend, mode="max-autotune")(torch.ones(1))
    assert seen == {"mode": "max-autotune"}


@KEPT
def test_custom_backend_on_aot_autograd():
    from functorch.compile import make_boxed_func
    from torch._dynamo.backends.common import aot_autograd

    graphs = []

    def compiler(module, inputs):
        graphs.append(module)
        return make_boxed_func(module.forward)

    module = mlp()
    compiled = magneto.compile(module, backend=aot_autograd(fw_compiler=compiler, bw_compiler=compiler))
    x = torch.randn(2, 4)
    for ours, eager in zip(step(compiled, module, x), step(module, module, x), strict=True):
        torch.testing.assert_close(ours, eager)
    assert len(graphs) == 2


def test_backend_sees_a_tracing_context():
    from torch._guards import TracingContext, detect_fake_mode

    modes = []

    def backend(module, inputs):
        modes.append((detect_fake_mode(inputs), TracingContext.get().fake_mode))
        return module.forward

    magneto.compile(lambda x: x + 1, backend=backend)(torch.ones(1))
    assert modes[0][0] is modes[0][1] is not None
    assert TracingContext.try_get() is None


def test_failing_backend():
    def backend(module, inputs):
        raise ValueError("too hard")

    f = magneto.compile(lambda x: x + 1, backend=backend)
    for _ in range(2):
        with pytest.raises(exc.BackendCompilerFailed, match="too hard") as caught:
            f(torch.ones(1))
        assert isinstance(caught.value.__cause__, ValueError)
        assert caught.value.inner_exception is caught.value.__cause__
        assert "backend" in caught.value.backend_name


def test_backend_that_gives_no_callable():
    f = magneto.compile(lambda x: x + 1, backend=lambda module, inputs: None)
    with pytest.raises(exc.BackendCompilerFailed, match="must return a callable"):
        f(torch.ones(1))


@pytest.mark.no_leak_hunt("the hunt runs without pytest's capture of logs")
def test_suppressed_errors_run_the_graph_without_the_backend(caplog):
    def backend(module, inputs):
        raise ValueError("too hard")

    f = magneto.compile(lambda x: x + 1, backend=backend)
    with magneto.config.patch(suppress_errors=True), warnings.catch_warnings():
        warnings.simplefilter("error")
        assert torch.equal(f(torch.ones(1)), torch.full((1,), 2.0))
        assert torch.equal(f(torch.ones(1)), torch.full((1,), 2.0))
    assert ["too hard" in record.getMessage() for record in caplog.records if record.name == "magneto"] == [
        True
    ]
    assert len(magneto.cache_entries(f)) == 1


def test_compiled_graph_with_too_few_outputs():
    f = magneto.compile(lambda x: x + 1, backend=lambda module, inputs: lambda *args: ())
    with pytest.raises(RuntimeError, match="gave 0 outputs, and the graph has 1"):
        f(torch.ones(1))


def test_unknown_backend():
    with pytest.raises(exc.InvalidBackend, match="no backend 'nonsense'"):
        magneto.compile(lambda x: x, backend="nonsense")
    with pytest.raises(TypeError, match="a name or a callable"):
        magneto.compile(lambda x: x, backend=3)


def test_unknown_option_of_inductor():
    with pytest.raises(RuntimeError, match="inductor has no option .nonsense."):
        magneto.compile(lambda x: x, options={"nonsense": 1})


def test_list_backends():
    assert {"eager", "inductor"} <= set(magneto.list_backends())
    everything = magneto.list_backends(None)
    assert {"aot_eager", "eager", "inductor"} <= set(everything)
    assert everything == sorted(everything)


def test_backend_of_torchs_registry():
    from torch._dynamo.backends import registry

    name = "magneto_test_backend"
    if name not in registry._COMPILER_FNS:

        @registry.register_backend(name=name)
        def compiler(module, inputs):
            return module.forward

    assert name in magneto.list_backends()
    assert torch.equal(magneto.compile(lambda x: x * 2, backend=name)(torch.ones(1)), torch.full((1,), 2.0))


def test_inside_a_transform_of_functorch() -> None:
    """What a transform calls gets no backend: it could not make tensors that require gradients there."""
    weight = torch.randn(3, 3, requires_grad=True)

    def loss(v: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return ((v @ w).sigmoid() ** 2).sum()

    def f(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        return torch.func.vmap(torch.func.grad(loss), in_dims=(0, None))(y, weight) + 1

    compiled = magneto.compile(f, backend=lambda module, _: module.forward)
    for x in (torch.randn(4, 3), torch.randn(5, 3), torch.randn(4, 3)):
        assert torch.equal(compiled(x), f(x))
        with torch.no_grad():
            assert torch.equal(compiled(x), f(x))


def grow(x: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
    return torch.sin(x, out=out) + 1


def switch_argument(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    y = x * 2
    weight.requires_grad_(not weight.requires_grad)
    return y * weight


def switch_result(x: torch.Tensor, weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    y = (x * weight).requires_grad_()
    return y, y.sin()


def make_leaf(x: torch.Tensor, weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    y = torch.zeros(3, requires_grad=True)
    return y, x * y + weight


@pytest.mark.parametrize("backend", ["eager", pytest.param("aot_eager", marks=KEPT)])
@pytest.mark.parametrize("function", [grow, switch_argument, switch_result, make_leaf])
def test_changes_of_tensors_that_backends_do_not_follow(function, backend) -> None:
    """Tensors that get another size, and leaves that come to require grad: the graph ends before that."""

    def observe(f):
        x, weight = torch.arange(3.0), torch.empty(0) if function is grow else torch.ones(3)
        seen = []
        for _ in range(2):
            results = f(x, weight)
            tensors = [x, weight, *(results if isinstance(results, tuple) else (results,))]
            seen.append([(t.tolist(), t.requires_grad, t.is_leaf) for t in tensors])
        return seen

    assert observe(magneto.compile(function, backend=backend)) == observe(function)
    if backend != "eager":
        with pytest.raises(exc.Unsupported, match="backends do not follow"):
            observe(magneto.compile(function, backend=backend, fullgraph=True))


@pytest.mark.parametrize("backend", ["eager", pytest.param("aot_eager", marks=KEPT)])
def test_views_of_parameters_where_gradients_are_off(backend) -> None:
    """Such a view is a leaf that requires grad; it is no new one, and the graph goes on."""

    def f(x: torch.Tensor, weight: torch.Tensor) -> tuple[torch.Tensor, ...]:
        first, *rest = weight.unsqueeze(0).expand(2, 3, 3).unbind(0)
        return x + weight[:2], weight.t(), first * 2, rest[0].view(-1)

    def observe(f):
        x, weight = torch.arange(3.0), torch.arange(9.0).view(3, 3).clone().requires_grad_()
        with torch.no_grad():
            results = [f(x, weight) for _ in range(2)]
        return [(t.tolist(), t.requires_grad, t.is_leaf, t._is_view()) for part in results for t in part]

    assert observe(magneto.compile(f, backend=backend, fullgraph=True)) == observe(f)


def sample(x: torch.Tensor, weight: torch.Tensor) -> tuple[torch.Tensor, ...]:
    with torch.no_grad():
        noise = torch.bernoulli(weight.expand(2, 3, 3).sigmoid().round()) + weight.t()[0]
    return noise * weight, x + weight


def change_part(x: torch.Tensor, weight: torch.Tensor) -> tuple[torch.Tensor, ...]:
    with torch.no_grad():
        weight[:2].mul_(2)
    return (weight * x,)


def give_view(x: torch.Tensor, weight: torch.Tensor) -> tuple[torch.Tensor, ...]:
    y = weight * x
    with torch.no_grad():
        view = weight[:2]
    return view, y


def use_view(x: torch.Tensor, weight: torch.Tensor) -> tuple[torch.Tensor, ...]:
    y = weight * x
    with torch.no_grad():
        view = y.view(-1)
    return view * 2, y


@pytest.mark.parametrize("backend", ["eager", pytest.param("aot_eager", marks=KEPT)])
@pytest.mark.parametrize("function", [sample, change_part, give_view, use_view])
def test_views_made_where_gradients_are_off_for_a_while(function, backend) -> None:
    """No gradient flows through them. A backend's would, so those that live on, or meet gradients, end the graph."""

    def observe(f):
        x, weight = torch.arange(3.0), torch.arange(9.0).view(3, 3).clone().requires_grad_()
        seen = []
        for _ in range(2):
            results = f(x, weight)
            sum(t.sum() for t in results).backward()
            seen.append([(t.tolist(), t.requires_grad, t.is_leaf, t._is_view()) for t in results])
            seen.append((weight.tolist(), weight.grad.tolist()))
        return seen

    whole = backend == "eager" or function in (sample, change_part)
    assert observe(magneto.compile(function, backend=backend, fullgraph=whole)) == observe(function)
    if not whole:
        with pytest.raises(exc.Unsupported, match="gradients were off"):
            observe(magneto.compile(function, backend=backend, fullgraph=True))


@pytest.mark.parametrize("backend", ["eager", pytest.param("aot_eager", marks=KEPT)])
def test_break_where_gradients_are_off(backend, capsys) -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            print("here")
            y = x.sin()
        return (x + y).cos()

    compiled = magneto.compile(f, backend=backend)
    for _ in range(2):
        x = torch.arange(3.0, requires_grad=True)
        compiled(x).sum().backward()
        assert torch.is_grad_enabled()
        ours, x.grad = x.grad, None
        f(x).sum().backward()
        assert torch.equal(ours, x.grad)


def test_state_is_not_what_the_backend_leaves() -> None:
    import random

    calls = []

    def backend(module, inputs):
        calls.append(torch.rand(1).item() + random.random())
        module(*inputs)
        torch.set_grad_enabled(False)
        torch.set_default_dtype(torch.float64)
        torch.set_autocast_enabled("cpu", True)
        return module.forward

    def f(x: torch.Tensor) -> torch.Tensor:
        return torch.rand(3) + x

    compiled = magneto.compile(f, backend=backend)
    for seed in range(2):
        random.seed(seed)
        torch.manual_seed(seed)
        eager = f(torch.ones(3)), torch.rand(1), random.random()
        random.seed(seed)
        torch.manual_seed(seed)
        ours = compiled(torch.ones(3)), torch.rand(1), random.random()
        assert all(a == b if isinstance(a, float) else torch.equal(a, b) for a, b in zip(ours, eager))
        assert torch.is_grad_enabled()
        assert not torch.is_autocast_enabled("cpu")
        assert torch.get_default_dtype() is torch.float32
    assert len(calls) == 1


def test_graph_that_only_changes_the_state_is_not_for_a_backend(capsys) -> None:
    seen = []

    def backend(module, inputs):
        seen.append(module)
        return module.forward

    def f(x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            print("here")
            return x.sin()

    compiled = magneto.compile(f, backend=backend)
    assert not compiled(torch.ones(2, requires_grad=True)).requires_grad
    assert torch.is_grad_enabled()
    assert len(seen) == 1


@pytest.mark.parametrize("backend", ["eager", pytest.param("aot_eager", marks=KEPT)])
def test_modes_of_the_program_see_what_they_see_in_eager(backend) -> None:
    """A mode must not see how a call is captured: under one, calls are not captured."""
    from torch.overrides import TorchFunctionMode
    from torch.utils._python_dispatch import TorchDispatchMode

    seen: list[str] = []

    class Functions(TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            seen.append(function.__name__)
            return function(*args, **(kwargs or {}))

    class Operations(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            seen.append(str(function))
            return function(*args, **(kwargs or {}))

    def f(x: torch.Tensor) -> torch.Tensor:
        y = x.sin()
        if y.sum() > 100:
            return y
        return y + 1

    x = torch.ones(3)
    for mode in (Functions, Operations):
        compiled = magneto.compile(f, backend=backend)
        for _ in range(2):
            seen.clear()
            with mode():
                eager = f(x)
            expected = seen.copy()
            seen.clear()
            with mode():
                result = compiled(x)
            assert seen == expected
            assert torch.equal(result, eager)
            assert torch.equal(compiled(x), eager)
        assert len(magneto.cache_entries(compiled)) > 0
        with torch.device("meta"):
            assert magneto.compile(lambda: torch.ones(3) + 1, fullgraph=True, backend=backend)().is_meta


SETTINGS = {
    "recursion limit": (sys.getrecursionlimit, sys.setrecursionlimit, 3210),
    "precision": (torch._C._get_float32_matmul_precision, torch._C._set_float32_matmul_precision, "high"),
    "mkldnn": (torch._C._get_mkldnn_enabled, torch._C._set_mkldnn_enabled, False),
    "autocast's cache": (torch.is_autocast_cache_enabled, torch.set_autocast_cache_enabled, False),
    "default dtype": (torch.get_default_dtype, torch.set_default_dtype, torch.float64),
}


@pytest.mark.parametrize("setting", SETTINGS)
def test_backend_that_changes_what_the_capture_read(setting):
    read, change, other = SETTINGS[setting]
    graphs = []

    def backend(module, inputs):
        graphs.append(module)
        change(other)
        return module.forward

    def f(x):
        inspect.signature(g)
        return x + 1, read()

    def g(a, b):
        pass

    before = read()
    try:
        compiled = magneto.compile(f, backend=backend)
        for _ in range(3):
            assert compiled(torch.ones(2))[1] == before
            assert read() == before
        assert len(graphs) == 1
    finally:
        change(before)


@pytest.mark.parametrize("before", [None, "cpu", "meta"])
@pytest.mark.parametrize("inside", [None, "cpu", "meta", "entered"])
def test_backend_that_changes_the_default_device(before, inside):
    graphs = []

    def backend(module, inputs):
        graphs.append(module)
        if inside == "entered":
            torch.device("meta").__enter__()
        else:
            torch.set_default_device(inside)
        return module.forward

    def f(x):
        return x + 1, torch.zeros(2).device, torch.get_default_device()

    torch.set_default_device(before)
    try:
        x = torch.ones(2, device="cpu")
        expected = f(x)
        compiled = magneto.compile(f, backend=backend)
        for _ in range(3):
            assert compiled(x)[1:] == expected[1:] == f(x)[1:]
        assert len(graphs) == len(magneto.cache_entries(compiled)) == 1
        with torch.device("cpu"):
            assert torch.zeros(2).device.type == "cpu"
    finally:
        torch.set_default_device(None)
    assert torch.zeros(2).device.type == "cpu"


@pytest.mark.parametrize("read", [True, False])
@pytest.mark.parametrize("how", ["insert", "replace"])
def test_backend_that_changes_the_filters_of_warnings(how, read):
    """They are put back only if captured code has read them: what a backend imports has filters of its own."""
    graphs = []

    def backend(module, inputs):
        graphs.append(module)
        if how == "insert":
            warnings.simplefilter("ignore", category=ImportWarning, append=True)
        else:
            warnings.filters = [*warnings.filters, ("ignore", None, ImportWarning, None, 1)]
        return module.forward

    def f(x):
        return x + 1, len(warnings.filters) if read else 0

    with warnings.catch_warnings():
        warnings.resetwarnings()
        compiled = magneto.compile(f, backend=backend)
        expected = f(torch.ones(2))[1]
        for _ in range(3):
            assert compiled(torch.ones(2))[1] == expected
        assert len(graphs) == 1
        assert len(warnings.filters) == (0 if read else 1)


def test_recursion_limit_is_no_guard_of_a_signature():
    """Inductor raises it, also when it compiles a backward graph, and for torch.compile: no reason to capture again."""

    def g(a, b):
        pass

    def f(x):
        return x + len(inspect.signature(functools.wraps(g)(lambda *args: None)).parameters)

    limit = sys.getrecursionlimit()
    compiled = magneto.compile(f, backend="eager", fullgraph=True)
    try:
        assert compiled(torch.zeros(2)).tolist() == [2, 2]
        sys.setrecursionlimit(limit + 500)
        assert compiled(torch.zeros(2)).tolist() == [2, 2]
        assert len(magneto.cache_entries(compiled)) == 1
    finally:
        sys.setrecursionlimit(limit)


def test_unwrapping_a_loop_of_wrappers():
    def a():
        pass

    def b():
        pass

    a.__wrapped__, b.__wrapped__ = b, a

    def f(x):
        try:
            inspect.unwrap(a)
        except ValueError as error:
            return x + 1, str(error)[:20]

    assert magneto.compile(f, backend="eager")(torch.zeros(1))[1] == f(torch.zeros(1))[1]


@pytest.mark.no_leak_hunt(
    "AOTAutograd and inductor keep something of each compilation, also for torch.compile"
)
@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
@pytest.mark.parametrize("requires_grad", [False, True])
def test_float64_inputs_without_dimensions(backend, requires_grad):
    """AOTAutograd makes symbols of their numbers, and would have TorchDynamo start again."""

    def f(x, y):
        return x * 2 + y.sin(), y * x

    from torch._dynamo.symbolic_convert import TensorifyState

    TensorifyState.clear()
    inputs = [torch.tensor(v, dtype=torch.float64, requires_grad=requires_grad) for v in (1.5, 2.5)]
    compiled = magneto.compile(f, backend=backend, fullgraph=True)
    for more in (0.0, 1.0):
        with torch.no_grad():
            inputs[0].add_(more)
        torch.testing.assert_close(compiled(*inputs), f(*inputs))
    assert len(magneto.cache_entries(compiled)) == 1
    assert TensorifyState.empty()
    if requires_grad:
        expected = torch.autograd.grad(sum(f(*inputs)), inputs)
        torch.testing.assert_close(torch.autograd.grad(sum(compiled(*inputs)), inputs), expected)


@pytest.mark.no_leak_hunt(
    "AOTAutograd and inductor keep something of each compilation, also for torch.compile"
)
@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_number_of_a_float64_input(backend):
    def f(x, y):
        return y * x.item() + 1

    compiled = magneto.compile(f, backend=backend, fullgraph=True)
    for value in (1.5, 2.5):
        x, y = torch.tensor(value, dtype=torch.float64), torch.ones(3)
        torch.testing.assert_close(compiled(x, y), f(x, y))


def test_backend_that_registers_classes():
    """The first use of a backend imports what registers classes with ABCs: that is no reason to compile again."""
    compilations = []

    class Mine(abc.ABC):
        pass

    def backend(module, inputs):
        compilations.append(module)
        for base in (Mine, collections.abc.Mapping, collections.abc.Sequence):
            base.register(type("Made", (), {}))
        return module.forward

    def f(x, options):
        scale = options["scale"] if isinstance(options, collections.abc.Mapping) else 1
        return x * scale if not isinstance(x, (str, collections.abc.Sequence)) else x

    def g(x, options):
        return x + isinstance(mine, Mine)

    x, mine = torch.ones(3), Mine()
    for function in (f, g):
        compilations.clear()
        compiled = magneto.compile(function, backend=backend)
        for _ in range(3):
            torch.testing.assert_close(compiled(x, {"scale": 2}), function(x, {"scale": 2}))
        assert len(compilations) == 1


RECURRENT = [
    *((cls, {**options}, kind)
      for cls in (nn.LSTM, nn.GRU, nn.RNN)
      for options in ({}, {"num_layers": 2, "bidirectional": True}, {"bias": False}, {"dtype": torch.float64})
      for kind in ("plain", "packed")),
    (nn.LSTM, {"proj_size": 2}, "plain"),
    (nn.LSTM, {}, "state"),
    (nn.LSTM, {}, "frozen"),
    (nn.LSTM, {}, "constant"),
    (nn.LSTM, {"num_layers": 2, "dropout": 1.0}, "constant"),
    (nn.LSTM, {"batch_first": True, "num_layers": 2, "dropout": 1.0}, "plain"),
]  # fmt: skip


@pytest.mark.parametrize("options", RECURRENT, ids=str)
@pytest.mark.parametrize("backend", ["eager", pytest.param("aot_eager", marks=KEPT)])
def test_gradients_of_recurrent_networks(backend, options):
    """oneDNN keeps of an LSTM what AOTAutograd can't save."""
    cls, constructor, kind = options
    torch.manual_seed(0)
    module = cls(4, 5, **constructor)
    dtype = constructor.get("dtype", torch.float32)
    x = torch.randn(3, 3, 4, dtype=dtype)
    state = torch.randn(1, 3, 5, requires_grad=True)
    for parameter in module.parameters() if kind == "frozen" else ():
        parameter.requires_grad_(False)

    def function(x):
        x = x * 2
        if kind == "packed":
            packed, hidden = module(nn.utils.rnn.pack_padded_sequence(x, [3, 2, 1]))
            return packed.data, hidden
        output, hidden = module(x, (state, state)) if kind == "state" else module(x)
        return output + 1, hidden

    def step(call):
        given = x.clone().requires_grad_(kind != "constant")
        output, hidden = call(given)
        sum(t.sum() for t in (output, *(hidden if isinstance(hidden, tuple) else (hidden,)))).backward()
        leaves = [given, state, *module.parameters()]
        grads = [leaf.grad for leaf in leaves]
        for leaf in leaves:
            leaf.grad = None
        return output, hidden, grads

    compiled = magneto.compile(function, backend=backend)
    expected = step(function)
    for _ in range(2):
        torch.testing.assert_close(step(compiled), expected)


def test_dropout_of_a_recurrent_network_without_gradients():
    module = nn.LSTM(4, 5, num_layers=2, dropout=1.0).requires_grad_(False)
    x = torch.randn(3, 2, 4)
    compiled = magneto.compile(module, backend="aot_eager")
    torch.testing.assert_close(compiled(x), module(x))


def test_recurrent_network_without_gradients_is_one_graph():
    module = nn.LSTM(4, 5).requires_grad_(False)
    x = torch.randn(3, 2, 4)
    compiled = magneto.compile(module, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(compiled(x), module(x))


@pytest.mark.no_leak_hunt(
    "AOTAutograd and inductor keep something of each compilation, also for torch.compile"
)
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("kind", [torch.nn.RNN, torch.nn.GRU, torch.nn.LSTM])
def test_dropout_between_recurrent_layers(kind, packed):
    """Torch's decompositions of such layers, which AOTAutograd uses, leave it out."""
    torch.manual_seed(0)
    module = kind(2, 3, num_layers=2, dropout=0.3)
    inputs = torch.randn(4, 5, 2)
    given = (
        torch.nn.utils.rnn.pack_padded_sequence(inputs, torch.tensor([4, 3, 3, 2, 1])) if packed else inputs
    )

    def results(function):
        torch.manual_seed(1)
        found = [function(given)[0] for _ in range(2)]
        return [one.data if packed else one for one in found]

    for found, expected in zip(
        results(magneto.compile(module, backend="aot_eager")), results(module), strict=True
    ):
        torch.testing.assert_close(found, expected)


@KEPT
def test_graph_from_the_cache_of_aot_autograd_is_not_used_for_inputs_that_share_memory() -> None:
    def f(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x.mul_(2)
        x.add_(y * 3)
        return x + 1

    for _ in range(2):  # the second time it is in the cache
        compiled = magneto.compile(f, backend="inductor")
        compiled(torch.ones(4), torch.ones(4))
        x = torch.arange(8.0)
        y = x.clone()
        assert torch.equal(compiled(x[:4], x[2:6]), f(y[:4], y[2:6]))
        assert torch.equal(x, y)


def test_graphs_whose_inputs_share_memory_leave_no_context_variables() -> None:
    def f(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x.mul_(2)
        return y.t()

    counts = []
    for _ in range(2):
        magneto.reset()  # else it is compiled once
        x = torch.ones(2, 2)
        magneto.compile(f, backend="aot_eager")(x, x[:])
        counts.append(len(contextvars.copy_context()))
    assert counts[0] == counts[1]
