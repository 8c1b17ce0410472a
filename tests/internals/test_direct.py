"""Operations that are called in libtorch itself: the same values, and the usual way where another layer has work."""

from __future__ import annotations

import operator
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any

import pytest
import torch
from torch.autograd import forward_ad

import magneto
from magneto import _core

OPERATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "x + y": operator.add,
    "x - y": operator.sub,
    "x * y": operator.mul,
    "torch.add": torch.add,
    "torch.sub": torch.sub,
    "torch.mul": torch.mul,
    "x.add(y)": lambda x, y: x.add(y),
    "x.sub(y)": lambda x, y: x.sub(y),
    "x.mul(y)": lambda x, y: x.mul(y),
    "x ** y": operator.pow,
    "x.pow(y)": lambda x, y: x.pow(y),
    "torch.pow": torch.pow,
}
DTYPES = [
    torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int8, torch.uint8, torch.bool,
    torch.complex64,
]  # fmt: skip
NUMBERS: list[Any] = [
    2,
    -1,
    0,
    0.1,
    2.5,
    -0.0,
    1e-3,
    float("inf"),
    float("nan"),
    3.0,
    0.5,
    2**24,
    2**24 + 1,
    2**40,
    True,
    1j,
]


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    magneto.reset()
    yield
    magneto.reset()


def make(dtype: torch.dtype, *sizes: int) -> torch.Tensor:
    torch.manual_seed(1)
    if dtype.is_floating_point or dtype.is_complex:
        return torch.randn(sizes, dtype=torch.float64).abs().to(dtype)
    return torch.randint(0, 5, sizes).to(dtype)


def outcome(function: Callable[..., Any], *args: Any) -> Any:
    try:
        result = function(*args)
    except Exception as error:
        return type(error), str(error)
    return result


def bits(tensor: torch.Tensor) -> torch.Tensor:
    plain = tensor.detach().to_dense().resolve_conj().contiguous().reshape(-1)
    return plain.new_zeros(0) if plain.is_meta else plain.view(torch.uint8)


def assert_same(found: Any, expected: Any) -> None:
    assert type(found) is type(expected), (found, expected)
    if not isinstance(expected, torch.Tensor):
        assert found == expected
        return
    assert (
        found.dtype == expected.dtype
        and found.shape == expected.shape
        and found.stride() == expected.stride()
    )
    assert found.requires_grad == expected.requires_grad and found.is_inference() == expected.is_inference()
    assert torch.equal(bits(found), bits(expected))


def compare(function: Callable[..., Any], *args: Any) -> int:
    """Call it three times, compiled, and compare with eager. How many operations took the short way."""
    compiled = magneto.compile(lambda *args: function(*args), backend="eager")
    before = _core.direct_calls()
    for _ in range(3):
        assert_same(outcome(compiled, *args), outcome(function, *args))
    return _core.direct_calls() - before


@pytest.mark.parametrize("name", OPERATIONS)
def test_tensors(name: str) -> None:
    function, taken = OPERATIONS[name], 0
    for left in DTYPES:
        for right in DTYPES:
            taken += compare(function, make(left, 2, 3), make(right, 2, 3))
    for a, b in [
        ((2, 3), (3,)),
        ((2, 1), (1, 3)),
        ((), (2, 3)),
        ((2, 3), ()),
        ((), ()),
        ((0, 3), (3,)),
        ((300,), (300,)),
    ]:
        taken += compare(function, make(torch.float32, *a), make(torch.float32, *b))
    x, y = make(torch.float32, 3, 2), make(torch.float32, 4, 6)
    for other in (x.t(), y[::2, ::2], x.t()[:, :1].expand(2, 3), make(torch.float64, 2, 3)):
        taken += compare(function, make(torch.float32, 2, 3), other) + compare(
            function, other, make(torch.float32, 2, 3)
        )
    assert (taken > 60) == ("pow" not in name and "**" not in name)


