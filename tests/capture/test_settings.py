"""Settings of torch's that captured code changes for a while: put back whatever happens, and recorded as by torch.compile."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.nn.attention import SDPBackend, _cur_sdpa_kernel_backends, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

import magneto


class Graphs:
    """A backend that notes the targets of each graph."""

    def __init__(self) -> None:
        self.targets: list[list[Any]] = []

    def __call__(self, module: torch.fx.GraphModule, _inputs: Any) -> Any:
        self.targets.append([node.target for node in module.graph.nodes if node.op.startswith("call")])
        return module.forward


def attend(x: torch.Tensor, kernel: SDPBackend, stop: bool) -> torch.Tensor:
    with sdpa_kernel(kernel):
        y = scaled_dot_product_attention(x, x, x)
        if stop:
            torch._dynamo.graph_break()
        return y + 1


@pytest.mark.no_leak_hunt("torch.compile keeps what it compiled")
def test_nodes_of_sdpa_kernel() -> None:
    x = torch.randn(1, 2, 4, 8)
    ours, theirs = Graphs(), Graphs()
    expected = attend(x, SDPBackend.MATH, False)
    assert torch.allclose(magneto.compile(attend, backend=ours)(x, SDPBackend.MATH, False), expected)
    torch._dynamo.reset()
    torch.compile(attend, backend=theirs)(x, SDPBackend.MATH, False)
    torch._dynamo.reset()
    assert ours.targets == theirs.targets


@pytest.mark.parametrize("make", [lambda: "eager", Graphs], ids=["eager", "graph"])
def test_sdpa_kernel_around_a_break(make: Any) -> None:
    x = torch.randn(1, 2, 4, 8)
    before = _cur_sdpa_kernel_backends()
    compiled = magneto.compile(attend, backend=make())
    for _ in range(3):
        assert torch.allclose(compiled(x, SDPBackend.MATH, True), attend(x, SDPBackend.MATH, True))
        assert _cur_sdpa_kernel_backends() == before


def test_a_graph_that_fails_leaves_the_kernels_as_they_were() -> None:
    before = _cur_sdpa_kernel_backends()

    def look_up(x: torch.Tensor, indices: torch.Tensor) -> torch.Tensor:
        with sdpa_kernel(SDPBackend.MATH):
            return x[indices] + 1

    x = torch.arange(4.0)
    for backend in ("eager", Graphs()):
        compiled = magneto.compile(look_up, backend=backend)
        assert torch.equal(compiled(x, torch.tensor([1, 2])), torch.tensor([2.0, 3.0]))
        for _ in range(2):
            with pytest.raises(IndexError):
                compiled(x, torch.tensor([1, 9]))
            assert _cur_sdpa_kernel_backends() == before
