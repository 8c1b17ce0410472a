"""Random small programs do the same in CPython and in magneto's interpreter."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from interp.differential import assert_same, assert_same_when_specialised

pytestmark = pytest.mark.no_leak_hunt("hypothesis keeps its examples")

NAMES = ["a", "b", "c"]
LEAVES = [
    *NAMES,
    *[
        "0",
        "1",
        "2",
        "7",
        "-3",
        "''",
        "'x'",
        "[]",
        "()",
        "None",
        "1.5",
        "True",
        "{}",
        "{1: 2}",
        "[1, 2, 3]",
        "missing",
    ],
    "free",
]
OPERATORS = ["+", "-", "*", "//", "%", "<", "==", "and", "or", "is", "in", "not in", "&", "<=", "**"]

# E stands for an expression, N for a name, B for a block, P for a pattern, K for kinds of exceptions.
EXPRESSIONS = [
    "(E OP E)",
    "(E if E else E)",
    "(E < E <= E)",
    "(not E)",
    "(-E)",
    "[E, *E]",
    "(E, E)",
    "{E: E}",
    "{**E, 5: E}",
    "E[E]",
    "E[E:]",
    "helper(E, k=E)",
    "helper(*E, **E)",
    "helper(E)",
    "len(E)",
    "show(E)",
    "list(numbers(E))",
    "Thing(E).value",
    "Thing(E).method(2)",
    "(lambda q: [q, E])(E)",
    "[E for i in E if i]",
    "{i: E for i in E}",
    "{i for i in E}",
    "sum((j for j in E), E)",
    "(d := E, E, d)",
    "f'{E!r:>4}'",
    "sorted(E, key=lambda v: (str(v), free))",
]
SIMPLE = [
    "N = E",
    "N += E",
    "N -= E",
    "N |= E",
    "N, N = E",
    "N, *N = E",
    "N[E] = E",
    "del N",
    "del N[E]",
    "show(E)",
    "assert E, 'assertion'",
    "return E",
    "raise ValueError(E)",
    "raise KeyError(E) from TypeError()",
    "raise",
    "N = yield_some(E)",
    "nonlocal_bump()",
    "free += 1",
    "raise ExceptionGroup('g', [ValueError(1), KeyError(2)])",
]
COMPOUND = [
    "if E:\nB\nelse:\nB",
    "for N in E:\nB",
    "for i in range(3):\nB\n    if i: continue\nelse:\nB",
    "steps = 3\nwhile steps:\n    steps -= 1\nB\n    if steps == 1: break",
    "try:\nB\nexcept K as exc:\n    show(exc)\nB\nfinally:\nB",
    "try:\nB\nexcept K:\nB\nelse:\nB",
    "try:\nB\nexcept* K as exc:\n    show(exc)",
    "try:\nB\nexcept* K as exc:\n    raise\nexcept* K:\n    N = E",
    "try:\nB\nfinally:\nB",
    "with Manager(E) as m:\nB",
    "with Manager(E), Manager(E):\nB",
    "def inner(N=1):\n    nonlocal free\nB\nshow(inner())",
    "def gen():\n    nonlocal free\nB\n    N = yield E\n    return free\nshow(list(gen()))",
    "async def coro():\n    nonlocal free\nB\n    return E\nasync def outer():\n    async for z in agen(): show(z)\n"
    "    return await coro()\nshow(drive(outer()))",
    "match E:\n    case P if E:\n        N = E\n    case P:\n        N = E",
    "class Local(Thing):\n    N = E\n    def method(self, x): return super().method(x), free\nshow(Local(E).method(2))",
]
KINDS = ["ValueError", "(TypeError, KeyError)", "Exception", "ZeroDivisionError", "LookupError"]
PATTERNS = [
    "0",
    "int(n)",
    "[x, *rest]",
    "{1: v}",
    "str() as s",
    "None",
    "Thing(value=w)",
    "Thing(w)",
    "[] | ()",
]


class Writer:
    """Writes a program, each choice drawn by hypothesis."""

    def __init__(self, draw):
        self.draw = draw
        self.left = 40  # choices that may still be compound

    def pick(self, choices):
        return choices[self.draw(st.integers(0, len(choices) - 1))]

    def fill(self, template, depth):
        """A template with each placeholder replaced."""
        out = []
        for part in template.replace("OP", "\0").split("\n"):
            if part == "B":
                out += self.block(depth + 1)
                continue
            text = ""
            for index, char in enumerate(part):
                alone = not (part[index - 1 : index].isalnum() or part[index + 1 : index + 2].isalnum())
                text += self.replacement(char, depth) if alone else char
            out.append(text)
        return out

    def replacement(self, char, depth):
        match char:
            case "\0":
                return self.pick(OPERATORS)
            case "E":
                return self.expression(depth + 1)
            case "N":
                return self.pick(NAMES)
            case "K":
                return self.pick(KINDS)
            case "P":
                return self.pick(PATTERNS)
        return char

    def expression(self, depth):
        if depth > 4 or self.left <= 0 or self.draw(st.booleans()):
            return self.pick(LEAVES)
        self.left -= 1
        return self.fill(self.pick(EXPRESSIONS), depth)[0]

    def statement(self, depth):
        if depth > 3 or self.left <= 0 or self.draw(st.booleans()):
            return self.fill(self.pick(SIMPLE), depth)
        self.left -= 2
        return self.fill(self.pick(COMPOUND), depth)

    def block(self, depth):
        lines = []
        for _ in range(self.draw(st.integers(1, 2))):
            lines += self.statement(depth)
        return ["    " + line for line in lines]

    def body(self):
        """Statements most of which may fail without ending the program."""
        lines = []
        for _ in range(self.draw(st.integers(2, 5))):
            if self.draw(st.integers(0, 3)):
                lines += ["try:", *self.block(1), "except Exception as failure:", "    show(failure)"]
            else:
                lines += self.statement(0)
        return ["        " + line for line in lines]


HEAD = """
def show(x):
    print(type(x).__name__, repr(x)[:200])
    return x
