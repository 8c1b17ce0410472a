"""Runs a test module in a child process, and tells what became of each test, even after a crash."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from magneto.testing._boot import Environments, Mode, child_environment

# Set to end all running children without a verdict.
STOP = threading.Event()

CHILD = Path(__file__).with_name("_child.py")
PASSED = "passed"
CRASHED = "crashed"
HUNG = "hung"
EXIT = "(exit)"
IMPORT = "(import)"

_POLL_SECONDS = 0.05
_MAX_RESTARTS = 8
_LOG_TAIL = 6000


@dataclass
class Outcome:
    """What became of one test."""

    status: str
    detail: str = ""
    seconds: float = 0.0
    subtests: list[str] = field(default_factory=list)


@dataclass
class Request:
    """What a child shall run, and how."""

    module: str
    mode: Mode
    seed: int = 0
    match: list[str] = field(default_factory=list)
    path: list[str] = field(default_factory=list)
    stall: float = 300.0  # seconds in which no test ends: a hang
    slow: float = 4.0  # the timeouts in tests are this many times longer
    count_opcodes: bool = False
    stress: dict[str, Any] | None = None
    environment: dict[str, str] = field(default_factory=dict)
    restarts: int = _MAX_RESTARTS  # after a crash or hang the tests that are left run in a new process
    deadline: float | None = None  # of time.monotonic(): stop there without a verdict


@dataclass
class ModuleRun:
    """The outcomes of a module's tests in one mode."""

    request: Request
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    seconds: float = 0.0
    log: str = ""
    handled: list[int] = field(default_factory=list)
    opcodes: list[int] = field(default_factory=list)
    frames: int = 0
    workloads: list[tuple[str, str, str]] = field(
        default_factory=list
    )  # exceptions in them: name, type, text
    cut: bool = False  # the deadline came first

    def with_status(self, *statuses: str) -> dict[str, Outcome]:
        """The tests that ended in one of these ways."""
        return {key: outcome for key, outcome in self.outcomes.items() if outcome.status in statuses}


@dataclass
class _Attempt:
    """One process's share of a run."""

    returncode: int
    hung: bool
    cut: bool
    ended: bool = False
    running: str | None = None


def run(environments: Environments, request: Request) -> ModuleRun:
    """Runs the module; after a crash or a hang, goes on with the tests that have not run yet."""
    result = ModuleRun(request)
    began = time.monotonic()
    for restart in range(request.restarts + 1):
        known = len(result.outcomes)
        attempt = _attempt(environments, request, result)
        if attempt.cut:
            result.cut = True
            break
        if attempt.ended and attempt.returncode == 0:
            break
        status = HUNG if attempt.hung else CRASHED
        where = attempt.running or (EXIT if attempt.ended else IMPORT)
        result.outcomes[where] = Outcome(status, f"{_exit_text(attempt)}\n{result.log[-_LOG_TAIL:]}")
        if attempt.ended or (attempt.running is None and len(result.outcomes) <= known + 1):
            break
        if restart == request.restarts:
            result.log += f"\n(gave up after {restart} restarts)\n"
    result.seconds = time.monotonic() - began
    return result


def _exit_text(attempt: _Attempt) -> str:
    if attempt.hung:
        return "no test ended in time; the process was stopped:"
    code = attempt.returncode
    if code >= 0:
        return f"exit status {code}:"
    try:
        return f"killed by {signal.Signals(-code).name}:"
    except ValueError:
        return f"killed by signal {-code}:"


def _attempt(environments: Environments, request: Request, result: ModuleRun) -> _Attempt:
    """Runs one process and adds its outcomes to `result`."""
    work = Path(tempfile.mkdtemp(prefix="mgt_"))
    try:
        journal = work / "journal"
        cwd = work / "cwd"
        cwd.mkdir()
        message = {
            "module": request.module,
            "journal": str(journal),
            "seed": request.seed,
            "slow": request.slow,
            "skip": sorted(result.outcomes),
            "match": request.match,
            "path": request.path,
            "count_opcodes": request.count_opcodes,
            "stress": request.stress,
        }
        asked = work / "request"
        asked.write_text(json.dumps(message), encoding="utf-8")
        command = [str(environments.python(request.mode)), str(CHILD), str(asked)]
        variables = {**child_environment(request.mode), **request.environment}
        with open(work / "log", "w+b") as log:
            child = subprocess.Popen(
                command,
                cwd=cwd,
                env=variables,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            try:
                attempt = _watch(child, journal, request)
            finally:
                _kill_group(child)
            log.seek(0)
            result.log += log.read().decode(errors="replace")
        _read(journal, attempt, result)
        return attempt
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _watch(child: subprocess.Popen[bytes], journal: Path, request: Request) -> _Attempt:
    """Waits for the child to end, or to make no progress for too long."""
    size = -1
    progress = time.monotonic()
    while True:
        try:
            return _Attempt(child.wait(_POLL_SECONDS), hung=False, cut=False)
        except subprocess.TimeoutExpired:
            pass
        now = time.monotonic()
        current = journal.stat().st_size if journal.exists() else 0
        if current != size:
            size, progress = current, now
        if STOP.is_set() or (request.deadline is not None and now > request.deadline):
            return _Attempt(0, hung=False, cut=True)
        if now - progress > request.stall:
            child.send_signal(signal.SIGABRT)  # faulthandler writes the stacks of all threads
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(10)
            return _Attempt(-int(signal.SIGABRT), hung=True, cut=False)


def _kill_group(child: subprocess.Popen[bytes]) -> None:
    """Ends the child, and what its tests left running (the child leads a session of its own)."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()


def _read(journal: Path, attempt: _Attempt, result: ModuleRun) -> None:
    """Takes the outcomes over from a journal, whose last line may be torn."""
    lines = journal.read_bytes().split(b"\n") if journal.exists() else []
    for line in lines:
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        match entry["event"]:
            case "start":
                attempt.running = entry["id"]
            case "result":
                if entry["id"] == attempt.running:
                    attempt.running = None
                outcome = Outcome(entry["status"], entry["detail"], entry["seconds"], entry["subtests"])
                result.outcomes[entry["id"]] = outcome
            case "workload":
                result.workloads.append((entry["name"], entry["kind"], entry["detail"]))
            case "module":
                result.outcomes[IMPORT] = Outcome(entry["status"], entry["detail"])
            case "end":
                attempt.ended = True
                attempt.running = None
                result.handled = entry.get("handled", [])
                result.frames += entry.get("hook", {}).get("frames", 0)
                counts = entry.get("opcodes", [])
                old = result.opcodes or [0] * len(counts)
                result.opcodes = [a + b for a, b in zip(old, counts, strict=False)] or old
