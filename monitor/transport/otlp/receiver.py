"""Define the parts that both OTLP receivers share: options, passing requests to the intake, and the answers.

The code of a refusal says whether to retry. The OpenTelemetry SDKs drop a batch on HTTP 500 and on gRPC INTERNAL or
UNKNOWN, so temporary faults are never answered with those. The SDKs look for the retry delay in different places, so it
is sent in each.
"""

from __future__ import annotations

import asyncio
import math
import random
from abc import ABC
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal, NamedTuple, ParamSpec, Self, TypeAlias, TypeVar

import orjson
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.duration_pb2 import Duration
from google.rpc import code_pb2, error_details_pb2, status_pb2
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsPartialSuccess, ExportLogsServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTracePartialSuccess,
    ExportTraceServiceResponse,
)
from pydantic import Field, model_validator

from monitor.errors import InvalidData, MonitorError, Overloaded, TooLarge, Unauthenticated
from monitor.model.span import EncodedGroup, RefusedGroup, Signal, SpanBatch
from monitor.quantities import Size
from monitor.stages import Accepted, Intake, Runtime, Source
from monitor.telemetry.events import Event
from monitor.transport.http.auth import open_gate
from monitor.transport.http.listener import ListenerOptions
from monitor.transport.otlp import json_mapping, limits

Encoding: TypeAlias = Literal["protobuf", "json"]

MAX_MESSAGE_BYTES = 1024
"""Maximum length of messages to senders, which read only short answers."""

_TYPE_URL = "type.googleapis.com/"
_EVENT_EVERY = 10.0  # seconds between two log lines about refusals of the same kind
_LARGE = 256 * 1024  # inflating, reading or splitting more bytes takes long enough to keep other senders waiting
_LONG = 0.02  # seconds of work on one request after which other requests go first
_REFUSAL_EVERY = 0.1  # seconds between two refusals of large requests, after the first few
_REFUSALS_AT_ONCE = 10
_LONGEST_DELAY = 2.0  # the longest delay of such a refusal, in seconds

_TOO_LARGE = 413
_PACED = (400, _TOO_LARGE, 503)

P = ParamSpec("P")
T = TypeVar("T")


