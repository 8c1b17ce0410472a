"""What uses graphs of torch.fx takes those of magneto for its own, with metadata that nobody has read before."""

from __future__ import annotations

import contextlib
import copy
import io
import pickle
import sys
import types
from typing import Any

import pytest
import torch
from torch import fx, nn
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.passes.fake_tensor_prop import FakeTensorProp
from torch.fx.passes.shape_prop import ShapeProp
from torch.fx.passes.split_module import split_module
from torch.nn import functional as F

import magneto
from magneto import _core, _graph


class Block(nn.Module):
    """Arguments of all kinds: lists, slices, keywords, dtypes, numbers, several results."""

    def __init__(self) -> None:
        super().__init__()
        self.lin = nn.Linear(4, 4)
        self.norm = nn.LayerNorm(4)
        self.register_buffer("scale", torch.full((4,), 2.0))

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> Any:
        h = self.norm(F.relu(self.lin(x))) * self.scale
        both = torch.cat([h, y], dim=0)
        top, index = both[1:, ::2].topk(2, dim=-1)
        z = both.clone().add_(1.0)
        return top.to(torch.float64).sum(), z.view(-1, 2) + 1, index


@pytest.fixture
def captured() -> Any:
    """A graph of which nobody has read anything, its inputs, and what it returns."""
    torch.manual_seed(0)
    found: list[Any] = []

    def backend(module: fx.GraphModule, inputs: list[Any]) -> Any:
        found.extend(inputs)
        return module.forward

    compiled = magneto.compile(Block(), backend=backend, fullgraph=True)
    expected = compiled(torch.randn(3, 4), torch.randn(2, 4))
    entry = magneto.cache_entries(compiled)[0].entry
    module = _graph.build(entry, FakeTensorMode(), lazy=True).module
    for node in module.graph.nodes:
        assert not _core.made(node.meta).keys() - {"tensor_dict"}
    return module, found, expected


def check(got: Any, expected: Any) -> None:
    assert len(got) == len(expected)
    for a, b in zip(got, expected, strict=True):
        assert torch.equal(a, b)


def copied(module: fx.GraphModule, inputs: list[Any]) -> fx.GraphModule:
    return copy.deepcopy(module)


def pickled(module: fx.GraphModule, inputs: list[Any]) -> fx.GraphModule:
    return pickle.loads(pickle.dumps(module))


def of_a_copied_graph(module: fx.GraphModule, inputs: list[Any]) -> fx.GraphModule:
    graph = fx.Graph()
    mapping: dict[fx.Node, fx.Node] = {}
    graph.output(graph.graph_copy(module.graph, mapping))
    for node, other in mapping.items():
        assert dict(node.meta) == dict(other.meta)
    return fx.GraphModule(module, graph)


def transformed(module: fx.GraphModule, inputs: list[Any]) -> fx.GraphModule:
    return fx.Transformer(module).transform()


def traced_again(module: fx.GraphModule, inputs: list[Any]) -> fx.GraphModule:
    return fx.symbolic_trace(module)


def traced_to_aten(module: fx.GraphModule, inputs: list[Any]) -> fx.GraphModule:
    return make_fx(module)(*inputs)


def interpreted(module: fx.GraphModule, inputs: list[Any]) -> Any:
    return fx.Interpreter(module).run


def without_dead_code(module: fx.GraphModule, inputs: list[Any]) -> fx.GraphModule:
    x = next(iter(module.graph.nodes))
    with module.graph.inserting_after(x):
        module.graph.call_function(torch.sin, (x,))
    count = len(module.graph.nodes)
    assert module.graph.eliminate_dead_code()
    assert len(module.graph.nodes) == count - 1
    module.recompile()
    return module


