"""Random programs about tensors that are one, or share their memory: reached through arguments, lists, dicts, attributes,
buffers, parameters, globals and closures. Between the calls they become one, views of each other, or two again.

Each reads metadata, data, history and versions of some tensors around writes to others.
"""

from __future__ import annotations

import random

HEADER = """
W = torch.full((3, 3), 2.0, requires_grad=True)
P, Q, R, S = (torch.arange(9.0).view(3, 3) + i for i in range(4))
class Holder: pass
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("a", torch.ones(3, 3))
        self.register_buffer("b", torch.zeros(3, 3))
        self.w = nn.Parameter(torch.eye(3))
L, D, O, M = [P, Q], {"a": R, "b": S}, Holder(), Model()
O.x, O.y = Q, R
def make_cell():
    c = torch.full((3, 3), 4.0)
    def get(): return c
    def put(t):
        nonlocal c
        c = t
    return get, put
get, put = make_cell()
KEPT = []
def keep(result):
    KEPT.append([t for t in result if isinstance(t, torch.Tensor) and t.requires_grad])
    return result
def back():
    for t in KEPT[-1] if KEPT else ():
        try:
            t.sum().backward(retain_graph=True)
        except RuntimeError as error:
            KEPT[-1].append(str(error)[:40])
            break
"""

PLACES = ("p", "q", "P", "Q", "L[0]", "L[-1]", "D['a']", "D['b']", "O.x", "O.y", "M.a", "M.b", "M.w", "get()")
OUTSIDE = ("P", "Q", "R", "S", "L[0]", "L[1]", "D['a']", "D['b']", "O.x", "O.y", "M.a", "M.b", "M.w", "get()")
STORES = (
    "P = {}", "Q = {}", "L[0] = {}", "L[1] = {}", "D['a'] = {}", "D['b'] = {}", "O.x = {}", "O.y = {}", "M.a = {}",
    "M.b = {}", "put({})",
)  # fmt: skip
TURNED = ("{}", "{}", "{}", "{}[:]", "{}.detach()", "{}.data", "{}.t()", "{}.view(3, 3)", "{}.clone()", "{}.clone()",
          "{}.detach().requires_grad_()", "torch.arange(9.0).view(3, 3)", "({} * W)", "{}.expand(3, 3)", "{}.view(-1)[:4].view(2, 2)",
          "torch.arange(27.0).view(3, 3, 3)[1]")  # fmt: skip

METADATA = (
    "{}.t_()",
    "{}.transpose_(0, 1)",
    "{}.unsqueeze_(0)",
    "{}.squeeze_()",
    "{}.swapaxes_(0, 1)",
    "{}.detach_()",
)
DATA = (
    "{}.add_(1)", "{}.mul_({})", "{}[0].add_(2)", "{}[:, 0] = 5", "{}[1] = {}[0]", "{}.copy_({})", "{}.zero_()",
    "torch.add({}, 1, out={})", "{}.data.add_(1)", "{}.detach().mul_(2)", "{}.view(-1)[0] = 7", "{}.t()[0].sub_(1)",
    "torch._foreach_add_([{}, {}], 1)", "torch._foreach_mul_([{}], [{}])", "{}.diagonal().fill_(3)", "{}.exp_()",
)  # fmt: skip
HISTORY = (
    "{}.mul_(W)",
    "{}[0].mul_(W[0])",
    "{}.add_(W * 2)",
    "{}.copy_(W)",
    "{}[1] = W[1]",
    "{}.view(-1).mul_(W.view(-1))",
)
READS = (
    "tuple({}.shape)", "{}.stride()", "{}.requires_grad", "{}.is_leaf", "{}.sum()", "{} * {}", "{} is {}", "{}._version",
    "{}.is_contiguous()", "{} @ {}", "{}[0]", "{}.dim()", "len({})", "{}.detach() + 1", "{}.T", "{}.view(-1)",
    "{}.grad is None", "{}.storage_offset()", "{}.numel()", "({} + 1).requires_grad", "{}.grad_fn is None", "{}", "{}._base is {}",
)  # fmt: skip


def _fill(pattern: str, places: list[str], choice: random.Random) -> str:
    while "{}" in pattern:
        pattern = pattern.replace("{}", choice.choice(places), 1)
    return pattern


def _body(choice: random.Random) -> list[str]:
    places = choice.sample(PLACES, choice.randint(2, 5))
    lines = []
    # one kind of change is seen better alone
    kinds = choice.choice(
        ((METADATA,), (DATA,), (HISTORY,), (METADATA, DATA), (DATA, HISTORY), (METADATA, DATA, HISTORY))
    )
    for _ in range(choice.randint(2, 7)):
        if choice.random() < 0.4:
            line = _fill(choice.choice(choice.choice(kinds)), places, choice)
            if choice.random() < 0.2:
                line = f"with torch.no_grad(): {line}" if ";" not in line else line
            lines.append(line)
            if choice.random() < 0.15:
                lines.append(
                    _fill(choice.choice(STORES), [_fill(choice.choice(TURNED), places, choice)], choice)
                )
        else:
            lines.append(f"out.append({_fill(choice.choice(READS), places, choice)})")
    return lines


def write(seed: int) -> tuple[str, list[str]]:
    """A program and its steps."""
    choice = random.Random(seed)
    text = HEADER + "def f(p, q):\n    global P, Q\n    out = []\n"
    for line in _body(choice):
        if choice.random() < 0.1:
            text += f"    try:\n        {line}\n    except RuntimeError as error:\n        out.append(str(error)[:30])\n"
        else:
            text += f"    {line}\n"
    text += "    return out\n"
    steps = []
    for _ in range(choice.randint(4, 8)):
        for _ in range(choice.randint(0, 2)):
            turned = _fill(choice.choice(TURNED), list(OUTSIDE), choice)
            steps.append(choice.choice(STORES).format(turned))
        if choice.random() < 0.25:
            a, b = choice.sample(OUTSIDE, 2)
            steps.append(f"keep(f({a}.detach().clone(), {b}.detach().clone()))")
        elif choice.random() < 0.5:
            one = _fill(choice.choice(TURNED), list(OUTSIDE), choice)
            steps.append(f"(lambda t: keep(f(t, {_fill(choice.choice(TURNED), ['t'], choice)})))({one})")
        else:
            a, b = choice.choice(OUTSIDE), choice.choice(OUTSIDE)
            steps.append(f"keep(f({a}, {b}))")
        if choice.random() < 0.3:
            steps.append("back()")
    return text, steps
