"""Two rates have alerts with a name and a runbook of their own: the same limits, in process and in PromQL."""

from __future__ import annotations

import re

import pytest

from monitor import config
from monitor.alerts import rate_names
from monitor.alerts.engine import AlertEngine
from monitor.alerts.policy import DEFAULT_WINDOWS, AlertPolicy, AlertWindow
from monitor.alerts.prometheus.rules import groups
from monitor.clock import ManualClock
from monitor.statistics.windows import Windows

NOW = 1_700_000_000.0


def rules(*policies: AlertPolicy) -> list[dict[str, object]]:
    found = [rule for group in groups(policies) for rule in group["rules"] if rule.get("alert") in rate_names.NAMES]
    return [{"name": one["alert"], "expr": one["expr"], "said": one["annotations"]["description"]} for one in found]


@pytest.mark.parametrize("evaluator", rate_names.OWN)
def test_the_alert_in_process_has_the_name_of_its_rate_and_says_what_it_is(evaluator: str) -> None:
    windows = Windows(ManualClock(NOW), longest=86400.0)
    for defect in [True] * 60 + [False] * 40:
        windows.add("shop", evaluator, NOW, 1.0, defect=defect)
    (state,) = AlertEngine([AlertPolicy(evaluator=evaluator, warning=0.1)], windows).evaluate(NOW)
    about = rate_names.OWN[evaluator]
    assert (state.firing, state.name, state.annotations["summary"]) == (True, about.name, about.summary)
    assert about.predicate in state.annotations["description"]
    assert state.annotations["description"].endswith(about.advice)
    assert evaluator not in state.annotations["description"]


@pytest.mark.parametrize("evaluator", rate_names.OWN)
def test_the_rules_say_what_the_rate_is_instead_of_the_name_of_its_evaluator(evaluator: str) -> None:
    said = [str(one["said"]) for one in rules(AlertPolicy(evaluator=evaluator, warning=0.1)) if _takes(one, evaluator)]
    assert said
    assert all(rate_names.OWN[evaluator].predicate in one and "according to" not in one for one in said)


def test_every_rate_is_in_exactly_one_rule_of_a_severity() -> None:
    for windows in (DEFAULT_WINDOWS, (AlertWindow(window=7200.0, z=3.0),)):
        found = rules(
            AlertPolicy(evaluator="groundedness", warning=0.1),
            AlertPolicy(evaluator="retrieval_empty", warning=0.1, critical=0.3, windows=windows),
            AlertPolicy(evaluator="context_not_recorded", warning=0.1),
        )
        for evaluator in ("groundedness", *rate_names.OWN):
            name = rate_names.rate_alert(evaluator).name
            taken = [
                one["name"] for one in found if 'severity="warning"' in str(one["expr"]) and _takes(one, evaluator)
            ]
            assert taken == [name]


def _takes(rule: dict[str, object], evaluator: str) -> bool:
    chosen = set(re.findall(r'evaluator(!~|=)"([^"]*)"', str(rule["expr"])))
    return all((evaluator in names.split("|")) == (how == "=") for how, names in chosen)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("", {"RagRetrievalEmptyHigh", "RagContextNotRecorded"}),
        ("alerts: []", set()),
        ("context_rates: false", set()),
        ("evaluators: [{type: retrieval_empty, sample: 5%}, {type: response_length}]", {"RagContextNotRecorded"}),
    ],
)
def test_a_running_monitor_has_both_unless_the_configuration_says_otherwise(text: str, names: set[str]) -> None:
    loaded = config.parse_text(text).as_run()
    assert {rate_names.rate_alert(one.evaluator).name for one in loaded.alerts} & set(rate_names.NAMES[1:]) == names
    configured = [one.evaluator.name for one in loaded.configured_evaluators]
    assert len(configured) == len(set(configured))
    assert (set(configured) >= set(rate_names.OWN)) == (text != "context_rates: false")
    assert loaded.as_run() == loaded


def test_an_alert_of_ones_own_replaces_what_is_added() -> None:
    text = "alerts: [{evaluator: retrieval_empty, critical: 50%}]"
    (own, _) = config.parse_text(text).as_run().alerts
    assert (own.evaluator, own.warning, own.critical, own.regression) == ("retrieval_empty", None, 0.5, None)
