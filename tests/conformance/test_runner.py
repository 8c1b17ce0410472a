"""The conformance runner finds what it is there to find."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from magneto.testing import _boot, _known, _modules, _run, conformance, stress

# Where MAGNETO_INTERPRET is "1" the fake tests act as if an interpreter were broken; that needs no core.
PRELUDE = """
import os, signal, sys, time, unittest
OURS = os.environ["MAGNETO_INTERPRET"] == "1"
"""


@pytest.fixture(scope="module")
def stand_in(tmp_path_factory: pytest.TempPathFactory) -> _boot.Environments:
    """Two environments that are both plain."""
    return _boot.make_environments(tmp_path_factory.mktemp("environments"), None)


class Runner:
    """Compares fake modules."""

    def __init__(self, environments: _boot.Environments, directory: Path) -> None:
        self.environments = environments
        self.directory = directory

    def compare(self, body: str, known: dict[str, str] | None = None, *options: str) -> conformance.Report:
        """Writes a fake module, runs it in both modes, and gives the report."""
        (self.directory / "fake.py").write_text(PRELUDE + textwrap.dedent(body), encoding="utf-8")
        arguments = conformance.parse(["fake", "--directory", str(self.directory), *options])
        report, _ = conformance.run_all(self.environments, arguments, known or {})
        return report


@pytest.fixture
def runner(stand_in: _boot.Environments, tmp_path: Path) -> Runner:
    """A runner of fake modules, with the stand-in for the core."""
    return Runner(stand_in, tmp_path)


def test_equal_runs_agree(runner: Runner) -> None:
    report = runner.compare("""
        class T(unittest.TestCase):
            def test_passes(self): pass
            def test_fails(self): self.fail()
            def test_skips(self): self.skipTest("why not")
            @unittest.expectedFailure
            def test_expected(self): self.fail()
            def test_subtests(self):
                for i in range(3):
                    with self.subTest(i=i): self.assertNotEqual(i, 1)
        """)
    assert report.ok
    assert (report.modules, report.compared, report.passing) == (1, 5, 2)
    assert report.last_line() == (
        "conformance: 1 modules, 5 tests compared, 0 known differences, 0 unexpected differences"
    )


def test_a_difference_is_found(runner: Runner) -> None:
    report = runner.compare("""
        class T(unittest.TestCase):
            def test_differs(self): self.assertFalse(OURS, "ours is wrong")
            def test_agrees(self): pass
        """)
    assert not report.ok
    [difference] = report.unexpected
    assert difference.test == "fake.T.test_differs"
    assert (difference.plain.status, difference.interpreted.status) == ("passed", "failed")
    assert "ours is wrong" in difference.interpreted.detail


def test_every_kind_of_difference_is_found(runner: Runner) -> None:
    report = runner.compare("""
        class T(unittest.TestCase):
            def test_error(self):
                if OURS: raise SystemError
            def test_skip(self):
                if OURS: self.skipTest("")
            @unittest.expectedFailure
            def test_unexpected_success(self): self.assertTrue(OURS)
            def test_subtest(self):
                for i in range(3):
                    with self.subTest(i=i): self.assertFalse(OURS and i == 2)
            def test_more_subtests(self):
                for i in range(3):
                    with self.subTest(i=i): self.assertFalse(OURS or i == 2)
            def tearDown(self):
                if OURS and "teardown" in self.id(): raise KeyError
            def test_teardown(self): pass
        class F(unittest.TestCase):
            @classmethod
            def setUpClass(cls):
                if OURS: raise ValueError
            def test_fixture(self): pass
        if not OURS:
            class M(unittest.TestCase):
                def test_missing(self): pass
        """)
    found = {difference.test: difference.interpreted.status for difference in report.unexpected}
    assert found == {
        "fake.T.test_error": "error",
        "fake.T.test_skip": "skipped",
        "fake.T.test_unexpected_success": "unexpected success",
        "fake.T.test_subtest": "failed",
        "fake.T.test_more_subtests": "failed",
        "fake.T.test_teardown": "error",
        "setUpClass (fake.F)": "error",
        "fake.F.test_fixture": "not run",
        "fake.M.test_missing": "not run",
    }


def test_a_crash_is_reported_and_the_other_tests_go_on(runner: Runner) -> None:
    report = runner.compare("""
        class T(unittest.TestCase):
            def test_1(self): pass
            def test_2(self):
                if OURS: os.kill(os.getpid(), signal.SIGABRT)
            def test_3(self): pass
        """)
    [difference] = report.unexpected
    assert (difference.test, difference.interpreted.status) == ("fake.T.test_2", "crashed")
    assert "SIGABRT" in difference.interpreted.detail
    assert "in test_2" in difference.interpreted.detail  # faulthandler's stack
    assert report.compared == 3


def test_a_crash_at_exit_is_reported(runner: Runner) -> None:
    report = runner.compare("""
        import atexit
        if OURS: atexit.register(lambda: os.kill(os.getpid(), signal.SIGABRT))
        class T(unittest.TestCase):
            def test_1(self): pass
        """)
    [difference] = report.unexpected
    assert difference.test == "fake (exit)"


def test_a_crash_that_comes_once_is_not_called_flaky(runner: Runner) -> None:
    report = runner.compare(f"""
        class T(unittest.TestCase):
            def test_1(self):
                marker = {str(runner.directory / "marker")!r}
                if OURS and not os.path.exists(marker):
                    open(marker, "w").close()
                    os.kill(os.getpid(), signal.SIGSEGV)
        """)
    assert [difference.interpreted.status for difference in report.unexpected] == ["crashed"]
    assert not report.flaky


def test_an_import_error_is_reported(runner: Runner) -> None:
    report = runner.compare("""
        if OURS: raise RuntimeError("at import")
        class T(unittest.TestCase):
            def test_1(self): pass
        """)
    found = {difference.test: difference.interpreted for difference in report.unexpected}
    assert set(found) == {"fake (import)", "fake.T.test_1"}
    assert "at import" in found["fake (import)"].detail


def test_a_hang_is_reported(runner: Runner) -> None:
    body = """
        class T(unittest.TestCase):
            def test_1(self):
                while OURS: time.sleep(0.01)
            def test_2(self): pass
        """
    report = runner.compare(body, None, "--timeout", "2", "--no-rerun")
    [difference] = report.unexpected
    assert (difference.test, difference.interpreted.status) == ("fake.T.test_1", "hung")
    assert "in test_1" in difference.interpreted.detail


def test_a_flaky_test_is_counted_and_does_not_fail_the_run(runner: Runner) -> None:
    report = runner.compare(f"""
        class T(unittest.TestCase):
            def test_1(self):
                marker = {str(runner.directory / "marker")!r}
                if OURS and not os.path.exists(marker):
                    open(marker, "w").close()
                    self.fail()
        """)
    assert report.ok
    assert set(report.flaky) == {"fake.T.test_1"}


def test_known_differences_are_allowed_and_stale_ones_are_not(runner: Runner) -> None:
    body = """
        class T(unittest.TestCase):
            def test_differs(self): self.assertFalse(OURS)
            def test_passes(self): pass
        """
    report = runner.compare(body, {"fake.T.test_differs": "because"})
    assert report.ok
    assert report.known == {"fake.T.test_differs": "because"}
    everything = {
        "fake.T.test_differs": "a",
        "fake.T.test_passes": "b",
        "fake.T.test_gone": "c",
        "other.T.test": "d",
    }
    report = runner.compare(body, everything)
    assert not report.ok
    assert set(report.stale) == {"fake.T.test_passes", "fake.T.test_gone"}


def test_tests_with_one_id_are_told_apart(runner: Runner) -> None:
    report = runner.compare("""
        class T(unittest.TestCase):
            def test_1(self):
                T.runs = getattr(T, "runs", 0) + 1
                self.assertFalse(OURS and T.runs == 2)
        def load_tests(loader, tests, pattern):
            return unittest.TestSuite([T("test_1"), T("test_1")])
        """)
    assert [difference.test for difference in report.unexpected] == ["fake.T.test_1#2"]


def test_processes_that_tests_start_are_in_the_same_environment(runner: Runner) -> None:
    report = runner.compare("""
        import subprocess
        class T(unittest.TestCase):
            def test_1(self):
                code = "import sys; sys.exit('magne' in sys.prefix)"
                self.assertEqual(subprocess.call([sys.executable, "-I", "-c", code], env={}), 0)
        """)
    assert [difference.test for difference in report.unexpected] == ["fake.T.test_1"]


def test_of_what_changes_python_only_the_allocator_reaches_the_tests(
    runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONMALLOC", "malloc")
    monkeypatch.setenv("PYTHONOPTIMIZE", "1")
    report = runner.compare("""
        class T(unittest.TestCase):
            def test_1(self):
                names = [name for name in os.environ if name.startswith("PYTHON")]
                self.assertEqual(names, [] if OURS else ["PYTHONMALLOC"])
        """)
    assert [difference.test for difference in report.unexpected] == ["fake.T.test_1"]


def test_the_command_line(tmp_path: Path) -> None:
    (tmp_path / "fake.py").write_text(
        PRELUDE + "class T(unittest.TestCase):\n    def test_1(self): assert not OURS\n"
    )
    command = [sys.executable, "-m", "magneto.testing.conformance", "fake", "--directory", str(tmp_path)]
    command += ["--json", str(tmp_path / "out.json"), "--opcodes", str(tmp_path / "opcodes.json")]
    variables = {**os.environ, "MAGNETO_CORE": "none"}
    done = subprocess.run(command, env=variables, capture_output=True, text=True)
    assert done.returncode == 1, done.stderr
    last = done.stdout.splitlines()[-1]
    assert last == "conformance: 1 modules, 1 tests compared, 0 known differences, 1 unexpected differences"
    written = json.loads((tmp_path / "out.json").read_text())
    assert written["modules"]["fake"]["interpreted"]["outcomes"]["fake.T.test_1"]["status"] == "failed"
    assert json.loads((tmp_path / "opcodes.json").read_text()) == {"executed": {}, "handled": []}


def test_the_list_of_known_differences_is_well_formed(tmp_path: Path) -> None:
    _known.load(Path(__file__).with_name("known.toml"))
    bad = tmp_path / "known.toml"
    for text in (
        '[[known]]\ntest = "a"\n',
        '[[known]]\ntest = "a"\nreason = ""\n',
        '[[known]]\ntest = "a"\nreason = "b"\n' * 2,
        "".join(f'[[known]]\ntest = "{i}"\nreason = "b"\n' for i in range(_known.LIMIT + 1)),
    ):
        bad.write_text(text)
        with pytest.raises(_known.KnownError):
            _known.load(bad)


def test_the_fast_list_is_part_of_the_whole() -> None:
    assert set(_modules.FAST) | set(_modules.SLOW) <= set(_modules.MODULES)
    assert len(set(_modules.MODULES)) == len(_modules.MODULES)


def test_stress_tells_crashes_from_failures(stand_in: _boot.Environments, tmp_path: Path) -> None:
    body = """
