"""Rules about the source tree that no linter knows."""

from __future__ import annotations

import opcode
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from magneto import _core

ROOT = Path(__file__).resolve().parent.parent
C_FILES = sorted((ROOT / "csrc").glob("**/*.[ch]"))
FOLDERS = ["csrc", "src", "tests", "bench", "docs", "examples", ".ci"]

pytestmark = pytest.mark.no_leak_hunt("reads files only")


def text_files() -> list[Path]:
    """The files that belong to the project: those at the top and those in its folders."""
    found = [
        path for path in ROOT.iterdir() if path.is_file() and path.name != ".git"
    ]  # a file in a worktree
    for folder in FOLDERS:
        found += (ROOT / folder).rglob("*")
    return [path for path in found if path.is_file() and "__pycache__" not in path.parts]


def offending(files: list[Path], pattern: str) -> list[str]:
    """Each line of these files that the pattern matches, as `file:line: text`."""
    return [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in files
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1)
        if re.search(pattern, line)
    ]


def lines(path: Path) -> int:
    return len(path.read_text().splitlines())


def test_there_are_c_files():
    assert C_FILES


def test_only_cpython311_knows_cpythons_internals():
    others = [path for path in C_FILES if path.parent.name != "cpython"]
    assert offending(others, r"#\s*include\s*[<\"](internal/)?pycore_") == []


def test_cpython311_refuses_other_versions():
    text = "".join(path.read_text() for path in C_FILES if path.stem == "cpython311")
    assert re.search(r"#\s*error\b", text)
    assert "PY_VERSION_HEX" in text


def test_c_files_are_under_2000_lines():
    assert [path.name for path in C_FILES if path.suffix == ".c" and lines(path) > 2000] == []


def test_headers_are_under_80_lines():
    shared = {
        "cpython311.h",
        "frame.h",
        "capture.h",
    }  # what knows CPython's structs; the structs that all of a capture shares
    headers = [path for path in C_FILES if path.suffix == ".h" and path.name not in shared]
    assert [path.name for path in headers if lines(path) > 80] == []


def test_c_files_open_with_what_they_are():
    assert [path.name for path in C_FILES if not path.read_text().startswith(("/*", "//"))] == []


def without_checks(text: str) -> str:
    """The text of a C file without what is compiled in check builds only."""
    kept, nesting = [], 0
    for line in text.splitlines():
        if nesting or re.match(r"#\s*if MG_CHECKS\b", line):
            nesting += bool(re.match(r"#\s*if", line)) - bool(re.match(r"#\s*endif", line))
            if nesting == 1 and re.match(r"#\s*else", line):
                nesting = 0
        else:
            kept.append(line)
    return "\n".join(kept)


def test_release_builds_never_abort():
    pattern = r"\b(abort|exit|_exit|Py_FatalError)\s*\("
    assert [path.name for path in C_FILES if re.search(pattern, without_checks(path.read_text()))] == []


def test_the_core_runs_python_by_way_of_asides():
    pattern = r"\bPyImport_ImportModule\(|\bsuspended\s*(\+\+|--|\+=|-=)"
    assert [
        path.name for path in C_FILES if path.name != "aside.c" and re.search(pattern, path.read_text())
    ] == []


def c_functions(path: Path) -> Iterator[tuple[str, int]]:
    """The functions that a C file defines, and how many lines each has."""
    name, start = "", 0
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if match := re.match(r"(\w+)\(", line):
            name, start = match[1], number
        elif line == "}" and name:
            yield name, number - start + 2  # with the type above it
            name = ""


def test_only_csrc_cpython_knows_cpythons_structs():
    """Frames, generators, ints and version tags: other versions of CPython have them in other places."""
    fields = (
        "f_code|f_func|f_globals|f_builtins|f_locals|prev_instr|localsplus|stacktop|cframe|gi_iframe|"
        "ma_version_tag|tp_version_tag|ob_digit"
    )
    others = [path for path in C_FILES if path.parent.name != "cpython"]
    assert offending(others, rf"(->|\.)({fields})\b|VALID_VERSION_TAG") == []


def test_only_csrc_cpython_knows_opcodes():
    """Other versions have others: csrc/cpython/opcodes.def says which handler carries out which."""
    others = [path for path in C_FILES if path.parent.name != "cpython"]
    texts = r"\"[^\"]*\"|/\*.*?\*/"
    named = re.compile(rf"\b({'|'.join(opcode.opmap)})\b")
    assert [
        path.name for path in others if named.search(re.sub(texts, "", path.read_text(), flags=re.S))
    ] == []


def test_files_and_functions_in_c_are_short():
    """But for the interpreter's loop, which is one function."""
    files = [path for path in C_FILES if path.name != "interp.c"]
    assert [path.name for path in files if lines(path) >= 1200] == []
    assert [name for path in files for name, count in c_functions(path) if count > 100] == []


def test_test_files_are_under_1000_lines():
    files = sorted((ROOT / "tests").glob("**/*.py"))
    assert files
    assert [str(path.relative_to(ROOT)) for path in files if lines(path) >= 1000] == []


def test_every_c_file_is_built():
    build = (ROOT / "meson.build").read_text()
    files = [str(path.relative_to(ROOT)) for path in C_FILES if path.suffix == ".c"]
    assert [file for file in files if f"'{file}'" not in build] == []


def test_no_machine_paths():
    # In pieces, so that this file does not match itself.
    roots = "|".join(["ro" + "ot", "ho" + "me", "wo" + "rk", "Us" + "ers"])
    assert offending(text_files(), rf"(?<![\w.}})])/({roots})/") == []


def test_no_package_index_hosts():
    hosts = "|".join(["pypi" + r"\.org", "python" + "hosted", "download" + r"\.pytorch"])
    assert offending(text_files(), hosts) == []


def test_extension_exports_only_its_init_function():
    nm = shutil.which("nm")
    assert nm, "nm comes with the compiler"
    listing = subprocess.run(
        [nm, "-D", "--defined-only", _core.__file__], capture_output=True, text=True, check=True
    )
    names = {line.split()[-1] for line in listing.stdout.splitlines()}
    # The sanitizers add symbols of their own.
    assert {name for name in names if not re.match(r"_*(asan|ubsan|odr)", name)} == {"PyInit__core"}
