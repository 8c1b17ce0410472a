"""Shape functions with sizes that differ from call to call: what they say holds for all sizes that satisfy the guards, and
operations of networks need none.

The calls are the samples of torch's own test database and those of test_shapes.py. With MAGNETO_SWEEP=1 there are more, and
more values of the symbols are tried for each.
"""

from __future__ import annotations

import operator
import os
import random
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch.nn import functional as F

from magneto import _core, _propagate
from record import opinfo

from . import shapes, test_shapes
from .shapes import FUNCTION, METHOD
from .symbolic import ANY, SIZE, Generalized

SWEEP = os.environ.get("MAGNETO_SWEEP") == "1"
SAMPLES = 20 if SWEEP else 2
TIMES = 60 if SWEEP else 20
SHARDS = 8
DTYPES = [torch.float32, torch.int64]
OPERATIONS = [op for op in test_shapes.OPERATIONS if op.name in test_shapes.LISTED]


def _with_refs(args: Any, kwargs: Any) -> tuple[Any, Any, list[Any]] | None:
    inputs: list[Any] = []
    known: dict[int, int] = {}
    try:
        given = shapes.with_refs(args, inputs, known)
        named = {key: shapes.with_refs(value, inputs, known) for key, value in kwargs.items()}
    except (_propagate.Unsupported, NotImplementedError, RuntimeError):  # not a plain tensor
        return None
    return given, named, inputs


@pytest.mark.no_leak_hunt(reason="runs for long, and torch keeps caches of its own")
@pytest.mark.parametrize("shard", range(SHARDS))
def test_operations_say_what_holds_for_other_sizes(shard: int) -> None:
    report = Generalized()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for op in OPERATIONS[shard::SHARDS]:
            rng = random.Random(op.name)
            targets = shapes.targets_of(op)
            for dtype in opinfo.dtypes(op, DTYPES):
                for args, kwargs in shapes.samples_of(op, dtype, SAMPLES):
                    call = _with_refs(args, kwargs)
                    for target in targets if call is not None else ():
                        given, named, inputs = call  # type: ignore[misc]
                        report.ask(target, given, named, inputs, rng, times=TIMES)
                        report.ask(target, given, named, inputs, rng, constants=0.3, times=TIMES)
                        other, changed = shapes.mutate(target[0], given, named, inputs, rng)
                        report.ask(target, other, named, changed, rng, constants=0.2, times=TIMES)
    assert report.wrong == []
    assert report.answered > report.asked // 3
    assert report.tried > 5 * report.answered


@pytest.mark.no_leak_hunt(reason="runs for long, and torch keeps caches of its own")
def test_calls_of_programs_say_what_holds_for_other_sizes() -> None:
    report = Generalized()
    rng = random.Random(0)
    for _, target, args, kwargs in test_shapes._calls():
        call = _with_refs(args, kwargs)
        if call is not None:
            for constants in (0.0, 0.3) if SWEEP else (rng.choice([0.0, 0.3]),):
                report.ask(target, *call, rng, constants=constants, times=TIMES)
    assert report.wrong == []
    assert report.answered > report.asked // 3


@pytest.mark.no_leak_hunt(reason="runs for long, and torch keeps caches of its own")
def test_unusual_layouts_say_what_holds_for_other_sizes() -> None:
    report = Generalized()
    rng = random.Random(0)
    for target, args, kwargs in (test_shapes._LAYOUTS + test_shapes._ANSWERED) * 5:
        call = _with_refs(args, kwargs)
        assert call is not None
        kind = METHOD if isinstance(target, str) else FUNCTION
        report.ask((kind, target), *call, rng, times=TIMES)
    assert report.wrong == []


# ---- guards ----


