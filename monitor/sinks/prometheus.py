"""Sink `prometheus`: metrics, health endpoints and the UI, on one port.

The pipeline itself counts every result, in the same step as its ledger, so that all series of one scrape are
consistent; this sink only serves them.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, ClassVar

import anyio
from prometheus_client import exposition
from pydantic import Field

from monitor.errors import Unauthenticated
from monitor.model.outcome import EvaluationResult
from monitor.stages import Deliver, Runtime, Sink
from monitor.telemetry.events import Event
from monitor.telemetry.exposition import Exposition
from monitor.telemetry.site import VIEWER, Viewer, WebResponse
from monitor.transport.http.auth import Gate, HostName, WebsiteGuard, is_named, open_gate
from monitor.transport.http.listener import ListenerOptions

_Send = Callable[[dict[str, Any]], Awaitable[None]]
_Receive = Callable[[], Awaitable[dict[str, Any]]]
_Gate = Gate | Callable[[str | None], None]
_TEXT = "text/plain; charset=utf-8"
_OPENMETRICS = "application/openmetrics-text"
_NOT_FOUND = 404
_RELOAD = "/-/reload"
_THERE_ARE = b"rag-monitor serves /metrics, /-/healthy and /-/ready\n"
_LARGEST_BODY = 64 * 1024  # a note of 4,000 characters in a form takes up to 48,000 bytes
_BASIC = 'Basic realm="rag-monitor", charset="UTF-8"'


class PrometheusSink(ListenerOptions, Sink):
    """Serve `/metrics` (Prometheus text, and OpenMetrics with exemplars), `/-/healthy`, `/-/ready` and the UI.

    Browsers may send the token as the password of HTTP Basic authentication, with any user name.
    """

    follows: ClassVar[bool] = False

    port: int = Field(default=9464, ge=0, le=65535)
    """Port to listen on; 0 picks a free one."""

    hosts: tuple[HostName, ...] = ()
    """More host names under which to serve this port if it requires no token, such as `[rag-monitor.example.com]`. It
    is always served under IP addresses, names without a dot, names that end in `.svc`, `.cluster.local`, `.internal`
    or `.localhost`, and the name in `ui.url`. List only names that no outsider can point at your address: otherwise a
    website under such a name could read the metrics and the UI through a visitor's browser."""

    def external_copies(self) -> str:
        """Return nothing: metrics identify no request."""
        return ""

    @asynccontextmanager
    async def open(self, runtime: Runtime) -> AsyncIterator[Deliver]:
        """Listen while the context lasts. Raises `ConfigError` if the port is taken or a file cannot be read."""
        up = anyio.Event()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._serve, runtime, up)
            await up.wait()
            yield _already_counted
            tasks.cancel_scope.cancel()

    async def _serve(self, runtime: Runtime, up: anyio.Event) -> None:
        from monitor.transport.http import http_server  # noqa: PLC0415 - uvicorn is slow to import

        gate = self.auth.gate(runtime.clock, runtime.events) if self.auth else open_gate
        timeouts = http_server.Timeouts(head=10.0, body=10.0, write=30.0, idle=120.0)

        def listening(address: str) -> None:
            runtime.health.addresses["prometheus"] = address
            runtime.events.info(Event.LISTENING, "metrics are served", address=f"{address}/metrics")
            up.set()

        endpoints = _Endpoints(runtime, gate, self.hosts)
        await runtime.doors.serve(self.door_key, endpoints, http_server.server(self, timeouts, runtime), listening)


async def _already_counted(_: Sequence[EvaluationResult]) -> None:
    return


