"""Serve OTLP/gRPC on grpc.aio, with requests as raw bytes: only items that are kept are decoded.

Import this only when a server is about to run: grpc takes a fifth of a second to import.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import anyio
import grpc
import grpc.aio

from monitor.errors import ConfigError, InvalidData, TooLarge, Unauthenticated
from monitor.model.span import Signal
from monitor.transport.http.listener import cannot_listen, in_words
from monitor.transport.http.tls import Tls
from monitor.transport.otlp.receiver import OtlpReceiver, Reception, Refusal, success

if TYPE_CHECKING:
    from monitor.clock import Clock
    from monitor.stages import Accepted, Runtime
    from monitor.stages.doors import Door
    from monitor.telemetry.events import Events
    from monitor.transport.otlp.limits import Lease

CODES = (
    "OK",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "UNAUTHENTICATED",
    "RESOURCE_EXHAUSTED",
    "UNAVAILABLE",
    "UNIMPLEMENTED",
)

_SIGNALS: dict[str, Signal] = {
    "/opentelemetry.proto.collector.trace.v1.TraceService/Export": "traces",
    "/opentelemetry.proto.collector.logs.v1.LogsService/Export": "logs",
}
_COMPRESSED: Final = (b"\x1f\x8b", b"\x78\x01", b"\x78\x5e", b"\x78\x9c", b"\x78\xda")
"""The first bytes of gzip and deflate (zlib) messages. No plain export request begins with them, and gRPC does not
expose the encoding."""

_GRACE = 1.0  # seconds for calls in progress when the server stops
_WRONG_TOKEN_SECONDS: Final = 0.5  # delay before a wrong token is answered, to slow down guessing
_PING_AFTER_MS: Final = 60_000
_PONG_WITHIN_MS: Final = 20_000


class GrpcLimits(NamedTuple):
    """Limits of calls and connections. `handshake` and `idle` are times in seconds."""

    streams: int
    connections: int
    handshake: float
    idle: float


def server(
    options: OtlpReceiver, limits: GrpcLimits, runtime: Runtime
) -> Callable[[Door[Router], Callable[[str], None]], Awaitable[None]]:
    """Return a function that runs the server of a door at the address of `options`.

    It raises `ConfigError` if the port is taken or a file cannot be read.
    """

    async def run(door: Door[Router], listening: Callable[[str], None]) -> None:
        tls = credentials(options.tls, runtime.clock, runtime.events) if options.tls is not None else None
        await _serve(door, options, limits, tls, listening)

    return run


async def _serve(
    door: Door[Router],
    options: OtlpReceiver,
    limits: GrpcLimits,
    credentials: grpc.ServerCredentials | None,
    listening: Callable[[str], None],
) -> None:
    """Serve until cancelled; then calls in progress have a second to finish."""
    server = grpc.aio.server(
        handlers=[_GrpcFront(door)],
        options=[
            ("grpc.max_receive_message_length", options.max_body_bytes),
            ("grpc.per_message_decompression", 0),  # ours is three times as fast, and bounded as in HTTP
            ("grpc.max_concurrent_streams", limits.streams),
            ("grpc.max_allowed_incoming_connections", limits.connections),
            ("grpc.server_handshake_timeout_ms", int(limits.handshake * 1000)),
            ("grpc.max_connection_idle_ms", int(limits.idle * 1000)),
            ("grpc.keepalive_time_ms", _PING_AFTER_MS),
            ("grpc.keepalive_timeout_ms", _PONG_WITHIN_MS),
            ("grpc.so_reuseport", 0),  # or a second monitor would silently take half of the calls
        ],
    )
    address = in_words(options.host, options.port)
    try:
        if credentials is None:
            port = server.add_insecure_port(address)
        else:
            port = server.add_secure_port(address, credentials)
    except RuntimeError:
        port = 0
    if port == 0:
        await server.stop(None)
        raise cannot_listen(options.host, options.port, "the port is in use, or the address is not one of this machine")
    await server.start()
    try:
        listening(in_words(options.host, port))
        # Not wait_for_termination: cancelling that cuts off the calls in progress.
        await anyio.sleep_forever()
    finally:
        with anyio.CancelScope(shield=True):
            await server.stop(_GRACE)


class _GrpcFront(grpc.GenericRpcHandler):  # type: ignore[misc] # grpc is not typed
    """Passes each call on to the router that is currently behind the door."""

    def __init__(self, door: Door[Router]) -> None:
        self._door = door

    def service(self, call: Any) -> Any:
        router = self._door.app

        async def passed_on(messages: Any, context: Any) -> bytes:
            door = self._door
            current = router or await door.wait()
            if current is None:
                return _reloading(context)
            task = asyncio.current_task()
            assert task is not None  # noqa: S101 - grpc makes one for each call
            door.running.add(task)
            try:
                return await current.take(call, messages, context)
            except asyncio.CancelledError:
                if task not in door.cut:
                    raise
                return _reloading(context)
            finally:
                door.running.discard(task)

        # As a stream, the call reaches us before its message, so it can be ended if the message does not arrive.
        return grpc.stream_unary_rpc_method_handler(passed_on)


def _reloading(context: Any) -> bytes:
    context.set_code(grpc.StatusCode.UNAVAILABLE)
    context.set_details("the monitor is reloading its configuration; try again")
    return b""


class Router:
    """Routes a call by its path, before its message is read."""

    def __init__(self, reception: Reception, message_timeout: float) -> None:
        self._reception = reception
        self._exports = {path: _Export(reception, signal, message_timeout) for path, signal in _SIGNALS.items()}

    async def take(self, call: Any, messages: Any, context: Any) -> bytes:
        """Answer a call; its path and metadata are in `call`."""
        authorization = _authorization(call.invocation_metadata)
        try:
            self._reception.check_token(authorization)
        except Unauthenticated as error:
            if authorization is not None:
                await asyncio.sleep(_WRONG_TOKEN_SECONDS)
            return _refused(self._reception, context, self._reception.refused(error))
        export = self._exports.get(call.method)
        if export is None:
            why = f"there is no method {call.method}; only traces and logs are accepted"
            return _refused(self._reception, context, self._reception.refused(Refusal(501, "UNIMPLEMENTED", why)))
        return await export.call(messages, context)


class _Export:
    """One export method: the message as bytes in, the response as bytes out."""

    def __init__(self, reception: Reception, signal: Signal, message_timeout: float) -> None:
        self._reception = reception
        self._signal = signal
        self._timeout = message_timeout

    async def call(self, _messages: Any, context: Any) -> bytes:
        reception = self._reception
        lease = reception.in_flight.lease()
        try:
            accepted = await self._take(context, lease)
        except Exception as error:  # noqa: BLE001 - after any error, the sender gets an answer that it understands
            refusal = reception.refused(error)
        else:
            reception.answered("OK")
            return success(self._signal, accepted, "protobuf")
        await reception.pace(refusal, lease)
        return _refused(reception, context, refusal)

    async def _take(self, context: Any, lease: Lease) -> Accepted:
        reception = self._reception
        reception.check_room()
        message = await self._message(context)
        reception.received_bytes.inc(len(message))
        with lease:
            if message.startswith(_COMPRESSED):
                message = await self._inflated(message, lease)
            return await reception.deliver(self._signal, message, lease)

    async def _inflated(self, message: bytes, lease: Lease) -> bytes:
        try:
            return await self._reception.inflate(message, lease)
        except TooLarge as error:
            # gRPC's own wording: exporters recognise it, tell it from an exhausted quota, and send smaller requests.
            raise TooLarge(f"received message larger than max: {error}") from None

    async def _message(self, context: Any) -> bytes:
        try:
            async with asyncio.timeout(self._timeout):
                message = await context.read()
        except TimeoutError:
            why = f"the message did not arrive within {self._timeout:g} s"
            raise Refusal(408, "DEADLINE_EXCEEDED", why) from None
        if message is grpc.aio.EOF:
            raise InvalidData("the call has no message")
        found: bytes = message
        return found


def _refused(reception: Reception, context: Any, refusal: Refusal) -> bytes:
    """End a call with a status and an empty message, which is not read.

    Not `context.abort`: its exception and the call reference each other, so every refused message would stay in memory
    until the garbage collector runs.
    """
    reception.answered(refusal.code)
    context.set_code(getattr(grpc.StatusCode, refusal.code))
    context.set_details(refusal.message)
    context.set_trailing_metadata(refusal.trailers())
    return b""


def _authorization(metadata: Any) -> str | None:
    for key, value in metadata or ():
        if key == "authorization":
            return value.decode("latin-1") if isinstance(value, bytes) else str(value)
    return None


def credentials(tls: Tls, clock: Clock, events: Events) -> grpc.ServerCredentials:
    """Build credentials that are reloaded when their files change. Raises `ConfigError`."""
    from monitor.transport.http.files import Reloaded  # noqa: PLC0415

    def load() -> Any:
        tls.context()  # OpenSSL reports what is wrong with a file; gRPC would only fail its handshakes
        material = tls.material()
        return grpc.ssl_server_certificate_configuration([(material.key, material.certificate)], material.client_ca)

    try:
        current = Reloaded(tls.paths, load, clock, events)
    except ValueError as error:
        raise ConfigError(f"the certificate cannot be used: {error}") from None
    return grpc.dynamic_ssl_server_credentials(current(), current, tls.client_ca_file is not None)
