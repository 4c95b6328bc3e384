"""Reloads while traffic of every kind is on its way: judge calls, a Kafka group, exporters at their defaults."""

from __future__ import annotations

import json
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as GrpcExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as HttpExporter
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

from tests.support.kafka import Broker
from tests.support.kafka_fleet import wait_for_all
from tests.support.kafka_traces import in_parts, rag_trace, trace_id
from tests.support.llm import Asked, LLMServer, Reply, slow, verdict
from tests.support.monitor import MonitorProcess, assert_balanced
from tests.support.service import GOOD, RagService
from tests.support.tools import wait_until

HTTP = {"reload": {"http": True}}
VERDICT = {"observations": ["it answers"], "explanation": "it answers the question", "score": 5}
RELOADS = 4
WITHIN = 6.0
"""Seconds of a reload in which an exporter at its defaults, which gives up after ten, must lose nothing."""


def ids(monitor: MonitorProcess) -> list[str]:
    with sqlite3.connect(monitor.folder / "state" / "history.db") as database:
        return [row[0] for row in database.execute("select trace_id from results")]


def rows(*names: str) -> bytes:
    said = {"contexts": [GOOD], "response": GOOD}
    return json.dumps([{"id": name, "question": f"Money back for {name}?", **said} for name in names]).encode()


def reload(monitor: MonitorProcess, number: int) -> float:
    """Reload with another slice; the seconds that it took."""
    began = time.monotonic()
    assert monitor.reload(slices=[f"tenant{number}"]).startswith("200 Changed: slices")
    return time.monotonic() - began


def assert_counted_once(monitor: MonitorProcess, wanted: Sequence[str]) -> None:
    """All of `wanted` have one result, and the rate on the page counts each of them once."""
    wait_until(lambda: set(ids(monitor)) >= set(wanted), 60, "a result of each")
    wait_until(lambda: monitor.total("ragmonitor_traces_pending") == 0, 30, "the end of all")
    assert Counter(ids(monitor)) == Counter(set(wanted))
    (rate,) = json.loads(monitor.get("/api/v1/overview"))["apps"][0]["rates"]
    assert rate["evaluated"] == len(set(wanted))
    assert_balanced(monitor.samples())
    assert monitor.terminate() == 0


def judged(llm: LLMServer) -> dict[str, Any]:
    judge = {"model": "openai/scripted", "api_key": "none", "api_base": llm.url, "recheck_share": 0}
    return {**HTTP, "judge": judge, "evaluators": [{"type": "relevance", "sample": 1.0}], "alerts": []}


def test_judge_calls_that_a_reload_cuts_off_are_made_again_and_each_answer_counts_once(tmp_path: Path) -> None:
    names = [f"row-{number}" for number in range(6)]
    answering = threading.Event()
    with LLMServer() as llm:
        reply = verdict(**VERDICT)
        llm.always(Reply(reply.body, after=answering))
        with MonitorProcess(tmp_path, judged(llm)) as monitor:
            assert monitor.post(rows(*names), "/v1/cases", "application/json") == 200
            wait_until(lambda: len(llm.requests) == len(names), 60, "the calls")
            reload(monitor, 1)
            wait_until(lambda: len(llm.requests) == 2 * len(names), 60, "the same calls again")
            assert not ids(monitor)
            answering.set()
            assert_counted_once(monitor, names)
    asked = Counter(name for one in llm.requests for name in names if f"for {name}?" in one.prompt)
    assert asked == Counter(dict.fromkeys(names, 2))


def test_judge_calls_that_end_during_reloads_count_once(tmp_path: Path) -> None:
    names = [f"row-{number}" for number in range(40)]

    def answer(asked: Asked) -> Reply:
        return slow(verdict(**VERDICT), 0.1 + len(asked.prompt) % 7 / 5)

    with LLMServer() as llm:
        llm.always(answer)
        with MonitorProcess(tmp_path, judged(llm)) as monitor:
            for number in range(RELOADS):
                some = names[number * 10 : number * 10 + 10]
                assert monitor.post(rows(*some), "/v1/cases", "application/json") == 200
                wait_until(lambda: llm.requests, 60, "the first call")
                reload(monitor, number)
            assert_counted_once(monitor, names)


