"""Each program does the same in CPython and in magneto's interpreter."""

from __future__ import annotations

import pytest
from interp.differential import assert_same, assert_same_when_specialised
from interp.programs import PROGRAMS

SOURCES = [pytest.param(source, id=name) for name, source in PROGRAMS.items()]


@pytest.mark.parametrize("source", SOURCES)
def test_program_does_the_same(source):
    assert_same(source)


@pytest.mark.parametrize("source", SOURCES)
def test_specialised_program_does_the_same(source):
    assert_same_when_specialised(source)
