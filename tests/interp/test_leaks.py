"""Executing a program many times leaves nothing behind."""

from __future__ import annotations

import gc
import sys

import pytest
from interp import test_exceptions
from interp.differential import build, observe, run_program
from interp.programs import PROGRAMS

from magneto import _core

pytestmark = pytest.mark.no_leak_hunt("hunts for leaks itself")

ALL = {**PROGRAMS, **test_exceptions.PROGRAMS}


def directly(function, *args):
    return function(*args)


def growth(call, code):
    """By how many blocks 20 runs of a program grow the heap."""
    observe(call, run_program, code)
    gc.collect()
    before = sys.getallocatedblocks()
    for _ in range(20):
        observe(call, run_program, code)
    gc.collect()
    return sys.getallocatedblocks() - before


@pytest.fixture(scope="module", autouse=True)
def small_heap():
    """Let the collector look at what these tests make only."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.mark.parametrize("name", ALL)
def test_program_does_not_leak(name):
    code = build(ALL[name])
    growth(_core.interpret, code)
    # A leak is a block or more in every run. Caches fill up at first, and CPython leaks a little itself.
    for _ in range(5):
        grown = growth(_core.interpret, code)
        if grown >= 15:
            grown -= growth(directly, code)
        if grown < 15:
            break
    assert grown < 15
