"""What varied is remembered on disk, under the id of a job."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.compiler.config

import magneto
from magneto import _remembered

pytestmark = pytest.mark.no_leak_hunt("libc keeps each value that an environment variable has had")

JOB = "a job"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A cache folder for the test, and a job."""
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    torch._dynamo.reset()
    magneto.reset()
    with torch.compiler.config.patch(job_id=JOB):
        yield tmp_path
    torch._dynamo.reset()
    magneto.reset()


def the_file(folder: Path) -> Path:
    (found,) = (folder / "dynamo").glob("code_state_magneto*")
    return found


def graphs(compile: Any, function: Callable[..., Any], calls: list[tuple[Any, ...]]) -> int:
    """How many graphs a sequence of calls makes; each result is compared with eager's."""
    count = 0

    def backend(module: torch.fx.GraphModule, inputs: list[Any]) -> Any:
        nonlocal count
        count += 1
        return module.forward

    compiled = compile(function, backend=backend)
    for args in calls:
        torch.testing.assert_close(compiled(*args), function(*args))
    return count


def scaled(x: torch.Tensor, k: int) -> torch.Tensor:
    return x * k + x.shape[0]


def broken(x: torch.Tensor) -> torch.Tensor:
    y = x.sin()
    torch._dynamo.graph_break()
    return y.cos() + 1


def one(x: torch.Tensor) -> torch.Tensor:
    return x + 1


def sizes(*numbers: int) -> list[tuple[Any, ...]]:
    return [(torch.ones(n, 3),) for n in numbers]


def forget() -> None:
    """As if another process had started."""
    torch._dynamo.reset()
    magneto.reset()


