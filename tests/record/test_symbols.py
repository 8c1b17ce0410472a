"""Values that depend on data: numbers out of tensors, sizes that are known when the graph runs."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from programs import harness
from programs.texts import parse
from torch import fx
from torch.fx.experimental.symbolic_shapes import ShapeEnv

import magneto

# Each is called with tensors of other data, and must be captured once for all of them.
STEPS = ("f(A)", "f(B)", "f(C)", "f(A)")
DATA = """
A, B, C = torch.tensor([1.0, 0.0, 2.0]), torch.tensor([1.0, 1.0, 2.0]), torch.tensor([0.0, 0.0, 3.0])
"""

PROGRAMS = parse(r"""
### item
def f(x):
    return x.sum().item()
### item of an int and a bool tensor
def f(x):
    return x.long().sum().item(), (x > 1).any().item()
### conversions of a tensor
def f(x):
    return int(x.sum()), float(x.long().max()), bool(x.max() > 2), bool(x.sum()), int(x.max() > 2.5)
---
f(A)
### arithmetic of ints
def f(x):
    n = x.long().sum().item()
    return n + 1, 1 + n, n - 1, 7 - n, n * 2, n // 2, 7 // n, n % 3, -n, abs(n - 4), n / 2, n ** 2, +n, n << 1, n >> 1, n & 1, n | 4
### inverted
def f(x):
    return ~x.nonzero().size(0)
### arithmetic of floats
def f(x):
    n = x.sum().item()
    return n + 1, 1 - n, n * 0.5, -n, abs(n - 4), n / 2, n ** 2, 3.0 / n, n // 2, n % 0.7
### two numbers
def f(x):
    n, m = x.sum().item(), x.long().max().item()
    return n + m, n * m, m - n, m / n, m // 2 * n
### comparisons
def f(x):
    n, s = x.long().sum().item(), x.sum().item()
    return n > 1, n == 3, 3 <= n, n != 4, n < s, s == 3.0, n == "a", n is None, None != n
### augmented assignment
def f(x):
    n = x.long().sum().item()
    n += 1
    n *= 2
    return x + n, n
### conversions of a number
def f(x):
    n, s = x.long().sum().item(), (x / 4).sum().item()
    return int(n), float(n), int(s), float(s), bool(n), bool(s)
### math functions
def f(x):
    n, s = x.long().sum().item(), (x / 4).sum().item()
    return math.sqrt(s), math.floor(s), math.ceil(s), math.trunc(s), round(s), round(s, 1), math.sqrt(n), math.floor(n), math.sin(s)
### max min sum
def f(x):
    n, m = x.long().sum().item(), x.long().max().item()
    return max(n, 3), min(n, m), sum([n, m, 1]), sum((n, m)), divmod(n, 2), abs(n), pow(n, 2)
### functions of torch on numbers
def f(x):
    n = x.long().sum().item()
    return torch.sym_max(n, 3), torch.sym_min(n, 2), torch.sym_float(n), torch.sym_not(n > 3)
### functions of operator
def f(x):
    n = x.long().sum().item()
    return operator.add(n, 1), operator.neg(n), operator.lt(n, 2), operator.mul(2, n), operator.eq(n, 3)
### a number in tensor operations
def f(x):
    n, s = x.long().sum().item(), x.sum().item()
    return x + n, n - x, x * s, x / s, x.clamp(max=s), torch.full((3,), n), torch.full_like(x, s), x > n, x.add(1, alpha=n)
### a number as a size
def f(x):
    n = x.long().sum().item()
    return torch.zeros(n), torch.ones(n, 2), torch.arange(n), torch.eye(n), x.new_zeros((n, 1)), torch.empty(n, 0)
### a number becomes a tensor
def f(x):
    n, s = x.nonzero().size(0), x.sum().item()
    return torch.tensor(n), torch.tensor([n, 1]), torch.tensor(s), torch.tensor([[s, s]], dtype=torch.float64)
### index by a number
def f(x):
    n = x.long().max().item() - 1
    return x[n], x[:n], x[n:], x[-n:], x.select(0, n), x.narrow(0, 0, n)
### item assignment by a number
def f(x):
    n = x.long().max().item() - 1
    y, z = x.clone(), x.clone()
    y[n] = 5.0
    z[:n] = 7.0
    return y, z
### tolist
def f(x):
    a, b, c = x.long().tolist()
    return x + a * b, x.long().view(3, 1).tolist(), (x > 1).tolist()
