"""The shape functions in C against FakeTensorMode: metadata, changes and views must be the same wherever they answer.

The arguments are the samples of torch's own test database, and calls written here. Each is asked with its own metadata, and
then with other layouts of the same sizes, other flags, and without grad mode; and with calls made from them at random, of
other sizes, dtypes and layouts that few programs make. With MAGNETO_SWEEP=1 there are more samples, dtypes and layouts, and
all operations of the database are asked for.

FakeTensorMode is the reference because it is TorchDynamo's. For some layouts it says other strides than eager gives:
`_UNLIKE_EAGER` names them.
"""

from __future__ import annotations

import operator
import os
import random
import warnings
from typing import Any

import pytest
import torch
from torch.nn import functional as F

import magneto
from magneto import _core, _propagate
from record import opinfo

from . import shapes
from .shapes import FUNCTION, METHOD, Report

from torch.testing._internal.common_methods_invocations import op_db  # isort: skip

SWEEP = os.environ.get("MAGNETO_SWEEP") == "1"
SAMPLES = 50 if SWEEP else 6
VARIANTS = 8 if SWEEP else 1
MUTANTS = 3 if SWEEP else 1
DTYPES = [torch.float32, torch.int64] + ([torch.bool, torch.float16, torch.complex64] if SWEEP else [])
SHARDS = 8

# Operations of the database that must be answered for some samples at least.
LISTED = set(
    "abs add sub mul div true_divide floor_divide remainder fmod pow neg exp exp2 expm1 log log2 log10 log1p sin cos tan "
    "asin acos atan sinh cosh tanh asinh acosh atanh sqrt rsqrt sigmoid erf erfc erfinv reciprocal sign floor ceil trunc "
    "round square maximum minimum fmax fmin atan2 eq ne lt le gt ge logical_and logical_or logical_xor logical_not "
    "bitwise_and bitwise_or bitwise_xor bitwise_not bitwise_left_shift bitwise_right_shift isnan isinf isfinite "
    "nan_to_num clamp clamp_min clamp_max where masked_fill addcmul addcdiv lerp nn.functional.relu nn.functional.gelu "
    "nn.functional.silu nn.functional.mish nn.functional.elu nn.functional.leaky_relu nn.functional.hardswish "
    "nn.functional.hardtanh nn.functional.hardsigmoid nn.functional.softplus nn.functional.logsigmoid "
    "nn.functional.relu6 nn.functional.selu nn.functional.celu nn.functional.glu nn.functional.dropout "
    "nn.functional.linear matmul mm bmm mv dot addmm baddbmm addmv outer "
    "nn.functional.layer_norm nn.functional.rms_norm nn.functional.group_norm nn.functional.batch_norm softmax "
    "log_softmax view view_as reshape reshape_as flatten unflatten ravel "
    "transpose t permute movedim expand expand_as broadcast_to unsqueeze squeeze narrow select split chunk unbind "
    "diagonal unfold cat stack repeat tile repeat_interleave tril triu flip roll nn.functional.pad index_select gather "
    "scatter scatter_add index_add index_copy index_fill take_along_dim masked_scatter sum mean prod amax amin max min "
    "argmax argmin any all var std var_mean std_mean logsumexp count_nonzero cumsum cumprod sort argsort topk norm "
    "nn.functional.normalize clone contiguous float double half bfloat16 bool int long short char byte zeros ones "
    "empty full zeros_like ones_like empty_like full_like randn rand_like randn_like new_zeros new_ones new_empty "
    "new_full arange eye linspace nn.functional.conv1d nn.functional.conv2d nn.functional.conv3d "
    "nn.functional.conv_transpose1d nn.functional.conv_transpose2d nn.functional.conv_transpose3d "
    "nn.functional.max_pool1d nn.functional.max_pool2d nn.functional.max_pool3d nn.functional.avg_pool1d "
    "nn.functional.avg_pool2d nn.functional.avg_pool3d nn.functional.adaptive_avg_pool1d "
    "nn.functional.adaptive_avg_pool2d nn.functional.adaptive_avg_pool3d nn.functional.interpolate "
    "nn.functional.pixel_shuffle nn.functional.cross_entropy nn.functional.nll_loss nn.functional.mse_loss "
    "nn.functional.l1_loss nn.functional.smooth_l1_loss nn.functional.binary_cross_entropy_with_logits __getitem__ "
    "__radd__ __rsub__ __rmul__ __rdiv__ __rpow__ __rmod__ __rand__ __ror__ __rxor__ __rmatmul__".split()
)

OPERATIONS = [op for op in op_db if SWEEP or op.name in LISTED]


def _finish(report: Report, needed: set[str]) -> None:
    for name in sorted(report.asked):
        print(f"{name}: {report.answered[name]} of {report.asked[name]} answered")
    assert report.wrong == []
    assert sorted(name for name in needed if not report.answered[name]) == []


def test_the_list_names_operations_that_exist() -> None:
    assert sorted(LISTED - {op.name for op in op_db}) == []


@pytest.mark.no_leak_hunt(reason="runs for minutes, and torch keeps caches of its own")
@pytest.mark.parametrize("shard", range(SHARDS))
def test_operations_agree(shard: int) -> None:
    report = Report()
    ops = OPERATIONS[shard::SHARDS]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for op in ops:
            rng = random.Random(op.name)
            targets = shapes.targets_of(op)
            for dtype in opinfo.dtypes(op, DTYPES):
                for args, kwargs in shapes.samples_of(op, dtype, SAMPLES):
                    shapes.vary(report, op.name, targets, args, kwargs, rng, VARIANTS)
    elsewhere = {op.name for op in OPERATIONS if op not in ops}  # there is more than one of that name
    _finish(report, {op.name for op in ops if op.name in LISTED} - elsewhere)


@pytest.mark.no_leak_hunt(reason="runs for minutes, and torch keeps caches of its own")
@pytest.mark.parametrize("shard", range(SHARDS))
def test_calls_made_at_random_agree(shard: int) -> None:
    report = Report()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for op in [op for op in OPERATIONS if op.name in LISTED][shard::SHARDS]:
            rng = random.Random(f"{op.name} at random")
            targets = shapes.targets_of(op)
            for dtype in opinfo.dtypes(op, DTYPES):
                for args, kwargs in shapes.samples_of(op, dtype, SAMPLES):
                    shapes.mutate_often(report, op.name, targets, args, kwargs, rng, MUTANTS)
    _finish(report, set())
    assert report.answered.total() > report.asked.total() // 5


