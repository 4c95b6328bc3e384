"""External scores are told apart from a name that nobody has configured."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from monitor.pipeline.introspection.explain import (
    Cause,
    EvaluatorFacts,
    EvaluatorSetup,
    ExternalScores,
    MonitorSetup,
    TraceFacts,
    above,
    at_least,
    clock_time,
)
from monitor.pipeline.introspection.explain.evaluator import explain_evaluator
from monitor.pipeline.introspection.explain.trace import explain_trace

SETUP = MonitorSetup(evaluators=[EvaluatorSetup(name="judged", place="evaluators[0]")], external=["user_feedback"])
FACTS = EvaluatorFacts(name="user_feedback", since=1400.0, until=5000.0)


@pytest.mark.parametrize(
    ("found", "cause", "words", "setting"),
    [
        (
            ExternalScores(source="feedback", numbers={"defect": 2, "passed": 1}),
            Cause.EVALUATED,
            "3 scores arrived, 2 of them",
            "",
        ),
        (
            ExternalScores(source="feedback", numbers={"unscored": 4}),
            Cause.UNSCORED,
            "4 more cannot be read",
            "feedback.evaluators",
        ),
        (ExternalScores(source="openinference", newest=0.0), Cause.NOT_ASKED, "the last one arrived 1970-01-01", ""),
        (
            ExternalScores(source=""),
            Cause.NOT_ASKED,
            "No score arrived; it is not an evaluator",
            "",
        ),
    ],
)
def test_it_says_where_they_come_from_and_how_many_arrived(found, cause, words, setting):
    answer = explain_evaluator(replace(FACTS, external=found), SETUP)
    assert (answer.cause, answer.setting.startswith(setting), bool(answer.setting)) == (cause, True, bool(setting))
    assert words in answer.conclusion
    assert "not configured" not in answer.conclusion


def test_on_one_request_it_says_that_there_is_none_and_of_an_unknown_name_that_it_is_not_configured():
    facts = TraceFacts(request_id="r", least_rate=None, draw=0.5)
    found = explain_trace(facts, SETUP, "user_feedback")
    assert (found.cause, "user feedback" in found.conclusion) == (Cause.NOT_ASKED, True)
    assert "no evaluator named nobody" in explain_trace(facts, SETUP, "nobody").conclusion


@pytest.mark.parametrize("at", [1e12, 1e17, 1e20, math.nan, math.inf, -math.inf])
def test_a_time_that_no_calendar_has_is_unknown(at):
    assert clock_time(at) == "an unknown time"
    assert clock_time(0.0) == "1970-01-01 00:00:00 UTC"


@pytest.mark.parametrize(
    ("value", "enough", "more"),
    [
        (0.5, "at least 0.5", "at least 0.5001"),
        (0.41233, "at least 0.4124", "at least 0.4124"),
        (0.0004123, "at least 0.0004123", "at least 0.0004124"),
        (0.99999, "at least 1", "at least 1"),
        (1.0, "at least 1", "at least 1"),
        (0.0, "at least 0", "at least 0.0001"),
    ],
)
def test_a_share_is_rounded_up_to_four_digits(value, enough, more):
    assert (at_least(value), above(value)) == (enough, more)
