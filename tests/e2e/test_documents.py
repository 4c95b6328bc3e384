"""Documents behind bad answers, documents of no use, and questions that no document answers, in a running monitor."""

from __future__ import annotations

import csv
import io
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from markdown_it import MarkdownIt

from monitor.clock import ManualClock
from monitor.config import load
from monitor.operations.erase import erase
from monitor.storage.state_file import open_state
from tests.support.command import command
from tests.support.monitor import MonitorProcess
from tests.support.runtime import runtime
from tests.support.service import BAD, CONTEXT, GOOD
from tests.support.tools import free_port, wait_until

NUMBER = 60
HOSTILE = "kb/<script>alert(1)</script>\x1b[31m\u202e" + "x" * 100_000
MENU = "=cmd|'/C calc'!A0;=1+1,@SUM(1) <img src=x> [x](https://evil.example) @here \x1b[2J\u202e"
ASKED = "Do you deliver to Norway? <script>alert(2)</script> [x](https://evil.example) =1+1 \x1b[2J\u202e "
SUBJECTS = ("refund", "invoice", "warranty", "password")


def trace(number: int) -> list[dict[str, Any]]:
    """One request: one in six gets the stale document, and one in five asks for what is in none."""
    lonely, stale = number % 5 == 3, number % 6 == 0
    subject = SUBJECTS[number % 4]
    question = f"{ASKED}case {number}{'!' * 50_000}" if lonely else f"What about the {subject} of order {number}?"
    answer = "I do not know." if lonely else BAD if stale else GOOD
    documents = [("kb/stale" if stale else f"kb/plans/{number % 4}", CONTEXT), (MENU, "Soup is served at noon.")]
    if number == 1:
        documents.append((HOSTILE, "Nothing."))
    found = {"openinference.span.kind": "RETRIEVER", "output.value": json.dumps([]) if lonely else ""}
    for place, (address, content) in enumerate(() if lonely else documents):
        found[f"retrieval.documents.{place}.document.id"] = address
        found[f"retrieval.documents.{place}.document.content"] = content
    stated = {"openinference.span.kind": "CHAIN", "input.value": question, "output.value": answer}
    called = {
        "openinference.span.kind": "LLM",
        "llm.input_messages.0.message.role": "user",
        "llm.input_messages.0.message.content": question,
        "llm.output_messages.0.message.role": "assistant",
        "llm.output_messages.0.message.content": answer,
    }
    now = time.time_ns()
    return [
        {
            "traceId": f"{number + 1:032x}",
            "spanId": f"{step:016x}",
            "parentSpanId": "" if step == 1 else f"{1:016x}",
            "name": f"step {step}",
            "startTimeUnixNano": str(now + step),
            "endTimeUnixNano": str(now + 1_000_000 * (5 - step)),
            "attributes": [{"key": key, "value": {"stringValue": value}} for key, value in attributes.items() if value],
        }
        for step, attributes in enumerate((stated, found, called), 1)
    ]


async def known_topic(folder: Path) -> None:
    """Keep a topic as an earlier process of the monitor has found it."""
    there = runtime(ManualClock(time.time()))
    async with open_state(folder / "state.db", clock=there.clock, metrics=there.metrics, events=there.events) as kept:
        kept.follow("topics", lambda: {"apps": {"shop": [["norway", "norway", 0.2]]}})