def test_a_kafka_source_that_rejoins_its_group_after_a_reload_loses_no_message_and_counts_none_twice(
    tmp_path: Path, kafka: Broker
) -> None:
    from kafka import KafkaProducer

    topic, group = "reload.spans", "reload"
    kafka.create_topics(topic, partitions=3)
    source = {"type": "kafka", "brokers": kafka.address, "group": group, "topics": {topic: "otlp_proto"}}
    given = {
        **HTTP,
        "sources": [{**source, "dead_letters": None, "session_timeout": "6s"}],
        "evaluators": [{"type": "overlap_groundedness"}],
        "alerts": [],
    }
    sent: list[str] = []
    enough = threading.Event()
    producer = KafkaProducer(bootstrap_servers=kafka.address, acks="all")

    def send() -> None:
        while not enough.wait(0.02):
            sent.append(trace_id(9, len(sent)))
            for part in in_parts(rag_trace(sent[-1], start_ns=time.time_ns() - 10**9), 2):
                producer.send(topic, part.SerializeToString(), key=sent[-1].encode())

    with MonitorProcess(tmp_path, given) as monitor:
        wait_until(lambda: monitor.total("ragmonitor_consumer_assigned_partitions") == 3, 60, "all partitions")
        sender = threading.Thread(target=send)
        sender.start()
        try:
            for number in range(RELOADS):
                before = len(set(ids(monitor)))
                reload(monitor, number)
                wait_until(lambda: len(set(ids(monitor))) > before, 60, "results after the reload")  # noqa: B023
        finally:
            enough.set()
            sender.join()
            producer.close()
        wait_for_all(kafka, group, [topic], 60)
        assert_counted_once(monitor, sent)


class Counted(SpanExporter):
    """Passes spans on to a real exporter, and notes the traces of which it gave up a part."""

    def __init__(self, exporter: SpanExporter) -> None:
        self._exporter = exporter
        self.given_up: set[str] = set()

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        result = self._exporter.export(spans)
        if result is not SpanExportResult.SUCCESS:
            contexts = [one.context for one in spans if one.context is not None]
            self.given_up |= {f"{one.trace_id:032x}" for one in contexts}
        return result

    def shutdown(self) -> None:
        self._exporter.shutdown()


@pytest.mark.parametrize("transport", ["http", "grpc"])
def test_exporters_at_their_defaults_drop_nothing_while_reloads_happen(tmp_path: Path, transport: str) -> None:
    """An exporter gives up after ten seconds, also where the machine is the slow one: then nothing is asked of it."""
    given = {**HTTP, "assembly": {"grace_period": "8s", "idle_timeout": "20s"}, "alerts": []}
    given["evaluators"] = [{"type": "overlap_groundedness"}]
    with MonitorProcess(tmp_path, given) as monitor:
        over_http = f"http://127.0.0.1:{monitor.http}/v1/traces"
        real: SpanExporter = (
            HttpExporter(over_http) if transport == "http" else GrpcExporter(f"127.0.0.1:{monitor.grpc}", insecure=True)
        )
        exporter = Counted(real)
        service = RagService(exporter, processor=BatchSpanProcessor(exporter))
        asked: list[str] = []
        enough = threading.Event()

        def send() -> None:
            while not enough.wait(0.01):
                asked.append(service.ask())

        sender = threading.Thread(target=send)
        sender.start()
        try:
            took = [reload(monitor, number) for number in range(2 * RELOADS)]
        finally:
            enough.set()
            sender.join()
        service.flush()
        service.close()
        assert max(took) > WITHIN or not exporter.given_up
        whole = set(asked) - exporter.given_up
        wait_until(lambda: set(ids(monitor)) >= whole, 60, "a result of each")
        if not exporter.given_up:
            assert_counted_once(monitor, asked)
