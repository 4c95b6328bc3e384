"""Some cells of the tables of `benchmarks.diagnosis`, with fixed seeds: causes are named, and bystanders are not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.diagnosis import WITHOUT_CAUSE, alerts
from benchmarks.planted import SEARCH, SINCE, Situation, planted
from monitor.statistics.diagnosis import diagnose

SMALL = Situation(cases=200, baseline=1000)


def test_a_rise_without_a_cause_names_none() -> None:
    seen = alerts(SMALL, 5, "test none")
    assert sum(one.named for one in seen) <= 1
    assert all(one.found.visible is not None for one in seen)


@pytest.mark.parametrize("seed", [111, 156, 208])
def test_what_nearly_all_answers_have_by_weight_is_no_cause_though_fewer_judged_ones_have_it(seed: int) -> None:
    """Where bad answers are judged more often, 91 % of the answers are no refusals, but only 88 % of those judged."""
    made = planted(WITHOUT_CAUSE["boosted"], f"none boosted {seed}")
    assert not diagnose(made.cases, SEARCH).factors


@pytest.mark.parametrize("cause", ["document", "tenant", "version", "empty"])
def test_a_cause_of_most_of_the_rise_is_named_first(cause: str) -> None:
    seen = alerts(replace(SMALL, cause=cause, explained=0.8), 4, "test cause")
    assert sum(one.first for one in seen) >= 3
    assert sum(one.wrong for one in seen) <= 1


def test_a_tenant_that_retrieves_the_stale_document_often_is_not_the_cause() -> None:
    seen = alerts(replace(SMALL, cases=300, cause="document", explained=0.8, decoy=True), 4, "test decoy")
    assert sum(one.first for one in seen) >= 3
    assert sum(found.factor in one.planted.bystanders for one in seen for found in one.found.factors) <= 1


def test_the_interval_mostly_holds_the_onset() -> None:
    seen = alerts(SMALL, 8, "test onset")
    assert sum(one.covered for one in seen) >= 6
    errors = sorted(abs(one.found.onset.at - SINCE) for one in seen if one.found.onset is not None)
    assert errors[len(errors) // 2] < 3600


def test_a_rollout_to_all_answers_is_listed_and_never_a_cause() -> None:
    seen = alerts(replace(SMALL, full_rollout=True), 4, "test rollout")
    assert sum(bool(one.found.switched) for one in seen) >= 3
    assert not any(found.factor.name == "prompt.version" for one in seen for found in one.found.factors)
