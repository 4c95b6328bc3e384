"""Grafana-managed rules: the rules of Prometheus, in the form that Grafana reads."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest
import yaml

from monitor.alerts.policy import AlertPolicy
from monitor.alerts.prometheus.grafana_rules import DATASOURCE, FOLDER, render_grafana
from monitor.alerts.prometheus.rules import render
from tests.support.paths import ROOT

SCHEMA = json.loads((ROOT / "tests" / "support" / "grafana_rules.schema.json").read_text())


def policies(*entries: dict[str, Any]) -> list[AlertPolicy]:
    return [AlertPolicy.model_validate(one) for one in entries]


FEW = policies({"evaluator": "groundedness", "warning": "5%", "critical": "15%"})
MANY = policies(
    {"evaluator": "groundedness", "warning": "5%", "regression": True},
    {"evaluator": "groundedness", "app": 'o"d\\d {{ app $x', "critical": "15%", "resolve_after": "0s"},
    {"evaluator": "violence", "defect": {"below": 2}, "critical": "0.1%"},
    {"evaluator": "violence", "defect": {"below": 3}, "warning": "5%"},
    {"evaluator": "retrieval_empty", "warning": "10%"},
    {"evaluator": "self_harm", "severe": True},
)
PAGE = {"runbooks": "https://example.org/runbooks", "page": "https://monitor.example.org"}


def document(entries: list[AlertPolicy], **options: Any) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(render_grafana(entries, **{**PAGE, **options}))
    return found


def rules(entries: list[AlertPolicy], **options: Any) -> list[dict[str, Any]]:
    return [rule for group in document(entries, **options)["groups"] for rule in group["rules"]]


def in_prometheus(entries: list[AlertPolicy]) -> list[dict[str, Any]]:
    return [rule for group in yaml.safe_load(render(entries, **PAGE))["groups"] for rule in group["rules"]]


@pytest.mark.parametrize("entries", [FEW, MANY, []])
def test_the_file_has_the_form_that_grafana_describes(entries: list[AlertPolicy]) -> None:
    jsonschema.Draft202012Validator(SCHEMA).validate(document(entries))


@pytest.mark.parametrize("entries", [FEW, MANY])
def test_every_rule_of_prometheus_is_there_with_its_expression_times_and_labels(entries: list[AlertPolicy]) -> None:
    for mine, theirs in zip(rules(entries), in_prometheus(entries), strict=True):
        assert mine["data"][0]["model"]["expr"] == theirs["expr"]
        assert {key: text.replace("$$", "$") for key, text in mine.get("labels", {}).items()} == theirs.get(
            "labels", {}
        )
        if "record" in theirs:
            assert mine["record"]["metric"] == theirs["record"]
        else:
            assert mine["title"].split()[0] == theirs["alert"]
            assert mine["for"] == theirs.get("for", "0s")
            assert mine.get("keepFiringFor") == theirs.get("keep_firing_for")


def test_groups_are_those_of_prometheus_in_the_folder_of_the_dashboards() -> None:
    groups = document(MANY)["groups"]
    assert [one["name"] for one in groups] == [one["name"] for one in yaml.safe_load(render(MANY))["groups"]]
    assert {one["folder"] for one in groups} == {FOLDER}
    provisioned = yaml.safe_load((ROOT / "grafana" / "provisioning" / "dashboards" / "rag-monitor.yaml").read_text())
    assert provisioned["providers"][0]["folder"] == FOLDER


def test_a_uid_and_a_title_name_one_rule_and_stay_when_others_come() -> None:
    few, many = rules(FEW), rules([*FEW, *policies({"evaluator": "self_harm", "severe": True})])
    for found in (few, many, rules(MANY)):
        assert len({one["uid"] for one in found}) == len({one["title"] for one in found}) == len(found)
    kept = {one["title"]: one["uid"] for one in few}
    assert kept.items() <= {one["title"]: one["uid"] for one in many}.items()


def test_what_an_expression_returns_fires_also_a_zero() -> None:
    for rule in rules(MANY):
        if "condition" in rule:
            _, returned, fires = rule["data"]
            assert returned["model"]["expression"] == "is_number($A) || is_nan($A) || is_inf($A)"
            assert (rule["condition"], fires["refId"], fires["model"]["expression"]) == ("C", "C", "B")
            assert fires["model"]["conditions"] == [{"evaluator": {"type": "gt", "params": [0]}}]
            assert (rule["noDataState"], rule["execErrState"]) == ("OK", "Error")


def test_texts_use_only_what_grafanas_templates_know() -> None:
    for rule in rules(MANY):
        for name, text in rule.get("annotations", {}).items():
            assert text, f"{rule['title']}: {name}"
            assert "| query" not in text
            assert "$value " not in text
            assert text.count("{{") == text.count("}}")
    by_title = {one["title"]: one for one in rules(FEW)}
    assert by_title["RagDefectRateHigh critical"]["annotations"]["description"] == (
        "At least {{ $values.A.Value | humanizePercentage }} of the answers from {{ $labels.app }} are defective"
        " according to {{ $labels.evaluator }}."
    )


def test_a_variable_in_a_label_is_kept_from_grafanas_own_replacement() -> None:
    of_rules = [one["labels"]["defect_rule"] for one in rules(MANY) if "defect_rule" in one.get("labels", {})]
    assert "{{ $$labels.defect_rule }}" in of_rules


def test_the_data_source_is_asked_and_written_to() -> None:
    for rule in rules(FEW, datasource="mimir"):
        assert rule["data"][0]["datasourceUid"] == rule["data"][0]["model"]["datasource"]["uid"] == "mimir"
        assert rule.get("record", {}).get("targetDatasourceUid", "mimir") == "mimir"
    provisioned = yaml.safe_load((ROOT / "grafana" / "provisioning" / "datasources" / "rag-monitor.yaml").read_text())
    assert DATASOURCE in {one["uid"] for one in provisioned["datasources"]}
