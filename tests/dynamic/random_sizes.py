"""Random programs with sizes and ints in arithmetic, branches, containers and views, over random sequences of sizes.

A program has two tensors, `x` of sizes (a, b) and `y` of (b, c), and ints `k` and `m`. Its variables are numbers (n0, n1, ...),
tensors (t0, ...) and containers; errors of an operation are handled in the program, or leave it.
"""

from __future__ import annotations

import random

HEADER = """
class Box:
    def __init__(self, n):
        self.n = n
        self.l = [n]
    def grow(self, by):
        self.n += by
        return self.n
    def __len__(self):
        return len(self.l)
box = Box(2)
log = []
table = {"n": 0}
def helper(a, b=2, *rest, scale=1):
    if a > b:
        return a * scale - b
    return a + len(rest)
def steps(n):
    i = 0
    while i < n and i < 4:
        yield i
        i += 1
"""


class Writer:
    """Writes one program."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.lines: list[str] = []
        self.numbers = ["a", "b", "c", "k", "m"]
        self.floats: list[str] = []
        self.tensors = ["x", "y"]
        self.indent = 1

    def add(self, line: str) -> None:
        self.lines.append("    " * self.indent + line)

    def pick(self, *choices: str) -> str:
        return self.chance.choice(choices)

    def constant(self) -> str:
        return str(self.chance.choice((0, 1, 2, 3, 4, 5, 7, 8, -1, -3)))

    def number(self, depth: int = 0) -> str:
        """An int."""
        chance = self.chance.random()
        if depth > 2 or chance < 0.35:
            return self.chance.choice(self.numbers)
        if chance < 0.45:
            return self.constant()
        a, b = self.number(depth + 1), self.number(depth + 1)
        t = self.chance.choice(self.tensors)
        return self.pick(
            f"({a} + {b})", f"({a} - {b})", f"({a} * {b})", f"({a} // {self.pick('2', '3', '4', '-2')})",
            f"({a} % {self.pick('2', '3', '5', '-3')})", f"min({a}, {b})", f"max({a}, {b})", f"abs({a})", f"-{a}",
            f"({a} if {self.truth(depth + 1)} else {b})", f"len({t})" if depth == 0 else a, f"{t}.numel()", f"{t}.dim()",
            f"{t}.size(-1)" if depth < 2 else a, f"sum(({a}, {b}))", f"helper({a}, {b}, {a})", f"helper({a}, scale={b})",
            f"({a} ** 2)", f"({a} & 6)", f"({a} | 1)", f"({a} ^ 3)", f"({a} << 1)", f"({a} >> 1)", f"~{a}", f"int({a})",
            f"[{a}, {b}][{self.pick('0', '1', '-1')}]", f"{{'p': {a}}}['p']", f"sorted([{a}, {b}, 3])[1]",
            f"sum(v for v in {t}.shape)", f"max([{a}, {b}, 2])", f"math.prod({t}.shape)", f"int({a} / 3)", f"math.ceil({a} / 4)", f"round({a} / 3)", f"math.floor({a} * 0.75)", f"divmod({a}, 3)[1]",
        )  # fmt: skip

    def real(self) -> str:
        """A float."""
        if self.floats and self.chance.random() < 0.4:
            return self.chance.choice(self.floats)
        a = self.number(2)
        return self.pick(f"({a} / 4)", f"math.sqrt(abs({a}))", f"({a} * 0.5)", f"float({a})", f"({a} / (abs({a}) + 1))", f"(abs({a}) + 1) ** 0.5")  # fmt: skip

    def truth(self, depth: int = 0) -> str:
        a, b = self.number(depth + 1), self.number(depth + 1)
        return self.pick(
            f"{a} < {b}", f"{a} <= {b}", f"{a} == {b}", f"{a} != {b}", f"{a} % 2 == 0", f"{a} > 4", f"{a}",
            f"not {a}", f"0 < {a} < 9", f"{a} in (2, 3, 5)", f"{a} > 2.5", f"{a} / 3 < {b}", f"1.5 <= {a} * 0.5", f"{a} / 4 == 1.25", f"({a} > 3 and {b} < 8)",
        )  # fmt: skip

    def tensor(self) -> str:
        t, u = self.chance.choice(self.tensors), self.chance.choice(self.tensors)
        n, i = self.number(1), self.number(1)
        return self.pick(
            f"{t} * {n}", f"{t} + {self.real()}", f"{t}.reshape(-1)", f"{t}.sum(0)", f"{t}[:{n}]", f"{t}[{n}:]", f"{t}[..., -{self.pick('1', '2', '3')}:]",
            f"{t}.transpose(0, -1)", f"torch.cat([{t}, {t}])", f"torch.cat([{t}, {u}], -1)", f"{t} + {u}", f"{t} * {u}.sum()",
            f"{t}.unsqueeze(0)", f"{t}.squeeze()", f"{t}.flip(0)", f"torch.zeros({n} % 5, 3) + {n}", f"{t}.new_ones({t}.shape)",
            f"torch.arange(abs({n}) % 9) * 1.0", f"{t}.expand(2, *{t}.shape)", f"torch.stack([{t}, {t}])", f"{t} @ {u}",
            f"{t}.contiguous().view({t}.shape[::-1])", f"{t}.view({t}.shape)", f"{t}.clone().add_({n})", f"{t}[{i}]", f"{t}.roll({n}, 0)",
            f"torch.where({t} > 0, {t}, {t} * {n})", f"{t}.relu().softmax(-1)", f"{t}.repeat_interleave(2, 0)", f"{t}.chunk(2)[0]",
            f"{t}.reshape({t}.numel() // 2, -1)", f"torch.full(({n} % 4,), {n}) * 1.0", f"{t}.masked_fill({t} < 0, {self.real()})", f"{t}.mean() / {t}.shape[0]",
            f"{t}.reshape({t}.shape[0], -1)", f"{t}.amax(-1)", f"{t}.cumsum(0)", f"{t}.narrow(0, 0, abs({n}) % 3)", f"{t}.split(2)[-1]", f"F.pad({t}, (1, abs({n}) % 3))",
        )  # fmt: skip

    def statement(self) -> None:
        kind = self.chance.random()
        if kind < 0.25:
            name = f"n{len(self.numbers)}"
            self.add(f"{name} = {self.number()}")
            self.numbers.append(name)
        elif kind < 0.33:
            name = f"r{len(self.floats)}"
            self.add(f"{name} = {self.real()}")
            self.floats.append(name)
        elif kind < 0.65:
            name = f"t{len(self.tensors)}"
            text = self.tensor()
            self.add("try:")
            self.add(f"    {name} = {text}")
            self.add("except (RuntimeError, IndexError, ValueError):")
            self.add(f"    {name} = x * {self.constant()}")
            self.tensors.append(name)
        elif kind < 0.75 and self.indent < 3:
            self.add(f"if {self.truth()}:")
            before = list(self.numbers), list(self.floats), list(self.tensors)
            self.indent += 1
            for _ in range(self.chance.randint(1, 2)):
                self.statement()
            self.indent -= 1
            self.numbers, self.floats, self.tensors = before
        elif kind < 0.80 and self.indent < 3:
            name = f"i{len(self.lines)}"
            self.add(
                f"for {name} in {self.pick('range(3)', f'range({self.number(1)} % 4)', f'steps({self.number(1)})', 'x.shape')}:"
            )
            before = list(self.numbers), list(self.floats), list(self.tensors)
            self.numbers.append(name)
            self.indent += 1
            self.statement()
            self.add(f"log.append({self.number(1)})")
            self.indent -= 1
            self.numbers, self.floats, self.tensors = before
        else:
            n = self.number()
            self.add(
                self.pick(
                    f"log.append({n})",
                    f"table['n'] = {n}",
                    f"table[{n}] = 1",
                    f"box.n = {n}",
                    f"box.grow({n})",
                    f"box.l.append(({n}, {self.real()}))",
                    "print('at', len(log))",
                    f"print({n})",
                    f"log.append(str({n}))",
                    f"log[-1:] = [{n}, {self.real()}]",
                    f"x.mul_({n} % 3)",
                    "log.append(x.shape)",
                )  # fmt: skip
            )

    def write(self) -> str:
        self.add("a, b = x.shape")
        self.add("c = y.shape[-1]")
        for _ in range(self.chance.randint(4, 10)):
            self.statement()
        everything = ", ".join(self.numbers[-3:] + self.floats[-2:] + self.tensors[-3:])
        self.add(f"return {everything}, {self.tensor()}")
        return HEADER + "def f(x, y, k, m=2):\n" + "\n".join(self.lines) + "\n"


def write(seed: int) -> tuple[str, list[str]]:
    """A program and its steps."""
    chance = random.Random(seed * 7 + 1)
    text = Writer(seed).write()
    sizes = (2, 3, 4, 5, 6, 7, 8, 2, 3, 4, 5, 6, 1, 0)
    steps = []
    a, b, c, k = (chance.choice(sizes) for _ in range(4))
    for _ in range(7):
        a = chance.choice(sizes) if chance.random() < 0.7 else a
        b = chance.choice(sizes) if chance.random() < 0.3 else b
        c = chance.choice(sizes) if chance.random() < 0.3 else c
        k = (
            chance.choice((*range(-3, 10), 4, 5, 6, 100, 1 << 31, 1 << 40, (1 << 62) + 1, -(1 << 63)))
            if chance.random() < 0.5
            else k
        )
        x = chance.choice(
            (f"T({a}, {b})",) * 4
            + (f"T({b}, {a}).t()", f"T({a}, {b + 2})[:, :{b}]", f"T({a}, 1).expand({a}, {b})")
        )
        extra = "" if chance.random() < 0.7 else f", m={chance.randint(-2, 6)}"
        steps.append(f"f({x}, T({b}, {c}), {k}{extra})")
    return text, steps
