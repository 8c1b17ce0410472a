"""Random programs over much of the language and the library: descriptors, dataclasses, enums, metaclasses, special
methods, `match`, arguments with stars, `nonlocal`, `del`, comparisons in chains, formatting, slices, operators of sets
and dicts, sorting, heaps, itertools and functools, generators, context managers, exceptions, views, writes in place,
`out=`, gradients and hooks.

Between the calls everything outside is often put back as it was: then an entry is run again, with other arguments.
"""

from __future__ import annotations

import random
import re

HEADER = """
import bisect, heapq, string
class Typed:
    def __init__(self, default=0): self.default = default
    def __set_name__(self, owner, name): self.name = "_" + name
    def __get__(self, obj, owner=None): return self if obj is None else getattr(obj, self.name, self.default)
    def __set__(self, obj, value): setattr(obj, self.name, value); trail.append((self.name, value))
    def __delete__(self, obj): delattr(obj, self.name)
class Once:
    def __init__(self, fn): self.fn = fn
    def __set_name__(self, owner, name): self.name = name
    def __get__(self, obj, owner=None):
        if obj is None: return self
        value = obj.__dict__[self.name] = self.fn(obj)
        return value
class Meta(type):
    def __call__(cls, *args, **kw):
        made = super().__call__(*args, **kw)
        trail.append(cls.__name__)
        return made
    def __getitem__(cls, i): return cls.table[i]
    def __len__(cls): return len(cls.table)
    def __contains__(cls, v): return v in cls.table
class M(metaclass=Meta):
    table = [1, 2]
    size = Typed(3)
    def __init__(self, n=1): self.n = n
    @Once
    def lazy(self): trail.append("lazy"); return [self.n]
    @functools.cached_property
    def cached(self): return {"n": self.n}
    def __getattr__(self, name):
        if name == "ghost": return self.n + 10
        raise AttributeError(name)
    def __format__(self, spec): return f"M<{spec}:{self.n}>"
    def __index__(self): return self.n % 3
    def __enter__(self): trail.append("enter"); return self
    def __exit__(self, kind, value, tb): trail.append(None if kind is None else kind.__name__); return kind is KeyError
class V:
    __slots__ = ("n",)
    __match_args__ = ("n",)
    def __init__(self, n): self.n = n
    def __add__(self, o): return V(self.n + getattr(o, "n", o)) if not isinstance(o, (str, torch.Tensor)) else NotImplemented
    __radd__ = __add__
    def __iadd__(self, o): self.n += o; return self
    def __mul__(self, o): return V(self.n * o) if isinstance(o, int) else NotImplemented
    def __matmul__(self, o): return self.n, o
    def __neg__(self): return V(-self.n)
    def __lt__(self, o): return self.n < o.n
    def __eq__(self, o): return isinstance(o, V) and self.n == o.n
    def __hash__(self): return hash(self.n)
    def __bool__(self): return self.n != 0
    def __len__(self): return 2
    def __getitem__(self, i): return (self.n, i) if not isinstance(i, int) or i < 2 else [][i]
    def __call__(self, *a, **k): return len(a) + len(k) + self.n
    def __repr__(self): return f"V({self.n})"
class Sub(V):
    __slots__ = ("w", "__dict__")
    def __init__(self, n, w=None): super().__init__(n); self.w = w
    def __add__(self, o): return Sub(super().__add__(o).n, self)
    def __setattr__(self, k, v): super().__setattr__(k, v); trail.append(k)
@dataclasses.dataclass(order=True)
class D:
    n: int
    t: typing.Any = dataclasses.field(default=None, compare=False)
    tags: list = dataclasses.field(default_factory=list, compare=False)
    extra: dataclasses.InitVar[int] = 0
    def __post_init__(self, extra): self.tags.append(extra)
@dataclasses.dataclass(frozen=True)
class Fr:
    n: int
    t: typing.Any = None
class Shape(enum.Enum):
    A = 1
    B = 2
    ALSO = 1
    @property
    def nxt(self): return Shape(3 - self.value)
class Bits(enum.Flag):
    R = 1
    W = 2
    X = 4
class Num(enum.IntEnum):
    ONE = 1
    TWO = 2
class Box(dict):
    def __missing__(self, k): return k
    def __setitem__(self, k, v): super().__setitem__(k, v); trail.append(k)
class Lst(list):
    def append(self, v): super().append(v); trail.append("append")
    def __getitem__(self, i): return super().__getitem__(i)
class Own(Exception):
    def __init__(self, n, t=None): super().__init__(n); self.n = n; self.t = t
Pt = collections.namedtuple("Pt", "x y", defaults=[5])
class Base:
    reg = []
    def __init_subclass__(cls, tag=None, **kw): super().__init_subclass__(**kw); cls.tag = tag; Base.reg.append(cls.__name__)
    def who(self): return [Base.__name__]
class Left(Base, tag="l"):
    def who(self): return ["L"] + super().who()
class Right(Base, tag="r"):
    def who(self): return ["R"] + super().who()
class Both(Left, Right):
    def who(self): return ["B"] + super().who()
@contextlib.contextmanager
def guarded(l, swallow=False):
    l.append("<")
    try:
        yield l
    except Own as e:
        l.append(e.n)
        if not swallow: raise
    else:
        l.append("ok")
    finally:
        l.append(">")
def star(a, b=2, /, c=3, *args, d=4, **kw): return [a, b, c, args, d, sorted(kw.items(), key=str)]
def maybe(n, t=None):
    if n > 1: raise Own(n, t)
    if n == 0: raise KeyError("zero")
    return n
def walk(l):
    "a generator with a state, an answer and a cleanup"
    total = 0
    try:
        for i, v in enumerate(l):
            got = yield (i, v, total)
            if got is not None: total += got
    finally:
        trail.append(("end", total))
    return total
def deleg(l):
    got = yield from walk(l)
    yield ("total", got)
def state(start=0):
    n, seen = start, []
    def step(by=1):
        nonlocal n
        n += by; seen.append(by)
        return n
    def undo():
        nonlocal n, seen
        n -= seen.pop() if seen else 0
        seen = list(seen)
        return n, seen
    return step, undo
def deco(times):
    def wrap(fn):
        @functools.wraps(fn)
        def inner(*a, **k):
            trail.append(fn.__name__)
            return [fn(*a, **k) for _ in range(times)][-1]
        inner.times = times
        return inner
    return wrap
@deco(2)
def twice(t, by=1): calls["twice"] = calls.get("twice", 0) + 1; return t * by + 1
@functools.singledispatch
def kind(v): return "object"
@kind.register
def _(v: int): return "int"
@kind.register
def _(v: list): return "list"
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(3, 3)
        self.bn = nn.BatchNorm1d(3)
        self.drop = nn.Dropout(0.5)
        self.w = nn.Parameter(torch.ones(3))
        self.register_buffer("buf", torch.zeros(2, 3))
        self.hist = []
    def forward(self, t, *, norm=False):
        if norm: t = self.bn(t)
        self.buf += t.detach()
        self.hist.append(len(self.hist))
        return self.drop(self.lin(t)) * self.w
trail, calls = [], {}
net, m, v, sub, dc, fr, box, lst, pt, both = (Net(), M(2), V(1), Sub(2), D(1, X), Fr(1, Y), Box(), Lst(), Pt(1), Both())
l, d, st, h, odd, cnt, dq = [], {}, set(), [], collections.OrderedDict(), collections.Counter(), collections.deque(maxlen=5)
cm = collections.ChainMap({}, d)
base = T(4, 6)
left, right, col, tr = base[:2, :3], base[2:, 3:], base[:, 1], base.t()
buf = torch.zeros(2, 3)
leaf = T(2, 3, seed=4).requires_grad_()
ints = torch.arange(6).view(2, 3)
alive = [V(9), D(9)]
def reset():
    global step, undo, shape, bits, gi
    trail.clear(); calls.clear()
    l[:] = [3, 1, 2]; st.clear(); st.update([1, 2, 5]); h[:] = [1, 4, 2]
    d.clear(); d.update(a=1, b=[2], c=x0)
    odd.clear(); odd.update(p=1, q=2); cnt.clear(); cnt.update("aab"); dq.clear(); dq.extend([1, 2])
    cm.maps[0].clear()
    dict.clear(box); list.__setitem__(lst, slice(None), [1, 2])
    for k in ("lazy", "cached", "_size", "z"): vars(m).pop(k, None)
    m.n = 2; v.n = 1; sub.n = 2; sub.w = None; dc.n = 1; dc.t = X; dc.tags[:] = [0]
    M.table = [1, 2]; vars(both).clear()
    step, undo = state(1)
    shape, bits, gi = Shape.A, Bits.R | Bits.W, 1
    net.buf.zero_(); net.hist.clear(); net.train()
    net.zero_grad(); leaf.grad = None
    trail.clear()
x0 = T(2, 3, seed=7)
reset()
"""

