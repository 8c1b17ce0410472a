"""Breaks with torch's context managers open: state before, during and after is eager's."""

from __future__ import annotations

import pytest
from programs import harness

from magneto import _core

PROGRAMS = {
    "super() in a frame that starts behind a break, whose self is a cell": """
class A:
    def fill(self, d): self.__dict__.update(d)
class B(A):
    def fill(self, d):
        super().fill(d)
        self.get = lambda: self.w
        print("filled")
        self.r = [w + 1 for w in self.w]
        return 0
def f(x):
    o, d = B(), {"w": [x, x * 2], "d": {"x": x}}
    sorted([d], key=o.fill)
    return o.r, o.w, o.d, o.get()
""",
    "autocast": """
def f(x):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = x @ x.T
        print(torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu"))
        z = y @ y
        print(z.dtype)
        w = z + 1
    print(torch.is_autocast_enabled("cpu"))
    return w, w.float() @ y.float()
""",
    "autocast from outside": """
cast = torch.autocast("cpu", dtype=torch.bfloat16)
def f(x):
    with cast as c:
        y = x @ x.T
        print(c is cast, c.prev, y.dtype)
        y = y @ y
    return y @ y, torch.is_autocast_enabled("cpu")
""",
    "autocasts within each other": """
def f(x):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        a = x @ x.T
        with torch.autocast("cpu", enabled=False):
            b = x @ x.T
            print(a.dtype, b.dtype, torch.is_autocast_enabled("cpu"))
            c = x @ x.T
        print(c.dtype, torch.is_autocast_enabled("cpu"))
        d = x @ x.T
    return a, b, c, d
""",
    "an exception leaves autocast": """
def f(x):
    try:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = x @ x.T
            print(y.dtype)
            raise ValueError("no")
    except ValueError as error:
        return x @ x.T, str(error), torch.is_autocast_enabled("cpu")
""",
    "autocast in a callee": """
def inner(x):
    y = x @ x.T
    print(torch.is_autocast_enabled("cpu"))
    return y @ y
def f(x):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = inner(x)
    return y, x @ x.T
""",
    "inference mode": """
def f(x):
    with torch.inference_mode():
        y = x * 2
        print(torch.is_inference_mode_enabled(), y.is_inference())
        z = y + 1
    print(torch.is_inference_mode_enabled(), torch.is_grad_enabled())
    return z, z.is_inference(), x + 1
""",
    "grad modes and autocast": """
w = T(3, 3, seed=3).requires_grad_()
def f(x):
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16), torch.enable_grad():
        y = x @ w
        print(torch.is_grad_enabled(), torch.is_autocast_enabled("cpu"), y.requires_grad)
        z = (y @ w).sum()
    print(torch.is_grad_enabled())
    return z, torch.autograd.grad(z, w)
""",
    "a decorated function": """
@torch.no_grad()
def inner(x):
    y = x * 2
    print(torch.is_grad_enabled())
    return y + 1
def f(x):
    return inner(x), torch.is_grad_enabled()
""",
    "a manager of one's own around autocast": """
import contextlib
@contextlib.contextmanager
def cast(on):
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=on):
        yield on
def f(x):
    with cast(True) as on:
        y = x @ x.T
        print(on, y.dtype)
        z = x @ x.T
    return y, z, x @ x.T
""",
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_as_eager(name: str) -> None:
    breaks: list[str] = []
    made: list[_core.Compiled] = []

    def compiled(function: object) -> _core.Compiled:
        made.append(_core.Compiled(function, None, lambda name, *_: breaks.append(name), None, 64))
        made[0].breaks = 1
        return made[0]

    harness.run(PROGRAMS[name], ["f(X)", "f(X)", "f(T(5, 3))", "f(X)"], compile=compiled)
    assert breaks and made[0].captures > 1
