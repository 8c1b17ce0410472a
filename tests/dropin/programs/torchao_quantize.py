"""torchao: quantize_() makes weights of tensor subclasses, and the model is compiled."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import nn
from torchao.quantization import Int8DynamicActivationInt8WeightConfig, Int8WeightOnlyConfig, quantize_


def main(backend: str, folder: Path) -> Any:
    found = {}
    for config in (Int8WeightOnlyConfig(version=2), Int8DynamicActivationInt8WeightConfig(version=2)):
        net = nn.Sequential(nn.Linear(32, 64), nn.SiLU(), nn.Linear(64, 16)).eval()
        quantize_(net, config)
        compiled = torch.compile(net, backend=backend)
        with torch.no_grad():
            found[type(config).__name__] = [compiled(torch.randn(4, 32)) for _ in range(2)]
    return found
