"""What magneto._effects says of operations, against what they do: an operation that writes or draws must not be repeated."""

from __future__ import annotations

import operator
import os
import warnings
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from record import opinfo  # must come before op_db

from magneto import _core, _effects

from torch.testing._internal.common_methods_invocations import op_db  # isort: skip

X, I = torch.ones(3, 3), torch.tensor([0])
SAMPLES = 5 if os.environ.get("MAGNETO_SWEEP") else 1  # of each operation


def repeats(target: Any, *args: Any, **kwargs: Any) -> bool:
    """Asks about a call with real tensors as the core asks about a node."""
    metas: dict[int, Any] = {}

    def refer(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            metas[len(metas)] = _core.meta(
                value.dtype, value.device, tuple(value.shape), value.stride(), 0, None
            )
            return _core.ref(len(metas) - 1)
        if isinstance(value, (list, tuple)) and type(value) is not torch.Size:
            return type(value)(refer(item) for item in value)
        return value

    return _effects.repeats(
        target, tuple(refer(arg) for arg in args), {key: refer(arg) for key, arg in kwargs.items()}, metas
    )


@torch.library.custom_op("magneto_repeats::pure", mutates_args=())
def pure(x: torch.Tensor) -> torch.Tensor:
    return x.clone()


pure.register_fake(torch.empty_like)


def allowed(x):
    return x + 1


PURE: list[tuple[Any, ...]] = [
    (torch.add, X, X), ("add", X, 1), (operator.add, X, 2), (F.relu, X), (operator.getitem, X, I),
    (torch.linalg.inv, X), (F.one_hot, I, 5), (F.layer_norm, X, [3]), (F.dropout, X, 0.5, False), (torch.stack, [X, X]),
    (torch.ops.aten.add.Tensor, X, X), (torch.ops.aten.add, X, X), (torch.einsum, "ij,jk->ik", X, X), (F.embedding, I, X),
    (F.batch_norm, X, None, None, None, None, True),
    (F.cross_entropy, X, torch.tensor([0, 1, 2])), ("to", X, torch.float64), ("to", X, "cpu"), (torch.zeros, 3),
    (torch.nonzero, X), ("item", I), (torch.bincount, I),
]  # fmt: skip

IMPURE: list[tuple[Any, ...]] = [
    ("add_", X, 1), (operator.iadd, X, 1), (operator.setitem, X, 0, 1.0), (F.dropout, X), (torch.rand, 3),
    (F.batch_norm, X, torch.zeros(3), torch.ones(3), None, None, True), (F.relu_, X), (torch._foreach_add_, [X], 1),
    ("normal_", X), (torch.bernoulli, X), (F.embedding, I, X, None, 0.5), (F.rrelu, X, 0.1, 0.3, True),
    (F.gumbel_softmax, X), (torch.multinomial, X, 1), (F.dropout, X, 0.5, True, True), ("t_", X), ("resize_", X, 2),
    (torch.nn.init.normal_, X), (torch.randperm, 3), (torch.svd_lowrank, X), (F.fractional_max_pool2d, X[None], 2, 1),
    (pure, X), (torch.ops.magneto_repeats.pure, X), (allowed, X), ("no_such_method", X),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(PURE)))
def test_operations_that_only_give_a_result(number: int) -> None:
    assert repeats(*PURE[number]), PURE[number]


@pytest.mark.parametrize("number", range(len(IMPURE)))
def test_operations_that_do_more(number: int) -> None:
    assert not repeats(*IMPURE[number]), IMPURE[number]


@pytest.mark.no_leak_hunt("libtorch keeps some bytes of each kernel that was registered")
def test_a_kernel_that_a_program_has_registered_may_do_anything() -> None:
    with torch.library._scoped_library("aten", "IMPL") as library:
        library.impl("sinc", lambda x: x * 0, "CPU")
        assert not repeats(torch.sinc, X)
    assert repeats(torch.sinc, X)


def _run(case: opinfo.Case) -> bool:
    """Whether a call writes to an argument or draws random numbers; False if it raises."""
    tensors = [
        value
        for value in torch.utils._pytree.tree_leaves((case.args, case.kwargs))
        if isinstance(value, torch.Tensor)
    ]
    before = torch.random.get_rng_state(), [tensor.detach().clone() for tensor in tensors]
    try:
        case.function(*case.args, **case.kwargs)
    except Exception:
        return False
    same = all(
        tensor.shape == copy.shape and torch.allclose(tensor.detach(), copy, equal_nan=True)
        for tensor, copy in zip(tensors, before[1], strict=True)
        if tensor.layout == torch.strided and not tensor.is_quantized
    )
    return not same or not torch.equal(before[0], torch.random.get_rng_state())


def test_no_operation_of_torchs_tests_is_taken_for_harmless_and_is_not() -> None:
    wrong, harmless, total = [], 0, 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for op in op_db:
            if torch.float32 not in op.dtypes:
                continue
            try:
                samples = list(op.sample_inputs("cpu", torch.float32, requires_grad=False))[:SAMPLES]
            except Exception:
                continue
            for sample in samples:
                case = opinfo.Case(op.name, op.op, (sample.input, *sample.args), sample.kwargs)
                if any(
                    t.layout != torch.strided
                    for t in torch.utils._pytree.tree_leaves((case.args, case.kwargs))
                    if isinstance(t, torch.Tensor)
                ):
                    continue
                said = repeats(op.op, *case.args, **case.kwargs)
                total += 1
                harmless += said
                if said and _run(case):
                    wrong.append(op.name)
    assert wrong == []
    assert harmless > total // 2  # a "no" is always right, and of no use
