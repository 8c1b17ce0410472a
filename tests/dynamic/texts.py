"""Programs as in tests/programs/texts.py, with lines of steps that stand for several.

`@ f(T(n, 3)) | 3 4 5` are the steps `f(T(n, 3))` with n = 3, 4 and 5. A program may begin with `# options: dynamic=True`, arguments
of compile, and `# settings: assume_static_by_default=False`, settings of torch._dynamo.config while it runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Program:
    """A program and what is done with it."""

    text: str
    steps: tuple[str, ...]
    options: dict[str, Any] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)


def _steps(lines: list[str]) -> Iterator[str]:
    for line in lines:
        if line.startswith("@ "):
            step, _, values = line[2:].partition(" | ")
            assert values, line
            for value in values.split():
                yield f"(lambda n: {step.strip()})({value})"
        elif line.strip():
            yield line


def _heading(text: str, word: str) -> dict[str, Any]:
    for line in text.splitlines()[:2]:
        if line.startswith(f"# {word}: "):
            made: dict[str, Any] = eval(f"dict({line.partition(': ')[2]})")
            return made
    return {}


def parse(text: str) -> dict[str, Program]:
    """The programs of a text by their names."""
    programs: dict[str, Program] = {}
    for part in text.split("\n### ")[1:]:
        name, _, body = part.partition("\n")
        program, _, steps = body.partition("\n---\n")
        assert name not in programs and steps, name
        programs[name] = Program(
            program + "\n",
            tuple(_steps(steps.splitlines())),
            _heading(program, "options"),
            _heading(program, "settings"),
        )
    return programs
