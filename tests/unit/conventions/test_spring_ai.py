"""Spring AI: what its spans and the texts in its log records say."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest

from monitor import registry
from monitor.conventions.spring_ai import SpringAI
from monitor.extraction import compose, request
from monitor.extraction.forest import grow
from monitor.model.case import Document, Message, Reading, ReadingStatus, Usage
from monitor.model.span import LogRecord, Origin, Span, Value
from monitor.model.trace import Trace
from monitor.stages import Observation

TRACE = "0" * 32
AI = "org.springframework.ai."
PROMPT = f"{AI}chat.observation.ChatModelPromptContentObservationHandler"
COMPLETION = f"{AI}chat.observation.ChatModelCompletionObservationHandler"
CLIENT_PROMPT = f"{AI}chat.client.observation.ChatClientPromptContentObservationHandler"
CLIENT_COMPLETION = f"{AI}chat.client.observation.ChatClientCompletionObservationHandler"
RESPONSE = f"{AI}vectorstore.observation.VectorStoreQueryResponseObservationHandler"

CHAT: dict[str, Value] = {"gen_ai.operation.name": "chat", "gen_ai.response.finish_reasons": '["STOP"]'}
CLIENT: dict[str, Value] = {"gen_ai.operation.name": "framework", "spring.ai.kind": "chat_client"}
QUERY: dict[str, Value] = {"spring.ai.kind": "vector_store", "db.operation.name": "query"}


def java(*texts: str) -> str:
    return "[" + ", ".join(f'"{text}"' for text in texts) + "]"


def record(logger: str, told: str, span_id: str = "1" * 16) -> LogRecord:
    return LogRecord(TRACE, span_id, time_ns=1, body=f"A heading:\n{told}", origin=Origin(scope_name=logger))


def span(attributes: Mapping[str, Value], span_id: str = "1" * 16, parent: str = "", boot: str = "4.1.0") -> Span:
    origin = Origin("shop", scope_name="org.springframework.boot", scope_version=boot)
    return Span(TRACE, span_id, parent, start_ns=1, end_ns=2, attributes=attributes, origin=origin, is_root=not parent)


def see(attributes: Mapping[str, Value], *records: LogRecord, boot: str = "4.1.0") -> Observation:
    found = SpringAI().observe(span(attributes, boot=boot), records)
    assert found is not None
    return found


def read(spans: tuple[Span, ...], *records: LogRecord) -> Reading:
    (found,) = compose.read(Trace(TRACE, spans, records), registry.conventions()).readings
    return found


def test_a_client_says_what_the_user_asked_before_anything_was_put_to_it() -> None:
    told = '["system":"Be "kind", "please".", "user":"What is "Safe", and\nwhat [is] not?"]'
    seen = see({**CLIENT, "spring.ai.chat.client.conversation.id": "7"}, record(CLIENT_PROMPT, told))
    assert (seen.kind, seen.query, seen.session_id) == ("request", 'What is "Safe", and\nwhat [is] not?', "7")


def test_a_client_says_the_answer_where_it_is_the_only_one() -> None:
    assert see(CLIENT, record(CLIENT_COMPLETION, java('Take "S", "M" or "L".'))).response == 'Take "S", "M" or "L".'
    assert see(CLIENT, record(CLIENT_COMPLETION, java("One.", "Two."))).response is None
    assert see(CLIENT, record(CLIENT_COMPLETION, "[]")).response is None


def test_a_search_says_what_it_found_and_an_empty_one_that_it_found_nothing() -> None:
    texts = ('With "Safe", "Extra" or neither.', "Lines,\nbrackets [1].")
    seen = see({**QUERY, "db.vector.query.content": "safe"}, record(RESPONSE, java(*texts)))
    assert (seen.kind, seen.query, seen.documents) == ("retrieval", "safe", tuple(map(Document, texts)))
    assert see(QUERY, record(RESPONSE, "[]")).documents == ()
    assert see(QUERY).documents is None
    assert see(QUERY, record(RESPONSE, java("null", "A text."))).documents == (Document("A text."),)  # an image, a text


@pytest.mark.parametrize("operation", ["add", "delete"])
def test_filling_a_store_is_no_search(operation: str) -> None:
    assert see({**QUERY, "db.operation.name": operation}).kind == "other"


def roles(*texts: str, boot: str, told: str = "") -> str:
    """The first letters of the roles that the texts of a prompt are given, with what the client told of them."""
    spans = (span(CLIENT, boot=boot), span(CHAT, "2" * 16, "1" * 16, boot=boot))
    records = [record(PROMPT, java(*texts), "2" * 16), *([record(CLIENT_PROMPT, told)] if told else [])]
    (call,) = request.calls(grow(spans, records, registry.conventions()))
    assert [message.content for message in call.messages] == list(texts)
    return "".join(message.role[:1] or "?" for message in call.messages)


TOLD = '["system":"Be kind.", "user":"Why?"]'
NO_SYSTEM = '["user":"Why?"]'


@pytest.mark.parametrize("boot", ["3.4.1", "3.5.11", "4.1.0"])
def test_the_last_text_of_a_prompt_is_the_users_and_one_before_it_the_systems(boot: str) -> None:
    assert roles("Why?", boot=boot) == "u"
    assert roles("Be kind.", "Why?", boot=boot) == "su"


def test_with_what_the_client_was_asked_the_turns_have_their_roles_wherever_the_systems_text_stands() -> None:
    assert roles("Be kind.", "Who?", "I.", "Why?", boot="3.5.11", told=TOLD) == "suau"
    assert roles("Who?", "I.", "Be kind.", "Why?", boot="3.4.1", told=TOLD) == "uasu"
    assert roles("Who?", "I.", "Why?", boot="3.5.11", told=NO_SYSTEM) == "uau"


def test_the_second_version_puts_the_systems_text_first() -> None:
    assert roles("Be kind.", "Who?", "I.", "Why?", boot="4.1.0") == "suau"
    assert roles("Who?", "I.", "Why?", boot="4.1.0") == "??u"


def test_roles_that_cannot_be_told_are_left_open_and_give_no_history() -> None:
    assert roles("Be kind.", "Who?", "I.", "Why?", boot="3.5.11") == "???u"
    assert roles("Be kind.", "Who?", "Why?", boot="3.5.11", told=TOLD) == "??u"
    assert roles("Be kinder.", "Who?", "I.", "Why?", boot="3.5.11", told=TOLD) == "???u"
    reading = read((span(CHAT, boot="3.5.11"),), record(PROMPT, java("Be kind.", "Who?", "I.", "Why?")))
    assert reading.case.request.history == ()


@pytest.mark.parametrize(
    "traffic",
    [("null", ""), ("", ""), ("Let me look.", ""), ("", "", "", ""), ("null", "", "null", ""), ("Look.", "", "", "")],
)
def test_calls_of_tools_in_a_prompt_are_nobodys_words(traffic: tuple[str, ...]) -> None:
    seen = see(CHAT, record(PROMPT, java("Be kind.", "Why?", *traffic)))
    assert seen.messages == (Message("system", "Be kind."), Message("user", "Why?"))


def test_the_number_of_reasons_to_finish_tells_one_answer_from_several() -> None:
    assert see(CHAT, record(COMPLETION, '["A", then "B", "C"]')).response == 'A", then "B", "C'
    several = {**CHAT, "gen_ai.response.finish_reasons": '["STOP", "STOP"]'}
    assert see(several, record(COMPLETION, java("One.", "Two."))).response is None
    assert see(CHAT, record(COMPLETION, "[]")).response is None
    unsaid = {"gen_ai.operation.name": "chat"}
    assert see(unsaid, record(COMPLETION, java("One."))).response == "One."
    assert see(unsaid, record(COMPLETION, java("One.", "Two."))).response is None


def test_attributes_of_the_span_outweigh_its_log_records() -> None:
    sent = [
        {"role": "user", "parts": [{"type": "text", "content": "Why?"}]},
        {"role": "tool", "parts": [{"type": "text", "content": ""}]},
    ]
    said = [{"role": "assistant", "parts": [{"type": "text", "content": "So."}]}]
    carried = {"gen_ai.input.messages": json.dumps(sent), "gen_ai.output.messages": json.dumps(said)}
    seen = see({**CHAT, **carried}, record(PROMPT, java("Other?")), record(COMPLETION, java("Other.")))
    assert (seen.messages, seen.response) == ((Message("user", "Why?"),), "So.")
    assert see({**CLIENT, **carried}, record(CLIENT_PROMPT, '["user":"Other?"]')).query == "Why?"
    found = json.dumps([{"id": "d1", "content": "A text.", "score": 0.5, "metadata": {"uri": "kb://1"}}])
    seen = see({**QUERY, "gen_ai.retrieval.documents": found}, record(RESPONSE, java("Other.")))
    assert seen.documents == (Document("A text.", "kb://1", "d1", 0.5),)


def test_no_model_and_no_count_are_not_a_model_and_a_count() -> None:
    names = {"gen_ai.request.model": "gpt", "gen_ai.response.model": "none"}
    counts = {f"gen_ai.usage.{key}_tokens": "0" for key in ("input", "output", "total")}
    seen = see({**CHAT, **names, **counts})
    assert (seen.model, seen.usage) == ("gpt", None)


def test_the_first_version_counts_the_call_of_a_tool_again_in_the_call_after_it() -> None:
    calling = {**CHAT, "gen_ai.response.finish_reasons": '["TOOL_CALLS"]', "gen_ai.usage.total_tokens": "115"}
    assert see(calling, boot="3.5.11").usage is None
    assert see(calling, boot="4.1.0").usage == Usage(None, None, 115)


def test_the_result_of_a_tool_is_read() -> None:
    seen = see({"spring.ai.kind": "tool_call", "spring.ai.tool.call.result": '["One.", "Two."]'})
    assert (seen.kind, seen.documents) == ("tool", (Document("One."), Document("Two.")))


@pytest.mark.parametrize("told", ["", "[", '["cut in the mid', "null", "[]"])
def test_texts_that_were_cut_or_are_none_say_nothing(told: str) -> None:
    records = [record(logger, told) for logger in (PROMPT, COMPLETION, CLIENT_PROMPT, CLIENT_COMPLETION)]
    seen = see(CHAT, *records)
    assert (seen.messages, seen.response) == (None, None)
    seen = see(CLIENT, *records)
    assert (seen.query, seen.response) == (None, None)


def test_other_spans_of_spring_boot_and_spans_of_others_are_left_to_others() -> None:
    assert SpringAI().observe(span({"http.url": "/ask"}), ()) is None
    foreign = Span(TRACE, "1" * 16, attributes=CHAT, origin=Origin(scope_name="openai"))
    assert SpringAI().observe(foreign, ()) is None


def test_an_apps_own_line_within_a_span_is_not_taken_for_content() -> None:
    assert see(CHAT, record("app.AskController", java("Why?"))).messages is None


def test_the_prompt_alone_tells_question_and_context_where_the_client_is_silent() -> None:
    stuffed = (
        "What does Safe cost?\n\nContext information is below, surrounded by ---------------------\n\n"
        "---------------------\nSafe costs 5 euros.\n---\nIt is paid in advance.\n---------------------\n\n"
        "Given the context and provided history information and not prior knowledge,\nreply to the user comment.\n"
    )
    reading = read((span(CHAT),), record(PROMPT, java(stuffed)), record(COMPLETION, java("5 euros.")))
    assert (reading.status, reading.case.request.query) == (ReadingStatus.READY, "What does Safe cost?")
    assert [one.content for one in reading.case.retrieved_context] == ["Safe costs 5 euros.", "It is paid in advance."]


def test_documents_whose_borders_cannot_be_told_are_one_and_no_word_is_lost() -> None:
    texts = ('He asked: "why', 'The 28" wheel is larger.')
    records = (
        record(RESPONSE, java(*texts), "2" * 16),
        record(PROMPT, java("Context:\n" + "\n".join(texts) + "\nQuestion: What wheel?"), "3" * 16),
        record(COMPLETION, java("The large one."), "3" * 16),
    )
    spans = (span(CLIENT), span(QUERY, "2" * 16, "1" * 16), span(CHAT, "3" * 16, "1" * 16))
    case = read(spans, *records).case
    assert (case.request.query, case.response) == ("What wheel?", "The large one.")
    assert [one.content for one in case.retrieved_context] == ['He asked: "why", "The 28" wheel is larger.']


def test_a_text_whose_span_never_came_makes_a_trace_incomplete() -> None:
    telling = (record(PROMPT, java("Why?"), "9" * 16), record(COMPLETION, java("So."), "9" * 16))
    assert read((span(CLIENT),), *telling).status is ReadingStatus.INCOMPLETE
    assert read((), *telling).status is ReadingStatus.INCOMPLETE


def test_an_apps_own_line_whose_span_never_came_does_not() -> None:
    told = (record(PROMPT, java("Context:\nA.\nQuestion: Why?")), record(COMPLETION, java("So.")))
    assert read((span(CHAT),), *told, record("app.AskController", "asked", "9" * 16)).status is ReadingStatus.READY
