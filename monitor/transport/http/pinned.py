"""Connect only to addresses that were checked: a client's host name is resolved, checked, and replaced by the address.

A name may resolve to a metadata service, which hands out a machine's credentials, and to another address a moment
later. So the connection goes to exactly the address that was checked. Through a proxy, the proxy resolves the name.

Import this only when calls are made: httpx takes a tenth of a second to import.
"""

from __future__ import annotations

import asyncio
import ipaddress
import math
import socket
from collections.abc import Callable
from typing import Final

import anyio
import httpx

from monitor.transport.http.client import RefusedAddressError, is_metadata_address

_CONNECT: Final = 3.0
"""The longest that one address is tried before the next address of the same name, in seconds."""
_LEAST: Final = 0.001


def pinned(client: httpx.AsyncClient, allow: Callable[[], bool] = lambda: False) -> httpx.AsyncClient:
    """Add the check to a client, except through a proxy. `allow` returns whether all addresses are permitted."""
    client._transport = PinnedTransport(client._transport, allow)  # noqa: SLF001 - or httpx ignores proxies
    return client


class PinnedTransport(httpx.AsyncBaseTransport):
    """Resolves the host of each request and passes the request on with an address. The name stays in `Host` and in TLS.

    The `connect` timeout of a request covers everything: the resolver, and each address in turn.

    Raises `httpx.ConnectError` if the name does not resolve, or resolves to a link-local or metadata address.
    """

    def __init__(self, transport: httpx.AsyncBaseTransport, allow: Callable[[], bool]) -> None:
        self._transport = transport
        self._allow = allow
        self._good: dict[str, str] = {}

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request to the first address of its host that accepts a connection."""
        url, host, extensions = request.url, request.url.host, request.extensions
        timeout = dict(extensions.get("timeout") or {})
        with anyio.move_on_after(timeout.get("connect")) as resolving:
            addresses = await self._checked(request, host)
        if resolving.cancelled_caught:
            raise httpx.ConnectTimeout("the host name was not resolved in time", request=request)
        if addresses == [host]:
            return await self._transport.handle_async_request(request)
        error: httpx.TransportError | None = None
        for number, address in enumerate(addresses):
            limit = _share(resolving.deadline - anyio.current_time(), len(addresses) - number)
            request.extensions = {
                **extensions, "sni_hostname": host, "timeout": {**timeout, "connect": limit}
            }  # fmt: skip
            request.url = url.copy_with(host=address)
            try:
                response = await self._transport.handle_async_request(request)
            except (httpx.ConnectError, httpx.ConnectTimeout) as failed:
                error = failed
                continue
            finally:
                request.url, request.extensions = url, extensions
            self._good[host] = address
            return response
        self._good.pop(host, None)
        raise error or httpx.ConnectError("the host name has no address", request=request)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._transport.aclose()

    async def _checked(self, request: httpx.Request, host: str) -> list[str]:
        """Return the addresses of a host, the one that answered last first."""
        addresses = [host] if _is_address(host) else await _resolved(request, host)
        if not self._allow() and any(map(is_metadata_address, addresses)):
            refused = RefusedAddressError(f"the host name {host} leads to a link-local or metadata address")
            raise httpx.ConnectError(str(refused), request=request) from refused
        if any("%" in one for one in addresses):  # a URL cannot contain a zone
            return [host]
        good = self._good.get(host)
        return [good, *(one for one in addresses if one != good)] if good in addresses else addresses


def _share(left: float, addresses: int) -> float | None:
    """Return the time limit of the first of so many addresses, with `left` seconds for all of them; None: no limit."""
    if addresses > 1:
        return max(min(_CONNECT, left / addresses), _LEAST)
    return max(left, _LEAST) if math.isfinite(left) else None


def _is_address(host: str) -> bool:
    """Return whether a host is an address in its usual form. Other forms, such as `2130706433`, go to the resolver."""
    try:
        return str(ipaddress.ip_address(host)) == host
    except ValueError:
        return False


async def _resolved(request: httpx.Request, host: str) -> list[str]:
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise httpx.ConnectError(str(error), request=request) from error
    return list(dict.fromkeys(str(one[4][0]) for one in found))
