"""Libraries of AOTInductor, and the cache that keeps them for other processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import magneto
from magneto import _aot, _backends, _diskcache, _shared

PROGRAM = Path(__file__).with_name("aot_program.py")
LIBRARIES = ("net", "views", "written", "random", "raises")

pytestmark = pytest.mark.no_leak_hunt("what is compiled is compiled in processes of their own")


def run(folder: Path, *names: str, **environment: str) -> dict[str, Any]:
    """Run the program in a process of its own, with a cache in a folder."""
    done = subprocess.run(
        [sys.executable, str(PROGRAM), *names],
        capture_output=True,
        text=True,
        timeout=600,
        env={
            **os.environ,
            "MAGNETO_CACHE_DIR": str(folder / "graphs"),
            "OMP_NUM_THREADS": "1",
            **environment,
        },
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any], dict[str, Any]]:
    """The folder, and what a process with an empty cache and one with a full cache have found."""
    folder = tmp_path_factory.mktemp("aot")
    return folder, run(folder), run(folder)


@pytest.mark.parametrize("name", [*LIBRARIES, "refused"])
def test_results_are_right_and_the_same_cold_and_warm(runs: Any, name: str) -> None:
    for figures in runs[1:]:
        assert figures[name]["right"], figures[name]
    cold, warm = ({**figures[name], "log": None, "imported": None} for figures in runs[1:])
    assert cold == warm


@pytest.mark.parametrize("name", LIBRARIES)
def test_a_new_process_finds_the_libraries(runs: Any, name: str) -> None:
    assert any("was found in the cache" in text for text in runs[2][name]["log"]), runs[2][name]


def test_neither_torchdynamo_nor_inductor_is_imported(runs: Any) -> None:
    for name in ("net", "views"):
        assert runs[2][name]["imported"] == []


def test_what_is_around_a_graph_is_done(runs: Any) -> None:
    for figures in runs[1:]:
        assert figures["views"]["view"] and figures["views"]["input"]
        assert figures["written"]["version"]
        assert figures["net"]["entries"] == 1


def test_what_can_not_be_a_library_is_told_once(runs: Any) -> None:
    cold, warm = runs[1]["refused"]["log"], runs[2]["refused"]["log"]
    assert any("left to inductor's own cache: an input is a number" in text for text in cold), cold
    assert warm == []


def test_a_damaged_library_is_compiled_anew(runs: Any, tmp_path: Path) -> None:
    graphs = tmp_path / "graphs"
    graphs.mkdir(0o700)
    for path in (runs[0] / "graphs").iterdir():
        data = path.read_bytes()
        target = graphs / path.name
        target.write_bytes(data[: len(data) // 2])
        target.chmod(0o600)
    figures = run(tmp_path, "views")
    assert figures["views"]["right"]
    assert any("is damaged" in text for text in figures["views"]["log"])


def test_without_the_option_there_are_no_libraries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAGNETO_CACHE_DIR", str(tmp_path / "graphs"))
    for options in (None, {"aot": False}):
        backend = _backends.find("inductor", None, None, aot=None if options is None else options["aot"])
        assert _aot.attempt(backend, _ticket(), "f", _entry()) is None
    assert not (tmp_path / "graphs").exists()


def test_the_option_is_true_or_false() -> None:
    with pytest.raises(TypeError, match="the option aot is True or False"):
        magneto.compile(lambda x: x, backend="inductor", options={"aot": 1})


def test_gradients_and_autocast_are_left_to_the_jit() -> None:
    backend = _backends.find("inductor", aot=True)
    assert _aot.attempt(backend, _ticket(), "f", _entry()) is not None
    assert _aot.attempt(backend, _ticket(), "f", _entry(torch.ones(2, requires_grad=True))) is None
    with torch.autocast("cpu"):
        assert _aot.attempt(backend, _ticket(), "f", _entry()) is None


# ---- the key ----


_entries: list[Any] = []


def _entry(x: torch.Tensor | None = None) -> Any:
    """The entry of a small graph."""
    function = magneto.compile(lambda x: x.sin() + 1, backend="eager")
    function(torch.ones(2) if x is None else x)
    _entries.append(function)
    return magneto.cache_entries(function)[0].entry


def _ticket(function: Any = None, *args: Any) -> _shared.Ticket:
    """What is told of the graph of a function by inductor's maker."""
    taken: list[_shared.Ticket] = []
    by = _shared.maker(_backends.find("inductor", aot=True))

    def backend(module: Any, inputs: Any) -> Any:
        return module.forward

    compiled = magneto.compile(function or (lambda x: x.sin() + 1), backend=backend)
    observer = compiled.stopped.__self__
    original = observer.ticket

    def ticket(entry: Any) -> Any:
        taken.append(_shared.Ticket(observer, entry.codes[0], by, entry.key(), entry))
        return original(entry)

    observer.ticket = ticket
    compiled(*(args or (torch.ones(2),)))
    return taken[0]


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    magneto.reset()
    yield
    _entries.clear()
    magneto.reset()


