"""Parts of messages: texts, files, results of tools, nested as far as senders nest them and no farther."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

import pytest

from monitor.extraction import messages
from monitor.extraction.messages import MessageWithSources, StatedQuestion
from monitor.model.case import Document, Message
from monitor.model.span import Value

USER, ASSISTANT = {"role": "user", "content": "Why?"}, {"role": "assistant", "content": "So."}
TURNS = (Message("user", "Why?"), Message("assistant", "So."))


def nested(inner: Any, key: str, levels: int) -> Any:
    """A value within lists, or within objects under a key."""
    for _ in range(levels):
        inner = {key: inner} if key else [inner]
    return inner


@pytest.mark.parametrize(
    ("read", "inner", "key", "levels"),
    [
        (messages.read, USER, "", 8),
        (messages.read, USER, "messages", 7),
        (messages.read, USER, "message", 7),
        (messages.read, USER, "kwargs", 7),
        (messages.read_one, USER, "data", 7),
        (messages.read_request, "Why?", "", 8),
        (messages.read_request, "Why?", "input", 8),
        (messages.read_answer, "So.", "output", 8),
        (messages.text_of, "So.", "", 8),
        (messages.text_of, "So.", "content", 8),
    ],
)
def test_what_is_nested_is_read_up_to_eight_levels(
    read: Callable[[Value], object], inner: Value, key: str, levels: int
) -> None:
    assert all(read(nested(inner, key, at)) for at in range(levels + 1))
    assert not any(read(nested(inner, key, at)) for at in range(levels + 1, levels + 9))


# -- messages


@pytest.mark.parametrize("key", ["role", "type", "_type", "kind", "event.name"])
@pytest.mark.parametrize(
    ("named", "role"), [("Human", "user"), ("AIMessageChunk", "assistant"), ("developer", "system")]
)
def test_a_role_stands_under_several_names_in_any_case(key: str, named: str, role: str) -> None:
    assert messages.read([{key: named, "content": "x"}]) == (Message(role, "x"),)


def test_what_says_nothing_of_a_role_is_no_message() -> None:
    for value in ({"content": "x"}, {"role": "narrator", "content": "x"}, {"role": 5}, {"id": []}, {"id": ["a", 5]}):
        assert messages.read([value]) is None
        assert messages.read_one(value) is None
    assert messages.read([{"role": "narrator", "content": "x"}, USER]) == TURNS[:1]


def test_an_object_around_a_message_may_name_the_role() -> None:
    assert messages.read_one({"type": "human", "data": {"content": "Why?"}}) == TURNS[0]
    assert messages.read_one({"role": "user", "message": {"content": "Why?"}}) == TURNS[0]
    assert messages.read_one({"role": "user", "content": "Why?", "message": {"content": "Other."}}) == TURNS[0]
    assert messages.read_one({"role": "user", "data": "no message", "content": "Why?"}) == TURNS[0]


def test_messages_are_found_in_lists_of_lists_and_objects_and_reprs_and_else_there_are_none() -> None:
    assert messages.read([[USER], "no message", [ASSISTANT], ["x"]]) == TURNS
    assert messages.read({"messages": {"0": "x"}}) is None
    assert messages.read({"messages": "x", **USER}) == TURNS[:1]
    assert messages.read("HumanMessage(content='Why?')") == TURNS[:1]
    for nothing in (None, 5, "Why?", [], {}, [[]]):
        assert messages.read(nothing) is None


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("ChatMessage(role='user', content='Why?')", Message("user", "Why?")),
        ("ChatMessage(role=<MessageRole.USER: 'user'>, text=\"Why?\")", Message("user", "Why?")),
        ("AIMessageChunk(content='So.')", Message("assistant", "So.")),
        ("SystemMessage(id='1')", Message("system", "")),
        ("ChatMessage(role='narrator', content='x')", None),
        ("Document(page_content='x')", None),
        ("Why does HumanMessage(content='x') fail?", None),
    ],
)
def test_a_message_may_be_a_python_repr(text: str, found: Message | None) -> None:
    assert messages.from_repr(text) == found


def test_turns_are_what_user_and_assistant_said() -> None:
    chat = [
        Message("system", "Be kind."), *TURNS, Message("tool", "x"), Message("user", " "), Message("assistant", ""),
    ]  # fmt: skip
    assert messages.turns(chat) == TURNS
    assert messages.last_user(chat) == 1
    assert messages.last_user([*chat, TURNS[0]]) == 6
    assert messages.last_user(chat[:1]) == -1


def test_own_words_leave_out_the_texts_of_files_each_once() -> None:
    file = Document("Terms.", "t.txt", kind="attachment")
    text = "[attachment: t.txt]\nTerms.\nAre Terms. binding?"
    said = MessageWithSources("user", text, (file, Document("42", kind="tool_result")))
    assert messages.own_words(said) == "[attachment: t.txt]\nAre Terms. binding?"
    assert messages.own_words(MessageWithSources("assistant", "42 it is.", said.sources)) == "42 it is."
    unnamed = MessageWithSources("user", "[attachment]\nTerms.", (Document("Terms.", kind="attachment"),))
    assert messages.own_words(unnamed) == "[attachment]"


# -- results of tools


@pytest.mark.parametrize(
    ("part", "text"),
    [
        ({"type": "tool_result", "content": "21"}, "21"),
        ({"type": "tool_result", "content": [{"type": "text", "text": "21"}, "22"]}, "21\n22"),
        ({"type": "tool-result", "output": {"type": "json", "value": {"degrees": 21}}}, '{"degrees":21}'),
        ({"type": "tool-result", "output": {"type": "text", "value": "21"}}, "21"),
        ({"type": "tool_return", "response": {"degrees": 21}}, '{"degrees":21}'),
        ({"type": "function_call_output", "output": [1, 2]}, "[1,2]"),
        ({"type": "tool_result", "response": "first", "content": "second"}, "first"),
        ({"type": "tool_result"}, ""),
    ],
)  # fmt: skip
def test_what_a_tool_returned_is_its_text_or_its_json(part: dict[str, Any], text: str) -> None:
    assert messages.read([{"role": "user", "content": [part]}]) == (Message("tool", text),)
    (beside,) = messages.read([{"role": "user", "content": [part, {"type": "text", "text": "And?"}]}]) or ()
    sources = (Document(text, kind="tool_result"),) if text else ()
    assert getattr(beside, "sources", ()) == sources
    assert messages.own_words(beside) == "And?"


def test_a_run_of_an_agent_in_one_message_keeps_what_it_said_and_its_sources() -> None:
    result = {"type": "tool_result", "content": "21 degrees"}
    (run,) = messages.read([{"role": "assistant", "content": [{"type": "text", "text": "It is 21."}, result]}]) or ()
    assert run == MessageWithSources("assistant", "It is 21.", (Document("21 degrees", kind="tool_result"),))
    assert messages.read([{"role": "system", "content": [result]}]) == (
        MessageWithSources("system", "21 degrees", (Document("21 degrees", kind="tool_result"),)),
    )


# -- parts


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("plain", "plain"),
        ('[{"type": "text", "text": "a"}, {"text": "b"}]', "a\nb"),
        ('["a", "b"]', "a\nb"),
        ('["a", "b', '["a", "b'),
        ("[1] a source", "[1] a source"),
        ([{"type": "text", "text": "a"}, {"type": "reasoning_text", "content": "b"}, "c", ""], "a\nb\nc"),
        ([{"type": "Text", "value": "a"}], "a"),
        ([{"message_content": {"type": "text", "text": "a"}}], "a"),
        ([{"type": "unheard of", "text": "a"}], ""),
        ([{"kind": "text", "content": "a"}], "a"),
        ({"text": "a"}, "a"),
        ([], ""),
        (None, ""),
        (5, ""),
        ("[{}]", "[{}]"),
    ],
)
def test_the_text_of_a_content_is_that_of_its_text_parts_by_lines(content: Value, text: str) -> None:
    assert messages.text_of(content) == text


@pytest.mark.parametrize(
    ("part", "mark"),
    [
        ({"type": "image"}, "[image]"),
        ({"kind": "image-url"}, "[image]"),
        ({"type": "blob", "mime_type": "audio/wav"}, "[audio]"),
        ({"type": "file", "file": {"mime_type": "video/mp4"}}, "[video]"),
        ({"type": "file", "filename": "a.bin"}, "[file: a.bin]"),
        ({"type": "file", "file": {"name": "inner.bin"}, "title": "outer"}, "[file: outer]"),
        ({"type": "file", "filename": "x" * 80}, f"[file: {'x' * 80}]"),
        ({"type": "file", "filename": "x" * 81}, f"[file: {'x' * 80}]"),
        ({"type": "file", "filename": "a\x7f[b]"}, "[file: a b]"),
        ({"audio": {"id": "1"}}, "[audio]"),
        ({"source": {"media_type": "image/png"}}, "[image]"),
        ({"source": {"id": "1"}}, "[file]"),
        ({"type": "text", "text": "", "file": {"id": "1"}}, ""),
        ({"text": "said", "file": {"id": "1"}}, "said"),
        ({"kind": "unheard of", "text": "said"}, "said"),
    ],
)
def test_what_is_no_text_leaves_a_mark_with_its_name(part: Value, mark: str) -> None:
    assert messages.text_of([part]) == mark


WORDS = "Terms apply."
ENCODED = base64.b64encode(WORDS.encode()).decode()


@pytest.mark.parametrize(
    ("part", "text"),
    [
        ({"type": "file", "mime_type": "text/plain", "data": WORDS}, WORDS),
        ({"type": "file", "mime_type": "application/json", "data": ENCODED}, WORDS),
        ({"type": "file", "mime_type": "application/jsonp", "data": WORDS}, ""),
        ({"type": "file", "mime_type": "application/pdf", "data": ENCODED}, ""),
        ({"type": "file", "data": WORDS}, ""),
        ({"type": "file", "source_type": "text", "data": WORDS}, WORDS),
        ({"type": "file", "data": f"data:text/plain;base64,{ENCODED}"}, WORDS),
        ({"type": "file", "data": f"data:;base64,{ENCODED}"}, WORDS),
        ({"type": "file", "data": f"data:application/pdf;base64,{ENCODED}"}, ""),
        ({"type": "file", "mime_type": "text/plain", "data": f"data:text/plain,{WORDS}"}, ""),
        ({"type": "file", "file": {"type": "text", "content": WORDS}}, WORDS),
        ({"type": "text-plain", "content": [{"type": "text", "text": WORDS}]}, WORDS),
        ({"type": "file", "content": [{"type": "text", "text": WORDS}]}, ""),
        ({"type": "text-plain", "text": " ", "data": WORDS}, WORDS),
    ],
)
def test_the_text_of_a_file_is_read_where_it_says_that_it_is_text(part: Value, text: str) -> None:
    mark = f"[attachment]\n{text}" if text else "[file]"
    assert messages.text_of([part]) == mark


# -- questions and answers


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        (["Why?", [USER, ASSISTANT]], StatedQuestion("Why?", TURNS)),
        (["Why?", "no turns"], StatedQuestion("Why?", None)),
        (["Why?"], StatedQuestion("Why?")),
        ([{"question": "Why?", "history": []}, [USER]], StatedQuestion("Why?", ())),
        ([" ", [USER]], StatedQuestion("Why?", ())),
        ([[USER, ASSISTANT, {"role": "user", "content": "And?"}]], StatedQuestion("And?", TURNS)),
        ([ASSISTANT], None),
        ({"question": "Why?", "history": "[]"}, StatedQuestion("Why?", ())),
        ({"question": "Why?", "history": "x"}, StatedQuestion("Why?")),
        ({"question": "", "query": "Why?"}, StatedQuestion("Why?")),
        ({"messages": [USER], "question": "And?"}, StatedQuestion("And?")),
        ({"prompt": [USER, ASSISTANT, USER]}, StatedQuestion("Why?", TURNS)),
        ({"unheard of": " "}, None),
        ({"unheard of": "Why?", "more": 5}, None),
        ({"a": {"question": "Why?"}, "b": {"query": "Why?"}}, StatedQuestion("Why?")),
        ({"a": {"b": {"question": "Why?"}}}, StatedQuestion("Why?")),
        ({"a": {"b": {"c": {"question": "Why?"}}}}, None),
        ({"role": "user", "content": " "}, None),
        ("HumanMessage(content='Why?')", StatedQuestion("Why?", ())),
        ("AIMessage(content='So.')", None),
        ("Thing(question='Why?')", None),
        ("__REDACTED__", None),
        (5, None),
        ([], None),
    ],
)
def test_a_question_is_read_where_it_is_stated_clearly(value: Value, wanted: StatedQuestion | None) -> None:
    assert messages.read_request(value) == wanted


@pytest.mark.parametrize(
    ("value", "answer"),
    [
        ([USER, ASSISTANT, USER], "So."),
        ([USER, {"role": "assistant", "content": " "}], None),
        ([["So."]], None),
        ([{"text": "So."}, {"text": "Other."}], "So."),
        ({"answer": "", "output": "So."}, "So."),
        ({"answer": {"unheard of": 1}, "output": "So."}, "So."),
        ({"unheard of": "So."}, None),
        ("AIMessage(content='So.')", "So."),
        ("HumanMessage(content='Why?')", None),
        ("Prediction(reasoning='r')", None),
        (" ", None),
        (5, None),
        (None, None),
    ],
)
def test_an_answer_is_read_where_it_is_clearly_one(value: Value, answer: str | None) -> None:
    assert messages.read_answer(value) == answer
