"""The recording of an entry as a `torch.fx.GraphModule`, as TorchDynamo would give it.

The nodes are written by the core (`csrc/fx`), and their metadata is made when it is first read (`_recipe`).
"""

from __future__ import annotations

import functools
import operator
import types
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import fx
from torch._guards import Source
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx import _lazy_graph_module
from torch.fx.graph import _illegal_names
from torch.fx.immutable_collections import immutable_dict

from magneto import _core, _levels, _subgraphs
from magneto._advice import named
from magneto._config import config
from magneto._recipe import (
    ARGS,
    FLOATS,
    INDEX,
    KWARGS,
    STACK,
    TARGET,
    VALUE,
    InputSource,
    Recipe,
    Shapes,
)

if TYPE_CHECKING:
    from magneto._symints import Symbols

_SYMBOLS = (torch.SymInt, torch.SymFloat, torch.SymBool)
_NO_KWARGS: dict[str, Any] = immutable_dict()


class Built(NamedTuple):
    """The graph of an entry."""

    module: fx.GraphModule
    inputs: list[Any]
    """What the inputs stood for when it was captured."""
    frozen: list[int]
    """The positions of those that the graph holds."""
    recipe: Recipe
    """What makes the metadata of its nodes."""
    shapes: Shapes
    """The sizes of its tensors."""
    is_recording: bool
    """Whether it is the recording and nothing else, so that the core's replay of that computes the same."""
    has_levels: bool
    """Whether it enters and leaves levels of transforms."""

    def let_go(self) -> None:
        """Hold the inputs no more. What says which they were is taken out of the metadata, as TorchDynamo does."""
        self.recipe.let_go()
        for node in self.module.graph.find_nodes(op="placeholder", sort=False):
            if "grapharg" in node.meta:
                del node.meta["grapharg"]


def _free(name: str, known: set[str]) -> str:
    """A name that no other input has."""
    if name in known:
        number = 0
        while f"{name}_{number}" in known:
            number += 1
        name = f"{name}_{number}"
    known.add(name)
    return name


def _marks(tensor: Any, static: bool) -> dict[str, Any]:
    """What a backend is told of a tensor that is given to the graph: whether its memory stays where it is, its tag."""
    marks = {"_dynamo_static_input_type": "unguarded"} if static else {}
    held = getattr(tensor, "__dict__", None)
    if held:
        marks.update({name: held[name] for name in ("_dynamo_static_input_type", "tag") if name in held})
    return marks


def _attribute(root: torch.nn.Module, graph: fx.Graph, node: fx.Node, tensor: torch.Tensor) -> fx.Node:
    """The same input as a tensor that the graph's module holds."""
    name = str(node.target)
    graph.erase_node(node)
    if isinstance(tensor, torch.nn.Parameter):
        setattr(root, name, tensor)
    else:
        root.register_buffer(name, tensor)
    held = graph.get_attr(name)
    held.meta = node.meta
    held.meta.pop("grapharg")
    return held


def varying(entry: _core.Entry, env: Callable[[], Any], function: Any, plain: bool = False) -> Symbols | None:
    """The symbols of an entry in the `ShapeEnv` that a function returns; None if nothing varies."""
    if not entry.has_symbols:
        return None
    from magneto._symints import Symbols

    positions = {
        item[7]: number for number, item in enumerate(entry.describe()[0]) if item[1] == "placeholder"
    }

    def source(text: str, root: Any) -> Source:
        return InputSource(named(text, root, function), positions.get(text, -1))

    return Symbols(entry, env(), source, plain)


def references(value: Any) -> Iterator[int]:
    """The numbers of the nodes that an argument refers to."""
    kind = type(value)
    if kind is _core.Ref:
        yield value.index
    elif kind is dict:
        yield from references(tuple(value.values()))
    elif kind is slice:
        yield from references((value.start, value.stop, value.step))
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from references(item)


