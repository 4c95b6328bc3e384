"""`rag-monitor cases` over rows: the same JSON objects as for traces, and a note for what is no row."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from monitor.operations.offline.files import CaseFiles
from tests.support import paths
from tests.support.command import command
from tests.support.traces import CAPTURES

ROWS = paths.DATA / "rows"
ROW = {"query": "Why?", "response": "So.", "context": "Text."}


def run(*paths: Path) -> tuple[list[dict[str, Any]], str, int]:
    """The rows that are printed, what is said on standard error, and how many files and rows could not be read."""
    done = command("cases", *paths)
    found: list[str] = []
    files = CaseFiles(paths, report=found.append)
    assert [json.dumps(one.as_row(), ensure_ascii=False) for one in files.readings()] == done.stdout.splitlines()
    assert (done.exit_code, done.stderr.splitlines()) == (bool(files.unreadable), found)
    return [json.loads(line) for line in done.stdout.splitlines()], done.stderr, files.unreadable


def test_a_row_is_printed_with_the_fields_of_a_trace(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text(json.dumps(ROW))
    rows, notes, unreadable = run(tmp_path / "rows.jsonl")
    traces, _, _ = run(CAPTURES / "openai__otel_genai__span")
    assert list(rows[0]) == list(traces[0])
    assert (rows[0]["status"], rows[0]["request"]["query"], rows[0]["app"]) == ("ready", "Why?", "")
    assert (notes, unreadable) == ("", 0)


def test_a_line_that_is_no_row_is_noted_and_the_rest_is_read(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join([json.dumps(ROW), "", "{broken", '{"foo": 1}', json.dumps({**ROW, "id": 2})]))
    rows, notes, unreadable = run(path)
    assert [row["status"] for row in rows] == ["ready", "ready"]
    assert rows[1]["request_id"] == "2"
    assert unreadable == 2
    first, second = notes.splitlines()
    assert first.startswith(f"{path}: line 3: not JSON")
    assert second.startswith(f"{path}: line 4: the row has 'foo'")


def test_the_fault_of_a_whole_file_is_told_in_full_once(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(['{"prompt": "a", "completion": "b"}'] * 3))
    ended = command("cases", path)
    first, *others = ended.stderr.splitlines()
    assert first.startswith(f"{path}: line 1: the row has 'prompt', 'completion'; expected one of: ")
    assert others == [f"{path}: line {number}: the same as in line 1" for number in (2, 3)]


def test_what_is_printed_is_printed_again_word_for_word(tmp_path: Path) -> None:
    path = tmp_path / "printed.jsonl"
    rows, _, _ = run(CAPTURES / "mlflow__otlp", ROWS / "mlflow")
    path.write_text("\n".join(json.dumps(row) for row in rows))
    assert len(rows) > 10
    assert run(path) == (rows, "", 0)


def test_mlflow_traces_in_a_folder_are_read_and_other_json_is_not() -> None:
    rows, notes, unreadable = run(ROWS / "mlflow")
    facts = json.loads((ROWS / "mlflow" / "expected.json").read_text())["traces"]
    assert {row["request_id"] for row in rows} == set(facts)
    assert unreadable == 0
    assert "expected.json: skipped" in notes


def test_a_json_file_may_hold_one_row_or_a_list(tmp_path: Path) -> None:
    one, several = tmp_path / "one.json", tmp_path / "several.json"
    one.write_text(json.dumps(ROW, indent=2))
    several.write_text(json.dumps([ROW, {"foo": 1}, {**ROW, "id": 2}]))
    rows, notes, unreadable = run(one, several)
    assert [row["status"] for row in rows] == ["ready"] * 3
    assert unreadable == 1
    assert "several.json: row 1: the row has 'foo'" in notes


def test_in_a_folder_lines_are_read_only_where_they_are_rows(tmp_path: Path) -> None:
    shutil.copy(ROWS / "shapes.jsonl", tmp_path / "wrapped.jsonl")
    (tmp_path / "rows.jsonl").write_text(json.dumps(ROW))
    (tmp_path / "requests.jsonl").write_text('{"file": "001.pb", "path": "/v1/traces"}\n')
    (tmp_path / "empty.jsonl").write_text("")
    rows, notes, unreadable = run(tmp_path)
    assert len(rows) == 1
    assert unreadable == 0
    assert [line.split(": ")[0].rpartition("/")[2] for line in notes.splitlines()] == [
        "empty.jsonl", "requests.jsonl", "wrapped.jsonl"
    ]  # fmt: skip


def test_a_table_is_read_as_rows_are(tmp_path: Path) -> None:
    """Contexts in a cell are a JSON list, a Python list as pandas writes it, or one text."""
    path = tmp_path / "rows.csv"
    path.write_text(
        "question;contexts;answer;ground_truth\n"
        'Why?;"[""One."", ""Two.""]";So.;Because\n'
        "Why?;['One.', 'Two.'];So.;\n"
        'Why?;"One.\nAnd more.";So.;\n'
        "Why?;[];So.;\n"
        "Why?;;So.;\n"
        "Why?;So.\n"
    )
    rows, notes, unreadable = run(path)
    texts = [[one["content"] for one in row["retrieved_context"]] for row in rows]
    assert texts == [["One.", "Two."], ["One.", "Two."], ["One.\nAnd more."], [], []]
    assert {row["convention"] for row in rows} == {"ragas_0_1"}
    assert (notes, unreadable) == (f"{path}: line 8: the header names 4 columns, and the row has 2\n", 1)


def test_a_document_may_hold_its_rows_in_data(tmp_path: Path) -> None:
    path = tmp_path / "rows.json"
    path.write_text(json.dumps({"data": [ROW, {"foo": 1}, ROW]}, indent=2))
    rows, notes, unreadable = run(path)
    assert [row["request"]["query"] for row in rows] == ["Why?", "Why?"]
    assert unreadable == 1
    assert "rows.json: row 1: the row has 'foo'" in notes


def test_in_a_folder_a_table_is_read_only_where_its_header_is_that_of_a_row(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("question,answer\nWhy?,So.\n")
    (tmp_path / "prices.csv").write_text("item,price\nbook,3\n")
    rows, notes, unreadable = run(tmp_path)
    assert (len(rows), unreadable) == (1, 0)
    assert "prices.csv: skipped" in notes


def test_the_fields_of_a_row_are_traced_to_its_keys(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps({**ROW, "id": "a", "ground_truth": "So.", "reference": "No.", "latency": 17}))
    ended = command("cases", "--explain", path)
    assert ended.exit_code == 0
    assert (
        ended.stdout
        == """a  ready
  question  "Why?"
              from azure_ai_evaluation: query
  context   1 document: "Text."
              from azure_ai_evaluation: context
  answer    "So."
              from azure_ai_evaluation: response
  model     -
  reference "So."
              from azure_ai_evaluation: ground_truth
  not used:
    reference (3 characters)
    latency (2 characters)

"""
    )
    (line,) = command("cases", "--explain", "--json", path).stdout.splitlines()
    found = json.loads(line)
    assert found["origins"]["reference"][0]["keys"] == ["ground_truth"]
    assert [one["origin"]["keys"] for one in found["unused"]] == [["reference"], ["latency"]]


def test_a_row_whose_retrieval_found_nothing_is_explained_as_that(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text('{"request": "How long?", "response": "Two years.", "retrieved_context": []}\n')
    assert "context   none: the retrieval found nothing\n" in command("cases", "--explain", path).stdout
