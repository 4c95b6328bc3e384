"""Serve OTLP/HTTP as an ASGI application, independent of the server: one request in, one answer out.

Everything else posted to the same port (rows, feedback) has its own route, with the same token, limits and refusals.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any, NamedTuple, TypeAlias

from monitor.errors import Overloaded, TooLarge, Unauthenticated
from monitor.model.span import Signal
from monitor.transport.http.auth import WebsiteGuard
from monitor.transport.otlp import limits
from monitor.transport.otlp.receiver import Encoding, Reception, Refusal, success

Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
Headers: TypeAlias = Mapping[bytes, bytes]

CODES = ("200", "400", "401", "403", "404", "405", "413", "415", "501", "503")

_TYPES: dict[bytes, Encoding] = {b"application/x-protobuf": "protobuf", b"application/json": "json"}
_UNIMPLEMENTED = {"/v1/metrics": "metrics", "/v1development/profiles": "profiles"}
_CLOSE = (b"connection", b"close")
_DRAIN_SECONDS = 1.0
_WRONG_TOKEN_SECONDS = 0.5  # delay before a wrong token is answered, to slow down guessing


class PostedBody(NamedTuple):
    """The decompressed body of a request, with the details of the request that its route may need."""

    content: bytes
    encoding: Encoding
    query: bytes
    lease: limits.Lease


class Route(NamedTuple):
    """One path: the content types that it accepts, and the function that answers a delivery.

    `bulk`: while the pipeline has no room, deliveries are refused before they are read.
    """

    types: Mapping[bytes, Encoding]
    take: Callable[[PostedBody], Awaitable[bytes]]
    bulk: bool = True


def export(reception: Reception, signal: Signal) -> Route:
    """Return the route of OTLP exports of `signal`."""

    async def take(delivery: PostedBody) -> bytes:
        as_json = delivery.encoding == "json"
        accepted = await reception.deliver(signal, delivery.content, delivery.lease, as_json=as_json)
        return success(signal, accepted, delivery.encoding)

    return Route(_TYPES, take)


class HttpApp:
    """Answers `POST` on the paths of `routes`, and CORS preflight requests of pages of `origins`."""

    def __init__(
        self,
        reception: Reception,
        routes: Mapping[str, Route],
        origins: frozenset[str],
        guard: WebsiteGuard | None = None,
    ) -> None:
        self._reception = reception
        self._routes = routes
        self._origins = origins
        self._guard = guard

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Serve one request (ASGI 3, `http` scopes only)."""
        headers: Headers = dict(scope["headers"])
        shared = self._cors(headers)
        if scope["method"] == "OPTIONS" and shared and b"access-control-request-method" in headers:
            await self._answer(send, 204, b"", [*shared, *_PREFLIGHT])
            return
        encoding = _TYPES.get(_media_type(headers))
        body = _Body(headers, receive, self._reception.options.max_body_bytes)
        lease = self._reception.in_flight.lease()
        try:
            with lease:
                content = await self._take(scope, headers, body, lease)
        except _Disconnected:
            return  # the sender is gone: there is nobody to answer
        except asyncio.CancelledError:
            # Only the server cancels, when its time to stop is up: the sender should try another replica.
            refusal = self._reception.refused(Overloaded("the receiver is stopping"))
        except Exception as error:  # noqa: BLE001 - after any error, the sender gets an answer that it understands
            refusal = self._reception.refused(error)
            if isinstance(error, Unauthenticated) and b"authorization" in headers:
                await asyncio.sleep(_WRONG_TOKEN_SECONDS)
        else:
            await self._answer(send, 200, content, [*shared, _content_type(encoding)])
            return
        with contextlib.suppress(asyncio.CancelledError):  # as above: it is answered at once
            await self._reception.pace(refusal, lease)
        extra = [] if await body.drained() else [_CLOSE]
        # A sender with an unknown encoding is more likely to read JSON than protobuf.
        spoken = encoding or "json"
        extra += [*shared, *refusal.http_headers(), _content_type(spoken)]
        await self._answer(send, refusal.http, refusal.body(spoken), extra)

    async def _take(self, scope: Message, headers: Headers, body: _Body, lease: limits.Lease) -> bytes:
        authorization = headers.get(b"authorization")
        self._reception.check_token(authorization.decode("latin-1") if authorization is not None else None)
        if self._guard is not None and scope["method"] == "POST":  # other methods have no effect here
            host, origin, site = (_header(headers, name) for name in (b"host", b"origin", b"sec-fetch-site"))
            if refused := self._guard.why_refused(host or "", origin, site):
                raise Refusal(403, "PERMISSION_DENIED", refused)
        route = self._route(scope["method"], scope["path"])
        encoding = route.types.get(_media_type(headers))
        if encoding is None:
            taken = b" or ".join(route.types).decode()
            raise Refusal(415, "INVALID_ARGUMENT", f"the content type must be {taken}")
        compressed = _is_compressed(headers)
        if route.bulk:
            self._reception.check_room()
        content = await body.read(lease)
        self._reception.received_bytes.inc(len(content))
        if compressed:
            content = await self._reception.inflate(content, lease)
        return await route.take(PostedBody(content, encoding, scope.get("query_string", b""), lease))

    def _route(self, method: str, path: str) -> Route:
        route = self._routes.get(path)
        if route is None:
            if path in _UNIMPLEMENTED:
                raise Refusal(501, "UNIMPLEMENTED", f"{_UNIMPLEMENTED[path]} are not accepted, only traces and logs")
            raise Refusal(404, "NOT_FOUND", f"nothing is served here; the paths are {', '.join(self._routes)}")
        if method != "POST":
            raise Refusal(405, "UNIMPLEMENTED", "only POST is allowed", headers=((b"allow", b"POST"),))
        return route

    def _cors(self, headers: Headers) -> list[tuple[bytes, bytes]]:
        """Return the headers that allow a page of a listed origin to send; never with credentials."""
        if not self._origins or b"origin" not in headers:
            return []
        origin = headers[b"origin"]
        if "*" in self._origins:
            return [(b"access-control-allow-origin", b"*")]
        if origin.decode("latin-1") in self._origins:
            return [(b"access-control-allow-origin", origin), (b"vary", b"Origin")]
        return []

    async def _answer(self, send: Send, status: int, content: bytes, headers: list[tuple[bytes, bytes]]) -> None:
        self._reception.answered(str(status))
        if status != 204:  # noqa: PLR2004
            headers.append((b"content-length", b"%d" % len(content)))
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": content})


