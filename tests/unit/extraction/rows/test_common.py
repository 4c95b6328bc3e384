"""Fields that a row of any shape may have: the first name that says something counts, others are named as unused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from monitor.extraction import rows
from monitor.extraction.rows import common
from monitor.model.case import Message, Usage
from tests.support.rows import reading

ROW = {"query": "Why?", "response": "So."}


def unused(**more: Any) -> tuple[str, ...]:
    (row,) = rows.take(json.dumps({**ROW, **more}).encode()).rows
    return row.unused


@pytest.mark.parametrize(
    ("row", "counted"),
    [
        ({"usage": {"input_tokens": 3, "output_tokens": 1}}, Usage(3, 1)),
        ({"usage": {"prompt_tokens": "3", "completionTokens": 1, "totalTokens": 9}}, Usage(3, 1, 9)),
        ({"usage": '{"promptTokens": 3}'}, Usage(3)),
        ({"inputTokens": 3, "completion_tokens": 1, "total_tokens": 4}, Usage(3, 1, 4)),
        ({"usage": {"input_tokens": 3}, "input_tokens": 7, "output_tokens": 1}, Usage(3, 1)),
        ({"usage": {"input_tokens": -1}, "input_tokens": 7}, Usage(7)),
        ({"usage": [3, 1]}, Usage()),
        ({"usage": {"input_tokens": 0}}, Usage(0)),
        ({}, Usage()),
    ],
)
def test_tokens_are_counted_in_usage_or_in_the_row_itself(row: Any, counted: Usage) -> None:
    assert common.usage(row) == counted
    assert reading({**ROW, **row}).case.usage == counted


@pytest.mark.parametrize(
    ("given", "sent"),
    [
        ("Answer: Why?", (Message("user", "Answer: Why?"),)),
        ([{"role": "system", "content": "Be kind."}], (Message("system", "Be kind."),)),
        ('[{"role": "user", "content": "Why?"}]', (Message("user", "Why?"),)),
        (" ", ()),
        (None, ()),
        ([], ()),
        ([{"no": "message"}], ()),
        (5, ()),
    ],
)
def test_the_prompt_of_a_row_is_one_text_or_messages(given: Any, sent: tuple[Message, ...]) -> None:
    assert common.prompt(given) == sent
    assert reading({**ROW, "prompt": given}).case.prompt == sent


def test_references_may_stand_in_the_expectations_of_a_row() -> None:
    inner = {"expected_response": "2 years", "expected_contexts": ["One."]}
    found = reading({**ROW, "expectations": inner}).case
    assert found.expected_response == "2 years"
    assert [one.content for one in found.expected_retrieved_context or ()] == ["One."]
    assert reading({**ROW, "expectations": inner, "ground_truth": "Beside."}).case.expected_response == "Beside."
    assert reading({**ROW, "expectations": ["no object"]}).case.expected_response is None


def test_facts_that_are_expected_may_be_json_in_a_text_and_any_other_reference_is_as_it_stands() -> None:
    assert reading({**ROW, "expected_facts": '["a", "b"]'}).case.expected_response == "a\nb"
    assert reading({**ROW, "ground_truth": '["a", "b"]'}).case.expected_response == '["a", "b"]'


def test_fields_without_a_meaning_are_unused_and_those_that_say_nothing_are_not_named() -> None:
    assert unused(latency_ms=7, cost=None, model="m", note="x") == ("latency_ms", "note")


def test_a_second_field_of_one_meaning_is_unused_unless_it_says_the_same_or_nothing() -> None:
    assert unused(answer="Other.") == ("answer",)
    assert unused(answer="So.", output="", actual_output=[]) == ()
    assert unused(ground_truth="a", reference="b", target="a") == ("reference",)


def test_only_so_many_unused_fields_are_named_and_shortly() -> None:
    assert unused(**{f"field_{number}": 1 for number in range(20)}) == tuple(f"field_{number}" for number in range(20))
    assert len(unused(**{f"field_{number}": 1 for number in range(21)})) == 20
    assert unused(**{"x" * 41: 1, "y" * 40: 1}) == ("x" * 40, "y" * 40)
