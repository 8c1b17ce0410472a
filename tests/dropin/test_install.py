"""magneto.install(), MAGNETO=1 and `python -m magneto run`."""

from __future__ import annotations

import gc
import inspect
import os
import subprocess
import sys
import textwrap
import warnings
from pathlib import Path

import pytest
import torch
import torch._dynamo
from torch import compile
from torch._dynamo import explain, optimize, optimize_assert, reset

import magneto

SITE = Path(magneto.__file__).parent.parent

pytestmark = pytest.mark.no_leak_hunt("torch.compile keeps what it compiled, or a process of its own")


def counts() -> tuple[int, int]:
    """How many frames each of the two has compiled: both number them, and only torch makes code of them."""
    import torch._dynamo.convert_frame as frames

    gc.collect()  # code that has gone is not counted
    torchs = len(frames.output_codes.seen)
    return sum(frames.FRAME_COMPILE_COUNTER.values()) - torchs, torchs


def function(x):
    return x.sin() + 1


def check(compiled, ours: bool = True) -> None:
    """A call gives what it should, and was compiled by one of the two."""
    before = counts()
    assert torch.equal(compiled(torch.ones(3)), function(torch.ones(3)))
    mine, torchs = (after - first for first, after in zip(before, counts(), strict=True))
    assert (mine > 0, torchs > 0) == (ours, not ours), (mine, torchs)


@pytest.fixture
def installed():
    torch._dynamo.reset()
    magneto.install()
    yield
    magneto.uninstall()
    torch._dynamo.reset()


@pytest.fixture
def run(run_python):
    """Run a program; its output, if it ends well."""

    def run(code: str, **env: str) -> str:
        done = run_python(textwrap.dedent(code), env=env)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def test_names_that_were_imported_before_change_too_and_change_back(installed):
    magneto.install()
    check(compile(function, backend="eager"))
    check(compile(backend="eager")(function))
    check(torch.compile(function, backend="eager", fullgraph=True))
    check(torch.compiler.compile(function, backend="eager"))
    check(optimize("eager")(function))
    check(optimize("eager", nopython=True)(function))
    check(optimize_assert("eager")(function))
    assert type(explain(function)(torch.ones(2))).__module__ == "magneto._report"
    magneto.uninstall()
    magneto.uninstall()
    check(compile(function, backend="eager"), ours=False)
    reset()
    check(optimize("eager")(function), ours=False)
    assert type(explain(function)(torch.ones(2))).__module__ == "torch._dynamo.backends.debugging"
    magneto.install()
    check(compile(function, backend="eager"))


def test_the_functions_stay_what_they_are():
    def look(function):
        return (
            id(function), function.__name__, function.__qualname__, function.__module__, function.__doc__,
            function.__defaults__, function.__kwdefaults__, inspect.signature(function),
            inspect.getsource(function), function.__code__.co_freevars,
        )  # fmt: skip

    functions = [
        torch.compile, torch.nn.Module.compile, torch._dynamo.optimize, torch._dynamo.optimize_assert,
        torch._dynamo.run, torch._dynamo.explain, torch._dynamo.reset, torch._dynamo.reset_code_caches,
        torch._dynamo.eval_frame.remove_from_cache, torch.compiler.compile, torch.compiler.reset,
    ]  # fmt: skip
    codes = [function.__code__ for function in functions]
    looks = [look(function) for function in functions]
    magneto.install()
    try:
        assert torch.compile.__code__ is not codes[0]
        assert [look(function) for function in functions] == looks
    finally:
        magneto.uninstall()
    assert all(function.__code__ is code for function, code in zip(functions, codes, strict=True))


def test_importing_magneto_alone_changes_nothing_and_install_imports_nothing(run):
    run("""
        import sys
        finders = list(sys.meta_path)
        import magneto
        assert sys.meta_path[1:] == finders  # torch._dynamo is waited for, to count where it does
        magneto.install()
        assert "torch" not in sys.modules
        import torch
        assert sys.meta_path[1:] == finders
        changed = torch.compile.__code__
        magneto.uninstall()
        assert sys.meta_path[1:] == finders
        code = torch.compile.__code__
        assert code is not changed
        magneto.install()
        compiled = torch.compile(lambda x: x + 1, backend="eager")
        compiled(torch.ones(2))
        assert "torch._dynamo" not in sys.modules
        compiled = torch._dynamo.optimize("eager")(lambda x: x + 1)  # imported here, and changed with that
        assert len(magneto.cache_entries(compiled)) == 0
        assert torch._dynamo.__loader__.__class__.__name__ == "SourceFileLoader"
        assert torch._dynamo.__spec__.loader is torch._dynamo.__loader__
        magneto.uninstall()
        assert torch.compile.__code__ is code
    """)


