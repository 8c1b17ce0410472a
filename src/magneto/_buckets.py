"""Graphs inside DistributedDataParallel, cut where the buckets of gradients end.

DistributedDataParallel sends the gradients of a bucket to the other processes when all of them are there. A graph that
AOTAutograd has compiled gives all its gradients at once, at the end of its backward: nothing could be sent while it
runs. So a graph is cut into several, each with the parameters of one bucket, as TorchDynamo's DDPOptimizer does it.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import torch
from torch import fx
from torch._guards import TracingContext, tracing
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.passes.split_module import split_module

from magneto._config import config
from magneto._counters import counters

_SWITCHES = {"_set_grad_enabled", "_enter_autocast", "_exit_autocast"}


def wanted() -> Any:
    """The DistributedDataParallel whose forward is under way, if graphs are to be cut for it."""
    if config.optimize_ddp not in (True, "ddp_optimizer"):
        return None
    return torch.nn.parallel.DistributedDataParallel._get_active_ddp_module()  # type: ignore[no-untyped-call]


def _changes(node: fx.Node) -> fx.Node | None:
    """What an operation in place writes to, if captured code has made that."""
    name = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", "")
    writes = (name.endswith("_") and not name.endswith("__")) or name in (
        "setitem",
        "iadd",
        "imul",
        "isub",
        "itruediv",
    )
    first = node.args[0] if node.args else None
    return first if writes and isinstance(first, fx.Node) and first.op != "placeholder" else None


def _uncut(nodes: list[fx.Node]) -> set[int]:
    """Before which nodes no cut may be: in a block that switches a mode, and between a tensor and a write to it."""
    places = {node: place for place, node in enumerate(nodes)}
    found: set[int] = set()
    depth, start = 0, 0
    for place, node in enumerate(nodes):
        name = getattr(node.target, "__name__", "")
        if name == "_set_grad_enabled":
            depth, start = (1, place) if depth == 0 else (depth, start)
            if node.args == (True,):
                found.update(range(start + 1, place + 1))
                depth = 0
        elif name == "_enter_autocast":
            depth, start = depth + 1, place if depth == 0 else start
        elif name == "_exit_autocast":
            depth -= 1
            if depth == 0:
                found.update(range(start + 1, place + 1))
        written = _changes(node)
        if written is not None:
            found.update(range(places[written] + 1, place + 1))
    if depth > 0:  # a block that does not end
        found.update(range(start + 1, len(nodes)))
    return found


def buckets(graph: fx.Graph, given: Sequence[Any], cap: int) -> list[int]:
    """For each operation of a graph, in order, the number of its part; all 0 if it is to be left whole."""
    nodes = [node for node in graph.nodes if node.op not in ("placeholder", "output")]
    holders = [node for node in graph.nodes if node.op == "placeholder"]
    parameters = {
        node: value
        for node, value in zip(holders, given, strict=True)
        if isinstance(value, torch.nn.Parameter)
        and value.requires_grad
        and not getattr(value, "_ddp_ignored", False)
    }
    uncut = _uncut(nodes)
    first = min(torch.distributed._DEFAULT_FIRST_BUCKET_BYTES, cap)  # type: ignore[attr-defined]
    cuts: list[int] = []
    size, limit = 0, first
    for place in range(len(nodes) - 1, -1, -1):
        for argument in nodes[place].all_input_nodes:
            value = parameters.pop(argument, None)
            size += 0 if value is None else value.untyped_storage().nbytes()
        # what is left in front of a cut has parameters of its own
        if size >= limit and parameters and place > 0 and place not in uncut:
            cuts.append(place)
            size, limit = 0, cap
    parts, number = [], 0
    for place in range(len(nodes)):
        number += place in cuts
        parts.append(number)
    return parts


def _returning_tuple(part: fx.GraphModule) -> tuple[fx.GraphModule, bool]:
    """A copy of a part, with a tuple of outputs, which a backend may change; and whether it had a tuple."""
    graph = fx.Graph()
    output = graph.graph_copy(part.graph, {})
    is_tuple = isinstance(output, (tuple, list))
    graph.output(tuple(output) if isinstance(output, (tuple, list)) else (output,))
    for old, new in zip(part.graph.nodes, graph.nodes, strict=True):
        new.meta = {**old.meta} if old.op != "output" else {}
    return fx.GraphModule(part, graph), is_tuple


def _only(compiled: Callable[..., Any]) -> Callable[..., Any]:
    """The same for a part that returns one value."""
    return lambda *inputs: compiled(*inputs)[0]


class _Runner:
    """Runs the parts one behind the other."""

    def __init__(self, whole: fx.GraphModule, parts: dict[str, Callable[..., Any]]) -> None:
        self.holders = [node.name for node in whole.graph.nodes if node.op == "placeholder"]
        self.steps: list[tuple[str, Callable[..., Any], tuple[Any, ...]]] = []
        for node in whole.graph.nodes:
            if node.op == "call_module":
                self.steps.append((node.name, parts[node.target], node.args))
            elif node.op == "call_function":
                self.steps.append((node.name, node.target, node.args))
            elif node.op == "output":
                self.result = node.args[0]

    def __call__(self, *inputs: Any) -> Any:
        values = dict(zip(self.holders, inputs, strict=True))
        for name, function, arguments in self.steps:
            values[name] = function(*[values[a.name] if isinstance(a, fx.Node) else a for a in arguments])
        return fx.node.map_arg(self.result, lambda node: values[node.name])


def compile_parts(
    backend: Callable[..., Any], ddp: Any, module: fx.GraphModule, given: list[Any], context: TracingContext
) -> Callable[..., Any] | None:
    """Have the parts of a graph compiled one by one. None if it is to be left whole.

    `context` is told which inputs are written to, as AOTAutograd would do it.
    """
    if any(node.op == "get_attr" for node in module.graph.nodes):
        return None
    if not all(isinstance(value, torch.Tensor) for value in given):
        return None
    numbers = buckets(module.graph, given, ddp.bucket_bytes_cap)
    if not numbers or numbers[-1] == 0:
        return None
    nodes = [node for node in module.graph.nodes if node.op not in ("placeholder", "output")]
    part_of = dict(zip(nodes, numbers, strict=True))
    whole = split_module(module, module, lambda node: part_of[node])
    if any(node.op == "call_function" and node.target is not operator.getitem for node in whole.graph.nodes):
        return None
    mode = FakeTensorMode(shape_env=None)
    values: dict[str, Any] = {}
    holders = [node.name for node in whole.graph.nodes if node.op == "placeholder"]
    for name, value in zip(holders, given, strict=True):
        values[name] = mode.from_tensor(value)
    written = dict.fromkeys(holders, False)
    parts: dict[str, Callable[..., Any]] = {}
    saw_metadata = False
    for node in whole.graph.nodes:
        if node.op == "call_module":
            part: Any = getattr(whole, node.target)
            arguments = [values[argument.name] for argument in node.args]
            inner = TracingContext(mode)
            copy, is_tuple = _returning_tuple(part)
            with tracing(inner):
                compiled = backend(copy, arguments)
            parts[node.target] = compiled if is_tuple else _only(compiled)
            if inner.guards_context.aotautograd_guards:
                return None  # it asks for something of its inputs, which are not the graph's
            if inner.fw_metadata is not None:
                saw_metadata = True
                infos = inner.fw_metadata.input_info
                if len(infos) != len(arguments):
                    return None
                for argument, info in zip(node.args, infos, strict=True):
                    changes = info.mutates_data or info.mutates_metadata or info.mutates_storage_metadata
                    if argument.name in written and changes:
                        written[argument.name] = True
            with mode:
                values[node.name] = part(*arguments)
        elif node.op == "call_function":
            values[node.name] = node.target(
                *[values[a.name] if isinstance(a, fx.Node) else a for a in node.args]
            )
    if saw_metadata:
        told = [
            SimpleNamespace(mutates_data=changed, mutates_metadata=False, mutates_storage_metadata=False)
            for changed in written.values()
        ]
        context.fw_metadata = SimpleNamespace(input_info=told, output_info=[])  # type: ignore[assignment]
    counters["stats"]["buckets"] += len(parts)
    return _Runner(whole, parts)
