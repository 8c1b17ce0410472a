"""Whole train steps against torch.compile: the time to the first finished step, a later step, memory.

A step is forward, loss, backward, the optimizer (AdamW, foreach, with a schedule that changes its rate) and
`zero_grad`, in one compiled function. Each front end and backend runs in a process of its own, without caches on disk;
plain eager runs beside. `first` is less a later step; `update` is the optimizer's step alone, compiled. That all have
eager's losses is checked.

--backend NAME  one of eager, aot_eager, inductor
--only NAME     one model
--steps N       later steps that are timed (30)
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

MODELS = ("MLP", "BERT", "GPT-2", "ViT", "LSTM")
BACKENDS = ("eager", "aot_eager", "inductor")


def make(name: str) -> tuple[Any, Callable[[Any], Any]]:
    """A model, and its loss."""
    import torch
    import transformers
    from torch import nn

    torch.manual_seed(0)
    if name == "MLP":
        layers = [layer for _ in range(10) for layer in (nn.Linear(64, 64), nn.ReLU())]
        inputs, target = torch.randn(16, 64), torch.randn(16, 64)
        return nn.Sequential(*layers), lambda model: nn.functional.mse_loss(model(inputs), target)
    if name == "LSTM":
        inputs, target = torch.randn(4, 16, 32), torch.randn(4, 16, 32)
        return nn.LSTM(32, 32, 2, batch_first=True), lambda model: nn.functional.mse_loss(
            model(inputs)[0], target
        )
    ids = torch.randint(0, 100, (2, 16))
    if name == "BERT":
        config = transformers.BertConfig(
            vocab_size=100, hidden_size=64, num_hidden_layers=4, num_attention_heads=4, intermediate_size=128,
            hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
        )  # fmt: skip
        labels = torch.tensor([0, 1])
        return transformers.BertForSequenceClassification(
            config
        ), lambda model: model(ids, labels=labels).loss
    if name == "GPT-2":
        config = transformers.GPT2Config(
            vocab_size=100, n_embd=64, n_layer=4, n_head=4, use_cache=False, resid_pdrop=0.0, embd_pdrop=0.0,
            attn_pdrop=0.0,
        )  # fmt: skip
        return transformers.GPT2LMHeadModel(config), lambda model: model(ids, labels=ids).loss
    config = transformers.ViTConfig(
        hidden_size=64, num_hidden_layers=4, num_attention_heads=4, intermediate_size=128, image_size=64,
        hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
    )  # fmt: skip
    images, labels = torch.randn(2, 3, 64, 64), torch.tensor([0, 1])
    return transformers.ViTForImageClassification(config), lambda model: model(images, labels=labels).loss


def measure(front: str, backend: str, name: str, steps: int) -> None:
    """In a process of its own: print the figures."""
    import torch

    torch.set_num_threads(1)
    model, loss_of = make(name)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=True)
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.99)

    def step() -> Any:
        loss = loss_of(model)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    def update() -> None:
        optimizer.step()

    compile_: Callable[..., Any] = lambda function, backend: function  # noqa: E731
    if front == "torch":
        compile_ = torch.compile
    elif front == "magneto":
        import magneto

        compile_ = magneto.compile
    compiled = compile_(step, backend=backend)
    losses, times = [], []
    for _ in range(steps + 5):
        start = time.perf_counter()
        losses.append(float(compiled()))
        times.append(time.perf_counter() - start)
        schedule.step()
    loss_of(model).backward()
    compiled_update = compile_(update, backend=backend)
    updates = []
    for _ in range(steps + 5):
        start = time.perf_counter()
        compiled_update()
        updates.append(time.perf_counter() - start)
    figures = {
        "first": times[0] - min(times[5:]), "five": sum(times[:5]), "later": min(times[5:]), "update": min(updates[5:]),
        "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, "losses": losses,
    }  # fmt: skip
    print(json.dumps(figures))


def run(front: str, backend: str, name: str, steps: int) -> dict[str, Any]:
    """The figures of a process."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": folder, "MAGNETO_CACHE_DIR": folder}
        command = [sys.executable, __file__, "--measure", front, "--backend", backend, "--only", name]
        done = subprocess.run(
            [*command, "--steps", str(steps)], env=environment, capture_output=True, text=True, check=False
        )
    if done.returncode != 0:
        sys.exit(done.stderr)
    figures: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return figures


def row(name: str, backend: str, eager: dict[str, Any], steps: int) -> str:
    """One line of the table. The losses of all three are the same, or it raises."""
    theirs, ours = run("torch", backend, name, steps), run("magneto", backend, name, steps)
    for figures in (theirs, ours):
        far = max(abs(a - b) for a, b in zip(eager["losses"], figures["losses"], strict=True))
        assert far < 1e-3, f"{name}, {backend}: the losses differ by {far}"

    def both(key: str, factor: float, form: str) -> str:
        return f"{theirs[key] * factor:{form}}, {ours[key] * factor:{form}}"

    return (
        f"| {name} | {backend} | {both('first', 1e3, '.0f')} ms | {theirs['first'] / ours['first']:.1f} | "
        f"{both('five', 1e3, '.0f')} ms | {eager['later'] * 1e3:.2f}, {both('later', 1e3, '.2f')} ms | "
        f"{theirs['later'] / ours['later']:.2f} | {eager['update'] * 1e6:.0f}, {both('update', 1e6, '.0f')} us | "
        f"{both('memory', 1, '.0f')} MB |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--backend", choices=BACKENDS)
    parser.add_argument("--only", choices=MODELS)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--measure", choices=("eager", "torch", "magneto"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure is not None:
        measure(options.measure, options.backend, options.only, options.steps)
        return
    print(
        "| | backend | first step, both | ratio | first five, both | later: eager, both | ratio | "
        "update: eager, both | memory |\n" + "|---" * 9 + "|"
    )
    for name in MODELS if options.only is None else (options.only,):
        eager = run("eager", "eager", name, options.steps)
        for backend in BACKENDS if options.backend is None else (options.backend,):
            print(row(name, backend, eager, options.steps), flush=True)


if __name__ == "__main__":
    main()
