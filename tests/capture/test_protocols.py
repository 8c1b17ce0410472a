"""Each special method that C code may look up is changed between two calls; see protocols.py."""

from __future__ import annotations

from typing import Any

import pytest

from magneto import _core, _runtime

from . import protocols

assert _runtime is not None  # it sets the core up

pytestmark = pytest.mark.no_leak_hunt("thousands of programs, none of which does anything that others don't")


def compiled(function: Any) -> Any:
    return _core.Compiled(function, None, lambda *_: None, None, 64, fullgraph=False)


@pytest.mark.parametrize("expression", protocols.EXPRESSIONS)
@pytest.mark.parametrize("form", protocols.FORMS)
def test_special_methods(form: str, expression: str) -> None:
    differences = []
    for name in protocols.METHODS:
        for change, (first, then) in protocols.CHANGES.items():
            eager = protocols.Program(expression, form, name, first)
            expected = [eager.call()]
            eager.change(then)
            expected.append(eager.call())
            if expected[0] == expected[1]:
                continue
            captured = protocols.Program(expression, form, name, first)
            captured.compile(compiled)
            found = [captured.call()]
            assert captured.call() is not None
            captured.change(then)
            found.append(captured.call())
            if found != expected:
                differences.append((name, change, expected, found))
    assert not differences, f"{form}: {expression}\n" + "\n".join(map(str, differences))
