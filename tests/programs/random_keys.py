"""Random programs about which object is which: keys that are tensors, objects, functions, methods and tuples of them,
containers that change, functions, iterators and exceptions that are kept, and what is equal and not the same.

Between the calls everything outside is often put back as it was: then an entry is run again, with other arguments.
"""

from __future__ import annotations

import random

HEADER = """
import weakref
class A:
    k = 1
    made = 0
    def __init__(self, n=0): self.n = n; self.l = [n]
    def run(self, t=1): return self.n + t
    @property
    def prop(self): return self.n * 2
    @prop.setter
    def prop(self, v): self.n = v; self.l.append(v)
class S:
    __slots__ = ("u", "v", "__weakref__")
    def __init__(self, u): self.u = u
    def __lt__(self, o): return self.u < o.u
class P:
    def __init__(self, u): self.u = u; self.own = {}
    def __eq__(self, o): return isinstance(o, P) and self.u == o.u
    def __hash__(self): return hash(self.u)
    def __repr__(self): return f"P({self.u})"
class E(Exception): pass
def g1(t): return t + 1
def g2(t): return t + 1
def mk(n):
    def g(t): return t + n
    return g
def dflt(v, acc=[], *, kw={}):
    acc.append(v); kw[len(acc)] = v
    return len(acc)
def gen(l):
    for v in l:
        got = yield v
        if got is not None: l.append(got)
def counter():
    c = 0
    def inc(by=1):
        nonlocal c
        c += by
        return c
    return inc
m1, m2 = mk(1), mk(2)
a, b, c = A(1), A(2), A(3)
__alive = [a, b, c]
def new(n):
    __alive.append(A(n))
    return __alive[-1]
s, pe, pf = S(1), P(1), P(2)
gt, pair = T(2, 3, seed=5), (b, 1)
kd, ko, kdd, l, l2, kept, q, inc = {}, collections.OrderedDict(), collections.defaultdict(list), [], [], [], None, None
__ks, __wd = set(), weakref.WeakKeyDictionary()
vs = set()
def reset():
    global q, inc, l2, gt
    kd.clear(); kd.update({a: 1, "s": [2], pair: a, 1: 3})
    ko.clear(); ko.update({a: [1], b: 2, g1: 3, "s": 4})
    kdd.clear(); kdd[b].append(1)
    l[:] = [3, a, 1, b]
    l2 = [S(2), S(1), S(3)]
    kept.clear()
    __ks.clear(); __ks.update([a, 1, "s", m1])
    __wd.clear(); __wd[a] = 1
    vs.clear(); vs.update([1, 2, 5])
    q = collections.deque([1, a, 3], maxlen=4)
    inc = counter()
    a.n, b.n, c.n, A.k, A.made = 1, 2, 3, 1, 0
    a.l, b.l = [1], [2]
    for o in (a, b, c): vars(o).pop("z", None)
    s.u = 1; s.v = l
    dflt.__defaults__[0].clear(); dflt.__kwdefaults__["kw"].clear()
    gt = X
reset()
"""


