"""What was captured, for people to read: `magneto.explain` and `magneto.cache_entries`."""

from __future__ import annotations

import dataclasses
import functools
import time
import traceback
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from magneto import _core, _stack, exc
from magneto._compile import Settings, find_compiled, with_frame

if TYPE_CHECKING:
    from torch import fx

    from magneto._events import BreakReason


@dataclasses.dataclass(frozen=True)
class SizeGuard:
    """What was decided on sizes and ints that vary: `text` must hold. `frame` is the line that asked, if known."""

    text: str
    frame: traceback.FrameSummary | None

    def __str__(self) -> str:
        if self.frame is None:
            return self.text
        line = f": {self.frame.line}" if self.frame.line else ""
        return f"{self.text} ({self.frame.filename}:{self.frame.lineno} in {self.frame.name}{line})"


@dataclasses.dataclass(frozen=True)
class Symbol:
    """A size or int that varies from call to call."""

    name: str
    source: str
    value: int
    """In the call that was captured."""
    low: int | None
    high: int | None
    guards: list[SizeGuard]
    """Those that it is part of."""

    def __str__(self) -> str:
        bounds = f"[{'-oo' if self.low is None else self.low}, {'oo' if self.high is None else self.high}]"
        return f"{self.name} = {self.source}: {self.value}, in {bounds}"


def _infix(tree: Any) -> str:
    """A tree of the core's as people write it."""
    if not isinstance(tree, tuple):
        return str(tree)
    name, left, right = tree[0], _infix(tree[1]), _infix(tree[2])
    if name in ("min", "max"):
        return f"{name}({left}, {right})"
    left, right = (
        f"({text})" if isinstance(part, tuple) and name != "+" and part[0] not in ("min", "max") else text
        for text, part in ((left, tree[1]), (right, tree[2]))
    )
    return f"{left} {name} {right}"


def _names_in(tree: Any) -> set[str]:
    if isinstance(tree, tuple):
        return _names_in(tree[1]) | _names_in(tree[2])
    return {tree} if isinstance(tree, str) else set()


def symbols_of(entry: _core.Entry) -> list[Symbol]:
    """The symbols of an entry, and what was decided on them."""
    found = []
    for number, (source, _, kind, dimension) in enumerate(entry.size_origins()):
        name = f"{source}.{('size', 'stride')[kind]}()[{dimension}]" if kind < 2 else source
        found.append(Symbol(f"s{number}", name, *_core.size_symbol(entry, number), []))
    for (relation, left, right), place in zip(entry.size_guards(), entry.size_places(), strict=True):
        frame = None if place is None else _stack.summary(*place)
        guard = SizeGuard(f"{_infix(left)} {relation} {_infix(right)}", frame)
        for name in sorted(_names_in(left) | _names_in(right)):
            found[int(name[1:])].guards.append(guard)
    return found


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
    symbols: list[Symbol] = dataclasses.field(default_factory=list)
    """Sizes and ints that vary: those of all graphs, in their order."""

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
        if self.symbols:
            lines.append("Symbols:")
        for symbol in self.symbols:
            lines.append(f"  {symbol}")
            lines += [f"    {guard}" for guard in symbol.guards]
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
        dynamic = function.dynamic if isinstance(function, _core.Compiled) else -1
        settings = Settings(
            backend=lambda module, inputs: module.forward, dynamic=None if dynamic < 0 else bool(dynamic)
        )
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
        symbols = [one for entry in reversed(compiled.entries()) for one in symbols_of(entry)]
        return ExplainOutput(
            graphs=graphs,
            graph_count=len(graphs),
            graph_break_count=max(len(graphs) - 1, 0),
            break_reasons=observer.reasons,
            op_count=sum(map(len, operations)),
            ops_per_graph=operations,
            out_guards=guards,
            symbols=symbols,
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
    def symbols(self) -> list[Symbol]:
        """The sizes and ints that may be others, with what must hold of them and the lines that asked for it."""
        return symbols_of(self.entry)

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
