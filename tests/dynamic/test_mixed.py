"""Programs with sizes and numbers that vary by AOTAutograd: as eager at each step."""

from __future__ import annotations

import pytest
import torch
from programs import harness

import magneto

from . import programs_mixed, programs_serving, programs_shapes

PROGRAMS = {**programs_mixed.PROGRAMS, **programs_serving.PROGRAMS, **programs_shapes.PROGRAMS}

# AOTAutograd decomposes an operation into others that round in another way, which the comparison of these programs sees.
ROUNDED = {"interpolate by factors and sizes"}


@pytest.mark.parametrize("name", [name for name in PROGRAMS if name not in ROUNDED])
@pytest.mark.filterwarnings("ignore")
@pytest.mark.no_leak_hunt("AOTAutograd keeps what it has compiled")
def test_program_by_aotautograd(name: str) -> None:
    program = PROGRAMS[name]
    harness.run(
        program.text,
        program.steps,
        compile=lambda function: magneto.compile(function, backend="aot_eager", **program.options),
    )


@pytest.mark.no_leak_hunt("AOTAutograd keeps what it has compiled")
def test_results_have_no_attributes_of_aotautograds() -> None:
    @magneto.compile(backend="aot_eager")
    def f(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x.exp(), x * 2

    for size in (3, 4, 5):
        x = torch.ones(size, 2, requires_grad=True)
        results = f(x)
        assert [vars(tensor) for tensor in (x, *results)] == [{}, {}, {}]


@pytest.mark.no_leak_hunt("AOTAutograd keeps what it has compiled")
def test_an_attribute_of_aotautograds_that_was_there_stays() -> None:
    @magneto.compile(backend="aot_eager")
    def f(x: torch.Tensor) -> torch.Tensor:
        return x.mul_(2)

    for size in (3, 4, 5):
        x = torch.ones(size, 2)
        x._dynamo_propagated_dynamic_indices = {1}  # type: ignore[attr-defined]
        assert f(x) is x
        assert 1 in x._dynamo_propagated_dynamic_indices  # type: ignore[attr-defined]
