"""The same programs with sizes that vary: one graph for several sizes, results as eager's."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch._higher_order_ops import map, scan, while_loop
from torch.utils.checkpoint import checkpoint

from . import (  # noqa: F401
    check,
    programs_checkpoint,
    programs_control,
    programs_flex,
    programs_functions,
    programs_regions,
    programs_transforms,
    programs_vmap,
)

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("name", check.parameters())
def test_with_all_sizes_as_symbols(name: str, backend: str) -> None:
    if name in check.FAILS.get(backend, ()):
        pytest.skip(check.FAILS[backend][name])
    make = check.PROGRAMS[name]
    made = check.made(make)
    expected = check.outcomes(made, made[0], 1)
    made = check.made(make)
    function = check.by_magneto(made[0], backend, dynamic=True)
    check.assert_same(check.captured(lambda: check.outcomes(made, function, 1)), expected)


weight = torch.rand(3, requires_grad=True)


def _cond(x: torch.Tensor) -> Any:
    y = x * 2

    def left(x: torch.Tensor) -> Any:
        return x * x.shape[0] + y.sum(0)

    return torch.cond(x.sum() > 0, left, lambda x: x * weight + x.shape[0] // 2, (x,))


def _nested(x: torch.Tensor) -> Any:
    n = x.size(0) * 2

    def left(x: torch.Tensor) -> Any:
        return torch.cond(x.max() > 2, lambda x: x + n, lambda x: x * n, (x,))

    return torch.cond(x.sum() > 0, left, lambda x: x - n, (x,))


def _scan(x: torch.Tensor) -> Any:
    return scan(lambda c, r: (c + r * weight, c * r), torch.zeros(3), x)


def _map(x: torch.Tensor) -> Any:
    return map(lambda r: (r * weight).sin(), x)


def _while(x: torch.Tensor) -> Any:
    return while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y + y.shape[0]), (torch.tensor(0), x))


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("function", [_cond, _nested, _scan, _map, _while])
def test_one_graph_for_all_sizes(function: Any, backend: str) -> None:
    graphs = check.Graphs()
    compiled = check.by_magneto(function, backend, dynamic=None)
    counted = check.by_magneto(function, graphs, dynamic=None)
    for size in (4, 5, 6, 7, 9):
        x = torch.rand(size, 3)
        made: check.Made = (function, [(x,), (-x,)], [weight])
        check.assert_same(check.outcomes(made, compiled, 1), check.outcomes(made, function, 1))
        counted(x)
    assert len(graphs.graphs) == 2


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_floats_that_vary(backend: str) -> None:
    def f(x: torch.Tensor, scale: float) -> Any:
        return checkpoint(lambda x: x * scale + weight, x, use_reentrant=False) + scale

    compiled = check.by_magneto(f, backend, dynamic=None)
    for scale in (1.5, 2.5, 3.5, 4.25):
        x = torch.rand(2, 3)
        made: check.Made = (f, [(x, scale)], [weight])
        check.assert_same(check.outcomes(made, compiled, 1), check.outcomes(made, f, 1))
