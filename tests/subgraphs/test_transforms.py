"""torch.func: what functions under transforms write to and ask for, what breaks; no level outlives anything."""

from __future__ import annotations

import gc
import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.func import functional_call, grad, hessian, jacfwd, jacrev, jvp, vjp, vmap

import magneto
from magneto import _core

pytestmark = pytest.mark.filterwarnings("ignore")

seen: list[Any] = []
buffer = torch.zeros(3)
weight = torch.ones(3, requires_grad=True)


class Counter:
    count = 0


counter = Counter()


def _append(x: torch.Tensor) -> torch.Tensor:
    seen.append(tuple(x.shape))
    return x.sin().sum()


def _append_tensor(x: torch.Tensor) -> torch.Tensor:
    seen.append(x.sum() * 0 + 1)
    return x.sin().sum()


def _count(x: torch.Tensor) -> torch.Tensor:
    counter.count += 1
    return (x * counter.count).sum()


def _write_argument(x: torch.Tensor) -> torch.Tensor:
    x.add_(1)
    return x.sum()


def _write_result(x: torch.Tensor) -> torch.Tensor:
    y = x * 1
    y.add_(1).mul_(x)
    return y.sum()


def _write_captured(x: torch.Tensor) -> torch.Tensor:
    buffer.add_(x)
    return x.sum()


def _write_captured_number(x: torch.Tensor) -> torch.Tensor:
    buffer.add_(1)
    return (x * buffer).sum()


def _requires_grad(x: torch.Tensor) -> torch.Tensor:
    return x.sum() * (2 if x.requires_grad else 3)


def _product_requires_grad(x: torch.Tensor) -> torch.Tensor:
    y = weight * 2
    return (x * y).sum() * (2 if y.requires_grad else 3)


def _raise(x: torch.Tensor) -> torch.Tensor:
    raise KeyError("x")


def _branch(x: torch.Tensor) -> torch.Tensor:
    return x.sum() * 2 if bool(x.sum() > 0) else x.sum()


def _print(x: torch.Tensor) -> torch.Tensor:
    print("here")
    return x.sum()


def _number(x: torch.Tensor) -> Any:
    return 3.0


def _not_a_scalar(x: torch.Tensor) -> torch.Tensor:
    return x * 2


def _text(x: torch.Tensor) -> Any:
    return x.sum(), "text"


def _leave_grad_mode(x: torch.Tensor) -> torch.Tensor:
    torch._C._set_grad_enabled(False)
    return x.sum()


def _backward(x: torch.Tensor) -> torch.Tensor:
    y = (x * weight).sum()
    y.backward()
    return y


FUNCTIONS = [
    _append, _append_tensor, _count, _write_argument, _write_result, _write_captured, _write_captured_number,
    _requires_grad, _product_requires_grad, _raise, _branch, _print, _number, _not_a_scalar, _text, _leave_grad_mode,
    _backward,
]  # fmt: skip

TRANSFORMS: dict[str, Callable[..., Any]] = {
    "grad": lambda f, x: grad(f)(x),
    "vjp": lambda f, x: vjp(f, x)[1](torch.ones(())),
    "jvp": lambda f, x: jvp(f, (x,), (x * 2,)),
    "jacrev": lambda f, x: jacrev(f)(x),
    "jacfwd": lambda f, x: jacfwd(f)(x),
    "vmap": lambda f, x: vmap(f)(torch.stack([x, x * 2])),
    "vmap_grad": lambda f, x: vmap(grad(f))(torch.stack([x, x * 2])),
}


def _outcome(function: Callable[..., Any]) -> Any:
    seen.clear()
    counter.count = 0
    buffer.zero_()
    weight.grad = None
    x = torch.arange(3.0)
    try:
        result = function(x)
    except Exception as error:
        result = type(error).__name__
    enabled = torch.is_grad_enabled()
    torch.set_grad_enabled(True)
    assert torch._C._functorch.peek_interpreter_stack() is None
    assert torch.autograd.forward_ad._current_level == -1
    text = str((result, x, buffer, counter.count, enabled, [str(one) for one in seen], weight.grad))
    return re.sub(r"grad_fn=<\w+>", "grad_fn", text)  # backends have functions of their own


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_as_eager(function: Callable[..., Any], transform: str) -> None:
    def f(x: torch.Tensor) -> Any:
        y = x * 1
        return TRANSFORMS[transform](function, y), y + 1

    expected = _outcome(f)
    for backend in ("eager", "aot_eager"):
        compiled = magneto.compile(f, backend=backend)
        for _ in range(2):
            assert _outcome(compiled) == expected
    gc.collect()
    assert not _core.capturing()


