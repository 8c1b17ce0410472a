"""What all tests share."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import magneto
from magneto import _core

ROOT = Path(__file__).resolve().parent.parent
SITE = os.environ.get("MAGNETO_SITE")

if SITE is not None and not Path(magneto.__file__).is_relative_to(SITE):
    raise pytest.UsageError(
        f"these tests are for the build in {SITE}, but `import magneto` gives {magneto.__file__}; "
        "is another magneto installed editably? (pip uninstall magneto)"
    )


def pytest_report_header() -> list[str]:
    return [f"magneto: {magneto.__version__} in {Path(magneto.__file__).parent}, checks: {_core.checks}"]


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Have nobody read torch's trace but those tests that say so: pytest listens to all logs that don't propagate."""
    trace = logging.getLogger("torch.__trace")
    ours = [handler for handler in trace.handlers if type(handler).__module__ == "_pytest.logging"]
    for handler in ours:
        trace.removeHandler(handler)
    return (yield)


@pytest.fixture(scope="session")
def root() -> Path:
    """The top of the source tree."""
    return ROOT


@pytest.fixture
def run_python() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run a program in a Python of its own; gives the finished process with its output as text."""

    def run(
        code: str, *args: str, env: dict[str, str] | None = None, timeout: float = 120
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", code, *args],
            capture_output=True,
            text=True,
            timeout=timeout,
            env={**os.environ, **(env or {})},
        )

    return run


@pytest.fixture(scope="session", autouse=True)
def all_sizes_symbolic() -> Iterator[None]:
    """With MAGNETO_ALL_DYNAMIC=1 all captures are made with all sizes and ints as symbols, from the first one on."""
    if os.environ.get("MAGNETO_ALL_DYNAMIC") == "1":
        magneto.config.assume_static_by_default = False
    yield
