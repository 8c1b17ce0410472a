"""Runs each test many times in one process, and reports those that leave more behind each time.

A test is first run to fill caches. Then it is run again, and after each run three figures are taken: the blocks
that CPython's allocator has given out, the objects that its garbage collector knows, and the bytes that malloc has
given out. What leaks grows in *every* run, so a few runs clear most tests. One with a figure that grew in each is
suspect: it is warmed up further and measured again, over more runs and then over many, and only if the figure still
grows each time is it reported as a leak. The bytes of malloc, which counts freed blocks that it keeps at hand as given
out, have to do so twice as often.

    python tests/leaks/hunt.py [--warmups N] [--runs N] [--interpreted] [--marked TEXT] [pytest arguments]

With --marked only tests are hunted that are left out otherwise, for a reason that has this text: is it still true?
"""

from __future__ import annotations

import argparse
import array
import contextvars
import ctypes
import functools
import gc
import itertools
import linecache
import re
import sys
import weakref
from typing import NamedTuple

import pytest
from _pytest.fixtures import FixtureDef
from _pytest.runner import runtestprotocol

import magneto
from magneto import _core


class Mallinfo(ctypes.Structure):
    """glibc's `struct mallinfo2`."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost".split()
    ]


class Figures(NamedTuple):
    """What is in use at one moment, or the growth between two."""

    blocks: int
    objects: int
    bytes: int

    def grown(self, before: Figures) -> Figures:
        return Figures(*(now - then for now, then in zip(self, before, strict=True)))


# Fewer bytes than this in a run are malloc's own affair; a leaked block shows with more.
LEAST = Figures(blocks=1, objects=1, bytes=16)


def malloc_bytes_in_use() -> int:
    """The bytes that malloc has given out, or 0 where libc does not tell."""
    try:
        mallinfo2 = ctypes.CDLL(None).mallinfo2
    except (AttributeError, OSError):
        return 0
    mallinfo2.restype = Mallinfo
    info = mallinfo2()
    return int(info.uordblks + info.hblkhd)


def clear_sympy() -> None:
    """Empty what sympy, and torch's functions for it, remember of expressions, with the numbers in them."""
    if "sympy.core.cache" not in sys.modules:
        return
    sys.modules["sympy.core.cache"].clear_cache()
    for name, module in list(sys.modules.items()):
        if name.startswith(("torch.utils._sympy", "torch.fx.experimental")):
            for value in list(vars(module).values()):
                for part in [value, *(vars(value).values() if isinstance(value, type) else ())]:
                    if isinstance(part, functools._lru_cache_wrapper):
                        part.cache_clear()


def clear_torch_compile() -> None:
    """Drop what `torch.compile` keeps of each compilation, for as long as the process, or the code, lives."""
    module = sys.modules.get("torch._dynamo.convert_frame")
    if module is not None:
        for codes in (module.input_codes, module.output_codes):
            codes.seen[:] = [reference for reference in codes.seen if reference() is not None]
        module.dynamo_tls.traced_frame_infos.clear()
        module.FRAME_COMPILE_COUNTER.clear()
    module = sys.modules.get("torch._dynamo.eval_frame")
    if module is not None:
        module.cached_backends.clear()
    module = sys.modules.get("torch._dynamo.source")
    if module is not None:
        for value in vars(module).values():  # what they answered, with the sources that were asked about
            getattr(value, "cache_clear", int)()
    module = sys.modules.get("torch._dynamo.guards")
    if module is not None:
        for finalizer in list(weakref.finalize._registry):  # type: ignore[attr-defined]
            function = finalizer._registry[finalizer].func
            owner = getattr(getattr(function, "func", function), "__self__", None)
            if isinstance(owner, module.CheckFunctionManager):
                finalizer.detach()


def forget_compiled() -> None:
    """Have TorchDynamo forget what it has compiled: torch.cond, which uses it in eager, raises beyond a number."""
    module = sys.modules.get("torch._dynamo.convert_frame")
    if module is not None:
        sys.modules["torch._dynamo"].reset_code_caches()
        module.input_codes.clear()
        module.output_codes.clear()


