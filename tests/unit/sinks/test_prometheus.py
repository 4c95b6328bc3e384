"""What is posted to the port of the metrics."""

from __future__ import annotations

from collections.abc import Mapping

import anyio
import pytest

from monitor.sinks.prometheus import PrometheusSink
from monitor.telemetry.site import WebResponse
from tests.support.runtime import runtime

pytestmark = pytest.mark.anyio


async def test_what_is_posted_counts_only_if_all_of_it_arrived() -> None:
    posted: list[bytes] = []

    async def take(_path: str, _headers: Mapping[str, str], body: bytes) -> WebResponse:
        posted.append(body)
        return WebResponse(200, "text/plain", b"taken")

    lent = runtime()
    lent.site.mount_post(take, ["/note"])
    head = b"POST /note HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 9\r\n\r\n"
    async with PrometheusSink(port=0).open(lent):
        host, _, port = lent.health.addresses["prometheus"].rpartition(":")
        for body in (b"text=", b"text=done"):
            async with await anyio.connect_tcp(host, int(port)) as sender:
                await sender.send(head + body)
                if len(body) == 9:
                    assert (await sender.receive()).startswith(b"HTTP/1.1 200")
    assert posted == [b"text=done"]
