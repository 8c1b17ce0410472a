"""Breaks in loops: what the loop goes over lives on, and each turn uses what the first has captured."""

from __future__ import annotations

from programs.texts import parse

PROGRAMS = parse(r"""
### for over a range with a print
def f(x):
    for i in range(4):
        x = x + i
        print(i)
    return x * 2
### for over a range with a step
def f(x):
    for i in range(10, 0, -3):
        x = x + i
        print(i)
    return x
### for with the print first
def f(x):
    for i in range(3):
        print("turn", i)
        x = x * 2 + 1
    return x
### for with prints around
def f(x):
    for i in range(3):
        print("before", i)
        x = x * 2 + 1
        print("after", i)
    return x - 1
### hundred turns
def f(x):
    for i in range(100):
        x = x * 0.5
        print(i)
        x = x + 1
    return x * 2
### hundred turns with an item
def f(x):
    total = 0.0
    for i in range(100):
        x = x * 0.9
        total += x.sum().item()
    return x * 2, total
### hundred turns with a branch on data
def f(x):
    for i in range(100):
        if x.sum() > 0:
            x = x - 0.5
        else:
            x = x + 0.25
    return x
### while with a counter
def f(x):
    n = 0
    while n < 5:
        x = x + n
        print(n)
        n += 1
    return x * 2
### while true with a break on an int
def f(x):
    n = 0
    while True:
        x = x * 2
        print("n", n)
        n += 1
        if n == 3:
            break
    return x + 1
### while until converged
def f(x):
    step = 0
    while x.abs().max() > 0.1 and step < 50:
        x = x * 0.7
        step += 1
    return x, step
---
f(X)
f(X * 100)
f(X * 0)
f(X)
### while with else
def f(x):
    n = 3
    while n:
        print(n)
        x = x + n
        n -= 1
    else:
        print("else")
        x = x * 2
    return x
### for with else after a break on data
def f(x, limit):
    for i in range(5):
        x = x * 2
        print(i)
        if x.abs().max() > limit:
            x = x / 2
            break
    else:
        print("never")
    return x + 1
---
f(X, 5.0)
f(X, 1e9)
f(X, 5.0)
f(X, 0.0)
### continue on data
def f(x):
    total = torch.zeros(3)
    for i in range(x.shape[0]):
        row = x[i] * 2
        if row.sum() < 0:
            continue
        total = total + row
    return total + 1
---
f(X)
f(-X)
f(T(5, 3))
f(X)
### enumerate over a break
def f(x):
    for i, name in enumerate(["a", "b", "c"]):
        x = x + i
        print(i, name)
    return x
### enumerate with a start over rows
def f(x):
    total = 0
    for i, row in enumerate(x, 1):
        total = total + row * i
        print("row", i)
    return total * 2
### zip over a break
def f(x):
    for a, b in zip([1, 2, 3], (4, 5, 6)):
        x = x * a + b
        print(a, b)
    return x
### zip of tensors and strings
def f(x):
    out = []
    for row, name in zip(x, ["p", "q", "r", "s"]):
        out.append(row * 2)
        print(name, len(out))
    return torch.stack(out) + 1
### strict zip
def f(x):
    for a, b in zip([1, 2], [3, 4], strict=True):
        x = x * a + b
        print(a)
    return x
### zip of zip and enumerate
def f(x):
    for i, (a, b) in enumerate(zip(range(3), range(3, 6))):
        x = x + i * a - b
        print(i, a, b)
    return x
### dict items over a break
D = {"a": 1, "b": 2, "c": 3}
def f(x):
    for k, v in D.items():
        x = x * v
        print(k)
    return x + 1
### dict keys and values over a break
def f(x):
    d = {"a": x, "b": x + 1}
    total = 0
    for k in d:
        total = total + d[k]
        print(k)
    for v in d.values():
        total = total * 2 + v
        print("v")
    return total
### dict from outside with tensors
d = {"a": X + 1, "b": Y, "c": Z}
def f(x):
    for k, v in d.items():
        x = x + v
        print(k)
    return x
### set over a break
def f(x):
    for v in {5}:
        x = x + v
        print(v)
    return x * 2
### frozen set of an argument
def f(x, s):
    n = 0
    for v in sorted(s):
        x = x + v
        print(v)
        n += 1
    return x * n
---
f(X, frozenset({3, 1}))
f(X, {2, 1})
f(X, frozenset({3, 1}))
### string over a break
def f(x):
    for c in "abc":
        x = x + ord(c)
        print(c)
    return x
### reversed over a break
def f(x):
    for i in reversed([1, 2, 3]):
        x = x * i
        print(i)
    return x - 1
### a list that grows inside the loop
def f(x):
    work = [1]
    for n in work:
        x = x + n
        print(n)
        if n < 4:
            work.append(n + 1)
    return x, work
### a list from outside over a break
items = [1, 2, 3]
def f(x):
    for n in items:
        x = x * n
        print(n)
    return x
---
f(X)
f(X)
items.append(4)
f(X)
items[:] = [7]
f(X)
### list of tensors from outside
items = [X + 1, Y, Z * 2]
def f(x):
    for t in items:
        x = x + t
        print("t")
    return x
---
f(X)
f(Y)
items.pop()
f(X)
### a module list over a break
layers = nn.ModuleList([nn.Linear(3, 3) for _ in range(3)])
def f(x):
    for i, layer in enumerate(layers):
        x = layer(x).relu()
        print("layer", i)
    return x * 2
---
f(X)
f(X)
f(T(4, 3))
### a sequential indexed in a loop
seq = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
def f(x):
    for i in range(len(seq)):
        x = seq[i](x)
        print(i, tuple(x.shape))
    return x + 1
---
f(X)
f(Y)
f(T(5, 3))
### named parameters over a break
lin = nn.Linear(3, 3)
def f(x):
    norms = 0
    for name, p in lin.named_parameters():
        norms = norms + (p * p).sum()
        print(name)
    return x * norms
---
f(X)
f(Y)
### nested loops, print inside
def f(x):
    for i in range(2):
        for j in range(3):
            x = x + i * j
            print(i, j)
    return x * 2
### nested loops, print in the outer one
def f(x):
    for i in range(3):
        for j in range(3):
            x = x + i * j
        print(i)
    return x
### nested loops with break and continue
def f(x):
    for i in range(4):
        if i == 1:
            continue
        for j in range(4):
            if j > i:
                break
            x = x + j
            print(i, j)
        else:
            x = x * 2
    return x
### nested loops with a branch on data that leaves both
def f(x):
    done = False
    for i in range(4):
        for j in range(4):
            x = x + 0.3
            if x.mean() > 2:
                done = True
                break
        if done:
            break
    return x, i, j
---
f(X)
f(X + 1)
f(X - 100)
### return out of nested loops
def f(x):
    for i in range(5):
        for j in range(2):
            x = x * 1.5
            if x.abs().sum() > 60:
                return x, i, j
    return x, -1, -1
---
f(X)
f(X * 50)
f(X * 0)
### loop in a callee
def turns(v, n):
    for i in range(n):
        v = v + i
        print("turn", i)
    return v
def f(x):
    y = turns(x * 2, 3)
    return turns(y, 2) - 1
### loop around a callee that prints
def body(v, i):
    v = v * 2
    print("body", i)
    return v + i
def f(x):
    for i in range(3):
        x = body(x, i) - 1
    return x
### loop around a callee with a branch on data
def relu(v):
    if v.sum() < 0:
        return v * 0
    return v
def f(x):
    for w in (1.0, -2.0, 3.0):
        x = relu(x * w) + 1
    return x
---
f(X)
f(-X)
f(X)
### accumulate in a list over breaks
def f(x):
    out = []
    for i in range(4):
        x = x * 0.5
        out.append(x)
        print(len(out))
    return torch.stack(out).sum(0)
### accumulate in a dict over breaks
def f(x):
    out = {}
    for i, name in enumerate("abc"):
        out[name] = x * i
        print(sorted(out))
    return out["a"] + out["c"], out
### accumulate a float
def f(x):
    total, n = 0.0, 0
    for row in x:
        total += row.sum().item()
        n += 1
    return x - total / n
---
f(X)
f(Y)
f(T(3, 4))
### accumulate a string
def f(x):
    s = ""
    for i in range(3):
        x = x + 1
        s += str(i)
        print(s)
    return x, s
### two iterators at once
def f(x):
    a, b = iter([1, 2, 3]), iter([4, 5, 6])
    for n in a:
        x = x * n
        print(n)
        x = x + next(b)
    return x, list(b)
### next with a default over a break
def f(x):
    it = iter(range(2))
    while (n := next(it, None)) is not None:
        x = x + n
        print(n)
    return x
### an iterator that is used before and after
def f(x):
    it = iter([1, 2, 3, 4])
    x = x * next(it)
    print("between")
    x = x * next(it)
    rest = list(it)
    return x, rest
### a generator over a break
def numbers(n):
    for i in range(n):
        yield i * 2
def f(x):
    for n in numbers(3):
        x = x + n
        print(n)
    return x * 2
### a generator expression over a break
def f(x):
    for v in (x * i for i in range(3)):
        x = x + v
        print("v")
    return x
### a generator that breaks
def halves(v):
    for i in range(3):
        v = v / 2
        print("half", i)
        yield v
def f(x):
    total = 0
    for h in halves(x + 1):
        total = total + h
    return total * 2
### list of a generator that breaks
def values(v):
    for row in v:
        yield row.sum().item()
def f(x):
    l = list(values(x * 2))
    return x + l[0], len(l)
---
f(X)
f(Y)
### list comprehension that breaks
def f(x):
    l = [row.sum().item() for row in x]
    return x * 2, len(l), l[0]
---
f(X)
f(Y)
f(T(3, 4))
### comprehension with a print
def show(v):
    print("show", v)
    return v
def f(x):
    l = [x + show(i) for i in range(3)]
    return sum(l) * 2
### dict comprehension with a condition on data
def f(x):
    d = {i: row for i, row in enumerate(x) if row.sum() > 0}
    return sum(d.values(), torch.zeros(3)) + 1, list(d)
---
f(X)
f(-X)
f(X.abs())
### set comprehension of items
def f(x):
    s = {int(v) for v in (x[0] * 3)}
    return x + len(s), sorted(s)
---
f(X)
f(Y)
### nested comprehension with a print
def show(v):
    print(v)
    return v
def f(x):
    l = [[x * show(i * j) for j in range(2)] for i in range(2)]
    return l[1][1] + l[0][0]
### any and all that stop early
def f(x):
    l = [1, 2, 3]
    def check(n):
        print("check", n)
        return n > 1
    y = x + 1
    return y * 2 if any(check(n) for n in l) and not all(check(n) for n in l) else y
### unpacking in the loop
def f(x):
    for a, (b, *c) in [(1, (2, 3, 4)), (5, (6,))]:
        x = x + a * b + len(c)
        print(a, b, c)
    return x
### walrus on an item
def f(x):
    while (m := x.max().item()) > 1:
        x = x / 2
    return x, m
---
f(X.abs() + 4)
f(X * 0)
f(X.abs() + 9)
### loop over split and chunk
def f(x):
    out = []
    for part in x.chunk(2):
        out.append(part * 2)
        print(tuple(part.shape))
    return torch.cat(out)
---
f(X)
f(T(4, 3))
f(X)
### loop variable after the loop
def f(x):
    for i in range(3):
        print(i)
    return x * i
### empty loop
def f(x):
    y = x + 1
    for i in []:
        print("never")
        y = y * 2
    return y
### a loop that does nothing with tensors
def f(x):
    y = x + 1
    for i in range(5):
        print(i)
    return y * 2
### loop with try and continue
def f(x):
    for s in ("1", "b", "3"):
        try:
            n = int(s)
        except ValueError:
            print("bad", s)
            continue
        x = x * n
        print("good", n)
    return x
### loop with with
def f(x):
    for i in range(3):
        with torch.no_grad():
            x = x + i
            print("inside", torch.is_grad_enabled())
        print("outside", torch.is_grad_enabled())
    return x * 2
### loop that changes an attribute
class Counter:
    n = 0
c = Counter()
def f(x):
    for i in range(3):
        c.n += 1
        x = x + c.n
        print(c.n)
    return x
### training loop
w = nn.Parameter(torch.ones(3))
def f(x):
    losses = []
    for step in range(3):
        loss = ((x * w).sum() - 1) ** 2
        loss.backward()
        with torch.no_grad():
            w.sub_(w.grad * 0.01)
            w.grad = None
        losses.append(loss.item())
        print("step", step)
    return len(losses), w.detach() * 1
---
f(X)
f(X)
### power iteration
def f(a):
    v = torch.ones(a.shape[1])
    for i in range(20):
        u = a.T @ (a @ v)
        norm = u.norm()
        v = u / norm
        if (norm - 1).abs() < 1e-9:
            break
    return v, norm
---
f(X)
f(X)
f(T(4, 4))
### bisection on a scalar tensor
def f(x):
    low, high = torch.tensor(0.0), torch.tensor(4.0)
    for _ in range(12):
        mid = (low + high) / 2
        if mid * mid > 2:
            high = mid
        else:
            low = mid
    return x * low
### fibonacci by item
def f(x):
    a, b = 0, 1
    n = int(x.abs().sum().item()) + 3
    while n > 0:
        a, b = b, a + b
        n -= 1
    return x * a
---
f(X)
f(X * 2)
### the shape changes in the loop
def f(x):
    for i in range(3):
        x = torch.cat([x, x[:1]])
        print(tuple(x.shape))
    return x.sum(0)
### the type of a variable changes in the loop
def f(x):
    total = None
    for i in range(3):
        total = x if total is None else total + x * i
        print(i)
    return total
### while over a stack of work
def f(x):
    stack, seen = [(x, 2)], 0
    total = torch.zeros(())
    while stack:
        t, depth = stack.pop()
        seen += 1
        total = total + t.sum()
        print("pop", depth)
        if depth:
            stack.append((t * 2, depth - 1))
            stack.append((t * 3, depth - 1))
    return total, seen
### deque as a queue
def f(x):
    queue = collections.deque([1, 2], maxlen=3)
    for i in range(4):
        x = x + queue.popleft()
        queue.append(i)
        queue.append(i + 1)
        print(list(queue))
    return x, queue
### values of later items change in the loop
def f(x):
    d = {"a": 1, "b": 2, "c": 3}
    for k, v in d.items():
        x = x + v
        print(k)
        d["c"] = d["c"] * 10
    return x, d
### values of later items of an outside dict change in the loop
d = {"a": 1, "b": 2, "c": 3}
def f(x):
    for k, v in d.items():
        x = x + v
        print(k, v)
        d["c"] += 10
    return x
### an outside dict grows before the loop and in it
d = {"a": 1}
def f(x):
    d["b%d" % len(d)] = 2
    del d["a"]
    d["a"] = 5
    for k in list(d):
        x = x + d[k]
    for k, v in d.items():
        x = x * v
        print(k)
    return x
### a dict gets another size in the loop
d = {"a": 1, "b": 2}
def f(x):
    y = x + 1
    try:
        for k in d:
            y = y * 2
            print(k)
            d[k + "x"] = 1
    except RuntimeError as error:
        return y, str(error), len(d)
    return y
### a dict gets another size before the break in the loop
d = {"a": 1, "b": 2}
def f(x):
    y = x + 1
    try:
        for k in d:
            y = y * 2
            d[k + "x"] = 1
            print(k)
    except RuntimeError as error:
        return y, str(error), len(d)
    return y
### items of a defaultdict and of a counter in a loop with a break
def f(x):
    d = collections.defaultdict(int, a=1, b=2)
    c = collections.Counter("aab")
    for (k, v), (l, n) in zip(d.items(), c.items()):
        x = x * v + n
        print(k, l)
    return x
### items of an ordered dict in a loop with a break
def f(x):
    d = collections.OrderedDict(a=1, b=2)
    for k, v in d.items():
        x = x * v
        print(k)
        d["b"] = 7
    return x
### an iterator over values that is used on both sides
def f(x):
    d = {i: x * i for i in range(4)}
    it = iter(d.values())
    a = next(it)
    print("between")
    b = next(it)
    d[3] = x
    print("again")
    return a + b + sum(it)
### attributes of an object in a loop with a break
class O: pass
o = O()
o.a, o.b = 1, 2
def f(x):
    for k, v in vars(o).items():
        x = x * v
        print(k)
        o.b = 5
    return x
""")
