"""The package as a user meets it: its import, and what that says where magneto can't work."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import magneto
from magneto import _versions


def with_path(*directories: Path) -> dict[str, str]:
    """An environment in which these directories come first on sys.path."""
    return {"PYTHONPATH": os.pathsep.join([*map(str, directories), os.environ.get("PYTHONPATH", "")])}


@pytest.mark.parametrize("torch", ["2.13.0", "2.13.0+cpu", "2.13.0+cu130"])
def test_supported_versions(torch):
    assert _versions.problem("cpython", (3, 11, 0), torch) is None


@pytest.mark.parametrize("torch", ["2.12.1", "2.13.1", "2.13.0rc1", "2.14.0+cpu", "12.13.0"])
def test_other_torch_is_named_in_the_message(torch):
    text = _versions.problem("cpython", (3, 11, 7), torch)
    assert f"torch {torch} is installed" in text
    assert "pip install torch==2.13.0" in text


def test_missing_torch_is_named_in_the_message():
    assert "no torch is installed" in _versions.problem("cpython", (3, 11, 7), None)


@pytest.mark.parametrize(
    ("implementation", "python", "named"),
    [
        ("cpython", (3, 12, 1), "CPython 3.12.1"),
        ("cpython", (3, 10, 4), "CPython 3.10.4"),
        ("pypy", (3, 11, 7), "pypy 3.11.7"),
    ],
)
def test_other_python_is_named_in_the_message(implementation, python, named):
    text = _versions.problem(implementation, python, "2.13.0")
    assert f"this is {named}." in text
    assert "Use a CPython 3.11" in text


@pytest.mark.no_leak_hunt("runs in a process of its own")
def test_import_with_other_torch_fails(run_python, tmp_path):
    info = tmp_path / "torch-2.12.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: torch\nVersion: 2.12.0\n")
    done = run_python("import magneto", env=with_path(tmp_path))
    assert done.returncode == 1
    assert "ImportError: magneto needs torch 2.13.0, and torch 2.12.0 is installed." in done.stderr


@pytest.mark.no_leak_hunt("runs in a process of its own")
def test_import_on_other_python_fails(run_python):
    done = run_python("import sys; sys.version_info = (3, 12, 0, 'final', 0); import magneto")
    assert done.returncode == 1
    assert "ImportError: magneto works on CPython 3.11 only, and this is CPython 3.12.0." in done.stderr


@pytest.mark.no_leak_hunt("runs in a process of its own")
def test_import_without_the_extension_says_how_to_build_it(run_python, tmp_path):
    package = Path(magneto.__file__).parent
    shutil.copytree(package, tmp_path / "magneto", ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    done = run_python("import magneto", env=with_path(tmp_path))
    assert done.returncode == 1
    assert "ImportError: magneto's C extension `magneto._core` is not built." in done.stderr


@pytest.mark.no_leak_hunt("runs in a process of its own")
def test_import_is_light(run_python):
    done = run_python(
        "import sys, magneto; print(*(m for m in ('torch', 'sympy', 'numpy') if m in sys.modules))"
    )
    assert (done.returncode, done.stdout.strip()) == (0, "")


@pytest.mark.no_leak_hunt("runs in a process of its own")
def test_a_build_without_a_compiler_says_what_to_install(root, tmp_path):
    command = [
        sys.executable,
        "-c",
        "import sys, mesonbuild.mesonmain as meson; sys.exit(meson.main())",
        "setup",
        str(tmp_path),
        str(root),
    ]
    env = {**os.environ, "CC": str(tmp_path / "none")}
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=env)
    assert done.returncode != 0
    assert "no C compiler was found. Install gcc or clang" in done.stdout


def test_version_is_the_builds(root):
    assert f"version: '{magneto.__version__}'" in (root / "meson.build").read_text()


def test_type_stub_names_what_the_extension_has():
    stub = (Path(magneto.__file__).parent / "_core.pyi").read_text()
    names = {name for name in vars(magneto._core) if not name.startswith("_")}
    stubbed = {
        line.removeprefix("def ").removeprefix("class ").partition("(")[0].partition(":")[0]
        for line in stub.splitlines()
        if line[:1].isalpha() and not line.startswith(("from ", "import "))
    }
    assert stubbed == names
