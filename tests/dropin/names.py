"""What magneto has of the public names of torch.compile, torch.compiler and parts of torch._dynamo.

`names.toml` has each name once. `python tests/dropin/names.py` writes the table of docs/coming-from-torch-compile.md.
"""

from __future__ import annotations

import ast
import inspect
import tomllib
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

PAGE = Path(__file__).resolve().parents[2] / "docs" / "coming-from-torch-compile.md"
START, END = "<!-- made by `python tests/dropin/names.py` -->\n", "<!-- end of the table -->\n"
STATUSES = ("the same", "better", "not yet")
MODULES = tuple(
    f"torch._dynamo.{name}" for name in ("convert_frame", "eval_frame", "output_graph", "utils", "decorators")
)


def groups() -> list[dict[str, Any]]:
    """The rows of the table."""
    found: list[dict[str, Any]] = tomllib.loads(Path(__file__).with_name("names.toml").read_text())["group"]
    return found


def names_of(where: str) -> set[str]:
    """The public names that the installed torch has there."""
    if where == "torch.compile(...)":
        return set(inspect.signature(torch.compile).parameters)
    if where == "torch.compiler":
        return set(torch.compiler.__all__)
    spec = find_spec(where)
    assert spec is not None and spec.origin is not None
    found: set[str] = set()
    _collect(ast.parse(Path(spec.origin).read_text()).body, found)
    return {name for name in found if not name.startswith("_")}


def _collect(body: list[ast.stmt], found: set[str]) -> None:
    """The names that some statements of a module define, without what is there for type checkers alone."""
    for statement in body:
        if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            found.add(statement.name)
        elif isinstance(statement, (ast.Assign, ast.AnnAssign)):
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            for target in targets:
                parts = target.elts if isinstance(target, (ast.Tuple, ast.List)) else [target]
                found.update(part.id for part in parts if isinstance(part, ast.Name))
        elif isinstance(statement, ast.If) and ast.unparse(statement.test).endswith("TYPE_CHECKING"):
            continue
        elif isinstance(statement, (ast.If, ast.Try, ast.With)):
            _collect(statement.body, found)
            for part in ("orelse", "finalbody"):
                _collect(getattr(statement, part, []), found)
            for handler in getattr(statement, "handlers", []):
                _collect(handler.body, found)


def table() -> str:
    """The table as Markdown."""
    lines = ["| of | names | | |", "|---|---|---|---|"]
    for group in groups():
        names = ", ".join(f"`{name}`" for name in group["names"])
        lines.append(f"| `{group['where']}` | {names} | {group['status']} | {group['reason']} |")
    return "\n".join(lines) + "\n"


def page() -> str:
    """The page with the table as it is to be."""
    before, rest = PAGE.read_text().split(START)
    return before + START + "\n" + table() + "\n" + END + rest.split(END)[1]


if __name__ == "__main__":
    PAGE.write_text(page())
