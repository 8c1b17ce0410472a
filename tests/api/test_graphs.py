"""Captured graphs against those that torch.compile gives for the same programs."""

from __future__ import annotations

import collections
import enum
import functools
import operator
import types
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import fx, nn
from torch.nn import functional as F

import magneto

BY_TORCH_TOO = pytest.mark.no_leak_hunt("torch.compile keeps what it has made")

GLOBAL = torch.arange(4.0)
other = types.ModuleType("other")
other.weight = torch.ones(4)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(4, 4)
        self.seq = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 4))
        self.norm = nn.LayerNorm(4)
        self.register_buffer("scale", torch.full((4,), 2.0))
        self.extra = [torch.ones(4), torch.zeros(4)]
        self.named = {"k": torch.ones(4)}
        self.factor = 3

    def forward(self, x):
        z = self.lin(x)
        h = torch.relu(z) + self.scale
        h = self.norm(self.seq(h)) * self.factor
        h += self.extra[0]
        return h + self.named["k"], x.shape[0]


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4, bias=False)
        self.b = nn.Linear(4, 4, bias=False)
        self.b.weight = self.a.weight

    def forward(self, x):
        return self.b(self.a(x))


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(8, 24)
        self.out = nn.Linear(8, 8)
        self.drop = nn.Dropout(0.0)

    def forward(self, x):
        b, s, d = x.shape
        q, k, v = self.qkv(x).view(b, s, 3, 2, 4).permute(2, 0, 3, 1, 4).unbind(0)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.drop(self.out(y.transpose(1, 2).reshape(b, s, d)))


class Convolution(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 2, 3)
        self.bn = nn.BatchNorm2d(2)
        self.pool = nn.MaxPool2d(2)

    def forward(self, x):
        return self.pool(F.relu(self.bn(self.conv(x)))).flatten(1)


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, dropout=0.0)

    def forward(self, x):
        return self.layer(x)


@dataclass
class Pair:
    first: torch.Tensor
    second: torch.Tensor


Point = collections.namedtuple("Point", "x y")


def add(x, y):
    return x + y


def operators(x, y):
    a = -x * 2 - y / 3
    b = a @ y.T
    c = (x > y) & (x < 2)
    return a**2, b, ~c, x // 2, x % 3, abs(x)


def reversed_operators(x, y):
    return 1 - x, 2 / y, 2**x


def methods(x, y):
    h = x.sin().cos().add(y, alpha=2)
    return h.view(-1).sum(), h.mean(dim=0, keepdim=True), h.t().contiguous()


def functions(x, y):
    a = torch.cat([x, y], dim=0)
    b = torch.stack((x, y))
    c = torch.where(x > 0, x, y)
    return a, b, c, torch.einsum("ij,kj->ik", x, y)


def indexing(x, y):
    a = x[0]
    b = x[:, 1:3]
    c = x[..., None]
    d = x[1, 2]
    return a, b, c, d, x[[0, 1]], x[y > 0].shape if False else None


def item_assignment(x, y):
    z = x.clone()
    z[0] = 1
    z[:, 1] = y[:, 0]
    return z


def in_place(x, y):
    z = x + 0
    z += y
    return z.mul_(2).add_(1)


def several_results(x, y):
    values, indices = x.max(dim=1)
    a, b = y.chunk(2, dim=1)
    top = torch.topk(x, 2)
    return values, indices, a, top.values


def factories(x, y):
    return (
        torch.zeros(2, 3) + torch.ones_like(x).sum(),
        torch.arange(4),
        torch.full((2,), 3.0),
        x.new_zeros(2),
    )


def metadata(x, y):
    return x.view(x.size(0) * x.shape[1]) * x.ndim, y.reshape(-1, x.dim())


def global_tensor(x, y):
    return x + GLOBAL * 2


def containers(x, y):
    d = {"a": x + 1, "b": [y * 2, x]}
    return d["a"] + d["b"][0], Point(x + 2, y), tuple(t.sum() for t in d["b"])


def loops(x, y):
    for i in range(3):
        x = x + i if i % 2 else x * y
    return x


def helper(x, scale=2):
    t = x * scale
    return t + 1


def inlined(x, y):
    a = helper(x)
    b = helper(y, scale=3)
    return a - b


def closure_made_inside(x, y):
    def inner(v):
        w = v + x
        return w * y

    return inner(x) + inner(y)


def dataclass_argument(x, y):
    p = Pair(x + 1, y)
    return p.first * p.second


def no_grad(x, y):
    with torch.no_grad():
        a = x * 2
    return a + y