class Call:
    """A call with symbols: sizes are given as a text, such as "b s 64", of numbers, names of symbols and products, as in
    "b s*64". Symbols are 2 or more, but n, which is any int."""

    def __init__(self, **values: int) -> None:
        self.names: dict[str, int] = {}
        self.symbols: list[tuple[int, int | None, int | None]] = []
        self.inputs: list[Any] = []
        for name, value in {"n": 3, **values}.items():
            self._add(name, value, ANY if name == "n" else SIZE)

    def _add(self, name: str, value: int, bounds: tuple[int | None, int | None]) -> None:
        self.names[name] = len(self.symbols)
        self.symbols.append((value, *bounds))

    def expression(self, text: str) -> Any:
        made: Any = 1
        for part in text.split("*"):
            if part.isidentifier() and part not in self.names:
                self._add(part, 5 + 2 * len(self.symbols), SIZE)
            one = f"s{self.names[part]}" if part.isidentifier() else int(part)
            made = ("*", made, one)
        return made

    def size(self, text: str) -> Any:
        return _core.size(self.symbols, self.expression(text))

    def tensor(self, text: str, dtype: torch.dtype = torch.float32, order: str = "") -> Any:
        """A contiguous tensor, or one whose dimensions lie in another order, the slowest first: "0213"."""
        sizes = [self.expression(part) for part in text.split()]
        strides: list[Any] = [1] * len(sizes)
        step: Any = 1
        for dim in reversed([int(digit) for digit in order] or range(len(sizes))):
            strides[dim] = step
            step = ("*", step, sizes[dim])
        made = [tuple(_core.size(self.symbols, one) for one in many) for many in (sizes, strides)]
        meta = _core.meta(dtype, torch.device("cpu"), *made, 0)
        self.inputs.append((len(self.inputs), meta))
        return _core.ref(len(self.inputs) - 1)

    def ask(self, target: Any, *args: Any, **kwargs: Any) -> tuple[Any, list[str]]:
        kind = METHOD if isinstance(target, str) else FUNCTION
        state = (True, False, torch.float32, None, False, (), 0)
        outcome, guards = _core.shape_outcome(kind, target, args, kwargs, self.inputs, state, self.symbols)
        return outcome, guards


