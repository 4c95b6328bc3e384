"""OpenAI's client behind hand-written spans of OpenInference: the helpers of its instrumentation package."""

from __future__ import annotations

from library import CASES, asked, search
from openai import OpenAI
from openinference.instrumentation import OITracer, TraceConfig, TracerProvider, get_retriever_attributes, using_session
from openinference.instrumentation.openai import OpenAIInstrumentor
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace.export import BatchSpanProcessor

provider = TracerProvider()
provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
OpenAIInstrumentor().instrument(tracer_provider=provider)
tracer = OITracer(provider.get_tracer("app"), TraceConfig())
client = OpenAI(max_retries=0)


def answer(case: dict) -> None:
    with tracer.start_as_current_span("ask", openinference_span_kind="chain") as root:
        root.set_input(case["question"])
        found = []
        for one in case.get("searches") or [{"query": case.get("search_query") or case["question"]}]:
            with tracer.start_as_current_span("retrieve", openinference_span_kind="retriever") as span:
                span.set_input(one["query"])
                hits = search(one["query"])
                span.set_attributes(
                    get_retriever_attributes(
                        documents=[{"content": h["text"], "id": h["id"], "score": h["score"]} for h in hits]
                    )
                )
                found += hits
        context = "\n".join(f"[{n}] {hit['text']}" for n, hit in enumerate(found, 1))
        messages = [
            {"role": "system", "content": "Answer from the context only."},
            *case["history"],
            {"role": "user", "content": f"Context:\n{context}\n\nQuestion: {case['question']}"},
        ]
        completion = client.chat.completions.create(model="gpt-4o-mini", messages=messages)
        root.set_output(completion.choices[0].message.content)


for case in CASES:
    with using_session(case["session"]):
        try:
            answer(case)
        except Exception as error:  # the model refuses one of the cases
            print(type(error).__name__)
    asked(case, flavour="helper")
provider.shutdown()
