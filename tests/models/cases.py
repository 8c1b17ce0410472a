"""The models that tests/models runs: small configurations, random weights, eval mode.

A case makes a module (or a function), and says how to drive it: `drive(f, which)` calls `f`, the module or what was
made of it, with the inputs of number `which`. 0 and 1 have the same shapes, 2 has other shapes. What it gives is
compared with eager's. All inputs are made anew for each drive, caches too.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import torch
import transformers as t
from torch import nn

from . import nets

Drive = Callable[[Any, int], Any]
Inputs = dict[str, Any]

CASES: dict[str, Case] = {}


@dataclasses.dataclass(frozen=True)
class Case:
    """One model, and what is done with it."""

    name: str
    make: Callable[[], tuple[Any, Drive]]
    fast: bool
    """Whether it is in the part that `make test` runs."""
    close: bool
    """Whether eager itself does not give the same bits each time."""

    def build(self) -> tuple[Any, Drive]:
        """The module in eval mode, always with the same weights, and how it is driven."""
        torch.manual_seed(0)
        target, drive = self.make()
        if isinstance(target, nn.Module):
            target.eval()
        return target, drive


def case(name: str, fast: bool = False, close: bool = False) -> Callable[[Any], Any]:
    """Adds what the function below makes to the table: a module and how to drive it, or a module and its inputs."""

    def add(make: Callable[[], tuple[Any, Any]]) -> Callable[[], tuple[Any, Any]]:
        assert name not in CASES, name
        CASES[name] = Case(name, make, fast, close)
        return make

    return add


def random(which: int) -> torch.Generator:
    return torch.Generator().manual_seed(which)


def batch(which: int) -> tuple[int, int]:
    """How many sequences of which length."""
    return (3, 6) if which == 2 else (2, 8)


def ids(which: int, vocabulary: int = 99) -> torch.Tensor:
    return torch.randint(3, vocabulary, batch(which), generator=random(which))


def mask(which: int, left: bool = False) -> torch.Tensor:
    """An attention mask: each sequence is padded, but the first."""
    rows, columns = batch(which)
    result = torch.ones(rows, columns, dtype=torch.int64)
    for row in range(1, rows):
        pad = slice(0, row + which % 2) if left else slice(columns - row - which % 2, columns)
        result[row, pad] = 0
    return result


def images(which: int, size: int = 16) -> torch.Tensor:
    return torch.randn(3 if which == 2 else 2, 3, size, size, generator=random(which))


def by(inputs: Callable[[int], Inputs]) -> Drive:
    """One call with these keyword arguments."""

    def drive(f: Any, which: int) -> Any:
        with torch.no_grad():
            return f(**inputs(which))

    return drive


def decode(make_cache: Callable[[], Any] | None, steps: int = 3, masks: bool = False, **more: Any) -> Drive:
    """A prompt, and some greedy steps of one token each with the cache that came back."""

    def drive(f: Any, which: int) -> Any:
        results = []
        tokens, attention = ids(which), mask(which, left=True)
        cache = None if make_cache is None else make_cache()
        with torch.no_grad():
            for _ in range(steps + 1):
                given: Inputs = {"input_ids": tokens, "past_key_values": cache, "use_cache": True, **more}
                if masks:
                    given["attention_mask"] = attention
                out = f(**given)
                results.append(out)
                cache = out.past_key_values
                tokens = out.logits[:, -1:].argmax(-1)
                attention = torch.cat([attention, attention.new_ones(len(attention), 1)], dim=1)
        return results

    return drive


# --- transformers: encoders ---

SIZES: Inputs = {
    "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32, "vocab_size": 100,
    "max_position_embeddings": 64,
}  # fmt: skip


def bert_config(**more: Any) -> Any:
    return t.BertConfig(**SIZES, **more)


@case("BERT", fast=True)
def _() -> Any:
    return t.BertModel(bert_config()), by(lambda which: {"input_ids": ids(which)})


@case("BERT, a mask, hidden states and attentions")
def _() -> Any:
    model = t.BertModel(bert_config(attn_implementation="eager"))
    return model, by(
        lambda which: {
            "input_ids": ids(which), "attention_mask": mask(which), "token_type_ids": ids(which) % 2,
            "output_hidden_states": True, "output_attentions": True,
        }
    )  # fmt: skip


@case("BERT for masked words, labels")
def _() -> Any:
    return t.BertForMaskedLM(bert_config()), by(
        lambda which: {"input_ids": ids(which), "attention_mask": mask(which), "labels": ids(which).flip(0)}
    )


@case("BERT as a classifier, labels")
def _() -> Any:
    model = t.BertForSequenceClassification(bert_config(num_labels=3))
    return model, by(
        lambda which: {
            "input_ids": ids(which),
            "labels": torch.arange(batch(which)[0]) % 3,
            "return_dict": False,
        }
    )


@case("RoBERTa")
def _() -> Any:
    return t.RobertaModel(t.RobertaConfig(**SIZES)), by(lambda which: {"input_ids": ids(which)})


@case("RoBERTa, a mask, hidden states")
def _() -> Any:
    return t.RobertaForMaskedLM(t.RobertaConfig(**SIZES)), by(
        lambda which: {"input_ids": ids(which), "attention_mask": mask(which), "output_hidden_states": True}
    )


def distilbert() -> Any:
    return t.DistilBertConfig(
        dim=16, n_layers=2, n_heads=2, hidden_dim=32, vocab_size=100, max_position_embeddings=64
    )


@case("DistilBERT")
def _() -> Any:
    return t.DistilBertModel(distilbert()), by(lambda which: {"input_ids": ids(which)})


@case("DistilBERT for questions, a mask")
def _() -> Any:
    return t.DistilBertForQuestionAnswering(distilbert()), by(
        lambda which: {"input_ids": ids(which), "attention_mask": mask(which)}
    )


@case("ALBERT")
def _() -> Any:
    return t.AlbertModel(t.AlbertConfig(**SIZES, embedding_size=8)), by(
        lambda which: {"input_ids": ids(which)}
    )


@case("ALBERT, a mask, hidden states")
def _() -> Any:
    return t.AlbertModel(t.AlbertConfig(**SIZES, embedding_size=8)), by(
        lambda which: {"input_ids": ids(which), "attention_mask": mask(which), "output_hidden_states": True}
    )


@case("ELECTRA")
def _() -> Any:
    return t.ElectraModel(t.ElectraConfig(**SIZES, embedding_size=8)), by(
        lambda which: {"input_ids": ids(which)}
    )


@case("ELECTRA that tells the real words, a mask, labels")
def _() -> Any:
    return t.ElectraForPreTraining(t.ElectraConfig(**SIZES, embedding_size=8)), by(
        lambda which: {"input_ids": ids(which), "attention_mask": mask(which), "labels": ids(which) % 2}
    )


def deberta() -> Any:
    return t.DebertaV2Config(
        **SIZES, relative_attention=True, position_buckets=8, pos_att_type=["p2c", "c2p"], share_att_key=True,
        norm_rel_ebd="layer_norm", position_biased_input=False, pad_token_id=0,
    )  # fmt: skip


@case("DeBERTa-v2", fast=True)
def _() -> Any:
    return t.DebertaV2Model(deberta()), by(lambda which: {"input_ids": ids(which)})


@case("DeBERTa-v2, a mask, labels")
def _() -> Any:
    return t.DebertaV2ForTokenClassification(deberta()), by(
        lambda which: {"input_ids": ids(which), "attention_mask": mask(which), "labels": ids(which) % 2}
    )


def mobilebert() -> Any:
    return t.MobileBertConfig(
        **SIZES, embedding_size=16, intra_bottleneck_size=8, true_hidden_size=8, num_feedforward_networks=2
    )


@case("MobileBERT")
def _() -> Any:
    return t.MobileBertModel(mobilebert()), by(lambda which: {"input_ids": ids(which)})


@case("MobileBERT, a mask, hidden states")
def _() -> Any:
    return t.MobileBertModel(mobilebert()), by(
        lambda which: {"input_ids": ids(which), "attention_mask": mask(which), "output_hidden_states": True}
    )


# --- transformers: decoders ---

HEADS: Inputs = {**SIZES, "num_key_value_heads": 1}


def decoder(name: str) -> Any:
    """A causal language model of this family."""
    if name == "GPT-2":
        return t.GPT2LMHeadModel(t.GPT2Config(n_embd=16, n_layer=2, n_head=2, vocab_size=100, n_positions=64))
    if name == "GPT-Neo":
        config = t.GPTNeoConfig(
            hidden_size=16, num_layers=2, num_heads=2, intermediate_size=32, vocab_size=100, max_position_embeddings=64,
            attention_types=[[["global", "local"], 1]], window_size=4,
        )  # fmt: skip
        return t.GPTNeoForCausalLM(config)
    if name == "OPT":
        sizes = {key: value for key, value in SIZES.items() if key != "intermediate_size"}
        return t.OPTForCausalLM(t.OPTConfig(**sizes, ffn_dim=32, word_embed_proj_dim=16))
    if name == "Mamba":
        return t.MambaForCausalLM(
            t.MambaConfig(hidden_size=16, num_hidden_layers=2, vocab_size=100, state_size=4)
        )
    if name == "Llama":
        return t.LlamaForCausalLM(t.LlamaConfig(**HEADS))
    if name == "Mistral":
        return t.MistralForCausalLM(t.MistralConfig(**HEADS, sliding_window=4))
    if name == "Qwen2":
        return t.Qwen2ForCausalLM(t.Qwen2Config(**HEADS))
    if name == "Qwen3":
        return t.Qwen3ForCausalLM(t.Qwen3Config(**HEADS, head_dim=8))
    if name == "Gemma2":
        return t.Gemma2ForCausalLM(t.Gemma2Config(**HEADS, head_dim=8, sliding_window=4))
    if name == "Phi":
        return t.PhiForCausalLM(t.PhiConfig(**SIZES))
    assert name == "Mixtral", name
    return t.MixtralForCausalLM(t.MixtralConfig(**HEADS, num_local_experts=4, num_experts_per_tok=2))


DECODERS = (
    "GPT-2",
    "GPT-Neo",
    "OPT",
    "Llama",
    "Mistral",
    "Qwen2",
    "Qwen3",
    "Gemma2",
    "Phi",
    "Mixtral",
    "Mamba",
)


def _decoder_cases(name: str) -> None:
    @case(name, fast=name == "GPT-2")
    def _() -> Any:
        return decoder(name), by(lambda which: {"input_ids": ids(which), "use_cache": False})

    @case(f"{name}, a mask, hidden states, labels", fast=name == "Llama")
    def _() -> Any:
        return decoder(name), by(
            lambda which: {
                "input_ids": ids(which), "attention_mask": mask(which), "labels": ids(which), "use_cache": False,
                "output_hidden_states": True,
            }
        )  # fmt: skip

    if name == "Mamba":
        return

    @case(f"{name}, a cache that grows", fast=name == "Qwen3")
    def _() -> Any:
        return decoder(name), decode(None)

    @case(f"{name}, a cache that grows, a mask")
    def _() -> Any:
        model = decoder(name)
        return model, decode(lambda: t.DynamicCache(config=model.config), masks=True)

    if name == "GPT-Neo":  # it has no static cache
        return

    @case(f"{name}, a static cache", fast=name == "Gemma2")
    def _() -> Any:
        model = decoder(name)
        return model, decode(lambda: t.StaticCache(config=model.config, max_cache_len=16))

    @case(f"{name}, a static cache, a mask")
    def _() -> Any:
        model = decoder(name)
        return model, decode(lambda: t.StaticCache(config=model.config, max_cache_len=16), masks=True)


for _name in DECODERS:
    _decoder_cases(_name)


def generate(model: Any, given: Callable[[int], Inputs], **more: Any) -> tuple[Any, Drive]:
    """`generate()` of a model whose forward is the compiled one."""
    plain = model.forward

    def drive(f: Any, which: int) -> Any:
        model.forward = f
        torch.manual_seed(which)
        try:
            with torch.no_grad():
                return model.generate(
                    **given(which), max_new_tokens=4, pad_token_id=0, eos_token_id=None, **more
                )
        finally:
            model.forward = plain

    return plain, drive


def _prompt(which: int) -> Inputs:
    return {"input_ids": ids(which), "attention_mask": mask(which, left=True)}


for _name, _more in {
    "greedy": {"do_sample": False},
    "sampling": {"do_sample": True, "top_k": 5, "return_dict_in_generate": True, "output_scores": True},
    "beams": {"do_sample": False, "num_beams": 2},
    "a static cache": {"do_sample": False, "cache_implementation": "static", "disable_compile": True},
}.items():
    for _model in ("GPT-2", "Llama"):

        @case(f"{_model}, generate(), {_name}", fast=(_model, _name) == ("Llama", "greedy"))
        def _(model: str = _model, more: Any = _more) -> Any:
            return generate(decoder(model).eval(), _prompt, **more)


@case("Mamba, generate()")
def _() -> Any:
    return generate(decoder("Mamba").eval(), lambda which: {"input_ids": ids(which)}, do_sample=False)


# --- transformers: encoders with decoders ---


def t5() -> Any:
    return t.T5Config(
        d_model=16, d_kv=8, d_ff=32, num_layers=2, num_heads=2, vocab_size=100, decoder_start_token_id=0
    )


@case("T5")
def _() -> Any:
    return t.T5Model(t5()), by(
        lambda which: {"input_ids": ids(which), "decoder_input_ids": ids(which).flip(0), "use_cache": False}
    )


@case("T5, masks, labels, hidden states")
def _() -> Any:
    return t.T5ForConditionalGeneration(t5()), by(
        lambda which: {
            "input_ids": ids(which), "attention_mask": mask(which), "labels": ids(which), "output_hidden_states": True,
        }
    )  # fmt: skip


def decode_after(encode: Callable[[Any, int], Any], model: Any, steps: int = 3) -> Drive:
    """The encoder once, then the decoder step by step with its cache."""

    def drive(f: Any, which: int) -> Any:
        results = []
        with torch.no_grad():
            encoded = encode(model, which)
            tokens, cache = torch.zeros(batch(which)[0], 1, dtype=torch.int64), None
            for _ in range(steps):
                out = f(
                    encoder_outputs=encoded, decoder_input_ids=tokens, past_key_values=cache, use_cache=True
                )
                results.append((out.logits, out.past_key_values))
                cache = out.past_key_values
                tokens = out.logits[:, -1:].argmax(-1)
        return results

    return drive


@case("T5, decoding with a cache")
def _() -> Any:
    model = t.T5ForConditionalGeneration(t5())
    return model, decode_after(lambda model, which: model.get_encoder()(input_ids=ids(which)), model)


@case("T5, generate()")
def _() -> Any:
    return generate(
        t.T5ForConditionalGeneration(t5()).eval(), lambda which: {"input_ids": ids(which)}, do_sample=False
    )


def bart() -> Any:
    return t.BartConfig(
        d_model=16, encoder_layers=2, decoder_layers=2, encoder_attention_heads=2, decoder_attention_heads=2,
        encoder_ffn_dim=32, decoder_ffn_dim=32, vocab_size=100, max_position_embeddings=64, forced_eos_token_id=None,
    )  # fmt: skip


@case("BART")
def _() -> Any:
    return t.BartModel(bart()), by(lambda which: {"input_ids": ids(which), "use_cache": False})


@case("BART, masks, labels, hidden states")
def _() -> Any:
    return t.BartForConditionalGeneration(bart()), by(
        lambda which: {
            "input_ids": ids(which), "attention_mask": mask(which), "labels": ids(which), "output_hidden_states": True,
        }
    )  # fmt: skip


@case("BART, decoding with a cache")
def _() -> Any:
    model = t.BartForConditionalGeneration(bart())
    return model, decode_after(lambda model, which: model.get_encoder()(input_ids=ids(which)), model)


def whisper() -> Any:
    return t.WhisperConfig(
        d_model=16, encoder_layers=2, decoder_layers=2, encoder_attention_heads=2, decoder_attention_heads=2,
        encoder_ffn_dim=32, decoder_ffn_dim=32, vocab_size=100, num_mel_bins=8, max_source_positions=16,
        max_target_positions=32, pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1,
        begin_suppress_tokens=None,
    )  # fmt: skip


def sounds(which: int) -> torch.Tensor:
    return torch.randn(batch(which)[0], 8, 32, generator=random(which))


@case("Whisper")
def _() -> Any:
    return t.WhisperModel(whisper()), by(
        lambda which: {"input_features": sounds(which), "decoder_input_ids": ids(which), "use_cache": False}
    )


@case("Whisper, labels, hidden states")
def _() -> Any:
    return t.WhisperForConditionalGeneration(whisper()), by(
        lambda which: {"input_features": sounds(which), "labels": ids(which), "output_hidden_states": True}
    )


@case("Whisper, decoding with a cache")
def _() -> Any:
    model = t.WhisperForConditionalGeneration(whisper())
    return model, decode_after(lambda model, which: model.get_encoder()(sounds(which)), model)


# --- transformers: images ---


def vit() -> Any:
    sizes = {
        key: value for key, value in SIZES.items() if key not in ("vocab_size", "max_position_embeddings")
    }
    return t.ViTConfig(**sizes, image_size=16, patch_size=4)


@case("ViT")
def _() -> Any:
    return t.ViTModel(vit()), by(lambda which: {"pixel_values": images(which)})


@case("ViT as a classifier, labels, hidden states")
def _() -> Any:
    return t.ViTForImageClassification(vit()), by(
        lambda which: {
            "pixel_values": images(which), "labels": torch.zeros(len(images(which)), dtype=torch.int64),
            "output_hidden_states": True,
        }
    )  # fmt: skip


@case("Swin")
def _() -> Any:
    config = t.SwinConfig(
        image_size=32, patch_size=2, embed_dim=8, depths=[2, 2], num_heads=[2, 2], window_size=4
    )
    return t.SwinModel(config), by(
        lambda which: {"pixel_values": images(which, 32), "output_hidden_states": True}
    )


@case("CLIP")
def _() -> Any:
    vision = {**{key: value for key, value in SIZES.items() if "o" in key}, "image_size": 16, "patch_size": 4}
    vision = {
        key: value for key, value in vision.items() if key not in ("vocab_size", "max_position_embeddings")
    }
    config = t.CLIPConfig(
        text_config={**SIZES, "eos_token_id": 2, "bos_token_id": 1, "pad_token_id": 0},
        vision_config={**vision, "num_hidden_layers": 2, "intermediate_size": 32},
        projection_dim=8,
    )
    return t.CLIPModel(config), by(
        lambda which: {
            "input_ids": ids(which), "attention_mask": mask(which), "pixel_values": images(which), "return_loss": True,
        }
    )  # fmt: skip


@case("SegFormer")
def _() -> Any:
    config = t.SegformerConfig(
        num_encoder_blocks=2, depths=[2, 2], sr_ratios=[2, 1], hidden_sizes=[8, 16], patch_sizes=[7, 3], strides=[4, 2],
        num_attention_heads=[1, 2], mlp_ratios=[2, 2], decoder_hidden_size=16, num_labels=3,
    )  # fmt: skip
    return t.SegformerForSemanticSegmentation(config), by(
        lambda which: {"pixel_values": images(which, 32), "labels": images(which, 32)[:, 0].gt(0).long()}
    )


# --- other packages ---


@case("diffusers, UNet2D")
def _() -> Any:
    import diffusers

    model = diffusers.UNet2DModel(
        sample_size=8, block_out_channels=(8, 16), layers_per_block=1, norm_num_groups=4, attention_head_dim=4,
        down_block_types=("DownBlock2D", "AttnDownBlock2D"), up_block_types=("AttnUpBlock2D", "UpBlock2D"),
    )  # fmt: skip
    return model, by(lambda which: {"sample": images(which, 8), "timestep": 5})


@case("diffusers, UNet2D with text, a timestep that is a tensor")
def _() -> Any:
    import diffusers

    model = diffusers.UNet2DConditionModel(
        sample_size=8, in_channels=3, out_channels=3, block_out_channels=(8, 16), layers_per_block=1, norm_num_groups=4,
        attention_head_dim=4, cross_attention_dim=8, down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
        up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"),
    )  # fmt: skip
    return model, by(
        lambda which: {
            "sample": images(which, 8), "timestep": torch.tensor(5 + which),
            "encoder_hidden_states": torch.randn(len(images(which)), 4, 8, generator=random(which)),
        }
    )  # fmt: skip


@case("diffusers, DiT")
def _() -> Any:
    import diffusers

    model = diffusers.DiTTransformer2DModel(
        num_attention_heads=2, attention_head_dim=8, in_channels=3, out_channels=3, num_layers=2, sample_size=8,
        patch_size=2, num_embeds_ada_norm=10, norm_num_groups=4,
    )  # fmt: skip
    return model, by(
        lambda which: {
            "hidden_states": images(which, 8), "timestep": torch.full((len(images(which)),), 5),
            "class_labels": torch.arange(len(images(which))), "return_dict": which != 1,
        }
    )  # fmt: skip


def by_position(inputs: Callable[[int], tuple[Any, ...]]) -> Drive:
    """One call with these positional arguments."""

    def drive(f: Any, which: int) -> Any:
        with torch.no_grad():
            return f(*inputs(which))

    return drive


@case("x-transformers, a decoder")
def _() -> Any:
    import x_transformers as x

    layers = x.Decoder(
        dim=16, depth=2, heads=2, attn_dim_head=8, rotary_pos_emb=True, use_rmsnorm=True, ff_glu=True
    )
    model = x.TransformerWrapper(num_tokens=100, max_seq_len=64, attn_layers=layers)
    return model, by_position(lambda which: (ids(which),))


@case("x-transformers, an encoder, a mask")
def _() -> Any:
    import x_transformers as x

    layers = x.Encoder(dim=16, depth=2, heads=2, attn_dim_head=8, attn_flash=True)
    model = x.TransformerWrapper(num_tokens=100, max_seq_len=64, attn_layers=layers)
    return model, by(lambda which: {"x": ids(which), "mask": mask(which).bool(), "return_embeddings": True})


@case("torch_geometric, a GCN")
def _() -> Any:
    def inputs(which: int) -> tuple[Any, ...]:
        nodes, edges = (7, 12) if which == 2 else (5, 9)
        return (
            torch.randn(nodes, 6, generator=random(which)),
            torch.randint(0, nodes, (2, edges), generator=random(which)),
        )

    return nets.GCN(), by_position(inputs)


# --- written here, and torch's own layers ---


@case("ResNet", fast=True)
def _() -> Any:
    return nets.ResNet(), by_position(lambda which: (images(which, 24 if which == 2 else 32),))


@case("U-Net", fast=True)
def _() -> Any:
    return nets.UNet(), by_position(lambda which: (images(which, 18 if which == 2 else 16),))


@case("MLP-Mixer")
def _() -> Any:
    return nets.Mixer(), by_position(lambda which: (images(which),))


@case("LSTM", fast=True)
def _() -> Any:
    return nets.Recurrent(nn.LSTM), by_position(lambda which: (ids(which, 50),))


@case("LSTM, projections, the state passed on")
def _() -> Any:
    model = nn.LSTM(6, 8, proj_size=4)

    def drive(f: Any, which: int) -> Any:
        x = torch.randn(5, batch(which)[0], 6, generator=random(which))
        with torch.no_grad():
            first, state = f(x)
            return first, f(x, state)

    return model, drive


@case("LSTM, packed sequences")
def _() -> Any:
    model = nn.LSTM(6, 8, batch_first=True)

    def inputs(which: int) -> tuple[Any, ...]:
        rows, columns = batch(which)
        x = torch.randn(rows, columns, 6, generator=random(which))
        return (nn.utils.rnn.pack_padded_sequence(x, mask(which).sum(1), batch_first=True),)

    return model, by_position(inputs)


@case("GRU")
def _() -> Any:
    return nets.Recurrent(nn.GRU), by_position(lambda which: (ids(which, 50),))
