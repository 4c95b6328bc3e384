"""Langfuse: what one span says, and traces in its dialect."""

from __future__ import annotations

import json

import pytest

from monitor.conventions.langfuse import LangfuseConvention
from monitor.model.case import Document, Message, ReadingStatus, Usage
from monitor.model.span import Span, SpanStatus, Value
from monitor.stages import Observation
from tests.support.traces import Builder

TYPE, INPUT, OUTPUT = (f"langfuse.observation.{part}" for part in ("type", "input", "output"))
ONE: dict[str, Value] = {"id": "a", "page_content": "One", "metadata": {"source": "u1"}, "score": 0.5}
TWO: dict[str, Value] = {"id": "b", "page_content": "Two", "metadata": {"source": "u2"}, "score": 0.4}
FIRST, SECOND = Document("One", "u1", "a", 0.5), Document("Two", "u2", "b", 0.4)


def marked(named: str, given: object = None, put_out: object = None, **more: Value) -> dict[str, Value]:
    """Attributes as the SDK writes them: texts as they are, anything else as JSON."""
    found: dict[str, Value] = {
        TYPE: named,
        **{f"langfuse.{key.replace('__', '.')}": told for key, told in more.items()},
    }
    for key, told in ((INPUT, given), (OUTPUT, put_out)):
        if told is not None:
            found[key] = told if isinstance(told, str) else json.dumps(told)
    return found


def see(named: str, given: object = None, put_out: object = None, **more: Value) -> Observation:
    found = LangfuseConvention().observe(Span("0" * 32, "1" * 16, attributes=marked(named, given, put_out, **more)), ())
    assert found is not None
    return found


def call(*placed: object, **named: object) -> dict[str, object]:
    return {"args": list(placed), "kwargs": named}


@pytest.mark.parametrize("attributes", [{}, {INPUT: "x"}, {TYPE: 3}, {"session.id": "s", "langfuse.trace.name": "t"}])
def test_a_span_without_a_type_is_not_this_dialects(attributes: dict[str, Value]) -> None:
    assert LangfuseConvention().observe(Span("0" * 32, "1" * 16, attributes=attributes), ()) is None


@pytest.mark.parametrize(
    ("named", "kind"),
    [
        ("span", "request"),
        ("chain", "request"),
        ("agent", "request"),
        ("retriever", "retrieval"),
        ("generation", "generation"),
        ("tool", "tool"),
        ("embedding", "embedding"),
        ("evaluator", "other"),
        ("guardrail", "other"),
        ("event", "other"),
        ("RETRIEVER", "retrieval"),
    ],
)
def test_the_type_of_the_observation_is_its_role(named: str, kind: str) -> None:
    assert see(named).kind == kind


def test_a_mere_span_with_keys_of_the_genai_conventions_is_theirs() -> None:
    attributes = {**marked("span", "Why?"), "gen_ai.operation.name": "chat"}
    assert LangfuseConvention().observe(Span("0" * 32, "1" * 16, attributes=attributes), ()) is None


@pytest.mark.parametrize(
    "given",
    [
        call("And why?", [{"role": "user", "content": "Hi"}]),
        call("And why?", history=[{"role": "user", "content": "Hi"}]),
        call("tenant-1", question="And why?", history=[{"role": "user", "content": "Hi"}]),
        {"question": "And why?", "history": [{"role": "user", "content": "Hi"}]},
        ["And why?", [{"role": "user", "content": "Hi"}]],
        {"messages": [{"role": "user", "content": "Hi"}, {"role": "user", "content": "And why?"}]},
    ],
)
def test_the_question_is_found_among_positional_and_named_arguments(given: object) -> None:
    seen = see("span", given, "Because.")
    assert (seen.query, seen.history, seen.response) == ("And why?", (Message("user", "Hi"),), "Because.")


