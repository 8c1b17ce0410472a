"""Outcomes: what C and Python tell each other about an operation."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import magneto._runtime  # noqa: F401  sets the core up
from magneto import _core, _propagate

REFUSALS = (_core.OUTCOME_DATA_DEPENDENT, _core.OUTCOME_UNSUPPORTED, _core.OUTCOME_RAISES)


def test_an_outcome_has_the_parts_it_was_made_of() -> None:
    outcome = _core.outcome(1, ((0, None),), ((0, 1),), (0,))  # type: ignore[arg-type]
    assert outcome.kind == _core.OUTCOME_KNOWN
    assert (outcome.result, outcome.changes, outcome.views, outcome.written) == (
        1,
        ((0, None),),
        ((0, 1),),
        (0,),
    )
    assert outcome.why is None
    plain = _core.outcome(None)
    assert (plain.result, plain.changes, plain.views, plain.written) == (None, (), (), ())


@pytest.mark.parametrize("kind", REFUSALS)
def test_a_refusal_has_a_kind_and_a_text(kind: int) -> None:
    refusal = _core.refusal(kind, "why not")
    assert (refusal.kind, refusal.why, refusal.result) == (kind, "why not", None)
    assert len({_core.OUTCOME_KNOWN, *REFUSALS}) == 4


@pytest.mark.parametrize("kind", [_core.OUTCOME_KNOWN, max(REFUSALS) + 1, -1])
def test_there_are_no_refusals_of_other_kinds(kind: int) -> None:
    with pytest.raises(ValueError, match="no such kind of refusal"):
        _core.refusal(kind, "why not")


@pytest.mark.parametrize("part", ["changes", "views", "written", "input_fakes", "result_fakes"])
def test_parts_that_c_could_not_read_are_refused(part: str) -> None:
    wrong: dict[str, Any] = {part: {}}
    with pytest.raises(TypeError):
        _core.outcome(None, **wrong)


def _propagated(target: Any, *metas: Any) -> _core.Outcome:
    inputs = list(enumerate(metas))
    args = tuple(_core.ref(number) for number, _ in inputs)
    kind = _core.NODE_METHOD if isinstance(target, str) else _core.NODE_FUNCTION
    return _propagate.propagate(kind, target, args, None, inputs, None)


def _meta(*sizes: int) -> _core.Meta:
    return _propagate.meta_of(torch.empty(sizes))


@pytest.mark.parametrize(
    ("target", "metas", "kind"),
    [
        (torch.add, (_meta(2), _meta(2)), _core.OUTCOME_KNOWN),
        ("add_", (_meta(2), _meta(2)), _core.OUTCOME_KNOWN),
        ("item", (_meta(1),), _core.OUTCOME_DATA_DEPENDENT),
        (torch.nonzero, (_meta(2),), _core.OUTCOME_DATA_DEPENDENT),
        ("to_sparse", (_meta(2),), _core.OUTCOME_UNSUPPORTED),
        (torch.add, (_meta(2), _meta(3)), _core.OUTCOME_RAISES),
    ],
)
def test_the_kind_of_an_operations_outcome(target: Any, metas: tuple[Any, ...], kind: int) -> None:
    outcome = _propagated(target, *metas)
    assert outcome.kind == kind
    assert (outcome.why is None) == (kind == _core.OUTCOME_KNOWN)


def test_what_an_operation_in_place_writes_to() -> None:
    assert _propagated("add_", _meta(2), _meta(2)).written == (0,)
    assert _propagated(torch.add, _meta(2), _meta(2)).written == ()


def test_an_outcome_other_than_expected_is_an_error() -> None:
    outcome, inputs = _propagated(torch.add, _meta(2), _meta(2)), [(0, _meta(2)), (1, _meta(2))]
    args = (_core.NODE_FUNCTION, torch.add, (_core.ref(0), _core.ref(1)), None, inputs)
    assert _propagate.propagate(*args, outcome).result is outcome.result
    with pytest.raises(AssertionError, match="the cache has"):
        _propagate.propagate(*args, _core.outcome(_meta(3)))
    with pytest.raises(AssertionError, match="the cache has"):
        _propagate.propagate(*args, _core.refusal(_core.OUTCOME_RAISES, ""))


def test_what_is_no_outcome_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The core reads outcomes as they are: nothing else gets there."""
    monkeypatch.setattr(_propagate, "propagate", lambda *args: (1, (), (), ()))
    with pytest.raises(TypeError, match="an outcome is needed, not 'tuple'"):
        magneto.compile(lambda x: torch.ldexp(x, x) + torch.trapz(x), backend="eager")(torch.ones(3))
