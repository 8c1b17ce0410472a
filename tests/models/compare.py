"""What the tests of models look at: results as nested tuples, and the graphs that were captured."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Callable
from typing import Any

import torch

import magneto

Graph = list[Any]


def flatten(value: Any, path: str = "") -> list[tuple[str, Any]]:
    """All leaves of a result, each with the way to it; tensors are leaves, and so is the type of each container."""
    if isinstance(value, torch.Tensor) or value is None or isinstance(value, (int, float, str, torch.Size)):
        return [(path, value)]
    found: list[tuple[str, Any]] = [(path, type(value))]
    if isinstance(value, dict):
        items: Any = [*value.items()]
    elif isinstance(value, (list, tuple)):
        items = enumerate(value)
    elif hasattr(value, "layers") and hasattr(value, "get_seq_length"):  # a cache of transformers
        items = enumerate(value.layers)
    elif dataclasses.is_dataclass(value) or hasattr(value, "__dict__"):
        items = vars(value).items()
    else:
        return [(path, value)]
    for key, item in items:
        found += flatten(item, f"{path}[{key!r}]")
    return found


def difference(expected: Any, found: Any, close: bool = False) -> str | None:
    """Where two results differ first; None if they are equal."""
    ours, theirs = flatten(found), flatten(expected)
    if [path for path, _ in ours] != [path for path, _ in theirs]:
        return f"other parts: {[path for path, _ in ours]} and not {[path for path, _ in theirs]}"
    for (path, a), (_, b) in zip(theirs, ours, strict=True):
        if type(a) is not type(b):
            return f"result{path} is a {type(b)} and not a {type(a)}"
        if not isinstance(a, torch.Tensor):
            if not (a == b or (a != a and b != b)):
                return f"result{path} is {b!r} and not {a!r}"
            continue
        for name in ("dtype", "shape", "device", "requires_grad", "layout"):
            if getattr(a, name) != getattr(b, name):
                return f"result{path}.{name} is {getattr(b, name)} and not {getattr(a, name)}"
        if a.stride() != b.stride():
            return f"result{path}.stride() is {b.stride()} and not {a.stride()}"
        same = torch.allclose(a, b, 1e-5, 1e-6, equal_nan=True) if close else equal(a, b)
        if not same:
            return f"result{path} has other values, up to {(a.double() - b.double()).abs().max()} away"
    return None


def equal(a: torch.Tensor, b: torch.Tensor) -> bool:
    return bool(((a == b) | ((a != a) & (b != b))).all())


class Graphs:
    """A backend that notes the calls of each graph that it is given, and runs it as it is."""

    def __init__(self) -> None:
        self.graphs: list[Graph] = []

    def __call__(self, module: torch.fx.GraphModule, _inputs: Any) -> Callable[..., Any]:
        calls = [node.target for node in module.graph.nodes if node.op.startswith("call")]
        if calls:
            self.graphs.append(calls)
        return module.forward


def name(target: Any) -> str:
    """A call's target, to be read and compared: the name of a method, or a function's."""
    if isinstance(target, str):
        return f".{target}"
    return f"{getattr(target, '__module__', None)}.{getattr(target, '__qualname__', None) or target}"


def calls(graphs: list[Graph]) -> list[list[str]]:
    """The calls of each graph, without the one that modules make when they are created: it does nothing in a graph."""
    found = [[name(target) for target in graph] for graph in graphs]
    return [[call for call in graph if call != "torch._C._log_api_usage_once"] for graph in found]


def as_good(ours: list[list[str]], theirs: list[list[str]], whole: bool) -> bool:
    """Whether our graphs are theirs, or better ones; `whole` if they have no breaks."""
    our_calls, their_calls = [sum(graphs, []) for graphs in (ours, theirs)]
    if our_calls == their_calls:
        return len(ours) <= len(theirs)
    rest = iter(our_calls)  # a graph more than they have must hold a call more than they capture
    more = len(our_calls) - len(their_calls) >= len(ours) - len(theirs)
    return not whole and more and all(call in rest for call in their_calls)


def by_magneto(target: Any, backend: Any) -> Any:
    return magneto.compile(target, backend=backend, dynamic=False)


def by_torch(target: Any, backend: Any) -> Any:
    torch._dynamo.reset()
    return torch.compile(target, backend=backend, dynamic=False)


def diff(theirs: list[list[str]], ours: list[list[str]]) -> str:
    """The calls of all graphs, what differs."""
    texts = [[line for graph in graphs for line in ["--- graph", *graph]] for graphs in (theirs, ours)]
    return "\n".join(difflib.unified_diff(*texts, "torch.compile", "magneto", n=1, lineterm=""))
