"""Tensors that become one, or come to share a storage, after a capture: as in eager, whatever the graph does to them."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from programs.harness import _Walk
from torch import nn

import magneto

WEIGHT = torch.ones(2, 3, requires_grad=True)


def apart() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.arange(6.0).view(2, 3).clone(), torch.arange(6.0).view(2, 3).clone()


def one() -> tuple[torch.Tensor, torch.Tensor]:
    x = torch.arange(6.0).view(2, 3).clone()
    return x, x


def view() -> tuple[torch.Tensor, torch.Tensor]:
    x = torch.arange(6.0).view(2, 3).clone()
    return x, x[:]


def base() -> tuple[torch.Tensor, torch.Tensor]:
    x = torch.arange(6.0).view(2, 3).clone()
    return x[:], x


def halves() -> tuple[torch.Tensor, torch.Tensor]:
    x = torch.arange(12.0).view(4, 3).clone()
    return x[:2], x[2:]


def transposes(p, q):
    p.t_()
    return q.shape, q.stride()


def adds_a_dimension(p, q):
    p.unsqueeze_(0)
    return q.dim(), len(q)


def resizes(p, q):
    p.resize_(1, 3)
    return q.shape


def gives_history(p, q):
    p.mul_(WEIGHT)
    return q.requires_grad


def gives_history_to_a_part(p, q):
    before = q.requires_grad
    p[0].mul_(WEIGHT[0])
    return before, q.requires_grad, q.is_leaf


def gives_history_and_uses(p, q):
    p.mul_(WEIGHT)
    return q + 1, q.requires_grad


def requires_grad(p, q):
    p.requires_grad_()
    return q.requires_grad


def writes(p, q):
    p.add_(1)
    return q * 2


def writes_both(p, q):
    p.add_(1)
    q.mul_(2)
    return p + q


PROGRAMS = [
    transposes, adds_a_dimension, resizes, gives_history, gives_history_to_a_part, gives_history_and_uses,
    requires_grad, writes, writes_both,
]  # fmt: skip
KINDS = [apart, one, view, base, halves]


def plain(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.tolist(), value.shape, value.stride(), value.requires_grad, value.is_leaf
    return tuple(map(plain, value)) if isinstance(value, tuple) and type(value) is tuple else value


def outcome(function: Callable[..., Any], make: Callable[[], tuple[Any, ...]]) -> Any:
    arguments = make()
    try:
        result = function(*arguments)
    except RuntimeError as error:
        return type(error)
    return plain(result), plain(arguments)


KEEPING = pytest.mark.no_leak_hunt("AOTAutograd and inductor keep what they compiled, also for torch.compile")


@pytest.mark.parametrize("backend", ["eager", pytest.param("aot_eager", marks=KEEPING)])
@pytest.mark.parametrize("program", PROGRAMS)
def test_arguments_that_share_a_storage_or_not(program: Callable[..., Any], backend: str) -> None:
    for first, second in itertools.permutations(KINDS, 2):
        if backend != "eager" and apart not in (first, second):
            continue  # to compile takes long
        compiled = magneto.compile(program, backend=backend)
        for kind in (first, second, first, second):
            assert outcome(compiled, kind) == outcome(program, kind), (first.__name__, second.__name__)


class Pair:
    def __init__(self) -> None:
        self.p, self.q = apart()


@pytest.mark.parametrize("program", [transposes, adds_a_dimension, gives_history, gives_history_to_a_part])
def test_attributes_that_become_one(program: Callable[..., Any]) -> None:
    """Neither is an argument, and of one only the metadata is read."""

    def f(pair: Pair) -> Any:
        return program(pair.p, pair.q)

    compiled = magneto.compile(f, backend="eager")
    for kind in (apart, one, apart, view, base):
        results = []
        for function in (f, compiled):
            pair = Pair()
            pair.p, pair.q = kind()
            results.append((function(pair), plain((pair.p, pair.q))))
        assert results[0] == results[1]


class Buffers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a: torch.Tensor
        self.b: torch.Tensor
        self.register_buffer("a", torch.ones(2, 3))
        self.register_buffer("b", torch.ones(2, 3))
        self.w = nn.Parameter(torch.ones(2, 3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.a.add_(x)
        return self.b * 2 + self.w


def ties(module: Buffers) -> None:
    module.b = module.a


def ties_a_view(module: Buffers) -> None:
    module.b = module.a[:]


@pytest.mark.parametrize("backend", ["eager", "aot_eager", pytest.param("inductor", marks=KEEPING)])
@pytest.mark.parametrize("change", [ties, ties_a_view])
def test_buffers_that_come_to_share_a_storage(change: Callable[[Buffers], None], backend: str) -> None:
    plain_module, module = Buffers(), Buffers()
    compiled = magneto.compile(module, backend=backend)
    x = torch.ones(2, 3)
    for step in range(6):
        for each in (plain_module, module):
            if step == 2:
                change(each)
            if step == 4:
                each.b = torch.full((2, 3), 5.0)
        assert torch.equal(compiled(x), plain_module(x)), step
    assert len(magneto.cache_entries(compiled)) <= 2


def test_what_aotautograd_cant_do_is_an_error_and_not_silent() -> None:
    module = Buffers()
    compiled = magneto.compile(module, backend="aot_eager")
    compiled(torch.ones(2, 3))
    module.w.data = module.a.data
    with pytest.raises(magneto.exc.BackendCompilerFailed, match="share storage"):
        compiled(torch.ones(2, 3))


def test_graphs_that_only_write_data_ask_nothing_of_storages() -> None:
    compiled = magneto.compile(writes, backend="eager")
    for kind in (apart, view, base, halves):
        assert outcome(compiled, kind) == outcome(writes, kind)
    assert len(magneto.cache_entries(compiled)) == 1


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_views_of_what_comes_to_require_grad(backend: str) -> None:
    def f(p: torch.Tensor) -> Any:
        v = p[:]
        p.requires_grad_()
        return v.requires_grad, v.is_leaf

    assert magneto.compile(f, backend=backend)(torch.ones(3)) == f(torch.ones(3))


def makes_views(x):
    x.swapaxes_(0, 1)
    x[0].mul_(WEIGHT.t()[0])
    return x.sum()


def detaches(x):
    x.detach_()
    return x * 2


def adds_a_dimension_without_grad(x):
    with torch.no_grad():
        x.unsqueeze_(0)
    return x.sum()


def squeezes(x):
    x.add_(1).squeeze_()
    return x * 2, x.shape


def writes_twice(x):
    torch._foreach_add_([x, x, x[0]], 1.0)
    return x * 1


def writes_twice_to_a_tuple(x):
    torch._foreach_mul_((x, x), 2.0)
    return x * 1


INPUTS: list[Callable[[], torch.Tensor]] = [
    lambda: torch.arange(6.0).view(2, 3),
    lambda: torch.arange(18.0).view(3, 2, 3)[1],
    lambda: torch.arange(6.0).view(2, 3).requires_grad_(),
    lambda: torch.arange(6.0).view(2, 3) * WEIGHT,
    lambda: (torch.arange(6.0).view(2, 3) * WEIGHT)[:],
    lambda: torch.arange(3.0).view(1, 3),
]


def run(function: Callable[..., Any], *args: Any) -> Any:
    try:
        return function(*args)
    except Exception as error:
        return type(error), str(error)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize(
    "program",
    [makes_views, detaches, adds_a_dimension_without_grad, squeezes, writes_twice, writes_twice_to_a_tuple],
)
def test_what_aotautograd_does_not_do_to_inputs(program: Callable[..., Any], backend: str) -> None:
    compiled = magneto.compile(program, backend=backend)
    for _ in range(2):
        for make in INPUTS:
            expected, given = make(), make()
            walk, other = _Walk(""), _Walk("")
            left = walk((run(program, expected), expected))
            assert other((run(compiled, given), given)) == left


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_views_of_inputs_that_share_memory_and_are_written_to(backend: str) -> None:
    def attribute(p, q):
        with torch.no_grad():
            p.copy_(WEIGHT)
        return q.T

    def method(p, q):
        p.add_(1)
        return q.t(), q[0], p.view(-1)

    def itself(p, q):
        p.add_(1)
        return q

    for program in (attribute, method, itself):
        compiled = magneto.compile(program, backend=backend)
        for make in (apart, view, base, halves, view):
            expected, given = make(), make()
            left, right = _Walk(""), _Walk("")
            assert right((run(compiled, *given), given)) == left((run(program, *expected), expected))
