"""Runs CPython's own tests in plain CPython and in magneto's interpreter, and compares them test by test.

    python -m magneto.testing.conformance [MODULE...]

A MODULE is one of the standard library's package `test` (`test_generators`, `test_asyncio.test_tasks`);
without any, the whole list is run. The exit status is 0 if every test that passes in plain CPython passes
in ours, except those listed in tests/conformance/known.toml.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import opcode
import os
import sys
import tempfile
import textwrap
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from magneto.testing import _known
from magneto.testing._boot import MODES, CoreNotFoundError, Environments, Mode, find_core, make_environments
from magneto.testing._compare import Comparison, Difference, compare
from magneto.testing._modules import FAST, MODULES, SLOW
from magneto.testing._run import CRASHED, HUNG, STOP, ModuleRun, Request, run

_DETAIL_CHARACTERS = 8000


@dataclass
class Report:
    """The verdict on all modules."""

    modules: int = 0
    compared: int = 0
    passing: int = 0
    unexpected: list[Difference] = field(default_factory=list)
    known: dict[str, str] = field(default_factory=dict)
    flaky: dict[str, Difference] = field(default_factory=dict)
    stale: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)  # of the run itself

    @property
    def ok(self) -> bool:
        """Whether our interpreter conforms."""
        return not (self.unexpected or self.stale or self.faults)

    def last_line(self) -> str:
        """The counts."""
        return (
            f"conformance: {self.modules} modules, {self.compared} tests compared, "
            f"{len(self.known)} known differences, {len(self.unexpected)} unexpected differences"
        )


@dataclass
class Pair:
    """A module's runs in both modes, and those that repeat them."""

    plain: ModuleRun
    interpreted: ModuleRun
    again: tuple[ModuleRun, ModuleRun] | None = None


def full_name(module: str, directory: str | None) -> str:
    """The name under which a module is imported."""
    return module if directory or module.startswith("test.") else f"test.{module}"


def run_pairs(
    environments: Environments, requests: dict[str, dict[Mode, Request]], jobs: int
) -> Iterator[Pair]:
    """Runs every module in both modes, `jobs` processes at a time; yields each pair when both are there."""
    order = sorted(requests, key=lambda name: -SLOW.get(name.removeprefix("test."), 0.0))
    with ThreadPoolExecutor(jobs) as pool:
        futures = {
            name: [pool.submit(run, environments, requests[name][mode]) for mode in MODES] for name in order
        }
        try:
            for name in order:
                plain, interpreted = (future.result() for future in futures[name])
                yield Pair(plain, interpreted)
        except BaseException:
            STOP.set()
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def judge(pair: Pair, known: dict[str, str], report: Report) -> None:
    """Adds a module's comparison to the report."""
    first = compare(pair.plain, pair.interpreted)
    second = compare(*pair.again) if pair.again is not None else None
    report.modules += 1
    report.compared += first.compared
    report.passing += first.passing
    report.notes.extend(first.notes)
    rounds: list[Comparison] = [first] if second is None else [first, second]
    found: dict[str, list[Difference]] = {}
    for comparison in rounds:
        for name, difference in comparison.differences.items():
            found.setdefault(name, []).append(difference)
    for name, differences in found.items():
        certain = [difference for difference in differences if difference.certain]
        if certain:
            report.unexpected.append(certain[0])
        elif name in known:
            report.known[name] = known[name]
        elif len(differences) == len(rounds):
            report.unexpected.append(differences[0])
        else:
            report.flaky[name] = differences[0]
    for name in known:
        if name in first.tests and all(name in comparison.agreeing for comparison in rounds):
            report.stale[name] = "it passes"


def needs_rerun(pair: Pair, known: dict[str, str]) -> bool:
    """Whether a second run could change the verdict: something differs, or a known difference is gone."""
    comparison = compare(pair.plain, pair.interpreted)
    return bool(set(comparison.differences) - set(known)) or bool(set(known) & comparison.agreeing)


def check_interpreted(pair: Pair, environments: Environments, report: Report) -> None:
    """A run in which our interpreter executed nothing proves nothing."""
    broken = pair.interpreted.with_status(CRASHED, HUNG)
    if environments.core is not None and not broken and not pair.interpreted.frames:
        report.faults.append(
            f"{pair.interpreted.request.module}: no frame was executed by magneto's interpreter"
        )


