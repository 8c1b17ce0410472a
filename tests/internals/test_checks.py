"""The stack depths that the whole-state checks go by."""

from __future__ import annotations

import dis
import types

import pytest
from interp.differential import build
from interp.programs import PROGRAMS

from magneto import _core

pytestmark = pytest.mark.no_leak_hunt("reads code objects only")

MODULES = [
    "argparse",
    "dataclasses",
    "inspect",
    "typing",
    "asyncio.base_events",
    "contextlib",
    "json.decoder",
    "ast",
]


def all_codes(code):
    yield code
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            yield from all_codes(const)


def module_codes(name):
    module = __import__(name, fromlist=["x"])
    return list(all_codes(module.__spec__.loader.get_code(name)))


def program_codes(name):
    return list(all_codes(build(PROGRAMS[name])))


CASES = [
    *(pytest.param(module_codes, name, id=name) for name in MODULES),
    *(pytest.param(program_codes, name, id=name) for name in PROGRAMS),
]

ENDS = {
    "RETURN_VALUE",
    "RAISE_VARARGS",
    "RERAISE",
    "JUMP_FORWARD",
    "JUMP_BACKWARD",
    "JUMP_BACKWARD_NO_INTERRUPT",
}


def reachable_offsets(code):
    """The offsets of the instructions that some path leads to, as `dis` sees them."""
    instructions = {i.offset: i for i in dis.get_instructions(code)}
    following = dict(zip(instructions, list(instructions)[1:]))
    todo = [0, *(entry.target for entry in dis.Bytecode(code).exception_entries)]
    seen = set()
    while todo:
        offset = todo.pop()
        if offset in seen:
            continue
        seen.add(offset)
        instruction = instructions[offset]
        if instruction.opcode in dis.hasjrel or instruction.opcode in dis.hasjabs:
            todo.append(instruction.argval)
        if instruction.opname not in ENDS:
            todo.append(following[offset])
    return seen


@pytest.mark.parametrize(("codes", "name"), CASES)
def test_depth_stays_within_the_codes_stack(codes, name):
    for code in codes(name):
        assert max(_core.stack_depths(code)) <= code.co_stacksize, code.co_qualname


@pytest.mark.parametrize(("codes", "name"), CASES)
def test_every_reachable_instruction_has_a_depth(codes, name):
    for code in codes(name):
        depths = _core.stack_depths(code)
        found = {2 * index for index, depth in enumerate(depths) if depth >= 0}
        assert found == reachable_offsets(code), code.co_qualname


def test_depths_of_a_small_function():
    def f(a, b):
        return a + b

    depths = _core.stack_depths(f.__code__)
    names = {i.opname: i.offset // 2 for i in dis.get_instructions(f)}
    assert depths[names["RESUME"]] == 0
    assert depths[names["BINARY_OP"]] == 2
    assert depths[names["RETURN_VALUE"]] == 1


def test_caches_have_no_depth():
    def f(a, b):
        return a + b

    instructions = list(dis.get_instructions(f, show_caches=True))
    depths = _core.stack_depths(f.__code__)
    assert {depths[i.offset // 2] for i in instructions if i.opname == "CACHE"} == {-1}


def test_only_code_objects_have_depths():
    with pytest.raises(TypeError, match="code object"):
        _core.stack_depths(5)


def test_checks_say_whether_they_are_on():
    assert isinstance(_core.checks, bool)
