"""transformers: generate() with a static cache, which compiles the forward of the decoding steps by itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from transformers import CompileConfig, GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM


def generate(model: Any, ids: torch.Tensor, config: CompileConfig, **settings: Any) -> Any:
    model.eval()
    found = model.generate(
        ids,
        attention_mask=torch.ones_like(ids),
        max_new_tokens=6,
        min_new_tokens=6,
        pad_token_id=0,
        cache_implementation="static",
        compile_config=config,
        return_dict_in_generate=True,
        output_logits=True,
        **settings,
    )
    return [found.sequences, list(found.logits)]


def main(backend: str, folder: Path) -> Any:
    config = CompileConfig(backend=backend, mode=None, fullgraph=False, dynamic=False)
    config._compile_all_devices = True
    llama = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=64,
            hidden_size=32,
            intermediate_size=48,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            max_position_embeddings=64,
        )
    )
    gpt = GPT2LMHeadModel(GPT2Config(vocab_size=64, n_positions=64, n_embd=32, n_layer=2, n_head=2))
    ids = torch.randint(1, 64, (2, 5))
    return {
        "greedy": generate(llama, ids, config, do_sample=False),
        "again": generate(llama, ids, config, do_sample=False),
        "beams": generate(gpt, ids, config, do_sample=False, num_beams=2),
    }
