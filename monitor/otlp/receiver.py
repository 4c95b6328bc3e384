"""What both OTLP receivers have in common: options, and the way of a request from its body to the intake."""

from __future__ import annotations

import asyncio
import random
from abc import ABC
from typing import Self

from pydantic import Field, model_validator

from monitor.errors import InvalidData, Overloaded
from monitor.model.span import Signal, SpanBatch
from monitor.otlp import json_mapping, limits
from monitor.otlp.status import Refusal, refusal_of
from monitor.quantities import Size
from monitor.serving.auth import open_gate
from monitor.serving.listener import Listener
from monitor.stages import Accepted, Intake, Runtime, Source
from monitor.telemetry.events import Event

_EVENT_EVERY = 10.0  # seconds between two log lines about refusals of the same kind
_LARGE_JSON = 256 * 1024  # reading more JSON than this takes long enough to keep other senders waiting


class OtlpReceiver(Listener, Source, ABC):
    """The options of a server that takes OTLP. The ports of the protocol are 4317 (gRPC) and 4318 (HTTP)."""

    max_body_bytes: Size = Field(default=20 * 1024**2, gt=0)
    """The largest request, before and after decompression. A larger one is refused for good."""

    max_spans: int = Field(default=10_000, gt=0)
    """The most spans or log records in one request. A request with more is refused for good."""

    max_span_bytes: Size = Field(default=4 * 1024**2, gt=0)
    """The largest single span or log record, encoded. A larger one is rejected and counted, its neighbours are kept."""

    max_in_flight_bytes: Size = Field(default=64 * 1024**2, gt=0)
    """The bytes that all requests in work may hold together. Beyond, senders are asked to try again."""

    max_concurrent_requests: int = Field(default=512, gt=0)
    """The most requests that are worked on at once. Beyond, senders are asked to try again."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.max_in_flight_bytes < self.max_body_bytes:
            raise ValueError(
                f"max_in_flight_bytes ({self.max_in_flight_bytes}) must be at least max_body_bytes "
                f"({self.max_body_bytes}): a request of that size could never be taken"
            )
        return self


class Reception:
    """One running receiver: who may enter, what is in work, what was answered."""

    def __init__(
        self, name: str, options: OtlpReceiver, intake: Intake, runtime: Runtime, codes: tuple[str, ...]
    ) -> None:
        metrics = runtime.metrics
        self.options = options
        self.in_flight = limits.InFlight(options.max_concurrent_requests, options.max_in_flight_bytes)
        self.check_token = options.auth.gate(runtime.clock, runtime.events) if options.auth else open_gate
        self.received_bytes = metrics.received_bytes.labels(name)
        self._name = name
        self._intake = intake
        self._runtime = runtime
        self._rng = random.Random()
        self._requests = {code: metrics.requests.labels(name, code) for code in codes}
        self._too_large = {
            "traces": metrics.spans.labels(name, "too_large"),
            "logs": metrics.log_records.labels(name, "too_large"),
        }
        self._quiet_until: dict[Event, float] = {}
        self._unsaid: dict[Event, int] = {}

    async def deliver(self, signal: Signal, body: bytes, lease: limits.Lease, *, as_json: bool = False) -> Accepted:
        """Hand the spans of one request, no longer compressed, to the intake.

        Raises what `refused` makes an answer of: `Overloaded`, `InvalidData`, or any other exception.
        """
        options = self.options
        lease.start()
        lease.hold(len(body))
        if as_json:
            body = await self._from_json(signal, body)
            lease.hold(len(body))
        groups, oversized = limits.without_oversized(limits.cut(body, options.max_spans), options.max_span_bytes)
        if not oversized:
            return await self._intake.accept(SpanBatch(self._name, signal, groups))
        why = (
            f"{oversized} larger than {options.max_span_bytes} bytes or with more than {limits.MAX_MEMBERS} attributes"
        )
        if not any(group.items for group in groups):
            self._too_large[signal].inc(oversized)
            raise InvalidData(f"all spans or log records were rejected: {why}")
        accepted = await self._intake.accept(SpanBatch(self._name, signal, groups))
        self._too_large[signal].inc(oversized)
        reasons = "; ".join(filter(None, (accepted.message, why)))
        return Accepted(accepted.rejected + oversized, reasons)

    async def _from_json(self, signal: Signal, body: bytes) -> bytes:
        if len(body) < _LARGE_JSON:
            return json_mapping.to_protobuf(signal, body, self.options.max_spans)
        return await asyncio.to_thread(json_mapping.to_protobuf, signal, body, self.options.max_spans)

    def refused(self, error: Exception) -> Refusal:
        """The answer to `error`, which is logged: refusals at most every ten seconds a kind, faults of ours always."""
        refusal = refusal_of(error, self._rng)
        if refusal.code == "UNAVAILABLE" and not isinstance(error, Overloaded | Refusal):
            self._runtime.events.error(
                Event.RECEIVER_FAILED,
                f"a request failed for a fault of ours: {type(error).__name__}",
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
    """Where an exception was raised, without its text: that may hold what a user wrote."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return f"{trace.tb_frame.f_code.co_filename.rpartition('/')[2]}:{trace.tb_lineno}" if trace is not None else ""
