"""peft: LoRA on a compiled model; training steps, the adapter off, a saved adapter, a merged model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig, get_peft_model, get_peft_model_state_dict
from transformers import LlamaConfig, LlamaForCausalLM


def main(backend: str, folder: Path) -> Any:
    config = LlamaConfig(
        vocab_size=64, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4
    )
    model = get_peft_model(
        LlamaForCausalLM(config),
        LoraConfig(r=4, target_modules=["q_proj", "v_proj"], init_lora_weights=False, lora_dropout=0.0),
    )
    compiled = torch.compile(model, backend=backend)
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-2)
    ids = torch.randint(0, 64, (2, 7))
    losses = []
    for _ in range(3):
        optimizer.zero_grad()
        loss = compiled(input_ids=ids, labels=ids).loss
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    with torch.no_grad(), model.disable_adapter():
        plain = compiled(input_ids=ids).logits
    state = get_peft_model_state_dict(compiled)
    merged = torch.compile(model.merge_and_unload(), backend=backend)
    with torch.no_grad():
        after = merged(input_ids=ids).logits
    return {
        "losses": losses,
        "plain": plain,
        "names": sorted(state),
        "adapter": [state[name] for name in sorted(state)],
        "merged": after,
    }
