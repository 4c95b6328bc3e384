"""Pydantic AI 2: an agent whose tool looks things up, in every instrumentation format; also without a tool at all."""

from __future__ import annotations

import asyncio
import warnings
from dataclasses import dataclass
from typing import Any

from library import CASES, asked, case, search
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from pydantic_ai import Agent, InstrumentationSettings, RunContext
from pydantic_ai.capabilities import Instrumentation
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, TextPart, UserPromptPart
from pydantic_ai.models.openai import OpenAIChatModel

warnings.filterwarnings("ignore", message="Instrumentation format versions")

provider = TracerProvider()
provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
trace.set_tracer_provider(provider)
tracer = trace.get_tracer("harbour-bikes")
model = OpenAIChatModel("gpt-4o-mini")
TWO_CALLS = 230  # tokens: the model asks for its tool, then answers
ROLE = "You help the customers of a bike rental. Answer from the help pages only."


@dataclass
class Page:
    """A hit, as an application has it."""

    doc_id: str
    title: str
    body: str
    relevance: float


def look_up(query: str) -> list[dict[str, Any]]:
    """Find help pages.

    Args:
        query: What to look for.
    """
    return [{"id": h["id"], "url": h["uri"], "content": h["text"], "score": h["score"]} for h in search(query)]


def browse_manual(query: str) -> list[Page]:
    """Find help pages."""
    return [Page(h["id"], h["uri"], h["text"], h["score"]) for h in search(query)]


def ask_archive(query: str) -> str:
    """Find help pages."""
    hits = search(query)
    return "\n\n".join(f"[{n}] {h['text']}" for n, h in enumerate(hits, 1)) or "No matching help pages were found."


def fetch_help(query: str) -> str | None:
    """Find help pages, all in one text."""
    return "\n\n".join(h["text"] for h in search(query)) or None


def agent(tool: Any, **settings: Any) -> Agent:
    # The tools' schemas are long, and say nothing of what was asked.
    chosen = InstrumentationSettings(include_model_request_parameters=False, **settings)
    instrumentation = Instrumentation(settings=chosen)
    return Agent(model, name="help_desk", instructions=ROLE, tools=[tool], capabilities=[instrumentation])


def before(case: dict[str, Any]) -> list[ModelMessage]:
    """The conversation so far, as an application keeps it."""
    turns: list[ModelMessage] = []
    for turn in case["history"]:
        if turn["role"] == "user":
            turns.append(ModelRequest(parts=[UserPromptPart(turn["content"])]))
        else:
            turns.append(ModelResponse(parts=[TextPart(turn["content"])]))
    return turns


async def answer(helper: Agent, case: dict[str, Any], **also: Any) -> None:
    options = {"message_history": before(case), "conversation_id": case["session"], **also}
    if case.get("stream"):
        async with helper.run_stream(case["question"], **options) as run:
            async for _ in run.stream_text(delta=True):
                pass
    else:
        await helper.run(case["question"], **options)


async def ask(helper: Agent, case: dict[str, Any], flavour: str, **facts: Any) -> None:
    try:
        await answer(helper, case)
    except Exception as error:  # the model refuses one of the cases
        print(type(error).__name__)
    asked(case, **{"flavour": flavour, "total_tokens": TWO_CALLS, **facts})


async def behind_http(helper: Agent, case: dict[str, Any]) -> None:
    """The run is one part of what a server does for a request."""
    tags = {"http.request.method": "POST", "url.path": "/chat", "http.route": "/chat"}
    with tracer.start_as_current_span("POST /chat", kind=trace.SpanKind.SERVER, attributes=tags) as span:
        with tracer.start_as_current_span("load profile", attributes={"customer.tier": "gold"}):
            pass
        with tracer.start_as_current_span("answer question", attributes={"input": case["session"], "output": "200 OK"}):
            await answer(helper, case)
        span.set_attribute("http.response.status_code", 200)
    asked(case, flavour="behind_http", total_tokens=TWO_CALLS)


async def in_instructions(case: dict[str, Any]) -> None:
    """Without a tool: what was found beforehand stands in the instructions."""
    settings = InstrumentationSettings()
    helper = Agent(model, name="help_desk", deps_type=list, capabilities=[Instrumentation(settings=settings)])

    @helper.instructions
    def found(context: RunContext[list[dict[str, Any]]]) -> str:
        pages = "\n".join(f"[{n}] {hit['text']}" for n, hit in enumerate(context.deps, 1))
        return f"{ROLE}\n\nContext:\n{pages}"

    await answer(helper, case, deps=search(case.get("search_query") or case["question"]))
    asked(case, flavour="in_instructions")


async def main() -> None:
    for one in CASES:
        await ask(agent(look_up), one, "hits")
    for name in ("plain", "empty"):
        await ask(agent(ask_archive, version=6), case(name), "text_6")
    await ask(agent(look_up, version=6), case("follow_up"), "hits_6")
    await ask(agent(browse_manual, version=4), case("two_retrievals"), "dataclasses_4")
    for name in ("follow_up", "empty"):
        await ask(agent(fetch_help, version=3), case(name), "bare_text_3", **bare(name))
    await ask(agent(look_up, version=2), case("plain"), "hits_2")
    for version in (5, 2):
        helper = agent(look_up, version=version, include_content=False)
        await ask(helper, case("plain"), f"without_content_{version}", status="content_missing")
    await behind_http(agent(look_up), case("follow_up"))
    await in_instructions(case("follow_up"))


def bare(name: str) -> dict[str, Any]:
    """One text without any mark between the pages that it is made of: one document."""
    found = case(name)
    texts = [hit["text"] for hit in search(found.get("search_query") or found["question"])]
    return {"contexts": ["\n\n".join(texts)] if texts else []}


asyncio.run(main())
provider.shutdown()
