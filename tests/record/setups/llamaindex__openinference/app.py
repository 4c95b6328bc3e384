"""LlamaIndex: a query engine, a chat engine with history, postprocessors, an agent with the engine as its tool."""

from __future__ import annotations

import asyncio
import time

from library import asked, case, search
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.chat_engine import CondensePlusContextChatEngine
from llama_index.core.postprocessor import SimilarityPostprocessor
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode
from llama_index.core.tools import QueryEngineTool
from llama_index.llms.openai import OpenAI
from openinference.instrumentation import using_session
from openinference.instrumentation.llama_index import LlamaIndexInstrumentor
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor


class FirstSpan(SpanProcessor):
    """Notes the trace of a request: streaming chats may leave a second one, of the thread that keeps the history."""

    trace_id = ""

    def on_start(self, span, parent_context=None) -> None:
        self.trace_id = self.trace_id or f"{span.context.trace_id:032x}"


first_span = FirstSpan()
provider = TracerProvider()
provider.add_span_processor(first_span)
provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
LlamaIndexInstrumentor().instrument(tracer_provider=provider)

ONE_CALL, TWO_CALLS, THREE_CALLS = 115, 230, 345  # tokens
EMPTY_RESPONSE = "Empty Response"


class LibraryRetriever(BaseRetriever):
    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return [
            NodeWithScore(
                node=TextNode(id_=hit["id"], text=hit["text"], metadata={"uri": hit["uri"]}), score=hit["score"]
            )
            for hit in search(query_bundle.query_str)
        ]


class SubQueryRetriever(BaseRetriever):
    """A retriever around another: one search for each part of the question."""

    def __init__(self, inner: BaseRetriever) -> None:
        self.inner = inner
        super().__init__()

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        parts = case("two_retrievals")["searches"]
        return [node for part in parts for node in self.inner.retrieve(part["query"])]


class LastFirst(BaseNodePostprocessor):
    """Reverses the order, as rerankers may."""

    def _postprocess_nodes(self, nodes, query_bundle=None) -> list[NodeWithScore]:
        return nodes[::-1]


llm = OpenAI(model="gpt-4o-mini", max_retries=0)
retriever = LibraryRetriever()
loop = asyncio.new_event_loop()


def query_engine(retriever=retriever, **options) -> RetrieverQueryEngine:
    return RetrieverQueryEngine.from_args(retriever, llm=llm, **options)


def ask(engine, case: dict) -> None:
    answer = engine.query(case["question"])
    for _ in getattr(answer, "response_gen", ()):
        pass


def turns(case: dict) -> list[ChatMessage]:
    return [ChatMessage(role=turn["role"], content=turn["content"]) for turn in case["history"]]


def chat(case: dict) -> None:
    engine = CondensePlusContextChatEngine.from_defaults(retriever, llm=llm, chat_history=turns(case))
    if case.get("stream"):
        for _ in engine.stream_chat(case["question"]).response_gen:
            pass
    else:
        engine.chat(case["question"])


def agent(case: dict) -> None:
    tool = QueryEngineTool.from_defaults(query_engine(), name="search_help", description="Answers from the help pages.")
    runner = FunctionAgent(tools=[tool], llm=llm, system_prompt="Answer from what search_help says.", streaming=False)
    loop.run_until_complete(run_agent(runner, case))


async def run_agent(runner: FunctionAgent, case: dict) -> None:
    await runner.run(case["question"], chat_history=turns(case) or None)


def run(flavour: str, function, name: str, **facts) -> None:
    chosen = case(name)
    first_span.trace_id = ""
    with using_session(chosen["session"]):
        try:
            function(chosen)
        except Exception as error:  # the model refuses one of the cases
            print(type(error).__name__, error)
    time.sleep(0.3)
    provider.force_flush()
    asked(chosen, flavour=flavour, trace_id=first_span.trace_id, **facts)


def texts(name: str) -> list[str]:
    parts = case(name).get("searches") or [{"query": case(name)["question"]}]
    return [hit["text"] for part in parts for hit in search(part["query"])]


engine = query_engine()
run("query_engine", lambda one: ask(engine, one), "plain")
run("query_engine", lambda one: ask(engine, one), "empty", answer=EMPTY_RESPONSE, total_tokens=None)
run("query_engine", lambda one: ask(engine, one), "error")
run("query_engine", lambda one: ask(query_engine(streaming=True), one), "streaming")

run("chat_engine", chat, "follow_up", total_tokens=TWO_CALLS)
run("chat_engine", chat, "streaming")

high = query_engine(node_postprocessors=[SimilarityPostprocessor(similarity_cutoff=0.95)])
run("all_cut_off", lambda one: ask(high, one), "plain", contexts=[], answer=EMPTY_RESPONSE, total_tokens=None)
cut = query_engine(
    SubQueryRetriever(retriever), node_postprocessors=[SimilarityPostprocessor(similarity_cutoff=0.8), LastFirst()]
)
run("reranked", lambda one: ask(cut, one), "two_retrievals", contexts=texts("two_retrievals")[1::-1])

run("agent", agent, "follow_up", total_tokens=THREE_CALLS)
provider.shutdown()
