"""What the tests of disable, of marks and of stances share."""

from __future__ import annotations

import functools
import os
import warnings
from collections.abc import Callable
from typing import Any

import torch
import torch._dynamo

import magneto

X = torch.arange(4.0)


def eager(function: Any, **kwargs: Any) -> Any:
    return magneto.compile(function, backend="eager", **kwargs)


def graphs(compiled: Any) -> list[int]:
    """How many operations each graph has, of those that have any; in the order in which they were captured."""
    entries = [entry.entry for entry in magneto.cache_entries(compiled)]
    return sorted(entry.operations for entry in entries if entry.operations)


assert_equal = functools.partial(torch.testing.assert_close, rtol=0, atol=0)

_known: dict[Any, list[int]] = {}


def torch_graphs(function: Any, *args: Any) -> list[int]:
    """The same for torch.compile; asked once for each test, as it keeps what it has made."""
    key = os.environ["PYTEST_CURRENT_TEST"], function.__code__
    if key in _known:
        return _known[key]
    found: list[int] = []

    def backend(module: torch.fx.GraphModule, _: Any) -> Any:
        found.append(sum(node.op.startswith("call_") for node in module.graph.nodes))
        return module.forward

    torch._dynamo.reset()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.compile(function, backend=backend, dynamic=False)(*args)
    _known[key] = sorted(filter(None, found))
    return _known[key]


def check(function: Callable[..., Any], *args: Any, calls: int = 3, same_as_torch: bool = True) -> Any:
    """Captured, a function gives what it gives in eager, and the graphs are torch.compile's. Gives the compiled one."""
    compiled = eager(function)
    for _ in range(calls):
        assert_equal(compiled(*args), function(*args))
    if same_as_torch:
        assert graphs(compiled) == torch_graphs(function, *args)
    return compiled
