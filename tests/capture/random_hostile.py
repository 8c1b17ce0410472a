"""Random programs with hostile objects: special methods that raise, lie, give what they must not, change the container
that they are in, recurse, or call the compiled function again; metaclasses, descriptors, and cycles."""

from __future__ import annotations

import random
from collections.abc import Callable

from programs import harness

from magneto import _core

HEADER = """
class Boom(Exception):
    pass
LOG, FUEL, CALL = [], [], []
HOME, TABLE, BAG = [1, "a", 2.5], {"a": 1, "b": [2]}, {1, "a"}
QUEUE, ORDERED = collections.deque([1, 2], maxlen=6), collections.OrderedDict(a=1, b=2)
DEFAULT = collections.defaultdict(list, a=[1])
ROUND = [1]
ROUND.append(ROUND)
class Plain:
    def __init__(self, n=0):
        self.n = n
"""

BASES = [
    "object", "object", "object", "list", "dict", "set", "tuple", "int", "str", "float", "frozenset", "Exception",
    "collections.OrderedDict", "collections.defaultdict", "collections.deque", "Plain",
]  # fmt: skip

# What a special method gives if it behaves.
RESULTS = {
    "__eq__(self, other)": ["self is other", "True", "False", "NotImplemented"],
    "__ne__(self, other)": ["self is not other", "True", "NotImplemented"],
    "__lt__(self, other)": ["True", "False", "NotImplemented"],
    "__hash__(self)": ["7", "hash(self.n)", "object.__hash__(self) * 0 + 3"],
    "__len__(self)": ["2", "0", "len(HOME)"],
    "__bool__(self)": ["True", "False"],
    "__iter__(self)": ["iter([1, 2])", "iter(HOME[:])", "iter(list(TABLE))", "iter(())"],
    "__next__(self)": ["1"],
    "__contains__(self, other)": ["True", "False"],
    "__getitem__(self, i)": ["[1, 2][i]", "i", "HOME[i]"],
    "__setitem__(self, i, v)": ["None"],
    "__index__(self)": ["1", "0", "len(HOME)"],
    "__int__(self)": ["1"],
    "__float__(self)": ["0.5"],
    "__add__(self, other)": ["1", "other", "NotImplemented"],
    "__radd__(self, other)": ["1", "other", "NotImplemented"],
    "__getattr__(self, name)": ["len(name)", "LOG"],
    "__getattribute__(self, name)": ["object.__getattribute__(self, name)"],
    "__setattr__(self, name, value)": ["object.__setattr__(self, name, value)", "None"],
    "__repr__(self)": ["'hostile'"],
    "__str__(self)": ["'text'"],
    "__format__(self, spec)": ["'f'"],
    "__call__(self, *args, **kwargs)": ["len(args)", "args"],
    "__enter__(self)": ["self", "1"],
    "__exit__(self, *args)": ["False", "True"],
    "__missing__(self, key)": ["1", "HOME"],
    "__length_hint__(self)": ["3"],
    "__copy__(self)": ["self"],
    "__reversed__(self)": ["iter([2, 1])"],
    "__torch_function__(self, *args, **kwargs)": ["NotImplemented"],
}

ODD = ["NotImplemented", "'odd'", "-1", "None", "2**70", "[]", "self", "0.5", "type(self)", "X"]