### tolist of a scalar
def f(x):
    return x.long().sum().tolist(), x.sum().tolist()
### list of items
def f(x):
    return [v.item() for v in x], {"a": x[0].item()}
### nonzero
def f(x):
    return x.nonzero()
### nonzero as a tuple, where with one argument
def f(x):
    return x.nonzero(as_tuple=True), torch.where(x > 0), torch.argwhere(x)
### sizes of a result
def f(x):
    y = x.nonzero()
    return y.shape, y.size(), y.size(0), y.stride(), y.numel(), len(y), y.dim(), y.ndim, y.shape[1], y.shape[-1]
### arithmetic with sizes
def f(x):
    y = x[x > 0]
    n = y.size(0)
    return torch.zeros(n + 1), torch.zeros(2 * n, n), n // 2, y.shape[0] - 1, math.prod(y.shape), y.shape.numel()
### size as an argument
def f(x):
    y = x.nonzero()
    return torch.zeros(y.shape), torch.ones(*y.size()), torch.zeros(y.shape + (2,)), torch.zeros(y.shape[:1]), x.new_ones(y.size())
### sizes are sizes
def f(x):
    s = x.nonzero().shape
    return s[1:], s[:1] + s, s + (1,), (2,) + s, s * 2, len(s), isinstance(s, torch.Size), [i for i in s], tuple(s), s[::-1], torch.Size([s[0], 4])
### unpacked size
def f(x):
    n, k = x.nonzero().shape
    return n + k
### a mask
def f(x):
    return x[x > 0]
### a mask used twice
def f(x):
    m = x > 0
    return x[m] + x[m] * 2, torch.cat([x[m], x[m]]), torch.stack([x[m], x[m]])
### assignment by a mask
def f(x):
    m = x > 0
    y = x.clone()
    y[m] = x[m] * 2
    y[~m] = -1
    return y
### masked select
def f(x):
    return torch.masked_select(x, x > 0), x.masked_select(x < 2)
### unique
def f(x):
    return torch.unique(x), torch.unique(x, return_counts=True), x.unique(return_inverse=True), torch.unique_consecutive(x)
### bincount
def f(x):
    return torch.bincount(x.long())
### repeat interleave
def f(x):
    return torch.repeat_interleave(x, x.long())
### split by a tensor
def f(x):
    return torch.tensor_split(x, torch.tensor([1, 2]))
### split by numbers
def f(x):
    n = x.long().max().item()
    return torch.split(x, [n, 3 - n])
### views of a result
def f(x):
    y = x[x > 0]
    return y.view(-1, 1), y.reshape(1, -1), y.view(y.size(0), 1), y.unsqueeze(0), y.unsqueeze(1).expand(-1, 3).contiguous(), y.t()
### operations on a result
def f(x):
    y = x[x > 0]
    return y.relu().sum(), y.mean(), y.softmax(0), torch.cat([y, y, x]), y.unsqueeze(1) @ torch.ones(1, 4), y.sort(), y * 2 + y
### layers on a result
lin = nn.Linear(1, 4)
def f(x):
    y = x.nonzero().float()
    return F.relu(lin(y)).sum(1), F.layer_norm(lin(y), (4,)), F.embedding(x.nonzero(), torch.ones(3, 2))
### in place on a result
def f(x):
    y = x[x > 0]
    y.mul_(2)
    y += 1
    return y, y.size(0)
### scatter back
def f(x):
    i = x.nonzero().squeeze(1)
    y = torch.zeros_like(x)
    y.index_add_(0, i, x[i])
    y[i] += 1
    return y, x.index_select(0, i)
### types of numbers
import numbers
def f(x):
    n, s, b = x.nonzero().size(0), x.sum().item(), (x > 0).any().item()
    return type(n) is int, type(s), type(b), isinstance(n, int), isinstance(s, (int, float)), isinstance(b, bool), isinstance(n, numbers.Number), isinstance(n, torch.SymInt), callable(n), hasattr(n, "shape"), n.__class__
### a number travels
class Box:
    pass
def g(n, *rest, k=0, **more):
    return n + k + sum(rest) + more["z"]
