"""`magneto.counters`: what has happened so far in this process."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

from magneto import _imports

counters: defaultdict[str, Counter[str]] = defaultdict(Counter)
"""Counts by group. The same object as `torch._dynamo.utils.counters`, with the same groups and more.

- `frames`: `total` captures tried, `ok` those that succeeded; not those with `fullgraph=True`, as in torch.compile.
- `stats`: `calls_captured`, `unique_graphs`. A graph that several callables of a function have is counted once.
- `graph_break`: by reason.
- `resumes`: the places at which capture has started again after a break.
- `recompiles`: by the guard that failed; after the first 1000 of them, all others are one.
- `unimplemented`: by reason, those that `fullgraph=True` turned into an error.
- `aot_autograd`, `inductor` and the like: what backends count.
"""


def _share(module: Any) -> None:
    """torch._dynamo.utils is imported: count there if that was done before us, else have it count here."""
    global counters
    if _is_first:
        counters = module.counters
    else:
        module.counters = counters


_is_first = True
_imports.when_imported("torch._dynamo.utils", _share)
_is_first = False
