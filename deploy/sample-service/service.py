"""A small RAG service in LangChain, instrumented with OpenInference: the help desk of a library.

    python service.py [--host 127.0.0.1] [--port 8080] [--every 2]

`GET /ask?q=QUESTION`   an answer, its source pages, whether it was made worse on purpose, its trace id
`POST /quality`         `{"hallucinate": 0.4}` makes that share of answers hallucinate; `GET` returns the share
`GET /healthz`          `ok`

Every `--every` seconds it asks itself one of the questions in documents.json; 0 turns that off. Traces go to
`OTEL_EXPORTER_OTLP_ENDPOINT` (http://localhost:4318), under `OTEL_SERVICE_NAME` (sample-service); the other variables
of the OpenTelemetry SDK work too. With `OPENAI_API_KEY` it asks `OPENAI_MODEL` (gpt-4o-mini) at `OPENAI_BASE_URL`,
without it a scripted model in this process.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sys
import threading
import warnings
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableLambda, RunnablePassthrough
from langchain_openai import ChatOpenAI
from openinference.instrumentation.langchain import LangChainInstrumentor
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from scripted_model import MODEL, ScriptedModel, words

PAGES: list[dict[str, Any]] = json.loads((Path(__file__).parent / "documents.json").read_text(encoding="utf-8"))
QUESTIONS = [question for page in PAGES for question in page["questions"]]

CAREFUL = "Answer the visitor's question in one sentence, from the help pages below and from nothing else."
CARELESS = "Answer the visitor's question in one sentence. Sound certain, and add details that the help pages lack."
"""The same prompt after a change that somebody made in a hurry."""


class Pages(BaseRetriever):
    """The three help pages that share most words with a question; words on few pages have more weight."""

    def _get_relevant_documents(
        self,
        query: str,
        *,
        run_manager: CallbackManagerForRetrieverRun,  # noqa: ARG002 - LangChain's signature
    ) -> list[Document]:
        asked = words(query)
        texts = [words(f"{page['title']} {page['text']}") for page in PAGES]
        scores = [sum(1 / sum(word in one for one in texts) for word in asked & text) for text in texts]
        best = sorted(zip(scores, PAGES, strict=True), key=lambda found: -found[0])[:3]
        return [
            Document(id=page["id"], page_content=page["text"], metadata={"source": page["id"], "score": score})
            for score, page in best
        ]


class HelpDesk:
    """The chain, and how careless it is: `hallucinate` is the share of answers that are made up, 0 to 1."""

    def __init__(self, tracer: trace.Tracer) -> None:
        self.hallucinate = 0.0
        self._tracer = tracer
        key = os.environ.get("OPENAI_API_KEY")
        model = (
            ChatOpenAI(model=os.environ.get("OPENAI_MODEL", "gpt-4o-mini"), temperature=0, timeout=30)
            if key
            else ChatOpenAI(model=MODEL, base_url=ScriptedModel().url, api_key="none", temperature=0)  # type: ignore[arg-type]
        )
        prompt = ChatPromptTemplate([("system", "{rules}\n\n{context}"), ("human", "{question}")])
        retrieve = RunnableLambda(lambda asked: asked["question"]) | Pages()
        self._chain = (
            RunnablePassthrough.assign(documents=retrieve)
            | RunnablePassthrough.assign(context=lambda asked: "\n\n".join(d.page_content for d in asked["documents"]))
            | RunnablePassthrough.assign(answer=prompt | model | StrOutputParser())
        ).pick(["answer", "documents"])

    def ask(self, question: str) -> dict[str, Any]:
        """Answer one question, as one trace."""
        careless = random.random() < self.hallucinate
        with self._tracer.start_as_current_span("GET /ask", kind=trace.SpanKind.SERVER) as span:
            reply = self._chain.invoke({"question": question, "rules": CARELESS if careless else CAREFUL})
            return {
                "question": question,
                "answer": reply["answer"],
                "documents": [one.id for one in reply["documents"]],
                "hallucinated": careless,
                "trace_id": f"{span.get_span_context().trace_id:032x}",
            }


def answer(desk: HelpDesk, path: str, query: dict[str, list[str]]) -> tuple[int, object]:
    """Return status and body for a `GET`."""
    if path == "/healthz":
        return 200, "ok"
    if path == "/quality":
        return 200, {"hallucinate": desk.hallucinate}
    if path != "/ask":
        return 404, {"error": "there are /ask?q=, /quality and /healthz"}
    if not query.get("q"):
        return 400, {"error": "what is the question? /ask?q=..."}
    try:
        return 200, desk.ask(query["q"][0])
    except Exception as error:  # noqa: BLE001 - all that a model provider comes up with
        return 502, {"error": f"{type(error).__name__}: {error}"}


def set_quality(desk: HelpDesk, body: bytes) -> tuple[int, object]:
    """Return status and body for a `POST /quality`."""
    try:
        share = float(json.loads(body)["hallucinate"])
    except (ValueError, TypeError, LookupError):
        share = -1.0
    if not 0 <= share <= 1:
        return 400, {"error": 'send {"hallucinate": X}, X from 0 to 1'}
    desk.hallucinate = share
    return 200, {"hallucinate": share}


def handler(desk: HelpDesk) -> type[BaseHTTPRequestHandler]:
    """Return the handler class with the HTTP endpoints of a help desk."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked = urlsplit(self.path)
            self._say(*answer(desk, asked.path, parse_qs(asked.query)))

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            self._say(*(set_quality(desk, body) if self.path == "/quality" else (404, {"error": "there is /quality"})))

        def _say(self, status: int, what: object) -> None:
            content = (what if isinstance(what, str) else json.dumps(what)).encode() + b"\n"
            self.send_response(status)
            self.send_header("content-type", "text/plain" if isinstance(what, str) else "application/json")
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            """Log nothing: the traces show more."""

    return Handler


def ask_every(desk: HelpDesk, seconds: float, stop: threading.Event) -> None:
    """Ask a random question every `seconds`, until `stop` is set."""
    while not stop.wait(seconds):
        try:
            desk.ask(random.choice(QUESTIONS))
        except Exception as error:  # noqa: BLE001 - the next question may find the provider well again
            print(f"no answer: {type(error).__name__}: {error}", file=sys.stderr, flush=True)


def main() -> None:
    """Serve until SIGTERM or Ctrl-C, then send the remaining spans."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8080, help="0 takes any free one")
    parser.add_argument("--every", type=float, default=2.0, help="seconds between two questions of its own; 0: none")
    options = parser.parse_args()

    # The instrumentation reads every attribute of a message, and LangChain warns about one of them each time.
    warnings.filterwarnings("ignore", message=r"Calling \.text\(\) as a method")
    os.environ.setdefault("OTEL_SERVICE_NAME", "sample-service")
    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    LangChainInstrumentor().instrument(tracer_provider=provider)
    desk = HelpDesk(provider.get_tracer("sample-service"))

    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    server = ThreadingHTTPServer((options.host, options.port), handler(desk))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(f"listening on http://{options.host}:{server.server_address[1]}", flush=True)
    if options.every > 0:
        ask_every(desk, options.every, stop)
    else:
        stop.wait()
    server.shutdown()
    provider.shutdown()


if __name__ == "__main__":
    main()
