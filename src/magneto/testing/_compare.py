"""Compares two runs of a test module, test by test."""

from __future__ import annotations

from dataclasses import dataclass, field

from magneto.testing._run import CRASHED, EXIT, HUNG, IMPORT, PASSED, ModuleRun, Outcome

NOT_RUN = "not run"

# A test that plain CPython ends in one of these ways must end in the same way when interpreted.
_SOUND = frozenset({PASSED, "expected failure", "none"})
_BROKEN = frozenset({CRASHED, HUNG})


@dataclass(frozen=True)
class Difference:
    """A test that our interpreter does not bring to the end that plain CPython brings it to."""

    test: str  # its id; for the import or exit of a module: the module's name and what
    plain: Outcome
    interpreted: Outcome

    @property
    def certain(self) -> bool:
        """A crash or hang is one even if it does not come again."""
        return self.interpreted.status in _BROKEN


@dataclass
class Comparison:
    """What a comparison of two runs gave."""

    compared: int = 0  # tests that ran in plain CPython, whatever their end
    passing: int = 0  # those of them that must pass when interpreted
    tests: set[str] = field(default_factory=set)
    agreeing: set[str] = field(default_factory=set)  # that must pass, and do
    differences: dict[str, Difference] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)  # differences that are no fault of ours


def compare(plain: ModuleRun, interpreted: ModuleRun) -> Comparison:
    """Finds the tests that pass in plain CPython and not in ours, and crashes and hangs of ours alone."""
    result = Comparison()
    module = plain.request.module
    for key in {**plain.outcomes, **interpreted.outcomes}:
        name = f"{module} {key}" if key in (IMPORT, EXIT) else key
        left = plain.outcomes.get(key)
        right = interpreted.outcomes.get(key)
        if left is not None and key not in (IMPORT, EXIT):
            result.compared += 1
            result.tests.add(name)
        if left is None:
            _only_interpreted(result, name, right or Outcome(NOT_RUN))
            continue
        right = right or Outcome(NOT_RUN)
        if left.status in _SOUND:
            result.passing += 1
            if right.status == left.status:
                result.agreeing.add(name)
            else:
                result.differences[name] = Difference(name, left, right)
        elif _is_worse(left, right):
            result.differences[name] = Difference(name, left, right)
        elif right.status != left.status:
            result.notes.append(f"{name}: {left.status} in plain, {right.status} in ours")
    return result


def _is_worse(left: Outcome, right: Outcome) -> bool:
    """Whether a test that fails in plain CPython fails worse in ours."""
    return (right.status in _BROKEN and left.status not in _BROKEN) or len(right.subtests) > len(
        left.subtests
    )


def _only_interpreted(result: Comparison, name: str, outcome: Outcome) -> None:
    """An outcome that plain CPython does not have: a failed fixture or import, a crash, or one test more."""
    if outcome.status in ("error", "failed", *_BROKEN):
        result.differences[name] = Difference(name, Outcome(NOT_RUN), outcome)
    else:
        result.notes.append(f"{name}: {NOT_RUN} in plain, {outcome.status} in ours")