class OtlpReceiver(ListenerOptions, Source, ABC):
    """Options of an OTLP server. The protocol's ports are 4317 (gRPC) and 4318 (HTTP)."""

    max_body_bytes: Annotated[Size, Field(gt=0, lt=2 * 1024**3)] = Field(default_factory=lambda: 20 * 1024**2)
    """Maximum size of a request, both compressed and decompressed, below 2 GiB. Larger ones are rejected permanently.
    Default: 20 MiB, at most `max_in_flight_bytes`."""

    max_spans: int = Field(default=10_000, gt=0)
    """Maximum spans or log records in one request. Requests with more are rejected permanently."""

    max_span_bytes: Size = Field(default=4 * 1024**2, gt=0)
    """Maximum encoded size of a span or log record. Larger ones are rejected and counted; the rest of the request is
    kept. The trace of a rejected span is incomplete."""

    max_resource_bytes: Size = Field(default=1024**2, gt=0)
    """Maximum encoded size of a resource or a scope. The spans or log records of larger ones are rejected and counted;
    the rest of the request is kept."""

    max_in_flight_bytes: Annotated[Size, Field(gt=0)] = Field(default_factory=lambda: 64 * 1024**2)
    """Maximum bytes of all requests in progress. Above it, senders are asked to retry. Default: its share of
    `limits.memory`."""

    max_concurrent_requests: int = Field(default=512, gt=0)
    """Maximum requests in progress. Above it, senders are asked to retry."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.max_in_flight_bytes < self.max_body_bytes:
            raise ValueError(
                f"max_in_flight_bytes ({self.max_in_flight_bytes}) must be at least max_body_bytes "
                f"({self.max_body_bytes}): else a request of that size could never be accepted"
            )
        return self


class Reception:
    """One running receiver: its authentication, its requests in progress, and its answers."""

    def __init__(
        self, name: str, options: OtlpReceiver, intake: Intake, runtime: Runtime, codes: tuple[str, ...]
    ) -> None:
        metrics = runtime.metrics
        self.options = options
        self.in_flight = limits.InFlightRequests(options.max_concurrent_requests, options.max_in_flight_bytes)
        self.check_token = options.auth.gate(runtime.clock, runtime.events) if options.auth else open_gate
        self.received_bytes = metrics.received_bytes.labels(name)
        self._name = name
        self._intake = intake
        self._runtime = runtime
        self._rng = random.Random()
        self._turn = asyncio.Lock()
        self._rest_until = 0.0
        self._refusals_until = float("-inf")
        self._requests = {code: metrics.requests.labels(name, code) for code in codes}
        self._too_large = {
            "traces": metrics.spans.labels(name, "too_large"),
            "logs": metrics.log_records.labels(name, "too_large"),
        }
        self._quiet_until: dict[Event, float] = {}
        self._unsaid: dict[Event, int] = {}

    def check_room(self) -> None:
        """Raise `Overloaded` while the pipeline has no room. Call this before a body is read."""
        if why := self._runtime.health.refusing():
            raise Overloaded(why)

    async def deliver(self, signal: Signal, body: bytes, lease: limits.Lease, *, as_json: bool = False) -> Accepted:
        """Pass the spans of one decompressed request to the intake.

        Raises `Overloaded`, `InvalidData`, or any other exception; `refused` maps each to an answer.
        """
        options = self.options
        lease.start()
        lease.hold(len(body))
        if as_json:
            drops = self._intake.drops if signal == "traces" else None
            body = await self.in_turn(len(body), json_mapping.to_protobuf, signal, body, options.max_spans, drops)
            lease.hold(len(body))
        groups, refused = await self.in_turn(len(body), self._cut, body)
        if not refused:
            return await self._intake.accept(SpanBatch(self._name, signal, groups))
        oversized = sum(len(group.items) for group in refused)
        why = (
            f"{oversized} are larger than {options.max_span_bytes} bytes or have more than {limits.MAX_MEMBERS}"
            " attributes, or belong to a resource or scope with more than that many attributes or"
            f" {options.max_resource_bytes} bytes"
        )
        # Even if all are too large: other spans of their traces may have arrived, or may still arrive.
        accepted = await self._intake.accept(SpanBatch(self._name, signal, groups, refused=refused))
        self._too_large[signal].inc(oversized)
        if not any(group.items for group in groups):
            raise InvalidData(f"all spans or log records were rejected: {why}")
        reasons = "; ".join(filter(None, (accepted.message, why)))
        return Accepted(accepted.rejected + oversized, reasons)

    async def inflate(self, body: bytes, lease: limits.Lease) -> bytes:
        """Inflate a body. Raises `TooLarge`, `InvalidData`, and `Overloaded` if there is no room, before inflating.

        A body whose trailer claims a small size is inflated at once. If it turns out to be larger, inflating starts
        over, in turn with other large bodies.
        """
        limit = self.options.max_body_bytes
        size = limits.inflated_size(body, limit)
        lease.expect(size - len(body))
        if size <= _LARGE < limit:
            try:
                return limits.inflate(body, _LARGE)
            except TooLarge:
                size = limit
                lease.expect(size - len(body))
        return await self.in_turn(size, limits.inflate, body, limit)

    async def in_turn(self, size: int, work: Callable[P, T], *args: P.args, **options: P.kwargs) -> T:
        """Do `work` on `size` bytes: at once if they are few, else in a thread, one task at a time.

        Work that took long or ended in a refusal is followed by a pause of the same length, so that decompression bombs
        get at most half of the time.
        """
        if size <= _LARGE:
            return work(*args, **options)
        clock = self._runtime.clock
        async with self._turn:
            await asyncio.sleep(max(0.0, self._rest_until - clock.monotonic()))
            began = clock.monotonic()
            try:
                result = await asyncio.to_thread(work, *args, **options)
            except InvalidData:
                self._rest_until = 2 * clock.monotonic() - began
                raise
            if clock.monotonic() - began > _LONG:
                self._rest_until = 2 * clock.monotonic() - began
            return result

    def _cut(self, body: bytes) -> tuple[Sequence[EncodedGroup], Sequence[RefusedGroup]]:
        options = self.options
        return limits.without_oversized(
            limits.cut(body, options.max_spans), options.max_span_bytes, options.max_resource_bytes
        )

    def refused(self, error: Exception) -> Refusal:
        """Return the answer to `error` and log it: refusals once per kind in ten seconds, internal errors always."""
        refusal = refusal_of(error, self._rng)
        if refusal.code == "UNAVAILABLE" and not isinstance(error, Overloaded | Refusal):
            self._runtime.events.error(
                Event.RECEIVER_FAILED,
                f"a request failed because of an internal error: {type(error).__name__}",
                source=self._name,
                where=_place(error),
            )
        elif refusal.code == "UNAVAILABLE":
            self._say(Event.REQUEST_REFUSED, refusal)
        elif refusal.code == "UNAUTHENTICATED":
            self._say(Event.UNAUTHENTICATED, refusal)
        else:
            self._say(Event.REQUEST_INVALID, refusal)
        return refusal

    async def pace(self, refusal: Refusal, lease: limits.Lease) -> None:
        """Wait before refusing a large request, if there were many: a sender that ignores refusals sends again at once.

        A sender waits at most two seconds. Call this when nothing references the request any more, not even an
        exception.
        """
        if refusal.http not in _PACED or (lease.largest <= _LARGE and refusal.http != _TOO_LARGE):
            return
        now = self._runtime.clock.monotonic()
        earliest, latest = now - _REFUSALS_AT_ONCE * _REFUSAL_EVERY, now + _LONGEST_DELAY
        self._refusals_until = min(max(self._refusals_until, earliest) + _REFUSAL_EVERY, latest)
        if self._refusals_until > now:
            await asyncio.sleep(self._refusals_until - now)

    def answered(self, code: str) -> None:
        """Count an answer by its HTTP status or gRPC status name."""
        child = self._requests.get(code)
        if child is None:
            child = self._requests[code] = self._runtime.metrics.requests.labels(self._name, code)
        child.inc()

    def _say(self, event: Event, refusal: Refusal) -> None:
        now = self._runtime.clock.monotonic()
        if now < self._quiet_until.get(event, now):
            self._unsaid[event] = self._unsaid.get(event, 0) + 1
            return
        self._quiet_until[event] = now + _EVENT_EVERY
        self._runtime.events.warning(
            event, refusal.message, source=self._name, code=refusal.code, not_logged_before=self._unsaid.pop(event, 0)
        )


def _place(error: BaseException) -> str:
    """Return where an exception was raised, without its text, which may contain user data."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return f"{trace.tb_frame.f_code.co_filename.rpartition('/')[2]}:{trace.tb_lineno}" if trace is not None else ""


