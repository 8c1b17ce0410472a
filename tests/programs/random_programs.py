"""Random programs for the differential tests: containers, attributes, tensors, closures, control flow, and a driver
that changes the outside between the calls."""

from __future__ import annotations

import random
from collections.abc import Callable

HEADER = """
class A:
    k = 3
    def __init__(self, n=0):
        self.n = n
        self.l = [n]
        self.d = {"a": n}
        self.t = X
    def bump(self, by=1):
        self.n += by
        return self.n
    def push(self, v):
        self.l.append(v)
        return len(self.l)
    @property
    def twice(self):
        return self.n * 2
    def __len__(self):
        return len(self.l)
class B(A):
    __slots__ = ("s",)
    k = 4
    def bump(self, by=1):
        return super().bump(by * 2) + self.k
    def __add__(self, o):
        return self.n + o
gi, gf, gs = 1, 0.5, "ab"
gl, gd, gset = [1, 2, 3], {"a": 1, "b": 2}, {1, 2}
gq, god, gdd = collections.deque([1, 2], maxlen=4), collections.OrderedDict(a=1, b=2), collections.defaultdict(list)
a, b = A(1), B(2)
gt, gu = T(2, 3, seed=5), T(2, 3, seed=6)
gtup = (1, [2], {"a": 3})
shared = [gl, gd]
def helper(v, l=[], *rest, k=1, **kw):
    l.append(v)
    return v + len(l) + k + sum(rest) + len(kw)
def scale(t, by=2):
    return t * by
def gen(n):
    for i in range(n):
        yield i
def make():
    c = 0
    def inc(by=1):
        nonlocal c
        c += by
        return c
    def get():
        return c
    return inc, get
inc, get = make()
class CM:
    def __init__(self, l): self.l = l
    def __enter__(self): self.l.append("in"); return len(self.l)
    def __exit__(self, *e): self.l.append("out"); return False
"""