def _calls() -> list[tuple[str, tuple[int, Any], tuple[Any, ...], dict[str, Any]]]:
    """Calls that the database does not make, or not in this form."""
    x = torch.empty(2, 3, 4)
    y = torch.empty(4, 6)
    one = torch.empty(1, 1, 4)
    scalar = torch.empty(())
    image = torch.empty(2, 3, 8, 8)
    heads = torch.empty(2, 4, 5, 8)
    whole = torch.empty(2, 3, dtype=torch.int64)
    index = torch.empty(5, dtype=torch.int64)
    mask = torch.empty(2, 3, 4, dtype=torch.bool)
    nothing = torch.empty(0, 3, 4)
    n = None
    s = slice
    found: list[tuple[str, tuple[int, Any], tuple[Any, ...], dict[str, Any]]] = []

    def function(target: Any, *args: Any, **kwargs: Any) -> None:
        found.append((f"{target.__name__}", (FUNCTION, target), args, kwargs))

    def method(target: str, *args: Any, **kwargs: Any) -> None:
        found.append((f".{target}", (METHOD, target), args, kwargs))

    for key in (
        0, -1, n, ..., s(1, n), s(n, n, 2), s(0, 0), s(-2, n), s(1, 100), (0, 1), (0, ..., 1), (s(n), 0), (..., n), (n, ...),
        (s(n), n, s(1, 2)), (..., s(n, 2)), (0, s(n), n, s(n)), (), (s(n), s(n), -1), index, (s(n), index),
        (index, s(n), index), (0, index), (index, n), (..., index), (index, index), (index[:1], index), whole, (whole, 0),
        (s(n), whole), (n, index), (s(0, 2**63 - 1),), mask, (s(n), [0, 1]), True, (whole, index),
    ):  # fmt: skip
        for tensor in (x, y, image, nothing, one):
            function(operator.getitem, tensor, key)
            for value in (1, 2.5, scalar, one, torch.empty(4), torch.empty(3, 4), whole):
                if tensor is not image:
                    function(operator.setitem, tensor, key, value)
    for key in (mask, (mask,), (..., mask), (0, mask[0])):
        for value in (0, 0.5, scalar, torch.empty(4)):
            function(operator.setitem, x, key, value)
    for name in (
        "add",
        "sub",
        "mul",
        "truediv",
        "floordiv",
        "mod",
        "pow",
        "and_",
        "or_",
        "eq",
        "ne",
        "lt",
        "ge",
    ):
        for left, right in (
            (x, 2), (2, x), (x, 2.5), (0.5, x), (x, True), (x, one), (one, x), (x, scalar), (scalar, x), (whole, 2), (whole, 0.5),
            (2, whole), (whole, scalar), (scalar, whole), (scalar, 2), (mask, 1), (mask, mask), (mask, x), (x, 1j), (nothing, x[:1]),
            (x, nothing), (heads, heads.transpose(1, 2).contiguous().transpose(1, 2)), (whole, -1), (whole.int(), whole),
            (x.half(), x), (x.half(), scalar), (x.half(), 2.0), (x.half(), x.bfloat16()), (x, "no"), (x, n), (x, x), (whole, whole),
        ):  # fmt: skip
            function(getattr(operator, name), left, right)
    for name in ("iadd", "isub", "imul", "itruediv", "ifloordiv", "imod", "ipow", "iand", "ior"):
        for left, right in (
            (x, 2),
            (x, one),
            (one, x),
            (whole, 0.5),
            (whole, 2),
            (x, scalar),
            (mask, mask),
            (x, x),
        ):
            function(getattr(operator, name), left, right)
    for tensor in (x, whole, mask, scalar, nothing, image, y, one, heads.transpose(1, 2), x.half()):
        for name in ("neg", "abs", "invert"):
            function(getattr(operator, name), tensor)
        for name in ("T", "mT", "is_leaf", "layout", "itemsize", "nbytes", "is_cuda", "is_cpu", "ndim"):
            function(getattr, tensor, name)
        for name in (
            "size", "dim", "numel", "stride", "is_contiguous", "is_floating_point", "is_complex", "element_size", "get_device",
            "detach", "t", "float", "half", "int", "bool", "contiguous", "clone", "relu", "exp", "isnan", "zero_", "relu_", "exp_",
            "cos", "rsqrt", "sum", "mean", "max", "argmax", "any", "std", "squeeze", "flatten", "tril", "softmax",
        ):  # fmt: skip
            method(name, tensor)
        for dim in (0, -1, 1, 2, 3):
            for name in (
                "size", "stride", "unsqueeze", "squeeze", "sum", "mean", "amax", "max", "argmax", "any", "softmax", "cumsum", "var", "flip",
                "unbind", "sort", "argsort", "log_softmax", "logsumexp",
            ):  # fmt: skip
                method(name, tensor, dim)
            for name in ("sum", "mean", "amax", "max", "argmax", "all", "min", "logsumexp"):
                method(name, tensor, dim, True)
            function(F.softmax, tensor, dim=dim)
            function(F.softmax, tensor, dim=dim, dtype=torch.float32)
            function(torch.cat, [tensor, tensor], dim)
            function(torch.cat, (tensor, tensor), dim=dim)
            function(torch.stack, [tensor, tensor], dim)
            method("chunk", tensor, 2, dim)
            method("split", tensor, 2, dim)
            method("split", tensor, [1, 1], dim=dim)
            function(torch.split, tensor, 1, dim)
            method("transpose", tensor, 0, dim)
            method("select", tensor, dim, 0)
            method("narrow", tensor, dim, 0, 1)
            method("repeat_interleave", tensor, 2, dim=dim)
            method("roll", tensor, 1, dim)
            method("var", tensor, dim, keepdim=True, unbiased=False)
            method("topk", tensor, 1, dim)
        for args in (
            (torch.float32,), (torch.float16,), ("cpu",), (torch.device("cpu"), torch.float64), (x,), (torch.int64, False, True),
            ("cpu", torch.float16, True), ("meta",), (torch.float16, True),
        ):  # fmt: skip
            method("to", tensor, *args)
        method("to", tensor, dtype=torch.bfloat16)
        method("to", tensor, device="cpu", dtype=torch.float32, non_blocking=True)
        method("to", tensor, torch.float32, copy=True)
        method("to", tensor, memory_format=torch.channels_last)
        method("to", tensor, memory_format=torch.contiguous_format)
        method("contiguous", tensor, memory_format=torch.channels_last)
        method("clone", tensor, memory_format=torch.contiguous_format)
        method("type", tensor, torch.float16)
        method("type_as", tensor, x)
        for sizes in ((-1,), (2, -1), (4, 3, 2), (1, -1, 1), (24,), (6, 4), (2, 3, 4)):
            method("view", tensor, *sizes)
            method("view", tensor, sizes)
            method("reshape", tensor, *sizes)
            method("expand", tensor, *sizes)
            method("expand", tensor, 2, *sizes)
            method("repeat", tensor, *sizes)
            method("new_zeros", tensor, *sizes)
            method("new_ones", tensor, sizes, dtype=torch.bool)
            method("new_full", tensor, sizes, 1.5)
        method("permute", tensor, 2, 0, 1)
        method("permute", tensor, (0, 2, 1))
        method("permute", tensor, 0, 2, 1, 3)
        method("masked_fill", tensor, mask, float("-inf"))
        method("masked_fill", tensor, mask, 0)
        method("masked_fill_", tensor, mask, scalar)
        method("where", tensor, mask, 0.0)
        method("where", tensor, mask, x)
        function(torch.where, mask, tensor, 0)
        function(torch.where, mask, 1.0, tensor)
        function(torch.where, mask, tensor, scalar)
        function(torch.clamp, tensor, 0, 1)
        function(torch.clamp, tensor, min=0.5)
        method("clamp", tensor, max=x)
        method("clamp_", tensor, 0, 1)
        method("fill_", tensor, 1.5)
        method("copy_", tensor, x)
        method("copy_", tensor, scalar)
        function(F.dropout, tensor, 0.1, True)
        function(F.dropout, tensor, 0.1, False)
        function(F.dropout, tensor, p=0.0, training=True)
        function(F.relu, tensor, inplace=True)
        function(F.silu, tensor)
        function(F.gelu, tensor, approximate="tanh")
        function(F.layer_norm, tensor, (4,), torch.empty(4), torch.empty(4), 1e-5)
        function(F.layer_norm, tensor, (8,))
        function(F.linear, tensor, torch.empty(7, 4), torch.empty(7))
        function(F.linear, tensor, torch.empty(7, 4))
        function(F.linear, tensor, torch.empty(7, 8))
        function(torch.matmul, tensor, torch.empty(4, 5))
        function(torch.matmul, tensor, torch.empty(4))
        function(operator.matmul, tensor, torch.empty(2, 4, 5))
        function(operator.matmul, torch.empty(5, 3), tensor)
        function(F.pad, tensor, (1, 2))
        function(torch._C._nn.pad, tensor, (1, 2), "constant", 0)
        function(torch._C._nn.pad, tensor, (1, 0, 0, 1), "constant", None)
        function(torch._C._nn.pad, tensor, [1, 1], "reflect", None)
        function(torch.zeros_like, tensor)
        function(torch.full_like, tensor, 2, dtype=torch.float64)
        function(torch.rms_norm, tensor, (4,), torch.empty(4), 1e-6)
        function(torch.norm, tensor)
        method("norm", tensor, 2, -1, True)
        method("norm", tensor, dim=-1)
        function(torch.sum, tensor, (0, -1))
        function(torch.sum, tensor, dim=[0], keepdim=True, dtype=torch.float64)
        function(torch.mean, tensor, [-1], True)
        function(torch.var_mean, tensor, -1)
        function(torch.max, tensor, one)
        function(torch.cat, [tensor, one], 0)
        function(torch.cat, [torch.empty(0), tensor], -1)
        function(torch.cat, (tensor, torch.empty(0, dtype=torch.int64)), 0)
        function(torch.diff, tensor, dim=-1, prepend=tensor[..., :1] if tensor.dim() else tensor)
        function(torch.diff, tensor)
        method("cumsum", tensor, 0, dtype=torch.int32)
    for args in ((2, 3), ((2, 3),), ([2, 3],), (), (0,), (2, -1), (torch.Size([2]),)):
        for make in (torch.zeros, torch.ones, torch.empty, torch.rand, torch.randn):
            function(make, *args)
            function(make, *args, dtype=torch.int64, device="cpu")
            function(make, *args, dtype=torch.bfloat16, device=torch.device("cpu"))
            function(make, *args, requires_grad=True)
    for value in (1, 0.5, True):
        function(torch.full, (2, 3), value)
        function(torch.full, [], value, dtype=torch.float32)
        function(torch.tensor, value)
        function(torch.tensor, [value, 1])
        function(torch.tensor, [[value], [2]], dtype=torch.float64)
        function(torch.tensor, (value, 2.5), device="cpu")
    function(torch.tensor, [])
    function(torch.tensor, [[1], [2, 3]])
    for args in (
        (5,),
        (2, 5),
        (0, 10, 3),
        (0.0, 1.0, 0.25),
        (5, 2),
        (5, 2, -1),
        (0, 1, 0.3),
        (3.5,),
        (0,),
        (1, 10, 2.0),
        (0,),
    ):
        function(torch.arange, *args)
        function(torch.arange, *args, dtype=torch.float32)
        function(torch.arange, *args, dtype=torch.int64, device="cpu")
    function(torch.arange, end=5)
    function(torch.arange, 1, end=5)
    function(torch.arange, start=1, end=5)
    function(torch.arange, start=0, end=8, step=2, dtype=torch.int32)
    for causal, masked in (
        (False, None),
        (True, None),
        (False, torch.empty(2, 1, 5, 5)),
        (False, torch.empty(5, 5, dtype=torch.bool)),
    ):
        for query in (
            heads,
            heads.transpose(1, 2).contiguous().transpose(1, 2),
            torch.empty(2, 5, 4, 8).transpose(1, 2),
        ):
            function(F.scaled_dot_product_attention, query, heads, heads, attn_mask=masked, is_causal=causal)
            function(F.scaled_dot_product_attention, query, query, query, masked, 0.0, causal, scale=0.5)
            function(
                F.scaled_dot_product_attention, query, heads[:, :2], heads[:, :2], masked, enable_gqa=True
            )
            function(F.scaled_dot_product_attention, query, heads, heads[..., :6], dropout_p=0.1)
    for size in (3, 1):
        for kernel in (
            torch.empty(6, 3, size, size),
            torch.empty(6, 1, size, size),
            torch.empty(3, 3, size, size),
        ):
            function(F.conv2d, image, kernel, torch.empty(6), 2, 1)
            function(F.conv2d, image, kernel, None, (1, 2), "same")
            function(F.conv2d, image, kernel, None, 1, 0, 1, 3)
            function(F.conv_transpose2d, image, kernel, None, 2, 1, 1)
            function(F.conv2d, image[0], kernel, None, 1, "valid")
    for step in (2, (2, 3)):
        for make in (F.max_pool2d, F.avg_pool2d):
            function(make, image, step)
            function(make, image, 3, step, 1)
            function(make, image, 3, step, 1, ceil_mode=True)
        function(F.max_pool2d, image, 2, step, return_indices=True)
        function(F.adaptive_avg_pool2d, image, step)
    function(F.adaptive_avg_pool2d, image, (None, 1))
    for mode in ("nearest", "bilinear", "bicubic", "area"):
        function(F.interpolate, image, scale_factor=2.0, mode=mode)
        function(F.interpolate, image, size=(5, 7), mode=mode)
        function(F.interpolate, image, (5, 7), None, mode)
    for training in (False, True):
        for weight in (None, torch.empty(3)):
            function(F.batch_norm, image, torch.empty(3), torch.empty(3), weight, weight, training, 0.1, 1e-5)
    function(F.group_norm, image, 3, torch.empty(3), torch.empty(3))
    function(F.group_norm, image, 1)
    for reduction in ("mean", "sum", "none"):
        function(F.cross_entropy, y, torch.empty(4, dtype=torch.int64), reduction=reduction)
        function(F.cross_entropy, y, torch.empty(4, 6), reduction=reduction)
        function(F.cross_entropy, image, torch.empty(2, 8, 8, dtype=torch.int64), None, reduction=reduction)
        function(F.mse_loss, y, torch.empty(4, 6), reduction=reduction)
    function(F.embedding, whole, torch.empty(10, 6))
    function(F.embedding, whole, torch.empty(10, 6), 0)
    function(F.embedding, whole.int(), torch.empty(10, 6), None, 1.0)
    function(F.embedding, x, torch.empty(10, 6))
    for equation in (
        "bij,jk->bik",
        "bij,kj->bik",
        "bij,bik->bjk",
        "bhid,bhjd->bhij",
        "i,j->ij",
        "bij,jk->ibk",
        "bij->bji",
    ):
        first = heads if "h" in equation else x if equation[0] == "b" else torch.empty(3)
        second = heads if "h" in equation else x if "bik" in equation.split("->")[0] else torch.empty(4, 5)
        second = (
            torch.empty(4) if equation == "i,j->ij" else torch.empty(5, 4) if "kj" in equation else second
        )
        args = (first, second) if "," in equation else (first,)
        function(torch.einsum, equation, *args)
    return found


