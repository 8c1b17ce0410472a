"""Settings of torch's that captured code changes for a while: put back whatever happens, and recorded as by torch.compile."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
import torch
from torch.nn.attention import SDPBackend, _cur_sdpa_kernel_backends, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

import magneto


class Graphs:
    """A backend that notes the targets of each graph."""

    def __init__(self) -> None:
        self.targets: list[list[Any]] = []

    def __call__(self, module: torch.fx.GraphModule, _inputs: Any) -> Any:
        self.targets.append([node.target for node in module.graph.nodes if node.op.startswith("call")])
        return module.forward


def attend(x: torch.Tensor, kernel: SDPBackend, stop: bool) -> torch.Tensor:
    with sdpa_kernel(kernel):
        y = scaled_dot_product_attention(x, x, x)
        if stop:
            torch._dynamo.graph_break()
        return y + 1


@pytest.mark.no_leak_hunt("torch.compile keeps what it compiled")
def test_nodes_of_sdpa_kernel() -> None:
    x = torch.randn(1, 2, 4, 8)
    ours, theirs = Graphs(), Graphs()
    expected = attend(x, SDPBackend.MATH, False)
    assert torch.allclose(magneto.compile(attend, backend=ours)(x, SDPBackend.MATH, False), expected)
    torch._dynamo.reset()
    torch.compile(attend, backend=theirs)(x, SDPBackend.MATH, False)
    torch._dynamo.reset()
    assert ours.targets == theirs.targets


@pytest.mark.parametrize("make", [lambda: "eager", Graphs], ids=["eager", "graph"])
def test_sdpa_kernel_around_a_break(make: Any) -> None:
    x = torch.randn(1, 2, 4, 8)
    before = _cur_sdpa_kernel_backends()
    compiled = magneto.compile(attend, backend=make())
    for _ in range(3):
        assert torch.allclose(compiled(x, SDPBackend.MATH, True), attend(x, SDPBackend.MATH, True))
        assert _cur_sdpa_kernel_backends() == before


def test_a_graph_that_fails_leaves_the_kernels_as_they_were() -> None:
    before = _cur_sdpa_kernel_backends()

    def look_up(x: torch.Tensor, indices: torch.Tensor) -> torch.Tensor:
        with sdpa_kernel(SDPBackend.MATH):
            return x[indices] + 1

    x = torch.arange(4.0)
    for backend in ("eager", Graphs()):
        compiled = magneto.compile(look_up, backend=backend)
        assert torch.equal(compiled(x, torch.tensor([1, 2])), torch.tensor([2.0, 3.0]))
        for _ in range(2):
            with pytest.raises(IndexError):
                compiled(x, torch.tensor([1, 9]))
            assert _cur_sdpa_kernel_backends() == before


class Noted(torch.Tensor):
    """Says which torch functions it is given."""

    log: list[str] = []

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        Noted.log.append(func.__name__)
        return super().__torch_function__(func, types, args, kwargs or {})


NOTED = torch.ones(2).as_subclass(Noted)


def enabled(x):
    return x + 1, torch._C._is_torch_function_enabled(), torch._C._is_torch_function_all_disabled()


def overridden(x):
    return x + 1, torch.overrides.has_torch_function((x,)), torch.overrides.has_torch_function((NOTED,))


def adds(x):
    return x + 1, type(NOTED + x).__name__


def switches(x):
    with torch._C.DisableTorchFunctionSubclass():
        inside = torch._C._is_torch_function_enabled()
    return x + 1, inside, torch._C._is_torch_function_enabled()


@pytest.mark.parametrize("function", [enabled, overridden, adds, switches])
@pytest.mark.parametrize("disable", [torch._C.DisableTorchFunction, torch._C.DisableTorchFunctionSubclass])
@pytest.mark.parametrize("first", [False, True])
def test_overrides_that_the_program_has_switched_off_around_a_call(function, disable, first) -> None:
    def run(function):
        found = []
        for off in (first, not first, first, not first):
            Noted.log.clear()
            with disable() if off else contextlib.nullcontext():
                value, *rest = function(torch.ones(2))
            found.append((value.tolist(), rest, list(Noted.log)))
        return found

    compiled = magneto.compile(function, backend="eager")
    assert run(compiled) == run(function)
    if function is enabled:
        assert (
            len(magneto.cache_entries(compiled)) == 2
        )  # it is part of the state that entries are guarded by


def test_a_capture_in_torchs_usual_state_asks_no_fake_tensors(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shape functions in C know the usual state: where they take it for another, each operation is tried on FakeTensors."""
    from magneto import _propagate

    asked: list[Any] = []
    monkeypatch.setattr(_propagate, "propagate", lambda *args: asked.append(args))
    magneto.compile(lambda x: (x.sin() @ x).relu().view(-1)[1:].sum(), backend="eager")(torch.ones(3, 3))
    assert asked == []


ints = torch.arange(3)
mask = ints > 1

FILLED: list[Any] = [
    lambda: torch.full((2,), 1.0),
    lambda: torch.full((2,), 1j),
    lambda: torch.full((2,), 1j, dtype=torch.complex64),
    lambda: torch.tensor(1j),
    lambda: torch.tensor([1j, 2]),
    lambda: torch.tensor([1.0]),
    lambda: ints + 1j,
    lambda: 1j - ints,
    lambda: mask * 1j,
    lambda: ints / 1j,
    lambda: ints / 2,
    lambda: torch.where(mask, ints, 1j),
    lambda: torch.ldexp(ints, ints),
    lambda: ints.ldexp(ints),
    lambda: torch.sin(ints),
]


@pytest.mark.filterwarnings("ignore:ComplexHalf")
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("make", FILLED)
def test_dtypes_that_follow_from_the_default_one(make: Any, dtype: torch.dtype) -> None:
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:

        def program() -> Any:
            try:
                result = make()
            except RuntimeError as error:  # not all of these there are for complex32
                return str(error)
            return result, result.dtype, result.element_size()

        def outcome(function: Any) -> Any:
            result = function()
            return result if isinstance(result, str) else (str(result[0]), result[0].dtype, *result[1:])

        assert outcome(magneto.compile(program, backend="eager")) == outcome(program)
    finally:
        torch.set_default_dtype(before)
