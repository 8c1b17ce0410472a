"""`magneto.counters`: what has happened so far in this process."""

from __future__ import annotations

from collections import Counter, defaultdict

counters: defaultdict[str, Counter[str]] = defaultdict(Counter)
"""Counts by group, with the groups that `torch._dynamo.utils.counters` has.

- `frames`: `total` captures tried, `ok` those that succeeded.
- `stats`: `calls_captured`, `unique_graphs`.
- `graph_break`: by reason.
- `recompiles`: by the guard that failed; after the first 1000 of them, all others are one.
- `unimplemented`: by reason, those that `fullgraph=True` turned into an error.
"""
