"""The UI's mount on the metrics port."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread

from monitor.telemetry.site import WebResponse
from monitor.web.context import PageContext
from monitor.web.settings import NOTE_PATHS, REVIEW_PATHS, TRIAL_PATHS, UiSettings

if TYPE_CHECKING:
    from monitor.web.pages import Pages


def mount(context: PageContext, settings: UiSettings) -> None:
    """Serve the UI on the metrics port. The pages are imported on the first request so that the monitor starts fast."""
    started_at, making = context.runtime.clock.now(), anyio.Lock()
    made: list[Pages] = []

    def make() -> Pages:
        from monitor.web.pages import Pages  # noqa: PLC0415 - jinja2 and the views take a while to import

        return Pages(context, settings, started_at=started_at)

    async def pages() -> Pages:
        if not made:
            async with making:
                if not made:
                    made.append(await anyio.to_thread.run_sync(make))
        return made[0]

    async def get(path: str, query: str, headers: Mapping[str, str]) -> WebResponse | None:
        return await (await pages())(path, query, headers)

    async def post(path: str, headers: Mapping[str, str], body: bytes) -> WebResponse:
        return await (await pages()).post(path, headers, body)

    context.runtime.site.mount(get, names=settings.names)
    optional = ((context.trials, TRIAL_PATHS), (context.review, REVIEW_PATHS))
    context.runtime.site.mount_post(post, NOTE_PATHS.union(*(paths for part, paths in optional if part is not None)))
