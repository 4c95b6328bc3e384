"""The link from an alert to the answers it is about."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from urllib.parse import parse_qs, urlsplit

import pytest
import yaml

from monitor.alerts.catalogue import in_rule, linked
from monitor.alerts.engine import AlertEngine
from monitor.alerts.policy import AlertPolicy, Severity
from monitor.alerts.prometheus.rules import groups
from monitor.alerts.rate_names import NAMES
from monitor.alerts.state import AlertState, AlertStatus
from tests.support.page import NOW, POLICIES, Site
from tests.support.tools import require

PAGE = "https://monitor.example/quality"
HOSTILE = "a b&since=1s#x/\u00e9"


def state(name: str = "RagDefectRateHigh", status: AlertStatus = AlertStatus.FIRING, **labels: str) -> AlertState:
    return AlertState(
        status=status,
        severity=Severity.WARNING,
        app=labels.get("app", ""),
        evaluator=labels.get("evaluator", ""),
        threshold=0.1,
        since=1_700_000_000.0,
        window=3600.0,
        labels={"alertname": name, **labels},
        annotations={"summary": "s"},
    )


def test_a_firing_alert_links_to_its_defects_since_a_window_before_it_began():
    url = linked(state(app=HOSTILE, evaluator="groundedness"), PAGE).annotations["answers_url"]
    assert url.startswith(f"{PAGE}/answers?")
    assert parse_qs(urlsplit(url).query) == {
        "app": [HOSTILE],
        "evaluator": ["groundedness"],
        "since": ["2023-11-14T21:13:00Z"],
        "outcome": ["defect"],
    }


def test_a_firing_alert_on_a_rate_links_to_its_diagnosis_over_an_hour_at_least():
    one = replace(state(app=HOSTILE, evaluator="groundedness", defect_rule="high"), window=10.0)
    url = linked(one, PAGE).annotations["diagnosis_url"]
    assert url.startswith(f"{PAGE}/diagnosis?")
    assert parse_qs(urlsplit(url).query) == {
        "app": [HOSTILE],
        "evaluator": ["groundedness"],
        "defect_rule": ["high"],
        "since": ["2023-11-14T21:13:00Z"],
    }
    assert "diagnosis_url" not in linked(state("RagUnscoredHigh", app="a", evaluator="e"), PAGE).annotations


def test_the_engine_links_what_fires_and_nothing_else(tmp_path):
    site = Site(tmp_path)
    site.judge("shop", "overlap_groundedness", good=10, bad=90)
    site.judge("docs", "overlap_groundedness", good=500, bad=0)
    for page in ("", PAGE):
        states = AlertEngine(POLICIES, site.windows, page=page).evaluate(NOW)
        linked_apps = {one.app for one in states if "answers_url" in one.annotations}
        assert linked_apps == ({"shop"} if page else set())


def test_the_link_stays_the_same_while_the_alert_goes_on():
    one = linked(state(app="shop", evaluator="e"), PAGE)
    assert linked(one, PAGE).annotations == one.annotations


@pytest.mark.parametrize(
    ("name", "status", "page"),
    [
        ("RagDefectRateHigh", AlertStatus.OK, PAGE),
        ("RagDefectRateHigh", AlertStatus.FIRING, ""),
        ("RagLagHigh", AlertStatus.FIRING, PAGE),
        ("RagEvaluationsMissing", AlertStatus.FIRING, PAGE),
    ],
)
def test_where_there_is_nothing_to_look_at_there_is_no_link(name, status, page):
    assert "answers_url" not in linked(state(name, status, app="shop"), page).annotations


def test_rules_have_the_link_where_the_page_has_an_address():
    policies = (AlertPolicy(evaluator="groundedness", warning=0.05, regression=True),)
    for page in ("", PAGE):
        rules = [rule for group in groups(policies, page=page) for rule in group["rules"] if "alert" in rule]
        with_link = {rule["alert"] for rule in rules if "answers_url" in rule["annotations"]}
        about_answers = {"RagDefectRateRegression", "RagUnscoredHigh", "RagJudgeBudgetSpent", *NAMES}
        assert with_link == (about_answers if page else set())


def test_prometheus_fills_the_link_in_with_any_label(tmp_path):
    rule = {"alert": "A", "expr": "up == 0", "annotations": in_rule("RagDefectRateHigh", PAGE)}
    (tmp_path / "rules.yml").write_text(yaml.safe_dump({"groups": [{"name": "g", "rules": [rule]}]}))
    labels = {"app": "a b&c", "evaluator": "groundedness"}
    url = f"{PAGE}/answers?app=a+b%26c&evaluator=groundedness&since=24h&outcome=defect"
    diagnosis = f"{PAGE}/diagnosis?app=a+b%26c&evaluator=groundedness&since=6h"
    expected = {"exp_labels": labels, "exp_annotations": {"answers_url": url, "diagnosis_url": diagnosis}}
    series = [{"series": 'up{app="a b&c",evaluator="groundedness"}', "values": "0 0 0"}]
    asked = [{"eval_time": "2m", "alertname": "A", "exp_alerts": [expected]}]
    tests = {
        "rule_files": ["rules.yml"],
        "tests": [{"interval": "1m", "input_series": series, "alert_rule_test": asked}],
    }
    (tmp_path / "tests.yml").write_text(yaml.safe_dump(tests))
    ran = subprocess.run(
        [require("promtool", "prometheus"), "test", "rules", "tests.yml"],
        cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stdout + ran.stderr