def keyword_arguments(x, y):
    return F.softmax(x, dim=-1), torch.sum(y, dim=1, keepdim=True), F.gelu(x, approximate="tanh")


def dtypes(x, y):
    return x.to(torch.float64), y.half().float(), x.long(), x.type(torch.int32)


def comprehension(x, y):
    return [t * 2 for t in (x, y)], {k: v + 1 for k, v in enumerate([x, y])}


def sorted_and_zip(x, y):
    return [a + b for a, b in zip([x, y], [y, x])], [i * x for i in sorted([3, 1, 2], reverse=True)]


def generator(x, y):
    def steps():
        yield x + 1
        yield y * 2

    first, second = steps()
    return first @ second.T


def unpacking(x, y):
    a, b = x
    return a + b, y


def operator_module(x, y):
    return operator.add(x, y), operator.matmul(x, y.T)


def exceptions(x, y):
    try:
        raise ValueError("no")
    except ValueError:
        return x + y


def unused_input(x, y):
    return x.relu()


def unused_result(x, y):
    x * 2
    return y + 1


def no_operations(x, y):
    return x


PROGRAMS = [
    add, operators, reversed_operators, methods, functions, indexing, item_assignment, in_place, several_results,
    factories, metadata, global_tensor, containers, loops, inlined, closure_made_inside, dataclass_argument, no_grad,
    keyword_arguments, dtypes, comprehension, sorted_and_zip, generator, unpacking, operator_module, exceptions,
    unused_input, unused_result,
]  # fmt: skip

MODULES = [
    (Block, (2, 4)),
    (Tied, (2, 4)),
    (Attention, (2, 3, 8)),
    (Convolution, (2, 1, 8, 8)),
    (Encoder, (2, 3, 8)),
]


def recorder():
    graphs = []

    def backend(module, inputs):
        graphs.append((module, list(inputs)))
        return module.forward

    return backend, graphs


def shape_of(graph: fx.Graph):
    """What a graph is, without the names of its operations."""
    numbers = {}
    lines = []
    for node in graph.nodes:
        numbers[node] = len(numbers)
        args, kwargs = fx.node.map_arg((node.args, node.kwargs), lambda n: f"%{numbers[n]}")
        target = node.target if node.op != "output" else "output"
        lines.append((node.op, getattr(target, "__name__", target), str(args), str(dict(kwargs))))
    return lines


def both(function, *args):
    backend, ours = recorder()
    magneto.compile(function, backend=backend, fullgraph=True)(*args)
    backend, theirs = recorder()
    torch._dynamo.reset()
    torch.compile(function, backend=backend, fullgraph=True)(*args)
    return ours, theirs


def compare(ours, theirs):
    assert len(ours) == len(theirs) == 1
    (module, inputs), (their_module, their_inputs) = ours[0], theirs[0]
    assert shape_of(module.graph) == shape_of(their_module.graph)
    for a, b in zip(module.graph.nodes, their_module.graph.nodes, strict=True):
        assert a.target is b.target or a.target == b.target
        if a.op == "placeholder":
            assert a.name == b.name
            assert a.type == b.type
            assert a.meta["tensor_dict"] == b.meta["tensor_dict"]
        check_example(a.meta.get("example_value"), b.meta.get("example_value"))
    assert all(a is b for a, b in zip(inputs, their_inputs, strict=True))
    module.graph.lint()


def check_example(a, b):
    if isinstance(b, torch.Tensor):
        assert (a.shape, a.stride(), a.dtype, a.device) == (b.shape, b.stride(), b.dtype, b.device)
        assert a.requires_grad == b.requires_grad
        assert isinstance(a, torch.nn.Parameter) == isinstance(b, torch.nn.Parameter)
    elif isinstance(b, (tuple, list)):
        assert len(a) == len(b)
        for x, y in zip(a, b):
            check_example(x, y)


@BY_TORCH_TOO
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_function(program):
    compare(*both(program, torch.randn(2, 4), torch.rand(2, 4)))


@BY_TORCH_TOO
@pytest.mark.parametrize(("make", "size"), MODULES, ids=[make.__name__ for make, _ in MODULES])
def test_module(make, size):
    torch.manual_seed(0)
    compare(*both(make(), torch.randn(size)))


