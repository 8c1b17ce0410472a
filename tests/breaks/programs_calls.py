"""Breaks at calls: C functions that nobody knows, output, and what C code calls back."""

from __future__ import annotations

from programs.texts import parse

PROGRAMS = parse(r"""
### struct pack and unpack
import struct
def f(x):
    y = x + 1
    a, b = struct.unpack("<ii", struct.pack("<ii", 3, 4))
    return y * a - b
### hashlib
import hashlib
def f(x):
    y = x.relu()
    d = hashlib.md5(b"weights").hexdigest()
    return y * 2, d
### base64 and binascii
import base64
def f(x):
    y = x * 3
    s = base64.b64encode(b"tensor").decode()
    return y - 1, s
### pickle of plain data
import pickle
def f(x):
    y = x - 1
    d = pickle.loads(pickle.dumps({"k": (1, 2.5, "s")}))
    return y * d["k"][1], d
### uuid is a string
import uuid
def f(x):
    y = x + 1
    u = str(uuid.uuid5(uuid.NAMESPACE_DNS, "example.org"))
    return y * len(u), u
### an os call
import os
def f(x):
    y = x + 1
    here = os.getpid() == os.getpid()
    return y * 2, here
### sys.stdout write and flush
import sys
def f(x):
    y = x.exp()
    sys.stdout.write("written\n")
    sys.stdout.flush()
    return y.log()
### print to standard error
import sys
def f(x):
    y = x + 1
    print("to stderr", file=sys.stderr)
    return y * 2
### print with star arguments
def f(x, *names):
    y = x + 1
    print(*names, sep=", ")
    return y * len(names)
---
f(X, "a", "b")
f(X, "a", "b")
f(X)
f(Y, "c", "d")
### print of a shape in the middle of an expression
def show(v):
    print("shape", tuple(v.shape))
    return v
def f(x):
    return show(x + 1).sum(0) * show(x * 2).mean(0)
### print a dict of metrics
def f(x):
    y = x * 2
    metrics = {"n": y.numel(), "dims": list(y.shape)}
    print(metrics)
    metrics["done"] = True
    return y + 1, metrics
### print a formatted item
def f(x):
    loss = (x ** 2).mean()
    print(f"loss {loss.item():.3f}")
    return loss * 2
---
f(X)
f(X + 1)
f(X)
### print under a condition on an int
def f(x, verbose):
    y = x + 1
    if verbose:
        print("verbose", y.dim())
    return y * 2
---
f(X, True)
f(X, False)
f(X, True)
f(Y, False)
### print every second step
class State:
    step = 0
state = State()
def f(x):
    state.step += 1
    y = x * 2
    if state.step % 2 == 0:
        print("step", state.step)
    return y + state.step
---
f(X)
f(X)
f(X)
f(X)
### pprint
import pprint
def f(x):
    y = x + 1
    pprint.pprint({"b": [1, 2], "a": (3,)})
    return y * 2
### warnings shown
import warnings
def f(x):
    y = x * 2
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            warnings.warn("deprecated", DeprecationWarning)
        except DeprecationWarning as error:
            y = y + len(str(error))
    return y - 1
### a logger with a handler that writes
import io, logging
stream = io.StringIO()
log = logging.Logger("program.stream", logging.INFO)  # not the registered one, which both sides would share
log.addHandler(logging.StreamHandler(stream))
def f(x):
    y = x + 1
    log.info("shape %s", tuple(y.shape))
    return y * 2, stream.getvalue()
### a logger that is asked for its level
import logging
log = logging.getLogger("program.level")
log.setLevel(logging.WARNING)
def f(x):
    y = x + 1
    if log.isEnabledFor(logging.DEBUG):
        log.debug("expensive %s", y.sum().item())
    return y * 2
### collections.Counter
def f(x):
    y = x + 1
    c = collections.Counter("abracadabra")
    return y * c["a"], c.most_common(2)
### itertools in a loop with a print
def f(x):
    for a, b in itertools.product((1, 2), (3, 4)):
        x = x + a * b
        print(a, b)
    return x * 2
### sorted with a key that prints
def f(x):
    def key(n):
        print("key", n)
        return -n
    y = x + 1
    order = sorted([2, 3, 1], key=key)
    return y * order[0], order
### sorted with a key of tensors
def f(x):
    rows = sorted([x[0], x[1]], key=lambda r: r.sum())
    return rows[0] + 2 * rows[1]
---
f(X)
f(-X)
f(X)
### max with a key of items
def f(x):
    best = max(range(x.shape[0]), key=lambda i: x[i].sum().item())
    return x[best] * 2, best
---
f(X)
f(X.flip(0))
f(X)
### min of items
def f(x):
    v = min(x[0].tolist())
    return x - v
---
f(X)
f(-X)
### map with a function that prints
def double(v):
    print("double")
    return v * 2
def f(x):
    a, b = map(double, (x, x + 1))
    return a + b
### filter on data
def f(x):
    rows = list(filter(lambda r: r.sum() > 0, x))
    return x.sum() + len(rows), rows
---
f(X)
f(X.abs())
f(-X.abs())
### reduce with a print
def add(a, b):
    print("add")
    return a + b
def f(x):
    return functools.reduce(add, [x, x * 2, x * 3]) - 1
### sum of a generator of items
def f(x):
    total = sum(float(v) for v in x[0])
    return x * total
---
f(X)
f(-X)
### join of strings of items
def f(x):
    y = (x[0] * 10).long()
    s = ",".join(str(int(v)) for v in y)
    return y + 1, s
---
f(X)
f(-X)
### constructor that prints
class Box:
    def __init__(self, v):
        print("new box")
        self.v = v + 1
def f(x):
    b = Box(x * 2)
    return b.v * 3
### constructor that reads a value
class Scale:
    def __init__(self, t):
        self.factor = t.abs().max().item()
        self.t = t
    def apply(self):
        return self.t / (self.factor + 1)
def f(x):
    s = Scale(x + 1)
    return s.apply() * 2
---
f(X)
f(X * 3)
### dataclass with a post init that prints
@dataclasses.dataclass
class Config:
    scale: float
    bias: float = 1.0
    def __post_init__(self):
        print("config", self.scale)
        self.total = self.scale + self.bias
def f(x):
    y = x * 2
    c = Config(3.0)
    return y * c.total
### new and init
class P:
    def __new__(cls, v):
        self = super().__new__(cls)
        print("new")
        return self
    def __init__(self, v):
        print("init")
        self.v = v
def f(x):
    p = P(x + 1)
    return p.v * 2
### call operator that prints
class Affine:
    def __init__(self, a):
        self.a = a
    def __call__(self, v):
        print("call", self.a)
        return v * self.a + 1
g = Affine(2)
def f(x):
    return g(g(x))
### property that prints
class Holder:
    def __init__(self, v):
        self._v = v
    @property
    def v(self):
        print("read")
        return self._v + 1
def f(x):
    h = Holder(x * 2)
    return h.v * 3
### property setter that prints
class Holder:
    def __init__(self):
        self._v = None
    @property
    def v(self):
        return self._v
    @v.setter
    def v(self, new):
        print("write")
        self._v = new * 2
h = Holder()
def f(x):
    h.v = x + 1
    return h.v - 1
### cached property with a value
class Stats:
    def __init__(self, t):
        self.t = t
    @functools.cached_property
    def peak(self):
        return self.t.max().item()
def f(x):
    s = Stats(x.abs())
    return s.t / (s.peak + 1) + s.peak
---
f(X)
f(X * 2)
### operator that prints
class V:
    def __init__(self, t):
        self.t = t
    def __add__(self, other):
        print("add")
        return V(self.t + other.t)
    def __mul__(self, k):
        return V(self.t * k)
def f(x):
    return ((V(x) + V(x * 2)) * 3 + V(x)).t
### reflected operator that prints
class Left:
    def __radd__(self, other):
        print("radd")
        return other + 1
def f(x):
    y = x * 2
    n = 5 + Left()
    return y + n
### in-place operator that prints
class Acc:
    def __init__(self, t):
        self.t = t
    def __iadd__(self, other):
        print("iadd")
        self.t = self.t + other
        return self
def f(x):
    a = Acc(x)
    a += x * 2
    a += 1
    return a.t
### comparison that prints
class Ranked:
    def __init__(self, n):
        self.n = n
    def __lt__(self, other):
        print("lt", self.n, other.n)
        return self.n < other.n
def f(x):
    y = x + 1
    ranked = sorted([Ranked(2), Ranked(1), Ranked(3)])
    return y * ranked[0].n, [r.n for r in ranked]
### equality that prints
class Tag:
    def __init__(self, n):
        self.n = n
    def __eq__(self, other):
        print("eq")
        return self.n == other.n
    __hash__ = None
def f(x):
    y = x + 1
    if Tag(1) == Tag(1):
        y = y * 2
    return y, Tag(2) in [Tag(1), Tag(2)]
### truth of an object on data
class Mask:
    def __init__(self, t):
        self.t = t
    def __bool__(self):
        return bool((self.t > 0).any())
def f(x):
    m = Mask(x)
    if m:
        return x + 1
    return x - 1
---
f(X)
f(-X.abs())
f(X)
### len that prints
class Rows:
    def __init__(self, t):
        self.t = t
    def __len__(self):
        print("len")
        return self.t.shape[0]
def f(x):
    return x * len(Rows(x + 1))
### getitem that prints
class Rows:
    def __init__(self, t):
        self.t = t
    def __getitem__(self, i):
        print("row", i)
        return self.t[i]
def f(x):
    r = Rows(x * 2)
    return r[0] + r[1] * 2
### setitem that prints
class Store:
    def __init__(self):
        self.d = {}
    def __setitem__(self, key, value):
        print("store", key)
        self.d[key] = value + 1
store = Store()
def f(x):
    store["a"] = x * 2
    store["b"] = x * 3
    return store.d["a"] + store.d["b"]
### contains with an item
class Span:
    def __init__(self, low, high):
        self.low, self.high = low, high
    def __contains__(self, v):
        return self.low <= v.item() < self.high
def f(x):
    y = x.sum()
    return (x + 1 if y in Span(-1e3, 1e3) else x - 1) * 2
---
f(X)
f(X * 1e6)
### iterator of a class that prints
class Steps:
    def __init__(self, n):
        self.n = n
    def __iter__(self):
        return self
    def __next__(self):
        if self.n == 0:
            raise StopIteration
        self.n -= 1
        print("next", self.n)
        return self.n
def f(x):
    for i in Steps(3):
        x = x + i
    return x * 2
### iter is a generator that prints
class Batches:
    def __init__(self, t):
        self.t = t
    def __iter__(self):
        for i, row in enumerate(self.t):
            print("batch", i)
            yield row
def f(x):
    total = torch.zeros(())
    for row in Batches(x + 1):
        total = total + row.sum()
    return total * 2
### iter with a sentinel
def f(x):
    state = [3]
    def pull():
        state[0] -= 1
        return state[0]
    for n in iter(pull, 0):
        x = x + n
        print(n)
    return x * 2
### descriptor with get and set
class Field:
    def __set_name__(self, owner, name):
        self.name = "_" + name
    def __get__(self, instance, owner):
        if instance is None:
            return self
        print("get", self.name)
        return getattr(instance, self.name)
    def __set__(self, instance, value):
        print("set", self.name)
        setattr(instance, self.name, value)
class R:
    a = Field()
    b = Field()
def f(x):
    r = R()
    r.a = x + 1
    r.b = r.a * 2
    return r.b - r.a
### getattr fallback that prints
class Lazy:
    def __getattr__(self, name):
        print("missing", name)
        return len(name)
lazy = Lazy()
def f(x):
    return x * lazy.abc + lazy.de
### setattr that prints
class Watched:
    def __setattr__(self, name, value):
        print("set", name)
        object.__setattr__(self, name, value)
w = Watched()
def f(x):
    w.a = x + 1
    w.b = w.a * 2
    return w.a + w.b
### repr and format of an object
class Pt:
    def __init__(self, n):
        self.n = n
    def __repr__(self):
        print("repr")
        return f"Pt({self.n})"
    def __format__(self, spec):
        return "fmt" + spec
def f(x):
    y = x + 1
    p = Pt(2)
    return y * 2, repr(p), f"{p:abc}", str([p])
### hash that prints
class Key:
    def __init__(self, n):
        self.n = n
    def __hash__(self):
        print("hash", self.n)
        return self.n
    def __eq__(self, other):
        return self.n == other.n
def f(x):
    d = {Key(1): 2, Key(2): 3}
    return x * d[Key(2)], len(d)
### index and int of an object
class Where:
    def __index__(self):
        print("index")
        return 1
def f(x):
    y = x + 1
    l = [10, 20, 30]
    return y * l[Where()], range(5)[Where()]
### class method and static method that print
class Maker:
    base = 3
    @classmethod
    def make(cls, v):
        print("make", cls.base)
        return v * cls.base
    @staticmethod
    def half(v):
        print("half")
        return v / 2
def f(x):
    return Maker.half(Maker.make(x + 1)) - 1
### partial of a function that prints
def scale(k, v, bias=0):
    print("scale", k, bias)
    return v * k + bias
twice = functools.partial(scale, 2, bias=1)
def f(x):
    return twice(twice(x))
### a partial over the break
def f(x):
    add = functools.partial(torch.add, alpha=2)
    y = x * 2
    print("between")
    return add(y, x)
### lru_cache
@functools.lru_cache(maxsize=None)
def table(n):
    print("table", n)
    return n * n
def f(x):
    y = x + 1
    return y * table(3) + table(4)
---
f(X)
f(X)
f(Y)
### singledispatch
@functools.singledispatch
def size(v):
    return 1
@size.register
def _(v: int):
    print("int")
    return v
@size.register
def _(v: list):
    return len(v)
def f(x):
    return x * size(3) + size([1, 2])
### wraps and a timing decorator
import time
def timed(function):
    @functools.wraps(function)
    def inner(*args, **kwargs):
        start = time.time()
        result = function(*args, **kwargs)
        assert time.time() >= start
        return result
    return inner
@timed
def work(v, k=2):
    return v * k + 1
def f(x):
    return work(x) + work(x, k=3)
### retry decorator
def retry(n):
    def outer(function):
        @functools.wraps(function)
        def inner(*args):
            for attempt in range(n):
                try:
                    return function(*args, attempt)
                except ValueError as error:
                    print("retry", attempt, error)
            raise RuntimeError("no luck")
        return inner
    return outer
@retry(3)
def work(v, attempt):
    if attempt < 2:
        raise ValueError(f"try {attempt}")
    return v * attempt
def f(x):
    return work(x + 1) - 1
### callback given by the caller
def f(x, callback):
    y = x * 2
    callback(y.shape[0])
    return y + 1
---
f(X, print)
f(X, print)
f(X, [].append)
f(X, lambda n: print("n", n))
f(T(3, 4), print)
### a callback that changes a list
seen = []
def f(x, callback=seen.append):
    y = x * 2
    callback(y.shape[0])
    return y + len(seen)
### numpy function on an array
import numpy as np
A = np.arange(6.0).reshape(2, 3)
def f(x):
    y = x + 1
    m = float(np.linalg.norm(A))
    return y * m
### array module
import array
def f(x):
    y = x + 1
    a = array.array("i", [1, 2, 3])
    a.append(4)
    return y * a[3], a.tolist()
### heapq and bisect
import bisect, heapq
def f(x):
    heap = [5, 1, 4]
    heapq.heapify(heap)
    y = x + heapq.heappop(heap)
    heapq.heappush(heap, 0)
    at = bisect.bisect([1, 3, 5], 4)
    return y * at, heap
### copy and deepcopy
def f(x):
    d = {"a": [1, 2], "t": x + 1}
    e = copy.copy(d)
    g = copy.deepcopy({"l": [3]})
    e["b"] = g["l"][0]
    return e["t"] * e["b"], e["a"] is d["a"]
### string formatting by percent
def f(x):
    y = x + 1
    s = "%s-%05.2f-%r" % ("a", 1.5, (1, 2))
    return y * len(s), s
### type call and isinstance with an abstract class
import collections.abc
def f(x):
    y = x + 1
    if isinstance({}, collections.abc.Mapping) and not isinstance([], collections.abc.Mapping):
        y = y * 2
    return y
### a class made inside
def f(x):
    class Local:
        scale = 3
        def apply(self, v):
            return v * self.scale
    y = x + 1
    print(Local.__name__)
    return Local().apply(y)
### a namedtuple made inside
def f(x):
    Pair = collections.namedtuple("Pair", "a b")
    p = Pair(x + 1, x * 2)
    print(p._fields)
    return p.a + p.b
### globals and locals
K = 4
def f(x):
    y = x + 1
    n = globals()["K"]
    m = sorted(locals())
    return y * n, m
### setattr and delattr on a plain object
class Bag:
    pass
bag = Bag()
def f(x):
    setattr(bag, "t", x + 1)
    print(hasattr(bag, "t"))
    y = bag.t * 2
    delattr(bag, "t")
    return y, hasattr(bag, "t")
### weakref
import weakref
class Node:
    pass
node = Node()
node.scale = 3
ref = weakref.ref(node)
def f(x):
    y = x + 1
    return y * ref().scale
### contextvars
import contextvars
var = contextvars.ContextVar("var", default=2)
def f(x):
    y = x + 1
    token = var.set(5)
    y = y * var.get()
    var.reset(token)
    return y + var.get()
### threading lock
import threading
lock = threading.Lock()
def f(x):
    y = x + 1
    with lock:
        y = y * 2
    return y, lock.locked()
### thread local
import threading
local = threading.local()
local.k = 3
def f(x):
    y = x + 1
    return y * local.k
### inspect signature
import inspect
def g(a, b=2): pass
def f(x):
    y = x + 1
    return y * len(inspect.signature(g).parameters)
### enum by value
class Mode(enum.Enum):
    SUM = 1
    MEAN = 2
def f(x, n):
    mode = Mode(n)
    y = x * 2
    print(mode.name)
    return y.sum() if mode is Mode.SUM else y.mean()
---
f(X, 1)
f(X, 2)
f(X, 1)
f(X, 3)
### torch save and load
import io
def f(x):
    y = x + 1
    buffer = io.BytesIO()
    torch.save({"y": y}, buffer)
    buffer.seek(0)
    z = torch.load(buffer)["y"]
    return z * 2
### state dict
lin = nn.Linear(3, 3)
def f(x):
    y = lin(x)
    names = list(lin.state_dict())
    return y * 2, names
---
f(X)
f(X)
f(T(4, 3))
### from_numpy of an argument
import numpy as np
def f(x, a):
    y = x + 1
    return y * torch.from_numpy(a).float().sum()
---
f(X, np.ones(3))
f(X, np.zeros(3))
### torch.tensor of a list of items
def f(x):
    l = [v.item() * 2 for v in x[0]]
    return torch.tensor(l) + x
---
f(X)
f(Y)
### a disabled function
@torch._dynamo.disable
def outside(v):
    print("outside")
    return v * 2
outside.__module__ = "torch"  # its closure is torch's, and not to be compared
def f(x):
    y = outside(x + 1)
    return y - 1
### graph_break of torch
def f(x):
    y = x + 1
    torch._dynamo.graph_break()
    return y * 2
### a compiled function that calls another compiled function
def g(v):
    print("inner")
    return v * 2
inner = torch.compile(g, backend="eager")
inner.__module__ = "torch"  # its closure is torch's, and not to be compared
def f(x):
    y = inner(x + 1)
    return y - 1
### cached functions after writes and random numbers
known = {}
class Recipe:
    def __init__(self, parts): self.parts = parts
@functools.lru_cache(256)
def parse(pattern, names): return Recipe([part.split() for part in pattern.split("->")])
@functools.lru_cache(256)
def shapes(recipe, size): return [size[ord(name) - ord("a")] for name in recipe.parts[1]]
def f(x):
    for i in range(3):
        known[type(x), i] = i
        x = F.dropout(x, 0.5)
        x = x.permute(1, 0).reshape(shapes(parse("a b -> b a"[: 10 - 0] + " " * i, ("a",)), tuple(x.shape)))
    return x + len(known)
""")
