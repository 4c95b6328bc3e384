from __future__ import annotations

import html
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from monitor.cli.console.output import align, clean, echo_json, fit, in_markdown, without_empty, wrap

CELLS = st.text("abc%", min_size=1, max_size=12)


def test_columns_line_up_whatever_their_cells():
    assert list(align([["", "a", "long name"], ["rate", "1.25", "-"], ["a longer word", "-", "7"]])) == [
        "                  a  long name",
        "rate           1.25          -",
        "a longer word     -          7",
    ]


def test_a_row_without_a_single_value_is_left_out():
    assert without_empty([["cost", "-", "-"], ["rate", "-", "1"]]) == [["rate", "-", "1"]]


def test_columns_that_do_not_fit_follow_below_with_the_first_one():
    assert list(fit([["name", "one", "two", "three"], ["a", "1", "2", "3"], ["b", "10", "20", "30"]], 17)) == [
        "name  one  two",
        "a       1    2",
        "b      10   20",
        "",
        "name  three",
        "a         3",
        "b        30",
    ]


def test_a_long_first_column_is_cut():
    assert list(fit([["name", "one"], ["a" * 50, "1"]], 36)) == ["name          one", "aaaaaaaaa...    1"]


@given(st.integers(1, 8).flatmap(lambda n: st.lists(st.lists(CELLS, min_size=n, max_size=n), min_size=1)))
def test_a_table_that_is_folded_has_every_cell_and_no_line_that_is_too_long(rows):
    lines = list(fit(rows, 40))
    assert max(map(len, lines)) <= 40
    tables = "\n".join(lines).split("\n\n")
    found = [[cell for table in tables for cell in table.split("\n")[at].split()[1:]] for at in range(len(rows))]
    assert found == [list(row[1:]) for row in rows] if len(rows[0]) > 1 else lines == [row[0] for row in rows]


@given(CELLS, st.lists(CELLS, max_size=20))
def test_items_are_wrapped_at_the_width_and_begin_at_the_indent(name, items):
    lines = list(wrap(name, items, 40, indent=14))
    assert max(map(len, lines)) <= 40
    assert lines[0].startswith(name)
    assert [item for line in lines for item in line[14:].split()] == items


@given(st.text() | st.text("@#-+.)1 <>![](){}`*_~|&;:/w\\"))
def test_a_text_in_markdown_is_one_paragraph_of_just_this_text(text: str):
    shown = MarkdownIt("commonmark").enable(["table", "strikethrough"]).render(in_markdown(text))
    said = html.unescape(shown).removeprefix("<p>").removesuffix("</p>\n")
    assert said.replace("\u200b", "").split() == clean(text).replace("\u200b", "").split()
    assert not any(call in said for call in ("@a", "#1", "://", "www."))


def test_half_a_surrogate_pair_is_printed_as_a_question_mark(capsys: pytest.CaptureFixture[str]):
    echo_json([{"document": "kb/\ud800 \u00e9", "pair": (1, None)}])
    assert json.loads(capsys.readouterr().out) == [{"document": "kb/? \u00e9", "pair": [1, None]}]