@pytest.fixture(scope="module")
def monitor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MonitorProcess]:
    folder = tmp_path_factory.mktemp("documents")
    config: dict[str, Any] = {
        "evaluators": [{"type": "overlap_groundedness"}, {"type": "refusal_pattern"}],
        "storage": {"path": str(folder / "state"), "texts": "all"},
        "context_rates": True,
        "sinks": [
            {"type": "prometheus", "port": free_port()},
            {"type": "jsonl", "path": str(folder / "results.jsonl"), "include_texts": True},
        ],
        "slices": ["topic"],
    }
    (folder / "state").mkdir()
    anyio.run(known_topic, folder / "state")
    process = MonitorProcess(folder, config)
    process.metrics_port = config["sinks"][0]["port"]
    with process as running:
        resource = {"attributes": [{"key": "service.name", "value": {"stringValue": "shop"}}]}
        scope = {"name": "openinference.instrumentation.own"}
        for number in range(NUMBER):
            body = {"resourceSpans": [{"resource": resource, "scopeSpans": [{"scope": scope, "spans": trace(number)}]}]}
            assert running.post(json.dumps(body).encode(), "/v1/traces", "application/json") == 200
        wait_until(
            lambda: running.total("ragmonitor_requests_total", outcome="evaluated") == NUMBER, 60, "the requests"
        )
        wait_until(lambda: asked(running) == NUMBER, 60, "the questions in the history")
        yield running


def asked(monitor: MonitorProcess) -> int:
    done = command("unanswered", "--app", "shop", "--json", "-c", monitor.folder / "config.yaml")
    return int(json.loads(done.stdout)["questions"]) if done.exit_code == 0 else 0


def documents(monitor: MonitorProcess, order: str = "worst") -> list[dict[str, Any]]:
    of = "/api/v1/documents?app=shop&evaluator=overlap_groundedness&since=1h"
    found: list[dict[str, Any]] = json.loads(monitor.get(f"{of}&order={order}"))["documents"]
    return found


def test_the_stale_document_behind_bad_answers_is_first_and_alone_surely_worse(monitor: MonitorProcess) -> None:
    found = documents(monitor)
    assert (found[0]["document"], found[0]["surely_worse"], found[0]["bad"]) == ("kb/stale", True, found[0]["answers"])
    assert [one["document"] for one in found if one["surely_worse"]] == ["kb/stale"]
    case = json.loads(monitor.get(f"/api/v1/cases/{found[0]['example']}"))
    assert case["response"] == BAD


def test_a_document_that_no_answer_uses_is_named_on_page_and_terminal(monitor: MonitorProcess) -> None:
    named = {one["document"]: one for one in documents(monitor, "unused")}
    assert named[MENU]["never_used"]
    assert not any(named[f"kb/plans/{number}"]["never_used"] for number in range(4))
    assert named["kb/plans/1"]["used"]["rate"] == 1.0
    of = ("--app", "shop", "--evaluator", "overlap_groundedness", "-c", monitor.folder / "config.yaml")
    printed = command("documents", *of, "--order", "unused", "--limit", "2").stdout
    assert f"Never used in {named[MENU]['use_known']} answers." in printed
    assert "kb/stale" in monitor.get("/documents.csv?app=shop&since=1h")


def test_questions_on_what_no_document_is_about_are_the_first_unanswered_topic(monitor: MonitorProcess) -> None:
    view = json.loads(monitor.get("/api/v1/unanswered?app=shop&since=1h"))
    first = view["topics"][0]
    assert first["topic"] == "norway"
    assert (first["unanswered"], first["asked"], first["surely_more"]) == (12, 12, True)
    assert view["unanswered"] == 12
    assert all(one["question"].startswith(ASKED) for one in first["examples"])


def test_a_hostile_question_is_short_plain_text_on_page_and_terminal(monitor: MonitorProcess) -> None:
    page = monitor.get("/unanswered?app=shop&since=1h")
    printed = command("unanswered", "--app", "shop", "-c", monitor.folder / "config.yaml").stdout
    assert "<script" not in page
    for text in (page, printed):
        assert "Do you deliver to Norway? " in text
        assert not {"\x1b", "\u202e"} & set(text)
        assert len(text) < 50_000


