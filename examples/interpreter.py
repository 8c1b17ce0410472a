"""Runs varied Python under magneto's interpreter and under CPython, and shows that they agree.

This is the ground that capture stands on: magneto executes CPython's own frames exactly as CPython does.
"""

from __future__ import annotations

import opcode
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from magneto import _core


def primes(limit: int) -> list[int]:
    """Generators that feed each other."""

    def numbers() -> Iterator[int]:
        yield from range(2, limit)

    def without(factor: int, source: Iterator[int]) -> Iterator[int]:
        return (n for n in source if n % factor)

    found, source = [], numbers()
    while (prime := next(source, None)) is not None:
        found.append(prime)
        source = without(prime, source)
    return found


def parse(words: str) -> list[str]:
    """Exceptions, chained and cleaned up after."""
    log: list[str] = []
    for word in words.split():
        try:
            try:
                log.append(f"{word} -> {100 // int(word)}")
            except ValueError as error:
                raise KeyError(word) from error
            finally:
                log.append("next")
        except (KeyError, ZeroDivisionError) as error:
            log.append(f"{word}: {error!r} because of {error.__cause__!r}")
    return log


@dataclass(frozen=True)
class Node:
    """A binary operation on numbers or other nodes."""

    op: str
    left: Node | float
    right: Node | float


def evaluate(tree: Node | float) -> float:
    """Classes and pattern matching."""
    match tree:
        case Node("+", left, right):
            return evaluate(left) + evaluate(right)
        case Node("*", 0, _) | Node("*", _, 0):
            return 0
        case Node("*", left, right):
            return evaluate(left) * evaluate(right)
        case int() | float():
            return tree
        case _:
            raise TypeError(f"not a tree: {tree!r}")


def counters(*steps: int, start: int = 0) -> list[tuple[int, ...]]:
    """Closures, calls of all kinds, comprehensions."""

    def counter(step: int) -> Callable[[], int]:
        value = start

        def advance() -> int:
            nonlocal value
            value += step
            return value

        return advance

    advances = [counter(step) for step in steps]
    return sorted((tuple(advance() for advance in advances) for _ in range(4)), key=lambda row: -row[0])


def failing(depth: int) -> int:
    """An exception that leaves the function: the message and the traceback agree too."""
    return 1 // depth if depth == 0 else failing(depth - 1)


GROUPS = {
    "load/store": ("LOAD", "STORE", "DELETE", "COPY", "SWAP", "POP_TOP", "PUSH_NULL", "MAKE_CELL"),
    "call": ("CALL", "PRECALL", "KW_NAMES", "RETURN", "MAKE_FUNCTION", "RESUME", "COPY_FREE"),
    "jump": ("JUMP", "POP_JUMP", "FOR_ITER", "GET_ITER"),
    "build": ("BUILD", "LIST_", "SET_", "DICT_", "MAP_", "FORMAT", "UNPACK"),
    "operator": ("BINARY", "UNARY", "COMPARE", "CONTAINS", "IS_OP"),
    "exception": ("RAISE", "RERAISE", "PUSH_EXC", "POP_EXCEPT", "CHECK_EXC", "WITH_EXCEPT", "BEFORE_WITH"),
    "generator": ("YIELD", "SEND", "RETURN_GENERATOR", "GET_YIELD", "GET_AWAIT"),
    "match": ("MATCH", "GET_LEN"),
}


def group_of(name: str) -> str:
    """The group that fits an opcode's name best."""
    fits = [
        (len(prefix), group)
        for group, prefixes in GROUPS.items()
        for prefix in prefixes
        if name.startswith(prefix)
    ]
    return max(fits)[1] if fits else "other"


def outcome(call: Callable[[], object]) -> tuple[str, object]:
    """What a call gives: its value, or its exception with the lines of the traceback."""
    try:
        return "value", call()
    except Exception as error:
        lines, where = [], error.__traceback__
        while where is not None:
            if where.tb_frame.f_code is failing.__code__:
                lines.append(where.tb_lineno)
            where = where.tb_next
        return "raised", (repr(error), lines)


def main() -> int:
    tree = Node("+", Node("*", 3, Node("+", 1, 1)), Node("*", 0, 7))
    programs: list[tuple[Callable[..., object], tuple[object, ...], dict[str, object]]] = [
        (primes, (60,), {}),
        (parse, ("7 x 0",), {}),
        (evaluate, (tree,), {}),
        (counters, (1, 10), {"start": 5}),
        (failing, (3,), {}),
    ]
    wrong = 0
    for func, args, kwargs in programs:
        plain = outcome(lambda: func(*args, **kwargs))  # noqa: B023
        before = _core.opcode_counts()
        _core.count_opcodes(True)
        ours = outcome(lambda: _core.interpret(func, *args, **kwargs))  # noqa: B023
        _core.count_opcodes(False)
        groups: Counter[str] = Counter()
        for number, (now, then) in enumerate(zip(_core.opcode_counts(), before, strict=True)):
            groups[group_of(opcode.opname[number])] += now - then
        same = plain == ours
        wrong += not same
        print(f"{func.__name__}: {func.__doc__}")
        print(f"  CPython   {plain[0]} {plain[1]}")
        print(f"  magneto   {ours[0]} {ours[1]}")
        counts = ", ".join(f"{group} {count}" for group, count in groups.most_common() if count)
        print(f"  {'same' if same else 'DIFFERENT'}; {groups.total():,} instructions: {counts}\n")
    print(f"{len(programs) - wrong} of {len(programs)} programs agree")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