class KeyWriter:
    """Writes one program."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.lines: list[str] = []
        self.count = 0

    def pick(self, *choices: str) -> str:
        return self.random.choice(choices)

    def key(self) -> str:
        return self.pick(
            "a", "b", "o", "w", "o", "w", "x", "gt", "y", "(o, 1)", "(b, 1)", "(w, (o, 2))", "A(3)", "g1", "fn", "fn", "m1", "o.run", "a.run",
            "1", "True", "1.0", "'s'", "n", "None", "(1, n)", "P(n)", "pe", "i", "A", "(x, o)", "(1, 'q')", "frozenset([n])", "frozenset([o, 1])",
        )  # fmt: skip

    def table(self) -> str:
        return self.pick("kd", "kd", "ko", "kdd", "m")

    def value(self) -> str:
        return self.pick(
            "n", "x", "y", "x + n", "o", "w", "l", "m", "i", "[n, o]", "(x, w)", "A(n)", "P(n)", "S(n)", "fn", "o.run", "i.run", "kd", "inc", "a.l", "{o: w}",
            f"functools.partial(fn, {self.key()})", "operator.itemgetter(n)", "operator.attrgetter('n')", "slice(o, n)", "lambda: (x, o)", "lambda t=o: t",
            "iter(l)", "iter(m)", "reversed(l)", "enumerate(l)", "zip(l, l2)", "m.keys()", "kd.items()", "E(o, x)", "q", "{n, 7}", "vs", "s", "s.v", "type(o)",
            "(l, (l, m))", "types.MappingProxyType(m)", "types.SimpleNamespace(t=x, o=o)", "collections.deque([x, o], maxlen=n)",
        )  # fmt: skip

    def statement(self) -> str:
        table, key, value, other = self.table(), self.key(), self.value(), self.key()
        number = self.count = self.count + 1
        groups: list[list[str]] = [
            [
                f"{table}[{key}] = {value}",
                f"{table}[{key}] = {value}",
                f"{table}.pop({key}, None)",
                f"r.append({table}.pop({key}, 0))",
                f"{table}.setdefault({key}, {value})",
                f"if {key} in {table}: del {table}[{key}]",
                f"if {table}: r.append({table}.popitem())",
                f"{table}.update({{{key}: {value}, {other}: n}})",
                f"kd |= {{{key}: {value}}}",
                f"{table}[{other}] = {table}.pop({key}, n)",
                f"if {key} in ko: ko.move_to_end({key}, last={self.pick('True', 'False')})",
                f"kdd[{key}].append({value})",
                f"{table}.clear()",
                f"m = dict({table})",
                f"r.append({table}.get({key}, 0))",
                f"r.append({key} in {table})",
                f"r.append(list({table}))",
                f"r.append([k is {other} for k in {table}])",
                f"r.append([v is {other} for v in {table}.values()])",
                f"r.append(len({table}))",
                f"r.append({table} == {{{key}: n}})",
                f"for k{number}, v{number} in list({table}.items())[:3]: r.append(k{number})",
            ],
            [
                f"__ks.add({key})",
                f"__ks.discard({key})",
                f"r.append({key} in __ks)",
                "r.append(len(__ks))",
                f"r.append({{{key}, {other}}} <= __ks)",
                f"r.append(len({{{key}, {other}, o}}))",
                f"vs.{self.pick('add', 'discard')}({self.pick('1', 'True', 'n', '2.0', '6')})",
                "r.append([repr(v) for v in sorted(vs)])",
            ],
            [
                f"l[{self.pick('0:1', '1:', ':', '::2', '-1:')}] = list({self.pick('l', 'l2', '[n, o]', 'm')})[:2]",
                f"l[{self.pick('0', '-1', '1')}] = {value}",
                f"del l[{self.pick('0', '-1', ':1', '::2')}]",
                "l.sort(key=lambda v: str(type(v)))",
                "l2.sort() if l2 is not l else None",
                "l2.sort(key=lambda v: -getattr(v, 'u', 0)); r.append(l2[:1])",
                f"r.append({key} in l)",
                f"r.append(l.index({key}) if {key} in l else -1)",
                f"r.append(l.count({key}))",
                "l = l2",
                "l2 = l",
                "r.append((l is l2, l == l2, l is s.v))",
                f"l.append({value})",
                "l.reverse()",
                f"q.rotate({self.pick('1', '-1', 'n')})",
                f"q.{self.pick('append', 'appendleft')}({value})",
                "r.append(q[0]); q.extend([n, o])",
            ],
            [
                "o.n += 1",
                f"o.prop = {self.pick('n', 'w.n', '3')}",
                f"o.z = {value}",
                f"w.l = {self.pick('o.l', '[n]', 'l')}",
                "r.append(getattr(o, 'z', None))",
                self.pick("A.made += 1", "A.k = n", "o.l.append(n)", "w.l.clear()"),
                "r.append((o.k, w.prop, a.n, o.l is w.l))",
                f"s.v = {value}",
                self.pick("del s.v", "s.v = o", "s.u = n"),
                "r.append(getattr(s, 'v', 0))",
                f"i.x = {value}",
                "i.me = i",
                f"pe.own[{key}] = {value}",
                f"v{number} = P(n); v{number}.own[v{number}] = x; r.append(v{number})",
                f"v{number} = [n]; v{number}.append((v{number}, i)); i.t = v{number}[1]; r.append(v{number}[1])",
                f"v{number} = i.run; i.m = v{number}; r.append(v{number})",
                "r.append((o.run == w.run, o == w, o is w, fn == g1, fn is m1, fn in [g1, m1], i.run == i.run))",
                "r.append((x is y, x is gt, y is gt))",
                "__wd[o] = n",
                "r.append((o in __wd, len(__wd)))",
            ],
            [
                f"r.append(f'{{{self.pick('pe', 'n', '[pe, n]', '(n, pf)', 'P(n)')}!r:>9}}' + str({self.pick('pf', 'l2 is l', '[n]')}))",
                f"r.append('%s %r' % (n, {self.pick('pe', 'P(n)')}))",
                "r.append((str(o) == str(a), hash(w) == hash(a), f'{o}' == repr(w), '%s' % o == str(b), hash((o, 1)) == hash((w, 1))))",
                "r.append((hash(x) == hash(gt), hash(fn) == hash(g1)))",
                f"r.append(dflt({value}))",
                "r.append(inc(n))",
                f"def h{number}(t: {key} = {value}, *, k={other}) -> x: return t\nh{number}.z = {value}\nr.append(h{number})",
                f"@functools.wraps(fn)\ndef h{number}(t): return fn(t)\nr.append(h{number}); x = h{number}(x)",
                f"v{number} = iter({self.pick('l', 'm', 'kd', 'q')}); r.append(next(v{number}, 0)); {self.pick('r', 'kept')}.append(v{number})",
                f"for v{number} in gen(l): r.append(v{number})",
                f"v{number} = gen([n, o]); next(v{number}); v{number}.send(w); r.append(list(v{number}))",
                f"v{number} = {self.pick('E', 'ValueError', 'KeyError')}({key}, x); v{number}.extra = {value}; {self.pick('r', 'kept')}.append(v{number})",
                f"try:\n    try:\n        if n > 1: raise KeyError({key})\n    finally:\n        l.append(n)\nexcept KeyError as e{number}:\n    e{number}.add_note('n'); kept.append(e{number}.args)",
                f"try:\n    raise E({key})\nexcept E as e{number}:\n    kept.append(e{number})",
                "try:\n    l.append(n); print(n)\nfinally:\n    o.n += 1",
                f"kept.append({value})",
                f"kept[:] = [{value}, {value}]",
                self.pick("print(n)", "x = x * n", "x.add_(0)"),
                "x = x + 1",
                "y = fn(y)",
                "x, y = y, x",
                f"i = {self.pick('o', 'w', 'A(n)', 'a')}",
                f"if n > 1 and {key} in {table}: x = x * 2",
            ],
        ]  # fmt: skip
        return self.random.choice(self.random.choices(groups, [6, 2, 4, 4, 5])[0])

    def program(self) -> str:
        for _ in range(self.random.randint(2, 9)):
            self.lines.extend(self.statement().split("\n"))
        self.lines.append(f"return x, r, {self.value()}, {self.value()}")
        head = "def f(x, y, n, o, w, fn):\n    global l, l2, kd, gt\n    m, r, i = {o: 1}, [], A(9)\n"
        return HEADER + head + "".join(f"    {line}\n" for line in self.lines)

    def call(self) -> str:
        tensor = "X", "Y", "X", "gt"
        # guards hold keys, so objects that go between calls would stay in the weak dict: all of them stay
        objects = "a", "b", "c", "a", "new(5)"
        functions = "g1", "g2", "m1", "m2", "mk(3)", "m1"
        return (
            f"f({self.pick(*tensor)}, {self.pick(*tensor)}, {self.pick('1', '1', '2')}, {self.pick(*objects)}, {self.pick(*objects)}, "
            f"{self.pick(*functions)})"
        )

    def change(self) -> str:
        return self.pick(
            "reset()", "reset()", "reset()", "kd.pop(a, None)", "kd[b] = 5", "kd[c] = [1]", "ko.move_to_end(a) if a in ko else None", "kd[True] = 1",
            "l.append(c)", "l2 = l", "l = l2", "__ks.add(b)", "a.n = 5", "A.k = 2", "g1 = g2", "m1 = mk(1)", "a, b = b, a", "b = a", "gt = Y", "gt = X", "s.v = 1",
            "A.run = lambda self, t=1: 7", "g1.__name__ = 'z'", "del s.v", "kdd.default_factory = dict", "q.clear()",
        )  # fmt: skip

    def steps(self) -> list[str]:
        steps = [self.call()]
        for _ in range(self.random.randint(3, 7)):
            steps.append(self.change())
            steps.append(self.call())
        return [*steps, "reset()", steps[0]]


def write(seed: int) -> tuple[str, list[str]]:
    """The program of a seed, and its steps."""
    writer = KeyWriter(seed)
    program = writer.program()
    return program, writer.steps()
