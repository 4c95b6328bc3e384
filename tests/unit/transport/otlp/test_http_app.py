"""Requests over HTTP are answered when nothing holds them anymore."""

from __future__ import annotations

import weakref
from typing import Any

import pytest

from monitor.clock import SystemClock
from monitor.errors import TooLarge
from monitor.sources.otlp_http import OtlpHttp
from monitor.transport.otlp.http_app import HttpApp, PostedBody, Route
from monitor.transport.otlp.limits import Lease
from monitor.transport.otlp.receiver import Reception, Refusal
from tests.support.otlp import ScriptedIntake
from tests.support.runtime import runtime
from tests.support.tools import until

pytestmark = pytest.mark.anyio


class Content:
    """What was made of a body."""


@pytest.mark.parametrize("size", [10, 10_000_000], ids=["on the event loop", "in a thread"])
async def test_while_a_refusal_waits_for_its_turn_the_refused_request_is_not_in_memory(
    size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = Reception("otlp_http", OtlpHttp(), ScriptedIntake(), runtime(SystemClock()), ("413",))
    made: list[weakref.ref[Content]] = []
    alive: list[bool] = []
    sent: list[Any] = []

    def read() -> None:
        content = Content()
        made.append(weakref.ref(content))
        try:
            int("the parser's own error")
        except ValueError:
            raise TooLarge("too much") from None

    async def take(_delivery: PostedBody) -> bytes:
        await at.in_turn(size, read)
        return b""

    async def pace(_refusal: Refusal, lease: Lease) -> None:
        await until(lambda: made[0]() is None, "the thread lets it go, a moment after it has answered")
        alive.append(made[0]() is not None)
        assert (at.in_flight.bytes, lease.largest) == (0, 4)

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"body", "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    monkeypatch.setattr(at, "pace", pace)
    app = HttpApp(at, {"/v1/odd": Route({b"application/json": "json"}, take)}, frozenset())
    headers = [(b"content-type", b"application/json"), (b"content-length", b"4")]
    await app({"type": "http", "method": "POST", "path": "/v1/odd", "headers": headers}, receive, send)
    assert sent[0]["status"] == 413
    assert alive == [False]
