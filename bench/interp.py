"""Plain mode against CPython: how much slower is a frame when magneto's interpreter executes it?

Each program runs in CPython and in magneto in turns, in one process; the ratio is between the fastest runs of each.
"""

from __future__ import annotations

import argparse
import os
import platform
import time
from collections.abc import Callable

from magneto import _core

N = 30_000


class Point:
    __slots__ = ("x",)

    def __init__(self, x: int) -> None:
        self.x = x


class Node:
    def __init__(self, value: int) -> None:
        self.value = value
        self.total = 0

    def add(self, value: int) -> int:
        self.total += value
        return self.total

    @property
    def double(self) -> int:
        return self.value * 2


def callee(a: int, b: int) -> int:
    return a


def callee_defaults(a: int, b: int = 2, *, c: int = 3) -> int:
    return b


def calls() -> None:
    for i in range(N):
        callee(i, i)


def calls_keywords() -> None:
    for i in range(N):
        callee_defaults(i, c=i)


def calls_builtin() -> None:
    items = [1, 2, 3]
    for _ in range(N):
        len(items)


def methods() -> None:
    node = Node(1)
    for i in range(N):
        node.add(i)


def recursion() -> None:
    def fib(n: int) -> int:
        return n if n < 2 else fib(n - 1) + fib(n - 2)

    fib(18)


def loops() -> None:
    total = 0
    for i in range(N):
        if i % 3 == 0:
            total += i
        else:
            total -= 1


def while_loop() -> None:
    i = 0
    while i < N:
        i += 1


def floats() -> None:
    x = 0.0
    for i in range(N):
        x = x * 0.5 + i


def attributes() -> None:
    node = Node(3)
    for _ in range(N):
        node.value
        node.total = node.value


def attributes_slots() -> None:
    point = Point(3)
    for _ in range(N):
        point.x


def properties() -> None:
    node = Node(3)
    for _ in range(N):
        node.double


def containers() -> None:
    items = list(range(100))
    table = {i: i for i in range(100)}
    for i in range(N):
        j = i % 100
        items[j] = table[j] + items[j]


def comprehensions() -> None:
    for _ in range(N // 100):
        [i * 2 for i in range(100)]


def strings() -> None:
    text = ""
    for i in range(N):
        text += "x"
        f"{i}:{i!r}"


def generators() -> None:
    def count(n: int):  # type: ignore[no-untyped-def]
        for i in range(n):
            yield i

    for _ in count(N):
        pass


def generators_nested() -> None:
    def leaf(n: int):  # type: ignore[no-untyped-def]
        for i in range(n):
            yield i

    def root(n: int):  # type: ignore[no-untyped-def]
        yield from leaf(n)

    sum(root(N))


def exceptions() -> None:
    for _ in range(N):
        try:
            raise ValueError
        except ValueError:
            pass


def exceptions_deep() -> None:
    def fail(depth: int) -> None:
        if depth == 0:
            raise KeyError(depth)
        fail(depth - 1)

    for _ in range(N // 10):
        try:
            fail(5)
        except KeyError:
            pass


def try_finally() -> None:
    for _ in range(N):
        try:
            pass
        finally:
            pass


PROGRAMS: list[Callable[[], None]] = [
    calls, calls_keywords, calls_builtin, methods, recursion, loops, while_loop, floats, attributes, attributes_slots,
    properties, containers, comprehensions, strings, generators, generators_nested, exceptions, exceptions_deep,
    try_finally,
]  # fmt: skip


def fastest(run: Callable[[], object], repeat: int) -> float:
    best = float("inf")
    for _ in range(repeat):
        start = time.perf_counter()
        run()
        best = min(best, time.perf_counter() - start)
    return best


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeat", type=int, default=15)
    parser.add_argument("--limit", type=float, default=4.0, help="fail if a ratio is above this")
    options = parser.parse_args()
    machine = f"{platform.machine()}, {os.cpu_count()} processors"
    print(f"plain mode against CPython {platform.python_version()} ({machine}), fastest of {options.repeat}")
    print(f"{'program':20}{'CPython':>12}{'magneto':>12}{'ratio':>8}")
    worst = 0.0
    for program in PROGRAMS:
        program()
        cpython = magneto = float("inf")
        for _ in range(3):  # in turns, so that a slow spell of the machine meets both
            cpython = min(cpython, fastest(program, options.repeat // 3))
            magneto = min(magneto, fastest(lambda: _core.interpret(program), options.repeat // 3))  # noqa: B023
        ratio = magneto / cpython
        worst = max(worst, ratio)
        print(f"{program.__name__:20}{cpython * 1e6:10.0f}us{magneto * 1e6:10.0f}us{ratio:8.2f}")
    print(f"worst ratio {worst:.2f} (limit {options.limit:.2f})")
    return 1 if worst > options.limit else 0


if __name__ == "__main__":
    raise SystemExit(main())
