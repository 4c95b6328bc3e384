"""Verdicts read out of spans and log records."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.extraction.feedback import telemetry
from monitor.model.external import LONGEST_NAME, LONGEST_TEXT, ScoreSource
from monitor.model.span import LogRecord, Origin, Span, SpanEvent, SpanLink
from monitor.model.trace import Closed, Trace
from tests.support.traces import TRACE_ID

SPAN_ID = "00000000000000aa"
SHOP, EVALS = Origin("shop"), Origin("evals")
SCORE = {"gen_ai.evaluation.name": "tone", "gen_ai.evaluation.score.value": 0.25}


def trace(attributes=None, *events, origin=SHOP, parent="", **kwargs):
    span = Span(
        TRACE_ID,
        SPAN_ID,
        parent,
        start_ns=10**9,
        end_ns=2 * 10**9,
        attributes=attributes or {},
        events=events,
        origin=origin,
    )
    return Trace(TRACE_ID, (span,), (), Closed.ROOT_ENDED, "shop", "otlp_http", 1.0, 0.0)


def record(attributes, name=telemetry.RESULT, origin=EVALS, **kwargs):
    return LogRecord(TRACE_ID, SPAN_ID, name, 3 * 10**9, attributes=attributes, origin=origin, **kwargs)


def test_an_event_is_a_verdict_on_its_span_as_log_record_and_as_span_event():
    said = {**SCORE, "gen_ai.evaluation.score.label": "fail", "gen_ai.evaluation.explanation": "rude"}
    one = telemetry.of_record(record(said))
    (other,) = telemetry.of_trace(trace({}, SpanEvent(telemetry.RESULT, 3 * 10**9, said), origin=Origin("evals")))
    assert one == other
    assert (one.request_id, one.span_id, one.evaluator, one.score_source) == (
        TRACE_ID,
        SPAN_ID,
        "tone",
        ScoreSource.GEN_AI_EVENTS,
    )
    assert (one.value, one.label, one.explanation, one.app, one.at) == (0.25, "fail", "rude", "evals", 3.0)
    assert one.fault == one.error == ""


def test_a_verdict_comes_from_the_app_as_requests_name_it():
    one = telemetry.of_record(record(SCORE, origin=replace(EVALS, service_name=" a\u3000b ")))
    assert one.app == "a b"


def test_a_record_whose_name_stands_in_an_attribute_is_read_as_well():
    assert telemetry.of_record(record({**SCORE, "event.name": telemetry.RESULT}, name="")).value == 0.25


@pytest.mark.parametrize("body", [{"comment": "wrong"}, None])
def test_a_reaction_of_a_user_is_feedback(body):
    said = {"gen_ai.evaluation.score": -1.0, "gen_ai.response.id": "chatcmpl-1"}
    one = telemetry.of_record(record(said, telemetry.REACTION, body=body))
    assert (one.evaluator, one.score_source, one.value) == ("user_feedback", ScoreSource.FEEDBACK, -1.0)
    assert one.explanation == (body or {}).get("comment", "")


@pytest.mark.parametrize(
    "prefix",
    [
        "annotations.0.annotation",
        "evaluations.0.evaluation",
        "trace.annotations.0.annotation",
        "trace.evaluations.0.evaluation",
    ],
)
def test_annotations_of_openinference_are_read_of_spans_and_of_traces(prefix):
    said = {
        "name": "correctness",
        "score": 1,
        "label": "correct",
        "explanation": "it is",
        "annotator_kind": "HUMAN",
        "identifier": "a1",
    }
    second = {f"{prefix.replace('.0.', '.1.')}.{key}": value for key, value in {"name": "tone", "label": "bad"}.items()}
    found = telemetry.of_trace(trace({f"{prefix}.{key}": value for key, value in said.items()} | second))
    assert [(one.evaluator, one.score_source, one.value, one.label) for one in found] == [
        ("correctness", ScoreSource.OPENINFERENCE, 1.0, "correct"),
        ("tone", ScoreSource.OPENINFERENCE, None, "bad"),
    ]
    assert (found[0].annotator, found[0].key, found[0].explanation) == ("HUMAN", "a1", "it is")
    assert found[0].span_id == ("" if prefix.startswith("trace.") else SPAN_ID)


@pytest.mark.parametrize(
    ("value", "number", "label"), [(0.1, 0.1, ""), ("rude", None, "rude"), (True, None, "pass"), (False, None, "fail")]
)
def test_feedback_of_logfire_is_on_the_span_above(value, number, label):
    said = {"logfire.feedback.name": "factuality", "factuality": value, "logfire.feedback.comment": "no"}
    (one,) = telemetry.of_trace(trace(said, parent="00000000000000bb"))
    assert (one.evaluator, one.score_source, one.value, one.label) == (
        "factuality",
        ScoreSource.FEEDBACK,
        number,
        label,
    )
    assert (one.span_id, one.explanation) == ("00000000000000bb", "no")


@pytest.mark.parametrize(
    ("attributes", "origin"),
    [
        (SCORE, Origin("rag-monitor")),
        (SCORE, Origin("x", scope_name="rag-monitor")),
        ({**SCORE, "rag_monitor.result_id": "1"}, Origin("x")),
    ],
)
def test_what_we_sent_ourselves_is_never_read(attributes, origin):
    assert telemetry.of_record(record(attributes, origin=origin)) is None
    assert telemetry.of_trace(trace({}, SpanEvent(telemetry.RESULT, 0, attributes), origin=origin)) == ()


@pytest.mark.parametrize(
    ("said", "fault"),
    [
        ({"gen_ai.evaluation.score.value": 1.0}, "no_name"),
        ({"gen_ai.evaluation.name": "tone", "gen_ai.evaluation.explanation": "hm"}, "no_value"),
        ({"gen_ai.evaluation.name": "tone", "gen_ai.evaluation.score.value": float("nan")}, "no_value"),
    ],
)
def test_what_cannot_be_a_verdict_says_why(said, fault):
    assert telemetry.of_record(record(said)).fault == fault


def test_a_verdict_without_a_trace_is_on_the_answer_it_names_or_on_none():
    without = {"trace_id": "", "span_id": "", "event_name": telemetry.RESULT}
    assert telemetry.of_record(LogRecord(**without, attributes=SCORE)).fault == "no_request"
    named = telemetry.of_record(LogRecord(**without, attributes={**SCORE, "gen_ai.response.id": "r1"}))
    assert (named.request_id, named.fault) == ("response:r1", "")


def test_an_evaluator_that_failed_has_an_error_and_no_fault():
    one = telemetry.of_record(record({"gen_ai.evaluation.name": "tone", "error.type": "timeout"}))
    assert (one.error, one.fault) == ("timeout", "")


OTHER = SpanLink("0" * 31 + "f", "00000000000000ff")
ANNOTATED = {"annotations.0.annotation.name": "tone", "annotations.0.annotation.label": "bad"}


def carrier(attributes=ANNOTATED, *events, kind="EVALUATOR", links=(OTHER,)):
    said = {**attributes, **({"openinference.span.kind": kind} if kind else {})}
    whole = trace(said, *events)
    return replace(whole, spans=(replace(whole.spans[0], links=links),))


@pytest.mark.parametrize(
    ("kind", "answers", "linked"),
    [
        ("EVALUATOR", True, True),
        ("EVALUATOR", False, True),
        ("", True, True),
        ("CHAIN", False, True),
        ("CHAIN", True, False),
    ],
)
def test_an_annotation_is_on_the_linked_span_but_of_work_on_a_request_on_the_work(kind, answers, linked):
    (one,) = telemetry.of_trace(carrier(kind=kind), answers=answers)
    target = OTHER if linked else SpanLink(TRACE_ID, SPAN_ID)
    assert (one.request_id, one.span_id, one.linked, one.fault) == (*target, linked, "")


def test_an_annotation_of_a_whole_trace_is_on_the_linked_trace_and_on_no_span_of_it():
    (one,) = telemetry.of_trace(carrier({f"trace.{key}": value for key, value in ANNOTATED.items()}))
    assert (one.request_id, one.span_id) == (OTHER.trace_id, "")


def test_an_event_on_a_carrier_is_on_the_linked_span_and_one_on_linked_work_of_another_dialect_is_not():
    event = SpanEvent(telemetry.RESULT, 3 * 10**9, SCORE)
    (one,) = telemetry.of_trace(carrier({}, event))
    assert (one.request_id, one.span_id) == OTHER
    (other,) = telemetry.of_trace(carrier({"gen_ai.operation.name": "chat"}, event, kind=""))
    assert (other.request_id, other.linked) == (TRACE_ID, False)


def test_a_link_to_another_span_of_the_same_trace_stays_in_it():
    (one,) = telemetry.of_trace(carrier(links=(SpanLink(TRACE_ID, OTHER.span_id),)))
    assert (one.request_id, one.span_id, one.linked) == (TRACE_ID, OTHER.span_id, False)


@pytest.mark.parametrize(("links", "fault"), [((OTHER, OTHER), "several_links"), ((SpanLink("", ""),), "no_request")])
def test_a_carrier_with_several_links_or_one_that_is_none_cannot_be_used_and_says_why(links, fault):
    (one,) = telemetry.of_trace(carrier(links=links))
    assert (one.request_id, one.fault) == ("", fault)


@pytest.mark.parametrize(
    ("said", "votes"),
    [
        ({"name": "correctness", "label": "thumbs-down", "annotator_kind": "HUMAN"}, True),
        ({"name": "User Feedback", "score": 0, "annotator_kind": "HUMAN"}, True),
        ({"name": "correctness", "label": "incorrect", "annotator_kind": "HUMAN"}, False),
        ({"name": "user_feedback", "label": "thumbs-down", "annotator_kind": "LLM"}, False),
    ],
)
def test_an_annotation_is_a_users_vote_if_a_person_made_it_and_it_is_named_or_labelled_so(said, votes):
    (one,) = telemetry.of_trace(carrier({f"annotations.0.annotation.{key}": value for key, value in said.items()}))
    assert one.by_user is votes


def test_every_span_with_a_verdict_has_a_mark_among_its_bytes():
    keys = ["annotations.3.annotation.name", "trace.evaluations.0.evaluation.label", "logfire.feedback.name"]
    for text in (*keys, telemetry.RESULT, telemetry.REACTION):
        assert any(mark in text.encode() for mark in telemetry.MARKS)


anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(), max_size=20)
    | st.binary(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
KEYS = st.sampled_from(
    [
        "gen_ai.evaluation.name",
        "gen_ai.evaluation.score.value",
        "gen_ai.evaluation.score.label",
        "gen_ai.evaluation.explanation",
        "gen_ai.evaluation.score",
        "annotations.0.annotation.name",
        "annotations.0.annotation.score",
        "annotations.0.annotation",
        "annotations.99999999.annotation.name",
        "logfire.feedback.name",
        "x",
        "error.type",
    ]
)


LINKS = st.lists(st.sampled_from([OTHER, SpanLink(TRACE_ID, SPAN_ID), SpanLink("", "")]), max_size=3).map(tuple)


@given(st.dictionaries(KEYS, anything), st.sampled_from([telemetry.RESULT, telemetry.REACTION, "other"]), LINKS)
def test_whatever_is_sent_reading_it_never_fails_and_what_is_read_can_be_written(attributes, name, links):
    sent = carrier(attributes, SpanEvent(name, -1, attributes), links=links)
    found = [*telemetry.of_trace(sent), *telemetry.of_late(sent.spans[0])]
    read = telemetry.of_record(record(attributes, name))
    for one in [*found, *([read] if read else [])]:
        for text in (one.evaluator, one.label, one.explanation, one.key, one.error):
            text.encode()
            assert len(text) <= LONGEST_TEXT
        assert len(one.evaluator) <= LONGEST_NAME
        assert one.value is None or abs(one.value) < float("inf")
        assert len(one.identity) == 16
