"""Replays recorded traces as new traffic to an OTLP/HTTP port: healthy at first, then getting worse."""

from __future__ import annotations

import gzip
import random
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Any

import anyio
import httpx
from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from monitor.clock import Clock
from monitor.errors import InvalidData

TRAFFIC = Path(__file__).parent / "traffic"
DEGRADING, STEADY = "acme-support", "acme-docs"
"""The recorded services: one whose answers get worse in the demo, and one whose answers do not."""

_QUESTIONS_PER_SESSION = 3
_TICK = 0.25
_TIMEOUT = 10.0
_RECONNECT = 0.5
_RETRYABLE = (429, 502, 503, 504)


@dataclass(frozen=True, slots=True)
class Schedule:
    """The share of unsupported answers: `low` for `healthy` seconds, then rising to `high` within `growing` seconds."""

    healthy: float = 25.0
    growing: float = 40.0
    low: float = 0.0
    high: float = 0.5

    def share(self, elapsed: float) -> float:
        """Return the share, 0 to 1, at `elapsed` seconds after the start."""
        grown = (elapsed - self.healthy) / self.growing if self.growing else float(elapsed >= self.healthy)
        return self.low + (self.high - self.low) * min(max(grown, 0.0), 1.0)


SCHEDULES: Mapping[str, Schedule] = {DEGRADING: Schedule(), STEADY: Schedule(high=0.0)}


@dataclass(frozen=True, slots=True)
class Recording:
    """All recorded traces of one service, by the kind of their answers; each trace is one export request."""

    supported: tuple[ExportTraceServiceRequest, ...]
    unsupported: tuple[ExportTraceServiceRequest, ...]


@dataclass(slots=True)
class Sent:
    """Numbers of traces sent so far; `unsupported` are included in `traces`. `retries` counts refused deliveries."""

    traces: int = 0
    unsupported: int = 0
    retries: int = 0
    by_app: dict[str, int] = field(default_factory=dict)


def load(folder: Path = TRAFFIC) -> dict[str, Recording]:
    """Read the recordings in `folder`, by service: files `APP.supported.pb.gz` and `APP.unsupported.pb.gz`."""
    apps = sorted(path.name.split(".")[0] for path in folder.glob("*.supported.pb.gz"))
    return {
        app: Recording(*(_traces(folder / f"{app}.{kind}.pb.gz") for kind in ("supported", "unsupported")))
        for app in apps
    }


def freshen(
    trace: ExportTraceServiceRequest, rng: random.Random, ended_ns: int, session: str
) -> ExportTraceServiceRequest:
    """Copy one recorded trace under new ids, its times moved so that the last span ends at `ended_ns`.

    Parents and links are mapped together with the spans they point at. An id that is not in the trace also gets a new
    one, the same at every occurrence. `session` replaces the recorded `session.id`: users who keep coming back would
    make the answers of a recording look like a handful of conversations.
    """
    fresh = ExportTraceServiceRequest()
    fresh.CopyFrom(trace)
    spans = [span for group in fresh.resource_spans for scoped in group.scope_spans for span in scoped.spans]
    renamed: dict[bytes, bytes] = {}

    def rename(old: bytes) -> bytes:
        if old and old not in renamed:
            renamed[old] = rng.randrange(1, 1 << 8 * len(old)).to_bytes(len(old), "big")  # an id must not be all zero
        return renamed.get(old, b"")

    moved = ended_ns - max((span.end_time_unix_nano for span in spans), default=ended_ns)
    for span in spans:
        span.trace_id, span.span_id = rename(span.trace_id), rename(span.span_id)
        span.parent_span_id = rename(span.parent_span_id)
        span.start_time_unix_nano += moved
        span.end_time_unix_nano += moved
        for event in span.events:
            event.time_unix_nano += moved
        for link in span.links:
            link.trace_id, link.span_id = rename(link.trace_id), rename(link.span_id)
        for attribute in span.attributes:
            if attribute.key == "session.id":
                attribute.value.string_value = session
    return fresh


