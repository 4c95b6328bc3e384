"""Sixty documents a request over the standard TracerProvider of the SDK, which keeps 128 attributes of a span."""

from __future__ import annotations

import json

from library import asked, case, search
from openai import OpenAI
from openinference.instrumentation import OITracer, TraceConfig, get_retriever_attributes, using_session
from openinference.instrumentation.openai import OpenAIInstrumentor
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

MANY = 60
NUMBERED = "Context:\n{context}\n\nQuestion: {question}"
UNMARKED = "{context}\n\n{question}"

provider = TracerProvider()
provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
OpenAIInstrumentor().instrument(tracer_provider=provider)
plain_tracer = provider.get_tracer("app")
tracer = OITracer(plain_tracer, TraceConfig())
client = OpenAI(max_retries=0)


def search_many(query: str) -> list[dict]:
    """What the library finds, padded out with short notes as a real store would pad a search for sixty hits."""
    hits = search(query)
    notes = [
        {"id": f"note-{n}", "uri": f"kb://notes/{n}", "text": f"Note {n}: bike {n} was serviced.", "score": 0.1}
        for n in range(MANY)
    ]
    return [*hits, *notes[len(hits) :]] if hits else []


def helper(query: str) -> list[dict]:
    """The helpers set the kind of the span when it ends, so it is never among what is dropped."""
    with tracer.start_as_current_span("retrieve", openinference_span_kind="retriever") as span:
        span.set_input(query)
        hits = search_many(query)
        found = [
            {"content": h["text"], "id": h["id"], "score": h["score"], "metadata": {"uri": h["uri"]}} for h in hits
        ]
        span.set_attributes(get_retriever_attributes(documents=found))
        return hits


def raw(query: str) -> list[dict]:
    """Keys set by hand, the kind of the span first: it is the first to be dropped."""
    with plain_tracer.start_as_current_span("retrieve") as span:
        span.set_attribute("openinference.span.kind", "RETRIEVER")
        span.set_attribute("input.value", query)
        hits = search_many(query)
        for n, hit in enumerate(hits):
            span.set_attribute(f"retrieval.documents.{n}.document.id", hit["id"])
            span.set_attribute(f"retrieval.documents.{n}.document.content", hit["text"])
            span.set_attribute(f"retrieval.documents.{n}.document.metadata", json.dumps({"uri": hit["uri"]}))
        return hits


def answer(case: dict, retrieve, template: str, row: str) -> list[dict]:
    with tracer.start_as_current_span("ask", openinference_span_kind="chain") as root:
        root.set_input(case["question"])
        found = retrieve(case.get("search_query") or case["question"])
        context = "\n".join(row.format(n=n, text=hit["text"]) for n, hit in enumerate(found, 1))
        messages = [
            {"role": "system", "content": "Answer from the context only."},
            *case["history"],
            {"role": "user", "content": template.format(context=context, question=case["question"])},
        ]
        completion = client.chat.completions.create(model="gpt-4o-mini", messages=messages)
        root.set_output(completion.choices[0].message.content)
        return found


def run(name: str, flavour: str, retrieve, template: str = NUMBERED, row: str = "[{n}] {text}", **facts) -> None:
    chosen = case(name)
    with using_session(chosen["session"]):
        found = answer(chosen, retrieve, template, row)
    asked(chosen, flavour=flavour, contexts=[hit["text"] for hit in found], **facts)


for each in ("plain", "follow_up", "empty"):
    run(each, "helper", helper)
run("plain", "raw", raw)
# Neither the spans nor the prompt say any more which sixty texts were given.
run("plain", "unmarked", helper, UNMARKED, "{text}", status="not_recorded")
run("plain", "raw_unmarked", raw, UNMARKED, "{text}", status="not_recorded")
provider.shutdown()
