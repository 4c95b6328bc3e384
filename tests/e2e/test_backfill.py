"""Judging afterwards in a real monitor: what a refusing judge missed, what is asked for by hand, once each."""

from __future__ import annotations

import json
import sqlite3
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
import yaml

from monitor.operations.backfill import topics
from monitor.sources.kafka import KafkaSource
from monitor.storage.history.reader import HistoryReader
from tests.support.command import command, write_rows
from tests.support.kafka import Broker
from tests.support.kafka_traces import rag_trace, trace_id
from tests.support.llm import LLMServer, bad_key, hang, verdict
from tests.support.monitor import MonitorProcess, assert_balanced
from tests.support.service import RagService
from tests.support.tools import wait_until

pytestmark = pytest.mark.timeout(900)

FINE = verdict(observations=["it answers"], explanation="it answers the question", score=5)
CONTEXT = "The town library opens at nine. Books may be kept for three weeks."


def configuration(llm: LLMServer, **more: Any) -> dict[str, Any]:
    judge = {
        "model": "openai/scripted",
        "api_key": "none",
        "api_base": llm.url,
        "timeout": "60s",
        "recheck_share": 0,
        "cache": {"max_entries": 0},
    }
    return {
        "judge": judge,
        "evaluators": [{"type": "relevance", "sample": 1.0}],
        "canary": {"interval": "off"},
        "backfill": {"budget": {"requests_per_minute": 600}},
        "alerts": [],
        **more,
    }


def row(number: int) -> dict[str, Any]:
    answer = "Books may be kept for three weeks."
    return {"id": f"case-{number}", "question": f"How long, {number}?", "contexts": [CONTEXT], "response": answer}


def rows(folder: Path, number: int) -> Path:
    return write_rows(folder / "rows.jsonl", [row(one) for one in range(number)])


def produce_at(broker: Broker, topic: str, messages: list[tuple[bytes, bytes]], at_ms: int) -> None:
    """Write messages as if at that time."""
    from kafka import KafkaProducer

    producer = KafkaProducer(bootstrap_servers=broker.address)
    for key, value in messages:
        producer.send(topic, value, key=key, timestamp_ms=at_ms)
    producer.flush(timeout=120)
    producer.close(timeout=120)


def ask(port: int, number: int) -> None:
    service = RagService.over_http(port)
    for one in range(number):
        service.ask(f"Can I get my money back after {one} days?")
    service.flush()
    service.close()


def backfill(monitor: MonitorProcess, *arguments: object) -> str:
    ended = command("backfill", *arguments, "-c", monitor.folder / "config.yaml")
    assert ended.exit_code == 0, ended.output + ended.stderr
    return ended.stdout


def assert_apart(monitor: MonitorProcess) -> float:
    """The ledger of the queue balances at this scrape. Returns how many were asked for."""
    samples = monitor.samples()
    sums: dict[str, dict[tuple[str, ...], float]] = {}
    for name in ("requested_total", "evaluations_total", "pending"):
        sums[name] = defaultdict(float)
        for labels, value in samples.get(f"ragmonitor_backfill_{name}", ()):
            sums[name][labels["app"], labels["evaluator"], labels["source"]] += value
    for key, number in sums["requested_total"].items():
        assert number == sums["evaluations_total"][key] + sums["pending"][key], key
        assert sums["pending"][key] >= 0
    assert_balanced(samples)
    return sum(sums["requested_total"].values())


