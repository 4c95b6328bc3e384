"""The table of faults and attacks is whole, and each of its rows names tests that exist."""

from __future__ import annotations

import re

import pytest

from tests import faults
from tests.support.paths import ROOT


def test_no_row_is_missing() -> None:
    assert list(faults.ROWS) == [f"F{number}" for number in range(1, 21)] + [f"S{number}" for number in range(1, 23)]


@pytest.mark.parametrize("number", faults.ROWS)
def test_a_row_names_tests_that_exist(number: str) -> None:
    assert [one for one in faults.ROWS[number].tests if not faults.exists(one)] == []


def test_a_test_that_does_not_exist_is_noticed() -> None:
    assert not faults.exists("unit/test_faults.py::test_that_does_not_exist_" + "at_all")
    assert not faults.exists("unit/test_missing.py::")


def test_the_page_holds_the_table() -> None:
    """`python -m tests.faults --list` writes it."""
    assert faults.table() in (ROOT / "docs" / "reliability.md").read_text()


def test_the_tests_of_a_row_are_run_and_counted() -> None:
    found = faults.run(["S1"])["S1"]
    assert re.fullmatch(r"(\d+) of \1 tests pass", found), found