class _Inputs:
    """Writes the placeholders of a graph."""

    def __init__(self, writer: _core.GraphWriter, recipe: Recipe, function: Any) -> None:
        self.writer = writer
        self.recipe = recipe
        self.function = function
        self.names: set[str] = set()
        self.originals: dict[str, str] = {}
        """Names of placeholders, as far as they come of sources, and those in the state_dict."""
        self.sources: dict[str, Source] = {}
        """Of parameters and buffers, by their names in the state_dict."""

    def tensor(self, position: int, given: Any) -> tuple[fx.Node, dict[str, Any]]:
        """The placeholder of a tensor, and its marks."""
        _, _, _, _, _, value, _, text, _, origin, _, in_module = self._take(position)
        if type(origin) is types.CellType:
            text = named(text, origin, self.function)
        flat, original = _core.input_names(text)
        flags = value.flags
        kind: Any = torch.nn.Parameter if flags & _core.META_PARAMETER else torch.Tensor
        marks = _marks(given, bool(in_module) or kind is torch.nn.Parameter)
        if flags & _core.META_WRAPPER:
            kind = type(value.fake)
        source = InputSource(text, position)
        self.recipe.sources.append(source)
        node = self.writer.input(_free(flat, self.names), kind, source, marks, self.recipe, position)
        if original is not None:
            self.originals[flat] = original
            self.sources[original] = source
        return node, marks

    def number(self, position: int) -> fx.Node:
        """The placeholder of an int or float."""
        recipe = self.recipe
        index, _, _, _, _, value, _, text, _, origin, _, _ = self._take(position)
        text = named(text, origin, self.function)
        kind, name = type(value), _free(_core.input_names(text)[0], self.names)
        source: Source = InputSource(text, -1)
        if (one := recipe.float_of(index)) is not None:
            kind, source = torch.Tensor, one.source  # its item is the number
        elif type(value) is _core.Dim and recipe.symbols is not None:
            number = int(value.tree[1:])
            kind, source = torch.SymInt, recipe.symbols.sources[number]
            if recipe.symbols.is_size(number):
                self.names.discard(name)
                name = _free(_core.input_names(recipe.symbols.name(number))[0], self.names)
        recipe.sources.append(source)
        meta = dict.fromkeys(("example_value", "grapharg", "stack_trace"), _core.UNMADE)
        node = self.writer.node("placeholder", name, kind, _core.node_meta(meta, recipe, position))
        object.__setattr__(node, "_dynamo_source", source)
        return node  # type: ignore[no-any-return]

    def _take(self, position: int) -> tuple[Any, ...]:
        """How an input is described; the recipe does not keep what its source starts from."""
        item = self.recipe.items[position]
        self.recipe.items[position] = item[: STACK + 1]
        return item


def build(
    entry: _core.Entry,
    mode: FakeTensorMode | Callable[[], FakeTensorMode],
    *,
    lazy: bool = False,
    function: Any = None,
    freezing: bool = False,
    sizes: Symbols | None = None,
    plain: bool = False,
) -> Built:
    """The graph of an entry.

    `mode` is the mode of its FakeTensors, or returns it when the first of them is made. `function` is what was
    captured: it tells names of variables. The graph holds, as attributes of its module in place of placeholders, the
    inputs whose address is marked as guarded, and with `freezing` all whose address stays. `sizes` are its symbols, if
    they are in the `ShapeEnv` of `mode` already. With `plain`, floats that vary are inputs as they are, and no tensors.
    """
    symbols = entry.symbols
    if symbols is not None:
        mode = symbols.mode
    make_mode = functools.partial(identity, mode) if isinstance(mode, FakeTensorMode) else mode
    if sizes is None and (entry.size_origins() if plain else entry.has_symbols):
        env = make_mode().shape_env
        if env is None:
            from torch.fx.experimental.symbolic_shapes import ShapeEnv

            env = ShapeEnv()
            make_mode = functools.partial(identity, FakeTensorMode(shape_env=env))
        sizes = varying(entry, functools.partial(identity, env), function, plain)
    return _core.without_collections(_build, entry, make_mode, lazy, function, freezing, sizes)


def identity(value: Any) -> Any:
    """The value: as a partial, a function that returns it."""
    return value


