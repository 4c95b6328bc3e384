"""OpenAI's client behind hand-written spans of OpenInference: its helpers, its decorators, and with a reranker."""

from __future__ import annotations

import json

from library import CASES, asked, case, search
from openai import OpenAI
from openinference.instrumentation import (
    OITracer,
    TraceConfig,
    TracerProvider,
    get_reranker_attributes,
    get_retriever_attributes,
    using_session,
)
from openinference.instrumentation.openai import OpenAIInstrumentor
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace.export import BatchSpanProcessor

provider = TracerProvider()
provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
OpenAIInstrumentor().instrument(tracer_provider=provider)
tracer = OITracer(provider.get_tracer("app"), TraceConfig())
client = OpenAI(max_retries=0)


def queries(case: dict) -> list[str]:
    return [one["query"] for one in case.get("searches", ())] or [case.get("search_query") or case["question"]]


def documents(hits: list[dict]) -> list[dict]:
    return [{"content": h["text"], "id": h["id"], "score": h["score"], "metadata": {"uri": h["uri"]}} for h in hits]


def generate(question: str, history: list[dict], found: list[dict], *, stream: bool = False) -> str:
    context = "\n".join(f"[{n}] {hit['text']}" for n, hit in enumerate(found, 1))
    messages = [
        {"role": "system", "content": "Answer from the context only."},
        *history,
        {"role": "user", "content": f"Context:\n{context}\n\nQuestion: {question}"},
    ]
    if not stream:
        return client.chat.completions.create(model="gpt-4o-mini", messages=messages).choices[0].message.content
    chunks = client.chat.completions.create(model="gpt-4o-mini", messages=messages, stream=True)
    return "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)


def helper(case: dict) -> None:
    with tracer.start_as_current_span("ask", openinference_span_kind="chain") as root:
        root.set_input(
            {"question": case["question"], "chat_history": case["history"]} if case["history"] else case["question"]
        )
        found = []
        for query in queries(case):
            with tracer.start_as_current_span("retrieve", openinference_span_kind="retriever") as span:
                span.set_input(query)
                hits = search(query)
                span.set_attributes(get_retriever_attributes(documents=documents(hits)))
                found += hits
        root.set_output(generate(case["question"], case["history"], found, stream=case.get("stream", False)))


def retrieve(query: str) -> list[dict]:
    """A retriever that writes the keys of the specification itself."""
    with tracer.start_as_current_span("retrieve") as span:
        span.set_attribute("openinference.span.kind", "RETRIEVER")
        span.set_attribute("input.value", query)
        hits = search(query)
        for n, hit in enumerate(hits):
            span.set_attribute(f"retrieval.documents.{n}.document.id", hit["id"])
            span.set_attribute(f"retrieval.documents.{n}.document.content", hit["text"])
            span.set_attribute(f"retrieval.documents.{n}.document.score", hit["score"])
            span.set_attribute(f"retrieval.documents.{n}.document.metadata", json.dumps({"uri": hit["uri"]}))
        span.set_attribute("output.value", json.dumps([hit["id"] for hit in hits]))
        span.set_attribute("output.mime_type", "application/json")
        return hits


@tracer.chain
def ask(question: str, chat_history: list[dict], searches: list[str], stream: bool = False) -> str:
    found = [hit for query in searches for hit in retrieve(query)]
    return generate(question, chat_history, found, stream=stream)


def decorator(case: dict) -> None:
    ask(case["question"], case["history"], queries(case), stream=case.get("stream", False))


def rerank(case: dict) -> None:
    """Candidates of all searches, of which a reranker keeps the best two, best first."""
    with tracer.start_as_current_span("ask", openinference_span_kind="chain") as root:
        root.set_input(case["question"])
        found = []
        for query in queries(case):
            with tracer.start_as_current_span("retrieve", openinference_span_kind="retriever") as span:
                span.set_input(query)
                hits = search(query)
                span.set_attributes(get_retriever_attributes(documents=documents(hits)))
                found += hits
        with tracer.start_as_current_span("rerank", openinference_span_kind="reranker") as span:
            kept = found[::-1][:2]
            span.set_attributes(
                get_reranker_attributes(
                    query=case["question"],
                    model_name="best-first-1",
                    input_documents=documents(found),
                    output_documents=documents(kept),
                    top_k=2,
                )
            )
        root.set_output(generate(case["question"], case["history"], kept))


def run(flavour, case: dict, **facts) -> None:
    with using_session(case["session"]):
        try:
            flavour(case)
        except Exception as error:  # the model refuses one of the cases
            print(type(error).__name__)
    asked(case, flavour=flavour.__name__, **facts)


for each in CASES:
    run(helper, each)
    run(decorator, each)
for name in ("follow_up", "empty", "two_retrievals"):
    chosen = case(name)
    hits = [hit for query in queries(chosen) for hit in search(query)]
    run(rerank, chosen, contexts=[hit["text"] for hit in hits[::-1][:2]])
provider.shutdown()
