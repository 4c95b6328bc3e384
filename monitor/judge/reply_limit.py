"""Bounds what a model's server may answer, and how long a connection to it may take, below every client of one.

Here is also known whether a reply came back, whatever a client makes of it: `charging`.

Import this only where calls are made: httpx takes a tenth of a second to import.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final

import httpx

from monitor.judge.retry import CallFault
from monitor.model.outcome import UnscoredReason

LONGEST_REPLY: Final = 4 * 1024**2
"""Most bytes of a reply, inflated. One of eight thousand tokens with their probabilities has less than two million."""

_MOST_OBJECTS: Final = 20_000
"""Most JSON objects in a reply. Clients make an object of kilobytes of each."""

_OF_A_CALL, _LONGEST_CONNECT = 0.8, 10.0
"""A connection may take this part of the time for a call, and at most so many seconds: then it is known that nothing
was sent, and the call costs nothing."""

_GZIP_OR_ZLIB: Final = 47  # wbits of zlib: either header, the largest window


@dataclass(slots=True)
class _LastReply:
    """Whether the last request of a call was answered with a success that is no web page, readable or not."""

    success: bool = False


_LAST: ContextVar[_LastReply | None] = ContextVar("last", default=None)


@contextmanager
def charging() -> Iterator[None]:
    """Mark a `CallFault` of the call within as charged if a success came back: the reply was generated and is paid for.

    That it has no usage that can be read, is too long, or breaks off in the middle makes it no cheaper. A web page is
    not generated: the address is that of something else.
    """
    last = _LastReply()
    before = _LAST.set(last)
    try:
        yield
    except CallFault as fault:
        fault.charged = fault.charged or last.success
        raise
    finally:
        _LAST.reset(before)


class LimitedTransport(httpx.AsyncBaseTransport):
    """Reads each reply whole, up to `LONGEST_REPLY`, and asks for it uncompressed.

    Gives up a connection that is not made in less time than the client would wait for it.

    Raises `CallFault` for a longer reply, when it has read so much and no more.
    """

    def __init__(self, transport: Any) -> None:
        self._transport = transport

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request and return its reply, read whole."""
        request.headers["accept-encoding"] = "identity"
        timeout = dict(request.extensions.get("timeout") or {})
        if timeout.get("connect") is not None:
            timeout["connect"] = min(_OF_A_CALL * timeout["connect"], _LONGEST_CONNECT)
            request.extensions = {**request.extensions, "timeout": timeout}
        last = _LAST.get() or _LastReply()
        last.success = False
        response = await self._transport.handle_async_request(request)
        last.success = response.is_success and "html" not in response.headers.get("content-type", "").lower()
        try:
            content = await _read(response)
        finally:
            await response.aclose()
        left_out = (b"content-encoding", b"content-length", b"transfer-encoding")
        headers = [(name, value) for name, value in response.headers.raw if name.lower() not in left_out]
        return httpx.Response(
            response.status_code, headers=headers, content=content, extensions=response.extensions, request=request
        )

    async def aclose(self) -> None:
        """Close the connections."""
        await self._transport.aclose()


def limited(client: httpx.AsyncClient) -> httpx.AsyncClient:
    """Put the limit below a client that another library has made, through proxies as well."""
    client._transport = LimitedTransport(client._transport)  # noqa: SLF001 - httpx has no other way
    mounts = client._mounts  # noqa: SLF001
    for pattern, transport in mounts.items():
        mounts[pattern] = None if transport is None else LimitedTransport(transport)
    return client


def too_long(error: BaseException) -> CallFault | None:
    """Return the fault of a reply beyond the limit among the causes of a client's error; None if there is none."""
    seen: set[int] = set()
    cause: BaseException | None = error
    while cause is not None and id(cause) not in seen:
        if isinstance(cause, CallFault):
            return cause
        seen.add(id(cause))
        cause = cause.__cause__ or cause.__context__
    return None


async def _read(response: httpx.Response) -> bytes:
    coding = response.headers.get("content-encoding", "identity").strip().lower()
    if coding not in ("", "identity", "gzip", "x-gzip", "deflate"):
        raise _fault("the reply is compressed although it was asked for uncompressed")
    inflate = zlib.decompressobj(_GZIP_OR_ZLIB) if coding not in ("", "identity") else None
    content = bytearray()
    async for piece in response.stream:  # type: ignore[union-attr] # an asynchronous transport gives one
        left = piece
        while left:
            room = LONGEST_REPLY + 1 - len(content)
            try:
                content += left[:room] if inflate is None else inflate.decompress(left, room)
            except zlib.error:
                raise _fault("the reply is compressed and damaged") from None
            if len(content) > LONGEST_REPLY:
                raise _fault(f"the reply is longer than {LONGEST_REPLY} bytes")
            left = b"" if inflate is None else inflate.unconsumed_tail
    if content.count(b"{") > _MOST_OBJECTS:
        raise _fault(f"the reply holds more than {_MOST_OBJECTS} JSON objects")
    return bytes(content)


def _fault(message: str) -> CallFault:
    return CallFault(UnscoredReason.PROVIDER_ERROR, message, sick=True)
