"""Pydantic AI: what the runs of agents and the calls of their tools say."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.conventions.pydantic_ai import PydanticAI
from monitor.model.case import Document, Message, ReadingStatus, Usage
from monitor.model.span import Origin, Span, SpanStatus, Value
from monitor.stages import Observation
from tests.support.traces import Builder

OURS = Origin(scope_name="pydantic-ai")
TOOL: dict[str, Value] = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "look_up"}
HITS = '[{"id": "a", "url": "u", "content": "One", "score": 0.5}]'


def observe(
    attributes: dict[str, Value], *, origin: Origin = OURS, status: SpanStatus = "unset", message: str = ""
) -> Observation | None:
    span = Span("0" * 32, "1" * 16, attributes=attributes, origin=origin, status=status, status_message=message)
    return PydanticAI().observe(span, ())


def see(attributes: dict[str, Value], *, status: SpanStatus = "unset", message: str = "") -> Observation:
    found = observe(attributes, status=status, message=message)
    assert found is not None
    return found


def said(role: str, *texts: str) -> dict[str, Value]:
    return {"role": role, "parts": [{"type": "text", "content": text} for text in texts]}


def called() -> dict[str, Value]:
    return {"role": "assistant", "parts": [{"type": "tool_call", "id": "c", "name": "look_up", "arguments": "{}"}]}


def returned(role: str) -> dict[str, Value]:
    return {"role": role, "parts": [{"type": "tool_call_response", "id": "c", "name": "look_up", "result": ["One"]}]}


def run(*sent: Value, before: int | None = None, result: Value = None) -> Observation:
    attributes: dict[str, Value] = {
        "gen_ai.operation.name": "invoke_agent",
        "pydantic_ai.all_messages": json.dumps(sent),
    }
    if before is not None:
        attributes["pydantic_ai.new_message_index"] = before
    if result is not None:
        attributes["final_result"] = result
    return see(attributes)


@pytest.mark.parametrize("role", ["user", "tool"])
def test_the_question_is_not_what_a_tool_returned_in_whosever_name_it_is_told(role: str) -> None:
    seen = run(said("system", "Be kind."), said("user", "Why?"), called(), returned(role), said("assistant", "So."))
    assert (seen.kind, seen.query, seen.history) == ("request", "Why?", ())


def test_turns_of_earlier_runs_are_the_history() -> None:
    seen = run(said("user", "Who?"), said("assistant", "I."), said("user", "Why?"), said("assistant", "So."), before=2)
    assert (seen.query, seen.history) == ("Why?", (Message("user", "Who?"), Message("assistant", "I.")))


def test_a_request_told_in_several_messages_counts_as_one() -> None:
    earlier = (said("system", "Be kind."), said("user", "Who?"), said("assistant", "I."))
    seen = run(*earlier, said("user", "Why?"), said("assistant", "So."), said("user", "Fix the errors."), before=2)
    assert (seen.query, seen.history) == ("Why?", (Message("user", "Who?"), Message("assistant", "I.")))


def test_a_correction_that_the_library_asks_for_is_no_question() -> None:
    assert run(said("user", "Why?"), said("assistant", "So."), said("user", "Fix the errors.")).query == "Why?"


def test_a_run_without_words_of_its_own_goes_on_with_the_last_question() -> None:
    seen = run(said("user", "Why?"), called(), returned("user"), said("assistant", "So."), before=2)
    assert seen.query == "Why?"
    assert run(said("user", "Why?"), said("assistant", "So."), before=9).query == "Why?"


@pytest.mark.parametrize(
    ("result", "response"),
    [
        ("So.", "So."),
        ('{"answer": "So.", "sure": true}', "So."),
        ('{"city": "Oslo", "country": "Norway"}', '{"city": "Oslo", "country": "Norway"}'),
        ('{"city": "Osl', None),
        ("", None),
        (None, None),
    ],
)
def test_the_answer_is_the_result_of_the_run(result: Value, response: str | None) -> None:
    assert run(said("user", "Why?"), result=result).response == response


def test_a_run_that_failed_says_why_and_has_no_answer() -> None:
    seen = see({"gen_ai.operation.name": "invoke_agent"}, status="error", message="quota")
    assert (seen.kind, seen.error, seen.response) == ("request", "quota", None)


@pytest.mark.parametrize("prefix", ["gen_ai.usage", "gen_ai.aggregated_usage"])
def test_tokens_of_a_run_stand_under_one_of_two_names(prefix: str) -> None:
    counts: dict[str, Value] = {f"{prefix}.input_tokens": 3, f"{prefix}.output_tokens": 2}
    assert see({"gen_ai.operation.name": "invoke_agent", **counts}).usage == Usage(3, 2, None)


def test_a_run_belongs_to_its_conversation() -> None:
    run_span: dict[str, Value] = {"gen_ai.operation.name": "invoke_agent", "session.id": "s"}
    assert see({**run_span, "gen_ai.conversation.id": "c"}).session_id == "c"
    assert see({**run_span, "gen_ai.conversation.id": ""}).session_id == "s"


@pytest.mark.parametrize(
    ("arguments", "result"),
    [("gen_ai.tool.call.arguments", "gen_ai.tool.call.result"), ("tool_arguments", "tool_response")],
)
def test_a_tool_returns_documents_under_the_keys_of_either_format(arguments: str, result: str) -> None:
    seen = see({**TOOL, arguments: '{"query": "why"}', result: HITS})
    assert (seen.kind, seen.query, seen.documents) == ("tool", "why", (Document("One", "u", "a", 0.5),))


@pytest.mark.parametrize(
    ("result", "texts"),
    [
        ("<doc id=a>\nOne\n</doc>\n\n<doc id=b>\nTwo\n</doc>", ["One", "Two"]),
        ("[1] One\n[2] Two", ["One", "Two"]),
        ("One\n\nand more of it", ["One\n\nand more of it"]),
        ('["One", "Two"]', ["One", "Two"]),
        ("[]", []),
        ("No results.", []),
        ("", []),
    ],
)
def test_documents_in_one_text_are_taken_apart_at_clear_marks(result: str, texts: list[str]) -> None:
    found = see({**TOOL, "gen_ai.tool.call.result": result}).documents
    assert found is not None
    assert [one.content for one in found] == texts


def test_a_tool_whose_result_was_not_sent_says_nothing_of_documents() -> None:
    assert see(TOOL).documents is None


def test_what_a_failed_tool_tells_the_model_is_no_document() -> None:
    seen = see({**TOOL, "gen_ai.tool.call.result": "Fix the errors."}, status="error", message="bad arguments")
    assert (seen.documents, seen.error) == (None, "bad arguments")


def test_format_1_tells_a_call_as_a_list_of_events() -> None:
    told: list[dict[str, Value]] = [
        {"event.name": "gen_ai.system.message", "role": "system", "content": "Be brief."},
        {"event.name": "gen_ai.user.message", "role": "user", "content": "Why?"},
        {"event.name": "gen_ai.tool.message", "role": "tool", "name": "look_up", "content": [{"text": "One"}]},
        {"event.name": "gen_ai.choice", "index": 0, "message": {"role": "assistant", "content": "So."}},
    ]
    chat: dict[str, Value] = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"}
    seen = see({**chat, "events": json.dumps(told), "gen_ai.usage.input_tokens": 3})
    assert seen.messages is not None
    assert [one.role for one in seen.messages] == ["system", "user", "tool"]
    assert (seen.kind, seen.response, seen.model, seen.usage) == ("generation", "So.", "m", Usage(3, None))
    asked_for_tool = {"event.name": "gen_ai.choice", "index": 0, "message": {"role": "assistant", "tool_calls": []}}
    assert see({**chat, "events": json.dumps([*told[:2], asked_for_tool])}).response is None


def test_format_1_tells_a_run_with_its_history_and_the_last_question_is_the_runs() -> None:
    told = [("user", "Hi?"), ("assistant", "Hello."), ("user", "Why?"), ("assistant", "So.")]
    events = json.dumps([{"role": role, "content": text} for role, text in told])
    seen = see({"gen_ai.operation.name": "invoke_agent", "all_messages_events": events, "final_result": "So."})
    assert (seen.query, seen.response) == ("Why?", "So.")
    assert seen.history == (Message("user", "Hi?"), Message("assistant", "Hello."))


@pytest.mark.parametrize("events", [None, 3, "", "[", '["x", 3, null, {"message": 7}]', '{"message": {}}'])
def test_events_of_other_shapes_are_ignored(events: Value) -> None:
    seen = see({"gen_ai.operation.name": "chat", "events": events})
    assert (seen.messages, seen.response) == (None, None)


def test_an_output_function_gives_the_answer_and_no_evidence_for_it() -> None:
    attributes: dict[str, Value] = {"logfire.msg": "running output function: tidy", "gen_ai.tool.call.result": "So."}
    seen = see({**TOOL, **attributes})
    assert (seen.kind, seen.documents) == ("other", None)


def test_the_keys_that_are_its_own_are_known_in_any_scope() -> None:
    known: list[dict[str, Value]] = [{**TOOL, "tool_response": "One"}, {"pydantic_ai.all_messages": "[]"}]
    for own in known:
        assert observe(own, origin=Origin()) is not None


@pytest.mark.parametrize(
    ("attributes", "origin"),
    [
        ({**TOOL, "gen_ai.tool.call.result": "One"}, Origin()),
        ({"gen_ai.operation.name": "invoke_agent"}, Origin()),
        ({"gen_ai.operation.name": "chat", "gen_ai.input.messages": "[]"}, OURS),
        ({"tool_response": "One"}, Origin()),
        ({"tools": ["look_up"]}, OURS),
    ],
)
def test_spans_in_the_words_of_others_are_left_to_them(attributes: dict[str, Value], origin: Origin) -> None:
    assert observe(attributes, origin=origin) is None


def test_a_run_its_tool_and_the_calls_of_its_model_make_one_case() -> None:
    trace = Builder()
    sent = [said("user", "Why?"), called(), returned("user")]
    answer = {**said("assistant", "So."), "finish_reason": "stop"}
    whole = json.dumps([*sent, answer])
    root = trace.span("agent run", {"pydantic_ai.all_messages": whole, "final_result": "So."})
    trace.span("running tool", {**TOOL, "tool_response": '["One"]'}, root)
    chat: dict[str, Value] = {"gen_ai.input.messages": json.dumps(sent), "gen_ai.output.messages": json.dumps([answer])}
    trace.span("chat m", {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m", **chat}, root)
    reading = trace.read()
    assert (reading.status, reading.case.convention, reading.case.model) == (ReadingStatus.READY, "pydantic_ai", "m")
    assert [one.content for one in reading.case.retrieved_context] == ["One"]


odd = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20) | st.binary(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
KEYS = [
    "gen_ai.operation.name",
    "gen_ai.tool.name",
    "gen_ai.tool.call.result",
    "gen_ai.tool.call.arguments",
    "tool_response",
    "tool_arguments",
    "logfire.msg",
    "final_result",
    "pydantic_ai.all_messages",
    "all_messages_events",
    "pydantic_ai.new_message_index",
    "gen_ai.conversation.id",
    "gen_ai.usage.input_tokens",
]


@given(attributes=st.dictionaries(st.sampled_from(KEYS), odd | odd.map(lambda one: json.dumps(one, default=str))))
def test_no_value_of_its_keys_makes_it_raise(attributes: dict[str, Value]) -> None:
    for origin in (OURS, Origin()):
        observe(attributes, origin=origin)
