"""The recording of an entry as a `torch.fx.GraphModule`, as TorchDynamo would give it."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch import fx
from torch._guards import GuardSource, Source
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.fx import _lazy_graph_module

from magneto import _core, _propagate, _stack, _subgraphs
from magneto._advice import named
from magneto._subgraphs import argument

if TYPE_CHECKING:
    from magneto._symints import Float, Symbols

_SYMBOLS = (torch.SymInt, torch.SymFloat, torch.SymBool)


class InputSource(Source):
    """Where a graph's input comes from, as text such as `L['self']._parameters['weight']`."""

    def __init__(self, text: str, index: int) -> None:
        self.text = text
        self.index = index

    @property
    def name(self) -> str:
        """The text."""
        return self.text

    @property
    def guard_source(self) -> GuardSource:
        """All inputs are guarded alike."""
        return GuardSource.LOCAL

    @property
    def _name_template(self) -> str:
        return self.text

    def __reduce__(self) -> Any:
        return InputSource, (self.text, self.index)  # inductor's cache keeps it

    def __eq__(self, other: object) -> bool:
        return isinstance(other, InputSource) and (other.text, other.index) == (self.text, self.index)

    def __hash__(self) -> int:
        return hash((self.text, self.index))

    def __repr__(self) -> str:
        return f"InputSource({self.text!r})"


def _fake(meta: _core.Meta, mode: FakeTensorMode, symbols: Symbols | None = None) -> FakeTensor:
    """A FakeTensor with this metadata."""
    if meta.flags & _core.META_WRAPPER:
        return meta.fake  # type: ignore[return-value]
    sizes, strides = (meta.sizes, meta.strides) if symbols is None else symbols.shape(meta)
    if meta.flags & (_core.META_CONJUGATE | _core.META_NEGATIVE):
        return _core.uninterrupted(_propagate.make_fake, meta, mode, sizes, strides)  # type: ignore[return-value]
    elem = torch.empty_strided(sizes, strides, dtype=meta.dtype, device="meta")
    if meta.flags & _core.META_REQUIRES_GRAD:
        elem.requires_grad_(True)
    fake = FakeTensor(mode, elem, meta.device)
    if meta.flags & _core.META_PARAMETER:
        fake._is_param = True
    return fake


def _shared(meta: _core.Meta, mode: FakeTensorMode, symbols: Symbols) -> FakeTensor:
    """The FakeTensor of all results with this metadata: one with symbols in it takes long to make."""
    found = symbols.fakes.get(meta)
    if found is None:
        found = symbols.fakes[meta] = _fake(meta, mode, symbols)
    return found


def _example(value: Any, mode: FakeTensorMode, symbols: Symbols | None = None) -> Any:
    if type(value) is _core.Meta:
        if value.fake is not None:
            return value.fake
        return _fake(value, mode) if symbols is None else _shared(value, mode, symbols)
    if type(value) is _core.Dim:
        return value.value if symbols is None else symbols.value(value)
    if type(value) is list:
        return [_example(item, mode, symbols) for item in value]
    if isinstance(value, tuple) and type(value) is not torch.Size:
        items = [_example(item, mode, symbols) for item in value]
        if type(value) is tuple:
            return tuple(items)
        return type(value)._make(items) if hasattr(value, "_make") else type(value)(items)
    return None if type(value) is _core.Ref else value


def placeholder_name(text: str, known: set[str]) -> str:
    """The name of the input at a source, such as `L_self_modules_lin_parameters_weight_`."""
    name = re.sub(r"[^a-zA-Z0-9]+", "_", text)
    if name in known:
        number = 0
        while f"{name}_{number}" in known:
            number += 1
        name = f"{name}_{number}"
    known.add(name)
    return name


_PARAM = re.compile(r"(?:\._modules\['([^']*)'\])")


def original_name(text: str) -> str | None:
    """The name in the state_dict of the parameter or buffer at a source, or None if it is neither."""
    match = re.search(r"\.(?:_parameters|_buffers)\['([^']*)'\]$", text)
    if match is None or not text.startswith("L['"):
        return None
    return ".".join([*_PARAM.findall(text[: match.start()]), match[1]])


