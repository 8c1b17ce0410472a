"""Small programs which together execute every opcode of CPython 3.11.

Each defines main(), which returns, prints or raises something, and can be called again and again.
"""

from __future__ import annotations

from interp import (
    programs_expressions,
    programs_frames,
    programs_generators,
    programs_names,
    programs_statements,
)

PROGRAMS: dict[str, str] = {}
for _module in (
    programs_expressions, programs_names, programs_generators, programs_statements, programs_frames,
):  # fmt: skip
    for _name, _program in _module.PROGRAMS.items():
        assert _name not in PROGRAMS, _name
        PROGRAMS[_name] = _program