@pytest.mark.parametrize("function", [_append, _count, _write_result])
@pytest.mark.parametrize("transform", TRANSFORMS)
def test_effects_are_captured(function: Callable[..., Any], transform: str) -> None:
    def f(x: torch.Tensor) -> Any:
        return TRANSFORMS[transform](function, x * 2)

    expected = _outcome(f)
    compiled = magneto.compile(f, backend="eager", fullgraph=True)
    for _ in range(2):
        assert _outcome(compiled) == expected


BREAKS: dict[str, Callable[..., Any]] = {
    "print": lambda x: grad(_print)(x),
    "jacrev": lambda x: jacrev(_print)(x),
    "hessian": lambda x: hessian(_print)(x),
    "vmap_grad": lambda x: vmap(grad(_print))(torch.stack([x, x])),
    "autograd_grad": lambda x: torch.autograd.grad((x * weight).sum(), weight)[0],
    "jacobian": lambda x: torch.autograd.functional.jacobian(torch.sin, x),
    "autograd_hessian": lambda x: torch.autograd.functional.hessian(lambda a: a.exp().sum(), x),
    "hvp": lambda x: torch.autograd.functional.hvp(lambda a: a.exp().sum(), x, x)[1],
}


@pytest.mark.parametrize("name", BREAKS)
def test_one_break(name: str) -> None:
    def f(x: torch.Tensor) -> Any:
        y = x.exp() * 2
        return BREAKS[name](y) + y

    expected = f(torch.ones(3))
    magneto.counters.clear()
    torch.testing.assert_close(magneto.compile(f, backend="eager")(torch.ones(3)), expected)
    assert sum(magneto.counters["graph_break"].values()) == 1


def test_a_function_given_to_autograd_functional_is_captured() -> None:
    def g(a: torch.Tensor) -> torch.Tensor:
        return (a.exp() * a).sum()

    def f(x: torch.Tensor) -> Any:
        return torch.autograd.functional.hessian(g, x)

    magneto.counters.clear()
    torch.testing.assert_close(magneto.compile(f, backend="eager")(torch.ones(3)), f(torch.ones(3)))
    assert magneto.counters["stats"]["unique_graphs"] == 1


def test_a_pullback_that_is_returned() -> None:
    def f(x: torch.Tensor) -> Any:
        y, pull = vjp(torch.sin, x * 2)
        return y + 1, pull

    compiled = magneto.compile(f, backend="eager")
    x = torch.rand(3)
    for _ in range(2):
        torch.testing.assert_close(compiled(x)[1](x), f(x)[1](x))


def test_a_pullback_over_a_break() -> None:
    def f(x: torch.Tensor) -> Any:
        y, pull = vjp(torch.sin, x * 2)
        magneto.graph_break()
        return pull(y)[0] + 1

    x = torch.rand(3)
    torch.testing.assert_close(magneto.compile(f, backend="eager")(x), f(x))


def test_sizes_that_vary() -> None:
    def f(x: torch.Tensor) -> Any:
        loss = lambda a: (a.sin() * a.shape[0]).sum()  # noqa: E731
        return grad(loss)(x), vmap(grad(loss))(x.unsqueeze(1)), jacrev(torch.sin)(x), jvp(loss, (x,), (x,))

    for backend in ("eager", "aot_eager"):
        compiled = magneto.compile(f, backend=backend, dynamic=True)
        for size in (3, 4, 7):
            x = torch.rand(size)
            torch.testing.assert_close(compiled(x), f(x))


def test_parameters_are_as_before() -> None:
    """functional_call puts tensors into a module and takes them out again."""
    layer = torch.nn.Linear(3, 2)
    before = dict(layer.named_parameters())

    def f(x: torch.Tensor) -> Any:
        params = {name: one * 2 for name, one in layer.named_parameters()}
        return grad(lambda p: functional_call(layer, p, (x,)).sum())(params)

    compiled = magneto.compile(f, backend="eager", fullgraph=True)
    for _ in range(2):
        torch.testing.assert_close(compiled(torch.ones(3)), f(torch.ones(3)))
        after = dict(layer.named_parameters())
        assert list(after) == list(before)
        assert all(after[name] is before[name] for name in before)