class Refusal(MonitorError):  # noqa: N818 - an answer rather than an error
    """A request that is not accepted.

    Args:
        http: the HTTP status.
        code: the name in `google.rpc.Code`, which is also the gRPC status.
        message: the reason, for the sender.
        retry_delay: seconds until the sender should retry; None if it should not.
        headers: HTTP headers of the answer.
    """

    def __init__(
        self,
        http: int,
        code: str,
        message: str,
        *,
        retry_delay: float | None = None,
        headers: tuple[tuple[bytes, bytes], ...] = (),
    ) -> None:
        super().__init__(message)
        self.http = http
        self.code = code
        self.message = shortened(message)
        self.retry_delay = retry_delay
        self.headers = headers

    def http_headers(self) -> list[tuple[bytes, bytes]]:
        """Return the HTTP headers, including `Retry-After` in whole seconds."""
        headers = list(self.headers)
        if self.retry_delay is not None:
            headers.append((b"retry-after", b"%d" % max(1, math.floor(self.retry_delay + 0.5))))
        return headers

    def body(self, encoding: Encoding) -> bytes:
        """Return a `google.rpc.Status` with details: `RetryInfo` if a retry may succeed, `BadRequest` for bad data."""
        if encoding == "protobuf":
            encoded: bytes = self._status().SerializeToString()
            return encoded
        status: dict[str, Any] = {"code": code_pb2.Code.Value(self.code), "message": self.message}
        details: list[dict[str, Any]] = []
        if self.retry_delay is not None:
            details.append({"@type": _TYPE_URL + "google.rpc.RetryInfo", "retryDelay": f"{self.retry_delay:.3f}s"})
        if self.code == "INVALID_ARGUMENT":
            violation = {"field": "body", "description": self.message}
            details.append({"@type": _TYPE_URL + "google.rpc.BadRequest", "fieldViolations": [violation]})
        return orjson.dumps({**status, "details": details} if details else status)

    def trailers(self) -> tuple[tuple[str, bytes], ...]:
        """Return the gRPC trailing metadata: the details as specified, and the retry delay a second time.

        The OpenTelemetry exporter for Python reads only `google.rpc.retryinfo-bin`.
        """
        trailers: tuple[tuple[str, bytes], ...] = (("grpc-status-details-bin", self._status().SerializeToString()),)
        if self.retry_delay is not None:
            trailers += (("google.rpc.retryinfo-bin", self._retry_info().SerializeToString()),)
        return trailers

    def _status(self) -> Any:
        details = []
        if self.retry_delay is not None:
            details.append(self._retry_info())
        if self.code == "INVALID_ARGUMENT":
            violation = error_details_pb2.BadRequest.FieldViolation(field="body", description=self.message)
            details.append(error_details_pb2.BadRequest(field_violations=[violation]))
        status = status_pb2.Status(code=code_pb2.Code.Value(self.code), message=self.message)
        for detail in details:
            packed = AnyMessage()
            packed.Pack(detail)
            status.details.append(packed)
        return status

    def _retry_info(self) -> Any:
        whole, part = divmod(round((self.retry_delay or 0.0) * 1000), 1000)
        return error_details_pb2.RetryInfo(retry_delay=Duration(seconds=whole, nanos=part * 1_000_000))


