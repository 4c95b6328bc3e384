"""What a reader is told of one trace, word by word: each step says what happened, and nothing that did not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import pytest

from monitor.model.case import Joined
from monitor.model.request_log import EvaluatorDecision, RequestRecord
from monitor.pipeline.introspection.explain import (
    Cause,
    EvaluatorSetup,
    Explanation,
    MonitorSetup,
    OpenTrace,
    TraceFacts,
)
from monitor.pipeline.introspection.explain.trace import explain_requests, explain_trace

ID: Final = "ab" * 16
LOCAL: Final = EvaluatorSetup(name="local", place="evaluators[0]")
JUDGED: Final = EvaluatorSetup(name="judged", place="evaluators[1]", cost="judge", judge={"model": "m"})
SETUP: Final = MonitorSetup(evaluators=[LOCAL, JUDGED])
RECORD: Final = RequestRecord(
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
    ),
)
ONE: Final = replace(SETUP, evaluators=[LOCAL])
FACTS: Final = TraceFacts(request_id=ID, least_rate=0.3, draw=0.42, recorded=[RECORD], reaches_back=100.0)
UNKNOWN: Final = replace(FACTS, recorded=[])


def recorded(**fields: Any) -> TraceFacts:
    return replace(FACTS, recorded=[replace(RECORD, **fields)])


def told(found: Explanation) -> list[tuple[str, str]]:
    return [(one.what, one.text) for one in found.steps]


def step(what: str, facts: TraceFacts, setup: MonitorSetup = ONE) -> str:
    (text,) = [text for name, text in told(explain_trace(facts, setup)) if name == what]
    return text


def test_a_trace_that_was_evaluated_is_told_from_its_arrival_to_its_score() -> None:
    found = explain_trace(FACTS, ONE)
    assert told(found) == [
        ("received", "1970-01-01 00:15:00 UTC, from shop, by otlp_http"),
        ("sampled", "head sampling keeps every trace (sampling.traces: 1)"),
        ("assembled", "closed after 10 s because its root had ended and nothing more arrived for 10 s: 3 spans"),
        ("extracted", "a question and an answer"),
        ("selected", "takes every sampled case"),
        ("score", "scored in 0 s"),
    ]
    assert (found.subject, found.conclusion) == (f"trace {ID}", "Scored by local.")


def test_a_row_arrived_complete() -> None:
    assert step("assembled", recorded(closed="")) == "arrived complete, as a row"


def test_an_app_without_a_name_is_unknown() -> None:
    assert step("received", recorded(app="")) == "1970-01-01 00:15:00 UTC, from unknown, by otlp_http"


@pytest.mark.parametrize(
    ("closed", "why"),
    [
        ("idle", "because its root had not ended and nothing more arrived for 1 min"),
        ("too_old", "because it had been open for as long as allowed (assembly.max_age)"),
        ("evicted", "because open traces took all the memory they may use (assembly.max_open_bytes)"),
        ("too_large", "because it was larger than allowed (assembly.max_trace_bytes, assembly.max_trace_spans)"),
        ("shutdown", "because the monitor was stopped"),
        ("handed_over", "because its partition moved to another replica"),
        ("of_a_later_version", "(of_a_later_version)"),
    ],
)
def test_why_a_trace_was_closed_names_the_setting(closed: str, why: str) -> None:
    assert step("assembled", recorded(closed=closed)) == f"closed after 10 s {why}: 3 spans"


def joined(count: int) -> tuple[Joined, ...]:
    return tuple(Joined(f"span {number}", f"{number:016x}", "retrieval", "gen_ai") for number in range(count))


@pytest.mark.parametrize(("spans", "more"), [(12, ""), (13, "; and 1 more"), (20, "; and 8 more")])
def test_twelve_spans_are_named_and_the_others_counted(spans: int, more: str) -> None:
    text = step("assembled", recorded(spans=spans, joined=joined(12)))
    named = "; ".join(f"span {number} (retrieval, gen_ai)" for number in range(12))
    assert text.partition(" for 10 s: ")[2] == f"{spans} spans: {named}{more}"


def test_a_span_without_name_role_or_dialect_is_told_by_its_id() -> None:
    parts = (Joined("", "7", "", ""), Joined("ask", "8", "request", ""))
    text = step("assembled", recorded(spans=2, records=1, joined=parts))
    assert text.endswith("2 spans and 1 log record: 7 (no dialect); ask (request)")


@pytest.mark.parametrize(
    ("probability", "head_rate", "least", "text"),
    [
        (0.1, 0.1, 0.3, "with probability 0.1; any rate of at least 0.3 keeps this one"),
        (0.1, 0.1, None, "with probability 0.1"),
        (
            0.05,
            0.1,
            0.3,
            "with probability 0.05, including the sampling by its sender; any rate of at least 0.3 keeps this one",
        ),
    ],
)
def test_head_sampling_is_told_with_the_sampling_of_the_sender(
    probability: float, head_rate: float, least: float | None, text: str
) -> None:
    facts = replace(recorded(probability=probability), least_rate=least)
    assert step("sampled", facts, replace(ONE, head_rate=head_rate)) == f"kept by head sampling, {text}"


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"context": "retrieved_nothing"}, "; retrieval found nothing"),
        ({"context": "no_retrieval"}, "; there was no retrieval"),
        ({"traffic": "synthetic"}, "; its traffic class is synthetic, so it is not in the live rates"),
        ({"traffic": ""}, ""),
    ],
)
def test_what_was_extracted_says_what_is_unusual(fields: Mapping[str, str], text: str) -> None:
    assert step("extracted", recorded(**fields)) == f"a question and an answer{text}"


def test_an_earlier_part_says_when_it_ended_and_who_scored_it() -> None:
    facts = replace(FACTS, recorded=[RECORD, replace(RECORD, outcome="incomplete", decisions=()), RECORD])
    assert [text for what, text in told(explain_trace(facts, ONE)) if what == "earlier"] == [
        "an earlier part of it ended 1970-01-01 00:15:11 UTC as evaluated, scored by local",
        "an earlier part of it ended 1970-01-01 00:15:11 UTC as incomplete",
    ]
    again = replace(FACTS, recorded=[RECORD], in_progress=replace(RECORD, outcome=""))
    assert len([what for what, _ in told(explain_trace(again, ONE)) if what == "earlier"]) == 1


# -- the conclusion


def test_an_evaluator_that_is_not_configured_is_named_with_those_that_are() -> None:
    found = explain_trace(FACTS, SETUP, "nobody")
    assert found.conclusion == "Not evaluated: no evaluator named nobody is configured; configured: local, judged."
    assert (found.cause, found.setting) == (Cause.NOT_ASKED, "evaluators: - type: nobody")


def test_an_evaluator_that_has_a_result_is_explained_though_it_is_configured_no_more() -> None:
    assert explain_trace(FACTS, replace(SETUP, evaluators=[]), "local").cause is Cause.EVALUATED


def test_a_score_from_outside_is_no_evaluator() -> None:
    found = explain_trace(FACTS, replace(SETUP, external=["user_feedback"]), "user_feedback")
    assert found.cause is Cause.NOT_ASKED
    assert found.conclusion.startswith("Not evaluated: user_feedback is not an evaluator of this monitor but user")


def test_a_request_of_several_is_named_by_its_trace_and_number() -> None:
    facts = replace(FACTS, request_id=f"{ID}/2", of_several=True)
    assert explain_trace(facts, ONE).subject == f"request 2 of trace {ID}"


def test_without_evaluators_the_section_is_named() -> None:
    found = explain_trace(recorded(decisions=()), replace(SETUP, evaluators=[]))
    assert (found.conclusion, found.setting) == ("Not evaluated: no evaluator is configured.", "evaluators")


def test_those_that_did_not_score_are_all_named_and_the_first_is_explained() -> None:
    found = explain_trace(recorded(decisions=()), SETUP)
    assert found.conclusion == "Not by local: it was not running then; nor by judged."
    assert explain_trace(FACTS, SETUP).conclusion == "Scored by local. Not by judged: it was not running then."


def test_a_score_that_is_in_no_live_rate_says_so() -> None:
    late = replace(RECORD.decisions[0], scope="late")
    found = explain_trace(recorded(decisions=(late,)), ONE)
    assert found.conclusion == ("Scored by local, but not in the live rates: scored more than 15 min after the answer.")
    assert (found.cause, found.setting) == (Cause.LATE, "traffic.late_after: longer")


def test_several_requests_of_a_trace_are_counted_by_their_ends_and_the_first_that_failed_is_its_cause() -> None:
    good, missing = explain_trace(FACTS, ONE), explain_trace(recorded(outcome="content_missing", decisions=()), ONE)
    found = explain_requests(ID, [good, missing, missing])
    assert found.conclusion == "It holds 3 requests: 2 content missing, 1 evaluated."
    assert (found.subject, found.cause, found.setting) == (f"trace {ID}", Cause.CONTENT_MISSING, missing.setting)
    assert explain_requests(ID, [good]).conclusion == "It holds 1 request: 1 evaluated."
    assert explain_requests(ID, [good]).cause is Cause.EVALUATED


# -- traces that the request log does not have


@pytest.mark.parametrize(
    ("root_ended", "waits", "setting"),
    [
        (False, "its root span to end", "assembly.idle_timeout: shorter than 1 min, to wait less"),
        (True, "late spans", "assembly.grace_period: shorter than 10 s, to wait less"),
    ],
)
def test_an_open_trace_says_what_it_waits_for(root_ended: bool, waits: str, setting: str) -> None:
    found = explain_trace(replace(UNKNOWN, open=OpenTrace("", "otlp_grpc", 900.0, 1060.0, 2, 1, root_ended)), SETUP)
    until = "until 1970-01-01 00:17:40 UTC if nothing more arrives"
    assert found.conclusion == f"Not evaluated yet: still open: it waits for {waits}, {until}."
    assert found.setting == setting
    assert told(found) == [
        ("received", "1970-01-01 00:15:00 UTC, from unknown, by otlp_grpc"),
        ("assembled", "2 spans, 1 log record so far"),
    ]


def test_without_log_records_none_are_counted() -> None:
    found = explain_trace(replace(UNKNOWN, open=OpenTrace("shop", "otlp_grpc", 900.0, 1060.0, 1, 0, True)), SETUP)
    assert told(found)[1] == ("assembled", "1 span so far")


def whats(found: Explanation) -> list[str]:
    return [one.what for one in found.steps]


def test_an_unknown_trace_is_looked_for_in_progress_at_its_sender_and_in_other_replicas() -> None:
    found = explain_trace(UNKNOWN, SETUP)
    assert told(found)[:2] == [
        ("sampled", "head sampling would keep it: sampling.traces is 1"),
        (
            "received",
            "it is not in the request log, which begins 1970-01-01 00:01:40 UTC (storage.request_log: 1 d)",
        ),
    ]
    assert whats(found)[2:] == ["in progress", "sent"]
    assert whats(explain_trace(UNKNOWN, replace(SETUP, live=True)))[2:] == ["sent"]
    assert whats(explain_trace(UNKNOWN, replace(SETUP, live=True, shared=True)))[2:] == ["sent", "replicas"]


@pytest.mark.parametrize("rate", [0.3, 0.5])
def test_a_rate_that_would_keep_an_unknown_trace_is_told_with_its_value(rate: float) -> None:
    found = explain_trace(UNKNOWN, replace(SETUP, head_rate=rate))
    assert found.cause is Cause.NEVER_SEEN
    text = f"head sampling would keep it: sampling.traces is {rate}, and its value, 0.3, is not above that"
    assert told(found)[0] == ("sampled", text)


def test_a_rate_that_leaves_it_out_is_the_whole_explanation() -> None:
    found = explain_trace(UNKNOWN, replace(SETUP, head_rate=0.29))
    assert told(found) == [
        ("sampled", "head sampling leaves it out: sampling.traces is 0.29, and the trace's value is 0.3")
    ]


def test_an_id_that_is_none_and_a_log_that_is_off_or_empty_are_told() -> None:
    facts = replace(UNKNOWN, least_rate=None, reaches_back=None)
    found = explain_trace(facts, replace(SETUP, request_log=0.0))
    assert told(found) == [
        ("sampled", "its id is not a trace id (32 hex digits) and not a known request_id of a row"),
        ("received", "no request has been logged here yet"),
    ]
    assert (found.cause, found.setting) == (Cause.NOT_RECORDED, "storage.request_log: 1d")
    assert explain_trace(facts, replace(SETUP, request_log=1.0)).cause is Cause.NEVER_SEEN


SCORED: Final[Sequence[dict[str, str]]] = ({"evaluator": "local", "outcome": "score", "scope": "live"},)


@pytest.mark.parametrize(
    ("fields", "cause", "what", "text", "setting"),
    [
        ({"works": False}, Cause.OFF, "off", "it is off: it asks a language model, and the section", "judge.model: "),
        (
            {"rate": 0.42},
            Cause.NOT_CHOSEN,
            "selected",
            "it was not selected: the trace's value, 0.42, is not below 0.42",
            "evaluators[1].sample: at least 0.4201",
        ),
        ({"rate": 0.43}, Cause.NOT_RECORDED, "no result", "it has no result for this", ""),
        ({"rate": None}, Cause.NOT_RECORDED, "no result", "it has no result for this", ""),
        (
            {"rate": 1.0},
            Cause.NOT_RECORDED,
            "no result",
            "it has no result for this, although it takes every sampled case",
            "",
        ),
    ],
)
def test_from_results_alone_those_without_one_are_explained_by_their_settings(
    fields: dict[str, Any], cause: Cause, what: str, text: str, setting: str
) -> None:
    setup = replace(SETUP, evaluators=[LOCAL, replace(JUDGED, **fields)])
    found = explain_trace(replace(UNKNOWN, results=SCORED), setup)
    assert told(found)[0] == ("received", "the request log does not have it: what follows is from its results")
    last = found.steps[-1]
    assert (found.cause, last.what, last.evaluator) == (cause, what, "judged")
    assert last.text.startswith(text)
    assert (last.text == text) == (what != "off")
    assert found.setting.startswith(setting)
    assert bool(found.setting) == bool(setting)


def test_asked_for_one_evaluator_the_results_of_others_are_left_out() -> None:
    setup = replace(SETUP, request_log=0.0)
    found = explain_trace(replace(UNKNOWN, results=SCORED), setup, "local")
    gone = "request logging is off (storage.request_log: 0)"
    assert told(found) == [("received", f"{gone}: what follows is from its results"), ("score", "scored")]
    other = explain_trace(replace(UNKNOWN, results=SCORED), setup, "judged")
    assert [one.evaluator for one in other.steps[1:]] == ["judged"]
