"""The algebra of sizes: what it makes of an expression is equal to it, and what it proves holds.

Expressions are compared with Python's own arithmetic under random values of the symbols, and with sympy. A relation
that is known must hold for all values that satisfy the symbols' ranges and the guards that were taken before it.
"""

from __future__ import annotations

import operator
import os
import random

import pytest
import sympy

from magneto import _core

LARGE = 2**62

OPERATORS = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "//": operator.floordiv,
    "%": operator.mod,
    "min": min,
    "max": max,
    "**": operator.pow,
    "&": operator.and_,
    "|": operator.or_,
    "^": operator.xor,
}

RELATIONS = {"==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le}

SIZE = (2, None)


def value(expression, symbols):
    """By Python's rules."""
    if isinstance(expression, int):
        return expression
    if isinstance(expression, str):
        return symbols[expression]
    name, first, second = expression
    return OPERATORS[name](value(first, symbols), value(second, symbols))


def ask(hints, *questions, ranges=None):
    return ask_with([], hints, *questions, ranges=ranges)[:3]


def ask_with(values, hints, *questions, ranges=None):
    ranges = ranges or [SIZE] * len(hints)
    symbols = [(hint, *bounds) for hint, bounds in zip(hints, ranges, strict=True)]
    return _core.sizes(symbols, list(questions), values)


def simplified(expression, *hints):
    (answer,), _, _ = ask(hints, expression)
    return answer[1]


def guards(hints, *questions, **kwargs):
    return ask(hints, *questions, **kwargs)[1]


A, B, C = "s0", "s1", "s2"


@pytest.mark.parametrize(
    "first, second",
    [
        (("*", ("+", A, B), ("-", A, B)), ("-", ("*", A, A), ("*", B, B))),
        (("//", ("*", ("*", A, B), 64), ("*", A, 4)), ("*", B, 16)),
        (("//", ("+", ("*", 4, A), 3), 4), A),
        (("%", ("+", ("*", 4, A), 7), 4), 3),
        (("//", ("//", A, 2), 3), ("//", A, 6)),
        (("//", ("*", 2, A), 4), ("//", A, 2)),
        (("//", ("-", ("*", A, A), ("*", B, B)), ("+", A, B)), ("-", A, B)),
        (("min", A, ("+", A, 1)), A),
        (("max", A, ("+", A, 1)), ("+", A, 1)),
        (("min", A, B), ("min", B, A)),
        (("**", A, 3), ("*", A, ("*", A, A))),
        (("%", ("*", A, B), B), 0),
        (("//", A, -1), ("-", 0, A)),
        (("-", ("*", A, B), ("*", B, A)), 0),
    ],
)
def test_equal_expressions_are_one(first, second):
    assert simplified(first, 7, 5) == simplified(second, 7, 5)


@pytest.mark.parametrize(
    "question, result",
    [
        (("==", A, 1), False),  # a size that varies is neither 0 nor 1
        (("<", 1, A), True),
        (("==", ("*", A, B), A), False),
        (("<", A, ("*", A, B)), True),
        (("<=", ("+", A, B), ("*", A, B)), True),
        (("==", ("+", ("*", 2, A), 1), ("*", 2, B)), False),  # odd and even
        (("<=", 0, ("//", A, 4)), True),
        (("<", ("%", A, 4), 4), True),
        (("<=", ("min", A, B), A), None),
        (("<", 0, ("-", ("*", ("*", A, B), 64), ("*", B, 64))), True),
    ],
)
def test_decisions_that_need_no_guard(question, result):
    (answer,), taken, _ = ask((7, 5), question)
    if result is None:  # not proven, and then guarded
        assert answer == (True, False) and len(taken) == 1
    else:
        assert answer == (result, True) and taken == []


def test_a_guard_is_known_from_then_on():
    answers, taken, _ = ask((7, 5), ("<", A, 10), ("<=", A, 12), ("<", A, 10), ("==", A, 11), ("<", 9, A))
    assert answers == [(True, False), (True, True), (True, True), (False, True), (False, True)]
    assert taken == ["s0 < 10"]


def test_a_relation_that_does_not_hold_is_guarded_by_its_opposite():
    assert guards((7, 5), ("<", A, B)) == ["s1 <= s0"]
    assert guards((7, 5), ("<=", A, B)) == ["s1 < s0"]
    assert guards((7, 5), ("==", A, B), ("!=", B, A)) == ["s0 != s1"]


def test_an_equality_replaces_a_symbol():
    answers, taken, ranges = ask(
        (6, 6, 12), ("==", A, B), ("==", C, ("+", A, B)), ("-", A, B), ("*", C, 1), ("==", ("//", C, 2), A),
        ranges=[SIZE, (2, 40), SIZE],
    )  # fmt: skip
    assert taken == ["s0 == s1", "s2 == s0 + s1"]
    assert answers[2:] == [(0, "0"), (12, "2*s0"), (True, True)]
    assert ranges[0] == (2, 40)  # what was known of the other holds for it


def test_a_size_that_is_specialized_is_a_number():
    answers, taken, ranges = ask((6, 9), ("==", A, 6), ("+", ("*", A, B), A), ("//", B, A))
    assert taken == ["s0 == 6"] and ranges[0] == (6, 6)
    assert answers[1] == (60, "6*s1 + 6") and answers[2] == (1, "((s1)//(6))")


def test_divisibility_is_used():
    answers, taken, _ = ask(
        (12, 5), ("==", ("%", A, 4), 0), ("==", ("*", ("//", A, 4), 4), A), ("<", ("//", A, 4), A)
    )
    assert answers == [(True, False), (True, True), (True, True)]
    assert len(taken) == 1


def test_guards_are_run_for_other_values():
    questions = [("<", A, ("*", 2, B)), ("==", ("%", A, 4), 0), ("!=", B, 7)]
    values = [[8, 5], [8, 4], [12, 7], [12, 8], [10, 8], [1, 8], [8, 41], [4, 2**62]]
    _, taken, _, fits = ask_with(values, (8, 5), *questions, ranges=[SIZE, (2, 40)])
    assert len(taken) == 3
    assert fits == [None, 2, 4, None, 3, 0, 1, 1]
    assert ask_with([[4, 2**62]], (8, 5), *questions)[3] == [2]  # it overflows


def test_what_is_too_hard_says_so():
    assert ask((7,), ("*", LARGE, ("*", A, 4)))[0] == [None]
    assert ask((7,), ("**", A, 70))[0] == [None]
    assert ask((7,), ("//", A, 0))[0] == [None]


def test_many_terms_are_too_hard():
    product = 1
    for i in range(8):
        product = ("*", product, ("+", f"s{i}", 1))
    assert ask((3,) * 8, product)[0] == [None]


PROGRAMS = int(os.environ.get("MAGNETO_RANDOM_SIZES", "400"))
SEED = int(os.environ.get("MAGNETO_RANDOM_SEED", "0"))


def random_expression(rng, depth, symbols):
    if depth == 0 or rng.random() < 0.15:
        return rng.choice([*symbols, *symbols, rng.choice((-3, -1, 0, 1, 2, 3, 4, 8, 64))])
    name = rng.choice(["+", "+", "-", "*", "*", "//", "%", "min", "max", "**", "&", "|", "^"])
    first = random_expression(rng, depth - 1, symbols)
    second = random_expression(rng, depth - 1, symbols)
    if name == "**":
        second = rng.choice((0, 1, 2, 3))
    if name in ("//", "%") and rng.random() < 0.6:
        second = rng.choice((1, 2, 3, 4, 8, -2, *symbols))
    return (name, first, second)


def try_value(expression, symbols):
    try:
        return value(expression, symbols)
    except ZeroDivisionError:
        return None


@pytest.mark.parametrize("number", range(PROGRAMS))
def test_random_expressions(number):
    rng = random.Random(SEED * 1_000_003 + number)
    symbols = [f"s{i}" for i in range(rng.randint(1, 4))]
    hints = [rng.randint(2, 30) for _ in symbols]
    expression = random_expression(rng, 4, symbols)
    expected = try_value(expression, dict(zip(symbols, hints, strict=True)))
    (answer,), _, _ = ask(hints, expression)
    if answer is None:
        return
    assert expected is not None and answer[0] == expected
    for _ in range(10):
        others = {name: rng.randint(2, 50) for name in symbols}
        expected = try_value(expression, others)
        if expected is not None:
            assert eval(answer[1], {}, others) == expected, (expression, answer[1], others)


@pytest.mark.parametrize("number", range(PROGRAMS))
def test_random_decisions(number):
    """For all values that satisfy the ranges and the guards, each relation is as it was decided."""
    rng = random.Random(SEED * 1_000_003 + number)
    symbols = [f"s{i}" for i in range(rng.randint(1, 3))]
    hints = [rng.randint(2, 12) for _ in symbols]
    ranges = [rng.choice((SIZE, SIZE, (2, 40), (0, None), (-5, None), (None, None))) for _ in symbols]
    questions = [
        (
            rng.choice(list(RELATIONS)),
            random_expression(rng, 2, symbols),
            rng.choice((random_expression(rng, 2, symbols), rng.randint(-2, 20))),
        )
        for _ in range(6)
    ]
    assignments = list(_assignments(rng, symbols, hints, ranges))
    answers, taken, _, fits = ask_with(
        [list(values.values()) for values in assignments], hints, *questions, ranges=ranges
    )
    assert fits[0] is None  # those of the call itself
    for values, failed in zip(assignments, fits, strict=True):
        failing = [not _holds(text, values) for text in taken]
        assert (failed is not None) == any(failing)  # guards that others imply are left out
        if failed is not None:
            continue
        for (name, first, second), answer in zip(questions, answers, strict=True):
            left, right = try_value(first, values), try_value(second, values)
            if answer is not None and left is not None and right is not None:
                assert RELATIONS[name](left, right) == answer[0], (name, first, second, values, taken)


def _holds(text, values):
    try:
        return eval(text, {}, values)
    except ZeroDivisionError:  # a guard that can't be checked does not hold
        return False


def _assignments(rng, symbols, hints, ranges):
    yield dict(zip(symbols, hints, strict=True))
    for _ in range(150):
        yield {
            name: rng.choice(
                (hint, rng.randint(-10 if low is None else low, 14 if high is None else min(high, 14)))
            )
            for name, hint, (low, high) in zip(symbols, hints, ranges, strict=True)
        }


def test_polynomials_are_as_sympy_expands_them():
    rng = random.Random(SEED)
    names = ("s0", "s1", "s2")
    symbols = {name: sympy.Symbol(name, integer=True) for name in names}
    for _ in range(100):
        expression = random_polynomial(rng, 3, names)
        (answer,), _, _ = ask((3, 4, 5), expression)
        if answer is not None:
            assert sympy.expand(value(expression, symbols) - eval(answer[1], {}, symbols)) == 0
            assert (sympy.expand(value(expression, symbols)) == 0) == (answer[1] == "0")


def random_polynomial(rng, depth, symbols):
    if depth == 0:
        return rng.choice([*symbols, rng.randint(-4, 4)])
    return (
        rng.choice("+-*"),
        random_polynomial(rng, depth - 1, symbols),
        random_polynomial(rng, depth - 1, symbols),
    )
