"""Programs for the differential tests, as texts: `### name`, the program, and after `---` its steps, one a line.

Without steps a program is called twice with one tensor and once with a tensor of another shape.
"""

from __future__ import annotations

from types import ModuleType

STEPS = ("f(X)", "f(X)", "f(T(3, 4))", "f(X)")


def parse(text: str) -> dict[str, tuple[str, tuple[str, ...]]]:
    """The programs of a text by their names."""
    programs: dict[str, tuple[str, tuple[str, ...]]] = {}
    for part in text.split("\n### ")[1:]:
        name, _, body = part.partition("\n")
        program, _, steps = body.partition("\n---\n")
        name = name.strip()
        assert name not in programs, name
        programs[name] = (program + "\n", tuple(line for line in steps.splitlines() if line.strip()) or STEPS)
    return programs


def join(*modules: ModuleType) -> dict[str, tuple[str, tuple[str, ...]]]:
    """The programs of several modules, in their order."""
    programs: dict[str, tuple[str, tuple[str, ...]]] = {}
    for module in modules:
        for name, program in module.PROGRAMS.items():
            assert name not in programs, name
            programs[name] = program
    return programs
