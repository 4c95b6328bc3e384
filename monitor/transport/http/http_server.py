"""Run the ASGI server (uvicorn with httptools) as a coroutine, and add the time limits that it lacks.

Import this only when a server is about to run: uvicorn takes a tenth of a second to import.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import socket
import ssl
from collections.abc import Awaitable, Callable
from typing import Any, Literal, NamedTuple

import anyio
import httptools
import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from monitor.stages import Runtime
from monitor.stages.doors import Door
from monitor.transport.http.listener import ListenerOptions, bind, in_words

_MAX_HEAD_BYTES = 64 * 1024
_HIGH_WATER = 256 * 1024  # bytes of a body buffered for its reader; the event loop reads this many at once
_WARN_EVERY = 10.0  # seconds
_GRACE = 1  # seconds for requests in progress when the server stops


_OFFERS = (b"upgrade", b"http2-settings")
_RELOADING = b"the monitor is reloading its configuration; try again\n"


class Timeouts(NamedTuple):
    """Time limits in seconds: to receive a request's head and body, to send an answer, and for idle connections."""

    head: float
    body: float
    write: float
    idle: float


def server(
    options: ListenerOptions, timeouts: Timeouts, runtime: Runtime
) -> Callable[[Door[Any], Callable[[str], None]], Awaitable[None]]:
    """Return a function that runs the server of a door at the address of `options`.

    It raises `ConfigError` if the port is taken or a file cannot be read.
    """

    async def run(door: Door[Any], listening: Callable[[str], None]) -> None:
        tls = options.tls.reloading_context(runtime.clock, runtime.events) if options.tls is not None else None
        with bind(options.host, options.port) as bound:
            address = in_words(options.host, bound.getsockname()[1])
            await serve(_HttpFront(door), bound, tls, timeouts, lambda: listening(address))

    return run


class _HttpFront:
    """Passes each request on to the application that is currently behind the door."""

    def __init__(self, door: Door[Any]) -> None:
        self._door = door

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        door = self._door
        app = door.app or await door.wait()
        if app is None:
            await _busy(send)
            return
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - the server makes one for each request
        door.running.add(task)
        try:
            await app(scope, receive, send)
        except asyncio.CancelledError:
            if task not in door.cut:
                raise
            with contextlib.suppress(RuntimeError):  # if the response has begun, uvicorn closes the connection
                await _busy(send)
        finally:
            door.running.discard(task)


async def _busy(send: Any) -> None:
    headers = [
        (b"content-type", b"text/plain; charset=utf-8"),
        (b"content-length", b"%d" % len(_RELOADING)),
        (b"retry-after", b"1"),
        (b"connection", b"close"),  # the rest of the body is not read
    ]
    await send({"type": "http.response.start", "status": 503, "headers": headers})
    await send({"type": "http.response.body", "body": _RELOADING})


async def serve(
    app: Any, bound: socket.socket, tls: ssl.SSLContext | None, timeouts: Timeouts, listening: Callable[[], None]
) -> None:
    """Serve `app` on a bound socket until cancelled; then requests in progress have a second to finish."""
    config = uvicorn.Config(
        app,
        http=functools.partial(_Protocol, timeouts=timeouts, unreadable=_Unreadable()),  # type: ignore[arg-type] # it is called like the class
        ws="none",
        interface="asgi3",
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        date_header=False,
        timeout_keep_alive=timeouts.idle,  # type: ignore[arg-type] # only ever passed to call_later
        timeout_graceful_shutdown=_GRACE,
        ssl_context_factory=(lambda _config, _default: tls) if tls is not None else None,
    )
    server = _Server(config, listening)
    serving = asyncio.create_task(server.serve(sockets=[bound]))
    try:
        await asyncio.shield(serving)
    finally:
        server.stopping.set()
        with anyio.CancelScope(shield=True):
            await serving
            # Requests cut off at the end of the grace period must still be answered.
            await asyncio.gather(*server.server_state.tasks, return_exceptions=True)


class _Server(uvicorn.Server):
    """A server that leaves the process's signals alone and reports when it listens."""

    def __init__(self, config: uvicorn.Config, listening: Callable[[], None]) -> None:
        super().__init__(config)
        self.stopping = asyncio.Event()
        self._listening = listening

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._listening()

    async def main_loop(self) -> None:
        await self.on_tick(0)
        await self.stopping.wait()  # instead of uvicorn's polling

    def capture_signals(self) -> contextlib.AbstractContextManager[None]:  # type: ignore[override] # used in a `with` only
        return contextlib.nullcontext()


class _FirstPiece:
    """The first piece of a body, in place of uvicorn's `bytearray`: not copied if it is read before the next piece."""

    __slots__ = ("_content",)

    def __init__(self, content: bytes) -> None:
        self._content = content

    def __bytes__(self) -> bytes:
        return self._content

    def __len__(self) -> int:
        return len(self._content)

    def __iadd__(self, more: bytes) -> bytearray:
        return bytearray(self._content) + more


