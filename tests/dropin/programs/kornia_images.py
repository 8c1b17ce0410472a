"""kornia: filters, colours, geometry and losses in compiled functions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import kornia
import torch


def prepare(images: torch.Tensor) -> torch.Tensor:
    images = kornia.filters.gaussian_blur2d(images, (3, 3), (1.0, 1.0))
    images = kornia.enhance.adjust_brightness(images, 0.1)
    return kornia.color.rgb_to_hsv(images)


def turn(images: torch.Tensor, angle: torch.Tensor) -> torch.Tensor:
    return kornia.geometry.transform.rotate(images, angle)


def edges(images: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return kornia.filters.sobel(images), kornia.filters.spatial_gradient(images)


def main(backend: str, folder: Path) -> Any:
    images = torch.rand(2, 3, 12, 12)
    loss = torch.compile(kornia.losses.SSIMLoss(5), backend=backend)
    found = {
        "prepare": torch.compile(prepare, backend=backend)(images),
        "turn": torch.compile(turn, backend=backend)(images, torch.tensor([30.0, 60.0])),
        "edges": torch.compile(edges, backend=backend)(images),
        "loss": loss(images, images.flip(0)),
    }
    return found
