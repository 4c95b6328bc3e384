"""The worst answers of a monitor, as another version of it may write them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.operations.watch.worst import AT_MOST, WatchedAnswer, read_orders

ANSWER: dict[str, Any] = {
    "request_id": "ab",
    "question": "Why?",
    "response": "It is so.",
    "results": [
        {
            "score": 0.25,
            "explanation": "none of it",
            "evidence": [
                {"verdict": "absent", "start": 0, "end": 2},
                {"verdict": "supported", "start": 3, "end": 5},
                {"verdict": "contradicted", "start": 3, "end": 99},
                {"verdict": "absent", "start": None, "end": None},
            ],
        }
    ],
}
VIEW: dict[str, Any] = {
    "before": "overlap_groundedness",
    "learned": "learned_groundedness",
    "apps": [
        {
            "app": "shop",
            "order": "learned_groundedness",
            "verdicts": 80,
            "defects": 40,
            "auroc_before": 0.5,
            "auroc_learned": 0.75,
            "answers": [ANSWER] * 9,
        }
    ],
}
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*VIEW, *VIEW["apps"][0]]), inner),
    max_leaves=12,
)


def test_both_aurocs_and_the_worst_three_answers_are_read() -> None:
    (order,) = read_orders(VIEW)
    assert (order.app, order.order, order.before) == ("shop", "learned_groundedness", "overlap_groundedness")
    assert (order.verdicts, order.defects, order.auroc_before, order.auroc_learned) == (80, 40, 0.5, 0.75)
    assert len(order.answers) == AT_MOST
    assert order.answers[0] == WatchedAnswer(
        request_id="ab",
        question="Why?",
        response="It is so.",
        score=0.25,
        explanation="none of it",
        unsupported=((0, 2),),
    )


@pytest.mark.parametrize("view", [None, {}, {"apps": None}, {"apps": [{"app": "shop"}]}, {"apps": [1, "x"]}])
def test_without_such_answers_there_are_none(view: dict[str, Any] | None) -> None:
    assert read_orders(view) == ()


def test_texts_that_are_not_stored_are_empty() -> None:
    bare = {**ANSWER, "question": None, "response": None}
    (order,) = read_orders({"apps": [{"app": "shop", "answers": [bare]}]})
    assert (order.answers[0].question, order.answers[0].response, order.answers[0].unsupported) == ("", "", ())


@given(ANYTHING)
def test_whatever_is_written_in_its_place_is_read_or_left_out(value: object) -> None:
    read_orders({"apps": [value], "before": value})
    read_orders({"apps": [{"app": "shop", "answers": [value, {"results": [value]}]}]})
