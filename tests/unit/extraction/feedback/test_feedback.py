"""Feedback as it is posted."""

from __future__ import annotations

from contextlib import suppress

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.errors import InvalidData, MonitorError, TooLarge
from monitor.extraction.feedback import feedback
from monitor.model.external import LONGEST_TEXT, ScoreSource

TRACE = "4BF92F3577B34DA6A3CE929D0E0E4736"
DOWN = {"trace_id": TRACE, "thumbs": "down"}


def take(*entries, **options):
    return feedback.take(orjson.dumps(list(entries) if len(entries) != 1 else entries[0]), **options)


def why(entry):
    (fault,) = take(entry).faults
    return fault.error


def test_a_thumb_is_a_label_of_the_evaluator_that_users_are():
    (one,) = take(
        {**DOWN, "comment": "old law", "user_id": "u1", "at": "2026-11-22T02:00:00+00:00", "app": "shop"}
    ).external_scores
    assert (one.request_id, one.evaluator, one.score_source, one.label, one.value) == (
        TRACE.lower(),
        "user_feedback",
        ScoreSource.FEEDBACK,
        "thumbs_down",
        None,
    )
    assert (one.explanation, one.user, one.at, one.app) == ("old law", "u1", 1795312800.0, "shop")


def test_the_sender_stands_for_the_app_that_an_entry_does_not_name():
    named, unnamed = take({**DOWN, "app": "a"}, DOWN, app="b").external_scores
    assert (named.app, unnamed.app) == ("a", "b")


def test_the_app_of_an_entry_is_named_as_that_of_a_request():
    named, unnamed = take({**DOWN, "app": " a\u3000b "}, DOWN, app=129 * "x").external_scores
    assert (named.app, unnamed.app) == ("a b", 128 * "x")
    (long,) = take({**DOWN, "app": 500 * "x"}).external_scores
    assert long.app == 128 * "x"


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        (3, "must be an object, not 3"),
        ({**DOWN, "thumb": "up"}, "unknown key 'thumb'; allowed: trace_id, request_id"),
        ({"thumbs": "up"}, "needs exactly one of trace_id and request_id"),
        ({**DOWN, "request_id": "r"}, "needs exactly one of trace_id and request_id"),
        ({"trace_id": "0" * 32, "thumbs": "up"}, "trace_id: must be 32 hex digits"),
        ({"request_id": "r"}, "needs thumbs"),
        ({**DOWN, "score": 1}, "needs thumbs"),
        ({**DOWN, "thumbs": "sideways"}, "thumbs: must be `up` or `down`, not 'sideways'"),
        ({"request_id": "r", "score": True}, "score: must be a finite number, not True"),
        ({"request_id": "r", "score": "1"}, "score: must be a finite number"),
        ({"request_id": " ", "score": 1}, "request_id: must be a text of 1 to 256"),
        ({"request_id": "r" * 257, "score": 1}, "request_id: must be a text of 1 to 256"),
        ({**DOWN, "at": "yesterday"}, "at: must be seconds since 1970"),
        ({**DOWN, "at": "2026-11-22T02:00:00"}, "at: must be seconds since 1970"),
        ({**DOWN, "at": 1e300}, "at: must be seconds since 1970"),
    ],
)
def test_an_entry_that_cannot_be_read_is_told_the_place_the_value_and_what_is_allowed(entry, message):
    assert message in why(entry)


def test_one_bad_entry_takes_no_other_with_it():
    found = take(DOWN, 3, DOWN)
    assert (len(found.external_scores), [fault.entry for fault in found.faults]) == (2, [1])


@pytest.mark.parametrize(
    ("body", "error"), [(b"", InvalidData), (b"[]", InvalidData), (b"{", InvalidData), (b'{"score": NaN}', InvalidData)]
)
def test_what_is_no_feedback_at_all_is_refused_as_a_whole(body, error):
    with pytest.raises(error):
        feedback.take(body)


def test_half_a_character_in_a_comment_costs_no_vote():
    cut = b'[{"trace_id": "%s", "thumbs": "down", "comment": "cut \\ud83d"}, {"request_id": "r", "thumbs": "up"}]'
    found = feedback.take(cut % (b"a" * 32))
    assert [one.explanation for one in found.external_scores] == ["cut \ufffd", ""]
    assert found.faults == []


def test_more_than_a_thousand_at_once_are_refused():
    with pytest.raises(TooLarge, match="1001 entries"):
        take(*([DOWN] * 1001))


def test_a_long_comment_is_cut_and_not_refused():
    assert len(take({**DOWN, "comment": "x" * 100_000}).external_scores[0].explanation) == LONGEST_TEXT


def test_a_repeat_is_the_same_verdict_and_a_change_of_mind_is_another():
    same, again, other, keyed = take(
        DOWN, {**DOWN, "comment": "more"}, {**DOWN, "thumbs": "up"}, {**DOWN, "id": "1"}
    ).external_scores
    assert same.identity == again.identity
    assert len({same.identity, other.identity, keyed.identity}) == 3


json = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*feedback._FIELDS, "x"]), inner, max_size=5)
    ),
    max_leaves=12,
)


@given(json)
def test_whatever_json_is_posted_it_is_read_or_refused_with_reasons(value):
    found = feedback.ParsedFeedback([], [])
    with suppress(MonitorError):
        found = feedback.take(orjson.dumps(value))
    assert all(fault.error for fault in found.faults)
    for one in found.external_scores:
        assert one.fault == ""
        orjson.dumps([one.request_id, one.evaluator, one.label, one.explanation, one.app])


@given(st.binary(max_size=60))
def test_whatever_bytes_are_posted_nothing_else_is_raised(body):
    with suppress(MonitorError):
        feedback.take(body)
