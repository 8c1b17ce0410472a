"""Runs programs of random_hostile.py for a time, in processes of their own, so that a crash is charged to its seed.

    python tests/stress/fuzz.py --minutes 30 [--seed N] [--count N]

Every second batch has each capture stopped before a random instruction. `make fuzz` does it, for a build with
sanitizers as well. Ends with 1 if a program crashed, hung or differed.
"""

from __future__ import annotations

import argparse
import faulthandler
import importlib
import os
import subprocess
import sys
import time
from pathlib import Path

BATCH = 40
TIMEOUT = 600
HERE = Path(__file__).resolve()


def child(first: int, count: int, breaks: bool) -> None:
    sys.path.insert(0, str(HERE.parents[1]))
    sys.unraisablehook = lambda _: None
    harness = importlib.import_module("programs.harness")
    hostile = importlib.import_module("capture.random_hostile")
    for seed in range(first, first + count):
        print(f"seed {seed}", flush=True)
        faulthandler.dump_traceback_later(60, exit=True)
        try:
            hostile.run(seed, breaks)
        except harness.Difference as error:
            if hostile.varies(seed):
                print(f"error {seed}: eager does another thing each time", flush=True)
            else:
                print(f"difference {seed}: {str(error)[:3000]}", flush=True)
        except Exception as error:  # the program could not be set up, or what it left could not be looked at
            print(f"error {seed}: {type(error).__name__}: {error}", flush=True)
    print("done", flush=True)


def eager_child(seed: int) -> None:
    """The program of a seed in eager alone."""
    sys.path.insert(0, str(HERE.parents[1]))
    harness = importlib.import_module("programs.harness")
    faulthandler.dump_traceback_later(60, exit=True)
    harness.run(
        *importlib.import_module("capture.random_hostile").write(seed), compile=lambda function: function
    )


def is_eagers(seed: int) -> bool:
    """Whether a program crashes or hangs in eager, too: not all C code of torch's stands such objects."""
    command = [sys.executable, str(HERE), "--eager", str(seed)]
    return subprocess.run(command, capture_output=True, env=os.environ).returncode != 0


def parent(arguments: argparse.Namespace) -> int:
    end = time.monotonic() + arguments.minutes * 60
    seed, bad, errors = arguments.seed, 0, 0
    last = arguments.seed + arguments.count if arguments.count else None
    while time.monotonic() < end and (last is None or seed < last):
        breaks = (seed - arguments.seed) // BATCH % 2 == 1
        count = BATCH if last is None else min(BATCH, last - seed)
        command = [sys.executable, str(HERE), "--child", f"{seed},{count}"] + ["--breaks"] * breaks
        try:
            run = subprocess.run(
                command, capture_output=True, text=True, errors="replace", timeout=TIMEOUT, env=os.environ
            )
            output, status, stderr = run.stdout, run.returncode, run.stderr
        except subprocess.TimeoutExpired as error:
            output, status, stderr = (error.stdout or b"").decode(), "hang", ""
        reached = [int(line.split()[1]) for line in output.splitlines() if line.startswith("seed ")]
        for line in output.splitlines():
            if line.startswith("error "):
                errors += 1
                print(line)
        at = output.find("difference ")
        while at >= 0:
            bad += 1
            stop = output.find("\nseed ", at)
            print(output[at : stop if stop > 0 else None])
            at = output.find("difference ", stop) if stop > 0 else -1
        if not output.endswith("done\n"):
            seed = (reached[-1] if reached else seed) + 1
            if is_eagers(seed - 1):
                errors += 1
                print(f"error {seed - 1}: eager crashes or hangs too")
            else:
                bad += 1
                print(
                    f"crash or hang ({status}) of seed {seed - 1}{', with breaks' * breaks}\n{stderr[-6000:]}"
                )
        else:
            seed += count
        sys.stdout.flush()
    print(f"programs {arguments.seed} to {seed - 1}: {bad} bad, {errors} that could not be compared")
    return bad > 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=0)
    parser.add_argument("--breaks", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--eager", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.eager is not None:
        eager_child(arguments.eager)
        return 0
    if arguments.child:
        first, count = map(int, arguments.child.split(","))
        child(first, count, arguments.breaks)
        return 0
    return parent(arguments)


if __name__ == "__main__":
    sys.exit(main())
