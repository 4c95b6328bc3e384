"""Mounts the page without making it: it is imported with its first request, so that nobody's start waits for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import anyio
import anyio.to_thread

from monitor.telemetry.site import HttpResponse
from monitor.web.facts import Facts
from monitor.web.settings import PageSettings

POSTS: Final = frozenset({"/try", "/api/v1/try"})

if TYPE_CHECKING:
    from monitor.web.pages import Pages


def mount(facts: Facts, settings: PageSettings) -> None:
    """Serve the page where `facts.runtime` has room for it."""
    began, making = facts.runtime.clock.now(), anyio.Lock()
    made: list[Pages] = []

    def make() -> Pages:
        from monitor.web.pages import Pages  # noqa: PLC0415 - the point of this file

        return Pages(facts, settings, started_at=began)

    async def pages() -> Pages:
        if not made:
            async with making:
                if not made:
                    made.append(await anyio.to_thread.run_sync(make))
        return made[0]

    async def answer(path: str, query: str, headers: Mapping[str, str]) -> HttpResponse | None:
        return await (await pages())(path, query, headers)

    async def take(path: str, headers: Mapping[str, str], body: bytes) -> HttpResponse:
        return await (await pages()).take(path, headers, body)

    facts.runtime.site.mount(answer, names=settings.names)
    if facts.tries is not None:
        facts.runtime.site.take_posts(take, POSTS)
