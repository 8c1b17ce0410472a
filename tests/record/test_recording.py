"""Torch's API as programs use it: each program in eager and captured, with a tensor that requires grad and without."""

from __future__ import annotations

import functools
import operator
import pickle
from collections import namedtuple
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import magneto
from magneto import _core

from . import opinfo

Pair = namedtuple("Pair", "first second")


@torch.library.custom_op("magneto_tests::twice", mutates_args=())
def twice(x: torch.Tensor, factor: int = 2) -> torch.Tensor:
    return x * factor


@twice.register_fake
def _(x: torch.Tensor, factor: int = 2) -> torch.Tensor:
    return torch.empty_like(x)


@torch.library.custom_op("magneto_tests::bump", mutates_args={"x"})
def bump(x: torch.Tensor) -> None:
    x.add_(1)


def keys(x):
    rows = torch.tensor([0, 2])
    return (
        x[None], x[..., 0], x[[0, 1]], x[rows], x[:, [1, 1]], x[rows, rows], x[..., None, 1:3], x[(0, slice(None))],
        x[True], x[-1], x[::2], x[rows, :2], x[torch.tensor([True, False, True])[None].expand(3, 3)[0]] if 0 else 0,
        x.__getitem__(0), operator.getitem(x, 1), operator.itemgetter(0)(x),
    )  # fmt: skip


def assignments(x):
    y = x.clone()
    y[0] = 1
    y[:, 1] = torch.ones(3)
    y[y > 0] = 0.0
    y[..., -1] = y[..., 0]
    y[[0, 1], [1, 2]] = 5
    y[None] = y[None] * 2
    y.__setitem__(2, 3.0)
    return y


