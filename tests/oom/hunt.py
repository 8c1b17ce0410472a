"""Lets the core's allocations fail, one after the other, in the programs of tests/programs, entry, guard, record
and breaks, and in those of tests/oom/programs.py.

    python tests/oom/hunt.py [--new] [--rest] [--part 1/4] [text in the names of programs]

For each program every allocation fails in a run of its own (with --new only one at each place of the core that asks for
memory; with --rest also all that come after it). The programs run in a process of their own, so that a crash is
reported, and the rest goes on.
"""

from __future__ import annotations

import argparse
import collections
import faulthandler
import gc
import os
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from oom import trial

# Runs of one program whose allocations could not be counted to an end.
MOST = 20000


def tell(name: str, found: trial.End, text: str) -> None:
    """Write a line for a fault."""
    print("FAULT", name, found.failed, text, "|", trial.where(found.place), flush=True)


def hunt(name: str, start: int, options: argparse.Namespace) -> None:
    """All runs of one program, from the allocation `start` on; writes a line before each run and one for each fault."""
    made = trial.Trial(name)
    k = start
    runs = 0
    rest = trial.NEVER if options.rest else 0
    while k < MOST:
        print("RUN", k, flush=True)
        found = trial.End()
        try:
            before = made.blocks() if options.leaks else 0
            found = made.run(-1 if options.new else k, rest)
            runs += 1
            if (
                found.failed
                and options.leaks
                and not made.leaky
                and CLEARED[found.place] < 2
                and made.blocks() - before > 0
            ):
                growth = made.growth(found.failed, rest)
                if growth == 0:
                    CLEARED[found.place] += 1
                else:
                    # Requests of the same number may come from elsewhere once all is warm.
                    for found.place in made.places:
                        tell(name, found, f"{growth} blocks leak")
        except Exception as error:
            trial._core.starve()
            found = LAST["end"]
            tell(name, found, f"{type(error).__name__}: {error}".replace("\n", "\\n"))
        if not found.failed:
            break
        k += 1
    print("DONE", runs, flush=True)


LAST: dict[str, trial.End] = {}

# How often a place was suspected of a leak, and cleared.
CLEARED: collections.Counter[tuple[int, ...]] = collections.Counter()


def work(options: argparse.Namespace) -> None:
    """In the process that runs programs: their numbers come from the other one, with where to start."""
    faulthandler.enable()
    warnings.simplefilter("ignore")
    real = trial.End

    def end() -> trial.End:
        LAST["end"] = real()
        return LAST["end"]

    trial.End = end  # type: ignore[misc, assignment]
    names = list(trial.PROGRAMS)
    gc.collect()
    gc.freeze()
    for line in sys.stdin:
        number, start = map(int, line.split())
        hunt(names[number], start, options)


class Worker:
    """A process that runs programs."""

    def __init__(self) -> None:
        self.errors = tempfile.TemporaryFile("w+")  # noqa: SIM115
        self.process = subprocess.Popen(
            [sys.executable, "-X", "faulthandler", __file__, *sys.argv[1:], "--worker"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, text=True,
            env={**os.environ, "MAGNETO_STARVE_TELL": "1"},
        )  # fmt: skip

    def last_words(self) -> str:
        """What it said before it crashed, and where the last allocation was refused."""
        self.errors.seek(0)
        lines = self.errors.read().splitlines()
        places = [line for line in lines if line.startswith("refused:")]
        place = tuple(int(word, 16) for word in places[-1].split()[1:]) if places else ()
        words = [line for line in lines[-200:] if line.startswith(("Fatal", "magneto", "Assert", "python"))]
        return f"{' '.join(words)} | {trial.where(place)}"


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--new", action="store_true", help="one failure at each place")
    parser.add_argument("--rest", action="store_true", help="all allocations from the failing one on")
    parser.add_argument("--no-leaks", dest="leaks", action="store_false")
    parser.add_argument("--part", default="1/1", help="2/4: the second quarter of the programs")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("text", nargs="?", default="")
    options = parser.parse_args()
    if options.worker:
        work(options)
        return 0
    part, parts = map(int, options.part.split("/"))
    programs = [(n, name) for n, name in enumerate(trial.PROGRAMS) if options.text in name][part - 1 :: parts]
    faults = runs = 0
    worker = None
    began = time.monotonic()
    for number, name in programs:
        start = 1
        while True:
            if worker is None:
                worker = Worker()
            assert worker.process.stdin is not None and worker.process.stdout is not None
            worker.process.stdin.write(f"{number} {start}\n")
            worker.process.stdin.flush()
            finished = False
            for line in worker.process.stdout:
                kind, _, rest = line.strip().partition(" ")
                if kind == "RUN":
                    start = int(rest)
                elif kind == "DONE":
                    runs += int(rest)
                    finished = True
                    break
                elif kind == "FAULT":
                    faults += 1
                    print(rest, flush=True)
            if finished:
                break
            status = worker.process.wait()
            faults += 1
            print(f"{name} {start}: the process ended with {status}: {worker.last_words()}", flush=True)
            worker = None
            start += 1
            if options.new:
                break
    if worker is not None:
        assert worker.process.stdin is not None
        worker.process.stdin.close()
        worker.process.wait()
    print(f"{len(programs)} programs, {runs} runs, {faults} faults, {time.monotonic() - began:.0f} s")
    return 1 if faults else 0


if __name__ == "__main__":
    os._exit(main()) if "--worker" in sys.argv else sys.exit(main())
