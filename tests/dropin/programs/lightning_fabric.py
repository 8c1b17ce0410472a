"""lightning's Fabric: a compiled module is set up, trained, saved and unwrapped."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lightning
import torch
from lightning.fabric.wrappers import _unwrap_compiled, is_wrapped
from torch import nn


def main(backend: str, folder: Path) -> Any:
    fabric = lightning.Fabric(accelerator="cpu", devices=1)
    net = nn.Sequential(nn.Linear(6, 12), nn.GELU(), nn.Linear(12, 2))
    compiled = torch.compile(net, backend=backend)
    bare, arguments = _unwrap_compiled(compiled)
    model, optimizer = fabric.setup(compiled, torch.optim.Adam(net.parameters(), lr=0.05))
    losses = []
    for _ in range(3):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(torch.randn(4, 6)), torch.randint(0, 2, (4,)))
        fabric.backward(loss)
        optimizer.step()
        losses.append(loss.detach())
    fabric.save(folder / "state", {"model": model, "optimizer": optimizer})
    loaded = fabric.load(folder / "state")
    return {
        "losses": losses,
        "bare": bare is net,
        "arguments": arguments,
        "wrapped": is_wrapped(model),
        "module": type(model.module).__name__,
        "names": sorted(loaded["model"]),
        "weights": [loaded["model"][name] for name in sorted(loaded["model"])],
    }