def test_modules_are_compiled_in_place(installed):
    module = torch.nn.Linear(3, 3)
    expected = module(torch.ones(3))
    keys = list(module.state_dict())
    module.compile(backend="eager", fullgraph=True)
    before = counts()
    for _ in range(3):
        assert torch.equal(module(torch.ones(3)), expected)
    mine, torchs = (after - first for first, after in zip(before, counts(), strict=True))
    assert (mine, torchs) == (1, 0)
    assert list(module.state_dict()) == keys
    seen = []
    module.register_forward_hook(lambda *args: seen.append(1))
    module(torch.ones(3))
    assert seen == [1]


def test_reset_forgets_what_both_have_compiled(installed):
    compiled = torch.compile(function, backend="eager")
    for forget in (torch._dynamo.reset, torch.compiler.reset, torch._dynamo.reset_code_caches, magneto.reset):
        check(compiled)
        forget()
    check(compiled)
    torch._dynamo.eval_frame.remove_from_cache(lambda x: x)
    assert len(magneto.cache_entries(compiled)) == 1
    torch._dynamo.eval_frame.remove_from_cache(function)
    assert len(magneto.cache_entries(compiled)) == 0


def test_run_uses_what_was_captured_and_captures_no_more(installed):
    compiled = torch.compile(function, backend="eager")
    check(compiled)
    only = torch._dynamo.run(compiled)
    only(torch.ones(3))
    only(torch.ones(4, 4))
    assert len(magneto.cache_entries(compiled)) == 1


def test_calls_by_torch_itself_stay_torchs(installed):
    def torchs_own():
        return torch.compile(function, backend="eager")

    space = {"torch": torch, "function": function, "__name__": "torch._higher_order_ops.utils"}
    check(type(torchs_own)(torchs_own.__code__, space)(), ours=False)


def test_exports_stay_torchs(run):
    run("""
        import torch, magneto
        import torch._dynamo
        magneto.install()
        result = torch._dynamo.export(lambda x: x.sin() + 1)(torch.ones(3))
        assert len(result.graph_module.graph.nodes) == 4
        exported = torch.export.export(torch.nn.Linear(2, 2), (torch.ones(1, 2),), strict=True)
        assert exported.module()(torch.ones(1, 2)).shape == (1, 2)
    """)


def test_compile_in_captured_code_is_called_whole(installed):
    def outer(x):
        return torch.compile(function, backend="eager")(x) * 2

    before = counts()[0]
    assert torch.equal(torch.compile(outer, backend="eager")(torch.ones(3)), outer(torch.ones(3)))
    assert counts()[0] - before < 10  # and not what torch.compile does inside


def test_compile_in_an_export_does_nothing(installed):
    class Module(torch.nn.Module):
        def forward(self, x):
            with warnings.catch_warnings(record=True) as seen:
                warnings.simplefilter("always")
                compiled = torch.compile(function)
            assert compiled is function and "inside torch.export" in str(seen[0].message)
            return compiled(x)

    torch.export.export(Module(), (torch.ones(2),), strict=False)


def test_what_others_change_meanwhile_stays_theirs():
    before = torch.compile.__code__
    magneto.install()
    try:
        torch.compile.__code__ = theirs = (lambda *args, **kwargs: 7).__code__
        magneto.uninstall()
        assert torch.compile.__code__ is theirs
    finally:
        torch.compile.__code__ = before


# ---- MAGNETO=1 ----

START = f"import site; site.addsitedir({str(SITE)!r})\n"  # what Python does with its own site-packages


def test_the_environment_variable_installs_it_when_torch_is_imported(run):
    program = START + textwrap.dedent("""
        import sys
        assert "_magneto_startup" in sys.modules and not {"magneto", "torch"} & set(sys.modules)
        import torch
        compiled = torch.compile(lambda x: x + 1, backend="eager")
        import magneto
        assert type(compiled) is magneto._core.Compiled
        magneto.uninstall()
        assert type(torch.compile(lambda x: x + 1, backend="eager")) is type(lambda: 0)
    """)
    run(program, MAGNETO="1")


