"""Python itself in captured code: every kind of value, every construct, the library's everyday functions."""

from __future__ import annotations

import pytest

from . import (
    harness,
    language_classes,
    language_functions,
    language_references,
    language_statements,
    language_torch,
    language_values,
)
from .texts import join

PROGRAMS = join(
    language_values,
    language_functions,
    language_classes,
    language_statements,
    language_torch,
    language_references,
)

# Programs that are not captured: eager gives the same result, and this is why.
NOT_CAPTURED = {
    "classes made inside": "__build_class__; torch.compile stops here too",
    "assert statement": "an exception leaves the function",
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name: str) -> None:
    program, steps = PROGRAMS[name]
    harness.check(program, *steps, captured=name not in NOT_CAPTURED)
