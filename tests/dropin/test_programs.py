"""Programs of real libraries with `magneto.install()`: results as in eager, graphs and breaks as by torch.compile.

`make test` runs a part; `make dropin` sets MAGNETO_DROPIN=all and runs every program of `programs`.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).resolve().parent
PROGRAMS = {
    "accelerate_loop": "accelerate",
    "ddp_gloo": "torch",
    "diffusers_denoise": "diffusers",
    "geometric_graphs": "torch_geometric",
    "kornia_images": "kornia",
    "lightning_fabric": "lightning",
    "lightning_trainer": "lightning",
    "peft_lora": "peft",
    "sentence_transformers_encode": "sentence_transformers",
    "sglang_pieces": "torch",
    "torchao_quantize": "torchao",
    "transformers_generate": "transformers",
    "transformers_trainer": "accelerate",
    "vllm_pieces": "torch",
    "x_transformers_text": "x_transformers",
}
"""What each of them needs."""

SAMPLE = ["lightning_fabric", "sglang_pieces", "transformers_generate", "vllm_pieces"]
NAMES = sorted(PROGRAMS) if os.environ.get("MAGNETO_DROPIN") == "all" else SAMPLE

MORE: dict[str, tuple[int, int, str]] = {
    "ddp_gloo": (
        2,
        5,
        "DistributedDataParallel's own forward is captured around its calls of C++ objects",
    ),
    "geometric_graphs": (8, 4, "an iterator over pairs of modules that lives over a break is not captured"),
}
"""Programs with more graphs or breaks than by torch.compile: how many at most, and why."""

pytestmark = pytest.mark.no_leak_hunt("each program runs in a process of its own")


def run(name: str) -> list[dict[str, Any]]:
    found = subprocess.run(
        [sys.executable, str(HERE / "run.py"), name], capture_output=True, text=True, timeout=600
    )
    assert found.returncode == 0, found.stderr[-4000:]
    return json.loads(found.stdout.splitlines()[-1])


def test_each_program_is_listed() -> None:
    assert sorted(PROGRAMS) == sorted(path.stem for path in (HERE / "programs").glob("[a-z]*.py"))
    assert set(SAMPLE) | set(MORE) <= set(PROGRAMS)


@pytest.mark.parametrize("name", NAMES)
def test_program(name: str) -> None:
    if importlib.util.find_spec(PROGRAMS[name]) is None:
        pytest.skip(f"{PROGRAMS[name]} is not installed")
    for figures in run(name):
        ours, theirs = figures["magneto"], figures["torch"]
        assert ours["difference"] is None
        assert ours["stock"] == 0, "TorchDynamo compiled frames"
        assert ours["graphs"] > 0
        if "error" in theirs:  # torch.compile fails where magneto does not
            continue
        assert theirs["difference"] is None
        assert ours["for_backend"] == theirs["for_backend"]
        more = ours["graphs"] > theirs["graphs"] or ours["breaks"] > theirs["breaks"]
        if name not in MORE:
            assert not more, figures
            continue
        graphs, breaks, reason = MORE[name]
        assert more, "it is as good now: take it off the list"
        assert ours["graphs"] <= graphs and ours["breaks"] <= breaks, (
            f"more than before, and not only: {reason}"
        )
