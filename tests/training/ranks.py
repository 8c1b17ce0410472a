"""What two processes do in tests of distributed training: `python -m training.ranks FOLDER RANK NAME ...`.

Each program is run in eager and compiled, in all processes; what differs goes into FOLDER/RANK.json.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn, optim
from torch.distributed.algorithms.join import Join
from torch.distributed.device_mesh import init_device_mesh
from torch.nn.parallel import DistributedDataParallel

import magneto

from . import loops

SIZE = 2
SECONDS = 30

Program = Callable[[loops.Wrap], list[Any]]
PROGRAMS: dict[str, Program] = {}


def program(name: str) -> Callable[[Program], Program]:
    def add(function: Program) -> Program:
        PROGRAMS[name] = function
        return function

    return add


def net() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 4))


def batches(count: int = 4, rows: int = 5) -> list[tuple[torch.Tensor, torch.Tensor]]:
    generator = torch.Generator().manual_seed(dist.get_rank())
    return [
        (torch.randn(rows, 8, generator=generator), torch.randn(rows, 4, generator=generator))
        for _ in range(count)
    ]


def whole(tensor: torch.Tensor) -> torch.Tensor:
    tensor = tensor.detach()
    return tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor.clone()


def train(wrap: loops.Wrap, model: nn.Module, outer: Any = None, how: str = "model") -> list[Any]:
    """Four steps; the model is compiled, or the whole step. Losses and parameters."""
    ready: Any = model if outer is None else outer
    optimizer = optim.SGD(model.parameters(), 0.1, momentum=0.9)
    forward: Any = wrap(ready) if how == "model" else ready

    def step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(forward(x), y)
        loss.backward()
        optimizer.step()
        return loss

    run = wrap(step) if how == "step" else step
    losses = [run(x, y).detach() for x, y in batches()]
    return [*losses, *map(whole, model.parameters()), *map(whole, model.buffers())]


def ddp(model: nn.Module, **options: Any) -> DistributedDataParallel:
    return DistributedDataParallel(model, bucket_cap_mb=0.01, **options)


def normed() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 64), nn.BatchNorm1d(64), nn.ReLU(inplace=True), nn.Linear(64, 4))


for _how in ("model", "step"):
    program(f"ddp_{_how}")(lambda wrap, how=_how: train(wrap, m := net(), ddp(m), how))  # type: ignore[misc]
program("ddp_inside")(lambda wrap: train(lambda f: f, m := net(), ddp(wrap(m))))  # type: ignore[arg-type]
program("ddp_static")(lambda wrap: train(wrap, m := net(), ddp(m, static_graph=True)))
program("ddp_unused")(lambda wrap: train(wrap, m := net(), ddp(m, find_unused_parameters=True)))
program("ddp_views")(lambda wrap: train(wrap, m := net(), ddp(m, gradient_as_bucket_view=True)))
program("ddp_batchnorm")(lambda wrap: train(wrap, m := normed(), ddp(m)))


@program("ddp_no_sync")
def ddp_no_sync(wrap: loops.Wrap) -> list[Any]:
    model = net()
    outer = ddp(model)
    forward = wrap(outer)
    optimizer = optim.SGD(model.parameters(), 0.1)
    for number, (x, y) in enumerate(batches()):
        with outer.no_sync() if number % 2 == 0 else contextlib.nullcontext():
            nn.functional.mse_loss(forward(x), y).backward()
        if number % 2 == 1:
            optimizer.step()
            optimizer.zero_grad()
    return list(map(whole, model.parameters()))


@program("ddp_uneven")
def ddp_uneven(wrap: loops.Wrap) -> list[Any]:
    model = net()
    outer = ddp(model)
    forward = wrap(outer)
    optimizer = optim.SGD(model.parameters(), 0.1)
    with Join([outer]):
        for x, y in batches(2 + 2 * dist.get_rank()):
            optimizer.zero_grad()
            nn.functional.mse_loss(forward(x), y).backward()
            optimizer.step()
    return list(map(whole, model.parameters()))


@program("ddp_breaks_on_one_rank")
def ddp_breaks_on_one_rank(wrap: loops.Wrap) -> list[Any]:
    """The ranks capture different graphs."""

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = net()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            hidden = self.body[0](x)
            if dist.get_rank() == 1:
                torch._dynamo.graph_break()
            return self.body[1:](hidden)

    return train(wrap, m := Net(), ddp(m))


@program("ddp_shapes_on_one_rank")
def ddp_shapes_on_one_rank(wrap: loops.Wrap) -> list[Any]:
    """One rank compiles again where the others do not."""
    model = net()
    forward = wrap(ddp(model))
    losses = []
    for number in range(4):
        rows = 5 + (number if dist.get_rank() == 1 else 0)
        ((x, y),) = batches(1, rows)
        loss = nn.functional.mse_loss(forward(x), y)
        loss.backward()
        losses.append(loss.detach())
    return [*losses, *(whole(parameter.grad) for parameter in model.parameters())]  # type: ignore[arg-type]


def sharded(model: nn.Module) -> nn.Module:
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh("cpu", (SIZE,))
    for layer in model.children():
        if isinstance(layer, nn.Linear):
            fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return model


for _how in ("model", "step"):
    program(f"fsdp_{_how}")(lambda wrap, how=_how: train(wrap, sharded(net()), how=how))  # type: ignore[misc]


@program("fsdp_checkpoint")
def fsdp_checkpoint(wrap: loops.Wrap) -> list[Any]:
    from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper

    model = net()
    model[2] = checkpoint_wrapper(model[2])
    return train(wrap, sharded(model))


@program("tensor_parallel")
def tensor_parallel(wrap: loops.Wrap) -> list[Any]:
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    mesh = init_device_mesh("cpu", (SIZE,))
    model = parallelize_module(net(), mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
    return train(wrap, model)


@program("dtensor")
def dtensor(wrap: loops.Wrap) -> list[Any]:
    from torch.distributed.tensor import DTensor, Replicate, Shard

    mesh = init_device_mesh("cpu", (SIZE,))

    def f(x: torch.Tensor) -> Any:
        found = DTensor.from_local(x, mesh, [Shard(0)])
        return (found * 2).redistribute(mesh, [Replicate()]).to_local() + 1

    return [wrap(f)(x) for x, _ in batches(2)]


def collective(function: Callable[[torch.Tensor], Any]) -> None:
    def run(wrap: loops.Wrap) -> list[Any]:
        compiled = wrap(function)
        return [compiled(x[:4].contiguous()) for x, _ in batches(3)]

    program(f"collective_{function.__name__}")(run)


@collective
def all_reduce(x: torch.Tensor) -> Any:
    y = x * 2
    found = dist.all_reduce(y)
    return y + 1, found


@collective
def all_reduce_max(x: torch.Tensor) -> Any:
    y = x * 2
    dist.all_reduce(y, dist.ReduceOp.MAX)
    return y + 1


@collective
def all_reduce_group(x: torch.Tensor) -> Any:
    y = x * 2
    dist.all_reduce(y, group=dist.group.WORLD)
    return y + 1


@collective
def all_reduce_input(x: torch.Tensor) -> Any:
    dist.all_reduce(x)
    return x


@collective
def broadcast(x: torch.Tensor) -> Any:
    y = x * 2
    dist.broadcast(y, 1)
    return y + 1


@collective
def all_gather(x: torch.Tensor) -> Any:
    out = [torch.empty_like(x) for _ in range(dist.get_world_size())]
    dist.all_gather(out, x * 2)
    return torch.cat(out)


@collective
def all_gather_into_tensor(x: torch.Tensor) -> Any:
    out = torch.empty(2 * x.shape[0], x.shape[1])
    dist.all_gather_into_tensor(out, x * 2)
    return out + 1


@collective
def reduce_scatter_tensor(x: torch.Tensor) -> Any:
    out = torch.empty(x.shape[0] // 2, x.shape[1])
    dist.reduce_scatter_tensor(out, x * 2)
    return out + 1


@collective
def functional(x: torch.Tensor) -> Any:
    from torch.distributed import _functional_collectives as functional_collectives

    return functional_collectives.all_reduce(x * 2, "sum", dist.group.WORLD) + 1


@collective
def rank_and_size(x: torch.Tensor) -> Any:
    return x * dist.get_rank() + dist.get_world_size() + dist.is_initialized()


# Breaks, each for its reason.
@collective
def asynchronous(x: torch.Tensor) -> Any:
    y = x * 2
    work = dist.all_reduce(y, async_op=True)
    work.wait()
    return y + 1


@collective
def with_gradient(x: torch.Tensor) -> Any:
    y = x.clone().requires_grad_() * 2
    with torch.no_grad():
        dist.all_reduce(y)
    return y.detach() + 1


@collective
def not_contiguous(x: torch.Tensor) -> Any:
    y = (x * 2).contiguous()
    dist.all_reduce(y[:, :4].contiguous())
    return y + 1


BROKEN = {"collective_asynchronous", "collective_with_gradient"}


def compare(name: str, backend: str) -> dict[str, Any]:
    """What is different from eager, and how much was captured."""
    expected = [*loops.flat(PROGRAMS[name](lambda function: function))]
    magneto.reset()
    magneto.counters.clear()
    found = [*loops.flat(PROGRAMS[name](lambda function: magneto.compile(function, backend=backend)))]
    pairs = zip(expected, found, strict=True)
    return {
        "differs": [str(pair) for pair in pairs if loops.differs(*pair)],
        "graphs": magneto.counters["stats"]["unique_graphs"],
        "buckets": magneto.counters["stats"]["buckets"],
        "breaks": sum(magneto.counters["graph_break"].values()),
    }


def main(folder: str, rank: str, *names: str) -> None:
    torch.set_num_threads(1)
    store = dist.FileStore(os.path.join(folder, "store"), SIZE)
    limit = datetime.timedelta(seconds=SECONDS)
    dist.init_process_group("gloo", store=store, rank=int(rank), world_size=SIZE, timeout=limit)
    found = {}
    for name in names:
        for backend in ("eager", "aot_eager"):
            found[f"{name}-{backend}"] = compare(name, backend)
            Path(folder, f"{rank}.json").write_text(json.dumps(found))
    dist.barrier()
    dist.destroy_process_group()
    sys.stdout.flush()
    os._exit(
        0
    )  # threads of gloo's may be left, for which libstdc++ ends a process that takes itself down with an abort


if __name__ == "__main__":
    main(*sys.argv[1:])
