# ruff: noqa: E501 - shapes are quoted as emitters write them, one a line
"""Every shape of chat, request and answer is read by one reader."""

from __future__ import annotations

import json

import pytest

from monitor.extraction import messages
from monitor.extraction.messages import StatedQuestion
from monitor.model.case import Document, Message
from monitor.model.span import Value

CHAT = (Message("user", "Hi?"), Message("assistant", "Yes."))
SHAPES: dict[str, Value] = {
    "openai": [{"role": "user", "content": "Hi?"}, {"role": "assistant", "content": "Yes."}],
    "content in parts": [{"role": "user", "content": [{"type": "text", "text": "Hi?"}]}, {"role": "assistant", "content": "Yes."}],
    "gen_ai": [{"role": "user", "parts": [{"type": "text", "content": "Hi?"}], "name": None}, {"role": "assistant", "parts": [{"type": "text", "content": "Yes."}], "finish_reason": "stop"}],
    "langchain": [{"type": "human", "data": {"content": "Hi?", "type": "human"}}, {"type": "ai", "data": {"content": "Yes."}}],
    "langchain serialised": [[{"lc": 1, "type": "constructor", "id": ["langchain", "HumanMessage"], "kwargs": {"content": "Hi?", "type": "human"}}, {"lc": 1, "type": "constructor", "id": ["x", "AIMessage"], "kwargs": {"content": "Yes."}}]],
    "openinference": [{"message": {"role": "user", "content": "Hi?"}}, {"message": {"role": "assistant", "contents": [{"message_content": {"type": "text", "text": "Yes."}}]}}],
    "under messages": {"messages": [{"role": "human", "content": "Hi?"}, {"role": "ai", "content": "Yes."}]},
    "llama index reprs": ["ChatMessage(role=<MessageRole.USER: 'user'>, additional_kwargs={}, blocks=[TextBlock(block_type='text', text='Hi?')])", "ChatMessage(role=<MessageRole.ASSISTANT: 'assistant'>, blocks=[TextBlock(text=\"Yes.\")])"],
    "langchain reprs": ["HumanMessage(content='Hi?', additional_kwargs={})", "AIMessage(content='Yes.')"],
    "haystack": [{"role": "user", "meta": {}, "name": None, "content": [{"text": "Hi?"}]}, {"role": "assistant", "content": [{"text": "Yes."}]}],
    "vertex": [{"role": "user", "parts": [{"text": "Hi?"}]}, {"role": "model", "parts": [{"text": "Yes."}]}],
}  # fmt: skip


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("levels", [0, 1, 2])
def test_one_chat_is_read_out_of_every_shape(shape: str, levels: int) -> None:
    value = SHAPES[shape]
    for _ in range(levels):
        value = json.dumps(value)
    assert messages.read(value) == CHAT


def test_calls_of_tools_have_no_text_and_their_results_are_of_the_tool() -> None:
    called: Value = {"role": "assistant", "parts": [{"type": "tool_call", "id": "1", "arguments": "{}"}]}
    answered: Value = {"role": "user", "parts": [{"type": "tool_call_response", "id": "1", "result": {"a": [1]}}]}
    assert messages.read([called, answered]) == (Message("assistant", ""), Message("tool", '{"a":[1]}'))