def f(x):
    n = x.nonzero().size(0)
    box = Box()
    box.n = n
    d = {"n": n, "l": [n, (n, n)]}
    h = lambda: box.n + d["n"]
    l = sorted([3, 1], key=lambda v: -v)
    return box, d, h(), g(n, 1, n, k=n, z=1), [n] + l, functools.reduce(operator.add, [n, n, 1]), list(map(lambda v: v + n, l)), copy.copy(n), copy.deepcopy(d)
### a number goes outside
log, seen = [], {}
class State:
    total = 0
state = State()
def f(x):
    n = x.nonzero().size(0)
    log.append(n)
    seen["last"] = x.sum().item()
    state.total = state.total + n if n is None else n
    return x + 1
---
f(A)
log, seen, vars(state)
f(B)
log, seen, vars(state)
f(C)
### a number out of a generator
def gen(x):
    for row in x:
        yield row.item()
def f(x):
    return list(gen(x)), sum(gen(x.long()))
### unused numbers
def f(x):
    y = x.nonzero()
    n = y.size(0)
    m = n * 2 + 1
    k = x.sum().item() + 1
    return x + 1
### known without data
def f(x):
    y = x.nonzero()
    n = y.size(0)
    if n >= 0 and n <= 3 and y.size(1) == 1 and n == y.size(0) and not n < 0:
        return x + 1
    return x - 1
### checked by hand
def f(x):
    n = x.long().sum().item()
    torch._check(n >= 2)
    torch._check(n < 10, lambda: "too big")
    if n > 1:
        return torch.zeros(n), x[: n - 2]
    return x
### checked to be a size
def f(x):
    n = x.long().max().item()
    torch._check(n >= 0)
    torch._check(n <= 3)
    return x[:n], torch.zeros(n)
### exceptions of numbers
def f(x):
    n = x.nonzero().size(0)
    out = []
    for g in (lambda: n + "a", lambda: n.nope, lambda: n[0], lambda: len(n), lambda: n(), lambda: list(n), lambda: "a" < n):
        try:
            g()
        except Exception as e:
            out.append((type(e).__name__, str(e)))
    return out
### in no_grad and inference mode
def f(x):
    with torch.no_grad():
        y = x[x > 0]
    with torch.inference_mode():
        z = (x + 1)[x > 0]
    return y, z.size(0), y.size(0)
### written in between
def f(x):
    m = x > 0
    a = x[m]
    m.logical_not_()
    return a, x[m], a.size(0), x[m].size(0)
### written through a view
def f(x):
    y = x.clone()
    v = y[1:]
    a = y.nonzero()
    v.zero_()
    return a, y.nonzero(), a.size(0), y.nonzero().size(0)
### written through data
def f(x):
    y = x.clone()
    a = y.sum(0)
    n = a.item()
    a.data.zero_()
    return n, a.item()
### written through an alias from outside
def f(x, y):
    a = x.nonzero()
    y.zero_()
    return a, x.nonzero(), a.size(0), x.nonzero().size(0)
---
f(A.clone(), torch.ones(2))
f(*(lambda t: (t, t[1:]))(B.clone()))
### two inputs of other sizes
def f(x, y):
    a, b = x[x > 0], y[y > 0]
    return torch.cat([a, b]), a.unsqueeze(1) * b.unsqueeze(0)
---
f(A, B)
f(B, C)
f(C, C + 1)
### a closed mask and empty results
def f(x):
    y = x[x > 100]
    return y, y.sum(), y.size(0), x.nonzero().size(0) + y.numel()
### squeezed
def f(x):
    i = x.nonzero()
    return i.squeeze(1), i.squeeze(-1), torch.squeeze(i, dim=1), i.squeeze((1,)).dim()
### more operations on results
def f(x):
    y = x[x > 0]
    z = y[y > 1]
    return z, y.size(0) - z.size(0), F.pad(y, (1, 1)), F.pad(x, (0, y.size(0))), torch.meshgrid(y, y, indexing="ij"), torch.outer(y, x), y @ y, y.flip(0), y.cumsum(0), torch.zeros(5).scatter_(0, y.long(), y)
### random results
def f(x):
    return torch.randn(x.nonzero().size(0)), torch.rand_like(x[x > 0]), F.dropout(x[x > 0], 0.5)
### loss on a result
def f(x):
    l = torch.stack([x, x + 1], 1)[x > 0]
    return F.cross_entropy(l, torch.zeros(l.size(0), dtype=torch.long)), F.mse_loss(l, l * 2, reduction="none")
