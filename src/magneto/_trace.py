"""The records that `TORCH_TRACE` asks for and tlparse reads, with the names and fields of torch.compile's."""

from __future__ import annotations

import traceback
from typing import TYPE_CHECKING, Any

from torch._logging import _internal, structured
from torch._logging._internal import trace_structured

from magneto import _core, _stack

if TYPE_CHECKING:
    from torch import fx

    from magneto._events import BreakReason
    from magneto._session import Session


def is_on() -> bool:
    """Whether anybody reads the records."""
    handlers = _internal.trace_log.handlers
    # torch's own handler is there in any case, and goes at the first record if it has no folder to write to
    return bool(handlers) and any(getattr(handler, "root_dir", handler) is not None for handler in handlers)


def _artifact(name: str, encoding: str, payload: Any) -> None:
    trace_structured("artifact", lambda: {"name": name, "encoding": encoding}, payload_fn=lambda: payload)


def started(session: Session) -> None:
    """A compilation starts."""
    if not is_on():
        return
    stack = structured.from_traceback(session.frames())
    file = structured.intern_string(session.code.co_filename)
    stack.append({"line": session.line, "name": session.name, "filename": file})
    trace_structured("dynamo_start", lambda: {"stack": stack})


def missed(reasons: list[str]) -> None:
    """What was captured before does not fit."""
    if is_on():
        _artifact("recompile_reasons", "json", reasons[0] if len(reasons) == 1 else reasons)


def stopped(reason: BreakReason) -> None:
    """A graph ends, or there is none."""
    if not is_on():
        return
    text = f"Graph break in user code\nGraph Break Reason: {reason}\n"
    if reason.hint:
        text += f"  Hint: {reason.hint}\n"
    text += "\nUser code traceback:\n" + _stack.format_frames(reason.user_stack)
    _artifact("dynamo_graph_break_reason", "string", text)


def failed(error: BaseException) -> None:
    """A compilation ends with an exception."""
    if is_on():
        _artifact("dynamo_error", "string", "".join(traceback.format_exception(error)))


def sizes(graph: fx.GraphModule) -> dict[str, list[int | str]]:
    """The sizes of the tensors of a graph, by the names of its nodes."""
    from torch._subclasses.fake_tensor import FakeTensor

    found: dict[str, list[int | str]] = {}
    for node in graph.graph.nodes:
        value = node.meta.get("example_value")
        if isinstance(value, FakeTensor):
            found[node.name] = [size if isinstance(size, int) else repr(size) for size in value.shape]
    return found


def graph(module: fx.GraphModule) -> None:
    """A graph was captured."""
    if is_on():
        trace_structured(
            "dynamo_output_graph",
            lambda: {"sizes": sizes(module)},
            payload_fn=lambda: module.print_readable(
                print_output=False, include_stride=True, include_device=True
            ),
        )


def guards(entry: _core.Entry) -> None:
    """The guards of a graph."""
    if is_on():
        lines = "\n".join(f"+- {guard}" for guard in entry.guards())
        trace_structured("dynamo_cpp_guards_str", payload_fn=lambda: f"GUARDS:\n{lines}\n")
