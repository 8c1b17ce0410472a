"""What captured code writes outside: all of it, in the right order, once for each call."""

from __future__ import annotations

import pytest
from programs import harness
from programs.texts import join

from . import programs_containers, programs_held, programs_variables

PROGRAMS = join(
    programs_containers,
    programs_variables,
    programs_held,
)

NOT_CAPTURED = {
    "exception after a partial mutation": "an exception leaves the function",
    "exception out of an operation": "an exception leaves the function",
    "a view of a leaf changed in place": "an operation fails",
    "one of several views changed in place": "an operation fails",
    "an expanded tensor changed in place": "an operation fails",
    "a suspended generator in a frame that an exception leaves": "an exception leaves the function",
    "a suspended generator is returned": "a generator is returned",
    "print is not lost": "print has an effect outside of Python",
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_effects(name: str) -> None:
    program, steps = PROGRAMS[name]
    harness.check(program, *steps, captured=name not in NOT_CAPTURED)


def test_rows_of_a_tensor_that_requires_grad_are_written_to() -> None:
    """Eager makes them with one `unbind()`, and raises an error: so does the captured program."""
    program = """
leaf = torch.ones(2, 3, requires_grad=True)
log = []
def f(x):
    t = leaf - x
    log.append(1)
    for row in t:
        row.add_(1)
    log.append(2)
    return t
def g(x):
    t = leaf - x
    a, b = t
    log.append(3)
    a[0].mul_(2)
    return t
def rows(t): return list(t)
def h(x):
    t = x * 2
    for row in rows(leaf * x):
        row.zero_()
    return t
def k(x):
    t = x * 2
    for row in t:
        row.add_(1)
    with torch.no_grad():
        u = leaf * 2
        for row in u:
            row.add_(1)
    a, b = leaf * 2
    return t, a.detach(), b, u
"""
    harness.check(
        program, "f(X)", "f(X)", "f(Y)", "g(X)", "g(X)", "h(X)", "h(X)", "k(X)", "k(X)", captured=False
    )


@pytest.mark.parametrize("kind", ["collections.OrderedDict", "Own", "OwnOrdered"])
def test_attributes_of_a_dict_that_is_changed(kind: str) -> None:
    """An OrderedDict has attributes of its own, as `state_dict()` has `_metadata`: its items are not all of it."""
    program = f"""
class Own(dict): pass
class OwnOrdered(collections.OrderedDict): pass
D = {kind}()
D.note = {{"a": 1}}
def f(x, key):
    D[key] = x + 1
    found = hasattr(D, "note"), getattr(D, "note", None), hasattr(D, "other"), list(D.__dict__), hasattr(D, "items")
    if hasattr(D, "note"):
        D.note[key] = len(D)
    D.last = key
    return found, hasattr(D, "last"), D.last
"""
    steps = [
        "f(X, 'b')",
        "f(X, 'b')",
        "D.other = 1",
        "f(X, 'c')",
        "del D.note",
        "f(X, 'c')",
        "D.note = {}",
        "f(Y, 'd')",
    ]
    harness.run(program, steps)
