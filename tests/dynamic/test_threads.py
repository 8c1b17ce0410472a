"""One entry used by several threads, each with sizes and ints of its own."""

from __future__ import annotations

import threading

import torch

import magneto


def test_threads_with_sizes_of_their_own() -> None:
    def function(x: torch.Tensor, k: int) -> tuple[torch.Tensor, int, float]:
        n = x.shape[0]
        return (x @ x.t()).sum() * n + k, n * 1000 + k, n / 4

    compiled = magneto.compile(function, backend="eager")
    for n in (300, 400, 500):
        compiled(torch.ones(n, 4), n)
    before = magneto.counters["stats"]["unique_graphs"]
    wrong: list[object] = []

    def work(first: int) -> None:
        for n in range(first, first + 60):
            x = torch.ones(n, 4)
            ours, expected = compiled(x, n + 7), function(x, n + 7)
            if not torch.equal(ours[0], expected[0]) or ours[1:] != expected[1:]:
                wrong.append((n, ours, expected))

    threads = [threading.Thread(target=work, args=(number * 100 + 300,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert magneto.counters["stats"]["unique_graphs"] == before