def test_a_module_with_buffers_in_training() -> None:
    """Batch norms write to their buffers."""
    net = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.BatchNorm1d(3))
    other = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.BatchNorm1d(3))
    other.load_state_dict(net.state_dict())

    def make(net: torch.nn.Module) -> Callable[..., Any]:
        def f(x: torch.Tensor) -> Any:
            params = {name: one.detach() for name, one in net.named_parameters()}
            buffers = {name: one.clone() for name, one in net.named_buffers()}
            loss = lambda p, b: functional_call(net, (p, b), (x,)).pow(2).sum()  # noqa: E731
            return grad(loss)(params, buffers), buffers

        return f

    x = torch.rand(4, 3)
    torch.testing.assert_close(magneto.compile(make(net), backend="eager")(x), make(other)(x))


def test_gradients_of_two_calls_share_nothing() -> None:
    def f(x: torch.Tensor) -> Any:
        return grad(lambda a: (a**3).sum())(x)

    compiled = magneto.compile(f, backend="eager", fullgraph=True)
    x = torch.rand(3, requires_grad=True)
    first, second = compiled(x), compiled(x)
    first.sum().backward()
    second.sum().backward()
    torch.testing.assert_close(x.grad, 12 * x.detach())


@pytest.mark.parametrize("inner", [grad, jacrev, jacfwd])
def test_faults_at_every_instruction(inner: Callable[..., Any]) -> None:
    def f(x: torch.Tensor) -> Any:
        return vmap(inner(lambda a: (a.sin() * x[0]).sum()))(x) + 1

    x = torch.ones(2, 3)
    expected = f(x)
    try:
        for step in range(1, 600, 23):
            _core.inject_fault(step)
            torch.testing.assert_close(magneto.compile(f, backend="eager")(x), expected)
            assert torch._C._functorch.peek_interpreter_stack() is None
    finally:
        _core.inject_fault(0)


def _inverse(x: torch.Tensor) -> torch.Tensor:
    return torch.linalg.inv(x).sum()


TRANSFORMED: dict[str, Callable[[torch.Tensor], Any]] = {
    "vmap": lambda x: vmap(torch.linalg.inv)(x[None]),
    "grad": lambda x: grad(_inverse)(x),
    "vjp": lambda x: vjp(_inverse, x)[0],
    "jvp": lambda x: jvp(_inverse, (x,), (x,)),
    "hessian": lambda x: hessian(_inverse)(x),
}


def _levels_are_left() -> None:
    assert torch._C._functorch.peek_interpreter_stack() is None
    assert torch._C._is_fwd_grad_enabled()
    assert torch._C._autograd._saved_tensors_hooks_is_enabled()
    jvp(torch.sin, (torch.ones(2),), (torch.ones(2),))
    torch.rand(1)


@pytest.mark.parametrize("name", TRANSFORMED)
def test_a_graph_that_raises_leaves_its_levels(name: str) -> None:
    compiled = magneto.compile(TRANSFORMED[name], backend=lambda module, inputs: module.forward)
    compiled(torch.eye(2))
    with pytest.raises(torch.linalg.LinAlgError):
        compiled(torch.zeros(2, 2))
    _levels_are_left()


@pytest.mark.parametrize("name", TRANSFORMED)
def test_a_backend_that_fails_leaves_its_levels(name: str) -> None:
    def backend(module: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> Any:
        module(*[torch.zeros_like(one) for one in inputs])

    with pytest.raises(magneto.exc.BackendCompilerFailed):
        magneto.compile(TRANSFORMED[name], backend=backend)(torch.eye(2))
    _levels_are_left()


def test_negative_positions_of_jacfwd() -> None:
    def f(x: torch.Tensor) -> Any:
        return jacfwd(lambda a: a * 2, argnums=-1)(x)

    x = torch.tensor([1.0, 2.0, 3.0])
    assert torch.equal(magneto.compile(f, backend="eager")(x), f(x))
