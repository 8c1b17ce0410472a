"""Functions that an operator was given, as modules: for our own replay, and within the graph for a backend."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import fx

from magneto import _core

if TYPE_CHECKING:
    Describe = Callable[[fx.Node, Any, fx.Node | None], None]
    """Gives a node its metadata: the node, what the core tells of it, or the node of the graph around it that it is."""


def argument(value: Any, nodes: dict[int, fx.Node]) -> Any:
    """A recorded argument with nodes in place of references."""
    kind = type(value)
    if kind is _core.Ref:
        return nodes[value.index]
    if kind is tuple:
        return tuple([argument(item, nodes) for item in value])
    if kind is list:
        return [argument(item, nodes) for item in value]
    if kind is dict:
        return {key: argument(item, nodes) for key, item in value.items()}
    if kind is slice:
        return slice(argument(value.start, nodes), argument(value.stop, nodes), argument(value.step, nodes))
    if isinstance(value, tuple) and hasattr(value, "_make"):
        return kind._make([argument(item, nodes) for item in value])
    return value


def within(args: tuple[Any, ...]) -> list[_core.Subgraph]:
    """The subgraphs among the arguments of an operator."""
    found = []
    for arg in args:
        if type(arg) is _core.Subgraph:
            found.append(arg)
        elif type(arg) is tuple:
            found += within(arg)
    return found


def _replaced(args: tuple[Any, ...], held: Callable[[_core.Subgraph], Any]) -> tuple[Any, ...]:
    """The arguments with something else in place of each subgraph."""
    found = []
    for arg in args:
        if type(arg) is _core.Subgraph:
            found.append(held(arg))
        else:
            found.append(_replaced(arg, held) if type(arg) is tuple else arg)
    return tuple(found)


def module_of(subgraph: _core.Subgraph) -> fx.GraphModule:
    """The module that runs a subgraph. Its nodes have no metadata."""
    return _build(subgraph, {}, None)


def attach(
    root: torch.nn.Module,
    graph: fx.Graph,
    args: tuple[Any, ...],
    nodes: dict[int, fx.Node],
    describe: Describe,
) -> tuple[Any, ...]:
    """The arguments of an operator with nodes that get modules in place of subgraphs."""
    graphs = within(args)
    operands = args[-1] if type(args[-1]) in (tuple, list) else args
    constants: dict[int, Any] = {}  # sizes that have come to be numbers
    for one in graphs:
        for index, operand in zip(reversed(one.inputs[len(one.own) :]), reversed(operands), strict=False):
            if index not in nodes and type(operand) is int:
                constants[index] = operand
    order = _order(graphs[0], nodes)

    def held(one: _core.Subgraph) -> fx.Node:
        if not hasattr(root, one.name):  # or it is one that was given to an operator before
            setattr(root, one.name, _build(one, nodes, describe, order, constants))
        return graph.get_attr(one.name)

    found = _replaced(args, held)
    if order is not None:
        first = len(operands) - len(order)
        ordered = tuple(operands[:first]) + tuple([operands[first + place] for place in order])
        found = (*found[:-1], ordered)
    return found


def _order(subgraph: _core.Subgraph, nodes: dict[int, fx.Node]) -> list[int] | None:
    """Where the inputs that two subgraphs share come from: by name within each group, as in TorchDynamo's graphs."""
    if subgraph.groups is None:
        return None
    lifted = subgraph.inputs[len(subgraph.own) :]
    order: list[int] = []
    for count in subgraph.groups:
        places = range(len(order), len(order) + count)
        order += sorted(places, key=lambda place: _name(nodes.get(lifted[place])))
    return order


def _described(meta: Any) -> tuple[Any, ...]:
    """An input that no graph around this one has, as the core would describe it."""
    return (None, "placeholder", None, None, None, meta, *[None] * 6)


def _name(node: fx.Node | None) -> str:
    return "" if node is None else node.name


def _build(
    subgraph: _core.Subgraph,
    outer: dict[int, fx.Node],
    describe: Describe | None,
    order: list[int] | None = None,
    constants: dict[int, Any] | None = None,
) -> fx.GraphModule:
    root = torch.nn.Module()
    graph = fx.Graph()
    nodes: dict[int, fx.Node] = {}
    own = len(subgraph.own)
    inputs = list(subgraph.inputs)
    if order is not None:
        inputs[own:] = [inputs[own + place] for place in order]
    described = {item[0]: item for item in subgraph.nodes}
    metas = dict(zip(subgraph.inputs[own:], subgraph.metas, strict=False))
    taken: set[str] = set()
    for place, index in enumerate(inputs):
        like = outer.get(index)
        name = f"arg{place}" if like is None else like.name
        while name in taken:
            name += "_"
        taken.add(name)
        nodes[index] = node = graph.placeholder(name)
        if constants is not None and index in constants:
            node.meta["example_value"] = constants[index]
        elif describe is not None:
            describe(node, described.get(index, _described(metas.get(index))), like)
    for item in subgraph.nodes:
        index, kind, target, args, kwargs = item[:5]
        if kind == "placeholder":
            continue
        if within(args):
            if describe is None:
                args = _replaced(args, functools.partial(_held, root, graph))
            else:
                args = attach(root, graph, args, nodes, describe)
        node = graph.create_node(
            kind,
            target,
            argument(args, nodes),
            argument(kwargs, nodes) if kwargs else None,
        )
        nodes[index] = node
        if describe is not None:
            describe(node, item, None)
        if item[8] is not None:
            node._rename(item[8])
    graph.output(argument(subgraph.outputs, nodes))
    module = fx.GraphModule(root, graph)
    module.meta.update(subgraph.notes or {})
    return module


def _held(root: torch.nn.Module, graph: fx.Graph, arg: _core.Subgraph) -> fx.Node:
    """A subgraph within one that is replayed."""
    setattr(root, arg.name, arg.module())
    return graph.get_attr(arg.name)
