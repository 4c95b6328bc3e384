"""The values of the statistics: nothing changes one that was handed out, and what is left out means nothing or none."""

from __future__ import annotations

import dataclasses
import inspect
import math
import pkgutil
from types import ModuleType
from typing import Any

import pytest

import monitor.statistics
from monitor.statistics import (
    blocks,
    budget_pacer,
    change,
    consistent_sampling,
    correction,
    defect_model,
    diagnosis,
    gating,
    group_rates,
    judge_errors,
    limits,
    power,
    quality,
    rates,
    reference,
    review,
    review_draws,
    sampling_gain,
    session_products,
    severe_cases,
    slice_sums,
    topics,
    verdict_learning,
    windows,
)
from monitor.statistics.diagnosis import cases, excess, looks, onset, results, rounds, search
from monitor.statistics.quality import bootstrap, calibration, plot, ranking
from monitor.statistics.quality import quality as quality_of_scores

MODULES: tuple[ModuleType, ...] = (
    *(blocks, budget_pacer, change, consistent_sampling, correction, defect_model, gating, group_rates, judge_errors),
    *(limits, power, rates, reference, review, review_draws, sampling_gain, session_products, severe_cases),
    *(slice_sums, topics, verdict_learning, windows),
    *(diagnosis, cases, excess, looks, onset, results, rounds, search),
    *(quality, bootstrap, calibration, plot, quality_of_scores, ranking),
)

CLASSES: list[type[Any]] = [
    one
    for module in MODULES
    for one in vars(module).values()
    if inspect.isclass(one) and one.__module__ == module.__name__
]
VALUES = [one for one in CLASSES if dataclasses.is_dataclass(one)]

BY_NAME = {
    correction.JudgeQuality: {"cells": (), "at_random": False},
    cases.Factor: {"pairs": False, "outcome": False},
    cases.JudgedCase: {"factors": (), "weight": 1.0, "judged_at": None},
    cases.WeighedCase: {"known": 0.0},
    gating.Base: {"spread": 0.0},
    judge_errors.ErrorFactor: {"likewise": ()},
    judge_errors.JudgeErrors: {"factors": ()},
    ranking.Point: {"cluster": 0},
    results.FoundFactor: {"likewise": ()},
    review_draws.JudgedResult: {"doubtful": False},
}
"""What the fields that may be left out are then."""

EMPTY = (cases.CaseSums, ranking.Confusion, rates.Sums, reference.Tally)
"""Sums of nothing: all fields may be left out and are 0 then."""

UNKNOWN = {
    results.Diagnosis: {"judged": 0, "bad": 0, "factors": (), "switched": ()},
    verdict_learning.OrderStanding: {"taught": 0, "verdicts": 0, "defects": 0},
}
"""What is not known: fields that may be left out are None then, apart from these."""


def test_every_module_of_the_statistics_is_looked_at() -> None:
    walked = pkgutil.walk_packages(monitor.statistics.__path__, f"{monitor.statistics.__name__}.")
    assert sorted(one.__name__ for one in MODULES) == sorted(one.name for one in walked)


@pytest.mark.parametrize("value", VALUES, ids=lambda one: one.__name__)
def test_a_value_cannot_be_changed_once_it_is_made(value: type[Any]) -> None:
    one = object.__new__(value)
    for name in ("anything", *(field.name for field in dataclasses.fields(value))):
        with pytest.raises((dataclasses.FrozenInstanceError, TypeError)):  # with slots, a new name is a TypeError
            setattr(one, name, 1)


@pytest.mark.parametrize("value", VALUES, ids=lambda one: one.__name__)
def test_a_value_takes_no_dictionary_for_its_fields(value: type[Any]) -> None:
    assert not hasattr(object.__new__(value), "__dict__")


@pytest.mark.parametrize(
    "value",
    [
        results.FoundFactor,
        results.Diagnosis,
        judge_errors.ErrorFactor,
        judge_errors.JudgeErrors,
        quality_of_scores.Quality,
    ],
    ids=lambda one: one.__name__,
)
def test_a_value_of_many_fields_is_made_by_their_names_only(value: type[Any]) -> None:
    assert all(one.kw_only for one in dataclasses.fields(value))


def _defaults(value: type[Any]) -> dict[str, object]:
    if dataclasses.is_dataclass(value):
        return {one.name: one.default for one in dataclasses.fields(value) if one.default is not dataclasses.MISSING}
    found: dict[str, object] = value._field_defaults
    return found


@pytest.mark.parametrize(("value", "defaults"), BY_NAME.items(), ids=lambda one: getattr(one, "__name__", ""))
def test_what_is_left_out_of_a_value_means_that_there_is_none(value: type[Any], defaults: dict[str, object]) -> None:
    assert _defaults(value) == defaults


@pytest.mark.parametrize("value", EMPTY, ids=lambda one: one.__name__)
def test_sums_begin_at_0(value: type[Any]) -> None:
    made = value()
    fields = made if isinstance(made, tuple) else dataclasses.astuple(made)
    assert set(fields) == {0}


@pytest.mark.parametrize(("value", "known"), UNKNOWN.items(), ids=lambda one: getattr(one, "__name__", ""))
def test_what_is_not_said_is_not_known(value: type[Any], known: dict[str, object]) -> None:
    found = _defaults(value)
    assert {name: one for name, one in found.items() if one is not None} == known


def test_a_new_reference_has_no_run_and_no_case() -> None:
    assert reference.Reference() == reference.Reference(0, {})


def test_a_share_of_no_weight_is_0() -> None:
    assert cases.CaseSums().rate == 0.0
    assert cases.CaseSums().unit_weight == 0.0
    assert rates.Sums().typical_weight == 0.0


def test_the_windows_of_a_regression_and_their_baselines_are_those_of_the_documentation() -> None:
    hour, day = 3600.0, 86400.0
    assert [(one.length, one.block, one.gap) for one in change.WINDOWS] == [
        (hour, hour, day),
        (6 * hour, 6 * hour, day),
        (day, day, day),
        (3 * day, day, 3 * day),
    ]
    lengths = (hour, 6 * hour, day, 3 * day)
    assert {name: tuple(family[one] for one in lengths) for name, family in change.FAMILIES.items()} == {
        "default": (3.6, 3.1, 4.2, 2.6),
        "strict": (4.5, 3.7, 4.6, 3.0),
        "sensitive": (3.2, 2.6, 3.2, 2.3),
    }
    assert tuple(change.HELD[one] for one in lengths) == (math.inf, 1.0, 1.0, 1.0)
    assert [(one.length, one.z, one.ratio) for one in (*change.HOURS_LOST, *change.DAYS_LOST)] == [
        (hour, 3.6, 2.0),
        (6 * hour, 3.1, 2.0),
        (day, 3.1, 1.6),
    ]
