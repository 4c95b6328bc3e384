"""Replicas in a group: what a real Collector writes meets in one of them, and a budget is the group's."""

from __future__ import annotations

import json
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from monitor.statistics.budget_pacer import BudgetPacer
from tests.support.collector import Collector, Encoding
from tests.support.kafka import Broker
from tests.support.kafka_fleet import LETTERS, Fleet, Load, account, wait_for_all
from tests.support.kafka_traces import trace_id
from tests.support.llm import LLMServer, Reply, verdict
from tests.support.monitor import assert_balanced
from tests.support.service import CONTEXT, GOOD
from tests.support.tools import wait_until

TRACES = 60
PER_DAY, CAP, BURST = 2_400, 240, 2_000
EXPECTED = "ragmonitor_sampling_expected_total"
LIMIT = "ragmonitor_sampling_bucket_limit_evaluations"
SAID = {"observations": ["it answers"], "explanation": "it answers the question", "score": 5}

pytestmark = pytest.mark.timeout(960)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with Broker(tmp_path_factory.mktemp("kafka")) as running:
        running.create_topics(LETTERS, partitions=1)
        yield running


def configuration(broker: Broker, group: str, topics: dict[str, str], **more: Any) -> dict[str, Any]:
    connection = {"type": "kafka", "brokers": broker.address}
    return {
        "sources": [{**connection, "group": group, "topics": topics, "session_timeout": "6s"}],
        "sinks": [{**connection, "topic": f"{group}.results"}],
        "assembly": {"grace_period": "2s", "idle_timeout": "4s"},
        "evaluators": [{"type": "overlap_groundedness"}],
        "alerts": [],
        **more,
    }


def spans(ids: list[str]) -> ExportTraceServiceRequest:
    """One span a trace, in the GenAI conventions, without a word of its content."""
    request = ExportTraceServiceRequest()
    resource = request.resource_spans.add()
    resource.resource.attributes.add(key="service.name").value.string_value = "shop"
    scope = resource.scope_spans.add()
    for id_ in ids:
        times = {"start_time_unix_nano": time.time_ns() - 10**9, "end_time_unix_nano": time.time_ns()}
        span = scope.spans.add(trace_id=bytes.fromhex(id_), span_id=bytes.fromhex(id_[-16:]), name="chat", **times)
        span.attributes.add(key="gen_ai.operation.name").value.string_value = "chat"
    return request


def logs(ids: list[str]) -> ExportLogsServiceRequest:
    """For each span the log record with its content."""
    asked = f"Answer from the context.\n\nContext:\n{CONTEXT}\n\nQuestion: Can I get my money back?"
    said = {
        "gen_ai.input.messages": [{"role": "user", "parts": [{"type": "text", "content": asked}]}],
        "gen_ai.output.messages": [{"role": "assistant", "parts": [{"type": "text", "content": GOOD}]}],
    }
    request = ExportLogsServiceRequest()
    scope = request.resource_logs.add().scope_logs.add()
    for id_ in ids:
        record = scope.log_records.add(trace_id=bytes.fromhex(id_), span_id=bytes.fromhex(id_[-16:]))
        record.event_name = "gen_ai.client.inference.operation.details"
        for key, messages in said.items():
            record.attributes.add(key=key).value.string_value = json.dumps(messages)
    return request


def post(collector: Collector, path: str, request: Any) -> None:
    url = f"http://127.0.0.1:{collector.http}/v1/{path}"
    headers = {"Content-Type": "application/x-protobuf"}
    urllib.request.urlopen(urllib.request.Request(url, request.SerializeToString(), headers), timeout=60).close()


@pytest.mark.parametrize("encoding", ["otlp_proto", "otlp_json"])
def test_spans_and_their_log_records_come_through_a_collector_to_the_same_replica(
    broker: Broker, tmp_path: Path, encoding: Encoding
) -> None:
    """Two topics with as many partitions, both keyed by the trace: range assignment gives both parts to one replica."""
    names = {"spans": f"{encoding}.spans", "logs": f"{encoding}.logs"}
    broker.create_topics(*names.values(), f"{encoding}.results", partitions=4)
    ids = [trace_id(5, number) for number in range(TRACES)]
    topics = dict.fromkeys(names.values(), encoding)
    config = configuration(broker, encoding, topics)
    with (
        Fleet(tmp_path, 2, config) as fleet,
        Collector(tmp_path, broker.address, encoding=encoding, **names) as collector,
    ):
        assigned = "ragmonitor_consumer_assigned_partitions"
        wait_until(lambda: all(one.total(assigned) == 4 for one in fleet.replicas), 60, "half of the partitions each")
        for one in range(0, TRACES, 20):
            post(collector, "traces", spans(ids[one : one + 20]))
            post(collector, "logs", logs(ids[one : one + 20]))
        wait_until(lambda: fleet.total("ragmonitor_requests_total", outcome="evaluated") == TRACES, 60, "all judged")
        wait_for_all(broker, encoding, list(names.values()), 30)
        for one in fleet.replicas:
            assert assert_balanced(one.samples()) > 0
    told = account(broker, f"{encoding}.results").results
    assert {id_ for id_, _ in told} == set(ids)
    assert all(result["outcome"] == "score" and result["score"] > 0.9 for (result, *_) in told.values())