class _Unreadable:
    """Warns of requests that are not HTTP, such as TLS or gRPC: every ten seconds, or strangers could fill the log."""

    def __init__(self) -> None:
        self._quiet_until = float("-inf")
        self._unsaid = 0

    def warn(self, logger: logging.Logger, now: float) -> None:
        if now < self._quiet_until:
            self._unsaid += 1
            return
        before = f" ({self._unsaid} not logged before)" if self._unsaid else ""
        logger.warning("a request is not HTTP/1.1: is it TLS, or gRPC?%s", before)
        self._quiet_until, self._unsaid = now + _WARN_EVERY, 0


class _Protocol(HttpToolsProtocol):
    """One connection. Half-open and stalled connections are closed, so that they cannot accumulate."""

    def __init__(self, *args: Any, timeouts: Timeouts, unreadable: _Unreadable, **options: Any) -> None:
        super().__init__(*args, **options)
        self._timeouts = timeouts
        self._unreadable = unreadable
        self._arriving: Literal["head", "body"] | None = "head"
        self._watched: Literal["head", "body"] | None = None
        self._read_timer: asyncio.TimerHandle | None = None
        self._write_timer: asyncio.TimerHandle | None = None
        self._head_bytes = 0
        self._answering: RequestResponseCycle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        for timer in (self._read_timer, self._write_timer):
            if timer is not None:
                timer.cancel()
        self._answer_no_more()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._unset_keepalive_if_required()
        rest = data
        while rest:
            rest = self._parse(rest)
        # Checked after the data, so that a request that arrives in one piece needs no timer.
        if self._arriving == "head":
            self._head_bytes += len(data)
            if self._head_bytes > _MAX_HEAD_BYTES:
                self.transport.abort()
        if self._arriving != self._watched:
            self._watch()

    def _parse(self, data: bytes) -> bytes:
        """Parse `data`, as uvicorn does. Return what remains of it, with the head of a request to be read as HTTP/1.1.

        A request that offers to go on in another protocol, as each of Java's HTTP client does (HTTP/2), is one of
        HTTP/1.1 for a server that does not take the offer. The parser would leave out its body.
        """
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserError:
            self._unreadable.warn(self.logger, self.loop.time())
            self.send_400_response("Invalid HTTP request received.")
            self._answer_no_more()
        except httptools.HttpParserUpgrade as offer:
            if self._should_upgrade():
                head = self._head_without_offer()
                self.parser = httptools.HttpRequestParser(self)  # the one before has ended with a `connection: close`
                self.parser.set_dangerous_leniencies(lenient_data_after_close=True)  # as uvicorn's
                return head + data[offer.args[0] :]
        return b""

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._answering = cycle
        super()._start_asgi_task(cycle, app)

    def _answer_no_more(self) -> None:
        """Let requests that are still in work know that nobody can be answered: uvicorn tells only the latest one."""
        for cycle in (self._answering, self.cycle):
            if cycle is not None and not cycle.response_complete:
                cycle.disconnected = True
                cycle.message_event.set()

    def _should_upgrade(self) -> bool:
        # Of such a request uvicorn handles neither head nor end. CONNECT is none: it has no other form.
        return bool(self.parser.get_method() != b"CONNECT")

    def _head_without_offer(self) -> bytes:
        version = self.parser.get_http_version().encode()
        lines = [b"%s %s HTTP/%s" % (self.parser.get_method(), self.url, version)]
        for name, value in self.headers:
            if name == b"connection":
                kept = [option for option in value.split(b",") if option.strip().lower() not in _OFFERS]
                lines.append(b"connection: " + b",".join(kept))
            elif name not in _OFFERS:
                lines.append(b"%s: %s" % (name, value))
        return b"\r\n".join([*lines, b"", b""])

    def on_message_begin(self) -> None:
        super().on_message_begin()
        if self._arriving is None:
            self._watched = None  # a second request in the same piece has its own time limit
        self._arriving = "head"
        self._head_bytes = 0

    def on_headers_complete(self) -> None:
        self._arriving = "body"
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        # As uvicorn's, which copies each piece twice and stops reading after 64 KiB.
        cycle = self.cycle
        if cycle.response_complete:
            return
        if cycle.body:
            cycle.body += body
        else:
            cycle.body = _FirstPiece(body)  # type: ignore[assignment]
        if len(cycle.body) > _HIGH_WATER:
            self.flow.pause_reading()
        cycle.message_event.set()

    def on_message_complete(self) -> None:
        self._arriving = None
        super().on_message_complete()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._write_timer = self.loop.call_later(self._timeouts.write, self.transport.abort)

    def resume_writing(self) -> None:
        if self._write_timer is not None:
            self._write_timer.cancel()
        super().resume_writing()

    def _watch(self) -> None:
        if self._read_timer is not None:
            self._read_timer.cancel()
            self._read_timer = None
        self._watched = self._arriving
        if self._arriving is not None:
            seconds = self._timeouts.head if self._arriving == "head" else self._timeouts.body
            self._read_timer = self.loop.call_later(seconds, self.transport.abort)