def _build(
    entry: _core.Entry,
    mode: Callable[[], FakeTensorMode],
    lazy: bool,
    function: Any,
    freezing: bool,
    sizes: Symbols | None,
) -> Built:
    described, outputs, inputs = entry.describe()
    root, graph = torch.nn.Module(), fx.Graph()
    writer = _core.GraphWriter(graph, _illegal_names, _NO_KWARGS, torch._check)
    recipe = Recipe(described, entry.modules(), mode, sizes, inputs)
    makers = _Inputs(writer, recipe, function)
    nodes: list[Any] = [None] * entry.node_count
    frozen: list[int] = []
    for position, given in enumerate(inputs):
        index, value = described[position][INDEX], described[position][VALUE]
        if type(value) is not _core.Meta:
            nodes[index] = makers.number(position)
            one = recipe.float_of(index)
            inputs[position] = nodes[index].meta["example_value"] if one is None else one.tensor
            continue
        nodes[index], marks = makers.tensor(position, given)
        kind = marks.get("_dynamo_static_input_type")
        if kind is not None and (freezing or kind == "guarded"):
            marks["_dynamo_static_input_type"] = "guarded"  # which tensor it is: see magneto/_backends.py
            frozen.append(position)
            makers.sources[str(nodes[index].target)] = recipe.sources[position]
    writer.close()
    for position in frozen:  # behind the placeholders
        index = described[position][INDEX]
        nodes[index] = _attribute(root, graph, nodes[index], inputs[position])
    operations = _Operations(root, graph, writer, recipe, nodes, entry)
    operations.write(len(inputs))
    writer.output(tuple([nodes[index] for index in outputs]))
    writer.close()
    has_levels = operations.others and _levels.expand(root, graph)
    if ("call_function", torch._C._set_grad_enabled) in graph._find_nodes_lookup_table.table:
        _erase_empty_switches(graph)
    if entry.symbols is not None:
        _add_checks(root, graph, entry.symbols.shape_env)
    result = _module_class(lazy)(root, graph)
    result.meta["dynamo_flat_name_to_original_fqn"] = makers.originals
    result._param_name_to_source = makers.sources  # type: ignore[assignment]
    has_floats = sizes is not None and bool(sizes.floats)
    is_recording = not frozen and not operations.others and entry.symbols is None and not has_floats
    return Built(result, inputs, frozen, recipe, recipe.shapes(nodes), is_recording, has_levels)


