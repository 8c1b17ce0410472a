"""A program of several graphs, compiled by AOTInductor: `test_aot.py` runs it in processes of its own.

Prints a line of JSON: for each graph whether the results are right, and what was imported meanwhile.
"""

from __future__ import annotations

import json
import logging
import sys
import threading
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

import magneto

found: list[str] = []


class Handler(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        found.append(record.getMessage())


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(8, 8)
        self.second = nn.Linear(8, 4)
        self.register_buffer("scale", torch.randn(8))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x = torch.relu(self.first(x)) * self.scale
        return self.second(x).softmax(-1), x.argmax(-1)


def several(x: torch.Tensor, y: torch.Tensor) -> Any:
    return x + y, x.t(), y, (x > 0).sum(), x


def writes(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    x.add_(y)
    return x * 2


def draws(x: torch.Tensor) -> torch.Tensor:
    return nn.functional.dropout(x, 0.5) + torch.rand_like(x)


def indexes(table: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    return nn.functional.embedding(index, table) + 1


def number(x: torch.Tensor, n: int) -> torch.Tensor:
    return x * n


def compiled(function: Any, **kwargs: Any) -> Any:
    return magneto.compile(function, backend="inductor", options={"aot": True}, fullgraph=True, **kwargs)


def net() -> dict[str, Any]:
    """Parameters as inputs, two outputs, sizes that vary, threads."""
    torch.manual_seed(1)
    model = Net().eval()
    run = compiled(model, dynamic=True)
    with torch.no_grad():
        right = [same(run(x), model(x)) for x in (torch.randn(size, 8) for size in (3, 5, 9))]
        other = Net().eval()
        again = compiled(other, dynamic=True)
        right.append(same(again(torch.ones(4, 8)), other(torch.ones(4, 8))))
        x, wrong = torch.randn(6, 8), []

        def work() -> None:
            with torch.no_grad():
                for _ in range(50):
                    if not same(run(x), model(x)):
                        wrong.append(1)

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return {"right": all(right) and not wrong, "entries": len(magneto.cache_entries(run))}


def views() -> dict[str, Any]:
    """Several outputs: new ones, views of inputs, inputs, a number in a tensor."""
    x, y = torch.randn(3, 4), torch.randn(3, 4)
    run = compiled(several)
    results = run(x, y)
    result = {
        "right": same(results, several(x, y)),
        "view": results[1]._base is x and results[1].data_ptr() == x.data_ptr(),
        "input": results[2] is y and results[4] is x,
    }
    del run, results
    return result


def written() -> dict[str, Any]:
    """Writes to an input, and what goes with it."""
    run = compiled(writes)
    x, y = torch.zeros(4), torch.ones(4)
    version = x._version
    right = torch.equal(run(x, y), torch.full((4,), 2.0)) and torch.equal(x, y)
    shared = torch.zeros(4)
    right = right and torch.equal(run(shared, shared), torch.zeros(4))  # the same memory
    base = torch.zeros(5)
    run(base[:4], torch.ones(4))
    return {"right": right and base.tolist() == [1.0] * 4 + [0.0], "version": x._version > version}


def random() -> dict[str, Any]:
    """Random numbers: those of inductor, from torch's seed."""
    run = compiled(draws)
    torch.manual_seed(5)
    first, second = run(torch.ones(1000)), run(torch.ones(1000))
    torch.manual_seed(5)
    again = run(torch.ones(1000))
    zeros = (first < 1).float().mean().item()
    return {"right": torch.equal(first, again) and not torch.equal(first, second) and 0.4 < zeros < 0.6}


def raises() -> dict[str, Any]:
    """An error when the library runs is that of eager."""
    run = compiled(indexes)
    table = torch.randn(5, 2)
    right = torch.equal(run(table, torch.tensor([1, 4])), indexes(table, torch.tensor([1, 4])))
    errors = []
    for function in (run, indexes):
        try:
            function(table, torch.tensor([1, 7]))
        except (IndexError, RuntimeError) as error:
            errors.append(type(error).__name__)
    return {"right": right and len(errors) == 2 and errors[0] == errors[1], "errors": errors}


def refused() -> dict[str, Any]:
    """An int that varies is no input of a library: inductor's JIT takes the graph."""
    run = compiled(number, dynamic=True)
    x = torch.ones(3)
    return {"right": torch.equal(run(x, 3), x * 3) and torch.equal(run(x, 4), x * 4)}


def same(one: Any, other: Any) -> bool:
    if isinstance(one, tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return (
        one.shape == other.shape and one.stride() == other.stride() and torch.allclose(one, other, 1e-4, 1e-5)
    )


CASES: dict[str, Callable[[], dict[str, Any]]] = {
    case.__name__: case for case in (net, views, written, random, raises, refused)
}


def main(names: list[str]) -> None:
    logger = logging.getLogger("magneto")
    logger.setLevel(logging.INFO)
    logger.addHandler(Handler())
    figures = {}
    for name in names:
        found.clear()
        figures[name] = CASES[name]()
        figures[name]["log"] = [text for text in found if "cache" in text]
        figures[name]["imported"] = [
            module for module in ("torch._dynamo", "torch._inductor") if module in sys.modules
        ]
    print(json.dumps(figures))


if __name__ == "__main__":
    main(sys.argv[1:] or list(CASES))
