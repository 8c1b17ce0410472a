"""Runs one of CPython's test modules and writes each test's outcome to a file, one JSON object a line.

Started as a script in its own process, by `_run`. Each line is written at once, so that after a crash the
file says which test was running. What regrtest sets up for a test, this sets up too.
"""

from __future__ import annotations

import faulthandler
import fnmatch
import gc
import importlib
import json
import os
import random
import signal
import sys
import threading
import time
import traceback
import unittest
from collections.abc import Callable, Iterator
from typing import Any

# From harmless to grave; a test that has several outcomes (of subtests, of tearDown) has the gravest.
RANK = ("none", "passed", "expected failure", "skipped", "unexpected success", "failed", "error")


class Journal:
    """The file of outcomes."""

    def __init__(self, path: str) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._write = os.write
        self._dumps = json.JSONEncoder().encode

    def add(self, event: str, **fields: object) -> None:
        """Appends one line."""
        self._write(self._fd, (self._dumps({"event": event, **fields}) + "\n").encode())


class JournalResult(unittest.TestResult):
    """A TestResult that writes to a journal."""

    def __init__(self, journal: Journal, keys: dict[int, str]) -> None:
        super().__init__()
        self._journal = journal
        self._keys = keys
        self._key = ""
        self._began = 0.0
        self._status = "none"
        self._details: list[str] = []
        self._subtests: list[str] = []
        self._clock = time.monotonic

    def startTest(self, test: unittest.TestCase) -> None:
        self.testsRun += 1
        self._key = self._keys.pop(id(test), "") or test.id()
        self._status, self._details, self._subtests = "none", [], []
        self._journal.add("start", id=self._key)
        self._began = self._clock()

    def stopTest(self, test: unittest.TestCase) -> None:
        self._emit(self._key)
        self._key = ""

    def addSuccess(self, test: unittest.TestCase) -> None:
        self._note(test, "passed")

    def addError(self, test: unittest.TestCase, err: Any) -> None:
        self._note(test, "error", self._text(err, test))

    def addFailure(self, test: unittest.TestCase, err: Any) -> None:
        self._note(test, "failed", self._text(err, test))

    def addSkip(self, test: unittest.TestCase, reason: str) -> None:
        self._note(test, "skipped", reason)

    def addExpectedFailure(self, test: unittest.TestCase, err: Any) -> None:
        self._note(test, "expected failure")

    def addUnexpectedSuccess(self, test: unittest.TestCase) -> None:
        self._note(test, "unexpected success")

    def addSubTest(self, test: unittest.TestCase, subtest: unittest.TestCase, err: Any) -> None:
        if err is None:
            return
        self._subtests.append(str(subtest))
        failed = issubclass(err[0], test.failureException)
        self._note(test, "failed" if failed else "error", f"{subtest}\n{self._text(err, test)}")

    def _note(self, test: unittest.TestCase, status: str, detail: str = "") -> None:
        """Takes one outcome in; outside of a test (a fixture of a class or module) it is written at once."""
        fixture = not self._key
        if fixture:
            self._status, self._details, self._subtests = "none", [], []
        if RANK.index(status) > RANK.index(self._status):
            self._status = status
        if detail:
            self._details.append(detail)
        if fixture:
            self._began = self._clock()
            self._emit(test.id())

    def _emit(self, key: str) -> None:
        self._journal.add(
            "result",
            id=key,
            status=self._status,
            seconds=round(self._clock() - self._began, 4),
            detail="\n".join(self._details)[:20000],
            subtests=self._subtests,
        )

    def _text(self, err: Any, test: unittest.TestCase) -> str:
        try:
            return "".join(traceback.format_exception(*err))
        except BaseException as error:
            return f"{err[0].__name__} (its traceback can't be formatted: {type(error).__name__}: {error})\n"


def each_test(suite: Any) -> Iterator[Any]:
    """The test cases of a suite, in the order in which they run."""
    for test in suite:
        if isinstance(test, unittest.BaseTestSuite):
            yield from each_test(test)
        else:
            yield test


def name_tests(suite: unittest.TestSuite) -> dict[int, str]:
    """A unique name for each test: its id, with a number where several tests share one."""
    seen: dict[str, int] = {}
    keys = {}
    for test in each_test(suite):
        name = test.id()
        seen[name] = seen.get(name, 0) + 1
        keys[id(test)] = name if seen[name] == 1 else f"{name}#{seen[name]}"
    return keys


