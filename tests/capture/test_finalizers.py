"""What runs when an object goes runs where captured code lets go of it, and what comes next sees it."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch

import magneto

LOG: list[str] = []


class Loud:
    def __init__(self, name: str) -> None:
        self.name = name

    def __del__(self) -> None:
        LOG.append(self.name)


class Quiet:
    pass


class Slotted:
    __slots__ = ("loud",)


class Holder:
    def __init__(self) -> None:
        self.loud: Any = Loud("attribute")
        self.items: Any = [Loud("item"), 1]
        self.table: Any = {"key": Loud("value"), "other": 1}
        self.watched: Any = Quiet()
        weakref.finalize(self.watched, LOG.append, "watched")
        self.nested: Any = Quiet()
        self.nested.loud = Loud("nested")
        self.tensor: Any = torch.ones(2)
        weakref.finalize(self.tensor, LOG.append, "tensor")
        self.slotted: Any = Slotted()
        self.slotted.loud = Loud("slot")


WORLD: Any = None

PROGRAMS = {
    "attribute set": "holder.loud = None",
    "attribute deleted": "del holder.loud",
    "attribute set by setattr": "setattr(holder, 'loud', 1)",
    "attribute deleted by delattr": "delattr(holder, 'loud')",
    "attribute set after it was changed": "holder.loud.more = 1; holder.loud = None",
    "attribute that something else has": "loud = holder.loud; holder.loud = None; holder.more = loud.name",
    "attribute with a list": "holder.items = []",
    "attribute that is watched": "holder.watched = None",
    "attribute whose attribute has a finalizer": "holder.nested = None",
    "attribute that is a tensor": "holder.tensor = None",
    "attribute that is a tensor that was used": "x = x + holder.tensor; holder.tensor = x",
    "item set": "holder.items[0] = 1",
    "item set from the end": "holder.items[-2] = 1",
    "item deleted": "del holder.items[0]",
    "item set in a list that was looked at": "n = len(holder.items) + holder.items.count(2); holder.items[0] = n",
    "value set": "holder.table['key'] = 1",
    "value deleted": "del holder.table['key']",
    "slot set": "holder.slotted.loud = 1",
    "slot deleted": "del holder.slotted.loud",
    "global set": "global WORLD; WORLD = None",
    "global deleted": "global WORLD; del WORLD",
}


def made(text: str) -> Callable[..., Any]:
    space: dict[str, Any] = {"LOG": LOG}
    body = "".join(f"    {line.strip()}\n" for line in text.split(";"))
    exec(f"def run(x, holder):\n{body}    seen = list(LOG)\n    return x + len(seen), seen\n", space)
    run: Callable[..., Any] = space["run"]
    return run


@pytest.mark.parametrize("text", PROGRAMS.values(), ids=PROGRAMS)
def test_finalizers_run_where_objects_go(text: str) -> None:
    def results(run: Callable[..., Any], space: dict[str, Any]) -> list[Any]:
        found = []
        for _ in range(3):
            holder = Holder()
            space["WORLD"] = Loud("global")
            LOG.clear()
            result, seen = run(torch.ones(2), holder)
            found.append((result.tolist(), seen, list(LOG), sorted(vars(holder))))
        return found

    plain, run = made(text), made(text)
    assert results(magneto.compile(run, backend="eager"), run.__globals__) == results(
        plain, plain.__globals__
    )


def test_finalizers_run_where_cells_let_go() -> None:
    def cells() -> Callable[..., Any]:
        loud: Any = Loud("cell")

        def run(x: torch.Tensor) -> Any:
            nonlocal loud
            loud = None
            seen = list(LOG)
            return x + len(seen), seen

        return run

    LOG.clear()
    assert magneto.compile(cells(), backend="eager")(torch.ones(2))[1] == ["cell"]


def test_writes_over_ordinary_values_end_no_graph() -> None:
    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.state = (torch.zeros(2), [torch.ones(2)])
            self.steps = {"count": 0, "last": Quiet()}
            self.register_buffer("mean", torch.zeros(2))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.state = (x, [x + 1])
            self.steps["last"] = Quiet()
            self.mean = self.mean * 0.9 + x
            return x * 2

    model = Model()
    compiled = magneto.compile(model, backend="eager", fullgraph=True)
    for _ in range(3):
        assert compiled(torch.ones(2)).tolist() == [2.0, 2.0]
