"""The soak of `make stress`, for a few turns."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import magneto


@pytest.mark.no_leak_hunt("runs in a process of its own")
def test_a_few_turns() -> None:
    program = Path(__file__).with_name("soak.py")
    command = [sys.executable, str(program), "--turns", "15", "--threads", "2", "--seed", "5"]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=550, env={**os.environ, "OMP_NUM_THREADS": "1"}
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "15 turns" in done.stdout


def test_reset_while_other_threads_compile() -> None:
    """The callables that are there are noted in a set."""
    over = threading.Event()
    failed: list[BaseException] = []

    def compile_many() -> None:
        while not over.is_set():
            magneto.compile(lambda x: x, backend="eager")

    threads = [threading.Thread(target=compile_many) for _ in range(2)]
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    for thread in threads:
        thread.start()
    try:
        for _ in range(300):
            magneto.reset()
    except RuntimeError as error:
        failed.append(error)
    finally:
        over.set()
        sys.setswitchinterval(before)
        for thread in threads:
            thread.join()
    assert failed == []
