"""Metrics for Prometheus, and the health endpoints, on a port of their own.

The pipeline counts every result itself, in the same step in which its ledger moves on, so that all series of one scrape
belong together; this sink makes them reachable.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import anyio
from prometheus_client import exposition
from pydantic import Field

from monitor.errors import Unauthenticated
from monitor.model.outcome import Judged
from monitor.serving.auth import Gate, open_gate
from monitor.serving.listener import Listener, bind, in_words
from monitor.stages import Deliver, Runtime, Sink
from monitor.telemetry.events import Event

_Send = Callable[[dict[str, Any]], Awaitable[None]]
_Gate = Gate | Callable[[str | None], None]
_TEXT = "text/plain; charset=utf-8"


class Prometheus(Listener, Sink):
    """Serves `/metrics` (Prometheus text and OpenMetrics with exemplars), `/-/healthy` and `/-/ready`."""

    port: int = Field(default=9464, ge=0, le=65535)
    """The port to listen on; 0 takes any free one."""

    def open(self, runtime: Runtime) -> AbstractAsyncContextManager[Deliver]:
        """Listen while the context lasts. Raises `ConfigError` where the port is taken or a file cannot be read."""
        return self._open(runtime)

    @asynccontextmanager
    async def _open(self, runtime: Runtime) -> AsyncIterator[Deliver]:
        up = anyio.Event()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._serve, runtime, up)
            await up.wait()
            yield _already_counted
            tasks.cancel_scope.cancel()

    async def _serve(self, runtime: Runtime, up: anyio.Event) -> None:
        from monitor.serving import http_server  # noqa: PLC0415 - uvicorn is slow to import

        tls = self.tls.reloading_context(runtime.clock, runtime.events) if self.tls is not None else None
        gate = self.auth.gate(runtime.clock, runtime.events) if self.auth else open_gate
        timeouts = http_server.Timeouts(head=10.0, body=10.0, write=30.0, idle=120.0)
        with bind(self.host, self.port) as bound:
            address = in_words(self.host, bound.getsockname()[1])

            def listening() -> None:
                runtime.health.addresses["prometheus"] = address
                runtime.events.info(Event.LISTENING, "metrics are served", address=f"{address}/metrics")
                up.set()

            await http_server.serve(_Endpoints(runtime, gate), bound, tls, timeouts, listening)


async def _already_counted(_: Judged) -> None:
    return


class _Endpoints:
    """The ASGI application. Only the health of the process is told without a token."""

    def __init__(self, runtime: Runtime, gate: _Gate) -> None:
        self._runtime = runtime
        self._gate = gate

    async def __call__(self, scope: dict[str, Any], _receive: object, send: _Send) -> None:
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        challenge = []
        try:
            status, kind, body = self._answer(scope["method"], scope["path"], headers)
        except Unauthenticated as error:
            status, kind, body = 401, _TEXT, f"{error}\n".encode()
            challenge = [(b"www-authenticate", error.challenge.encode())]
        fields = [(b"content-type", kind.encode()), (b"content-length", str(len(body)).encode()), *challenge]
        await send({"type": "http.response.start", "status": status, "headers": fields})
        await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})

    def _answer(self, method: str, path: str, headers: dict[str, str]) -> tuple[int, str, bytes]:
        if method not in ("GET", "HEAD"):
            return 405, _TEXT, b"only GET and HEAD\n"
        if path == "/-/healthy":
            return 200, _TEXT, b"healthy\n"
        self._gate(headers.get("authorization"))
        if path == "/metrics":
            encode, kind = exposition.choose_encoder(headers.get("accept", ""))
            return 200, kind, encode(self._runtime.metrics.registry)
        if path == "/-/ready":
            return self._ready()
        return 200 if path == "/" else 404, _TEXT, b"rag-monitor: there are /metrics, /-/healthy and /-/ready\n"

    def _ready(self) -> tuple[int, str, bytes]:
        health = self._runtime.health
        if health.ready:
            return 200, _TEXT, b"ready\n"
        return 503, _TEXT, f"not ready: {'; '.join(health.reasons)}\n".encode()