class T(unittest.TestCase):
    def test_crash(self):
        if OURS: os.kill(os.getpid(), signal.SIGSEGV)
    def test_fails(self): self.assertFalse(OURS)
    def test_grave(self):
        if OURS: raise SystemError
    def test_grave_everywhere(self): raise SystemError
    def test_passes(self): time.sleep(0.3)
"""
    (tmp_path / "fake.py").write_text(PRELUDE + body)
    request = stress.make_request(1, 60.0, ["fake"])
    request.module, request.path = "fake", [str(tmp_path)]
    request.stress = {"threads": 2, "gc_threshold": [5, 2, 5], "switch_interval": 1e-6}
    tally = stress.Tally()
    failures = stress.find_failures(stand_in, _run.run(stand_in, request), tally)
    found: dict[str, Any] = {failure.test: failure.kind for failure in failures}
    assert found == {"fake.T.test_crash": "crashed", "fake.T.test_grave": "error"}
    assert (tally.tests, tally.failed) == (5, 3)


def test_the_boot_switches_the_interpreter_on() -> None:
    core = _boot.find_core()
    if core is None:
        pytest.skip(
            "MAGNETO_CORE=none asks for runs without magneto's interpreter; this test is about having it"
        )
    code = "import sys; print(sys.modules['magneto._core'].hook_state()['frames'], 'magneto' in sys.modules)"
    command = [sys.executable, "-I", "-S", "-c", f"{_boot.boot_line(core)}exec({code!r})"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    frames, package = done.stdout.split()
    assert int(frames) > 0
    assert package == "False"
