"""Values that depend on data together with sizes that vary: one graph for all of them, as torch.compile makes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import fx

import magneto


def item(x: torch.Tensor) -> Any:
    return x * x.sum().item() + x.shape[0]


def arithmetic_of_both(x: torch.Tensor) -> Any:
    k = int((x > 0).sum().item())
    return x * k, k + x.shape[0], k * 2, x.shape[0] - k


def float_of_both(x: torch.Tensor) -> Any:
    return x * x.sum().item() ** 2 / x.shape[0]


def nonzero(x: torch.Tensor) -> Any:
    n = x.nonzero()
    return torch.zeros(n.shape[0], 2) + x.shape[0], n.shape[0] + x.shape[0]


def mask(x: torch.Tensor) -> Any:
    y = x[x[:, 0] > 0]
    return y * 2, y.shape[0], y.shape[1] + x.shape[0], y @ torch.ones(y.shape[1], x.shape[0])


def tolist(x: torch.Tensor) -> Any:
    a, b = x[:2, 0].long().tolist()
    return x + a, a + b + x.shape[0]


def sizes_of_both(x: torch.Tensor) -> Any:
    n = int((x[:, 0] > 0).sum().item())
    torch._check_is_size(n)
    return torch.zeros(n, x.shape[0]), torch.cat([x, torch.zeros(n, x.shape[1])])


def checks(x: torch.Tensor) -> Any:
    n = int((x[:, 0] > -1000).sum().item())
    torch._check(n > 1)
    torch._check(n < 100)
    return x * n, x.new_ones(x.shape[0] + n)


def halves(x: torch.Tensor) -> Any:
    k = int((x[:, 0] > 0).sum().item())
    torch._check_is_size(k)
    torch._check(k <= x.shape[0])
    return x[:k].sum(), x[k:].sum()


def unique(x: torch.Tensor) -> Any:
    u = x.long().unique()
    return u.shape[0] + x.shape[0], u + 1


def views(x: torch.Tensor) -> Any:
    y = x[x[:, 0] > 0]
    return y.view(-1), y.reshape(-1, 1), y.t()


def pads(x: torch.Tensor) -> Any:
    return F.pad(x[x[:, 0] > 0], (0, x.shape[0]))


def index(x: torch.Tensor) -> Any:
    i = int(x[:, 0].argmax().item())
    return x[i], i


def writes(x: torch.Tensor) -> Any:
    x[x > 0] = 0
    return x * x.sum().item()


def masked_select(x: torch.Tensor) -> Any:
    return torch.masked_select(x, x > 0) * x.shape[0], torch.argwhere(x > 0)


PROGRAMS = [
    item, arithmetic_of_both, float_of_both, nonzero, mask, tolist, sizes_of_both, checks, halves, unique, views,
    pads, index, writes, masked_select,
]  # fmt: skip


def input_of(size: int) -> torch.Tensor:
    return torch.randn(size, 3, generator=torch.Generator().manual_seed(size)) * 3


def compare(program: Callable[..., Any], compiled: Callable[..., Any]) -> None:
    """Raises where the results, or what is written to the input, differ from eager's."""
    for size in (4, 5, 6, 7):
        x, y = input_of(size), input_of(size)
        expected, found = program(x), compiled(y)
        torch.testing.assert_close((found, y), (expected, x), rtol=0, atol=0)


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("backend", ["eager", "aot_eager", "python"])
@pytest.mark.no_leak_hunt("AOTAutograd keeps what it has compiled")
def test_one_graph_for_all_sizes(program: Callable[..., Any], backend: str) -> None:
    def python(module: fx.GraphModule, _: Any) -> Any:
        return module.forward

    before = magneto.counters["stats"]["unique_graphs"]
    compiled = magneto.compile(program, backend=python if backend == "python" else backend, fullgraph=True)
    compare(program, compiled)
    assert magneto.counters["stats"]["unique_graphs"] - before == 2


@pytest.mark.parametrize("program", [mask, halves, sizes_of_both])
@pytest.mark.no_leak_hunt("inductor keeps what it has compiled")
def test_with_inductor(program: Callable[..., Any]) -> None:
    compiled = magneto.compile(program, backend="inductor", fullgraph=True)
    for size in (4, 5, 6):
        x, y = input_of(size), input_of(size)
        torch.testing.assert_close(compiled(y), program(x))


@pytest.mark.no_leak_hunt("AOTAutograd keeps what it has compiled")
def test_gradients() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        z = y[y[:, 0] > 0]
        return (z * z.shape[0]).sum() * x.shape[0]

    compiled = magneto.compile(program, backend="aot_eager", fullgraph=True)
    for size in (4, 5, 6, 7):
        x, y = input_of(size).requires_grad_(), input_of(size).requires_grad_()
        program(x).backward()
        compiled(y).backward()
        assert torch.equal(x.grad, y.grad)  # type: ignore[arg-type]


def test_a_check_that_does_not_hold_raises() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        n = int(x.sum().item())
        torch._check(n <= x.shape[0])
        return x * n

    compiled = magneto.compile(program, backend="eager", fullgraph=True)
    for size in (4, 5, 6):
        assert torch.equal(compiled(torch.ones(size)), torch.ones(size) * size)
    with pytest.raises(RuntimeError):
        compiled(torch.ones(6) * 2)


def test_the_value_of_an_input_is_guarded_with_a_size() -> None:
    def program(x: torch.Tensor, k: torch.Tensor) -> Any:
        n = k.item()
        torch._check_is_size(n)  # type: ignore[arg-type]
        torch._check(n <= x.shape[0])
        return x[:n].sum(), n

    compiled = magneto.compile(program, backend="eager", fullgraph=True)
    for size in (4, 5, 6, 7):
        for k in (2, 3, 4):
            x = input_of(size)
            assert compiled(x, torch.tensor(k)) == program(x, torch.tensor(k))


def test_symbols_of_sizes_and_of_data_in_one_graph() -> None:
    graphs: list[fx.GraphModule] = []

    def backend(module: fx.GraphModule, _: Any) -> Any:
        graphs.append(module)
        return module.forward

    compiled = magneto.compile(mask, backend=backend, fullgraph=True)
    for size in (4, 5):
        compiled(input_of(size))
    last = graphs[-1].graph
    first = next(iter(last.nodes))
    assert isinstance(first.meta["example_value"], torch.SymInt)
    shapes = [str(node.meta["example_value"].shape) for node in last.nodes if node.name == "y"]
    assert shapes == ["torch.Size([u0, 3])"]
