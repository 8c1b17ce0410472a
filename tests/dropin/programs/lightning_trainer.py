"""lightning's Trainer with a compiled LightningModule."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lightning
import torch
from lightning.pytorch.utilities.compile import from_compiled, to_uncompiled
from torch import nn


class Net(lightning.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(6, 12), nn.Tanh(), nn.Linear(12, 1))
        self.losses: list[torch.Tensor] = []

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x)

    def training_step(self, batch: Any, index: int) -> torch.Tensor:
        x, y = batch
        loss = nn.functional.mse_loss(self(x), y)
        self.log("loss", loss)
        self.losses.append(loss.detach())
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.1)


def main(backend: str, folder: Path) -> Any:
    net = Net()
    compiled = torch.compile(net, backend=backend)
    data = torch.utils.data.TensorDataset(torch.randn(12, 6), torch.randn(12, 1))
    trainer = lightning.Trainer(
        default_root_dir=folder,
        accelerator="cpu",
        devices=1,
        max_epochs=1,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(compiled, torch.utils.data.DataLoader(data, batch_size=4))
    bare = to_uncompiled(compiled)
    again = from_compiled(torch.compile(Net(), backend=backend))
    return {
        "losses": net.losses,
        "metric": trainer.callback_metrics["loss"],
        "weights": [value for _, value in sorted(net.state_dict().items())],
        "bare": bare is net,
        "again": type(again).__name__,
    }
