from __future__ import annotations

import math

import pytest
from pydantic import ValidationError

from monitor.model.case import Case, Reading, ReadingStatus, Traffic
from monitor.model.outcome import RateScope
from monitor.pipeline.ledger import RequestOutcome
from monitor.pipeline.traffic import TrafficRules, TrafficSettings, rate_scope
from monitor.statistics import consistent_sampling
from tests.support.runtime import runtime, total


def reading(number=0, status=ReadingStatus.READY, *, app="shop", probability=1.0, **attributes):
    told = {key.replace("__", "."): value for key, value in attributes.items()}
    return Reading(status, Case(request_id=f"{number:032x}", app=app, attributes=told, probability=probability))


def rules(**settings):
    return TrafficRules(TrafficSettings.model_validate(settings), "salt", runtime())


@pytest.mark.parametrize("path", ["/health", "/healthz", "/-/ready", "/livez", "/ping", "/actuator/health/liveness"])
def test_health_checks_are_left_out_unless_asked_for(path):
    check = reading(http__route=path)
    assert rules().sort(check) is RequestOutcome.FILTERED
    assert rules(health_checks=True).sort(check) == check


@pytest.mark.parametrize("path", ["/healthcare/ask", "/v1/health-insurance", "/ask", "/shipping", "", "/readings"])
def test_what_only_begins_like_a_health_check_is_none(path):
    assert isinstance(rules().sort(reading(http__route=path)), Reading)


def test_probes_are_known_by_their_name_and_paths_without_their_query():
    assert rules().sort(reading(user_agent__original="kube-probe/1.29")) is RequestOutcome.FILTERED
    assert rules().sort(reading(http__target="/healthz?verbose=1")) is RequestOutcome.FILTERED


def test_a_rule_leaves_out_what_its_whole_value_matches_in_any_status():
    dropping = rules(drop=[{"attribute": "http.route", "matches": "/internal/*"}])
    assert dropping.sort(reading(http__route="/internal/eval")) is RequestOutcome.FILTERED
    assert (
        dropping.sort(reading(status=ReadingStatus.CONTENT_MISSING, http__route="/internal/eval"))
        is RequestOutcome.FILTERED
    )
    assert isinstance(dropping.sort(reading(http__route="/Internal/eval")), Reading)
    assert isinstance(dropping.sort(reading(http__route="/v2/internal/eval")), Reading)
    assert isinstance(dropping.sort(reading()), Reading)


@pytest.mark.parametrize(
    ("told", "traffic"),
    [
        ({}, Traffic.PRODUCTION),
        ({"rag__traffic__class": "synthetic"}, Traffic.SYNTHETIC),
        ({"rag__traffic__class": "Experiment"}, Traffic.EXPERIMENT),
        ({"deployment__environment__name": "staging"}, Traffic.INTERNAL),
        ({"deployment__environment": "dev"}, Traffic.INTERNAL),
        ({"deployment__environment__name": "eu-west"}, Traffic.PRODUCTION),
        ({"rag__traffic__class": "production", "deployment__environment__name": "staging"}, Traffic.PRODUCTION),
    ],
)
def test_the_first_class_attribute_decides_and_an_unknown_name_is_production(told, traffic):
    assert rules().sort(reading(**told)).case.traffic is traffic


def test_the_class_attribute_can_be_named():
    assert rules(class_attribute="env").sort(reading(env="qa")).case.traffic is Traffic.INTERNAL
    assert rules(class_attribute="env").sort(reading(rag__traffic__class="qa")).case.traffic is Traffic.PRODUCTION


def test_a_class_is_judged_at_its_rate_and_each_case_knows_its_probability():
    sampled = rules(rates={"synthetic": "25%"})
    sorted_ = [sampled.sort(reading(n, probability=0.5, rag__traffic__class="synthetic")) for n in range(2000)]
    kept = [one for one in sorted_ if isinstance(one, Reading)]
    assert {one for one in sorted_ if not isinstance(one, Reading)} == {RequestOutcome.SAMPLED_OUT}
    assert {one.case.probability for one in kept} == {0.125}
    assert abs(len(kept) - 500) < 5 * math.sqrt(2000 * 0.25 * 0.75)
    production = [sampled.sort(reading(n)) for n in range(50)]
    assert {one.case.probability for one in production} == {1.0}


def test_the_draw_of_a_class_does_not_depend_on_the_draw_of_an_evaluator():
    """Else the product of both probabilities would not be the probability of both."""
    sampled = rules(rates={"synthetic": 0.5})
    kept = [
        one
        for n in range(4000)
        if isinstance(one := sampled.sort(reading(n, rag__traffic__class="synthetic")), Reading)
    ]
    both = sum(consistent_sampling.chosen(one.case.request_id, "salt", 0.5) for one in kept)
    assert abs(both / len(kept) - 0.5) < 0.06


def test_a_case_that_cannot_be_judged_keeps_its_own_fate():
    one = reading(status=ReadingStatus.CONTENT_MISSING, rag__traffic__class="synthetic")
    assert rules(rates={"synthetic": 0}).sort(one).status is ReadingStatus.CONTENT_MISSING


def test_what_is_set_aside_is_said_once_for_each_app_and_class():
    lent = runtime()
    sorting = TrafficRules(TrafficSettings(), "salt", lent)
    for number in range(5):
        sorting.sort(reading(number, deployment__environment__name="dev"))
        sorting.sort(reading(number))
    assert total(lent.metrics, "ragmonitor_events_total", event="non_production_traffic") == 1


@pytest.mark.parametrize(
    "wrong",
    [
        {"rates": {"production": 0.5}},
        {"rates": {"robots": 0.5}},
        {"rates": {"synthetic": 2}},
        {"weights": {"shop": 0}},
        {"weights": {"a b": 1, "a\u00a0b": 2}},
        {"quotas": {" ": {"per_hour": 1}}},
        {"late_after": 0},
        {"drop": [{"attribute": "", "matches": "x"}]},
        {"drop": [{"attribut": "a", "matches": "x"}]},
    ],
)
def test_settings_that_make_no_sense_are_refused(wrong):
    with pytest.raises(ValidationError):
        TrafficSettings.model_validate(wrong)


def test_weights_and_quotas_are_of_the_apps_that_they_name_as_their_services_do():
    settings = TrafficSettings.model_validate(
        {"weights": {" a\u3000b ": 3, "c": 2}, "quotas": {129 * "x": {"per_hour": 5}, "*": {"per_day": 7}}}
    )
    assert settings.weights == {"a b": 3, "c": 2}
    assert list(settings.quotas) == [128 * "x", "*"]


@pytest.mark.parametrize(
    ("answered_at", "traffic", "expected"),
    [
        (1000.0, Traffic.PRODUCTION, RateScope.LIVE),
        (999.0, Traffic.PRODUCTION, RateScope.LATE),
        (5000.0, Traffic.PRODUCTION, RateScope.LIVE),
        (0.0, Traffic.PRODUCTION, RateScope.LIVE),
        (999.0, Traffic.SYNTHETIC, RateScope.NON_PRODUCTION),
    ],
)
def test_a_verdict_is_late_by_the_time_of_its_answer(answered_at, traffic, expected):
    assert rate_scope(Case(request_id="ab", answered_at=answered_at, traffic=traffic), 1900.0, 900.0) is expected