### complex and half
def f(x):
    return (x * 1j)[x > 0], x.half()[x > 0], x.half().sum().item(), x.bfloat16().max().item()
""")

# Not captured, and why; eager gives the same result.
NOT_CAPTURED = {
    "conversions of a tensor": "a symbolic bool is no int yet",
}

# Captured more than once, and why.
RECAPTURED = {
    "a number goes outside": "the list that grows is guarded by its length",
}

STOPPED = parse(r"""
### branch on an item
def f(x):
    return x + 1 if x.sum().item() > 2 else x - 1
### branch on a size
def f(x):
    return x + 1 if x.nonzero().size(0) > 2 else x - 1
### truth of a number
def f(x):
    return "yes" if x.nonzero().size(0) else "no"
### not
def f(x):
    return not x.long().sum().item()
### range
def f(x):
    return [i for i in range(x.nonzero().size(0))]
### index of a list
def f(x):
    return [1, 2, 3, 4][x.nonzero().size(0)]
### slice of a list
def f(x):
    return [1, 2, 3, 4][: x.nonzero().size(0)]
### repetition of a list
def f(x):
    return [0] * x.nonzero().size(0)
### key of a dict
def f(x):
    return {x.nonzero().size(0): 1}
### key that is looked up
def f(x):
    return {2: "two", 3: "three"}.get(x.nonzero().size(0))
### member of a set
def f(x):
    return x.nonzero().size(0) in {1, 2}
### member of a tuple
def f(x):
    return x.nonzero().size(0) in (1, 2)
### hash
def f(x):
    return hash(x.sum().item())
### text
def f(x):
    return str(x.nonzero().size(0))
### format
def f(x):
    return f"{x.sum().item():.3f}"
### percent format
def f(x):
    return "%d" % x.nonzero().size(0)
### iteration over rows
def f(x):
    return [row + 1 for row in x[x > 0]]
### unpacking of rows
def f(x):
    a, *b = x.nonzero()
    return a, b
### equal sizes
def f(x):
    return x[x > 0].shape == x.shape
### sorted numbers
def f(x):
    return sorted([x.sum().item(), 2.5])
### max of an int and a float
def f(x):
    return max(x.long().sum().item(), 2.5)
### a bool as a number
def f(x):
    return (x > 0).any().item() + 1
### an attribute of a number
def f(x):
    return x.sum().item().is_integer()
### identity of numbers
def f(x):
    return x.nonzero().size(0) is 2
### enumerate from a number
def f(x):
    return list(enumerate("ab", x.nonzero().size(0)))
### a number meets a complex one
def f(x):
    return x.sum().item() + 1j, x.sum().item() == 3 + 0j
### math.exp
def f(x):
    return math.exp(x.sum().item())
### class pattern
def f(x):
    match x.nonzero().size(0):
        case int():
            return 1
    return 2
### value pattern
def f(x):
    match x.nonzero().size(0):
        case 2:
            return 1
    return 2
### branch on a tensor
def f(x):
    return x + 1 if x.sum() > 2 else x
### squeeze of a size that may be one
def f(x):
    return x[x > 0].squeeze().dim()
### symbols that are not in the result
def f(x):
    return torch.combinations(x, 2)
### allclose
def f(x):
    return torch.allclose(x, x)
### pow with a modulus
def f(x):
    return pow(x.nonzero().size(0), 2, 3)
### a message that depends on data
def f(x):
    n = x.long().sum().item()
    torch._check(n < 10, lambda: f"{n} is too big")
    return torch.zeros(n)