def test_what_tools_returned_within_an_assistants_message_is_not_what_it_said() -> None:
    said, result = {"type": "text", "content": "So."}, {"type": "tool_call_response", "id": "1", "response": ["One"]}
    (run,) = messages.read([{"role": "assistant", "parts": [said, result]}]) or ()
    assert (run.role, run.content, messages.own_words(run)) == ("assistant", "So.", "So.")
    assert isinstance(run, messages.MessageWithSources)
    assert run.sources == (Document("One", kind="tool_result"),)
    assert messages.read([{"role": "assistant", "parts": [result]}]) == (Message("tool", "One"),)
    assert messages.read([{"role": "assistant", "content": "[1, 2]"}]) == (Message("assistant", "[1, 2]"),)


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        ("Why?", StatedQuestion("Why?")),
        ('{"input": "Why?"}', StatedQuestion("Why?")),
        ('{"query_bundle": {"query_str": "Why?", "embedding": null}}', StatedQuestion("Why?")),
        ('{"args": ["Why?", []], "kwargs": {}}', StatedQuestion("Why?", ())),
        ('{"args": [], "kwargs": {"question": "Why?"}}', StatedQuestion("Why?")),
        ({"question": "Why?", "chat_history": SHAPES["langchain"]}, StatedQuestion("Why?", CHAT)),
        ({"messages": [*SHAPES["openai"], {"role": "user", "content": "Why?"}]}, StatedQuestion("Why?", CHAT)),  # type: ignore[list-item, misc]
        ({"message": "Why?", "chat_history": SHAPES["llama index reprs"]}, StatedQuestion("Why?", CHAT)),
        ({"only_key": "Why?"}, StatedQuestion("Why?")),
        ({"data": {"embedder": {"text": "x"}, "prompt": {"question": "Why?"}}, "flag": True}, StatedQuestion("Why?")),
        ({"a": {"question": "Why?"}, "b": {"question": "How?"}}, None),
        ('{"input": "Why?", "chat_history": [{"type": "human", "data": {"conte', StatedQuestion("Why?")),
        ('{"messages": [{"role": "user", "content": "Old?"}, {"role": "us', None),
        ('{"init": "x", "state": "y"}', None),
        ("<generator object>", None),
        ("", None),
        ({"role": "assistant", "content": "no question"}, None),
    ],
)
def test_a_request_states_its_question_in_many_shapes(value: Value, wanted: StatedQuestion | None) -> None:
    assert messages.read_request(value) == wanted


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        ("Because.", "Because."),
        ('"Because."', "Because."),
        ('{"answer": "Because.", "context": []}', "Because."),
        ('{"messages": [{"type": "human", "data": {"content": "Why?"}}, {"type": "ai", "data": {"content": "Because."}}]}', "Because."),
        ('{"generations": [[{"text": "Because.", "type": "ChatGeneration"}]]}', "Because."),
        ('{"choices": [{"message": {"role": "assistant", "content": "Because."}}]}', "Because."),
        ('{"response": "Because.", "source_nodes": ["<NodeWithScore(node=TextNode(id_=a), score=1)>"]}', "Because."),
        ('{"response_gen": "<generator object>", "response_txt": null, "source_nodes": []}', None),
        ("<generator object>", None),
        ("Prediction(\n    reasoning='r',\n    answer='Because.'\n)", "Because."),
        ("StopEvent(result=AgentOutput(response=ChatMessage(role=<MessageRole.ASSISTANT: 'assistant'>, blocks=[TextBlock(text='Beca...", None),
        ('{"messages": [{"type": "human", "data": {"content": "Why?"}}]}', None),
        ('{"answer": "Beca', None),
        ("", None),
    ],
)  # fmt: skip
def test_an_answer_is_told_from_reprs_and_broken_json(value: Value, wanted: str | None) -> None:
    assert messages.read_answer(value) == wanted


@pytest.mark.parametrize("question", ["[", "{", "[Urgent my bike is broken", "{name} how do I pay?", "[1 or 2"])
def test_a_question_that_begins_with_a_bracket_is_a_question(question: str) -> None:
    assert messages.read_request(question) == StatedQuestion(question)


@pytest.mark.parametrize(
    "broken", ['{"question": "Why do', '{\n  "question": "Why do', "{'question': 'Why do", '["Why do']
)
def test_a_structure_that_was_cut_before_its_first_value_ended_states_no_question(broken: str) -> None:
    assert messages.read_request(broken) is None


@pytest.mark.parametrize("answer", ["[[1]] Refunds take thirty days.", "[] is an empty list.", "{} holds nothing."])
def test_an_answer_that_begins_with_brackets_is_an_answer(answer: str) -> None:
    assert messages.read_answer(answer) == answer
    assert messages.read_answer('[["Refunds", "take') is None