def split(module: fx.GraphModule, inputs: list[Any]) -> fx.GraphModule:
    order = {node: number for number, node in enumerate(module.graph.nodes)}
    return split_module(module, None, lambda node: order[node] // 9)


def propagated(module: fx.GraphModule, inputs: list[Any]) -> fx.GraphModule:
    ShapeProp(module).propagate(*inputs)
    assert all("tensor_meta" in node.meta for node in module.graph.nodes if node.op == "placeholder")
    return module


def propagated_fakes(module: fx.GraphModule, inputs: list[Any]) -> fx.GraphModule:
    FakeTensorProp(module, FakeTensorMode()).propagate(*inputs)
    assert all(
        isinstance(node.meta["val"], FakeTensor) for node in module.graph.nodes if node.op == "placeholder"
    )
    return module


def linted(module: fx.GraphModule, inputs: list[Any]) -> fx.GraphModule:
    module.graph.lint()
    return module


def by_source_partitions(module: fx.GraphModule, inputs: list[Any]) -> fx.GraphModule:
    from torch.fx.passes.utils.source_matcher_utils import get_source_partitions

    assert set(get_source_partitions(module.graph, [nn.Linear, torch.cat])) == {nn.Linear, torch.cat}
    return module


def by_patterns(module: fx.GraphModule, inputs: list[Any]) -> fx.GraphModule:
    replaced = fx.subgraph_rewriter.replace_pattern(module, lambda x: x.clone(), lambda x: x * 1)
    assert len(replaced) == 1
    return module


def drawn(module: fx.GraphModule, inputs: list[Any]) -> fx.GraphModule:
    pydot = pytest.importorskip("pydot")
    from torch.fx.passes.graph_drawer import FxGraphDrawer

    assert isinstance(FxGraphDrawer(module, "graph").get_dot_graph(), pydot.Dot)
    return module


def printed(module: fx.GraphModule, inputs: list[Any]) -> fx.GraphModule:
    out, tabulate = io.StringIO(), types.ModuleType("tabulate")
    tabulate.tabulate = lambda rows, headers: "\n".join(map(str, rows))
    with contextlib.redirect_stdout(out), pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "tabulate", tabulate)
        module.print_readable()
        module.graph.print_tabular()
    assert "nn.functional.layer_norm" in out.getvalue()
    assert "f32[4, 4]" in module.print_readable(print_output=False)
    assert "call_function" in str(module.graph)
    assert "torch.cat" in module.code
    assert "GraphModule" in str(module)
    return module


def by_aot_autograd(module: fx.GraphModule, inputs: list[Any]) -> Any:
    from functorch.compile import make_boxed_func
    from torch._dynamo.backends.common import aot_autograd
    from torch._guards import TracingContext, tracing

    compiler = aot_autograd(fw_compiler=lambda gm, _: make_boxed_func(gm.forward))
    with tracing(TracingContext(FakeTensorMode())):
        return compiler(module, inputs)


def by_export(module: fx.GraphModule, inputs: list[Any]) -> Any:
    return torch.export.export(module, tuple(inputs)).module()


USERS = [
    copied, pickled, of_a_copied_graph, transformed, traced_again, traced_to_aten, interpreted, without_dead_code,
    split, propagated, propagated_fakes, linted, by_source_partitions, by_patterns, drawn, printed, by_aot_autograd,
    by_export,
]  # fmt: skip


@pytest.mark.parametrize("use", USERS, ids=lambda use: use.__name__)
def test_user(captured: Any, use: Any) -> None:
    module, inputs, expected = captured
    check(use(module, inputs)(*inputs), expected)
    for node in module.graph.nodes:
        assert _core.UNMADE not in dict(node.meta).values()


def test_metadata_is_made_on_the_first_read(captured: Any) -> None:
    module, _, _ = captured
    for node in module.graph.nodes:
        if node.op == "output":
            continue
        assert node.stack_trace is None or "in forward" in node.stack_trace
        value = node.meta["example_value"]
        assert node.meta["example_value"] is value
        assert dict(node.meta)["example_value"] is value


def test_copies_share_what_is_made(captured: Any) -> None:
    module, _, _ = captured
    other = copy.deepcopy(module)
    for ours, theirs in zip(module.graph.nodes, other.graph.nodes, strict=True):
        assert list(ours.meta) == list(theirs.meta)
        for key in theirs.meta:
            assert theirs.meta[key] is ours.meta[key]


@pytest.mark.parametrize(
    "inside",
    [
        FakeTensorMode,
        torch.inference_mode,
        torch.no_grad,
        lambda: torch.device("meta"),
        torch._C.DisableTorchFunctionSubclass,
        lambda: torch.utils._python_dispatch.TorchDispatchMode(),
    ],
)
def test_values_do_not_depend_on_where_they_are_read_first(captured: Any, inside: Any) -> None:
    module, _, _ = captured
    with inside():
        for node in module.graph.nodes:
            value = node.meta.get("example_value")
            if isinstance(value, torch.Tensor):
                assert type(value) is FakeTensor
                assert value.device.type == "cpu"
                assert not value.is_inference()


def test_values_that_are_read_in_a_trace_are_no_part_of_it(captured: Any) -> None:
    module, _, _ = captured
    node = next(iter(module.graph.nodes))

    def program(x: torch.Tensor) -> torch.Tensor:
        assert node.meta["example_value"].shape == (4, 4)
        return x + 1

    traced = make_fx(program)(torch.ones(2))
    assert [one.op for one in traced.graph.nodes] == ["placeholder", "call_function", "output"]


def test_names_that_are_given_later_are_free(captured: Any) -> None:
    module, _, _ = captured
    names = [node.name for node in module.graph.nodes]
    output = module.graph.output_node()
    with module.graph.inserting_before(output):
        for _ in range(3):
            names.append(module.graph.call_function(torch.add, (output.args[0][1], 1)).name)
            names.append(module.graph.call_method("relu", (output.args[0][1],)).name)
    assert len(set(names)) == len(names)
    module.graph.lint()


# ---- what forward does ----


