"""The mount point for pages on the metrics port: who has pages mounts them, who serves the port asks here."""

from __future__ import annotations

import ipaddress
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Final, NamedTuple


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """An answer over HTTP; `headers` are those besides the type and the length of the body."""

    status: int
    kind: str
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)


class Viewer(NamedTuple):
    """Who asks: the token he showed, by the first of its SHA-256 (`token 1a2b3c4d`), and the address of his peer."""

    who: str = "anybody"
    peer: str = ""


_NOBODY: Final = Viewer()
VIEWER: ContextVar[Viewer] = ContextVar("viewer", default=_NOBODY)
"""Of the request that is being answered; set by whoever serves the port."""

Handler = Callable[[str, str, Mapping[str, str]], Awaitable[HttpResponse | None]]
"""Gets the path, decoded, the query as it was sent, and the headers by their names in lower case. None: no such page.
Never raises for what a client has sent."""

Taker = Callable[[str, Mapping[str, str], bytes], Awaitable[HttpResponse]]
"""Gets the path, the headers by their names in lower case, and the body of what is posted. Never raises, either."""


class Site:
    """What is served besides the endpoints of the port itself. One handler at most."""

    def __init__(self) -> None:
        self._handler: Handler | None = None
        self._names: frozenset[str] = frozenset()
        self._taker: Taker | None = None
        self._posts: frozenset[str] = frozenset()

    def mount(self, handler: Handler, *, names: Iterable[str] = ()) -> None:
        """Serve what `handler` answers; `names` are those by which people reach this port, beside its addresses.

        Raises `ValueError` where something is mounted already.
        """
        if self._handler is not None:
            raise ValueError("something is mounted already")
        self._handler, self._names = handler, frozenset(name.lower() for name in names if name)

    def take_posts(self, taker: Taker, paths: Iterable[str]) -> None:
        """Let `taker` answer what is posted to these paths, and nobody what is posted elsewhere."""
        self._taker, self._posts = taker, frozenset(paths)

    def takes(self, path: str) -> bool:
        """Whether something may be posted to `path`."""
        return path in self._posts

    async def take(self, path: str, headers: Mapping[str, str], body: bytes) -> HttpResponse | None:
        """What is answered to `body`, posted to `path`; None where nobody takes it."""
        return await self._taker(path, headers, body) if self._taker is not None and self.takes(path) else None

    async def answer(self, path: str, query: str, headers: Mapping[str, str]) -> HttpResponse | None:
        """What is mounted answers; None where nothing is, or it has no such page."""
        return await self._handler(path, query, headers) if self._handler is not None else None

    def is_named(self, host: str) -> bool:
        """Whether a header `host` names this port: an address, a name without a dot, or one of its names.

        Any other name might be one that an attacker's page has bound to this address, to read what is served here
        with the browser of somebody who may.
        """
        name = host.rsplit("]", 1)[0].lstrip("[") if host.startswith("[") else host.split(":", 1)[0]
        name = name.rstrip(".").lower()
        if "." not in name and ":" not in name:
            return True
        if name in self._names or name.endswith(".localhost"):
            return True
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return True
