"""Long code, deletions, decorators, callbacks from C, finalizers, order of evaluation, frames."""

from __future__ import annotations

from interp.differential import parse_programs

PROGRAMS = parse_programs(r'''
### extended_arguments
lines = ["def huge(n):", "    total = 0"]
lines += [f"    x{i} = {i}.5 + n" for i in range(400)]
lines += ["    for i in range(3):"]
lines += [f"        total += x{i}" for i in range(0, 400, 3)]
lines += ["        if total < 0:", "            continue"]
lines += [f"        if total == -{i}: total = g{i}.attr{i}(a{i}=1)" for i in range(300)]
lines += ["    return total"]
exec("\n".join(lines))
exec("def wide(" + ", ".join(f"a{i}=0" for i in range(300)) + "): return a299, a0\n")
exec("def call_wide(): return wide(" + ", ".join(f"a{i}={i}" for i in range(300)) + ")\n")
exec("def many(): return [" + ", ".join(f"f{i}" for i in range(300)) + "]\n")
exec("".join(f"f{i} = {i}\n" for i in range(300)))
exec("def unpack(): (" + ", ".join(f"a{i}" for i in range(300)) + ") = range(300); return a0, a299\n")
exec("def star(): (" + ", ".join(f"a{i}" for i in range(250)) + ", *b, c, d) = range(300); return a249, b, c, d\n")
def main():
    return huge(1), call_wide(), sum(many()), unpack(), star()

### extended_backward_conditions
body = "".join(f"        a = n + {i}.5\n" for i in range(200))
exec(f"""def f(n):
    while n < 5:
        n += 1
{body}
    while not n > 8:
        n += 1
{body}
    x = None
    while x is None:
        x = n if n > 12 else None
        n += 1
{body}
    while x is not None:
        x = None if n > 15 else 1
        n += 1
{body}
    return n, a
""")
def main():
    return f(0)

### handlers_far_away
body = "".join(f"            a = {i}.5 + n\n" for i in range(400))
exec(f"""def f(n):
    for i in range(2):
        try:
{body}
            1 / n
        except ZeroDivisionError:
{body}
        finally:
            n += 1
    return n
""")
def main():
    return f(0), f(1)

### deletions
class A: pass
def main():
    a = A()
    a.x = 1
    del a.x
    l = [1, 2, 3]
    del l[0]
    d = {1: 2}
    del d[1]
    x = 1
    del x
    y, z = 1, 2
    del (y, z), l[:]
    return l, d, vars(a)

### decorators_and_lambdas
def deco(tag):
    def wrap(f):
        def inner(*a, **k): return tag, f(*a, **k)
        return inner
    return wrap
@deco("a")
@deco("b")
def f(x, *, y=lambda: 5): return x, y()
def main():
    return f(1), f(1, y=lambda: 6)

### recursion_and_mutual
def fib(n): return n if n < 2 else fib(n - 1) + fib(n - 2)
def even(n): return True if n == 0 else odd(n - 1)
def odd(n): return False if n == 0 else even(n - 1)
def main():
    return fib(10), even(20), odd(7)

### callbacks_from_c
import functools
class K:
    def __init__(self, v): self.v = v
    def __lt__(self, o): return self.v < o.v
    def __eq__(self, o): return self.v == o.v
    def __hash__(self): return hash(self.v) % 3
    def __len__(self): return self.v
    def __iter__(self): return iter(range(self.v))
    def __repr__(self): return f"K({self.v})"
    def __getitem__(self, i): return (self.v, i)
    def __int__(self): return self.v
    def __index__(self): return self.v
    def __enter__(self): return self
    def __exit__(self, *a): return False
def main():
    ks = [K(i) for i in (3, 1, 2)]
    return (sorted(ks), {K(1): 1, K(4): 2}[K(4)], len(ks[0]), list(ks[0]), ks[0][5], [0, 1, 2, 3][ks[1]], int(ks[0]),
            functools.reduce(lambda a, b: a + b, range(5)), list(map(lambda x, y: x + y, [1], [2])),
                    list(filter(None, [0, 1])),
            max(ks), K(5) in ks, dict(zip("ab", ks)), sum((k.v for k in ks), 0), any(k.v > 2 for k in ks))

### finalizers
class F:
    def __init__(self, n): self.n = n
    def __del__(self): print("del", self.n)
def f():
    a = F("local")
    a = F("rebound")
    del a
    F("temporary")
    for x in [F("item")]:
        pass
    print("end of f")
def g():
    b = F("in generator")
    yield 1
    yield 2
def main():
    f()
    it = g()
    next(it)
    del it
    [F("list"), 1 // 1]
    try:
        c = F("raising")
        raise ValueError
    except ValueError:
        print("handler")
    return "returned"

### evaluation_order
def p(x): print(x); return x
class A:
    def __getitem__(self, k): print("get", k); return 1
    def __setitem__(self, k, v): print("set", k, v)
    def __setattr__(self, k, v): print("setattr", k, v)
def main():
    a = A()
    p(a) and None if False else 0
    a[p(1)] = p(2)
    a[p(3)] += p(4)
    a.x = p(5)
    {p(1): p(2), p(3): p(4)}
    dict(x=p(1), **{"y": p(2)})
    p(1) if p(0) else p(2)
    p(1) < p(2) < p(0) < p(9)
    [p(i) for i in (p(1), p(2))]

### slices_of_everything
class S:
    def __getitem__(self, k): return k
    def __setitem__(self, k, v): print(k, v)
    def __delitem__(self, k): print("del", k)
def main():
    s = S()
    s[1:2] = 3
    s[1:2:3, ..., None] = 4
    del s[::2]
    a = 5
    return s[:], s[a:], s[:a], s[a:a:a], s[1, 2:3], s[...]

### super_forms
class A:
    def f(self): return "A"
    @classmethod
    def g(cls): return "gA" + cls.__name__
class B(A):
    def f(self):
        def inner(): return __class__
        return super().f() + super(B, self).f() + inner().__name__
    @classmethod
    def g(cls): return super().g()
    def broken(self):
        del self
        super()
    def no_args(): super()
def main():
    b = B()
    out = [b.f(), B.g()]
    for f in (lambda: b.broken(), lambda: B.no_args()):
        try:
            f()
        except RuntimeError as exc:
            out.append(str(exc))
    return out

### properties_of_frames
import sys
def inner():
    f = sys._getframe()
    out = []
    while f is not None and f.f_code.co_filename == "<program>":
        out.append((f.f_code.co_name, f.f_lineno, sorted(k for k in f.f_locals if not k.startswith("__"))[:6]))
        f = f.f_back
    return out
def main():
    x = 1
    return (lambda y: inner())(2), [inner() for z in range(1)][0][:3]

### locals_and_eval
def f(a):
    b = 2
    c = lambda: b
    before = sorted(locals())
    locals()["a"] = 100
    exec("a = 5")
    eval("a + b")
    return before, a, eval("a + b"), eval("[a for _ in range(2)]", {"a": 7}), dir()
def main():
    return f(1)

### import_in_function_with_locals
def main():
    exec("import math as m, os.path\nfrom math import pi as q\nr = [m.floor(q)]", {}, d := {})
    return d["r"], sorted(d)
''')
