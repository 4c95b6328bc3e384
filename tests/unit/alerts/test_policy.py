"""Policies: what a user may write, and which one holds."""

from __future__ import annotations

from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from pydantic import ValidationError

from monitor.alerts.policy import (
    AlertPolicy,
    Severity,
    check,
    export_thresholds,
    longest_window,
    needs_baselines,
    policy_for,
)
from monitor.errors import ConfigError
from monitor.telemetry.metrics import Metrics


def made(**options: Any) -> AlertPolicy:
    return AlertPolicy.model_validate({"evaluator": "grounded", **options})


def thresholds(metrics: Metrics) -> dict[tuple[str, str, str], float]:
    (family,) = metrics.alert_threshold.collect()
    return {(s.labels["app"], s.labels["evaluator"], s.labels["severity"]): s.value for s in family.samples}


def test_a_policy_reads_as_people_write_it() -> None:
    policy = made(warning="5%", critical=0.15, windows=[{"window": "6h", "z": 3}, {"window": "30m", "z": 2}])
    assert policy.thresholds == {Severity.CRITICAL: 0.15, Severity.WARNING: 0.05}
    assert [one.window for one in policy.by_length] == [1800, 21600]
    assert policy.resolve_after == 300


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "needs a threshold"),
        ({"warning": "5%", "critical": "5%"}, "must be lower than"),
        ({"warning": "20%", "critical": "5%"}, "must be lower than"),
        ({"warning": 0}, "above 0"),
        ({"critical": "100%"}, "below 1"),
        ({"critical": "101%"}, "0% to 100%"),
        ({"critical": 0.1, "windows": []}, "at least 1"),
        ({"critical": 0.1, "windows": [{"window": "1h", "z": 3}, {"window": "60m", "z": 2}]}, "twice"),
        ({"critical": 0.1, "windows": [{"window": "5s", "z": 3}]}, "from 10s to 1w"),
        ({"critical": 0.1, "windows": [{"window": "8d", "z": 3}]}, "from 10s to 1w"),
        ({"critical": 0.1, "windows": [{"window": "1h", "z": 0}]}, "greater than or equal to 1"),
        ({"critical": 0.1, "resolve_after": "1500ms"}, "whole seconds"),
        ({"critical": 0.1, "evaluator": ""}, "at least 1 character"),
        ({"critical": 0.1, "treshold": 1}, "Extra inputs"),
    ],
)
def test_a_policy_that_makes_no_sense_is_refused_with_what_is_allowed(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        made(**options)


def test_the_policy_of_an_app_goes_before_that_of_every_app() -> None:
    general, own = made(critical=0.1), made(critical=0.2, app="shop")
    for policies in ([general, own], [own, general]):
        assert policy_for(policies, "shop", "grounded") is own
        assert policy_for(policies, "bank", "grounded") is general
        assert policy_for(policies, "shop", "relevance") is None


def test_two_policies_for_the_same_are_refused_by_place() -> None:
    with pytest.raises(ConfigError, match=r"alerts\[1\]: evaluator 'grounded' and every app .* alerts\[0\]"):
        check([made(critical=0.1), made(warning=0.1)], {"grounded"})
    check([made(critical=0.1), made(critical=0.1, app="shop")], {"grounded"})


def test_an_evaluator_that_is_not_there_is_refused_with_those_that_are() -> None:
    with pytest.raises(ConfigError, match=r"alerts\[0\].evaluator: 'grounded' is not among .*: relevance, safety"):
        check([made(critical=0.1)], {"safety", "relevance"})


def test_windows_must_reach_as_far_back_as_the_longest_policy() -> None:
    assert longest_window([]) == 86400
    assert longest_window([made(critical=0.1, windows=[{"window": "3d", "z": 2}])]) == 3 * 86400


def test_thresholds_are_exported_for_every_app_by_the_policy_that_holds() -> None:
    metrics = Metrics(CollectorRegistry())
    policies = [made(warning=0.05, critical=0.1), made(critical=0.2, app="shop")]
    export_thresholds(policies, ["shop", "bank"], metrics)
    assert thresholds(metrics) == {
        ("shop", "grounded", "critical"): 0.2,
        ("bank", "grounded", "critical"): 0.1,
        ("bank", "grounded", "warning"): 0.05,
    }


def test_apps_that_a_policy_names_have_a_threshold_before_they_are_seen() -> None:
    metrics = Metrics(CollectorRegistry())
    export_thresholds([made(critical=0.2, app="shop")], [], metrics)
    assert thresholds(metrics) == {("shop", "grounded", "critical"): 0.2}


@pytest.mark.parametrize(
    ("written", "family"),
    [(True, "default"), ("default", "default"), ("strict", "strict"), ("sensitive", "sensitive"), (False, None)],
)
def test_a_regression_is_a_family_or_true_or_left_out(written: object, family: str | None) -> None:
    policy = made(warning="5%", regression=written)
    assert policy.regression == family
    assert policy.regression_severity == "warning"
    assert needs_baselines([policy]) is (family is not None)


def test_a_regression_needs_no_threshold() -> None:
    assert made(regression=True).thresholds == {}


@pytest.mark.parametrize("written", ["quick", 1, []])
def test_a_regression_that_is_no_family_is_refused_with_what_is_allowed(written: object) -> None:
    with pytest.raises(ValidationError, match="'default', 'strict' or 'sensitive'"):
        made(warning="5%", regression=written)


def test_the_z_of_a_regression_is_exported_for_every_app_by_window() -> None:
    metrics = Metrics(CollectorRegistry())
    policies = [made(regression=True), made(app="bank", regression="strict", regression_severity="critical")]
    export_thresholds(policies, ["shop", "bank"], metrics)
    (family,) = metrics.alert_regression_z.collect()
    exported = {(s.labels["app"], s.labels["severity"], s.labels["window"]): s.value for s in family.samples}
    assert exported == {
        ("shop", "warning", "1h"): 3.6,
        ("shop", "warning", "6h"): 3.1,
        ("shop", "warning", "1d"): 4.2,
        ("shop", "warning", "3d"): 2.6,
        ("bank", "critical", "1h"): 4.5,
        ("bank", "critical", "6h"): 3.7,
        ("bank", "critical", "1d"): 4.6,
        ("bank", "critical", "3d"): 3.0,
    }


def test_a_policy_applies_to_the_app_that_it_names_as_its_service_does() -> None:
    own = made(critical=0.2, app=" \u5ba2\u670d\u3000\u52a9\u624b ")
    assert own.app == "\u5ba2\u670d \u52a9\u624b"
    assert policy_for([own], "\u5ba2\u670d \u52a9\u624b", "grounded") is own
    assert made(critical=0.2, app=129 * "x").app == 128 * "x"
    with pytest.raises(ValidationError, match="must be the name of a service, not blank"):
        made(critical=0.2, app=" \u3000")
