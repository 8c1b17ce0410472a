"""Train steps, run in eager and compiled, and compared step by step."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn, optim

import magneto

STEPS = 8
FEW = 5

Wrap = Callable[[Callable[..., Any]], Callable[..., Any]]
Step = Callable[[torch.Tensor, torch.Tensor], Any]
Make = Callable[[Wrap], tuple[Step, Callable[[], list[Any]]]]


@dataclasses.dataclass
class Run:
    """What became of a loop."""

    log: list[list[Any]]
    """For each step what it returned, and what is watched: parameters, gradients, state, rates."""
    graphs: list[int]
    """How many graphs were captured in each step."""
    breaks: int


def net(bias: bool = True) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8, bias=bias), nn.ReLU(), nn.Linear(8, 3, bias=bias))


def watched(model: nn.Module, optimizer: torch.optim.Optimizer) -> list[Any]:
    """Parameters, gradients, the optimizer's state and its groups' numbers."""
    found: list[Any] = []
    for parameter in model.parameters():
        state = optimizer.state.get(parameter, {})
        found += [parameter, parameter.grad, *(state[key] for key in sorted(state))]
    for group in optimizer.param_groups:
        found += [group[key] for key in sorted(group) if key != "params"]
    return found


def _copy(value: Any) -> Any:
    return value.detach().clone() if isinstance(value, torch.Tensor) else value


def batches(steps: int) -> Iterable[tuple[torch.Tensor, torch.Tensor]]:
    for index in range(steps):
        generator = torch.Generator().manual_seed(index)
        yield torch.randn(5, 4, generator=generator), torch.randn(5, 3, generator=generator)


def run(make: Make, wrap: Wrap, steps: int = STEPS) -> Run:
    """Drive a loop: `make` gives the step, in which it has wrapped what is to be compiled, and what to watch."""
    torch.manual_seed(0)
    magneto.reset()  # graphs that another test has captured are counted again
    magneto.counters.clear()
    step, watch = make(wrap)
    result = Run([], [], 0)
    for x, y in batches(steps):
        before = magneto.counters["stats"]["unique_graphs"]
        returned = step(x, y)
        result.graphs.append(magneto.counters["stats"]["unique_graphs"] - before)
        result.log.append([_copy(value) for value in (returned, *watch())])
    result.breaks = sum(magneto.counters["graph_break"].values())
    return result


def differs(left: Any, right: Any, exact: bool = False) -> bool:
    if not isinstance(left, torch.Tensor):
        return type(left) is not type(right) or left != right
    tolerance = {"rtol": 0.0, "atol": 0.0} if exact else {"rtol": 1e-4, "atol": 2e-6}
    return left.dtype != right.dtype or not torch.allclose(left, right, **tolerance)


def check(make: Make, backend: str, late: int = 0, exact: bool = False) -> Run:
    """A compiled loop does what eager does, and captures nothing after its third step."""
    expected = run(make, lambda function: function)
    found = run(make, lambda function: magneto.compile(function, backend=backend))
    for index, (left, right) in enumerate(zip(expected.log, found.log, strict=True)):
        for one, other in zip(left, right, strict=True):
            assert not differs(one, other, exact), (index, one, other)
    assert sum(found.graphs[3:]) == late, found.graphs
    return found


class Counting:
    """A backend that counts: graphs that it was given, and in each step how many of them ran, and their operations."""

    def __init__(self) -> None:
        self.graphs = self.ran = self.operations = 0

    def __call__(self, graph: Any, examples: Any) -> Any:
        self.graphs += 1
        plain = {"placeholder", "output", "get_attr"}
        switches = {"getitem", "_set_grad_enabled", "_enter_autocast", "_exit_autocast"}
        nodes = [node for node in graph.graph.nodes if node.op not in plain]
        operations = sum(getattr(node.target, "__name__", "") not in switches for node in nodes)

        def call(*args: Any) -> Any:
            self.ran += 1
            self.operations += operations
            return graph.forward(*args)

        return call


@dataclasses.dataclass
class Counts:
    """What was captured of a program."""

    graphs: list[int]
    """How many graphs were captured in each step."""
    ran: int = 0
    """How many ran in the last step."""
    operations: int = 0
    """How many operations they had."""


def counted(make: Make, compiler: Any) -> tuple[Counts, list[list[Any]]]:
    """Run a program, compiled with a backend that counts."""
    torch.manual_seed(0)
    backend = Counting()
    step, watch = make(lambda function: compiler(function, backend=backend))
    found = Counts([])
    log = []
    for x, y in batches(FEW):
        before, backend.ran, backend.operations = backend.graphs, 0, 0
        returned = step(x, y)
        found.graphs.append(backend.graphs - before)
        found.ran, found.operations = backend.ran, backend.operations
        log.append([_copy(value) for value in flat([returned, watch()])])
    return found, log


def flat(value: Any) -> Iterable[Any]:
    if isinstance(value, (list, tuple)):
        for item in value:
            yield from flat(item)
    else:
        yield value


# --- programs: loops by name, whose graphs are compared with torch.compile's ---

PROGRAMS: dict[str, Make] = {}


def program(name: str, make: Make) -> None:
    assert name not in PROGRAMS, name
    PROGRAMS[name] = make


def mlp(width: int = 8) -> nn.Sequential:
    return nn.Sequential(nn.Linear(4, width), nn.ReLU(), nn.Linear(width, 3))


def state_of(models: Iterable[nn.Module], optimizers: Iterable[optim.Optimizer] = ()) -> list[Any]:
    """All that training changes: parameters, gradients, buffers, optimizer state, rates, the random state."""
    found: list[Any] = [torch.get_rng_state()]
    parameters = []
    for model in models:
        parameters += list(model.parameters())
        found += list(model.buffers())
    for parameter in parameters:
        found += [parameter, parameter.grad, parameter.requires_grad]
        for optimizer in optimizers:
            state = optimizer.state.get(parameter, {})
            found += [state[key] for key in sorted(state)]
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            found += [group[key] for key in sorted(group) if key != "params"]
    return found


def trained(
    wrap: Wrap,
    model: nn.Module,
    optimizer: optim.Optimizer | None = None,
    loss: Callable[..., torch.Tensor] = F.mse_loss,
    between: Callable[[nn.Module], Any] = lambda model: None,
) -> tuple[Step, Callable[[], list[Any]]]:
    """The plain step: forward, loss, backward, `between`, the update."""
    update = optim.SGD(model.parameters(), 0.05, momentum=0.9) if optimizer is None else optimizer

    def train(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        update.zero_grad()
        found = loss(model(x), y)
        found.backward()
        between(model)
        update.step()
        return found

    return wrap(train), lambda: state_of([model], [update])
