"""The mount point for pages on the metrics port: who has pages mounts them, who serves the port asks here."""

from __future__ import annotations

import ipaddress
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer over HTTP; `headers` are those besides the type and the length of the body."""

    status: int
    kind: str
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)


Handler = Callable[[str, str, Mapping[str, str]], Awaitable[Answer | None]]
"""Gets the path, decoded, the query as it was sent, and the headers by their names in lower case. None: no such page.
Never raises for what a client has sent."""


class Site:
    """What is served besides the endpoints of the port itself. One handler at most."""

    def __init__(self) -> None:
        self._handler: Handler | None = None
        self._public = ""

    def mount(self, handler: Handler, *, public: str = "") -> None:
        """Serve what `handler` answers; `public` is the name by which people reach this port, if any.

        Raises `ValueError` where something is mounted already.
        """
        if self._handler is not None:
            raise ValueError("something is mounted already")
        self._handler, self._public = handler, public.lower()

    async def answer(self, path: str, query: str, headers: Mapping[str, str]) -> Answer | None:
        """What is mounted answers; None where nothing is, or it has no such page."""
        return await self._handler(path, query, headers) if self._handler is not None else None

    def is_named(self, host: str) -> bool:
        """Whether a header `host` names this port: an address, a name without a dot, or the public name.

        Any other name might be one that an attacker's page has bound to this address, to read what is served here
        with the browser of somebody who may.
        """
        name = host.rsplit("]", 1)[0].lstrip("[") if host.startswith("[") else host.split(":", 1)[0]
        name = name.rstrip(".").lower()
        if "." not in name and ":" not in name:
            return True
        if name == self._public or name.endswith(".localhost"):
            return True
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return True
