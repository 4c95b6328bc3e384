"""The way of one trace, from what is known of it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.model.case import Joined
from monitor.model.outcome import Attempt
from monitor.model.request_log import EvaluatorDecision, RequestRecord
from monitor.pipeline.introspection.explain import (
    Cause,
    EvaluatorSetup,
    MonitorSetup,
    OpenTrace,
    TraceFacts,
    above,
    at_least,
)
from monitor.pipeline.introspection.explain.trace import explain_trace
from monitor.statistics import consistent_sampling

ID = "ab" * 16
LOCAL = EvaluatorSetup(name="local", place="evaluators[0]")
JUDGED = EvaluatorSetup(name="judged", place="evaluators[1]", cost="judge", judge={"model": "m"})
SETUP = MonitorSetup(evaluators=[LOCAL, JUDGED])
TRAIL = RequestRecord(
    request_id=ID,
    app="shop",
    source="otlp_http",
    received_at=900.0,
    closed_at=910.0,
    ended_at=911.0,
    closed="root_ended",
    outcome="evaluated",
    draw=0.42,
    spans=3,
    traffic="production",
    decisions=(
        EvaluatorDecision(evaluator="local", probability=1.0, target=1.0, chosen=True, outcome="score", scope="live"),
        EvaluatorDecision(evaluator="judged", probability=1.0, target=1.0, chosen=True, outcome="score", scope="live"),
    ),
)
FACTS = TraceFacts(request_id=ID, least_rate=0.3, draw=0.42, recorded=[TRAIL], reaches_back=100.0)


def with_decision(**fields) -> TraceFacts:
    other = replace(TRAIL.decisions[1], **fields)
    return replace(FACTS, recorded=[replace(TRAIL, decisions=(TRAIL.decisions[0], other))])


def test_a_trace_that_all_have_judged_needs_no_setting():
    found = explain_trace(FACTS, SETUP)
    assert (found.cause, found.setting, found.conclusion) == (Cause.EVALUATED, "", "Scored by local, judged.")


def unrecorded(**fields) -> tuple[str, str]:
    """What is said of extraction, and what to set, where the texts of documents were not sent."""
    record = replace(TRAIL, context="not_recorded", **fields)
    (step,) = [one for one in explain_trace(replace(FACTS, recorded=[record]), SETUP).steps if one.what == "extracted"]
    return step.text, step.setting


def test_texts_of_documents_that_were_not_sent_have_the_limit_that_kept_them_and_the_dialect_s_advice():
    limit = "the texts of the retrieved documents were not sent; the sender dropped 12 attributes (SOME_LIMIT)"
    joined = (Joined("ask", "1", "request", "gen_ai"), Joined("search", "2", "retrieval", "openinference"))
    text, setting = unrecorded(detail=limit, joined=joined)
    assert text == f"a question and an answer; {limit}"
    assert setting.startswith("in the service (openinference), record them: Retrievers send it: in LangChain")
    assert "128 attributes" in setting


@pytest.mark.parametrize("dialect", ["spring_ai", "", "of_a_plugin"])
def test_without_advice_in_words_for_the_dialect_it_is_still_said_what_to_do(dialect):
    text, setting = unrecorded(joined=(Joined("ask", "1", "request", dialect),))
    assert text == "a question and an answer; the texts of the retrieved documents were not sent"
    assert setting.startswith("in the service")
    assert "```" not in setting


def test_a_row_without_the_texts_of_its_documents_has_the_advice_for_rows():
    assert unrecorded(closed="")[1].startswith(
        "in the service, record them: List the documents that reached the prompt"
    )


@pytest.mark.parametrize(
    ("fields", "cause", "words", "setting"),
    [
        (
            {"chosen": False, "outcome": "", "probability": 0.1},
            Cause.NOT_CHOSEN,
            "0.42, is not below its probability, 0.1",
            "evaluators[1].sample: at least 0.4201",
        ),
        (
            {"chosen": False, "outcome": "", "probability": 0.1, "room": 0.2, "target": 0.5},
            Cause.NOT_CHOSEN,
            "reduced to 0.2 of it by the app's quota",
            "traffic.quotas.shop",
        ),
        (
            {"outcome": "unscored", "reason": "overloaded", "detail": "the queue in front of the judge is full"},
            Cause.UNSCORED,
            "its queue was full",
            "judge.max_concurrency",
        ),
        ({"outcome": "unscored", "reason": "breaker_open"}, Cause.UNSCORED, "held back", "judge.max_age"),
        ({"outcome": "unscored", "reason": "paused"}, Cause.UNSCORED, "until someone acts", "judge.api_key"),
        ({"chosen": False, "repeated": True, "outcome": ""}, Cause.REPEATED, "has evaluated this before", ""),
        (
            {"missing": "no_retrieval", "outcome": "skipped", "reason": "no_retrieval"},
            Cause.DOES_NOT_APPLY,
            "needs",
            "",
        ),
        (
            {"missing": "no_retrieval", "chosen": False, "outcome": ""},
            Cause.DOES_NOT_APPLY,
            "without any retrieval",
            "",
        ),
        ({"scope": "late"}, Cause.LATE, "not in the live rates", "traffic.late_after"),
        ({"scope": "non_production"}, Cause.NON_PRODUCTION, "not production", "traffic.class_attribute"),
        ({"outcome": "", "waited": None}, Cause.WAITING, "waiting for its turn", "judge.max_concurrency"),
        ({"outcome": "", "waited": 1.0}, Cause.WAITING, "is with the judge", "judge.max_concurrency"),
    ],
)
def test_what_one_evaluator_did_is_the_cause_of_the_whole(fields, cause, words, setting):
    found = explain_trace(with_decision(**fields), SETUP)
    assert (found.cause, found.setting.startswith(setting)) == (cause, True), found
    assert words in found.conclusion


def test_a_budget_names_how_many_times_as_much_it_would_take():
    paced = replace(JUDGED, rate=None, sampler="budget", budget="per_day")
    found = explain_trace(
        with_decision(chosen=False, outcome="", probability=0.1), replace(SETUP, evaluators=[LOCAL, paced])
    )
    assert found.setting == "evaluators[1].sample.per_day: more than 4.2 times as much"


def test_all_attempts_stand_in_their_order_before_what_came_of_them():
    tries = (Attempt(0.2, "rate_limited", "HTTP 429"), Attempt(1.5, "ok"))
    found = explain_trace(with_decision(waited=3.0, tries=tries), SETUP, "judged")
    whats = [one.what for one in found.steps if one.evaluator]
    assert whats == ["selected", "queue", "attempt 1", "attempt 2", "score"]
    assert [one.text for one in found.steps if one.what.startswith("att")] == [
        "0.2 s: rate_limited (HTTP 429)",
        "1.5 s: ok",
    ]


def test_an_evaluator_that_is_off_is_told_with_its_judge():
    off = replace(JUDGED, works=False, judge_place="judges.small")
    facts = replace(FACTS, recorded=[replace(TRAIL, decisions=TRAIL.decisions[:1])])
    found = explain_trace(facts, replace(SETUP, evaluators=[LOCAL, off]))
    assert found.cause is Cause.OFF
    assert found.setting.startswith("judges.small.model")


def test_an_evaluator_that_came_later_was_not_at_work_then():
    facts = replace(FACTS, recorded=[replace(TRAIL, decisions=TRAIL.decisions[:1])])
    assert explain_trace(facts, SETUP).cause is Cause.NOT_ASKED


def test_a_trace_under_way_is_told_from_what_is_known_so_far():
    so_far = replace(
        TRAIL, outcome="", ended_at=0.0, decisions=(TRAIL.decisions[0], replace(TRAIL.decisions[1], outcome=""))
    )
    found = explain_trace(replace(FACTS, recorded=[], in_progress=so_far), SETUP)
    assert found.cause is Cause.WAITING


def test_an_open_trace_says_what_it_waits_for_and_until_when():
    waiting = OpenTrace("shop", "otlp_grpc", 900.0, 1060.0, 2, 1, root_ended=False)
    found = explain_trace(replace(FACTS, recorded=[], open=waiting), SETUP)
    assert found.cause is Cause.OPEN
    assert "1970-01-01 00:17:40 UTC" in found.conclusion
    late = explain_trace(replace(FACTS, recorded=[], open=replace(waiting, root_ended=True)), SETUP)
    assert late.setting.startswith("assembly.grace_period")


def test_a_complete_trace_that_nobody_has_read_yet_waits():
    assert explain_trace(replace(FACTS, recorded=[], unread=True), SETUP).cause is Cause.WAITING


def test_of_an_unknown_trace_the_id_alone_says_that_head_sampling_leaves_it_out():
    found = explain_trace(replace(FACTS, recorded=[]), replace(SETUP, head_rate=0.1))
    assert (found.cause, found.setting) == (Cause.SAMPLED_OUT, "sampling.traces: at least 0.3")


def test_an_unknown_trace_of_a_group_of_replicas_may_be_known_to_another():
    found = explain_trace(replace(FACTS, recorded=[]), replace(SETUP, shared=True))
    assert found.cause is Cause.NEVER_SEEN
    assert any("each replica" in one.text for one in found.steps)


def test_where_the_trail_is_gone_the_results_still_tell():
    rows = [
        {"evaluator": "local", "outcome": "score", "scope": "live"},
        {
            "evaluator": "judged",
            "outcome": "unscored",
            "reason": "auth",
            "detail": "HTTP 401",
            "judge": {"attempts": 1},
        },
    ]
    found = explain_trace(replace(FACTS, recorded=[], results=rows), SETUP)
    assert (found.cause, found.reason) == (Cause.UNSCORED, "auth")
    assert "after 1 call" in found.conclusion


def test_a_result_stands_for_the_trail_of_a_case_that_was_judged_before():
    rows = [{"evaluator": "judged", "outcome": "score", "scope": "live"}]
    facts = replace(with_decision(chosen=False, repeated=True, outcome=""), results=rows)
    assert explain_trace(facts, SETUP).cause is Cause.EVALUATED


@pytest.mark.parametrize("outcome", ["content_missing", "failed_request", "no_request"])
def test_a_request_that_was_not_evaluated_has_its_outcome_for_the_cause_unless_an_earlier_part_was(outcome):
    facts = replace(FACTS, recorded=[replace(TRAIL, outcome=outcome, decisions=())])
    assert explain_trace(facts, SETUP).cause is Cause(outcome)
    rows = [{"evaluator": name, "outcome": "score", "scope": "live"} for name in ("local", "judged")]
    assert explain_trace(replace(facts, results=rows), SETUP).cause is Cause.EVALUATED


def test_an_earlier_part_of_the_trace_is_told():
    found = explain_trace(replace(FACTS, recorded=[replace(TRAIL, outcome="incomplete", decisions=()), TRAIL]), SETUP)
    assert any(one.what == "earlier" and "incomplete" in one.text for one in found.steps)


@given(st.binary(min_size=16, max_size=16).filter(lambda given: any(given[-7:])))
def test_the_rate_that_is_named_for_head_sampling_is_enough(trace_id):
    least = consistent_sampling.least_rate(trace_id)
    assert consistent_sampling.keep(trace_id, "", float(at_least(least).rpartition(" ")[2]))[0]
    assert not consistent_sampling.keep(trace_id, "", least * 0.999)[0]


@given(st.text(min_size=1, max_size=40))
def test_the_rate_that_is_named_for_an_evaluator_is_enough(request_id):
    value = consistent_sampling.value(request_id, "salt")
    assert consistent_sampling.chosen(request_id, "salt", float(above(value).rpartition(" ")[2]))
    assert not consistent_sampling.chosen(request_id, "salt", value * 0.999)
