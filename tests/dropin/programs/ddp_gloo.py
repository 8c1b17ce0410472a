"""DistributedDataParallel over gloo: two processes train a compiled module, compiled inside DDP and around it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

PROCESSES = 2


def main(backend: str, folder: Path) -> Any:
    rank = dist.get_rank()
    found: dict[str, Any] = {}
    for around in (False, True):
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 2))
        if around:
            model = torch.compile(DistributedDataParallel(net), backend=backend)
        else:
            model = DistributedDataParallel(torch.compile(net, backend=backend))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        torch.manual_seed(rank)
        losses = []
        for _ in range(3):
            optimizer.zero_grad()
            loss = model(torch.randn(4, 6)).square().mean()
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
        found[f"around {around}"] = [losses, [value for _, value in sorted(net.state_dict().items())]]
    return found
