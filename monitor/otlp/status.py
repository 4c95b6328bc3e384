"""What a receiver answers: success, partial success, and refusals, in protobuf and in JSON.

A refusal says by its code whether the sender should try again. Senders of the OpenTelemetry SDKs throw a batch away on
HTTP 500 and on gRPC INTERNAL or UNKNOWN, so nothing that may pass is answered with those; and they look for a retry
delay in places of their own, so it is sent in each.
"""

from __future__ import annotations

import math
import random
from typing import Any, Literal, NamedTuple, TypeAlias

import orjson
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.duration_pb2 import Duration
from google.rpc import code_pb2, error_details_pb2, status_pb2
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import (
    ExportLogsPartialSuccess,
    ExportLogsServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTracePartialSuccess,
    ExportTraceServiceResponse,
)

from monitor.errors import InvalidData, MonitorError, Overloaded, TooLarge, Unauthenticated
from monitor.model.span import Signal
from monitor.stages import Accepted

Encoding: TypeAlias = Literal["protobuf", "json"]

MAX_MESSAGE_BYTES = 1024
"""Messages to senders are cut to this length: an answer must stay far below what a sender is ready to read."""

_TYPE_URL = "type.googleapis.com/"


class Refusal(MonitorError):  # noqa: N818 - an answer rather than an error
    """A request that is not taken.

    Args:
        http: the HTTP status.
        code: the name in `google.rpc.Code`, which is the gRPC status as well.
        message: why, in words for the sender.
        retry_delay: seconds until another try makes sense; None where it makes none.
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
        """The headers that belong to the answer, `Retry-After` in whole seconds among them."""
        headers = list(self.headers)
        if self.retry_delay is not None:
            headers.append((b"retry-after", b"%d" % max(1, math.floor(self.retry_delay + 0.5))))
        return headers

    def body(self, encoding: Encoding) -> bytes:
        """A `google.rpc.Status` with details: `RetryInfo` where another try makes sense, `BadRequest` for bad data."""
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
        """Trailing metadata of gRPC: the details where the specification has them, and the retry delay once more.

        The OpenTelemetry exporter for Python reads `google.rpc.retryinfo-bin` and nothing else.
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
    """The answer to any exception: what is not the sender's fault asks for another try within one to two seconds.

    The delay is drawn at random, lest all senders come back at once.
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
    return Refusal(503, "UNAVAILABLE", "an internal fault, please try again", retry_delay=_jittered(1.0, rng))


def _jittered(at_least: float, rng: random.Random) -> float:
    """At least that long if it is 1 to 2 seconds; senders give up for good when asked to wait for much longer."""
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
    """The export response: `partial_success` only where something was rejected or there is something to say."""
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
    """At most `MAX_MESSAGE_BYTES` bytes of UTF-8, cut between characters."""
    encoded = message.encode("utf-8", "replace")
    if len(encoded) <= MAX_MESSAGE_BYTES:
        return encoded.decode()
    return encoded[: MAX_MESSAGE_BYTES - 3].decode(errors="ignore") + "..."
