"""Dynamic shapes against torch.compile: the capture that makes a model symbolic, and the calls with other sizes.

A model is called with one shape, then with another: that second call is captured with symbols in place of the sizes
that differ. What is shown is the time of that call, less a later call with the same shape, in turns with torch.compile;
then calls with two more shapes, for which nothing may be captured. Times are processor times of the calling thread.

--backend B   "eager" (the default), "python" (a backend that returns the forward of the module that it is given), or
              "reads" (one that looks at all metadata first)
--calls       what guards cost per call, with static sizes and with symbols
"""

from __future__ import annotations

import argparse
import math
import platform
import time
import warnings
from typing import Any

import capture
import torch

MODELS = [
    "MLP, 50 layers", "ResNet, 8 blocks", "BERT, 12 layers", "GPT-2, 12 layers", "Llama, 16 layers", "Qwen3, 12 layers",
    "T5, 6+6 layers", "ViT, 12 layers",
]  # fmt: skip
SHAPES = ((2, 8), (3, 9), (5, 12), (4, 7))


def resized(case: capture.Case, batch: int, length: int) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of a case with another size of the batch, and of ids another length."""

    def other(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        if value.dtype == torch.int64:
            return torch.randint(0, 100, (batch, length))
        return torch.randn(batch, *value.shape[1:])

    return tuple(map(other, case[1])), {key: other(value) for key, value in case[2].items()}


def graphs(which: str, compiled: Any) -> int:
    """How often something was captured."""
    if which == "magneto":
        import magneto

        return len(magneto.cache_entries(compiled))
    return int(torch._dynamo.utils.counters["stats"]["unique_graphs"])


def symbolic(which: str, case: capture.Case, backend: Any, repeat: int) -> float:
    """The fastest capture with symbols, in seconds."""
    calls = [resized(case, *shape) for shape in SHAPES]
    best = float("inf")
    for _ in range(repeat):
        compiled = capture.compiler(which, case[0], backend)()
        if which == "torch":
            torch._dynamo.utils.counters.clear()
        args, kwargs = calls[0]
        compiled(*args, **kwargs)
        args, kwargs = calls[1]
        start = time.thread_time()
        compiled(*args, **kwargs)
        first = time.thread_time() - start
        later = float("inf")
        for _ in range(3):
            start = time.thread_time()
            compiled(*args, **kwargs)
            later = min(later, time.thread_time() - start)
        best = min(best, first - later)
        count = graphs(which, compiled)
        for args, kwargs in calls[2:]:
            compiled(*args, **kwargs)
        if graphs(which, compiled) != count:
            print(f"  ({which} has captured more than twice)")
    return best


def captures(options: argparse.Namespace) -> None:
    """The table of captures."""
    backend = capture.BACKENDS.get(options.backend, options.backend)
    print(
        f"\ncapture with symbols, backend {options.backend}\n"
        f"{'case':26}{'torch.compile':>16}{'magneto':>12}{'ratio':>8}"
    )
    ratios = []
    for name in options.models:
        case = capture.make(name)
        for which in ("torch", "magneto"):
            symbolic(which, case, backend, 1)  # all imports made, all caches filled
        theirs = symbolic("torch", case, backend, options.repeat)
        ours = symbolic("magneto", case, backend, 3 * options.repeat)
        ratios.append(theirs / ours)
        print(f"{name:26}{theirs * 1e3:14.1f}ms{ours * 1e3:10.2f}ms{ratios[-1]:8.0f}", flush=True)
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    print(f"geometric mean of the ratios {mean:.0f}, the smallest {min(ratios):.0f}")


def guard_time(compiled: Any, args: tuple[Any, ...], kwargs: dict[str, Any], rounds: int) -> float:
    """Nanoseconds that the guards of a call take, the least of several rounds."""
    import magneto

    for _ in range(20):
        compiled(*args, **kwargs)
    best = float("inf")
    for _ in range(5):
        with magneto.profile(compiled) as found:
            for _ in range(rounds):
                compiled(*args, **kwargs)
        entry = max(magneto.cache_entries(compiled), key=lambda one: one.entry.hits).entry
        del found
        figures = entry.profile()
        best = min(best, figures["guard"] / max(figures["tries"], 1))
    return best


def calls(options: argparse.Namespace) -> None:
    """What guards cost per call."""
    import magneto

    print(f"\nguards of a call\n{'case':26}{'static':>12}{'symbols':>12}{'ratio':>8}")
    for name in options.models:
        case = capture.make(name)
        one, two = resized(case, *SHAPES[0]), resized(case, *SHAPES[1])
        static = magneto.compile(case[0], backend="eager", dynamic=False)
        static(*one[0], **one[1])
        dynamic = magneto.compile(case[0], backend="eager")
        dynamic(*one[0], **one[1])
        dynamic(*two[0], **two[1])
        times = [guard_time(static, *one, options.rounds), guard_time(dynamic, *two, options.rounds)]
        print(f"{name:26}{times[0]:10.0f}ns{times[1]:10.0f}ns{times[1] / times[0]:8.2f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--backend", default="eager")
    parser.add_argument("--calls", action="store_true")
    parser.add_argument("--models", nargs="*", default=MODELS)
    parser.add_argument("--repeat", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=300)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    print(
        f"{platform.processor() or platform.machine()}, torch {torch.__version__}, Python {platform.python_version()}"
    )
    with torch.no_grad():
        calls(options) if options.calls else captures(options)


if __name__ == "__main__":
    main()
