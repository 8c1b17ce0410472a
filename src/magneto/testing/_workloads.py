"""Small programs that the stress runner keeps busy threads with: each uses other parts of the interpreter."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import operator
import random
import sys
import threading
import traceback
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from dataclasses import dataclass


class _Node:
    """A node of a cyclic graph, for the collector."""

    def __init__(self, other: _Node | None) -> None:
        self.other = other
        self.loop = self


@dataclass
class _Point:
    x: int
    y: int


def cycles(rng: random.Random) -> None:
    """Makes garbage that only the cyclic collector frees."""
    node: _Node | None = None
    for _ in range(rng.randrange(5, 50)):
        node = _Node(node)
    assert node is not None and node.loop is node


def generators(rng: random.Random) -> None:
    """Delegating generators: run to the end, thrown into, closed half-way, dropped."""

    def numbers(count: int) -> Generator[int, int | None, int]:
        total = 0
        for number in range(count):
            try:
                sent = yield number
                total += sent or 0
            except ValueError:
                total += 1
        return total

    def outer(count: int) -> Generator[int, int | None, int]:
        first = yield from numbers(count)
        second = yield from numbers(count)
        return first + second

    count = rng.randrange(3, 12)
    assert list(outer(count)) == [*range(count), *range(count)]
    running = outer(count)
    next(running)
    assert running.send(2) == 1
    assert running.throw(ValueError()) == 2
    if rng.random() < 0.5:
        running.close()


def exceptions(rng: random.Random) -> None:
    """Nested handlers, chaining, groups, recursion."""
    depth = rng.randrange(1, 20)

    def fall(level: int) -> None:
        try:
            if not level:
                raise ExceptionGroup("bottom", [KeyError(1), TypeError("t")])
            fall(level - 1)
        finally:
            level += 1

    caught = []
    try:
        fall(depth)
    except* KeyError as group:
        caught.append(len(group.exceptions))
    except* TypeError as group:
        caught.append(len(group.exceptions))
    assert caught == [1, 1]
    try:
        try:
            raise LookupError("first")
        except LookupError as first:
            raise RuntimeError("second") from first
    except RuntimeError as second:
        assert isinstance(second.__cause__, LookupError)


def classes(rng: random.Random) -> None:
    """Classes made on the fly, with `super`, properties, closures and keyword calls."""
    offset = rng.randrange(100)

    class Base:
        def __init_subclass__(cls, *, scale: int = 1) -> None:
            cls.scale = scale

        scale = 1

        def value(self, x: int, /, *rest: int, extra: int = 0, **others: int) -> int:
            return x * self.scale + sum(rest) + extra + sum(others.values()) + offset

    class Derived(Base, scale=3):
        @property
        def seven(self) -> int:
            return super().value(2, extra=1) - offset

        def value(self, x: int, /, *rest: int, **others: int) -> int:
            return super().value(x, *rest, **others) + 1

    made = Derived()
    assert made.seven == 7
    assert made.value(1, 2, *[3, 4], extra=5, **{"a": 6}) == 3 + 2 + 3 + 4 + 5 + 6 + offset + 1


def containers(rng: random.Random) -> None:
    """Comprehensions, sorting with keys in Python, unpacking, slices."""
    values = [rng.randrange(1000) for _ in range(60)]
    ordered = sorted(values, key=lambda value: (value % 7, -value))
    assert sorted(ordered) == sorted(values)
    table = {value: [k * k for k in range(value % 5)] for value in values}
    assert all(len(row) == value % 5 for value, row in table.items())
    first, *middle, last = ordered
    assert [first, *middle, last] == ordered and ordered[::-1][0] == last
    assert functools.reduce(operator.add, values, 0) == sum(values)
    assert {value % 3 for value in values} <= {0, 1, 2}


def patterns(rng: random.Random) -> None:
    """Structural pattern matching, f-strings."""

    def describe(thing: object) -> str:
        match thing:
            case _Point(x=0, y=y):
                return f"axis {y!r:>3}"
            case {"kind": str(kind), **rest}:
                return f"{kind}:{len(rest)}"
            case [int(head), *tail] if tail:
                return f"{head}+{len(tail)}"
            case int() | float():
                return "number"
            case _:
                return "other"

    y = rng.randrange(10)
    things = [_Point(0, y), {"kind": "k", "a": 1}, [1, 2, 3], 4.0, "text"]
    assert [describe(thing) for thing in things] == [f"axis   {y}", "k:1", "1+2", "number", "other"]


def coroutines(rng: random.Random) -> None:
    """Coroutines, asynchronous generators, comprehensions and context managers, in a loop of this thread."""

    async def numbers(count: int) -> AsyncIterator[int]:
        for number in range(count):
            await asyncio.sleep(0)
            yield number

    @contextlib.asynccontextmanager
    async def room() -> AsyncIterator[int]:
        await asyncio.sleep(0)
        try:
            yield 1
        finally:
            await asyncio.sleep(0)

    async def work(count: int) -> int:
        async with room() as one:
            return sum([number async for number in numbers(count)]) + one

    async def everything() -> list[int]:
        return await asyncio.gather(*(work(count) for count in range(5)))

    loop = asyncio.new_event_loop()
    try:
        assert loop.run_until_complete(everything()) == [1, 1, 2, 4, 7]
    finally:
        loop.close()


def text(rng: random.Random) -> None:
    """JSON there and back, through the encoder in Python."""
    value = {"a": [rng.random() for _ in range(10)], "b": {"c": None, "d": [True, False]}}
    assert json.loads(json.dumps(value, indent=1)) == value


def recursion(rng: random.Random) -> None:
    """Deep calls, and the error at their limit now and then."""

    def down(level: int) -> int:
        return 0 if level == 0 else 1 + down(level - 1)

    assert down(150) == 150
    if rng.random() < 0.02 and sys.getrecursionlimit() <= 2000:  # a test may have raised it
        with contextlib.suppress(RecursionError):
            down(1_000_000)


@contextlib.contextmanager
def _noted(seen: list[str], name: str) -> Iterator[None]:
    seen.append(f"+{name}")
    try:
        yield
    finally:
        seen.append(f"-{name}")


def contexts(rng: random.Random) -> None:
    """`with` statements, left by falling through, `return`, `break` and an exception."""
    seen: list[str] = []

    def leave() -> int:
        for _ in range(3):
            with _noted(seen, "a"), _noted(seen, "b"):
                if rng.random() < 0.5:
                    return 1
                break
        with contextlib.suppress(ZeroDivisionError), _noted(seen, "c"):
            return 1 // 0
        return 2

    assert leave() in (1, 2)
    assert seen[:4] == ["+a", "+b", "-b", "-a"]


WORKLOADS: tuple[Callable[[random.Random], None], ...] = (
    cycles,
    generators,
    exceptions,
    classes,
    containers,
    patterns,
    coroutines,
    text,
    recursion,
    contexts,
)


def run_until(stop: threading.Event, seed: int, report: Callable[[str, str, str], None]) -> None:
    """Runs random workloads until `stop` is set, pausing between them so that the tests get on.

    An exception goes to `report` (the workload's name, the exception's type, the traceback). The tests
    beside may change the process under a workload's feet (the recursion limit, an event-loop policy); but
    no workload may compute a wrong result, which shows as an AssertionError.
    """
    rng = random.Random(seed)
    while not stop.wait(0.002 * rng.random()):
        workload = rng.choice(WORKLOADS)
        try:
            workload(rng)
        except Exception as error:
            report(workload.__name__, type(error).__name__, traceback.format_exc())
