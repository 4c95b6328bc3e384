"""Handmade alert states, and a receiver over real HTTP whose answers the test chooses."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import anyio

from monitor.alerts.policy import Severity
from monitor.alerts.state import AlertState, AlertStatus
from monitor.app import Running
from monitor.stages import Runtime
from monitor.statistics.rates import Estimate
from tests.support.tools import until


def state(
    firing: bool = True, severity: str = "critical", app: str = "shop", since: float = 1_700_000_000.0
) -> AlertState:
    return AlertState(
        status=AlertStatus.FIRING if firing else AlertStatus.OK,
        severity=Severity(severity),
        app=app,
        evaluator="grounded",
        threshold=0.1,
        since=since,
        window=3600.0,
        estimate=Estimate(0.3, 0.2, 0.4, 200, 60),
        labels={"alertname": "RagDefectRateHigh", "app": app, "evaluator": "grounded", "severity": severity},
        annotations={"summary": "The share is high.", "description": "30 % are defective."},
    )


async def looked_at(running: Running, times: int = 2) -> None:
    """Wait for this many evaluations of the alerts to end; with two, the second began after this call."""
    for _ in range(times):
        before = running.alerts  # each evaluation makes a new list
        await until(lambda before=before: running.alerts is not before, "a look at the alerts")


def counted(lent: Runtime, receiver: str, outcome: str) -> float:
    labels = {"receiver": receiver, "outcome": outcome}
    return lent.metrics.registry.get_sample_value("ragmonitor_notifications_total", labels) or 0.0


@dataclass
class Receiver:
    """An HTTP server that keeps posted bodies and gives the answers that the test sets."""

    address: str = ""
    answers: list[bytes] = field(default_factory=list)  # used up first, then 200
    silent: bool = False
    posts: list[tuple[str, dict[str, str], Any]] = field(default_factory=list)
    arrived: anyio.Event = field(default_factory=anyio.Event)

    async def until(self, count: int) -> None:
        with anyio.fail_after(120):
            while len(self.posts) < count:
                await self.arrived.wait()
                self.arrived = anyio.Event()

    async def handle(self, stream: anyio.abc.ByteStream) -> None:
        with suppress(anyio.EndOfStream, anyio.BrokenResourceError):  # a sender may give up at any point
            await self._answer(stream)

    async def _answer(self, stream: anyio.abc.ByteStream) -> None:
        async with stream:
            received = b""
            while b"\r\n\r\n" not in received:
                received += await stream.receive()
            head, body = received.split(b"\r\n\r\n", 1)
            lines = head.decode().split("\r\n")
            headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines[1:])}
            while len(body) < int(headers.get("content-length", 0)):
                body += await stream.receive()
            self.posts.append((lines[0], headers, json.loads(body)))
            self.arrived.set()
            if self.silent:
                await anyio.sleep_forever()
            await stream.send(self.answers.pop(0) if self.answers else answer("200 OK"))


def answer(status: str, *headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status}", "Content-Length: 0", "Connection: close", *headers, "", ""]
    return "\r\n".join(lines).encode()


@asynccontextmanager
async def receiver() -> AsyncIterator[Receiver]:
    made = Receiver()
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    host, port = listener.extra(anyio.abc.SocketAttribute.local_address)
    made.address = f"http://{host}:{port}"
    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, made.handle)
        yield made
        tasks.cancel_scope.cancel()


@asynccontextmanager
async def running(work: Callable[[], Awaitable[None]]) -> AsyncIterator[None]:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(work)
        yield
        tasks.cancel_scope.cancel()