class _Disconnected(Exception):  # noqa: N818 - never leaves this module
    """The sender is gone."""


class _Body:
    """The body of one request while it arrives."""

    def __init__(self, headers: Headers, receive: Receive, limit: int) -> None:
        self._receive = receive
        self._limit = limit
        declared = headers.get(b"content-length", b"")
        self._declared = int(declared) if declared.isdigit() else None
        self._waits_for_us = headers.get(b"expect", b"").lower() == b"100-continue"
        self._complete = False
        self._started = False

    async def read(self, lease: limits.Lease) -> bytes:
        """Read the whole body. Raises `TooLarge`, or `Overloaded` if there is no room for it."""
        if self._declared is not None and self._declared > self._limit:
            raise TooLarge(f"the body has {self._declared} bytes; the limit is {self._limit}")
        lease.expect(self._declared or 0)
        pieces: list[bytes] = []
        size = 0
        while not self._complete:
            pieces.append(await self._next())
            size += len(pieces[-1])
            lease.hold(size)
            if size > self._limit:
                raise TooLarge(f"the body exceeds {self._limit} bytes")
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    async def drained(self) -> bool:
        """Read and discard the rest of a refused body, so that the sender gets to reading the answer.

        Return False if that is not worth it: then the connection must be closed after the answer.
        """
        if self._complete:
            return True
        if (self._waits_for_us and not self._started) or (self._declared or 0) > self._limit:
            return False
        forgotten = 0
        try:
            async with asyncio.timeout(_DRAIN_SECONDS):
                while not self._complete and forgotten <= self._limit:
                    forgotten += len(await self._next())
        except (TimeoutError, _Disconnected):
            return False
        return self._complete

    async def _next(self) -> bytes:
        self._started = True
        message = await self._receive()
        if message["type"] == "http.disconnect":
            raise _Disconnected
        self._complete = not message.get("more_body", False)
        piece: bytes = message.get("body", b"")
        return piece


_PREFLIGHT = [
    (b"access-control-allow-methods", b"POST"),
    (b"access-control-allow-headers", b"authorization, content-encoding, content-type"),
    (b"access-control-max-age", b"600"),
]


def _content_type(encoding: Encoding | None) -> tuple[bytes, bytes]:
    return (b"content-type", b"application/x-protobuf" if encoding == "protobuf" else b"application/json")


def _header(headers: Headers, name: bytes) -> str | None:
    value = headers.get(name)
    return value.decode("latin-1") if value is not None else None


def _media_type(headers: Headers) -> bytes:
    return headers.get(b"content-type", b"").partition(b";")[0].strip().lower()


def _is_compressed(headers: Headers) -> bool:
    coding = headers.get(b"content-encoding", b"identity").strip().lower()
    if coding not in (b"gzip", b"identity", b""):
        raise Refusal(
            415,
            "INVALID_ARGUMENT",
            "the content encoding must be gzip or identity",
            headers=((b"accept-encoding", b"gzip"),),
        )
    return coding == b"gzip"
