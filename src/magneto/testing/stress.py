"""Runs random modules of CPython's tests in magneto's interpreter, in processes made hard to live in.

    python -m magneto.testing.stress --minutes M --seed S

The collector runs every few allocations, threads switch every microsecond, other threads run interpreted
programs, freed memory is overwritten. A crash, a hang or a wrong result is a failure, and is printed with
what repeats it. A test that merely fails is counted: such treatment breaks tests that measure time, memory
or the number of threads.
"""

from __future__ import annotations

import argparse
import random
import re
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path

from magneto.testing._boot import CoreNotFoundError, Environments, find_core, make_environments
from magneto.testing._modules import MODULES
from magneto.testing._run import CRASHED, HUNG, STOP, ModuleRun, Outcome, Request, run

_GRAVE = re.compile(
    r"\bSystemError\b|Fatal Python error|Segmentation fault|SIG(SEGV|ABRT|BUS|ILL)|AddressSanitizer"
)
_SLOW = 10.0


@dataclass
class Failure:
    """Something that must not happen, and how to make it happen again."""

    seed: int
    module: str
    test: str
    kind: str
    detail: str
    settings: str


@dataclass
class Tally:
    """What all rounds gave."""

    rounds: int = 0
    tests: int = 0
    failed: int = 0  # tests that fail under stress
    slow: int = 0  # hangs that plain CPython has too under the same stress
    workloads: int = 0  # exceptions in the threads beside
    failures: list[Failure] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)


def make_request(seed: int, stall: float, modules: Sequence[str]) -> Request:
    """A random module and random settings, all drawn from one seed."""
    module = random.Random(f"{seed}/module").choice(list(modules))
    rng = random.Random(seed)
    stress: dict[str, object] = {"seed": seed, "threads": rng.choice([0, 1, 2, 4])}
    if rng.random() < 0.8:
        stress["gc_threshold"] = [
            rng.choice([1, 2, 5, 10, 50]),
            rng.choice([1, 3, 10]),
            rng.choice([5, 10, 100]),
        ]
    if rng.random() < 0.7:
        stress["switch_interval"] = 10.0 ** rng.choice([-6, -5, -4])
    environment = {"PYTHONHASHSEED": str(rng.randrange(1, 2**32))}
    if rng.random() < 0.5:
        environment["PYTHONMALLOC"] = rng.choice(["debug", "malloc_debug", "malloc"])
    if rng.random() < 0.5:
        environment["MALLOC_PERTURB_"] = str(rng.randrange(1, 256))
    return Request(
        f"test.{module}",
        "interpreted",
        seed=seed,
        stall=stall,
        slow=_SLOW,
        stress=stress,
        environment=environment,
        restarts=2,
    )


def plain_agrees(environments: Environments, request: Request, test: str, ours: Outcome) -> bool:
    """Whether plain CPython, under the same stress, brings this test to the same bad end."""
    result = run(
        environments, replace(request, mode="plain", match=[re.sub(r"([*?\[])", r"[\1]", test)], restarts=0)
    )
    theirs = result.outcomes.get(test)
    if theirs is None:
        return result.with_status(CRASHED, HUNG) != {}
    if ours.status == HUNG:
        return theirs.status == HUNG or theirs.seconds > request.stall / 8
    return theirs.status == ours.status


def find_failures(environments: Environments, result: ModuleRun, tally: Tally) -> list[Failure]:
    """Sorts a run's outcomes into failures and what is only counted."""
    request = result.request
    settings = f"{request.stress} {request.environment}"
    failures = []

    def fail(test: str, kind: str, detail: str) -> None:
        failures.append(Failure(request.seed, request.module, test, kind, detail, settings))

    failed = slow = 0
    for test, outcome in result.outcomes.items():
        if outcome.status == CRASHED:
            fail(test, CRASHED, outcome.detail)
        elif outcome.status == HUNG:
            if plain_agrees(environments, request, test, outcome):
                slow += 1
            else:
                fail(test, HUNG, outcome.detail)
        elif outcome.status in ("failed", "error"):
            failed += 1
            if _GRAVE.search(outcome.detail) and not plain_agrees(environments, request, test, outcome):
                fail(test, outcome.status, outcome.detail)
    for name, kind, detail in result.workloads:
        if kind in ("AssertionError", "SystemError"):
            fail(f"workload {name}", kind, detail)
    with tally.lock:
        tally.rounds += 1
        tally.tests += len(result.outcomes)
        tally.failed += failed
        tally.slow += slow
        tally.workloads += len(result.workloads)
        tally.failures.extend(failures)
    return failures