def test_of_a_trace_that_is_spread_over_replicas_the_parts_without_its_root_are_incomplete(
    broker: Broker, tmp_path: Path
) -> None:
    """Without a key the messages of a trace lie anywhere. Only the part with the root can look like a whole trace."""
    broker.create_topics("spread.spans", "spread.results", partitions=6)
    load = Load(broker, "spread.spans", keyed=False)
    with Fleet(tmp_path, 2, configuration(broker, "spread", {"spread.spans": "otlp_proto"})) as fleet:
        wait_until(lambda: shares(fleet) == [3, 3], 60, "half of the partitions each")
        load.send(200)
        wait_for_all(broker, "spread", ["spread.spans"], 60)
        received = sum(assert_balanced(one.samples()) for one in fleet.replicas)
        judged = fleet.total("ragmonitor_requests_total", outcome="evaluated")
        assert received > 1.5 * 200
        assert judged == 200
        assert fleet.total("ragmonitor_traces_total", outcome="incomplete") == received - judged
    assert account(broker, "spread.results").rows == 200


def test_a_budget_is_spent_by_the_group_together_and_goes_on_with_those_who_stay(
    broker: Broker, tmp_path: Path
) -> None:
    """Three spend what one process alone would have spent on the same traffic, and so do the two that stay."""
    broker.create_topics("budget.spans", "budget.results", partitions=6)
    with LLMServer() as llm:
        llm.always(verdict(**SAID))
        config = configuration(
            broker,
            "budget",
            {"budget.spans": "otlp_proto"},
            judge={"model": "openai/scripted", "api_key": "none", "api_base": llm.url},
            evaluators=[{"type": "relevance", "sample": {"per_day": PER_DAY, "max_per_hour": CAP}}],
        )
        load = Load(broker, "budget.spans", parts=1)
        with Fleet(tmp_path, 3, config) as fleet:
            wait_until(lambda: shares(fleet) == [2, 2, 2], 60, "a third of the partitions each")
            alone = BudgetPacer(PER_DAY, CAP, time.monotonic())
            wanted = spent_by_it = 0.0
            for leaves in (False, True):
                if leaves:
                    gone = fleet.replicas.pop()
                    spent_by_it = gone.total(EXPECTED)
                    assert gone.terminate(30) == 0
                    wait_until(lambda: shares(fleet) == [3, 3], 60, "half of the partitions each")
                began = time.monotonic()
                load.send(BURST)
                wait_for_all(broker, "budget", ["budget.spans"], 90)
                pace = (time.monotonic() - began) / BURST
                wanted += sum(alone.draw(None, began + number * pace).probability for number in range(BURST))
                spent = fleet.total(EXPECTED) + spent_by_it
                print(f"spent {spent:.1f}, one process alone {wanted:.1f}")
                assert spent == pytest.approx(wanted, rel=0.25)
                assert fleet.total(LIMIT) == pytest.approx(CAP / 6)
            for one in fleet.replicas:
                assert_balanced(one.samples())


def test_what_waits_for_a_judge_when_its_partition_moves_is_judged_only_by_the_next_replica(
    broker: Broker, tmp_path: Path
) -> None:
    """The judge answers only once a third replica has joined. Until then each of the others has asked it twice."""
    broker.create_topics("moves.spans", "moves.results", partitions=6)
    joined = threading.Event()

    def answer(_asked: Any) -> Reply:
        joined.wait()
        return verdict(**SAID)

    with LLMServer() as llm:
        llm.always(answer)
        judge = {"model": "openai/scripted", "api_key": "none", "api_base": llm.url, "recheck_share": 0}
        config = configuration(
            broker,
            "moves",
            {"moves.spans": "otlp_proto"},
            judge={**judge, "max_concurrency": 2, "timeout": "15m", "cache": {"max_entries": 0}},
            evaluators=[{"type": "relevance"}],
        )
        load = Load(broker, "moves.spans", parts=1)
        try:
            with Fleet(tmp_path, 2, config) as first:
                wait_until(lambda: shares(first) == [3, 3], 60, "half of the partitions each")
                load.send(TRACES)
                wait_until(lambda: first.total("ragmonitor_evaluations_pending") == TRACES, 60, "all read")
                (tmp_path / "third").mkdir()
                with Fleet(tmp_path / "third", 1, config) as third:
                    wait_until(lambda: (shares(first), shares(third)) == ([2, 2], [2]), 60, "a third each")
                    joined.set()
                    wait_for_all(broker, "moves", ["moves.spans"], 90)
                    given_up = first.total("ragmonitor_skipped_total", reason="handed_over")
                    assert given_up > 0
                    assert third.total("ragmonitor_evaluations_selected_total") >= given_up
                    for one in (*first.replicas, *third.replicas):
                        assert_balanced(one.samples())
        finally:
            joined.set()
        assert TRACES <= len(llm.requests) <= TRACES + 4
    assert {request for request, _ in account(broker, "moves.results").results} == set(load.traces)


def shares(fleet: Fleet) -> list[float]:
    return [one.total("ragmonitor_consumer_assigned_partitions") for one in fleet.replicas]