async def feed(
    endpoint: str,
    clock: Clock,
    rng: random.Random,
    *,
    traces_per_second: float = 12.0,
    schedules: Mapping[str, Schedule] = SCHEDULES,
    recordings: Mapping[str, Recording] | None = None,
    sent: Sent | None = None,
) -> None:
    """Send each service's traces to `endpoint` (`http://127.0.0.1:4318/v1/traces`) until cancelled.

    `traces_per_second` is for all services together. A refused delivery (503 and the like, or no connection) is sent
    again after the time that the response asks for. `sent` is kept up to date. Raises `InvalidData` when the endpoint
    responds that the traffic is wrong.
    """
    if not endpoint.startswith("http://"):
        raise InvalidData(f"the endpoint must be http://HOST:PORT/PATH, not {endpoint!r}")
    recordings = load() if recordings is None else recordings
    sent = Sent() if sent is None else sent
    started = clock.monotonic()
    due = 0.0
    drawn: dict[str, int] = dict.fromkeys(recordings, 0)
    run = f"{rng.getrandbits(32):08x}"
    async with httpx.AsyncClient(timeout=_TIMEOUT, trust_env=False) as client:
        while True:
            due += traces_per_second * _TICK
            batch = ExportTraceServiceRequest()
            taken: list[tuple[str, bool]] = []
            elapsed = clock.monotonic() - started
            while due >= 1:
                due -= 1
                app = rng.choice(sorted(recordings))
                bad = rng.random() < schedules.get(app, Schedule(high=0.0)).share(elapsed)
                recorded = recordings[app].unsupported if bad else recordings[app].supported
                ended_ns = int(clock.now() * 1e9) - rng.randrange(int(_TICK * 1e9))
                session = f"{app}-{run}-{drawn[app] // _QUESTIONS_PER_SESSION}"
                drawn[app] += 1
                batch.MergeFrom(freshen(rng.choice(recorded), rng, ended_ns, session))
                taken.append((app, bad))
            if taken:
                await _deliver(client, endpoint, batch.SerializeToString(), sent)
            for app, bad in taken:
                sent.traces += 1
                sent.unsupported += bad
                sent.by_app[app] = sent.by_app.get(app, 0) + 1
            await anyio.sleep(max(_TICK - (clock.monotonic() - started - elapsed), 0.0))


async def _deliver(client: httpx.AsyncClient, endpoint: str, body: bytes, sent: Sent) -> None:
    """Send until it is accepted."""
    compressed = gzip.compress(body, 1)
    headers = {"content-type": "application/x-protobuf", "content-encoding": "gzip"}
    while True:
        try:
            response = await client.post(endpoint, content=compressed, headers=headers)
        except httpx.TransportError:
            wait = _RECONNECT
        else:
            if response.status_code == HTTPStatus.OK:
                _check(endpoint, response.content)
                return
            if response.status_code not in _RETRYABLE:
                raise InvalidData(f"{endpoint} answered {response.status_code}: {response.content[:200]!r}")
            wait = _seconds(response.headers.get("retry-after"))
        sent.retries += 1
        await anyio.sleep(wait)


def _check(endpoint: str, answer: bytes) -> None:
    try:
        partial = ExportTraceServiceResponse.FromString(answer).partial_success
    except DecodeError:
        raise InvalidData(f"{endpoint} answered 200 with a body that is not OTLP: {answer[:200]!r}") from None
    if partial.rejected_spans:
        raise InvalidData(f"{endpoint} rejected {partial.rejected_spans} spans: {partial.error_message}")


def _seconds(retry_after: str | None) -> float:
    """Return the `Retry-After` header in seconds, between 0.1 and 30; 1 if it is absent or a date."""
    try:
        return min(max(float(retry_after or 1.0), 0.1), 30.0)
    except ValueError:
        return 1.0


def _traces(path: Path) -> tuple[ExportTraceServiceRequest, ...]:
    """Read the traces of one recording, each as a separate request with its resources and scopes."""
    recorded = ExportTraceServiceRequest.FromString(gzip.decompress(path.read_bytes()))
    found: dict[bytes, ExportTraceServiceRequest] = defaultdict(ExportTraceServiceRequest)
    for group in recorded.resource_spans:
        for scoped in group.scope_spans:
            places: dict[bytes, Any] = {}
            for span in scoped.spans:
                if span.trace_id not in places:
                    made = found[span.trace_id].resource_spans.add(schema_url=group.schema_url)
                    made.resource.CopyFrom(group.resource)
                    places[span.trace_id] = made.scope_spans.add(schema_url=scoped.schema_url)
                    places[span.trace_id].scope.CopyFrom(scoped.scope)
                places[span.trace_id].spans.append(span)
    return tuple(found.values())
