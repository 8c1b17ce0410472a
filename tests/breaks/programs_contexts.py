"""Breaks inside with, try, except and finally: torch's state and the exception state are right."""

from __future__ import annotations

from programs.texts import parse

PROGRAMS = parse(r"""
### no_grad around a print
def f(x):
    with torch.no_grad():
        y = x * 2
        print("grad", torch.is_grad_enabled())
        z = y + 1
    return z, torch.is_grad_enabled()
---
f(X.clone().requires_grad_())
f(X)
f(X.clone().requires_grad_())
### no_grad that ends before the print
def f(x):
    with torch.no_grad():
        y = x * 2
    print("grad", torch.is_grad_enabled())
    return y + x
---
f(X.clone().requires_grad_())
f(X)
### enable_grad inside no_grad
def f(x):
    with torch.no_grad():
        a = x * 2
        with torch.enable_grad():
            b = x * 3
            print("inner", torch.is_grad_enabled())
            c = b * 2
        print("outer", torch.is_grad_enabled())
        d = c + a
    return a, b, c, d
---
f(X.clone().requires_grad_())
f(X)
### set_grad_enabled as a manager and as a call
def f(x, on):
    with torch.set_grad_enabled(on):
        y = x * 2
        print(torch.is_grad_enabled())
        y = y + 1
    torch.set_grad_enabled(False)
    z = x * 3
    print(torch.is_grad_enabled())
    torch.set_grad_enabled(True)
    return y, z, x * 4
---
f(X.clone().requires_grad_(), True)
f(X.clone().requires_grad_(), False)
f(X, True)
### called under no_grad
def f(x):
    y = x * 2
    print(torch.is_grad_enabled())
    return y + 1
def under(g, v):
    with torch.no_grad():
        return g(v)
---
f(X.clone().requires_grad_())
under(f, X.clone().requires_grad_())
f(X.clone().requires_grad_())
### no_grad as a decorator
@torch.no_grad()
def inner(v):
    v = v * 2
    print("inner", torch.is_grad_enabled())
    return v + 1
def f(x):
    y = inner(x)
    return y, x * 2, torch.is_grad_enabled()
---
f(X.clone().requires_grad_())
f(X)
### inference mode
def f(x):
    with torch.inference_mode():
        y = x * 2
        print(torch.is_inference_mode_enabled())
        z = y + 1
    return z.clone(), torch.is_inference_mode_enabled()
### autocast
def f(x):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = x @ x.T
        print(y.dtype, torch.is_autocast_enabled("cpu"))
        z = y @ y
    return z, (x @ x.T).dtype
### autocast inside autocast
def f(x):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = x @ x.T
        with torch.autocast("cpu", enabled=False):
            z = x @ x.T
            print(y.dtype, z.dtype)
            w = x @ x.T
        v = x @ x.T
    return w, v
### saved tensors hooks
def pack(t):
    return t
def f(x):
    x = x.clone().requires_grad_()
    with torch.autograd.graph.saved_tensors_hooks(pack, pack):
        y = x * x
        print("in hooks")
        z = y.sum()
    z.backward()
    return x.grad
### default dtype
def f(x):
    torch.set_default_dtype(torch.float64)
    a = torch.ones(2)
    print(a.dtype)
    b = torch.ones(2)
    torch.set_default_dtype(torch.float32)
    return a + b, torch.ones(2)
### device manager
def f(x):
    with torch.device("cpu"):
        y = torch.ones(2, 3)
        print("device", y.device)
        z = torch.zeros(2, 3)
    return x[:2, :3] + y + z
### a manager of the user's
class Log:
    def __init__(self, name):
        self.name = name
    def __enter__(self):
        print("enter", self.name)
        return self
    def __exit__(self, kind, error, traceback):
        print("exit", self.name, kind)
        return False
def f(x):
    with Log("a") as log:
        y = x * 2
    return y + len(log.name)
### a break inside a manager of the user's
class Count:
    depth = 0
    def __enter__(self):
        Count.depth += 1
        return Count.depth
    def __exit__(self, *error):
        Count.depth -= 1
def f(x):
    with Count() as n:
        y = x * n
        print("inside", Count.depth)
        y = y + 1
    return y, Count.depth
### nested managers of the user's
events = []
class M:
    def __init__(self, n):
        self.n = n
    def __enter__(self):
        events.append(("in", self.n))
        return self.n
    def __exit__(self, *error):
        events.append(("out", self.n))
def f(x):
    with M(1) as a, M(2) as b:
        x = x + a
        print("two")
        with M(3) as c:
            x = x * c
            print("three")
        x = x - b
    return x, list(events)
### a manager that swallows
class Swallow:
    def __enter__(self):
        return self
    def __exit__(self, kind, error, traceback):
        print("swallowed", kind.__name__, error)
        return True
def f(x):
    y = x + 1
    with Swallow():
        y = y * 2
        raise KeyError("k")
    return y - 1
### a manager that swallows what a broken part raises
class Swallow:
    def __enter__(self):
        return self
    def __exit__(self, kind, error, traceback):
        return kind is ValueError
def f(x):
    y = x + 1
    with Swallow():
        y = y * 2
        print("inside")
        y = y * 3
        if y.sum() > 0:
            raise ValueError
        y = y + 100
    return y - 1
---
f(X.abs())
f(-X.abs() - 5)
f(X.abs())
### contextmanager
@contextlib.contextmanager
def section(name):
    print("begin", name)
    yield len(name)
    print("end", name)
def f(x):
    with section("abc") as n:
        y = x * n
    return y + 1
### a break inside a contextmanager's body
@contextlib.contextmanager
def scaled(n):
    yield n * 2
def f(x):
    with scaled(3) as n:
        y = x * n
        print("inside", n)
        y = y + n
    return y - 1
### contextmanager with try and finally
stack = []
@contextlib.contextmanager
def pushed(v):
    stack.append(v)
    try:
        yield v
    finally:
        stack.pop()
def f(x):
    with pushed(3):
        y = x * stack[-1]
        print("depth", len(stack))
        y = y + 1
    return y, len(stack)
### contextmanager around no_grad
@contextlib.contextmanager
def frozen():
    with torch.no_grad():
        yield
def f(x):
    with frozen():
        y = x * 2
        print(torch.is_grad_enabled())
        y = y + 1
    return y, torch.is_grad_enabled()
---
f(X.clone().requires_grad_())
f(X)
### suppress
def f(x):
    y = x + 1
    with contextlib.suppress(ValueError):
        y = y * 2
        int("not a number")
        y = y * 3
    return y - 1
### suppress around a break
def f(x):
    y = x + 1
    with contextlib.suppress(KeyError):
        y = y * 2
        print("inside")
        {}["missing"]
    return y - 1
### redirect_stdout
import io
def f(x):
    buffer = io.StringIO()
    with contextlib.redirect_stdout(buffer):
        y = x + 1
        print("hidden")
    return y * 2, buffer.getvalue()
### ExitStack
def f(x):
    with contextlib.ExitStack() as stack:
        stack.callback(print, "called back")
        stack.enter_context(torch.no_grad())
        y = x * 2
        print(torch.is_grad_enabled())
        y = y + 1
    return y, torch.is_grad_enabled()
### nullcontext
def f(x, quiet):
    with contextlib.nullcontext() if quiet else torch.no_grad():
        y = x * 2
        print(torch.is_grad_enabled())
    return y + 1
---
f(X.clone().requires_grad_(), True)
f(X.clone().requires_grad_(), False)
f(X.clone().requires_grad_(), True)
### closing
class Resource:
    def __init__(self, n):
        self.n = n
    def close(self):
        print("closed", self.n)
def f(x):
    with contextlib.closing(Resource(3)) as r:
        y = x * r.n
        print("open")
        y = y + 1
    return y
### a manager kept on an object
class Ctx:
    def __enter__(self):
        self.on = True
        return self
    def __exit__(self, *error):
        self.on = False
ctx = Ctx()
def f(x):
    with ctx:
        y = x * 2
        print("on", ctx.on)
        y = y + 1
    return y, ctx.on
### profiler range
def f(x):
    with torch.profiler.record_function("part"):
        y = x * 2
        print("in range")
        y = y + 1
    return y
### return inside with
class Log:
    def __enter__(self):
        print("enter")
    def __exit__(self, *error):
        print("exit")
def f(x):
    with Log():
        y = x * 2
        print("inside")
        return y + 1
### break out of a loop inside with
def f(x):
    for i in range(4):
        with torch.no_grad():
            x = x + i
            print(i)
            if i == 2:
                break
    return x, torch.is_grad_enabled()
---
f(X.clone().requires_grad_())
f(X)
### try without an exception
def f(x):
    try:
        y = x + 1
        print("in try")
        y = y * 2
    except ValueError:
        y = x
    return y - 1
### try, else and finally
def f(x):
    try:
        y = x + 1
        print("try")
    except ValueError:
        print("except")
    else:
        y = y * 2
        print("else")
        y = y + 1
    finally:
        print("finally")
    return y - 1
### caught in the same function
def f(x):
    y = x + 1
    try:
        y = y * 2
        raise ValueError("no")
    except ValueError as error:
        y = y + len(str(error))
    return y * 3
### raised after a break, caught in the same function
def f(x):
    y = x + 1
    try:
        print("before")
        y = y * 2
        raise ValueError("no")
    except ValueError as error:
        y = y + len(str(error))
    return y * 3
### a print in the handler
def f(x):
    y = x + 1
    try:
        raise KeyError("k")
    except KeyError as error:
        print("caught", error)
        y = y * 2
    return y + 1
### a break after the handler
def f(x):
    y = x + 1
    try:
        y = y * 2
        {}["k"]
    except KeyError:
        y = y * 3
    print("after")
    return y - 1
### sys.exc_info in a handler
import sys
def f(x):
    y = x + 1
    try:
        raise ValueError("v")
    except ValueError:
        kind, value, _ = sys.exc_info()
        print(kind.__name__, value)
        y = y * 2
    print(sys.exc_info())
    return y, kind
### sys.exc_info outside of a handler
import sys
def f(x):
    y = x + 1
    print(sys.exc_info())
    y = y * 2
    return y, sys.exc_info()
### called inside a handler
import sys
def f(x):
    y = x + 1
    print(sys.exc_info()[0])
    return y * 2
def run(g, v):
    try:
        raise OSError("o")
    except OSError:
        return g(v)
---
f(X)
run(f, X)
f(X)
run(f, Y)
### finally on the way out
def f(x):
    y = x + 1
    try:
        print("try")
        return y * 2
    finally:
        print("finally")
### finally that returns
def f(x):
    try:
        y = x + 1
        print("try")
        raise ValueError
    finally:
        print("finally")
        return y * 2
### finally with operations
out = []
def f(x):
    y = x + 1
    try:
        y = y * 2
        print("try")
    finally:
        out.append(y)
        y = y + 1
    return y
### finally while an exception passes
out = []
def f(x):
    y = x + 1
    try:
        print("try")
        y = y * 2
        raise ValueError("v")
    finally:
        out.append(y + 1)
        print("finally")
### raised by the part after the break
def f(x):
    y = x + 1
    print("now")
    raise ValueError("after", 3)
### raised by the instruction that breaks
def f(x):
    y = x + 1
    int("x")
    return y
### raised by a tensor operation after a break
def f(x):
    y = x + 1
    print("now")
    return y @ torch.ones(17, 2)
### a tensor operation that fails is caught
def f(x):
    y = x + 1
    try:
        y = y @ torch.ones(17, 2)
    except RuntimeError:
        print("caught")
        y = y * 2
    return y - 1
### a tensor operation that fails in a callee is caught
def risky(v):
    print("risky")
    return v.reshape(17)
def f(x):
    y = x + 1
    try:
        y = risky(y)
    except RuntimeError as error:
        y = y * len(str(error))
    return y
### reraise
def f(x):
    y = x + 1
    try:
        y = y * 2
        raise ValueError("v")
    except ValueError:
        print("again")
        raise
### raise another from it
def f(x):
    y = x + 1
    try:
        raise ValueError("v")
    except ValueError as error:
        print("other")
        raise KeyError("k") from error
### raise another while handling
def f(x):
    y = x + 1
    try:
        raise ValueError("v")
    except ValueError:
        print("other")
        raise KeyError("k")
### raise from none
def f(x):
    y = x + 1
    print("go")
    try:
        raise ValueError("v")
    except ValueError:
        raise KeyError("k") from None
### nested try
def f(x):
    y = x + 1
    try:
        try:
            print("inner")
            y = y * 2
            raise ValueError("v")
        except KeyError:
            y = y * 100
        finally:
            print("inner finally")
            y = y + 1
    except ValueError:
        print("outer")
        y = y * 3
    return y
### try in a loop around a break
def f(x):
    for i in range(4):
        try:
            x = x + 1
            print(i)
            if i % 2:
                raise ValueError(i)
            x = x * 2
        except ValueError as error:
            x = x - error.args[0]
    return x
### an exception of the user's own
class Stop(Exception):
    def __init__(self, value):
        super().__init__("stop")
        self.value = value
def deep(v, n):
    if n == 0:
        print("stop")
        raise Stop(v * 2)
    return deep(v + 1, n - 1)
def f(x):
    try:
        return deep(x, 3)
    except Stop as stop:
        return stop.value + 1
### an exception holds a tensor over the break
def f(x):
    try:
        raise ValueError(x + 1)
    except ValueError as error:
        kept = error.args[0]
    print("kept")
    return kept * 2
### an exception object lives on
def f(x):
    error = ValueError("v", 2)
    y = x + 1
    print(type(error).__name__)
    return y * error.args[1], error
### exception with a note and a cause across a break
def f(x):
    y = x + 1
    try:
        print("go")
        try:
            raise ValueError("v")
        except ValueError as error:
            raise KeyError("k") from error
    except KeyError as error:
        y = y * len(error.args) + (1 if isinstance(error.__cause__, ValueError) else 0)
    return y
### exception group
def f(x):
    y = x + 1
    try:
        print("go")
        raise ExceptionGroup("g", [ValueError(1), TypeError(2)])
    except* ValueError as group:
        y = y * len(group.exceptions)
    except* TypeError as group:
        y = y + 1
    return y
### assertion in a callee after a break
def check(v):
    print("check")
    assert v.dim() == 7, "dimensions"
def f(x):
    y = x + 1
    check(y)
    return y
### assertion caught
def f(x):
    y = x + 1
    try:
        assert y.sum() > 1e9
    except AssertionError:
        print("too small")
        y = y * 2
    return y
### StopIteration from next
def f(x):
    it = iter([1])
    y = x * next(it)
    print("one")
    try:
        next(it)
    except StopIteration:
        y = y + 1
    return y
### with and try together
class M:
    def __enter__(self):
        print("in")
        return 2
    def __exit__(self, kind, *rest):
        print("out", kind)
def f(x):
    try:
        with M() as n:
            y = x * n
            print("body")
            raise ValueError("v")
    except ValueError:
        y = y + 1
    finally:
        print("end")
    return y
### no_grad left by an exception
def f(x):
    try:
        with torch.no_grad():
            y = x * 2
            print("inside")
            raise ValueError
    except ValueError:
        pass
    return x * 3, torch.is_grad_enabled()
---
f(X.clone().requires_grad_())
f(X)
### no_grad in a callee that breaks
def inner(v):
    with torch.no_grad():
        v = v * 2
        print("inner", torch.is_grad_enabled())
        v = v + 1
    return v
def f(x):
    y = inner(x * 3)
    return y, x * 2
---
f(X.clone().requires_grad_())
f(X)
### no_grad around a callee that breaks
def inner(v):
    v = v * 2
    print("inner", torch.is_grad_enabled())
    return v + 1
def f(x):
    with torch.no_grad():
        y = inner(x * 3)
        z = y * 2
    return z, x * 2
---
f(X.clone().requires_grad_())
f(X)
### an exception leaves a callee's with
class M:
    def __enter__(self):
        print("in")
    def __exit__(self, kind, *rest):
        print("out", kind.__name__)
def inner(v):
    with M():
        print("body")
        return v @ torch.ones(19, 1)
def f(x):
    y = x + 1
    try:
        return inner(y)
    except RuntimeError:
        return y * 2
### a with whose enter breaks on data
class Clip:
    def __init__(self, t):
        self.t = t
    def __enter__(self):
        self.limit = self.t.abs().max().item()
        return self
    def __exit__(self, *error):
        print("left")
def f(x):
    with Clip(x) as c:
        y = x / (c.limit + 1)
    return y * 2
---
f(X)
f(Y)
### async is left alone
import asyncio
def f(x):
    y = x + 1
    async def job(v):
        await asyncio.sleep(0)
        return v * 2
    return asyncio.run(job(y)) + 1
### a bare raise of the caller's exception
def f(x):
    y = x + 1
    try:
        raise
    except OSError:
        return y * 2
    except RuntimeError:
        return y * 3
def run(g, v):
    try:
        raise OSError("o")
    except OSError:
        return g(v)
---
f(X)
run(f, X)
f(X)
run(f, Y)
### the context of an exception is the caller's
def f(x):
    y = x + 1
    print("go")
    raise ValueError("v")
def run(g, v):
    try:
        raise OSError("o")
    except OSError:
        try:
            g(v)
        except ValueError as error:
            return type(error.__context__)
---
run(f, X)
run(f, X)
f(X)
run(f, Y)
### context of an exception that is caught
def f(x):
    y = x + 1
    try:
        raise ValueError("v")
    except ValueError as error:
        c = error.__context__
    return y, type(c)
def run(g, v):
    try:
        raise OSError("o")
    except OSError:
        return g(v)
---
f(X)
run(f, X)
f(X)
run(f, Y)
""")