CASES: dict[str, tuple[Callable[..., Any], list[tuple[Any, ...]], list[tuple[Any, ...]]]] = {
    "a size that varied": (one, sizes(3, 4), sizes(5, 6, 7)),
    "a size that did not vary": (one, sizes(3), sizes(3)),
    "a size that is another in the next run": (one, sizes(3), sizes(4, 5)),
    "an int": (
        scaled,
        [(torch.ones(3, 3), 4), (torch.ones(3, 3), 5)],
        [(torch.ones(3, 3), 6), (torch.ones(3, 3), 7)],
    ),
    "a resume point": (broken, sizes(3, 4), sizes(5, 6)),
    "a rank": (one, [(torch.ones(3),), (torch.ones(3, 4),)], [(torch.ones(5, 6),), (torch.ones(6, 7),)]),
    "a rank that is new": (
        one,
        [(torch.ones(3),), (torch.ones(4),)],
        [(torch.ones(5, 6),), (torch.ones(6, 7),)],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_next_run_makes_as_many_graphs_as_torch_compile(name: str) -> None:
    function, first, second = CASES[name]
    counts = []
    for compile in (torch.compile, magneto.compile):
        forget()
        counts.append([graphs(compile, function, first)])
        forget()
        counts[-1].append(graphs(compile, function, second))
    theirs, ours = counts
    assert ours[0] <= theirs[0] and ours[1] <= theirs[1]
    assert ours[1] == (2 if function is broken else 1)


def test_float_is_remembered() -> None:
    def program(x: torch.Tensor, rate: float) -> torch.Tensor:
        return x * rate

    compiled = magneto.compile(program, backend="eager")
    for rate in (0.5, 0.25):
        compiled(torch.ones(3), rate)
    forget()
    magneto.counters.clear()
    for rate in (0.125, 0.75):
        assert torch.equal(compiled(torch.ones(3), rate), torch.ones(3) * rate)
    assert magneto.counters["stats"]["unique_graphs"] == 1


def test_marked_size_is_remembered_without_its_mark() -> None:
    x = torch.ones(3, 3)
    torch._dynamo.mark_dynamic(x, 0)
    magneto.compile(one, backend="eager")(x)
    forget()
    assert graphs(magneto.compile, one, sizes(5, 6)) == 1


def test_stride_that_varied_is_remembered() -> None:
    def view(n: int) -> torch.Tensor:
        return torch.as_strided(torch.ones(40), (3, 2), (n, 1))

    assert graphs(magneto.compile, one, [(view(4),), (view(5),)]) == 2
    forget()
    assert graphs(magneto.compile, one, [(view(6),), (view(7),)]) == 1


def test_without_a_job_nothing_is_written(folder: Path) -> None:
    with torch.compiler.config.patch(job_id=None):
        graphs(magneto.compile, one, sizes(3, 4))
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize(
    "settings", [{"automatic_dynamic_local_pgo": False}, {"automatic_dynamic_shapes": False}]
)
def test_settings_that_switch_it_off(folder: Path, settings: dict[str, bool]) -> None:
    with magneto.config.patch(**settings):
        graphs(magneto.compile, one, sizes(3, 4))
        forget()
        assert graphs(magneto.compile, one, sizes(5, 6)) == 2


def test_disabled_caches(folder: Path) -> None:
    with torch.compiler.config.patch(force_disable_caches=True):
        graphs(magneto.compile, one, sizes(3, 4))
    assert list(folder.iterdir()) == []


def test_another_job_knows_nothing() -> None:
    graphs(magneto.compile, one, sizes(3, 4))
    forget()
    with torch.compiler.config.patch(job_id="another"):
        assert graphs(magneto.compile, one, sizes(5, 6)) == 2


def test_file_is_for_its_owner_only(folder: Path) -> None:
    graphs(magneto.compile, one, sizes(3, 4))
    assert stat.S_IMODE(the_file(folder).stat().st_mode) == 0o600
    assert stat.S_IMODE((folder / "dynamo").stat().st_mode) == 0o700
    assert len(list((folder / "dynamo").iterdir())) == 1


DAMAGED = [
    b"",
    b"garbage",
    b"\xff\xfe",
    b"[]",
    b'{"format": "magneto sizes 2", "code": {}}',
    b'{"format": "magneto sizes 1", "code": []}',
    b'{"format": "magneto sizes 1", "code": {"a": {"b": {"2": [[1], [1]]}}}}',
    b'{"format": "magneto sizes 1", "code": {"a": {"b": {"99": [[1], [1]]}}}}',
    b'{"format": "magneto sizes 1", "code": {"a": {"b": {"int": [[1e400], [0]]}}}}',
    b'{"format": "magneto sizes 1", "code": {"a": {"b": {"float": [[NaN], [0.0]]}}}}',
    b'{"format": "magneto sizes 1", "code": {"a": {"b": {"int": [[9223372036854775808], [0]]}}}}',
    b'{"format": "magneto sizes 1", "code": {"a": {"b": {"int": 3}}}}',
]


@pytest.mark.parametrize("content", DAMAGED)
def test_damaged_file_is_as_none(folder: Path, content: bytes) -> None:
    graphs(magneto.compile, one, sizes(3, 4))
    the_file(folder).write_bytes(content)
    forget()
    assert graphs(magneto.compile, one, sizes(5, 6)) == 2
    forget()
    assert graphs(magneto.compile, one, sizes(7, 8)) == 1


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_folder_that_can_not_be_written(folder: Path) -> None:
    folder.chmod(0o500)
    try:
        assert graphs(magneto.compile, one, sizes(3, 4)) == 2
    finally:
        folder.chmod(0o700)


def test_folder_that_is_a_file(folder: Path) -> None:
    (folder / "dynamo").write_text("")
    assert graphs(magneto.compile, one, sizes(3, 4)) == 2


def test_reserved_job_is_an_error() -> None:
    errors = []
    for compile in (torch.compile, magneto.compile):
        forget()
        with torch.compiler.config.patch(job_id="mast:1"), pytest.raises(Exception) as caught:
            compile(one, backend="eager")(torch.ones(3))
        errors.append(caught.value)
    assert isinstance(errors[1], ValueError)
    assert str(errors[1]) in str(errors[0])


def test_reset_reads_the_file_again(folder: Path) -> None:
    graphs(magneto.compile, one, sizes(3, 4))
    content = the_file(folder).read_bytes()
    forget()
    the_file(folder).unlink()
    assert graphs(magneto.compile, one, sizes(5, 6)) == 2
    forget()
    the_file(folder).write_bytes(content)
    assert graphs(magneto.compile, one, sizes(7, 8)) == 1


def test_two_processes_of_a_job_keep_what_both_have_seen(folder: Path) -> None:
    graphs(magneto.compile, one, sizes(3, 4))
    mine = the_file(folder).read_bytes()
    forget()
    the_file(folder).unlink()
    graphs(magneto.compile, broken, sizes(3, 4))  # another process, which has read no file
    the_file(folder).write_bytes(mine)  # the first one writes meanwhile
    graphs(magneto.compile, scaled, [(torch.ones(3), 4)])
    forget()
    assert graphs(magneto.compile, one, sizes(5, 6)) == 1
    assert graphs(magneto.compile, broken, sizes(5, 6)) == 2


def test_functions_that_wrap_others_are_told_apart() -> None:
    def wrap(inner: Callable[..., Any]) -> Callable[..., Any]:
        def outer(x: torch.Tensor) -> Any:
            return inner(x)

        return outer

    for function, number in ((wrap(one), 3), (wrap(torch.nn.functional.relu), 4)):
        graphs(magneto.compile, function, sizes(number))
    forget()
    counts = []
    compiled = magneto.compile(
        wrap(one), backend=lambda module, inputs: counts.append(len(inputs)) or module.forward
    )
    compiled(torch.ones(3, 3))
    assert counts == [1]  # no size is an input


def test_cache_artifacts_carry_it(folder: Path) -> None:
    graphs(magneto.compile, one, sizes(3, 4))
    saved = torch.compiler.save_cache_artifacts()
    assert saved is not None and any("magneto" in key for key in saved[1].pgo_artifacts)
    the_file(folder).unlink()
    forget()
    info = torch.compiler.load_cache_artifacts(saved[0])
    assert info is not None and any("magneto" in key for key in info.pgo_artifacts)
    assert graphs(magneto.compile, one, sizes(5, 6)) == 1


def test_extra_keys() -> None:
    with torch.compiler.config.patch(pgo_extra_write_key="shared"):
        graphs(magneto.compile, one, sizes(3, 4))
    forget()
    with torch.compiler.config.patch(job_id="new", pgo_extra_read_key="shared"):
        assert graphs(magneto.compile, one, sizes(5, 6)) == 1


def test_cache_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch._inductor.remote_cache as remote

    held: dict[str, Any] = {}

    class Cache:
        def __init__(self, key: str) -> None:
            self.get, self.put = held.get, held.__setitem__

    monkeypatch.setattr(remote, "RemoteDynamoPGOCache", Cache)
    with magneto.config.patch(automatic_dynamic_local_pgo=False, automatic_dynamic_remote_pgo=True):
        graphs(magneto.compile, one, sizes(3, 4))
        assert len(held) == 1
        forget()
        assert graphs(magneto.compile, one, sizes(5, 6)) == 1


def test_two_processes(folder: Path) -> None:
    program = folder / "program.py"
    program.write_text(
        "import sys, torch, magneto\n"
        "def f(x, k, rate):\n"
        "    return x * k * rate\n"
        "compiled = magneto.compile(f, backend='eager')\n"
        "for n in map(int, sys.argv[1:]):\n"
        "    compiled(torch.ones(n, 3), n, n / 3)\n"
        "print(magneto.counters['stats']['unique_graphs'], 'torch._dynamo' in sys.modules)\n"
    )

    def run(*numbers: str) -> str:
        done = subprocess.run(
            [sys.executable, str(program), *numbers],
            capture_output=True,
            text=True,
            timeout=120,
            env={**os.environ, "TORCH_COMPILE_JOB_ID": "processes"},
        )
        return done.stdout + done.stderr

    assert run("3", "4", "5") == "2 False\n"
    assert run("6", "7", "8") == "1 False\n"


def test_state_is_a_file_that_people_can_read(folder: Path) -> None:
    graphs(magneto.compile, scaled, [(torch.ones(3, 3), 4), (torch.ones(4, 3), 5)])
    state = _remembered._decode(the_file(folder).read_bytes())
    ((code, sources),) = state.items()
    assert code.endswith(":scaled")
    assert sources == {"L['x']": {"2": ([None, 3], [3, 1])}, "L['k']": {"int": ([None], [0])}}