def test_the_key_is_that_of_the_graph() -> None:
    first, second = _ticket(), _ticket(lambda y: torch.Tensor.sin(y) + 1)
    other = _ticket(lambda x: x.sin() + 2)
    assert _aot.key_of(_ticket()) == _aot.key_of(first)
    assert _aot.key_of(first) != _aot.key_of(other)
    assert second is not None


def test_the_key_is_the_same_in_each_process(tmp_path: Path) -> None:
    program = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from backends.test_aot import _ticket\nfrom magneto import _aot\nprint(_aot.key_of(_ticket()))"
    )
    keys = set()
    for seed in ("1", "2"):
        done = subprocess.run(
            [sys.executable, "-c", program, str(Path(__file__).parent.parent)],
            capture_output=True, text=True, env={**os.environ, "PYTHONHASHSEED": seed},
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        keys.add(done.stdout)
    assert len(keys) == 1


def test_another_torch_processor_or_setting_has_another_key(monkeypatch: pytest.MonkeyPatch) -> None:
    from torch._inductor import config

    ticket = _ticket()
    keys = [_aot.key_of(ticket)]
    with monkeypatch.context() as patch:
        patch.setattr(torch, "__version__", "9.9")
        keys.append(_aot.key_of(ticket))
    with monkeypatch.context() as patch:
        patch.setattr(_aot, "machine", lambda: "another")
        keys.append(_aot.key_of(ticket))
    with monkeypatch.context() as patch:
        patch.setattr(magneto, "__version__", "9.9")
        keys.append(_aot.key_of(ticket))
    with monkeypatch.context() as patch:
        patch.setenv("TORCHINDUCTOR_FREEZING", "1")
        keys.append(_aot.key_of(ticket))
    with config.patch(max_autotune=True):
        keys.append(_aot.key_of(ticket))
    with config.patch({"cpp.enable_unsafe_math_opt_flag": True}):
        keys.append(_aot.key_of(ticket))
    threads = torch.get_num_threads()
    torch.set_num_threads(threads + 1)
    keys.append(_aot.key_of(ticket))
    torch.set_num_threads(threads)
    assert len(set(keys)) == len(keys)
    assert _aot.key_of(ticket) == keys[0]


def test_settings_that_hold_functions_have_no_key() -> None:
    from torch._inductor import config

    with config.patch(post_grad_custom_post_pass=lambda graph: None):
        assert _aot.key_of(_ticket()) is None


def test_functions_of_the_users_have_no_key() -> None:
    @torch.compiler.allow_in_graph
    def inner(x: torch.Tensor) -> torch.Tensor:
        return x + 1

    assert _aot.key_of(_ticket(lambda x: inner(x) * 2)) is None


def test_a_file_that_can_not_be_loaded_is_compiled_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("MAGNETO_CACHE_DIR", str(tmp_path))
    tmp_path.chmod(0o700)
    ticket = _ticket()
    attempt = _aot.Attempt(str(_aot.key_of(ticket)), ticket, "f", 2, {})
    header = {
        "inputs": [0],
        "outputs": [[0, 0]],
        "written": [],
        "order": None,
        "apart": None,
        "decisions": [],
    }
    _diskcache.keep(attempt.key, header, b"no library")
    with caplog.at_level("WARNING", "magneto"):
        assert attempt.find(_entry()) is None
    assert "can't be used, and is compiled anew" in caplog.text
