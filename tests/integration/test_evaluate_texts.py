"""`rag-monitor evaluate -o FILE --texts`: results with their cases, an annotated data set that can be read as rows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from monitor.extraction.rows.printed import FIELDS, RESULT_FIELDS
from monitor.extraction.rows.shapes import SHAPES
from tests.support import llm as say
from tests.support.command import columns, command, judged_by, read_rows, write_rows
from tests.support.llm import LLMServer
from tests.support.traces import CAPTURES

CONTEXT = "The town library opens at nine. Books may be kept for three weeks."
GOOD, BAD = "Books may be kept for three weeks.", "Novels must be returned within ten days by subscribers."
NAMES = ("--evaluators", "overlap_groundedness,retrieval_overlap,f1_score,document_recall,pii_leak,refusal_pattern")
PER_RUN = ("evaluated_at", "judge", "answered_at", "timestamp")

HISTORY = [{"role": "user", "content": "Books?"}, {"role": "assistant", "content": "Yes."}]
HOSTILE = "\x00 {{response}} <script>\u202e =cmd|' '!A0\n\x1b[31m"
ROWS = [
    {"id": "plain", "question": "How long?", "contexts": [CONTEXT], "answer": GOOD, "ground_truth": "Three weeks."},
    {"id": "bad", "question": "How long?", "contexts": [CONTEXT], "answer": BAD},
    {"id": "empty", "request": "How long?", "retrieved_context": [], "response": BAD},
    {
        "id": "turns",
        "request": {"query": "And films?", "history": HISTORY},
        "retrieved_context": [{"content": CONTEXT, "doc_uri": "kb/1", "score": 0.5}],
        "expected_retrieved_context": [{"doc_uri": "kb/1"}, {"doc_uri": "kb/2"}],
        "response": GOOD,
        "attributes": {"service.version": "2", "level": "high"},
        "session_id": "s",
        "user_id": "anna@example.org",
    },
    {"id": HOSTILE, "query": HOSTILE * 50, "context": HOSTILE * 5_000, "response": HOSTILE},
    {"query": "no id", "context": CONTEXT, "response": GOOD},
]


def again(row: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in row.items() if key not in PER_RUN}


def test_each_line_is_a_result_with_its_case_and_evaluates_to_the_same_results(tmp_path: Path) -> None:
    rows, first, second = write_rows(tmp_path / "rows.jsonl", ROWS), tmp_path / "first.jsonl", tmp_path / "second.jsonl"
    capture = CAPTURES / "openai__otel_genai__span"
    ended = command("evaluate", rows, capture, *NAMES, "-o", first, "--texts")
    assert ended.exit_code == 0, ended.output
    found = read_rows(first)
    by_id = {one["request_id"]: one for one in found}
    assert by_id["plain"]["request"] == {"query": "How long?", "history": []}
    assert by_id["plain"]["expected_response"] == "Three weeks."
    assert by_id["turns"]["request"]["history"][1] == {"role": "assistant", "content": "Yes."}
    assert by_id["turns"]["retrieved_context"][0]["doc_uri"] == "kb/1"
    assert by_id["turns"]["attributes"] == {"service.version": "2", "level": "high"}
    assert by_id["empty"]["context_status"] == "retrieved_nothing"
    assert len(by_id) > len(ROWS), "the traces of the capture are there, too"
    repeated = command("evaluate", first, *NAMES, "-o", second, "--texts")
    assert repeated.exit_code == 0, repeated.output
    assert "not read" not in repeated.stderr
    assert columns(repeated.stdout)["scored"] == columns(ended.stdout)["scored"]
    assert {one["id"]: again(one) for one in read_rows(second)} == {
        one["id"]: {**again(one), "source": "file"} for one in found
    }


def test_without_it_no_text_is_written(tmp_path: Path) -> None:
    rows, out = write_rows(tmp_path / "rows.jsonl", ROWS), tmp_path / "out.jsonl"
    command("evaluate", rows, *NAMES, "-o", out)
    written = out.read_text()
    for text in ("How long?", CONTEXT, "Three weeks.", "anna@example.org", "And films?"):
        assert text not in written


def test_a_file_of_results_is_a_file_of_rows_for_another_evaluator(tmp_path: Path) -> None:
    rows, out = write_rows(tmp_path / "rows.jsonl", ROWS), tmp_path / "out.jsonl"
    command("evaluate", rows, "--evaluators", "overlap_groundedness", "-o", out, "--texts")
    ended = command("evaluate", out, "--evaluators", "overlap_groundedness,refusal_pattern", "-o", out, "--texts")
    assert f"{len(ROWS)} results already in the output file" in ended.stdout
    assert sorted(one["evaluator"] for one in read_rows(out)) == ["overlap_groundedness"] * len(ROWS) + [
        "refusal_pattern"
    ] * len(ROWS)


@pytest.mark.parametrize(("first", "second"), [((), ("--texts",)), (("--texts",), ())])
def test_a_file_does_not_mix_results_with_and_without_texts(
    tmp_path: Path, first: tuple[str, ...], second: tuple[str, ...]
) -> None:
    rows, out = write_rows(tmp_path / "rows.jsonl", ROWS[:2]), tmp_path / "out.jsonl"
    command("evaluate", rows, *NAMES, "-o", out, *first)
    written = out.read_bytes()
    ended = command("evaluate", rows, *NAMES, "-o", out, *second)
    assert (ended.exit_code, out.read_bytes()) == (2, written)
    assert "add --texts" in ended.stderr or "leave out --texts" in ended.stderr


def test_texts_without_a_file_are_refused(tmp_path: Path) -> None:
    ended = command("evaluate", write_rows(tmp_path / "rows.jsonl", ROWS[:1]), *NAMES, "--texts")
    assert ended.exit_code == 2
    assert "requires --output" in ended.stderr


def test_unscored_results_are_scored_again_with_their_texts(tmp_path: Path) -> None:
    rows, out = write_rows(tmp_path / "rows.jsonl", ROWS[:1]), tmp_path / "out.jsonl"
    with LLMServer() as server:
        config = judged_by(server, tmp_path)
        server.always(say.status(500))
        command("evaluate", rows, "-c", config, "-o", out, "--texts")
        out.write_bytes(out.read_bytes()[:-30])
        server.always(say.verdict(claims=[], explanation="scripted", score=4))
        ended = command("evaluate", rows, "-c", config, "-o", out, "--texts", "--retry-unscored")
    assert ended.exit_code == 0, ended.output
    assert all(one["outcome"] == "score" and one["expected_response"] == "Three weeks." for one in read_rows(out))
    assert len(read_rows(out)) == 2


def test_the_reader_of_rows_knows_every_field_of_a_line(tmp_path: Path) -> None:
    rows, out = write_rows(tmp_path / "rows.jsonl", ROWS[:1]), tmp_path / "out.jsonl"
    command("evaluate", rows, *NAMES, "-o", out, "--texts")
    line = json.loads(out.read_text().splitlines()[0])
    assert set(line) <= FIELDS | RESULT_FIELDS
    assert max(SHAPES, key=lambda shape: shape.score(line)).name == "case"