class Writer:
    """Writes one program."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.lines: list[str] = []
        self.classes = self.random.randint(1, 3)
        self.objects = [f"h{i}" for i in range(self.random.randint(1, 4))]
        self.locals: list[str] = []

    def pick(self, *choices: str) -> str:
        return self.random.choice(choices)

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    # ---- classes ----

    def act(self, name: str) -> list[str]:
        """What a hostile method does before it gives its result."""
        fuel = "if FUEL:"
        again = self.pick(
            "self == 1", "len(self)", "hash(self)", "bool(self)", "self in HOME", "TABLE.get(self)", "self.zz",
            "HOME.index(self)", "list(self)", "[self] == [self]", "str(self)",
        )  # fmt: skip
        ordered = name not in ("__eq__", "__ne__", "__hash__")  # CPython's OrderedDict does not survive that
        return self.random.choice(
            [
                [f"raise Boom({name!r})"],
                [f"raise {self.pick('KeyError', 'IndexError', 'TypeError', 'AttributeError', 'StopIteration')}(1)"],
                ["HOME.clear()"],
                ["len(HOME) < 20 and HOME.append(self)"],
                ["del HOME[-1:]"],
                ["HOME[:] = [0] * 9"],
                ["TABLE.clear()"],
                ["TABLE[len(TABLE)] = self"],
                ["TABLE.pop('a', None)"],
                ["BAG.clear()"],
                ["BAG.add(len(BAG) + 40)"],
                ["QUEUE.append(self)"],
                ["ORDERED.clear()" if ordered else "TABLE.clear()"],
                ["ORDERED.pop('a', None)" if ordered else "QUEUE.clear()"],
                [f"LOG.append({name!r})"],
                [fuel, "    FUEL.pop()", f"    {again}"],
                [fuel, "    FUEL.pop()", "    CALL and CALL[0](X, HOME)"],
                [fuel, "    FUEL.pop()", f"    raise Boom({name!r})"],
                ["self.n = 5"],
                ["type(self).extra = LOG"],
                ["Y.add_(1)"],
                [],
                [],
                [],
            ]
        )  # fmt: skip

    def method(self, signature: str) -> list[str]:
        name = signature.split("(")[0]
        body = self.act(name)
        result = self.random.choice(ODD if self.chance(0.15) else RESULTS[signature])
        if self.chance(0.05):
            return [f"{name} = {self.pick('None', 'len', 'property(lambda self: 1 // 0)', 'Plain()')}"]
        ends = {
            "__getitem__": ["    if type(i) is int and i > 2:", "        raise IndexError(i)"],
            "__next__": ["    if not FUEL:", "        raise StopIteration", "    FUEL.pop()"],
        }.get(name, [])
        return [f"def {signature}:", *ends, *("    " + line for line in body), f"    return {result}"]

    def hostile_class(self, index: int) -> None:
        base = self.random.choice(BASES)
        meta = ""
        if self.chance(0.2):
            meta = ", metaclass=M%d" % index
            self.lines.append(f"class M{index}(type):")
            for signature in self.random.sample(
                ["__eq__(self, other)", "__hash__(self)", "__len__(self)", "__bool__(self)", "__call__(self, *args, **kwargs)",
                 "__getattr__(self, name)", "__iter__(self)", "__contains__(self, other)"], 2,
            ):  # fmt: skip
                if signature.startswith("__call__"):
                    body = [
                        "def __call__(self, *args, **kwargs):",
                        "    return type.__call__(self, *args, **kwargs)",
                    ]
                elif signature.startswith("__hash__"):
                    body = ["def __hash__(self):", f"    return {self.pick('7', 'type.__hash__(self)')}"]
                else:
                    body = self.method(signature)
                self.lines += ["    " + line for line in body]
            if self.chance(0.4):
                result = self.pick("True", "False", "1 // 0", "isinstance(other, int)")
                self.lines += ["    def __instancecheck__(self, other):", f"        return {result}"]
            if not self.chance(0.5):
                self.lines.append("    __hash__ = type.__hash__")
        self.lines.append(f"class H{index}({base}{meta}):")
        self.lines.append(f"    n = {index}")
        if base == "object" and self.chance(0.15):
            self.lines.append("    __slots__ = ('s', '__weakref__')")
        names = list(RESULTS)
        weights = [
            4 if name[:6] in ("__eq__", "__hash", "__len_", "__iter", "__bool", "__inde") else 1
            for name in names
        ]
        chosen = set(self.random.choices(names, weights, k=self.random.randint(1, 5)))
        for signature in sorted(chosen):
            if signature.startswith("__getattribute__") and not self.chance(0.3):
                continue
            self.lines += ["    " + line for line in self.method(signature)]
        if any(name.startswith("__eq__") for name in chosen) and not any(
            name.startswith("__hash__") for name in chosen
        ):
            if self.chance(0.7):
                self.lines += ["    def __hash__(self):", "        return 11"]
        if self.chance(0.15):
            lie = self.pick(
                "int", "list", "dict", "tuple", "str", "Plain", "type", "1 // 0", "collections.deque"
            )
            self.lines += ["    @property", "    def __class__(self):", f"        return {lie}"]
        if self.chance(0.2):
            self.lines += [
                "    @property",
                "    def p(self):",
                *("        " + line for line in self.act("p")),
                "        return 1",
            ]
        if self.chance(0.15):
            self.lines += ["    d = Descriptor()"]
        if self.chance(0.1):
            body = self.pick("raise Boom('del')", "self.n", "len(HOME)", "X + 1", "[self] * 2")
            self.lines += ["    def __del__(self):", f"        {body}"]

    def descriptor(self) -> None:
        self.lines.append("class Descriptor:")
        self.lines += ["    def __get__(self, owner, kind=None):"]
        self.lines += ["        " + line for line in self.act("get")] + [
            f"        return {self.pick('1', 'HOME', 'self')}"
        ]
        if self.chance(0.5):
            self.lines += ["    def __set__(self, owner, value):"]
            self.lines += ["        " + line for line in self.act("set")] + ["        return None"]

    # ---- the function ----

    def thing(self) -> str:
        return self.pick(*self.objects, *self.objects, *self.locals[-4:], "v", "HOME")

    def container(self) -> str:
        return self.pick("HOME", "TABLE", "QUEUE", "ORDERED", "DEFAULT", "v", "ROUND", *self.locals[-3:])

    def expression(self) -> str:
        h, g, c, d = self.thing(), self.thing(), self.container(), self.container()
        lists = self.pick("HOME", "v", "[h0, 1]")
        dicts = self.pick("TABLE", "ORDERED", "DEFAULT", "{'a': 1}")
        return self.pick(
            f"{h} == {g}", f"{h} != {g}", f"{h} < {g}", f"{h} in {c}", f"{h} in BAG", "len(BAG)", "len(BAG | {7})", f"len({h})", f"len({c})", f"bool({h})", f"type(hash({h}))",
            f"not {h}", f"1 if {h} else 2", f"{h} is {g}", f"{lists}.index({h})", f"{lists}.count({h})",
            f"{dicts}.get({h})", f"{dicts}[{h}]", f"{h} in {dicts}", f"[{h}] == [{g}]", f"({h}, 1) == ({g}, 1)",
            f"{{{h}: 1, {g}: 2}}", f"{{{h}, {g}}}", f"{{**{h}}}", f"[*{h}]", f"({h}, *{g})", f"list({h})", f"tuple({h})",
            f"dict({h})", f"set({h})", f"{c} == {d}", f"list({c})", f"str(len({c}))", f"sorted({c})", f"sorted({c}, key=len)",
            f"max({c}, key=bool)", f"any({c})", f"all({c})", f"sum({h})", f"min({h}, {g})", f"getattr({h}, 'zz', 3)",
            f"hasattr({h}, 'p')", f"{h}.n", f"{h}.p", f"{h}.d", f"type({h})", f"{h}.__class__", f"isinstance({h}, {self.kind()})",
            f"isinstance(x, {self.kind()})", f"callable({h})", f"{h}()", f"{h}(1, k=2)", f"{h}[0]", f"{h}[{g}]", f"{lists}[{h}]",
            f"x[{h}]", f"x + {h}", f"{h} + x", f"x * ({h} == {g})", f"torch.stack([x, x], dim={h})", f"x.sum({h})",
            f"torch.cat([x, {h}])", f"x.reshape({h}, -1)", f"range({h})", f"'abc'[{h}]", f"'abc'[:{h}]", f"next(iter({h}))",
            f"iter({h}) is None", f"list(zip({h}, {c}))", f"list(map(len, {c}))", f"[i for i in {h}]", f"{{i: 1 for i in {c}}}",
            f"dict.fromkeys({h}, 1)", f"{lists} + [{h}]", f"[{h}] * 2", f"({h},) * 2", f"copy.copy({h})", f"hash(({h}, 1)) == hash(({g}, 1))",
            f"functools.partial({h}, 1)", f"types.MethodType(len, {h})", f"[{h}, {g}, x]", f"{{'a': {h}, 'x': x}}", f"({h}, {c})",
            f"collections.deque([{h}], maxlen=2)", f"frozenset([{h}])", f"H0({self.argument()})", f"H{self.classes - 1}()",
            f"list(reversed({c}))", f"[*enumerate({c})]", f"f'{{{h}}}'", f"{h} or {g}", f"{h} and {g}", f"operator.index({h})",
            f"list(filter(None, {c}))", f"{c} and 1", f"slice({h}, {g})", f"int({h})", f"float({h})", f"vars({h})", f"id({h}) == id({g})",
            f"{h}.zz", f"{h}.__dict__", f"{h}.__eq__({g})", f"(lambda *a, **k: len(a) + len(k))(*{h}, **{g})", f"Plain({h})",
            f"H0.__len__({h})", f"{h} in (1, {g})", f"divmod({h}, 2)", f"{h} @ x", f"-{h}", f"round({h})", f"{h}.keys()",
            f"itertools.chain({h}, {g})", f"torch.tensor([{h}, 1])", f"torch.where(x > 0, x, {h})", f"super(H0, {h}).__eq__({g})",
        )  # fmt: skip

    def kind(self) -> str:
        return self.pick(
            "list", "H0", "(int, H0)", "dict", f"H{self.classes - 1}", "Plain", "type", "(list, (H0, dict))"
        )

    def argument(self) -> str:
        return self.pick("", "", "", "[1]", "HOME", "TABLE", "1", "'a'")

    def statement(self) -> list[str]:
        h, g, c = self.thing(), self.thing(), self.container()
        name = f"t{len(self.locals)}"
        choice = self.random.randrange(10)
        if choice < 5:
            self.locals.append(name)
            return [f"{name} = {self.expression()}"]
        if choice == 5:
            return [
                f"for i, q in zip(range(6), {self.pick(h, c)}):",
                f"    {self.pick(*self.changes(h, g), f'out.append({self.expression()})')}",
            ]
        if choice == 6:
            return [f"with {h}:", f"    y = y + {self.pick('1', h)}"]
        if choice == 7:
            return [
                f"if {self.expression()}:",
                "    y = y * 2",
                "else:",
                f"    {self.pick(*self.changes(h, g))}",
            ]
        if choice == 8:
            return ["y = torch.relu(y) + 1"]
        return [self.pick(*self.changes(h, g))]

    def changes(self, h: str, g: str) -> list[str]:
        return [
            f"HOME.append({h})", f"HOME.remove({h})", f"HOME.insert({h}, 1)", f"HOME.extend({h})", f"HOME[:] = {h}", "HOME.sort()",
            "HOME.sort(key=bool)", f"HOME[0] = {h}", f"del HOME[{h}]", f"HOME += {h}" if False else f"HOME.__iadd__({h})", "HOME.pop()",
            f"TABLE[{h}] = {g}", f"TABLE['k'] = {h}", f"TABLE.update({h})", f"TABLE.pop({h}, None)", f"TABLE.setdefault({h}, []).append(1)",
            f"del TABLE[{h}]", "BAG.add(h0)", f"BAG.discard({h})", "BAG.update([h0, 5])", f"QUEUE.append({h})", f"QUEUE.extend({h})",
            f"QUEUE.remove({h})", "QUEUE.rotate(1)", f"ORDERED[{h}] = {g}", f"ORDERED.move_to_end({h})", "ORDERED.popitem()",
            f"DEFAULT[{h}].append({g})", f"DEFAULT.default_factory = {h}", f"{h}.n = {g}", f"{h}.d = {g}", f"{h}.p = 1", f"del {h}.n",
            f"{h}[0] = {g}", f"{h}.append({g})", f"{h}.self = {h}", f"H0.extra = {h}", f"H0.__len__ = lambda self: {self.pick('1', '2')}",
            "H0.n = 7", f"{h}.__class__ = Plain", f"ROUND.append({h})", f"y.add_({h})", f"y[0] = {h}", f"setattr({h}, 'zz', {g})",
            "out.append(len(HOME))", f"out.append({h})", "FUEL.append(1)", f"a, b = {h}", f"a, *b = {h}", "CALL and FUEL and FUEL.pop() and CALL[0](x, HOME)",
        ]  # fmt: skip

    def function(self) -> None:
        self.lines.append("def f(x, v):")
        body = ["out = []", "y = x + 1"]
        for _ in range(self.random.randint(2, 9)):
            statement = self.statement()
            if self.chance(0.75):
                handler = self.pick(
                    "out.append(type(e).__name__)",
                    "out.append(type(e).__name__)",
                    "y = y - 1",
                    "out.append(len(HOME))",
                )
                body += ["try:", *("    " + line for line in statement), f"except {self.pick('Exception', 'Exception', 'Boom', '(TypeError, Boom)')} as e:", f"    {handler}"]  # fmt: skip
            else:
                body += statement
        kept = [name for name in self.locals if self.chance(0.5)]
        body = [*(f"{name} = None" for name in self.locals), *body]
        body.append(f"return {', '.join(['y', 'out', *kept])}")
        self.lines += ["    " + line for line in body]

    def write(self) -> tuple[str, list[str]]:
        self.descriptor()
        for index in range(self.classes):
            self.hostile_class(index)
        for name in self.objects:
            self.lines.append("try:")
            self.lines.append(f"    {name} = H{self.random.randrange(self.classes)}({self.argument()})")
            self.lines.append("except Exception:")
            self.lines.append(f"    {name} = Plain(2)")
            for change in self.random.sample(self.changes(name, "1")[:34], 2):
                self.lines += ["try:", f"    {change}", "except Exception:", "    pass"]
        self.lines += ["HOME[:] = HOME[:12]", "del LOG[:]", "FUEL[:] = [1, 2, 3]"]
        self.function()
        steps = ["f(X, HOME)"]
        for _ in range(self.random.randint(2, 4)):
            if self.chance(0.5):
                steps.append(
                    self.pick(
                        "FUEL[:] = [1, 2]", "HOME[:] = [1, 2, 3]", "HOME.append(h0)", "TABLE['z'] = h0", "CALL[:] = [f]", "CALL.append(f)",
                        "H0.__eq__ = lambda self, other: False", "H0.__len__ = lambda self: 1", "BAG.clear()", "del LOG[:]", "ROUND[:] = [ROUND]",
                        "QUEUE.clear()", "H0.__bool__ = lambda self: 1 // 0", "HOME[:] = [ROUND, HOME]",
                    )
                )  # fmt: skip
            steps.append("del HOME[30:]")
            steps.append(self.pick("f(X, HOME)", "f(X, HOME)", "f(Z, h0)", "f(X, TABLE)", "f(X, [h0, 1])"))
        return HEADER + "\n".join(self.lines) + "\n", steps


def write(seed: int) -> tuple[str, list[str]]:
    """The program of a seed, and its steps."""
    return Writer(seed).write()


def run(seed: int, faults: bool) -> harness.Report:
    """Run the program of a seed, with breaks where captures stop; with `faults` they also stop at random instructions."""
    chance = random.Random(seed)
    program, steps = write(seed)

    def compiled(function: object) -> _core.Compiled:
        made = _core.Compiled(function, None, lambda *_: None, None, 8)
        made.breaks = seed % 4 != 0
        return made

    def inject() -> None:
        _core.inject_fault(
            chance.choice((0, chance.randint(1, 12), chance.randint(1, 60), chance.randint(20, 300)))
        )

    try:
        return harness.run(program, steps, compile=compiled, before=inject if faults else lambda: None)
    finally:
        _core.inject_fault(0)


def below(function: Callable[..., object], frames: int) -> Callable[..., object]:
    """The function, called by so many frames more."""
    if frames == 0:
        return function
    inner = below(function, frames - 1)
    return lambda *args, **kwargs: inner(*args, **kwargs)


def varies(seed: int) -> bool:
    """Whether the program in eager does not do the same each time: texts with addresses, sets in the order of addresses; or
    at each depth: what raises where the recursion limit is reached."""
    program, steps = write(seed)
    kept = []
    for count in range(12):
        kept.append([object() for _ in range(37 * count)])  # others lie elsewhere
        try:
            harness.run(program, steps, compile=lambda function, frames=count: below(function, frames))
        except harness.Difference:
            return True
    return False