@pytest.mark.parametrize(
    "given",
    [
        call("user-17", "And why?", []),
        call("3f1c9a52-0d0f-4a7e-9a5e-0c6f1d1b2a77", "And why?"),
        call(17, None, "And why?"),
        call("<app.Database object at 0x7f0000000000>", "And why?"),
        call("user@example.org", {"question": "And why?"}),
    ],
)
def test_ids_and_objects_before_the_question_are_passed_over(given: object) -> None:
    assert see("span", given, "Because.").query == "And why?"


def test_a_question_that_looks_like_an_id_stands_where_nothing_else_is_asked() -> None:
    assert see("span", call("e-bike", [{"role": "user", "content": "Hi"}])).query == "e-bike"
    assert see("span", call("e-bike", "user-17")).query == "e-bike"


def test_what_an_application_says_of_its_trace_goes_before_what_the_span_holds() -> None:
    seen = see("span", call({"id": 7}), {"ok": True}, trace__input="Why?", trace__output='{"answer": "Because."}')
    assert (seen.query, seen.response) == ("Why?", "Because.")


def test_a_retriever_gives_query_and_documents() -> None:
    seen = see("retriever", call("Why?"), [ONE, TWO])
    assert (seen.kind, seen.query, seen.documents) == ("retrieval", "Why?", (FIRST, SECOND))


def test_a_retriever_that_found_nothing_says_so_and_one_without_output_says_nothing() -> None:
    assert see("retriever", "Why?", []).documents == ()
    assert see("retriever", "Why?").documents is None


def test_a_retriever_that_returns_a_text_has_that_text_as_its_document() -> None:
    assert see("retriever", "Why?", "All that is known.").documents == (Document("All that is known."),)


@pytest.mark.parametrize("named", ["span", "retriever"])
def test_a_step_that_gives_back_some_of_the_documents_that_it_took_is_a_filter(named: str) -> None:
    seen = see(named, call("Why?", [ONE, TWO]), [TWO])
    assert (seen.kind, seen.documents) == ("rerank", (SECOND,))


def test_a_filter_may_leave_nothing() -> None:
    seen = see("span", call(docs=[ONE, TWO]), [])
    assert (seen.kind, seen.documents) == ("rerank", ())


def test_a_plain_span_that_returns_documents_is_a_retrieval() -> None:
    seen = see("span", call("Why?"), [ONE])
    assert (seen.kind, seen.query, seen.documents) == ("retrieval", "Why?", (FIRST,))


@pytest.mark.parametrize(
    "put_out",
    [["why", "because"], [{"role": "user", "content": "Hi", "id": "m1"}], [{"name": "f", "args": {}, "id": "c1"}], []],
)
def test_a_plain_span_that_returns_another_list_is_no_retrieval(put_out: object) -> None:
    assert see("span", call("Why?"), put_out).kind == "request"


def test_documents_in_the_state_of_a_chain_are_told() -> None:
    assert see("chain", {"input": "Why?"}, {"docs": [ONE], "answer": "Because."}).documents == (FIRST,)


