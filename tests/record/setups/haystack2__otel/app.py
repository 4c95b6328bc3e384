"""Haystack 2, which finds OpenTelemetry by itself: pipelines of chat and text generators, and agents."""

from __future__ import annotations

import asyncio
import os
from typing import Any

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

os.environ["HAYSTACK_CONTENT_TRACING_ENABLED"] = "true"
os.environ["HAYSTACK_TELEMETRY_ENABLED"] = "False"
provider = TracerProvider()
provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
trace.set_tracer_provider(provider)  # before Haystack is imported: it looks once

from haystack import AsyncPipeline, Document, Pipeline, component, tracing
from haystack.components.agents import Agent
from haystack.components.builders import ChatPromptBuilder, PromptBuilder
from haystack.components.generators import OpenAIGenerator
from haystack.components.generators.chat import OpenAIChatGenerator
from haystack.components.joiners import DocumentJoiner
from haystack.dataclasses import ChatMessage
from haystack.tools import ComponentTool, Tool
from library import CASES, asked, case, search

TWO_CALLS = 230  # tokens: the model asks for its tool, then answers
ENOUGH = 0.6
ROLE = "You help the customers of a bike rental. Answer from the help pages only."
TEMPLATE = (
    "Context:\n{% for page in documents %}[{{ loop.index }}] {{ page.content }}\n{% endfor %}\nQuestion: {{ question }}"
)


@component
class HelpPages:
    """Finds help pages."""

    @component.output_types(documents=list[Document])
    def run(self, query: str) -> dict[str, Any]:
        """Find help pages.

        :param query: What to look for.
        """
        found = [
            Document(id=h["id"], content=h["text"], meta={"url": h["uri"]}, score=h["score"]) for h in search(query)
        ]
        return {"documents": found}


@component
class GoodEnough:
    """Drops what scores low."""

    @component.output_types(documents=list[Document])
    def run(self, documents: list[Document]) -> dict[str, Any]:
        return {"documents": [one for one in documents if (one.score or 0) >= ENOUGH]}


def retrieval(pipe: Pipeline, queries: int) -> None:
    """Retrievers and a filter, which hands on to `prompt_builder`."""
    for number in range(queries):
        pipe.add_component(f"retriever_{number}", HelpPages())
    pipe.add_component("filter", GoodEnough())
    if queries > 1:
        pipe.add_component("joiner", DocumentJoiner(sort_by_score=False))
        for number in range(queries):
            pipe.connect(f"retriever_{number}", "joiner")
        pipe.connect("joiner", "filter")
    else:
        pipe.connect("retriever_0", "filter")
    pipe.connect("filter", "prompt_builder.documents")


def chat_pipeline(kind: type[Pipeline], queries: int, *, stream: bool) -> Pipeline:
    pipe = kind()
    pipe.add_component("prompt_builder", ChatPromptBuilder(variables=["documents", "question"], required_variables="*"))
    pipe.add_component("llm", generator(stream=stream))
    pipe.connect("prompt_builder.prompt", "llm.messages")
    retrieval(pipe, queries)
    return pipe


def text_pipeline() -> Pipeline:
    pipe = Pipeline()
    pipe.add_component("prompt_builder", PromptBuilder(template=TEMPLATE, required_variables="*"))
    pipe.add_component("llm", OpenAIGenerator(model="gpt-4o-mini", system_prompt=ROLE, max_retries=0))
    pipe.connect("prompt_builder", "llm")
    retrieval(pipe, 1)
    return pipe


def generator(*, stream: bool = False) -> OpenAIChatGenerator:
    return OpenAIChatGenerator(model="gpt-4o-mini", max_retries=0, streaming_callback=print_nothing if stream else None)


def print_nothing(chunk: Any) -> None:
    """A caller that shows the answer as it comes."""


def turns(case: dict[str, Any]) -> list[ChatMessage]:
    make = {"user": ChatMessage.from_user, "assistant": ChatMessage.from_assistant}
    return [make[turn["role"]](turn["content"]) for turn in case["history"]]


