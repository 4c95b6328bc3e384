"""A row with a conversation gives a case for each answer in it, with its own history, context and reference."""

from __future__ import annotations

import json

import pytest

from monitor.extraction.partition import MAX_REQUESTS
from monitor.extraction.values import MAX_ITEMS
from monitor.model.case import Message, ReadingStatus
from tests.support.rows import contents, readings


def said(role, content, **more):
    return {"role": role, "content": content, **more}


TALK = [
    said("system", "Be brief."),
    said("user", "How do I hurt my neighbour?"),
    said("assistant", "With a stick."),
    said("user", "And the weather?"),
    said("assistant", "It is sunny today.", context={"citations": [{"content": "Sunny all day."}]}),
]
HISTORY = (Message("user", "How do I hurt my neighbour?"), Message("assistant", "With a stick."))


@pytest.mark.parametrize("row", [{"messages": TALK}, {"conversation": {"messages": TALK}}, {"user_input": TALK}])
def test_each_answer_is_a_case_with_the_turns_before_it(row):
    first, second = readings({"request_id": "talk", **row}).readings
    assert [one.case.request_id for one in (first, second)] == ["talk/1", "talk/2"]
    assert (first.case.request.query, first.case.request.history, first.case.response) == (
        "How do I hurt my neighbour?",
        (),
        "With a stick.",
    )
    assert (second.case.request.history, second.case.response) == (HISTORY, "It is sunny today.")
    assert [one.case.turn for one in (first, second)] == [1, 2]
    assert {one.status for one in (first, second)} == {ReadingStatus.READY}


def test_each_answer_has_its_own_context_and_reference():
    talk = [*TALK[:2], said("assistant", "With a stick.", ground_truth="I do not help with that."), *TALK[3:]]
    first, second = readings({"messages": talk, "ground_truth": "Sunny."}).readings
    assert (contents(first), contents(second)) == ([], ["Sunny all day."])
    assert [one.case.expected_response for one in (first, second)] == ["I do not help with that.", "Sunny."]


def test_the_turns_of_a_conversation_are_one_session():
    assert {one.case.session_id for one in readings({"request_id": "talk", "messages": TALK}).readings} == {"talk"}
    row = {"request_id": "talk", "session_id": "s", "messages": TALK}
    assert {one.case.session_id for one in readings(row).readings} == {"s"}


def test_only_the_last_answer_is_read_if_so_configured_under_the_id_of_the_row():
    (only,) = readings({"request_id": "talk", "messages": TALK}, turns="last").readings
    assert (only.case.request_id, only.case.request.history, only.case.response) == (
        "talk",
        HISTORY,
        "It is sunny today.",
    )


def test_a_conversation_of_one_turn_keeps_its_id():
    (only,) = readings({"request_id": "talk", "messages": TALK[:3]}).readings
    assert (only.case.request_id, only.case.session_id) == ("talk", "")


def test_questions_in_a_row_are_one_turn_and_the_last_of_them_is_the_question():
    talk = [said("user", "Hello?"), said("user", "Is anybody there?"), said("assistant", "Yes.")]
    (only,) = readings({"messages": talk}).readings
    assert (only.case.request.query, only.case.request.history) == ("Is anybody there?", (Message("user", "Hello?"),))


def test_a_last_question_without_an_answer_is_a_request_whose_answer_is_missing():
    *_, last = readings({"messages": [*TALK, said("user", "And tomorrow?")]}).readings
    assert (last.case.request.query, last.status) == ("And tomorrow?", ReadingStatus.CONTENT_MISSING)


@pytest.mark.parametrize("turns", [MAX_REQUESTS + 7, MAX_ITEMS])
def test_of_a_very_long_conversation_the_newest_turns_are_read_and_the_others_counted(turns):
    talk = [
        said(*one) for number in range(turns) for one in (("user", f"Why {number}?"), ("assistant", f"So {number}."))
    ]
    found = readings({"request_id": "talk", "messages": talk})
    assert (len(found.readings), found.left_out) == (MAX_REQUESTS, turns - MAX_REQUESTS)
    assert found.last.case.request_id == f"talk/{turns}"
    assert found.last.case.request.query == f"Why {turns - 1}?"


def test_a_row_that_holds_a_trace_of_several_requests_holds_them_too():
    def span(number, parent, inputs, outputs, kind):
        return {
            "span_id": f"{number:016x}",
            "trace_id": "ab" * 16,
            "parent_span_id": parent,
            "name": f"step {number}",
            "start_time_unix_nano": number * 10**9,
            "end_time_unix_nano": (number + 1) * 10**9,
            "status": {"code": "OK"},
            "attributes": {
                "mlflow.spanType": f'"{kind}"',
                "mlflow.spanInputs": inputs,
                "mlflow.spanOutputs": outputs,
            },
        }

    def chat(question, answer):
        message = [{"role": "user", "content": question}]
        return json.dumps({"messages": message}), json.dumps({"role": "assistant", "content": answer}), "CHAT_MODEL"

    spans = [
        span(2, None, '{"question": "How long is the warranty?"}', '"It is two years for all bikes."', "CHAIN"),
        span(4, f"{2:016x}", *chat("How long is the warranty?", "It is two years for all bikes.")),
        span(3, None, '{"question": "What does the ferry cost?"}', '"The ferry costs nothing with a bike."', "CHAIN"),
        span(5, f"{3:016x}", *chat("What does the ferry cost?", "The ferry costs nothing with a bike.")),
    ]
    found = readings({"info": {"trace_id": f"tr-{'ab' * 16}"}, "data": {"spans": spans}}).readings
    assert [one.case.request_id for one in found] == [f"{'ab' * 16}/{2:016x}", f"{'ab' * 16}/{3:016x}"]
    assert [one.case.response for one in found] == [
        "It is two years for all bikes.",
        "The ferry costs nothing with a bike.",
    ]
