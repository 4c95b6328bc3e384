"""HTTP responses of the UI.

Pages are rendered in a thread. Their headers allow a browser to load and run only the one style sheet, and the page's
script if it has one.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Final

import anyio
import anyio.to_thread
from pydantic import BaseModel

from monitor.telemetry.site import WebResponse

HTML: Final = "text/html; charset=utf-8"
JSON: Final = "application/json"

STYLE: Final = files("monitor.web").joinpath("templates/style.css").read_text(encoding="utf-8").strip()


def _digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


HEADERS: Final[Mapping[str, str]] = {
    "content-security-policy": (
        f"default-src 'none'; style-src 'sha256-{_digest(STYLE)}'; img-src 'self'; form-action 'self';"
        " frame-ancestors 'none'; base-uri 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
"""Sent with every response: no scripts (except a page's own), no frames, no other origin, no cache."""


async def json_response(view: BaseModel, status: int = 200) -> WebResponse:
    """Return a view as JSON."""
    body = await anyio.to_thread.run_sync(lambda: view.model_dump_json().encode())
    return WebResponse(status, JSON, body, HEADERS)


async def html_response(name: str, status: int = 200, *, script: str = "", **values: object) -> WebResponse:
    """Return the page of the template `name`, rendered with `values` (see `html.render`). Only `script` may run."""

    def write() -> bytes:
        from monitor.web import html  # noqa: PLC0415 - jinja2 takes a while to import, and JSON needs none

        return html.render(name, style=STYLE, script=script, **values)  # type: ignore[arg-type] # `now` is among the values

    return WebResponse(status, HTML, await anyio.to_thread.run_sync(write), _allowing(script) if script else HEADERS)


@cache
def _allowing(script: str) -> Mapping[str, str]:
    """Return the headers that let this script run, by its hash, and no other."""
    policy = f"{HEADERS['content-security-policy']}; script-src 'sha256-{_digest(script)}'"
    return {**HEADERS, "content-security-policy": policy}
