"""Views as answers over HTTP: written in a thread, and sent so that a browser loads and runs nothing else."""

from __future__ import annotations

from typing import Final

import anyio.to_thread
from pydantic import BaseModel

from monitor.telemetry.site import HttpResponse
from monitor.web.sent import HEADERS

HTML: Final = "text/html; charset=utf-8"
JSON: Final = "application/json"


async def json(view: BaseModel, status: int = 200) -> HttpResponse:
    """A view for programs."""
    body = await anyio.to_thread.run_sync(lambda: view.model_dump_json().encode())
    return HttpResponse(status, JSON, body, HEADERS)


async def html(name: str, status: int = 200, **values: object) -> HttpResponse:
    """The page of the template `name`; `values` are those of `html.render`."""

    def write() -> bytes:
        from monitor.web import html  # noqa: PLC0415 - jinja2 takes a while to import, and JSON needs none

        return html.render(name, **values)  # type: ignore[arg-type] # `now` is among the values

    return HttpResponse(status, HTML, await anyio.to_thread.run_sync(write), HEADERS)
