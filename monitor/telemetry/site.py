"""The mount point of the UI on the metrics port: the UI mounts its handlers, the port's server calls them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Final, NamedTuple


@dataclass(frozen=True, slots=True)
class WebResponse:
    """An HTTP response; `headers` come in addition to the content type and length."""

    status: int
    kind: str
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)


class Viewer(NamedTuple):
    """The sender of a request: its token, as the start of its SHA-256 (`token 1a2b3c4d`), and the peer address."""

    who: str = "anonymous"
    peer: str = ""


_ANONYMOUS: Final = Viewer()
VIEWER: ContextVar[Viewer] = ContextVar("viewer", default=_ANONYMOUS)
"""The viewer of the current request; set by the port's server."""

GetHandler = Callable[[str, str, Mapping[str, str]], Awaitable[WebResponse | None]]
"""Gets the decoded path, the raw query, and the headers by lower-case name. Returns None if there is no such page.
Never raises because of a client's input."""

PostHandler = Callable[[str, Mapping[str, str], bytes], Awaitable[WebResponse]]
"""Gets the path, the headers by lower-case name, and the body. Never raises because of a client's input."""


class Site:
    """The pages served besides the port's own endpoints. At most one handler."""

    def __init__(self) -> None:
        self._get: GetHandler | None = None
        self.names: frozenset[str] = frozenset()
        """Host names of this port that the mounted part knows, in lower case."""
        self._post: PostHandler | None = None
        self._post_paths: frozenset[str] = frozenset()

    def mount(self, handler: GetHandler, *, names: Iterable[str] = ()) -> None:
        """Serve what `handler` returns; `names` are the host names of this port, besides its addresses.

        Raises `ValueError` if a handler is already mounted.
        """
        if self._get is not None:
            raise ValueError("something is mounted already")
        self._get, self.names = handler, frozenset(name.lower() for name in names if name)

    def mount_post(self, handler: PostHandler, paths: Iterable[str]) -> None:
        """Let `handler` answer posts to these paths; posts to other paths are refused."""
        self._post, self._post_paths = handler, frozenset(paths)

    def accepts_post(self, path: str) -> bool:
        """Return whether `path` accepts posts."""
        return path in self._post_paths

    async def get(self, path: str, query: str, headers: Mapping[str, str]) -> WebResponse | None:
        """Return the mounted handler's response; None if there is no such page."""
        return await self._get(path, query, headers) if self._get is not None else None

    async def post(self, path: str, headers: Mapping[str, str], body: bytes) -> WebResponse | None:
        """Return the response to a post to `path`; None if it accepts no posts."""
        return await self._post(path, headers, body) if self._post is not None and self.accepts_post(path) else None
