"""Traceloop's SDK around OpenAI's client: a workflow with tasks, and one with a tool.

`traceloop_sdk_040` runs this file, too.
"""

from __future__ import annotations

import asyncio
import os
from typing import Any

os.environ["TRACELOOP_TELEMETRY"] = "false"
os.environ["TRACELOOP_METRICS_ENABLED"] = "false"

from library import CASES, asked, search
from openai import OpenAI
from opentelemetry import trace
from traceloop.sdk import Traceloop
from traceloop.sdk.decorators import task, tool, workflow
from traceloop.sdk.instruments import Instruments

Traceloop.init(
    app_name=os.environ["OTEL_SERVICE_NAME"],
    api_endpoint=os.environ["OTEL_EXPORTER_OTLP_ENDPOINT"],
    telemetry_enabled=False,
    instruments={Instruments.OPENAI},
)
client = OpenAI(max_retries=0)


def queries(case: dict[str, Any]) -> list[str]:
    searches = [one["query"] for one in case.get("searches", ())]
    return searches or [case.get("search_query") or case["question"]]


def complete(question: str, history: list[dict[str, str]], texts: list[str], *, stream: bool) -> str:
    context = "\n".join(f"[{number}] {text}" for number, text in enumerate(texts, 1))
    messages = [
        {"role": "system", "content": "Answer from the context only."},
        *history,
        {"role": "user", "content": f"Context:\n{context}\n\nQuestion: {question}"},
    ]
    if not stream:
        return client.chat.completions.create(model="gpt-4o-mini", messages=messages).choices[0].message.content
    options = {"stream": True, "stream_options": {"include_usage": True}}
    chunks = client.chat.completions.create(model="gpt-4o-mini", messages=messages, **options)
    return "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)


@task(name="find_articles")
def find_articles(query: str) -> list[dict[str, Any]]:
    return search(query)


@tool(name="search_help")
def search_help(query: str) -> list[str]:
    return [hit["text"] for hit in search(query)]


@workflow(name="help_desk")
def help_desk(question: str, history: list[dict[str, str]], wanted: list[str], *, stream: bool = False) -> str:
    found = [hit for query in wanted for hit in find_articles(query)]
    return complete(question, history, [hit["text"] for hit in found], stream=stream)


@workflow(name="help_desk_tool")
def help_desk_tool(question: str, history: list[dict[str, str]], wanted: list[str], *, stream: bool = False) -> str:
    texts = [text for query in wanted for text in search_help(query)]
    return complete(question, history, texts, stream=stream)


class HelpDesk:
    """Methods: the object itself is sent as the name of its class."""

    @task(name="find")
    def find(self, query: str) -> list[dict[str, Any]]:
        return search(query)

    @workflow(name="method_desk")
    async def ask(self, question: str, history: list[dict[str, str]], wanted: list[str]) -> str:
        found = [hit for query in wanted for hit in self.find(query)]
        return complete(question, history, [hit["text"] for hit in found], stream=False)


def method_desk(question: str, history: list[dict[str, str]], wanted: list[str], **_: Any) -> str:
    return asyncio.run(HelpDesk().ask(question, history, wanted))


for flavour in (help_desk, help_desk_tool, method_desk):
    for case in CASES:
        Traceloop.set_association_properties({"session_id": case["session"]})
        try:
            flavour(case["question"], case["history"], queries(case), stream=bool(case.get("stream")))
        except Exception as error:  # the model refuses one of the cases
            print(type(error).__name__)
        asked(case, flavour=flavour.__name__)
trace.get_tracer_provider().shutdown()
