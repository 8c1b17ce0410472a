"""More random programs: classes of many kinds, properties, slots, generators, context managers, exceptions, closures,
modules with buffers, views and aliases, operations in place."""

from __future__ import annotations

from collections.abc import Callable

from .random_programs import HEADER, Writer

MORE = """
class P:
    __slots__ = ("u", "v", "t", "__weakref__")
    made = 0
    def __init__(self, u=0, v=None):
        self.u = u
        self.v = [u] if v is None else v
        self.t = gv
    @property
    def total(self):
        return self.u + len(self.v)
    @total.setter
    def total(self, value):
        self.u = value
        self.v.append(value)
    @classmethod
    def make(cls, u):
        cls.made += 1
        return cls(u)
    @classmethod
    def built(cls, u):
        return cls(u + cls.made)
    @staticmethod
    def plus(p, q=1):
        return p + q
    def __eq__(self, other):
        return isinstance(other, P) and self.u == other.u
    def __hash__(self):
        return hash(self.u)
    def __iter__(self):
        return iter(self.v[:20])
    def __getitem__(self, i):
        return self.v[i]
    def __setitem__(self, i, value):
        self.v[i] = value
    def __contains__(self, value):
        return any(value is each or value == each for each in self.v)
    def __call__(self, t, by=1):
        return t * by + self.u
    def __bool__(self):
        return self.u > 1
class Q(P):
    __slots__ = ("w", "__dict__")
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.w = {"q": self.u}
    @property
    def total(self):
        return super().total * 2
    def __getattr__(self, name):
        if name.startswith("dyn"):
            return len(name) + self.u
        raise AttributeError(name)
    def __enter__(self):
        self.u += 1
        return self
    def __exit__(self, kind, value, traceback):
        self.u -= 1
        self.w["left"] = None if kind is None else kind.__name__
        return kind is KeyError
class Err(Exception):
    def __init__(self, n, t=None):
        super().__init__(n)
        self.n, self.t = n, t
class Deep(Err):
    pass
@dataclasses.dataclass
class D:
    n: int = 0
    t: typing.Any = None
    items: list = dataclasses.field(default_factory=list)
    def scaled(self, t):
        return t * self.n
@dataclasses.dataclass(frozen=True, slots=True)
class Fixed:
    n: int = 1
    t: typing.Any = None
class NT(typing.NamedTuple):
    p: int
    q: typing.Any = None
    def both(self):
        return (self.p, self.q)
class Color(enum.Enum):
    R = 1
    G = 2
    def other(self):
        return Color.G if self is Color.R else Color.R
class Stack(list):
    total = 0
    def push(self, value):
        self.append(value)
        self.total += 1
        return self
    def __len__(self):
        return super().__len__() + 1
class Reg(dict):
    def __missing__(self, key):
        self[key] = len(self)
        return self[key]
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(3, 3)
        self.subs = nn.ModuleList([nn.Linear(3, 3, bias=False), nn.ReLU()])
        self.register_buffer("buf", torch.zeros(2, 3))
        self.register_buffer("seen", torch.tensor(0.0))
        self.scale = nn.Parameter(torch.ones(3))
        self.calls, self.log, self.cfg = 0, [], {"k": 1}
    def forward(self, t, mode=0):
        self.calls += 1
        if mode == 0:
            self.buf.add_(t.detach())
        elif mode == 1:
            self.buf = self.buf * 0.5 + t.detach()
        else:
            self.seen += 1
            self.log.append(self.calls)
        for layer in self.subs:
            t = layer(t)
        return self.lin(t) * self.scale + self.buf
@contextlib.contextmanager
def cm(l, fail=False):
    l.append("<")
    try:
        yield len(l)
    except KeyError:
        if not fail:
            raise
    finally:
        l.append(">")
def risky(n, t=None):
    if n % 4 == 0:
        raise Err(n, t)
    if n % 4 == 1:
        raise KeyError("k")
    if n % 4 == 2:
        raise Deep(n) from ValueError(n)
    return n
def pairs(seq):
    count = 0
    for v in seq:
        got = yield v, count
        count += 1 if got is None else got
    return count
def outer(n):
    count = yield from pairs(range(n))
    yield "end", count
def closing(l):
    try:
        yield 1
        yield 2
    finally:
        l.append("closed")
def tensors_of(t):
    for i in range(t.shape[0]):
        yield t[i]
def adders():
    total = []
    state = 0
    def add(v):
        nonlocal state
        state = state + v if isinstance(v, int) else v
        total.append(v)
        return state
    def look():
        return state, len(total)
    return add, look
def defaulted(v, *, acc=[], kept={}, **rest):
    acc.append(v)
    kept[len(acc)] = v
    return len(acc) + len(kept) + len(rest)
add, look = adders()
gb = T(6, 3, seed=8)
gv, gw, gx = gb[:2], gb[2:4], gb.view(18)[12:].view(2, 3)
gr = T(2, 3, seed=10).requires_grad_()
p, q, dd, fx, nt, color = P(1), Q(2), D(3, gv), Fixed(2, gw), NT(1, gx), Color.R
stack, reg = Stack([1, 2]), Reg(a=1)
net = Net()
nested = {"a": [{"t": gv, "n": 1}, (gw, [2])], "b": {"c": [gb, p]}}
"""


