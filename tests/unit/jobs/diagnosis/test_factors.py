"""What answers are compared by: language and hour beside the slices."""

from __future__ import annotations

from dataclasses import replace

import pytest

from monitor.jobs.diagnosis import DiagnosisRequest, diagnose_answers
from monitor.jobs.diagnosis.factors import FactorReader
from monitor.storage.history.answers import JudgedAnswer
from monitor.storage.history.features import CaseFeatures

NOON = 1_700_049_600.0
ANSWER = JudgedAnswer("r", NOON + 1800, 1.0, True, 1.0, CaseFeatures(unit="u", language="de"), None)
DAY = 86_400.0


def named(answer: JudgedAnswer = ANSWER, *, hours: bool = False) -> dict[str, str]:
    return {one.name: one.value for one in FactorReader([], [], hours=hours).factors(answer)}


def test_the_language_of_the_question_is_a_factor() -> None:
    assert named()["language"] == "de"
    assert "language" not in named(ANSWER._replace(features=CaseFeatures(unit="u")))


def test_a_language_that_the_trace_states_stands_for_the_one_that_was_guessed() -> None:
    stated = replace(ANSWER.features, slices={"language": "German"})
    assert named(ANSWER._replace(features=stated))["language"] == "German"


def test_a_search_that_found_nothing_is_a_factor_and_one_that_found_something_is_none() -> None:
    def context(value: str) -> str | None:
        return named(ANSWER._replace(features=CaseFeatures(unit="u", context=value))).get("context")

    assert context("retrieved_nothing") == "retrieved nothing"
    assert context("no_retrieval") == "no retrieval"
    assert context("retrieved") is None


def test_the_hour_of_the_day_is_a_factor_where_it_is_asked_for() -> None:
    assert named(hours=True)["hour of the day (UTC)"] == "12"
    assert "hour of the day (UTC)" not in named()


@pytest.mark.parametrize(("window", "found"), [(DAY, ["12"]), (DAY - 60, [])])
def test_a_bad_hour_of_each_day_is_found_only_where_two_days_are_searched(window: float, found: list[str]) -> None:
    until = NOON + 13 * 3600
    answers = []
    for number in range(9 * 288):  # an answer each five minutes
        at = until - number * 300.0
        bad = number % 20 == 0 or (at >= until - 36 * 3600 and at // 3600 % 24 == 12)
        answers.append(ANSWER._replace(at=at, defect=bad, features=CaseFeatures(unit=str(number))))
    diagnosed = diagnose_answers(answers, [], DiagnosisRequest("a", "e", window, until))
    hours = [one.factor.value for one in diagnosed.found.factors if one.factor.name == "hour of the day (UTC)"]
    assert hours == found
