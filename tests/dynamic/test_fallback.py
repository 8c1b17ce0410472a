"""Operations that have no shape function, on sizes that vary: torch is asked, and its guards are ours."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch._dynamo.testing import CompileCounter

import magneto
from magneto import _core, _sizes

SIZES = (4, 8, 12, 16, 20)


def _asked(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """For each operation that torch is asked about, whether it knew."""
    answers: list[bool] = []
    run = _sizes.Session._run

    def spy(self: _sizes.Session, *args: Any) -> Any:
        outcome = run(self, *args)
        answers.append(outcome is not None and outcome.kind == _core.OUTCOME_KNOWN)
        return outcome

    monkeypatch.setattr(_sizes.Session, "_run", spy)
    return answers


def _entries(
    function: Callable[..., Any], inputs: Callable[[int], tuple[Any, ...]], sizes: Sequence[int] = SIZES
) -> int:
    """How many graphs come of a sequence of sizes, each compared with eager."""
    compiled = magneto.compile(function, backend="eager")
    before = magneto.counters["stats"]["unique_graphs"]
    for size in sizes:
        args = inputs(size)
        torch.manual_seed(0)
        expected = function(*args)
        torch.manual_seed(0)
        torch.testing.assert_close(compiled(*args), expected)
    return magneto.counters["stats"]["unique_graphs"] - before


def _entries_of_torch(
    function: Callable[..., Any], inputs: Callable[[int], tuple[Any, ...]], sizes: Sequence[int] = SIZES
) -> int:
    """The same by torch.compile."""
    torch._dynamo.reset()
    counter = CompileCounter()
    compiled = torch.compile(function, backend=counter)
    for size in sizes:
        compiled(*inputs(size))
    torch._dynamo.reset()
    return counter.frame_count


def _attention(query: torch.Tensor) -> torch.Tensor:
    return F.multi_head_attention_forward(
        query, query, query, 8, 2, torch.ones(24, 8), torch.zeros(24), None, None, False, 0.0,
        torch.ones(8, 8), torch.zeros(8), need_weights=False,
    )[0]  # fmt: skip


r = torch.randn

PROGRAMS: dict[str, tuple[Callable[..., Any], Callable[[int], tuple[Any, ...]]]] = {
    "attention": (_attention, lambda n: (r(n, 3, 8),)),
    "pixel_unshuffle": (lambda x: F.pixel_unshuffle(x, 2), lambda n: (r(1, 1, n, 4),)),
    "channel_shuffle": (lambda x: F.channel_shuffle(x, 2), lambda n: (r(1, n, 3, 3),)),
    "cummax": (lambda x: torch.cummax(x, 0), lambda n: (r(n, 3),)),
    "fold": (lambda x: F.fold(x, (4, 5), (2, 2)), lambda n: (r(n, 12, 12),)),
    "unfold": (lambda x: F.unfold(x, (2, 2)), lambda n: (r(2, 3, n, n + 1),)),
    "rfft": (torch.fft.rfft, lambda n: (r(3, n),)),
    "irfft": (lambda x: torch.fft.irfft(torch.fft.rfft(x), n=x.shape[-1]), lambda n: (r(3, n),)),
    "stft": (
        lambda x: torch.stft(x, 8, 4, window=torch.ones(8), return_complex=True),
        lambda n: (r(2, 8 * n),),
    ),
    "cdist": (torch.cdist, lambda n: (r(n, 3), r(n + 1, 3))),
    "grid_sample": (
        lambda x, grid: F.grid_sample(x, grid, align_corners=False),
        lambda n: (r(2, 3, n, n), torch.rand(2, n + 2, n + 1, 2)),
    ),
    "cartesian_prod": (torch.cartesian_prod, lambda n: (r(n), r(n + 1))),
    "block_diag": (torch.block_diag, lambda n: (r(n, 2), r(3, n + 1))),
    "svdvals": (torch.linalg.svdvals, lambda n: (r(n, 5),)),
    "lu_factor": (lambda x: torch.linalg.lu_factor(x)[0], lambda n: (r(n, n),)),
    "searchsorted": (torch.searchsorted, lambda n: (torch.arange(n * 1.0), r(n + 1))),
    "rot90": (lambda x: torch.rot90(x, 1, [0, 1]), lambda n: (r(n, n + 1),)),
    "trapezoid": (torch.trapezoid, lambda n: (r(2, n),)),
    "gumbel_softmax": (F.gumbel_softmax, lambda n: (r(n, 4),)),
    "logcumsumexp": (lambda x: torch.logcumsumexp(x, 0), lambda n: (r(n, 3),)),
    "lp_pool": (lambda x: F.lp_pool2d(x, 2, 2), lambda n: (r(2, 2, n, n),)),
    "max_unpool": (
        lambda x: F.max_unpool1d(*F.max_pool1d(x, 2, return_indices=True), 2),
        lambda n: (r(1, 2, n),),
    ),
    "einsum": (lambda a, b, c: torch.einsum("ij,jk,kl->il", a, b, c), lambda n: (r(n, 3), r(3, n), r(n, 4))),
    "out": (lambda x, out: torch.add(x, 1, out=out), lambda n: (r(n, 3), r(n, 3))),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_operation_without_shape_function_has_one_dynamic_entry(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = _asked(monkeypatch)
    assert _entries(*PROGRAMS[name]) == 2
    assert asked
    assert all(asked)


def test_encoder_layer_in_evaluation_has_one_dynamic_entry() -> None:
    layer = torch.nn.TransformerEncoderLayer(8, 2, batch_first=True).eval()
    assert _entries(layer, lambda n: (r(2, n, 8),)) == 2


def test_results_that_take_part_in_other_operations() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        y = torch.fft.rfft(x).abs()
        return (y.view(-1) * y.shape[1]).reshape(y.shape) + torch.cummax(y, 1)[0]

    assert _entries(program, lambda n: (r(3, n),)) == 2


def test_divisibility_that_torch_checks_is_a_guard() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        try:
            return F.pixel_unshuffle(x, 2)
        except RuntimeError:
            return x - 1

    inputs: Callable[[int], tuple[Any, ...]] = lambda n: (r(1, 1, n, 4),)  # noqa: E731
    assert _entries(program, inputs, (4, 8, 12, 7, 9, 6)) <= 4


@pytest.mark.no_leak_hunt("torch.compile keeps what it compiled")
def test_guard_of_torch_tells_sizes_apart() -> None:
    def program(x: torch.Tensor) -> int:
        return len(torch.tensor_split(x, 3)) + torch.tensor_split(x, 3)[0].shape[0]

    inputs: Callable[[int], tuple[Any, ...]] = lambda n: (r(n, 3),)  # noqa: E731
    sizes = (4, 8, 12, 16, 20, 5, 6, 7, 9)
    ours = _entries(program, inputs, sizes)
    assert 2 < ours <= _entries_of_torch(program, inputs, sizes) == 4


@pytest.mark.no_leak_hunt("torch.compile keeps what it compiled")
def test_operation_that_specialises_in_torch_specialises() -> None:
    inputs: Callable[[int], tuple[Any, ...]] = lambda n: (r(n),)  # noqa: E731
    program: Callable[[torch.Tensor], torch.Tensor] = lambda x: torch.vander(x, 4)  # noqa: E731
    assert _entries(program, inputs) == _entries_of_torch(program, inputs)


def test_equality_that_torch_asks_for_is_a_guard(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = _asked(monkeypatch)

    def program(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.cdist(x, y)

    compiled = magneto.compile(program, backend="eager")
    for n in (4, 5, 6):
        x, y = r(n, n + 3), r(n + 1, n + 3)
        torch.testing.assert_close(compiled(x, y), program(x, y))
    assert asked == [True]
    with pytest.raises(RuntimeError, match="must have the same number of columns"):
        compiled(r(4, 5), r(4, 6))


def test_operation_that_writes_to_its_argument() -> None:
    def program(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = x * 2
        values, indices = torch.empty_like(x), torch.empty_like(x, dtype=torch.long)
        torch.cummax(y, 0, out=(values, indices))
        return values + 1, indices

    assert _entries(program, lambda n: (r(n, 3),)) == 2


def test_view_shares_memory_with_its_base(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = _asked(monkeypatch)

    def program(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x = torch.fft.fftshift(x)
        view = torch.adjoint(x)
        view.mul_(2)
        return x, view

    assert _entries(program, lambda n: (r(n, n + 1),)) == 2
    assert asked
    assert all(asked)


def test_data_dependent_operation_breaks_the_graph_without_specialising() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        return torch.nonzero(x * 2).float() + 1

    compiled = magneto.compile(program, backend="eager")
    magneto.counters.clear()
    for n in (4, 5, 6, 7, 8):
        x = r(n, 3)
        torch.testing.assert_close(compiled(x), program(x))
    assert magneto.counters["stats"]["unique_graphs"] == 4  # two of each part


def test_operation_that_raises_stops_the_capture() -> None:
    def program(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        try:
            return torch.cdist(x, y)
        except RuntimeError:
            return x.sum()

    compiled = magneto.compile(program, backend="eager")
    for n in (4, 5, 6):
        x, y = r(n, 3), r(n, 2)
        torch.testing.assert_close(compiled(x, y), program(x, y))


def test_int_that_varies_among_the_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = _asked(monkeypatch)

    def program(x: torch.Tensor, shift: int) -> torch.Tensor:
        return (
            torch.cummax(torch.fft.fftshift(x, 0), 0)[0][: shift + 1]
            + F.threshold(x, shift, shift)[: shift + 1]
        )

    assert _entries(program, lambda n: (r(2 * n, 3), n)) == 2
    assert asked
    assert all(asked)


def test_float_of_a_size_among_the_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = _asked(monkeypatch)

    def program(x: torch.Tensor) -> torch.Tensor:
        return F.gumbel_softmax(x, tau=x.shape[0] / 2)

    assert _entries(program, lambda n: (r(n, 3),)) == 2
    assert all(asked)


def test_gradients_are_those_of_eager() -> None:
    compiled = magneto.compile(lambda x: torch.logcumsumexp(x, 0).sum(), backend="eager")
    for n in (4, 5, 6):
        x = r(n, 3, requires_grad=True)
        (given,) = torch.autograd.grad(compiled(x), x)
        (expected,) = torch.autograd.grad(torch.logcumsumexp(x, 0).sum(), x)
        torch.testing.assert_close(given, expected)


@pytest.mark.no_leak_hunt("torch.library keeps something of each operator")
def test_operator_of_the_program_is_asked_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = _asked(monkeypatch)

    @torch.library.custom_op("magneto_fallback::halve", mutates_args=())
    def halve(x: torch.Tensor) -> torch.Tensor:
        return x[: x.shape[0] // 2] * 2

    @halve.register_fake
    def _(x: torch.Tensor) -> torch.Tensor:
        return x.new_empty(x.shape[0] // 2, *x.shape[1:])

    def program(x: torch.Tensor) -> torch.Tensor:
        return torch.ops.magneto_fallback.halve(x) + torch.ops.magneto_fallback.halve(x)

    assert _entries(program, lambda n: (r(n, 3),), (4, 5, 6, 7, 9)) == 2
    assert asked == [True, True]


def test_warning_of_an_operation_comes_as_in_eager() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        return F.grid_sample(x, torch.zeros(1, 3, 3, 2))

    def warned(function: Callable[..., Any]) -> list[str]:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for n in (4, 5, 6):
                function(r(1, 1, n, n))
        return [str(one.message) for one in caught]

    assert warned(magneto.compile(program, backend="eager")) == warned(program)


def test_expression_that_the_core_has_none_for_is_unreadable() -> None:
    import sympy  # type: ignore[import-untyped]
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

    reader = _sizes.Reader(ShapeEnv(), lambda symbol: 0, lambda *relation: True)
    symbol = sympy.Symbol("x", integer=True)
    assert reader.tree(symbol**2 + 3 * symbol) in (
        ("+", ("**", "s0", 2), ("*", 3, "s0")),
        ("+", ("*", 3, "s0"), ("**", "s0", 2)),
    )
    with pytest.raises(_sizes.Unreadable):
        reader.tree(symbol / 2)
    with pytest.raises(_sizes.Unreadable):
        reader.assume(sympy.Function("f")(symbol))


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_tensor_is_resized_to_sizes_that_vary(backend: str) -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        y = x.clone()
        y.resize_(x.shape[0] + 1, 2).fill_(1)
        return y + x.clone().resize_as_(y).fill_(2)

    compiled = magneto.compile(program, backend=backend, dynamic=True)
    for size in (4, 5, 6):
        x = torch.ones(size, 6)
        assert torch.equal(compiled(x), program(x))