class ObjectWriter(Writer):
    """Writes one program of this kind."""

    header = HEADER + MORE

    # ---- expressions ----

    def ints(self, depth: int = 0) -> str:
        if depth > 2 or self.chance(0.4):
            return super().ints(depth)
        d = depth + 1
        choices: list[Callable[[], str]] = [
            lambda: self.pick("p", "q", "p") + self.pick(".u", ".total"),
            lambda: "q.dyn" + self.pick("a", "bc"),
            lambda: f"{self.pick('P', 'Q')}.{'make' if self.chance(0.05) else 'built'}({self.ints(d)}).total",
            lambda: f"P.plus({self.ints(d)})",
            lambda: "P.made",
            lambda: f"len(list({self.pick('p', 'q', 'stack', 'reg', 'stack')}))",
            lambda: f"len({self.pick('stack', 'reg', 'nested')})",
            lambda: f"add({self.ints(d)})" if self.chance(0.3) else "look()[1]",
            lambda: f"defaulted({self.ints(d)}, z={self.ints(d)})",
            lambda: f"sum(c for v, c in pairs(range({self.ints(d)} % 4)))",
            lambda: f"len(list(outer({self.ints(d)} % 3)))",
            lambda: f"reg[{self.key()}]" if self.chance(0.3) else "len(reg)",
            lambda: "dd.n",
            lambda: "fx.n",
            lambda: "nt.p",
            lambda: f"nt._replace(p={self.ints(d)}).p",
            lambda: "color.value",
            lambda: "net.calls",
            lambda: "net.cfg['k']",
            lambda: "stack.total",
            lambda: "nested['a'][0]['n']",
            lambda: f"(lambda *args, k={self.ints(d)}: len(args) + k)(*{self.lists()})",
            lambda: f"sorted([{self.ints(d)}, {self.ints(d)}, 1], reverse=True)[0]",
            lambda: "sum(i * j for i, j in zip(range(3), gl) if isinstance(j, int))",
            lambda: f"next((v for v in {self.lists()} if isinstance(v, int)), 0)",
            lambda: (
                f"int(isinstance({self.pick('p', 'q', 'dd', 'color')}, {self.pick('P', 'Q', 'D', '(Q, Color)')}))"
            ),
            lambda: f"len(f'{{n:>3}}|{{gs!r}}' + str({self.ints(d)}))",
            lambda: "gv.dim()",
            lambda: f"dataclasses.replace(dd, n={self.ints(d)}).n",
            lambda: f"{{**gd, 'n': {self.ints(d)}}}['n']",
            lambda: "getattr(p, 'missing', 4)",
            lambda: "min(map(abs, [gi, n, -1]))",
        ]
        return self.random.choice(choices)()

    def truth(self, depth: int = 0) -> str:
        if self.chance(0.5):
            return super().truth(depth)
        d = depth + 1
        choices: list[Callable[[], str]] = [
            lambda: f"{self.pick('p', 'q')} == {self.pick('p', 'q', 'P(1)', 'Q(2)')}",
            lambda: f"{self.ints(d)} in {self.pick('p', 'q', 'stack')}",
            lambda: self.pick("bool(p)", "not q", "color is Color.R", "color == Color.G"),
            lambda: f"{self.tensors(d)} is {self.tensors(d)}",
            lambda: f"{self.pick('gv', 'x')} is {self.pick('gt', 'gv', 'x', 'dd.t')}",
            lambda: f"p in {{P({self.ints(d)}): 1}}",
            lambda: "all(isinstance(v, int) for v in stack)",
            lambda: f"0 < {self.ints(d)} < 4 and {self.truth(d)}",
            lambda: "fx == Fixed(2, gw)" if self.chance(0.2) else "nt[0] == 1",
            lambda: "gr.requires_grad",
            lambda: "net.training",
        ]
        return self.random.choice(choices)()

    def tensors(self, depth: int = 0) -> str:
        if depth > 2 or self.chance(0.35):
            return super().tensors(depth)
        d = depth + 1
        choices: list[Callable[[], str]] = [
            lambda: self.pick("gv", "gw", "gx", "gr", "dd.t", "fx.t", "nt.q", "p.t", "net.buf", "nested['a'][0]['t']", "gb[2:4]"),
            lambda: f"net({self.tensors(d)}, {self.pick('0', '1', '2')})",
            lambda: f"{self.pick('p', 'q')}({self.tensors(d)}, by={self.ints(d)} % 3)",
            lambda: f"dd.scaled({self.tensors(d)})",
            lambda: f"torch.stack(list(tensors_of({self.tensors(d)})))",
            lambda: f"{self.tensors(d)}.t().t()",
            lambda: f"{self.tensors(d)}[:]",
            lambda: f"sum(t for t in [{self.tensors(d)}, {self.tensors(d)}])",
            lambda: f"torch.cat([{self.tensors(d)}[:1], {self.tensors(d)}[1:]])",
            lambda: f"functools.partial(scale, by={self.ints(d)})({self.tensors(d)})",
            lambda: f"{{'k': {self.tensors(d)}}}['k']",
            lambda: f"[{self.tensors(d)} for _ in range(2)][-1]",
            lambda: f"F.relu({self.tensors(d)}).detach()",
            lambda: f"{self.tensors(d)}.sum(0, keepdim=True).expand(2, 3)",
            lambda: f"torch.where({self.tensors(d)} > 0, {self.tensors(d)}, 0.0)",
            lambda: f"(lambda t, k={self.ints(d)}: t + k)({self.tensors(d)})",
            lambda: f"{self.tensors(d)}.chunk(1)[0]",
            lambda: f"{self.tensors(d)}.unbind(0)[0].unsqueeze(0).repeat(2, 1)",
            lambda: f"torch.max({self.tensors(d)}, {self.tensors(d)})",
            lambda: f"{self.tensors(d)} @ net.lin.weight",
        ]  # fmt: skip
        return self.random.choice(choices)()

    def values(self) -> str:
        if self.chance(0.5):
            return super().values()
        return self.random.choice(
            [lambda: self.pick("p", "q", "dd", "fx", "nt", "color", "stack", "reg", "nested", "gb", "look"),
             lambda: f"P({self.ints()})", lambda: f"Q({self.ints()}, {self.lists()})", lambda: f"D({self.ints()}, {self.tensors()})",
             lambda: f"Fixed({self.ints()}, {self.tensors()})", lambda: f"NT({self.ints()}, {self.lists()})",
             lambda: f"Stack({self.lists()}).push({self.ints()})", lambda: f"Reg(k={self.tensors()})", lambda: f"(lambda: {self.lists()})",
             lambda: f"functools.partial(scale, by={self.ints()})", lambda: f"slice({self.ints()}, None)", lambda: f"iter([{self.ints()}, 2])",
             lambda: "p.__call__", lambda: f"frozenset([{self.ints()}])", lambda: f"[{{'t': {self.tensors()}}}, ({self.ints()},)]"]
        )()  # fmt: skip

    # ---- statements ----

    def mutate(self) -> None:
        if self.chance(0.4):
            super().mutate()
            return
        choices: list[Callable[[], str]] = [
            lambda: f"{self.pick('p', 'q')}.u = {self.ints()}",
            lambda: f"p.total = {self.ints()}",
            lambda: f"q.total = {self.ints()}" if self.chance(0.1) else f"q.extra = {self.values()}",
            lambda: f"{self.pick('p', 'q')}.v.append({self.values()})",
            lambda: f"p[0] = {self.values()}",
            lambda: f"{self.pick('p', 'q')}.t = {self.tensors()}",
            lambda: f"q.w[{self.key()}] = {self.values()}",
            lambda: f"P.note = {self.ints()}" if self.chance(0.05) else f"p.u -= P.made + {self.ints()}",
            lambda: "del p.t" if self.chance(0.2) else "p.t = gv",
            lambda: f"dd.n += {self.ints()}",
            lambda: f"dd.t = {self.tensors()}",
            lambda: f"dd.items.append({self.values()})",
            lambda: f"fx.n = {self.ints()}" if self.chance(0.15) else "pass",
            lambda: f"stack.push({self.ints()}).push({self.ints()})",
            lambda: "stack.pop() if list.__len__(stack) else None",
            lambda: f"reg[{self.key()}] = {self.values()}",
            lambda: f"nested['a'][0]['n'] = {self.ints()}",
            lambda: f"nested['a'][0]['t'] = {self.tensors()}",
            lambda: f"nested['a'][1][1].append({self.values()})",
            lambda: f"nested['b'].update(c={self.lists()})",
            lambda: f"nested.setdefault({self.key()}, []).append({self.ints()})" if self.chance(0.3) else f"nested['x'] = {self.dicts()}",
            lambda: f"net.cfg['k'] = {self.ints()}",
            lambda: f"net.buf.copy_({self.tensors()}.detach())",
            lambda: f"net.buf = {self.tensors()}.detach()",
            lambda: f"net.log.append({self.values()})",
            lambda: self.pick("net.eval()", "net.train()", "net.seen.zero_()", "net.buf.zero_()", "net.buf.mul_(2)"),
            lambda: f"add({self.tensors()})",
            lambda: f"{self.pick('gv', 'gw', 'gx', 'x', 'gt', 'dd.t', 'x')}.{self.pick('add_', 'mul_')}({self.pick('2', '1.5', 'gu', self.ints())})",
            lambda: f"{self.pick('gv', 'gb', 'x', 'gx')}[{self.pick('0', '-1', ':1', '..., 1:', 'None, 0')}] = {self.pick('0', '1.5', self.ints())}",
            lambda: f"{self.pick('gv', 'gw', 'x')}[{self.pick('0', ':, 1:', '1')}] += 1",
            lambda: f"gb[{self.pick('0', '1', '2')}].{self.pick('zero_()', 'neg_()', 'fill_(2)')}",
            lambda: f"{self.pick('gt', 'gv')} += {self.tensors()}.detach()" if self.chance(0.5) else f"x *= {self.ints()}",
            lambda: f"x.t().mul_({self.ints()})",
            lambda: f"torch.add({self.tensors()}.detach(), 1, out=gu)" if self.chance(0.2) else "gu.sin_()",
            lambda: "gr.add_(1)" if self.chance(0.1) else "gr.data",
            lambda: f"gv = {self.pick('gb[2:4]', 'gb[:2]', 'gw', 'x', 'gt')}",
            lambda: f"{self.pick('p', 'dd')}, {self.pick('q', 'o')} = {self.pick('p', 'dd')}, {self.pick('q', 'o')}" if self.chance(0.2) else "p.v, q.v = q.v, p.v",
            lambda: "color = color.other()",
            lambda: f"first, *rest = [{self.ints()}, {self.ints()}, 3]; gl.extend(rest)",
            lambda: f"del {self.lists()}[:1]",
            lambda: f"{self.dicts()} | {{'u': {self.ints()}}}",
            lambda: f"gd |= {{'u': {self.ints()}}}",
            lambda: f"gl += [{self.ints()}]",
            lambda: f"gl.append((w := {self.ints()}) + w)",
            lambda: f"l2 = [i * {self.ints()} for i in range(3)]; {self.lists()}.extend(l2)",
            lambda: f"print({self.ints()})" if self.chance(0.2) else "None",
        ]  # fmt: skip
        self.add(self.random.choice(choices)())

    def compound(self) -> None:
        if self.chance(0.35):
            super().compound()
            return
        size = self.random.randint(1, 2)
        kind = self.random.randrange(15)
        number = self.count
        self.count += 1
        if kind == 0:
            self.add("try:")
            self.block(size)
            self.add(f"    risky({self.ints()}, {self.tensors()})")
            self.add(f"except {self.pick('Err', 'Deep', '(Err, KeyError)', 'Exception')} as e:")
            self.add("    gl.append(type(e).__name__)")
            self.block(1)
            if self.chance(0.3):
                self.add("else:")
                self.block(1)
            if self.chance(0.4):
                self.add("finally:")
                self.block(1)
        elif kind == 1:
            self.add("try:")
            self.add(f"    raise {self.pick('Err(n, x)', 'Deep(2)', 'KeyError(3)', 'ValueError(x.shape)')}")
            self.add(f"except {self.pick('Err', 'Err', 'LookupError', '(ValueError, Err)')} as e:")
            self.add(f"    gd['e'] = e.{self.pick('args', '__class__.__name__', 'args')}")
            self.block(size)
        elif kind == 2:
            self.add(f"with cm({self.lists()}, {self.truth()}) as v:")
            self.block(size)
            if self.chance(0.4):
                self.add(f"    risky({self.ints()})")
        elif kind == 3:
            self.add("with q as v:")
            self.block(size)
            if self.chance(0.5):
                self.add(f"    {self.pick('{}[9]', '[][1]', 'risky(n)')}")
        elif kind == 4:
            self.add(f"w{number} = 0")
            self.add(f"while w{number} < {self.pick('2', '3', 'n')}:")
            self.add(f"    w{number} += 1")
            self.block(size)
            if self.chance(0.5):
                self.add(f"    if {self.truth()}:")
                self.add(f"        {self.pick('break', 'continue')}")
                self.block(1)
        elif kind == 5:
            self.add(f"def local{number}(k, t=x, *rest):")
            self.add(f"    nonlocal_list = {self.lists()}")
            self.block(size)
            self.add("    return t + k, nonlocal_list")
            self.add(f"r{number} = local{number}({self.ints()}, {self.tensors()}, 1)")
        elif kind == 6:
            self.add(f"c{number} = {self.ints()}")
            self.add(f"h{number} = []")
            self.add(f"def step{number}(by, t=x):")
            self.add(f"    nonlocal c{number}")
            self.add(f"    c{number} += by")
            self.add(f"    h{number}.append(t * 2)")
            self.add(f"    return c{number}")
            self.add(f"step{number}({self.ints()}); step{number}(1, {self.tensors()})")
            self.add(f"{self.lists()}.append({self.pick(f'c{number}', f'h{number}', f'step{number}')})")
        elif kind == 7:
            self.add(
                f"for item in {self.pick('p', 'q', 'list(stack)', 'list(reg)', 'outer(2)', 'pairs(gl[:2])')}:"
            )
            self.block(size)
            if self.chance(0.3):
                self.add("    break")
        elif kind == 8:
            self.add(f"g{number} = closing({self.lists()})")
            self.add(f"next(g{number})")
            self.add(f"g{number}.close()" if self.chance(0.6) else f"for _ in g{number}: pass")
        elif kind == 9:
            self.add(f"g{number} = pairs([1, x, {self.ints()}])")
            self.add(f"next(g{number}); {self.lists()}.append(g{number}.send({self.ints()})[1])")
        elif kind == 10 and self.chance(0.1):
            self.add(f"class Local{number}(P):")
            self.add("    __slots__ = ()")
            self.add(f"    k = {self.ints()}")
            self.add("    def twice(self): return self.u * 2 + self.k")
            self.add(f"o{number} = Local{number}({self.ints()})")
            self.add(f"{self.lists()}.append(o{number}.twice())")
        elif kind == 11:
            self.add(f"match {self.pick('nt', 'p', 'gl', 'gd', 'dd', '(n, flag)')}:")
            self.add("    case NT(p=1, q=t): gl.append(1)")
            self.add("    case P(u=1 | 2): gl.append('p')")
            self.add("    case [first, *_]: gl.append(first)")
            self.add("    case {'a': int(v)}: gd['m'] = v")
            self.add(f"    case D(n=k) if {self.truth()}: gl.append(k)")
            self.add("    case _: pass")
        elif kind == 12:
            self.add("try:")
            self.block(size)
            self.add("finally:")
            self.block(1)
        elif kind == 13:
            self.add("with torch.enable_grad():")
            self.block(size)
        else:
            self.add(f"fs{number} = [lambda t, i=i: t + i * {self.ints()} for i in range(2)]")
            self.add(f"v{number} = fs{number}[1]({self.tensors()})")

    def program(self) -> str:
        return (
            super()
            .program()
            .replace("global gi, gt, gl, gd\n", "global gi, gt, gl, gd, gv, p, q, dd, color\n")
        )

    # ---- the driver ----

    def call(self) -> str:
        if self.chance(0.5):
            return super().call()
        tensor = self.pick("gv", "gb[:2]", "gw", "gr", "net.buf", "gx", "gb[4:]", "X")
        lists = self.pick("p.v", "stack", "nested['a']", "net.log", "gl")
        dicts = self.pick("q.w", "nested", "net.cfg", "reg", "gd")
        objects = self.pick("a", "b", "A(1)")
        return (
            f"f({tensor}, {self.pick('1', '2')}, {self.pick('True', 'False')}, {lists}, {dicts}, {objects})"
        )

    def change(self) -> str:
        if self.chance(0.4):
            return super().change()
        return self.pick(
            "p.u = 5", "p.v = q.v", "q.extra = 1", "P.total = property(lambda self: 7)", "P.__call__ = lambda self, t, by=1: t - by", "p = q", "p = P(1)",
            "dd = D(1, gw)", "dd.t = X", "fx = Fixed(3, gv)", "nt = NT(2, [1])", "color = Color.G", "stack.append('s')", "reg.clear()", "net.eval()",
            "net.buf = torch.ones(2, 3)", "net.subs.append(nn.ReLU())", "net.calls = 7", "net.cfg = {'k': 2}", "gv = gb[2:4]", "gw = gv", "gx = X",
            "gb.add_(1)", "gr = gr.detach()", "nested['a'][0]['t'] = gw", "nested['b']['c'] = gl", "defaulted.__kwdefaults__['acc'] = []", "add(3)",
            "P.made = 2", "Color.R.extra = 1", "net.lin = nn.Linear(3, 3)", "net.register_forward_hook(lambda m, i, o: o + 1)",
            "risky = lambda n, t=None: n", "pairs = lambda seq: iter([(1, 2), (3, 4)])", "Q.__exit__ = lambda self, *e: True", "p = Q(1)", "q.u = 1",
        )  # fmt: skip


def write(seed: int) -> tuple[str, list[str]]:
    """The program of a seed, and its steps."""
    writer = ObjectWriter(seed)
    program = writer.program()
    return program, writer.steps()
