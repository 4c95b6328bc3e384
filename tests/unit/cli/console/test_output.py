from __future__ import annotations

from monitor.cli.console.output import align, without_empty


def test_columns_line_up_whatever_their_cells():
    assert list(align([["", "a", "long name"], ["rate", "1.25", "-"], ["a longer word", "-", "7"]])) == [
        "                  a  long name",
        "rate           1.25          -",
        "a longer word     -          7",
    ]


def test_a_row_without_a_single_value_is_left_out():
    assert without_empty([["cost", "-", "-"], ["rate", "-", "1"]]) == [["rate", "-", "1"]]