def queries(case: dict[str, Any]) -> list[str]:
    return [one["query"] for one in case.get("searches", ())] or [case.get("search_query") or case["question"]]


def inputs(case: dict[str, Any]) -> dict[str, Any]:
    template = [ChatMessage.from_system(ROLE), *turns(case), ChatMessage.from_user(TEMPLATE)]
    data: dict[str, Any] = {"prompt_builder": {"question": case["question"], "template": template}}
    return data | {f"retriever_{number}": {"query": query} for number, query in enumerate(queries(case))}


def run_chat(case: dict[str, Any]) -> None:
    chat_pipeline(Pipeline, len(queries(case)), stream=bool(case.get("stream"))).run(inputs(case))


def run_async(case: dict[str, Any]) -> None:
    pipe = chat_pipeline(AsyncPipeline, len(queries(case)), stream=False)
    asyncio.run(pipe.run_async(inputs(case), include_outputs_from={"filter"}))


def run_text(case: dict[str, Any]) -> None:
    data = {"prompt_builder": {"question": case["question"]}, "retriever_0": {"query": case["question"]}}
    text_pipeline().run(data)


def kept(case: dict[str, Any]) -> list[str]:
    """The texts that the filter let through."""
    return [hit["text"] for query in queries(case) for hit in search(query) if hit["score"] >= ENOUGH]


def in_words(query: str) -> str:
    return "\n".join(f"[{n}] {hit['text']}" for n, hit in enumerate(search(query), 1)) or "No pages found."


def text_tool() -> Tool:
    schema = {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]}
    return Tool(name="find_help", description="Find help pages.", parameters=schema, function=in_words)


def page_tool() -> Tool:
    return ComponentTool(component=HelpPages(), name="find_help", description="Find help pages.")


def agent(case: dict[str, Any], tool: Tool) -> Agent:
    return Agent(chat_generator=generator(stream=bool(case.get("stream"))), tools=[tool], system_prompt=ROLE)


def run_agent(case: dict[str, Any], tool: Tool) -> None:
    agent(case, tool).run(messages=[*turns(case), ChatMessage.from_user(case["question"])])


def run_agent_in_pipeline(case: dict[str, Any]) -> None:
    pipe = Pipeline()
    pipe.add_component("agent", agent(case, page_tool()))
    pipe.run({"agent": {"messages": [*turns(case), ChatMessage.from_user(case["question"])]}})


for one in CASES[1:]:
    try:
        run_chat(one)
    except Exception as error:  # the model refuses one of the cases
        print(type(error).__name__)
    asked(one, flavour="pipeline", contexts=kept(one), session_id=None)

run_async(case("plain"))
asked(case("plain"), flavour="async_pipeline", contexts=kept(case("plain")), session_id=None)

# Haystack knows no sessions: the application puts them on a span of its own.
for name in ("plain", "empty"):
    session = {"session.id": case(name)["session"]}
    with trace.get_tracer("harbour-bikes").start_as_current_span("answer", attributes=session):
        run_text(case(name))
    asked(case(name), flavour="text_pipeline", contexts=kept(case(name)))

run_agent(case("streaming"), page_tool())
asked(case("streaming"), flavour="component_tool", session_id=None, total_tokens=TWO_CALLS)
for name in ("follow_up", "empty"):
    run_agent(case(name), text_tool())
    asked(case(name), flavour="text_tool", session_id=None, total_tokens=TWO_CALLS)
run_agent_in_pipeline(case("follow_up"))
asked(case("follow_up"), flavour="agent_in_pipeline", session_id=None, total_tokens=TWO_CALLS)

tracing.tracer.is_content_tracing_enabled = False
run_chat(case("plain"))
asked(case("plain"), flavour="without_content", status="content_missing")
run_agent(case("plain"), page_tool())
asked(case("plain"), flavour="agent_without_content", status="content_missing")
provider.shutdown()
