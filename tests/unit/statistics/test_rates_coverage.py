"""Some cells of the tables of `benchmarks.rates`, with fixed seeds: what is promised of intervals holds."""

from __future__ import annotations

import pytest

from benchmarks import samplers, sessions


@pytest.mark.parametrize("judged", [1, 2, 3, 4, 5, 10, 30])
def test_with_equal_weights_the_interval_holds_at_every_rate(judged: int) -> None:
    assert samplers.exact_coverage(judged, "the monitor's")[0] >= 0.95


@pytest.mark.parametrize("sampler", [*samplers.SAMPLERS, samplers.DISLIKED])
@pytest.mark.parametrize(("rate", "judged"), [(0.05, 20), (0.2, 100), (0.9, 100)])
def test_the_interval_holds_whatever_gave_the_answers_their_weights(sampler: str, rate: float, judged: int) -> None:
    assert samplers.coverage(sampler, rate, judged, 400).held >= 0.94


@pytest.mark.parametrize("agreeing", [0.0, 1.0])
def test_the_interval_by_session_holds_for_a_hundred_sessions_and_that_by_answer_does_not(agreeing: float) -> None:
    by_answer, by_session = sessions.coverage(sessions.Traffic(10, agreeing, 1.0), 0.1, 100, 200)
    assert by_session >= 0.92
    assert (by_answer >= 0.92) == (agreeing == 0)


def test_bad_answers_in_sessions_raise_no_false_alarm() -> None:
    by_answer, by_session = sessions.alarms(sessions.Traffic(10, 1.0, 1.0), 0.02, 0.03, 10, "a month")
    assert by_session == 0
    assert by_answer > 5