def test_rates_are_sliced_by_a_topic_that_an_earlier_process_has_found(monitor: MonitorProcess) -> None:
    of = {"app": "shop", "evaluator": "refusal_pattern", "slice": "topic"}

    def counted(value: str) -> float:
        return monitor.total("ragmonitor_slice_evaluations_total", value=value, **of)

    wait_until(lambda: (counted("norway"), counted("other")) == (12, NUMBER - 12), 30, "the answers by topic")


def test_feedback_of_users_has_the_topic_of_the_question(monitor: MonitorProcess) -> None:
    of = {"app": "shop", "evaluator": "user_feedback", "slice": "topic", "value": "norway"}
    said = {"trace_id": f"{3 + 1:032x}", "thumbs": "down"}
    assert monitor.post(json.dumps(said).encode(), "/v1/feedback", "application/json") == 200
    wait_until(
        lambda: monitor.total("ragmonitor_slice_evaluations_total", **of) == 1, 60, "the feedback among its topic"
    )


def test_a_hostile_address_is_short_plain_text_everywhere(monitor: MonitorProcess) -> None:
    printed = command(
        *("documents", "--app", "shop", "-e", "overlap_groundedness", "--search", "script"),
        *("-c", monitor.folder / "config.yaml"),
    ).stdout
    page = monitor.get("/documents?app=shop&since=1h&search=script")
    assert "<script" not in page
    for text in (printed, page, monitor.get("/documents.csv?app=shop&since=1h")):
        assert "alert(1)" in text
        assert not {"\x1b", "\u202e"} & set(text)
        assert len(text) < 50_000


def test_no_address_is_a_formula_in_a_spreadsheet(monitor: MonitorProcess) -> None:
    of = ("--app", "shop", "-e", "overlap_groundedness", "-c", monitor.folder / "config.yaml")
    for text in (monitor.get("/documents.csv?app=shop&since=1h"), command("documents", *of, "--csv").stdout):
        cells = [cell for row in csv.reader(io.StringIO(text)) for cell in row]
        assert any("C calc" in cell for cell in cells)
        parts = [part.strip() for cell in cells for part in cell.split(";")]
        assert not [part for part in parts if part.startswith(("=", "+", "-", "@"))]


def test_the_digest_names_hostile_documents_as_plain_text(monitor: MonitorProcess) -> None:
    config = ("-c", monitor.folder / "config.yaml")
    text, draft = (command("digest", "--format", form, *config).stdout for form in ("text", "markdown"))
    rendered = MarkdownIt("commonmark").enable("table").render(draft)
    assert not any(tag in rendered for tag in ("<img", "<script", "<a "))
    assert "@here" not in draft
    for said in (text, draft):
        assert "significantly worse with kb/stale" in said
        assert "most often =cmd" in said
        assert "norway (100 %)" in said
        assert not {"\x1b", "\u202e"} & set(said)
    listed = json.loads(command("digest", "--format", "json", *config).stdout)["documents"][0]["documents"]
    assert MENU in [one["document"] for one in listed]


def test_from_the_results_of_a_fleet_come_the_same_lists(monitor: MonitorProcess) -> None:
    of = ("--app", "shop", "--since", "1h", "--json", "-c", monitor.folder / "config.yaml")
    files = ("--results", monitor.folder / "results.jsonl")

    def same(*which: str) -> bool:
        here, there = (json.loads(command(*which, *of, *more).stdout) for more in ((), files))
        for found in (here, there):
            if isinstance(found, dict):
                found.pop("since"), found.pop("until")
        return bool(here) and here == there

    wait_until(lambda: same("documents", "-e", "overlap_groundedness"), 60, "the documents in the file")
    wait_until(lambda: same("unanswered"), 60, "the questions in the file")


def test_what_is_forgotten_leaves_both_lists(monitor: MonitorProcess) -> None:
    config = load(monitor.folder / "config.yaml")
    gone = [number for number in range(NUMBER) if number % 30 == 3]
    for number in gone:
        erase(config, trace=f"{number + 1:032x}")
    assert asked(monitor) == NUMBER - len(gone)
