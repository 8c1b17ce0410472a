"""Compiling in the background: what is sent, who compiles it, and what becomes of processes that do not."""

from __future__ import annotations

import gc
import json
import logging
import os
import pty
import select
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import magneto
from magneto import _backends, _background, _progress, _remake
from magneto._compile import Settings

STUB = Path(__file__).with_name("worker_stub.py")

pytestmark = pytest.mark.no_leak_hunt(
    "what is compiled in the background has threads and processes of its own"
)


@pytest.fixture(autouse=True)
def _fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A queue and a cache of its own."""
    monkeypatch.setenv("MAGNETO_CACHE_DIR", str(tmp_path / "graphs"))
    monkeypatch.setattr(_background, "_queue", _background.Queue())
    magneto.reset()
    yield
    _background._queue.close()
    assert not any(thread.is_alive() for thread in _background._queue.threads)
    magneto.reset()


@pytest.fixture
def stub(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Has processes that compile do something else."""

    def use(what: str) -> None:
        monkeypatch.setattr(_background, "_command", lambda: [sys.executable, str(STUB), what])

    return use


def f(x: torch.Tensor) -> torch.Tensor:
    return x.sin() * 2 + 1


def compiled(function: Any = f, **kwargs: Any) -> Any:
    return magneto.compile(function, backend="inductor", background=True, **kwargs)


# ---- what is sent ----


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(4, 4)
        self.register_buffer("shift", torch.ones(4))

    def forward(self, x: torch.Tensor, n: int = 2) -> Any:
        y = self.inner(x) * n + self.shift
        a, b = y.chunk(2, -1)
        return (
            y.view(x.shape[0], -1)[1:].sum(),
            torch.cat([a, b], 0),
            nn.functional.gelu(y, approximate="tanh"),
        )


