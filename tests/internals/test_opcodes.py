"""Every opcode of CPython 3.11 has a handler, and every handler is executed by the programs."""

from __future__ import annotations

import dis
import re
import sysconfig
from pathlib import Path

import pytest
from interp.differential import build, observe, run_program
from interp.programs import PROGRAMS

from magneto import _core

# CACHE marks room for inline caches; it is never executed.
OPCODES = {name: number for name, number in dis.opmap.items() if name != "CACHE"}


@pytest.fixture(scope="module")
def executed():
    """The names of the opcodes that the programs execute."""
    before = _core.opcode_counts()
    counting = _core.count_opcodes(True)
    try:
        for source in PROGRAMS.values():
            observe(_core.interpret, run_program, build(source))
    finally:
        _core.count_opcodes(counting)
    after = _core.opcode_counts()
    return {name for name, number in OPCODES.items() if after[number] > before[number]}


@pytest.mark.parametrize("name", sorted(OPCODES))
def test_opcode_has_a_handler(name):
    assert OPCODES[name] in _core.handled_opcodes()


@pytest.mark.parametrize("name", sorted(OPCODES))
@pytest.mark.no_leak_hunt("the programs are hunted one by one")
def test_opcode_is_executed(executed, name):
    assert name in executed


def test_nothing_else_has_a_handler():
    assert _core.handled_opcodes() == set(OPCODES.values())


def test_dis_knows_the_opcodes_of_the_header():
    header = Path(sysconfig.get_path("include"), "opcode.h").read_text()
    defined = {
        name: int(number)
        for name, number in re.findall(r"^#define\s+([A-Z][A-Z_]*)\s+(\d+)\s*$", header, re.MULTILINE)
    }
    artificial = {"CACHE", "DO_TRACING", "HAVE_ARGUMENT"} | set(dis._specialized_instructions)
    operands = {name for name in defined if name.startswith("NB_")}
    assert {name: n for name, n in defined.items() if name not in artificial | operands} == OPCODES
