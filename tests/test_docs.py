"""The documents: examples run and print what is shown, commands and links and names exist.

A ```python block is executed, after those before it on its page; what it prints is compared with the ```text block that
comes next, if one does (`...` stands for anything). In a ```console block each `$ make` must name a target, and
`$ python program.py` runs the Python block before it, with the output compared.
"""

from __future__ import annotations

import contextlib
import doctest
import glob
import importlib.util
import io
import json
import linecache
import os
import re
import shlex
import subprocess
import sys
import textwrap
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from test_floors import FLOORS

import magneto
from magneto import _core

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
INTERNALS = sorted((ROOT / "docs" / "internals").glob("*.md"))
LANGUAGES = {"python", "text", "console", "mermaid", "c", "message"}  # "message": made by mistakes.py
FOLDERS = ("csrc", "src", "tests", "bench", "examples", "docs")
NOT_OURS = {"opcode.h", "program.py", "lj_record.c"}
"""Files that pages name and that are not in this tree."""

pytestmark = pytest.mark.no_leak_hunt("reads files, and runs processes of their own")


class Block(NamedTuple):
    """What stands between two fences."""

    language: str
    line: int
    text: str


def blocks(page: Path) -> list[Block]:
    found: list[Block] = []
    opened: tuple[str, int] | None = None
    body: list[str] = []
    for number, line in enumerate(page.read_text().splitlines(), 1):
        fence = re.match(r"\s*```(\w*)\s*$", line)
        if fence and opened is None:
            opened, body = (fence[1], number), []
        elif fence and opened is not None:
            found.append(Block(*opened, textwrap.dedent("\n".join(body) + "\n")))
            opened = None
        elif opened is not None:
            body.append(line)
    assert opened is None, f"{page}: a fence is not closed"
    return found


def prose(page: Path) -> str:
    """A page without what stands between fences."""
    return re.sub(r"^ *```.*?^ *```\s*$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)


def spans(page: Path) -> list[str]:
    """The `code` in the prose of a page."""
    return re.findall(r"`([^`\n]+)`", prose(page))


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


pages = pytest.mark.parametrize("page", PAGES, ids=name_of)


def assert_shown(shown: str, printed: str, where: str) -> None:
    """The text of a page is what was printed, but for `...` and blanks at the ends of lines."""
    shown, printed = (
        "\n".join(line.rstrip() for line in text.strip("\n").splitlines()) + "\n" for text in (shown, printed)
    )
    if not doctest.OutputChecker().check_output(shown, printed, doctest.ELLIPSIS):
        pytest.fail(f"{where} shows\n{shown}\nbut this was printed:\n{printed}", pytrace=False)


# --- examples ---


def run_blocks(page: Path) -> list[str]:
    """Execute the Python blocks of a page in this process; what each has printed."""
    printed = []
    namespace: dict[str, object] = {"__name__": "__main__"}
    for block in blocks(page):
        if block.language == "python":
            linecache.cache["program.py"] = (
                len(block.text),
                None,
                block.text.splitlines(keepends=True),
                "program.py",
            )
            with contextlib.redirect_stdout(io.StringIO()) as output:
                exec(compile(block.text, "program.py", "exec"), namespace)
            printed.append(output.getvalue())
    return printed


def run_pages(paths: list[str]) -> dict[str, list[str] | str]:
    """The same for several pages, each in a process of its own that has torch loaded; of one that fails, the error."""
    import torch._dynamo  # noqa: F401

    printed: dict[str, list[str] | str] = {}
    for path in paths:
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                result: list[str] | str = run_blocks(Path(path))
            except BaseException:
                result = traceback.format_exc()
            with open(writer, "w") as file:
                json.dump(result, file)
            os._exit(0)
        os.close(writer)
        with open(reader) as file:
            text = file.read()
        _, status = os.waitpid(child, 0)
        printed[path] = json.loads(text) if text else f"the process ended with status {status}"
    return printed


def with_python(page: Path) -> bool:
    return any(block.language == "python" for block in blocks(page))


PROGRAMS = [page for page in PAGES if with_python(page)]


@pytest.fixture(scope="module")
def printed(tmp_path_factory) -> dict[str, list[str] | str]:
    """What the Python blocks of each page print."""
    done = subprocess.run(
        [sys.executable, __file__, *map(str, PROGRAMS)],
        stdout=subprocess.PIPE,
        text=True,
        timeout=300,
        cwd=tmp_path_factory.mktemp("docs"),
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0
    return json.loads(done.stdout)


@pytest.mark.parametrize("page", PROGRAMS, ids=name_of)
def test_examples_print_what_is_shown(page, printed):
    outputs = printed[str(page)]
    assert isinstance(outputs, list), outputs
    outputs = list(outputs)
    found = blocks(page)
    for block, following in zip(found, [*found[1:], None], strict=True):
        if block.language == "python":
            output = outputs.pop(0)
            if following is not None and following.language == "text":
                assert_shown(following.text, output, f"{name_of(page)}:{following.line}")


@pages
def test_blocks_have_a_language_and_outputs_a_program(page):
    before = None
    for block in blocks(page):
        assert block.language in LANGUAGES, f"line {block.line}"
        assert block.language != "text" or before == "python", f"line {block.line}: nothing prints this"
        before = block.language


# --- commands ---


def make_targets() -> set[str]:
    return set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))


