"""How programs are run: in eager, captured, and by torch.compile."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest
import torch
from torch import fx
from torch.utils import _pytree as pytree

import magneto

Made = tuple[Callable[..., Any], Sequence[tuple[Any, ...]], Iterable[torch.Tensor]]
"""A function, the arguments of several calls, and the tensors whose gradients are looked at."""

PROGRAMS: dict[str, Callable[[], Made]] = {}

# Where torch.compile fails with a backend as well, and why.
FAILS = {
    "aot_eager": {
        "flex_gradients_of_a_buffer": "torch's backward of flex_attention wants a gradient of the query",
        "flex_gradients_of_a_parameter": "torch's backward of flex_attention wants a gradient of the query",
    },
    "inductor": {
        "flex_several_layers": "inductor fuses nothing into flex_attention on a CPU, and fails",
        "flex_gradients_of_groups": "inductor has no backward of flex_attention on a CPU",
    },
}


def program(make: Callable[[], Made]) -> Callable[[], Made]:
    """Add a program, which is made anew for each way to run it."""
    assert make.__name__ not in PROGRAMS
    PROGRAMS[make.__name__] = make
    return make


# Programs whose functions belong to a class that each run makes: eager's torch.cond and scan compile them anew.
CLASSES = {"cond_methods", "scan_in_module"}

KEPT = pytest.mark.no_leak_hunt(
    "TorchDynamo, which compiles for torch.cond, scan and flex_attention in eager, keeps what it made"
)
TEXTS = pytest.mark.no_leak_hunt("torch.compile's guard on the state of functorch leaks a text")


def parameters() -> list[Any]:
    """The names of all programs, for tests that call them in eager too."""
    return [
        pytest.param(name, marks=[KEPT] if name in CLASSES or name.startswith("flex") else [])
        for name in PROGRAMS
    ]


def parameters_by_torch(without: Iterable[str]) -> list[Any]:
    """The names of programs, for tests that have torch.compile compile them."""
    names = (name for name in PROGRAMS if name not in without)
    return [pytest.param(name, marks=[TEXTS] if name.startswith(("vmap", "flex")) else []) for name in names]


def made(make: Callable[[], Made]) -> Made:
    torch.manual_seed(1)
    return make()


def gradients(result: Any, wanted: list[torch.Tensor], order: int) -> list[Any]:
    """The gradients of a result, and of these in turn."""
    leaves = [
        one for one in pytree.tree_leaves(result) if isinstance(one, torch.Tensor) and one.requires_grad
    ]
    found: list[Any] = [
        [one.requires_grad for one in pytree.tree_leaves(result) if isinstance(one, torch.Tensor)]
    ]
    for level in range(1, order + 1):
        if not leaves or not wanted:
            break
        total = sum((one * one).sum() for one in leaves)
        try:
            grads = torch.autograd.grad(total, wanted, create_graph=level < order, allow_unused=True)
        except RuntimeError as error:
            found.append(len(str(error)))  # the texts may name nodes
            break
        found.append(grads)
        leaves = [one for one in grads if one is not None and one.requires_grad]
    return found


def outcomes(made: Made, function: Callable[..., Any], order: int) -> list[Any]:
    """What each call returns or raises, and the gradients."""
    _, calls, parameters = made
    found: list[Any] = []
    for args in calls:
        torch.manual_seed(2)
        try:
            result = function(*args)
        except Exception as error:
            found.append(type(error).__name__)
            continue
        inputs = [
            one for one in pytree.tree_leaves(args) if isinstance(one, torch.Tensor) and one.requires_grad
        ]
        wanted = [*parameters, *inputs]
        grads = gradients(result, [one for one in wanted if one.requires_grad], order)
        found.append((pytree.tree_map(_value, result), pytree.tree_map(_value, grads), float(torch.rand(()))))
    return found


def _value(value: Any) -> Any:
    return value.detach().clone() if isinstance(value, torch.Tensor) else value


def assert_same(found: Any, expected: Any) -> None:
    torch.testing.assert_close(found, expected, equal_nan=True)


class Graphs:
    """A backend that keeps what it is given."""

    def __init__(self) -> None:
        self.graphs: list[fx.GraphModule] = []

    def __call__(self, module: fx.GraphModule, inputs: Any) -> Any:
        self.graphs.append(module)
        return module


def shape(module: fx.GraphModule) -> list[Any]:
    """A graph without names: operations, what they are given, and subgraphs.

    Inputs are numbered by their first use, and parts of results that nobody uses are left out.
    """
    numbers: dict[fx.Node, int] = {}
    found: list[Any] = [sum(node.op == "placeholder" for node in module.graph.nodes)]

    def text(node: fx.Node) -> str:
        return f"%{numbers.setdefault(node, len(numbers))}"

    for node in module.graph.nodes:
        if node.op == "placeholder" or (node.target is operator.getitem and not node.users):
            continue
        if node.op == "get_attr":
            held = getattr(module, node.target)
            found.append((node.target, shape(held)) if isinstance(held, fx.GraphModule) else node.target)
        else:
            target = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", "?")
            args = fx.node.map_arg((node.args, node.kwargs), text)
            name = target.strip("_")
            is_operator = hasattr(
                operator, f"__{name}__"
            )  # under a TorchFunctionMode, TorchDynamo records the method of it
            found.append(("operator", name, str(args)) if is_operator else (node.op, target, str(args)))
        text(node)
    return found


def captured(found: Callable[[], Any]) -> Any:
    """What a function returns that has to capture all that it runs."""
    magneto.counters.clear()
    result = found()
    assert magneto.counters["stats"]["unique_graphs"] > 0
    assert not magneto.counters["graph_break"], magneto.counters["graph_break"]
    return result


def by_magneto(function: Any, backend: Any, **options: Any) -> Any:
    return magneto.compile(function, backend=backend, **{"fullgraph": True, "dynamic": False, **options})


def by_torch(function: Any, backend: Any, **options: Any) -> Any:
    torch._dynamo.reset()
    return torch.compile(function, backend=backend, **{"fullgraph": True, "dynamic": False, **options})
