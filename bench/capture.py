"""Capture against torch.compile(backend="eager"): how long does the first call of a compiled model take?

Both capture the same models in turns, in one process, each capture repeated after a reset; what is shown is the fastest
first call of each, less the time of a later call, and the ratio between them.
"""

from __future__ import annotations

import argparse
import math
import platform
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn

import magneto

Case = tuple[str, nn.Module | Callable[..., Any], tuple[Any, ...], dict[str, Any]]


def adds(x: torch.Tensor) -> torch.Tensor:
    for _ in range(5_000):
        x = torch.add(x, 1)
    return x


def transformers_cases() -> Iterator[Case]:
    """Models of the transformers package, small widths, real depths."""
    try:
        import transformers as t
    except ImportError:
        print("(transformers is not installed: its models are left out)")
        return
    ids = torch.randint(0, 100, (2, 8))
    bert: dict[str, Any] = {
        "hidden_size": 32, "num_hidden_layers": 12, "num_attention_heads": 4, "intermediate_size": 64,
        "vocab_size": 100, "max_position_embeddings": 64,
    }  # fmt: skip
    llama = {**bert, "num_hidden_layers": 16, "num_key_value_heads": 2}
    yield "BERT, 12 layers", t.BertModel(t.BertConfig(**bert)), (), {"input_ids": ids}
    gpt2 = t.GPT2Config(n_embd=32, n_layer=12, n_head=4, vocab_size=100)
    yield "GPT-2, 12 layers", t.GPT2LMHeadModel(gpt2), (), {"input_ids": ids, "use_cache": False}
    yield (
        "Llama, 16 layers",
        t.LlamaForCausalLM(t.LlamaConfig(**llama)),
        (),
        {"input_ids": ids, "use_cache": False},
    )
    t5 = t.T5Config(d_model=32, d_kv=8, d_ff=64, num_layers=6, num_heads=4, vocab_size=100)
    yield (
        "T5, 6+6 layers",
        t.T5Model(t5),
        (),
        {"input_ids": ids, "decoder_input_ids": ids, "use_cache": False},
    )


def cases() -> Iterator[Case]:
    x = torch.randn(4, 16)
    yield "5,000 adds", adds, (x,), {}
    layers = [layer for _ in range(50) for layer in (nn.Linear(16, 16), nn.ReLU())]
    yield "MLP, 50 layers", nn.Sequential(*layers), (x,), {}
    encoder = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True)
    yield "nn.TransformerEncoder, 6", nn.TransformerEncoder(encoder, 6), (torch.randn(2, 5, 16),), {}
    yield from transformers_cases()


def fastest(make: Callable[[], Callable[..., Any]], case: Case, repeat: int) -> tuple[float, float]:
    """The fastest first call and the fastest later call, in seconds."""
    first = later = float("inf")
    for _ in range(repeat):
        compiled = make()
        start = time.perf_counter()
        compiled(*case[2], **case[3])
        first = min(first, time.perf_counter() - start)
        for _ in range(3):
            start = time.perf_counter()
            compiled(*case[2], **case[3])
            later = min(later, time.perf_counter() - start)
    return first, later


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--only", default="", help="just the cases whose name has this in it")
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    torch.manual_seed(0)

    from torch import _dynamo

    print(f"capture against torch.compile {torch.__version__}, backend eager, on {platform.machine()}")
    print(f"{'case':26}{'torch.compile':>15}{'magneto':>12}{'ratio':>8}{'a call':>10}{'a call':>10}")
    ratios = []
    with torch.no_grad():
        for case in cases():
            if options.only not in case[0]:
                continue
            model = case[1].eval() if isinstance(case[1], nn.Module) else case[1]

            def theirs(model: Any = model) -> Callable[..., Any]:
                _dynamo.reset()
                return torch.compile(model, backend="eager")

            def ours(model: Any = model) -> Callable[..., Any]:
                magneto.reset()
                return magneto.compile(model, backend="eager")

            fastest(theirs, case, 1)  # both warm: all imports made, all caches filled
            fastest(ours, case, 1)
            their_first, their_later = fastest(theirs, case, options.repeat)
            our_first, our_later = fastest(ours, case, 2 * options.repeat)
            ratio = (their_first - their_later) / (our_first - our_later)
            ratios.append(ratio)
            print(
                f"{case[0]:26}{(their_first - their_later) * 1e3:13.1f}ms{(our_first - our_later) * 1e3:10.2f}ms"
                f"{ratio:8.0f}{their_later * 1e3:8.2f}ms{our_later * 1e3:8.2f}ms",
                flush=True,
            )
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    print(f"geometric mean of the ratios {mean:.0f}, the smallest {min(ratios):.0f}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
