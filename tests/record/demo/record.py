"""Run one small RAG service, instrumented by OpenInference, and keep the bodies of the OTLP requests it really sends.

    python record.py langchain supported traffic/

answers every question of `dialogues.py` once and writes `acme-support.supported.pb.gz`. See README.md.
"""

from __future__ import annotations

import argparse
import gzip
import math
import re
import threading
from collections import Counter
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from dialogues import DIALOGUES
from knowledge import DOCUMENTS
from openinference.instrumentation import using_session
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

TOP = 3
SYSTEM = (
    "You are the help desk of Acme. Answer in one or two sentences and only from the pages below. "
    "If they do not hold the answer, say so.\n\n{context}"
)
Ask = Callable[[str], str]


class Capture:
    """An OTLP/HTTP endpoint on loopback that keeps every body it is sent."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        bodies = self.bodies

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                bodies.append(gzip.decompress(body) if self.headers.get("content-encoding") == "gzip" else body)
                self.send_response(200)
                self.send_header("content-type", "application/x-protobuf")
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        self.endpoint = f"http://127.0.0.1:{self._server.server_address[1]}/v1/traces"


def search(question: str) -> list[tuple[str, str, float]]:
    """The best pages for a question by inverse document frequency: (path, text, score)."""

    def words(text: str) -> set[str]:
        return {word[:5] for word in re.findall(r"\w+", text.lower())}

    frequency = Counter(word for text in DOCUMENTS.values() for word in words(text))
    asked = words(question)

    def score(text: str) -> float:
        return sum(math.log(len(DOCUMENTS) / frequency[word]) for word in asked & words(text))

    ranked = sorted(DOCUMENTS.items(), key=lambda item: (-score(item[1]), item[0]))
    return [(path, text, round(score(text), 3)) for path, text in ranked[:TOP]]


def scripted(kind: str) -> Callable[[str], str]:
    """The model's answer, looked up by the question that stands in its prompt."""

    def answer(prompt: str) -> str:
        asked = max((d for d in DIALOGUES if d.question in prompt), key=lambda d: len(d.question))
        return asked.supported if kind == "supported" else asked.unsupported

    return answer


def langchain_service(answer: Callable[[str], str], provider: TracerProvider) -> Ask:
    """Retriever, prompt and chat model as one LangChain runnable."""
    from langchain_core.callbacks import CallbackManagerForRetrieverRun
    from langchain_core.documents import Document
    from langchain_core.language_models.chat_models import BaseChatModel
    from langchain_core.messages import AIMessage, BaseMessage
    from langchain_core.output_parsers import StrOutputParser
    from langchain_core.outputs import ChatGeneration, ChatResult
    from langchain_core.prompts import ChatPromptTemplate
    from langchain_core.retrievers import BaseRetriever
    from langchain_core.runnables import RunnablePassthrough
    from openinference.instrumentation.langchain import LangChainInstrumentor

    class HelpPages(BaseRetriever):
        def _get_relevant_documents(self, query: str, *, run_manager: CallbackManagerForRetrieverRun) -> list[Document]:
            return [
                Document(text, metadata={"source": f"help/{path}", "score": score})
                for path, text, score in search(query)
            ]

    class ScriptedChat(BaseChatModel):
        model: str = "acme-chat-small"

        @property
        def _llm_type(self) -> str:
            return "scripted"

        @property
        def _identifying_params(self) -> dict[str, Any]:
            return {"model": self.model}

        def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
            text = answer(str(messages[-1].content))
            tokens_in, tokens_out = sum(len(str(m.content)) for m in messages) // 4, len(text) // 4
            message = AIMessage(
                text,
                response_metadata={"model_name": self.model},
                usage_metadata={
                    "input_tokens": tokens_in,
                    "output_tokens": tokens_out,
                    "total_tokens": tokens_in + tokens_out,
                },
            )
            return ChatResult(generations=[ChatGeneration(message=message)])

    LangChainInstrumentor().instrument(tracer_provider=provider)
    prompt = ChatPromptTemplate.from_messages([("system", SYSTEM), ("human", "{question}")])

    def pages(documents: list[Document]) -> str:
        return "\n\n".join(document.page_content for document in documents)

    chain = (
        {"context": HelpPages() | pages, "question": RunnablePassthrough()}
        | prompt
        | ScriptedChat()
        | StrOutputParser()
    )
    return chain.invoke


def llamaindex_service(answer: Callable[[str], str], provider: TracerProvider) -> Ask:
    """Retriever and scripted model as one LlamaIndex query engine."""
    from llama_index.core import Settings
    from llama_index.core.llms import CompletionResponse, CustomLLM, LLMMetadata
    from llama_index.core.query_engine import RetrieverQueryEngine
    from llama_index.core.response_synthesizers import get_response_synthesizer
    from llama_index.core.retrievers import BaseRetriever
    from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode
    from openinference.instrumentation.llama_index import LlamaIndexInstrumentor

    class HelpPages(BaseRetriever):
        def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
            return [
                NodeWithScore(node=TextNode(text=text, id_=path, metadata={"source": f"help/{path}"}), score=score)
                for path, text, score in search(query_bundle.query_str)
            ]

    class ScriptedLLM(CustomLLM):
        @property
        def metadata(self) -> LLMMetadata:
            return LLMMetadata(model_name="acme-chat-large", is_chat_model=False)

        def complete(self, prompt: str, formatted: bool = False, **_: Any) -> CompletionResponse:
            return CompletionResponse(text=answer(prompt))

        def stream_complete(self, prompt: str, formatted: bool = False, **_: Any) -> Any:
            raise NotImplementedError

    LlamaIndexInstrumentor().instrument(tracer_provider=provider)
    Settings.llm = ScriptedLLM()
    engine = RetrieverQueryEngine(
        retriever=HelpPages(), response_synthesizer=get_response_synthesizer(llm=ScriptedLLM())
    )
    return lambda question: str(engine.query(question))


SERVICES = {"langchain": ("acme-support", langchain_service), "llamaindex": ("acme-docs", llamaindex_service)}


def main() -> None:
    """Answer all questions once and write the bodies, concatenated: that is one valid `ExportTraceServiceRequest`."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("framework", choices=sorted(SERVICES))
    parser.add_argument("answers", choices=["supported", "unsupported"])
    parser.add_argument("folder", type=Path)
    chosen = parser.parse_args()
    app, service = SERVICES[chosen.framework]

    capture = Capture()
    provider = TracerProvider(resource=Resource.create({"service.name": app, "service.version": "2.3.0"}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(capture.endpoint)))
    ask = service(scripted(chosen.answers), provider)
    for number, dialogue in enumerate(DIALOGUES):
        with using_session(f"session-{number // 3:03d}"):
            ask(dialogue.question)
    provider.shutdown()

    body = b"".join(capture.bodies)
    target = chosen.folder / f"{app}.{chosen.answers}.pb.gz"
    target.write_bytes(gzip.compress(body, 9, mtime=0))
    print(f"{target.name}: {len(capture.bodies)} requests, {len(body)} bytes, {target.stat().st_size} compressed")


if __name__ == "__main__":
    main()
