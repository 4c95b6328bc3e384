"""`rag-monitor cases` over recorded captures: what is read is what the application asked, retrieved and answered."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from monitor.model.case import trace_of
from monitor.operations.offline.files import CaseFiles
from tests.support.command import command
from tests.support.otlp_spans import span
from tests.support.traces import CAPTURES, SETUPS, captured_parts, expected


def run(*paths: Path) -> tuple[list[dict[str, Any]], str, int]:
    """The rows that are printed, what is said on standard error, and how many files and rows could not be read."""
    done = command("cases", *paths)
    found: list[str] = []
    files = CaseFiles(paths, report=found.append)
    assert [json.dumps(one.as_row(), ensure_ascii=False) for one in files.readings()] == done.stdout.splitlines()
    assert (done.exit_code, done.stderr.splitlines()) == (bool(files.unreadable), found)
    return [json.loads(line) for line in done.stdout.splitlines()], done.stderr, files.unreadable


def flat(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.parametrize("setup", SETUPS)
def test_recorded_traffic_is_read_as_it_was(setup: str) -> None:
    rows, _, unreadable = run(SETUPS[setup])
    assert unreadable == 0
    by_id = {row["request_id"]: row for row in rows}
    requests = Counter(trace_of(row["request_id"]) for row in rows)
    assert requests == dict.fromkeys((trace_id.hex() for trace_id in captured_parts(setup)), 1), "one request a trace"
    for trace_id, facts in expected(setup).items():
        row = by_id[trace_id]
        status = facts.get("status") or "ready"
        if facts["error"] and not facts.get("status"):
            status = "failed_request"
            assert row["error"]
        unrecorded = status == "not_recorded"
        assert row["status"] == ("ready" if unrecorded else status), facts
        if row["status"] != "ready":
            continue
        came = "retrieved" if facts["contexts"] else "retrieved_nothing"
        assert row["context_status"] == ("not_recorded" if unrecorded else came)
        assert row["request"] == {"query": facts["question"], "history": facts["history"]}
        assert flat(row["response"]) == flat(facts["answer"])
        if not unrecorded:
            assert [flat(c["content"]) for c in row["retrieved_context"]] == [flat(text) for text in facts["contexts"]]
        if row["model"]:
            assert row["model"] in (facts["model"], facts["request_model"])
        if facts["case"] != "streaming":  # a streamed answer may come without counts
            assert row["usage"]["total_tokens"] == facts["total_tokens"]
        assert facts["session_id"] is None or row["session_id"] == facts["session_id"]
    assert not [row for row in rows if row["status"] == "ready" and row["request_id"] not in expected(setup)]


def test_traces_come_in_the_order_of_their_first_arrival() -> None:
    setup = "captures/langchain__openinference__split"
    rows, _, _ = run(SETUPS[setup])
    assert [row["request_id"] for row in rows] == [trace_id.hex() for trace_id in captured_parts(setup)]


def test_a_row_has_all_documented_fields() -> None:
    rows, _, _ = run(CAPTURES / "openai__otel_genai__span")
    wanted = (
        "request_id status request retrieved_context context_source context_status response expected_response "
        "expected_retrieved_context prompt model usage session_id user_id app span_id attributes timestamp seconds "
        "convention error"
    )
    assert list(rows[0]) == wanted.split()
    assert set(rows[0]["usage"]) == {"input_tokens", "output_tokens", "total_tokens"}


def test_a_trace_whose_records_are_missing_has_no_content(tmp_path: Path) -> None:
    for path in (CAPTURES / "openai__otel_v2__legacy").glob("*.pb"):
        if not path.name.endswith(".logs.pb"):
            (tmp_path / path.name).write_bytes(path.read_bytes())
    rows, _, _ = run(tmp_path)
    assert {row["status"] for row in rows} == {"content_missing", "failed_request"}


def test_otlp_json_is_read_too(tmp_path: Path) -> None:
    span = {
        "traceId": "5b8efff798038103d269b633813fc60c",
        "spanId": "eee19b7ec3c1b174",
        "name": "chat",
        "startTimeUnixNano": "1",
        "endTimeUnixNano": "2",
        "attributes": [{"key": "gen_ai.operation.name", "value": {"stringValue": "chat"}}],
    }
    body = {"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}
    (tmp_path / "001.json").write_text(json.dumps(body))
    rows, notes, unreadable = run(tmp_path)
    assert [(row["request_id"], row["status"]) for row in rows] == [(span["traceId"], "content_missing")]
    assert (notes, unreadable) == ("", 0)


def written(tmp_path: Path, *spans: dict[str, Any]) -> list[dict[str, Any]]:
    """What `cases` prints of these spans of one trace, sent by an OpenInference instrumentation."""
    scoped = {"scope": {"name": "openinference.instrumentation.own"}, "spans": spans}
    (tmp_path / "001.json").write_text(json.dumps({"resourceSpans": [{"scopeSpans": [scoped]}]}))
    return run(tmp_path)[0]


TRACE = "5b8efff798038103d269b633813fc60c"
EXCHANGES = [
    ("How long is the warranty of a bike?", "The warranty of every bike is two years."),
    ("What does a day with a cargo bike cost?", "A day with a cargo bike costs ten euros."),
]


def call(number: int, prompt: str, answer: str) -> dict[str, Any]:
    message = {"llm.input_messages.0.message.role": "user", "llm.input_messages.0.message.content": prompt}
    return span(TRACE, number, {"openinference.span.kind": "LLM", **message, "output.value": answer}, parent=1)


def test_each_exchange_of_a_batch_of_objects_is_a_request_with_its_part_of_the_tokens(tmp_path: Path) -> None:
    inputs = json.dumps([{"question": question} for question, _ in EXCHANGES])
    outputs = json.dumps([{"answer": answer} for _, answer in EXCHANGES])
    batch = {"openinference.span.kind": "CHAIN", "input.value": inputs, "output.value": outputs}
    calls = [call(number, *exchange) for number, exchange in enumerate(EXCHANGES, 2)]
    rows = written(tmp_path, span(TRACE, 1, batch), *calls)
    assert [(row["request"]["query"], row["response"]) for row in rows] == EXCHANGES
    agent = {"gen_ai.operation.name": "invoke_agent", "gen_ai.usage.input_tokens": "21"}
    rows = written(tmp_path, span(TRACE, 1, agent), *calls)
    assert [row["usage"]["input_tokens"] for row in rows] == [11, 10]


def test_a_check_that_is_shown_question_and_answer_is_not_the_answer(tmp_path: Path) -> None:
    question, answer = EXCHANGES[0]
    asks = f"Question: {question}\nAnswer: {answer}\nIs the answer grounded? Reply yes or no."
    root = span(TRACE, 1, {"openinference.span.kind": "CHAIN"})
    (row,) = written(tmp_path, root, call(2, question, answer), call(3, asks, "yes"))
    assert (row["request"]["query"], row["response"]) == (question, answer)


def test_other_files_of_a_folder_are_noted_and_harmless(tmp_path: Path) -> None:
    (tmp_path / "expected.json").write_text('{"traces": {}}')
    (tmp_path / "requests.jsonl").write_text("{}")
    rows, notes, unreadable = run(tmp_path)
    assert (rows, unreadable) == ([], 0)
    assert "expected.json: skipped" in notes
    assert "requests.jsonl: skipped" in notes


def test_a_file_that_cannot_be_read_is_named_and_the_rest_is_read_all_the_same(tmp_path: Path) -> None:
    (tmp_path / "000.pb").write_bytes(b"\xff\xff\xff")
    (tmp_path / "001.json").write_text('{"resourceSpans": 3')
    good = next(iter((CAPTURES / "openai__otel_genai__span").glob("*.pb")))
    missing, text = tmp_path / "missing.pb", tmp_path / "notes.txt"
    text.write_text("hello")
    rows, notes, unreadable = run(tmp_path / "000.pb", tmp_path / "001.json", missing, text, good)
    assert rows
    assert unreadable == 4
    for path in ("000.pb", "001.json", "missing.pb", "notes.txt"):
        assert f"{path}: cannot be read: " in notes


def test_a_file_that_is_not_there_is_said_to_be_so(tmp_path: Path) -> None:
    rows, notes, unreadable = run(tmp_path / "none")
    assert (rows, unreadable) == ([], 1)
    assert "No such file" in notes


def test_a_trace_of_two_requests_is_two_lines_and_explained_by_its_spans(tmp_path: Path) -> None:
    trace_id = "5b8efff798038103d269b633813fc60c"

    def span(number: int, parent: str, **attributes: str) -> dict[str, Any]:
        listed = [{"key": key.replace("__", "."), "value": {"stringValue": text}} for key, text in attributes.items()]
        times = {"startTimeUnixNano": str(number), "endTimeUnixNano": str(number + 9)}
        ids = {"traceId": trace_id, "spanId": f"{number:016x}", "parentSpanId": parent}
        return {**ids, **times, "name": f"step {number}", "attributes": listed}

    spans = [span(1, "")]
    for number, question in ((2, "How long is the warranty?"), (4, "What does the ferry cost?")):
        answer = f"The answer to question {number} is not known to me."
        chain = {"openinference__span__kind": "CHAIN", "input__value": question, "output__value": answer}
        called = {"openinference__span__kind": "LLM", "llm__input_messages__0__message__content": question}
        called |= {"llm__input_messages__0__message__role": "user", "llm__output_messages__0__message__content": answer}
        spans += [span(number, f"{1:016x}", **chain), span(number + 1, f"{number:016x}", **called)]
    body = {"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}
    (tmp_path / "001.json").write_text(json.dumps(body))
    rows, _, _ = run(tmp_path)
    ids = [f"{trace_id}/{number:016x}" for number in (2, 4)]
    assert [(row["request_id"], row["request"]["query"]) for row in rows] == list(
        zip(ids, ("How long is the warranty?", "What does the ferry cost?"), strict=True)
    )
    explained = command("cases", "--explain", tmp_path).stdout
    assert f"{ids[0]}  ready\n  spans     step 2 {2:016x}, step 3 {3:016x}\n" in explained
    assert f"{ids[1]}  ready\n  spans     step 4 {4:016x}, step 5 {5:016x}\n" in explained
