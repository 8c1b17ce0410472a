"""Real models over inputs of different sizes: results as eager's, and no graph after the third distinct shape."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

import magneto

transformers = pytest.importorskip("transformers")

SMALL: dict[str, Any] = {
    "vocab_size": 97,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
}
SHAPES = ((2, 5), (2, 7), (3, 9), (4, 6), (2, 11), (5, 4))


def graphs() -> int:
    return magneto.counters["stats"]["unique_graphs"]


def same(a: Any, b: Any) -> None:
    torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


def over_shapes(function: Callable[..., Any], inputs: list[tuple[Any, ...]]) -> None:
    """Run a function over inputs of different shapes; graphs are made for the first three at most."""
    compiled = magneto.compile(function, backend="eager")
    with torch.no_grad():
        for number, arguments in enumerate(inputs):
            before = graphs()
            same(compiled(*arguments), function(*arguments))
            assert number < 3 or graphs() == before, (number, magneto.counters["recompiles"])


def tokens(batch: int, length: int) -> torch.Tensor:
    return torch.randint(
        0, 97, (batch, length), generator=torch.Generator().manual_seed(batch * 100 + length)
    )


def build(kind: str, config: Any) -> Any:
    torch.manual_seed(0)
    return getattr(transformers, kind)(config).eval()


def test_bert() -> None:
    model = build(
        "BertModel", transformers.BertConfig(**SMALL, intermediate_size=32, max_position_embeddings=32)
    )
    over_shapes(lambda ids, mask: model(ids, attention_mask=mask).last_hidden_state, [
        (tokens(*shape), torch.ones(shape, dtype=torch.long)) for shape in SHAPES
    ])  # fmt: skip


def test_gpt2() -> None:
    config = transformers.GPT2Config(vocab_size=97, n_embd=16, n_layer=2, n_head=2, n_positions=32)
    model = build("GPT2LMHeadModel", config)
    over_shapes(lambda ids: model(ids, use_cache=False).logits, [(tokens(*shape),) for shape in SHAPES])


def llama() -> Any:
    config = transformers.LlamaConfig(
        **SMALL, intermediate_size=32, num_key_value_heads=2, max_position_embeddings=64,
        pad_token_id=0, bos_token_id=1, eos_token_id=2,
    )  # fmt: skip
    return build("LlamaForCausalLM", config)


def test_llama() -> None:
    model = llama()
    over_shapes(lambda ids: model(ids, use_cache=False).logits, [(tokens(*shape),) for shape in SHAPES])


def test_llama_with_a_growing_cache() -> None:
    model = llama()
    compiled = magneto.compile(lambda ids, cache: model(ids, past_key_values=cache).logits, backend="eager")
    caches = transformers.DynamicCache(), transformers.DynamicCache()
    ids = tokens(1, 4)
    with torch.no_grad():
        for step in range(13):
            before = graphs()
            logits = compiled(ids, caches[0])
            same(logits, model(ids, past_key_values=caches[1]).logits)
            assert step < 4 or graphs() == before, (step, magneto.counters["recompiles"])
            ids = logits[:, -1:].argmax(-1)


def test_generate_with_a_dynamic_cache() -> None:
    model, plain = llama(), llama()
    model.forward = magneto.compile(model.forward, backend="eager")
    options = {
        "max_new_tokens": 12,
        "do_sample": False,
        "cache_implementation": "dynamic",
        "eos_token_id": None,
    }
    for number, length in enumerate((4, 6, 7, 9)):
        before = graphs()
        ids = tokens(1, length)
        same(model.generate(ids, **options), plain.generate(ids, **options))
        assert number < 2 or graphs() == before, (number, magneto.counters["recompiles"])


def test_t5() -> None:
    config = transformers.T5Config(
        vocab_size=97, d_model=16, d_kv=8, d_ff=32, num_layers=2, num_decoder_layers=2, num_heads=2,
        decoder_start_token_id=0, pad_token_id=0,
    )  # fmt: skip
    model = build("T5Model", config)
    over_shapes(
        lambda ids, other: model(input_ids=ids, decoder_input_ids=other, use_cache=False).last_hidden_state,
        [(tokens(batch, length), tokens(batch, length + 2)) for batch, length in SHAPES],
    )


def test_vit_with_interpolation() -> None:
    config = transformers.ViTConfig(
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        image_size=16,
        patch_size=4,
    )
    model = build("ViTModel", config)
    over_shapes(
        lambda x: model(x, interpolate_pos_encoding=True).last_hidden_state,
        [
            (torch.randn(batch, 3, 4 * size, 4 * size + 8),)
            for batch, size in ((2, 3), (2, 5), (3, 6), (4, 7), (2, 8))
        ],
    )


def test_whisper() -> None:
    config = transformers.WhisperConfig(
        vocab_size=97, d_model=16, encoder_layers=2, decoder_layers=2, encoder_attention_heads=2, pad_token_id=0,
        decoder_attention_heads=2, encoder_ffn_dim=32, decoder_ffn_dim=32, num_mel_bins=8, max_source_positions=20,
        max_target_positions=32, decoder_start_token_id=1, bos_token_id=1, eos_token_id=2, suppress_tokens=None,
        begin_suppress_tokens=None,
    )  # fmt: skip
    model = build("WhisperModel", config)
    over_shapes(
        lambda features, ids: model(features, decoder_input_ids=ids, use_cache=False).last_hidden_state,
        [(torch.randn(batch, 8, 40), tokens(batch, length)) for batch, length in SHAPES],
    )


@pytest.fixture
def geometric_layers() -> Iterator[Any]:
    """The layers of torch_geometric, which replaces functions of torch's when it is imported: not for other tests."""
    before = dict(vars(torch))
    yield pytest.importorskip("torch_geometric.nn")
    for name, value in before.items():
        if vars(torch).get(name) is not value:
            setattr(torch, name, value)


@pytest.mark.parametrize("kind", ["GCNConv", "GATConv"])
def test_graphs_of_different_sizes(kind: str, geometric_layers: Any) -> None:
    layers = geometric_layers
    torch.manual_seed(0)
    first, second = getattr(layers, kind)(6, 8), getattr(layers, kind)(8, 4)

    def forward(x: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = second(first(x, edges).relu(), edges)
        return result

    inputs = []
    for nodes, edges in ((10, 24), (13, 30), (17, 44), (11, 29), (25, 60)):
        chance = torch.Generator().manual_seed(nodes)
        inputs.append((torch.randn(nodes, 6), torch.randint(0, nodes, (2, edges), generator=chance)))
    over_shapes(forward, inputs)


def test_training_over_lengths() -> None:
    def train(compile: Callable[..., Any]) -> list[torch.Tensor]:
        model = llama().train()
        step = compile(lambda ids: model(ids, labels=ids, use_cache=False).loss)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        losses = []
        for number, shape in enumerate(SHAPES):
            before = graphs()
            loss = step(tokens(*shape))
            assert number < 3 or graphs() == before
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            losses.append(loss.detach())
        return losses

    same(train(lambda function: magneto.compile(function, backend="eager")), train(lambda function: function))
