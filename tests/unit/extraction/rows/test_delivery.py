"""One body of JSON is divided into rows by what it holds; a row that cannot be read takes no other with it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from monitor.errors import InvalidData, TooLarge
from monitor.extraction import rows

ONE, TWO = (
    {"request_id": "1", "query": "Why?", "response": "So."},
    {"request_id": "2", "query": "Who?", "response": "I."},
)


def ids(body: str | bytes, **options: Any) -> list[str]:
    found = rows.take(body if isinstance(body, bytes) else body.encode(), **options)
    assert found.faults == []
    return [row.request_id for row in found.rows]


LINES = f"{json.dumps(ONE)}\n{json.dumps(TWO)}"
COLUMNS = {"columns": list(ONE), "data": [list(ONE.values()), list(TWO.values())]}


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        (json.dumps(ONE), ["1"]),
        (json.dumps(ONE, indent=2), ["1"]),
        (json.dumps([ONE, TWO]), ["1", "2"]),
        (json.dumps({"data": [ONE, TWO]}), ["1", "2"]),
        (json.dumps(COLUMNS), ["1", "2"]),
        (LINES, ["1", "2"]),
        (f"\r\n{LINES}\n\n", ["1", "2"]),
        (LINES.replace("\n", "\r\n\t\r\n"), ["1", "2"]),
        (b"\xef\xbb\xbf" + LINES.encode(), ["1", "2"]),
        ("[]", []),
        ('{"data": []}', []),
    ],
)
def test_rows_come_as_an_object_an_array_a_table_or_lines(body: str | bytes, wanted: list[str]) -> None:
    assert ids(body) == wanted


def test_an_object_that_is_a_row_itself_is_no_table_of_rows() -> None:
    trace = {"info": {"trace_id": "t"}, "data": {"spans": []}}
    assert ids(json.dumps(trace)) == ["t"]
    assert ids(json.dumps({**ONE, "data": [TWO]})) == ["1"]


@pytest.mark.parametrize("bad", [["1", "Why?"], {"query": "Why?"}, ["1", "Why?", "So.", "more"]])
def test_a_table_in_which_a_row_does_not_fit_its_columns_is_refused_with_the_place(bad: Any) -> None:
    body = json.dumps({**COLUMNS, "data": [list(ONE.values()), bad]})
    with pytest.raises(InvalidData, match="`data`, row 1: must be a list of 3 values"):
        rows.take(body.encode())


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity"])
def test_a_number_that_json_does_not_know_is_null(number: str) -> None:
    (row,) = rows.take(f'{{"query": "Why?", "response": "So.", "score": {number}}}'.encode()).rows
    assert json.loads(row.content)["score"] is None


@pytest.mark.parametrize("body", [b"", b" \r\n\t", b"\xef\xbb\xbf", b"\xef\xbb\xbf\n"])
def test_a_body_of_nothing_is_refused(body: bytes) -> None:
    with pytest.raises(InvalidData, match="the body is empty"):
        rows.take(body)


@pytest.mark.parametrize("body", [b"[", b'[{"query": "Why?"', b"[NaN", b"[" * 100_000 + b"NaN"])
def test_an_array_that_breaks_off_is_refused_as_a_whole(body: bytes) -> None:
    with pytest.raises(InvalidData, match=r"the array of rows: not JSON: .* at character"):
        rows.take(body)


def test_a_line_that_cannot_be_read_is_a_fault_with_its_place_and_no_other_row_is_lost() -> None:
    found = rows.take(f"{json.dumps(ONE)}\n\nno json\n{json.dumps(TWO)}\n[]\n7".encode())
    assert [row.request_id for row in found.rows] == ["1", "2"]
    assert [fault.row for fault in found.faults] == [1, 3, 4]
    assert found.faults[0].error.startswith("line 3: not JSON")
    assert found.faults[1].error == "a row must be a JSON object, not a list"
    assert found.faults[2].error == "a row must be a JSON object, not a number"


@pytest.mark.parametrize("body", [LINES, json.dumps([ONE, TWO]), json.dumps({"data": [ONE, TWO]})])
def test_a_delivery_may_have_as_many_rows_as_the_limit_and_no_more(body: str) -> None:
    assert ids(body, max_rows=2) == ["1", "2"]
    with pytest.raises(TooLarge, match="2 rows in one request; the limit is 1"):
        rows.take(body.encode(), max_rows=1)


@pytest.mark.parametrize("body", ["[ONE,CUT,TWO]", "ONE\nCUT\nTWO", '{"data": [ONE,CUT,TWO]}'])
@pytest.mark.parametrize("beside", ["1", "NaN"])
def test_half_a_character_in_a_row_takes_neither_the_row_nor_others_with_it(body: str, beside: str) -> None:
    cut = f'{{"request_id": "cut", "query": "Why \\ud83d", "response": "So.", "top_score": {beside}}}'
    sent = body.replace("ONE", json.dumps(ONE)).replace("TWO", json.dumps(TWO)).replace("CUT", cut)
    found = rows.take(sent.encode())
    assert [row.request_id for row in found.rows] == ["1", "cut", "2"]
    assert json.loads(found.rows[1].content)["query"] == "Why \ufffd"


def test_blank_lines_are_no_rows_to_the_limit() -> None:
    assert ids(f"\n{LINES}\n\n \n", max_rows=2) == ["1", "2"]


def test_a_row_may_be_as_large_as_the_limit_and_no_larger() -> None:
    (row,) = rows.take(json.dumps(ONE).encode()).rows
    size = len(row.content)
    assert ids(json.dumps(ONE), max_row_bytes=size) == ["1"]
    found = rows.take(json.dumps([ONE, {"query": "x", "response": "y"}]).encode(), max_row_bytes=size - 1)
    assert len(found.rows) == 1
    assert [tuple(fault) for fault in found.faults] == [(0, f"the row has {size} bytes; the limit is {size - 1}")]


def test_the_app_of_the_sender_stands_for_rows_that_name_none() -> None:
    found = rows.take(json.dumps([ONE, {**TWO, "app": "desk"}]).encode(), app="shop").rows
    assert [row.app for row in found] == ["shop", "desk"]
