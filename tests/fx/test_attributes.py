"""Graphs against those of torch.compile, attribute by attribute."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from api import test_graphs as programs
from torch import fx

NAMED_OTHERWISE = {"several_results"}
"""Programs with a part of a result that nobody uses, which torch.compile gives a number."""


def module_names(stack: Any) -> list[Any]:
    """The modules of a stack, without the keys: those of torch.compile are addresses."""
    return list(stack.values())


def compare_nodes(ours: fx.Node, theirs: fx.Node, with_names: bool) -> None:
    assert ours.op == theirs.op
    assert type(ours) is type(theirs)
    assert (ours.type, ours._erased, ours._repr_fn) == (theirs.type, theirs._erased, theirs._repr_fn)
    assert type(ours.args) is type(theirs.args)
    assert type(ours.kwargs) is type(theirs.kwargs)
    assert [type(arg) for arg in ours.args] == [type(arg) for arg in theirs.args]
    assert vars(ours).keys() == vars(theirs).keys()
    if ours.op == "output" or ours.target is torch._C._set_grad_enabled:
        return  # their metadata is a timestamp, or nothing
    keys = list(theirs.meta)
    if ours.op == "placeholder" and "nn_module_stack" in keys:
        keys.remove("nn_module_stack")  # where it was read: magneto tells where it is used
    assert list(ours.meta) == keys
    if with_names:
        assert ours.name == theirs.name
        assert [user.name for user in ours.users] == [user.name for user in theirs.users]
        assert [node.name for node in ours.all_input_nodes] == [node.name for node in theirs.all_input_nodes]
        assert ours.meta.get("source_fn_stack") == theirs.meta.get("source_fn_stack")
    for key in ("example_value", "stack_trace"):
        assert type(ours.meta.get(key)) is type(theirs.meta.get(key))
    if "nn_module_stack" in ours.meta:
        assert module_names(ours.meta["nn_module_stack"]) == module_names(theirs.meta["nn_module_stack"])


def compare_graphs(ours: fx.Graph, theirs: fx.Graph, with_names: bool) -> None:
    assert vars(ours).keys() == vars(theirs).keys()
    assert len(ours.nodes) == len(theirs.nodes) == len(list(ours.nodes))
    assert type(ours._codegen) is type(theirs._codegen)
    table, their_table = (graph._find_nodes_lookup_table.table for graph in (ours, theirs))
    for key, nodes in table.items():
        assert list(nodes) == [node for node in ours.nodes if node in nodes]
        assert len(nodes) == len(their_table[key])
    space = ours._graph_namespace
    assert {node: node.name for node in ours.nodes} == space._obj_to_name
    assert {node.name for node in ours.nodes} <= space._used_names
    assert list(ours.nodes) == sorted(ours.nodes)
    for a, b in zip(ours.nodes, theirs.nodes, strict=True):
        assert a.graph is ours
        compare_nodes(a, b, with_names)


def compare(function: Any, *args: Any) -> None:
    ((ours, _),), ((theirs, _),) = programs.both(function, *args)
    with_names = getattr(function, "__name__", "") not in NAMED_OTHERWISE
    assert type(ours).__mro__[1:] == type(theirs).__mro__[1:]
    assert (ours._boxed_call, ours.training) == (theirs._boxed_call, theirs.training)
    assert ours.graph.owning_module is ours
    compare_graphs(ours.graph, theirs.graph, with_names)
    code, their_code = ours.code, theirs.code
    assert not with_names or code == their_code
    assert vars(ours).keys() == vars(theirs).keys() - {"_source_to_user_stacks"}
    assert ours.meta.keys() == theirs.meta.keys()
    assert dict(ours.named_parameters()) == dict(theirs.named_parameters()) == {}
    assert dict(ours.named_buffers()) == dict(theirs.named_buffers()) == {}
    assert dict(ours.named_children()) == dict(theirs.named_children()) == {}


@pytest.mark.parametrize("program", programs.PROGRAMS, ids=lambda program: program.__name__)
def test_function(program: Any) -> None:
    compare(program, torch.randn(2, 4), torch.rand(2, 4))


@pytest.mark.parametrize(("make", "size"), programs.MODULES)
def test_module(make: Any, size: Any) -> None:
    compare(make().eval(), torch.randn(*size))
