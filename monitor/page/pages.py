"""What answers requests: the pages people read, and the same as JSON. Raises nothing, and holds nobody up.

What has to be read together is read on the event loop; files and the writing of a page go to a thread.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from http import HTTPStatus
from typing import Final

import anyio
import anyio.to_thread
from pydantic import BaseModel

from monitor.errors import MonitorError
from monitor.page import cases, overview, queries
from monitor.page.facts import Facts
from monitor.page.queries import BadQueryError
from monitor.page.sent import HEADERS
from monitor.page.settings import PageSettings
from monitor.page.texts import duration, plain
from monitor.page.views import Fault, Overview
from monitor.telemetry.site import Answer

_AT_ONCE: Final = 4
_WAITING: Final = 50
"""Requests that may wait for their turn; further ones are asked to come again."""
_LONGEST_ID: Final = 512
_HTML, _JSON, _SVG = "text/html; charset=utf-8", "application/json", "image/svg+xml"
_API: Final = "/api/v1/"

_Made = Awaitable[Answer]


class Pages:
    """The handler to mount. Requests take turns, a few at a time."""

    def __init__(self, facts: Facts, settings: PageSettings, *, started_at: float) -> None:
        self._facts = facts
        self._settings = settings
        self._started_at = started_at
        self._turns = anyio.Semaphore(_AT_ONCE)
        self._waiting = 0
        self._pages: Mapping[str, Callable[[str], _Made]] = {
            "/": self._overview,
            "/answers": self._answers,
            "/alerts": self._alerts,
            "/favicon.svg": self._icon,
            f"{_API}overview": self._overview_json,
            f"{_API}answers": self._answers_json,
            f"{_API}alerts": self._alerts_json,
            f"{_API}openapi.json": self._openapi,
        }

    async def __call__(self, path: str, query: str, _headers: Mapping[str, str]) -> Answer | None:
        """The page at `path`; None where there is none."""
        page = self._page(path)
        if page is None:
            return None
        if self._waiting >= _WAITING:
            message = "too many requests at once; try again"
            return Answer(503, "text/plain; charset=utf-8", f"{message}\n".encode(), {"retry-after": "2"})
        self._waiting += 1
        try:
            async with self._turns:
                return await page(query)
        except BadQueryError as error:
            return await self._fault(path, HTTPStatus.BAD_REQUEST, str(error))
        except MonitorError as error:
            return await self._fault(path, HTTPStatus.SERVICE_UNAVAILABLE, f"Results cannot be read now: {error}")
        finally:
            self._waiting -= 1

    def _page(self, path: str) -> Callable[[str], _Made] | None:
        for start, page in (("/case/", self._case), (f"{_API}cases/", self._case_json)):
            if path.startswith(start) and len(path) > len(start):
                return partial(page, path[len(start) :])
        return self._pages.get(path)

    async def _overview(self, query: str) -> Answer:
        view = await self._overview_view(query)
        app = queries.read(query, queries.OVERVIEW).get("app", "")
        since = view.at - queries.WINDOWS[view.window].seconds
        try:
            worst = (await cases.answers(self._facts, queries.AnswersQuery(app=app, since=since))).answers
        except MonitorError:  # the rates do not come from there
            worst = []
        return await _html(
            "overview", now=view.at, up="", view=view, app=app, worst=worst, texts_kept=self._facts.keeps_texts
        )

    async def _overview_json(self, query: str) -> Answer:
        return await _json(await self._overview_view(query))

    async def _overview_view(self, query: str) -> Overview:
        given = queries.read(query, queries.OVERVIEW)
        window = queries.window(given, self._facts.windows.longest)
        return await overview.overview(
            self._facts, window=window, app=given.get("app", ""), started_at=self._started_at
        )

    async def _answers(self, query: str) -> Answer:
        asked = self._asked(query)
        view = await cases.answers(self._facts, asked)
        seen = {app for app, _ in self._facts.windows.keys()}  # noqa: SIM118 - not a mapping
        return await _html(
            "answers",
            now=view.at,
            up="",
            view=view,
            asked=asked,
            apps=sorted(seen.union({asked.app} - {""})),
            evaluators=[one.evaluator.name for one in self._facts.assigned],
            levels=self._levels(asked.evaluator),
        )

    async def _answers_json(self, query: str) -> Answer:
        return await _json(await cases.answers(self._facts, self._asked(query)))

    def _asked(self, query: str) -> queries.AnswersQuery:
        given = queries.read(query, queries.ANSWERS)
        now = self._facts.runtime.clock.now()
        return queries.answers(given, now, self._levels(given.get("evaluator", "")))

    def _levels(self, evaluator: str) -> list[str]:
        """The levels of one evaluator, or of all."""
        found: dict[str, None] = {}
        for one in self._facts.assigned:
            if evaluator in ("", one.evaluator.name):
                found.update(dict.fromkeys(level.name for level in one.evaluator.scale.levels))
        return list(found)

    async def _case(self, trace_id: str, query: str) -> Answer:
        queries.read(query, ())
        view = await cases.case(self._facts, self._settings, trace_id) if len(trace_id) <= _LONGEST_ID else None
        if view is None:
            return await self._fault("/case/", HTTPStatus.NOT_FOUND, self._no_case(trace_id))
        return await _html(
            "case", now=view.at, up="../", view=view, scales={one.name: one for one in overview.evaluators(self._facts)}
        )

    async def _case_json(self, trace_id: str, query: str) -> Answer:
        queries.read(query, ())
        view = await cases.case(self._facts, self._settings, trace_id) if len(trace_id) <= _LONGEST_ID else None
        if view is None:
            return await self._fault(_API, HTTPStatus.NOT_FOUND, self._no_case(trace_id))
        return await _json(view)

    def _no_case(self, trace_id: str) -> str:
        kept = duration(self._facts.keeps)
        return f"No result of the trace {plain(trace_id[:80])!r} is kept. Results are kept for {kept}."

    async def _alerts(self, query: str) -> Answer:
        queries.read(query, ())
        view = overview.alerts(self._facts)
        return await _html("alerts", now=view.at, up="", view=view)

    async def _alerts_json(self, query: str) -> Answer:
        queries.read(query, ())
        return await _json(overview.alerts(self._facts))

    async def _openapi(self, query: str) -> Answer:
        from monitor.page.openapi import document  # noqa: PLC0415 - asked for once in a while

        queries.read(query, ())
        return Answer(200, _JSON, await anyio.to_thread.run_sync(document), HEADERS)

    async def _icon(self, query: str) -> Answer:
        state = queries.read(query, ("state",)).get("state", "")
        colour = {"critical": "#c62828", "warning": "#c77700", "ok": "#2e7d4f"}.get(state, "#6b7280")
        drawn = (
            '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16">'
            f'<circle cx="8" cy="8" r="7" fill="{colour}"/>'
            '<path d="M3 9h2.5l1.5-4 2 7 1.5-3H13" fill="none" stroke="#fff" stroke-width="1.5"/></svg>'
        )
        return Answer(200, _SVG, drawn.encode(), HEADERS)

    async def _fault(self, path: str, status: HTTPStatus, message: str) -> Answer:
        if path.startswith(_API):
            return await _json(Fault(error=message), status)
        up = "../" if path.startswith("/case/") else ""
        now = self._facts.runtime.clock.now()
        return await _html("fault", status, now=now, up=up, title=status.phrase, message=message)


async def _json(view: BaseModel, status: int = 200) -> Answer:
    body = await anyio.to_thread.run_sync(lambda: view.model_dump_json().encode())
    return Answer(status, _JSON, body, HEADERS)


async def _html(name: str, status: int = 200, **values: object) -> Answer:
    def write() -> bytes:
        from monitor.page import html  # noqa: PLC0415 - jinja2 takes a while to import, and JSON needs none

        return html.render(name, **values)  # type: ignore[arg-type] # `now` is among the values

    return Answer(status, _HTML, await anyio.to_thread.run_sync(write), HEADERS)
