"""The leak hunt itself: it finds what leaks, and nothing else."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.no_leak_hunt("runs in a process of its own")

PROGRAM = """
import ctypes
import pytest

kept = []
runs = [0]
cache = {}
malloc = ctypes.CDLL(None).malloc
malloc.argtypes = [ctypes.c_size_t]

@pytest.fixture
def fresh():
    return [object()]

def test_clean(fresh, tmp_path):
    assert [str(i) for i in range(1000)] and fresh

def test_cycle():
    a = []
    a.append(a)

def test_cache():
    cache.setdefault("key", [1, 2, 3])

def test_now_and_then():
    runs[0] += 1
    if runs[0] % 3 == 0:
        kept.append([object()])

def test_leaks_an_object():
    cache[len(cache)] = [object()]

def test_leaks_memory():
    malloc(64)

@pytest.mark.parametrize("value", [1, 2])
def test_parameter(value):
    assert value

@pytest.mark.no_leak_hunt("left out on purpose")
def test_left_out():
    kept.append([object()])
"""


def run(folder: Path, *arguments: str) -> tuple[subprocess.CompletedProcess[str], list[str]]:
    """Hunt in the program; gives the finished process, and the tests that it reports."""
    (folder / "test_program.py").write_text(PROGRAM)
    (folder / "pytest.ini").write_text("[pytest]\nmarkers = no_leak_hunt(reason): left out\n")
    hunt = Path(__file__).with_name("hunt.py")
    done = subprocess.run(
        [sys.executable, hunt, *arguments, "--rootdir", folder, folder],
        capture_output=True,
        text=True,
        cwd=folder,
    )
    leaks = [line for line in done.stdout.splitlines() if line.startswith("LEAK ")]
    return done, [leak.split()[1].partition("::")[2].rstrip(":") for leak in leaks]


def test_hunt_reports_leaks_and_nothing_else(tmp_path):
    done, leaks = run(tmp_path)
    assert leaks == ["test_leaks_an_object", "test_leaks_memory"]
    assert "left out: 1 tests (left out on purpose)" in done.stdout
    assert "8 tests hunted, 2 leaks" in done.stdout
    assert done.returncode == 1


def test_what_is_left_out_can_be_hunted(tmp_path):
    done, leaks = run(tmp_path, "--marked", "on purpose")
    assert leaks == ["test_left_out"]
    assert "1 tests hunted, 1 leaks" in done.stdout