def joins(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.cat([x, y], 0).view(-1, x.shape[1]) * x.shape[0]


def cuts(x: torch.Tensor, n: int) -> torch.Tensor:
    return x[:n] * n


def decides(x: torch.Tensor) -> torch.Tensor:
    if x.shape[0] > 3:
        return x.reshape(x.shape[0] * x.shape[1]).sum() + x.shape[0] // 2
    return x


def writes(x: torch.Tensor, y: torch.Tensor) -> Any:
    x.add_(y)
    y = y.clone()
    y[0] = 3
    y[:, 1:] *= 2
    return x.to(torch.float64), y.softmax(-1, dtype=torch.float32), torch.arange(x.shape[0], device=x.device)


def states(x: torch.Tensor, y: torch.Tensor) -> Any:
    with torch.no_grad():
        a = x * 2
    with torch.autocast("cpu"):
        b = x @ y.t()
    return a + x, b, torch.zeros(x.shape), x.new_full((3,), float("nan")), x * -0.0


def overlaps(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return x + y


_base = torch.zeros(40)
GRAPHS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "module": (Net().forward, (torch.ones(3, 4),)),
    "joins": (joins, (torch.ones(3, 4), torch.ones(5, 4))),
    "cuts": (cuts, (torch.ones(5, 4), 3)),
    "decides": (decides, (torch.ones(5, 4),)),
    "writes": (writes, (torch.ones(5, 4), torch.ones(5, 4))),
    "states": (states, (torch.ones(5, 4), torch.ones(5, 4))),
    "leaf": (states, (torch.ones(5, 4, requires_grad=True), torch.ones(5, 4))),
    "result": (states, (torch.ones(5, 4, requires_grad=True) * 2, torch.ones(5, 4))),
    "strides": (joins, (torch.ones(4, 3).t(), torch.ones(5, 8)[:, ::2])),
    "shared": (overlaps, (_base[:20].view(5, 4), _base[10:30].view(5, 4))),
}


class _Keys(_backends.Compiler):
    """Compiles nothing: notes what graphs are."""

    keys: list[Any]
    graphs: list[dict[str, Any]]

    def __call__(self, entry: Any) -> Any:
        self.keys.append(entry.key())
        self.graphs.append(_remake.describe(entry, self.backend, "", "f"))


def _capture(function: Any, arguments: Any, dynamic: bool | None) -> type[_Keys]:
    class Keys(_Keys):
        keys: list[Any] = []
        graphs: list[dict[str, Any]] = []

    settings = Settings(backend="inductor", dynamic=dynamic, fullgraph=True)
    settings.make(function, "f", compiler=Keys)(*arguments)
    return Keys


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", GRAPHS)
def test_another_process_would_capture_the_same_graph(name: str, dynamic: bool) -> None:
    function, arguments = GRAPHS[name]
    first = _capture(function, arguments, dynamic)
    remade = _remake.remake(first.graphs[0])
    second = _capture(*remade, bool(first.graphs[0]["symbols"]))
    assert first.keys[0] is not None
    assert second.keys == first.keys


def test_what_can_not_be_sent_is_compiled_at_once(
    stub: Any, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []
    monkeypatch.setattr(
        _backends._Inductor, "__call__", lambda self, gm, inputs: seen.append(gm) or gm.forward
    )
    stub("hangs")

    @torch.compiler.allow_in_graph
    def inner(x: torch.Tensor) -> torch.Tensor:
        return x + 1

    with caplog.at_level(logging.INFO, "magneto"):
        run = compiled(lambda x: inner(x) * 2)
        assert torch.equal(run(torch.ones(2)), torch.full((2,), 4.0))
    assert len(seen) == 1
    assert "is compiled at once" in caplog.text


# ---- processes that do not answer ----


@pytest.mark.parametrize("what", ["dies", "ends", "half", "failed"])
def test_a_process_that_fails_is_a_line_in_the_log(
    what: str, stub: Any, caplog: pytest.LogCaptureFixture
) -> None:
    stub(what)
    run, x = compiled(), torch.randn(3)
    with caplog.at_level(logging.WARNING, "magneto"):
        assert torch.equal(run(x), f(x))
        assert magneto.wait(60)
    assert caplog.text.count("is not compiled, and runs without it") == 1
    assert torch.equal(run(x), f(x))
    (entry,) = magneto.cache_entries(run)
    assert entry.compiled is None and entry.entry.pending is None
    y = torch.randn(3, 3)
    assert torch.equal(run(y), f(y))  # another graph: another process
    assert magneto.wait(60)


def test_a_process_can_be_killed_at_any_moment(stub: Any) -> None:
    stub("hangs")
    run = compiled(dynamic=False)
    for size in range(1, 8):
        x = torch.randn(size)
        assert torch.equal(run(x), f(x))
        deadline = time.monotonic() + 30
        while not _background._queue.workers and time.monotonic() < deadline:
            time.sleep(0.01)
        time.sleep(0.03 * size)
        for worker in list(_background._queue.workers.values()):
            worker.process.kill()
    assert _waits_with_kills()
    assert all(entry.compiled is None for entry in magneto.cache_entries(run))


def _waits_with_kills() -> bool:
    """Wait, and kill whatever compiles meanwhile."""
    for _ in range(600):
        if magneto.wait(0.05):
            return True
        for worker in list(_background._queue.workers.values()):
            worker.process.kill()
    return False


def test_waiting_has_a_limit(stub: Any) -> None:
    stub("hangs")
    assert magneto.wait(0)  # nothing is under way
    compiled()(torch.ones(2))
    assert not magneto.wait(0.2)
    assert _background.figures() is not None


def test_a_graph_that_takes_too_long_is_given_up(
    stub: Any, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    stub("hangs")
    monkeypatch.setattr(_background, "LIMIT", 0.2)
    with caplog.at_level(logging.WARNING, "magneto"):
        compiled()(torch.ones(2))
        assert magneto.wait(60)
    assert "took more than" in caplog.text


def test_the_queue_is_bounded(
    stub: Any, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    stub("hangs")
    monkeypatch.setattr(_background, "MOST", 1)
    run = compiled(dynamic=False)
    with caplog.at_level(logging.INFO, "magneto"), magneto.config.patch(background_workers=1):
        run(torch.ones(1))
        deadline = time.monotonic() + 30
        while not _background._queue.running and time.monotonic() < deadline:
            time.sleep(0.01)
        for size in (2, 3, 4):
            x = torch.randn(size)
            assert torch.equal(run(x), f(x))
    assert caplog.text.count("too many graphs wait") == 2
    assert len(_background._queue.threads) == 1


def test_equal_graphs_are_one_job(stub: Any) -> None:
    stub("hangs")
    layers = [nn.Linear(4, 4) for _ in range(5)]
    with torch.no_grad():
        for layer in layers:
            compiled(layer)(torch.ones(2, 4))
    assert len(_background._queue.jobs) == 1
    (job,) = _background._queue.jobs.values()
    assert len(job.waiting) == 5


def test_nothing_is_kept_alive(stub: Any) -> None:
    stub("hangs")
    run = compiled(lambda x: x.cos())
    run(torch.ones(2))
    (job,) = _background._queue.jobs.values()
    del run
    gc.collect()
    assert job.waiting[0][0]() is None


def test_what_another_process_takes_for_another_graph_is_compiled_at_the_next_call(
    stub: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Any] = []
    monkeypatch.setattr(
        _backends._Inductor, "__call__", lambda self, gm, inputs: seen.append(gm) or gm.forward
    )
    stub("other")
    run, x = compiled(options={"aot": False}), torch.randn(3)
    assert torch.equal(run(x), f(x)) and not seen
    assert magneto.wait(60)
    assert torch.equal(run(x), f(x)) and len(seen) == 1
    assert torch.equal(run(x), f(x)) and len(seen) == 1
    assert magneto.cache_entries(run)[0].compiled is not None


@pytest.mark.parametrize("dynamic", [False, True])
def test_the_switch_is_no_recompile(stub: Any, monkeypatch: pytest.MonkeyPatch, dynamic: bool) -> None:
    monkeypatch.setattr(_backends._Inductor, "__call__", lambda self, gm, inputs: gm.forward)
    stub("other")
    run = compiled(joins, options={"aot": False}, dynamic=dynamic)
    x, y = torch.randn(3, 4), torch.randn(2, 4)
    assert torch.equal(run(x, y), joins(x, y))
    assert magneto.wait(60)
    with magneto.set_stance("fail_on_recompile"), magneto.config.patch(error_on_recompile=True):
        assert torch.equal(run(x, y), joins(x, y))
    (entry,) = magneto.cache_entries(run)
    assert entry.compiled is not None
    if dynamic:
        assert torch.equal(run(y, x), joins(y, x)) and len(magneto.cache_entries(run)) == 1


def test_a_backend_that_fails_at_the_switch_leaves_the_replay(
    stub: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(self: Any, module: Any, inputs: Any) -> Any:
        raise ValueError("no")

    monkeypatch.setattr(_backends._Inductor, "__call__", fail)
    stub("other")
    run, x = compiled(options={"aot": False}), torch.randn(3)
    run(x)
    assert magneto.wait(60)
    with caplog.at_level(logging.WARNING, "magneto"):
        assert torch.equal(run(x), f(x)) and torch.equal(run(x), f(x))
    assert caplog.text.count("can't be used") == 1


def test_threads_can_call_while_another_one_switches(stub: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    started, goes_on = threading.Event(), threading.Event()

    def slow(self: Any, module: Any, inputs: Any) -> Any:
        started.set()
        goes_on.wait(30)
        return module.forward

    monkeypatch.setattr(_backends._Inductor, "__call__", slow)
    stub("other")
    run, x = compiled(options={"aot": False}), torch.randn(3)
    run(x)
    assert magneto.wait(60)
    results: list[torch.Tensor] = []
    thread = threading.Thread(target=lambda: results.append(run(x)), daemon=True)
    thread.start()
    assert started.wait(30)
    assert torch.equal(run(x), f(x))  # the replay
    assert magneto.cache_entries(run)[0].compiled is None
    goes_on.set()
    thread.join(30)
    assert torch.equal(results[0], f(x))
    assert magneto.cache_entries(run)[0].compiled is not None


def test_other_backends_compile_at_once(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "magneto"):
        run = magneto.compile(f, backend="aot_eager", background=True)
    assert "only inductor compiles in the background" in caplog.text
    assert torch.equal(run(torch.ones(2)), f(torch.ones(2)))
    with pytest.raises(TypeError, match="background is True, False or None"):
        magneto.compile(f, background=1)


# ---- the end, and forks ----

PROGRAM = """
import os, sys, time
import torch, magneto
from magneto import _background
_background._command = lambda: {command!r}
def f(x):
    return x.sin() * 2 + 1
run = magneto.compile(f, background=True)
assert torch.equal(run(torch.ones(3)), f(torch.ones(3)))
while not _background._queue.workers:
    time.sleep(0.01)
(worker,) = _background._queue.workers.values()
print(worker.process.pid, flush=True)
"""


HANGS = [sys.executable, str(STUB), "hangs"]
REAL = "import time; from magneto import _worker; _worker.compile_graph = lambda graph: time.sleep(600); _worker.main()"


def _program(rest: str, command: list[str] = HANGS) -> subprocess.Popen[str]:
    text = PROGRAM.format(command=command) + textwrap.dedent(rest)
    return subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE, text=True)


def _is_gone(number: int) -> bool:
    """Whether a process ends soon."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        try:
            os.kill(number, 0)
            with open(f"/proc/{number}/stat") as file:
                if file.read().rpartition(")")[2].split()[0] == "Z":
                    return True
        except OSError:
            return True
        time.sleep(0.05)
    return False


def test_a_program_ends_while_something_is_compiled() -> None:
    process = _program("")
    out, _ = process.communicate(timeout=120)
    assert process.returncode == 0
    assert _is_gone(int(out))


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_a_program_that_is_killed_leaves_no_process(how: int) -> None:
    process = _program("time.sleep(300)", [sys.executable, "-c", REAL])
    assert process.stdout is not None
    number = int(process.stdout.readline())
    time.sleep(3)  # it waits, or is still being started
    process.send_signal(how)
    process.wait(30)
    process.stdout.close()
    assert _is_gone(number)


def test_a_child_of_a_fork_goes_on_and_ends() -> None:
    process = _program(
        """
        child = os.fork()
        if child == 0:
            assert torch.equal(run(torch.ones(3)), f(torch.ones(3)))
            assert torch.equal(run(torch.ones(4)), f(torch.ones(4)))
            assert not magneto.wait(0.2)  # it has a process of its own, which hangs
            (own,) = [one.process.pid for one in _background._queue.workers.values()]
            assert own != worker.process.pid
            sys.exit(7)
        deadline = time.monotonic() + 60
        while True:
            found, status = os.waitpid(child, os.WNOHANG)
            if found:
                break
            assert time.monotonic() < deadline, "the child hangs"
            time.sleep(0.05)
        assert os.waitstatus_to_exitcode(status) == 7, status
        assert worker.process.poll() is None  # the child has not killed it
        """
    )
    out, _ = process.communicate(timeout=180)
    assert process.returncode == 0
    assert _is_gone(int(out))


def test_children_of_multiprocessing_end() -> None:
    process = _program(
        """
        import multiprocessing
        def child(queue):
            queue.put(torch.equal(run(torch.ones(3)), f(torch.ones(3))))
        context = multiprocessing.get_context("fork")
        queue = context.SimpleQueue()
        children = [context.Process(target=child, args=(queue,)) for _ in range(3)]
        for one in children:
            one.start()
        for one in children:
            one.join(60)
            assert one.exitcode == 0, one.exitcode
        assert all(queue.get() for _ in children)
        """
    )
    out, _ = process.communicate(timeout=240)
    assert process.returncode == 0
    assert _is_gone(int(out))


# ---- real processes ----


def test_results_are_right_before_during_and_after_the_switch(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("background_program.py"))],
        capture_output=True,
        text=True,
        timeout=900,
        env={**os.environ, "OMP_NUM_THREADS": "1", "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "inductor")},
    )
    assert done.returncode == 0, done.stderr[-4000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["wrong"] == []
    assert found["replayed"] and found["done"], found
    assert found["entries"] == 6 and set(found["libraries"]) == {"Library"}, found
    assert len(found["libraries"]) >= 3, found
    assert found["recompiles"] == 3, found  # one of each callable: another number of rows
    assert found["gradients"] and found["trained"], found


# ---- progress ----


def _on_terminal(work: Callable[[], None]) -> str:
    """What is written to a terminal in place of the standard error while a function runs."""
    leader, follower = pty.openpty()
    before = sys.stderr
    with open(follower, "w", buffering=1) as terminal:
        sys.stderr = terminal
        try:
            work()
        finally:
            sys.stderr = before
        text = ""
        while select.select([leader], [], [], 0.5)[0]:  # a terminal takes its time
            text += os.read(leader, 100_000).decode()
    os.close(leader)
    return text


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(_progress, "AFTER", 0.05)
    monkeypatch.setattr(_progress, "EVERY", 0.05)


@pytest.mark.usefixtures("soon")
def test_a_backend_that_takes_long_is_told_of_on_a_terminal() -> None:
    def backend(module: Any, inputs: Any) -> Any:
        time.sleep(0.5)
        return module.forward

    text = _on_terminal(lambda: magneto.compile(f, backend=backend)(torch.ones(2)))
    assert "magneto: compiling f, 0 s" in text
    assert text.endswith("\r") and not text.rpartition("\r")[0].rpartition("\r")[2].strip()  # it is gone
    assert not any(thread.name == "magneto progress" for thread in threading.enumerate())


@pytest.mark.usefixtures("soon")
def test_who_waits_is_told_what_for(stub: Any) -> None:
    stub("hangs")
    run = compiled(dynamic=False)
    with magneto.config.patch(background_workers=1):
        for size in (1, 2, 3):
            run(torch.ones(size))
        text = _on_terminal(lambda: magneto.wait(1.0))
    assert "magneto: compiling f, " in text and "2 more to do" in text


@pytest.mark.usefixtures("soon")
def test_there_is_no_progress_without_a_terminal(capfd: pytest.CaptureFixture[str]) -> None:
    def backend(module: Any, inputs: Any) -> Any:
        time.sleep(0.3)
        return module.forward

    magneto.compile(f, backend=backend)(torch.ones(2))
    assert capfd.readouterr().err == ""


@pytest.mark.usefixtures("soon")
def test_what_is_quick_is_not_told_of() -> None:
    assert _on_terminal(lambda: magneto.compile(f, backend=lambda gm, i: gm.forward)(torch.ones(2))) == ""
