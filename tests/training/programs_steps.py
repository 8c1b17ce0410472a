"""Whole train steps, compiled as one function: models, losses, what is done to gradients, state that is made inside."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils import parametrizations, parametrize
from torch.utils.checkpoint import checkpoint

from .loops import mlp, program, trained

# --- models ---


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 3)
        self.norm = nn.LayerNorm(4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(x + F.gelu(self.first(self.norm(x))))


class Recurrent(nn.Module):
    def __init__(self, cls: Any, **options: Any) -> None:
        super().__init__()
        self.cell = cls(4, 6, batch_first=True, **options)
        self.head = nn.Linear(6, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found, _ = self.cell(x.unsqueeze(1).expand(-1, 3, -1))
        return self.head(found[:, -1])


class Attention(nn.Module):
    def __init__(self, dropout: float = 0.0) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(4, 2, 8, dropout, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(4, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.encoder(x.unsqueeze(1).expand(-1, 3, -1))).mean(1)


class Conv(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv1d(1, 4, 3, padding=1), nn.BatchNorm1d(4)
        self.head = nn.Linear(16, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(F.relu(self.norm(self.conv(x.unsqueeze(1)))).flatten(1))


class Words(nn.Module):
    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.table, self.head = nn.Embedding(10, 4, **options), nn.Linear(4, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.table((x * 4).long().clamp(-4, 5) + 4).mean(1))


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.head = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 3)
        self.second.weight = self.first.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.second(F.silu(self.first(x))))


class Checkpointed(nn.Module):
    def __init__(self, reentrant: bool = False) -> None:
        super().__init__()
        self.body, self.head, self.reentrant = (
            nn.Sequential(nn.Linear(4, 8), nn.Tanh()),
            nn.Linear(8, 3),
            reentrant,
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(checkpoint(self.body, x, use_reentrant=self.reentrant))


class Experts(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Linear(4, 2)
        self.experts = nn.ModuleList(nn.Linear(4, 3) for _ in range(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weights = self.gate(x).softmax(-1)
        return sum(weights[:, i : i + 1] * expert(x) for i, expert in enumerate(self.experts))  # type: ignore[return-value]


MODELS: dict[str, Any] = {
    "residual": Residual,
    "rnn": lambda: Recurrent(nn.RNN),
    "gru": lambda: Recurrent(nn.GRU),
    "lstm": lambda: Recurrent(nn.LSTM),
    "lstm_two_layers": lambda: Recurrent(nn.LSTM, num_layers=2, dropout=0.3),
    "attention": Attention,
    "attention_dropout": lambda: Attention(0.2),
    "conv_batchnorm": Conv,
    "embedding": Words,
    "embedding_max_norm": lambda: Words(max_norm=1.0),
    "tied": Tied,
    "experts": Experts,
    "checkpoint": Checkpointed,
    "checkpoint_reentrant": lambda: Checkpointed(True),
    "dropout": lambda: nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.Linear(8, 3)),
    "instance_norm": lambda: nn.Sequential(
        nn.Unflatten(1, (2, 2)),
        nn.InstanceNorm1d(2, affine=True, track_running_stats=True),
        nn.Flatten(),
        nn.Linear(4, 3),
    ),
    "group_norm": lambda: nn.Sequential(nn.Linear(4, 8), nn.GroupNorm(2, 8), nn.PReLU(), nn.Linear(8, 3)),
    "bilinear": lambda: Bilinear(),
    "weight_norm": lambda: nn.Sequential(parametrizations.weight_norm(nn.Linear(4, 8)), nn.Linear(8, 3)),
    "spectral_norm": lambda: nn.Sequential(parametrizations.spectral_norm(nn.Linear(4, 8)), nn.Linear(8, 3)),
    "orthogonal": lambda: nn.Sequential(parametrizations.orthogonal(nn.Linear(4, 4)), nn.Linear(4, 3)),
    "old_weight_norm": lambda: nn.Sequential(nn.utils.weight_norm(nn.Linear(4, 8)), nn.Linear(8, 3)),
    "old_spectral_norm": lambda: nn.Sequential(nn.utils.spectral_norm(nn.Linear(4, 8)), nn.Linear(8, 3)),
    "pruned": lambda: pruned(),
    "symmetric": lambda: symmetric(),
}


class Bilinear(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Bilinear(4, 4, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x, x.flip(1))


def pruned() -> nn.Module:
    from torch.nn.utils import prune

    layer = nn.Linear(4, 3)
    prune.l1_unstructured(layer, "weight", 0.5)  # type: ignore[no-untyped-call]
    return layer


class Symmetric(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.triu() + x.triu(1).T


def symmetric() -> nn.Module:
    layer = nn.Linear(4, 4)
    parametrize.register_parametrization(layer, "weight", Symmetric())
    return nn.Sequential(layer, nn.Linear(4, 3))


for name, build in MODELS.items():
    program(f"model_{name}", lambda wrap, build=build: trained(wrap, build()))  # type: ignore[misc]

# --- losses ---

LOSSES: dict[str, Any] = {
    "cross_entropy": lambda out, y: F.cross_entropy(out, y.argmax(1)),
    "cross_entropy_smooth": lambda out, y: F.cross_entropy(out, y.argmax(1), label_smoothing=0.1),
    "nll": lambda out, y: F.nll_loss(out.log_softmax(1), y.argmax(1)),
    "bce": lambda out, y: F.binary_cross_entropy(out.sigmoid(), (y > 0).float()),
    "bce_logits": lambda out, y: F.binary_cross_entropy_with_logits(out, (y > 0).float()),
    "kl": lambda out, y: F.kl_div(out.log_softmax(1), y.softmax(1), reduction="batchmean"),
    "huber": F.huber_loss,
    "smooth_l1": F.smooth_l1_loss,
    "cosine": lambda out, y: F.cosine_embedding_loss(out, y, torch.ones(len(y))),
    "triplet": lambda out, y: F.triplet_margin_loss(out, y, y.flip(0)),
    "gaussian": lambda out, y: F.gaussian_nll_loss(out, y, torch.ones_like(y)),
    "ctc": lambda out, y: F.ctc_loss(
        out.log_softmax(1).unsqueeze(1), torch.tensor([[1, 2]]), torch.tensor([5]), torch.tensor([2])
    ),
    "module": nn.CrossEntropyLoss(weight=torch.tensor([1.0, 2.0, 3.0])).__call__,
    "manual": lambda out, y: ((out - y).abs() ** 1.5).mean() + 0.01 * out.norm(),
}
LOSSES["module"] = lambda out, y, module=LOSSES["module"]: module(out, y.argmax(1))

for name, loss in LOSSES.items():
    program(f"loss_{name}", lambda wrap, loss=loss: trained(wrap, mlp(), loss=loss))  # type: ignore[misc]