def _marks(tensor: Any, static: bool) -> dict[str, Any]:
    """What a backend is told of a tensor that is given to the graph: whether its memory stays where it is, its tag."""
    held = getattr(tensor, "__dict__", {})
    marks = {name: held[name] for name in ("_dynamo_static_input_type", "tag") if name in held}
    return {"_dynamo_static_input_type": "unguarded", **marks} if static else marks


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


_FLOATS: dict[Any, Any] = {
    float: torch.sym_float,
    **{
        getattr(math, name): getattr(torch, f"_sym_{name}")
        for name in ("sqrt", "sin", "cos", "tan", "sinh", "cosh", "tanh", "asin", "acos", "atan", "log2")
    },
}
"""Functions that return floats, and those that stand for them in graphs."""


_KNOWN = frozenset((*_FLOATS.values(), torch.sym_min, torch.sym_max))


def _number(symbols: Symbols, target: Any, args: Any, value: Any) -> Any:
    """The example value of a number that is computed from others; `value` if torch has no symbol for it."""
    values = [arg.meta["example_value"] if isinstance(arg, fx.Node) else arg for arg in args]
    if target in _KNOWN or getattr(target, "__module__", None) == "_operator":
        try:
            return target(*values)
        except Exception:  # torch has no powers of negative floats
            symbols.failed = True
    return value


def has_symbols(entry: _core.Entry) -> bool:
    """Whether sizes or numbers vary that the graph gets."""
    return bool(entry.size_origins()) or any(
        item[1] == "placeholder" and type(item[5]) is float for item in entry.describe()[0]
    )


def varying(entry: _core.Entry, env: Any, function: Any) -> Symbols | None:
    """The symbols of an entry in a `ShapeEnv`; None if nothing varies."""
    if not has_symbols(entry):
        return None
    from magneto._symints import Symbols

    positions = {
        item[7]: number for number, item in enumerate(entry.describe()[0]) if item[1] == "placeholder"
    }

    def source(text: str, root: Any) -> Source:
        return InputSource(named(text, root, function), positions.get(text, -1))

    return Symbols(entry, env, source)


def _number_input(
    graph: fx.Graph, symbols: Symbols | None, value: Any, text: str, names: set[str]
) -> fx.Node:
    """The placeholder of an int or float."""
    kind, name, example = type(value), placeholder_name(text, names), value
    source: Source = InputSource(text, -1)
    if type(value) is _core.Dim and symbols is not None:
        number = int(value.tree[1:])
        kind, example, source = torch.SymInt, symbols.value(value), symbols.sources[number]
        if symbols.is_size(number):
            names.discard(name)
            name = placeholder_name(symbols.name(number), names)
    node = graph.create_node("placeholder", name, type_expr=kind)
    node.meta["example_value"] = example
    node.meta["grapharg"] = _number_argument(source, example)
    node._dynamo_source = source
    return node


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


def _float_input(graph: fx.Graph, one: Float, mode: FakeTensorMode, text: str, names: set[str]) -> fx.Node:
    """The placeholder of a float: it is given as a tensor, whose item is the number."""
    from torch._dynamo.variables.builder import GraphArg

    node = graph.create_node("placeholder", placeholder_name(text, names), type_expr=torch.Tensor)
    fake = node.meta["example_value"] = one.fake(mode)
    node.meta["grapharg"] = GraphArg(one.source, one.tensor, True, fake, False, one.tensor)
    node._dynamo_source = one.source
    return node


def _read_floats(
    graph: fx.Graph, sizes: Symbols, arguments: Any, nodes: dict[int, fx.Node], tensors: dict[int, fx.Node]
) -> None:
    """Take the floats out of their tensors before they are used for the first time."""
    for index in references(arguments):
        if index in tensors and index not in nodes:
            node = nodes[index] = graph.call_method("item", (tensors[index],))
            node.meta["example_value"] = sizes.floats[index].number
            node.meta["stack_trace"] = tensors[index].meta["stack_trace"]


