"""Control flow: cond, while_loop, map, scan, associative_scan."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import nn
from torch._higher_order_ops import map, scan, while_loop

from .check import Made, program


def _sides(*shape: int, grad: bool = False) -> list[tuple[torch.Tensor]]:
    """Two calls: one with a positive sum, one with a negative one."""
    tensor = torch.rand(*shape) + 0.1
    return [(tensor.clone().requires_grad_(grad),), ((-tensor).requires_grad_(grad),)]


# ---- cond ----


@program
def cond_plain() -> Made:
    def f(x: torch.Tensor) -> Any:
        return torch.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.cos(), (x,))

    return f, _sides(3), []


@program
def cond_gradients() -> Made:
    def f(x: torch.Tensor) -> Any:
        y = x * 2
        return torch.cond(y.sum() > 0, lambda x: (x * x).sin(), lambda x: x.exp(), (y,)) + y

    return f, _sides(3, grad=True), []


@program
def cond_closure_over_intermediate() -> Made:
    def f(x: torch.Tensor) -> Any:
        y = x * 2
        z = y.exp()
        return torch.cond(x.sum() > 0, lambda: y + z, lambda: y - z)

    return f, _sides(3, grad=True), []


@program
def cond_only_one_branch_uses() -> Made:
    def f(x: torch.Tensor) -> Any:
        a, b, c = x + 1, x + 2, x + 3
        return torch.cond(x.sum() > 0, lambda x: x + c + a, lambda x: x * b, (x,))

    return f, _sides(3), []


@program
def cond_parameters() -> Made:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.left = nn.Linear(3, 4)
            self.right = nn.Linear(3, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.cond(x.sum() > 0, self.left, self.right, (x,))

    net = Net()
    return net, _sides(2, 3), net.parameters()


@program
def cond_one_parameter_for_both() -> Made:
    weight = nn.Parameter(torch.rand(3))

    def f(x: torch.Tensor) -> Any:
        return torch.cond(x.sum() > 0, lambda x: x * weight, lambda x: x - weight, (x,))

    return f, _sides(3), [weight]


@program
def cond_pytrees() -> Made:
    def left(pair: Any, more: Any) -> Any:
        return {"a": pair[0] + more["k"], "b": (pair[1] * 2, pair[0].sum())}

    def right(pair: Any, more: Any) -> Any:
        return {"a": pair[0] - more["k"], "b": (pair[1] * 3, pair[0].mean())}

    def f(x: torch.Tensor) -> Any:
        return torch.cond(x.sum() > 0, left, right, ((x, x + 1), {"k": x * 2}))

    return f, _sides(3, grad=True), []


class Pair(NamedTuple):
    first: torch.Tensor
    second: torch.Tensor


@program
def cond_named_tuple() -> Made:
    def f(x: torch.Tensor) -> Any:
        return torch.cond(x.sum() > 0, lambda x: Pair(x + 1, x + 2), lambda x: Pair(x * 2, x * 3), (x,))

    return f, _sides(3), []


@program
def cond_twice() -> Made:
    def f(x: torch.Tensor) -> Any:
        y = torch.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.cos(), (x,))
        return torch.cond(y.sum() > 0.5, lambda x: x + 1, lambda x: x - 1, (y,))

    return f, _sides(3, grad=True), []


@program
def cond_nested() -> Made:
    weight = nn.Parameter(torch.rand(3))

    def f(x: torch.Tensor) -> Any:
        y = x + 1

        def left(x: torch.Tensor) -> Any:
            return torch.cond(x.max() > 0.5, lambda x: x * weight, lambda x: x + y, (x,)) + y

        return torch.cond(x.sum() > 0, left, lambda x: x - weight, (x,))

    return f, [*_sides(3), (torch.full((3,), 0.2),)], [weight]


@program
def cond_nested_deep() -> Made:
    def f(x: torch.Tensor) -> Any:
        base = x.exp()

        def third(x: torch.Tensor) -> Any:
            return torch.cond(x.min() > 0, lambda x: x * base, lambda x: x / base, (x,))

        def second(x: torch.Tensor) -> Any:
            return torch.cond(x.max() > 0, third, lambda x: x - base, (x,))

        return torch.cond(x.sum() > 0, second, lambda x: x + base, (x,))

    return f, [*_sides(3, grad=True), (torch.tensor([-1.0, 3.0, 1.0], requires_grad=True),)], []


@program
def cond_no_operands() -> Made:
    table = torch.rand(3)

    def f(x: torch.Tensor) -> Any:
        return torch.cond(x.sum() > 0, lambda: table.sin(), lambda: table.cos()) + x

    return f, _sides(3), []


@program
def cond_keyword_arguments() -> Made:
    def f(x: torch.Tensor) -> Any:
        return torch.cond(pred=x.sum() > 0, true_fn=lambda x: x + 1, false_fn=lambda x: x - 1, operands=(x,))

    return f, _sides(3), []


@program
def cond_python_predicate() -> Made:
    def f(x: torch.Tensor, up: bool) -> Any:
        return torch.cond(up, lambda x: x + 1, lambda x: x - 1, (x,))

    return f, [(torch.rand(3), True), (torch.rand(3), False)], []


@program
def cond_methods() -> Made:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(3, 3)
            self.register_buffer("shift", torch.rand(3))

        def up(self, x: torch.Tensor) -> torch.Tensor:
            return self.layer(x) + self.shift

        def down(self, x: torch.Tensor) -> torch.Tensor:
            return self.layer(x) - self.shift

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.cond(x.sum() > 0, self.up, self.down, (x,)).relu()

    net = Net()
    return net, _sides(2, 3), net.parameters()


@program
def cond_in_place_on_its_own() -> Made:
    def left(x: torch.Tensor) -> torch.Tensor:
        y = x.clone()
        y += 1
        y.mul_(2)
        return y

    def f(x: torch.Tensor) -> Any:
        return torch.cond(x.sum() > 0, left, lambda x: x * 3, (x,))

    return f, _sides(3, grad=True), []


@program
def cond_in_loop() -> Made:
    def f(x: torch.Tensor) -> Any:
        for step in range(3):
            x = torch.cond(x.sum() > step, lambda x: x * 0.5, lambda x: x + 1, (x,))
        return x

    return f, _sides(3, grad=True), []


@program
def cond_grad_mode_inside() -> Made:
    def left(x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            y = x * 2
        return x * y

    def f(x: torch.Tensor) -> Any:
        return torch.cond(x.sum() > 0, left, lambda x: x * 3, (x,))

    return f, _sides(3), []


@program
def cond_without_gradients() -> Made:
    weight = nn.Parameter(torch.rand(3))

    def f(x: torch.Tensor) -> Any:
        with torch.no_grad():
            y = torch.cond(x.sum() > 0, lambda x: x * weight, lambda x: x - weight, (x,))
        return y * weight

    return f, _sides(3), [weight]


@program
def cond_dtypes() -> Made:
    def f(x: torch.Tensor) -> Any:
        return torch.cond(
            x.sum() > 0,
            lambda x: (x > 0.5, x.double(), x.to(torch.int64)),
            lambda x: (x < 0.5, x.double() * 2, x.to(torch.int64) + 1),
            (x,),
        )

    return f, _sides(3), []


@program
def cond_dropout_layers() -> Made:
    net = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 3))
    other = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 3))

    def f(x: torch.Tensor) -> Any:
        return torch.cond(x.sum() > 0, lambda x: net(x), lambda x: other(x), (x,))

    return f, _sides(2, 3), [*net.parameters(), *other.parameters()]


# ---- while_loop ----


@program
def while_counter() -> Made:
    def f(x: torch.Tensor) -> Any:
        return while_loop(lambda i, x: i < 4, lambda i, x: (i + 1, x * 2), (torch.tensor(0), x))

    return f, [(torch.rand(3),), (torch.rand(3),)], []


@program
def while_until_large() -> Made:
    def f(x: torch.Tensor) -> Any:
        return while_loop(lambda x: x.sum() < 50, lambda x: (x * 2 + 1,), (x,))

    return f, [(torch.rand(3),), (torch.rand(3) * 100,)], []


@program
def while_closures() -> Made:
    step = torch.rand(3)

    def f(x: torch.Tensor, limit: torch.Tensor) -> Any:
        scale = x.mean()

        def body(i: torch.Tensor, y: torch.Tensor) -> Any:
            return i + 1, y + step * scale

        return while_loop(lambda i, y: i < limit, body, (torch.zeros((), dtype=torch.int64), x))

    return f, [(torch.rand(3), torch.tensor(3)), (torch.rand(3), torch.tensor(0))], []


@program
def while_pytree() -> Made:
    def f(x: torch.Tensor) -> Any:
        def condition(state: Any) -> Any:
            return state["i"] < 3

        def body(state: Any) -> Any:
            return ({"i": state["i"] + 1, "x": (state["x"][0] * 2, state["x"][1] + 1)},)

        return while_loop(condition, body, ({"i": torch.tensor(0), "x": (x, x + 1)},))

    return f, [(torch.rand(3),)], []


@program
def while_nested() -> Made:
    def f(x: torch.Tensor) -> Any:
        def inner(i: torch.Tensor, y: torch.Tensor) -> Any:
            return while_loop(lambda j, y: j < i, lambda j, y: (j + 1, y + 1), (torch.tensor(0), y))[1]

        return while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, inner(i, y)), (torch.tensor(0), x))

    return f, [(torch.rand(3),)], []


@program
def while_with_cond() -> Made:
    def f(x: torch.Tensor) -> Any:
        def body(i: torch.Tensor, y: torch.Tensor) -> Any:
            return i + 1, torch.cond(y.sum() > 1, lambda y: y * 0.5, lambda y: y + 1, (y,))

        return while_loop(lambda i, y: i < 5, body, (torch.tensor(0), x))

    return f, [(torch.rand(3),), (torch.rand(3) * 9,)], []


# ---- map ----


@program
def map_rows() -> Made:
    def f(x: torch.Tensor) -> Any:
        return map(lambda row: row.sin() + 1, x)

    return f, [(torch.rand(4, 3, requires_grad=True),)], []


@program
def map_parameters() -> Made:
    layer = nn.Linear(3, 2)

    def f(x: torch.Tensor) -> Any:
        return map(lambda row: layer(row), x)

    return f, [(torch.rand(4, 3),)], layer.parameters()


@program
def map_pytree() -> Made:
    def f(x: torch.Tensor) -> Any:
        return map(
            lambda item, k: {"a": item["a"] + k, "b": (item["b"] * 2,)}, {"a": x, "b": x * 2}, x.sum(0)
        )

    return f, [(torch.rand(4, 3, requires_grad=True),)], []


@program
def map_with_cond() -> Made:
    def f(x: torch.Tensor) -> Any:
        return map(lambda row: torch.cond(row.sum() > 0, lambda r: r.sin(), lambda r: r.cos(), (row,)), x)

    return f, [(torch.randn(4, 3),)], []


# ---- scan ----


@program
def scan_sums() -> Made:
    def f(x: torch.Tensor) -> Any:
        return scan(lambda c, r: (c + r, c * r), torch.zeros(3), x)

    return f, [(torch.rand(4, 3, requires_grad=True),), (torch.rand(4, 3, requires_grad=True),)], []


@program
def scan_parameters() -> Made:
    cell = nn.RNNCell(3, 5)

    def f(x: torch.Tensor, h: torch.Tensor) -> Any:
        def step(h: torch.Tensor, x: torch.Tensor) -> Any:
            now = cell(x, h)
            return now, now * 2

        return scan(step, h, x)

    return f, [(torch.rand(4, 2, 3), torch.rand(2, 5))], cell.parameters()


@program
def scan_reverse_pytree() -> Made:
    weight = nn.Parameter(torch.rand(3))

    def f(x: torch.Tensor) -> Any:
        def step(carry: Any, item: Any) -> Any:
            now = {"s": carry["s"] + item["a"] * weight}
            return now, (now["s"] * item["b"], item["b"] + 1)

        return scan(step, {"s": torch.zeros(3)}, {"a": x, "b": x + 1}, reverse=True)

    return f, [(torch.rand(4, 3),)], [weight]


@program
def scan_other_dimension() -> Made:
    def f(x: torch.Tensor) -> Any:
        return scan(lambda c, r: (c + r, c - r), torch.zeros(4), x, dim=1)

    return f, [(torch.rand(4, 3, requires_grad=True),)], []


@program
def scan_with_cond() -> Made:
    def f(x: torch.Tensor) -> Any:
        def step(c: torch.Tensor, r: torch.Tensor) -> Any:
            now = torch.cond(r.sum() > 0, lambda c, r: c + r, lambda c, r: c * r, (c, r))
            return now, now + 1

        return scan(step, torch.ones(3), x)

    return f, [(torch.randn(4, 3),)], []


@program
def cond_with_scan() -> Made:
    def f(x: torch.Tensor) -> Any:
        def left(x: torch.Tensor) -> Any:
            return scan(lambda c, r: (c + r, c * 2), torch.zeros(3), x)[1]

        return torch.cond(x.sum() > 0, left, lambda x: x * 2, (x,))

    return f, _sides(4, 3), []


@program
def scan_in_module() -> Made:
    class Recurrent(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.enter, self.keep = nn.Linear(3, 4), nn.Linear(4, 4)

        def forward(self, x: torch.Tensor) -> Any:
            def step(h: torch.Tensor, x: torch.Tensor) -> Any:
                h = torch.tanh(self.enter(x) + self.keep(h))
                return h, h.clone()

            return scan(step, x.new_zeros(2, 4), x)

    net = Recurrent()
    return net, [(torch.rand(5, 2, 3),)], net.parameters()
