"""What SGLang does: a module's forward is replaced by one that compiles on its first call inside a context.

Outside of the context it is plain. The backend compiles each piece between the operators that it splits at; layers that
have a kernel of their own have their forward swapped before the compilation, and put back behind it. The limits of
torch._dynamo.config are raised first.
"""

from __future__ import annotations

import contextlib
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import fx, nn
from torch._dynamo.backends.registry import lookup_backend
from torch.fx.passes.split_module import split_module

_inside = False


@contextlib.contextmanager
def captured() -> Iterator[None]:
    global _inside
    _inside, before = True, _inside
    try:
        yield
    finally:
        _inside = before


@torch.library.custom_op("dropin::reduce", mutates_args=())
def reduce(x: torch.Tensor) -> torch.Tensor:
    return x * 2


@reduce.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)


class Activation(nn.Module):
    def forward_native(self, x: torch.Tensor) -> torch.Tensor:
        gate, value = x.chunk(2, dim=-1)
        return nn.functional.silu(gate) * value

    def forward_kernel(self, x: torch.Tensor) -> torch.Tensor:
        half = x.shape[-1] // 2
        return nn.functional.silu(x[..., :half]) * x[..., half:]

    def __init__(self) -> None:
        super().__init__()
        self._forward = self.forward_kernel

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self._forward(x)


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(16, 64)
        self.act = Activation()
        self.down = nn.Linear(32, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.ops.dropin.reduce(self.down(self.act(self.up(x))))


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([Layer() for _ in range(2)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        return x


class Backend:
    def __init__(self, name: str) -> None:
        self.inner = lookup_backend(name)
        self.pieces: list[list[str]] = []

    def __call__(self, module: fx.GraphModule, inputs: list[Any]) -> Any:
        where, number = {}, 0
        for node in module.graph.nodes:
            at = node.op == "call_function" and str(node.target).startswith("dropin.reduce")
            number += at
            where[node] = number
            number += at
        parts = split_module(module, None, lambda node: where[node], keep_original_order=True)
        for name, piece in list(parts.named_children()):
            examples = [node.meta["example_value"] for node in piece.graph.nodes if node.op == "placeholder"]
            self.pieces.append([name, str(sum(node.op.startswith("call") for node in piece.graph.nodes))])
            parts.__dict__[name] = self.inner(piece, examples)
        return parts.forward


def install(module: nn.Module, backend: Backend) -> None:
    unbound = type(module).forward
    state: dict[str, Any] = {"compiled": None}

    def forward(self: nn.Module, *args: Any) -> Any:
        if not _inside:
            return unbound(self, *args)
        if state["compiled"] is None:
            for one in args:
                torch._dynamo.mark_dynamic(one, 0)
            bound = types.MethodType(unbound, self)
            state["compiled"] = torch.compile(bound, fullgraph=True, dynamic=False, backend=backend)
        return state["compiled"](*args)

    module.forward = types.MethodType(forward, module)  # type: ignore[method-assign]


@contextlib.contextmanager
def native(model: nn.Module) -> Iterator[None]:
    layers = [module for module in model.modules() if isinstance(module, Activation)]
    for layer in layers:
        layer._forward = layer.forward_native
    try:
        yield
    finally:
        for layer in layers:
            layer._forward = layer.forward_kernel


def main(backend: str, folder: Path) -> Any:
    limits = {"recompile_limit": 1024, "accumulated_recompile_limit": 1024}
    model = Model().eval()
    pieces = Backend(backend)
    install(model, pieces)
    x = torch.randn(4, 16)
    with torch._dynamo.config.patch(limits), torch.no_grad():
        plain = model(x)
        with native(model), captured():
            compiled = [model(x), model(x + 1)]
        after = model(x)
    return {"plain": plain, "compiled": compiled, "after": after, "for the backend": pieces.pieces}
