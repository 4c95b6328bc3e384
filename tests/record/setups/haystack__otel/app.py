"""Haystack 3 with its tracer for OpenTelemetry: a pipeline with a filter after the retriever, and agents with tools."""

from __future__ import annotations

import os
from typing import Any

os.environ["HAYSTACK_CONTENT_TRACING_ENABLED"] = "true"
os.environ["HAYSTACK_TELEMETRY_ENABLED"] = "False"

from haystack import Document, Pipeline, component, tracing
from haystack.components.agents import Agent
from haystack.components.builders import AnswerBuilder, ChatPromptBuilder
from haystack.components.embedders import OpenAITextEmbedder
from haystack.components.generators.chat import OpenAIChatGenerator
from haystack.components.joiners import DocumentJoiner
from haystack.dataclasses import ChatMessage
from haystack.tools import ComponentTool, Tool
from haystack_integrations.tracing.opentelemetry import OpenTelemetryTracer
from library import CASES, asked, case, search
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

provider = TracerProvider()
provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
trace.set_tracer_provider(provider)
tracer = trace.get_tracer("harbour-bikes")
tracing.enable_tracing(OpenTelemetryTracer(tracer))

TWO_CALLS = 230  # tokens: the model asks for its tool, then answers
ENOUGH = 0.6
ROLE = "You help the customers of a bike rental. Answer from the help pages only."
TEMPLATE = (
    "Context:\n{% for page in documents %}[{{ loop.index }}] {{ page.content }}\n{% endfor %}\nQuestion: {{ question }}"
)


@component
class HelpPages:
    """Finds help pages by the words of a query, and by its vector where there is one."""

    @component.output_types(documents=list[Document])
    def run(self, query: str, query_embedding: list[float] | None = None) -> dict[str, Any]:
        """Find help pages.

        :param query: What to look for.
        :param query_embedding: The same as a vector.
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


def pipeline(queries: int = 1, *, stream: bool = False, answers: bool = False) -> Pipeline:
    pipe = Pipeline()
    for number in range(queries):
        pipe.add_component(f"embedder_{number}", OpenAITextEmbedder(model="text-embedding-3-small"))
        pipe.add_component(f"retriever_{number}", HelpPages())
        pipe.connect(f"embedder_{number}.embedding", f"retriever_{number}.query_embedding")
    pipe.add_component("filter", GoodEnough())
    if queries > 1:
        pipe.add_component("joiner", DocumentJoiner(sort_by_score=False))
        for number in range(queries):
            pipe.connect(f"retriever_{number}", "joiner")
        pipe.connect("joiner", "filter")
    else:
        pipe.connect("retriever_0", "filter")
    pipe.add_component("prompt_builder", ChatPromptBuilder(variables=["documents", "question"], required_variables="*"))
    pipe.add_component("llm", generator(stream=stream))
    pipe.connect("filter", "prompt_builder.documents")
    pipe.connect("prompt_builder.prompt", "llm.messages")
    if answers:
        pipe.add_component("answer_builder", AnswerBuilder())
        pipe.connect("llm.replies", "answer_builder.replies")
        pipe.connect("filter", "answer_builder.documents")
    return pipe


def generator(*, stream: bool = False) -> OpenAIChatGenerator:
    asked_for = {"stream_options": {"include_usage": True}} if stream else None
    shown_by = print_nothing if stream else None
    return OpenAIChatGenerator(
        model="gpt-4o-mini", max_retries=0, streaming_callback=shown_by, generation_kwargs=asked_for
    )


def print_nothing(chunk: Any) -> None:
    """A caller that shows the answer as it comes."""


def turns(case: dict[str, Any]) -> list[ChatMessage]:
    make = {"user": ChatMessage.from_user, "assistant": ChatMessage.from_assistant}
    return [make[turn["role"]](turn["content"]) for turn in case["history"]]


def run_pipeline(case: dict[str, Any], *, answers: bool = False) -> None:
    searches = [one["query"] for one in case.get("searches", ())] or [case.get("search_query") or case["question"]]
    template = [ChatMessage.from_system(ROLE), *turns(case), ChatMessage.from_user(TEMPLATE)]
    data: dict[str, Any] = {"prompt_builder": {"question": case["question"], "template": template}}
    for number, query in enumerate(searches):
        data |= {f"embedder_{number}": {"text": query}, f"retriever_{number}": {"query": query}}
    if answers:
        data["answer_builder"] = {"query": case["question"]}
    pipeline(len(searches), stream=bool(case.get("stream")), answers=answers).run(data)


def kept(case: dict[str, Any]) -> list[str]:
    """The texts that the filter let through."""
    searches = [one["query"] for one in case.get("searches", ())] or [case.get("search_query") or case["question"]]
    return [hit["text"] for query in searches for hit in search(query) if hit["score"] >= ENOUGH]


def look_up(query: str) -> list[dict[str, Any]]:
    return [{"id": h["id"], "url": h["uri"], "text": h["text"]} for h in search(query)]


def in_words(query: str) -> str:
    return "\n".join(f"[{n}] {hit['text']}" for n, hit in enumerate(search(query), 1)) or "No pages found."


def function_tool(function: Any) -> Tool:
    schema = {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]}
    return Tool(name="find_help", description="Find help pages.", parameters=schema, function=function)


def run_agent(case: dict[str, Any], tool: Tool) -> None:
    agent = Agent(chat_generator=generator(stream=bool(case.get("stream"))), tools=[tool], system_prompt=ROLE)
    agent.run(messages=[*turns(case), ChatMessage.from_user(case["question"])])


for one in CASES:
    # Haystack knows no sessions: the application puts them on a span of its own.
    with tracer.start_as_current_span(
        "POST /chat", kind=trace.SpanKind.SERVER, attributes={"session.id": one["session"]}
    ) as span:
        try:
            run_pipeline(one)
        except Exception as error:  # the model refuses one of the cases
            print(type(error).__name__)
        span.set_attribute("http.response.status_code", 500 if one.get("error") else 200)
    asked(one, flavour="served_pipeline", contexts=kept(one))

run_pipeline(case("follow_up"), answers=True)
asked(case("follow_up"), flavour="answer_builder", contexts=kept(case("follow_up")), session_id=None)

page_tool = ComponentTool(component=HelpPages(), name="find_help", description="Find help pages.")
for flavour, tool, names in (
    ("component_tool", page_tool, ("plain", "two_retrievals")),
    ("function_tool", function_tool(look_up), ("streaming",)),
    ("text_tool", function_tool(in_words), ("follow_up", "empty")),
):
    for name in names:
        try:
            run_agent(case(name), tool)
        except Exception as error:
            print(type(error).__name__)
        asked(case(name), flavour=flavour, session_id=None, total_tokens=TWO_CALLS)

tracing.tracer.is_content_tracing_enabled = False
run_pipeline(case("plain"))
asked(case("plain"), flavour="without_content", status="content_missing")
run_agent(case("plain"), page_tool)
asked(case("plain"), flavour="agent_without_content", status="content_missing")
provider.shutdown()
