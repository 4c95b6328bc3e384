"""HTTP responses of the UI, and its mount on the metrics port.

Pages are rendered in a thread. Their headers let a browser load and run nothing but the one style sheet.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from importlib.resources import files
from typing import TYPE_CHECKING, Final

import anyio
import anyio.to_thread
from pydantic import BaseModel

from monitor.telemetry.site import WebResponse
from monitor.web.context import PageContext
from monitor.web.settings import UiSettings

if TYPE_CHECKING:
    from monitor.web.pages import Pages

HTML: Final = "text/html; charset=utf-8"
JSON: Final = "application/json"
POST_PATHS: Final = frozenset({"/try", "/api/v1/try"})

STYLE: Final = files("monitor.web").joinpath("templates/style.css").read_text(encoding="utf-8").strip()
_HASH: Final = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()

HEADERS: Final[Mapping[str, str]] = {
    "content-security-policy": (
        f"default-src 'none'; style-src 'sha256-{_HASH}'; img-src 'self'; form-action 'self';"
        " frame-ancestors 'none'; base-uri 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
"""Sent with every response: no scripts, no frames, no other origin, no caching."""


async def json_response(view: BaseModel, status: int = 200) -> WebResponse:
    """Return a view as JSON."""
    body = await anyio.to_thread.run_sync(lambda: view.model_dump_json().encode())
    return WebResponse(status, JSON, body, HEADERS)


async def html_response(name: str, status: int = 200, **values: object) -> WebResponse:
    """Return the page of the template `name`; `values` are those of `html.render`."""

    def write() -> bytes:
        from monitor.web import html  # noqa: PLC0415 - jinja2 takes a while to import, and JSON needs none

        return html.render(name, **values)  # type: ignore[arg-type] # `now` is among the values

    return WebResponse(status, HTML, await anyio.to_thread.run_sync(write), HEADERS)


def mount(context: PageContext, settings: UiSettings) -> None:
    """Serve the UI on the metrics port. The pages are imported with the first request, to start fast."""
    started_at, making = context.runtime.clock.now(), anyio.Lock()
    made: list[Pages] = []

    def make() -> Pages:
        from monitor.web.pages import Pages  # noqa: PLC0415 - see above

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
    if context.trials is not None:
        context.runtime.site.mount_post(post, POST_PATHS)
