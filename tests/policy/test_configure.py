"""What the core is set up with."""

from __future__ import annotations

import pytest

from magneto import _core, _runtime


def test_a_table_that_the_core_does_not_know_is_refused() -> None:
    """A name that is spelled wrong would otherwise leave an old table, or none, in force."""
    with pytest.raises(ValueError, match="there is no table 'cals'"):
        _core.configure({"cals": {}}, _runtime.Twin, _runtime.propagate)


def test_the_tables_stay_as_they_were_given() -> None:
    given = {"ignored": set(), "flags": []}  # type: ignore[var-annotated]
    before = dict(given)
    try:
        _core.configure(given, _runtime.Twin, _runtime.propagate)
        assert given == before
    finally:
        _core.configure({name: _runtime._tables[name] for name in given}, _runtime.Twin, _runtime.propagate)