def clear_torch() -> None:
    """Empty torch's caches, where their modules are loaded."""
    module = sys.modules.get("torch.fx.graph_module")
    if module is not None:
        module._loader.eval_cache.clear()  # the code of every graph that was made
    module = sys.modules.get("torch.fx.experimental.symbolic_shapes")
    if module is not None:
        for value in vars(
            module.ShapeEnv
        ).values():  # their last few hundred answers, with the ShapeEnv that gave them
            getattr(value, "cache_clear", int)()
    module = sys.modules.get("torch._dynamo.utils")
    if module is not None:
        module.clear_compilation_metrics()
        module.compilation_time_metrics.clear()
        module.guard_failures.clear()
        module._get_debug_dir.cache_clear()
        module.graph_break_reasons.clear()
        module.get_metrics_context()._edits.clear()  # who set each figure, of all contexts that there ever were
        sys.modules["torch._logging._internal"].structured_logging_overhead.clear()
    clear_sympy()
    clear_torch_compile()
    module = sys.modules.get("torch._subclasses.fake_tensor")
    if module is not None:
        module.FakeTensorMode.cache_clear()  # what operations give on FakeTensors


def clear_caches() -> None:
    """Empty the caches of the standard library and of torch, which grow for good reasons; and magneto's."""
    clear_torch()
    _core.forget_outcomes()
    if "magneto._shared" in sys.modules:
        sys.modules["magneto._shared"]._by_code.clear()  # the last few graphs of each function
    for counter in magneto.counters.values():
        counter.clear()
    re.purge()
    linecache.clearcache()
    sys._clear_type_cache()
    for name, module in list(sys.modules.items()):
        content = getattr(module, "__dict__", None)
        if type(content) is not dict:  # torch puts other things there, which make up what they are asked for
            continue
        registry = content.get("__warningregistry__")
        if registry:
            registry.clear()
        if name in ("typing", "inspect", "tokenize", "fnmatch", "ast"):
            for value in list(content.values()):
                if isinstance(value, functools._lru_cache_wrapper):
                    value.cache_clear()
    for clean in getattr(sys.modules.get("typing"), "_cleanups", ()):
        clean()


def measure() -> Figures:
    """Take the three figures, when all garbage is gone."""
    clear_caches()
    for _ in range(3):
        if gc.collect() == 0:
            break
    return Figures(sys.getallocatedblocks(), len(gc.get_objects()), malloc_bytes_in_use())


class Sibling:
    """Stands for another test of the same file, so that pytest tears down no more than the test itself."""

    def __init__(self, item: pytest.Item) -> None:
        self.parents = item.listchain()[:-1]

    def listchain(self) -> list[object]:
        return list(self.parents)


def is_finished(finish: object) -> bool:
    """Whether this is the `finish` method of a fixture that is finished."""
    fixture = getattr(finish, "__self__", None)
    return isinstance(fixture, FixtureDef) and fixture.cached_result is None


