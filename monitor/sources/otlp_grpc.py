"""Define the source `otlp_grpc`: OTLP over gRPC, plain or gzip."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, Final, Self

from pydantic import Field, model_validator

from monitor.quantities import Duration
from monitor.stages import Intake, Runtime
from monitor.transport.http.listener import ListenerOptions
from monitor.transport.otlp.receiver import OtlpReceiver, Reception

_LARGEST: Final = 2**31 - 1  # gRPC stores its options in C ints; with this many connections it ends the process
_LONGEST: Final = _LARGEST // 1000  # seconds, which gRPC takes as milliseconds


class OtlpGrpc(OtlpReceiver):
    """Receive traces and logs over OTLP/gRPC. Overload is answered with UNAVAILABLE and `RetryInfo`; SDKs retry."""

    needs_restart: ClassVar[frozenset[str]] = ListenerOptions.needs_restart | {
        "max_body_bytes",
        "max_concurrent_streams",
        "max_connections",
        "handshake_timeout",
        "idle_timeout",
    }

    port: int = Field(default=4317, ge=0, le=65535)
    """Port to listen on; 0 picks a free one."""

    max_concurrent_streams: int = Field(default=256, gt=0, le=_LARGEST)
    """Maximum concurrent calls per connection; further calls wait at the sender."""

    handshake_timeout: Duration = Field(default=60.0, gt=0, le=_LONGEST)
    """How long a new connection may take to complete the HTTP/2 handshake before it is closed; at most 24 days."""

    body_timeout: Duration = Field(default=60.0, gt=0)
    """How long the message of a call may take to arrive before the call is ended with DEADLINE_EXCEEDED."""

    idle_timeout: Duration = Field(default=300.0, gt=0, le=_LONGEST)
    """How long to keep a connection without calls open; at most 24 days. A connection whose client does not answer
    pings is closed after 80 seconds."""

    max_connections: int = Field(default=1024, gt=0, lt=_LARGEST)
    """Maximum connections. Further connections are closed at once; senders retry."""

    @model_validator(mode="after")
    def _speakable(self) -> Self:
        if self.tls is not None and self.tls.min_version != "1.2":
            raise ValueError("tls.min_version must be 1.2: gRPC always accepts both 1.2 and 1.3")
        return self

    async def run(self, intake: Intake, runtime: Runtime, listening: Callable[[str], None]) -> None:
        """Serve until cancelled. Raises `ConfigError` if the port is taken or a file cannot be read."""
        from monitor.transport.otlp import grpc_server  # noqa: PLC0415 - grpc is slow to import

        reception = Reception("otlp_grpc", self, intake, runtime, grpc_server.CODES)
        limits = grpc_server.GrpcLimits(
            self.max_concurrent_streams,
            self.max_connections,
            self.handshake_timeout,
            self.idle_timeout,
        )
        router = grpc_server.Router(reception, self.body_timeout)
        await runtime.doors.serve(self.door_key, router, grpc_server.server(self, limits, runtime), listening)
