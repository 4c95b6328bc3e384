"""An alert on the monitor itself is one file: everything else is derived from it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from monitor.alerts import catalogue, self_alerts
from monitor.alerts.catalogue import held_back, inhibit_rules, inhibitions
from monitor.alerts.engine import AlertEngine
from monitor.alerts.policy import Severity
from monitor.alerts.prometheus.rule_tests import render_tests
from monitor.alerts.prometheus.rules import render
from monitor.alerts.self_alert import Observed, SelfAlertChecks
from monitor.alerts.self_alert import self_alerts as found
from monitor.clock import ManualClock
from monitor.statistics.windows import Windows
from tests.support.results import judged
from tests.support.written import ROOT

FILE = """
from monitor.alerts.policy import Severity
from monitor.alerts.prometheus.promtool import expect_firing, input_series, promtool_test
from monitor.alerts.self_alert import Condition, Inhibits, PrometheusRule, ResultSelector, SelfAlert
from monitor.alerts.state import AlertStatus, ConditionResult, Subject

NAME = "RagDiskFull"


class Disk(Condition):
    seen = 0

    def on_result(self, result, app):
        self.seen += 1

    def find(self, now):
        status = AlertStatus.FIRING if self.seen > 1 else AlertStatus.OK
        yield Subject(NAME, Severity.CRITICAL, evaluator="grounded"), ConditionResult(status, f"{self.seen} seen.")


def tests():
    full = input_series("disk_full", {"evaluator": "grounded"}, "1x20")
    fires = expect_firing(NAME, 60, {"evaluator": "grounded", "severity": "critical"})
    yield promtool_test("RagDiskFull: fires", [full], [fires])


ALERT = SelfAlert(
    name=NAME,
    summary="The disk is full.",
    condition=Disk,
    rules=(PrometheusRule("disk_full > 0", "It is full.", Severity.CRITICAL),),
    keep_firing_for=120.0,
    inhibits=(Inhibits(("RagLagHigh",), "a full disk is why traces wait", equal=()),),
    answers=ResultSelector(("evaluator",), "unscored"),
    tests=tests,
)
"""


@pytest.fixture
def _written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The file lies in the folder."""
    (tmp_path / "disk_full.py").write_text(FILE)
    monkeypatch.setattr(self_alerts, "__path__", [*self_alerts.__path__, str(tmp_path)])
    found.cache_clear()
    yield
    found.cache_clear()
    sys.modules.pop("monitor.alerts.self_alerts.disk_full", None)


@pytest.mark.usefixtures("_written")
def test_the_engine_checks_it_holds_it_and_links_it_to_its_answers() -> None:
    clock = ManualClock()
    checks = SelfAlertChecks(Observed(clock))
    engine = AlertEngine([], Windows(clock), checks=checks, runbooks="https://e.org", page="https://page.test")

    def state() -> object:
        (one,) = (one for one in engine.evaluate(clock.now()) if one.name == "RagDiskFull")
        return one

    assert not state().firing
    for number in range(2):
        checks.on_result(judged(number), "shop")
    assert state().firing
    assert state().annotations["summary"] == "The disk is full."
    assert state().annotations["runbook_url"] == "https://e.org/RagDiskFull.md"
    assert "evaluator=grounded" in state().annotations["answers_url"]


@pytest.mark.usefixtures("_written")
def test_prometheus_has_its_rule_and_promtool_its_tests() -> None:
    groups = {group["name"]: group["rules"] for group in yaml.safe_load(render([], page="https://page.test"))["groups"]}
    (rule,) = (rule for rule in groups["ragmonitor-health"] if rule.get("alert") == "RagDiskFull")
    assert (rule["expr"], rule["keep_firing_for"], rule["labels"]) == ("disk_full > 0", "2m", {"severity": "critical"})
    assert "outcome=unscored" in rule["annotations"]["answers_url"]
    assert "RagDiskFull: fires" in [test["name"] for test in yaml.safe_load(render_tests([]))["tests"]]


@pytest.mark.usefixtures("_written")
def test_it_holds_back_what_it_explains_here_and_in_alertmanager() -> None:
    clock = ManualClock()
    checks = SelfAlertChecks(Observed(clock, oldest_pending=lambda: clock.now() - 3600))
    for number in range(2):
        checks.on_result(judged(number), "shop")
    firing = [state for state in AlertEngine([], Windows(clock), checks=checks).evaluate(clock.now()) if state.firing]
    assert [state.name for state in held_back(firing)] == ["RagLagHigh"]
    assert ["alertname = RagDiskFull"] in [rule["source_matchers"] for rule in inhibit_rules()]


@pytest.mark.usefixtures("_written")
def test_the_tables_of_the_docs_have_a_row_for_it() -> None:
    page = "<!-- generated: alerts -->\nold\n<!-- end -->\n"
    assert "| [RagDiskFull](runbooks/RagDiskFull.md) | critical | The disk is full. |" in catalogue.fill(
        page, "runbooks/"
    )
    assert "# a full disk is why traces wait" in catalogue.alertmanager_yaml()


def test_a_file_that_defines_no_alert_or_one_that_exists_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(self_alerts, "__path__", [*self_alerts.__path__, str(tmp_path)])
    for name, text, message in (
        ("empty_one", "", "must define one SelfAlert, it defines 0"),
        ("second_lag", "from monitor.alerts.self_alerts.lag_high import ALERT", "define the same alert"),
    ):
        (tmp_path / f"{name}.py").write_text(text)
        found.cache_clear()
        with pytest.raises(TypeError, match=message):
            found()
        (tmp_path / f"{name}.py").unlink()
        sys.modules.pop(f"monitor.alerts.self_alerts.{name}", None)
    found.cache_clear()


@pytest.mark.parametrize("name", catalogue.names())
def test_every_alert_has_a_runbook_that_says_what_it_means_and_what_to_do(name: str) -> None:
    runbook = (ROOT / "docs" / "runbooks" / f"{name}.md").read_text()
    assert runbook.startswith(f"# {name}\n")
    for part in ("**Meaning.**", "**Impact.**", "**Find out", "**Act.**", "**When it ends.**"):
        assert part in runbook, part


def test_every_inhibition_names_alerts_that_exist_and_no_target_is_more_severe_than_its_source() -> None:
    severities = {alert.name: alert.severities for alert in found()}
    both = tuple(Severity)
    for rule in inhibitions():
        assert {*rule.sources, *rule.targets} <= set(catalogue.names())
        for target in rule.targets:
            targets = (rule.target_severity,) if rule.target_severity else severities.get(target, both)
            assert rule.source_severity is Severity.CRITICAL or targets == (Severity.WARNING,)