def show_pair(pair: Pair, verbose: bool) -> None:
    """One line on a module, as soon as it is done."""
    comparison = compare(pair.plain, pair.interpreted)
    text = f"{len(comparison.differences)} differ" if comparison.differences else "ok"
    name = pair.plain.request.module
    times = f"{pair.plain.seconds:6.1f}s plain {pair.interpreted.seconds:6.1f}s ours"
    print(f"{name:40} {comparison.compared:5} tests {comparison.passing:5} pass {times}  {text}", flush=True)
    if verbose:
        for test, difference in comparison.differences.items():
            print(f"    {test}: {difference.plain.status} in plain, {difference.interpreted.status} in ours")
        for mode, outcomes in (("plain", pair.plain.outcomes), ("ours", pair.interpreted.outcomes)):
            for test, outcome in outcomes.items():
                if outcome.status in ("failed", "error", CRASHED, HUNG):
                    print(f"    {outcome.status} in {mode}: {test}", flush=True)


def show_difference(difference: Difference) -> None:
    """A difference, with what the failing test said."""
    statuses = f"{difference.plain.status} in plain, {difference.interpreted.status} in ours"
    print(f"\nDIFFERS {difference.test}: {statuses}")
    for subtest in difference.interpreted.subtests:
        if subtest not in difference.plain.subtests:
            print(f"  subtest: {subtest}")
    detail = difference.interpreted.detail[-_DETAIL_CHARACTERS:]
    if detail:
        print(textwrap.indent(detail.rstrip(), "    "), flush=True)


def show_report(report: Report, verbose: bool) -> None:
    """Everything that is not as it should be, and the counts."""
    for difference in report.unexpected:
        show_difference(difference)
    if report.flaky:
        print(f"\nflaky, {len(report.flaky)} (differed once, agreed once):")
        for name, difference in report.flaky.items():
            print(f"  {name}: {difference.plain.status} in plain, {difference.interpreted.status} in ours")
            if verbose:
                print(textwrap.indent(difference.interpreted.detail.rstrip(), "      "))
    if verbose and report.notes:
        print(f"\nother differences, {len(report.notes)} (the test does not pass in plain CPython):")
        for note in report.notes:
            print(f"  {note}")
    if report.known:
        print("\nknown:")
        for name, reason in report.known.items():
            print(f"  {name}: {reason}")
    for name, why in report.stale.items():
        print(f"\nSTALE {name} is listed as known, but {why}")
    for fault in report.faults:
        print(f"\nFAULT {fault}")
    print(
        f"\n{report.passing} tests must pass, {len(report.unexpected)} do not; {len(report.known)} known, "
        f"{len(report.flaky)} flaky, {len(report.stale)} stale entries, {len(report.notes)} other differences"
    )
    print(report.last_line(), flush=True)


def write_json(path: str, report: Report, pairs: Sequence[Pair]) -> None:
    """Everything, for programs."""

    def of_run(result: ModuleRun) -> dict[str, object]:
        outcomes = {key: {"status": o.status, "seconds": o.seconds} for key, o in result.outcomes.items()}
        return {"seconds": round(result.seconds, 3), "frames": result.frames, "outcomes": outcomes}

    value = {
        "modules": {
            pair.plain.request.module: {"plain": of_run(pair.plain), "interpreted": of_run(pair.interpreted)}
            for pair in pairs
        },
        "compared": report.compared,
        "passing": report.passing,
        "unexpected": {
            d.test: {"status": d.interpreted.status, "detail": d.interpreted.detail}
            for d in report.unexpected
        },
        "known": report.known,
        "flaky": {name: difference.interpreted.detail for name, difference in report.flaky.items()},
        "stale": report.stale,
        "faults": report.faults,
        "notes": report.notes,
    }
    Path(path).write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")


