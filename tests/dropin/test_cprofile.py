"""`TORCH_COMPILE_CPROFILE`: a profile of each compilation."""

from __future__ import annotations

import logging
import os
import pstats
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
import torch
import torch._dynamo.config

import magneto

pytestmark = pytest.mark.no_leak_hunt("a profile is written for each compilation")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))  # nothing draws pictures
    magneto.reset()
    yield tmp_path
    magneto.reset()


def names(path: Path) -> set[str]:
    return {name for _, _, name in pstats.Stats(str(path)).stats}  # type: ignore[attr-defined]


def slow_backend(module: Any, inputs: Any) -> Any:
    return module.forward


def f(x: torch.Tensor) -> torch.Tensor:
    return x.sin() + 1


def test_each_compilation_has_a_file_named_as_by_torch(folder: Path) -> None:
    compiled = magneto.compile(f, backend=slow_backend)
    with magneto.config.patch(cprofile=True):
        compiled(torch.ones(2))
        compiled(torch.ones(3))
        compiled(torch.ones(3))
    assert sorted(path.name for path in folder.iterdir()) == [
        "_compile_inner_0_0.profile",
        "_compile_inner_0_1.profile",
    ]


def test_the_capture_is_a_row_and_the_backend_has_its_own(folder: Path) -> None:
    with torch._dynamo.config.patch(cprofile=True):
        magneto.compile(f, backend=slow_backend)(torch.ones(2))
    found = names(folder / "_compile_inner_0_0.profile")
    assert {"capture of f", "slow_backend", "build"} <= found


def test_a_compilation_without_a_backend_has_the_row_of_its_capture(folder: Path) -> None:
    with magneto.config.patch(cprofile=True):
        magneto.compile(f, backend="eager")(torch.ones(2))
    stats = pstats.Stats(str(folder / "_compile_inner_0_0.profile")).stats  # type: ignore[attr-defined]
    ((row, (calls, _, seconds, _, _)),) = stats.items()
    assert row == (__file__, f.__code__.co_firstlineno, "capture of f")
    assert calls == 1 and seconds > 0


def test_what_is_captured_is_the_same() -> None:
    graphs: list[str] = []

    def backend(module: Any, inputs: Any) -> Any:
        graphs.append(module.code)
        return module.forward

    def breaks(x: torch.Tensor) -> torch.Tensor:
        y = f(x)
        torch._dynamo.graph_break()
        return y.cos()

    plain = magneto.compile(breaks, backend=backend)(torch.ones(2))
    with magneto.config.patch(cprofile=True):
        profiled = magneto.compile(breaks, backend=backend)(torch.ones(2))
    assert torch.equal(plain, profiled)
    assert len(graphs) == 4 and graphs[:2] == graphs[2:]
    assert sys.getprofile() is None


def test_the_table_and_the_place_of_the_file_are_told(
    folder: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "magneto"), magneto.config.patch(cprofile=True):
        magneto.compile(f, backend=slow_backend)(torch.ones(2))
    assert "Cprofile for f compile id [0/0]" in caplog.text
    assert str(folder / "_compile_inner_0_0.profile") in caplog.text
    assert "capture of f" in capsys.readouterr().out


def test_a_backend_that_fails_leaves_no_profiler_on(folder: Path) -> None:
    def backend(module: Any, inputs: Any) -> Any:
        raise ZeroDivisionError

    with magneto.config.patch(cprofile=True), pytest.raises(magneto.exc.BackendCompilerFailed):
        magneto.compile(f, backend=backend)(torch.ones(2))
    assert sys.getprofile() is None
    assert "backend" in names(folder / "_compile_inner_0_0.profile")


def test_the_variable_switches_it_on(folder: Path) -> None:
    program = "import torch, magneto; magneto.compile(lambda x: x + 1, backend='eager')(torch.ones(2))"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "TORCH_COMPILE_CPROFILE": "1", "TMPDIR": str(folder)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert (folder / "_compile_inner_0_0.profile").exists()