def build(
    entry: _core.Entry,
    mode: FakeTensorMode,
    *,
    lazy: bool = False,
    function: Any = None,
    freezing: bool = False,
    sizes: Symbols | None = None,
) -> tuple[fx.GraphModule, list[Any], list[int]]:
    """The graph of an entry, the tensors that its inputs stood for when it was captured, and which the graph holds.

    `function` is what was captured: it tells names of variables. The graph holds, as attributes of its module in place
    of placeholders, the inputs whose address is marked as guarded, and with `freezing` all whose address stays. `sizes`
    are its symbols, if they are in the `ShapeEnv` of `mode` already.
    """
    symbols = entry.symbols
    if symbols is not None:
        mode = symbols.mode
    if sizes is None and has_symbols(entry):
        if mode.shape_env is None:
            from torch.fx.experimental.symbolic_shapes import ShapeEnv

            mode = FakeTensorMode(shape_env=ShapeEnv())
        sizes = varying(entry, mode.shape_env, function)
    described, outputs, inputs = entry.describe()
    root = torch.nn.Module()
    graph = fx.Graph()
    nodes: dict[int, fx.Node] = {}
    tensors: dict[int, fx.Node] = {}
    texts = _stack.Formatter()
    names: set[str] = set()
    originals: dict[str, str] = {}
    sources: dict[str, Source] = {}
    placeholders = [item for item in described if item[1] == "placeholder"]
    first_use: dict[int, str] = {}
    for item in described:
        if item[1] != "placeholder":
            _first_uses((item[3], item[4]), item[6], first_use, texts)
    frozen: list[int] = []
    for position, (index, _, _, _, _, value, _, text, _, origin, _, in_module) in enumerate(placeholders):
        text = named(text, origin, function)
        if sizes is not None and index in sizes.floats:
            node = tensors[index] = _float_input(graph, sizes.floats[index], mode, text, names)
            node.meta["stack_trace"] = first_use.get(index, "")
            inputs[position] = sizes.floats[index].tensor
            continue
        if type(value) is not _core.Meta:
            nodes[index] = node = _number_input(graph, sizes, value, text, names)
            node.meta["stack_trace"] = first_use.get(index, "")
            inputs[position] = node.meta["example_value"]
            continue
        name = placeholder_name(text, names)
        kind = torch.nn.Parameter if value.flags & _core.META_PARAMETER else torch.Tensor
        wrapper = type(value.fake) if value.flags & _core.META_WRAPPER else None
        node = graph.create_node("placeholder", name, type_expr=wrapper or kind)
        source = InputSource(text, position)
        original = original_name(text)
        node.meta["stack_trace"] = first_use.get(index, "")
        node.meta["example_value"] = _fake(value, mode, sizes)
        marks = _marks(inputs[position], bool(in_module) or kind is torch.nn.Parameter)
        node.meta["tensor_dict"] = marks
        node.meta["grapharg"] = _graph_argument(source, inputs[position], node.meta["example_value"])
        node._dynamo_source = source
        if original is not None:
            originals[re.sub(r"[^a-zA-Z0-9]+", "_", text)] = original
            sources[original] = source
        if (freezing and "_dynamo_static_input_type" in marks) or (
            marks.get("_dynamo_static_input_type") == "guarded"
        ):
            marks["_dynamo_static_input_type"] = "guarded"  # which tensor it is: see magneto/_backends.py
            frozen.append(position)
            sources[str(node.target)] = source
        nodes[index] = node
    for position in frozen:  # behind the placeholders
        index = placeholders[position][0]
        nodes[index] = _attribute(root, graph, nodes[index], inputs[position])

    def describe(node: fx.Node, item: Any, outer: fx.Node | None) -> None:
        """The metadata of a node of a subgraph: an input that is like the node `outer`, or an operation."""
        if outer is not None:
            node.meta.update(outer.meta)
            node.type = outer.type
            return
        target, value, stack, bindings = item[2], item[5], item[6], item[10]
        if value is not None:
            is_number = type(value) in (float, _core.Dim) and node.op != "placeholder"
            node.meta["example_value"] = (
                _number(sizes, target, node.args, value)
                if is_number and sizes is not None
                else _example(value, mode, sizes)
            )
        if node.op != "placeholder":
            modules = _module_stack(entry, stack)
            if modules:
                node.meta["nn_module_stack"] = modules
            node.meta["source_fn_stack"] = [(node.name, _source_function(target, modules))]
            node.meta["stack_trace"] = texts.format(stack)
        if bindings is not None:
            node.meta["unbacked_bindings"] = bindings

    for index, kind, target, args, kwargs, value, stack, _, hint, _, bindings, _ in described:
        if kind == "placeholder":
            continue
        if target is torch._check and len(args) == 2:  # a function that makes the message
            name = f"_check_message_{index}"
            setattr(root, name, args[1])
            args = (args[0], graph.get_attr(name))
        if tensors and sizes is not None:
            _read_floats(graph, sizes, (args, kwargs), nodes, tensors)
        if any(type(arg) is _core.Subgraph for arg in args):
            args = _subgraphs.attach(root, graph, args, nodes, describe)
        is_number = sizes is not None and type(value) in (float, _core.Dim)
        target = _FLOATS.get(target, target) if is_number else target
        node = graph.create_node(
            kind, target, argument(args, nodes), argument(kwargs, nodes) if kwargs else None
        )
        meta = node.meta
        modules = _module_stack(entry, stack)
        if modules:
            meta["nn_module_stack"] = modules
        meta["source_fn_stack"] = [(node.name, _source_function(target, modules))]
        meta["stack_trace"] = texts.format(stack)
        if value is not None:
            meta["example_value"] = (
                _number(sizes, target, node.args, value)
                if is_number and sizes is not None
                else _example(value, mode, sizes)
            )
        if bindings is not None:
            meta["unbacked_bindings"] = bindings
        if hint is not None:
            node._rename(hint)
        nodes[index] = node
    graph.output(tuple([nodes[index] for index in outputs]))
    _erase_empty_switches(graph)
    if symbols is not None:
        _add_checks(root, graph, symbols.shape_env)
    result = _module_class(lazy)(root, graph)
    result.meta["dynamo_flat_name_to_original_fqn"] = originals
    result._param_name_to_source = sources  # type: ignore[assignment]
    return result, inputs, frozen


