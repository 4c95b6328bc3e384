"""OpenAI's client under OpenTelemetry's GenAI instrumentation: spans by hand, by util-genai, and none around the call.

`CONTENT` says where texts go, `FLAVOURS` which ways are recorded; the other set-ups of this family run this file, too.
"""

from __future__ import annotations

import json
import os
from typing import Any

CONTENT = os.environ.setdefault("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "SPAN_ONLY")
CUT = "OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT" in os.environ
FLAVOURS = os.environ.get("FLAVOURS", "manual util_genai bare").split()

from library import CASES, asked, search
from openai import OpenAI
from opentelemetry import _logs, trace
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.instrumentation.genai.openai import OpenAIInstrumentor
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.util.genai.handler import TelemetryHandler
from opentelemetry.util.genai.types import InputMessage, OutputMessage, RetrievalDocument, TextPart

traces, logs = TracerProvider(), LoggerProvider()
traces.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
logs.add_log_record_processor(BatchLogRecordProcessor(OTLPLogExporter()))
trace.set_tracer_provider(traces)
_logs.set_logger_provider(logs)
OpenAIInstrumentor().instrument()
client = OpenAI(max_retries=0)
tracer, handler = trace.get_tracer("app"), TelemetryHandler()


def complete(case: dict[str, Any], found: list[dict[str, Any]]) -> str:
    context = "\n".join(f"[{number}] {hit['text']}" for number, hit in enumerate(found, 1))
    messages = [
        {"role": "system", "content": "Answer from the context only."},
        *case["history"],
        {"role": "user", "content": f"Context:\n{context}\n\nQuestion: {case['question']}"},
    ]
    if not case.get("stream"):
        return client.chat.completions.create(model="gpt-4o-mini", messages=messages).choices[0].message.content
    options = {"stream": True, "stream_options": {"include_usage": True}}
    chunks = client.chat.completions.create(model="gpt-4o-mini", messages=messages, **options)
    return "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)


def queries(case: dict[str, Any]) -> list[str]:
    searches = [one["query"] for one in case.get("searches", ())]
    return searches or [case.get("search_query") or case["question"]]


def manual(case: dict[str, Any]) -> None:
    """A web request, and a retrieval written by hand with the texts of what it found."""
    told = {"http.request.method": "POST", "url.path": "/ask", "gen_ai.conversation.id": case["session"]}
    with tracer.start_as_current_span("POST /ask", kind=trace.SpanKind.SERVER, attributes=told):
        found = []
        for query in queries(case):
            with tracer.start_as_current_span("retrieval help", kind=trace.SpanKind.CLIENT) as span:
                hits = search(query)
                documents = [{"id": hit["id"], "score": hit["score"], "content": hit["text"]} for hit in hits]
                span.set_attribute("gen_ai.operation.name", "retrieval")
                span.set_attribute("gen_ai.data_source.id", "help")
                span.set_attribute("gen_ai.retrieval.query.text", query)
                span.set_attribute("gen_ai.retrieval.documents", json.dumps(documents))
                found += hits
        complete(case, found)


def util_genai(case: dict[str, Any]) -> None:
    """OpenTelemetry's own handler: of a document it sends the id and the score, never the text."""
    with handler.workflow("help", conversation_id=case["session"]) as workflow:
        turns = [*case["history"], {"role": "user", "content": case["question"]}]
        workflow.input_messages = [InputMessage(turn["role"], [TextPart(turn["content"])]) for turn in turns]
        found = []
        for query in queries(case):
            with handler.retrieval(data_source_id="help", provider="qdrant") as retrieval:
                hits = search(query)
                retrieval.query_text = query
                retrieval.documents = [RetrievalDocument(id=hit["id"], score=hit["score"]) for hit in hits]
                found += hits
        answer = complete(case, found)
        workflow.output_messages = [OutputMessage("assistant", [TextPart(answer)], finish_reason="stop")]


def bare(case: dict[str, Any]) -> None:
    """Nothing but the instrumented client: the call of the model is the whole trace."""
    complete(case, [hit for query in queries(case) for hit in search(query)])


for flavour in FLAVOURS:
    for case in CASES:
        try:
            globals()[flavour](case)
        except Exception as error:  # the model refuses one of the cases
            print(type(error).__name__)
        facts: dict[str, Any] = {"flavour": flavour}
        if flavour == "bare":
            facts["session_id"] = None
        if not case.get("error") and (CONTENT == "NO_CONTENT" or (CUT and case["documents"])):
            asked_whole = CONTENT == "SPAN_AND_EVENT" and flavour == "util_genai" and not case["history"]
            facts["status"] = "not_recorded" if asked_whole else "content_missing"
        asked(case, **facts)
traces.shutdown()
logs.shutdown()