class _Operations:
    """Writes the nodes that come behind the inputs."""

    def __init__(
        self,
        root: torch.nn.Module,
        graph: fx.Graph,
        writer: _core.GraphWriter,
        recipe: Recipe,
        nodes: list[Any],
        entry: _core.Entry,
    ) -> None:
        self.root = root
        self.graph = graph
        self.writer = writer
        self.recipe = recipe
        self.nodes = nodes
        self.entry = entry
        self.others = False
        """Whether there are nodes that the recording does not have."""
        floats = {} if recipe.symbols is None else recipe.symbols.floats
        self.tensors = {index: nodes[index] for index in floats}
        """Of floats that were not read yet."""

    def write(self, start: int) -> None:
        """Write all, from a position on; what is not in the recording is written between them."""
        recipe, items = self.recipe, self.recipe.items
        if recipe.symbols is not None:
            self._name_functions(start)
        position = start
        while position < len(items):
            stop = self._next_read(position) if self.tensors else len(items)
            position = self.writer.operations(items, position, stop, self.nodes, recipe.names, recipe)
            self.writer.close()
            if position < len(items):
                item = items[position]
                items[position] = (*item[:ARGS], self._write_others(item), *item[ARGS + 1 :])
        if recipe.symbols is not None:
            for position in range(start, len(items)):
                if type(items[position][VALUE]) is float:
                    recipe(position, "example_value")  # torch may be unable to compute it

    def _name_functions(self, start: int) -> None:
        """Have functions of torch's stand for those that return floats."""
        items = self.recipe.items
        for position in range(start, len(items)):
            item = items[position]
            if type(item[VALUE]) in (float, _core.Dim) and item[TARGET] in FLOATS:
                items[position] = (*item[:TARGET], FLOATS[item[TARGET]], *item[TARGET + 1 :])

    def _next_read(self, start: int) -> int:
        """The position of the next operation that uses a float which was not read yet."""
        items = self.recipe.items
        for position in range(start, len(items)):
            item = items[position]
            if not self.tensors.keys().isdisjoint(references((item[ARGS], item[KWARGS]))):
                return position
        return len(items)

    def _write_others(self, item: tuple[Any, ...]) -> tuple[Any, ...]:
        """Write what comes before an operation, and is not in the recording. The arguments of the operation, then."""
        args, self.others = item[ARGS], True
        if item[TARGET] is torch._check and len(args) == 2:  # a function that makes the message
            name = f"_check_message_{item[INDEX]}"
            setattr(self.root, name, args[1])
            args = (args[0], self.graph.get_attr(name))
        for index in references((args, item[KWARGS])) if self.tensors else ():
            if index in self.tensors:
                self._read_float(index)
        if _subgraphs.within(args):
            known = {index: node for index, node in enumerate(self.nodes) if node is not None}
            args = _subgraphs.attach(self.root, self.graph, args, known, self._describe)
        return args  # type: ignore[no-any-return]

    def _read_float(self, index: int) -> None:
        """Take a float out of its tensor, before it is used for the first time."""
        tensor = self.tensors.pop(index)
        self.nodes[index] = node = self.graph.call_method("item", (tensor,))
        node.meta["example_value"] = self.recipe.float_of(index).number  # type: ignore[union-attr]
        node.meta["stack_trace"] = tensor.meta["stack_trace"]

    def _describe(self, node: fx.Node, item: Any, outer: fx.Node | None) -> None:
        """The metadata of a node of a subgraph: an input that is like the node `outer`, or an operation."""
        if outer is not None:
            node.meta.update(outer.meta)
            node.type = outer.type
            return
        args = [arg.meta.get("example_value") if isinstance(arg, fx.Node) else arg for arg in node.args]
        node.meta.update(self.recipe.inner(item, node.op, node.name, args, self.entry.source))


def _module_class(lazy: bool) -> type[fx.GraphModule]:
    """As `_use_lazy_graph_module` decides, whose flag is the process's: two threads could leave it set."""
    if lazy and not _lazy_graph_module._force_skip_lazy_graph_module_flag:
        return _lazy_graph_module._LazyGraphModule
    return fx.GraphModule


def _erase_empty_switches(graph: fx.Graph) -> None:
    """Leave out switches of grad mode with nothing between them, as TorchDynamo does."""
    switch, enabled, last = torch._C._set_grad_enabled, torch.is_grad_enabled(), None
    for node in list(graph.nodes):
        changes = node.target is switch and node.args == (not enabled,)
        enabled = enabled != changes
        if changes and last is not None:
            graph.erase_node(last)
            graph.erase_node(node)
            last = None
        else:
            last = node if changes else None


def _add_checks(root: torch.nn.Module, graph: fx.Graph, shape_env: Any) -> None:
    """Add what a backend has to check of the values that depend on data, as TorchDynamo does."""
    from torch.fx.experimental.symbolic_shapes import is_accessor_node
    from torch.fx.passes.runtime_assert import insert_deferred_runtime_asserts

    if not config.do_not_emit_runtime_asserts:
        insert_deferred_runtime_asserts(fx.GraphModule(root, graph), shape_env, "magneto")
    for node in reversed(list(graph.nodes)):
        if not node.users and (
            node.op == "get_attr"
            or node.target is operator.getitem
            or is_accessor_node(node)
            or (
                node.op == "call_function"
                and isinstance(node.meta.get("example_value"), _SYMBOLS)
                and all(map(_is_number, (*node.args, *node.kwargs.values())))
            )
        ):
            graph.erase_node(node)


def _is_number(argument: Any) -> bool:
    if isinstance(argument, fx.Node):
        return isinstance(argument.meta.get("example_value"), _SYMBOLS)
    return isinstance(argument, (int, float, bool))
