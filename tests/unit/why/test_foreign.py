"""An evaluator that is not ours is told apart from one that nobody knows."""

from __future__ import annotations

from dataclasses import replace

import pytest

from monitor.why import Cause, Evaluating, EvaluatorFacts, Foreign, Situation, TraceFacts, of_evaluator, of_trace

SITUATION = Situation(
    now=5000.0, evaluators=[Evaluating(name="judged", place="evaluators[0]")], foreign=["user_feedback"]
)
FACTS = EvaluatorFacts(name="user_feedback", since=1400.0, until=5000.0)


@pytest.mark.parametrize(
    ("found", "cause", "words", "setting"),
    [
        (
            Foreign(via="feedback", numbers={"defect": 2, "passed": 1}),
            Cause.EVALUATED,
            "3 verdicts came, 2 of them",
            "",
        ),
        (
            Foreign(via="feedback", numbers={"unscored": 4}),
            Cause.UNSCORED,
            "4 more cannot be read",
            "feedback.evaluators",
        ),
        (Foreign(via="openinference", newest=0.0), Cause.NOT_ASKED, "the last came 1970-01-01", ""),
        (Foreign(via=""), Cause.NOT_ASKED, "None came: it is not ours, but what somebody else says", ""),
    ],
)
def test_it_says_whose_word_it_is_and_how_many_came(found, cause, words, setting):
    answer = of_evaluator(replace(FACTS, foreign=found), SITUATION)
    assert (answer.cause, answer.setting.startswith(setting), bool(answer.setting)) == (cause, True, bool(setting))
    assert words in answer.conclusion
    assert "not configured" not in answer.conclusion


def test_on_one_request_it_says_that_nobody_spoke_and_of_a_name_unknown_that_it_is_not_configured():
    facts = TraceFacts(request_id="r", least_rate=None, draw=0.5)
    told = of_trace(facts, SITUATION, "user_feedback")
    assert (told.cause, "what users say" in told.conclusion) == (Cause.NOT_ASKED, True)
    assert "no evaluator of the name nobody" in of_trace(facts, SITUATION, "nobody").conclusion
