"""What one evaluator did with one request is told step by step, and the setting that would change it is named."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import pytest

from monitor.model.outcome import Attempt
from monitor.model.request_log import EvaluatorDecision, RequestRecord
from monitor.pipeline.introspection.explain import Cause, EvaluatorSetup, ExplanationStep, MonitorSetup, TraceFacts
from monitor.pipeline.introspection.explain.decision import explain_decision, from_row

JUDGED: Final = EvaluatorSetup(name="judged", place="evaluators[1]", cost="judge", judge_place="judges.small")
SETUP: Final = MonitorSetup(evaluators=[JUDGED])
FACTS: Final = TraceFacts(request_id="ab" * 16, least_rate=0.3, draw=0.42, recorded=[], reaches_back=100.0)
CHOSEN: Final = EvaluatorDecision(evaluator="judged", probability=0.5, target=0.5, chosen=True)
LEFT: Final = replace(CHOSEN, probability=0.1, target=0.1, chosen=False)


def steps(
    decision: EvaluatorDecision | None, setup: MonitorSetup = SETUP, facts: TraceFacts = FACTS, **fields: Any
) -> list[ExplanationStep]:
    decisions = () if decision is None else (decision,)
    given = {"app": "shop", "draw": 0.42, "decisions": decisions, **fields}
    request = RequestRecord(request_id="ab" * 16, source="kafka", received_at=900.0, closed_at=910.0, **given)
    return list(explain_decision("judged", request, facts, setup))


def told(found: list[ExplanationStep]) -> list[tuple[str, str]]:
    assert {one.evaluator for one in found} == {"judged"}
    return [(one.what, one.text) for one in found]


def with_evaluator(**fields: Any) -> MonitorSetup:
    return replace(SETUP, evaluators=[replace(JUDGED, **fields)])


# -- without a decision


def test_an_evaluator_that_the_case_has_not_reached_waits_and_after_its_end_was_not_at_work() -> None:
    (waiting,) = steps(None)
    assert (waiting.cause, waiting.text) == (Cause.WAITING, "the case has not reached it yet")
    (absent,) = steps(None, outcome="evaluated")
    assert (absent.cause, absent.text) == (Cause.NOT_ASKED, "it was not running then")


def test_an_evaluator_without_a_model_is_off_whatever_the_case_did() -> None:
    (off,) = steps(None, with_evaluator(works=False))
    assert (off.what, off.cause) == ("off", Cause.OFF)
    assert off.setting.startswith("judges.small.model")


def row(**fields: Any) -> dict[str, Any]:
    return {"evaluator": "judged", "outcome": "score", "scope": "live", **fields}


def test_a_result_without_a_decision_tells_how_it_ended_and_the_last_of_several_counts() -> None:
    rows = [row(), row(scope="late"), row(evaluator="other", scope="non_production")]
    assert told(steps(None, facts=replace(FACTS, results=rows))) == [
        ("score", "scored more than 15 min after the answer")
    ]


def test_a_case_that_was_evaluated_before_keeps_its_result() -> None:
    repeated = replace(LEFT, repeated=True)
    assert told(steps(repeated, facts=replace(FACTS, results=[row()]))) == [
        ("selected", "evaluated before, so not again: that result counts"),
        ("score", "scored"),
    ]
    assert told(steps(repeated)) == [("selected", "it has evaluated this before")]


# -- selection


@pytest.mark.parametrize(
    ("fields", "notes"),
    [
        ({}, ""),
        ({"target": 0.2}, " (0.2 for the average case)"),
        ({"target": None}, ""),
        ({"thinned": True}, " (reduced by max_per_hour)"),
        ({"room": 0.25}, " (reduced to 0.25 of it by the app's quota)"),
        (
            {"target": 0.2, "room": 0.25, "thinned": True},
            " (0.2 for the average case; reduced to 0.25 of it by the app's quota; reduced by max_per_hour)",
        ),
    ],
)
def test_a_case_that_was_left_out_says_what_its_probability_is_made_of(fields: dict[str, Any], notes: str) -> None:
    found = steps(replace(LEFT, **fields))
    text = f"it was not selected: the trace's value, 0.42, is not below its probability, 0.1{notes}"
    assert told(found) == [("selected", text)]
    assert found[0].cause is Cause.NOT_CHOSEN


@pytest.mark.parametrize(
    ("evaluator", "fields", "setting"),
    [
        ({}, {}, "evaluators[1].sample: at least 0.4201"),
        ({}, {"room": 0.9}, "traffic.quotas.shop: higher; its quota is nearly used up"),
        (
            {"sampler": "by_attribute"},
            {},
            "evaluators[1].sample.rates: at least 0.4201 for its value of the attribute",
        ),
        ({"sampler": "budget"}, {"thinned": True}, "evaluators[1].sample.max_per_hour: higher"),
        (
            {"sampler": "budget", "budget": "per_day"},
            {"probability": 0.2},
            "evaluators[1].sample.per_day: more than 2.1 times as much",
        ),
        ({"sampler": "budget", "budget": "per_day"}, {"probability": 0.0}, "evaluators[1].sample: at least 0.4201"),
        ({"sampler": "budget", "budget": ""}, {}, "evaluators[1].sample: at least 0.4201"),
    ],
)
def test_the_setting_that_would_have_selected_it_is_that_of_its_sampler(
    evaluator: dict[str, Any], fields: dict[str, Any], setting: str
) -> None:
    (found,) = steps(replace(LEFT, **fields), with_evaluator(**evaluator))
    assert found.setting == setting


def test_without_the_evaluator_in_the_configuration_the_setting_has_no_place() -> None:
    (found,) = steps(LEFT, replace(SETUP, evaluators=[]))
    assert found.setting == "sample: at least 0.4201"
    (found,) = steps(replace(LEFT, room=0.1), replace(SETUP, evaluators=[]), app="")
    assert found.setting.startswith("traffic.quotas.unknown: ")


def test_only_a_local_evaluator_of_all_cases_takes_every_sampled_case() -> None:
    scored = replace(CHOSEN, probability=1.0, target=1.0, outcome="score", seconds=2.0, scope="live")
    assert told(steps(scored, with_evaluator(cost="local"))) == [
        ("selected", "takes every sampled case"),
        ("score", "scored in 2 s"),
    ]
    compared = "the trace's value, 0.42, is below its probability"
    assert told(steps(scored))[0] == ("selected", f"{compared}, 1")
    part = replace(scored, probability=0.5, target=0.5)
    assert told(steps(part, with_evaluator(cost="local")))[0] == ("selected", f"{compared}, 0.5")
    unnoted = replace(scored, probability=None)
    assert told(steps(unnoted))[0] == ("selected", f"{compared}, 1")


def test_what_a_case_lacks_is_the_one_step_of_an_evaluator_that_needs_it() -> None:
    (left,) = steps(replace(LEFT, missing="no_response"))
    assert (left.what, left.cause, left.reason) == ("applies", Cause.DOES_NOT_APPLY, "no_response")
    (skipped,) = steps(replace(CHOSEN, missing="no_response", outcome="skipped", reason="no_response"))
    assert (skipped.what, skipped.cause, skipped.reason) == ("applies", Cause.DOES_NOT_APPLY, "no_response")
    (open_,) = steps(replace(CHOSEN, missing="no_response", waited=1.0))
    assert (open_.cause, open_.reason) == (Cause.DOES_NOT_APPLY, "no_response")


# -- calls, and the end


def test_the_calls_of_a_judge_stand_between_the_selection_and_the_score() -> None:
    tries = (Attempt(0.2, "rate_limited", "HTTP 429"), Attempt(1.5, "ok"))
    whole = replace(
        CHOSEN,
        waited=3.0,
        cached=True,
        tries=tries,
        second="confirmed",
        second_score=1.25,
        outcome="score",
        seconds=4.0,
        scope="live",
    )
    assert told(steps(whole)) == [
        ("selected", "the trace's value, 0.42, is below its probability, 0.5"),
        ("queue", "waited 3 s for its turn at the judge"),
        ("cache", "the same question was asked before: the result is from the cache"),
        ("attempt 1", "0.2 s: rate_limited (HTTP 429)"),
        ("attempt 2", "1.5 s: ok"),
        ("second judgement", "the answer was judged severe, so it was judged again: severe again (score 1.25)"),
        ("score", "scored in 4 s"),
    ]
    plain = replace(whole, waited=None, cached=False, tries=(), second_score=None)
    assert told(steps(plain))[1:] == [
        ("second judgement", "the answer was judged severe, so it was judged again: severe again"),
        ("score", "scored in 4 s"),
    ]


def test_a_local_evaluator_has_no_queue_and_no_cache() -> None:
    found = steps(replace(CHOSEN, waited=3.0, cached=True, outcome="score"), with_evaluator(cost="local"))
    assert [one.what for one in found] == ["selected", "score"]
    gone = steps(replace(CHOSEN, waited=3.0, outcome="score"), replace(SETUP, evaluators=[]))
    assert [one.what for one in gone] == ["selected", "queue", "score"]


@pytest.mark.parametrize(
    ("scope", "text", "setting", "cause"),
    [
        ("late", "scored more than 15 min after the answer", "traffic.late_after: longer", Cause.LATE),
        (
            "non_production",
            "scored, but it is not production traffic",
            "traffic.class_attribute",
            Cause.NON_PRODUCTION,
        ),
        ("backfill", "scored later, by a backfill", "", Cause.NON_PRODUCTION),
        ("live", "scored in 1 s", "", Cause.EVALUATED),
        ("canary", "scored in 1 s", "", Cause.EVALUATED),
    ],
)
def test_a_score_says_in_which_rate_it_is(scope: str, text: str, setting: str, cause: Cause) -> None:
    last = steps(replace(CHOSEN, outcome="score", seconds=1.0, scope=scope))[-1]
    assert (last.text, last.setting, last.cause) == (text, setting, cause)


def test_a_case_that_its_evaluator_passes_over_is_skipped() -> None:
    last = steps(replace(CHOSEN, outcome="skipped", reason="no_history"))[-1]
    assert (last.cause, last.reason) == (Cause.SKIPPED, "no_history")


def test_what_is_under_way_says_where_and_how_more_could_be() -> None:
    waiting, asked = steps(CHOSEN)[-1], steps(replace(CHOSEN, waited=1.0))[-1]
    assert waiting.text == "it was selected, and is waiting for its turn at the judge now"
    assert asked.text == "it was selected, and is with the judge now"
    assert asked.setting == "judges.small.max_concurrency: higher, if many are waiting"
    assert steps(CHOSEN, replace(SETUP, evaluators=[]))[-1].setting == ""


# -- from the history


@pytest.mark.parametrize(("attempts", "after"), [(0, ""), (1, ", after 1 call"), (3, ", after 3 calls")])
def test_a_result_without_a_score_counts_its_calls(attempts: int, after: str) -> None:
    judge = {"attempts": attempts}
    found = from_row(row(outcome="unscored", reason="refusal", judge=judge), JUDGED, SETUP)
    assert found.text == f"the judge refused to evaluate it{after}"
    assert (found.cause, found.reason, found.evaluator) == (Cause.UNSCORED, "refusal", "judged")
    assert found.setting == "judges.small.model: one that evaluates such texts"


def test_a_result_of_another_version_without_these_facts_is_explained_all_the_same() -> None:
    for judge in ({}, None, "a text"):
        assert from_row(row(outcome="unscored", reason="refusal", judge=judge), None, SETUP).text.endswith("it")
    assert from_row({"outcome": "unscored"}, None, SETUP).evaluator == ""
    assert from_row(row(scope=None), JUDGED, SETUP).text == "scored"
    skipped = from_row(row(outcome="skipped", reason="no_response"), JUDGED, SETUP)
    assert (skipped.cause, skipped.reason) == (Cause.SKIPPED, "no_response")
