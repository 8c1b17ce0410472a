"""Views that were made under no_grad, and then written to: torch raises where it is asked for their history."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import magneto
from magneto import _core


def written_view() -> tuple[torch.Tensor, torch.Tensor]:
    base = torch.ones(2, 3, requires_grad=True)
    with torch.no_grad():
        view = base[0]
        view.mul_(2)
    return base, view


def test_no_handler_of_the_program_sees_that_error() -> None:
    def f(view: Any) -> Any:
        try:
            return view.shape, view.detach() + 1
        except RuntimeError as error:
            return str(error)

    for _ in range(2):
        _, view = written_view()
        found = magneto.compile(f, backend="eager")(view)
        assert found[0] == (3,)
        assert torch.equal(found[1], torch.full((3,), 3.0))


@pytest.mark.parametrize("steps", range(10, 18))
def test_behind_a_break_in_a_callee(steps: int) -> None:
    def f(base: Any) -> Any:
        out = []
        for write in (lambda: base.add_(1), lambda: base[0].mul_(2)):
            try:
                write()
                out.append("written")
            except RuntimeError as error:
                out.append(str(error))
        return out

    compiled = magneto.compile(f, backend="eager")
    _core.inject_fault(steps)
    try:
        for _ in range(3):
            base = torch.ones(2, 3, requires_grad=True)
            with torch.no_grad():
                assert compiled(base) == ["written", "written"]
            assert torch.equal(base, torch.tensor([[4.0] * 3, [2.0] * 3]))
    finally:
        _core.inject_fault(0)


def test_the_program_gets_the_error_where_it_asks() -> None:
    def f(view: Any) -> Any:
        try:
            return view.is_leaf
        except RuntimeError as error:
            return str(error)

    _, view = written_view()
    expected = f(view)
    assert "no_grad" in expected
    assert magneto.compile(f, backend="eager")(view) == expected


def test_one_that_captured_code_makes() -> None:
    def f(base: Any) -> Any:
        with torch.no_grad():
            view = base[0]
            view.mul_(2)
        try:
            return view.is_leaf
        except RuntimeError as error:
            return str(error)

    compiled = magneto.compile(f, backend="eager")
    for needs_grad in (True, False, True):
        base = torch.ones(2, 3, requires_grad=needs_grad)
        expected = f(base.detach().clone().requires_grad_(needs_grad))
        assert compiled(base) == expected