class Writer:
    """Writes one program."""

    header = HEADER

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.lines: list[str] = []
        self.depth = 1
        self.locals: dict[str, list[str]] = {kind: [] for kind in ("int", "list", "dict", "tensor", "object")}
        self.count = 0
        self.budget = self.random.randint(4, 16)

    def pick(self, *choices: str) -> str:
        return self.random.choice(choices)

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    # ---- expressions ----

    def variable(self, kind: str, *outside: str) -> str:
        names = self.locals[kind]
        return self.random.choice(names) if names and self.chance(0.5) else self.random.choice(outside)

    def objects(self) -> str:
        return self.variable("object", "a", "b", "o", "a", "b")

    def lists(self) -> str:
        return self.variable("list", "gl", "l", f"{self.objects()}.l", "gtup[1]", "gl")

    def dicts(self) -> str:
        return self.variable("dict", "gd", "d", f"{self.objects()}.d", "gtup[2]", "god")

    def key(self) -> str:
        return self.pick('"a"', '"b"', '"c"', "gs", '"d"')

    def ints(self, depth: int = 0) -> str:
        if depth > 2:
            return self.pick("1", "2", "n", "gi")
        d = depth + 1
        choice = self.random.randrange(24)
        simple: list[Callable[[], str]] = [
            lambda: self.variable("int", "n", "gi", "3", "n"),
            lambda: self.pick("0", "1", "2", "-1", "5"),
            lambda: f"{self.objects()}.n",
            lambda: f"({self.ints(d)} {self.pick('+', '-', '*')} {self.ints(d)})",
            lambda: f"len({self.pick(self.lists(), self.dicts(), 'gset', 'gq', 'shared')})",
            lambda: f"{self.dicts()}.get({self.key()}, 0)" if self.chance(0.2) else f"len({self.dicts()})",
            lambda: f"len({self.objects()})",
            lambda: f"{self.objects()}.k",
            lambda: f"{self.objects()}.twice",
            lambda: f"{self.objects()}.bump({self.ints(d)} % 3)",
            lambda: f"{self.objects()}.push({self.ints(d)})",
            lambda: "x.shape[0]",
            lambda: f"({self.ints(d)} if {self.truth(d)} else {self.ints(d)})",
            lambda: f"helper({self.ints(d)})",
            lambda: f"helper({self.ints(d)}, {self.lists()}, k=2, z=3)",
            lambda: f"sum(gen({self.ints(d)} % 4))",
            lambda: self.pick("inc()", "get()", "inc(2)"),
            lambda: f"max({self.ints(d)}, {self.ints(d)})",
            lambda: f"({self.ints(d)} % 5)",
            lambda: f"int({self.truth(d)})",
            lambda: "len([v for v in gl if v != 2])",
            lambda: f"len(str({self.lists()}))",
            lambda: f"len(set(map(str, {self.lists()})))",
            lambda: f"functools.reduce(lambda p, q: p + q, [{self.ints(d)}, {self.ints(d)}])",
        ]
        return simple[choice]()

    def truth(self, depth: int = 0) -> str:
        d = depth + 1
        choices: list[Callable[[], str]] = [
            lambda: "flag",
            lambda: f"{self.ints(d)} > {self.ints(d)}",
            lambda: f"{self.key()} in {self.dicts()}",
            lambda: f"{self.pick('1', '2', 'n')} in {self.pick('gset', 'gl', 'gq')}",
            lambda: f"{self.lists()} is {self.lists()}",
            lambda: f"{self.objects()} is {self.objects()}",
            lambda: f"{self.lists()} == {self.lists()}",
            lambda: f"{self.dicts()} == {self.dicts()}",
            lambda: f"bool({self.pick(self.lists(), self.dicts(), 'gset', 'gq')})",
            lambda: f"isinstance({self.objects()}, B)",
            lambda: f"hasattr({self.objects()}, {self.pick(repr('z'), repr('n'), repr('s'))})",
            lambda: f"not {self.pick('flag', 'n', self.lists())}",
            lambda: f"{self.objects()} in [a, b]",
        ]
        return self.random.choice(choices)()

    def tensors(self, depth: int = 0) -> str:
        if depth > 2:
            return self.pick("x", "gt", "gu", "x")
        d = depth + 1
        choices: list[Callable[[], str]] = [
            lambda: self.variable("tensor", "x", "gt", "gu", "x"),
            lambda: f"{self.objects()}.t",
            lambda: f"({self.tensors(d)} {self.pick('+', '-', '*')} {self.tensors(d)})",
            lambda: f"({self.tensors(d)} + {self.ints(d)})",
            lambda: f"torch.{self.pick('relu', 'sin', 'abs', 'neg')}({self.tensors(d)})",
            lambda: f"scale({self.tensors(d)}, {self.ints(d)})",
            lambda: f"({self.tensors(d)} if {self.truth(d)} else {self.tensors(d)})",
            lambda: f"{self.tensors(d)}.clone()",
            lambda: f"torch.stack([{self.tensors(d)}, {self.tensors(d)}]).sum(0)",
            lambda: f"sum([{self.tensors(d)}, {self.tensors(d)}])",
            lambda: f"{self.tensors(d)}.view(2, 3)",
        ]
        return self.random.choice(choices)()

    def values(self) -> str:
        return self.random.choice(
            [self.ints, self.ints, self.tensors, self.lists, self.dicts, self.objects, lambda: f"[{self.ints()}]",
             lambda: f"({self.ints()}, {self.lists()})", lambda: f"{{'q': {self.tensors()}}}"]
        )()  # fmt: skip

    # ---- statements ----

    def add(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    def assign(self) -> None:
        kind = self.pick("int", "int", "list", "dict", "tensor", "object")
        value = {
            "int": self.ints,
            "list": lambda: self.pick(
                f"[{self.ints()}, {self.ints()}]", f"list({self.lists()})", self.lists(), "[]"
            ),
            "dict": lambda: self.pick(f"{{'a': {self.ints()}}}", f"dict({self.dicts()})", self.dicts(), "{}"),
            "tensor": self.tensors,
            "object": lambda: self.pick(f"A({self.ints()})", f"B({self.ints()})", self.objects()),
        }[kind]()
        if self.locals[kind] and self.chance(0.3):
            name = self.random.choice(self.locals[kind])
            self.add(f"{name} = {value}")
            return
        name = f"v{self.count}"
        self.count += 1
        self.add(f"{name} = {value}")
        if self.depth == 1:
            self.locals[kind].append(name)

    def mutate(self) -> None:
        choices: list[Callable[[], str]] = [
            lambda: f"{self.lists()}.append({self.values()})",
            lambda: f"{self.lists()}.insert(0, {self.ints()})",
            lambda: f"{self.lists()}.extend([{self.ints()}, {self.ints()}])",
            lambda: f"{self.lists()}.reverse()",
            lambda: f"{self.lists()}.clear()",
            lambda: f"{self.lists()}[:1] = [{self.ints()}]",
            lambda: "gl.sort(key=lambda v: str(type(v)))",
            lambda: f"{self.dicts()}[{self.key()}] = {self.values()}",
            lambda: f"{self.dicts()}.pop({self.key()}, None)",
            lambda: f"{self.dicts()}.update(a={self.ints()}, z={self.ints()})",
            lambda: f"{self.dicts()}.setdefault({self.key()}, {self.ints()})",
            lambda: f"god.move_to_end({self.key()}) if {self.key()} in god else None",
            lambda: f"gdd[{self.key()}].append({self.ints()})",
            lambda: f"gset.add({self.ints()} % 5)",
            lambda: f"gset.discard({self.ints()})",
            lambda: f"gq.append({self.ints()})",
            lambda: f"gq.appendleft({self.ints()})",
            lambda: f"{self.objects()}.n = {self.ints()}",
            lambda: f"{self.objects()}.n += 1",
            lambda: f"{self.objects()}.{self.pick('z', 'y')} = {self.values()}",
            lambda: f"{self.objects()}.l = {self.lists()}",
            lambda: f"{self.objects()}.d = {self.dicts()}",
            lambda: f"{self.objects()}.t = {self.tensors()}",
            lambda: f"b.s = {self.values()}",
            lambda: f"setattr({self.objects()}, 'w', {self.ints()})",
            lambda: f"{self.objects()}.__dict__.pop('z', None)",
            lambda: f"vars({self.objects()})['y'] = {self.ints()}",
            lambda: f"gi = {self.ints()} % 7",
            lambda: f"gt = {self.tensors()}",
            lambda: f"gt.add_({self.ints()} % 3)",
            lambda: f"x.clone().mul_({self.ints()} % 3)",
            lambda: "a.l, b.l = b.l, a.l",
            lambda: "shared.reverse()",
            lambda: f"shared.append({self.lists()})",
            lambda: f"shared[0] = {self.values()}",
            lambda: f"gl = {self.lists()}",
            lambda: f"gd = {self.dicts()}",
        ]
        self.add(self.random.choice(choices)())

    def block(self, size: int) -> None:
        self.depth += 1
        for _ in range(size):
            self.statement()
        self.depth -= 1

    def compound(self) -> None:
        size = self.random.randint(1, 2)
        kind = self.random.randrange(8)
        if kind < 2:
            self.add(f"if {self.truth()}:")
            self.block(size)
            if self.chance(0.5):
                self.add("else:")
                self.block(size)
        elif kind == 2:
            self.add(f"for i{self.depth} in range({self.ints()} % 3):")
            self.block(size)
        elif kind == 3:
            self.add(f"for v in list({self.lists()})[:3]:")
            self.block(size)
        elif kind == 4:
            self.add("try:")
            self.block(size)
            self.add("except (KeyError, IndexError, TypeError, AttributeError):")
            self.block(1)
            if self.chance(0.3):
                self.add("finally:")
                self.block(1)
        elif kind == 5:
            self.add(f"with CM({self.lists()}) as v:")
            self.block(size)
        elif kind == 6:
            self.add("with torch.no_grad():")
            self.block(size)
        else:
            self.add(f"for k, v in list({self.dicts()}.items())[:2]:")
            self.block(size)

    def statement(self) -> None:
        self.budget -= 1
        if self.budget > 0 and self.depth < 4 and self.chance(0.25):
            self.compound()
        elif self.chance(0.35):
            self.assign()
        else:
            self.mutate()

    def program(self) -> str:
        while self.budget > 0:
            self.statement()
        if self.chance(0.3):
            self.add("def inner(p, q=n):")
            self.add("    return p + q + gi")
            self.add("r = inner(x)")
        else:
            self.add(f"r = {self.tensors()}")
        parts = ", ".join(self.values() for _ in range(self.random.randint(0, 3)))
        self.add(f"return r, {parts}" if parts else "return r")
        body = "\n".join(self.lines)
        return (
            self.header
            + "def f(x, n=1, flag=True, l=None, d=None, o=None):\n    global gi, gt, gl, gd\n"
            + body
            + "\n"
        )

    # ---- the driver ----

    def call(self) -> str:
        tensor = self.pick("X", "Y", "X", "gt", "T(2, 3, seed=9)")
        lists = self.pick("[1, 2]", "gl", "a.l", "[]", "[[1], 2]")
        dicts = self.pick('{"a": 5}', "gd", "a.d", "{}", '{"b": 1, "a": 2}')
        objects = self.pick("A(3)", "B(4)", "a", "b")
        return f"f({tensor}, {self.pick('1', '2', '1', '3')}, {self.pick('True', 'False', 'True')}, {lists}, {dicts}, {objects})"

    def change(self) -> str:
        return self.pick(
            "gl.append(7)", "gl.clear()", "gd['c'] = 4", "gd.pop('a', None)", "gi = 4", "gi = 1", "gi = True", "a.n = 9", "b.n = 2",
            "a.l = []", "a.l = gl", "b.l = a.l", "a.d = gd", "a.z = 1", "vars(a).pop('z', None)", "A.k = 7", "B.k = 8",
            "gt = T(2, 3, seed=3)", "gt = X", "gt = gt.t().contiguous().t()", "a.t = gt", "a.t = T(2, 3, seed=4).double()", "gset.add(4)", "gset.clear()",
            "gq.append(9)", "god.move_to_end('a') if 'a' in god else None", "gs = 'a'", "helper.__defaults__ = ([],)", "inc(5)", "a = A(1)", "b = B(1)",
            "gtup[1].append(1)", "shared = [gd, gl]", "shared[:] = [gl, gl]", "A.bump = lambda self, by=1: 5", "a.bump = lambda by=1: 6",
            "scale = lambda t, by=2: t + by", "gdd.clear()", "gl = [1, 2, 3]", "gd = {'a': 1, 'b': 2}", "a, b = b, a", "a.__class__ = type('C', (A,), {})",
        )  # fmt: skip

    def steps(self) -> list[str]:
        steps = [self.call() for _ in range(2)]
        for _ in range(self.random.randint(2, 5)):
            if self.chance(0.6):
                steps.append(self.change())
            steps.append(self.call())
        steps.append(steps[0])
        return steps


def write(seed: int) -> tuple[str, list[str]]:
    """The program of a seed, and its steps."""
    writer = Writer(seed)
    program = writer.program()
    return program, writer.steps()
