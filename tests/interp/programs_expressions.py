"""Operators, subscripts, texts, loops and jumps, comprehensions."""

from __future__ import annotations

from interp.differential import parse_programs

PROGRAMS = parse_programs(r"""
### arithmetic
def main():
    a, b = 17, 5
    out = [a + b, a - b, a * b, a / b, a // b, a % b, a ** b, a << b, a >> 1, a & b, a | b, a ^ b]
    a += 1; a -= 2; a *= 3; a //= 2; a %= 100; a **= 2; a <<= 1; a >>= 1; a &= 255; a |= 1; a ^= 2
    f = 1.5
    f /= 2
    return out, a, f, -a, +a, ~a, not a, f * 2.0, f + 1.0, f - 0.5

### matrix_multiply
class M:
    def __init__(self, v): self.v = v
    def __matmul__(self, other): return M(self.v * other.v)
    def __imatmul__(self, other): self.v += other.v; return self
def main():
    m = M(2) @ M(3)
    m @= M(4)
    return m.v

### operators_fall_back
class Left:
    def __add__(self, other): return NotImplemented
class Right:
    def __radd__(self, other): return "radd"
    def __lt__(self, other): return "lt"
    def __contains__(self, item): return item == 3
    def __neg__(self): raise ValueError("neg")
def main():
    out = [Left() + Right(), Right() < 1, 3 in Right(), 4 not in Right(), 1 > Right()]
    try:
        -Right()
    except ValueError as exc:
        out.append(str(exc))
    try:
        Left() + Left()
    except TypeError as exc:
        out.append(str(exc))
    try:
        Left() < Left()
    except TypeError as exc:
        out.append(str(exc))
    return out

### comparisons
def main():
    a, b, c = 1, 2, 3
    s = "x"
    return [a < b < c, a < b > c, a == b != c, a is None, a is not None, a in (1, 2), a not in {1}, s == "x",
            1.0 <= 2.0,
            s != "y", a >= 1]

### in_place_string
def main():
    s = ""
    for i in range(50):
        s += str(i)
        t = s
        s += "-"
        s = s + s[:1]
    big = "a" * 10
    big += big
    return s, t, big

### in_place_string_of_many_locals
exec("def many():\n" + "".join(f"    v{i} = ''\n" for i in range(300)) +
     "    for i in range(20):\n        v299 += 'x'\n"
     "        v1 += v299\n    return v299, v1\n")
def main():
    return many()

### subscripts
class Sub(dict):
    def __missing__(self, key): return ("missing", key)
def main():
    l = [1, 2, 3, 4]
    t = (1, 2, 3)
    d = {"a": 1, (1, 2): 3}
    l[0] = 5
    d["b"] = 2
    del d["a"], l[1]
    out = [l[0], l[-1], l[1:], l[::2], t[1], t[-2], d[1, 2], d["b"], "abc"[1], Sub()["q"], l[True]]
    for key in (10, "x", 10 ** 30, -10):
        for container in (l, t, d, "abc"):
            try:
                out.append(container[key])
            except (LookupError, TypeError) as exc:
                out.append((type(exc).__name__, str(exc)))
    l[1:2] = [7, 8]
    return out, l

### subscript_errors
def attempt(f):
    try:
        return f()
    except Exception as exc:
        return type(exc).__name__, str(exc)
def store():
    x = (1,)
    x[0] = 2
def delete():
    x = "abc"
    del x[0]
def main():
    return [attempt(f) for f in (store, delete, lambda: {}[[]], lambda: {}[(1,)], lambda: None[0], lambda: 5 in 6,
                                 lambda: [][0], lambda: ()[0], lambda: {1: 2}[None])]

### builders
def main():
    a, b = 1, [2, 3]
    d = {"k": a, "l": b}
    e = {a: b, "x": a}
    return ((a, *b, a), [a, *b], sorted({a, *b}), {**d, "m": 1, **e}, d, e, {a, 5}, (a, b), [a, b], [1, 2, 3,
            4], {1, 2, 3},
            slice(a, 2), b[a:a], b[a:2:a], {}, [], ())

### f_strings
def main():
    x, y, w = 3.14159, "é", 10
    return f"{x:.2f}|{y!r}|{y!s}|{y!a}|{x!r:>{w}}|{w=}|{'nested' + f'{w}'}", f"{x}", f"", f"{y}", f"{w:{w}}{{}}"

### f_string_error
class Bad:
    def __format__(self, spec): raise ValueError("format " + spec)
def main():
    return f"{1} {Bad():abc}"

### loops
def main():
    out = []
    for i in range(5):
        if i == 1: continue
        if i == 4: break
        out.append(i)
    else:
        out.append("else")
    for i in []:
        pass
    else:
        out.append("empty")
    n = 10
    while n:
        n -= 1
        if n == 5: break
    while n > 3:
        n -= 1
    else:
        out.append("while else")
    return out, n

### backward_jumps
def main():
    out = []
    n = 0
    while n < 3:
        n += 1
    while not n > 5:
        n += 1
    x = None
    while x is None:
        n += 1
        if n > 9: x = 1
    while x is not None:
        x = None if n > 12 else x
        n += 1
    items = [None, 1, None]
    i = 0
    while items[i] is None:
        i += 1
    queue = [3, 2, 1, 0]
    while queue.pop(0):
        out.append(len(queue))
    queue = [0, 0, 5]
    while not queue.pop(0):
        out.append(len(queue))
    return n, i, out

### jump_or_pop
def main():
    a, b, c = 0, "", [1]
    return (a or b or c), (c and b), (a and b), (c or a), [x and y or z for x in (0, 1) for y in (0, 2) for z in (3,)]

### truth_raises
class Bad:
    def __bool__(self): raise ZeroDivisionError("truth")
def main():
    out = []
    for f in (lambda: not Bad(), lambda: Bad() or 1, lambda: Bad() and 1, lambda: 1 if Bad() else 2):
        try:
            f()
        except ZeroDivisionError as exc:
            out.append(str(exc))
    while Bad():
        pass

### none_jumps
def f(x):
    if x is None:
        return "none"
    if x is not None and x > 3:
        return "big"
    return "small"
def g(x):
    return 1 if x is not None else 2
def main():
    return f(None), f(5), f(1), g(None), g(1)

### comprehensions
def main():
    n = 3
    g = (i * n for i in range(3))
    return ([i for i in range(5) if i % 2], {i % 3 for i in range(9)}, {i: i * i for i in range(3)}, list(g),
            [(i, j) for i in range(2) for j in range(2)], [[k for k in range(i)] for i in range(3)],
            [y := 5, y * 2], [x for x in "ab" if x > "a" if x], [*(i for i in range(3))])
""")