# Statements that hold others; see MixWriter.fill.
COMPOUND = [
    """try:
    maybe(@N, @T)
    @B
except Own as e@i:
    r.append(e@i.n)
    @B
except (KeyError, IndexError):
    @B
else:
    r.append('else')
finally:
    trail.append('fin')""",
    """with guarded(l, @(True||n > 1@)) as g@i:
    @B
    @(maybe(n)||g@i.append(n)||maybe(2)@)""",
    """with m as a@i, guarded(trail):
    @B
    @(d[9]||pass||pass@)""",
    """for a@i, b@i in enumerate(@S[:3]):
    @B
    if @(a@i||a@i > 1||n > 1@): @(break||continue@)
else:
    r.append('no break')""",
    """w@i = 0
while (w@i := w@i + 1) < @(3||2||n + 1@):
    @B""",
    """match @(@V||@V||[n, x]||{'a': n, 'b': x}||(n, gi)||v||dc@):
    case [a@i, *b@i]: r.append(('seq', a@i, b@i))
    case {'a': a@i, **b@i}: r.append(('map', a@i, b@i))
    case V(a@i) if a@i > 0: r.append(('V', a@i))
    case D(n=1) | Fr(): r.append('data')
    case Shape.A: r.append('A')
    case int() | str() as a@i: r.append(('lit', a@i))
    case None: r.append('none')
    case _: r.append('other')""",
    """c@i = @N
def add@i(by, /, *more, t=x):
    nonlocal c@i
    c@i += by + len(more)
    return t + c@i
z = [add@i(1), add@i(@N, 2, t=@T), c@i]""",
    """g@i = @(walk||deleg@)(@S[:3])
r.append(next(g@i, None))
try:
    r.append(g@i.send(@N))
except (StopIteration, TypeError) as e@i:
    r.append(getattr(e@i, 'value', 0))
@(g@i.close()||r.append(list(g@i))||pass@)""",
    """def gen@i():
    for a_ in @S[:2]:
        yield a_, x + 1
        trail.append(a_)
for a@i, b@i in gen@i():
    t = b@i""",
    """a@i, (b@i, *c@i) = @N, @S or [0]
@(del a@i||r.append(c@i)@)
r.append(b@i)""",
    """if @(n > 1||flag||l||m.n == 2||x is y||shape is Shape.A||Bits.X in bits||v||1 in st||x.shape[0] == 2||not d||x.requires_grad@):
    @B""",
    """if @(n > 1||flag||l||m.n == 2||x is y||shape is Shape.A||Bits.X in bits||v||1 in st||x.shape[0] == 2||not d||x.requires_grad@):
    @B
else:
    @B""",
    """try:
    try:
        maybe(@N)
    except Own as e@i:
        raise ValueError(n) from e@i
    finally:
        @B
except ValueError as e@i:
    r.append((type(e@i.__cause__).__name__, e@i.args))
except KeyError:
    pass""",
    """with contextlib.suppress(@(Own||KeyError, Own||Exception@)):
    @B
    maybe(@(2||n||0@))""",
    """with contextlib.ExitStack() as s@i:
    s@i.enter_context(guarded(l))
    s@i.callback(trail.append, @N)
    @B""",
    """with torch.@(no_grad()||enable_grad()||set_grad_enabled(flag)@):
    @B""",
    """class K@i(@(V||M||Base@)):
    k = @N
    def get(self, t=x): return t + self.k
r.append(K@i.k)""",
    """fs@i = [lambda t_, a_=a_: t_ * a_ + n for a_ in range(2)] + [lambda t_: t_ + @N]
t = [f_(@T) for f_ in fs@i][@(0||1||2@)]""",
    """@deco(@(1||2@))
def dec@i(t, *a, **k): r.append(len(a) + len(k)); return t + len(a)
t = dec@i(@T, *@S[:2], **kw)""",
    """o@i = @(Sub(n, x)||D(n, t)||M(n)||V(3)||Fr(n, t)||Net()@)
@(r.append(o@i)||l.append(o@i)||d['o'] = o@i||z = [o@i, o@i]@)
t = @(getattr(o@i, 't', x)||x + getattr(o@i, 'n', 1)@)""",
    """q@i = @T.detach().clone().requires_grad_()
(q@i * @T.detach()).sum().backward()
r.append(q@i.grad)""",
    "@(net(x).sum().backward()||(leaf * n).sum().backward()||r.append(torch.autograd.grad((leaf * 2).sum(), leaf))||leaf.grad = None||r.append(leaf.grad)@)",
    """h@i = @(net.lin.register_forward_hook(lambda m_, a_, o_: o_ + n)||net.register_forward_pre_hook(lambda m_, a_: (a_[0] * 2,))@)
t = net(x)
h@i.remove()""",
    "r.append(sorted([@V, @V], key=lambda e: trail.append(type(e).__name__) or str(type(e)))[0])",
    "z, k = [@E for _ in range(@(1||2@))], @N",
]


