"""`rag-monitor init` knows real servers by their answers."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from monitor.operations.event_loop import run_async
from monitor.operations.setup import surroundings
from tests.support.kafka import Broker
from tests.support.prometheus import alertmanager, prometheus


def test_prometheus_alertmanager_and_kafka_are_each_found_where_they_are_and_nowhere_else(
    tmp_path: Path, kafka: Broker
) -> None:
    with prometheus(tmp_path / "p", []) as metrics, alertmanager(tmp_path / "a", "http://127.0.0.1:1") as alerts:
        addresses = {"Prometheus": metrics, "Alertmanager": alerts, "Kafka": kafka.address}
        ports = {kind: int(address.rpartition(":")[2]) for kind, address in addresses.items()}
        found = run_async(partial(surroundings.servers, ports=ports, limit=60.0))
        assert {one.kind: one.address for one in found} == addresses
        assert all("says 0." in one.why or "says 2." in one.why or "knows" in one.why for one in found)
        mixed = {
            "Prometheus": ports["Alertmanager"],
            "Alertmanager": ports["Prometheus"],
            "Grafana": ports["Prometheus"],
        }
        assert run_async(partial(surroundings.servers, ports=mixed, limit=60.0)) == []
        crossed = {"Kafka": ports["Prometheus"], "Prometheus": ports["Kafka"]}
        assert run_async(partial(surroundings.servers, ports=crossed, limit=5.0)) == []
