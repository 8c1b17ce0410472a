"""More architectures of transformers, found by its own tables and made small: results as eager's, in as few graphs.

`make models` runs them. The number is how many graphs the calls of `drive` need: one for each kind of call.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest
import torch
from transformers.models.auto import modeling_auto

from . import cases, compare

pytestmark = [
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.no_leak_hunt("transformers keeps what it has made"),
    pytest.mark.skipif(os.environ.get("MAGNETO_MODELS") != "all", reason="make models"),
]

# Values for whatever attributes a configuration has.
SMALL: dict[str, Any] = {
    **dict.fromkeys(("hidden_size", "d_model", "n_embd", "embed_dim", "embedding_size", "word_embed_proj_dim"), 16),
    **dict.fromkeys(("num_hidden_layers", "n_layer", "num_layers", "encoder_layers", "decoder_layers"), 2),
    **dict.fromkeys(("num_attention_heads", "n_head", "num_heads"), 2),
    **dict.fromkeys(("encoder_attention_heads", "decoder_attention_heads", "num_decoder_layers"), 2),
    **dict.fromkeys(("intermediate_size", "ffn_dim", "encoder_ffn_dim", "decoder_ffn_dim", "d_ff"), 32),
    **dict.fromkeys(("max_position_embeddings", "n_positions"), 64),
    "num_key_value_heads": 1, "num_kv_heads": 1, "head_dim": 8, "d_kv": 8, "rotary_dim": 4, "vocab_size": 100,
    "image_size": 32, "patch_size": 8, "sliding_window": 4, "attention_window": 4, "block_size": 4,
    "num_experts": 4, "num_local_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16,
    "num_feat_extract_layers": 2, "num_conv_pos_embeddings": 4, "num_conv_pos_embedding_groups": 2,
}  # fmt: skip
LISTS: dict[str, Any] = {"conv_dim": (16, 16), "conv_stride": (2, 2), "conv_kernel": (3, 3)}
TOKENS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1}


def small(cls: Any) -> Any:
    """A configuration of this class for a model of a few layers."""
    have = cls().to_dict()
    found = {key: value for key, value in SMALL.items() if type(have.get(key)) is int}
    found |= {key: value for key, value in LISTS.items() if isinstance(have.get(key), (tuple, list))}
    found |= {key: value for key, value in TOKENS.items() if isinstance(have.get(key), int)}
    for key in ("hidden_sizes", "num_attention_heads", "num_heads", "depths"):
        if isinstance(have.get(key), (tuple, list)):
            found[key] = [8 * (i + 1) if key == "hidden_sizes" else 1 for i in range(len(have[key]))]
    if "num_key_value_heads" in have:  # where it is None, some models mean the number of heads, and some fail
        found["num_key_value_heads"] = SMALL["num_key_value_heads"]
    if isinstance(have.get("layer_types"), list):
        found["layer_types"] = [have["layer_types"][0], have["layer_types"][-1]]
    return cls(**{"pad_token_id": 0, **found})


def causal(f: Any, which: int) -> Any:
    """With labels, then a prompt and two steps with the cache."""
    ids, mask = cases.ids(which), cases.mask(which, left=True)
    results = [f(input_ids=ids, attention_mask=mask, labels=ids, use_cache=False)]
    out = f(input_ids=ids, attention_mask=mask, use_cache=True)
    for step in range(2):
        results.append(out)
        mask = torch.cat([mask, mask.new_ones(len(mask), 1)], dim=1)
        cache = out.past_key_values
        out = f(input_ids=ids[:, step : step + 1], attention_mask=mask, past_key_values=cache, use_cache=True)
    return [*results, out]


def masked(f: Any, which: int) -> Any:
    ids = cases.ids(which)
    return [
        f(input_ids=ids, attention_mask=cases.mask(which), labels=ids),
        f(input_ids=ids, output_hidden_states=True),
    ]


def translation(f: Any, which: int) -> Any:
    ids, mask = cases.ids(which), cases.mask(which)
    first = f(input_ids=ids, attention_mask=mask, labels=ids)
    start = f(input_ids=ids, attention_mask=mask, decoder_input_ids=ids[:, :1], use_cache=True)
    more = f(
        encoder_outputs=(start.encoder_last_hidden_state,), attention_mask=mask, decoder_input_ids=ids[:, 1:2],
        past_key_values=start.past_key_values, use_cache=True,
    )  # fmt: skip
    return first, start.logits, more.logits


def image(f: Any, which: int) -> Any:
    return f(pixel_values=cases.images(which, 32), output_hidden_states=True)


def sound(f: Any, which: int) -> Any:
    x = torch.randn(2, 400, generator=cases.random(which))
    mask = torch.arange(400)[None] < torch.tensor([[400], [300]])
    return f(input_values=x, output_hidden_states=True), f(input_values=x, attention_mask=mask.long())


KINDS: dict[str, tuple[Any, Callable[[Any, int], Any], int, str]] = {
    "causal": (modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING, causal, 4,
        "Apertus Arcee BioGpt BitNet Bloom Cohere CTRL Exaone4 Falcon Gemma3Text Glm Glm4Moe GPTBigCode GPTJ GPTNeoX "
        "Granite Helium Mpt Nemotron Olmo2 Olmoe Phi3 Qwen3Moe SmolLM3 StableLm Starcoder2 XGLM"),
    "masked": (modeling_auto.MODEL_FOR_MASKED_LM_MAPPING, masked, 2,
        "BigBird Camembert ConvBert Deberta Ernie FNet IBert MPNet ModernBert "
        "Nystromformer RemBert RoFormer XLMRoberta"),
    "translation": (modeling_auto.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING, translation, 3,
        "Blenderbot M2M100 MBart Marian Pegasus PegasusX PLBart UMT5"),
    "image": (modeling_auto.MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING, image, 1,
        "Beit Cvt Data2VecVision DeiT Dinov2 FocalNet MobileNetV2 MobileViT PoolFormer PvtV2 RegNet ResNet ViTMSN"),
    "sound": (modeling_auto.MODEL_FOR_CTC_MAPPING, sound, 2, "Data2VecAudio Hubert SEW UniSpeech Wav2Vec2 WavLM"),
}  # fmt: skip
NAMES = [(kind, name) for kind, (_, _, _, names) in KINDS.items() for name in names.split()]


@pytest.mark.parametrize(("kind", "name"), NAMES)
def test_as_eager_in_whole_graphs(kind: str, name: str) -> None:
    mapping, drive, count, _ = KINDS[kind]
    (config,) = [cls for cls in mapping if cls.__name__ == f"{name}Config"]
    made = mapping[config]
    torch.manual_seed(0)
    model = (made[0] if isinstance(made, tuple) else made)(small(config)).eval()
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with torch.no_grad():
            expected = [drive(model, which) for which in (0, 1)]
            backend = compare.Graphs()
            compiled = compare.by_magneto(model, backend)
            for which in (0, 0, 1):
                found = compare.difference(expected[which], drive(compiled, which))
                assert found is None, found
    finally:
        torch.set_num_threads(threads)
    assert len(backend.graphs) == count
