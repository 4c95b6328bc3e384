"""/metrics as Prometheus and its tools see it."""

from __future__ import annotations

import re
import subprocess
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from monitor.telemetry.metrics import Metrics
from tests.support.monitor import MonitorProcess
from tests.support.service import BAD, RagService
from tests.support.tools import require, wait_until

ROOT = Path(__file__).parents[2]
SELECTED = re.compile(r"(ragmonitor_[a-z_]+_total)\{([^{}]*)\}")
MATCHED = re.compile(r'(\w+)=~?"([\w|]+)"')
COUNTED = {"outcome", "reason", "agreement", "call", "kind", "event"}


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
    families = text_string_to_metric_families(
        monitor.get("/metrics", accept="application/openmetrics-text; version=1.0.0")
    )
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
    assert exposed <= names


def test_the_series_that_rates_add_up_are_there_at_zero_from_the_first_trace_of_an_app_on(monitor):
    samples = monitor.samples()
    reasons = {at["reason"] for at, _ in samples["ragmonitor_unscored_total"]}
    assert reasons == {"error", "out_of_range"}, "a local evaluator meets no provider"
    ended = {at["outcome"]: value for at, value in samples["ragmonitor_traces_total"]}
    assert {name for name, value in ended.items() if value} == {"read"}
    assert {"poison", "invalid", "expired"} <= ended.keys()
    assert "sampled_out" not in ended, "nothing asks for its increase by name"
    levels = {at["level"] for at, _ in samples["ragmonitor_evaluations_total"]}
    assert len(levels) == 5
    agreed = [value for at, value in samples["ragmonitor_feedback_agreement_total"] if at["app"] == "shop"]
    assert agreed
    assert set(agreed) == {0}, "no user has voted yet"


def test_what_a_board_or_an_alert_counts_by_name_is_there_at_zero_before_it_happens(monitor):
    """`increase()` misses the first event of a series that begins with it."""
    samples = monitor.samples()
    found = {(name, key, at[key]) for name, all_of in samples.items() for at, _ in all_of for key in at}
    sources = [*ROOT.glob("grafana/dashboards/*.json"), ROOT / "deploy" / "compose" / "rules.yml"]
    texts = "\n".join(path.read_text().replace('\\"', '"') for path in sources)
    asked = {
        (name, key, value)
        for name, matchers in SELECTED.findall(texts)
        for key, values in MATCHED.findall(matchers)
        if key in COUNTED and name in samples
        for value in values.split("|")
    }
    assert ("ragmonitor_traces_total", "outcome", "poison") in asked
    assert ("ragmonitor_unscored_total", "reason", "budget") in asked
    of_a_judge = {one for one in asked if one[0] == "ragmonitor_unscored_total"}  # this monitor has none
    assert asked - found - of_a_judge == set()


def test_no_series_of_creation_times_is_exposed_in_either_format(monitor):
    for accept in ("", "application/openmetrics-text; version=1.0.0"):
        names = [line for line in monitor.get("/metrics", accept=accept).splitlines() if "ragmonitor_" in line]
        assert names
        assert not [line for line in names if "_created" in line.split("{")[0]]


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