def helper(p=0, *args, k=None, **kw):
    return p if k is None else [p, k, *args]
def numbers(n):
    for i in range(min(n, 4)):
        try:
            yield i
        finally:
            print("numbers", i)
def yield_some(n):
    it = numbers(n)
    out = [next(it)]
    it.close()
    return out
class Thing:
    __match_args__ = ("value",)
    def __init__(self, value): self.value = value
    def method(self, x): return self.value * x
    def __repr__(self): return f"Thing({self.value!r})"
class Manager:
    def __init__(self, swallow): self.swallow = swallow
    def __enter__(self): return self.swallow
    def __exit__(self, kind, value, traceback):
        print("exit", kind and kind.__name__)
        return self.swallow
async def agen():
    yield 1
    yield 2
def drive(coro):
    try:
        coro.send(None)
    except StopIteration as exc:
        return exc.value
def main():
    free = 0
    def nonlocal_bump():
        nonlocal free
        free += 1
    def body(a=1, b="b", c=()):
        nonlocal free
"""


@st.composite
def programs(draw):
    return HEAD + "\n".join(Writer(draw).body()) + "\n    return body(), free\n"


def is_valid(source):
    try:
        compile(source, "<program>", "exec")
    except SyntaxError:  # `return` in an except* clause, an f-string in an f-string
        return False
    return True


bounded = settings(
    max_examples=200,
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow],
)


@bounded
@given(programs())
@pytest.mark.filterwarnings("ignore::SyntaxWarning")
def test_random_program_does_the_same(source):
    assume(is_valid(source))
    assert_same(source)


@settings(bounded, max_examples=50)
@given(programs())
@pytest.mark.filterwarnings("ignore::SyntaxWarning")
def test_specialised_random_program_does_the_same(source):
    assume(is_valid(source))
    assert_same_when_specialised(source)
