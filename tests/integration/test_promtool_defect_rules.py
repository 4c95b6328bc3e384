"""The rules for alerts with their own defect rule as Prometheus reads them: valid, and firing by their own rates."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from monitor.alerts.policy import AlertPolicy
from monitor.alerts.prometheus.rule_tests import render_tests
from monitor.alerts.prometheus.rules import render
from monitor.model.outcome import DefectRule
from tests.support.prometheus import promtool

LOW = DefectRule("at_least", 2, levels=("low", "medium", "high"))
HIGH = DefectRule("at_least", 6, levels=("high",))
ADDRESS = "https://runbooks.example.org"


def policy(**options: Any) -> AlertPolicy:
    return AlertPolicy.model_validate({"evaluator": "violence", **options})


POLICIES = [policy(warning="20%"), policy(defect=LOW, warning="5%"), policy(defect=HIGH, critical="1%")]
MIXED = [
    *POLICIES,
    policy(defect=HIGH, app="bank", critical="2%", windows=[{"window": "30m", "z": 3}, {"window": "1h", "z": 2}]),
    policy(defect=DefectRule("label", label='a"tt\\ack'), warning="5%"),
]


def rules_of(text: str) -> list[dict[str, Any]]:
    return [rule for group in yaml.safe_load(text)["groups"] for rule in group["rules"]]


@pytest.mark.parametrize("policies", [POLICIES, MIXED])
def test_the_written_tests_by_own_defect_rules_pass(policies: list[AlertPolicy], tmp_path: Path) -> None:
    (tmp_path / "rules.yml").write_text(render(policies, runbooks=ADDRESS, page="http://page"))
    document = yaml.safe_load(render_tests(policies))
    document["tests"] = [one for one in document["tests"] if "by the defect rule" in one["name"]]
    assert document["tests"]
    (tmp_path / "test.yml").write_text(yaml.safe_dump(document))
    for arguments in (("check", "rules", "rules.yml"), ("test", "rules", "test.yml")):
        ended = promtool(*arguments, cwd=tmp_path)
        assert ended.returncode == 0, (ended.stdout + ended.stderr)[:4000]


def test_the_written_tests_of_a_rise_by_an_own_defect_rule_pass(tmp_path: Path) -> None:
    policies = [policy(warning="20%", regression=True), policy(defect=HIGH, regression="strict")]
    (tmp_path / "rules.yml").write_text(render(policies))
    document = yaml.safe_load(render_tests(policies))
    document["tests"] = [one for one in document["tests"] if "by the defect rule" in one["name"]]
    assert len(document["tests"]) == 2
    (tmp_path / "test.yml").write_text(yaml.safe_dump(document))
    ended = promtool("test", "rules", "test.yml", cwd=tmp_path)
    assert ended.returncode == 0, (ended.stdout + ended.stderr)[:4000]


def test_alerts_by_own_rules_leave_the_other_rules_as_they_are() -> None:
    usual, with_own = render(POLICIES[:1], runbooks=ADDRESS), render(POLICIES, runbooks=ADDRESS)
    groups = {one["name"]: one for one in yaml.safe_load(with_own)["groups"]}
    assert {name: one for name, one in groups.items() if not name.endswith("-by-rule")} == {
        one["name"]: one for one in yaml.safe_load(usual)["groups"]
    }


def test_no_rule_by_own_rules_reads_or_writes_what_the_others_record() -> None:
    groups = yaml.safe_load(render([*POLICIES, policy(defect=LOW, app="bank", regression=True)]))["groups"]
    own = [rule for one in groups if one["name"].endswith("-by-rule") for rule in one["rules"]]
    assert own
    for rule in own:
        assert "app_evaluator_version:" not in rule["expr"]
        assert "(app, evaluator, version)" not in rule["expr"]
        assert not str(rule.get("record", "")).startswith("app_evaluator_version:")


def test_the_files_of_other_thresholds_and_rules_with_the_same_windows_are_the_same() -> None:
    others = [policy(warning="3%"), policy(defect=HIGH, warning="7%"), policy(defect=LOW, app="bank", critical="2%")]
    assert render(POLICIES) == render(others)


def test_the_text_of_the_alert_names_the_defect_rule(tmp_path: Path) -> None:
    document = yaml.safe_load(render_tests(POLICIES))
    (test,) = (
        one
        for one in document["tests"]
        if one["name"]
        == "RagDefectRateHigh warning of violence: clearly above: fires, by the defect rule 'low or higher'"
    )
    labels = {
        "app": "shop",
        "evaluator": "violence",
        "version": "1",
        "severity": "warning",
        "defect_rule": "low or higher",
    }
    test["promql_expr_test"] = []
    test["alert_rule_test"] = [
        {"alertname": "RagDefectRateHigh", "eval_time": "3h", "exp_alerts": [{"exp_labels": labels}]}
    ]
    (tmp_path / "rules.yml").write_text(render(POLICIES))
    (tmp_path / "test.yml").write_text(yaml.safe_dump({**document, "tests": [test]}))
    said = promtool("test", "rules", "test.yml", cwd=tmp_path)
    text = said.stdout + said.stderr
    assert "A defect is: low or higher." in text
    assert "The threshold is 5%" in text
    assert "?" not in text
