"""torch_geometric: graph networks that are compiled; training and readout."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
import torch_geometric
from torch_geometric.data import Batch, Data
from torch_geometric.nn import GCN, GraphSAGE, global_mean_pool


def main(backend: str, folder: Path) -> Any:
    graphs = [Data(x=torch.randn(5, 8), edge_index=torch.randint(0, 5, (2, 12))) for _ in range(3)]
    batch = Batch.from_data_list(graphs)
    found: dict[str, Any] = {"version": torch_geometric.__version__}
    for name, net in (("GCN", GCN(8, 16, 2, 4)), ("GraphSAGE", GraphSAGE(8, 16, 2, 4))):
        compiled = torch.compile(net, backend=backend)
        optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
        losses = []
        for _ in range(3):
            optimizer.zero_grad()
            nodes = compiled(batch.x, batch.edge_index)
            loss = global_mean_pool(nodes, batch.batch, 3).square().mean()
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
        found[name] = [losses, [value for _, value in sorted(net.state_dict().items())]]
    return found