""")


@pytest.fixture(autouse=True)
def _no_caches_of_torch() -> Any:
    """Torch remembers the last calls of a ShapeEnv's methods, and with them the ShapeEnv; the text of each graph; and
    lines that its errors have shown."""
    yield
    methods = list(vars(ShapeEnv).values())
    if "torch._inductor.codecache" in sys.modules:
        methods.append(sys.modules["torch._inductor.codecache"].PyCodeCache.stack_frames_for_code)
    for method in methods:
        if hasattr(method, "cache_clear"):
            method.cache_clear()
    torch.fx.graph_module._loader.eval_cache.clear()


@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name: str) -> None:
    program, steps = PROGRAMS[name]
    if not program_has_steps(steps):
        steps = STEPS
    report = harness.check(DATA + program, *steps, captured=name not in NOT_CAPTURED, fullgraph=True)
    if name not in NOT_CAPTURED:
        assert (report.captures == 1) == (name not in RECAPTURED)


def program_has_steps(steps: tuple[str, ...]) -> bool:
    """Whether a program came with steps of its own."""
    return steps[0] != "f(X)"


@pytest.mark.filterwarnings("ignore::SyntaxWarning")
@pytest.mark.parametrize("name", STOPPED)
def test_what_asks_for_the_value_stops_the_capture(name: str) -> None:
    program, _ = STOPPED[name]
    report = harness.check(DATA + program, *STEPS, captured=False, fullgraph=True)
    assert {failure.reason for failure in report.failures} <= {"DATA_DEPENDENT", "OPAQUE"}
    space: dict[str, Any] = {"__name__": "program"}
    exec(harness.PRELUDE + DATA + program, space)
    with pytest.raises(magneto.exc.Unsupported):
        magneto.compile(space["f"], backend="eager", fullgraph=True)(space["A"])


# ---- graphs ----


def _lines(graph: fx.Graph) -> list[Any]:
    """What a graph is, without the names of its operations."""
    numbers: dict[fx.Node, int] = {}
    lines = []
    for node in graph.nodes:
        numbers[node] = len(numbers)
        args, kwargs = fx.node.map_arg((node.args, node.kwargs), lambda n: f"%{numbers[n]}")
        if node.target is torch.ops.aten._assert_scalar.default:
            args = (args[0], args[1].split(" on node ")[0])
        if node.op != "output":
            lines.append(
                (node.op, getattr(node.target, "__name__", node.target), str(args), str(dict(kwargs)))
            )
    return lines


def _graph(compile: Any, function: Callable[..., Any], *args: Any) -> fx.GraphModule:
    graphs: list[fx.GraphModule] = []

    def backend(module: fx.GraphModule, _: Any) -> Any:
        graphs.append(module)
        return module.forward

    compile(function, backend=backend, fullgraph=True)(*args)
    assert len(graphs) == 1
    return graphs[0]


SAME_GRAPH = [
    "item", "arithmetic of ints", "arithmetic of floats", "two numbers", "augmented assignment",
    "functions of torch on numbers", "a number in tensor operations", "a number as a size",
    "a number becomes a tensor", "index by a number", "item assignment by a number", "nonzero",
    "nonzero as a tuple, where with one argument", "sizes of a result", "arithmetic with sizes", "size as an argument",
    "unpacked size", "a mask", "a mask used twice", "assignment by a mask", "masked select", "unique", "bincount",
    "repeat interleave", "split by a tensor", "split by numbers", "views of a result",
    "operations on a result", "layers on a result", "unused numbers", "known without data", "checked by hand",
    "checked to be a size", "a closed mask and empty results",
]  # fmt: skip


@pytest.mark.no_leak_hunt("torch.compile keeps what it has made")
@pytest.mark.parametrize("name", SAME_GRAPH)
def test_graph_is_that_of_torch_compile(name: str) -> None:
    program, _ = PROGRAMS[name]
    space: dict[str, Any] = {"__name__": "program"}
    side = harness.Side(DATA + program, None)  # with its lines, for stack traces
    space = side.space
    torch._dynamo.reset()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ours = _graph(magneto.compile, space["f"], space["A"])
        theirs = _graph(torch.compile, space["f"], space["A"])
    assert _lines(ours.graph) == _lines(theirs.graph)
    ours.graph.lint()
    for a, b in zip(ours.graph.nodes, theirs.graph.nodes, strict=True):
        assert set(a.meta.get("unbacked_bindings") or ()) == set(b.meta.get("unbacked_bindings") or ())
        assert str(a.meta.get("example_value")) == str(b.meta.get("example_value"))


# ---- backends ----


def _masked(x: torch.Tensor) -> Any:
    y = x[x > 0]
    return y * 2, y.size(0), x.sum().item(), (x > 2).any().item(), torch.zeros(y.size(0) + 1)


def _checked(x: torch.Tensor) -> Any:
    n = x.long().max().item()
    torch._check(n >= 0)
    torch._check(n <= 3)
    return x[:n] + 1, n


@pytest.mark.no_leak_hunt("backends keep what they have made")
@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
@pytest.mark.parametrize("function", [_masked, _checked])
def test_backend(backend: str, function: Callable[..., Any]) -> None:
    compiled = magneto.compile(function, backend=backend, fullgraph=True)
    for data in ([1.0, 0.0, 2.0], [1.0, 1.0, 3.0], [0.0, 0.0, 0.0]):
        x = torch.tensor(data)
        for found, expected in zip(compiled(x), function(x), strict=True):
            assert type(found) is type(expected)
            torch.testing.assert_close(found, expected, rtol=0, atol=0)
    assert len(magneto.cache_entries(compiled)) == 1


@pytest.mark.no_leak_hunt("backends keep what they have made")
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_gradients(backend: str) -> None:
    def function(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        y = (x * w)[x > 0]
        return (y * y).sum() * y.size(0) + w.detach().sum().item()

    compiled = magneto.compile(function, backend=backend, fullgraph=True)
    for data in ([1.0, 0.0, 2.0], [1.0, 1.0, 3.0]):
        results = []
        for call in (function, compiled):
            w = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
            out = call(torch.tensor(data), w)
            out.backward()
            results.append((out.detach(), w.grad))
        assert torch.equal(results[0][0], results[1][0])
        assert torch.equal(results[0][1], results[1][1])  # type: ignore[arg-type]


# ---- what is taken for granted is checked when the graph runs ----


def test_a_check_that_fails_raises() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        n = x.long().max().item()
        torch._check(n <= 3)
        torch._check(n >= 0)
        return x[:n] + 1 if n <= 3 else x

    compiled = magneto.compile(function, backend="eager", fullgraph=True)
    assert torch.equal(compiled(torch.tensor([1.0, 2.0, 0.0])), torch.tensor([2.0, 3.0]))
    with pytest.raises(RuntimeError):
        compiled(torch.tensor([1.0, 7.0, 0.0]))


def test_sizes_taken_for_equal_are_checked() -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> Any:
        a, b = x[x > 0], y[y > 0]
        c = a + b  # from here on they have one size
        return c, a.size(0) == b.size(0)

    compiled = magneto.compile(function, backend="eager", fullgraph=True)
    x = torch.tensor([1.0, 0.0, 2.0])
    assert compiled(x, x)[1] is True
    with pytest.raises(RuntimeError):
        compiled(x, x + 1)


# ---- the value of an input ----


def _branch(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    return x + 1 if n.item() > 3 else x - 1


def _between(x: torch.Tensor, n: torch.Tensor, m: torch.Tensor) -> torch.Tensor:
    return x + 1 if n.item() > m.item() else x - 1


def _index(x: torch.Tensor, n: torch.Tensor) -> Any:
    return [1, 2, 3, 4, 5, 6][n.item()], x + 1


def _sized(x: torch.Tensor, n: torch.Tensor) -> Any:
    return x * n.item(), torch.zeros(n.item()), torch.narrow(x, 0, n, 1)


def _read_and_written(x: torch.Tensor, n: torch.Tensor) -> Any:
    m = n.item()
    n.add_(1)
    return x + n.item() * m, n.item() - m


@pytest.mark.parametrize(
    ("function", "values", "entries"),
    [
        (_branch, [(5,), (2,), (7,), (3,)], 2),
        (_branch, [(0.5,), (3.5,), (-0.0,)], 2),
        (_between, [(1, 2), (5, 3), (4, 3), (7, 9)], 2),
        (_index, [(1,), (2,), (1,), (0,)], 3),
        (_sized, [(0,), (2,), (1,)], 1),
        (_read_and_written, [(1,), (5,), (0,)], 1),
    ],
)
def test_what_the_value_of_an_input_decides_is_guarded(
    function: Callable[..., Any], values: list[tuple[Any, ...]], entries: int
) -> None:
    compiled = magneto.compile(function, backend="eager", fullgraph=True)
    x = torch.arange(3.0)

    def tensors(numbers: tuple[Any, ...]) -> list[torch.Tensor]:
        return [torch.tensor(n, dtype=torch.float64 if type(n) is float else None) for n in numbers]

    for numbers in values:
        ours, theirs = tensors(numbers), tensors(numbers)
        assert repr(compiled(x, *ours)) == repr(function(x, *theirs))
        assert repr(ours) == repr(theirs)
    assert len(magneto.cache_entries(compiled)) == entries


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_no_decision_by_a_value_that_is_no_number(value: float) -> None:
    with pytest.raises(magneto.exc.Unsupported):
        magneto.compile(_branch, backend="eager", fullgraph=True)(
            torch.ones(2), torch.tensor(value, dtype=torch.float64)
        )


def test_no_decision_by_the_value_of_an_input_that_was_written_to() -> None:
    def function(x: torch.Tensor, n: torch.Tensor, m: torch.Tensor) -> torch.Tensor:
        m.add_(1)
        return x + 1 if n.item() > 3 else x - 1

    n = torch.tensor(3)
    with pytest.raises(magneto.exc.Unsupported):
        magneto.compile(function, backend="eager", fullgraph=True)(torch.ones(2), n, n.view(1))


def test_a_miss_tells_of_the_value() -> None:
    compiled = magneto.compile(_branch, backend="eager", fullgraph=True)
    x = torch.ones(2)
    compiled(x, torch.tensor(5))
    with magneto.config.patch(error_on_recompile=True), pytest.raises(magneto.exc.RecompileError) as caught:
        compiled(x, torch.tensor(1))
    assert "> 3" in str(caught.value) and "the value of input" in str(caught.value)


# ---- when it is done ----


def test_without_fullgraph_the_capture_stops_at_the_operation() -> None:
    def function(x: torch.Tensor) -> Any:
        return x.sum().item(), x.nonzero()

    reasons: list[str] = []
    compiled = magneto._core.Compiled(function, None, lambda reason, *_: reasons.append(reason))
    compiled(torch.ones(2))
    assert reasons == ["TENSOR_VALUE"]


@pytest.mark.parametrize(
    ("setting", "function"),
    [
        ("capture_scalar_outputs", lambda x: x * x.sum().item()),
        ("capture_dynamic_output_shape_ops", lambda x: x.nonzero() + 1),
    ],
)
def test_settings_allow_it_without_fullgraph(setting: str, function: Callable[..., Any]) -> None:
    reasons: list[str] = []
    compiled = magneto._core.Compiled(function, None, lambda reason, *_: reasons.append(reason))
    x = torch.tensor([1.0, 0.0, 2.0])
    with magneto.config.patch({setting: True}):
        assert torch.equal(compiled(x), function(x))
    assert reasons == [] and len(compiled.entries()) == 1
    other = magneto._core.Compiled(function, None, lambda reason, *_: reasons.append(reason))
    assert torch.equal(other(x), function(x))
    assert len(reasons) == 1 and not other.entries()


def test_a_setting_allows_nothing_else() -> None:
    reasons: list[str] = []
    compiled = magneto._core.Compiled(lambda x: x.nonzero(), None, lambda reason, *_: reasons.append(reason))
    with magneto.config.patch(capture_scalar_outputs=True):
        compiled(torch.ones(2))
    assert reasons == ["DATA_DEPENDENT"]


# ---- numbers across breaks ----


class _Holder:
    value: Any = None


_holder = _Holder()


def _printed(x: torch.Tensor) -> Any:
    n, y = x.sum().item(), x[x > 0]
    m = y.size(0)
    parts = {"n": n, "m": [m, (m, n)]}
    print("a break")
    _holder.value = m
    return x + n, y * 2, m + 1, parts, y.shape


def _decided(x: torch.Tensor) -> Any:
    n = x.long().sum().item()
    return x + n if n > 2 else x - n


def _repeated(x: torch.Tensor) -> Any:
    y = x.nonzero()
    return [y[i] + 1 for i in range(y.size(0))], y.shape


def _below(n: float) -> float:
    print("a break below")
    return n + 1


def _called(x: torch.Tensor) -> Any:
    n = x.sum().item()
    return x * _below(n), n


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("function", [_printed, _decided, _repeated, _called])
@pytest.mark.no_leak_hunt("backends keep what they have made")
def test_numbers_live_on_after_a_break(
    function: Callable[..., Any], backend: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with magneto.config.patch(capture_scalar_outputs=True, capture_dynamic_output_shape_ops=True):
        compiled = magneto.compile(function, backend=backend)
        for data in ([1.0, 0.0, 2.0], [1.0, 1.0, 3.0], [0.0, 0.0, 0.0], [1.0, 0.0, 2.0]):
            x = torch.tensor(data)
            expected = repr(function(x)), _holder.value, capsys.readouterr().out
            _holder.value = None
            found = repr(compiled(x)), _holder.value, capsys.readouterr().out
            assert found == (expected if function is _printed else (expected[0], None, expected[2]))
            _holder.value = None
    assert magneto.cache_entries(compiled)
