"""The table of names in docs/coming-from-torch-compile.md, against the installed torch and magneto."""

from __future__ import annotations

import inspect

import pytest

import magneto
from tests.dropin import names

pytestmark = pytest.mark.no_leak_hunt("reads files only")

PLACES = ("torch.compile(...)", "torch.compiler", *names.MODULES)


@pytest.mark.parametrize("where", PLACES)
def test_the_table_has_each_name_once_and_no_other(where: str) -> None:
    listed = [name for group in names.groups() if group["where"] == where for name in group["names"]]
    assert len(listed) == len(set(listed))
    there = names.names_of(where)
    assert there - set(listed) == set(), "torch has a new name: say in names.toml what becomes of it"
    assert set(listed) - there == set(), "torch has it no more"


def test_each_row_has_a_place_a_status_and_a_reason() -> None:
    for group in names.groups():
        assert group["where"] in PLACES
        assert group["status"] in names.STATUSES
        assert group["reason"]
        assert group["names"]


def test_what_magneto_is_said_to_have_is_there() -> None:
    said = {name for group in names.groups() if group.get("magneto") for name in group["names"]}
    assert said
    assert {name for name in said if not hasattr(magneto, name)} == set()


def test_magneto_compile_takes_the_arguments() -> None:
    said = {name for group in names.groups() if group["where"] == PLACES[0] for name in group["names"]}
    assert said == set(inspect.signature(magneto.compile).parameters) - {"background"}  # magneto's own


def test_the_page_has_the_table() -> None:
    assert names.PAGE.read_text() == names.page(), "run python tests/dropin/names.py"