@BY_TORCH_TOO
@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize(
    "make",
    [
        lambda: nn.MultiheadAttention(8, 2, batch_first=True),
        lambda: nn.TransformerEncoderLayer(8, 2, 16, 0.0, batch_first=True),
        lambda: nn.TransformerDecoderLayer(8, 2, 16, 0.0, batch_first=True),
    ],
    ids=["attention", "encoder", "decoder"],
)
def test_module_with_a_fast_path(make, grad):
    torch.manual_seed(0)
    module, x = make().eval(), torch.randn(2, 3, 8)
    count = {nn.MultiheadAttention: 3, nn.TransformerDecoderLayer: 2}.get(type(module), 1)

    def function(x):
        return module(*[x] * count)

    with torch.set_grad_enabled(grad):
        compare(*both(function, x))


WEIGHT = torch.ones(4)
HELD = types.SimpleNamespace(weight=torch.ones(4), rest=[torch.zeros(4), {"k": torch.ones(4)}])


class Held(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(4))
        self.register_buffer("shift", torch.ones(4))
        self.plain = torch.ones(4)
        self.more = nn.ParameterList([nn.Parameter(torch.ones(4))])

    def forward(self, x):
        return x * self.plain + self.weight, x - self.shift, x * self.more[0]


def globals_and_arguments(x, y):
    w = HELD.rest[1]["k"]
    return y + WEIGHT, x * HELD.weight, x - HELD.rest[0], y * w


def stored(x, y):
    pair = Pair(x, x)
    pair.first = y
    return x + y


def closure(x, y, held=WEIGHT):
    def inner(z):
        return z * held

    return inner(x + y)


def switches_of_grad_mode(x, y):
    with torch.no_grad():
        a = x * y
    torch.set_grad_enabled(False)
    b = x + y
    torch.set_grad_enabled(True)
    return a, b


def autocast(x, y):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return x @ y.T


def summed(x, y):
    return sum([x, y]), sum((v * 2 for v in (x, y)), x), functools.reduce(lambda a, b: a * b, [x, y, x])


def rows(x, y):
    return [a * b for a, b in zip(x, y)], list(x), [*map(torch.relu, y)], list(reversed(x))


def reflected(x, y):
    return 1 < x, 2 >= y, 0 == x, 1 - y


def given_back(x, y):
    z = x + 0
    w = z.add_(1).mul_(y)
    z += 2
    v = z.float()
    u = z.contiguous()
    torch.add(x, y, out=z)
    y.zero_()
    return z * 2, w * 3, v * 4, u + y, F.dropout(u, 0.5, training=False) - z


class Axis(enum.IntEnum):
    ROWS = 0


def numbers(x, y):
    return x.sum(Axis.ROWS), x[Axis.ROWS], Axis.ROWS + y


@BY_TORCH_TOO
@pytest.mark.parametrize(
    "program",
    [
        globals_and_arguments,
        stored,
        closure,
        switches_of_grad_mode,
        autocast,
        summed,
        rows,
        reflected,
        numbers,
        given_back,
    ],
    ids=lambda f: f.__name__,
)
def test_order_and_names_are_those_of_torch_compile(program):
    ours, theirs = both(program, torch.randn(2, 4), torch.rand(2, 4))
    compare(ours, theirs)
    assert [n.name for n in ours[0][0].graph.nodes] == [n.name for n in theirs[0][0].graph.nodes]


@BY_TORCH_TOO
def test_parameters_are_inputs_where_they_are_read():
    compare(*both(Held(), torch.randn(2, 4)))


@BY_TORCH_TOO
def test_gradients_are_in_the_metadata():
    x = torch.randn(2, 4, requires_grad=True)
    compare(*both(add, x, torch.randn(2, 4)))


def test_no_graph_without_operations():
    backend, graphs = recorder()
    x = torch.ones(2)
    assert magneto.compile(no_operations, backend=backend, fullgraph=True)(x, x + 1) is x
    assert graphs == []


@BY_TORCH_TOO
def test_names_come_from_variables():
    def program(x):
        hidden = x + 1
        other = hidden * 2
        other = other.relu()
        return other.sum()

    (ours, _), (theirs, _) = (graphs[0] for graphs in both(program, torch.ones(2)))
    names = [node.name for node in ours.graph.nodes]
    assert (
        names
        == [node.name for node in theirs.graph.nodes]
        == ["l_x_", "hidden", "other", "other_1", "sum_1", "output"]
    )


def test_stack_traces_show_the_users_lines():
    backend, graphs = recorder()
    magneto.compile(inlined, backend=backend)(torch.ones(2), torch.ones(2))
    nodes = {node.name: node for node in graphs[0][0].graph.nodes}
    text = nodes["t"].stack_trace
    assert text.index("a = helper(x)") < text.index("t = x * scale")
    assert f'File "{__file__}"' in text
    assert "in helper" in text


