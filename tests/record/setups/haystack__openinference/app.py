"""Haystack: a pipeline with an embedding retriever, one with a filter behind it, one with two searches joined."""

from __future__ import annotations

from haystack import Document, Pipeline, component
from haystack.components.builders import ChatPromptBuilder
from haystack.components.embedders import OpenAIDocumentEmbedder, OpenAITextEmbedder
from haystack.components.generators.chat import OpenAIChatGenerator
from haystack.components.joiners import DocumentJoiner
from haystack.components.retrievers.in_memory import InMemoryEmbeddingRetriever
from haystack.dataclasses import ChatMessage
from haystack.document_stores.in_memory import InMemoryDocumentStore
from library import DOCUMENTS, asked, case
from openinference.instrumentation import using_session
from openinference.instrumentation.haystack import HaystackInstrumentor
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

provider = TracerProvider()
provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
HaystackInstrumentor().instrument(tracer_provider=provider)

TEMPLATE = """Given the documents, answer the question.

Documents:
{% for document in documents %}
[{{ loop.index }}] {{ document.content }}
{% endfor %}
Question: {{ question }}
Answer:"""

store = InMemoryDocumentStore(embedding_similarity_function="cosine")
embedded = OpenAIDocumentEmbedder(progress_bar=False).run(
    [Document(id=one["id"], content=one["text"], meta={"url": one["uri"]}) for one in DOCUMENTS.values()]
)
store.write_documents(embedded["documents"])


@component
class ScoreFilter:
    """Keeps what scores at least `least`."""

    def __init__(self, least: float) -> None:
        self.least = least

    @component.output_types(documents=list[Document])
    def run(self, documents: list[Document]) -> dict:
        return {"documents": [one for one in documents if one.score >= self.least]}


def pipeline(*, searches: int = 1, least: float | None = None, stream: bool = False) -> tuple[Pipeline, str]:
    """The pipeline, and the component whose documents go into the prompt."""
    built = Pipeline()
    if searches > 1:
        built.add_component("joiner", DocumentJoiner(join_mode="concatenate", sort_by_score=False))
    for at in range(searches):
        built.add_component(f"embedder_{at}", OpenAITextEmbedder())
        built.add_component(f"retriever_{at}", InMemoryEmbeddingRetriever(store, top_k=3))
        built.connect(f"embedder_{at}.embedding", f"retriever_{at}.query_embedding")
        if searches > 1:
            built.connect(f"retriever_{at}", "joiner")
    last = "joiner" if searches > 1 else "retriever_0"
    if least is not None:
        built.add_component("filter", ScoreFilter(least))
        built.connect(last, "filter")
        last = "filter"
    built.add_component("prompt", ChatPromptBuilder(variables=["documents", "question"], required_variables="*"))
    built.add_component(
        "llm",
        OpenAIChatGenerator(model="gpt-4o-mini", max_retries=0, streaming_callback=print_chunk if stream else None),
    )
    built.connect(f"{last}.documents", "prompt.documents")
    built.connect("prompt.prompt", "llm.messages")
    return built, last


def print_chunk(chunk) -> None:
    print(chunk.content, end="", flush=True)


def ask(case: dict, **options) -> list[str]:
    """Answer, and say which texts went into the prompt."""
    queries = [one["query"] for one in case.get("searches", ())] or [case.get("search_query") or case["question"]]
    built, last = pipeline(searches=len(queries), stream=case.get("stream", False), **options)
    turns = {"user": ChatMessage.from_user, "assistant": ChatMessage.from_assistant}
    given = {f"embedder_{at}": {"text": query} for at, query in enumerate(queries)}
    given["prompt"] = {
        "question": case["question"],
        "template": [
            ChatMessage.from_system("You answer for Harbour Bikes."),
            *(turns[turn["role"]](turn["content"]) for turn in case["history"]),
            ChatMessage.from_user(TEMPLATE),
        ],
    }
    return [one.content for one in built.run(given, include_outputs_from={last})[last]["documents"]]


def run(flavour: str, name: str, **options) -> None:
    chosen, facts = case(name), {}
    with using_session(chosen["session"]):
        try:
            facts["contexts"] = ask(chosen, **options)
        except Exception as error:  # the model refuses one of the cases
            print(type(error).__name__, error)
    asked(chosen, flavour=flavour, **facts)


provider.force_flush()
run("embedding", "plain")
run("embedding", "follow_up")
run("embedding", "error")
run("embedding", "streaming")
run("joined", "two_retrievals")
run("filter", "plain", least=0.3)
run("filter", "empty", least=2.0)
provider.shutdown()