class Hunter:
    """A pytest plugin that runs each test many times."""

    def __init__(self, warmups: int, runs: int, interpreted: bool, marked: str | None = None) -> None:
        self.marked = marked
        self.warmups = warmups
        self.runs = runs
        self.interpreted = interpreted
        self.hunted = 0
        self.left_out: dict[str, int] = {}
        self.leaks: list[str] = []

    def run_once(self, item: pytest.Item) -> list[pytest.TestReport]:
        """Run a test with its fixtures from scratch."""
        item._initrequest()  # type: ignore[attr-defined]
        before = _core.interpret_all(True) if self.interpreted else None
        try:
            # Context variables that the test sets go with this context: torch makes one for each patch of its settings.
            context = contextvars.copy_context()
            return context.run(runtestprotocol, item, nextitem=Sibling(item), log=False)
        finally:
            if before is not None:
                _core.interpret_all(before)
            self.forget_finished_fixtures(item)
            item._report_sections.clear()  # what it printed

    def terminal(self, item: pytest.Item) -> pytest.TerminalReporter:
        return item.config.pluginmanager.get_plugin("terminalreporter")  # type: ignore[no-any-return]

    def forget_finished_fixtures(self, item: pytest.Item) -> None:
        """Drop what a fixture that outlives the test (tmp_path_factory, say) keeps of each run.

        pytest has it remember every fixture that was built on it, to be finished before it. Those of the test
        are finished by now.
        """
        for definitions in item._fixtureinfo.name2fixturedefs.values():  # type: ignore[attr-defined]
            for definition in definitions:
                finalizers = definition._finalizers
                finalizers[:] = [
                    finalizer
                    for finalizer in finalizers
                    if not isinstance(finalizer, functools.partial) or not is_finished(finalizer.func)
                ]

    def growth(self, item: pytest.Item, runs: int) -> list[Figures]:
        """Run a test `runs` times; gives how much each figure grew in each run."""
        # What is there by now (torch, say) need not be looked through after each run, nor for each test.
        if self.hunted % 100 == 0:
            gc.unfreeze()
        gc.collect()
        gc.freeze()
        # The figures go into an array made beforehand, as objects that hold them would be counted themselves.
        width = len(Figures._fields)
        table = array.array("q", bytes(8 * width * (runs + 1)))
        for index in range(runs + 1):
            if index:
                self.run_once(item)
            for column, figure in enumerate(measure()):
                table[width * index + column] = figure
        rows = [Figures(*table[start : start + width]) for start in range(0, len(table), width)]
        return [now.grown(then) for then, now in itertools.pairwise(rows)]

    def suspects(self, growth: list[Figures]) -> list[str]:
        """The names of the figures that grew in every run."""
        return [
            name
            for name in Figures._fields
            if all(getattr(step, name) >= getattr(LEAST, name) for step in growth)
        ]

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool:
        item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        mark = item.get_closest_marker("no_leak_hunt")
        reason = None if mark is None else mark.args[0] if mark.args else mark.kwargs["reason"]
        if (self.marked is None) if reason is None else (self.marked is not None and self.marked in reason):
            self.hunt(item, nextitem)
        else:
            reason = reason or "is not marked"
            self.left_out[reason] = self.left_out.get(reason, 0) + 1
            item.session._setupstate.teardown_exact(nextitem)
        item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        return True

    def hunt(self, item: pytest.Item, nextitem: pytest.Item | None) -> None:
        forget_compiled()
        reports = self.run_once(item)
        if all(report.passed for report in reports):
            growth: list[Figures] = []
            for warmups, runs in ((1, 2), (self.warmups, self.runs), (0, self.runs * 3), (0, self.runs * 6)):
                if runs > self.runs * 3 and self.suspects(growth) != ["bytes"]:
                    break  # only malloc's figure goes up and down so much that it may go up twelve times
                for _ in range(warmups):
                    self.run_once(item)
                growth = self.growth(item, runs)
                if not self.suspects(growth):
                    break
            grown = self.suspects(growth)
            self.hunted += 1
            if grown:
                steps = "; ".join(f"{name} {[getattr(step, name) for step in growth]}" for name in grown)
                self.leaks.append(f"{item.nodeid}: {steps}")
                self.terminal(item).write_line(f"\nleaks: {self.leaks[-1]}")  # now: the run may take long
                reports[1].outcome = "failed"
                reports[1].longrepr = f"leaks: {steps}"
        for report in reports:
            item.ihook.pytest_runtest_logreport(report=report)
        item.session._setupstate.teardown_exact(nextitem)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        write = terminalreporter.write_line
        terminalreporter.section("leak hunt")
        for reason, count in sorted(self.left_out.items()):
            write(f"left out: {count} tests ({reason})")
        for leak in self.leaks:
            write(f"LEAK {leak}")
        write(f"{self.hunted} tests hunted, {len(self.leaks)} leaks")


def parse(arguments: list[str]) -> tuple[argparse.Namespace, list[str]]:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--warmups", type=int, default=3, help="runs of a suspect before it is measured again"
    )
    parser.add_argument(
        "--runs", type=int, default=4, help="measured runs of a suspect; then three times, six times as many"
    )
    parser.add_argument(
        "--interpreted",
        action="store_true",
        help="have magneto's interpreter execute the tests themselves too",
    )
    parser.add_argument(
        "--marked", metavar="TEXT", help="only tests marked no_leak_hunt, for reasons with it"
    )
    return parser.parse_known_args(arguments)


def main(arguments: list[str]) -> int:
    options, rest = parse(arguments)
    hunter = Hunter(options.warmups, options.runs, options.interpreted, options.marked)
    # pytest's own records of each run would grow: no cache, no captured log, no list of warnings.
    rest = [
        "-q",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:logging",
        "-p",
        "no:warnings",
        "-p",
        "no:hypothesispytest",
        *rest,
    ]
    status = pytest.main(rest, plugins=[hunter])
    return 1 if hunter.leaks else int(status)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
