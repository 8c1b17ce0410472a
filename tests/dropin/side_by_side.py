"""Runs a program under torch.compile and under magneto.compile, from the same start."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch._dynamo

import magneto

COMPILERS: dict[str, Callable[..., Any]] = {"torch": torch.compile, "magneto": magneto.compile}


def start_again() -> None:
    """Forget all that was compiled and counted."""
    torch._dynamo.reset()
    magneto.reset()
    torch._dynamo.utils.counters.clear()
    torch._dynamo.utils.clear_compilation_metrics()
    torch._dynamo.utils.reset_recompile_user_contexts()


def both(program: Callable[[Callable[..., Any]], Any]) -> tuple[Any, Any]:
    """What a program returns that is given torch.compile, and magneto.compile."""
    results = []
    for compiler in COMPILERS.values():
        start_again()
        try:
            results.append(program(compiler))
        finally:
            start_again()
    return results[0], results[1]


def agree(program: Callable[[Callable[..., Any]], Any]) -> Any:
    """The same, and the two are equal."""
    theirs, ours = both(program)
    assert ours == theirs
    return ours


def helper(x: torch.Tensor) -> torch.Tensor:
    return x * 2


def broken(x: torch.Tensor, n: int = 1) -> torch.Tensor:
    """A function with a break."""
    y = torch.sin(x) + n
    torch._dynamo.graph_break()
    return helper(y).cos()


def whole(x: torch.Tensor, n: str = "a") -> torch.Tensor:
    """A function without one, that is compiled again for another string."""
    return helper(x) + len(n)