def _network_calls() -> Iterator[tuple[str, Callable[[Call], tuple[Any, list[str]]]]]:
    def case(name: str, make: Callable[[Call], tuple[Any, list[str]]]) -> None:
        found.append((name, make))

    found: list[tuple[str, Callable[[Call], tuple[Any, list[str]]]]] = []
    n = slice(None)
    half = torch.float16
    for left, right in (
        ("b s 64", "b s 64"), ("b s 64", "64"), ("b s 64", "s 64"), ("b s 64", "b 1 1"), ("b 1 s", "b s 1"),
        ("b 12 s s", "b 1 1 s"), ("b 12 s t", "b 1 s t"), ("s", "1"), ("b s 64", ""), ("b s v", "b s v"), ("b c h w", "1 c 1 1"),
        ("b 3 h w", "3 1 1"), ("b c h w", "b c h w"),
    ):  # fmt: skip
        case(f"add {left}, {right}", lambda c, x=left, y=right: c.ask(operator.add, c.tensor(x), c.tensor(y)))
        case(
            f"mul {left}, {right}",
            lambda c, x=left, y=right: c.ask(torch.mul, c.tensor(x, half), c.tensor(y)),
        )
        case(
            f"where {left}, {right}",
            lambda c, x=left, y=right: c.ask(torch.where, c.tensor(x, torch.bool), c.tensor(y), 0.0),
        )
    for sizes, order in (
        ("b s 64", ""),
        ("b 12 s 64", "0213"),
        ("b c h w", "0231"),
        ("s b 64", "102"),
        ("b s v", ""),
    ):
        for name in ("relu", "exp", "float", "half", "contiguous", "clone", "numel", "is_contiguous", "size", "stride", "neg",
                     "sum", "mean", "argmax", "max", "flatten", "square", "detach", "tanh", "sigmoid", "isnan"):  # fmt: skip
            case(
                f"{name} of {sizes} {order}",
                lambda c, n=name, x=sizes, o=order: c.ask(n, c.tensor(x, order=o)),
            )
        for name in (
            "sum",
            "mean",
            "amax",
            "softmax",
            "argmax",
            "var",
            "squeeze",
            "unsqueeze",
            "size",
            "max",
            "logsumexp",
            "any",
        ):
            for dim in (-1, 1):
                case(
                    f"{name} {dim} of {sizes} {order}",
                    lambda c, n=name, d=dim, x=sizes, o=order: c.ask(n, c.tensor(x, order=o), d),
                )
        case(
            f"gelu {sizes} {order}",
            lambda c, x=sizes, o=order: c.ask(torch._C._nn.gelu, c.tensor(x, order=o)),
        )
        case(f"silu {sizes} {order}", lambda c, x=sizes, o=order: c.ask(F.silu, c.tensor(x, order=o)))
        case(
            f"dropout {sizes} {order}",
            lambda c, x=sizes, o=order: c.ask(F.dropout, c.tensor(x, order=o), 0.1, True),
        )
        case(
            f"transpose {sizes} {order}",
            lambda c, x=sizes, o=order: c.ask("transpose", c.tensor(x, order=o), 1, 2),
        )
        case(f"pow {sizes} {order}", lambda c, x=sizes, o=order: c.ask(torch.pow, c.tensor(x, order=o), 2))
        case(
            f"zeros_like {sizes} {order}",
            lambda c, x=sizes, o=order: c.ask(torch.zeros_like, c.tensor(x, order=o)),
        )
        case(f"add_ {sizes} {order}", lambda c, x=sizes, o=order: c.ask("add_", c.tensor(x, order=o), 1))
        case(
            f"cat {sizes} {order}",
            lambda c, x=sizes, o=order: c.ask(torch.cat, [c.tensor(x, order=o)] * 2, 1),
        )
        case(f"stack {sizes}", lambda c, x=sizes: c.ask(torch.stack, [c.tensor(x)] * 2, 0))
        case(
            f"[:, 0] {sizes} {order}",
            lambda c, x=sizes, o=order: c.ask(operator.getitem, c.tensor(x, order=o), (n, 0)),
        )
        case(
            f"[:, -1] {sizes} {order}",
            lambda c, x=sizes, o=order: c.ask(operator.getitem, c.tensor(x, order=o), (n, -1)),
        )
        case(
            f"[None] {sizes} {order}",
            lambda c, x=sizes, o=order: c.ask(operator.getitem, c.tensor(x, order=o), (None,)),
        )
    for keys in (
        (n, slice(1, None)),
        (..., slice(None, -1)),
        (n, slice(None, None, 2)),
        (slice(0, 9223372036854775807),),
    ):
        case(f"getitem {keys}", lambda c, k=keys: c.ask(operator.getitem, c.tensor("b s 64"), k))
    case(
        "rotate",
        lambda c: c.ask(operator.getitem, c.tensor("b 12 s 64", order="0213"), (..., slice(32, None))),
    )
    case("rows by index", lambda c: c.ask(operator.getitem, c.tensor("v 64"), c.tensor("b s", torch.int64)))
    case("index_select", lambda c: c.ask(torch.index_select, c.tensor("b s"), 1, c.tensor("t", torch.int64)))
    case("gather", lambda c: c.ask(torch.gather, c.tensor("b v"), 1, c.tensor("b s", torch.int64)))
    case("setitem", lambda c: c.ask(operator.setitem, c.tensor("b s"), (n, 0), 1.0))
    case(
        "linear", lambda c: c.ask(torch._C._nn.linear, c.tensor("b s 64"), c.tensor("32 64"), c.tensor("32"))
    )
    case("mlp", lambda c: c.ask(torch._C._nn.linear, c.tensor("b d"), c.tensor("32 d"), c.tensor("32")))
    case(
        "matmul",
        lambda c: c.ask(
            torch.matmul, c.tensor("b 12 s 64", order="0213"), c.tensor("b 12 64 s", order="0312")
        ),
    )
    case("matmul with a matrix", lambda c: c.ask(torch.matmul, c.tensor("b s d"), c.tensor("d 32")))
    case("bmm", lambda c: c.ask(torch.bmm, c.tensor("b*12 s 64"), c.tensor("b*12 64 t")))
    case("addmm", lambda c: c.ask(torch.addmm, c.tensor("32"), c.tensor("b*s 64"), c.tensor("64 32")))
    case(
        "baddbmm",
        lambda c: c.ask(torch.baddbmm, c.tensor("b*12 1 s"), c.tensor("b*12 s 64"), c.tensor("b*12 64 s")),
    )
    case("einsum", lambda c: c.ask(torch.einsum, "bhid,bhjd->bhij", c.tensor("b h i d"), c.tensor("b h j d")))
    case("outer", lambda c: c.ask(torch.outer, c.tensor("s"), c.tensor("32")))
    attention = F.scaled_dot_product_attention
    for order in ("", "0213"):
        heads = lambda c, length, o=order: c.tensor(f"b 12 {length} 64", order=o)  # noqa: E731
        case(
            f"attention {order}",
            lambda c, h=heads: c.ask(attention, h(c, "s"), h(c, "s"), h(c, "s"), is_causal=True),
        )
        case(f"cross attention {order}", lambda c, h=heads: c.ask(attention, h(c, "s"), h(c, "t"), h(c, "t")))
        case(
            f"masked attention {order}",
            lambda c, h=heads: c.ask(
                attention, h(c, "s"), h(c, "t"), h(c, "t"), attn_mask=c.tensor("b 1 s t", torch.bool)
            ),
        )
        case(f"one token {order}", lambda c, h=heads: c.ask(attention, h(c, "1"), h(c, "t"), h(c, "t")))
    case("embedding", lambda c: c.ask(F.embedding, c.tensor("b s", torch.int64), c.tensor("1000 64"), 0))
    case(
        "layer_norm",
        lambda c: c.ask(F.layer_norm, c.tensor("b s 64"), (64,), c.tensor("64"), c.tensor("64"), 1e-5),
    )
    case("rms_norm", lambda c: c.ask(torch.rms_norm, c.tensor("b s 64"), (64,), c.tensor("64"), 1e-5))
    case("group_norm", lambda c: c.ask(F.group_norm, c.tensor("b 32 h w"), 8, c.tensor("32"), c.tensor("32")))
    for order in ("", "0231"):
        case(
            f"batch_norm {order}",
            lambda c, o=order: c.ask(
                F.batch_norm, c.tensor("b 8 h w", order=o), c.tensor("8"), c.tensor("8"), None, None, True
            ),
        )
        weight = lambda c: c.tensor("16 8 3 3")  # noqa: E731
        image = lambda c, o=order: c.tensor("b 8 h w", order=o)  # noqa: E731
        case(f"conv2d {order}", lambda c, i=image, w=weight: c.ask(torch.conv2d, i(c), w(c), None, 1, 1))
        case(f"conv2d by 2 {order}", lambda c, i=image, w=weight: c.ask(torch.conv2d, i(c), w(c), None, 2, 1))
        case(f"same {order}", lambda c, i=image, w=weight: c.ask(torch.conv2d, i(c), w(c), None, 1, "same"))
        for factor in (2, 2.0, 1.5) if order else (2, 2.0, 0.5, 1.5):
            case(
                f"interpolate {factor} {order}",
                lambda c, i=image, f=factor: c.ask(F.interpolate, i(c), scale_factor=f),
            )
        case(
            f"interpolate to {order}",
            lambda c, i=image: c.ask(F.interpolate, i(c), (c.size("y"), c.size("x")), mode="bilinear"),
        )
    case("conv1d", lambda c: c.ask(torch.conv1d, c.tensor("b 8 s"), c.tensor("16 8 3"), c.tensor("16"), 1, 1))
    case("conv3d", lambda c: c.ask(torch.conv3d, c.tensor("b 8 d h w"), c.tensor("16 8 3 3 3"), None, 2, 1))
    case(
        "conv_transpose2d",
        lambda c: c.ask(torch.conv_transpose2d, c.tensor("b 8 h w"), c.tensor("8 4 2 2"), None, 2),
    )
    case("max_pool2d", lambda c: c.ask(F.max_pool2d, c.tensor("b 8 h w"), 2))
    case("max_pool2d with padding", lambda c: c.ask(F.max_pool2d, c.tensor("b 8 h w"), 3, 2, 1))
    case("avg_pool2d", lambda c: c.ask(torch._C._nn.avg_pool2d, c.tensor("b 8 h w"), 2))
    case("adaptive_avg_pool2d", lambda c: c.ask(F.adaptive_avg_pool2d, c.tensor("b 8 h w"), (1, 1)))
    case("pixel_shuffle", lambda c: c.ask(torch.pixel_shuffle, c.tensor("b 8 h w"), 2))
    case("lstm", lambda c: c.ask(
        torch.lstm, c.tensor("b s 8"), (c.tensor("1 b 16"), c.tensor("1 b 16")),
        [c.tensor("64 8"), c.tensor("64 16"), c.tensor("64"), c.tensor("64")], True, 1, 0.0, True, False, True,
    ))  # fmt: skip
    case(
        "cross_entropy", lambda c: c.ask(F.cross_entropy, c.tensor("b*s 1000"), c.tensor("b*s", torch.int64))
    )
    case("mse_loss", lambda c: c.ask(F.mse_loss, c.tensor("b s"), c.tensor("b s")))
    case("split heads", lambda c: c.ask("view", c.tensor("b s 64"), (c.size("b"), c.size("s"), 4, 16)))
    case("split heads, open", lambda c: c.ask("view", c.tensor("b s 64"), c.size("b"), c.size("s"), -1, 16))
    case(
        "join heads",
        lambda c: c.ask("reshape", c.tensor("b s 4 16", order="0213"), c.size("b"), c.size("s"), 64),
    )
    case("join heads, open", lambda c: c.ask("reshape", c.tensor("b s 4 16"), c.size("b"), c.size("s"), -1))
    case("view(-1)", lambda c: c.ask("view", c.tensor("b s"), -1))
    case("view(-1, 64)", lambda c: c.ask("view", c.tensor("b s 64"), -1, 64))
    case(
        "view of a transposed part",
        lambda c: c.ask("view", c.tensor("b s 64", order="102"), c.size("b"), c.size("s"), 4, 16),
    )
    case("unfold rows", lambda c: c.ask("view", c.tensor("b*s 64"), c.size("b"), c.size("s"), 64))
    case("flatten 1", lambda c: c.ask("flatten", c.tensor("b c h w"), 1))
    case("flatten 2", lambda c: c.ask("flatten", c.tensor("b c h w"), 2))
    case("unflatten", lambda c: c.ask("unflatten", c.tensor("b s 64"), -1, (4, 16)))
    case("permute", lambda c: c.ask("permute", c.tensor("b s 4 16"), 0, 2, 1, 3))
    case("expand", lambda c: c.ask("expand", c.tensor("1 s"), c.size("b"), c.size("s")))
    case("expand -1", lambda c: c.ask("expand", c.tensor("b 1 s"), -1, c.size("t"), -1))
    case(
        "expand heads", lambda c: c.ask("expand", c.tensor("b 2 1 s 16"), c.size("b"), 2, 4, c.size("s"), 16)
    )
    case("split", lambda c: c.ask("split", c.tensor("b s 192"), 64, -1))
    case("split by sizes", lambda c: c.ask("split", c.tensor("b s*2"), [c.size("s"), c.size("s")], 1))
    case("split by a size", lambda c: c.ask("split", c.tensor("b s*3"), c.size("s"), 1))
    case("chunk", lambda c: c.ask("chunk", c.tensor("b s 192"), 3, -1))
    case("chunk of what varies", lambda c: c.ask("chunk", c.tensor("b s"), 2, -1))
    case("chunk of a product", lambda c: c.ask("chunk", c.tensor("b s*3"), 3, -1))
    case("unbind", lambda c: c.ask("unbind", c.tensor("3 b s"), 0))
    case(
        "cat of a cache",
        lambda c: c.ask(torch.cat, [c.tensor("b 12 t 64"), c.tensor("b 12 1 64", order="0213")], -2),
    )
    case(
        "cat of a cache, longer",
        lambda c: c.ask(torch.cat, [c.tensor("b 12 t 64"), c.tensor("b 12 s 64")], 2),
    )
    case("repeat", lambda c: c.ask("repeat", c.tensor("1 64"), c.size("b"), 1))
    case("repeat_interleave", lambda c: c.ask("repeat_interleave", c.tensor("b s"), 2, dim=0))
    case("tril", lambda c: c.ask(torch.tril, c.tensor("s s")))
    case("pad", lambda c: c.ask(torch._C._nn.pad, c.tensor("b s"), (1, 1), "constant", 0.0))
    case("roll", lambda c: c.ask(torch.roll, c.tensor("b h w c"), (1, 1), (1, 2)))
    case(
        "masked_fill",
        lambda c: c.ask("masked_fill", c.tensor("b 12 s s"), c.tensor("b 1 1 s", torch.bool), -1e9),
    )
    case("cumsum", lambda c: c.ask("cumsum", c.tensor("b s", torch.int64), 1))
    case("sort", lambda c: c.ask("sort", c.tensor("b s"), -1))
    case("topk", lambda c: c.ask("topk", c.tensor("b 1000"), 5))
    case("norm", lambda c: c.ask(torch.norm, c.tensor("b s 64"), 2, -1))
    case("normalize", lambda c: c.ask(F.normalize, c.tensor("b 64")))
    case("one_token", lambda c: c.ask("view", c.tensor("b 1 64"), c.size("b"), 1, 4, 16))
    case("diff", lambda c: c.ask(torch.diff, c.tensor("b s")))
    case("zeros", lambda c: c.ask(torch.zeros, c.size("b"), c.size("s")))
    case("full", lambda c: c.ask(torch.full, (c.size("b"), c.size("s")), 0.5))
    case("full of a size", lambda c: c.ask(torch.full, (2,), c.size("b")))
    case("new_zeros", lambda c: c.ask("new_zeros", c.tensor("b s"), (c.size("s"), 4)))
    case("arange", lambda c: c.ask(torch.arange, c.size("s")))
    case("arange from 1", lambda c: c.ask(torch.arange, 1, c.size("s")))
    case("arange by 2", lambda c: c.ask(torch.arange, 0, c.size("s"), 2))
    case("linspace", lambda c: c.ask(torch.linspace, 0.0, 1.0, c.size("s")))
    case("eye", lambda c: c.ask(torch.eye, c.size("s")))
    case("tensor", lambda c: c.ask(torch.tensor, [c.size("s"), 2]))
    for name in ("add", "sub", "mul", "truediv", "lt"):
        case(f"{name} a size", lambda c, o=name: c.ask(getattr(operator, o), c.tensor("b s"), c.size("t")))
        case(
            f"{name} of integers and a size",
            lambda c, o=name: c.ask(getattr(operator, o), c.tensor("b", torch.int64), c.size("t")),
        )
    case("floordiv by a size", lambda c: c.ask(operator.floordiv, c.tensor("b", torch.int64), c.size("t")))
    case("clamp to a size", lambda c: c.ask(torch.clamp, c.tensor("b", torch.int64), 0, c.size("t")))
    case("x + n", lambda c: c.ask(operator.add, c.tensor("3"), c.size("n")))
    case("x * n", lambda c: c.ask(operator.mul, c.tensor("3"), c.size("n")))
    case("full of any int", lambda c: c.ask(torch.full, (2,), c.size("n")))
    case(
        "addcmul",
        lambda c: c.ask(torch.addcmul, c.tensor("3"), c.tensor("3"), c.tensor("3"), value=c.size("n")),
    )
    return iter(found)