def test_frames_of_torch_are_left_out_of_stack_traces():
    backend, graphs = recorder()
    magneto.compile(Tied(), backend=backend)(torch.ones(2, 4))
    for node in graphs[0][0].graph.nodes:
        if node.op == "call_function":
            assert "return self.b(self.a(x))" in node.stack_trace
            assert "linear.py" not in node.stack_trace


@BY_TORCH_TOO
def test_inputs_from_closures_and_other_modules():
    held, listed = torch.ones(2, 4), [torch.ones(4)]

    def program(x, rest, *args, key=None, **kwargs):
        return x + held + listed[0] + rest["a"][1] + args[0] + key + kwargs["more"] + other.weight

    def call(function):
        ones = [torch.ones(4) for _ in range(6)]
        return function(ones[0], {"a": [ones[1], ones[2]]}, ones[3], key=ones[4], more=ones[5])

    names = []
    for compiler in (magneto.compile, torch.compile):
        backend, graphs = recorder()
        call(compiler(program, backend=backend, fullgraph=True))
        names.append({node.target for node in graphs[0][0].graph.nodes if node.op == "placeholder"})
    assert names[0] == names[1]
    assert names[0] >= {"L_held_", "L_listed_0_", "L_rest_a_1_", "L_args_0_", "L_key_", "L_kwargs_more_"}


@BY_TORCH_TOO
def test_module_stack():
    (ours, _), (theirs, _) = (graphs[0] for graphs in both(Block(), torch.ones(2, 4)))
    for a, b in zip(ours.graph.nodes, theirs.graph.nodes, strict=True):
        if a.op in ("call_function", "call_method"):
            expected = list(b.meta.get("nn_module_stack", {}).values())
            assert list(a.meta.get("nn_module_stack", {}).values()) == expected
            assert a.meta["source_fn_stack"][-1][1] == b.meta["source_fn_stack"][-1][1]


def test_source_fn_stack():
    backend, graphs = recorder()
    magneto.compile(add, backend=backend)(torch.ones(2), torch.ones(2))
    node = list(graphs[0][0].graph.nodes)[2]
    assert node.meta["source_fn_stack"] == [("add", operator.add)]


def test_original_names_of_parameters():
    backend, graphs = recorder()
    module = Block()
    magneto.compile(module, backend=backend)(torch.ones(2, 4))
    names = set(graphs[0][0].meta["dynamo_flat_name_to_original_fqn"].values())
    assert names == set(module.state_dict())


def test_graph_module_computes_what_eager_does():
    backend, graphs = recorder()
    x, y = torch.randn(2, 4), torch.randn(2, 4)
    magneto.compile(operators, backend=backend)(x, y)
    module, inputs = graphs[0]
    for ours, eager in zip(module(*inputs), operators(x, y), strict=True):
        assert torch.equal(ours, eager)


@BY_TORCH_TOO
def test_graph_arguments_of_inputs():
    seen = []

    def backend(module, inputs):  # TorchDynamo takes them away when the backend is done
        inputs = [node.meta["grapharg"] for node in module.graph.nodes if node.op == "placeholder"]
        seen.append([(item.source.name, item.is_tensor, item.pass_arg_as_tensor) for item in inputs])
        assert all(item.fake_tensor.shape == item.example.shape for item in inputs)
        return module.forward

    for compiler in (magneto.compile, torch.compile):
        compiler(add, backend=backend, fullgraph=True)(torch.ones(2, 4), torch.rand(2, 4))
    assert seen[0] == seen[1]


def _hold(weight):
    def inner(x):
        return x + weight

    return inner


HOLDER = _hold(torch.ones(4))


def test_texts_of_guards_say_how_an_object_is_reached():
    def program(x):
        return F.relu(HOLDER(x)) * other.weight

    backend, graphs = recorder()
    compiled = magneto.compile(program, backend=backend)
    compiled(torch.ones(2, 4))
    names = [node.name for node in graphs[0][0].graph.nodes if node.op == "placeholder"]
    assert names == ["l_x_", "g_holder_closure_0_cell_contents", "g_other_weight"]
    texts = [str(text) for text in magneto.cache_entries(compiled)[0].guards]
    assert "G['F'].relu is the same function" in texts
    assert any(text.startswith("G['other'].weight: tensor") for text in texts)
    assert any(text.startswith("G['HOLDER'].__closure__[0].cell_contents: tensor") for text in texts)