def _module_class(lazy: bool) -> type[fx.GraphModule]:
    """As `_use_lazy_graph_module` decides, whose flag is the process's: two threads could leave it set."""
    if lazy and not _lazy_graph_module._force_skip_lazy_graph_module_flag:
        return _lazy_graph_module._LazyGraphModule
    return fx.GraphModule


def _graph_argument(source: Source, example: Any, fake: Any) -> Any:
    """What TorchDynamo notes about an input."""
    from torch._dynamo.variables.builder import GraphArg  # FakeTensorMode has imported it long since

    if example is None:  # the tensor that the capture saw is gone
        return GraphArg(source, fake, False, fake, example_strong_ref=fake)
    return GraphArg(source, example, False, fake)


def _number_argument(source: Source, example: Any) -> Any:
    """The same for a number."""
    from torch._dynamo.variables.builder import GraphArg

    return GraphArg(source, example, False, None, False)


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


_Modules = dict[str, tuple[str, type]]


def _module_stack(entry: _core.Entry, stack: _stack.Stack | None) -> _Modules:
    """The modules within which an operation was called, outermost first."""
    found: _Modules = {}
    for item in stack or ():
        if len(item) > 2:
            text = entry.source(item[2])
            found[text] = (_PARAM.sub(r".\1", text), item[3])
    return found


def _source_function(target: Any, modules: _Modules) -> Any:
    """What the user called: the operation itself, or the module of torch.nn that it is part of."""
    if modules:
        cls = next(reversed(modules.values()))[1]
        if cls.__module__.startswith("torch.nn."):
            return cls
    return target


def _first_uses(value: Any, stack: Any, found: dict[int, str], texts: _stack.Formatter) -> None:
    kind = type(value)
    if kind is _core.Ref:
        if value.index not in found:
            found[value.index] = texts.format(stack)
    elif kind is dict:
        for item in value.values():
            _first_uses(item, stack, found, texts)
    elif kind is slice:
        _first_uses((value.start, value.stop, value.step), stack, found, texts)
    elif isinstance(value, (tuple, list)):
        for item in value:
            _first_uses(item, stack, found, texts)
