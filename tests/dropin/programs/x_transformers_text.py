"""x-transformers: a compiled autoregressive wrapper; training and generation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from x_transformers import AutoregressiveWrapper, Decoder, TransformerWrapper


def main(backend: str, folder: Path) -> Any:
    net = TransformerWrapper(
        num_tokens=32,
        max_seq_len=16,
        attn_layers=Decoder(dim=32, depth=2, heads=2, rotary_pos_emb=True, ff_glu=True),
    )
    model = AutoregressiveWrapper(net)
    compiled = torch.compile(model, backend=backend)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    text = torch.randint(0, 32, (2, 12))
    losses = []
    for _ in range(3):
        optimizer.zero_grad()
        loss = compiled(text)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    inner = torch.compile(net, backend=backend)
    with torch.no_grad():
        logits = inner(text)
    return {"losses": losses, "logits": logits, "text": model.generate(text[:, :4], 4, temperature=0.0)}
