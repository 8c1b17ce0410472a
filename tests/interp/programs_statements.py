"""With, try, assert and match; expressions that are printed."""

from __future__ import annotations

from interp.differential import parse_programs

PROGRAMS = parse_programs(r"""
### with_statements
class Ctx:
    def __init__(self, name, swallow=False): self.name, self.swallow = name, swallow
    def __enter__(self): print("enter", self.name); return self.name
    def __exit__(self, t, v, tb): print("exit", self.name, t and t.__name__, tb and tb.tb_lineno); return self.swallow
def early():
    with Ctx("a") as a, Ctx("b") as b:
        return a + b
def loop():
    for i in range(3):
        with Ctx(i):
            if i == 1: break
            continue
    with Ctx("s", True):
        1 / 0
    return "swallowed"
def main():
    print(early(), loop())
    with Ctx("outer"), Ctx("inner"):
        raise KeyError("k")

### try_forms
def f(n):
    try:
        try:
            if n == 0: return "return"
            if n == 1: raise ValueError("one")
            if n == 2: raise KeyError("two")
            if n == 3: raise OSError("three")
        except ValueError as exc:
            return "value", str(exc)
        except (KeyError, TypeError):
            raise RuntimeError("from key")
        else:
            print("else", n)
        finally:
            print("finally", n)
    except RuntimeError as exc:
        return "runtime", repr(exc.__context__)
    return "end"
def override():
    try:
        return 1
    finally:
        return 2
def swallow():
    for i in range(3):
        try:
            raise ValueError(i)
        finally:
            continue
    return "done"
def main():
    print([f(n) for n in (0, 1, 2, 4)], override(), swallow())
    f(3)

### except_star
def f(exc):
    try:
        raise exc
    except* ValueError as eg:
        print("value", eg.exceptions)
    except* (TypeError, KeyError) as eg:
        print("type or key", eg.exceptions)
        raise OSError("new")
    else:
        print("else")
    finally:
        print("finally")
def main():
    out = []
    for exc in (ValueError(1), ExceptionGroup("g", [ValueError(1), TypeError(2)]), ExceptionGroup("g", [ValueError(1)]),
                ExceptionGroup("g", [ExceptionGroup("h", [ValueError(1), IndexError(3)]), TypeError(2), IndexError(4)]),
                IndexError(5)):
        try:
            f(exc)
        except BaseException as caught:
            out.append(repr(caught))
    try:
        pass
    except* ValueError:
        pass
    return out

### except_star_reraise
def main():
    try:
        try:
            raise ExceptionGroup("g", [ValueError(1), TypeError(2), KeyError(3)])
        except* ValueError:
            raise
        except* TypeError:
            pass
    except ExceptionGroup as eg:
        eg.add_note("note")
        try:
            try:
                raise eg
            except* KeyError as k:
                print(k.__notes__)
                raise k
        except* ValueError as v:
            print(repr(v), v.__notes__)
            raise LookupError("new") from v

### except_star_errors
def main():
    out = []
    for types in (int, ExceptionGroup, (ValueError, BaseExceptionGroup), (ValueError, 5)):
        for exc in (ValueError(1), ExceptionGroup("x", [KeyError(1)])):
            try:
                try:
                    raise exc
                except* types:
                    pass
            except BaseException as e:
                out.append((type(e).__name__, str(e)))
    return out

### assertions
def main():
    assert 1
    try:
        assert 0, "message"
    except AssertionError as exc:
        print(exc)
    assert not 1

### match_statement
class Point:
    __match_args__ = ("x", "y")
    def __init__(self, x, y): self.x, self.y = x, y
def f(v):
    match v:
        case 0 | 1: return "small"
        case "text": return "text"
        case None: return "none"
        case True: return "true"
        case []: return "empty"
        case [x]: return "one", x
        case [x, y]: return "two", x, y
        case [1, *rest, 9]: return "ends", rest
        case [x, *rest]: return "many", x, rest
        case {"kind": "a", "value": v}: return "a", v
        case {"kind": k, **rest}: return "kind", k, rest
        case {}: return "mapping"
        case Point(0, 0): return "origin"
        case Point(x, y=0): return "axis", x
        case Point(x=a, y=b) if a == b: return "diagonal", a
        case Point(): return "point"
        case int(n) | float(n): return "number", n
        case str() as s: return "string", s
        case _: return "other"
def main():
    return [f(v) for v in (0, 1, "text", None, True, [], [5], (1, 2), [1, 2, 9], [3, 2, 1], {"kind": "a", "value": 1},
                           {"kind": "b", "z": 2}, {"q": 1}, Point(0, 0), Point(3, 0), Point(4, 4), Point(1, 2),
                                   7, 2.5, "s",
                           {1}, b"ab", "ab", range(2))]

### match_errors
class BadArgs:
    __match_args__ = "x"
class BadArg:
    __match_args__ = (5,)
class Twice:
    __match_args__ = ("a", "a")
    a = 1
class Few:
    __match_args__ = ("a",)
    a = 1
class RaisingAttr:
    __match_args__ = ("x",)
    @property
    def x(self): raise ValueError("attr")
class RaisingMeta(type):
    @property
    def __match_args__(cls): raise KeyError("meta")
class WithMeta(metaclass=RaisingMeta): pass
class Missing:
    __match_args__ = ("gone",)
class BadGet(dict):
    def get(self, *a): raise ValueError("get")
not_a_class = 5
k1 = k2 = "k"
class N: k1 = "k"; k2 = "k"
def attempt(f):
    try:
        return f()
    except Exception as exc:
        return type(exc).__name__, str(exc)
def a():
    match BadArgs():
        case BadArgs(1): pass
def b():
    match BadArg():
        case BadArg(1): pass
def c():
    match Twice():
        case Twice(1, 1): pass
def d():
    match Few():
        case Few(1, 2): pass
def e():
    match RaisingAttr():
        case RaisingAttr(1): pass
def f():
    match WithMeta():
        case WithMeta(1): pass
def g():
    match Missing():
        case Missing(1): return 1
        case _: return "missing"
def h():
    match BadGet(a=1):
        case {"a": 1}: pass
def i():
    match 5:
        case not_a_class(): pass
def j():
    match {"k": 1}:
        case {N.k1: 1, N.k2: 1}: pass
def k():
    match 5:
        case int(1, 2): pass
def l():
    match Few():
        case Few(1, a=1): pass
def m():
    match object():
        case object(1): pass
def n():
    match RaisingAttr():
        case RaisingAttr(y=1): return 1
        case RaisingAttr(x=1): return 2
def main():
    return [attempt(x) for x in (a, b, c, d, e, f, g, h, i, j, k, l, m, n)]

### match_default_dict
import collections
def main():
    d = collections.defaultdict(int, a=None)
    match d:
        case {"b": _}: return "created"
        case {"a": None, **rest}: return "fine", rest, dict(d)

### match_sequence_kinds
import array, collections
def main():
    out = []
    for v in (array.array("i", [1, 2]), collections.deque([1, 2]), b"ab", bytearray(b"ab"), memoryview(b"ab"),
            iter([1, 2]),
              collections.UserList([1, 2]), {1: 2}, collections.UserDict({1: 2})):
        match v:
            case [a, b]: out.append(("seq", a, b))
            case {1: a}: out.append(("map", a))
            case _: out.append("no")
    return out

### match_length_raises
import collections
class S(collections.UserList):
    def __len__(self): raise ValueError("len")
def main():
    match S([1]):
        case [x]: return x

### print_expressions
def main():
    exec(compile("1 + 1\n", "<s>", "single"))
    exec(compile("None\n", "<s>", "single"))
    exec(compile("for i in range(3): i * 2\n", "<s>", "single"))
    import builtins
    builtins._ = None
    del builtins._

### print_expression_without_hook
import sys
def main():
    hook = sys.displayhook
    out = []
    try:
        sys.displayhook = lambda v: out.append(v)
        exec(compile("1 + 1\n", "<s>", "single"))
        def bad(v): raise ValueError(v)
        sys.displayhook = bad
        try:
            exec(compile("5\n", "<s>", "single"))
        except ValueError as exc:
            out.append(str(exc))
        del sys.displayhook
        exec(compile("1 + 1\n", "<s>", "single"))
    except RuntimeError as exc:
        return out, str(exc)
    finally:
        sys.displayhook = hook
""")