def test_what_a_refusing_judge_missed_is_judged_after_the_cure_and_stands_apart(tmp_path) -> None:
    with LLMServer() as llm:
        llm.always(bad_key())
        monitor = MonitorProcess(tmp_path, configuration(llm))
        with monitor:
            ask(monitor.http, 6)
            kept = lambda: monitor.total("ragmonitor_backfill_missed_total", outcome="kept") == 6  # noqa: E731
            wait_until(kept, 30, "the missed judgements to be kept")
            assert monitor.total("ragmonitor_unscored_total", reason="paused") == 6
            wait_until(lambda: "rag-monitor backfill --missed" in monitor.get("/"), 10, "the offer on the page")
            assert "relevance missed 6 evaluations" in monitor.get("/")
            monitor.terminate(60)  # an import that has begun is waited for
        asked_before = len(llm.requests)
        llm.always(FINE)
        with monitor:
            assert "done: 6 passed" in backfill(monitor, "--missed")
            assert len(llm.requests) == asked_before + 6
            assert monitor.total("ragmonitor_backfill_evaluations_total", source="missed", outcome="passed") == 6
            assert monitor.total("ragmonitor_backfill_weight_total") == 6
            assert assert_apart(monitor) == 6
            live = ("evaluations", "late_evaluations", "non_production_evaluations", "unscored", "evaluations_selected")
            assert not any(monitor.total(f"ragmonitor_{name}_total") for name in live), "nothing of it is live"
            assert monitor.total("ragmonitor_judge_requests_total") == 0, "the live judge and its budget have no part"
            wait_until(lambda: "missed 6 evaluations" not in monitor.get("/"), 10, "the page to offer it no longer")

            assert "0 evaluations queued" in backfill(monitor, "--missed")
            assert len(llm.requests) == asked_before + 6, "the same again changes nothing"
        found = HistoryReader(tmp_path / "state" / "history.db").results(limit=100)
        judged = [one for one in found if one["evaluator"] == "relevance"]
        assert [(one["scope"], one["origin"], one["outcome"]) for one in judged] == [
            ("backfill", "missed", "score")
        ] * 6
        with sqlite3.connect(tmp_path / "state" / "history.db") as db:
            assert db.execute("SELECT count(*) FROM session_sums").fetchone() == (0,), "no window is restored from it"


def test_after_a_crash_in_the_middle_the_rest_is_judged_and_nothing_twice(tmp_path) -> None:
    with LLMServer() as llm:
        monitor = MonitorProcess(tmp_path, configuration(llm))
        with monitor:
            llm.then(FINE, FINE, FINE)
            llm.always(hang())
            backfill(monitor, rows(tmp_path, 8), "--evaluators", "relevance", "--detach")
            done = lambda: monitor.total("ragmonitor_backfill_evaluations_total", outcome="passed") == 3  # noqa: E731
            wait_until(done, 40, "three verdicts")
            wait_until(lambda: len(llm.requests) == 3 + 4, 20, "four questions under way, the most at a time")
            assert assert_apart(monitor) == 8
            monitor.kill()
        llm.always(FINE)
        before = len(llm.requests)
        with monitor:
            done = lambda: monitor.total("ragmonitor_backfill_evaluations_total", outcome="passed") == 5  # noqa: E731
            wait_until(done, 40, "the other five")
            assert assert_apart(monitor) == 5
            assert len(llm.requests) == before + 5
            told = backfill(monitor, rows(tmp_path, 8), "--evaluators", "relevance")
            assert "8 already scored" in told
        found = HistoryReader(tmp_path / "state" / "history.db").results(limit=100)
        assert {one["trace_id"] for one in found} == {f"case-{one}" for one in range(8)}
        assert len(found) == 8


def test_its_budget_is_its_own_and_holds(tmp_path) -> None:
    with LLMServer() as llm:
        llm.always(FINE)
        budget = {"evaluations_per_day": 2, "requests_per_minute": 600}
        monitor = MonitorProcess(tmp_path, configuration(llm, backfill={"budget": budget}))
        with monitor:
            backfill(monitor, rows(tmp_path, 5), "--evaluators", "relevance", "--detach")
            done = lambda: monitor.total("ragmonitor_backfill_evaluations_total", outcome="passed") == 2  # noqa: E731
            wait_until(done, 40, "the two that it pays for")
            ask(monitor.http, 4)
            live = lambda: monitor.total("ragmonitor_evaluations_total", evaluator="relevance") == 4  # noqa: E731
            wait_until(live, 30, "the live verdicts")
            assert len(llm.requests) == 6
            assert monitor.total("ragmonitor_backfill_pending") == 3
            assert monitor.total("ragmonitor_judge_requests_total", outcome="budget") == 0
            assert assert_apart(monitor) == 5


def test_without_a_monitor_it_says_so_and_judges_here_where_asked_to(tmp_path) -> None:
    with LLMServer() as llm:
        llm.always(FINE)
        monitor = MonitorProcess(tmp_path, configuration(llm))
        monitor.spawn()
        monitor.kill()
        told = backfill(monitor, rows(tmp_path, 3), "--evaluators", "relevance")
        assert "no monitor is running on" in told
        assert not llm.requests
        assert "3 evaluations would be queued" in backfill(
            monitor, rows(tmp_path, 3), "--evaluators", "relevance", "--dry-run"
        )
        ended = command("backfill", "--here", "-c", tmp_path / "config.yaml")
        assert ended.exit_code == 0, ended.output
        assert len(llm.requests) == 3
        found = HistoryReader(tmp_path / "state" / "history.db").results(limit=10)
        assert {(one["scope"], one["origin"]) for one in found} == {("backfill", "file")}


