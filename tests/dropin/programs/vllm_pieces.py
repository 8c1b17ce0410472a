"""What vLLM does: one graph for all batch sizes, split at attention, its pieces compiled each on its own.

The model's forward is compiled whole with marks for the batch, and a filter that drops every guard; a second
compilation would be an error. The backend splits the graph at the operators that it names, runs the pieces once over
fake tensors, and compiles those between the splits; it notes the files that were traced, which are part of the key of
vLLM's cache.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import fx, nn
from torch._dynamo.backends.registry import lookup_backend
from torch.fx.passes.split_module import split_module


@torch.library.custom_op("dropin::attention", mutates_args=("out",))
def attention(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, out: torch.Tensor) -> None:
    out.copy_(nn.functional.scaled_dot_product_attention(query[None], key[None], value[None])[0])


@attention.register_fake
def _(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, out: torch.Tensor) -> None:
    return None


class Layer(nn.Module):
    def __init__(self, size: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(size)
        self.qkv = nn.Linear(size, 3 * size)
        self.out = nn.Linear(size, size)

    def forward(self, x: torch.Tensor, residual: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        residual = residual + x
        query, key, value = self.qkv(self.norm(residual)).chunk(3, dim=-1)
        result = torch.empty_like(query)
        torch.ops.dropin.attention(query, key, value, result)
        return self.out(result), residual


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(32, 16)
        self.layers = nn.ModuleList([Layer(16) for _ in range(3)])

    def forward(self, ids: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        x = self.embed(ids) + positions[:, None] * 0.01
        residual = torch.zeros_like(x)
        for layer in self.layers:
            x, residual = layer(x, residual)
        return x + residual


class Pieces(fx.Interpreter):
    """Compiles each piece when its inputs are known."""

    def __init__(self, module: fx.GraphModule, names: set[str], backend: Any) -> None:
        super().__init__(module)
        self.names = names
        self.backend = backend

    def call_module(self, target: Any, args: Any, kwargs: Any) -> Any:
        result = super().call_module(target, args, kwargs)
        if target in self.names:
            piece = self.fetch_attr(target)
            self.module.__dict__[target] = self.backend(piece, list(args))
        return result


class Backend:
    """Splits the graph at attention."""

    def __init__(self, name: str) -> None:
        self.inner = lookup_backend(name)
        self.calls = 0
        self.pieces: list[str] = []
        self.files: set[str] = set()

    def __call__(self, module: fx.GraphModule, inputs: list[Any]) -> Any:
        self.calls += 1
        for code in torch._dynamo.utils.get_traced_code() or ():
            self.files.add(Path(code.co_filename).name)
        number, where = 0, {}
        splits = set()
        for node in module.graph.nodes:
            if node.op in ("placeholder", "output"):
                continue
            if node.op == "call_function" and str(node.target).startswith("dropin.attention"):
                number += 1
                splits.add(number)
                where[node] = number
                number += 1
            else:
                where[node] = number
        parts = split_module(module, None, lambda node: where[node], keep_original_order=True)
        names = [name for name, _ in parts.named_children()]
        self.pieces += names
        compiled = {name for name in names if int(name.rsplit("_", 1)[1]) not in splits}
        mode = torch._guards.detect_fake_mode(inputs) or torch._subclasses.FakeTensorMode()
        fakes = [
            mode.from_tensor(one) if type(one) in (torch.Tensor, nn.Parameter) else one for one in inputs
        ]
        with mode:
            Pieces(parts, compiled, self.inner).run(*fakes)
        return parts.forward


def main(backend: str, folder: Path) -> Any:
    model = Model().eval()
    splitter = Backend(backend)
    forward = torch.compile(
        model.forward,
        fullgraph=True,
        dynamic=False,
        backend=splitter,
        options={"guard_filter_fn": lambda guards: [False for _ in guards]},
    )
    ids, positions = torch.randint(0, 32, (8,)), torch.arange(8).float()
    torch._dynamo.mark_dynamic(ids, 0)
    torch._dynamo.mark_dynamic(positions, 0)
    with torch.no_grad():
        first = forward(ids, positions)
        with torch.compiler.set_stance("fail_on_recompile"):
            again = forward(ids.flip(0), positions + 1)
    return {
        "first": first,
        "again": again,
        "for the backend": [splitter.calls, splitter.pieces, "vllm_pieces.py" in splitter.files],
    }