class MixWriter:
    """Writes one program."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.lines: list[str] = []
        self.count = 0

    def pick(self, *choices: str) -> str:
        return self.random.choice(choices)

    def num(self) -> str:
        return self.pick(
            "n",
            "n",
            "gi",
            "len(l)",
            "m.n",
            "v.n",
            "2",
            "0",
            "1",
            "-1",
            "3",
            "x.shape[0]",
            "dc.n",
            "len(trail)",
            "k",
        )

    def small(self) -> str:
        return self.pick("n", "0", "1", "-1", "2", "gi")

    def tensor(self) -> str:
        return self.pick(
            "x",
            "y",
            "x",
            "y",
            "buf",
            "left",
            "right",
            "x0",
            "leaf",
            "dc.t",
            "t",
            "t",
            "base[1:3, 2:5]",
            "tr[:3, :2].t()",
        )

    def plain(self) -> str:
        """A tensor that may be written to."""
        return self.pick("x", "buf", "left", "right", "t", "base", "col", "base[0]", "tr[1]", "net.buf", "y")

    def seq(self) -> str:
        return self.pick(
            "l", "l", "lst", "h", "list(dq)", "[n, 2, gi]", "sorted(st)", "list(range(n))", "r[:2]", "z"
        )

    def table(self) -> str:
        return self.pick("d", "d", "odd", "box", "cnt", "cm", "kw", "m.__dict__")

    def value(self) -> str:
        return self.pick(
            "n", "x", "t", "l", "d", "v", "m", "dc", "fr", "pt", "V(n)", "Sub(n, v)", "D(n, x)", "Fr(n)", "Pt(n, x)", "[x, n]", "(n, [x])", "{'k': t}", "shape", "bits",
            "both.who", "lambda: n", "z", "kw", "str(n)", "step", "x.shape", "None", "1.5", "box", "lst", "sub", "{n, 4}", "frozenset([n])", "walk([n])", "iter(z)",
            "functools.partial(star, n, q=x)", "twice", "Shape", "net.w", "left", "Num(1)", "b'ab'", "slice(n, None)", "h", "types.SimpleNamespace(n=n, t=t)", "range(n)",
        )  # fmt: skip

    def expression(self) -> str:
        num, small, t, s, value, other = (
            self.num(),
            self.small(),
            self.tensor(),
            self.seq(),
            self.value(),
            self.tensor(),
        )
        groups = [
            [
                f"0 < {num} <= {small} < 4", f"{num} == {small} != {num}", f"1 in {s} in [l, z]", f"(u := {num}) + u", f"[u := {num}, u * 2]",
                f"f'{{{num}:>4}}|{{{num}!r:<3}}|{{m:spec}}|{{v!s}}'", "f'{n=} {gi:03d} {1.5:.2f} {sorted(st)!r}'", f"'{{}} {{0[0]}}'.replace('0[0]', 'a').format({num}, a=n)",
                f"'%s %5.1f %d %%' % ({num}, {num}, {num})", f"string.Template('$a ${{b}}').substitute(a={num}, b=gi)", f"str({num}).zfill(3).center(7, '*').split('*')",
                f"','.join(map(str, [{num}, v, pt]))", f"{s}[{small}:]", f"{s}[::-1]", f"{s}[:{small}:2]", f"{s}[-2:][:1]", f"[{num}] * 2 + {s}", f"divmod({num}, 3)", f"pow({num}, 2, 7)",
                f"round({num} / 3, 2)", f"({num} << 2 | 1) & 7 ^ {small}", f"-{num} // 2, -{num} % 3", f"~{num}", f"({num} and l or d)", f"not {num}", f"({num} if {small} else {value})",
                f"int({num}).bit_length()", f"hash(({num}, 'a')) == hash((n, 'a'))", f"chr(97 + {num} % 5) in 'abc'", "'abc'['n' != 'm':]", f"bytes([{num} % 7]).hex()", f"min({s}, default=n, key=lambda e: str(type(e)))",
            ],
            [
                "{1, 2} | st", f"st & {{{num}, 1}}", f"st ^ {{{num}}}", f"st - {{{num}}}", f"st <= {{1, 2, 5, {num}}}", f"st.isdisjoint([{num}])", f"dict(d) | {{'z': {num}}}",
                "d.keys() & {'a', 'z'}", "sorted(d.keys() ^ kw.keys())", "list(reversed(odd))", f"{{k_: v_ for k_, v_ in odd.items() if v_ != {num}}}", f"{{**d, 'a': {num}, **kw}}",
                "cnt.most_common(1)", f"cnt + collections.Counter(a={num})", "cnt - collections.Counter('a')", "cm['a'] if 'a' in cm else 0", f"list(cm.new_child({{'n': {num}}}))", f"box[{num}]",
                f"sorted({s}, key=lambda e: str(type(e)))", f"sorted([V({num}), V(1), sub])", f"sorted([D({num}), D(0)], reverse=True)", f"max([v, sub, V({num})], key=lambda e: -e.n)",
                f"sorted({{'b': {num}, 'a': 1}}.items(), key=operator.itemgetter(1))", "heapq.nsmallest(2, h)", "heapq.nlargest(1, h, key=lambda e: -e)", f"bisect.bisect(sorted(h), {num})", f"list(heapq.merge([1, 4], [{num}]))",
                f"list(itertools.chain({s}, [{num}]))", f"list(itertools.accumulate([1, {num}, 2]))", "list(itertools.product([1, n], repeat=2))", f"list(itertools.islice(itertools.count({num}), 2))",
                f"[(k_, list(g_)) for k_, g_ in itertools.groupby([1, 1, {num}])]", f"list(itertools.zip_longest({s}, [1], fillvalue=0))", "list(itertools.combinations([1, n, 3], 2))", f"list(itertools.pairwise({s}))",
                f"list(itertools.starmap(lambda a_, b_: (a_, b_), zip({s}, {s})))", f"list(itertools.takewhile(lambda e: e != {num}, {s}))", f"list(zip(*[{s}, {s}]))", f"dict(enumerate({s}))", f"list(map(lambda a_, b_: [a_, b_], {s}, {s}))",
                f"functools.reduce(lambda a_, b_: a_ * 2 + b_, [1, {num}])", f"functools.partial(star, {num}, d=1)(2, z=3)", f"kind({value})", f"any(e == {num} for e in {s}), all(e for e in {s})", f"sum([[n], {s}], [])", f"list(filter(None, {s}))", f"next(iter({s}), {num})",
            ],
            [
                f"star({num}, *{s}[:3], **{{'q': {num}}})", f"star(*[1, {num}], d={num})", f"star({num}, {num}, c=5)", f"(lambda *a_, k_={num}, **q_: (a_, k_, q_))(1, z={num})", f"twice({t}, by={num})", "twice.times, twice.__wrapped__.__name__",
                "m.size", "m.lazy", "m.cached", "m.ghost", f"M[0], len(M), {num} in M", f"M({num}).lazy", "[7, 8, 9][m]", "both.who(), Both.tag, Base.reg", "[c_.__name__ for c_ in Both.__mro__]",
                f"(v + {num}, {num} + v, -v)", "sub + v", f"v * {num}", f"v @ {num}", f"v[{small}:2]", "v[..., 1]", "list(v)[:2]", f"v({num}, k={num})", f"v < sub, v == V({num}), v != sub, v >= v if False else 0", f"{{V({num}): 1}}.get(v)", f"V({num}) in [v, sub]", "bool(v), len(v)",
                f"dataclasses.astuple(Fr({num}))", f"dataclasses.replace(dc, n={num}, extra=2)", f"dc < D({num}), dc == D({num}), repr(Fr({num}))", f"hash(Fr({num})) == hash(Fr(1))", f"dataclasses.asdict(D({num})) if n else 0", "[f_.name for f_ in dataclasses.fields(dc)]",
                "shape.nxt.name, Shape['A'] is shape, Shape(1), Shape.ALSO", "bits & Bits.W, Bits.R in bits, ~bits", f"Num.TWO + {num}, Num(1) is Num.ONE, f'{{Num.ONE}}'", "[s_.name for s_ in Shape]", f"pt._replace(x={num}), pt.y, Pt(*[1, {num}]), pt._asdict()", f"pt == (1, 5), Pt(y={num}, x=n)",
                f"getattr(m, {self.pick(repr('n'), repr('zz'), repr('ghost'), repr('size'))}, 'none')", "hasattr(both, 'z'), callable(v), isinstance(sub, V), issubclass(Both, (Left, int))", "vars(both), both.__class__.__name__, type(m) is M", "operator.attrgetter('n', 'size')(m)",
                f"list(walk({s}[:3]))", f"list(deleg([{num}]))", f"dict(zip('abc', {s}))", f"[a_ * b_ for a_ in range(3) for b_ in range({small}) if a_ != b_]", f"step({num}), undo()", f"(e_ for e_ in {s}).__next__() if {s} else 0",
            ],
            [
                f"{t} + {num}", f"{t} * {other}", f"torch.relu({t})", f"{t}.sum()", f"{t}.mean(-1, keepdim=True) + {other}", f"{t}.t().contiguous()", f"{t}[{self.pick('0', '-1', '...', 'None', ':, 1', ':1', '0, 1', '::2', '[1, 0]')}]", f"{t}[..., {self.pick('0', '1:', '-1', '[0, 2]', 'None')}]",
                f"{t}.reshape(-1)", f"{t}.transpose(0, 1)", f"{t}.clone()", f"{t}.detach()", f"torch.cat([{t}, {other}])", f"torch.stack(({t}, {other}), 1)", f"{t}.split(1)", f"{t}.unbind(1)", f"{t}.unsqueeze(0).squeeze(0)", f"torch.where({t} > 0, {other}, {num})", f"{t}.masked_fill({other} > 0, {num})",
                f"{t}.max(1)", f"{t}.max(dim=0).values", f"{t}.sort(descending=True)[0]", f"{t}.topk(2).indices", f"torch.einsum('ij,kj->ik', {t}, {other})", f"{t} @ {other}.t()", f"{t}.to(torch.float64).sum(0)", f"{t}.flatten().view(3, 2)", f"torch.full_like({t}, n)", f"{t}.new_zeros(2)", f"{t}.expand(2, 2, 3)", f"{t}.cumsum(0)",
                f"net({t})", f"net({t}, norm=True)", f"F.softmax({t}, dim=-1)", f"F.dropout({t}, 0.5)", "torch.rand(2)", f"torch.randn_like({t})", f"{t}.shape, {t}.dim(), {t}.stride(), {t}.is_contiguous(), {t}.storage_offset()", f"{t}.dtype, {t}.requires_grad, {t}.is_leaf, {t}.grad_fn is None", f"{t}._is_view()", f"len({t}), {t}.numel(), {t}.size(-1)", f"({t} > 0).float()", f"{t}.narrow(1, 0, 2)", f"ints[{small}]", "ints + n", "ints.gather(1, ints % 3)", f"{t}.index_select(1, ints[0])", f"{t} / 2 // 1 % 2", f"2 ** {t}", f"1 - {t}", f"torch.chunk({t}, 2, dim=0)[-1]",
                f"{{({t}, 1): n}}[({t}, 1)]", f"[t_ * 2 for t_ in {t}]", f"sum(t_ for t_ in {t})", f"{t} is {other}", f"torch.is_tensor({t}), isinstance({t}, nn.Parameter)", f"list(map(torch.neg, [{t}, {other}]))", f"torch.add({t}, {other}, alpha=n)", f"[*{t}][0]", f"dict(t={t}, n=n)", f"{t}.permute(1, 0).unflatten(0, (3, 1))", f"{t}.type_as(ints)", f"{t}.roll(1, 0)", f"torch.zeros_like({t}).index_fill(1, ints[0, :1], n)",
            ],
        ]  # fmt: skip
        return "(" + self.random.choice(self.random.choices(groups, [3, 4, 5, 5])[0]) + ")"

    def target(self) -> str:
        return self.pick(
            "t",
            "z",
            "k",
            f"l[{self.pick('0', '-1')}]",
            "d['a']",
            "m.n",
            "m.size",
            "dc.t",
            "both.z",
            "box['k']",
            "gi",
            "odd['q']",
            "sub.w",
            "u, z",
            "(k, *z)",
            "cm['a']",
            "v.n",
            "M.table[0]",
        )

    def inplace(self) -> str:
        p, t, num = self.plain(), self.tensor(), self.num()
        return self.pick(
            f"{p}.add_({num})", f"{p}.mul_(0.5)", f"{p}.zero_()", f"{p}.copy_({p})", f"{p}[{self.pick('0', '-1', '...', ':1', '..., 0')}] = {num}", f"{p}[..., 1:] += 1", f"{p}[0] = {p}[-1]", f"{p} += 1" if p.isidentifier() else f"{p}.sub_(1)",
            f"{p}.fill_({num}).neg_()", f"torch.add({t}.detach(), 1, out=buf)", f"torch.mul({t}.detach(), {t}.detach(), out=buf)", f"torch.sin({p}, out={p})", "torch.cat([x[:1].detach(), y[1:].detach()], out=buf)", f"{p}.clamp_(min=0)", f"{p}.masked_fill_({p} > 0, {num})", f"{p}.t_(); {p}.t_()" if p in ("x", "buf") else f"{p}.abs_()",
            f"{p}.unsqueeze(0).add_(1)", f"{p}.view(-1).mul_(2)" if p in ("x", "buf") else f"{p}.exp_()", f"for t_ in {p}: t_.add_(1)", f"{p}.normal_()", f"{p}.uniform_(0, 1)", f"{p}.index_add_(0, ints[0, :1], {p}[:1].clone())" if p in ("x", "buf", "left") else f"{p}.sin_()", f"{p}.set_({p})" if self.random.random() < 0.2 else f"{p}.floor_()", f"{p}.data.add_(1)", "t = x.view(-1); t[0] = 5; t = x", "left.copy_(right)", "base[1:3] = base[:2].clone()", "col *= n", "tr[0].zero_()", "a_, b_ = x.unbind(0); a_.add_(b_)", "x.requires_grad_(False)", "net.buf.mul_(0.5)", "net.bn.running_mean.zero_()", "ints[0, 0] += 1", "x[x > 0] = 0" if self.random.random() < 0.3 else "x.relu_()",
        )  # fmt: skip

    def mutate(self) -> str:
        num, s, value, tb = self.num(), self.seq(), self.value(), self.table()
        return self.pick(
            f"l.append({value})", f"l.insert({self.small()}, {value})", f"l.extend({s})", "l.sort(key=lambda e: str(type(e)))", "l.reverse()", "del l[:1]", "del l[-1:]", f"l[1:] = {s}[:2]", f"l[::2] = [{value}] * len(l[::2])", f"l += [{value}]", "l *= 2; del l[4:]", "z = l.pop() if l else 0; z = [z]", f"lst.append({value})", f"lst[0] = {value}",
            f"{tb}['k'] = {value}", f"{tb}.update(q={num})", "d.pop('a', 0)", "d.setdefault('s', []).append(n)", f"d |= {{'o': {value}}}", "odd.move_to_end('p') if 'p' in odd else None", "odd.popitem(last=False) if odd else None", f"cnt.update('b' * ({num} % 3))", f"cnt['a'] += {num}", "cm['a'] = n", f"box['b'] = {value}",
            f"st |= {{{num}}}", f"st.add({num})", f"st ^= {{1, {num}}}", f"st &= {{1, 2, {num}}}", f"st.discard({num})", f"heapq.heappush(h, {num})", "k = heapq.heappop(h) if h else 0", "heapq.heapify(h)", f"bisect.insort(h, {num})", f"dq.appendleft({value})", f"dq.rotate({num})", "dq.popleft() if dq else 0", f"dq.extend({s})",
            f"m.size = {num}", "del m.size" if self.random.random() < 0.3 else "m.lazy.append(n)", f"m.n += {num}", f"m.cached['x'] = {value}", f"both.z = {value}", "vars(both).pop('z', None)", f"setattr(sub, 'q', {value})", f"sub.w = {value}", "v.n += 1", "v += 2" if self.random.random() < 0.3 else f"sub += {num}" if self.random.random() < 0.3 else "v.n = n", f"dc.n = {num}", f"dc.tags.append({value})", f"dc.t = {self.tensor()}", "fr.n = 2" if self.random.random() < 0.1 else "calls['f'] = n",
            f"M.table = [{num}]", f"M.table.append({num})", "shape = shape.nxt", "bits |= Bits.X", "bits ^= Bits.R", f"gi = {num}", f"step({num})", "undo()", f"trail.append({value})", f"net.hist.append({value})", "net.eval()", "net.train(n > 1)", f"kw['z'] = {value}", f"r.append({value})", f"print({num}, end=' ')", "print(pt, f'{n}', sep='|')", "twice.times += 1", f"star.seen = {value}", f"alive[1].n = {num}",
        )  # fmt: skip

    def body(self, size: int = 0) -> str:
        lines = []
        for _ in range(size or self.random.randint(1, 2)):
            lines.extend(self.statement(True).split("\n"))
        return "".join(f"    {line}\n" for line in lines)

    def fill(self, template: str) -> str:
        """A template with its marks filled in: `@i` a number of its own, `@N`, `@S`, `@V`, `@T`, `@E` expressions, `@(a||b)` a choice, and a
        line `@B` a few statements."""
        number = self.count = self.count + 1
        template = re.sub(r"@\((.*?)@\)", lambda found: self.pick(*found[1].split("||")), template)
        template = template.replace("@i", str(number))
        parts = {"N": self.num, "S": self.seq, "V": self.value, "T": self.tensor, "E": self.expression}
        template = re.sub(r"@([NSVTE])", lambda found: parts[found[1]](), template)
        lines: list[str] = []
        for line in template.split("\n"):
            if line.lstrip() != "@B":
                lines.append(line)
                continue
            indent = line[: line.index("@")]
            for _ in range(self.random.randint(1, 2)):
                lines.extend(indent + inner for inner in self.statement(True).split("\n"))
        return "\n".join(lines)

    def compound(self) -> str:
        return self.fill(self.pick(*COMPOUND))

    def statement(self, inner: bool = False) -> str:
        roll = self.random.random()
        if roll < 0.3:
            return self.mutate()
        if roll < 0.45:
            return f"r.append({self.expression()})"
        if roll < 0.53:
            return f"{self.target()} = {self.pick(self.value(), self.expression())}".replace(
                "u, z =", "u, z = n,"
            ).replace("(k, *z) =", "(k, *z) = n,")
        if roll < 0.67:
            return self.inplace()
        if roll < 0.75:
            return f"t = {self.tensor()} {self.pick('+', '*', '-')} {self.pick(self.num(), self.tensor())}"
        if roll < 0.78:
            return f"x = {self.pick('x + 1', 'x * n', 'F.relu(x)', 'x.clone()', 'twice(x)', 'y')}"
        return self.compound() if not inner or self.random.random() < 0.4 else self.mutate()

    def program(self) -> str:
        for _ in range(self.random.randint(2, 8)):
            self.lines.extend(self.statement().split("\n"))
        self.lines.append(f"return x, t, r, {self.expression()}, {self.value()}")
        head = "def f(x, y, n=1, flag=True, *z, **kw):\n    global l, d, gi, buf, left, base, shape, bits, st, v, sub, col, right\n    r, t, k = [], x, 0\n"
        return HEADER + head + "".join(f"    {line}\n" for line in self.lines)

    def call(self) -> str:
        tensor = "X", "Y", "X", "x0", "left", "T(2, 3, seed=9)"
        return (
            f"f({self.pick(*tensor)}, {self.pick(*tensor)}, {self.pick('1', '1', '2', '0')}, {self.pick('True', 'True', 'False')}"
            f"{self.pick('', '', ', 1, 2', ', *l[:1]')}{self.pick('', '', ', a=1', ', **{chr(97): X, chr(98): 2}')})"
        )

    def change(self) -> str:
        return self.pick(
            "reset()", "reset()", "reset()", "m.n = 5", "M.table = [7]", "l.append(4)", "l.clear()", "d['a'] = 9", "d.pop('b', 0)", "st.add(9)", "gi = 2", "shape = Shape.B", "bits = Bits.X", "v.n = 0", "net.eval()", "both.z = 1", "base = base.clone()", "left = base[:2, :3]",
            "buf = torch.ones(2, 3)", "dc.t = leaf", "M.lazy = property(lambda self: [0])", "V.__add__ = lambda self, o: 5", "step, undo = state(5)", "twice = deco(1)(lambda t, by=1: t + by)", "Left.who = lambda self: ['x']", "maybe = lambda n, t=None: n", "cnt.clear()", "h.append(0)",
            "star.__kwdefaults__['d'] = 7", "leaf.grad = None", "odd.move_to_end('p') if 'p' in odd else None", "box.clear()", "x0 = Y", "v, sub = V(3), Sub(4)", "Shape.A.extra = 1", "net.w.requires_grad_(False)", "kind.register(str)(lambda v: 's')", "D.__post_init__ = lambda self, extra: None", "vars(m).pop('lazy', 0)", "X.requires_grad_()", "trail.append(1)",
        )  # fmt: skip

    def steps(self) -> list[str]:
        steps = [self.call(), self.call()]
        for _ in range(self.random.randint(2, 6)):
            steps.append(self.change())
            steps.append(self.call())
        return [*steps, "reset()", steps[0]]


def write(seed: int) -> tuple[str, list[str]]:
    """The program of a seed, and its steps."""
    writer = MixWriter(seed)
    program = writer.program()
    return program, writer.steps()
