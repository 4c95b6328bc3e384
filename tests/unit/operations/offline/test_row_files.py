"""Rows come out of files as they were written, in every format and encoding; a bad row costs one row."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.errors import InvalidData
from monitor.operations.offline import row_files
from monitor.operations.offline.row_files import BadRow, FileNotes, FileRow, read_rows
from tests.support.examples import examples

HEADER = ("question", "contexts", "answer", "ground_truth")
ROW = {"question": "Why?", "contexts": "Text.", "answer": "So."}


def contents(path: Path) -> list[Any]:
    """The rows as parsed JSON, and for what is none its reason as a text."""
    return [json.loads(one.row.content) if isinstance(one, FileRow) else str(one) for one in read_rows(path)]


def table(path: Path, *lines: str, encoding: str = "utf-8") -> Path:
    path.write_bytes("\n".join(lines).encode(encoding))
    return path


def refused(path: Path) -> str:
    with pytest.raises(InvalidData) as error:
        list(read_rows(path))
    return str(error.value)


# -- tables


@pytest.mark.parametrize("separator", [",", ";", "\t"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_table_is_read_with_every_separator_encoding_and_end_of_line(
    tmp_path: Path, separator: str, encoding: str, end: str
) -> None:
    text = io.StringIO(newline="")
    writer = csv.writer(text, delimiter=separator, lineterminator=end)
    cells = ["Why, é; oh?", 'A "quoted"\ntext\twith all', "是", ""]
    writer.writerows([HEADER, cells, cells])
    path = tmp_path / "rows.csv"
    path.write_bytes(text.getvalue().encode(encoding))
    assert contents(path) == [dict(zip(HEADER, [*cells[:3], None], strict=True))] * 2


CELL = st.text(st.characters(codec="utf-8", exclude_characters="\r"), max_size=20)


@given(
    st.lists(st.tuples(CELL.filter(str.strip), *[CELL] * 3), min_size=1, max_size=5),
    st.sampled_from(",;\t"),
    st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "utf-32"]),
)
@examples(60)
def test_what_a_program_writes_is_read_word_for_word(
    tmp_path: Path, written: Sequence[Sequence[str]], separator: str, encoding: str
) -> None:
    text = io.StringIO(newline="")
    csv.writer(text, delimiter=separator).writerows([HEADER, *written])
    path = tmp_path / "rows.csv"
    path.write_bytes(text.getvalue().encode(encoding))
    wanted = [[cell if cell.strip() else None for cell in row] for row in written]
    assert contents(path) == [dict(zip(HEADER, row, strict=True)) for row in wanted]


def test_a_separator_within_a_header_name_or_a_text_does_not_mislead(tmp_path: Path) -> None:
    path = table(tmp_path / "rows.csv", "question;answer;note, private", "a, b, c, d;e, f;g")
    assert contents(path) == [{"question": "a, b, c, d", "answer": "e, f", "note, private": "g"}]


def test_the_index_column_of_pandas_and_empty_rows_say_nothing(tmp_path: Path) -> None:
    path = table(tmp_path / "rows.csv", ",question,answer", "0,Why?,So.", "", ",,", "1,When?,Now.")
    assert contents(path) == [{"question": "Why?", "answer": "So."}, {"question": "When?", "answer": "Now."}]


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        (["question,answer", "Why?"], "line 2: the header names 2 columns, and the row has 1"),
        (["question,answer", "Why?,So, there"], "line 2: the header names 2 columns, and the row has 3"),
        (["question,answer", '"Why?"x,So'], "line 2: there is text after the closing quote of a cell"),
        (["question,answer", '"Why?,So', "a,b"], "line 2: a cell that begins in this row has an opening quote"),
    ],
)
def test_a_bad_row_is_named_with_its_line(tmp_path: Path, lines: list[str], told: str) -> None:
    good = "Why?,So."
    path = table(tmp_path / "rows.csv", lines[0], good, *lines[1:])
    found = contents(path)
    assert found[0] == {"question": "Why?", "answer": "So."}
    assert found[1].startswith(told.replace("line 2", "line 3"))


def test_the_rows_after_a_bad_one_are_read_with_their_own_lines(tmp_path: Path) -> None:
    path = table(tmp_path / "rows.csv", "question,answer", '"two\nlines",So.', "one", "Why?,So.", "")
    places = [one.place if isinstance(one, FileRow) else str(one) for one in read_rows(path)]
    assert places == ["line 2", "line 4: the header names 2 columns, and the row has 1", "line 5"]


def test_a_cell_in_another_encoding_is_named_with_line_and_column(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_bytes("question,answer\nWhy?,So.\nWhy?,Café\n".encode("cp1252"))
    assert contents(path)[1] == "line 3: column 2 ('answer'): the cell is not UTF-8: save the file as UTF-8"


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        (["foo,bar", "1,2"], "line 1: the header has 'foo', 'bar'; expected one of: "),
        (["question", "1"], "line 1: the header has 'question'; expected one of: "),
        (["request", "1"], "line 1: there is only one column"),
        (["question,answer,answer", "1,2,3"], "line 1: the column 'answer' appears twice"),
        ([""], "no rows: the file is empty"),
    ],
)
def test_a_header_that_is_none_is_refused(tmp_path: Path, lines: list[str], told: str) -> None:
    assert refused(table(tmp_path / "rows.csv", *lines)).startswith(told)


def test_a_million_columns_are_refused_shortly(tmp_path: Path) -> None:
    path = table(tmp_path / "rows.csv", "question,answer," + ",".join(map(str, range(1_000_000))), "1,2")
    assert refused(path) == "line 1: the header has 1000002 columns; the limit is 1000"


def test_a_huge_cell_is_refused_with_its_column_and_the_next_row_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_files, "MAX_CELL", 1_000)
    path = table(tmp_path / "rows.csv", "question,answer", f"Why?,{'x' * 1_001}", f"Why?,{'x' * 1_000}")
    error, row = contents(path)
    assert error == "line 2: column 2 ('answer'): the cell has 1,001 characters; the limit is 1,000"
    assert len(row["answer"]) == 1_000


@pytest.mark.parametrize("filling", ["x" * 5_000, "x\n" * 2_500])
def test_a_quote_that_is_never_closed_ends_the_file_early(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, filling: str
) -> None:
    monkeypatch.setattr(row_files, "MAX_TABLE_ROW", 1_000)
    path = table(tmp_path / "rows.csv", "question,answer", "Why?,So.", f'Why?,"{filling}', "Why?,So.")
    row, error = contents(path)
    assert row == {"question": "Why?", "answer": "So."}
    assert error == "line 3: the row has over 1,000 characters: is a quote not closed?; nothing after it is read"


def test_zero_characters_and_deep_json_in_a_cell_are_texts(tmp_path: Path) -> None:
    deep = "[" * 5_000 + "]" * 5_000
    path = table(tmp_path / "rows.csv", "question,answer,contexts", f"a\x00b,So.,{deep}")
    assert contents(path) == [{"question": "a\x00b", "answer": "So.", "contexts": deep}]


@given(st.binary(max_size=80))
@examples(150)
def test_any_bytes_are_rows_or_refused(tmp_path: Path, body: bytes) -> None:
    for name in ("rows.csv", "rows.jsonl", "rows.json"):
        for start in (b"", b"question,answer\n", b"\xff\xfe", b"\xef\xbb\xbf"):
            path = tmp_path / name
            path.write_bytes(start + body)
            try:
                found = list(read_rows(path))
            except InvalidData:
                continue
            assert all(isinstance(one, FileRow | BadRow) for one in found)


# -- JSON


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
def test_lines_and_documents_are_read_in_every_encoding(tmp_path: Path, encoding: str) -> None:
    row = {**ROW, "answer": "Café 是\u2028\U0001f642"}
    (tmp_path / "rows.jsonl").write_bytes(
        f"{json.dumps(row, ensure_ascii=False)}\n\n{json.dumps(row)}".encode(encoding)
    )
    (tmp_path / "rows.json").write_bytes(json.dumps([row, row], indent=1, ensure_ascii=False).encode(encoding))
    assert contents(tmp_path / "rows.jsonl") == contents(tmp_path / "rows.json") == [row, row]


def test_utf_16_without_a_mark_is_said_to_be_that(tmp_path: Path) -> None:
    for name in ("rows.csv", "rows.jsonl", "rows.json"):
        for encoding in ("utf-16-le", "utf-16-be"):
            (tmp_path / name).write_bytes(json.dumps(ROW).encode(encoding))
            assert "without a byte order mark" in refused(tmp_path / name)


@pytest.mark.parametrize(
    "document",
    [
        {"data": [ROW, ROW]},
        {"data": [ROW, ROW], "name": "test set", "version": 3},
        {"columns": list(ROW), "data": [list(ROW.values())] * 2},
        {"columns": list(ROW), "index": [0, 1], "data": [list(ROW.values())] * 2},
    ],
)
@pytest.mark.parametrize("indent", [None, 2])
def test_rows_may_stand_in_data(tmp_path: Path, document: Any, indent: int | None) -> None:
    path = tmp_path / "rows.json"
    path.write_text(json.dumps(document, indent=indent))
    assert contents(path) == [ROW, ROW]


def test_values_that_do_not_fit_their_columns_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "rows.json"
    path.write_text(json.dumps({"columns": ["question", "answer"], "data": [["Why?", "So."], ["Why?"]]}))
    assert refused(path) == "`data`, row 1: must be a list of 2 values, one for each of `columns`"


def test_the_bytes_that_are_read_add_up_to_the_file(tmp_path: Path) -> None:
    for name, body in {
        "rows.jsonl": f"{json.dumps(ROW)}\n" * 3,
        "rows.csv": "question,answer\nWhy?,Caf\u00e9\n" * 1,
        "rows.json": json.dumps([ROW]),
    }.items():
        (tmp_path / name).write_text(body)
        read: list[int] = []
        list(read_rows(tmp_path / name, read.append))
        assert sum(read) == (tmp_path / name).stat().st_size


def test_a_reason_is_told_in_full_once_and_then_where_it_occurs_again(tmp_path: Path) -> None:
    said: list[str] = []
    notes = FileNotes(tmp_path, said.append)
    for place, reason in (("line 1", "a"), ("line 2", "b"), ("line 4", "a"), ("line 5", "a"), ("", "c"), ("", "c")):
        notes.bad(BadRow(place, reason))
    assert [one.removeprefix(f"{tmp_path}: ") for one in said] == [
        *("line 1: a", "line 2: b", "line 4: the same as in line 1", "line 5: the same as in line 1", "c", "c")
    ]
    assert notes.bad_rows == 6