class _Endpoints:
    """The ASGI application. Without a token, only health endpoints can be read."""

    def __init__(self, runtime: Runtime, gate: _Gate, hosts: tuple[str, ...]) -> None:
        self._runtime = runtime
        self._gate = gate
        self._hosts = hosts
        self._exposition = Exposition(runtime.metrics, runtime.clock.monotonic)

    async def __call__(self, scope: dict[str, Any], receive: _Receive, send: _Send) -> None:
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        more: list[tuple[bytes, bytes]] = []
        try:
            status, kind, body = await self._answer(scope["method"], scope["path"], headers)
            if status == _NOT_FOUND:
                page = await self._page(scope, headers, receive)
                if page is not None:
                    status, kind, body = page.status, page.kind, page.body
                    more = [(name.encode(), value.encode()) for name, value in page.headers.items()]
                elif scope["path"] == "/":
                    status = 200
        except Unauthenticated as error:
            status, kind, body = 401, _TEXT, f"{error}\n".encode()
            more = [(b"www-authenticate", challenge.encode()) for challenge in (error.challenge, _BASIC)]
        except _SenderGone:
            return
        fields = [(b"content-type", kind.encode()), (b"content-length", str(len(body)).encode()), *more]
        await send({"type": "http.response.start", "status": status, "headers": fields})
        await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})

    async def _answer(self, method: str, path: str, headers: dict[str, str]) -> tuple[int, str, bytes]:
        reads = method in ("GET", "HEAD")
        if reads and path == "/-/healthy":
            return 200, _TEXT, b"healthy\n"
        authorization = _as_bearer(headers.get("authorization"))
        if reads and path == "/-/ready":
            return self._ready(authorization)
        self._gate(authorization)
        if path == _RELOAD:
            return await self._reload(method, headers)
        if self._gate is open_gate and not is_named(headers.get("host", ""), {*self._hosts, *self._runtime.site.names}):
            return 421, _TEXT, b"this port is not served under this host name: set `hosts` of the sink, or ui.url\n"
        posts = method == "POST" and self._runtime.site.accepts_post(path)
        if reads and path == "/metrics":
            _, kind = exposition.choose_encoder(headers.get("accept", ""))
            return 200, kind, await self._exposition.text(openmetrics=kind.startswith(_OPENMETRICS))
        status, text = (_NOT_FOUND, _THERE_ARE) if reads or posts else (405, b"only GET and HEAD are allowed\n")
        return status, _TEXT, text

    async def _reload(self, method: str, headers: dict[str, str]) -> tuple[int, str, bytes]:
        """Reload the configuration, and answer with the outcome."""
        if method != "POST":
            return 405, _TEXT, b"only POST is allowed\n"
        names = (*self._hosts, *self._runtime.site.names)
        guard = WebsiteGuard(names, any_host=self._gate is not open_gate)
        if refused := guard.why_refused(headers.get("host", ""), headers.get("origin"), headers.get("sec-fetch-site")):
            return 403, _TEXT, f"{refused}\n".encode()
        reloads = self._runtime.reloads
        if not reloads.over_http:
            return 403, _TEXT, b"reloading over HTTP is off: set `reload: {http: true}`\n"
        self._runtime.doors.let_go()
        report = await reloads.request("POST /-/reload")
        return 200 if report.ok else 500, _TEXT, f"{report.text}\n".encode()

    async def _page(self, scope: dict[str, Any], headers: dict[str, str], receive: _Receive) -> WebResponse | None:
        site = self._runtime.site
        VIEWER.set(_viewer(scope, headers, known=self._gate is not open_gate))
        if scope["method"] != "POST":
            return await site.get(scope["path"], scope["query_string"].decode("latin-1"), headers)
        body = await _body(receive)
        if body is None:
            message = f"the body exceeds {_LARGEST_BODY} bytes\n"
            return WebResponse(413, _TEXT, message.encode(), {"connection": "close"})
        return await site.post(scope["path"], headers, body)

    def _ready(self, authorization: str | None) -> tuple[int, str, bytes]:
        """Answer readiness probes. They have no token, so the reasons are shown only to clients with one."""
        health = self._runtime.health
        if health.ready:
            return 200, _TEXT, b"ready\n"
        try:
            self._gate(authorization)
        except Unauthenticated:
            return 503, _TEXT, b"not ready\n"
        return 503, _TEXT, f"not ready: {'; '.join(health.reasons)}\n".encode()


class _SenderGone(Exception):  # noqa: N818 - never leaves this module
    """The sender has gone before all of its body was there: nothing of it counts."""


async def _body(receive: _Receive) -> bytes | None:
    """Read the body of a request; None if it is too large. Raises `_SenderGone`."""
    body, more = bytearray(), True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise _SenderGone
        body += message.get("body", b"")
        more = bool(message.get("more_body"))
        if len(body) > _LARGEST_BODY:
            return None
    return bytes(body)


def _viewer(scope: dict[str, Any], headers: dict[str, str], *, known: bool) -> Viewer:
    """Name the caller for the audit log. Tokens have no names, so use the first eight digits of the token's hash."""
    peer = str((scope.get("client") or ("",))[0])
    if not known:
        return Viewer(peer=peer)
    token = (_as_bearer(headers.get("authorization")) or "").partition(" ")[2].strip()
    return Viewer(f"token {hashlib.sha256(token.encode()).hexdigest()[:8]}", peer)


def _as_bearer(authorization: str | None) -> str | None:
    """Convert the HTTP Basic password that a browser sends into a bearer token."""
    scheme, _, encoded = (authorization or "").partition(" ")
    if scheme.lower() != "basic":
        return authorization
    try:
        _, _, password = base64.b64decode(encoded, validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        return authorization
    return f"Bearer {password}"
