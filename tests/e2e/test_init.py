"""What `rag-monitor init` writes is a file with which a monitor runs and judges what it gets."""

from __future__ import annotations

import functools
import gzip
from pathlib import Path
from typing import Any

import pytest
import yaml

from monitor.operations.setup import surroundings
from tests.support.command import command
from tests.support.monitor import MonitorProcess, assert_balanced
from tests.support.paths import ROOT
from tests.support.service import BAD, RagService
from tests.support.tools import free_port, wait_until

TRAFFIC = ROOT / "monitor" / "cli" / "demo" / "traffic"


@pytest.fixture(autouse=True)
def nothing_around(monkeypatch: pytest.MonkeyPatch) -> None:
    """No API key, and no server on the usual ports."""
    for name in surroundings.variables():
        monkeypatch.delenv(name, raising=False)
    ports = {kind: free_port() for kind in surroundings.PORTS}
    monkeypatch.setattr(surroundings, "servers", functools.partial(surroundings.servers, ports=ports))


def with_free_ports(written: dict[str, Any], monitor: MonitorProcess) -> dict[str, Any]:
    """The configuration as it was written, on ports and in a folder of this test: the usual ones may be in use."""
    ports = {"otlp_http": monitor.http, "otlp_grpc": monitor.grpc}
    assert {one["type"] for one in written["sources"]} == set(ports)
    return {
        **written,
        "sources": [{**one, "port": ports[one["type"]]} for one in written["sources"]],
        "sinks": [*written.get("sinks", ()), {"type": "prometheus", "port": monitor.metrics_port}],
        "storage": {**written.get("storage", {}), "path": str(monitor.folder / "state")},
    }


@pytest.mark.parametrize("given", ["nothing", "a capture"])
def test_a_monitor_runs_on_the_file_that_init_writes_and_judges_a_trace(tmp_path: Path, given: str) -> None:
    made = tmp_path / "made.yaml"
    named: list[object] = []
    if given == "a capture":
        capture = tmp_path / "recorded.pb"
        capture.write_bytes(gzip.decompress((TRAFFIC / "acme-docs.supported.pb.gz").read_bytes()))
        named = ["--from", capture]
    told = command("init", "-o", made, "--timeout", "60s", "--environment", tmp_path / "empty", *named)
    assert told.exit_code == 0, told.output
    monitor = MonitorProcess(tmp_path)
    monitor.config = with_free_ports(yaml.safe_load(made.read_text()), monitor)
    expected = {one["type"] for one in monitor.config["evaluators"]}
    with monitor:
        for service in (RagService.over_http(monitor.http), RagService.over_grpc(monitor.grpc)):
            service.ask(answer=BAD)
            service.flush()
            service.close()
        wait_until(lambda: monitor.total("ragmonitor_requests_total", outcome="evaluated") == 2, 60, "both requests")
        ended = monitor.samples()["ragmonitor_evaluations_total"]
        assert {at["evaluator"] for at, number in ended if number} >= expected
        monitor.wait_for_total(2, "ragmonitor_evaluations_total", evaluator="overlap_groundedness", defect="true")
        assert_balanced(monitor.samples())
        assert "overlap_groundedness" in monitor.get("/")
        assert monitor.terminate() == 0
