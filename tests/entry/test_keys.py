"""Keys of dicts and items of sets whose hash is made by Python code: it runs where captured code asks for it, and nowhere else."""

from __future__ import annotations

import pytest
from programs import harness

TEXT = """
class H(list):
    def __hash__(self):
        Y.add_(1)
        return 3
class Same(H):
    def __eq__(self, other): return isinstance(other, Same)
    __hash__ = H.__hash__
class Address:
    def __hash__(self): return id(self) // 16
D = {dict}
g, h, other = H(), H(), Same()
def made(key):
    k = key()
    return {{k: 1}}, k
def f(x):
    y = x + 1
    {action}
    return y
"""

DICTS = ["collections.OrderedDict(a=1)", "{}", "collections.defaultdict(list)"]

ACTIONS = [
    "D[h] = 1", "D[H()] = 1", "D[h, 1] = 2", "D[H(), 2] = 2", "D.setdefault(h, 1)", "D.setdefault(H(), 1)",
    "D.clear(); D[h] = 1", "D.clear(); D[H()] = 1", "D[h] = 1; D[g] = 2; del D[h]", "D.pop(h, None); D[h] = 3; D['z'] = 4",
    "D[Same()] = 1; D[other] = 2; D[Same()] = 3", "D[h] = 1; del D[h]", "D.update({h: 1, 'a': 5})",
]  # fmt: skip

MADE = [
    "return y, {h: 1}", "return y, {H(): 1}", "return y, {h}", "return y, {H()}", "return y, {(H(), 1): 2}",
    "return y, collections.OrderedDict([(h, 1)])", "return y, collections.OrderedDict([(H(), 1), (h, 2)])",
    "return y, frozenset([(h, 2)])", "return y, frozenset([H(), h])", "return y, collections.Counter([h, h])",
]  # fmt: skip


@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize("kind", DICTS)
def test_hash_with_effects_of_a_key_that_is_set(kind: str, action: str) -> None:
    again = "D.clear()", "f(X)", "D['x'] = 1", "list(D)"
    harness.run(TEXT.format(dict=kind, action=action), ["f(X)", "list(D)", *again, *again])


@pytest.mark.parametrize("action", MADE)
def test_hash_with_effects_of_a_key_that_is_returned(action: str) -> None:
    harness.run(TEXT.format(dict="{}", action=action), ["f(X)", "f(X)", "f(X)"])


@pytest.mark.parametrize("action", ["D.add(h)", "D.add(H())", "D.update({h, 1})"])
def test_hash_with_effects_of_an_item_that_is_added(action: str) -> None:
    harness.run(TEXT.format(dict="set()", action=action), ["f(X)", "f(X)", "D.clear()", "f(X)"])


def test_ordered_dict_is_whole_after_an_entry_has_changed_it() -> None:
    text = TEXT.format(
        dict="collections.OrderedDict(a=1)", action="D.pop(h, None); D[h] = 1; D[g, 1] = 2; D['b'] = 3"
    )
    harness.run(
        text,
        [
            "f(X)", "D.move_to_end('a')", "list(D.items())", "D.move_to_end(h)", "f(X)", "D.pop(h)", "list(reversed(D))", "f(X)",
            "D.popitem()", "D.popitem(last=False)", "[(k, D[k]) for k in D]", "f(X)", "D == collections.OrderedDict(D)", "D.copy()",
            "D.update((i, i) for i in range(50))", "f(X)", "list(D)", "[D.pop(k) for k in list(D)]", "f(X)", "list(D)",
        ],
    )  # fmt: skip


def test_hash_that_is_an_address_is_asked_for_again() -> None:
    text = TEXT.format(dict="{}", action="return y, made(Address), made(Address)")
    harness.run(text, ["(lambda r: [k in d and d[k] for d, k in r[1:]])(f(X))"] * 3)