def show(failure: Failure) -> None:
    """Prints a failure, and how to repeat it."""
    print(f"\nFAILURE {failure.kind}: {failure.test} in {failure.module}")
    module = failure.module.removeprefix("test.")
    print(f"  again: python -m magneto.testing.stress --round {failure.seed} {module}")
    print(f"  settings: {failure.settings}")
    for line in failure.detail[-8000:].splitlines():
        print(f"    {line}")
    sys.stdout.flush()


def one_round(environments: Environments, request: Request, tally: Tally) -> None:
    """Runs one module, and prints a line on it."""
    result = run(environments, request)
    failures = find_failures(environments, result, tally)
    fine = len(result.with_status("passed"))
    state = "FAILURE" if failures else "cut" if result.cut else "ok"
    print(
        f"{request.seed:>20} {request.module:32} {result.seconds:6.1f}s {len(result.outcomes):5} tests "
        f"{fine:5} pass  {state}",
        flush=True,
    )
    for failure in failures:
        show(failure)


def worker(
    environments: Environments, seeds: random.Random, options: argparse.Namespace, tally: Tally
) -> None:
    """Runs rounds until the time is over."""
    while time.monotonic() < options.deadline and not STOP.is_set():
        request = make_request(seeds.getrandbits(48), options.timeout, options.modules or MODULES)
        request.deadline = options.deadline
        one_round(environments, request, tally)


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m magneto.testing.stress", description=__doc__.split("\n")[0]
    )
    parser.add_argument("modules", nargs="*", metavar="MODULE", help="choose among these only")
    parser.add_argument("--minutes", type=float, default=30.0, metavar="M", help="how long (default 30)")
    parser.add_argument(
        "--seed", type=int, default=None, metavar="S", help="of all choices (default: random)"
    )
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="processes at a time (default 2)")
    parser.add_argument(
        "--timeout", type=float, default=240.0, metavar="SECONDS", help="of one test (default 240)"
    )
    parser.add_argument("--round", type=int, metavar="SEED", help="only repeat the round with this seed")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the stress test; returns the exit status."""
    options = parse(arguments)
    try:
        core = find_core()
    except CoreNotFoundError as error:
        print(f"stress: {error}", file=sys.stderr)
        return 2
    seed = options.seed if options.seed is not None else random.SystemRandom().getrandbits(32)
    tally = Tally()
    with tempfile.TemporaryDirectory(prefix="mgt_") as root:
        environments = make_environments(Path(root).resolve(), core)
        if options.round is not None:
            one_round(
                environments, make_request(options.round, options.timeout, options.modules or MODULES), tally
            )
        else:
            print(f"stress: {options.minutes:g} minutes, seed {seed}", flush=True)
            options.deadline = time.monotonic() + options.minutes * 60
            with ThreadPoolExecutor(options.jobs) as pool:
                seeds = [random.Random(f"{seed}/{number}") for number in range(options.jobs)]
                futures = [pool.submit(worker, environments, each, options, tally) for each in seeds]
                try:
                    for future in futures:
                        future.result()
                except KeyboardInterrupt:
                    STOP.set()
    print(
        f"\nstress: seed {seed}, {tally.rounds} rounds, {tally.tests} tests; only counted: {tally.failed} "
        f"tests failed, {tally.slow} slow in plain too, {tally.workloads} exceptions in threads beside"
    )
    print(f"stress: {len(tally.failures)} failures", flush=True)
    return 1 if tally.failures else 0


if __name__ == "__main__":
    sys.exit(main())
