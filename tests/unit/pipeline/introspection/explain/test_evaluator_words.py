"""What a reader is told of an evaluator over a time, word by word: every number that is not zero, and no other."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import pytest

from monitor.model.external import ScoreSource
from monitor.model.request_log import RequestStep, Sum
from monitor.pipeline.introspection.explain import (
    Cause,
    EvaluatorFacts,
    EvaluatorSetup,
    Explanation,
    ExternalScores,
    MonitorSetup,
)
from monitor.pipeline.introspection.explain.evaluator import explain_evaluator

JUDGED: Final = EvaluatorSetup(
    name="judged", place="evaluators[1]", cost="judge", judge_place="judges.small", rate=0.1, judge={"model": "m"}
)
SETUP: Final = MonitorSetup(evaluators=[JUDGED])
FACTS: Final = EvaluatorFacts(name="judged", since=1400.0, until=5000.0, reaches_back=1000.0)


def facts(outcomes: dict[str, int], steps: dict[str, int], **fields: Any) -> EvaluatorFacts:
    sums = [Sum(RequestStep("shop", "kafka", "", name), number, 0.0, 4000.0) for name, number in outcomes.items()]
    sums += [
        Sum(RequestStep("shop", "", "judged", name), number, number * 0.1, 4000.0) for name, number in steps.items()
    ]
    return replace(FACTS, sums=sums, **fields)


def explained(known: EvaluatorFacts, **fields: Any) -> Explanation:
    return explain_evaluator(known, replace(SETUP, evaluators=[replace(JUDGED, **fields)]))


def told(found: Explanation) -> list[tuple[str, str]]:
    return [(one.what, one.text) for one in found.steps]


def test_an_hour_of_an_evaluator_is_told_from_its_requests_to_its_scores() -> None:
    steps = {
        "score": 1500,
        "late": 20,
        "non_production": 3,
        "skipped:no_history": 4,
        "unscored:timeout": 30,
        "not_chosen": 8000,
        "repeated": 5,
        "missing:no_retrieval": 2000,
    }
    found = explained(facts({"evaluated": 12_000, "no_request": 7}, steps, pending=2, waiting=1))
    assert told(found) == [
        ("configured", "evaluators[1]: asks m (judges.small), takes 0.1 of the cases that it applies to"),
        ("received", "12,007 requests ended: 12,000 evaluated, 7 no_request"),
        ("in progress", "2 requests not ended yet"),
        ("applies", "not to 2,000: it needs a context, and the model answered without any retrieval"),
        ("selected", "1,557 of the 9,562 it applies to; 956 expected by its rate; 5 evaluated before"),
        ("queue", "1 case waiting for the judge or being evaluated now"),
        ("skipped", "4: it needs earlier turns of the conversation, and there are none"),
        ("no score", "30: the judge did not answer in time"),
        ("scores", "1,523, of which 20 late and 3 non-production"),
    ]
    assert found.subject == "judged, the last 1 h"
    assert (found.conclusion, found.cause) == ("It ran: 1,500 scores in the live rates.", Cause.EVALUATED)
    assert [one.setting for one in found.steps if one.what == "queue"] == [
        "judges.small.max_concurrency: higher, if this persists"
    ]


def test_what_did_not_happen_is_not_told() -> None:
    found = explained(facts({"evaluated": 5}, {"score": 5}))
    assert told(found)[1:] == [
        ("received", "5 requests ended: 5 evaluated"),
        ("selected", "5 of the 5 it applies to; 0.5 expected by its rate"),
        ("scores", "5"),
    ]
    assert told(explained(FACTS))[1:] == [("received", "0 requests ended")]


def test_sums_of_other_evaluators_do_not_count() -> None:
    other = Sum(RequestStep("shop", "", "other", "score"), 7, 0.7, 4000.0)
    known = facts({"evaluated": 5}, {"score": 5})
    assert explained(replace(known, sums=[*known.sums, other])) == explained(known)


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"cost": "local"}, "local, takes 0.1 of the cases that it applies to"),
        ({"cost": "local", "rate": 1.0}, "local, takes all cases that it applies to"),
        (
            {"rate": None, "sampler": "budget"},
            "asks m (judges.small), takes what evaluators[1].sample (budget) allows",
        ),
    ],
)
def test_how_it_is_configured_is_told(fields: dict[str, Any], text: str) -> None:
    assert told(explained(FACTS, **fields))[0] == ("configured", f"evaluators[1]: {text}")


def test_an_evaluator_without_a_model_is_off_in_the_first_step_and_in_the_conclusion() -> None:
    found = explained(FACTS, works=False, judge={})
    assert (found.cause, found.steps[0].cause) == (Cause.OFF, Cause.OFF)
    assert found.conclusion == f"It did not run: {found.steps[0].text}."


def test_an_evaluator_without_an_alert_is_told_that_nobody_is_alerted() -> None:
    found = explained(FACTS, watched=False)
    assert found.steps[-1].what == "alerts"
    assert found.steps[-1].setting == "alerts: - {evaluator: judged, warning: 5%}"
    assert "alerts" not in dict(told(explained(FACTS)))


@pytest.mark.parametrize(
    ("reaches_back", "text"),
    [
        (None, "the request log does not cover all of that time: nothing yet"),
        (1461.0, "the request log does not cover all of that time: only from 1970-01-01 00:24:21 UTC"),
        (1460.0, ""),
    ],
)
def test_a_log_that_begins_more_than_a_minute_late_is_told(reaches_back: float | None, text: str) -> None:
    assert dict(told(explained(replace(FACTS, reaches_back=reaches_back)))).get("recorded", "") == text


def test_a_log_that_is_off_is_told_with_its_setting() -> None:
    found = explain_evaluator(replace(FACTS, reaches_back=None), replace(SETUP, request_log=0.0))
    assert dict(told(found))["recorded"].endswith("nothing yet; request logging is off (storage.request_log: 0)")
    assert (found.cause, found.setting) == (Cause.NOT_RECORDED, "storage.request_log: 1d")


# -- the conclusion


def test_one_app_is_named() -> None:
    found = explained(replace(FACTS, app="shop"))
    assert found.subject == "judged on shop, the last 1 h"
    assert found.conclusion.startswith("It did not run: no request from shop ended in that time.")


@pytest.mark.parametrize(
    ("unscored", "but"), [(9, ""), (10, "; but 10 evaluations produced none, 10 of them because the judge refused")]
)
def test_a_tenth_without_a_score_is_worth_a_word(unscored: int, but: str) -> None:
    found = explained(facts({"evaluated": 100}, {"score": 100 - 10, "unscored:refusal": unscored}))
    assert found.conclusion.startswith(f"It ran: 90 scores in the live rates{but}")
    assert found.reason == ("refusal" if but else "")
    assert bool(found.setting) == bool(but)


def test_of_late_and_other_scores_the_more_frequent_are_the_cause() -> None:
    late = explained(facts({}, {"late": 3, "non_production": 3}))
    assert late.conclusion == "It ran too late: 3 scores more than 15 min after the answer, not in the live rates."
    assert late.setting == "traffic.late_after: longer; or a faster judge"
    other = explained(facts({}, {"late": 1, "non_production": 3}))
    assert other.conclusion == "It ran, but not on production traffic: 3 scores, not in the live rates."


def test_the_most_frequent_reason_is_the_cause_with_its_newest_detail() -> None:
    known = facts({}, {"unscored:timeout": 2, "unscored:refusal": 5})
    found = explained(replace(known, unscored={"reason": "refusal", "detail": "a policy"}))
    assert found.conclusion == "It produced no score: 5 times of 7, the judge refused to evaluate it (a policy)."
    assert (found.cause, found.reason) == (Cause.UNSCORED, "refusal")
    other = explained(replace(known, unscored={"reason": "timeout", "detail": "a policy"}))
    assert "a policy" not in other.conclusion


@pytest.mark.parametrize(
    ("fields", "setting"),
    [
        ({"rate": 0.1}, "evaluators[1].sample: at least 0.6"),
        ({"rate": 0.9}, "evaluators[1].sample: at least 0.9"),
        ({"rate": None, "budget": "per_day"}, "evaluators[1].sample.per_day: higher"),
        ({"rate": None}, "evaluators[1].sample: higher"),
    ],
)
def test_a_rate_at_which_some_would_have_been_selected_is_named(fields: dict[str, Any], setting: str) -> None:
    found = explained(facts({"evaluated": 5}, {"not_chosen": 5}), **fields)
    assert found.setting == setting
    assert found.conclusion == (
        "It did not run: none of the 5 cases it applies to was selected; at its rate, 0.5 were expected."
    )
    few = explained(facts({}, {"not_chosen": 2}), rate=0.1)
    assert few.setting == "evaluators[1].sample: at least 1"


def test_what_was_evaluated_before_is_the_cause_only_where_nothing_else_was_drawn() -> None:
    assert explained(facts({}, {"repeated": 5})).cause is Cause.REPEATED
    assert explained(facts({}, {"repeated": 5, "not_chosen": 1})).cause is Cause.NOT_CHOSEN


@pytest.mark.parametrize(
    ("rate", "setting"),
    [(0.01, "sampling.traces: at least 0.006"), (1.0, "sampling.traces: as it is, or traffic.rates: higher")],
)
def test_a_rate_at_which_head_sampling_keeps_some_is_named(rate: float, setting: str) -> None:
    found = explain_evaluator(facts({"sampled_out": 500}, {}), replace(SETUP, head_rate=rate))
    assert found.conclusion == "It did not run: head sampling left out 500 of 500 requests."
    assert found.setting == setting


def test_the_most_frequent_end_of_requests_is_the_cause() -> None:
    found = explained(facts({"incomplete": 2, "no_request": 9}, {}))
    assert found.conclusion.startswith("It did not run: none of 11 requests could be evaluated; for 9: it is not a")
    assert found.cause is Cause.NO_REQUEST


# -- scores from outside


def outside(**fields: Any) -> Explanation:
    scores = ExternalScores(source=ScoreSource.FEEDBACK, **fields)
    return explain_evaluator(replace(FACTS, name="thumbs", external=scores), SETUP)


def test_scores_from_outside_are_counted_by_what_they_say() -> None:
    found = outside(numbers={"defect": 2, "passed": 3, "unscored": 4}, newest=4000.0)
    assert found.steps[0].text.startswith("it is not an evaluator of this monitor but ")
    assert told(found)[1:] == [
        ("scores", "5 arrived: 2 are defects, 3 are not"),
        ("no score", "4 arrived that cannot be read as good or bad"),
    ]
    start = "5 scores arrived, 2 of them defects; 4 more cannot be read as good or bad; it is not an evaluator"
    assert found.conclusion.startswith(start)
    assert (found.cause, found.setting) == (
        Cause.EVALUATED,
        "feedback.evaluators.thumbs: its scale, and which labels are bad",
    )
    good = outside(numbers={"passed": 1}, newest=4000.0)
    assert good.conclusion.startswith("1 score arrived, 0 of them defects; it is not")
    assert (good.setting, len(good.steps)) == ("", 2)
    assert outside(numbers={"unscored": 1}, newest=4000.0).cause is Cause.UNSCORED


@pytest.mark.parametrize(("newest", "last"), [(None, ""), (100.0, "; the last one arrived 1970-01-01 00:01:40 UTC")])
def test_where_none_came_the_last_one_is_named(newest: float | None, last: str) -> None:
    found = outside(numbers={}, newest=newest)
    assert told(found)[1:] == [("scores", f"none arrived in that time{last}")]
    assert found.conclusion.startswith(f"No score arrived{last}; it is not an evaluator")
    assert found.cause is Cause.NOT_ASKED
