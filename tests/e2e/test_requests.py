"""Every question of a trace, every answer of a conversation is judged, counted and explained by a running monitor."""

from __future__ import annotations

import json
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from monitor.config import load
from monitor.extraction.partition import MAX_REQUESTS
from monitor.operations.erase import erase
from tests.support.command import command
from tests.support.monitor import MonitorProcess, assert_balanced
from tests.support.service import BAD, CONTEXT, GOOD
from tests.support.tools import wait_until

BATCH, LONELY, LOOP, CHAT = (f"{number:02x}" * 16 for number in (0xA1, 0xA2, 0xA3, 0xA4))


def span(trace: str, number: int, attributes: dict[str, str], parent: int = 0) -> dict[str, Any]:
    return {
        "traceId": trace,
        "spanId": f"{number:016x}",
        "parentSpanId": f"{parent:016x}" if parent else "",
        "name": f"step {number}",
        "startTimeUnixNano": str(time.time_ns() + number),
        "endTimeUnixNano": str(time.time_ns() + 1_000_000_000),
        "attributes": [{"key": key, "value": {"stringValue": value}} for key, value in attributes.items()],
    }


def chain(trace: str, number: int, question: str, answer: str, parent: int = 0) -> list[dict[str, Any]]:
    """A question with its answer, its retrieval and its call of a model: three spans from `number` on."""
    stated = {"openinference.span.kind": "CHAIN", "input.value": question, "output.value": answer}
    found = {"openinference.span.kind": "RETRIEVER", "retrieval.documents.0.document.content": CONTEXT}
    called = {
        "openinference.span.kind": "LLM",
        "llm.input_messages.0.message.role": "user",
        "llm.input_messages.0.message.content": f"Context: {CONTEXT}\n\nQuestion: {question}",
        "llm.output_messages.0.message.role": "assistant",
        "llm.output_messages.0.message.content": answer,
    }
    return [
        span(trace, number, stated, parent),
        span(trace, number + 1, found, number),
        span(trace, number + 2, called, number),
    ]


def send(monitor: MonitorProcess, *spans: dict[str, Any]) -> None:
    resource = {"attributes": [{"key": "service.name", "value": {"stringValue": "shop"}}]}
    scoped = {"scope": {"name": "openinference.instrumentation.own"}, "spans": spans}
    body = {"resourceSpans": [{"resource": resource, "scopeSpans": [scoped]}]}
    assert monitor.post(json.dumps(body).encode(), "/v1/traces", "application/json") == 200


def send_row(monitor: MonitorProcess, row: dict[str, Any]) -> None:
    assert monitor.post(json.dumps(row).encode(), "/v1/cases?service=desk", "application/json") == 200


@pytest.fixture(scope="module")
def monitor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MonitorProcess]:
    folder = tmp_path_factory.mktemp("requests")
    config = {
        "evaluators": [{"type": "overlap_groundedness"}, {"type": "response_length"}],
        "storage": {"path": str(folder / "state"), "texts": "all"},
    }
    with MonitorProcess(folder, config) as running:
        session = {"session.id": "one conversation"}
        spans = [span(BATCH, 1, session)]
        spans += chain(BATCH, 10, "Can an annual plan be refunded?", GOOD, 1)
        spans += chain(BATCH, 20, "What comes with every plan of yours?", BAD, 1)
        send(running, *spans)
        send(running, *chain(LONELY, 1, "Can I get my money back?", GOOD))
        talk = [
            {"role": "user", "content": "What comes with every plan?"},
            {"role": "assistant", "content": BAD, "context": {"citations": [{"content": CONTEXT}]}},
            {"role": "user", "content": "And can I get my money back?"},
            {"role": "assistant", "content": GOOD, "context": {"citations": [{"content": CONTEXT}]}},
        ]
        send_row(running, {"request_id": CHAT, "messages": talk})
        wait_until(lambda: running.total("ragmonitor_requests_total") == 5, 30, "the end of all requests")
        wait_until(lambda: running.total("ragmonitor_traces_pending") == 0, 10, "the end of all traces")
        logged = "ragmonitor_request_log_records_total"
        wait_until(lambda: running.total(logged, outcome="kept") >= 5, 10, "the request log")
        yield running


def why(monitor: MonitorProcess, request_id: str) -> dict[str, Any]:
    address = f"http://127.0.0.1:{monitor.metrics_port}/api/v1/why?trace={request_id}"
    with urllib.request.urlopen(address, timeout=60) as answer:
        found: dict[str, Any] = json.load(answer)
    return found


def test_each_question_and_each_turn_is_judged_and_counted_once(monitor: MonitorProcess) -> None:
    assert_balanced(monitor.samples())
    assert monitor.total("ragmonitor_traces_total", outcome="read") == 3
    assert monitor.total("ragmonitor_requests_found_total", app="shop") == 3
    assert monitor.total("ragmonitor_requests_total", app="desk", outcome="evaluated") == 2
    of = {"evaluator": "overlap_groundedness"}
    assert monitor.total("ragmonitor_evaluations_total", app="shop", defect="true", **of) == 1
    assert monitor.total("ragmonitor_evaluations_total", app="shop", defect="false", **of) == 2
    assert monitor.total("ragmonitor_evaluations_total", app="desk", defect="true", **of) == 1


