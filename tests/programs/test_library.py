"""Programs around the standard library, numbers of other classes, torch's settings, gradients and writes to views."""

from __future__ import annotations

import pytest

from . import (
    harness,
    library_copies,
    library_gradients,
    library_settings,
    library_standard,
    library_subclasses,
)
from .texts import join, parse

PROGRAMS = join(
    library_standard,
    library_settings,
    library_copies,
    library_gradients,
    library_subclasses,
)

# Programs that are not captured: eager gives the same result, and this is why.
NOT_CAPTURED = {
    "lru unhashable": "the arguments of a cached function must be values, or objects that are told by identity",
    "lru raising": "a cached function that raises is called again each time: nothing is remembered",
    "lru after write": "a cached function runs for real, and must not miss what captured code has written",
    "a question about data with an answer that is no tensor": "the answer is in the data",
    "a tensor stored by the module operator": "an operation of what is no tensor is a break",
    "subclass with an operator of its own": "operators are recorded, not looked up",
}

# Autograd refuses these writes at once: the capture stops before them, and eager raises.
REFUSED = parse("""
### write to a view of a leaf
W = T(3).requires_grad_(True)
def f(x):
    v = W[:2]
    v.add_(1)
    return x + 1
---
f(X)
f(Y)
W
### write to a view of a leaf, caught
W = T(3).requires_grad_(True)
def f(x):
    try:
        W[:2].mul_(2)
    except RuntimeError:
        x = x + 100
    return x + 1
---
f(X)
f(Y)
### write to a view of a leaf made inside
def f(x):
    w = torch.ones(3, requires_grad=True)
    try:
        w[:2][0] = 2
    except RuntimeError:
        x = x + 100
    return x + 1
---
f(X)
f(Y)
### write to one of several views
def f(x, w):
    try:
        (x * w).unbind()[0].add_(1)
    except RuntimeError:
        x = x + 100
    return x + 1
---
f(X.clone(), T(3).requires_grad_(True))
f(Y.clone(), T(3).requires_grad_(True))
### write to a view made without grad mode
W = T(3).requires_grad_(True)
def f(x):
    with torch.no_grad():
        v = W[:2]
    try:
        v.add_(1)
    except RuntimeError:
        x = x + 100
    return x + 1
---
f(X)
f(Y)
""")


@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name: str) -> None:
    program, steps = PROGRAMS[name]
    harness.check(program, *steps, captured=name not in NOT_CAPTURED)


@pytest.mark.parametrize("name", [name for name in PROGRAMS if name not in NOT_CAPTURED])
def test_changes_after_many_calls(name: str) -> None:
    program, steps = PROGRAMS[name]
    harness.check(
        program, *(f"[{step} for _ in range(6)][-1]" if step[:2] == "f(" else step for step in steps)
    )


@pytest.mark.parametrize("name", REFUSED)
def test_write_that_autograd_refuses(name: str) -> None:
    program, steps = REFUSED[name]
    report = harness.run(program, steps)
    assert "OPERATION_FAILED" in [failure.reason for failure in report.failures]


@pytest.mark.parametrize("room", [16, None])
def test_what_a_cache_remembers_is_found_again(room: int | None) -> None:
    program = f"""
class A: pass
a = A()
@functools.lru_cache({room})
def g(size, o, *rest): return size[0] + len(rest)
def f(x): return x * g(x.shape, a) + g(x.shape, a, 1, None) - g((1, x.shape), a)
"""
    harness.check(program, "f(X)", "f(Y)", "f(X)", recaptures=False)
