"""The moment from which a rate is higher, and its interval."""

from __future__ import annotations

import pytest

from monitor.statistics.diagnosis.cases import JudgedCase, Prepared, WeighedCase
from monitor.statistics.diagnosis.onset import Onset, find_step


def rows(every: int, number: int = 200, rise: int = 100, session: int = 1) -> list[WeighedCase]:
    """One case a second: before `rise` every 20th is bad, since then every so many."""
    cases = [
        JudgedCase(float(at), at % (20 if at < rise else every) == 0, f"u{at // session if at >= rise else at}")
        for at in range(number)
    ]
    return Prepared(cases).rows


def onset(found: list[WeighedCase], usual: float = 0.05) -> Onset:
    step = find_step(found, usual)
    assert step is not None
    return step.onset


def test_the_onset_is_between_the_last_usual_case_and_the_first_of_the_higher_rate() -> None:
    found = onset(rows(every=2))
    assert found.at == pytest.approx(100, abs=3)
    assert found.earliest <= 100 <= found.latest


def test_the_smaller_the_rise_the_wider_the_interval() -> None:
    large, small = onset(rows(every=2)), onset(rows(every=8))
    assert small.latest - small.earliest > large.latest - large.earliest


def test_bad_answers_of_one_session_count_as_one_story() -> None:
    apart, together = onset(rows(every=2)), onset(rows(every=2, session=6))
    assert together.latest - together.earliest > apart.latest - apart.earliest


def test_a_rate_that_is_nowhere_higher_has_no_onset() -> None:
    assert find_step(rows(every=1000), 0.5) is None


def test_a_rate_that_is_just_the_usual_one_has_no_onset() -> None:
    half = Prepared([JudgedCase(0.0, True, "a"), JudgedCase(1.0, False, "b")]).rows
    assert find_step(half, 0.5) is None


@pytest.mark.parametrize("usual", [0.0, 1.0])
def test_a_usual_rate_without_any_chance_has_no_onset(usual: float) -> None:
    assert find_step(rows(every=2), usual) is None


def test_no_case_and_no_bad_case_have_no_onset() -> None:
    assert find_step([], 0.05) is None
    assert find_step(Prepared([JudgedCase(1.0, bad=False, unit="a")]).rows, 0.05) is None


def test_cases_of_one_moment_are_all_before_the_onset_or_all_after_it() -> None:
    at_once = Prepared([JudgedCase(7.0, bad=number % 2 == 0, unit=str(number)) for number in range(30)]).rows
    assert onset(at_once) == Onset(7.0, 7.0, 7.0)


def test_a_rise_from_the_first_case_on_begins_with_it() -> None:
    step = find_step(rows(every=2, rise=0), 0.05)
    assert step is not None
    assert (step.best, step.onset.at) == (0, 0.0)


def test_answers_that_are_all_bad_have_an_onset() -> None:
    assert onset(rows(every=1)).at == pytest.approx(99.5)
