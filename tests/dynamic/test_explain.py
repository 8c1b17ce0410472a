"""What `magneto.explain` and `magneto.cache_entries` tell of symbols."""

from __future__ import annotations

import torch

import magneto


def program(x: torch.Tensor, y: torch.Tensor, k: int) -> torch.Tensor:
    z = x * k
    if x.shape[0] * 2 > y.shape[0]:
        z = z + 1
    return z if k > 3 else z.t()


def test_symbols_have_sources_bounds_and_guards_with_their_lines() -> None:
    compiled = magneto.compile(program, backend="eager", dynamic=True)
    told = magneto.explain(compiled)(torch.ones(4, 3), torch.ones(5, 3), 6)
    by_source = {symbol.source: symbol for symbol in told.symbols}
    first, second, k = by_source["L['x'].size()[0]"], by_source["L['y'].size()[0]"], by_source["L['k']"]
    assert (first.value, first.low, second.value, k.value, k.high) == (4, 2, 5, 6, None)
    (relation,) = [guard for guard in first.guards if second.name in guard.text]
    assert relation in second.guards
    assert relation.frame is not None and relation.frame.line == "if x.shape[0] * 2 > y.shape[0]:"
    (bound,) = k.guards
    assert bound.frame is not None and bound.frame.line == "return z if k > 3 else z.t()"
    text = str(told)
    assert f"{first.name} = L['x'].size()[0]: 4, in [2, oo]" in text
    assert "if x.shape[0] * 2 > y.shape[0]:" in text


def test_marked_size_is_a_symbol() -> None:
    x = torch.ones(4, 3)
    magneto.mark_dynamic(x, 0, min=2, max=8)
    told = magneto.explain(lambda x: x + 1)(x)
    (symbol,) = told.symbols
    assert str(symbol) == "s0 = L['x'].size()[0]: 4, in [2, 8]"


def test_without_symbols_there_is_nothing_to_tell() -> None:
    told = magneto.explain(lambda x: x + 1)(torch.ones(4, 3))
    assert told.symbols == [] and "Symbols:" not in str(told)


def test_entries_that_were_captured_have_symbols() -> None:
    compiled = magneto.compile(lambda x: x + 1, backend="eager")
    for n in (3, 4):
        compiled(torch.ones(n))
    latest, first = magneto.cache_entries(compiled)
    assert [symbol.source for symbol in latest.symbols] == ["L['x'].size()[0]"]
    assert first.symbols == []
