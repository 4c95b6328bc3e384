"""/metrics as Prometheus and its tools see it."""

from __future__ import annotations

import subprocess
import urllib.error
import urllib.request

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from monitor.telemetry.metrics import Metrics
from tests.support.monitor import MonitorProcess
from tests.support.service import BAD, RagService
from tests.support.tools import require, wait_until


@pytest.fixture(scope="module")
def monitor(tmp_path_factory):
    with MonitorProcess(tmp_path_factory.mktemp("monitor")) as running:
        service = RagService.over_http(running.http)
        trace = service.ask(answer=BAD)
        service.flush()
        service.close()
        wait_until(lambda: running.total("ragmonitor_requests_total", outcome="evaluated") == 1, 20, "a verdict")
        running.trace = trace
        yield running


def test_promtool_has_nothing_to_say(monitor):
    checked = subprocess.run(
        [require("promtool", "prometheus"), "check", "metrics"],
        input=monitor.get("/metrics"), capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert (checked.returncode, checked.stdout + checked.stderr) == (0, "")


def test_openmetrics_carries_the_trace_id_as_an_exemplar(monitor):
    request = urllib.request.Request(
        f"http://127.0.0.1:{monitor.metrics_port}/metrics",
        headers={"Accept": "application/openmetrics-text; version=1.0.0"},
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        families = text_string_to_metric_families(answer.read().decode())
    exemplars = [
        sample.exemplar.labels["trace_id"]
        for family in families
        for sample in family.samples
        if sample.name == "ragmonitor_evaluations_total" and sample.exemplar
    ]
    assert exemplars == [monitor.trace]


def test_every_exposed_series_is_in_the_catalogue(monitor):
    known = Metrics()
    known.score("any", (1.0,))
    names = {name for name, *_ in known.catalogue()}
    exposed = {
        line.split()[2] for line in monitor.get("/metrics").splitlines() if line.startswith("# TYPE ragmonitor_")
    }
    assert {name for name in exposed if not name.endswith("_created")} <= names


def test_all_severities_and_reasons_of_an_app_are_there_at_zero_from_its_first_trace_on(monitor):
    samples = monitor.samples()
    assert len(samples["ragmonitor_unscored_total"]) == 18
    assert len(samples["ragmonitor_traces_total"]) == 12
    assert len(samples["ragmonitor_requests_total"]) == 6
    levels = {at["level"] for at, _ in samples["ragmonitor_evaluations_total"]}
    assert len(levels) == 5


def test_only_get_and_head_are_answered_and_unknown_paths_are_404(monitor):
    for path, method, status in (("/none", "GET", 404), ("/metrics", "POST", 405)):
        request = urllib.request.Request(f"http://127.0.0.1:{monitor.metrics_port}{path}", method=method)
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(request, timeout=60)
        assert refused.value.code == status
        refused.value.close()


def test_what_has_not_happened_yet_is_counted_as_zero(monitor):
    samples = monitor.samples()
    spans = {at["outcome"]: value for at, value in samples["ragmonitor_spans_total"] if at["source"] == "otlp_grpc"}
    assert spans == dict.fromkeys(
        ("kept", "sampled_out", "duplicate", "late", "invalid", "own_telemetry", "too_large"), 0
    )
    assert ({"event": "spool_full"}, 0) in samples["ragmonitor_events_total"]
    assert ({"sink": "storage"}, 0) in samples["ragmonitor_sink_failures_total"]
    assert ({"receiver": "log", "outcome": "failed"}, 0) in samples["ragmonitor_notifications_total"]
