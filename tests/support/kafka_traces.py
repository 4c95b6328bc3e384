"""Traffic for Kafka tests: RAG traces as OTLP, keyed by trace id, rows, and unreadable messages.

Everything follows from the seed, so a test can account for each message.
"""

from __future__ import annotations

import json
import random
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.support.otlp import as_otlp_json
from tests.support.service import BAD, CONTEXT, GOOD

Encoding = Literal["otlp_proto", "otlp_json"]
Poison = Literal["truncated", "random", "other_encoding", "no_object", "checksum"]

UNREADABLE: tuple[Poison, ...] = ("truncated", "random", "other_encoding", "no_object")
"""The kinds that a producer can send. The fifth, `checksum`, is made in the log: `break_checksum`."""

_SPANS = (
    ("ask", "CHAIN", -1),
    ("retrieve", "RETRIEVER", 0),
    ("embed", "EMBEDDING", 1),
    ("rerank", "RERANKER", 0),
    ("generate", "LLM", 0),
    ("format", "CHAIN", 0),
)


@dataclass(frozen=True)
class Sent:
    """One message: its position, and its content (a trace id, a row id, or the kind of poison)."""

    topic: str
    partition: int
    offset: int
    carries: str
    value: bytes


def trace_id(seed: int, number: int) -> str:
    return f"{random.Random(seed * 1_000_003 + number).getrandbits(128) | 1:032x}"


