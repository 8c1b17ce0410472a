"""Every operation of torch's own test database (`op_db`), captured and in eager.

Compared are the values, exactly, with dtype, strides and requires_grad; which arguments were changed and given back;
what shares memory with what; the random state; the gradients. By default each operation runs on its first sample in
float32 (or the first type it has), as a function and in its other forms. With MAGNETO_SWEEP=1 it is five samples, and
int64, bool, complex64 and float64 too.
"""

from __future__ import annotations

import logging
import os
import warnings
from collections import Counter
from typing import Any

import pytest
import torch

from . import opinfo  # must come before op_db

from torch.testing._internal.common_methods_invocations import op_db  # isort: skip

SWEEP = os.environ.get("MAGNETO_SWEEP") == "1"
MOST = 5
SAMPLES = MOST if SWEEP else 1
ALL_DTYPES = [torch.float32, torch.int64, torch.bool, torch.complex64, torch.float64]
DTYPES = ALL_DTYPES if SWEEP else [torch.float32]
SHARDS = 24

_DATA = "the shape of the result, or what is done, depends on data"
_SPARSE = "sparse tensors have no strides"

# Operations that can't be captured, for some samples at least, and why. All others must be.
UNSUPPORTED = {
    "allclose": _DATA,
    "combinations": "symbols that are not in the result",
    "corrcoef": _DATA,
    "cov": _DATA,
    "equal": _DATA,
    "item": "torch has no symbol for a complex number",
    "linalg.lstsq": _DATA,
    "linalg.lstsq.grad_oriented": _DATA,
    "masked_select": "the size of `out` depends on data",
    "nn.functional.ctc_loss": _DATA,
    "nn.functional.gaussian_nll_loss": _DATA,
    "nn.functional.one_hot": _DATA,
    "nonzero": "the size of `out` depends on data",
    "sparse.mm.reduce": _SPARSE,
    "sparse.sampled_addmm": _SPARSE,
    "to_sparse": _SPARSE,
    "torch._scaled_mm_v2": "an enum of torch's C++ code as an argument",
    "nn.functional.linear_cross_entropy.chunked": "warns",
    "nn.functional.linear_cross_entropy.chunked_none": "warns",
    "addbmm": "in eager a failing broadcast in place passes for empty tensors",
}

# Operations whose results depend on data, and that are captured all the same.
SYMBOLIC = {
    "argwhere", "bincount", "combinations", "istft", "item", "masked_select", "narrow", "nonzero", "repeat_interleave",
    "tensor_split", "unique", "unique_consecutive",
}  # fmt: skip

# Operations whose results hold memory that nobody has written to: torch is asked to fill it.
UNWRITTEN = {"empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided"}

# Operations that in eager give other values each time: all but the values is compared.
NOT_REPEATABLE = {"linalg.lstsq", "linalg.lstsq.grad_oriented"}


def _name(op: Any) -> str:
    return op.name + ("." + op.variant_test_name if op.variant_test_name else "")


def _compare(op: Any, case: opinfo.Case) -> opinfo.Outcome:
    before = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(_name(op) in UNWRITTEN)
    try:
        return opinfo.compare(case, values=_name(op) not in NOT_REPEATABLE)
    finally:
        torch.use_deterministic_algorithms(before)


def test_the_table_names_operations_that_exist() -> None:
    names = {_name(op) for op in op_db}
    assert sorted(set(UNSUPPORTED) - names) == []
    assert sorted((UNWRITTEN | NOT_REPEATABLE) - names) == []
    assert sorted(SYMBOLIC - names) == []


@pytest.mark.parametrize("name", UNSUPPORTED)
def test_unsupported_operations_are_not_captured(name: str) -> None:
    """For one sample at least, of those that MAGNETO_SWEEP=1 takes."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for op in op_db:
            if _name(op) == name:
                for dtype in opinfo.dtypes(op, ALL_DTYPES):
                    if any(_compare(op, case).kind == "aborted" for case in opinfo.cases(op, dtype, MOST)):
                        return
    pytest.fail("it is captured now: take it off the list")


@pytest.mark.no_leak_hunt("runs for minutes, and torch keeps caches of its own")
@pytest.mark.parametrize("shard", range(SHARDS))
def test_operations(shard: int) -> None:
    wrong: list[str] = []
    aborted: list[str] = []
    counts: Counter[str] = Counter()
    for op in op_db[shard::SHARDS]:
        name = _name(op)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for dtype in opinfo.dtypes(op, DTYPES):
                for case in opinfo.cases(op, dtype, SAMPLES):
                    outcome = _compare(op, case)
                    counts[outcome.kind] += 1
                    if outcome.kind == "wrong":
                        wrong.append(f"{case.name}: {outcome.text}")
                    elif outcome.kind == "aborted" and name not in UNSUPPORTED:
                        aborted.append(f"{case.name}: {outcome.text}")
    print(f"operations, part {shard}: {dict(counts)}")
    assert wrong == []
    assert aborted == []
    assert counts["captured"] > 0


def _by_torch_compile(case: opinfo.Case) -> bool:
    """Whether torch.compile captures a case whole."""
    torch._dynamo.reset()
    level = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        return opinfo.run(torch.compile(case.function, backend="eager", fullgraph=True), case).error is None
    finally:
        logging.disable(level)


@pytest.mark.no_leak_hunt(reason="torch.compile keeps what it has made")
@pytest.mark.parametrize("shard", range(SHARDS if SWEEP else 1))
def test_captures_what_torch_compile_captures(shard: int) -> None:
    """By default those operations that are not captured for all samples, and those that depend on data."""
    missing: list[str] = []
    ours = theirs = 0
    chosen = op_db[shard::SHARDS] if SWEEP else [op for op in op_db if _name(op) in {*UNSUPPORTED, *SYMBOLIC}]
    for op in chosen:
        name = _name(op)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for dtype in opinfo.dtypes(op, DTYPES):
                for case in opinfo.cases(op, dtype, max(SAMPLES, 2), variants=False):
                    outcome = _compare(op, case)
                    if outcome.kind == "eager":
                        continue
                    good = _by_torch_compile(case)
                    ours += outcome.kind == "captured"
                    theirs += good
                    if good and outcome.kind != "captured":
                        missing.append(f"{case.name}: {outcome.text}")
    print(f"captured whole, part {shard}: {ours} by magneto, {theirs} by torch.compile")
    assert missing == []
    assert ours > 0
