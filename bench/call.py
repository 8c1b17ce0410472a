"""Later calls against torch.compile: what does a call cost before and after its graph?

Both compile the same functions and models, in one process, with a backend that gives outputs prepared beforehand: what
is left is the front end's own work: binding, guards, gathering inputs, handing out the result. They are timed in turns,
and the fastest round of each counts, in CPU time, so that what else the machine does matters little. The section
`eager` runs the graphs for real, against plain eager too; so does `--backend inductor`, with that backend.
"""

from __future__ import annotations

import argparse
import dataclasses
import gc
import json
import math
import platform
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any

import torch
from torch import nn

import magneto

Thunk = Callable[[], Any]
TARGETS = {
    "x + y": 15, "ints, strings, dicts, lists, a dataclass": 15, "100 linear layers": 20, "500 linear layers": 30,
    "Llama, 32 layers": 30, "MobileBERT, 24 layers": 30, "64 entries, the oldest": 30, "two graph breaks": 10,
}  # fmt: skip


# ---- what is called ----


def add(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return x + y


@dataclasses.dataclass
class Options:
    scale: float
    names: list[str]


def mixed(
    x: torch.Tensor,
    n: int,
    name: str,
    table: dict[str, Any],
    items: list[Any],
    options: Options,
    *,
    flag: bool = True,
) -> tuple[torch.Tensor, dict[str, Any]]:
    y = x * n if name == "times" else x + n
    for item in items:
        y = y + item
    if flag and options.names[0] == "first":
        y = y * options.scale + table["bias"]["value"]
    return y, {"n": n, "name": options.names[1]}


def sized(x: torch.Tensor) -> torch.Tensor:
    return x + x.shape[0]


def broken(x: torch.Tensor) -> torch.Tensor:
    x = x + 1
    if x.sum() > 0:
        x = x * 2
    if x.sum() > 1:
        x = x - 1
    return x


class Flat(nn.Module):
    """Many parameters in one module."""

    def __init__(self, count: int) -> None:
        super().__init__()
        for i in range(count):
            self.register_parameter(f"p{i}", nn.Parameter(torch.ones(4, 4)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for p in self._parameters.values():
            x = x + p
        return x


def nested(x: torch.Tensor, tables: dict[str, dict[str, int]]) -> torch.Tensor:
    total = 0
    for table in tables.values():
        total += table["a"]
    return x + total


def layers(count: int) -> nn.Module:
    return nn.Sequential(*(nn.Linear(4, 4) for _ in range(count))).eval()


def llama() -> tuple[nn.Module, dict[str, Any]]:
    import transformers as t

    config = t.LlamaConfig(
        hidden_size=32, num_hidden_layers=32, num_attention_heads=4, num_key_value_heads=2, intermediate_size=64,
        vocab_size=100, max_position_embeddings=64,
    )  # fmt: skip
    return t.LlamaForCausalLM(config).eval(), {"input_ids": torch.randint(0, 100, (1, 8)), "use_cache": False}


def mobilebert() -> tuple[nn.Module, dict[str, Any]]:
    import transformers as t

    config = t.MobileBertConfig(
        vocab_size=100, hidden_size=32, num_hidden_layers=24, num_attention_heads=4, intermediate_size=32,
        embedding_size=16, intra_bottleneck_size=32, max_position_embeddings=64,
    )  # fmt: skip
    return t.MobileBertModel(config).eval(), {"input_ids": torch.randint(0, 100, (1, 8))}


def transformers_models() -> Iterator[tuple[str, nn.Module, dict[str, Any]]]:
    try:
        import transformers
    except ImportError:
        print("(transformers is not installed: its models are left out)")
        return
    transformers.logging.set_verbosity_error()
    yield "Llama, 32 layers", *llama()
    yield "MobileBERT, 24 layers", *mobilebert()


# ---- measuring ----


def prepared(module: Any, inputs: Any) -> Callable[..., Any]:
    """A backend: the graph runs once, then its outputs are given again and again."""
    outputs: Any = None

    def run(*args: Any) -> Any:
        nonlocal outputs
        if outputs is None:
            outputs = module.forward(*args)
        return outputs

    return run


def fastest(thunks: list[Thunk], seconds: float, rounds: int) -> list[float]:
    """The fastest time of each, in seconds of this thread's CPU time a call; they take turns."""
    counts = []
    for thunk in thunks:
        count = 1
        while True:
            start = time.thread_time()
            for _ in range(count):
                thunk()
            elapsed = time.thread_time() - start
            if elapsed > seconds / 4:
                break
            count *= 4
        counts.append(max(1, int(count * seconds / elapsed)))
    best = [math.inf] * len(thunks)
    gc.collect()
    for _ in range(rounds):
        for i, thunk in enumerate(thunks):
            numbers = range(counts[i])
            start = time.thread_time()
            for _ in numbers:
                thunk()
            best[i] = min(best[i], (time.thread_time() - start) / counts[i])
    return best


class Bench:
    """Runs sections and keeps their figures."""

    def __init__(self, seconds: float, rounds: int) -> None:
        self.seconds = seconds
        self.rounds = rounds
        self.rows: list[dict[str, Any]] = []

        def empty() -> None:
            pass

        self.empty = fastest([empty], 0.01, 5)[0]  # the lambda around each call is not the front end's

    def fresh(self) -> None:
        from torch import _dynamo

        _dynamo.reset()
        magneto.reset()

    def compare(self, section: str, name: str, theirs: Thunk, ours: Thunk) -> None:
        """One row: both are called, warm, in turns."""
        for _ in range(3):
            theirs()
            ours()
        their_time, our_time = (
            time - self.empty for time in fastest([theirs, ours], self.seconds, self.rounds)
        )
        self.add(section, name, theirs=their_time, ours=our_time, ratio=their_time / our_time)

    def add(self, section: str, name: str, **figures: float) -> None:
        row = {"section": section, "name": name, "target": TARGETS.get(name), **figures}
        self.rows.append(row)
        text = f"{name:42}"
        for key in ("eager", "theirs", "ours"):
            text += f"{figures[key] * 1e6:12.2f}us" if key in figures else " " * 14
        if "ratio" in figures:
            text += f"{figures['ratio']:9.1f}"
        if row["target"]:
            text += (
                f"   (target {row['target']}: {'met' if figures['ratio'] >= row['target'] else 'NOT MET'})"
            )
        text += figures.get("note", "")  # type: ignore[operator]
        print(text, flush=True)

    # ---- sections ----

    def calls(self) -> None:
        x, y = torch.randn(4, 4), torch.randn(4, 4)
        self.fresh()
        theirs, ours = torch.compile(add, backend=prepared), magneto.compile(add, backend=prepared)
        self.compare("calls", "x + y", lambda: theirs(x, y), lambda: ours(x, y))
        theirs2, ours2 = torch.compile(mixed, backend=prepared), magneto.compile(mixed, backend=prepared)
        table = {"bias": {"value": 3}, "other": {"value": 4}}
        options = Options(0.5, ["first", "second"])
        items = [1, 2.5, y, (3)]
        self.compare(
            "calls",
            "ints, strings, dicts, lists, a dataclass",
            lambda: theirs2(x, 3, "times", table, items, options),
            lambda: ours2(x, 3, "times", table, items, options),
        )

    def layers(self) -> None:
        x = torch.randn(2, 4)
        for count in (1, 10, 100, 500):
            self.fresh()
            model = layers(count)
            theirs, ours = torch.compile(model, backend=prepared), magneto.compile(model, backend=prepared)
            name = f"{count} linear layer" + "s" * (count > 1)
            self.compare("layers", name, lambda: theirs(x), lambda: ours(x))

    def models(self) -> None:
        for name, model, kwargs in transformers_models():
            self.fresh()
            theirs, ours = torch.compile(model, backend=prepared), magneto.compile(model, backend=prepared)
            ids = kwargs["input_ids"]
            if "use_cache" in kwargs:
                thunks: list[Thunk] = [lambda f=f: f(input_ids=ids, use_cache=False) for f in (theirs, ours)]  # type: ignore[misc]
            else:
                thunks = [lambda f=f: f(input_ids=ids) for f in (theirs, ours)]  # type: ignore[misc]
            self.compare("models", name, *thunks)
            # for this call CPython makes a dict
            self.compare("models", f"{name}, by **", lambda: theirs(**kwargs), lambda: ours(**kwargs))

    def entries(self) -> None:
        from torch import _dynamo

        for count in (1, 8, 64):
            self.fresh()
            with (
                _dynamo.config.patch(recompile_limit=100, accumulated_recompile_limit=1000),
                magneto.config.patch(recompile_limit=100),
            ):
                theirs = torch.compile(sized, backend=prepared, dynamic=False)
                ours = magneto.compile(sized, backend=prepared, dynamic=False)
                inputs = [torch.randn(i + 2) for i in range(count)]

                def cycle(compiled: Any, inputs: list[Any] = inputs) -> None:
                    for x in inputs:  # each call is of the entry that was used longest ago
                        compiled(x)

                for x in inputs:
                    theirs(x)
                    ours(x)
                assert len(magneto.cache_entries(ours)) == count
                times = fastest([lambda: cycle(theirs), lambda: cycle(ours)], self.seconds, self.rounds)
            their_time, our_time = (time / count for time in times)
            name = f"{count} entries, the oldest" if count > 1 else "1 entry"
            self.add("entries", name, theirs=their_time, ours=our_time, ratio=their_time / our_time)

    def breaks(self) -> None:
        self.fresh()
        x = torch.randn(4, 4).abs()
        theirs, ours = torch.compile(broken, backend=prepared), magneto.compile(broken, backend=prepared)
        self.compare("breaks", "two graph breaks", lambda: theirs(x), lambda: ours(x))

    def threads(self) -> None:
        self.fresh()
        x, y = torch.randn(4, 4), torch.randn(4, 4)
        number = 20_000

        def throughput(compiled: Any, count: int) -> float:
            def work() -> None:
                for _ in range(number // count):
                    compiled(x, y)

            best = math.inf
            for _ in range(self.rounds):
                workers = [threading.Thread(target=work) for _ in range(count)]
                start = time.perf_counter()
                for worker in workers:
                    worker.start()
                for worker in workers:
                    worker.join()
                best = min(best, (time.perf_counter() - start) / number)
            return best

        theirs, ours = torch.compile(add, backend=prepared), magneto.compile(add, backend=prepared)
        theirs(x, y)
        ours(x, y)
        for count in (1, 4):
            their_time, our_time = throughput(theirs, count), throughput(ours, count)
            name = f"x + y from {count} thread" + "s" * (count > 1)
            self.add("threads", name, theirs=their_time, ours=our_time, ratio=their_time / our_time)

    def growth(self) -> None:
        """Slopes: nanoseconds for one more tensor, one more dict."""
        x = torch.randn(4, 4)
        for what, counts, limit in (("tensor", (100, 1000), 20), ("dict", (100, 1000), 5)):
            times = []
            for count in counts:
                self.fresh()
                if what == "tensor":
                    flat = magneto.compile(Flat(count), backend=prepared)

                    def thunk(flat: Any = flat) -> Any:
                        return flat(x)

                else:
                    tables = {str(i): {"a": i % 3} for i in range(count)}
                    holder = {"tables": tables}
                    plain = magneto.compile(lambda x: nested(x, holder["tables"]), backend=prepared)

                    def thunk(plain: Any = plain) -> Any:
                        return plain(x)

                for _ in range(3):
                    thunk()
                times += fastest([thunk], self.seconds, self.rounds)
            slope = (times[1] - times[0]) / (counts[1] - counts[0])
            met = "met" if slope * 1e9 < limit else "NOT MET"
            self.add(
                "growth",
                f"one more {what}",
                slope=slope,
                note=f"{slope * 1e9:.1f} ns (target {limit}: {met})",
            )  # type: ignore[arg-type]
        self.fresh()

    def eager(self) -> None:
        """For real: plain eager, torch.compile(backend="eager") and magneto.compile(backend="eager")."""
        x, y = torch.randn(4, 4), torch.randn(4, 4)
        table, options, items = {"bias": {"value": 3}}, Options(0.5, ["first", "second"]), [1, 2.5, y, 3]
        self.real("eager", "x + y", add, (x, y), {})
        self.real("eager", "mixed", mixed, (x, 3, "times", table, items, options), {})
        for count in (1, 10, 100, 500):
            self.real("eager", f"{count} linear", layers(count), (x,), {})
        for name, model, kwargs in transformers_models():
            self.real("eager", name, model, (), kwargs)

    def by(self, backend: str) -> None:
        """For real, with another backend: functions and models that are small enough to be compiled in minutes."""
        import transformers as t

        sizes = dict(
            hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, vocab_size=100,
            max_position_embeddings=64,
        )  # fmt: skip
        x, y, ids = torch.randn(4, 4), torch.randn(4, 4), torch.randint(0, 100, (1, 8))
        self.real(backend, "x + y", add, (x, y), {})
        for count in (10, 100):
            self.real(backend, f"{count} linear", layers(count), (x,), {})
        self.real(backend, "BERT, 2 layers", t.BertModel(t.BertConfig(**sizes)).eval(), (ids,), {})
        llama = t.LlamaModel(t.LlamaConfig(**sizes, num_key_value_heads=2)).eval()
        self.real(backend, "Llama, 2 layers", llama, (ids,), {"use_cache": False})

    def real(
        self, backend: str, name: str, model: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        """One row: whole calls."""
        self.fresh()
        theirs, ours = torch.compile(model, backend=backend), magneto.compile(model, backend=backend)
        thunks: list[Thunk] = [lambda f=f: f(*args, **kwargs) for f in (model, theirs, ours)]  # type: ignore[misc]
        for thunk in thunks * 3:
            thunk()
        eager, their_time, our_time = fastest(thunks, self.seconds, self.rounds)
        faster = "faster than eager" if our_time < eager else "SLOWER THAN EAGER"
        self.add(
            backend, f"{backend}: {name}", eager=eager, theirs=their_time, ours=our_time,
            ratio=their_time / our_time, note=f"   {faster}: {eager / our_time:.2f}",  # type: ignore[arg-type]
        )  # fmt: skip


def main() -> int:
    sections = ["calls", "layers", "models", "entries", "breaks", "threads", "growth", "eager"]
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sections", nargs="*", choices=sections, default=sections)
    parser.add_argument("--backend", help="whole calls with this backend, in place of the sections")
    parser.add_argument("--seconds", type=float, default=0.05, help="how long one round of one case takes")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--grad", action="store_true", help="with grad mode on")
    parser.add_argument("--json", default=None, help="write the figures to this file")
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    torch.manual_seed(0)
    print(f"a call against torch.compile {torch.__version__}, on {platform.machine()}")
    print(f"{'case':42}{'eager':>14}{'torch.compile':>14}{'magneto':>14}{'ratio':>9}")
    bench = Bench(options.seconds, options.rounds)
    with nullcontext() if options.grad else torch.no_grad():
        if options.backend is not None:
            bench.by(options.backend)
        for section in options.sections if options.backend is None else ():
            getattr(bench, section)()
    if options.json is not None:
        with open(options.json, "w") as file:
            json.dump(
                {"torch": torch.__version__, "machine": platform.machine(), "rows": bench.rows},
                file,
                indent=1,
            )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
