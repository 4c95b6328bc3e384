"""A small RAG service with real instrumentation: OpenInference attributes through the OpenTelemetry SDK."""

from __future__ import annotations

from collections.abc import Sequence

from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as GrpcExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as HttpExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter

CONTEXT = "Annual plans can be refunded in full within thirty days of purchase. Monthly plans are not refundable."
GOOD = "Annual plans can be refunded in full within thirty days of purchase."
BAD = "Every plan comes with a complimentary trip to Lisbon and lifetime insurance for three horses."


class RagService:
    """Answers questions and reports each as one trace of three spans."""

    def __init__(
        self, exporter: SpanExporter, name: str = "shop", *, processor: BatchSpanProcessor | None = None
    ) -> None:
        self.provider = TracerProvider(resource=Resource({"service.name": name}))
        self.processor = processor or BatchSpanProcessor(exporter, schedule_delay_millis=200)
        self.provider.add_span_processor(self.processor)
        self.tracer = self.provider.get_tracer("openinference.instrumentation.own", "1.0")

    @classmethod
    def over_http(cls, port: int, name: str = "shop") -> RagService:
        return cls(HttpExporter(f"http://127.0.0.1:{port}/v1/traces", timeout=60), name)

    @classmethod
    def over_grpc(cls, port: int, name: str = "shop") -> RagService:
        return cls(GrpcExporter(f"127.0.0.1:{port}", insecure=True, timeout=60), name)

    def ask(
        self, question: str = "Can I get my money back?", answer: str = GOOD, found: Sequence[str] | None = (CONTEXT,)
    ) -> str:
        """Make a request and return its trace id (hex). `found` are the documents; with None no retriever is called."""
        context = " ".join(found or ())
        with self.tracer.start_as_current_span("ask") as root:
            root.set_attributes({"openinference.span.kind": "CHAIN", "input.value": question, "output.value": answer})
            if found is not None:
                self._retrieve(question, found)
            with self.tracer.start_as_current_span("generate") as generation:
                generation.set_attributes(
                    {
                        "openinference.span.kind": "LLM",
                        "llm.model_name": "gpt-4o-mini",
                        "llm.input_messages.0.message.role": "user",
                        "llm.input_messages.0.message.content": (
                            question if found is None else f"Context: {context}\n\nQuestion: {question}"
                        ),
                        "llm.output_messages.0.message.role": "assistant",
                        "llm.output_messages.0.message.content": answer,
                    }
                )
            return f"{root.get_span_context().trace_id:032x}"

    def _retrieve(self, question: str, found: Sequence[str]) -> None:
        with self.tracer.start_as_current_span("retrieve") as retriever:
            retriever.set_attributes({"openinference.span.kind": "RETRIEVER", "input.value": question})
            if not found:
                retriever.set_attribute("output.value", "[]")
            for at, text in enumerate(found):
                retriever.set_attribute(f"retrieval.documents.{at}.document.content", text)
                retriever.set_attribute(f"retrieval.documents.{at}.document.id", "refunds")

    def flush(self) -> None:
        assert self.processor.force_flush(120_000)

    def close(self) -> None:
        self.provider.shutdown()