def rag_trace(
    id_: str, *, bad: bool = False, start_ns: int = 1_700_000_000_000_000_000, padding: int = 0, service: str = "shop"
) -> ExportTraceServiceRequest:
    """Return a trace of six spans in OpenInference's dialect; `padding` adds bytes of context to make it large."""
    request = ExportTraceServiceRequest()
    resource = request.resource_spans.add()
    _set(resource.resource.attributes, {"service.name": service})
    scope = resource.scope_spans.add()
    scope.scope.name = "openinference.instrumentation.own"
    question, answer = "Can I get my money back?", BAD if bad else GOOD
    context = CONTEXT + " " + "Terms apply. " * (padding // 13)
    document = {"document.content": context, "document.id": "refunds"}
    retrieved = {f"retrieval.documents.0.{key}": value for key, value in document.items()}
    extra: dict[str, dict[str, str]] = {
        "ask": {"input.value": question, "output.value": answer},
        "retrieve": {"input.value": question, **retrieved},
        "embed": {"embedding.model_name": "small"},
        "rerank": {f"reranker.output_documents.0.{key}": value for key, value in document.items()},
        "generate": {
            "llm.model_name": "gpt-4o-mini",
            "llm.input_messages.0.message.role": "user",
            "llm.input_messages.0.message.content": f"Context: {context}\n\nQuestion: {question}",
            "llm.output_messages.0.message.role": "assistant",
            "llm.output_messages.0.message.content": answer,
        },
        "format": {"output.value": answer},
    }
    ids = [number.to_bytes(2, "big") + bytes.fromhex(id_[-12:]) for number in range(1, len(_SPANS) + 1)]
    for at, (name, kind, parent) in enumerate(_SPANS):
        span = scope.spans.add(
            trace_id=bytes.fromhex(id_),
            span_id=ids[at],
            parent_span_id=ids[parent] if parent >= 0 else b"",
            name=name,
            kind=1,
            start_time_unix_nano=start_ns + at * 1_000_000,
            end_time_unix_nano=start_ns + 1_000_000_000 + (0 if parent >= 0 else 1_000_000),
        )
        _set(span.attributes, {"openinference.span.kind": kind, **extra[name]})
    return request


def encoded(request: Any, encoding: Encoding) -> bytes:
    """Return the request as the Collector's Kafka exporter writes it."""
    if encoding == "otlp_proto":
        return request.SerializeToString()
    return json.dumps(as_otlp_json(request), separators=(",", ":")).encode()


def in_parts(request: ExportTraceServiceRequest, count: int) -> list[ExportTraceServiceRequest]:
    """Return the spans of one trace distributed over `count` messages; the root is in the last."""
    parts = []
    for at in range(count):
        part = ExportTraceServiceRequest()
        part.CopyFrom(request)
        scope = part.resource_spans[0].scope_spans[0]
        root, *others = scope.spans
        kept = others[at::count] + [root] * (at == count - 1)
        del scope.spans[:]
        scope.spans.extend(kept)
        parts.append(part)
    return parts


def row(id_: str, *, bad: bool = False) -> dict[str, Any]:
    """Return one case as a row."""
    return {
        "request_id": id_,
        "request": "Can I get my money back?",
        "response": BAD if bad else GOOD,
        "retrieved_context": [{"doc_uri": "refunds", "content": CONTEXT}],
    }


def poison(kind: Poison, encoding: Encoding | Literal["case"], draw: random.Random) -> bytes:
    """Return a message that cannot be read as `encoding`."""
    good = rag_trace(f"{draw.getrandbits(128) | 1:032x}")
    if kind == "truncated":
        whole = json.dumps(row("r")).encode() if encoding == "case" else encoded(good, encoding)
        return whole[: len(whole) * 2 // 3]
    if kind == "random":
        return b"\xff" + draw.randbytes(200)  # 0xff begins no protobuf field and no JSON text
    if kind == "other_encoding":
        return encoded(good, "otlp_proto" if encoding != "otlp_proto" else "otlp_json")
    if kind == "no_object":
        return json.dumps("not an object").encode()
    raise ValueError(f"{kind} is not sent: break_checksum() makes it")


class Traffic:
    """A producer of test traffic to the broker at `address`; `sent` records the acknowledged messages, in order."""

    def __init__(self, address: str, *, seed: int = 1, **options: Any) -> None:
        from kafka import KafkaProducer

        self.sent: list[Sent] = []
        self._seed, self._draw, self._number = seed, random.Random(seed), 0
        self._waiting: list[tuple[str, bytes, Any]] = []
        self._producer = KafkaProducer(bootstrap_servers=address, acks="all", linger_ms=5, **options)

    def traces(
        self, topic: str, count: int, encoding: Encoding = "otlp_proto", *, parts: int = 1, bad: float = 0.0
    ) -> list[str]:
        """Send `count` traces of six spans, each in `parts` messages, `bad` of them ungrounded; return their ids."""
        ids = []
        for _ in range(count):
            id_ = trace_id(self._seed, self._number)
            self._number += 1
            request = rag_trace(id_, bad=self._draw.random() < bad)
            for part in in_parts(request, parts) if parts > 1 else [request]:
                self._send(topic, id_, encoded(part, encoding), key=id_.encode())
            ids.append(id_)
        self.flush()
        return ids

    def rows(self, topic: str, count: int) -> list[str]:
        """Send `count` rows, keyed by their ids, and return the ids."""
        ids = []
        for _ in range(count):
            id_ = f"row-{self._seed}-{self._number}"
            self._number += 1
            self._send(topic, id_, json.dumps(row(id_)).encode(), key=id_.encode())
            ids.append(id_)
        self.flush()
        return ids

    def poison(
        self,
        topic: str,
        encoding: Encoding | Literal["case"] = "otlp_proto",
        kinds: Sequence[Poison] = UNREADABLE,
        *,
        each: int = 1,
        partition: int | None = None,
    ) -> list[Sent]:
        """Send messages that cannot be read as `encoding`, `each` of every kind; return their positions."""
        before = len(self.sent)
        for kind in kinds:
            for _ in range(each):
                self._send(topic, kind, poison(kind, encoding, self._draw), partition=partition)
        self.flush()
        return self.sent[before:]

    def flush(self) -> None:
        waiting, self._waiting = self._waiting, []
        self._producer.flush()
        for carries, value, future in waiting:
            done = future.get(30)
            self.sent.append(Sent(done.topic, done.partition, done.offset, carries, value))

    def close(self) -> None:
        self._producer.close()

    def _send(self, topic: str, carries: str, value: bytes, **options: Any) -> None:
        self._waiting.append((carries, value, self._producer.send(topic, value, **options)))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@dataclass(frozen=True)
class Batch:
    """A record batch in a log segment: its position in the file, and its first and last offset."""

    at: int
    size: int
    first: int
    last: int


def batches(segment: bytes) -> Iterator[Batch]:
    """Yield the record batches of a log segment (format 2: base offset int64, length int32, ... last delta at 23)."""
    at = 0
    while at < len(segment):
        first, length = struct.unpack_from(">qi", segment, at)
        (delta,) = struct.unpack_from(">i", segment, at + 23)
        yield Batch(at, 12 + length, first, first + delta)
        at += 12 + length


def break_checksum(segment: Path, offset: int) -> range:
    """Flip a bit in the batch with `offset`, in the file of a broker that was stopped in order; return its offsets.

    The broker serves it unchanged. After SIGKILL it would check its log and truncate it before this batch, so start
    and stop it in order from then on.
    """
    content = bytearray(segment.read_bytes())
    (broken,) = (one for one in batches(bytes(content)) if one.first <= offset <= one.last)
    content[broken.at + broken.size - 1] ^= 0x01
    segment.write_bytes(content)
    return range(broken.first, broken.last + 1)


def _set(attributes: Any, values: dict[str, str]) -> None:
    for key, value in values.items():
        attributes.add(key=key).value.string_value = value