@pytest.mark.parametrize("case", _network_calls(), ids=lambda case: case[0])
def test_operations_of_networks_need_no_guard(
    case: tuple[str, Callable[[Call], tuple[Any, list[str]]]],
) -> None:
    outcome, guards = case[1](Call())
    assert outcome is not None
    assert outcome.kind == _core.OUTCOME_KNOWN
    assert guards == []


def _ask(make: Callable[[Call], tuple[Any, list[str]]], **values: int) -> tuple[Any, list[str]]:
    """The result, and the guards with the names of the symbols in them."""
    call = Call(**values)
    outcome, guards = make(call)
    for name, number in call.names.items():
        guards = [guard.replace(f"s{number}", name) for guard in guards]
    return None if outcome is None else outcome.result, guards


@pytest.mark.parametrize(
    ("make", "values", "expected"),
    [
        (lambda c: c.ask(operator.add, c.tensor("b t"), c.tensor("u")), {"t": 7, "u": 7}, ["t == u"]),
        (lambda c: c.ask(operator.add, c.tensor("b t"), c.tensor("u")), {"t": 7, "u": 8}, ["t != u"]),
        (lambda c: c.ask(operator.getitem, c.tensor("t"), slice(4)), {"t": 7}, ["4 <= t"]),
        (lambda c: c.ask(operator.getitem, c.tensor("t"), slice(4)), {"t": 3}, ["t < 4"]),
        (lambda c: c.ask(operator.getitem, c.tensor("512 64"), slice(c.size("t"))), {"t": 7}, ["t <= 512"]),
        (lambda c: c.ask(operator.getitem, c.tensor("b t"), 3), {"b": 9}, ["3 < b"]),
        (lambda c: c.ask("view", c.tensor("b t"), -1, 4), {"b": 3, "t": 8}, ["((b*t)%(4)) == 0"]),
        (lambda c: c.ask("view", c.tensor("b t"), 2, -1), {"b": 2, "t": 7}, ["((b*t)%(2)) == 0"]),
        (lambda c: c.ask("split", c.tensor("t"), 4), {"t": 7}, ["((t + 3)//(4)) == 2"]),
        (lambda c: c.ask("unbind", c.tensor("t")), {"t": 7}, ["t == 7"]),
        (lambda c: c.ask("chunk", c.tensor("t"), 3), {"t": 7}, ["4 < t"]),
        (lambda c: c.ask("topk", c.tensor("t"), 5), {"t": 7}, ["5 <= t"]),
        (lambda c: c.ask("sum", c.tensor("b t"), c.size("n")), {"n": 1}, ["n == 1"]),
        (lambda c: c.ask(operator.floordiv, c.tensor("3", torch.int64), c.size("n")), {"n": 3}, ["n != 0"]),
        (lambda c: c.ask(torch.full, (2,), c.size("t"), dtype=torch.int8), {"t": 7}, ["t <= 127"]),
        (lambda c: c.ask(torch.conv1d, c.tensor("b 8 t"), c.tensor("4 8 5")), {"t": 7}, ["0 <= t + -5"]),
        (lambda c: c.ask(torch.zeros, c.size("n"), 2), {"n": 3}, ["0 <= n"]),
    ],
)  # fmt: skip
def test_what_depends_on_a_size_is_guarded(
    make: Callable[[Call], tuple[Any, list[str]]], values: dict[str, int], expected: list[str]
) -> None:
    assert _ask(make, **values)[1] == expected


