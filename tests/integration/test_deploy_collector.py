"""The Collector configurations: a real Collector takes each as it stands, and traces arrive as its comments say."""

from __future__ import annotations

import random
import re
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support import deploy
from tests.support.collector import DeployedCollector, validate
from tests.support.kafka import Broker
from tests.support.kafka_traces import in_parts, rag_trace
from tests.support.monitor import MonitorProcess, assert_balanced
from tests.support.tools import free_port, wait_until

FILES = deploy.DEPLOY / "otel-collector"
BATCH = 1.0  # seconds; the time of a batch in these files
PATIENT: dict[str, Any] = {
    "assembly": {"grace_period": "500ms", "idle_timeout": "30s"},
    "evaluators": [{"type": "overlap_groundedness"}],
}

pytestmark = pytest.mark.timeout(900)


def send(collector: DeployedCollector, count: int) -> None:
    """So many traces, each in two requests that the Collector has no reason to put together again."""
    ids = [f"{random.getrandbits(128) | 1:032x}" for _ in range(count)]
    halves = [in_parts(rag_trace(one, start_ns=time.time_ns()), 2) for one in ids]
    for half in (0, 1):
        for parts in halves:
            post(collector, parts[half].SerializeToString())
        time.sleep(BATCH * 1.3)


def post(collector: DeployedCollector, body: bytes) -> None:
    request = urllib.request.Request(
        f"http://127.0.0.1:{collector.http}/v1/traces", body, {"Content-Type": "application/x-protobuf"}
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        assert answer.status == 200


def judged(*monitors: MonitorProcess) -> list[float]:
    return [one.total("ragmonitor_requests_total", outcome="evaluated") for one in monitors]


def monitor(folder: Path, **more: Any) -> MonitorProcess:
    folder.mkdir()
    return MonitorProcess(folder, {**PATIENT, **more})


@pytest.mark.parametrize("name", ["tee", "kafka", "loadbalancing"])
def test_the_collector_accepts_the_file(name: str) -> None:
    done = validate(FILES / f"{name}.yaml")
    assert done.returncode == 0, done.stderr


def test_the_collector_would_refuse_a_slip(tmp_path: Path) -> None:
    text = (FILES / "kafka.yaml").read_text()
    (tmp_path / "kafka.yaml").write_text(text.replace("partition_traces_by_id", "partition_traces_by_ids"))
    assert "partition_traces_by_ids" in validate(tmp_path / "kafka.yaml").stderr


def test_every_file_is_tested_here() -> None:
    assert {path.stem for path in FILES.glob("*.yaml")} == {"tee", "kafka", "loadbalancing"}


def test_a_tee_brings_traces_to_the_monitor(tmp_path: Path) -> None:
    with monitor(tmp_path / "monitor") as one:
        to = {"RAG_MONITOR": f"127.0.0.1:{one.grpc}"}
        with DeployedCollector(tmp_path / "collector", FILES / "tee.yaml", **to) as collector:
            send(collector, 5)
            wait_until(lambda: judged(one) == [5], 30, "five judged traces")


@pytest.mark.parametrize("name", ["tee", "kafka", "loadbalancing"])
def test_a_service_notices_nothing_of_a_monitor_that_is_away_even_when_the_queue_is_full(
    tmp_path: Path, name: str
) -> None:
    """Else its exporter would send again, and the trace store beside the monitor would have everything twice."""
    text = (FILES / f"{name}.yaml").read_text()
    assert "queue_size: 1000" in text
    hasty = tmp_path / "hasty.yaml"
    hasty.write_text(text.replace("queue_size: 1000", "queue_size: 1").replace("{timeout: 1s}", "{timeout: 10ms}"))
    names = ("RAG_MONITOR", "KAFKA_BROKERS", "RAG_MONITOR_0", "RAG_MONITOR_1")
    nobody = {variable: f"127.0.0.1:{free_port()}" for variable in names}
    with DeployedCollector(tmp_path / "collector", hasty, **nobody) as collector:
        for _ in range(25):  # ten batches are being sent, one waits
            post(collector, rag_trace(f"{random.getrandbits(128) | 1:032x}").SerializeToString())
            time.sleep(0.03)
        collector.stop(0.1)
    assert "queue is full" in collector.log.read_text()


def test_load_balancing_brings_all_spans_of_a_trace_to_one_monitor(tmp_path: Path) -> None:
    """And some traces to each: of 40, all reach the same one of two once in 2e-12 times."""
    with monitor(tmp_path / "one") as one, monitor(tmp_path / "two") as two:
        to = {f"RAG_MONITOR_{at}": f"127.0.0.1:{each.grpc}" for at, each in enumerate((one, two))}
        with DeployedCollector(tmp_path / "collector", FILES / "loadbalancing.yaml", **to) as collector:
            send(collector, 40)
            wait_until(lambda: sum(judged(one, two)) == 40, 30, "forty judged traces")
        assert all(judged(one, two)), "one of the two has nothing"
        assert sum(assert_balanced(each.samples()) for each in (one, two)) == 40, "a trace was split"


def test_by_kafka_each_trace_lies_in_one_partition_and_the_monitor_of_the_stack_has_it_whole(tmp_path: Path) -> None:
    """With the topics, and the configuration of the monitor, of deploy/compose."""
    stack = yaml.safe_load((deploy.DEPLOY / "compose" / "compose.yaml").read_text())["services"]
    (topics,) = re.findall(r"for topic in (.*);", stack["topics"]["command"][-1])
    config = yaml.safe_load((deploy.DEPLOY / "compose" / "monitor.yaml").read_text())
    with Broker(tmp_path / "kafka") as broker:
        for name, _, partitions in (one.partition(":") for one in topics.split()):
            broker.create_topics(name, partitions=int(partitions))
        one = monitor(tmp_path / "monitor")
        for entry in [*config["sources"], *config["sinks"]]:
            entry.update({"brokers": broker.address} if entry["type"] == "kafka" else {"port": one.metrics_port})
        config["sinks"][0] |= {"host": "127.0.0.1"}
        config["storage"] |= one.config["storage"]
        one.config = {**config, **PATIENT}
        collector = DeployedCollector(tmp_path / "collector", FILES / "kafka.yaml", KAFKA_BROKERS=broker.address)
        with one, collector:
            send(collector, 20)
            wait_until(lambda: judged(one) == [20], 60, "twenty judged traces")
            assert assert_balanced(one.samples()) == 20
            # of the evaluator of the stack, and of the two of `context_rates`
            wait_until(lambda: sum(broker.end_offsets("rag_results").values()) == 60, 20, "three results of each trace")
        assert sum(end > 0 for end in broker.end_offsets("otlp_spans").values()) > 1