def write_opcodes(path: str, pairs: Sequence[Pair]) -> None:
    """How often each opcode was executed, over all modules, and which ones have a handler; by name."""
    executed: dict[str, int] = {}
    handled: set[str] = set()
    for pair in pairs:
        handled.update(opcode.opname[number] for number in pair.interpreted.handled)
        for number, count in enumerate(pair.interpreted.opcodes):
            if count:
                executed[opcode.opname[number]] = executed.get(opcode.opname[number], 0) + count
    value = {"executed": dict(sorted(executed.items())), "handled": sorted(handled)}
    Path(path).write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m magneto.testing.conformance", description=__doc__.split("\n")[0]
    )
    parser.add_argument("modules", nargs="*", metavar="MODULE", help="test modules; default: the whole list")
    parser.add_argument("--fast", action="store_true", help="the subset that `make test` runs")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="processes at a time (default 2)")
    parser.add_argument(
        "--timeout", type=float, default=300.0, metavar="SECONDS", help="of one test (default 300)"
    )
    parser.add_argument(
        "--match", action="append", default=[], metavar="PATTERN", help="only tests with such an id"
    )
    parser.add_argument(
        "--verbose", action="store_true", help="also the tests that fail in both, and flaky tracebacks"
    )
    parser.add_argument("--json", metavar="FILE", help="write all outcomes to FILE")
    parser.add_argument("--opcodes", metavar="FILE", help="count the opcodes executed, into FILE")
    parser.add_argument(
        "--known", metavar="FILE", type=Path, help=f"the known differences (default {_known.DEFAULT})"
    )
    parser.add_argument(
        "--directory", metavar="DIR", help="import the modules from DIR, not from the package `test`"
    )
    parser.add_argument(
        "--environments", metavar="DIR", help="make the two environments there, and leave them"
    )
    parser.add_argument("--no-rerun", action="store_true", help="don't repeat modules that differ")
    options = parser.parse_args(arguments)
    if options.jobs < 1:
        parser.error("--jobs must be at least 1")
    if options.directory:
        options.directory = os.path.abspath(options.directory)
        if not options.modules:
            parser.error("--directory needs the names of modules")
    return options


def run_all(
    environments: Environments, options: argparse.Namespace, known: dict[str, str]
) -> tuple[Report, list[Pair]]:
    """Runs what the command line asks for; modules that differ are run a second time, alone."""
    names = options.modules or (FAST if options.fast else MODULES)
    requests: dict[str, dict[Mode, Request]] = {}
    for name in names:
        module = full_name(name, options.directory)
        requests[module] = {
            mode: Request(
                module,
                mode,
                match=options.match,
                path=[options.directory] if options.directory else [],
                stall=options.timeout,
                count_opcodes=bool(options.opcodes),
            )
            for mode in MODES
        }
    pairs = []
    for pair in run_pairs(environments, requests, options.jobs):
        show_pair(pair, options.verbose)
        pairs.append(pair)
    report = Report()
    for pair in pairs:
        if not options.no_rerun and needs_rerun(pair, known):
            print(f"again: {pair.plain.request.module}", flush=True)
            pair.again = run(environments, pair.plain.request), run(environments, pair.interpreted.request)
        judge(pair, known, report)
        check_interpreted(pair, environments, report)
    if not options.match:
        tested = [name for name in known if any(name.startswith(f"{module}.") for module in requests)]
        there = {name for pair in pairs for name in pair.plain.outcomes}
        report.stale.update({name: "there is no such test" for name in tested if name not in there})
    return report, pairs


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the comparison; returns the exit status."""
    options = parse(arguments)
    began = time.monotonic()
    with contextlib.ExitStack() as stack:
        try:
            known = _known.load(options.known or _known.find())
            core = find_core()
        except (CoreNotFoundError, _known.KnownError, OSError) as error:
            print(f"conformance: {error}", file=sys.stderr)
            return 2
        if core is None:
            print(
                "conformance: no core (MAGNETO_CORE=none): plain CPython is compared with itself", flush=True
            )
        root = options.environments or stack.enter_context(tempfile.TemporaryDirectory(prefix="mgt_"))
        environments = make_environments(Path(root).resolve(), core)
        report, pairs = run_all(environments, options, known)
    if options.json:
        write_json(options.json, report, pairs)
    if options.opcodes:
        write_opcodes(options.opcodes, pairs)
    print(f"\n{time.monotonic() - began:.0f} seconds")
    show_report(report, options.verbose)
    return 0 if report.ok else 1


if __name__ == "__main__":
    sys.exit(main())