@pytest.mark.parametrize(("value", "ours"), [("1", True), ("0", False), ("", False), (None, False)])
def test_the_line_in_the_pth_file_imports_nothing_when_it_is_not_set(monkeypatch, value, ours):
    line = (SITE / "magneto.pth").read_text()
    assert line.startswith("import ") and line.count("\n") == 1  # what Python executes of such a file
    if value is None:
        monkeypatch.delenv("MAGNETO", raising=False)
    else:
        monkeypatch.setenv("MAGNETO", value)
    imported = []

    def note(name, *args):
        imported.append(name)
        return os

    exec(line, {"__builtins__": {"__import__": note}})
    assert imported == ["os", "_magneto_startup"][: 1 + ours]  # os is there before


def test_the_environment_variable_with_another_torch_is_a_warning(run_python, tmp_path):
    info = tmp_path / "torch-2.12.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: torch\nVersion: 2.12.0\n")
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    done = run_python(START + "import torch; print('on')", env={"MAGNETO": "1", "PYTHONPATH": path})
    assert (done.returncode, done.stdout) == (0, "on\n")
    assert (
        "RuntimeWarning: MAGNETO is set, but magneto can't be used: magneto needs torch 2.13.0" in done.stderr
    )


# ---- python -m magneto run ----


def magneto_run(*arguments: str, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "magneto", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)


PROGRAM = """\
import os, sys, pickle
import torch

class Local:
    pass

@torch.compile(backend="eager")
def function(x):
    return x + 1

if __name__ == "__main__":
    import beside
    assert type(pickle.loads(pickle.dumps(Local()))) is Local
    assert sys.modules["__main__"].function is function
    print(type(function).__module__, function(torch.ones(1)).item(), sys.argv, __file__, os.environ["MAGNETO"])
    sys.exit(3)
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "beside.py").write_text("")
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").write_text("")
    (tmp_path / "package" / "__main__.py").write_text(PROGRAM)
    return tmp_path


def test_a_script_is_run(folder, tmp_path_factory):
    path = str(folder / "program.py")
    done = magneto_run("run", path, "-x", "--", "run", folder=tmp_path_factory.mktemp("elsewhere"))
    assert done.returncode == 3, done.stderr
    assert done.stdout == f"magneto._core 2.0 {[path, '-x', '--', 'run']} {path} 1\n"


def test_a_module_is_run(folder):
    done = magneto_run("run", "-m", "package", "-m", "y", folder=folder)
    assert done.returncode == 3, done.stderr
    path = str(folder / "package" / "__main__.py")
    assert done.stdout == f"magneto._core 2.0 {[path, '-m', 'y']} {path} 1\n"


def test_a_folder_is_run(folder):
    (folder / "package" / "beside.py").write_text("")
    done = magneto_run("run", "package", "z", folder=folder)
    assert done.returncode == 3, done.stderr
    assert done.stdout.startswith("magneto._core 2.0 ['package', 'z'] ")


def test_errors_of_a_script_are_its_own(folder):
    (folder / "program.py").write_text("def f():\n    raise ValueError('mine')\nf()\n")
    done = magneto_run("run", "program.py", folder=folder)
    assert done.returncode == 1
    assert done.stderr.rstrip().endswith("in f\n    raise ValueError('mine')\nValueError: mine")


@pytest.mark.parametrize("arguments", [[], ["run"], ["run", "-m"], ["walk", "x.py"]])
def test_usage(arguments):
    done = magneto_run(*arguments)
    assert done.returncode == 2 and "usage: python -m magneto run SCRIPT" in done.stdout + done.stderr


def test_a_script_that_is_not_there_is_named():
    done = magneto_run("run", "nowhere.py")
    assert done.returncode == 1
    assert done.stderr == "python -m magneto run: can't open 'nowhere.py': No such file or directory\n"


def test_optimize_takes_a_filter_of_guards(run):
    run("""
        import torch, magneto
        import torch._dynamo
        magneto.install()
        asked = []
        def keep_none(entries):
            asked.append(len(entries))
            return [False] * len(entries)
        scale = 2
        def f(x):
            return x * scale
        compiled = torch._dynamo.optimize("eager", guard_filter_fn=keep_none)(f)
        assert compiled(torch.ones(2)).tolist() == [2, 2]
        scale = 3
        assert compiled(torch.ones(2)).tolist() == [2, 2]  # nobody looks
        assert len(asked) == 1 and asked[0] > 0
        assert magneto.cache_entries(compiled)
    """)
