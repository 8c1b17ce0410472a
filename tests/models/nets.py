"""Models that are written here: a ResNet, a U-Net, an MLP-Mixer, and networks around recurrent and graph layers."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import nn


class Residual(nn.Module):
    """Two convolutions and the way around them."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(outputs)
        self.second = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(outputs)
        self.around: nn.Module | None = None
        if stride != 1 or inputs != outputs:
            self.around = nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs)
            )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        kept = x if self.around is None else self.around(x)
        x = F.relu(self.norm1(self.first(x)), inplace=True)
        x = self.norm2(self.second(x))
        x += kept
        return F.relu(x)


class ResNet(nn.Module):
    """A residual network for small images."""

    def __init__(self, widths: tuple[int, ...] = (8, 16, 32), depth: int = 2, classes: int = 10) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, widths[0], 7, 2, 3, bias=False), nn.BatchNorm2d(widths[0]), nn.ReLU(True)
        )
        self.pool = nn.MaxPool2d(3, 2, 1)
        self.stages = nn.ModuleList()
        inputs = widths[0]
        for number, width in enumerate(widths):
            blocks: list[nn.Module] = [Residual(inputs, width, 1 if number == 0 else 2)]
            blocks += [Residual(width, width, 1) for _ in range(depth - 1)]
            self.stages.append(nn.Sequential(*blocks))
            inputs = width
        self.mean = nn.AdaptiveAvgPool2d((1, 1))
        self.head = nn.Linear(inputs, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.pool(self.stem(x))
        for stage in self.stages:
            x = stage(x)
        return self.head(torch.flatten(self.mean(x), 1))


class UNet(nn.Module):
    """Down and up again, with the halves joined at each size; the sizes need not be even."""

    def __init__(self, widths: tuple[int, ...] = (4, 8, 16)) -> None:
        super().__init__()
        self.down = nn.ModuleList()
        inputs = 3
        for width in widths:
            self.down.append(self.twice(inputs, width))
            inputs = width
        self.up = nn.ModuleList()
        self.join = nn.ModuleDict()
        for width in reversed(widths[:-1]):
            self.up.append(nn.ConvTranspose2d(inputs, width, 2, 2))
            self.join[f"at{width}"] = self.twice(2 * width, width)
            inputs = width
        self.out = nn.Conv2d(inputs, 2, 1)

    @staticmethod
    def twice(inputs: int, outputs: int) -> nn.Sequential:
        layers: list[nn.Module] = []
        for number in (inputs, outputs):
            layers += [nn.Conv2d(number, outputs, 3, padding=1), nn.GroupNorm(2, outputs), nn.SiLU()]
        return nn.Sequential(*layers)

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        kept = []
        for block in self.down[:-1]:
            x = block(x)
            kept.append(x)
            x = F.max_pool2d(x, 2)
        x = self.down[-1](x)
        for up, join in zip(self.up, self.join.values(), strict=True):
            other = kept.pop()
            x = up(x)
            high, wide = other.shape[-2] - x.shape[-2], other.shape[-1] - x.shape[-1]
            if high or wide:
                x = F.pad(x, (wide // 2, wide - wide // 2, high // 2, high - high // 2))
            x = join(torch.cat([other, x], dim=1))
        return {"logits": self.out(x), "mask": self.out(x).argmax(1)}


class Mixer(nn.Module):
    """An MLP-Mixer."""

    class Block(nn.Module):
        def __init__(self, patches: int, width: int) -> None:
            super().__init__()
            self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])
            self.tokens = nn.Sequential(
                nn.Linear(patches, 2 * patches), nn.GELU(), nn.Linear(2 * patches, patches)
            )
            self.channels = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = x + self.tokens(self.norms[0](x).transpose(1, 2)).transpose(1, 2)
            return x + self.channels(self.norms[1](x))

    def __init__(self, size: int = 16, patch: int = 4, width: int = 16, depth: int = 3) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, patch, patch)
        self.blocks = nn.Sequential(*(self.Block((size // patch) ** 2, width) for _ in range(depth)))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.patches(x).flatten(2).transpose(1, 2)
        return self.head(self.norm(self.blocks(x)).mean(dim=1))


class Recurrent(nn.Module):
    """A tagger: embeddings, a recurrent layer in both directions, and a head; gives the last state too."""

    def __init__(self, kind: type[nn.RNNBase], **settings: Any) -> None:
        super().__init__()
        self.embed = nn.Embedding(50, 12)
        self.layer = kind(12, 10, num_layers=2, batch_first=True, bidirectional=True, **settings)
        self.head = nn.Linear(20, 5)

    def forward(self, ids: torch.Tensor, state: Any = None) -> tuple[torch.Tensor, Any]:
        x, state = self.layer(self.embed(ids), state)
        return self.head(x), state


class GCN(nn.Module):
    """Two graph convolutions, as in torch_geometric's first example."""

    def __init__(self) -> None:
        super().__init__()
        from torch_geometric.nn import GCNConv

        self.first = GCNConv(6, 8)
        self.second = GCNConv(8, 3)

    def forward(self, x: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
        x = F.relu(self.first(x, edges))
        x = F.dropout(x, training=self.training)
        return F.log_softmax(self.second(x, edges), dim=1)
