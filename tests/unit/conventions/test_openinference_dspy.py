"""DSPy's fields: bare words out of marked ones."""

from __future__ import annotations

import pytest

from monitor.conventions import openinference
from monitor.model.case import Message

REQUEST = "\n\nRespond with the corresponding output fields, starting with the field `[[ ## answer ## ]]`."
ASKED = "[[ ## context ## ]]\n[1] Text\n\n[[ ## question ## ]]\nWhy?"


def test_a_text_is_split_at_marks_that_begin_a_line() -> None:
    text = "Well.\n[[ ## a ## ]]\nOne `[[ ## x ## ]]`\n\n[[ ## b ## ]]\n[[ ## c ## ]]"
    assert openinference.dspy_fields(text) == {"a": "One `[[ ## x ## ]]`", "b": "", "c": ""}
    assert openinference.dspy_fields("no marks [[ ## here") == {}


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("[[ ## reasoning ## ]]\nBecause.\n\n[[ ## answer ## ]]\nYes.\n\n[[ ## completed ## ]]", "Yes."),
        ("[[ ## reply ## ]]\nYes.\n\n[[ ## completed ## ]]\n", "Yes."),
        ("[[ ## reply ## ]]\nYes.\n[[ ## mood ## ]]\nGood.", "[[ ## reply ## ]]\nYes.\n[[ ## mood ## ]]\nGood."),
        ("Yes.", "Yes."),
    ],
)
def test_an_answer_is_the_field_of_that_name_or_the_only_one(text: str, answer: str) -> None:
    assert openinference.dspy_answer(text) == answer


def test_turns_of_a_chat_are_bare_and_the_last_question_keeps_its_context() -> None:
    chat = (
        Message("system", "[[ ## question ## ]]\n{question}"),
        Message("user", f"[[ ## question ## ]]\nWho?{REQUEST}"),
        Message("assistant", "[[ ## answer ## ]]\nI.\n\n[[ ## completed ## ]]\n"),
        Message("user", f"[[ ## context ## ]]\n[1] Text\n\n[[ ## question ## ]]\nWhere?{REQUEST}"),
        Message("assistant", "Here."),
        Message("user", ASKED + REQUEST),
    )
    said = [message.content for message in openinference.dspy_plain(chat)]
    assert said == [chat[0].content, "Who?", "I.", "Where?", "Here.", ASKED]


def test_a_single_field_is_the_question() -> None:
    chat = (Message("user", f"[[ ## topic ## ]]\nWhy?{REQUEST}"),)
    assert openinference.dspy_plain(chat) == (Message("user", "Why?"),)


def test_a_chat_without_fields_stays_as_it_is() -> None:
    chat = (Message("user", f"Why?{REQUEST}"), Message("assistant", "So."), Message("tool", "[[ ## a ## ]]\nx"))
    assert openinference.dspy_plain(chat) == chat