def test_answers_about_metadata_are_expressions() -> None:
    assert list(map(repr, _ask(lambda c: c.ask("size", c.tensor("b 3 t")))[0])) == ["s1", "3", "s2"]
    assert type(_ask(lambda c: c.ask("size", c.tensor("b 3 t")))[0]) is torch.Size
    assert repr(_ask(lambda c: c.ask("size", c.tensor("b 3 t"), 0))[0]) == "s1"
    assert repr(_ask(lambda c: c.ask("stride", c.tensor("b 3 t")))[0]) == "(3*s2, s2, 1)"
    assert repr(_ask(lambda c: c.ask("numel", c.tensor("b 3 t")))[0]) == "3*s1*s2"
    assert repr(_ask(lambda c: c.ask(getattr, c.tensor("b 3 t"), "nbytes"))[0]) == "12*s1*s2"
    assert _ask(lambda c: c.ask("size", c.tensor("b 3 t"), 1))[0] == 3
    assert _ask(lambda c: c.ask("is_contiguous", c.tensor("b 3 t", order="021")))[0] is False


def test_sizes_that_may_be_one_keep_their_layout_without_a_guard() -> None:
    call = Call()
    halves = _core.size(call.symbols, ("//", call.expression("t"), 2))
    meta = _core.meta(torch.float32, torch.device("cpu"), (4, halves), (halves, 1), 0)
    call.inputs.append((0, meta))
    for target, *args in (
        ("relu",), (operator.add, _core.ref(0)), ("view", -1), ("sum", 0), ("contiguous",), ("mul_", 2), ("view", 2, 2, halves),
        ("softmax", -1), ("clone",), ("unsqueeze", 0), (torch.zeros_like,), ("flatten",), ("reshape", 4, halves),
    ):  # fmt: skip
        outcome, guards = call.ask(target, _core.ref(0), *args)
        assert outcome is not None
        assert guards == [], target


def test_without_facts_sizes_that_differ_are_declined() -> None:
    call = Call()
    x = call.tensor("b 3")
    state = (True, False, torch.float32, None, False, (), 0)
    assert _core.shape_outcome(METHOD, "relu", (x,), {}, call.inputs, state) is None
    y = _core.meta(torch.float32, torch.device("cpu"), (3,), (1,), 0)
    assert _core.shape_outcome(METHOD, "mul", (_core.ref(0), call.size("b")), {}, [(0, y)], state) is None
    assert _core.shape_outcome(FUNCTION, torch.zeros, (call.size("b"),), {}, [], state) is None