# Calls of the list above that must be answered at least once.
NEEDED = set(
    "getitem setitem add sub mul truediv floordiv mod pow and_ or_ eq ne lt ge iadd isub imul itruediv ifloordiv imod ipow iand ior "
    "neg abs invert getattr .size .dim .numel .stride .is_contiguous .detach .t .float .contiguous .clone .relu .sum .mean .max "
    ".argmax .any .std .to .type .view .reshape .expand .repeat .new_zeros .new_full .permute .masked_fill .masked_fill_ .where where "
    "clamp .clamp_ .fill_ .copy_ dropout relu silu gelu layer_norm linear matmul pad zeros_like full_like rms_norm norm sum "
    "var_mean max cat stack split zeros ones empty rand randn full tensor arange scaled_dot_product_attention conv2d "
    "conv_transpose2d avg_pool2d adaptive_avg_pool2d interpolate batch_norm group_norm cross_entropy mse_loss embedding einsum "
    "softmax .zero_ .topk .narrow .select .chunk .roll".split()
)


@pytest.mark.no_leak_hunt(reason="runs for minutes, and torch keeps caches of its own")
def test_calls_agree() -> None:
    report = Report()
    rng = random.Random(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, target, args, kwargs in _calls():
            shapes.vary(report, name, [target], args, kwargs, rng, VARIANTS)
    _finish(report, NEEDED)


_CELLS: dict[str, tuple[Any, Any]] = {
    "lstm": (torch.nn.LSTM, torch.nn.LSTMCell),
    "gru": (torch.nn.GRU, torch.nn.GRUCell),
    "rnn_tanh": (torch.nn.RNN, torch.nn.RNNCell),
    "rnn_relu": (torch.nn.RNN, torch.nn.RNNCell),
}


def _recurrent(
    name: str,
    sizes: tuple[int, int, int, int] = (2, 3, 4, 5),
    layers: int = 1,
    proj: int = 0,
    dropout: float = 0.0,
    train: bool = False,
    dtype: torch.dtype = torch.float32,
    **options: bool,
) -> tuple[Any, ...]:
    """The arguments of a recurrent layer, as its module gives them; the sizes are time, batch, width and hidden."""
    time, batch, width, hidden = sizes
    if proj:
        module = _CELLS[name][0](width, hidden, layers, proj_size=proj, dtype=dtype, **options)
    else:
        module = _CELLS[name][0](width, hidden, layers, dtype=dtype, **options)
    steps = (batch, time) if module.batch_first else (time, batch)
    states = [
        torch.zeros(layers * (1 + module.bidirectional), batch, size, dtype=dtype)
        for size in (proj or hidden, hidden)
    ]
    return (
        torch.zeros(*steps, width, dtype=dtype), tuple(states) if name == "lstm" else states[0],
        list(module._flat_weights), module.bias, layers, dropout, train, module.bidirectional, module.batch_first,
    )  # fmt: skip


def _recurrent_cell(name: str, sizes: tuple[int, ...], bias: bool, dtype: torch.dtype) -> tuple[Any, ...]:
    _, batch, width, hidden = sizes
    module = _CELLS[name][1](width, hidden, bias, dtype=dtype)
    states = torch.zeros(batch, hidden, dtype=dtype), torch.zeros(batch, hidden, dtype=dtype)
    weights = (module.weight_ih, module.weight_hh, module.bias_ih, module.bias_hh)
    return torch.zeros(batch, width, dtype=dtype), states if name == "lstm" else states[0], *weights


@pytest.mark.no_leak_hunt(reason="runs for minutes, and torch keeps caches of its own")
@pytest.mark.parametrize("name", _CELLS)
def test_recurrent_layers_agree(name: str) -> None:
    report, made = Report(), Report()
    rng = random.Random(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for number in range(200 if SWEEP else 16):
            bidirectional, batch_first, bias, train = (bool(number >> bit & 1) for bit in range(4))
            time, batch, width = (rng.choice([1, 2, 3]) for _ in range(3))
            layers, hidden = rng.choice([1, 1, 2, 3]), rng.choice([1, 2, 4])
            dtype = rng.choice([torch.float32, torch.float32, torch.float64, torch.float16, torch.bfloat16])
            proj = rng.randrange(hidden) if name == "lstm" else 0
            sizes = time, batch, width, hidden
            dropout = rng.choice([0.0, 0.5])
            args = _recurrent(
                name, sizes, layers, proj, dropout, train, dtype,
                bidirectional=bidirectional, batch_first=batch_first, bias=bias,
            )  # fmt: skip
            cell = _recurrent_cell(name, sizes, bias, dtype)
            for target, given in ((name, args), (f"{name}_cell", cell)):
                targets = [(FUNCTION, getattr(torch, target))]
                shapes.vary(report, target, targets, given, {}, rng, 1)
                shapes.mutate_often(made, target, targets, given, {}, rng, 2)
    _finish(report, {name, f"{name}_cell"})
    assert report.answered[name] > report.asked[name] * 3 // 4
    assert report.answered[f"{name}_cell"] >= report.asked[f"{name}_cell"] // 2
    assert made.wrong == []


@pytest.mark.parametrize("name", _CELLS)
def test_unusual_arguments_of_recurrent_layers_are_declined(name: str) -> None:
    target = getattr(torch, name)
    good = _recurrent(name, layers=2)
    assert _ask(target, *good) is not None
    data, states, weights, *rest = good
    for args in (
        (data.double(), states, weights, *rest),
        (data[:, :2], states, weights, *rest),
        (data[..., :2], states, weights, *rest),
        (data[0], states, weights, *rest),
        (data[:0], states, weights, *rest),
        (data, states, weights[:-1], *rest),
        (data, states, [*weights[:-1], weights[-1][:-1]], *rest),
        (data, states, [*weights[4:], *weights[:4]], *rest),
        (data, states, weights, False, *rest[1:]),
        (data, states, weights, True, 1, *rest[2:]),
        (data, states, weights, True, 2, 1.5, *rest[3:]),
        (data, states, weights, True, 2, 0.0, False, True, False),
        (data, states, weights, True, 2, 0.0, False, False, True),
        (data, states, weights, True, 2, 0.0, 1, False, False),
        (data, [states], weights, *rest),
        (data, data, weights, *rest),
        good[:-1],
        (data.flatten(0, 1), torch.tensor([3, 3]), *good[1:-1]),
    ):
        assert _ask(target, *args) is None


def test_cells_that_do_not_come_from_a_parameter_do_not_require_grad() -> None:
    args = _recurrent("lstm", (1, 2, 3, 4), proj=2)
    for parameter in args[2][:-1]:
        parameter.requires_grad_(False)
    report = Report()
    shapes.vary(report, "lstm", [(FUNCTION, torch.lstm)], args, {}, random.Random(0), 0)
    assert report.wrong == []

    def function(*given: Any) -> Any:
        return [tensor.requires_grad for tensor in torch.lstm(*given)]

    assert function(*args) == [True, True, False]
    assert magneto.compile(function, backend="eager", fullgraph=True)(*args) == [True, True, False]


def _ask(target: Any, *args: Any, **kwargs: Any) -> Any:
    inputs: list[Any] = []
    known: dict[int, int] = {}
    given = shapes.with_refs(args, inputs, known)
    named = {key: shapes.with_refs(value, inputs, known) for key, value in kwargs.items()}
    kind = METHOD if isinstance(target, str) else FUNCTION
    state = (True, False, torch.float32, None, False, (), 0)
    return _core.shape_outcome(kind, target, given, named, inputs, state)


_X = torch.ones(2, 3)
_IMAGE = torch.ones(1, 2, 4, 4)
_FAILING = [
    (operator.pow, _X.long(), -1),
    (torch.max, _X[:0]),
    ("min", _X[:0]),
    (torch.argmax, _X.bool()),
    (operator.sub, _X, True),
    (operator.sub, 1, _X.bool()),
    (torch.rsub, _X.bool(), _X),
    (torch.full, (2,), 1e5, torch.float16),
    (torch.tensor, [1, 300], torch.uint8),
    ("new_full", _X.half(), (2,), -1e9),
    (torch.full_like, _X.half(), 1e9),
    ("fill_", _X.half(), 1e9),
    ("masked_fill", _X.half(), _X > 0, -1e9),
    (torch.index_select, _X[:0], 0, torch.zeros(1, dtype=torch.int64)),
    (operator.floordiv, _X.long(), 0),
    (operator.mod, _X.long(), 0),
    (operator.mod, _X.bool(), 0),
    ("floor_divide", _X.int(), 0),
    (torch.remainder, _X.long(), False),
    (torch.fmod, _X.long(), 0),
    ("clamp", _X.half(), 0, 1e9),
    (torch.clamp_min, _X.byte(), 300),
    (torch.pow, _X.byte(), 300),
    ("pow", _X.half(), 1e9),
    (torch.where, _X > 0, _X.byte(), 300),
    (torch._C._nn.pad, _X.half(), (1, 1), "constant", 1e9),
    (torch._C._nn.pad, _X.byte(), (1, 1), "constant", 300),
    (F.hardtanh, _X.half(), -1e9, 1e9),
    ("__setitem__", _X.byte(), 0, 300),
    (torch.linspace, 0, 1e9, 3, torch.float16),
    (torch.linspace, -1e39, 0, 1, torch.float32),
]
_FAILING_NAMED: list[tuple[Any, tuple[Any, ...], dict[str, Any]]] = [
    (torch.add, (_X.half(), _X.half()), {"alpha": 1e9}),
    (torch.sub, (_X.byte(), _X.byte()), {"alpha": 300}),
    (torch.addcmul, (_X.byte(), _X.byte(), _X.byte()), {"value": 300}),
    (torch.index_add, (_X.half(), 0, torch.tensor([0]), _X.half()[:1]), {"alpha": 1e9}),
    (torch.div, (_X.long(), 0), {"rounding_mode": "floor"}),
    (torch.div, (_X.long(), 0), {"rounding_mode": "trunc"}),
]


@pytest.mark.parametrize("case", _FAILING, ids=lambda case: getattr(case[0], "__name__", case[0]))
def test_what_eager_raises_is_an_error_for_shape_functions_too(case: tuple[Any, ...]) -> None:
    """FakeTensorMode takes them: the graph would raise, where a handler in captured code can't see it."""
    target, *args = case
    kwargs = {"dtype": args.pop()} if isinstance(args[-1], torch.dtype) else {}
    _must_fail(target, args, kwargs)


@pytest.mark.parametrize("case", _FAILING_NAMED, ids=lambda case: case[0].__name__)
def test_what_eager_raises_for_a_number_by_name_is_an_error_too(
    case: tuple[Any, tuple[Any, ...], dict[str, Any]],
) -> None:
    _must_fail(*case)


def _must_fail(target: Any, args: Any, kwargs: dict[str, Any]) -> None:
    outcome = _ask(target, *args, **kwargs)
    assert outcome.kind == _core.OUTCOME_RAISES

    def function(*given: Any) -> Any:
        try:
            return (
                getattr(given[0], target)(*given[1:]) if isinstance(target, str) else target(*given, **kwargs)
            )
        except RuntimeError as error:
            return str(error)

    expected = function(*args)
    assert isinstance(expected, str)
    assert magneto.compile(function, backend="eager")(*args) == expected


def _strided(
    sizes: tuple[int, ...], strides: tuple[int, ...], dtype: torch.dtype = torch.float32
) -> torch.Tensor:
    return torch.zeros(4000, dtype=dtype).as_strided(sizes, strides)


_HALF = torch.float16
_SCALAR = torch.ones(())
_EXPANDED = torch.ones(5, dtype=_HALF).expand(5, 5)
_ACROSS = torch.ones(5, 5, dtype=_HALF).t()
_ODD = _strided((5, 1), (1, 100))  # the stride of a dimension of one element says nothing, but it is there
_ODD_IMAGE = _strided((2, 1, 4, 4), (16, 3, 4, 1))
_LAYOUTS: list[tuple[Any, tuple[Any, ...], dict[str, Any]]] = [
    (torch.lerp, (_EXPANDED, _ACROSS, _ACROSS), {}),
    (torch.addcmul, (_EXPANDED, _ACROSS, _ACROSS), {}),
    (torch.addcdiv, (_EXPANDED, _ACROSS, _ACROSS), {}),
    (torch.addcmul, (_ODD, _SCALAR, _SCALAR), {}),
    (torch.add, (_ODD, _SCALAR), {}),
    (torch.maximum, (_strided((5, 1), (1, 7)), _strided((1, 5, 5), (5, 0, 10))), {}),
    (torch.add, (_strided((1, 1), (0, 2)), _strided((2, 1, 1), (1, 0, 16))), {"alpha": 2}),
    (torch.where, (_ODD > 0, _ODD, 0.0), {}),
    ("masked_fill", (_strided((5, 5), (15, 0)), _strided((1, 5, 5), (2, 10, 2), torch.bool), 1.0), {}),
    (torch.clamp_max, (_ODD, 2), {}),
    (torch.clamp, (_strided((1, 10, 1), (1, 1, 0), _HALF), torch.ones(1, 1, 1, dtype=_HALF)), {}),
    (F.glu, (_strided((1, 4, 6, 7), (3, 42, 7, 1)), 2), {}),
    (F.relu, (_ODD,), {}),
    (torch.sigmoid, (_strided((1, 4, 3), (5, 6, 2), torch.uint8),), {}),
    (torch._C._nn.gelu, (_strided((10, 1), (3, 100)),), {"approximate": "tanh"}),
    (F.logsigmoid, (_strided((1, 3), (2, 2)),), {}),
    (torch.pow, (_ODD, 1), {}),
    (F.batch_norm, (_ODD_IMAGE, None, None, None, None, True), {}),
    (F.rms_norm, (_strided((2, 2, 2, 3), (12, 1, 6, 2), _HALF), (2, 3)), {}),
    (F.log_softmax, (_ODD, 0), {}),
    (F.log_softmax, (_strided((1, 5, 10, 5), (20, 100, 10, 0), torch.int64), 2), {"dtype": torch.float64}),
    (torch.flip, (_strided((5, 10, 1), (1, 5, 10)), (0,)), {}),
    (torch.tril, (_ODD,), {}),
    (torch.sort, (_strided((1, 5, 5), (250, 1, 5)), 1), {}),
    (F.max_pool1d, (_strided((1, 2, 1), (7, 1, 4)), 1), {}),
    (torch.sum, (torch.ones(3, 0), 0, True), {}),
    (torch.addmv, (torch.ones(1), torch.ones(0, 10), torch.ones(10)), {}),
    ("float", (torch.ones(0, 3, 0, 3, dtype=torch.bool),), {"memory_format": torch.channels_last}),
    ("float", (_strided((2, 3, 2, 3), (54, 1, 27, 3)),), {"memory_format": torch.channels_last}),
    ("float", (_strided((2, 1, 2, 1), (2, 2, 1, 1)),), {"memory_format": torch.channels_last}),
    (operator.lshift, (_X > 0, _X.long()), {}),
    (torch.reshape, (_strided((0, 3), (7, 2)), (0, 3)), {}),
    (torch.full_like, (_strided((1, 2, 5, 2), (60, 1, 4, 2)), 1.5), {}),
    (torch._C._nn.avg_pool3d, (torch.ones(1, 1, 1, 5, 6), (4, 5, 6), 2, 2), {}),
    (torch.isfinite, (_strided((2, 1, 0, 2), (0, 1, 2, 1), _HALF),), {}),
    (torch._C._nn.pad, (_strided((1, 1, 5, 5), (25, 1, 5, 1)), (0, 2, 0, 1), "constant", 1.0), {}),
    (torch._C._nn.pad, (torch.ones(1, 3, dtype=_HALF), (0, -1), "constant", -0.5), {}),
    (torch._C._nn.pad, (torch.ones(3, 4, dtype=_HALF), (-1, -1), "constant", 1e9), {}),
    (F.group_norm, (_strided((2, 6, 1), (6, 1, 8), _HALF), 2), {}),
    (F.group_norm, (_strided((3, 2, 1), (2, 1, 6)), 2), {}),
    (F.group_norm, (_strided((3, 1, 1, 1), (1, 7, 4, 6), torch.float64), 1), {}),
]


def _name_of(case: tuple[Any, ...]) -> str:
    return str(getattr(case[0], "__name__", case[0]))


@pytest.mark.parametrize("case", _LAYOUTS, ids=_name_of)
def test_unusual_layouts_agree(case: tuple[Any, tuple[Any, ...], dict[str, Any]]) -> None:
    target, args, kwargs = case
    report = Report()
    kind = METHOD if isinstance(target, str) else FUNCTION
    shapes.vary(report, "", [(kind, target)], args, kwargs, random.Random(0), 0)
    assert report.wrong == []


_STEP = _strided((2, 2, 1, 8), (16, 8, 16, 1))  # the query of one token: heads, transposed
_HEADS = torch.ones(2, 5, 4, 8).transpose(1, 2)
_LAST = torch.ones(2, 3, 4, 4).to(memory_format=torch.channels_last)
_ATTENTION = F.scaled_dot_product_attention
_ANSWERED: list[tuple[Any, tuple[Any, ...], dict[str, Any]]] = [
    ("view", (_strided((2, 1, 16), (48, 48, 1)), (2, 1, -1, 8)), {}),
    ("view", (_strided((2, 1, 2, 8), (16, 100, 8, 1)), (2, 1, 16)), {}),
    ("view", (_strided((4, 2, 1, 1), (4, 2, 2, 0)), (1, 8, 1)), {}),
    ("view", (_strided((1, 4, 4), (0, 4, 1)), (1, 1, 4, 1, 4)), {}),
    ("reshape", (_strided((2, 1, 2, 8), (16, 8, 8, 1)), 2, 1, -1), {}),
    ("reshape", (_strided((2, 1, 4), (20, 1, 1)), (4, 1, 2)), {}),
    ("reshape", (_strided((3, 1, 2), (1, 9, 3)), (1, 6)), {}),
    ("flatten", (_strided((2, 1, 1, 3), (3, 7, 5, 1)), 1), {}),
    (_ATTENTION, (_STEP, _HEADS[:, :2], _HEADS[:, :2]), {}),
    (_ATTENTION, (_strided((5, 1, 8, 2), (16, 1, 2, 1)),) * 3, {}),
    (_ATTENTION, (_strided((4, 1, 1, 4), (4, 5, 4, 1)),) * 3, {}),
    (_ATTENTION, (_HEADS, _HEADS, _HEADS), {"dropout_p": 0.1}),
    (_ATTENTION, (_HEADS, _HEADS, _HEADS, torch.ones(5, 5, dtype=torch.bool), 0.5), {"scale": 0.5}),
    (torch._C._nn.pad, (_strided((2, 7, 16), (128, 16, 1)), [0, 0, 0, 1, 0, 0], "constant", 0.0), {}),
    (torch._C._nn.pad, (_strided((4, 3), (1, 4)), (-1, 0), "constant", None), {}),
    (torch.einsum, (" b h i d,b h j d -> b h i j", _HEADS, _HEADS), {}),
    (F.interpolate, (_LAST, (8, 8)), {"mode": "bilinear", "align_corners": False}),
    (F.interpolate, (_LAST,), {"scale_factor": 2.0}),
    (F.group_norm, (_LAST, 3, torch.ones(3)), {}),
    (F.group_norm, (torch.ones(2, 9, 4).transpose(1, 2), 2), {}),
    (F.batch_norm, (_LAST, torch.zeros(3), torch.ones(3)), {}),
    (F.batch_norm, (_LAST, None, None, None, None, True), {}),
]


@pytest.mark.parametrize("case", _ANSWERED, ids=_name_of)
def test_layouts_that_networks_make_are_answered(case: tuple[Any, tuple[Any, ...], dict[str, Any]]) -> None:
    target, args, kwargs = case
    report = Report()
    kind = METHOD if isinstance(target, str) else FUNCTION
    shapes.vary(report, "", [(kind, target)], args, kwargs, random.Random(0), 0)
    assert report.wrong == []
    assert report.answered.total() == 1


@pytest.mark.no_leak_hunt(reason="runs for minutes, and torch keeps caches of its own")
def test_views_of_odd_layouts_agree() -> None:
    report = Report()
    rng = random.Random(0)
    for _ in range(5000 if SWEEP else 500):
        sizes = tuple(rng.choice([1, 1, 2, 3, 4]) for _ in range(rng.randrange(1, 6)))
        tensor = _strided(sizes, shapes.any_strides(sizes, rng)) if rng.random() < 0.9 else torch.ones(sizes)
        others = [size for size in sizes if size != 1 or rng.random() < 0.5]
        for _ in range(rng.randrange(3)):
            others.insert(rng.randrange(len(others) + 1), 1)
        if len(others) > 1 and rng.random() < 0.5:
            at = rng.randrange(len(others) - 1)
            others[at : at + 2] = [others[at] * others[at + 1]]
        elif len(others) > 1 and rng.random() < 0.3:
            others.reverse()
        for name in ("view", "reshape"):
            shapes.vary(report, name, [(METHOD, name)], (tensor, tuple(others)), {}, rng, 0)
    _finish(report, set())
    assert report.answered.total() > report.asked.total() * 3 // 4


@pytest.mark.no_leak_hunt(reason="runs for minutes, and torch keeps caches of its own")
def test_attention_of_odd_layouts_agrees() -> None:
    report = Report()
    rng = random.Random(0)
    for _ in range(3000 if SWEEP else 200):
        batch, heads, queries, keys, width = (rng.choice([1, 1, 2, 3, 5]) for _ in range(5))
        dtype = rng.choice([torch.float32, torch.float64, _HALF, torch.bfloat16])
        made = []
        for length in (queries, keys, keys):
            sizes = (batch, heads, length, width)
            kind = rng.choice(["plain", "across", "any"])
            strides = shapes.dense_strides(sizes, [0, 2, 1, 3] if kind == "across" else [0, 1, 2, 3])
            made.append(_strided(sizes, shapes.any_strides(sizes, rng) if kind == "any" else strides, dtype))
        mask = rng.choice([None, torch.ones(queries, keys, dtype=torch.bool)])
        args = (*made, mask, rng.choice([0.0, 0.0, 0.1]), mask is None and rng.random() < 0.5)
        shapes.vary(report, "attention", [(FUNCTION, _ATTENTION)], args, {}, rng, 1)
    _finish(report, {"attention"})


# Layouts of which FakeTensorMode, and so TorchDynamo, says other strides than eager gives: halves are converted to float32
# by its descriptions of most operations, and that orders dimensions that were expanded; and what it describes as several
# steps keeps no strides that have no meaning, or keeps them where eager does not; and so with views of what is empty.
_UNLIKE_EAGER: list[tuple[Any, tuple[Any, ...]]] = [
    *((operation, (_EXPANDED, _ACROSS)) for operation in (
        torch.add, torch.sub, torch.mul, torch.div, torch.remainder, torch.fmod, torch.pow, torch.maximum, torch.minimum,
        torch.fmax, torch.fmin, torch.atan2, torch.eq, torch.lt,
    )),
    (F.glu, (_strided((8, 2), (2, 16), _HALF), 1)),
    (F.log_softmax, (_ODD, 0)),
    (F.batch_norm, (_ODD_IMAGE, None, None, None, None, True)),
    (torch.flip, (_ODD, (0,))),
    (torch.reshape, (_strided((0, 3), (7, 2)), (0, 3))),
]  # fmt: skip


@pytest.mark.parametrize("case", _UNLIKE_EAGER, ids=_name_of)
def test_where_torch_disagrees_with_itself_shape_functions_say_what_fake_tensors_do(
    case: tuple[Any, tuple[Any, ...]],
) -> None:
    target, args = case
    inputs: list[Any] = []
    fake = _propagate._propagate(FUNCTION, target, shapes.with_refs(args, inputs, {}), {}, inputs)
    assert tuple(fake.result.strides) != target(*args).stride()
    mine = _ask(target, *args)
    assert mine is None or _propagate._same(mine, fake)


def test_an_index_without_dimensions_makes_a_view() -> None:
    def function(x: torch.Tensor, i: torch.Tensor) -> Any:
        y = x[i]
        y.add_(1)
        return y._base is x

    assert _ask(operator.getitem, _X, torch.tensor(1)) is None
    for call in (function, magneto.compile(function, backend="eager")):
        x = torch.zeros(2, 3)
        assert call(x, torch.tensor(1))
        assert x.tolist() == [[0.0] * 3, [1.0] * 3]


def test_numbers_that_a_dtype_can_hold_are_taken() -> None:
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        limits = torch.finfo(dtype)
        for value in (limits.min, limits.max, float("inf"), float("nan")):
            assert _ask(torch.full, (2,), value, dtype=dtype).kind == _core.OUTCOME_KNOWN
            assert _ask("masked_fill", _X.to(dtype), _X > 0, value).kind == _core.OUTCOME_KNOWN
    for dtype in (torch.int8, torch.int16, torch.int32, torch.int64):
        for value in (torch.iinfo(dtype).min, torch.iinfo(dtype).max):
            assert _ask(torch.full, (2,), value, dtype=dtype).kind == _core.OUTCOME_KNOWN
    for value in (-255, 255):
        assert _ask(torch.full, (2,), value, dtype=torch.uint8).kind == _core.OUTCOME_KNOWN


@pytest.mark.parametrize(
    ("target", "args", "kwargs"),
    [
        (torch.relu, (_X,), {"unknown": None}),
        (torch.sum, (_X, None), {"dim": 0}),
        (torch.sum, (_X,), {"dim": 0, "keepdim": None}),
        (torch.add, (_X, _X, 2), {}),
        (torch.zeros_like, (_X, torch.float64), {}),
        (torch.logsumexp, (_X,), {}),
        (torch.eq, (2, _X), {}),
        (torch.lt, (2, _X), {}),
        (torch.rsub, (2, _X), {}),
        (torch.fmod, (2, _X), {}),
        (torch.copysign, (2, _X), {}),
        (operator.setitem, (_X, torch.tensor(1), 0.0), {}),
        (F.relu, (_X, 1), {}),
        (F.leaky_relu, (_X, True), {}),
        (F.mse_loss, (_X, _X), {"reduction": None}),
        (operator.add, (_X.half(), 1j), {}),
        (torch.cat, ([_X.half(), _X * 1j],), {}),
        (F.interpolate, (_IMAGE, (5,)), {}),
        (F.adaptive_avg_pool2d, (_IMAGE, (5,)), {}),
        (F.max_pool2d, (_IMAGE, (2,) * 12), {}),
        (F.avg_pool2d, (_IMAGE, (2,) * 12), {}),
        (F.conv2d, (_IMAGE, torch.ones(2, 2, 1, 1), None, (1,) * 12), {}),
        (torch.nansum, (_X * 1j,), {}),
        (torch.arange, (1.0, 2.0, float("inf")), {}),
        (F.hardtanh, (_X, 2.0), {}),
        (F.hardtanh, (_X,), {"max_val": -2.0}),
        (F.dropout, (_X, 1j, True), {}),
        (F.scaled_dot_product_attention, (_IMAGE, _IMAGE, _IMAGE, None, 0j), {}),
        (F.group_norm, (_IMAGE, 1, None, None, 1j), {}),
        (torch.var, (_X, 0), {"correction": 1j}),
        (F.cross_entropy, (_X, torch.zeros(2, dtype=torch.int64)), {"label_smoothing": 0j}),
        (F.interpolate, (_IMAGE,), {"scale_factor": float("inf")}),
        (torch.var, (_X,), {"dim": True}),
        ("to", (_X, torch.float64, None, False), {}),
        ("argsort", (_X,), {"stable": None}),
        (torch._C._nn.pad, (_X * 1j, (1, 2), "constant", 0j), {}),
    ],
    ids=str,
)
def test_unusual_arguments_are_declined(target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    assert _ask(target, *args, **kwargs) is None


def test_a_flag_that_is_not_a_bool_works_in_place() -> None:
    def function(x: torch.Tensor) -> Any:
        y = F.relu(x, 1)  # type: ignore[arg-type]
        y.add_(1)
        return y is x, x

    for call in (function, magneto.compile(function, backend="eager", fullgraph=True)):
        x = torch.tensor([-1.0, 2.0])
        same, y = call(x)
        assert same
        assert y is x
        assert x.tolist() == [1.0, 3.0]


def test_attention_is_worked_out_anew_when_its_kernels_change() -> None:
    query = torch.ones(2, 5, 4, 8).transpose(1, 2)
    before = torch.backends.cuda.flash_sdp_enabled()
    try:
        for enabled in (True, False, True):
            torch.backends.cuda.enable_flash_sdp(enabled)

            def function(x: torch.Tensor) -> Any:
                return F.scaled_dot_product_attention(x, x, x).stride()

            assert magneto.compile(function, backend="eager", fullgraph=True)(query) == function(query)
    finally:
        torch.backends.cuda.enable_flash_sdp(before)
