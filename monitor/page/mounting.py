"""Mounts the page without making it: it is imported with its first request, so that nobody's start waits for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread

from monitor.page.facts import Facts
from monitor.page.settings import PageSettings
from monitor.telemetry.site import Answer

if TYPE_CHECKING:
    from monitor.page.pages import Pages


def mount(facts: Facts, settings: PageSettings) -> None:
    """Serve the page where `facts.runtime` has room for it."""
    began, making = facts.runtime.clock.now(), anyio.Lock()
    made: list[Pages] = []

    def make() -> Pages:
        from monitor.page.pages import Pages  # noqa: PLC0415 - the point of this file

        return Pages(facts, settings, started_at=began)

    async def answer(path: str, query: str, headers: Mapping[str, str]) -> Answer | None:
        if not made:
            async with making:
                if not made:
                    made.append(await anyio.to_thread.run_sync(make))
        return await made[0](path, query, headers)

    facts.runtime.site.mount(answer, public=settings.public_host)
