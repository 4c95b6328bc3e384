"""An evaluator over a span of time: a zero always has a named cause."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.model.outcome import SkippedReason, UnscoredReason
from monitor.model.request_log import RequestStep, Sum
from monitor.pipeline.introspection.explain import Cause, EvaluatorFacts, EvaluatorSetup, MonitorSetup
from monitor.pipeline.introspection.explain.evaluator import explain_evaluator
from monitor.pipeline.ledger import TraceOutcome

JUDGED = EvaluatorSetup(name="judged", place="evaluators[1]", cost="judge", rate=0.1, judge={"model": "m"})
SETUP = MonitorSetup(evaluators=[JUDGED])
FACTS = EvaluatorFacts(name="judged", since=1400.0, until=5000.0, reaches_back=1000.0)


def facts(outcomes=(), steps=(), **fields) -> EvaluatorFacts:
    """So many requests by outcome, so many cases by step; of a step also the expected number where it is a pair."""
    sums = [
        Sum(RequestStep("shop", "kafka", "", outcome), number, 0.0, 4000.0)
        for outcome, number in dict(outcomes).items()
    ]
    for name, number in dict(steps).items():
        sums.append(Sum(RequestStep("shop", "", "judged", name), number, number * 0.1, 4000.0))
    return replace(FACTS, sums=sums, **fields)


@pytest.mark.parametrize(
    ("known", "cause", "words", "setting"),
    [
        (facts(), Cause.NO_TRACES, "no request ended", ""),
        (
            facts({"no_request": 9, "incomplete": 2}),
            Cause.NO_REQUEST,
            "for 9: it is not a request",
            "extraction.attributes",
        ),
        (facts({"sampled_out": 500}), Cause.SAMPLED_OUT, "left out 500 of 500 requests", "traffic.rates"),
        (facts({"filtered": 5}), Cause.FILTERED, "left out 5 of 5 requests", "traffic.drop"),
        (facts({"evaluated": 5}), Cause.NOT_RECORDED, "not running while others evaluated 5 cases", ""),
        (
            facts({"evaluated": 5}, {"missing:no_retrieval": 5}),
            Cause.DOES_NOT_APPLY,
            "applies to none of 5 cases: it needs a context, and the model answered without any retrieval",
            "extraction.attributes.documents",
        ),
        (
            facts({"evaluated": 5}, {"not_chosen": 5}),
            Cause.NOT_CHOSEN,
            "0.5 were expected",
            "evaluators[1].sample: at least 0.6",
        ),
        (facts({"evaluated": 5}, {"repeated": 5}), Cause.REPEATED, "evaluated before", ""),
        (facts({"evaluated": 5}, {"unscored:auth": 5}), Cause.UNSCORED, "5 times of 5", "judge.api_key"),
        (
            facts({"evaluated": 5}, {"unscored:paused": 4, "unscored:auth": 1}),
            Cause.UNSCORED,
            "4 times",
            "judge.api_key",
        ),
        (facts({"evaluated": 5}, {"skipped:no_request": 5}), Cause.SKIPPED, "it needs a question", ""),
        (facts({"evaluated": 5}, {"late": 5}), Cause.LATE, "too late", "traffic.late_after"),
        (
            facts({"evaluated": 5}, {"non_production": 5}),
            Cause.NON_PRODUCTION,
            "not on production traffic",
            "traffic.class_attribute",
        ),
        (facts({"evaluated": 5}, {"score": 5}), Cause.EVALUATED, "It ran: 5 scores", ""),
        (facts({}, {}, waiting=7), Cause.WAITING, "7 cases waiting for the judge", "judge.max_concurrency"),
        (facts(pending=3), Cause.OPEN, "3 requests in progress", ""),
    ],
)
def test_each_zero_has_its_own_cause_and_setting(known, cause, words, setting):
    found = explain_evaluator(known, SETUP)
    assert (found.cause, found.setting.startswith(setting) if setting else found.setting == "") == (cause, True) or (
        setting and setting in found.setting and found.cause is cause
    ), found
    assert words in found.conclusion


def test_of_head_sampling_that_leaves_all_out_the_rate_is_named_that_would_let_some_in():
    found = explain_evaluator(facts({"sampled_out": 300}), replace(SETUP, head_rate=0.001))
    assert found.setting == "sampling.traces: at least 0.01"


def test_the_cap_of_a_spent_budget_is_read_from_the_newest_result():
    newest = {"reason": "budget", "detail": "dollars_per_hour (0.1) is spent until 13:00 UTC"}
    found = explain_evaluator(facts({"evaluated": 1}, {"unscored:budget": 1}, unscored=newest), SETUP)
    assert found.setting == "judge.budget.dollars_per_hour: higher"


def test_where_verdicts_came_but_many_did_not_the_reason_of_those_is_told():
    found = explain_evaluator(facts({"evaluated": 10}, {"score": 6, "unscored:timeout": 4}), SETUP)
    assert (found.cause, found.reason) == (Cause.EVALUATED, "timeout")
    assert found.setting.startswith("judge.timeout")


def test_an_evaluator_that_is_off_or_unknown_says_so_first():
    assert explain_evaluator(facts(), replace(SETUP, evaluators=[replace(JUDGED, works=False)])).cause is Cause.OFF
    assert explain_evaluator(facts(), replace(SETUP, evaluators=[])).cause is Cause.NOT_ASKED


def test_an_evaluator_that_no_alert_looks_at_says_so():
    found = explain_evaluator(
        facts({"evaluated": 5}, {"score": 5}), replace(SETUP, evaluators=[replace(JUDGED, watched=False)])
    )
    assert any(one.setting == "alerts: - {evaluator: judged, warning: 5%}" for one in found.steps)


def test_without_any_record_it_says_that_nothing_is_kept():
    found = explain_evaluator(replace(FACTS, reaches_back=None), replace(SETUP, request_log=0.0))
    assert (found.cause, found.setting) == (Cause.NOT_RECORDED, "storage.request_log: 1d")


STEPS = [
    *("score", "late", "non_production", "not_chosen", "repeated", "unfinished"),
    *(f"missing:{one}" for one in SkippedReason),
    *(f"skipped:{one}" for one in SkippedReason),
    *(f"unscored:{one}" for one in UnscoredReason),
]


@given(
    st.dictionaries(st.sampled_from([one.value for one in TraceOutcome]), st.integers(1, 1000), max_size=4),
    st.dictionaries(st.sampled_from(STEPS), st.integers(1, 1000), max_size=4),
    st.none() | st.integers(0, 5),
    st.booleans(),
)
def test_whatever_was_counted_there_is_a_cause_and_a_sentence(outcomes, steps, waiting, works):
    setup = replace(SETUP, evaluators=[replace(JUDGED, works=works)])
    found = explain_evaluator(facts(outcomes, steps, waiting=waiting), setup)
    assert found.conclusion.endswith(".")
    assert (found.cause is Cause.EVALUATED) == ("score" in steps)
