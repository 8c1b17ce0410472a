"""A first call in a new process whose caches are filled, against torch.compile, with inductor.

Each model is run in processes of its own: torch.compile and magneto, cold (which fills the caches) and warm. What is
shown of the warm ones is the time of the first call less that of a later one, how many modules of torch were imported
for it, and a later call.

--train      with gradients: forward and backward, where inductor's own caches are all there is
--layers N   of each model (12; a Llama has 4 more)
--only NAME  one model
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from typing import Any

NAMES = ("BERT", "GPT-2", "Llama", "ViT")


def make(name: str, layers: int) -> tuple[Any, tuple[Any, ...]]:
    """A model, and its inputs."""
    import torch
    import transformers

    torch.manual_seed(0)
    ids = torch.randint(0, 1000, (1, 32))
    if name == "BERT":
        config = transformers.BertConfig(
            vocab_size=1000, hidden_size=64, num_hidden_layers=layers, num_attention_heads=4,
            intermediate_size=128,
        )  # fmt: skip
        return transformers.BertModel(config), (ids,)
    if name == "GPT-2":
        config = transformers.GPT2Config(
            vocab_size=1000, n_embd=64, n_layer=layers, n_head=4, use_cache=False
        )
        return transformers.GPT2Model(config), (ids,)
    if name == "Llama":
        config = transformers.LlamaConfig(
            vocab_size=1000, hidden_size=64, intermediate_size=128, num_hidden_layers=layers + 4,
            num_attention_heads=4, num_key_value_heads=2, use_cache=False,
        )  # fmt: skip
        return transformers.LlamaModel(config), (ids,)
    config = transformers.ViTConfig(
        hidden_size=64, num_hidden_layers=layers, num_attention_heads=4, intermediate_size=128, image_size=64
    )
    return transformers.ViTModel(config), (torch.randn(1, 3, 64, 64),)


def measure(compiler: str, name: str, layers: int, train: bool) -> None:
    """In a process of its own: print the figures."""
    import torch

    torch.set_num_threads(1)
    model, inputs = make(name, layers)
    model.train(train)
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    if compiler == "torch":
        compiled = torch.compile(model)
    else:
        import magneto

        compiled = magneto.compile(model, options={"aot": True})

    def step() -> float:
        start = time.perf_counter()
        result = compiled(*inputs)[0]
        if train:
            result.sum().backward()
        return time.perf_counter() - start

    before = {
        name for name in sys.modules if name.startswith("torch.")
    }  # transformers imports torch._dynamo itself
    with torch.set_grad_enabled(train):
        first = step()
        imported = sum(name.startswith("torch.") and name not in before for name in sys.modules)
        later = min(step() for _ in range(30))
        expected, found = model(*inputs)[0], compiled(*inputs)[0]
    right = torch.allclose(expected, found, 1e-3, 1e-4)
    print(json.dumps({"first": first - later, "later": later, "imported": imported, "right": right}))


def run(folder: str, compiler: str, name: str, layers: int, train: bool) -> dict[str, Any]:
    """The figures of a process."""
    environment = {
        **os.environ,
        "TORCHINDUCTOR_CACHE_DIR": os.path.join(folder, compiler),
        "MAGNETO_CACHE_DIR": os.path.join(folder, "graphs"),
    }
    command = [sys.executable, __file__, "--measure", compiler, "--only", name, "--layers", str(layers)]
    done = subprocess.run(
        command + ["--train"] * train, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        sys.exit(done.stderr)
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--train", action="store_true")
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--only", choices=NAMES)
    parser.add_argument("--measure", choices=("torch", "magneto"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure is not None:
        measure(options.measure, options.only, options.layers, options.train)
        return
    print(
        "| | torch.compile | magneto | ratio | a later call | ratio | imported, both | cold, both |\n"
        + "|---" * 8
        + "|"
    )
    for name in NAMES if options.only is None else (options.only,):
        with tempfile.TemporaryDirectory() as folder:
            figures = {}
            for compiler in ("torch", "magneto"):
                cold = run(folder, compiler, name, options.layers, options.train)
                warm = [run(folder, compiler, name, options.layers, options.train) for _ in range(2)]
                assert cold["right"] and all(one["right"] for one in warm), "the results are wrong"
                best = min(warm, key=lambda one: float(one["first"]))
                figures[compiler] = {**best, "cold": cold["first"]}
            theirs, ours = figures["torch"], figures["magneto"]
            print(
                f"| {name} | {theirs['first'] * 1e3:.0f} ms | {ours['first'] * 1e3:.1f} ms | "
                f"{theirs['first'] / ours['first']:.0f} | {theirs['later'] * 1e3:.2f}, {ours['later'] * 1e3:.2f} ms | "
                f"{theirs['later'] / ours['later']:.2f} | {theirs['imported']}, {ours['imported']} | "
                f"{theirs['cold']:.1f}, {ours['cold']:.1f} s |",
                flush=True,
            )


if __name__ == "__main__":
    main()