@pytest.mark.parametrize(
    "given",
    [
        [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Why?"}],
        {"tools": [], "messages": [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Why?"}]},
        call([{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Why?"}]),
        call(messages=[{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Why?"}]),
    ],
)
def test_a_generation_gives_the_chat_as_sent(given: object) -> None:
    assert see("generation", given).messages == (Message("system", "Be kind."), Message("user", "Why?"))


@pytest.mark.parametrize("given", ["Why?", call("Why?"), call(prompt="Why?")])
def test_a_bare_prompt_is_what_the_user_says(given: object) -> None:
    assert see("generation", given).messages == (Message("user", "Why?"),)


def test_tools_on_offer_are_no_results_of_tools() -> None:
    offered = {"role": "tool", "content": {"type": "function", "function": {"name": "search"}}}
    result = {"role": "tool", "content": "One", "tool_call_id": "c1"}
    assert see("generation", [{"role": "user", "content": "Why?"}, result, offered]).messages == (
        Message("user", "Why?"),
        Message("tool", "One"),
    )


@pytest.mark.parametrize("put_out", ["Because.", {"role": "assistant", "content": "Because."}])
def test_a_generation_gives_the_answer(put_out: object) -> None:
    assert see("generation", "Why?", put_out).response == "Because."


def test_a_generation_that_calls_a_tool_has_no_answer() -> None:
    put_out = {"role": "assistant", "content": None, "tool_calls": [{"name": "search", "args": {}, "id": "c1"}]}
    assert see("generation", "Why?", put_out).response is None


@pytest.mark.parametrize(
    "details",
    [
        '{"input": 9, "output": 2, "total": 11, "input_cache_read": 0}',
        '{"prompt_tokens": 9, "completion_tokens": 2, "total_tokens": 11, "prompt_tokens_details": {}}',
    ],
)
def test_tokens_are_read_in_either_set_of_names(details: str) -> None:
    seen = see("generation", observation__usage_details=details, observation__model__name="m")
    assert (seen.usage, seen.model) == (Usage(9, 2, 11), "m")


def test_the_result_of_a_tool_is_a_document() -> None:
    seen = see("tool", "{'query': 'Why?'}", {"content": "One", "type": "tool", "tool_call_id": "c1"})
    assert (seen.query, seen.documents) == ("Why?", (Document("One"),))


@pytest.mark.parametrize(
    ("status", "level", "told", "error"),
    [
        ("unset", "DEFAULT", "", ""),
        ("unset", "WARNING", "slow", ""),
        ("unset", "ERROR", "429", "429"),
        ("unset", "ERROR", "", "error"),
        ("error", "DEFAULT", "", "boom"),
        ("error", "ERROR", "", "boom"),
    ],
)
def test_an_error_is_told_by_level_or_status(status: SpanStatus, level: str, told: str, error: str) -> None:
    attributes = marked("generation", observation__level=level, observation__status_message=told)
    message = "boom" if status == "error" else ""
    span = Span("0" * 32, "1" * 16, attributes=attributes, status=status, status_message=message)
    seen = LangfuseConvention().observe(span, ())
    assert seen is not None
    assert seen.error == error


@pytest.mark.parametrize("tenant", ["north", '"north"'])
def test_metadata_of_the_trace_are_slices_in_plain_words(tenant: str) -> None:
    assert see("span", trace__metadata__tenant=tenant).attributes == {"metadata.tenant": "north"}


def test_session_and_user_are_read() -> None:
    attributes: dict[str, Value] = {TYPE: "span", "session.id": "s", "langfuse.user.id": "u"}
    seen = LangfuseConvention().observe(Span("0" * 32, "1" * 16, attributes=attributes), ())
    assert seen is not None
    assert (seen.session_id, seen.user_id) == ("s", "u")


def test_a_call_that_two_handlers_recorded_counts_once() -> None:
    built = Builder()
    root = built.span("ask", marked("chain", {"input": "Why?"}, {"answer": "Because."}))
    built.span("find", marked("retriever", "Why?", [ONE]), root)
    chat = [{"role": "user", "content": "Context:\nOne\n\nQuestion: Why?"}]
    tokens = '{"input": 9, "output": 2, "total": 11}'
    outer = built.span("model", marked("generation", chat, "Because.", observation__usage_details=tokens), root)
    built.span("client", marked("generation", {"messages": chat}, "Because.", observation__usage_details=tokens), outer)
    read = built.read()
    assert (read.status, read.case.request.query, read.case.response) == (ReadingStatus.READY, "Why?", "Because.")
    assert (read.case.retrieved_context, read.case.usage) == ((FIRST,), Usage(9, 2, 11))


def test_functions_that_were_only_decorated_make_a_case() -> None:
    built = Builder()
    root = built.span("ask", marked("span", call("Why?"), "Because."))
    built.span("find", marked("span", call("Why?"), [ONE, TWO]), root)
    built.span("best", marked("span", call("Why?", [ONE, TWO]), [TWO]), root)
    built.span("model", marked("generation", call("Use Two to say: Why?"), "Because."), root)
    read = built.read()
    assert (read.status, read.case.request.query, read.case.response) == (ReadingStatus.READY, "Why?", "Because.")
    assert read.case.retrieved_context == (SECOND,)