def check_make(words: list[str]) -> None:
    assert set(word for word in words if "=" not in word) <= make_targets(), f"make {' '.join(words)}"
    variables = {word.partition("=")[0] for word in words if "=" in word}
    text = (ROOT / "Makefile").read_text()
    assert all(re.search(rf"^{name}\s*\??=", text, re.MULTILINE) for name in variables), words


def commands(block: Block) -> Iterator[tuple[str, str]]:
    """The commands of a console block, each with the output that is shown."""
    parts = re.split(r"^\$ ", block.text, flags=re.MULTILINE)
    assert parts[0].strip() == "", f"line {block.line}: no command"
    for part in parts[1:]:
        command, _, output = part.partition("\n")
        yield command, output


def run_program(program: str, words: list[str], folder: Path) -> str:
    """What a shell would show: `words` are settings of the environment, then `python program.py`."""
    settings = dict(word.split("=", 1) for word in words[:-2])
    (folder / "program.py").write_text(program)
    done = subprocess.run(
        [sys.executable, "program.py"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
        cwd=folder,
        env={**os.environ, "OMP_NUM_THREADS": "1", **settings},
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


@pages
def test_commands_work(page, tmp_path):
    program = ""
    for block in blocks(page):
        if block.language == "python":
            program = block.text
        if block.language != "console":
            continue
        for command, output in commands(block):
            words = shlex.split(command, comments=True)
            if words[0] == "make":
                check_make(words[1:])
            elif words[-2:] == ["python", "program.py"]:
                printed = run_program(program, words, tmp_path)
                assert_shown(output, printed, f"{name_of(page)}:{block.line}")
            elif words[0] == "python" and words[1] != "-m":
                assert (ROOT / words[1]).is_file(), command
            else:
                assert words == ["pip", "install", "."], command


@pages
def test_make_targets_in_the_text_exist(page):
    for span in spans(page):
        if re.fullmatch(r"make [a-z-]+( .*)?", span):
            check_make([word for word in shlex.split(span)[1:] if "..." not in word])


# --- links and names ---


def anchors(page: Path) -> set[str]:
    """What links can point to, as forges make them of headings."""
    headings = re.findall(r"^#+ (.*)$", prose(page), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


@pages
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        if target.startswith("http"):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        assert file.exists(), target
        assert not anchor or anchor in anchors(file), target


FILES = {
    path.name
    for folder in FOLDERS
    for path in (ROOT / folder).rglob("*.*")
    if "__pycache__" not in path.parts
}


@pages
def test_files_in_the_text_exist(page):
    missing = []
    for span in spans(page):
        if re.fullmatch(rf"({'|'.join(FOLDERS)})/[\w./*-]+", span):
            missing += [] if glob.glob(str(ROOT / span)) else [span]
        elif re.fullmatch(r"\w+\.(c|h|def|py|toml)", span) and page.name != "pytorch-tests.md":
            known = span in FILES or (ROOT / span).exists() or span in NOT_OURS
            missing += [] if known else [span]
    assert missing == []


C_TEXT = "\n".join(path.read_text() for path in (ROOT / "csrc").rglob("*.*"))
C_NAMES = set(re.findall(r"\b(?:mg_|MG_|Mg[A-Z])\w+", C_TEXT))


@pages
def test_c_names_in_the_text_exist(page):
    named = {
        name
        for span in spans(page)
        for name in re.findall(r"\b(?:mg_|MG_|Mg[A-Z])\w+", span)
        if name != "MG_"
    }
    assert named - C_NAMES == set()


def exists(dotted: str) -> bool:
    """Whether a dotted name that starts with magneto is a module or an attribute."""
    value: object = magneto
    for part in dotted.split(".")[1:]:
        if not hasattr(value, part):
            return importlib.util.find_spec(dotted) is not None
        value = getattr(value, part)
    return True


@pages
def test_python_names_in_the_text_exist(page):
    text = " ".join(spans(page))
    named = set(re.findall(r"\bmagneto(?:\.[A-Za-z_]\w*)+", text)) - {"magneto.egg", "magneto.pth"}
    assert {name for name in named if not exists(name)} == set()
    core = set(re.findall(r"(?<![\w.])_core\.(\w+)", text))
    assert {name for name in core if not hasattr(_core, name) and name != "pyi"} == set()


def test_all_that_is_public_is_explained():
    text = "\n".join(page.read_text() for page in PAGES if page.parent.name == "docs")
    names = {*magneto.__all__, *magneto.config.to_dict()} - {"__version__", "exc", "counters", "config"}
    assert {name for name in names if not re.search(rf"\b{name}\b", text)} == set()


OLD_WORDS = {
    "quick way": "fast path",
    "acts when it goes": "has a finalizer",
    "resumption point": "resume point",
}
"""Words that the glossary has replaced."""


@pages
def test_words_are_those_of_the_glossary(page):
    text = page.read_text()
    assert {old: new for old, new in OLD_WORDS.items() if re.search(rf"\b{old}s?\b", text)} == {}


# --- the pages about the inside ---


FIGURES = [
    pytest.param(block.text, id=f"{name_of(page)}:{block.line}")
    for page in PAGES
    for block in blocks(page)
    if block.language == "mermaid"
]


@pytest.mark.parametrize("figure", FIGURES)
def test_figures_have_nothing_that_breaks_mermaid(figure):
    assert re.match(r"(flowchart (LR|TB|TD|BT)|sequenceDiagram|stateDiagram-v2)\n", figure)
    bare = re.sub(r'"[^"\n]*"', '""', figure)
    assert '"' not in bare.replace('""', ""), "a text is not closed"
    assert ";" not in bare, "a semicolon ends a statement"
    for opening, closing in ("[]", "{}", "()"):
        assert bare.count(opening) == bare.count(closing)
    if figure.startswith("flowchart"):
        words = set(re.findall(r"(?<!\w)[a-z]\w*", bare))
        assert words & {"call", "click", "class", "default", "graph", "href", "style"} == set()
        assert bare.count("subgraph") == len(re.findall(r"^\s*end$", bare, flags=re.MULTILINE))


@pytest.mark.parametrize("page", INTERNALS, ids=name_of)
def test_each_page_about_the_inside_has_a_figure_invariants_and_traps(page):
    figures = [block.text for block in blocks(page) if block.language == "mermaid"]
    assert len(figures) == 1
    if page.name != "glossary.md":
        assert re.search(r"^## Invariants", page.read_text(), flags=re.MULTILINE)
        assert re.search(r"^## Traps", page.read_text(), flags=re.MULTILINE)


def test_the_overview_has_the_floors_in_their_order():
    text = (ROOT / "ARCHITECTURE.md").read_text()
    assert tuple(re.findall(r"^\| `([a-z]+)` \|", text, flags=re.MULTILINE)) == FLOORS


def floors_used() -> str:
    """What folders.md shows, made from the sources: which floor includes headers of which."""
    used: dict[str, set[str]] = {name: set() for name in FLOORS}
    for path in (ROOT / "csrc").rglob("*.[ch]"):
        own = path.relative_to(ROOT / "csrc").parts[0]
        used[own] |= set(re.findall(r'#include "([a-z]+)/', path.read_text())) & set(FLOORS)

    def next_below(name: str) -> list[str]:
        """The floors that are used and that no other floor in use uses."""
        indirect = {low for high in used[name] - {name} for low in used[high] - {high}}
        return [low for low in FLOORS if low in used[name] - {name} - indirect]

    lines = ["```mermaid", "flowchart BT"]
    lines += [f"    {name} --> {low}" for name in FLOORS for low in next_below(name)]
    lines += ["```", "", "| | " + " | ".join(FLOORS) + " |", "|---" * (len(FLOORS) + 1) + "|"]
    for name in reversed(FLOORS):
        cells = ["x" if low in used[name] and low != name else "" for low in FLOORS]
        lines.append(f"| **{name}** | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def test_the_page_about_folders_is_as_the_sources_are():
    text = (ROOT / "docs" / "internals" / "folders.md").read_text()
    shown = text.split("<!-- made by `python tests/test_docs.py folders` -->\n")[1]
    assert_shown(shown, floors_used(), "docs/internals/folders.md")


if __name__ == "__main__":
    if sys.argv[1:] == ["folders"]:
        print(floors_used(), end="")
    else:
        print(json.dumps(run_pages(sys.argv[1:])))