def keep_tests(suite: Any, wanted: Callable[[Any], bool]) -> None:
    """Drops the tests that are not wanted, leaving the suites (and so the fixtures) as they are."""
    kept = []
    for test in suite._tests:
        if isinstance(test, unittest.BaseTestSuite):
            keep_tests(test, wanted)
            kept.append(test)
        elif wanted(test):
            kept.append(test)
    suite._tests = kept


def set_up_process(seed: int, slow: float) -> None:
    """What regrtest does before it runs a module; `slow` stretches the timeouts of tests."""
    support: Any = importlib.import_module("test.support")
    utils: Any = importlib.import_module("test.libregrtest.utils")
    os.umask(0o022)
    faulthandler.enable(all_threads=True, file=2)
    for number in (signal.SIGALRM, signal.SIGUSR1):
        faulthandler.register(number, chain=True, file=2)
    support.record_original_stdout(sys.stdout)
    sys.addaudithook(lambda name, args: None)
    utils.setup_unraisable_hook()
    utils.setup_threading_excepthook()
    support.verbose = 0
    support.failfast = False
    support.junit_xml_list = None
    support.use_resources = ()
    for name in ("LOOPBACK_TIMEOUT", "SHORT_TIMEOUT", "LONG_TIMEOUT"):
        setattr(support, name, getattr(support, name) * slow)
    random.seed(seed)


def run_module(module: str, journal: Journal, skip: frozenset[str], match: list[str]) -> None:
    """Imports `module`, runs its tests but those in `skip`, and writes what came of it."""
    support: Any = importlib.import_module("test.support")
    try:
        support.gc_collect()
        tested = importlib.import_module(module)
        loader = unittest.TestLoader()
        suite = loader.loadTestsFromModule(tested)
        if loader.errors:
            raise ImportError("\n".join(str(error) for error in loader.errors))
    except unittest.SkipTest as error:
        journal.add("module", status="skipped", detail=str(error))
        return
    keys = name_tests(suite)
    journal.add("loaded", count=len(keys))

    def wanted(test: Any) -> bool:
        key = keys[id(test)]
        return key not in skip and (not match or any(fnmatch.fnmatchcase(key, pattern) for pattern in match))

    keep_tests(suite, wanted)
    suite.run(JournalResult(journal, keys))
    support.gc_collect()
    support.reap_children()


def perturb(options: dict[str, Any], stop: threading.Event, journal: Journal) -> list[threading.Thread]:
    """Makes this process a hard place to live in: frequent GC, frequent thread switches, busy threads."""
    if "switch_interval" in options:
        sys.setswitchinterval(options["switch_interval"])
    if "gc_threshold" in options:
        gc.set_threshold(*options["gc_threshold"])
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    workloads: Any = importlib.import_module("_workloads")
    del sys.path[0]

    reports = iter(range(50))  # no more: the journal's growth is how the parent sees that tests go on

    def report(name: str, kind: str, detail: str) -> None:
        if next(reports, None) is not None:
            journal.add("workload", name=name, kind=kind, detail=detail)

    threads = []
    for number in range(options.get("threads", 0)):
        arguments = (stop, options.get("seed", 0) + number, report)
        thread = threading.Thread(target=workloads.run_until, args=arguments, daemon=True)
        thread.start()
        threads.append(thread)
    return threads


def main(arguments: list[str]) -> None:
    """Runs what the request (a file with a JSON object, the only argument) asks for."""
    with open(arguments[0], encoding="utf-8") as stream:
        request = json.load(stream)
    sys.path[0:1] = request["path"]  # in place of this script's directory
    journal = Journal(request["journal"])
    core: Any = sys.modules.get("magneto._core")
    if core is not None and request["count_opcodes"]:
        core.count_opcodes(True)
    stop = threading.Event()
    threads: list[threading.Thread] = []
    try:
        set_up_process(request["seed"], request["slow"])
        if request["stress"] is not None:
            threads = perturb(request["stress"], stop, journal)
        run_module(request["module"], journal, frozenset(request["skip"]), request["match"])
    except BaseException:
        journal.add("module", status="error", detail=traceback.format_exc())
    stop.set()
    for thread in threads:
        thread.join(60)
    facts: dict[str, object] = {}
    if core is not None:
        facts["hook"] = {key: int(value) for key, value in core.hook_state().items()}
        facts["handled"] = sorted(core.handled_opcodes())
        if request["count_opcodes"]:
            facts["opcodes"] = list(core.opcode_counts())
    journal.add("end", **facts)


if __name__ == "__main__":
    main(sys.argv[1:])
