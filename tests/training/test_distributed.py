"""Two processes on one machine, over gloo: eager's losses, parameters and results, whatever each captures.

All processes have a hard limit, and are killed at it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from . import ranks

ALL = os.environ.get("MAGNETO_TRAINING") == "all"
FEWER = (
    "ddp_model",
    "ddp_step",
    "ddp_no_sync",
    "ddp_breaks_on_one_rank",
    "fsdp_model",
    "tensor_parallel",
    "collective_",
)
NAMES = [name for name in ranks.PROGRAMS if ALL or name.startswith(FEWER)]

TESTS = Path(__file__).parent.parent
LIMIT = 240
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo", "PYTHONWARNINGS": "ignore"}


def run_all(commands: list[list[str]], limit: float = LIMIT) -> list[tuple[int | None, str]]:
    """Run processes side by side. What each returned and wrote; None for those that were killed at the limit."""
    processes = [
        subprocess.Popen(
            command, cwd=TESTS, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        for command in commands
    ]
    results: list[tuple[int | None, str]] = []
    try:
        for process in processes:
            try:
                output, _ = process.communicate(timeout=limit)
                results.append((process.returncode, output))
            except subprocess.TimeoutExpired:
                process.kill()
                results.append((None, process.communicate()[0]))
    finally:
        for process in processes:
            if process.poll() is None:
                process.kill()
                process.wait()
    return results


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """What all programs did, by rank."""
    folder = tmp_path_factory.mktemp("ranks")
    command = [sys.executable, "-m", "training.ranks", str(folder)]
    results = run_all([[*command, str(rank), *NAMES] for rank in range(ranks.SIZE)])
    assert [code for code, _ in results] == [0] * ranks.SIZE, results
    return [json.loads((folder / f"{rank}.json").read_text()) for rank in range(ranks.SIZE)]


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("name", NAMES)
def test_all_ranks_do_what_eager_does(found: list[dict[str, Any]], name: str, backend: str) -> None:
    for rank in found:
        result = rank[f"{name}-{backend}"]
        assert result["differs"] == []
        if name.startswith("collective_"):
            assert (result["breaks"] == 0) == (name not in ranks.BROKEN), result
        if name.startswith("ddp_"):
            assert result["graphs"] > 0


def test_graphs_inside_ddp_are_cut(found: list[dict[str, Any]]) -> None:
    for rank in found:
        for name in ("ddp_model", "ddp_step", "ddp_no_sync"):
            assert rank[f"{name}-aot_eager"]["buckets"] == 2
            assert rank[f"{name}-eager"]["buckets"] == 0  # its gradients come one by one


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[Callable[[str], str]]:
    """Runs a program in a process group of one process; what it prints."""
    start = f"""
        import torch, torch.distributed as dist, magneto
        from torch import nn
        from torch.nn.parallel import DistributedDataParallel
        dist.init_process_group("gloo", store=dist.FileStore({str(tmp_path / "store")!r}, 1), rank=0, world_size=1)
    """

    def run(code: str) -> str:
        (tmp_path / "store").unlink(missing_ok=True)
        text = textwrap.dedent(start) + textwrap.dedent(code)
        ((status, output),) = run_all([[sys.executable, "-c", text]])
        assert status == 0, output
        return output

    yield run


CUTS = """
        class Net(nn.Module):  # torch.compile does not start in torch's own
            def __init__(self, layers):
                super().__init__()
                self.layers = nn.ModuleList(layers)
            def forward(self, x):
                for layer in self.layers:
                    x = layer(x)
                return x
        def graphs(compiler, sizes, cap):
            torch.manual_seed(0)
            seen = []
            def backend(module, inputs):
                seen.append(sum(node.op.startswith("call_") for node in module.graph.nodes))
                return module.forward
            layers = []
            for size in sizes:
                layers += [nn.Linear(64, size), nn.ReLU(), nn.Linear(size, 64)]
            model = DistributedDataParallel(Net(layers), bucket_cap_mb=cap)
            torch.compiler.reset()
            compiler(model, backend=backend)(torch.ones(2, 64)).sum().backward()
            return seen
        for sizes in ([64], [4096], [4096, 4096, 4096], [8192, 64, 8192, 64], [2048] * 6):
            for cap in (1, 2, 25):
                print("cut", sizes, cap, graphs(COMPILER.compile, sizes, cap))
