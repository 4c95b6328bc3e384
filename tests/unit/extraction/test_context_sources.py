# ruff: noqa: E501 - shapes are quoted as emitters write them, one a line
"""Sources are all that the model was given: documents, results of tools, attached texts; each once, with its kind."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from typing import Any

import pytest

from monitor.model.case import ContextStatus, Document, Reading, ReadingStatus
from monitor.model.span import Value
from tests.support.traces import Builder, documents

WARRANTY = "The warranty of every bike is two years from the day of purchase."
WEATHER = "It is 21 degrees in Bergen, with a light breeze from the sea."
OTHER = "A lost key costs 30 euros, to be paid at the counter."


def chat(build: Builder, parent: str, sent: Sequence[dict[str, Any]], answer: str = "Because.") -> None:
    said = [{"role": "assistant", "parts": [{"type": "text", "content": answer}], "finish_reason": "stop"}]
    attributes: dict[str, Value] = {
        "gen_ai.input.messages": json.dumps(sent),
        "gen_ai.output.messages": json.dumps(said),
    }
    build.span("chat", {"gen_ai.operation.name": "chat", **attributes}, parent)


def user(*parts: Value) -> dict[str, Any]:
    return {"role": "user", "parts": list(parts)}


def text(content: str) -> dict[str, Any]:
    return {"type": "text", "content": content}


def tool(result: Value) -> dict[str, Any]:
    return {"role": "tool", "parts": [{"type": "tool_call_response", "id": "1", "response": result}]}


def ask(*sent: dict[str, Any], retrieved: Sequence[str] | None = None) -> Reading:
    """Read a request whose model was sent these messages; `retrieved` are the documents of a retriever."""
    build = Builder()
    root = build.oi("CHAIN", {"input.value": "Why?", "output.value": "Because."})
    if retrieved is not None:
        build.oi("RETRIEVER", documents("retrieval.documents", retrieved), root)
    chat(build, root, sent)
    return build.read()


def sources(reading: Reading) -> list[tuple[str, str]]:
    return [(one.kind, one.content) for one in reading.case.retrieved_context]


def test_what_a_tool_returned_is_a_source_beside_retrieved_documents() -> None:
    found = ask(user(text(f"Context:\n{WARRANTY}\n\nQuestion: Why?")), tool(WEATHER), retrieved=[WARRANTY])
    assert found.status is ReadingStatus.READY
    assert sources(found) == [("document", WARRANTY), ("tool_result", WEATHER)]


def test_the_result_of_a_tool_span_counts_where_it_is_in_the_prompt() -> None:
    build = Builder()
    root = build.oi("AGENT", {"input.value": "Why?", "output.value": "Because."})
    build.oi("RETRIEVER", documents("retrieval.documents", [WARRANTY]), root)
    build.oi("TOOL", {"input.value": "weather", "output.value": WEATHER}, root)
    build.oi("TOOL", {"input.value": "keys", "output.value": OTHER}, root)
    build.llm(f"Context: {WARRANTY}\nObservation: {WEATHER}\nQuestion: Why?", "Because.", root)
    assert sources(build.read()) == [("document", WARRANTY), ("tool_result", WEATHER)]


@pytest.mark.parametrize(
    "result",
    [
        WARRANTY,
        f"[1] {WARRANTY}",
        [{"id": "doc-1", "text": WARRANTY, "score": 0.9, "url": "https://example.com/warranty-terms"}],
        {"results": [{"content": WARRANTY}]},
        f"Found 1 document:\n{WARRANTY}",
    ],
)
def test_a_tool_that_hands_on_what_was_retrieved_adds_nothing(result: Value) -> None:
    found = ask(user(text("Why?")), tool(result), retrieved=[WARRANTY])
    assert [content for _, content in sources(found)] == [WARRANTY]


def test_a_tool_that_says_more_than_what_was_retrieved_is_kept() -> None:
    more = f"{WARRANTY} {WEATHER} {OTHER}"
    found = ask(user(text(f"Context: {WARRANTY}\nQuestion: Why?")), tool(more), retrieved=[WARRANTY])
    assert sources(found) == [("document", WARRANTY), ("tool_result", more)]


@pytest.mark.parametrize(
    ("result", "content"),
    [
        ({"temperature": 21, "unit": "C"}, '{"temperature":21,"unit":"C"}'),
        ("42", "42"),
        ([{"day": "Monday", "open": True}], '[{"day":"Monday","open":true}]'),
    ],
)
@pytest.mark.parametrize("in_prompt", [True, False])
def test_an_agent_without_a_retriever_has_retrieved_what_its_tools_returned(
    result: Value, content: str, in_prompt: bool
) -> None:
    build = Builder()
    root = build.oi("AGENT", {"input.value": "How warm is it?", "output.value": "21 degrees."})
    build.oi("TOOL", {"input.value": "{}", "output.value": json.dumps(result)}, root)
    chat(
        build, root, [user(text("How warm is it?")), *([tool(json.dumps(result))] if in_prompt else [])], "21 degrees."
    )
    found = build.read()
    assert (found.status, found.case.context_status) == (ReadingStatus.READY, ContextStatus.RETRIEVED)
    assert sources(found) == [("tool_result", content)]


def test_an_agent_whose_tools_found_nothing_has_retrieved_nothing() -> None:
    found = ask(user(text("Why?")), tool("No results."))
    assert (found.case.context_status, sources(found)) == (ContextStatus.RETRIEVED_NOTHING, [])


def test_an_empty_retrieval_beside_a_tool_that_returned_something_is_no_empty_context() -> None:
    found = ask(user(text("Why?")), tool(WEATHER), retrieved=[])
    assert (found.case.context_status, sources(found)) == (ContextStatus.RETRIEVED, [("tool_result", WEATHER)])


def test_what_a_model_within_a_tool_wrote_is_no_source() -> None:
    build = Builder()
    root = build.oi("AGENT", {"input.value": "Why?", "output.value": "Because."})
    inner = build.oi("TOOL", {"input.value": "why", "output.value": "It is said to be for the sake of safety."}, root)
    build.oi("RETRIEVER", documents("retrieval.documents", [WARRANTY]), inner)
    build.llm(f"Context: {WARRANTY}\nQuestion: Why?", "It is said to be for the sake of safety.", inner)
    chat(build, root, [user(text("Why?")), tool("It is said to be for the sake of safety.")])
    assert sources(build.read()) == [("document", WARRANTY)]


def test_documents_of_several_retrievals_are_all_sources() -> None:
    build = Builder()
    root = build.oi("CHAIN", {"input.value": "Why?", "output.value": "Because."})
    for found in ([WARRANTY], [OTHER, WARRANTY]):
        build.oi("RETRIEVER", documents("retrieval.documents", found), root)
    build.llm(f"Context: {WARRANTY} {OTHER}\nQuestion: Why?", "Because.", root)
    assert sources(build.read()) == [("document", WARRANTY), ("document", OTHER)]


def test_the_text_of_an_attached_file_is_a_source_and_not_the_question() -> None:
    file = {"type": "file", "filename": "terms.txt", "mime_type": "text/plain", "content": WARRANTY}
    build = Builder()
    chat(build, "", [user(text("How long is the warranty?"), file)], "Two years.")
    case = build.read().case
    assert case.request.query == "How long is the warranty?\n[attachment: terms.txt]"
    assert case.retrieved_context == (Document(WARRANTY, "terms.txt", kind="attachment"),)
    assert case.context_status is ContextStatus.RETRIEVED
    assert case.prompt[0].content == f"How long is the warranty?\n[attachment: terms.txt]\n{WARRANTY}"


@pytest.mark.parametrize(
    "part",
    [
        {"type": "document", "title": "t", "source": {"type": "text", "media_type": "text/plain", "data": WARRANTY}},
        {"type": "document", "title": "t", "source": {"type": "content", "content": [{"type": "text", "text": WARRANTY}]}},
        {"type": "file", "file": {"filename": "t", "file_data": "data:text/plain;base64," + base64.b64encode(WARRANTY.encode()).decode()}},
        {"type": "file", "filename": "t", "mediaType": "text/csv", "data": base64.b64encode(WARRANTY.encode()).decode()},
        {"type": "file", "name": "t", "source_type": "text", "text": WARRANTY},
        {"type": "text-plain", "title": "t", "text": WARRANTY},
        {"inline_data": {"mime_type": "text/markdown", "data": WARRANTY}, "name": "t"},
    ],
)  # fmt: skip
def test_a_text_file_is_read_in_every_shape(part: Value) -> None:
    found = ask(user(text("Why?"), part))
    assert found.case.retrieved_context == (Document(WARRANTY, "t", kind="attachment"),)


@pytest.mark.parametrize(
    ("part", "mark"),
    [
        ({"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}, "[image]"),
        ({"type": "input_image", "image_url": "https://example.com/cat.png"}, "[image]"),
        ({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}}, "[image]"),
        ({"type": "blob", "modality": "image", "mime_type": "image/png", "content": "iVBORw0KGgo="}, "[image]"),
        ({"type": "uri", "modality": "video", "uri": "gs://bucket/film.mp4"}, "[video]"),
        ({"inline_data": {"mime_type": "image/jpeg", "data": "/9j/4AAQ"}}, "[image]"),
        ({"image": {"format": "png", "source": {"bytes": "iVBORw0KGgo="}}}, "[image]"),
        ({"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}}, "[audio]"),
        ({"kind": "audio-url", "url": "https://example.com/a.mp3"}, "[audio]"),
        ({"type": "file", "file": {"filename": "re[p]ort\n.pdf", "file_data": "JVBERi0="}}, "[file: re p ort .pdf]"),
        ({"type": "file", "file": {"file_id": "file-1"}}, "[file]"),
        ({"type": "document", "source": {"type": "base64", "media_type": "text/plain", "data": "/////w=="}, "title": "x"}, "[attachment: x]"),
    ],
)  # fmt: skip
def test_what_is_no_text_leaves_its_mark_in_the_question(part: Value, mark: str) -> None:
    build = Builder()
    chat(build, "", [user(text("What is in this?"), part)])
    assert build.read().case.request.query == f"What is in this?\n{mark}"


@pytest.mark.parametrize("kind", ["tool_call", "tool_use", "reasoning", "thinking", "refusal", "file_search_call"])
def test_other_parts_leave_no_mark(kind: str) -> None:
    build = Builder()
    chat(build, "", [user(text("Why?"), {"type": kind, "content": "x", "file": {"filename": "f"}, "name": "n"})])
    assert build.read().case.request.query == "Why?"


def test_a_picture_as_the_whole_answer_is_no_text_to_judge() -> None:
    build = Builder()
    sent = {"gen_ai.input.messages": json.dumps([user(text("Draw a cat."))])}
    said = json.dumps([{"role": "assistant", "parts": [{"type": "image", "uri": "x"}], "finish_reason": "length"}])
    build.span("chat", {"gen_ai.operation.name": "chat", **sent, "gen_ai.output.messages": said})
    assert build.read().status is ReadingStatus.CONTENT_MISSING


def test_results_of_tools_in_the_message_of_a_user_are_sources_and_not_the_question() -> None:
    result = {"type": "tool_result", "tool_use_id": "1", "content": WEATHER}
    build = Builder()
    chat(build, "", [user(result, text("And in Oslo?"))])
    case = build.read().case
    assert case.request.query == "And in Oslo?"
    assert case.retrieved_context == (Document(WEATHER, kind="tool_result"),)


def test_results_of_tools_of_earlier_turns_were_given_to_the_model_too() -> None:
    found = ask(
        user(text("How warm?")), tool(WEATHER), {"role": "assistant", "parts": [text("21.")]}, user(text("Why?"))
    )
    assert sources(found) == [("tool_result", WEATHER)]


def test_a_tool_result_that_a_limit_has_cut_is_not_recorded() -> None:
    build = Builder()
    root = build.oi("CHAIN", {"input.value": "Why?", "output.value": "Because."})
    build.oi("TOOL", {"input.value": "w" * 200, "output.value": "x" * 200}, root)
    found = build.read()
    assert (found.status, found.case.context_status) == (ReadingStatus.READY, ContextStatus.NOT_RECORDED)


def test_very_many_results_beside_a_retrieval_are_bounded() -> None:
    many = [tool(f"Result {number}: {'x' * number}.") for number in range(1_000)]
    found = ask(user(text(f"Context: {WARRANTY}\nQuestion: Why?")), *many, retrieved=[WARRANTY])
    assert 150 < len(found.case.retrieved_context) <= 1 + 200


def test_results_that_are_too_long_to_compare_are_sources_once_each() -> None:
    long = [f"{number:03} {WEATHER} " * 130 for number in range(150)]
    found = ask(user(text(f"Context: {WARRANTY}\nQuestion: Why?")), *map(tool, [*long, *long]), retrieved=[WARRANTY])
    assert sources(found) == [("document", WARRANTY), *(("tool_result", one.strip()) for one in long)]


@pytest.mark.parametrize(
    "hostile",
    [
        {"type": "file", "file": None},
        {"type": "file", "file": {"filename": {"a": 1}, "file_data": ["x"]}},
        {"type": "document", "source": {"type": "content", "content": [[[[[[[[["x"]]]]]]]]]}},
        {"type": "file", "mime_type": "text/plain", "data": "\ud800"},
        {"inline_data": {"mime_type": 5}},
        {"type": "image" * 1000},
        {"type": "text-plain", "text": "[image]" * 50_000},
    ],
)
def test_hostile_parts_never_raise(hostile: Value) -> None:
    build = Builder()
    attributes: dict[str, Value] = {"gen_ai.input.messages": [user(text("Why?"), hostile)]}
    build.span("chat", {"gen_ai.operation.name": "chat", **attributes, "gen_ai.output.messages": [tool("x")]})
    assert build.read().status in ReadingStatus
