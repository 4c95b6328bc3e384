"""The one line that an alert carries: since when, and what explains the rise, whatever the values are."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.jobs.diagnosis import RateDiagnosis
from monitor.jobs.diagnosis.words import alert_line
from monitor.statistics.diagnosis.cases import Factor
from monitor.statistics.diagnosis.excess import RiseShare
from monitor.statistics.diagnosis.onset import Onset
from monitor.statistics.diagnosis.results import Diagnosis, FoundFactor
from monitor.statistics.rates import Estimate

AT = 1_773_497_100.0  # 2026-03-14 14:05 UTC
V7 = Factor("slice", "prompt.version", "v7")


def factor(one: Factor = V7, **other: Any) -> FoundFactor:
    found = FoundFactor(
        factor=one,
        parts=(one,),
        how="worse",
        z=5.0,
        share=RiseShare(0.71, 0.5, 0.9),
        onset=None,
        inside=Estimate(0.38, 0.3, 0.5, 100, 38),
        outside=Estimate(0.04, 0.02, 0.06, 300, 12),
        before=0.04,
        cases=100,
        bad=38,
        part_now=0.25,
        part_before=0.2,
    )
    return replace(found, **other)


def diagnosed(*factors: FoundFactor, **other: Any) -> RateDiagnosis:
    onset = Onset(AT, AT - 900, AT + 300)
    state = "found" if factors else "nothing_stands_out"
    found = Diagnosis(state=state, onset=onset, judged=400, bad=50, visible=0.4, factors=factors)
    found = replace(found, **other)
    return RateDiagnosis(app="a", evaluator="e", window=3600.0, until=AT + 3600, answers=1, found=found)


def test_a_cause_is_named_with_its_share_and_both_rates() -> None:
    assert alert_line(diagnosed(factor())) == (
        "Since 14:05 UTC (13:50 to 14:10). 71 % of the rise: prompt.version = v7 (38 % bad, elsewhere 4.0 %)."
    )


def test_further_causes_are_named_shortly_and_more_of_what_was_always_bad_is_called_that() -> None:
    empty = factor(Factor("slice", "context", "retrieved nothing"), how="more")
    assert alert_line(diagnosed(empty, factor())).endswith(
        "71 % of the rise: more of context = retrieved nothing (25 % of the answers, 20 % before)."
        " Also 71 %: prompt.version = v7."
    )


def test_a_pair_has_both_its_parts_and_a_word_at_least_its_share() -> None:
    pair = factor(parts=(V7, Factor("slice", "tenant", "acme")))
    assert "71 % of the rise: prompt.version = v7 and tenant = acme (" in alert_line(diagnosed(pair))
    word = factor(Factor("word", "word", "refund"))
    assert 'at least 71 % of the rise: the word "refund" (' in alert_line(diagnosed(word))


@pytest.mark.parametrize(
    ("other", "said"),
    [
        ({}, "Nothing stands out among 50 bad answers; a cause of 40 % of the rise would have been seen 4 times in 5."),
        ({"visible": None}, "Nothing stands out among 50 bad answers, too few to see a single cause."),
        ({"bad": 7, "next_look": 3}, "7 bad answers are too few to name a cause: it takes 3 more."),
    ],
)
def test_where_nothing_stands_out_it_says_what_would_have_been_seen(other: dict[str, Any], said: str) -> None:
    assert alert_line(diagnosed(**other)) == f"Since 14:05 UTC (13:50 to 14:10). {said}"


def test_what_everything_has_since_then_is_no_cause() -> None:
    assert alert_line(diagnosed(switched=(V7,))).endswith(" Since then everything has prompt.version = v7.")


def test_another_day_is_written_out() -> None:
    late = replace(diagnosed(factor()), until=AT + 86_400)
    assert alert_line(late).startswith("Since 2026-03-14 14:05 UTC (13:50 to 14:10).")
    early = diagnosed(factor(), onset=Onset(AT, AT - 86_400, AT))
    assert alert_line(early).startswith("Since 2026-03-14 14:05 UTC (2026-03-13 14:05 to 2026-03-14 14:05).")


@pytest.mark.parametrize("state", ["no_rise", "too_few_before"])
def test_without_an_onset_there_is_no_line(state: str) -> None:
    assert alert_line(diagnosed(state=state, onset=None)) == ""


@given(st.sampled_from(["slice", "document", "word"]), st.text(max_size=300), st.text(max_size=300))
def test_the_line_is_printable_and_short_with_any_value(kind: Any, name: str, value: str) -> None:
    one = factor(Factor(kind, name[:128], value))
    line = alert_line(diagnosed(one, one, one, switched=(one.factor,) * 9))
    assert line.isprintable()
    assert len(line) < 2_000
