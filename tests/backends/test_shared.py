"""One compilation for equal graphs: what is shared, what must not be, and what it keeps alive."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import nn

import magneto
from magneto import _shared


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    magneto.reset()
    yield
    magneto.reset()


_kept_by_torch = pytest.mark.no_leak_hunt("torch.fx keeps the source of each graph that AOTAutograd makes")


class Counted:
    """A backend that counts its graphs, and runs them as they are."""

    def __init__(self, shares: bool | None = None) -> None:
        self.graphs = 0
        if shares is not None:
            self.magneto_shares = shares

    def __call__(self, module: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        self.graphs += 1
        return module.forward


class Block(nn.Module):
    def __init__(self, size: int = 4) -> None:
        super().__init__()
        self.linear = nn.Linear(size, size)
        self.register_buffer("shift", torch.randn(size))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.relu(self.linear(x)) * self.shift


def test_equal_layers_are_compiled_once() -> None:
    backend = Counted()
    layers = [Block() for _ in range(12)]
    x = torch.randn(3, 4)
    compiled = [magneto.compile(layer, backend=backend) for layer in layers]
    for layer, one in zip(layers, compiled, strict=True):
        assert torch.equal(one(x), layer(x))
    assert backend.graphs == 1


def test_equal_layers_compile_once_each_in_a_model() -> None:
    backend = Counted()

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList([Block() for _ in range(4)])
            self.head = nn.Linear(4, 1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for layer in self.layers:
                x = layer(x)
            return self.head(x)

    plain, net = Net(), Net()
    net.load_state_dict(plain.state_dict())
    for index, layer in enumerate(net.layers):
        net.layers[index] = magneto.compile(layer, backend=backend)
    x = torch.randn(3, 4, requires_grad=True)
    found, expected = net(x * 2), plain(x * 2)  # no leaf, as it is for the other layers
    assert torch.equal(found, expected)
    found.sum().backward()
    expected.sum().backward()
    for one, other in zip(net.parameters(), plain.parameters(), strict=True):
        assert torch.equal(one.grad, other.grad)
    assert backend.graphs == 1


@_kept_by_torch
@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_gradients_of_shared_code_go_to_their_own_layer(backend: str) -> None:
    layers = [Block() for _ in range(3)]
    x = torch.randn(3, 4)
    for layer in layers:
        magneto.compile(layer, backend=backend)(x).sum().backward()
    shared = len(_shared._kept)
    for layer in layers:
        found = [parameter.grad for parameter in layer.parameters()]
        expected = torch.autograd.grad(layer(x).sum(), list(layer.parameters()))
        for one, other in zip(found, expected, strict=True):
            torch.testing.assert_close(one, other)
    assert shared == 1


def test_a_backend_of_the_users_sees_the_graph_of_another_function() -> None:
    backend = Counted()
    first = magneto.compile(lambda x: x.sin() + 1, backend=backend)
    second = magneto.compile(lambda x: x.sin() + 1, backend=backend)
    first(torch.ones(3))
    second(torch.ones(3))
    assert backend.graphs == 2


def test_a_backend_may_say_that_the_graph_alone_counts() -> None:
    backend = Counted(shares=True)
    first = magneto.compile(lambda x: x.sin() + 1, backend=backend)
    second = magneto.compile(lambda y: y.sin() + 1, backend=backend)
    assert torch.equal(first(torch.ones(3)), second(torch.ones(3)))
    assert backend.graphs == 1


def test_a_backend_may_say_that_nothing_is_shared() -> None:
    backend = Counted(shares=False)
    for _ in range(3):
        magneto.compile(Block(), backend=backend)(torch.ones(3, 4))
    assert backend.graphs == 3


def test_backends_do_not_share_with_each_other() -> None:
    first, second = Counted(), Counted()
    magneto.compile(Block(), backend=first)(torch.ones(3, 4))
    kept = magneto.compile(Block(), backend=second)
    kept(torch.ones(3, 4))
    assert (first.graphs, second.graphs) == (1, 1)


def test_a_recapture_of_one_callable_is_shown_to_a_backend_of_the_users() -> None:
    backend = Counted()

    def f(x: torch.Tensor, name: str) -> torch.Tensor:
        return x + len(name)

    compiled = magneto.compile(f, backend=backend)
    compiled(torch.ones(3), "a")
    compiled(torch.ones(3), "b")
    assert backend.graphs == 2
    other = magneto.compile(f, backend=backend)  # has what the first has had made, and no more
    other(torch.ones(3), "c")
    other(torch.ones(3), "d")
    assert backend.graphs == 2
    other(torch.ones(3), "e")
    assert backend.graphs == 3


def test_graphs_are_counted_as_torch_compile_counts_them() -> None:
    for backend in ("eager", Counted()):
        magneto.counters.clear()
        layers = [magneto.compile(Block(), backend=backend) for _ in range(3)]
        for layer in layers:
            layer(torch.ones(3, 4))
        assert magneto.counters["stats"]["unique_graphs"] == 1


def test_the_recompile_limit_is_that_of_each_callable() -> None:
    def f(x: torch.Tensor, n: int) -> torch.Tensor:
        return x + 0 * n

    backend = Counted(shares=True)
    for _ in range(2):
        compiled = magneto.compile(f, backend=backend, recompile_limit=2, dynamic=False)
        for n in range(5):
            compiled(torch.ones(3), n)
        assert len(magneto.cache_entries(compiled)) == 2


# ---- what makes graphs differ ----

_x = torch.randn(4, 4)
DIFFERENT: dict[str, tuple[Callable[..., Any], tuple[Any, ...], Callable[..., Any], tuple[Any, ...]]] = {
    "operation": (lambda x: x.sin(), (_x,), lambda x: x.cos(), (_x,)),
    "constant": (lambda x: x + 1, (_x,), lambda x: x + 2, (_x,)),
    "type of a constant": (lambda x: x + 1, (_x,), lambda x: x + 1.0, (_x,)),
    "sign of zero": (lambda x: x * 0.0, (_x,), lambda x: x * -0.0, (_x,)),
    "keyword": (lambda x: x.sum(dim=0), (_x,), lambda x: x.sum(dim=1), (_x,)),
    "container": (lambda x: torch.cat([x, x]), (_x,), lambda x: torch.cat((x, x)), (_x,)),
    "which operand": (lambda x: x - x.sin(), (_x,), lambda x: x.sin() - x, (_x,)),
    "order of outputs": (lambda x: (x + 1, x + 2), (_x,), lambda x: (x + 2, x + 1), (_x,)),
    "which outputs": (lambda x: (x.sin(), x.sin().cos()), (_x,), lambda x: (x.sin().cos(),), (_x,)),
    "dtype": (lambda x: x + 1, (_x,), lambda x: x + 1, (_x.double(),)),
    "size": (lambda x: x + 1, (_x,), lambda x: x + 1, (_x[:2],)),
    "strides": (lambda x: x + 1, (_x,), lambda x: x + 1, (_x.t(),)),
    "gradients": (lambda x: x + 1, (_x,), lambda x: x + 1, (_x.clone().requires_grad_(),)),
    "parameter": (lambda x: x + 1, (_x.clone().requires_grad_(),), lambda x: x + 1, (nn.Parameter(_x.clone()),)),
    "one tensor": (lambda x, y: x + y, (_x, _x), lambda x, y: x + y, (_x, _x.clone())),
    "one storage": (lambda x, y: x + y, (_x[:2], _x[2:]), lambda x, y: x + y, (_x[:2], _x[2:].clone())),
    "device argument": (
        lambda x: torch.ones(2, device="cpu") + x[0, 0], (_x,),
        lambda x: torch.ones(2, device="meta", dtype=x.dtype), (_x,),
    ),
    "dtype argument": (lambda x: x.to(torch.float64), (_x,), lambda x: x.to(torch.float16), (_x,)),
    "slice": (lambda x: x[1:3], (_x,), lambda x: x[1:4], (_x,)),
    "method or function": (lambda x: x.add(1), (_x,), lambda x: torch.add(x, 1), (_x,)),
}  # fmt: skip


@pytest.mark.parametrize("name", DIFFERENT)
def test_what_differs_is_not_shared(name: str) -> None:
    first, args, second, others = DIFFERENT[name]
    backend = Counted(shares=True)
    kept = []
    for function, given in ((first, args), (second, others), (first, args), (second, others)):
        compiled = magneto.compile(function, backend=backend, dynamic=False)
        torch.testing.assert_close(compiled(*given), function(*given))
        kept.append(compiled)
    assert backend.graphs == 2


def _with(context: Any) -> int:
    """How many graphs there are if a function is captured once without, and once with a context."""
    backend = Counted(shares=True)

    def f(x: torch.Tensor) -> torch.Tensor:
        return x @ x

    first, second = magneto.compile(f, backend=backend), magneto.compile(f, backend=backend)
    first(_x)
    with context:
        second(_x)
    return backend.graphs


def test_state_of_torch_is_part_of_a_graph() -> None:
    assert _with(torch.enable_grad()) == 1
    assert _with(torch.no_grad()) == 2
    assert _with(torch.inference_mode()) == 2
    assert _with(torch.autocast("cpu")) == 2


def test_settings_that_backends_read_are_part_of_a_graph() -> None:
    from torch._inductor import config as inductor
    from torch.nn.attention import SDPBackend, sdpa_kernel

    assert _with(inductor.patch(max_autotune=not inductor.max_autotune)) == 2
    assert _with(sdpa_kernel(SDPBackend.MATH)) == 2
    threads = torch.get_num_threads()
    try:
        backend = Counted(shares=True)
        kept = []
        for count in (1, 2, 1):
            torch.set_num_threads(count)
            kept.append(magneto.compile(lambda x: x + 1, backend=backend))
            kept[-1](_x)
        assert backend.graphs == 2
    finally:
        torch.set_num_threads(threads)


def test_settings_that_hold_functions_end_sharing() -> None:
    from torch._inductor import config as inductor

    backend = Counted(shares=True)
    kept = []
    for _ in range(2):
        with inductor.patch(post_grad_custom_post_pass=lambda graph: None):
            kept.append(magneto.compile(lambda x: x + 1, backend=backend))
            kept[-1](_x)
    assert backend.graphs == 2


def test_tensors_that_a_graph_holds_are_not_shared() -> None:
    backend = Counted()
    with magneto.config.patch(prepare_freezing=True):
        layers = [magneto.compile(Block(), backend=backend) for _ in range(2)]
        found = [layer(torch.ones(3, 4)) for layer in layers]
    assert not torch.equal(*found)
    assert backend.graphs == 2


def test_marked_addresses_are_not_shared() -> None:
    backend = Counted()
    layers = [Block() for _ in range(2)]
    for layer in layers:
        torch._dynamo.mark_static_address(layer.shift, guard=True)
        compiled = magneto.compile(layer, backend=backend)
        assert torch.equal(compiled(torch.ones(3, 4)), layer(torch.ones(3, 4)))
    assert backend.graphs == 2


def test_functions_of_the_users_in_a_graph_are_told_apart() -> None:
    backend = Counted(shares=True)

    def make(number: int) -> Callable[..., Any]:
        @torch.compiler.allow_in_graph
        def inner(x: torch.Tensor) -> torch.Tensor:
            return x + number

        return lambda x: inner(x) * 2

    for number in (1, 2):
        assert magneto.compile(make(number), backend=backend)(torch.zeros(2))[0] == 2 * number


# ---- what backends ask of inputs and sizes ----


@_kept_by_torch
def test_shared_code_that_writes_asks_each_entry_that_inputs_are_apart() -> None:
    def f(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x.add_(1)
        return y * 2

    for compiled in [magneto.compile(f, backend="aot_eager") for _ in range(2)]:
        a, b = torch.zeros(3), torch.ones(3)
        assert torch.equal(compiled(a, b), 2 * b) and torch.equal(a, torch.ones(3))
        a = torch.zeros(3)
        assert torch.equal(compiled(a, a[:]), torch.full((3,), 2.0))  # y is another view of x


@_kept_by_torch
def test_views_of_one_storage_share_code_for_the_same_places() -> None:
    def f(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x.add_(1)
        return y * 2

    for low in (0, 1, 0, 1):
        compiled = magneto.compile(f, backend="aot_eager")
        base, plain = torch.zeros(4), torch.zeros(4)
        assert torch.equal(compiled(base[low:3], base[1:]), f(plain[low:3], plain[1:]))
        assert torch.equal(base, plain)


def test_sizes_that_vary_are_shared() -> None:
    backend = Counted()
    layers = [Block() for _ in range(4)]
    compiled = [magneto.compile(layer, backend=backend) for layer in layers]
    for size in (3, 5, 7):
        x = torch.randn(size, 4)
        for layer, one in zip(layers, compiled, strict=True):
            assert torch.equal(one(x), layer(x))
    assert backend.graphs == 2


def test_sizes_of_other_calls_share_what_was_made_for_all() -> None:
    backend = Counted()
    layers = [Block() for _ in range(4)]
    compiled = [magneto.compile(layer, backend=backend, dynamic=True) for layer in layers]
    for size, layer, one in zip((3, 5, 7, 9), layers, compiled, strict=True):
        for rows in (size, size + 1):
            x = torch.randn(rows, 4)
            assert torch.equal(one(x), layer(x))
    assert backend.graphs == 1


def test_what_a_backend_decides_on_sizes_is_asked_of_each_entry() -> None:
    graphs = []

    def backend(module: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        size = next(value for value in inputs if isinstance(value, torch.SymInt))
        graphs.append(bool(size < 6))
        return module.forward

    def f(x: torch.Tensor) -> torch.Tensor:
        return x.reshape(-1) * x.shape[0]

    first = magneto.compile(f, backend=backend, dynamic=True)
    assert torch.equal(first(torch.ones(4, 2)), f(torch.ones(4, 2)))
    second = magneto.compile(f, backend=backend, dynamic=True)
    assert torch.equal(second(torch.ones(5, 2)), f(torch.ones(5, 2)))
    assert graphs == [True]
    assert torch.equal(second(torch.ones(7, 2)), f(torch.ones(7, 2)))  # the guard is its own too
    assert graphs == [True, False]
    third = magneto.compile(f, backend=backend, dynamic=True)
    assert torch.equal(third(torch.ones(8, 2)), f(torch.ones(8, 2)))
    assert graphs in ([True, False], [True, False, False])


@_kept_by_torch
def test_random_numbers_of_shared_code_are_those_of_eager() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.dropout(x, 0.5) + torch.rand_like(x)

    for compiled in [magneto.compile(f, backend="aot_eager") for _ in range(3)]:
        torch.manual_seed(3)
        expected = [f(torch.ones(8)) for _ in range(2)]
        torch.manual_seed(3)
        for one in expected:
            assert torch.equal(compiled(torch.ones(8)), one)


def test_graphs_at_breaks_are_shared() -> None:
    backend = Counted()

    class Broken(Block):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = super().forward(x)
            magneto.graph_break()
            return super().forward(x) + 1

    layers = [Broken() for _ in range(3)]
    compiled = [magneto.compile(layer, backend=backend) for layer in layers]
    for layer, one in zip(layers, compiled, strict=True):
        x = torch.randn(3, 4)
        assert torch.equal(one(x), layer(x))
    assert backend.graphs == 2


# ---- lifetime ----


def test_what_was_made_dies_with_the_last_that_uses_it() -> None:
    made: list[weakref.ref[Any]] = []

    def backend(module: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        def run(*inputs: Any) -> Any:
            return module(*inputs)

        made.append(weakref.ref(run))
        return run

    first, second = (magneto.compile(Block(), backend=backend) for _ in range(2))
    first(torch.ones(3, 4))
    second(torch.ones(3, 4))
    assert len(made) == 1
    del first
    gc.collect()
    assert made[0]() is not None
    second(torch.ones(3, 4))
    del second
    gc.collect()
    assert made[0]() is None


@_kept_by_torch
@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_no_model_nor_argument_is_kept_alive(backend: str) -> None:
    layer, x = Block(), torch.ones(3, 4)
    compiled = magneto.compile(layer, backend=backend)
    compiled(x).sum().backward()
    held = [weakref.ref(layer), weakref.ref(layer.linear.weight), weakref.ref(layer.shift), weakref.ref(x)]
    del layer, compiled, x
    gc.collect()
    assert [one() for one in held] == [None] * 4
    again = magneto.compile(Block(), backend=backend)
    again(torch.ones(3, 4)).sum().backward()
    assert len(_shared._kept) == 1


def test_the_table_is_bounded() -> None:
    backend = Counted(shares=True)
    for number in range(_shared.MOST + 5):
        magneto.compile(lambda x, number=number: x + number, backend=backend)(torch.ones(1))
        gc.collect()
    assert len(_shared._kept) <= _shared.MOST
    assert len(_shared._by_graph) <= _shared.MOST


def test_what_a_backend_made_goes_with_the_backend() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return x.sin() + 1

    backend = Counted(True)
    for _ in range(2):
        magneto.compile(f, backend=backend)(torch.ones(3))
        gc.collect()
    assert backend.graphs == 1
    assert len(_shared._kept) == 1
    del backend
    gc.collect()
    assert not _shared._kept
    assert not _shared._by_graph


@pytest.mark.parametrize("backend", ("eager", Counted()))
def test_rows_of_code_that_is_gone_are_dropped(backend: Any) -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return x + 1

    code = f.__code__
    magneto.compile(f, backend=backend)(torch.ones(1))
    for _ in range(4):  # code objects that equal the first
        f.__code__ = code.replace()
        magneto.compile(f, backend=backend)(torch.ones(1))
        gc.collect()
    rows: list[Any] = _shared._replayed[code] if backend == "eager" else _shared._by_code[code]
    assert rows and sum(row.code() is None for row in rows) <= 1


def test_reset_forgets_what_was_made() -> None:
    backend = Counted()
    layers = [magneto.compile(Block(), backend=backend) for _ in range(2)]
    layers[0](torch.ones(3, 4))
    magneto.reset()
    layers[1](torch.ones(3, 4))
    assert backend.graphs == 2


def test_a_backend_that_failed_is_asked_again() -> None:
    calls = []

    def backend(module: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        calls.append(module)
        if len(calls) == 1:
            raise ValueError("not now")
        return module.forward

    layers = [magneto.compile(Block(), backend=backend) for _ in range(3)]
    with pytest.raises(magneto.exc.BackendCompilerFailed):
        layers[0](torch.ones(3, 4))
    for layer in layers:
        layer(torch.ones(3, 4))
    assert len(calls) == 2


def test_threads_share_and_get_their_own_results() -> None:
    backend = Counted()
    layers = [Block() for _ in range(8)]
    compiled = [magneto.compile(layer, backend=backend) for layer in layers]
    x = torch.randn(3, 4)
    wrong: list[Any] = []

    def work(index: int) -> None:
        for _ in range(20):
            if not torch.equal(compiled[index](x), layers[index](x)):
                wrong.append(index)

    threads = [threading.Thread(target=work, args=(index,)) for index in range(len(layers))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert 1 <= backend.graphs <= len(layers)


def test_what_a_backend_decides_on_a_size_holds_for_whoever_shares_it() -> None:
    def program(x: torch.Tensor, k: int) -> torch.Tensor:
        return x[:k].sum()

    x = torch.arange(1.0, 5.0)
    compiled = magneto.compile(program, backend="aot_eager")
    for k in (3, 0, 4, 1, 2):  # for 0 AOTAutograd decides that the size is 0
        assert torch.equal(compiled(x, k), program(x, k))