@pytest.mark.parametrize("name", OPERATIONS)
def test_numbers(name: str) -> None:
    function, taken = OPERATIONS[name], 0
    for dtype in DTYPES:
        for number in NUMBERS:
            for sizes in ((2, 3), ()):
                x = make(dtype, *sizes)
                taken += compare(lambda x, number=number: function(x, number), x)  # type: ignore[misc]
                if not name.startswith("x."):
                    taken += compare(lambda x, number=number: function(number, x), x)  # type: ignore[misc]
    assert taken > 50


def test_gradients() -> None:
    def f(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return ((x * w + 2) ** 2).sum()

    w = torch.nn.Parameter(torch.ones(3))
    x = torch.arange(6.0).view(2, 3)
    compiled = magneto.compile(f, backend="eager")
    for _ in range(3):
        w.grad = None
        f(x, w).backward()
        expected = w.grad
        w.grad = None
        compiled(x, w).backward()
        assert w.grad is not None and expected is not None and torch.equal(w.grad, expected)
    with torch.no_grad():
        before = _core.direct_calls()
        for _ in range(3):
            assert_same(compiled(x, w), f(x, w))
        assert _core.direct_calls() - before == 9, "a parameter in no_grad is a plain tensor"


@pytest.mark.parametrize("mode", ["no_grad", "inference", "enable_grad"])
def test_modes(mode: str) -> None:
    context = {"no_grad": torch.no_grad, "inference": torch.inference_mode, "enable_grad": torch.enable_grad}[
        mode
    ]
    with context():
        x, y = torch.ones(2, 3), torch.ones(3)
        assert compare(operator.add, x, y) == 3
        assert compare(lambda x: x * 2.5, x) == 3
    assert compare(operator.mul, x, y) == 3, "tensors from there, outside"


@pytest.mark.parametrize("mode", ["inference_mode", "no_grad", "enable_grad"])
def test_found_in_any_mode(mode: str) -> None:
    """In a process of its own: libtorch's functions are looked for when the first graph is made."""
    program = f"""
import torch, magneto
from magneto import _core
f = magneto.compile(lambda x: x + x, backend="eager")
with torch.{mode}():
    for _ in range(3):
        f(torch.ones(3))
    assert torch.is_inference_mode_enabled() == ("{mode}" == "inference_mode")
    assert torch.is_grad_enabled() == ("{mode}" == "enable_grad")
    assert _core.direct_calls() == 3, _core.direct_calls()
    """
    subprocess.run([sys.executable, "-c", program], check=True)


def test_grad_mode_changes_in_the_graph() -> None:
    w = torch.nn.Parameter(torch.ones(3))

    def f(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        with torch.no_grad():
            a = x + w
        return a, x + w

    compiled = magneto.compile(f, backend="eager", fullgraph=True)
    for _ in range(3):
        a, b = compiled(torch.ones(3))
        assert not a.requires_grad and b.requires_grad


def test_views_that_require_grad_through_their_base() -> None:
    base = torch.ones(3, requires_grad=True) * 2
    with torch.no_grad():
        view = base.view(-1)
    assert compare(operator.mul, view, torch.ones(3)) == 0


def test_forward_mode() -> None:
    compiled = magneto.compile(lambda x, y: x * y, backend="eager")
    x, y = torch.ones(3), torch.full((3,), 2.0)
    for _ in range(2):
        compiled(x, y)
    before = _core.direct_calls()
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, torch.full((3,), 5.0))
        for gradient in (True, False):
            with nullcontext() if gradient else torch.no_grad():
                tangent = forward_ad.unpack_dual(compiled(dual, y)).tangent
                assert tangent is not None and torch.equal(tangent, torch.full((3,), 10.0))
    assert _core.direct_calls() == before


def test_other_layers() -> None:
    x, y = torch.ones(2, 3), torch.ones(3)
    compiled = magneto.compile(lambda x, y: x + y, backend="eager")
    for _ in range(2):
        compiled(x, y)
    before = _core.direct_calls()
    with torch.profiler.profile() as profile:
        compiled(x, y)
    assert "aten::add" in {event.key for event in profile.key_averages()}
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert_same(compiled(x, y), x + y)
    assert torch.equal(torch.vmap(compiled, (0, None))(x, y), x + y)

    class Mode(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.append(func)
            return func(*args, **(kwargs or {}))

    seen: list[Any] = []
    with Mode():
        compiled(x, y)
    assert torch.ops.aten.add.Tensor in seen
    assert _core.direct_calls() == before
    compiled(x, y)
    assert _core.direct_calls() == before + 1


@pytest.mark.no_leak_hunt("torch.jit.trace keeps what it has traced")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("warm", [False, True])
def test_tracing(warm: bool) -> None:
    x, y = torch.ones(2, 3), torch.ones(3)
    compiled = magneto.compile(lambda x, y: x + y, backend="eager")
    for _ in range(2 * warm):
        compiled(x, y)
    traced = torch.jit.trace(lambda x, y: compiled(x, y), (x, y))
    assert torch.equal(traced(x * 3, y), x * 3 + y)


class Sub(torch.Tensor):
    pass


def test_subclasses() -> None:
    x = torch.ones(3).as_subclass(Sub)
    assert compare(operator.add, x, torch.ones(3)) == 0
    assert compare(operator.add, torch.ones(3), x) == 0
    assert compare(operator.mul, torch.ones(3, device="meta"), torch.ones(3)) == 0
    assert compare(operator.mul, torch.ones(3).to_sparse(), torch.ones(3)) == 0
    assert compare(operator.mul, torch.ones(3, dtype=torch.complex64).conj(), torch.ones(3)) == 0


def test_patched(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = magneto.compile(lambda x, y: x + y, backend="eager")
    x = torch.ones(3)
    for _ in range(2):
        compiled(x, x)
    plain = torch.Tensor.__add__
    monkeypatch.setattr(torch.Tensor, "__add__", lambda self, other: plain(self, other) * 10)
    assert torch.equal(compiled(x, x), torch.full((3,), 20.0))


def test_threads() -> None:
    compiled = magneto.compile(lambda x, y: (x + y) * 2.5 - 1, backend="eager")
    x, y = torch.ones(400, 30), torch.ones(30)
    expected = (x + y) * 2.5 - 1
    compiled(x, y)
    wrong: list[Any] = []

    def work() -> None:
        for _ in range(100):
            if not torch.equal(compiled(x, y), expected):
                wrong.append(1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.parametrize("name", ["mul.Tensor", "add.Tensor", "pow.Tensor_Scalar"])
def test_kernels_that_a_program_registers(name: str) -> None:
    """They take the place of torch's own: for what was compiled before, and for what is compiled then."""
    program = f"""
import torch, magneto
from torch.library import Library
def f(x):
    return x * x, x + 1, x - x, x ** 2
x = torch.ones(3)
before = magneto.compile(f, backend="eager")
expected = [[v.tolist() for v in f(x)]]
found = [[v.tolist() for v in before(x)]]
other = Library("added", "DEF")
other.define("add(Tensor x) -> Tensor")
other.impl("add", lambda x: x + 1, "CPU")
assert before(x)[0].tolist() == [1, 1, 1]
library = Library("aten", "IMPL")
library.impl("{name}", lambda *args: torch.full((3,), 7.0), "CPU")
expected.append([v.tolist() for v in f(x)])
found.append([v.tolist() for v in before(x)])
expected.append([v.tolist() for v in f(x)])
found.append([v.tolist() for v in magneto.compile(lambda x: f(x), backend="eager")(x)])
library._destroy()
expected.append([v.tolist() for v in f(x)])
found.append([v.tolist() for v in before(x)])
assert found == expected, (found, expected)
assert [7, 7, 7] in found[1] and [7, 7, 7] not in found[3]
"""
    subprocess.run([sys.executable, "-c", program], check=True)
