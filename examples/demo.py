"""Captures small transformers with magneto and with torch.compile, and shows what each gave and what it took.

All run the captured graph with the backend `eager`, so that the figures are those of the front ends alone.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")

import torch

import magneto


def models(layers: int) -> dict[str, Callable[[], torch.nn.Module]]:
    """Models of the usual kinds, with few parameters."""
    import transformers as t

    size = {"hidden_size": 128, "num_attention_heads": 4, "intermediate_size": 256, "vocab_size": 1000}
    ends = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
    return {
        "BERT": lambda: t.BertModel(t.BertConfig(num_hidden_layers=layers, **size)),
        "GPT-2": lambda: t.GPT2Model(
            t.GPT2Config(n_layer=layers, n_embd=128, n_head=4, vocab_size=1000, **ends)
        ),
        "Llama": lambda: t.LlamaModel(t.LlamaConfig(num_hidden_layers=layers, **size, **ends)),
    }


def seconds(call: Callable[[], Any], repeat: int) -> float:
    """The median time of a call."""
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def first_call(model: Any, ids: torch.Tensor) -> tuple[float, Any]:
    """How long the call takes that captures, and what it gives."""
    start = time.perf_counter()
    result = model(ids)
    return time.perf_counter() - start, result[0]


def compare(make: Callable[[], torch.nn.Module], repeat: int) -> tuple[list[list[str]], bool]:
    """A row for each way to run the model, and whether all gave the same."""
    torch.manual_seed(0)
    model = make().eval()
    ids = torch.randint(3, 1000, (1, 32))
    expected = model(ids)[0]
    plain = seconds(lambda: model(ids), repeat)
    ours = magneto.compile(model, backend="eager")
    ours_first, ours_result = first_call(ours, ids)
    ours_call = seconds(lambda: ours(ids), repeat)
    explained = magneto.explain(model)(ids)
    theirs_graphs: list[int] = []

    def count(module: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> Callable[..., Any]:
        theirs_graphs.append(sum(node.op.startswith("call_") for node in module.graph.nodes))
        return module.forward

    torch._dynamo.reset()
    theirs = torch.compile(model, backend=count)
    theirs_first, theirs_result = first_call(theirs, ids)
    theirs_call = seconds(lambda: theirs(ids), repeat)
    same = torch.allclose(ours_result, expected, atol=1e-5) and torch.allclose(
        theirs_result, expected, atol=1e-5
    )

    def row(
        name: str, operations: int | None, breaks: int | None, capture: float | None, call: float
    ) -> list[str]:
        def text(value: Any) -> str:
            return "-" if value is None else str(value)

        first = "-" if capture is None else f"{capture * 1e3:.1f}"
        return [name, text(operations), text(breaks), first, f"{call * 1e3:.2f}"]

    return [
        row("eager", None, None, None, plain),
        row("torch.compile", sum(theirs_graphs), len(theirs_graphs) - 1, theirs_first, theirs_call),
        row("magneto", explained.op_count, explained.graph_break_count, ours_first, ours_call),
    ], same


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--layers", type=int, default=4, help="layers of each model")
    parser.add_argument("--repeat", type=int, default=20, help="calls to take the median of")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    head = ["model", "run by", "operations", "breaks", "first call ms", "later calls ms"]
    rows, agree = [], True
    with torch.no_grad():
        warm_up = torch.nn.Linear(2, 2)  # what is imported and set up once is not counted
        magneto.compile(warm_up, backend="eager")(torch.ones(2))
        torch.compile(warm_up, backend="eager")(torch.ones(2))
        for name, make in models(arguments.layers).items():
            found, same = compare(make, arguments.repeat)
            rows += [[name if number == 0 else "", *row] for number, row in enumerate(found)]
            agree = agree and same
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
    for row in [head, ["-" * width for width in widths], *rows]:
        cells = [
            cell.ljust(width) if i < 2 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        print("  ".join(cells).rstrip())
    print(f"\nAll results are {'the same' if agree else 'NOT the same'}.")
    return 0 if agree else 1


if __name__ == "__main__":
    sys.exit(main())
