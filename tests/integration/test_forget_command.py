"""`rag-monitor forget`: what is kept of a request or of a user goes, also while a monitor is at work."""

from __future__ import annotations

import json
import sqlite3
import threading
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest
import yaml

from monitor.clock import ManualClock
from monitor.config import load
from monitor.jobs.backfill.cases import BackfillOrigin, Item
from monitor.jobs.backfill.store import BackfillQueue
from monitor.model.case import Case
from monitor.model.outcome import EvaluationResult
from monitor.operations import erase
from monitor.privacy import pseudonyms
from monitor.sinks.history import HistorySink
from monitor.storage.spool.retained import NAME, Retained, read
from monitor.storage.spool.table import SpoolRecord, encode
from monitor.telemetry.events import Events
from monitor.telemetry.metrics import Metrics
from tests.support.command import command
from tests.support.llm import LLMServer, hang, verdict
from tests.support.monitor import MonitorProcess, assert_balanced
from tests.support.results import judged
from tests.support.runtime import runtime
from tests.support.service import CONTEXT, GOOD
from tests.support.tools import wait_until

TRACE = f"{1:032x}"
PRICE = {"input_per_million": 1.0, "output_per_million": 1.0}
WORDS = b"How long is the warranty"


@pytest.fixture(autouse=True)
def _no_monitor_runs(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if "running" not in request.node.name:
        monkeypatch.setattr(erase, "SETTLE", 0.0)


def configured(folder: Path, **more: Any) -> Path:
    path = folder / "config.yaml"
    path.write_text(yaml.safe_dump({"storage": {"path": str(folder / "state"), "texts": "all"}, **more}))
    return path


def keep(folder: Path, *results: EvaluationResult) -> HistorySink:
    history = HistorySink(path=folder / "state" / "history.db", texts="all", retention=1e12)

    async def deliver() -> None:
        async with history.open(runtime()) as one_more:
            for one in results:
                await one_more([one])

    anyio.run(deliver)
    return history


def traces(history: HistorySink) -> set[str]:
    return {row["trace_id"] for row in anyio.run(history.results)}


def queue(folder: Path) -> BackfillQueue:
    return BackfillQueue(folder / "state" / "backfill.db", at_most=1 << 20, clock=ManualClock())


def records(folder: Path) -> set[str]:
    path = folder / "state" / "request_log.db"
    if not path.exists():
        return set()
    with closing(sqlite3.connect(path)) as db:
        return {one for (one,) in db.execute("SELECT request_id FROM requests")}


def waiting(user: str, trace: str) -> Item:
    return Item(
        case=Case(request_id=trace, user_id=user, response="It is two years."),
        evaluator="groundedness",
        version="1",
        origin=BackfillOrigin.FILE,
    )


def bytes_of(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in (folder / "state").iterdir())


def test_a_trace_is_forgotten_in_every_file_and_others_stay(tmp_path: Path) -> None:
    history = keep(tmp_path, judged(1), judged(1, evaluator="relevance"), judged(2))
    queue(tmp_path).ask([waiting("u-9", TRACE), waiting("u-9", "other")], batch="b", now=1.0)
    done = command("forget", "--trace", TRACE, "-c", configured(tmp_path))
    assert done.exit_code == 0, done.stderr
    assert "history.db, results: 2 deleted" in done.stdout
    assert "backfill.db, items: 1 deleted" in done.stdout
    assert traces(history) == {f"{2:032x}"}
    assert TRACE.encode() not in b"".join(
        path.read_bytes() for path in (tmp_path / "state").iterdir() if path.suffix != ".jsonl"
    )


@pytest.mark.parametrize("form", ["{}", "0x{}", "tr-{}"])
def test_a_trace_is_found_by_any_usual_form_of_its_id_and_a_row_by_its_own(tmp_path: Path, form: str) -> None:
    hexadecimal = "abcdef" * 5 + "01"
    row = "ABCDEF01-2345-6789-ABCD-EF0123456789"
    results = [judged(1), judged(2), judged(3)]
    for one, name in zip(results, (hexadecimal, row, "other"), strict=True):
        object.__setattr__(one, "case", replace(one.case, request_id=name))
    history = keep(tmp_path, *results)
    done = erase.erase(load(configured(tmp_path)), trace=form.format(hexadecimal.upper()))
    assert done.requests == 1
    assert traces(history) == {row, "other"}
    assert command("forget", "--trace", row, "-c", configured(tmp_path)).exit_code == 0
    assert traces(history) == {"other"}


def test_the_sums_of_verdicts_stay(tmp_path: Path) -> None:
    history = keep(tmp_path, judged(1))
    before = anyio.run(history.sums_since, 0)
    command("forget", "--trace", TRACE, "-c", configured(tmp_path))
    assert anyio.run(history.sums_since, 0) == before != []


def test_a_user_is_forgotten_with_all_that_was_asked_and_is_waiting(tmp_path: Path) -> None:
    history = keep(tmp_path, *(judged(number) for number in range(5)))
    queue(tmp_path).ask([waiting("u-1", "waits"), waiting("u-9", "other")], batch="b", now=1.0)
    done = command("forget", "--user", "u-1", "-c", configured(tmp_path))
    assert done.exit_code == 0, done.stderr
    assert "history.db, people: 5 deleted" in done.stdout
    assert "backfill.db, items: 1 deleted" in done.stdout
    assert traces(history) == set()
    assert WORDS not in bytes_of(tmp_path)
    assert b"u-1" not in bytes_of(tmp_path)


def test_a_user_is_found_where_only_verdicts_are_kept(tmp_path: Path) -> None:
    history = HistorySink(path=tmp_path / "state" / "history.db", texts="none", retention=1e12)

    async def deliver() -> None:
        async with history.open(runtime()) as one_more:
            await one_more([judged(1)])

    anyio.run(deliver)
    assert b"u-1" not in bytes_of(tmp_path)
    assert command("forget", "--user", "u-1", "-c", configured(tmp_path)).exit_code == 0
    assert traces(history) == set()


def test_a_dry_run_says_what_would_go_and_leaves_it(tmp_path: Path) -> None:
    history = keep(tmp_path, judged(1))
    done = command("forget", "--trace", TRACE, "--dry-run", "-c", configured(tmp_path))
    assert "history.db, results: 1 would be deleted" in done.stdout
    assert traces(history) == {TRACE}
    assert not (tmp_path / "state" / "forgotten.jsonl").exists()


def test_what_is_not_there_is_exit_status_1_and_what_is_sent_elsewhere_is_named(tmp_path: Path) -> None:
    keep(tmp_path, judged(1))
    sinks = [{"type": "jsonl", "path": str(tmp_path / "out.jsonl")}, {"type": "prometheus"}]
    done = command("forget", "--trace", "nobody", "-c", configured(tmp_path, sinks=sinks))
    assert done.exit_code == 1
    assert f"jsonl {tmp_path / 'out.jsonl'}" in done.stdout
    assert "prometheus" not in done.stdout


def test_a_history_that_is_kept_as_a_sink_of_its_own_is_forgotten_too(tmp_path: Path) -> None:
    keep(tmp_path, judged(1))
    other = keep(tmp_path / "other", judged(1))
    sinks = [{"type": "history", "path": str(other.path)}]
    command("forget", "--trace", TRACE, "-c", configured(tmp_path, sinks=sinks))
    assert traces(other) == set()


def test_deliveries_that_are_retained_and_hold_it_go_whole_and_others_stay(tmp_path: Path) -> None:
    keep(tmp_path, judged(2))
    path = tmp_path / "state" / NAME
    metrics = Metrics()
    options = {"clock": ManualClock(1000.0), "metrics": metrics, "events": Events(metrics)}
    kept = Retained(path, keep=1e6, at_most=1 << 20, **options)
    payloads = [b"x" + bytes.fromhex(TRACE) + b"x", b'{"request_id": "other", "user_id": "u-7"}', b"neither"]
    kept.take([encode(n, SpoolRecord("otlp_http", "traces", 999.0, payload)) for n, payload in enumerate(payloads)])
    kept.close()
    assert command("forget", "--trace", TRACE, "-c", configured(tmp_path)).stdout.startswith("retained.db, records: 1")
    assert [one.payload for one in read(path, 0)] == payloads[1:]
    command("forget", "--user", "u-7", "-c", configured(tmp_path))
    assert [one.payload for one in read(path, 0)] == payloads[2:]


@pytest.mark.parametrize("given", [(), ("--trace", "a", "--user", "b"), ("--user", "")])
def test_one_of_both_is_needed(tmp_path: Path, given: tuple[str, ...]) -> None:
    done = command("forget", *given, "-c", configured(tmp_path))
    assert done.exit_code == 2
    assert "either --trace ID or --user ID" in done.stderr


def test_it_leaves_an_audit_line_without_the_users_id(tmp_path: Path) -> None:
    keep(tmp_path, judged(1))
    command("forget", "--user", "u-1", "-c", configured(tmp_path))
    (line,) = (tmp_path / "state" / "audit.jsonl").read_text().splitlines()
    told = json.loads(line)
    key = pseudonyms.load(tmp_path / "state")
    assert key is not None
    assert (told["event"], told["users"], told["requests"]) == ("texts_forgotten", [key.of("u-1")], [TRACE])
    assert '"u-1"' not in line


@pytest.mark.parametrize("ahead", [0, 8], ids=lambda hours: f"{hours} hours")
def test_what_a_running_monitor_has_in_hand_is_dropped(tmp_path: Path, ahead: int) -> None:
    """The judge answers after the command: what it says then is kept nowhere. What comes later of the user is."""
    row = {"request": "Can I get my money back?", "response": GOOD, "retrieved_context": [{"content": CONTEXT}]}
    with LLMServer() as llm:
        forgotten = threading.Event()
        llm.always(replace(verdict(observations=[], explanation="fine", score=5), after=forgotten))
        judge = {"model": "openai/scripted", "api_key": "none", "api_base": llm.url, "price": PRICE}
        config = {
            "judge": judge,
            "evaluators": [{"type": "overlap_groundedness"}, {"type": "relevance"}],
            "storage": {"path": str(tmp_path / "state"), "texts": "all"},
        }
        with MonitorProcess(tmp_path, config) as monitor:
            stated = {"timestamp": time.time() + ahead * 3600}  # by a service with another idea of the time
            first = {"request_id": "first", "user_id": "ole", **row, **stated}
            assert monitor.post(json.dumps(first).encode(), "/v1/cases", "application/json") == 200
            wait_until(
                lambda: monitor.total("ragmonitor_evaluations_total", evaluator="overlap_groundedness") == 1, 20, "it"
            )
            wait_until(lambda: llm.requests, 20, "the judge to be asked")
            assert command("forget", "--user", "ole", "-c", tmp_path / "config.yaml").exit_code == 0
            forgotten.set()
            wait_until(lambda: monitor.total("ragmonitor_traces_pending") == 0, 20, "the end of it")
            assert_balanced(monitor.samples())
            assert monitor.total("ragmonitor_evaluations_total", evaluator="relevance") == 1
            history = HistorySink(path=tmp_path / "state" / "history.db")
            assert traces(history) == set()
            later = {"request_id": "later", "user_id": "ole", **row}
            assert monitor.post(json.dumps(later).encode(), "/v1/cases", "application/json") == 200
            wait_until(lambda: traces(history) == {"later"}, 20, "what comes later")
            wait_until(lambda: "later" in records(tmp_path), 20, "its trail")
            done = command("forget", "--trace", "later", "-c", tmp_path / "config.yaml")
            assert "request_log.db, requests: 1 deleted" in done.stdout
            assert "later" not in records(tmp_path)


def test_what_a_crash_has_left_in_the_spool_is_dropped_when_it_is_read(tmp_path: Path) -> None:
    row = {"request": "Can I get my money back?", "response": GOOD, "retrieved_context": [{"content": CONTEXT}]}
    with LLMServer() as llm:
        llm.always(hang())
        config = {
            "judge": {"model": "openai/scripted", "api_key": "none", "api_base": llm.url, "price": PRICE},
            "evaluators": [{"type": "relevance"}],
        }
        monitor = MonitorProcess(tmp_path, config)
        with monitor:
            for name in ("first", "second"):
                body = json.dumps({"request_id": name, **row}).encode()
                assert monitor.post(body, "/v1/cases", "application/json") == 200
            wait_until(lambda: monitor.total("ragmonitor_traces_pending") == 2, 20, "both to be under way")
        done = command("forget", "--trace", "first", "-c", tmp_path / "config.yaml")
        assert done.exit_code == 1, "nothing of it is in a file yet"
        with monitor:
            wait_until(lambda: monitor.total("ragmonitor_traces_total", outcome="forgotten") == 1, 20, "the drop")
            monitor.wait_for_total(1, "ragmonitor_traces_pending")  # the other one is judged
