"""Graphs with gradients in a new process: AOTAutograd's and inductor's own caches hit, nothing is tried again."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

PROGRAM = """
import json
import torch
import magneto
from torch._inductor import cpu_vec_isa

probes = []
original = cpu_vec_isa.VecISA._probe_load
cpu_vec_isa.VecISA._probe_load = lambda isa, path: probes.append(str(isa)) or original(isa, path)
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2))
x = torch.randn(3, 4)
compiled = magneto.compile(model, backend="inductor")
compiled(x).square().sum().backward()
found = [parameter.grad for parameter in model.parameters()]
expected = torch.autograd.grad(model(x).square().sum(), list(model.parameters()))
counts = magneto.counters
print(json.dumps({
    "right": all(torch.allclose(*pair, 1e-4, 1e-5) for pair in zip(found, expected)),
    "hits": counts["aot_autograd"]["autograd_cache_hit"],
    "misses": counts["aot_autograd"]["autograd_cache_miss"],
    "probes": probes,
}))
"""

pytestmark = pytest.mark.no_leak_hunt("what is compiled is compiled in processes of their own")


def run(folder: Path) -> dict[str, Any]:
    environment = {
        **os.environ,
        "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor"),
        "MAGNETO_CACHE_DIR": str(folder / "graphs"),
    }
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=600, env=environment
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout.splitlines()[-1])


def test_a_new_process_finds_what_inductor_made(tmp_path: Path) -> None:
    cold, warm = run(tmp_path), run(tmp_path)
    assert cold["right"] and warm["right"]
    assert (cold["hits"], warm["hits"], warm["misses"]) == (0, 1, 0)
    assert warm["probes"] == []  # the cold one may have found them in inductor's cache
