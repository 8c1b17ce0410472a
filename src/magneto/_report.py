"""What was captured, for people to read: `magneto.explain` and `magneto.cache_entries`."""

from __future__ import annotations

import dataclasses
import functools
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from magneto import _core, _stack, exc
from magneto._compile import Settings, find_compiled, with_frame

if TYPE_CHECKING:
    from torch import fx

    from magneto._events import BreakReason


@dataclasses.dataclass
class ExplainOutput:
    """What `magneto.explain(fn)(*args, **kwargs)` returns; `str()` of it is for reading."""

    graphs: list[fx.GraphModule]
    graph_count: int
    graph_break_count: int
    """Between graphs: one less than there are graphs. A break with nothing to capture on one side is a reason below."""
    break_reasons: list[BreakReason]
    op_count: int
    ops_per_graph: list[list[Any]]
    out_guards: list[str]
    compile_times: str

    def __str__(self) -> str:
        lines = [
            f"Graph Count: {self.graph_count}",
            f"Graph Break Count: {self.graph_break_count}",
            f"Op Count: {self.op_count}",
            "Break Reasons:",
        ]
        for number, reason in enumerate(self.break_reasons, 1):
            lines.append(f"  Break Reason {number}:")
            lines.append(f"    Reason: {reason.reason}" + (f": {reason.detail}" if reason.detail else ""))
            lines.append("    User Stack:")
            for frame in reason.user_stack:
                lines += [f"    {line}" for line in _stack.format_frame(frame).splitlines()]
            if reason.hint:
                lines.append(f"    Hint: {reason.hint}")
        lines.append("Ops per Graph:")
        for number, operations in enumerate(self.ops_per_graph, 1):
            lines.append(f"  Ops {number}:")
            lines += [f"    {operation}" for operation in operations]
        lines.append("Out Guards:")
        lines += [f"  {guard}" for guard in self.out_guards]
        lines.append(f"Compile Times: {self.compile_times}")
        return "\n".join(lines) + "\n"


def explain(function: Any, *args: Any, **kwargs: Any) -> Any:
    """Call a function or a module, and tell what was captured of it: `explain(fn)(*args, **kwargs)`.

    Nothing that was captured before is used or changed.
    """

    def call(*args: Any, **kwargs: Any) -> ExplainOutput:
        from magneto import _events

        graphs: list[fx.GraphModule] = []
        settings = Settings(backend=lambda module, inputs: module.forward)
        target = _innermost(function)
        compiled = settings.make(target, exc.name_of(function), seen=graphs.append)
        observer = _events.observer_of(compiled)
        observer.reasons = []
        start = time.perf_counter()
        compiled(*args, **kwargs)
        elapsed = time.perf_counter() - start
        operations = [
            [node.target for node in graph.graph.nodes if node.op.startswith("call_")] for graph in graphs
        ]
        guards = [guard for entry in reversed(compiled.entries()) for guard in entry.guards()]
        return ExplainOutput(
            graphs=graphs,
            graph_count=len(graphs),
            graph_break_count=max(len(graphs) - 1, 0),
            break_reasons=observer.reasons,
            op_count=sum(map(len, operations)),
            ops_per_graph=operations,
            out_guards=guards,
            compile_times=f"capture {observer.seconds * 1e3:.2f} ms, whole call {elapsed * 1e3:.2f} ms",
        )

    return call(*args, **kwargs) if args or kwargs else call


def _innermost(function: Any) -> Callable[..., Any]:
    import torch

    if isinstance(function, _core.Compiled):
        function = getattr(function, "__wrapped__", function.function)
    if isinstance(function, torch.nn.Module):
        function = getattr(function, "_orig_mod", function)
        plain = type(function).__call__ is torch.nn.Module.__call__
        from magneto._module import _has_hooks

        chosen: Callable[..., Any] = (
            function.forward if plain and not _has_hooks(function) else function.__call__
        )
        return chosen
    result: Callable[..., Any] = with_frame(function)
    return result


@dataclasses.dataclass(frozen=True, eq=False)
class CacheEntry:
    """One captured version of a function."""

    entry: _core.Entry
    function: Any

    @property
    def guards(self) -> list[str]:
        """What must hold for it to be used, as texts."""
        return self.entry.guards()

    @property
    def hits(self) -> int:
        """How often it was run."""
        return self.entry.hits

    @functools.cached_property
    def graph(self) -> fx.GraphModule:
        """Its graph, made anew from the recording; the example values are FakeTensors."""
        from torch._subclasses.fake_tensor import FakeTensorMode

        from magneto import _graph

        return _graph.build(self.entry, FakeTensorMode(), function=self.function)[0]

    @property
    def compiled(self) -> Any:
        """What the backend made of the graph; None if the core runs it."""
        return self.entry.compiled


def cache_entries(function: Any) -> list[CacheEntry]:
    """The entries of something that `magneto.compile` made, the one that was used last first."""
    return [
        CacheEntry(entry, compiled.function)
        for compiled in find_compiled(function)
        for entry in compiled.entries()
    ]
