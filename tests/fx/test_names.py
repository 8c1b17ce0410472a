"""Names of nodes and inputs are those that FX and TorchDynamo give."""

from __future__ import annotations

import keyword
import operator
import re
from typing import Any

import pytest
import torch
from torch import fx
from torch.fx.graph import _illegal_names
from torch.fx.immutable_collections import immutable_dict

from magneto import _core


def _otherwise(text: str) -> tuple[str, str | None]:
    """The names of an input, by regular expressions."""
    held = re.search(r"\.(?:_parameters|_buffers)\['([^']*)'\]$", text)
    steps = re.findall(r"\._modules\['([^']*)'\]", text[: held.start()]) if held is not None else []
    original = ".".join([*steps, held[1]]) if held is not None and text.startswith("L['") else None
    return re.sub(r"[^a-zA-Z0-9]+", "_", text), original


SOURCES = [
    "L['x']", "L['self']._parameters['weight']", "L['self']._modules['0']._buffers['running_mean']",
    "L['self']._modules['a_b']._modules['c.d']._parameters['__w__']", "G['model']._modules['lin']._parameters['bias']",
    "L['self']._parameters['weight'].grad", "L['self']._modules['lin'].extra[0]", "L['é'].größe['ü']", "", "___", "9",
    "L['m'].inner._modules['lin'].weights['k']._parameters['w']", "L['self']._parameters['it's']",
    "L['self']._modules['x", "L['self']._modules", "._parameters['w']", "L['d']['._modules']._parameters['w']",
]  # fmt: skip


@pytest.mark.parametrize("source", SOURCES)
def test_names_of_an_input(source: str) -> None:
    assert _core.input_names(source) == _otherwise(source)


def test_names_of_what_is_no_text() -> None:
    with pytest.raises(TypeError, match="a source is a text"):
        _core.input_names(b"x")


def camelCase(x: Any) -> Any:
    return x


def __magic__(x: Any) -> Any:
    return x


def größe(x: Any) -> Any:
    return x


TARGETS = [
    operator.add, operator.add, torch.add, operator.getitem, operator.getitem, torch.sin, camelCase, __magic__, größe,
    größe, len, max, torch.nn.functional.linear, operator.add, torch.ops.aten.add.Tensor, torch.float,
]  # fmt: skip
HINTS = [
    None, "x", "x", "add", "add_1", "x_5", "x", "x", "if", "None", "_", "print", "x_5", "größe", "x_007", "é1", "__a__",
    "x_99999999999999999999", "x_99999999999999999999", "ALL_CAPS", "add_1",
]  # fmt: skip


def _items() -> list[tuple[Any, ...]]:
    found = []
    for number, hint in enumerate(HINTS * 2, 1):
        target: Any = TARGETS[number % len(TARGETS)]
        is_method = number % 5 == 0
        target = ("addmm_", "__len__", "fooBar")[number % 3] if is_method else target
        kind = "call_method" if is_method else "call_function"
        if not is_method and not callable(target):
            continue
        args = (_core.ref(0), 1)
        found.append((number, kind, target, args, None, None, None, None, hint, None, None, 0))
    return found


def test_names_of_operations() -> None:
    ours, theirs = fx.Graph(), fx.Graph()
    writer = _core.GraphWriter(ours, _illegal_names, immutable_dict(), torch._check)
    first = writer.node("placeholder", "L_fooBar_", None, {})
    items = _items()
    nodes = [first, *[None] * 100]
    names: list[Any] = [None] * len(items)
    assert writer.operations(items, 0, len(items), nodes, names, lambda *_: None) == len(items)
    writer.output((nodes[items[-1][0]],))
    writer.close()
    expected = theirs.placeholder("L_fooBar_")
    theirs_names = []
    last = None
    for _, kind, target, _, _, _, _, _, hint, *_ in items:
        last = theirs.create_node(kind, target, (expected, 1))
        theirs_names.append(last.name)
        if hint is not None:
            last._rename(hint)
    theirs.output((last,))
    assert names == theirs_names
    assert [node.name for node in ours.nodes] == [node.name for node in theirs.nodes]
    assert ours._graph_namespace._used_names == theirs._graph_namespace._used_names
    assert ours._graph_namespace._base_count == theirs._graph_namespace._base_count
    assert len(ours.nodes) == len(theirs.nodes) == len(items) + 2
    ours.lint()


@pytest.mark.parametrize("name", [*keyword.kwlist, "max", "torch", "inf", "device"])
def test_names_that_code_must_not_have(name: str) -> None:
    ours, theirs = fx.Graph(), fx.Graph()
    writer = _core.GraphWriter(ours, _illegal_names, immutable_dict(), torch._check)
    node = writer.node("placeholder", name, None, {})
    assert node.name == theirs.placeholder(name).name


def test_an_operation_whose_argument_is_not_there() -> None:
    graph = fx.Graph()
    writer = _core.GraphWriter(graph, _illegal_names, immutable_dict(), torch._check)
    item = (0, "call_function", torch.sin, (_core.ref(5),), None, None, None, None, None, None, None, 0)
    with pytest.raises(RuntimeError, match="uses node 5 before it is there"):
        writer.operations([item], 0, 1, [None], [None], lambda *_: None)


def test_what_is_no_graph_is_refused() -> None:
    with pytest.raises(AttributeError):
        _core.GraphWriter(object(), {}, {}, None)