def test_backends_are_told_of_static_addresses() -> None:
    told = []

    def backend(module: Any, inputs: Any) -> Any:
        told.append([node.meta["tensor_dict"] for node in module.graph.nodes if node.op == "placeholder"])
        return module.forward

    x, y = torch.ones(2), torch.ones(2)
    torch._dynamo.mark_static_address(x, guard=False)
    magneto.compile(lambda x, y: x + y, backend=backend)(x, y)
    assert told == [[{"_dynamo_static_input_type": "unguarded"}, {}]]


class Buffered(torch.nn.Module):
    def __init__(self, buffer: torch.Tensor) -> None:
        super().__init__()
        self.register_buffer("buffer", buffer)
        self.plain = torch.ones(2)
        self.listed = [torch.ones(2)]
        self.linear = torch.nn.Linear(2, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x) * self.buffer + self.plain + self.listed[0]


def _static(module: torch.fx.GraphModule) -> dict[str, Any]:
    placeholders = [node for node in module.graph.nodes if node.op == "placeholder"]
    return {node.name: node.meta["tensor_dict"].get("_dynamo_static_input_type") for node in placeholders}


@BY_TORCH_TOO
def test_tensors_that_a_module_holds_have_static_addresses() -> None:
    module, parameter = Buffered(torch.ones(2)), torch.nn.Parameter(torch.ones(2))
    told = []

    def program(x: torch.Tensor, p: torch.Tensor) -> torch.Tensor:
        return module(x) + x * p

    for compile in (torch.compile, magneto.compile):
        backend, graphs = recorder()
        compile(program, backend=backend)(torch.ones(2), parameter)
        told.append(sorted(map(str, _static(graphs[0][0]).values())))
    assert told[0] == told[1]
    assert told[1].count("None") == 1  # x


def test_a_module_holds_a_tensor_that_was_met_as_an_argument_first() -> None:
    buffer = torch.ones(2)

    def program(b: torch.Tensor, module: torch.nn.Module) -> torch.Tensor:
        return (b + 1) * module.buffer

    backend, graphs = recorder()
    magneto.compile(program, backend=backend)(buffer, Buffered(buffer))
    assert _static(graphs[0][0]) == {"l_b_": "unguarded"}


def test_frozen_graphs_hold_the_tensors_of_modules() -> None:
    from torch._inductor import config

    module, x = Buffered(torch.ones(2)), torch.ones(2)
    backend, graphs = recorder()
    compiled = magneto.compile(lambda x: module(x) * x, backend=backend)
    with config.patch(freezing=True), torch.no_grad():
        for _ in range(2):
            assert torch.equal(compiled(x), module(x) * x)
        assert len(graphs) == 1
        assert _static(graphs[0][0]) == {"l_x_": None}
        assert len(graphs[0][1]) == 1
        held = [*graphs[0][0].parameters(), *graphs[0][0].buffers()]
        expected = (*module.parameters(), module.buffer, module.plain, module.listed[0])
        assert {id(one) for one in held} == {id(one) for one in expected}
        module.buffer = torch.full((2,), 3.0)  # another tensor: another graph
        assert torch.equal(compiled(x), module(x) * x)
        assert len(graphs) == 2


def test_graphs_are_not_frozen_where_gradients_flow() -> None:
    from torch._inductor import config

    module, x = Buffered(torch.ones(2)), torch.ones(2)
    backend, graphs = recorder()
    with config.patch(freezing=True):
        magneto.compile(lambda x: module(x), backend=backend)(x)
    assert [*graphs[0][0].parameters()] == []


def test_a_graph_holds_a_tensor_whose_address_is_guarded() -> None:
    x, y = torch.ones(2), torch.ones(2)
    torch._dynamo.mark_static_address(y, guard=True)
    backend, graphs = recorder()
    compiled = magneto.compile(lambda x, y: x + y, backend=backend)
    assert compiled(x, y).tolist() == [2.0, 2.0]
    assert _static(graphs[0][0]) == {"l_x_": None}
    assert compiled(x, torch.full((2,), 4.0)).tolist() == [5.0, 5.0]
    assert len(graphs) == 2


@pytest.mark.no_leak_hunt("inductor keeps what it has made")
def test_inductor_folds_what_a_frozen_graph_holds() -> None:
    from torch._inductor import config

    module, x = Buffered(torch.ones(2)).eval(), torch.ones(3, 2)
    compiled = magneto.compile(module, backend="inductor")
    with config.patch(freezing=True), torch.no_grad():
        assert torch.allclose(compiled(x), module(x))
        module.linear.weight = torch.nn.Parameter(torch.zeros(2, 2))
        assert torch.allclose(compiled(x), module(x))
