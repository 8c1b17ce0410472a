"""Breaks where Python needs the values of tensors, or calls what can't be captured."""

from __future__ import annotations

from programs.texts import parse

PROGRAMS = parse(r"""
### print in the middle
def f(x):
    y = x + 1
    print("hello")
    return y * 2 - x
### arrays that other locals share are not resized
import numpy
def f(x):
    a = numpy.zeros((2, 2))
    t = torch.from_numpy(a)
    try:
        a.resize((5, 5))
    except ValueError as e:
        return x + 1, str(e)
    return x
### a plain object that is made anew for each call
S = object()
def f(x):
    o = object()
    print("made")
    return x + 1, o is S, [o].count(o)
---
f(X)
f(X)
f(X)
### print first
def f(x):
    print("start")
    return x * 2 + 1
### print last
def f(x):
    y = x * 2 + 1
    print("end")
    return y
### print with values of the program
def f(x, n=3):
    y = x + n
    print("n is", n, len(y), y.shape)
    return y * n
### print of a tensor
def f(x):
    y = (x > 0).long()
    print(y)
    return y + 1
### two prints
def f(x):
    a = x.sin()
    print("a")
    b = a.cos()
    print("b")
    return b + a
### print as an expression
def f(x):
    y = x + 1, print("p"), x + 2
    return y[0] * y[2], y[1]
### print to a buffer
import io
def f(x):
    out = io.StringIO()
    y = x * 2
    print("in the buffer", file=out)
    return y + 1, out.getvalue()
### print with sep and end
def f(x):
    y = x + 1
    print("a", "b", sep="-", end="!\n")
    return y * 2
### f-string of a value
def f(x):
    y = x.sum()
    s = f"{y.item() > 1e9}"
    return x * 2, s
### logging
import logging
logging.getLogger("program").addHandler(logging.NullHandler())
def f(x):
    y = x + 1
    logging.getLogger("program").warning("a warning: %s", 3)
    return y * 2
### logging that is off
import logging
log = logging.getLogger("program.off")
log.setLevel(logging.ERROR)
def f(x):
    y = x + 1
    log.debug("nothing %s", y)
    return y * 2
### warnings
import warnings
def f(x):
    y = x + 1
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.warn("careful")
    return y * 2
### warnings caught
import warnings
def f(x):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        y = x + 1
        warnings.warn("careful")
    return y * 2, [str(w.message) for w in seen]
### time
import time
def f(x):
    start = time.perf_counter()
    y = x * 2
    took = time.perf_counter() - start
    return y + 1, took >= 0
### random of Python
import random
def f(x):
    y = x * 2
    r = random.random()
    return y + r
### an unknown C call
import zlib
def f(x):
    y = x + 1
    c = zlib.crc32(b"abc")
    return y * (c % 7)
### json
import json
def f(x):
    y = x + 1
    d = json.loads(json.dumps({"a": [1, 2]}))
    return y * d["a"][1], d
### regular expression
import re
def f(x):
    y = x + 1
    m = re.match(r"(\d+)", "42 apples")
    return y * int(m.group(1))
### datetime
import datetime
def f(x):
    d = datetime.date(2020, 1, 2) + datetime.timedelta(days=3)
    return x + d.day, d.isoformat()
### open a file
import os
def f(x):
    y = x * 2
    with open(os.devnull) as file:
        text = file.read()
    return y + 1, text
### environment
import os
def f(x):
    return x + len(os.environ.get("A_NAME_THAT_IS_NOT_SET", "abc")), os.path.join("a", "b")
### eval
def f(x):
    y = x + 1
    n = eval("1 + 2")
    return y * n
### exec
def f(x):
    y = x + 1
    space = {}
    exec("n = 4", space)
    return y * space["n"]
### id and hash
def f(x):
    y = x + 1
    same = id(y) == id(y)
    return y, same, isinstance(hash(y), int)
### if on a sum
def f(x):
    y = x * 2
    if y.sum() > 0:
        return y + 10
    return y - 10
---
f(X)
f(-X)
f(X.abs())
f(-X.abs())
f(X.abs())
### if and else that meet
def f(x):
    if x.sum() > 0:
        y = x + 1
    else:
        y = x - 1
    return y.relu() * 2
---
f(X.abs())
f(-X.abs())
f(X.abs())
f(-X.abs())
### elif chain
def f(x):
    s = x.sum()
    if s > 100:
        y = x * 1
    elif s > 10:
        y = x * 2
    elif s > -10:
        y = x * 3
    else:
        y = x * 4
    return y + 1
---
f(X * 0 + 50)
f(X * 0 + 5)
f(X * 0)
f(X * 0 - 50)
f(X * 0 + 5)
### while on data
def f(x):
    n = 0
    while x.abs().sum() < 100:
        x = x * 2
        n = n + 1
    return x, n
---
f(X)
f(X * 3)
f(X * 1000)
f(X)
### while with break on data
def f(x):
    for i in range(10):
        x = x * 2
        if x.abs().max() > 50:
            break
    else:
        x = x - 1
    return x + 1
---
f(X)
f(X * 0.0001)
f(X)
### while with continue on data
def f(x):
    total = torch.zeros(())
    for row in x:
        if row.sum() < 0:
            continue
        total = total + row.sum()
    return total
---
f(X)
f(X.abs())
f(-X.abs())
f(T(4, 3))
### and
def f(x):
    return x * 2 if x.sum() > 0 and x.max() > 0 else x * 3
---
f(X.abs())
f(-X.abs())
f(X)
### or
def f(x):
    y = x.sum() or x.max()
    return y * 2
---
f(X)
f(X * 0)
f(X)
### not
def f(x):
    y = x + 1
    z = not y.sum() > 0
    return y * 2, z
---
f(X.abs())
f(-X.abs() * 9)
### conditional expression
def f(x):
    y = x + 1 if x.mean() > 0 else x - 1
    return y * 2
---
f(X.abs())
f(-X.abs())
f(X.abs())
### assert that holds
def f(x):
    y = x.abs()
    assert y.sum() >= 0
    assert (y >= 0).all(), "negative"
    return y * 2
### assert that fails
def f(x):
    y = x * 2
    assert y.sum() > 1e9, "too small"
    return y
---
f(X)
f(X)
f(X * 0 + 1e9)
### chained comparison
def f(x):
    s = x.sum()
    return x * 2 if -1e6 < s < 1e6 else x
---
f(X)
f(X * 1e9)
f(X)
### any and all of tensors
def f(x):
    a = any(v > 0 for v in x[0])
    b = all(v > 0 for v in x[0])
    return x * 2, bool(a), bool(b)
---
f(X)
f(X.abs())
f(-X.abs())
### in a list of tensors
def f(x):
    y = x.sum()
    return x + 1, y in [y, y + 1]
### max of tensors
def f(x):
    a, b = x[0].sum(), x[1].sum()
    return max(a, b) * 2 + x
---
f(X)
f(-X)
f(X)
### sorted tensors
def f(x):
    l = sorted([x[0, 0], x[0, 1], x[0, 2]])
    return torch.stack(l) * 2
---
f(X)
f(-X)
### list sort of tensors
def f(x):
    l = [x[0, 0], x[0, 1], x[0, 2]]
    l.sort()
    return l[0] * 2, l[-1] * 3
---
f(X)
f(-X)
f(X.flip(1))
### sort with a key of data
def f(x):
    rows = [x[0], x[1]]
    rows.sort(key=lambda r: r.sum().item())
    return rows[0] * 2
---
f(X)
f(-X)
### item
def f(x):
    y = x * 2
    v = y.sum().item()
    return y + v
---
f(X)
f(X)
f(X + 1)
f(X)
### item compared
def f(x):
    v = x.max().item()
    if v > 0.5:
        return x * 2
    return x * 3
---
f(X.abs() + 1)
f(-X.abs())
f(X.abs() + 2)
### item of an int tensor
def f(x):
    n = (x > 0).sum().item()
    return x * 2, n, [i for i in range(n)]
---
f(X)
f(X.abs())
f(X)
### int
def f(x):
    n = int(x.abs().sum())
    return x + n
---
f(X)
f(X)
f(X * 5)
### float
def f(x):
    v = float(x.sum())
    return x / (abs(v) + 1)
---
f(X)
f(X * 3)
### bool
def f(x):
    b = bool((x > 0).any())
    return x * 2 if b else x
---
f(X)
f(-X.abs())
### round and divmod of an item
def f(x):
    v = x.abs().sum().item()
    return x * round(v), divmod(v, 2)[0]
### tolist
def f(x):
    l = (x * 0 + 2).long().tolist()
    return x + l[0][0], l
---
f(X)
f(X)
f(T(3, 4))
### tolist in a loop
def f(x):
    total = x
    for n in torch.arange(3).tolist():
        total = total + n
    return total * 2
### numpy
def f(x):
    a = (x * 2).detach().numpy()
    return torch.from_numpy(a + 1) * 3
### numpy of a sum
def f(x):
    a = x.sum().numpy()
    return x * 2, float(a)
### format of a scalar tensor
def f(x):
    y = x * 0 + 2
    return y, f"{y.sum().item():.2f}"
### repr of a tensor
def f(x):
    y = x * 0
    return y + 1, repr(y).startswith("tensor")
### str of a tensor
def f(x):
    y = x * 0
    s = str(y[0, 0])
    return y + 1, s
### len of tolist
def f(x):
    return x[: len(x.tolist()) - 1] * 2
### index of a list by a tensor
def f(x):
    names = ["a", "b", "c"]
    i = x[0].argmax()
    return x * 2, names[i]
---
f(X)
f(-X)
f(X)
### range of a tensor
def f(x):
    n = (x[0, 0] * 0 + 3).long()
    y = x
    for i in range(n):
        y = y + i
    return y
### a dict keyed by items
def f(x):
    d = {int(v): v * 2 for v in (x[0] * 10).long()}
    return sum(d.values()), sorted(d)
### nonzero
def f(x):
    y = x * 2
    i = (y > 0).nonzero()
    return y.sum() + i.sum(), i.shape
---
f(X)
f(-X)
f(X.abs())
### mask
def f(x):
    y = x[x > 0]
    return y * 2, y.numel()
---
f(X)
f(-X)
f(X.abs())
### unique
def f(x):
    y = (x * 2).long().unique()
    return y + 1
---
f(X)
f(X * 3)
### where with one argument
def f(x):
    i, j = torch.where(x > 0)
    return x[i, j] + 1
---
f(X)
f(-X)
### masked_select
def f(x):
    return torch.masked_select(x + 1, x > 0) * 2
---
f(X)
f(-X)
### repeat_interleave
def f(x):
    n = (x[0].abs() > 0.5).long()
    return x.repeat_interleave(n, dim=1) + 1
---
f(X)
f(X * 3)
### equal
def f(x):
    y = x + 1
    return (y * 2) if torch.equal(y, x + 1) else y
### allclose
def f(x):
    y = x + 1
    return (y * 2) if torch.allclose(y, x) else y * 3
### is_nonzero
def f(x):
    return x * 2 if torch.is_nonzero(x.sum()) else x
---
f(X)
f(X * 0)
### data_ptr
def f(x):
    y = x + 1
    return y * 2, y.data_ptr() == y.data_ptr()
### storage
def f(x):
    y = x + 1
    return y * 2, y.untyped_storage().nbytes()
### isnan check
def f(x):
    y = x.sqrt()
    if torch.isnan(y).any():
        y = torch.nan_to_num(y)
    return y + 1
---
f(X)
f(X.abs())
f(X)
### early return on data
def f(x):
    if (x == 0).all():
        return x
    return x / x.abs().max()
---
f(X)
f(X * 0)
f(X)
### data branch in a callee
def clip(v):
    if v.abs().max() > 1:
        return v / v.abs().max()
    return v
def f(x):
    y = clip(x * 2)
    return clip(y + 1) * 3
---
f(X)
f(X * 0.001)
f(X)
### data branch twice
def f(x):
    if x.sum() > 0:
        x = x + 1
    if x.sum() > 5:
        x = x * 2
    return x - 1
---
f(X)
f(X.abs() * 9)
f(-X.abs())
f(X)
### data branch that raises
def f(x):
    y = x + 1
    if y.sum() > 1e6:
        raise ValueError("too big")
    return y * 2
---
f(X)
f(X * 0 + 1e9)
f(X)
f(X * 0 + 1e9)
### gradient of a broken function
def f(x):
    w = x.clone().requires_grad_()
    y = (w * 2).sum()
    print("loss")
    y.backward()
    return w.grad * 2
### grad in the middle
def f(x):
    w = x.clone().requires_grad_()
    y = (w * w).sum()
    g, = torch.autograd.grad(y, w)
    return g * 2
### manual seed
def f(x):
    torch.manual_seed(3)
    y = x + torch.rand(2, 3)
    return y * 2
---
f(X)
f(X)
### random in between
def f(x):
    a = torch.rand(3)
    print("between")
    b = torch.rand(3)
    return a, b, x + 1
### type of an object of a C class after a break
def f(x, q):
    y = x + 1
    torch._dynamo.graph_break()
    return y * 2, type(q).__name__, isinstance(q, KeyError), q is None, callable(q)
---
f(X, ValueError(1))
f(X, KeyError(1))
f(X, None)
f(X, print)
f(X, 3)
### an object of a C class that is also elsewhere, after a break
from decimal import Decimal
G, H = Decimal(3), Decimal(4)
def f(x, q, o):
    y = x + 1
    torch._dynamo.graph_break()
    return y * 2, q is G, q in [G], q is o, len({q, o}), q
---
f(X, G, H)
f(X, H, H)
f(X, H, G)
f(X, Decimal(3), H)
f(X, G, G)
G = H
f(X, H, H)
### exceptions of several classes in a loop
def f(x, errors):
    names = []
    for error in errors:
        x = x + 1
        print("one")
        names.append(type(error).__name__)
    return x, names
---
f(X, [ValueError(1), KeyError(2), ExceptionGroup("all", [ValueError(3)])])
f(X, [KeyError(1), ValueError(2)])
### weak references to what is let go after a break
import weakref
class A: pass
def f(x):
    items, one, other = [A(), A()], A(), A()
    references = [weakref.ref(each) for each in (*items, one, other)]
    y = x + 1
    torch._dynamo.graph_break()
    items.pop()
    y = y * 2
    del one
    return y, [reference() is None for reference in references], references[3]() is other, len(items)
---
f(X)
f(X)
### a method of an outside dict after a break
def f(x, m):
    y = x + 1
    torch._dynamo.graph_break()
    return y * 2, m("a")
---
f(X, {"a": 1}.get)
f(X, {"a": 2}.get)
f(X, "aba".count)
### a weak reference to a tensor that is not read any more
import weakref
def f(x):
    y = x * 2
    reference = weakref.ref(y)
    print("break")
    z = x + 1
    print("break")
    return reference() is not None, z
---
f(X)
f(X)
f(X)
### the address of a tensor that is not read any more
import ctypes
def addresses(tensors):
    return [each.data_ptr() for each in tensors]
def inner(x):
    y, z = x * 2, x * 3
    p, (q,) = y.data_ptr(), addresses([z])
    other = torch.full_like(x, 5.0) + 1
    print("break")
    other = other + torch.zeros_like(x) + torch.ones_like(x)
    first = [ctypes.cast(each, ctypes.POINTER(ctypes.c_float))[0] for each in (p, q)]
    return other, first
def f(x):
    return inner(x.detach() + 1)
---
f(X)
f(X)
f(Y)
### what autograd saved for a tensor that is not read any more
def f(x):
    y = x.detach().requires_grad_() * 2
    y = y * y
    y.grad_fn._raw_saved_self.register_hooks(lambda value: 2 * value, lambda value: value / 2)
    return x + 1
---
f(X)
f(Y)
""")