def refusal_of(error: Exception, rng: random.Random) -> Refusal:
    """Return the answer to any exception. Faults not caused by the sender ask for a retry in one to two seconds.

    The delay is random, so that senders do not all return at once.
    """
    if isinstance(error, Refusal):
        return error
    if isinstance(error, Unauthenticated):
        return Refusal(401, "UNAUTHENTICATED", str(error), headers=((b"www-authenticate", error.challenge.encode()),))
    if isinstance(error, TooLarge):
        return Refusal(413, "RESOURCE_EXHAUSTED", str(error))
    if isinstance(error, InvalidData):
        return Refusal(400, "INVALID_ARGUMENT", str(error))
    if isinstance(error, Overloaded):
        return Refusal(503, "UNAVAILABLE", str(error), retry_delay=_jittered(error.retry_after, rng))
    return Refusal(503, "UNAVAILABLE", "internal error, please retry", retry_delay=_jittered(1.0, rng))


def _jittered(at_least: float, rng: random.Random) -> float:
    """Return a random delay from 1 to 2 seconds, not below `at_least`; senders give up if asked to wait longer."""
    lowest = min(max(at_least, 1.0), 2.0)
    return lowest + (2.0 - lowest) * rng.random()


class _Answers(NamedTuple):
    response: Any
    partial: Any
    rejected: str


_ANSWERS: dict[Signal, _Answers] = {
    "traces": _Answers(ExportTraceServiceResponse, ExportTracePartialSuccess, "rejected_spans"),
    "logs": _Answers(ExportLogsServiceResponse, ExportLogsPartialSuccess, "rejected_log_records"),
}


def success(signal: Signal, accepted: Accepted, encoding: Encoding) -> bytes:
    """Encode the export response; `partial_success` only if something was rejected or there is a message."""
    if not accepted.rejected and not accepted.message:
        return b"" if encoding == "protobuf" else b"{}"
    message = shortened(accepted.message) or f"{accepted.rejected} items were rejected"
    response, partial, rejected = _ANSWERS[signal]
    if encoding == "json":
        count = {"rejectedSpans" if signal == "traces" else "rejectedLogRecords": str(accepted.rejected)}
        return orjson.dumps({"partialSuccess": {**(count if accepted.rejected else {}), "errorMessage": message}})
    made = response(partial_success=partial(error_message=message, **{rejected: accepted.rejected}))
    encoded: bytes = made.SerializeToString()
    return encoded


def shortened(message: str) -> str:
    """Cut a message to at most `MAX_MESSAGE_BYTES` bytes of UTF-8, between characters."""
    encoded = message.encode("utf-8", "replace")
    if len(encoded) <= MAX_MESSAGE_BYTES:
        return encoded.decode()
    return encoded[: MAX_MESSAGE_BYTES - 3].decode(errors="ignore") + "..."
