"""Addresses of objects, and other things that libraries ask of the interpreter: ids, subclasses, scripted functions."""

from __future__ import annotations

from typing import Any

import pytest
from breaks.test_programs import compiled
from programs import harness


def run(text: str, *steps: str) -> Any:
    """As eager, with breaks on; gives what was compiled."""
    made: list[Any] = []

    def compile(function: Any) -> Any:
        made.append(compiled(function))
        return made[0]

    harness.run(text, steps, compile=compile)
    return made[0]


def test_text_without_addresses_is_no_reason_to_capture_again() -> None:
    text = """
class C:
    def __init__(self):
        self.names = [1]
def f(x, c):
    return x + len(c.names) + len(str(type(c))) + len(f"{c.names[0]} {(1, 'a')}") + len(list(map(str, c.names)))
"""
    assert run(text, "f(X, C())", "f(X, C())", "f(X, C())").captures == 1


def test_text_with_an_address_is_guarded() -> None:
    text = """
class C:
    pass
A, B = C(), C()
def f(x, c):
    return x + 1, str(c) == str(A), f"{[c]}" == str([A])
"""
    run(text, "f(X, A)", "f(X, B)", "f(X, A)")


def test_deep_copies_are_captured_where_breaks_are_on() -> None:
    text = """
class C:
    def __init__(self):
        self.sizes = {"a": [2, 3]}
        self.again = self.sizes
A = C()
def f(x):
    c = copy.deepcopy(A)
    c.sizes["a"].append(4)
    return x + sum(c.sizes["a"]), c.again is c.sizes, A.sizes["a"]
"""
    made = run(text, "f(X)", "f(Y)", "A.sizes['a'][0] = 7", "f(X)")
    assert all(entry.operations > 0 for entry in made.entries())


def test_a_memo_of_ids_does_not_outlive_a_break() -> None:
    text = """
def f(x):
    a, memo = [1, 2], {}
    b = copy.deepcopy(a, memo)
    y = x + 1
    if y.sum() > -100:
        y = y + 1
    return y, copy.deepcopy(a, memo) is b
"""
    run(text, "f(X)", "f(Y)", "f(X)")


def test_ids_that_are_returned() -> None:
    text = """
def f(x, a):
    y = [x + 1]
    return y, id(a) == id(X), id(y) == id(y), id(y) != id(a)
"""
    run(text, "f(X, X)", "f(X, Y)", "f(X, X)")


def test_parameters_in_a_set() -> None:
    text = """
N = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
def f(x):
    return N(x) * len(list(N.parameters())), [name for name, _ in N.named_parameters()]
"""
    made = run(text, "f(X)", "f(Y)")
    assert len(made.entries()) == 1


def test_subclasses_are_guarded() -> None:
    text = """
class C:
    pass
class D(C):
    pass
def f(x):
    found = C.__subclasses__()
    names = [c.__name__ for c in found]
    found.append(C)
    return x + len(found), names, found
"""
    made = run(text, "f(X)", "f(X)", "class E(C): pass", "f(X)", "f(X)")
    assert made.captures == 2


def test_classes_that_stand_for_dtypes() -> None:
    text = """
def f(x):
    return x.to(int), torch.zeros(2, dtype=float), torch.tensor([1], dtype=bool), x.type(torch.float64).to(dtype=int)
"""
    harness.check(text, "f(X)", "f(Y)")


@pytest.mark.no_leak_hunt("torch.jit keeps what it has scripted")
def test_scripted_functions_are_the_functions_they_were_made_of() -> None:
    text = """
@torch.jit.script
def inner(x):
    return x * 2 + 1
def f(x):
    return inner(x) + 1
"""
    harness.check(text, "f(X)", "f(Y)")


def test_text_of_what_holds_itself() -> None:
    text = """
l, d = [1], {"a": 2}
l.append((l, d)); d["l"] = [l]
def f(x):
    m = [x.shape[0]]
    m.append((m, {"m": m}))
    return x + len(str(l)) + len(repr(d)) + len(f"{m}")
"""
    run(text, "f(X)", "f(Y)", "l.append(5)", "f(X)")


TOLD = [
    "object.__hash__(a)", "a.__hash__()", "super(A, a).__hash__()", "(a, 1).__hash__()", "object.__repr__(a)", "a.__repr__()",
    "str(frozenset([a]))", "hash(frozenset([a]))", "str({1: {a}})", "repr(functools.partial(len, a))", "repr(a.__init__)", "str(ValueError(a))",
    "repr(KeyError(1, [a]))", "repr(slice(a, 1))", "repr(collections.deque([a]))", "str(collections.OrderedDict(x=a))", "str({1: a}.values())",
    "str(types.SimpleNamespace(q=a))", "repr(types.MappingProxyType({1: a}))", "BaseException.__str__(ValueError(a))", "a.__str__()", "a.__format__('')", "hash((a, 1))", "object.__hash__(b)", "object.__repr__(b)", "A.__hash__(a)",
]  # fmt: skip


@pytest.mark.parametrize("told", TOLD)
def test_what_special_methods_tell_of_an_address_is_that_of_the_object(told: str) -> None:
    text = f"""
class A: pass
class B:
    def __hash__(self): return 3
    def __repr__(self): return "b"
kept = []
def tell(a, b): return {told}
def f(x):
    a, b = A(), B()
    return x + 1, a, b, {told}
def g(x, a, b): return x + 1, {told} == tell(a, b)
def check(result):
    kept.append(result[1:3])
    return result[3] == tell(result[1], result[2])
"""
    run(text, *["check(f(X))"] * 3)
    run(text.replace("def f", "def h").replace("def g", "def f"), *["f(X, A(), B())"] * 3)