def sizes(x):
    rows, columns = x.shape
    return (
        rows, columns, x.shape + (1,), x.size(), x.size(0), x.size(-1), x.stride(), x.stride(1), x.numel(), x.dim(),
        x.ndim, len(x), x.is_floating_point(), x.is_complex(), x.is_contiguous(), x.element_size(), x.itemsize,
        x.nbytes, x.dtype, x.device, x.layout, x.is_cuda, x.is_sparse, x.requires_grad, x.is_leaf, x.shape.numel(),
        torch.numel(x), torch.is_tensor(x), torch.is_floating_point(x), x.shape[0] * 2, x.is_conj(), x.get_device(),
        x.type(), torch.result_type(x, 2), x.shape[:-1] + (x.shape[-1] // 2, 2), tuple(x.shape), list(x.shape),
        x.view(*x.shape[:-1], 2, 2).shape, max(x.shape), f"{x.shape}", x.shape == (3, 4),
    )  # fmt: skip


def conjugates(x):
    c = torch.complex(x, x)
    d = c.conj()
    e = d.imag
    return (
        d.is_conj(), e.is_neg(), d.resolve_conj(), d.resolve_conj() is d, e.resolve_neg(), d * 2, d.real, e + 1, c.H,
        d.clone(), d.contiguous(),
    )  # fmt: skip


def factories(x):
    return (
        torch.tensor([1.0, 2]), torch.tensor(3), torch.Tensor([1, 2]), torch.FloatTensor([1, 2]), torch.LongTensor([3]),
        x.new_tensor([1, 2]), x.new_zeros(3), x.new_ones((2, 2)), x.new_full((2,), 3), torch.zeros_like(x),
        torch.full((2, 3), 1.5), torch.arange(5), torch.arange(0, 1, 0.25), torch.linspace(0, 1, 4), torch.eye(3),
        torch.ones(2, dtype=torch.int64), torch.as_tensor(3.0), torch.as_tensor(x), torch.scalar_tensor(2),
        torch.tensor([[1, 2], [3, 4]]), torch.tensor(True), torch.empty(0), torch.zeros(x.shape), torch.zeros(*x.shape),
        torch.tril_indices(3, 3), torch.full_like(x, 7), torch.zeros(2, device=x.device, dtype=x.dtype),
        x.new(2, 3).zero_(), torch.asarray([1, 2]),
    )  # fmt: skip


def casts(x):
    return (
        x.to(torch.float64), x.to("cpu"), x.to("cpu", torch.int64), x.to(x), x.double(), x.int(), x.bool(), x.half(),
        x.type(torch.float64), x.type_as(x), x.cpu(), x.to(dtype=torch.float16), x.type("torch.DoubleTensor"),
        x[None, None].contiguous(memory_format=torch.channels_last), x.to(x) is x, x.float() is x,
    )  # fmt: skip


def random(x):
    return (
        torch.rand(3), torch.randn_like(x), torch.randint(0, 5, (2,)), F.dropout(x, 0.5), torch.randperm(4),
        x.bernoulli(0.5), x.clone().uniform_(), torch.normal(x, 1.0), torch.multinomial(x.abs(), 2),
    )  # fmt: skip


def several_results(x):
    best = x.max(dim=0)
    values, indices = x.topk(2)
    u, s, v = torch.linalg.svd(x)
    return (
        best, best.values, best[1], type(best).__name__, values, indices, x.sort().indices, s, x.chunk(2), x.split(1),
        x.split([1, 2]), x.unbind(), x.tensor_split(2), torch.meshgrid(x[0], x[0], indexing="ij"),
        torch.broadcast_tensors(x, x[0]), torch.atleast_2d(x), torch.aminmax(x), torch.std_mean(x), x.min(0).indices,
        torch.linalg.qr(x), torch.linalg.slogdet(x[:, :3]),
    )  # fmt: skip


def iteration(x):
    total = 0
    for row in x:
        total = total + row
    a, b, c = x
    return total, a, b, c, [2 * row for row in x], list(x), tuple(x), sum(x), [*x], dict(enumerate(x))


def operators(x):
    return (
        -x, +x, ~(x > 0), abs(x), x**2, 2**x, 1 - x, 1 / x, x // 2, 7 // x, x % 2, x @ x.t(), x < 1, 1 < x, x == x,
        x != 2, (x > 0) & (x < 1), (x > 0) | True, (x > 0) ^ (x < 1), pow(x, 2), x.int() << 1, x.int() >> 1,
        operator.add(x, 1), operator.mul(2, x), operator.neg(x), x.__add__(1), x.__rsub__(2), torch.Tensor.add(x, 1),
        x.add(1, alpha=2), x.sum(dim=(0, 1)), x.sum((0,), keepdim=True), torch.where(x > 0, x, -x),
        functools.reduce(operator.mul, [x, x]), sum([x, x]), list(map(torch.relu, [x])), x == None, x != None, x == "a",
    )  # fmt: skip # noqa: E711


def operators_in_place(x):
    y = x.clone()
    y += 1
    y *= 2
    y -= 1
    y /= 3
    y **= 2
    y //= 1
    y %= 5
    i = y.int()
    i <<= 1
    i |= 1
    i &= 7
    i ^= 2
    i >>= 1
    n = 1
    n += x
    return y, i, n


def attributes(x):
    return x.T, x.mT, x.real, x.data + 1, x.data.requires_grad, x.detach(), x.H, x.mH


def methods_in_place(x):
    y = x.clone()
    z = y.add_(1).mul_(2).relu_()
    same = y is z
    y.zero_().fill_(3).clamp_(0, 1)
    y.copy_(x)
    y.masked_fill_(x > 0, 0.0)
    y.index_add_(0, torch.tensor([0]), x[:1])
    y.scatter_(1, torch.zeros(3, 1, dtype=torch.long), 1.0)
    y.unsqueeze_(0)
    return y, z, same, y.shape


def shapes(x):
    return (
        x.reshape(-1), x.view(-1), x.view(4, 3), x.flatten(), x.permute(1, 0), x.transpose(0, 1), x.expand(2, 3, 4),
        x.unsqueeze(-1), x.squeeze(), x.repeat(2, 1), x.unfold(1, 2, 1), x.narrow(0, 0, 1), x.select(0, 1),
        x.movedim(0, 1), x.reshape(2, -1), x.as_strided((2, 2), (1, 2)), x.swapaxes(0, 1), x.diagonal(), x.roll(1),
        x.flip(0), x.tile(2), x.view_as(x), x.expand_as(x), x.t(), x.ravel(), x.unflatten(1, (2, 2)),
    )  # fmt: skip


def functional(x):
    labels = torch.tensor([0, 1, 2])
    return (
        F.relu(x), F.gelu(x), F.softmax(x, -1), F.log_softmax(x, dim=1), F.layer_norm(x, (4,)), F.linear(x, x),
        F.normalize(x), F.pad(x, (1, 1)), F.mse_loss(x, x * 2), F.cross_entropy(x, labels), F.max_pool1d(x[None], 2),
        F.avg_pool1d(x[None], 2), F.interpolate(x[None], scale_factor=2.0), F.embedding(labels, x),
        F.cosine_similarity(x, x), F.scaled_dot_product_attention(x[None], x[None], x[None]), F.rms_norm(x, (4,)),
        F.unfold(x[None, None], 2), F.glu(x), F.adaptive_avg_pool1d(x[None], 2), F.adaptive_max_pool1d(x[None], 2),
        F.max_pool2d(x[None], 2, return_indices=True), F.leaky_relu(x, 0.1), F.dropout(x, 0.0, training=False),
        F.batch_norm(x, None, None, training=True), F.threshold(x, 0.0, 1.0), F.huber_loss(x, x * 2),
        F.triplet_margin_with_distance_loss(x, x + 1, x + 2), F.gumbel_softmax(x),
    )  # fmt: skip


def namespaces(x):
    return (
        torch.linalg.norm(x), torch.fft.fft(x), torch.special.expit(x), torch.ops.aten.add.Tensor(x, x),
        torch.ops.aten.sum(x), torch.einsum("ij,kj->ik", x, x), torch.tensordot(x, x, dims=([1], [1])),
        torch.cdist(x, x + 1), torch.stft(x.flatten(), 4, return_complex=True, window=torch.ones(4)),
        torch.cartesian_prod(x[0], x[1]), torch.block_diag(x, x), torch.norm(x), x.norm(), torch.logsumexp(x, 0),
        torch._foreach_add([x, x], 1), torch.stack([x, x]), torch.cat((x, x), -1), torch.hstack([x, x]),
        torch.nn.utils.rnn.pad_sequence([x, x[:2]]),
    )  # fmt: skip


def custom(x):
    return (
        twice(x),
        twice(x, factor=3),
        torch.ops.magneto_tests.twice(x),
        torch.ops.magneto_tests.twice.default(x, 4),
    )


def custom_in_place(x):
    y = x.clone()
    bump(y)
    return y * 2


def types(x):
    return (
        x.masked_fill(x > 0, torch.finfo(x.dtype).min), torch.finfo(torch.float16).eps, torch.iinfo(torch.int32).max,
        x.dtype == torch.float32, x.device.type, str(x.dtype), str(x.device), torch.float32.itemsize,
        x.dtype.is_floating_point, torch.promote_types(torch.int8, torch.float16), isinstance(x, torch.Tensor),
        type(x) is torch.Tensor,
    )  # fmt: skip


def identities(x):
    return x in [x], [x, 1].index(x), x is x, x in (None, x), (x, 1) == (x, 1)


def checks(x):
    torch._check(x.shape[0] == 3)
    torch._assert(x.dim() == 2, "two dimensions")
    assert x.shape == (3, 4)
    return x + 1


def out(x):
    with torch.no_grad():
        o = torch.empty(3, 4)
        r = torch.mul(x, x, out=o)
        v = torch.empty(0)
        torch.sum(x, 0, out=v)
    return r is o, o + 1, v


def initialisers(x):
    y = x.detach().clone()
    torch.nn.init.normal_(y)
    torch.nn.init.xavier_uniform_(y)
    torch.nn.init.zeros_(y[0])
    return y


def grad_modes(x):
    with torch.no_grad():
        a = x + 1
        with torch.enable_grad():
            b = x + 2
    with torch.set_grad_enabled(False):
        c = x + 3
    torch.set_grad_enabled(False)
    d = x + 4
    torch.set_grad_enabled(True)
    return a, b, c, d, x + 5, torch.is_grad_enabled()


@torch.no_grad()
def decorated(x):
    return x * 2


def inference(x):
    with torch.inference_mode():
        return x + 1


def autocast(x):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = x @ x.t()
        with torch.autocast("cpu", enabled=False):
            z = x @ x.t()
    return y, z, x @ x.t(), y.dtype


@torch.autocast("cpu", dtype=torch.bfloat16)
def autocast_decorated(x):
    return F.linear(x, x)


PROGRAMS = [
    keys, assignments, sizes, conjugates, factories, casts, random, several_results, iteration, operators,
    operators_in_place, attributes, methods_in_place, shapes, functional, namespaces, custom, custom_in_place, types,
    identities, checks, out, initialisers, grad_modes, decorated, inference, autocast, autocast_decorated,
]  # fmt: skip


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
@pytest.mark.parametrize("requires_grad", [False, True], ids=["", "grad"])
def test_program(program: Callable[..., Any], requires_grad: bool) -> None:
    torch.manual_seed(0)
    x = torch.randn(3, 4, requires_grad=requires_grad)
    outcome = opinfo.compare(opinfo.Case(program.__name__, program, (x,), {}))
    assert (outcome.kind, outcome.text) == ("captured", "")


def _write_row(base, g):
    row = base[0]
    row.add_(g[0])
    return base.requires_grad, row.requires_grad, base.is_leaf, row * 2, base * 2


def _write_base(base, g):
    flat = base.view(-1)
    tail = flat[2:]
    base.mul_(g)
    return base.requires_grad, flat.requires_grad, tail.requires_grad, tail


def _write_item(base, g):
    row = base[1]
    base[1] = g[1]
    return base, base.requires_grad, row.requires_grad


def _write_detached(base, g):
    other = base.detach()
    other.add_(g)
    return base.requires_grad, other.requires_grad, base


@pytest.mark.parametrize("program", [_write_row, _write_base, _write_item, _write_detached])
def test_a_write_makes_all_views_require_grad(program: Callable[..., Any]) -> None:
    def function(g):
        return program(torch.zeros(3, 4), g)

    g = torch.randn(3, 4, requires_grad=True)
    outcome = opinfo.compare(opinfo.Case("", function, (g,), {}))
    assert (outcome.kind, outcome.text) == ("captured", "")


def _captured(function: Callable[..., Any]) -> Any:
    reasons: list[str] = []
    compiled = _core.Compiled(function, None, lambda reason, *_: reasons.append(reason))
    return compiled, reasons


@pytest.mark.parametrize("name", ["_version", "_base", "output_nr", "grad_fn", "_cdata"])
def test_what_metadata_does_not_say_ends_the_capture(name: str) -> None:
    def function(x):
        return getattr(x, name)

    x = torch.ones(3)[1:]
    x.add_(1)
    compiled, reasons = _captured(function)
    result = compiled(x)
    assert result is function(x) or result == function(x) or torch.equal(result, function(x))
    assert reasons == ["ATTRIBUTE"]


_UNTOLD = [
    "storage_offset",
    "is_inference",
    "_is_view",
    "data_ptr",
    "const_data_ptr",
    "storage_type",
    "__hash__",
]


@pytest.mark.parametrize("name", _UNTOLD)
def test_methods_that_metadata_does_not_answer_end_the_capture(name: str) -> None:
    def function(x):
        return getattr(x, name)()

    x = torch.ones(3)[1:]
    compiled, reasons = _captured(function)
    assert compiled(x) == function(x)
    assert reasons == ["SKIPPED_CALL"]


def _no_grad(x, index):
    with torch.no_grad():
        return (x + 1)[index]


def _autocast(x, index):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return (x + 1)[index]


def _inference(x, index):
    with torch.inference_mode():
        return (x + 1)[index]


@pytest.mark.parametrize("program", [_no_grad, _autocast, _inference])
def test_a_graph_that_fails_half_way_leaves_torchs_state_alone(program: Callable[..., Any]) -> None:
    compiled, reasons = _captured(program)
    compiled(torch.ones(3), torch.tensor([1]))
    with pytest.raises(IndexError):
        compiled(torch.ones(3), torch.tensor([7]))
    assert reasons == [] and len(compiled.entries()) == 1
    assert torch.is_grad_enabled()
    assert not torch.is_autocast_enabled("cpu")
    assert not torch.is_inference_mode_enabled()


def test_an_abort_leaves_torchs_state_alone() -> None:
    def function(x):
        with torch.autocast("cpu", dtype=torch.bfloat16), torch.inference_mode(), torch.no_grad():
            y = x @ x
            return y, y.sum().item()

    compiled, reasons = _captured(function)
    assert compiled(torch.ones(3, 3))[0].dtype == torch.bfloat16
    assert reasons == ["TENSOR_VALUE"]
    assert torch.is_grad_enabled()
    assert not torch.is_autocast_enabled("cpu")
    assert not torch.is_inference_mode_enabled()


def test_autocast_around_the_call_is_guarded() -> None:
    compiled, _ = _captured(lambda x: x @ x)
    x = torch.ones(3, 3)
    assert compiled(x).dtype == torch.float32
    with torch.autocast("cpu", dtype=torch.float16):
        assert compiled(x).dtype == torch.float16
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert compiled(x).dtype == torch.bfloat16
    assert compiled(x).dtype == torch.float32
    assert len(compiled.entries()) == 3


def test_the_default_device_is_guarded() -> None:
    compiled, _ = _captured(lambda: torch.zeros(3))
    with torch.device("meta"):
        assert compiled().device.type == "meta"
    assert compiled().device.type == "cpu"


def test_a_conjugated_argument_is_another_kind_of_argument() -> None:
    compiled, _ = _captured(lambda x: (x.is_conj(), x.resolve_conj() is x))
    x = torch.ones(3, dtype=torch.complex64)
    assert compiled(x) == (False, True)
    assert compiled(x.conj()) == (True, False)


def test_one_tensor_as_two_arguments() -> None:
    def function(x, y):
        x.add_(y)
        return x * y

    compiled, _ = _captured(function)
    for same in (False, True, False, True):
        a, b = torch.ones(3), torch.ones(3)
        c = torch.ones(3)
        result = compiled(c, c) if same else compiled(a, b)
        assert result.tolist() == ([4.0] * 3 if same else [2.0] * 3)


def test_an_unused_question_makes_no_input() -> None:
    compiled, _ = _captured(lambda x, y: y + x.size(0))
    compiled(torch.ones(3), torch.ones(2))
    nodes, _, inputs = compiled.entries()[0].describe()
    assert len(inputs) == 1
    assert [node[1] for node in nodes] == ["placeholder", "call_function"]


def test_sources_of_inputs_can_be_pickled() -> None:
    """Inductor's cache keeps them beside the compiled graph."""
    from magneto._recipe import InputSource

    source = InputSource("L['x']", 2)
    copy = pickle.loads(pickle.dumps(source))
    assert (copy, copy.text, copy.index) == (source, "L['x']", 2)


@pytest.mark.no_leak_hunt("libtorch keeps some bytes of each kernel that was registered")
def test_metadata_is_asked_for_again_when_kernels_are_registered() -> None:
    """What autocast makes of an operator may change between two captures, and back."""

    def f(x: torch.Tensor) -> tuple[torch.dtype, torch.dtype]:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return torch.mm(x, x).dtype, torch.matmul(x, x).dtype

    def capture() -> object:
        return magneto.compile(lambda x: f(x), backend="eager")(torch.ones(2, 2))

    plain, library = f(torch.ones(2, 2)), torch.library.Library("aten", "IMPL")
    assert capture() == plain == (torch.bfloat16, torch.bfloat16)
    try:
        library.impl("mm", torch.library.fallthrough_kernel, "AutocastCPU")
        assert capture() == f(torch.ones(2, 2)) == (torch.float32, torch.bfloat16)
    finally:
        library._destroy()
    assert capture() == f(torch.ones(2, 2)) == plain


KNOWN = {
    "an index": lambda x: [x, x + 1, x + 2][torch.as_tensor(2)],
    "item": lambda x: x + torch.tensor(3).item(),
    "int": lambda x: x + int(torch.tensor(True)),
    "float": lambda x: x + float(torch.tensor(3)),
    "a branch": lambda x: x + 1 if torch.tensor(False) else x - 1,
    "bool": lambda x: (x, bool(torch.tensor(2)), not torch.tensor(0)),
    "a range": lambda x: [x + i for i in range(torch.tensor(3))],
}


@pytest.mark.parametrize("name", KNOWN)
def test_the_number_that_a_tensor_was_made_of_is_known(name: str) -> None:
    magneto.counters["graph_break"].clear()
    function, x = KNOWN[name], torch.ones(2)
    compiled = magneto.compile(function, backend="eager")
    for _ in range(2):
        assert repr(compiled(x)) == repr(function(x))
    assert len(compiled.entries()) == 1
    assert not magneto.counters["graph_break"]


def _written(x: torch.Tensor) -> Any:
    t, u, v = torch.tensor(1), torch.tensor(1), torch.tensor(True)
    t.add_(1)
    u.view(1)[0] = 2
    v.logical_not_()
    return x + int(t), [1, 2, 3][u], bool(v), bool(torch.tensor(True).logical_not())


def test_a_tensor_that_was_written_to_has_another_number() -> None:
    compiled = magneto.compile(_written, backend="eager")
    for _ in range(2):
        assert repr(compiled(torch.ones(2))) == repr(_written(torch.ones(2)))


def test_a_tensor_without_data_has_no_number() -> None:
    def function() -> int:
        return int(torch.tensor(3))

    compiled = magneto.compile(function, backend="eager")
    assert compiled() == 3
    with torch.device("meta"), pytest.raises(RuntimeError):
        compiled()
