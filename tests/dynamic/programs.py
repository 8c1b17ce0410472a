"""All programs with sizes and numbers that vary, by their names."""

from __future__ import annotations

from . import (
    programs_control,
    programs_library,
    programs_mixed,
    programs_numbers,
    programs_serving,
    programs_shapes,
    programs_tensors,
)
from .texts import Program

PROGRAMS: dict[str, Program] = {}
for _module in (
    programs_numbers,
    programs_tensors,
    programs_control,
    programs_mixed,
    programs_serving,
    programs_shapes,
    programs_library,
):
    for _name, _program in _module.PROGRAMS.items():
        assert _name not in PROGRAMS, _name
        PROGRAMS[_name] = _program
