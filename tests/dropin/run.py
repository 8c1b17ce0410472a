"""Run a program three times: eagerly, with torch.compile, after `magneto.install()`. Prints the figures as JSON.

    python tests/dropin/run.py NAME

torch.compile comes first, in the same process: the names that libraries have imported by then, and the functions that
they have wrapped, are those of a program that installs magneto late.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import logging
import os
import random
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any
from unittest import mock

import torch
import torch._dynamo

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

BACKEND = "dropin_counts"
FOR_BACKEND = "for the backend"


class Counts:
    """What one run did."""

    def __init__(self) -> None:
        self.graphs: list[int] = []
        self.stock = 0  # frames that TorchDynamo compiled


counts = Counts()


def count_graph(module: torch.fx.GraphModule, inputs: list[Any], **settings: Any) -> Any:
    counts.graphs.append(sum(node.op.startswith("call") for node in module.graph.nodes))
    return module.forward


def watch_torchdynamo() -> None:
    """Count the frames that TorchDynamo compiles."""
    from torch._dynamo import convert_frame

    inner = convert_frame._compile

    def counted(*args: Any, **kwargs: Any) -> Any:
        counts.stock += 1
        return inner(*args, **kwargs)

    convert_frame._compile = counted


def seed() -> None:
    import numpy

    random.seed(7)
    numpy.random.seed(7)
    torch.manual_seed(7)


def run(module: Any) -> tuple[Any, dict[str, Any]]:
    """The result of a run of a program, and its figures."""
    global counts
    backend = getattr(module, "BACKEND", BACKEND)
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    counts = Counts()
    seed()
    with tempfile.TemporaryDirectory() as folder:
        result = module.main(backend, Path(folder))
    stats = torch._dynamo.utils.counters["stats"]
    breaks = dict(torch._dynamo.utils.counters["graph_break"])
    return result, {
        "graphs": len(counts.graphs) or stats["unique_graphs"],
        "calls": sum(counts.graphs) or stats["calls_captured"],
        "breaks": sum(breaks.values()),
        "reasons": {str(reason)[:300]: times for reason, times in breaks.items()},
        "stock": counts.stock,
    }


def difference(expected: Any, found: Any, path: str = "result") -> str | None:
    """Where two results differ first; None if they are equal."""
    if type(expected) is not type(found):
        return f"{path} is a {type(found)} and not a {type(expected)}"
    if isinstance(expected, dict):
        if list(expected) != list(found):
            return f"{path} has the keys {list(found)} and not {list(expected)}"
        pairs: Any = [(key, expected[key], found[key]) for key in expected if key != FOR_BACKEND]
    elif isinstance(expected, (list, tuple)):
        if len(expected) != len(found):
            return f"{path} has {len(found)} items and not {len(expected)}"
        pairs = [(index, *both) for index, both in enumerate(zip(expected, found, strict=True))]
    elif isinstance(expected, torch.Tensor):
        same = expected.dtype == found.dtype and expected.shape == found.shape
        if not same or not torch.allclose(expected, found, 1e-5, 1e-6, equal_nan=True):
            return f"{path} is {found} and not {expected}"
        return None
    else:
        near = isinstance(expected, float) and abs(expected - found) <= 1e-5 * max(1, abs(expected))
        return None if expected == found or near else f"{path} is {found!r} and not {expected!r}"
    for key, one, other in pairs:
        where = difference(one, other, f"{path}[{key!r}]")
        if where is not None:
            return where
    return None


def for_backend(result: Any) -> Any:
    return result.get(FOR_BACKEND) if isinstance(result, dict) else None


def figures(name: str) -> dict[str, Any]:
    """Run a program in the three ways."""
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    torch.set_num_threads(1)
    torch._dynamo.register_backend(count_graph, name=BACKEND)
    watch_torchdynamo()
    module = importlib.import_module(f"dropin.programs.{name}")
    nothing = mock.patch.object(
        torch.compiler, "set_stance", lambda *args, **kwargs: contextlib.nullcontext()
    )
    with torch.compiler.set_stance("force_eager"), nothing:
        expected, plain = run(module)
    assert plain["graphs"] == 0, plain
    try:
        by_torch, theirs = run(module)
        theirs["difference"], theirs["for_backend"] = difference(expected, by_torch), for_backend(by_torch)
    except torch._dynamo.exc.TorchDynamoException as error:
        theirs = {"error": f"{type(error).__name__}: {error}"[:300]}
    import magneto

    magneto.install()
    by_magneto, ours = run(module)
    magneto.uninstall()
    ours["difference"], ours["for_backend"] = difference(expected, by_magneto), for_backend(by_magneto)
    return {"torch": theirs, "magneto": ours}


def in_processes(name: str, rank: int, folder: str) -> None:
    """One of the processes of a program that has several."""
    import torch.distributed as dist

    count = importlib.import_module(f"dropin.programs.{name}").PROCESSES
    dist.init_process_group("gloo", f"file://{folder}/meet", rank=rank, world_size=count)
    found = figures(name)
    dist.destroy_process_group()
    Path(folder, str(rank)).write_text(json.dumps(found))


def main(name: str) -> None:
    """Run the program of this name, and print its figures: a list, one for each process."""
    module = importlib.import_module(f"dropin.programs.{name}")
    processes = getattr(module, "PROCESSES", 1)
    if processes == 1:
        found = [figures(name)]
    else:
        import subprocess

        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, __file__, name]
            running = [subprocess.Popen([*command, str(rank), folder]) for rank in range(processes)]
            assert [one.wait() for one in running] == [0] * processes
            found = [json.loads(Path(folder, str(rank)).read_text()) for rank in range(processes)]
    print(json.dumps(found))


if __name__ == "__main__":
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    os.environ.setdefault("ACCELERATE_USE_CPU", "1")
    if len(sys.argv) > 2:
        in_processes(sys.argv[1], int(sys.argv[2]), sys.argv[3])
    else:
        main(sys.argv[1])
