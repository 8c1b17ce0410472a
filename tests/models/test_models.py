"""Real models: results as eager's, and graphs as torch.compile's.

`make test` runs a part; `make models` sets MAGNETO_MODELS=all and runs every case of cases.py.
"""

from __future__ import annotations

import os
from typing import Any

import pytest
import torch

import magneto

from . import cases, compare

ALL = os.environ.get("MAGNETO_MODELS") == "all"
NAMES = [name for name, case in cases.CASES.items() if ALL or case.fast]
ONE_CALL = [name for name in NAMES if ALL or "cache" not in name and "generate" not in name]

# Where our graphs have other calls than those of torch.compile: how many graphs and calls they are, and why.
DIFFERENT: dict[str, tuple[int, int, str]] = {}

pytestmark = [
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.no_leak_hunt("transformers and torch.compile keep what they have made"),
]


@pytest.fixture(autouse=True)
def _one_thread() -> Any:
    """Sums in the same order each time."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def test_the_list_names_models_that_exist() -> None:
    assert sorted(set(DIFFERENT) - set(cases.CASES)) == []


@pytest.mark.parametrize("name", NAMES)
def test_as_eager(name: str) -> None:
    case = cases.CASES[name]
    target, drive = case.build()
    expected = [drive(target, which) for which in (0, 1, 2)]
    assert compare.difference(expected[0], drive(target, 0), case.close) is None, (
        "eager is not the same each time"
    )

    target, drive = case.build()  # nothing of it has run yet
    backend = compare.Graphs()
    compiled = compare.by_magneto(target, backend)
    count = 0
    for call, which in enumerate((0, 0, 0, 1, 2)):
        found = compare.difference(expected[which], drive(compiled, which), case.close)
        assert found is None, f"call {call}: {found}"
        if call == 1:
            count = len(backend.graphs)
        again = call == 2 and len(backend.graphs) > count
        assert not again, f"captured again: {magneto.counters['recompiles']}"
    assert count > 0


@pytest.mark.parametrize("name", ONE_CALL)
def test_graphs_as_by_torch_compile(name: str) -> None:
    """The same calls in the same order, in no more graphs; both find what a call in eager leaves behind.

    Where torch.compile breaks, more calls may be in our graphs.
    """
    graphs = []
    torch._dynamo.utils.counters.clear()
    for compile in (compare.by_magneto, compare.by_torch):
        target, drive = cases.CASES[name].build()
        drive(target, 0)
        backend = compare.Graphs()
        drive(compile(target, backend), 0)
        graphs.append(compare.calls(backend.graphs))
    torch._dynamo.reset()
    ours, theirs = graphs
    whole = bool(theirs) and not torch._dynamo.utils.counters["graph_break"]
    as_good = compare.as_good(ours, theirs, whole)
    if name in DIFFERENT:
        assert not as_good, "they are the same now: take it off the list"
        *figures, reason = DIFFERENT[name]
        assert [len(ours), sum(map(len, ours))] == figures
        pytest.xfail(reason)
    assert as_good, f"{len(ours)} graphs, {len(theirs)} by torch.compile\n{compare.diff(theirs, ours)}"
