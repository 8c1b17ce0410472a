"""Generators, coroutines and asynchronous generators."""

from __future__ import annotations

from interp.differential import parse_programs

PROGRAMS = parse_programs(r"""
### generators
def simple(n):
    for i in range(n):
        got = yield i
        if got: print("got", got)
    return "done"
def delegating():
    result = yield from simple(2)
    print("result", result)
    yield from [10, 20]
    yield from (x for x in "ab")
    return result
def main():
    g = delegating()
    out = [next(g), g.send("hello")]
    out += list(g)
    h = simple(1)
    next(h)
    try:
        h.send(None)
    except StopIteration as exc:
        out.append(exc.value)
    h = simple(3)
    try:
        h.send(5)
    except TypeError as exc:
        out.append(str(exc))
    h.close()
    return out, list(h)

### generator_throw_and_close
def g():
    while True:
        try:
            x = yield
            print("x", x)
        except ValueError as exc:
            print("caught", exc)
            yield "handled"
        except GeneratorExit:
            print("exit")
            raise
        finally:
            print("finally")
def outer():
    yield from g()
def stubborn():
    try:
        yield
    except GeneratorExit:
        yield "no"
def main():
    for f in (g, outer):
        it = f()
        next(it)
        it.send(1)
        print(it.throw(ValueError("v")))
        next(it)
        it.close()
    s = stubborn()
    next(s)
    try:
        s.close()
    except RuntimeError as exc:
        print(exc)
    it = outer()
    try:
        it.throw(KeyError("early"))
    except KeyError as exc:
        print(exc)
    it = g()
    next(it)
    it.throw(TypeError("through"))

### stop_iteration_inside
def g():
    yield 1
    raise StopIteration("inner")
def main():
    list(g())

### generator_already_executing
def main():
    def g():
        try:
            next(it)
        except ValueError as exc:
            yield str(exc)
    it = g()
    return next(it)

### yield_from_objects
class Iter:
    def __init__(self): self.n = 0
    def __iter__(self): return self
    def __next__(self):
        self.n += 1
        if self.n > 2: raise StopIteration("value")
        return self.n
    def send(self, v): return ("sent", v)
    def throw(self, *exc): return "thrown"
def g():
    r = yield from Iter()
    print("r", r)
def bad():
    yield from 5
async def coro(): pass
def wrong():
    c = coro()
    try:
        yield from c
    finally:
        c.close()
def main():
    out = [list(g())]
    it = g()
    out += [next(it), it.send(9), it.throw(ValueError("x"))]
    for f in (bad, wrong):
        try:
            next(f())
        except TypeError as exc:
            out.append(str(exc))
    return out

### coroutines
import types
class Suspend:
    def __await__(self):
        got = yield "suspended"
        return got
@types.coroutine
def old_style():
    x = yield "old"
    return x
@types.coroutine
def old_delegating():
    return (yield from inner())
async def inner():
    a = await Suspend()
    b = await old_style()
    return a, b
async def outer():
    return await inner(), await old_delegating()
def drive(coro):
    out, value = [], None
    while True:
        try:
            out.append(coro.send(value))
            value = len(out)
        except StopIteration as exc:
            return out, exc.value
def main():
    return drive(outer())

### async_protocols
class Ctx:
    def __init__(self, swallow): self.swallow = swallow
    async def __aenter__(self): print("enter"); return self
    async def __aexit__(self, t, v, tb): print("exit", t and t.__name__); return self.swallow
class AIter:
    def __init__(self): self.n = 0
    def __aiter__(self): return self
    async def __anext__(self):
        self.n += 1
        if self.n > 3: raise StopAsyncIteration
        return self.n
async def agen(n):
    for i in range(n):
        got = yield i
        if got: print("agen got", got)
async def body():
    async with Ctx(False) as c:
        pass
    async with Ctx(True):
        raise ValueError("swallowed")
    out = []
    async for x in AIter():
        if x == 2: continue
        out.append(x)
    else:
        out.append("else")
    async for x in agen(5):
        if x == 3: break
        out.append(x)
    out.append([y async for y in agen(3) if y])
    out.append({y async for y in AIter()})
    out.append({y: y async for y in agen(2)})
    out.append([z async for z in (y async for y in agen(2))])
    a = agen(2)
    out.append(await a.asend(None))
    out.append(await a.asend("hi"))
    try:
        await a.athrow(KeyError("k"))
    except KeyError as exc:
        out.append(str(exc))
    await a.aclose()
    async with Ctx(False):
        raise KeyError("out")
def main():
    c = body()
    try:
        c.send(None)
    except StopIteration as exc:
        return exc.value

### async_errors
class No: pass
class BadAnext:
    def __aiter__(self): return self
    def __anext__(self): return 5
class BadAiter:
    def __aiter__(self): return 5
class RaisingAnext:
    def __aiter__(self): return self
    async def __anext__(self): raise OSError("anext")
class BadAwait:
    def __await__(self): return 5
class CoroAwait:
    def __await__(self):
        self.c = coro()
        return self.c
class SyncEnter:
    def __aenter__(self): return 5
    def __aexit__(self, *a): return 5
class SyncExit:
    async def __aenter__(self): return 5
    def __aexit__(self, *a): return 5
class NoExit:
    async def __aenter__(self): return 5
async def coro(): return 1
async def f1(): await 5
async def f2():
    async for x in No(): pass
async def f3():
    async for x in BadAnext(): pass
async def f4():
    async for x in BadAiter(): pass
async def f5():
    async for x in RaisingAnext(): pass
async def f6(): await BadAwait()
async def f7():
    k = CoroAwait()
    try:
        await k
    finally:
        k.c.close()
async def f8():
    async with SyncEnter(): pass
async def f9():
    async with SyncExit(): pass
async def f10():
    async with NoExit(): pass
async def f11():
    async with No(): pass
def sync_with(manager):
    with manager: pass
class OnlyEnter:
    def __enter__(self): pass
def main():
    out = []
    for f in (f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11):
        try:
            f().send(None)
        except Exception as exc:
            out.append((f.__name__, type(exc).__name__, str(exc), str(exc.__cause__)))
    for m in (No(), OnlyEnter()):
        try:
            sync_with(m)
        except Exception as exc:
            out.append((type(exc).__name__, str(exc)))
    return out

### awaited_already
import types
@types.coroutine
def pause(): yield
async def inner(): await pause()
async def outer(c): await c
def main():
    c = inner()
    a, b = outer(c), outer(c)
    a.send(None)
    try:
        b.send(None)
    except RuntimeError as exc:
        return str(exc)
    finally:
        a.close()

### async_gen_errors
async def stops():
    yield 1
    raise StopAsyncIteration
async def coro():
    raise StopIteration("x")
async def run():
    out = []
    try:
        async for x in stops(): out.append(x)
    except RuntimeError as exc:
        out.append(str(exc))
    return out
def main():
    out = []
    for f in (run, coro):
        try:
            f().send(None)
        except (StopIteration, RuntimeError) as exc:
            out.append(repr(exc))
    return out
""")
