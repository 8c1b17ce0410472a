"""Programs for the hunt alone: finalizers, operators that a program adds to torch's, scripts, subgraphs.

Those of finalizers are the lines of capture/test_finalizers.py. Arguments are not among them: if there is no memory
to capture the caller, it is executed by CPython, which keeps them until the call ends.
"""

from __future__ import annotations

import inspect

from capture import test_finalizers
from programs import texts
from record import test_operators

_OBJECTS = "\n".join(
    [
        "from __future__ import annotations",
        "import gc, weakref, magneto",
        "LOG = []",
        *(
            inspect.getsource(getattr(test_finalizers, name))
            for name in (
                "Loud", "Quiet", "Slotted", "Box", "make", "watched", "generator", "use", "boxes",
            )
        ),
        """
BOX = None
def renew(kind=Box, *args):
    global BOX
    BOX = kind(*args)
    LOG.clear()
def late(value):
    weakref.finalize(value, LOG.append, "gone")
def f(x, box):
BODY
    seen = list(LOG)
    return x + len(seen), seen
""",
    ]
)  # fmt: skip


def _finalizers(text: str, *renewals: str) -> tuple[str, tuple[str, ...]]:
    """A line, and what its object is in each of the calls."""
    body = "\n".join(f"    {line.strip()}" for line in text.split(";"))
    return _OBJECTS.replace("BODY", body), tuple(
        step for renewal in renewals for step in (f"renew({renewal})", "f(X, BOX)")
    )


_QUIET = "boxes, Quiet, lambda _: None"

PROGRAMS = {
    **{text: _finalizers(text, "", "", "") for text in test_finalizers.lines(test_finalizers.TAKEN)},
    **{text: _finalizers(text, "Quiet", "Quiet") for text in test_finalizers.lines(test_finalizers.LOCALS)},
    **{
        f"{text} (later)": _finalizers(text, _QUIET, "boxes, Loud, late", _QUIET, "boxes, Quiet, late")
        for text in test_finalizers.lines(test_finalizers.LATER)
    },
}
# Without memory for a block CPython empties deques from the right.
for _name in ("box.deque.clear()", "box.__dict__ = {}"):
    del PROGRAMS[_name]
PROGRAMS = {f"finalizers: {name}": program for name, program in PROGRAMS.items()}

_OPERATORS = """
from record import test_operators as module
from record.test_operators import LOG, STATE
class Seen(collections.UserDict):
    def keys(self):
        return ["NUMBER"] if "NUMBER" in vars(module) else []
    def __getitem__(self, name):
        return vars(module)[name]
NUMBER = types.MappingProxyType(Seen())
LOG.clear()
STATE["n"], module.NUMBER = 0, 5
f = module.PROGRAMS[{number}]
"""

PROGRAMS.update(
    (f"operators: {number}", (_OPERATORS.format(number=number), ("f(X)", "f(X)", "f(Y)")))
    for number in range(len(test_operators.PROGRAMS))
)

PROGRAMS.update(
    (f"scripts: {name}", program)
    for name, program in texts.parse("""
### a function
from record.test_scripts import plain
def f(x):
    return plain(x + 1) * 2

### defaults and keywords
from record.test_scripts import optional
def f(x):
    return optional(x), optional(x, x), optional(x, None, 3), optional(x, n=4), optional(x, y=x, n=x.shape[0])

### tuples and numbers
from record.test_scripts import halves
def f(x):
    y, n = halves(x, 2.0)
    return y * n, halves(y, n=1.5)

### arguments that a script converts
from record.test_scripts import halves
def f(x):
    return x + 1, halves(x * 2, 2), halves(x, True)

### a branch on data
from record.test_scripts import branching
def f(x):
    return branching(x + 1), branching(-x)

### an error
from record.test_scripts import raising
def f(x):
    try:
        y = raising(x * 2)
    except RuntimeError as error:
        y = type(error).__name__
    return x + 1, y, raising(x[:1])

### what knows that it is a script
from record.test_scripts import asking
def f(x):
    return asking(x * 2) + 1

### a result that is another object
from record.test_scripts import shape_of
def f(x):
    y = x + 1
    return y, shape_of(y), type(shape_of(y))

### in place
from record.test_scripts import in_place
def f(x):
    z = x.clone()
    y = in_place(z)
    return y is z, y, z

### a list
from record.test_scripts import appending
def f(x):
    items = [1, 2]
    return appending(x + 1, items), items

### an index
from record.test_scripts import indexing
def f(x):
    return x * 2, indexing(x, torch.tensor([0]))

### modules and traces
from record.test_scripts import scripted_module, traced, traced_module
def f(x):
    return traced(x), scripted_module(x), traced_module(x * 2), scripted_module(x[:1])

### by another function
from record.test_scripts import optional, plain
def f(x):
    return functools.partial(optional, n=3)(x), list(map(plain, [x, x + 1]))
""").items()
)

PROGRAMS.update(
    (f"subgraphs: {name}", program)
    for name, program in texts.parse("""
### a checkpoint
from torch.utils.checkpoint import checkpoint
W = torch.ones(4, requires_grad=True)
def body(x, y):
    return x.sin() * y, y.cos() + W
def f(x):
    a, b = checkpoint(body, x * 2, x + 1, use_reentrant=False)
    (a * b).sum().backward()
    return a.detach(), W.grad.clone()

### a function with gradients of its own
class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, n):
        ctx.save_for_backward(x)
        ctx.n = n
        return x * n, x + 1
    @staticmethod
    def backward(ctx, a, b):
        x, = ctx.saved_tensors
        return a * ctx.n + b * x, None
def f(x):
    y = x.clone().requires_grad_()
    a, b = Double.apply(y * 2, 3)
    (a + b).sum().backward()
    return a.detach(), b.detach(), y.grad

### vmap
def f(x):
    return torch.func.vmap(lambda row, n: (row * n).sum(), in_dims=(0, None))(x, 2.0), x + 1

### a function that refuses
SEEN = []
from torch.utils.checkpoint import checkpoint
def body(x):
    SEEN.append(1)
    return x.sin()
def f(x):
    y = checkpoint(body, x * 2, use_reentrant=False)
    return y + len(SEEN)
""").items()
)