def test_what_the_spool_keeps_can_be_judged_later_and_is_never_taken_up_by_itself(tmp_path) -> None:
    with LLMServer() as llm:
        llm.always(FINE)
        config = configuration(llm, evaluators=[{"type": "relevance", "sample": 0}])
        monitor = MonitorProcess(tmp_path, config)
        monitor.config["storage"]["spool_retention"] = "1h"
        with monitor:
            ask(monitor.http, 5)
            read = lambda: monitor.total("ragmonitor_requests_total", outcome="evaluated") == 5  # noqa: E731
            wait_until(read, 30, "the traces")
            wait_until(lambda: monitor.total("ragmonitor_spool_retained_bytes") > 0, 10, "what is kept of them")
            monitor.terminate(60)  # an import that has begun is waited for
        with monitor:
            assert monitor.total("ragmonitor_traces_received_total") == 0, "what is kept is not taken up"
            told = backfill(
                monitor, "--from", "spool", "--since", "10m", "--evaluators", "relevance", "--sample", "100%"
            )
            assert "done: 5 passed" in told
            assert monitor.total("ragmonitor_traces_received_total") == 0
            assert monitor.total("ragmonitor_backfill_evaluations_total", app="shop", source="spool") == 5
            assert assert_apart(monitor) == 5


def test_topics_are_read_again_from_a_time_on_and_the_group_is_left_alone(tmp_path, kafka: Broker) -> None:
    kafka.create_topics("backfilled", "backfilled-rows", partitions=2)
    now, ids = time.time_ns(), [trace_id(8, number) for number in range(4)]
    old, *new = [
        (one.encode(), rag_trace(one, bad=number == 3, start_ns=now - 2 * 10**9).SerializeToString())
        for number, one in enumerate(ids)
    ]
    produce_at(kafka, "backfilled", [old], now // 10**6 - 3 * 3_600_000)
    produce_at(kafka, "backfilled", new, now // 10**6)
    produce_at(kafka, "backfilled-rows", [(b"r", json.dumps(row(9)).encode())], now // 10**6)
    with LLMServer() as llm:
        llm.always(FINE)
        source = {
            "type": "kafka",
            "brokers": kafka.address,
            "group": "backfilled",
            "topics": {"backfilled": "otlp_proto", "backfilled-rows": "case"},
        }
        config = configuration(llm, sources=[source], storage={"path": str(tmp_path / "state")})
        (tmp_path / "config.yaml").write_text(yaml.safe_dump(config))
        ended = command(
            *("backfill", "--from", "kafka", "--since", "1h", "--evaluators", "relevance", "--here"),
            *("-c", tmp_path / "config.yaml"),
        )
        assert ended.exit_code == 0, ended.output + ended.stderr
        assert "done: 4 passed" in ended.stdout
        found = HistoryReader(tmp_path / "state" / "history.db").results(limit=10)
        assert {one["trace_id"] for one in found} == {*ids[1:], "case-9"}
        assert {(one["scope"], one["origin"]) for one in found} == {("backfill", "kafka")}
        assert kafka.group_offsets("backfilled") == {}


def test_partitions_that_are_read_unevenly_are_read_whole_and_in_the_order_of_time(kafka: Broker) -> None:
    from kafka import KafkaProducer

    kafka.create_topics("uneven", partitions=4)
    begin = int(time.time()) - 10_000
    producer = KafkaProducer(bootstrap_servers=kafka.address)
    for number in range(8_000):
        ahead = number % 4 == 3 and number % 7 == 0  # by a clock that is ahead
        at = begin * 1000 + number * 500 + (1_200_000 if ahead else 0)
        producer.send("uneven", b"-" * 50 * (1 + number % 4) ** 3, partition=number % 4, timestamp_ms=at)
    producer.flush(timeout=120)
    producer.close(timeout=120)
    source = KafkaSource.model_validate({"brokers": kafka.address, "topics": {"uneven": "case"}})
    found = list(topics.read(source, begin, begin + 4_000, report=pytest.fail))
    known = [(one.record.partition, one.record.offset) for one in found]
    due = {(number % 4, number // 4) for number in range(8_000) if number < 5_600 or number % 28 != 7}
    assert len(known) == len(set(known)) == len(due)
    assert set(known) == due
    reached = [one.reached for one in found]
    assert reached == sorted(reached)
