"""Whether a call that failed is charged: by the last reply that came, whatever a client makes of it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import suppress

import httpx
import pytest

from monitor.judge.reply_limit import LONGEST_REPLY, LimitedTransport, charging
from monitor.judge.retry import CallFault
from monitor.model.outcome import UnscoredReason

pytestmark = pytest.mark.anyio


class BrokenOff(httpx.AsyncByteStream):
    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield b'{"choices"'
        raise httpx.ReadError("broken")


def page(status: int = 200) -> httpx.Response:
    return httpx.Response(status, headers={"content-type": "Text/HTML; charset=utf-8"}, content=b"<html>")


async def charged(*replies: httpx.Response | Exception) -> bool:
    """Whether a call of so many requests is, whose client cannot use the last reply."""
    answers = iter(replies)

    def answer(_: httpx.Request) -> httpx.Response:
        one = next(answers)
        if isinstance(one, Exception):
            raise one
        return one

    async def call() -> None:
        with charging():
            async with httpx.AsyncClient(transport=LimitedTransport(httpx.MockTransport(answer))) as client:
                for _ in replies:
                    with suppress(httpx.HTTPError):
                        await client.get("http://judge")
            raise CallFault(UnscoredReason.PROVIDER_ERROR, "no completion")

    with pytest.raises(CallFault) as failed:
        await call()
    return failed.value.charged


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        (httpx.Response(200, json=[]), True),
        (httpx.Response(299), True),
        (httpx.Response(200, stream=BrokenOff()), True),
        (httpx.Response(200, content=bytes(LONGEST_REPLY + 1)), True),
        (httpx.Response(307), False),
        (httpx.Response(500, json={"error": {}}), False),
        (httpx.Response(500, stream=BrokenOff()), False),
        (httpx.Response(500, content=bytes(LONGEST_REPLY + 1)), False),
        (page(), False),
        (httpx.ReadError("no reply"), False),
    ],
)
async def test_a_call_is_charged_if_a_success_came_back_that_is_no_web_page(
    reply: httpx.Response | Exception, expected: bool
) -> None:
    assert await charged(reply) is expected


@pytest.mark.parametrize("last", [httpx.Response(429), httpx.ConnectError("refused")])
async def test_the_reply_to_an_earlier_request_of_a_call_such_as_for_a_token_does_not_count(
    last: httpx.Response | Exception,
) -> None:
    assert await charged(httpx.Response(200, json={"access_token": "x"}), last) is False


async def test_the_reply_to_an_earlier_call_does_not_count() -> None:
    assert await charged(httpx.Response(200))
    assert await charged() is False


async def test_a_fault_that_is_charged_anyway_stays_so() -> None:
    with pytest.raises(CallFault) as failed, charging():
        raise CallFault(UnscoredReason.TIMEOUT, "silent", charged=True)
    assert failed.value.charged