"""


@pytest.mark.skipif(not ALL, reason="with MAGNETO_TRAINING=all")
def test_cut_as_by_torch_compile(alone: Callable[[str], str]) -> None:
    ours, theirs = (
        [line for line in alone(CUTS.replace("COMPILER", name)).splitlines() if line.startswith("cut")]
        for name in ("magneto", "torch")
    )
    assert len(ours) == 15
    assert ours == theirs, [*zip(ours, theirs, strict=True)]


def test_no_cut_where_the_setting_says_so(alone: Callable[[str], str]) -> None:
    output = alone("""
        magneto.config.optimize_ddp = False
        model = DistributedDataParallel(nn.Sequential(nn.Linear(64, 64), nn.Linear(64, 64)), bucket_cap_mb=0.01)
        magneto.compile(model, backend="aot_eager")(torch.ones(2, 64)).sum().backward()
        print("buckets", magneto.counters["stats"]["buckets"])
    """)
    assert "buckets 0" in output


def test_a_group_that_is_replaced_is_captured_again(alone: Callable[[str], str]) -> None:
    output = alone("""
        def f(x):
            y = x * 2
            dist.all_reduce(y, group=group)
            return y + dist.get_world_size(group)
        compiled = magneto.compile(f, backend="eager", fullgraph=True)
        group = None
        print(compiled(torch.ones(1)).item())
        group = dist.new_group([0])
        print(compiled(torch.ones(1)).item(), magneto.counters["stats"]["unique_graphs"])
    """)
    assert "3.0\n3.0 2" in output


DYING = """
    import datetime, os, sys, torch, torch.distributed as dist, magneto
    from torch import nn
    from torch.nn.parallel import DistributedDataParallel
    rank, folder = int(sys.argv[1]), sys.argv[2]
    dist.init_process_group(
        "gloo", store=dist.FileStore(folder + "/store", 2), rank=rank, world_size=2,
        timeout=datetime.timedelta(seconds=20),
    )
    model = magneto.compile(DistributedDataParallel(nn.Linear(4, 2)), backend="aot_eager")
    for step in range(3):
        if rank == 1 and step == 1:
            os._exit(3)
        try:
            model(torch.ones(2, 4)).sum().backward()
        except RuntimeError as error:
            print("told:", type(error).__name__)
            os._exit(0)
"""


def test_a_rank_that_dies_is_an_error_on_the_others(tmp_path: Path) -> None:
    code = textwrap.dedent(DYING)
    (first, output), (second, _) = run_all(
        [[sys.executable, "-c", code, str(rank), str(tmp_path)] for rank in range(2)], limit=90
    )
    assert second == 3
    assert first == 0, output
    assert "told: RuntimeError" in output


@pytest.mark.skipif(not ALL, reason="with MAGNETO_TRAINING=all")
def test_torchrun(tmp_path: Path) -> None:
    path = tmp_path / "program.py"
    path.write_text(
        textwrap.dedent("""
        import torch, torch.distributed as dist, magneto
        from torch import nn
        from torch.nn.parallel import DistributedDataParallel
        dist.init_process_group("gloo")
        torch.manual_seed(0)
        net = nn.Linear(4, 2)
        model = magneto.compile(DistributedDataParallel(net), backend="aot_eager")
        model(torch.full((2, 4), float(dist.get_rank()))).sum().backward()
        print("gradient", net.weight.grad[0, 0].item(), flush=True)
        dist.barrier()
        dist.destroy_process_group()
    """)
    )
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", str(path)]
    ((status, output),) = run_all([command], limit=120)
    assert status == 0, output
    assert output.count("gradient 1.0") == 2, output