def run(edit: Any, function: Any = None) -> torch.Tensor:
    """What a function returns whose graph is edited by a backend; by itself it is sin(x) + 1."""

    def program(x: torch.Tensor) -> torch.Tensor:
        return torch.sin(x) + 1

    return magneto.compile(function or program, backend=edit)(torch.ones(3))


def first(module: fx.GraphModule, target: Any) -> fx.Node:
    return next(node for node in module.graph.nodes if node.target is target)


def to_cos(module: fx.GraphModule, recompile: bool) -> None:
    first(module, torch.sin).target = torch.cos
    if recompile:
        module.recompile()


SINE, COSINE = torch.ones(3).sin() + 1, torch.ones(3).cos() + 1


@pytest.mark.parametrize("what", [lambda module: module.forward, lambda module: module])
def test_an_edit_counts_from_recompile_on(what: Any) -> None:
    def backend(module: fx.GraphModule, inputs: list[Any]) -> Any:
        to_cos(module, recompile=True)
        return what(module)

    assert torch.equal(run(backend), COSINE)


def test_an_edit_without_recompile_does_what_it_does_with_torch_compile() -> None:
    def backend(module: fx.GraphModule, inputs: list[Any]) -> Any:
        to_cos(module, recompile=False)
        return module.forward

    def program(x: torch.Tensor) -> torch.Tensor:
        return torch.sin(x) + 1

    theirs = torch.compile(program, backend=backend)(torch.ones(3))
    assert torch.equal(run(backend), theirs)


def changed_argument(module: fx.GraphModule) -> None:
    node = next(node for node in module.graph.nodes if node.name == "add")
    node.args = (node.args[0], 5)


def changed_order(module: fx.GraphModule) -> None:
    sin = first(module, torch.sin)
    with module.graph.inserting_after(sin):
        new = module.graph.call_function(torch.mul, (sin, 2))
    sin.replace_all_uses_with(new)
    new.args = (sin, 2)


def changed_output(module: fx.GraphModule) -> None:
    module.graph.output_node().args = ((first(module, torch.sin),),)


@pytest.mark.parametrize("edit", [changed_argument, changed_order, changed_output])
def test_any_edit_is_noticed(edit: Any) -> None:
    def backend(module: fx.GraphModule, inputs: list[Any]) -> Any:
        edit(module)
        module.recompile()
        expected.append(fx.Interpreter(module).run(*inputs)[0])
        return module.forward

    expected: list[torch.Tensor] = []
    result = run(backend)
    assert torch.equal(result, expected[0])
    assert not torch.equal(result, SINE)


def test_an_edit_after_forward_was_returned_does_not_count() -> None:
    modules: list[fx.GraphModule] = []

    def backend(module: fx.GraphModule, inputs: list[Any]) -> Any:
        modules.append(module)
        return module.forward

    def program(x: torch.Tensor) -> torch.Tensor:
        return torch.sin(x) + 1

    compiled = magneto.compile(program, backend=backend)
    assert torch.equal(compiled(torch.ones(3)), SINE)
    to_cos(modules[0], recompile=True)
    assert torch.equal(compiled(torch.ones(3)), SINE)
    assert torch.equal(modules[0](torch.ones(3))[0], COSINE)


def test_a_forward_that_was_replaced_is_called() -> None:
    def backend(module: fx.GraphModule, inputs: list[Any]) -> Any:
        module.forward = lambda x: (x * 3,)
        return module.forward

    assert torch.equal(run(backend), torch.full((3,), 3.0))


def test_code_that_is_transformed_is_used() -> None:
    def backend(module: fx.GraphModule, inputs: list[Any]) -> Any:
        module.graph.on_generate_code(
            lambda _: lambda body: [line.replace("torch.sin", "torch.cos") for line in body]
        )
        return module.forward

    assert torch.equal(run(backend), COSINE)


def test_a_forward_that_is_wrapped_is_called() -> None:
    calls = []

    def backend(module: fx.GraphModule, inputs: list[Any]) -> Any:
        def forward(*args: Any) -> Any:
            calls.append(len(args))
            return module(*args)

        return forward

    assert torch.equal(run(backend), SINE)
    assert calls == [1]


def test_no_code_is_made_for_a_forward_that_is_only_returned() -> None:
    modules: list[Any] = []

    def backend(module: fx.GraphModule, inputs: list[Any]) -> Any:
        modules.append(module)
        return module.forward

    run(backend)
    assert modules[0]._needs_recompile()
    assert "torch.sin" in modules[0].code


def test_a_message_of_a_check_is_the_modules() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        n = x.sum().int().item()
        torch._check(n >= 0, lambda: "negative")
        return torch.zeros(3).sin() + n

    def backend(module: fx.GraphModule, inputs: list[Any]) -> Any:
        module.graph.lint()
        return module.forward

    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        assert torch.equal(run(backend, program), torch.full((3,), 3.0))
