"""How torch.compile captures the programs: `python -m training.reference` in tests/ writes it to reference.json.

Names as arguments measure only those.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch

from . import loops, programs

FILE = Path(__file__).with_name("reference.json")


def measure(name: str) -> list[int]:
    """How many graphs torch.compile captures of a program in all, how many run in the last step, their operations.

    Nothing if it raises.
    """
    torch._dynamo.reset()
    try:
        found, _ = loops.counted(programs.PROGRAMS[name], torch.compile)
    except Exception as error:
        print(name, type(error).__name__, str(error).splitlines()[0])
        return []
    return [sum(found.graphs), found.ran, found.operations]


def main(names: list[str]) -> None:
    found = json.loads(FILE.read_text()) if names else {}
    for name in names or programs.PROGRAMS:
        found[name] = measure(name)
        print(name, found[name], flush=True)
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(found[name])}" for name in sorted(found))
    FILE.write_text("{\n" + lines + "\n}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
