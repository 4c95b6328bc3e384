"""Haystack's own tracer: what one span says."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest

from monitor.conventions.haystack import Haystack
from monitor.model.case import Document, Message, Usage
from monitor.model.span import Span, Value
from monitor.stages import Observation

DOCUMENTS = "list[haystack.dataclasses.document.Document]"
ONE = {"id": "a", "content": "One", "url": "u1", "score": 0.5}
TWO = {"id": "b", "content": "Two"}


def see(attributes: Mapping[str, Value]) -> Observation:
    found = Haystack().observe(Span("0" * 32, "1" * 16, attributes=attributes), ())
    assert found is not None
    return found


def component(named: str, given: object = None, put_out: object = None, **declared: Mapping[str, str]) -> Observation:
    attributes = {"haystack.component.name": "it", "haystack.component.type": named}
    for side, content in (("input", given), ("output", put_out)):
        if content is not None:
            attributes[f"haystack.component.{side}"] = json.dumps(content)
        if side in declared:
            spec = {socket: {"type": told} for socket, told in declared[side].items()}
            attributes[f"haystack.component.{side}_spec"] = json.dumps(spec)
    return see(attributes)


def pipeline(given: object = None, put_out: object = None) -> Observation:
    data = {"haystack.pipeline.input_data": given, "haystack.pipeline.output_data": put_out}
    return see({key: json.dumps(value) for key, value in data.items() if value is not None})


def said(text: str, **meta: object) -> dict[str, object]:
    return {"role": "assistant", "meta": {"finish_reason": "stop", **meta}, "content": [{"text": text}] if text else []}


def test_a_span_without_its_keys_is_not_this_dialects() -> None:
    for attributes in ({}, {"input.value": "x"}, {"langfuse.haystack.component.type": "x"}):
        assert Haystack().observe(Span("0" * 32, "1" * 16, attributes=attributes), ()) is None


@pytest.mark.parametrize(
    ("named", "given", "put_out", "kind"),
    [
        ("InMemoryBM25Retriever", {"query": "str"}, {"documents": DOCUMENTS}, "retrieval"),
        ("Homemade", {"query": "str"}, {"hits": "List[Document]"}, "retrieval"),
        ("ScoreFilter", {"documents": DOCUMENTS}, {"documents": DOCUMENTS}, "rerank"),
        ("BranchJoiner", {"value": DOCUMENTS}, {"value": DOCUMENTS}, "rerank"),
        ("OpenAITextEmbedder", {"text": "str"}, {"embedding": "list[float]"}, "embedding"),
        ("OpenAIDocumentEmbedder", {"documents": DOCUMENTS}, {"documents": DOCUMENTS}, "embedding"),
        ("Homemade", {"messages": "list[ChatMessage]"}, {"replies": "list[ChatMessage]"}, "generation"),
        ("ToolInvoker", {"messages": "list[ChatMessage]"}, {"tool_messages": "list[ChatMessage]"}, "tool"),
        ("Agent", {"messages": "list[ChatMessage]"}, {"last_message": "ChatMessage"}, "request"),
        ("ChatPromptBuilder", {"documents": "typing.Any"}, {"prompt": "list[ChatMessage]"}, "other"),
        ("DocumentWriter", {"documents": DOCUMENTS}, {"documents_written": "int"}, "other"),
    ],
)
def test_the_role_of_a_component_shows_in_its_sockets(
    named: str, given: dict[str, str], put_out: dict[str, str], kind: str
) -> None:
    assert component(named, input=given, output=put_out).kind == kind


def test_without_declared_sockets_those_that_came_decide() -> None:
    assert component("Mine", {"documents": [ONE]}, {"documents": [ONE]}).kind == "rerank"
    assert component("Mine", {"query": "x"}, {"documents": [ONE]}).kind == "retrieval"


def test_a_retriever_gives_its_documents() -> None:
    seen = component("Mine", {"query": "Why?"}, {"documents": [ONE, TWO]}, output={"documents": DOCUMENTS})
    assert (seen.query, seen.documents) == ("Why?", (Document("One", "u1", "a", 0.5), Document("Two", "", "b")))
    assert component("Mine", {}, {"documents": []}, output={"documents": DOCUMENTS}).documents == ()


def test_without_content_tracing_a_retriever_says_nothing_of_its_documents() -> None:
    assert component("Mine", output={"documents": DOCUMENTS}).documents is None


def test_a_router_gives_all_that_it_lets_through() -> None:
    spec = {"de": DOCUMENTS, "rest": DOCUMENTS}
    seen = component("Router", None, {"de": [TWO], "rest": [ONE]}, input={"documents": DOCUMENTS}, output=spec)
    assert [d.content for d in seen.documents or ()] == ["Two", "One"]


def test_a_generator_says_messages_answer_model_and_tokens() -> None:
    sent = [{"role": "system", "content": [{"text": "Be brief."}]}, {"role": "user", "content": [{"text": "Why?"}]}]
    usage = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
    seen = component("OpenAIChatGenerator", {"messages": sent}, {"replies": [said("So.", model="m", usage=usage)]})
    assert seen.messages == (Message("system", "Be brief."), Message("user", "Why?"))
    assert (seen.response, seen.model, seen.usage) == ("So.", "m", Usage(3, 2, 5))


def test_a_generator_of_bare_texts_is_read_too() -> None:
    meta = [{"model": "m", "usage": {"input_tokens": 3, "output_tokens": 2}}]
    seen = component("OpenAIGenerator", {"prompt": "Why?"}, {"replies": ["So."], "meta": meta})
    assert (seen.messages, seen.response) == ((Message("user", "Why?"),), "So.")
    assert (seen.model, seen.usage) == ("m", Usage(3, 2, None))


def test_messages_of_older_versions_have_underscores() -> None:
    reply = {"_role": "assistant", "_content": [{"text": "So."}], "_meta": {"model": "m"}}
    sent = [{"_role": "user", "_content": [{"text": "Why?"}]}]
    seen = component("ChatGenerator", {"messages": sent}, {"replies": [reply]})
    assert (seen.messages, seen.response, seen.model) == ((Message("user", "Why?"),), "So.", "m")


def test_no_words_are_an_answer_only_where_the_model_stopped() -> None:
    assert component("ChatGenerator", {}, {"replies": [said("")]}).response == ""
    assert component("ChatGenerator", {}, {"replies": [said("", finish_reason="tool_calls")]}).response is None
    assert component("ChatGenerator", {}).response is None


def test_a_pipeline_states_the_question_on_which_its_components_agree() -> None:
    assert pipeline({"builder": {"question": "Why?"}, "embedder": {"text": "reason"}}).query == "Why?"
    assert pipeline({"retriever": {"query": "Why?"}, "ranker": {"query": "Why?", "top_k": 3}}).query == "Why?"
    assert pipeline({"embedder_1": {"text": "one"}, "embedder_2": {"text": "two"}}).query is None


def test_a_pipeline_given_messages_states_their_turns() -> None:
    chat = [{"role": role, "content": [{"text": text}]} for role, text in (("user", "Hi"), ("assistant", "Hello"))]
    seen = pipeline({"agent": {"messages": [*chat, {"role": "user", "content": [{"text": "Why?"}]}]}})
    assert (seen.query, seen.history) == ("Why?", (Message("user", "Hi"), Message("assistant", "Hello")))


def test_a_pipeline_answers_what_its_last_component_gave() -> None:
    built = {"init_parameters": {"data": "Built.", "query": "Why?"}}
    assert pipeline(put_out={"llm": {"replies": [said("So.")]}, "retriever": {"documents": [ONE]}}).response == "So."
    assert pipeline(put_out={"a": {"answers": [built]}, "llm": {"replies": [said("So.")]}}).response == "Built."
    assert pipeline(put_out={"agent": {"last_message": said("Done."), "messages": []}}).response == "Done."
    assert pipeline(put_out={"one": {"replies": ["So."]}, "two": {"replies": ["Or so."]}}).response is None


def test_the_steps_of_an_agent_are_calls_of_models_and_tools() -> None:
    asked = {"messages": [{"role": "user", "content": [{"text": "Why?"}]}]}
    step = see({"haystack.agent.step.llm.input": json.dumps(asked), "haystack.agent.step.llm.output": "{}"})
    assert (step.kind, step.messages) == ("generation", (Message("user", "Why?"),))
    run = see({"haystack.agent.max_steps": 3, "haystack.agent.input": json.dumps(asked)})
    assert (run.kind, run.query) == ("request", "Why?")
    tool = see({"haystack.tool.name": "search", "haystack.agent.step.tool.output": json.dumps({"documents": [TWO]})})
    assert (tool.kind, tool.documents) == ("tool", (Document("Two", "", "b"),))
    assert see({"haystack.agent.step": 1}).kind == "other"


def test_without_content_tracing_the_name_alone_tells_a_call_of_an_agents_model() -> None:
    seen = Haystack().observe(Span("0" * 32, "1" * 16, name="haystack.agent.step.llm"), ())
    assert seen is not None
    assert (seen.kind, seen.messages, seen.response) == ("generation", None, None)
    assert Haystack().observe(Span("0" * 32, "1" * 16, name="haystack.tracing.auto_enable"), ()) is None


def test_the_hooks_of_an_agent_are_no_runs_of_it() -> None:
    assert see({"haystack.agent.hook.compaction.target_tokens": 3}).kind == "other"


def test_a_tool_that_failed_found_nothing_that_it_could_tell() -> None:
    failed = {"haystack.tool.name": "search", "haystack.tool.error": True}
    assert see({**failed, "haystack.agent.step.tool.output": '{"error": "timed out"}'}).documents is None
    result = {"tool_call_result": {"result": "timed out", "error": True}}
    assert component("ToolInvoker", {}, {"tool_messages": [{"role": "tool", "content": [result]}]}).documents is None


def test_the_documents_that_a_tool_wrote_into_one_text_are_taken_apart() -> None:
    told = {"haystack.tool.name": "search", "haystack.agent.step.tool.output": "[1] One\n[2] Two"}
    assert see(told).documents == (Document("One"), Document("Two"))


def test_tool_messages_carry_the_documents_of_tools() -> None:
    result = {"tool_call_result": {"result": json.dumps([TWO]), "error": False}}
    seen = component("ToolInvoker", {}, {"tool_messages": [{"role": "tool", "content": [result]}]})
    assert seen.documents == (Document("Two", "", "b"),)


def test_values_of_other_shapes_are_ignored() -> None:
    for junk in ("", "no json", "[1, 2]", '{"replies": 3, "documents": "x"}', 7, None, ["a"]):
        for prefix in ("component.", "agent.", "agent.step.llm.", "agent.step.tool.", "pipeline."):
            see({f"haystack.{prefix}{key}": junk for key in ("input", "output", "input_data", "output_data")})
        see({"haystack.component.type": "ChatGenerator", "haystack.component.output": junk})
