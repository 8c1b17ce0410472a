"""accelerate: an Accelerator that compiles what it prepares, whole and by regions; unwrapping and a saved state."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from accelerate.utils import (
    TorchDynamoPlugin,
    compile_regions,
    extract_model_from_parallel,
    has_compiled_regions,
    is_compiled_module,
)
from torch import nn

BACKEND = "eager"  # accelerate has a list of names


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(8)
        self.inner = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.relu(self.inner(self.norm(x)))


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([Block() for _ in range(3)])
        self.head = nn.Linear(8, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def main(backend: str, folder: Path) -> Any:
    found: dict[str, Any] = {}
    for regional in (False, True):
        accelerator = Accelerator(
            cpu=True, dynamo_plugin=TorchDynamoPlugin(backend=backend, use_regional_compilation=regional)
        )
        net = Net()
        data = torch.utils.data.TensorDataset(torch.randn(12, 8), torch.randn(12, 1))
        model, optimizer, loader = accelerator.prepare(
            net, torch.optim.SGD(net.parameters(), lr=0.1), torch.utils.data.DataLoader(data, batch_size=4)
        )
        losses = []
        for x, y in loader:
            with accelerator.accumulate(model):
                loss = nn.functional.mse_loss(model(x), y)
                accelerator.backward(loss)
                optimizer.step()
                optimizer.zero_grad()
                losses.append(accelerator.gather(loss.detach()))
        bare = accelerator.unwrap_model(model, keep_torch_compile=False)
        accelerator.save_model(model, str(folder / f"saved{regional}"))
        state = accelerator.get_state_dict(model)
        found[f"regional {regional}"] = {
            "losses": losses,
            "bare": type(bare).__name__,
            "the same": bare is net,
            "kept": type(accelerator.unwrap_model(model)).__name__,
            "has compiled regions": has_compiled_regions(model),
            "is compiled": is_compiled_module(model),
            "weights": [value for _, value in sorted(net.state_dict().items())],
            "state": sorted(name.replace("_orig_mod.", "") for name in state),
        }
    net = Net()
    regions = compile_regions(net, backend=backend)
    found["compile_regions"] = {
        "result": regions(torch.ones(2, 8)),
        "has compiled regions": has_compiled_regions(regions),
        "extracted": extract_model_from_parallel(regions, keep_torch_compile=False) is net,
        "classes": [type(block).__name__ for block in regions.blocks],
    }
    return found
