"""Where a host name leads is checked, and what was checked is connected to."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import httpx
import pytest

from monitor.transport.http.pinned import pinned

pytestmark = pytest.mark.anyio


class Wire(httpx.AsyncBaseTransport):
    """Answers, except at the addresses that are down; keeps what was asked for."""

    def __init__(self, *down: str) -> None:
        self.down = down
        self.seen: list[tuple[str, str, Any]] = []

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.seen.append((request.url.host, request.headers["host"], request.extensions.get("sni_hostname")))
        if request.url.host in self.down:
            raise httpx.ConnectError("refused")
        return httpx.Response(200)


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[str]]:
    """What names resolve to: at each look-up the next, until the last."""
    known: dict[str, list[str]] = {}
    resolve = socket.getaddrinfo

    def found(host: str, *given: Any, **named: Any) -> Any:
        if host not in known:
            return resolve(host, *given, **named)
        addresses = known[host][0] if len(known[host]) == 1 else known[host].pop(0)
        return [(socket.AF_INET6 if ":" in one else socket.AF_INET, 1, 6, "", (one, 0)) for one in addresses.split()]

    monkeypatch.setattr(socket, "getaddrinfo", found)
    return known


async def ask(wire: Wire, url: str, *, allowed: bool = False, times: int = 1) -> None:
    async with pinned(httpx.AsyncClient(transport=wire), lambda: allowed) as client:
        for _ in range(times):
            await client.get(url)


async def test_the_connection_goes_to_the_address_that_was_checked_under_its_own_name(
    names: dict[str, list[str]],
) -> None:
    wire = Wire()
    names["api.example"] = ["203.0.113.7"]
    await ask(wire, "https://api.example/v1")
    assert wire.seen == [("203.0.113.7", "api.example", "api.example")]


@pytest.mark.parametrize(
    "addresses",
    [
        "169.254.169.254",
        "203.0.113.7 169.254.169.254",
        "fd00:ec2::23",
        "64:ff9b::a9fe:a9fe",
        "100.100.100.200",
        "fe80::1",
    ],
)
async def test_s13_a_name_that_leads_to_a_metadata_address_is_not_connected_to(
    names: dict[str, list[str]], addresses: str
) -> None:
    wire = Wire()
    names["169.254.169.254.nip.io"] = [addresses]
    with pytest.raises(httpx.ConnectError, match="leads to a link-local or metadata address"):
        await ask(wire, "http://169.254.169.254.nip.io/latest")
    assert wire.seen == []
    await ask(wire, "http://169.254.169.254.nip.io/latest", allowed=True)
    assert len(wire.seen) == 1


async def test_s13_a_name_that_changes_after_the_check_leads_nowhere_else(names: dict[str, list[str]]) -> None:
    wire = Wire()
    names["rebound.example"] = ["203.0.113.7", "169.254.169.254"]
    with pytest.raises(httpx.ConnectError, match="leads to"):
        await ask(wire, "http://rebound.example/", times=2)
    assert [host for host, *_ in wire.seen] == ["203.0.113.7"]


async def test_where_an_address_takes_no_connection_the_next_is_tried_and_remembered(
    names: dict[str, list[str]],
) -> None:
    wire = Wire("2001:db8::1")
    names["two.example"] = ["2001:db8::1 203.0.113.7"]
    await ask(wire, "http://two.example/", times=2)
    assert [host for host, *_ in wire.seen] == ["2001:db8::1", "203.0.113.7", "203.0.113.7"]


async def test_the_time_to_connect_is_that_of_all_addresses_and_the_resolver_together(
    names: dict[str, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    limits: list[float] = []

    class Slow(Wire):
        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            limits.append(request.extensions["timeout"]["connect"])
            raise httpx.ConnectTimeout("", request=request)

    names["three.example"] = ["2001:db8::1 203.0.113.7 203.0.113.8"]
    async with pinned(httpx.AsyncClient(transport=Slow(), timeout=6.0)) as client:
        with pytest.raises(httpx.ConnectTimeout) as caught:
            await client.get("http://three.example/")
        assert limits[0] <= 2.0
        assert limits[1] <= 3.0
        assert limits[2] <= 6.0
        assert caught.value.request.extensions["timeout"]["connect"] == 6.0

        async def never(*_given: Any, **_named: Any) -> None:
            await asyncio.Event().wait()

        monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", never)
        with pytest.raises(httpx.ConnectTimeout):
            await client.get("http://three.example/", timeout=httpx.Timeout(None, connect=0.01))


async def test_loopback_private_and_plain_addresses_stay_allowed(names: dict[str, list[str]]) -> None:
    wire = Wire()
    names["llm.svc"] = ["10.1.2.3"]
    for url in (
        "http://127.0.0.1:1/",
        "http://[::1]:1/",
        "http://192.168.1.1/",
        "http://llm.svc/",
        "http://localhost:1/",
    ):
        await ask(wire, url)
    assert len(wire.seen) == 5


async def test_a_name_that_does_not_resolve_is_a_failed_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_given: Any, **_named: Any) -> None:
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    with pytest.raises(httpx.ConnectError) as caught:
        await ask(Wire(), "http://unknown.example/")
    assert isinstance(caught.value.__cause__, socket.gaierror)


@pytest.mark.parametrize("host", ["203.0.113.7", "[2001:db8::7]"])
async def test_an_address_is_connected_to_without_a_question_to_the_resolver(
    host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def asked(*_given: Any, **_named: Any) -> Any:
        raise AssertionError("an address was resolved")

    monkeypatch.setattr(socket, "getaddrinfo", asked)
    wire = Wire()
    await ask(wire, f"http://{host}:8000/v1")
    assert [seen[0] for seen in wire.seen] == [host.strip("[]")]


@pytest.mark.parametrize("host", ["169.254.169.254", "[fe80::1]", "[::ffff:169.254.169.254]", "224.0.0.1"])
async def test_an_address_that_hands_out_credentials_is_refused_as_an_address(host: str) -> None:
    with pytest.raises(httpx.ConnectError, match="link-local or metadata"):
        await ask(Wire(), f"http://{host}/v1")