def test_a_conversation_with_a_defect_is_counted_as_one(monitor: MonitorProcess) -> None:
    for app in ("shop", "desk"):
        of = {"app": app, "evaluator": "overlap_groundedness"}
        assert monitor.total("ragmonitor_sessions_total", **of) == 1
        assert monitor.total("ragmonitor_sessions_defective_total", **of) == 1


def test_why_explains_each_request_of_a_trace_and_one_of_them(monitor: MonitorProcess) -> None:
    found = why(monitor, BATCH)
    assert found["conclusion"] == "It holds 2 requests: 2 evaluated."
    assert [one["subject"] for one in found["requests"]] == [
        f"request {number:016x} of trace {BATCH}" for number in (10, 20)
    ]
    assert all(any(step["what"] == "score" for step in one["steps"]) for one in found["requests"])
    one = why(monitor, f"{BATCH}/{20:016x}")
    assert (one["subject"], one["requests"]) == (f"request {20:016x} of trace {BATCH}", [])
    assert "step 21" in next(step["text"] for step in one["steps"] if step["what"] == "assembled")
    assert why(monitor, LONELY)["requests"] == []
    assert len(why(monitor, CHAT)["requests"]) == 2
    assert why(monitor, f"{CHAT}/2")["cause"] == "evaluated"


def test_why_says_the_same_on_the_terminal_from_the_storage_folder(monitor: MonitorProcess) -> None:
    wait_until(
        lambda: monitor.total("ragmonitor_request_log_records_total", outcome="kept") >= 5, 10, "the request log"
    )
    done = command("why", BATCH, "-c", monitor.folder / "config.yaml")
    assert done.exit_code == 0, done.output
    assert "It holds 2 requests: 2 evaluated." in done.stdout
    assert done.stdout.count(f"of trace {BATCH}") == 2


def test_a_diagnosis_reads_what_the_running_monitor_keeps_of_each_answer(monitor: MonitorProcess) -> None:
    of = ("--app", "shop", "--evaluator", "overlap_groundedness", "-c", monitor.folder / "config.yaml")

    def answers() -> int:
        done = command("diagnose", *of, "--json")
        return int(json.loads(done.stdout)["answers"]) if done.exit_code == 0 else 0

    wait_until(lambda: answers() == 3, 30, "the features of three answers")
    assert "too few bad answers to compare with" in command("diagnose", *of).stdout


def test_the_page_shows_both_requests_and_links_to_each_case(monitor: MonitorProcess) -> None:
    page = monitor.get(f"/why?trace={BATCH}")
    assert page.count('<article class="because">') == 3
    answers = json.loads(monitor.get("/api/v1/answers?app=shop&outcome=any"))["answers"]
    ids = {one["request_id"] for one in answers}
    assert ids == {f"{BATCH}/{10:016x}", f"{BATCH}/{20:016x}", LONELY}
    case = json.loads(monitor.get(f"/api/v1/cases/{BATCH}%2F{20:016x}"))
    assert (case["trace_id"], case["response"]) == (BATCH, BAD)


def test_a_trace_of_thousands_of_requests_is_bounded_and_none_is_lost(tmp_path: Path) -> None:
    """The load that a stranger can cause; each span is small, so the trace is within the limit on its size."""
    number = 9_000
    assembly = {"max_trace_spans": 50_000, "grace_period": "300ms", "idle_timeout": "60s"}
    config = {"evaluators": [{"type": "response_length"}], "assembly": assembly}
    with MonitorProcess(tmp_path, config) as running:
        spans = []
        for at in range(number):
            stated = {
                "openinference.span.kind": "LLM",
                "llm.input_messages.0.message.role": "user",
                "llm.input_messages.0.message.content": f"What is to be known of plan number {at}?",
                "llm.output_messages.0.message.role": "assistant",
                "llm.output_messages.0.message.content": f"Plan number {at} is a plan like all others.",
            }
            spans.append(span(LOOP, 10 + at, stated, 1))
        for start in range(0, len(spans), 3000):
            send(running, *spans[start : start + 3000])
        send(running, span(LOOP, 1, {}))  # the root comes last, and closes the trace
        wait_until(lambda: running.total("ragmonitor_requests_found_total") == number, 60, "the reading of the trace")
        wait_until(lambda: running.total("ragmonitor_traces_pending") == 0, 30, "its end")
        assert_balanced(running.samples())
        assert running.total("ragmonitor_requests_total", outcome="evaluated") == MAX_REQUESTS
        assert running.total("ragmonitor_requests_total", outcome="too_many") == number - MAX_REQUESTS


def test_forgetting_a_trace_forgets_all_its_requests(monitor: MonitorProcess) -> None:
    erased = erase(load(monitor.folder / "config.yaml"), trace=BATCH)
    assert erased.rows["history.db, results"] == 4
    assert erased.rows["history.db, features"] == 2
    assert erased.rows["request_log.db, requests"] == 2
    assert why(monitor, LONELY)["cause"] == "evaluated"
