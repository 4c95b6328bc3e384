"""Finds out what a first configuration needs to know: which servers answer, and whose API key is set.

The usual ports of one host are probed all at once, each with a short timeout. A server counts only if it responds as
that kind of server does. Redirects are not followed, no proxy is used, and nothing else is sent.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import anyio

from monitor.errors import ConfigError
from monitor.judge.setup import key_variable
from monitor.transport.http.client import receiver_address

LIMIT: Final = 0.5
"""Seconds that a server has to respond."""

PORTS: Final[Mapping[str, int]] = {"Prometheus": 9090, "Alertmanager": 9093, "Grafana": 3000, "Kafka": 9092}
"""The servers to look for, at their usual ports."""

JUDGES: Final = (
    "openai/gpt-4o-mini",
    "anthropic/claude-haiku-4-5",
    "gemini/gemini-2.5-flash",
    "mistral/mistral-small-latest",
)
"""A low-priced model for each provider whose key is looked for, in order of preference."""

_MOST: Final = 64 * 1024  # bytes of an answer that are read
_ASKED: Final = struct.Struct(">ihhih")  # length, ApiVersions (18), version 0, correlation id, no client id
_CORRELATION: Final = 0x52414721
_API_VERSIONS: Final = 18


@dataclass(frozen=True, slots=True)
class ServerFound:
    """A server that responds at `address`; `why` says how it was recognised."""

    kind: str
    address: str
    why: str


@dataclass(frozen=True, slots=True)
class JudgeFound:
    """A model that can be asked, because `variable` is set in the environment. Its value is not used."""

    model: str
    variable: str


def judges(environment: Mapping[str, str]) -> list[JudgeFound]:
    """Return a model for each API key in the environment."""
    found = [JudgeFound(model, key_variable(model)) for model in JUDGES]
    return [one for one in found if environment.get(one.variable, "").strip()]


def variables() -> list[str]:
    """Return the names of the variables that may contain a key."""
    return [key_variable(model) for model in JUDGES]


async def servers(
    host: str = "127.0.0.1", *, ports: Mapping[str, int] = PORTS, limit: float = LIMIT
) -> list[ServerFound]:
    """Return the servers that respond on a host as expected, in the order of `ports`.

    `limit` is the timeout for each, in seconds. Raises `ConfigError` for a host that must not be called.
    """
    name = f"[{host}]" if ":" in host else host
    try:
        receiver_address(f"http://{name}")
    except ValueError as error:
        raise ConfigError(f"host: {error}") from None
    found: dict[str, ServerFound] = {}

    async def look(kind: str, port: int) -> None:
        with anyio.move_on_after(limit):
            why = await _PROBES[kind](host, port)
            if why:
                scheme = "" if kind == "Kafka" else "http://"
                found[kind] = ServerFound(kind, f"{scheme}{name}:{port}", why)

    async with anyio.create_task_group() as tasks:
        for kind, port in ports.items():
            tasks.start_soon(look, kind, port)
    return [found[kind] for kind in ports if kind in found]


async def _prometheus(host: str, port: int) -> str:
    told = await _get(host, port, "/api/v1/status/buildinfo")
    version = _text(told, "data", "version")
    return f"/api/v1/status/buildinfo says {version}" if _text(told, "status") == "success" and version else ""


async def _alertmanager(host: str, port: int) -> str:
    told = await _get(host, port, "/api/v2/status")
    version = _text(told, "versionInfo", "version")
    return f"/api/v2/status says {version}" if version and isinstance(told.get("cluster"), dict) else ""


async def _grafana(host: str, port: int) -> str:
    told = await _get(host, port, "/api/health")
    version = _text(told, "version")
    return f"/api/health says {version or 'its database is ok'}" if _text(told, "database") == "ok" else ""


async def _kafka(host: str, port: int) -> str:
    """Ask which requests the broker knows, as every client does first."""
    try:
        async with await anyio.connect_tcp(host, port) as stream:
            await stream.send(_ASKED.pack(_ASKED.size - 4, _API_VERSIONS, 0, _CORRELATION, -1))
            head = b""
            while len(head) < 14:  # noqa: PLR2004 - length, correlation id, error, and the number of requests known
                head += await stream.receive(256)
    except (OSError, anyio.EndOfStream, anyio.BrokenResourceError):
        return ""
    length, correlation, error, known = struct.unpack_from(">iihi", head)
    answers = correlation == _CORRELATION and not error and 0 < known * 6 < length < _MOST
    return f"it answers as a broker that knows {known} requests" if answers else ""


_PROBES: Final[Mapping[str, Callable[[str, int], Awaitable[str]]]] = {
    "Prometheus": _prometheus,
    "Alertmanager": _alertmanager,
    "Grafana": _grafana,
    "Kafka": _kafka,
}


async def _get(host: str, port: int, path: str) -> dict[str, Any]:
    """Return the JSON object at a path; an empty one if there is none."""
    import httpx  # noqa: PLC0415 - takes a tenth of a second

    body = bytearray()
    url = httpx.URL(scheme="http", host=host, port=port, path=path)
    try:
        async with (
            httpx.AsyncClient(trust_env=False, follow_redirects=False, timeout=None) as client,  # noqa: S113 - the caller's
            client.stream("GET", url) as response,
        ):
            if response.status_code != httpx.codes.OK:
                return {}
            async for chunk in response.aiter_bytes():
                body += chunk
                if len(body) > _MOST:
                    return {}
        told = json.loads(body)
    except (httpx.HTTPError, httpx.StreamError, httpx.InvalidURL, OSError, ValueError, RecursionError):
        return {}
    return told if isinstance(told, dict) else {}


def _text(told: object, *keys: str) -> str:
    """Return the text at a place in a document if it is one short word, else an empty text."""
    for key in keys:
        told = told.get(key) if isinstance(told, dict) else None
    return told if isinstance(told, str) and told.isascii() and told.isprintable() and len(told) < 64 else ""  # noqa: PLR2004
