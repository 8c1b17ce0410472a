"""Graphs that are sent to another process: as a program whose capture there gives the same graph.

What is sent are plain data: operations by the names of their functions, constants, the metadata of the inputs, torch's
state and settings. The other process writes a function of it, makes inputs without data, and captures a call. Whether
the graph is the same is told by its key: if it is another one, nothing is compiled.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import math
import sys
import types
from collections.abc import Iterator
from typing import Any

import torch

from magneto import _control, _core, _rules, _shared

_PLAIN = (int, float, complex, str, bool, type(None), type(...))
_TORCH = (torch.dtype, torch.device, torch.layout, torch.memory_format)
_CONFIGS = ("torch._inductor.config", "torch._functorch.config", "torch._dynamo.config")
_MARKS = {"_dynamo_static_input_type", "_dynamo_hint_overrides", "tag"}
_INDEX, _OP, _TARGET, _ARGS, _KWARGS, _VALUE, _IN_MODULE = 0, 1, 2, 3, 4, 5, 11


class Unsendable(Exception):
    """A graph is not to be described by plain data."""


# ---- in the process that has the graph ----


@functools.cache
def _path(target: Any) -> tuple[str, str]:
    """The module and the name under which a function of torch's or Python's is found; raises `Unsendable`."""
    from torch.fx.node import _get_qualified_name

    try:
        module, _, name = _get_qualified_name(target).rpartition(".")
        found = find(module or "builtins", name)
    except Exception:
        found = None
    if found is not target:
        raise Unsendable(f"{target!r} has no name")
    return module or "builtins", name


def find(module: str, name: str) -> Any:
    """The function of such a name."""
    parts = module.split(".")
    found: Any = importlib.import_module(parts[0])
    for part in parts[1:]:
        found = (
            getattr(found, part)
            if hasattr(found, part)
            else importlib.import_module(f"{found.__name__}.{part}")
        )
    return getattr(found, name)


def _encoded(value: Any) -> Any:
    """An argument: tuples whose first item tells what it is."""
    kind = type(value)
    if kind is _core.Ref:
        return ("ref", value.index)
    if kind in _PLAIN or kind in _TORCH:
        return ("constant", value)
    if isinstance(value, _core.Dim):
        return ("size", value.tree)
    if kind in (tuple, list, torch.Size):
        return (kind.__name__, [_encoded(item) for item in value])
    if kind is slice:
        return ("slice", [_encoded(item) for item in (value.start, value.stop, value.step)])
    if kind is dict and all(type(key) is str for key in value):
        return ("dict", [(key, _encoded(item)) for key, item in value.items()])
    raise Unsendable(f"an argument is of class {kind.__name__}")


def _input(node: int, value: Any, tensor: Any, in_module: bool, first: dict[int, int]) -> dict[str, Any]:
    """The metadata of an input. `first` has the inputs by their storages."""
    if type(value) is _core.Dim and isinstance(value.tree, str):
        return {"node": node, "symbol": value.tree}
    if type(value) is not _core.Meta or type(tensor) not in (torch.Tensor, torch.nn.Parameter):
        raise Unsendable("an input is no plain tensor")
    if tensor.device.type != "cpu" or tensor.layout is not torch.strided or _MARKS & tensor.__dict__.keys():
        raise Unsendable("an input is marked, or not in the memory of the CPU")
    others = (
        _core.META_CONJUGATE
        | _core.META_NEGATIVE
        | _core.META_LEAF_VIEW
        | _core.META_MULTI_VIEW
        | _core.META_WRAPPER
    )
    if value.flags & others:
        raise Unsendable("an input is a view of a kind that can't be made again")
    storage = tensor.untyped_storage()
    return {
        "node": node,
        "varies": [index for index, size in enumerate(value.sizes) if isinstance(size, _core.Dim)],
        "sizes": tuple(tensor.shape),
        "strides": tensor.stride(),
        "dtype": tensor.dtype,
        "offset": tensor.storage_offset(),
        "bytes": storage.nbytes(),
        "same": first.setdefault(storage._cdata, node),
        "requires_grad": tensor.requires_grad,
        "is_leaf": tensor.is_leaf,
        "is_parameter": type(tensor) is torch.nn.Parameter,
        "in_module": in_module,
    }


def _settings() -> dict[str, dict[str, Any]]:
    """The settings of torch's that were changed and that a graph's code depends on."""
    changed = {}
    for name in _CONFIGS:
        module: Any = sys.modules.get(name)
        values = (
            {}
            if module is None
            else {key: entry.user_override.get() for key, entry in module._config.items()}
        )
        unset = {key for key, value in values.items() if type(value) is object or isinstance(value, type)}
        changed[name] = {
            key: value for key, value in values.items() if key not in unset and _shared.is_plain(value)
        }
    return changed


def _symbols(entry: _core.Entry, described: list[tuple[Any, ...]]) -> list[tuple[int | None, int, int]]:
    """Of each symbol the input that it is a size of and the dimension; for an int, None and its value."""
    nodes = {item[7]: item[_INDEX] for item in described if type(item[_VALUE]) is _core.Meta}
    found: list[tuple[int | None, int, int]] = []
    for number, (text, _, kind, dimension) in enumerate(entry.size_origins()):
        value = _core.size_symbol(entry, number)[0]
        if kind == 0 and text in nodes:
            found.append((nodes[text], dimension, value))
        elif kind == 2:
            found.append((None, 0, value))
        else:
            raise Unsendable("what varies is neither a size of an input nor an int")
    return found


def describe(entry: _core.Entry, backend: Any, key: str, name: str) -> dict[str, Any]:
    """The graph of a new entry, as plain data; raises `Unsendable`. `key` is that in the cache on disk."""
    if entry.symbols is not None:
        raise Unsendable("sizes or numbers depend on data")
    described, outputs, inputs = entry.describe()
    first: dict[int, int] = {}
    operations = []
    taken = [
        _input(item[_INDEX], item[_VALUE], tensor, bool(item[_IN_MODULE]), first)
        for item, tensor in zip(described, inputs, strict=False)
    ]
    for item in described[len(inputs) :]:
        method = item[_OP] == "call_method"
        if not method and item[_OP] != "call_function":
            raise Unsendable(f"it has a node {item[_OP]}")
        target = item[_TARGET] if method else _path(item[_TARGET])
        args = [_encoded(arg) for arg in item[_ARGS]]
        operations.append((item[_INDEX], target, args, _encoded(item[_KWARGS] or {})[1]))
    state = [read() for read, _ in _rules._READERS]
    if not _shared.is_plain(state):
        raise Unsendable("a mode is on")
    return {
        "key": key,
        "name": name,
        "inputs": taken,
        "operations": operations,
        "outputs": list(outputs),
        "symbols": _symbols(entry, described),
        "decisions": entry.size_guards(),
        "state": state,
        "flags": [(read.__name__, read()) for read in _shared._FLAGS],
        "settings": _settings(),
        "options": dict(backend.config),
        "dynamic": backend.dynamic,
        "aot": backend.aot,
    }


# ---- in the process that compiles it ----


def _tensor(one: dict[str, Any], storages: dict[int, Any]) -> torch.Tensor:
    """A tensor without data that has the metadata of an input."""
    storage = storages.get(one["same"])
    if storage is None:
        storage = storages[one["same"]] = torch.UntypedStorage(one["bytes"])  # type: ignore[no-untyped-call]
    made = torch.empty((), dtype=one["dtype"])
    with torch.no_grad():
        made.set_(storage, one["offset"], one["sizes"], one["strides"])
    if one["is_parameter"]:
        return torch.nn.Parameter(made, requires_grad=one["requires_grad"])
    made.requires_grad_(one["requires_grad"])
    if not one["is_leaf"]:
        with torch.enable_grad():
            made = _Twice.apply(made)  # type: ignore[no-untyped-call]
    return made


class _Twice(torch.autograd.Function):
    """Makes a tensor that is no leaf of one that is."""

    @staticmethod
    def forward(context: Any, x: torch.Tensor) -> torch.Tensor:
        made = torch.empty((), dtype=x.dtype)
        return made.set_(x.untyped_storage(), x.storage_offset(), x.shape, x.stride())

    @staticmethod
    def backward(context: Any, *grads: Any) -> Any:
        return grads[0]


_INFIX = {"+", "-", "*", "//", "%", "**", "&", "|", "^", "==", "!=", "<", "<="}


def _size(tree: Any) -> str:
    """An expression for a size."""
    if not isinstance(tree, tuple):
        return str(tree)
    name, left, right = tree[0], _size(tree[1]), _size(tree[2])
    return f"({left} {name} {right})" if name in _INFIX else f"{name}({left}, {right})"


class _Writer:
    """Writes the function."""

    def __init__(self) -> None:
        self.names: dict[str, Any] = {}
        self.numbers: dict[int, str] = {}

    def name(self, value: Any) -> str:
        """A global variable that is this object."""
        name = self.numbers.get(id(value))
        if name is None:
            name = self.numbers[id(value)] = f"g{len(self.names)}"
            self.names[name] = value
        return name

    def text(self, value: Any) -> str:
        """An argument as an expression."""
        kind, content = value
        if kind == "ref":
            return f"v{content}"
        if kind == "size":
            return _size(content)
        if kind == "constant":
            simple = type(content) in (int, bool, str, types.NoneType)
            if type(content) is float:  # one in a global variable may vary
                simple = math.isfinite(content)
            return f"({content!r})" if simple else self.name(content)
        if kind == "dict":
            return "{" + ", ".join(f"{key!r}: {self.text(item)}" for key, item in content) + "}"
        items = ", ".join(map(self.text, content))
        if kind == "slice":
            return f"{self.name(slice)}({items})"
        if kind == "Size":
            return f"{self.name(torch.Size)}([{items}])"
        return f"[{items}]" if kind == "list" else f"({items},)" if content else "()"

    def call(self, operation: tuple[Any, ...]) -> str:
        """The line of an operation."""
        index, target, args, kwargs = operation
        texts = [self.text(arg) for arg in args]
        texts += [f"{key}={self.text(value)}" for key, value in kwargs]
        if isinstance(target, str):
            return f"    v{index} = {texts[0]}.{target}({', '.join(texts[1:])})"
        return f"    v{index} = {self.name(find(*target))}({', '.join(texts)})"


def _with_sizes(graph: dict[str, Any], nodes: dict[int, str]) -> list[str]:
    """All lines: each symbol directly behind the input that it is a size of, each decision as soon as it can be."""
    decisions = list(graph["decisions"])
    known = {f"s{number}" for number, (where, _, _) in enumerate(graph["symbols"]) if where is None}
    lines = [f"    v{one['node']} = {one['symbol']}" for one in graph["inputs"] if one.get("symbol") in known]

    def decide() -> None:
        while decisions and _names(decisions[0]) <= known:
            lines.append(f"    if not {_size(decisions.pop(0))}: raise ValueError")

    decide()
    for node, line in sorted(nodes.items()):
        lines.append(line)
        for number, (where, dimension, _) in enumerate(graph["symbols"]):
            if where == node:
                name = f"s{number}"
                lines.append(f"    {name} = v{where}.shape[{dimension}]")
                known.add(name)
                same = [one["node"] for one in graph["inputs"] if one.get("symbol") == name]
                lines += [f"    v{one} = {name}" for one in same]
        decide()
    return lines


def _names(tree: Any) -> set[str]:
    """The symbols in an expression, the name of whose function comes first."""
    found: set[str] = set()
    for part in tree[1:]:
        found |= _names(part) if isinstance(part, tuple) else {part} if isinstance(part, str) else set()
    return found


def remake(graph: dict[str, Any]) -> tuple[Any, list[Any]]:
    """A module whose `forward` does what the graph does, and arguments for it."""
    storages: dict[int, Any] = {}
    module = torch.nn.Module()
    arguments: list[Any] = []
    names: list[str] = []
    nodes: dict[int, str] = {}
    """The lines of the nodes: they have the order of the recording."""
    symbols: list[tuple[int | None, int, int]] = graph["symbols"]
    for one in sorted(
        graph["inputs"], key=lambda one: int(one["node"])
    ):  # the order in which they were looked at
        node = one["node"]
        if "symbol" in one:
            where, _, value = symbols[int(one["symbol"][1:])]
            if where is None:
                names.append(one["symbol"])
                arguments.append(value)
            continue
        tensor = _tensor(one, storages)
        if one["in_module"] and not one["varies"]:
            if one["is_parameter"]:
                module.register_parameter(f"t{node}", tensor)  # type: ignore[arg-type]
            else:
                module.register_buffer(f"t{node}", tensor)
            nodes[node] = f"    v{node} = self.t{node}"
            continue
        if symbols:  # or all sizes would vary
            _control.mark_static(tensor, [dim for dim in range(tensor.dim()) if dim not in one["varies"]])
        names.append(f"v{node}")
        arguments.append(tensor)
        nodes[node] = f"    v{node}.dtype"  # what is looked at first becomes an input first
    writer = _Writer()
    nodes.update({operation[0]: writer.call(operation) for operation in graph["operations"]})
    lines = _with_sizes(graph, nodes)
    outputs = ", ".join(f"v{node}" for node in graph["outputs"])
    header = f"def forward({', '.join(['self', *names])}):\n"
    exec(header + "\n".join(lines) + f"\n    return ({outputs},)\n", writer.names)
    return types.MethodType(writer.names["forward"], module), arguments


@contextlib.contextmanager
def taken_state(graph: dict[str, Any]) -> Iterator[None]:
    """For a `with` block: torch's state and settings are those of the process that has the graph."""
    with contextlib.ExitStack() as stack:
        for name, values in graph["settings"].items():
            if values:
                stack.enter_context(importlib.import_module(name).patch(values))
        for name, value in graph["flags"]:
            setter = getattr(torch._C, name.replace("_get_", "_set_").replace("get_num", "set_num"), None)
            if getattr(torch._C, name)() != value and setter is not None:
                setter(value)
        for (read, write), value in zip(_rules._READERS, graph["state"], strict=True):
            if read is torch.is_inference_mode_enabled:
                stack.enter_context(torch.inference_mode(value))
            elif read is torch._C._get_deterministic_algorithms:
                torch._C._set_deterministic_algorithms(
                    value, warn_only=dict(graph["flags"])["_get_deterministic_algorithms_warn_only"]
                )
            elif write is not None and read() != value:
                write(value)
        torch._C._set_grad_enabled(graph["state"][0])  # inference_mode has changed it
        yield
