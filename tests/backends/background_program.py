"""A program that compiles in the background, with real processes: `test_background.py` runs it in a process of its own.

Prints a line of JSON: for each part whether the results are right, before, during and after the switch.
"""

from __future__ import annotations

import json
import sys
import threading
from typing import Any

import torch
from torch import nn

import magneto


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(8, 8)
        self.register_buffer("scale", torch.randn(8))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x = torch.relu(self.inner(x)) * self.scale
        return x.softmax(-1), x.argmax(-1)


def same(one: Any, other: Any) -> bool:
    return all(
        torch.allclose(a, b, 1e-4, 1e-5) and a.dtype == b.dtype for a, b in zip(one, other, strict=True)
    )


def main() -> None:
    torch.manual_seed(1)
    wrong: list[str] = []
    layers = [Net().eval() for _ in range(3)]
    runs = [magneto.compile(layer, backend="inductor", background=True) for layer in layers]
    xs = [torch.randn(size, 8) for size in (3, 5, 7)]
    found: dict[str, Any] = {}

    def check(where: str) -> None:
        with torch.no_grad():
            for layer, run in zip(layers, runs, strict=True):
                for x in xs:
                    if not same(run(x), layer(x)):
                        wrong.append(where)

    check("before")  # 3 callables, a graph for 3 rows, and one for any number
    found["replayed"] = all(one.compiled is None for run in runs for one in magneto.cache_entries(run))
    stop = threading.Event()

    def work() -> None:
        while not stop.wait(0.01):
            check("during")

    threads = [threading.Thread(target=work, daemon=True) for _ in range(2)]
    for thread in threads:
        thread.start()
    found["done"] = magneto.wait(500)
    check("after")
    stop.set()
    for thread in threads:
        thread.join(60)
    check("after")
    entries = [one for run in runs for one in magneto.cache_entries(run)]
    found["entries"] = len(entries)
    called = [one for one in entries if one.entry.pending is None]  # others take it at their next call
    found["libraries"] = [type(one.compiled).__name__ for one in called]
    found["recompiles"] = sum(magneto.counters["recompiles"].values())

    layer = Net()  # with gradients
    x = torch.randn(4, 8, requires_grad=True)
    run = magneto.compile(layer, backend="inductor", background=True)
    grads = []
    for _ in range(2):
        x.grad = None
        run(x)[0].square().sum().backward()
        grads.append(x.grad)
        found["done"] = found["done"] and magneto.wait(500)
    x.grad = None
    layer(x)[0].square().sum().backward()
    found["gradients"] = all(torch.allclose(one, x.grad, 1e-4, 1e-6) for one in grads)
    found["trained"] = magneto.cache_entries(run)[0].compiled is not None
    found["wrong"] = wrong
    print(json.dumps(found))


if __name__ == "__main__":
    main()
    sys.exit()
