"""Makes RAG traces of realistic length from recorded texts, encoded as senders encode them.

A trace has six spans with OpenInference attributes, about 14.7 kB: five documents of 800 characters, a prompt with all
of them, an answer of 600 that repeats pieces of the documents. The words, and mostly which word follows which, are
those of the texts in `tests/data`; the order is drawn. No two answers are the same, while documents recur, as in a real
service.
"""

from __future__ import annotations

import base64
import gzip
import itertools
import json
import random
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from google.protobuf.json_format import MessageToDict
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

SPANS_IN_TRACE: Final = 6
_DATA: Final = Path(__file__).parents[1] / "tests" / "data"
_DOCUMENTS, _DOCUMENT, _ANSWER, _QUESTION = 400, 800, 600, 70
_STRAY: Final = 0.45
"""How often a word is followed by one that never followed it there: texts then compress like real ones, to 2/5."""

_NOW: Final = 1_790_000_000_000_000_000
_IDS: Final = {"traceId", "spanId", "parentSpanId"}


class RagTrace(NamedTuple):
    """One request: its trace id, the question, the documents and the answer."""

    trace_id: bytes
    question: str
    documents: list[str]
    answer: str


def _recorded() -> list[str]:
    """Return the questions, documents and answers of the recorded applications and of the labelled sample."""
    found: dict[str, None] = {}

    def walk(value: object) -> None:
        if isinstance(value, str) and value.isascii() and value.count(" ") > 3:
            found[value] = None
        for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
            walk(inner)

    for path in sorted((_DATA / "recorded").glob("*/expected.json")):
        walk(json.loads(path.read_text()))
    for line in (_DATA / "labelled_sample.jsonl").read_text().splitlines():
        walk(json.loads(line))
    return list(found)


class Service:
    """A RAG service with its own documents; `trace` returns its next trace. The same seed gives the same traces."""

    def __init__(self, seed: int = 7) -> None:
        self._draw = random.Random(seed)
        self._follows: dict[str, list[str]] = defaultdict(list)
        for text in _recorded():
            words = text.split()
            for word, following in itertools.pairwise(words):
                self._follows[word].append(following)
        self._words = list(self._follows)
        self._documents = [self._text(_DOCUMENT) for _ in range(_DOCUMENTS)]

    def _text(self, size: int) -> str:
        words: list[str] = []
        length, word = 0, ""
        while length < size:
            strays = self._draw.random() < _STRAY or word not in self._follows
            word = self._draw.choice(self._words if strays else self._follows[word])
            words.append(word)
            length += len(word) + 1
        return " ".join(words)[:size]

    def trace(self) -> RagTrace:
        """Return the next trace."""
        draw = self._draw
        documents = draw.sample(self._documents, 5)
        starts = ((one, draw.randrange(_DOCUMENT - 160)) for one in documents[:3])
        quoted = " ".join(one[start : start + 150] for one, start in starts)
        return RagTrace(
            draw.randbytes(16), self._text(_QUESTION), documents, f"{quoted} {self._text(_ANSWER)}"[:_ANSWER]
        )

    def requests(self, traces: int, batch: int, app: str = "bench") -> Iterator[ExportTraceServiceRequest]:
        """Yield export requests of `batch` spans each, which together contain `traces` whole traces, in order."""
        spans: list[tuple[RagTrace, int]] = []
        for number in range(traces):
            made = self.trace()
            spans += ((made, place) for place in range(SPANS_IN_TRACE))
            while len(spans) >= batch or (spans and number == traces - 1):
                yield _request(spans[:batch], app)
                del spans[:batch]


def _request(spans: list[tuple[RagTrace, int]], app: str) -> ExportTraceServiceRequest:
    request = ExportTraceServiceRequest()
    group = request.resource_spans.add()
    for key, value in (
        ("service.name", app),
        ("service.version", "1.4.2"),
        ("telemetry.sdk.language", "python"),
        ("telemetry.sdk.name", "opentelemetry"),
        ("telemetry.sdk.version", "1.45.0"),
    ):
        group.resource.attributes.add(key=key).value.string_value = value
    scoped = group.scope_spans.add()
    scoped.scope.name, scoped.scope.version = "openinference.instrumentation.langchain", "0.1.60"
    for trace, place in spans:
        _add_span(scoped.spans, trace, place)
    return request


_STEPS: Final = (
    ("RunnableSequence", "CHAIN"),
    ("Retriever", "RETRIEVER"),
    ("Embeddings", "EMBEDDING"),
    ("format_documents", "CHAIN"),
    ("ChatOpenAI", "LLM"),
    ("StrOutputParser", "CHAIN"),
)


def _add_span(spans: Any, trace: RagTrace, place: int) -> None:
    name, kind = _STEPS[place]
    ids = [trace.trace_id[:7] + bytes([number + 1]) for number in range(SPANS_IN_TRACE)]
    start = _NOW + place * 1_000_000
    span = spans.add(
        trace_id=trace.trace_id,
        span_id=ids[place],
        parent_span_id=b"" if place == 0 else ids[0],
        name=name,
        kind=1,
        start_time_unix_nano=start,
        end_time_unix_nano=_NOW + 900_000_000 if place == 0 else start + 900_000,
    )
    span.status.code = 1

    def put(key: str, value: str | float) -> None:
        held = span.attributes.add(key=key).value
        if isinstance(value, str):
            held.string_value = value
        elif isinstance(value, int):
            held.int_value = value
        else:
            held.double_value = value

    put("openinference.span.kind", kind)
    prompt = (
        "Answer the question from these documents only, and say so if they do not contain the answer.\n\n"
        + "\n\n".join(trace.documents)
        + f"\n\nQuestion: {trace.question}"
    )
    if kind == "RETRIEVER":
        put("input.value", trace.question)
        for index, text in enumerate(trace.documents):
            put(f"retrieval.documents.{index}.document.id", f"kb://handbook/{index}-{text[:12]}")
            put(f"retrieval.documents.{index}.document.content", text)
            put(f"retrieval.documents.{index}.document.score", 0.9 - index / 20)
    elif kind == "EMBEDDING":
        put("embedding.model_name", "text-embedding-3-small")
        put("embedding.embeddings.0.embedding.text", trace.question)
    elif kind == "LLM":
        put("llm.model_name", "gpt-4o-mini")
        put("llm.input_messages.0.message.role", "user")
        put("llm.input_messages.0.message.content", prompt)
        put("llm.output_messages.0.message.role", "assistant")
        put("llm.output_messages.0.message.content", trace.answer)
        put("llm.token_count.prompt", 1180)
        put("llm.token_count.completion", 150)
    elif name == "format_documents":
        put("input.value", trace.question)
        put("output.value", "\n\n".join(trace.documents[:3]))
    elif place == 0:
        put("input.value", trace.question)
        put("output.value", trace.answer)
    else:
        put("input.value", trace.answer)


def as_json(request: ExportTraceServiceRequest) -> bytes:
    """Encode a request as OTLP/JSON: the JSON of protobuf, with ids in hex and enums as numbers."""
    made = MessageToDict(request, use_integers_for_enums=True)
    for group in made["resourceSpans"]:
        for scoped in group["scopeSpans"]:
            for span in scoped["spans"]:
                for name in span.keys() & _IDS:
                    span[name] = base64.b64decode(span[name]).hex()
    return json.dumps(made, separators=(",", ":")).encode()


def compress(body: bytes) -> bytes:
    """Compress a body as an exporter does."""
    return gzip.compress(body, 6)
