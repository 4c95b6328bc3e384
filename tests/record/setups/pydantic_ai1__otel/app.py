"""Pydantic AI 1: an agent with a retrieval tool, in every format of that line; format 1 writes messages as events."""

from __future__ import annotations

import asyncio
import warnings
from typing import Any

from library import asked, case, search
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from pydantic_ai import Agent, InstrumentationSettings
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, SystemPromptPart, TextPart, UserPromptPart
from pydantic_ai.models.openai import OpenAIChatModel

warnings.filterwarnings("ignore", message=".*deprecated")

provider = TracerProvider()
provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
logs = LoggerProvider()
logs.add_log_record_processor(BatchLogRecordProcessor(OTLPLogExporter()))
tracer = provider.get_tracer("harbour-bikes")
model = OpenAIChatModel("gpt-4o-mini")
TWO_CALLS = 230  # tokens: the model asks for its tool, then answers
ROLE = "You help the customers of a bike rental. Answer from the help pages only."


def look_up(query: str) -> list[dict[str, Any]]:
    """Find help pages."""
    return [{"id": h["id"], "url": h["uri"], "content": h["text"], "score": h["score"]} for h in search(query)]


def ask_archive(query: str) -> str:
    """Find help pages."""
    hits = search(query)
    return "\n\n".join(f"# {h['uri']}\n{h['text']}" for h in hits) or "No results found."


def agent(tool: Any, **settings: Any) -> Agent:
    chosen = InstrumentationSettings(tracer_provider=provider, logger_provider=logs, **settings)
    return Agent(model, name="help_desk", system_prompt=ROLE, tools=[tool], instrument=chosen)


def before(case: dict[str, Any]) -> list[ModelMessage]:
    """The conversation so far, as an application keeps it."""
    turns: list[ModelMessage] = []
    for turn in case["history"]:
        if turn["role"] == "user":
            first = [] if turns else [SystemPromptPart(ROLE)]
            turns.append(ModelRequest(parts=[*first, UserPromptPart(turn["content"])]))
        else:
            turns.append(ModelResponse(parts=[TextPart(turn["content"])]))
    return turns


async def ask(helper: Agent, case: dict[str, Any], flavour: str, **facts: Any) -> None:
    options = {"message_history": before(case), "conversation_id": case["session"]}
    try:
        if case.get("stream"):
            async with helper.run_stream(case["question"], **options) as run:
                async for _ in run.stream_text(delta=True):
                    pass
        else:
            await helper.run(case["question"], **options)
    except Exception as error:  # the model refuses one of the cases
        print(type(error).__name__)
    asked(case, **{"flavour": flavour, "total_tokens": TWO_CALLS, **facts})


def one_text(name: str) -> dict[str, Any]:
    """Pages under headings in one text: one document, for nothing says where pages end."""
    found = case(name)
    return {"contexts": [ask_archive(found.get("search_query") or found["question"])]}


async def main() -> None:
    for name in ("plain", "error", "two_retrievals"):
        await ask(agent(look_up), case(name), "hits_2")
    for name in ("follow_up", "empty", "error"):
        await ask(agent(look_up, version=1), case(name), "hits_1")
    for name in ("follow_up", "streaming"):
        await ask(agent(look_up, version=1, event_mode="logs"), case(name), "logs_1")
    await ask(agent(ask_archive, version=1), case("follow_up"), "text_1", **one_text("follow_up"))
    await ask(agent(ask_archive, version=5), case("empty"), "text_5")
    await ask(agent(look_up, version=5, use_aggregated_usage_attribute_names=True), case("follow_up"), "hits_5")
    for version in (1, 2):
        helper = agent(look_up, version=version, include_content=False)
        await ask(helper, case("plain"), f"without_content_{version}", status="content_missing")
    with tracer.start_as_current_span("POST /chat", kind=trace.SpanKind.SERVER):
        await agent(look_up, version=1).run(case("plain")["question"], conversation_id=case("plain")["session"])
    asked(case("plain"), flavour="behind_http_1", total_tokens=TWO_CALLS)


asyncio.run(main())
provider.shutdown()
logs.shutdown()
