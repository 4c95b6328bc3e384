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

from monitor.errors import MonitorError
from monitor.quantities import human_duration
from monitor.telemetry.site import HttpResponse
from monitor.web import cases, explaining, overview, queries
from monitor.web.answering import html as _html
from monitor.web.answering import json as _json
from monitor.web.counted import foreign
from monitor.web.facts import Facts
from monitor.web.queries import BadQueryError
from monitor.web.sent import HEADERS
from monitor.web.settings import PageSettings
from monitor.web.texts import plain, to_why
from monitor.web.trying import Trying
from monitor.web.viewed import Viewed
from monitor.web.views import Fault, Overview, Why

_AT_ONCE: Final = 4
_WAITING: Final = 50
"""Requests that may wait for their turn; further ones are asked to come again."""
_LONGEST_ID: Final = 512
_LONGEST_VALUE: Final = 256
_JSON, _SVG = "application/json", "image/svg+xml"
_API: Final = "/api/v1/"

_Made = Awaitable[HttpResponse]


class Pages:
    """The handler to mount. Requests take turns, a few at a time."""

    def __init__(self, facts: Facts, settings: PageSettings, *, started_at: float) -> None:
        self._facts = facts
        self._settings = settings
        self._started_at = started_at
        self._viewed = Viewed(facts.runtime)
        self._trying = Trying(facts, facts.tries, settings, self._viewed) if facts.tries is not None else None
        self._turns = anyio.Semaphore(_AT_ONCE)
        self._waiting = 0
        self._pages: Mapping[str, Callable[[str], _Made]] = {
            "/": self._overview,
            "/answers": self._answers,
            "/alerts": self._alerts,
            **({"/why": self._why, f"{_API}why": self._why_json} if facts.asked is not None else {}),
            "/favicon.svg": self._icon,
            f"{_API}overview": self._overview_json,
            f"{_API}answers": self._answers_json,
            f"{_API}alerts": self._alerts_json,
            f"{_API}openapi.json": self._openapi,
        }

    async def __call__(self, path: str, query: str, _headers: Mapping[str, str]) -> HttpResponse | None:
        """The page at `path`; None where there is none."""
        page = self._page(path)
        if page is None:
            return None
        if self._waiting >= _WAITING:
            message = "too many requests at once; try again"
            return HttpResponse(503, "text/plain; charset=utf-8", f"{message}\n".encode(), {"retry-after": "2"})
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

    async def take(self, path: str, headers: Mapping[str, str], body: bytes) -> HttpResponse:
        """What is answered to what is posted to `path`."""
        if self._trying is None:
            return await self._fault(path, HTTPStatus.NOT_FOUND, "Nothing can be tried here.")
        return await self._trying.take(path, headers, body)

    def _page(self, path: str) -> Callable[[str], _Made] | None:
        for start, page in (("/case/", self._case), (f"{_API}cases/", self._case_json), ("/tried/", self._tried)):
            if path.startswith(start) and len(path) > len(start):
                return partial(page, path[len(start) :])
        return self._pages.get(path)

    async def _overview(self, query: str) -> HttpResponse:
        view = await self._overview_view(query)
        app = queries.read(query, queries.OVERVIEW).get("app", "")
        since = view.at - queries.WINDOWS[view.window].seconds
        try:
            worst = (await cases.answers(self._facts, queries.AnswersQuery(app=app, since=since))).answers
        except MonitorError:  # the rates do not come from there
            worst = []
        await self._viewed.note("/", worst)
        return await _html(
            "overview", now=view.at, up="", view=view, app=app, worst=worst, texts_kept=self._facts.keeps_texts
        )

    async def _overview_json(self, query: str) -> HttpResponse:
        return await _json(await self._overview_view(query))

    async def _overview_view(self, query: str) -> Overview:
        given = queries.read(query, queries.OVERVIEW)
        window = queries.window(given, self._facts.windows.longest)
        return await overview.overview(
            self._facts, window=window, app=given.get("app", ""), started_at=self._started_at
        )

    async def _answers(self, query: str) -> HttpResponse:
        asked = self._asked(query)
        view = await cases.answers(self._facts, asked)
        await self._viewed.note("/answers", view.answers)
        seen = {app for app, _ in self._facts.windows.keys()}  # noqa: SIM118 - not a mapping
        return await _html(
            "answers",
            now=view.at,
            up="",
            view=view,
            asked=asked,
            apps=sorted(seen.union({asked.app} - {""})),
            evaluators=self._names(),
            levels=self._levels(asked.evaluator),
        )

    async def _answers_json(self, query: str) -> HttpResponse:
        view = await cases.answers(self._facts, self._asked(query))
        await self._viewed.note(f"{_API}answers", view.answers)
        return await _json(view)

    def _asked(self, query: str) -> queries.AnswersQuery:
        given = queries.read(query, queries.ANSWERS)
        now = self._facts.runtime.clock.now()
        return queries.answers(given, now, self._levels(given.get("evaluator", "")))

    def _names(self) -> list[str]:
        """The evaluators that are configured, then those of others that have said something."""
        return [*(one.evaluator.name for one in self._facts.assigned), *foreign(self._facts.runtime.metrics)]

    def _levels(self, evaluator: str) -> list[str]:
        """The levels of one evaluator, or of all."""
        found: dict[str, None] = {}
        for one in self._facts.assigned:
            if evaluator in ("", one.evaluator.name):
                found.update(dict.fromkeys(level.name for level in one.evaluator.scale.levels))
        return list(found)

    async def _case(self, trace_id: str, query: str) -> HttpResponse:
        queries.read(query, ())
        view = await cases.case(self._facts, self._settings, trace_id) if len(trace_id) <= _LONGEST_ID else None
        if view is None:
            why = to_why(trace=trace_id) if self._facts.asked is not None and len(trace_id) <= _LONGEST_VALUE else ""
            return await self._fault("/case/", HTTPStatus.NOT_FOUND, self._no_case(trace_id), why)
        await self._viewed.note("/case", [view])
        return await _html(
            "case",
            now=view.at,
            up="../",
            view=view,
            scales={one.name: one for one in overview.evaluators(self._facts)},
            trying=self._trying.offered(view) if self._trying is not None else None,
        )

    async def _case_json(self, trace_id: str, query: str) -> HttpResponse:
        queries.read(query, ())
        view = await cases.case(self._facts, self._settings, trace_id) if len(trace_id) <= _LONGEST_ID else None
        if view is None:
            return await self._fault(_API, HTTPStatus.NOT_FOUND, self._no_case(trace_id))
        await self._viewed.note(f"{_API}cases", [view])
        return await _json(view)

    async def _tried(self, name: str, query: str) -> HttpResponse:
        queries.read(query, ())
        found = await self._trying.page(name) if self._trying is not None else None
        gone = "Nothing tried under this address is known: what was tried is kept for an hour, and in memory alone."
        return found if found is not None else await self._fault("/tried/", HTTPStatus.NOT_FOUND, gone)

    def _no_case(self, trace_id: str) -> str:
        kept = human_duration(self._facts.keeps)
        return f"No result of the trace {plain(trace_id[:80])!r} is kept. Results are kept for {kept}."

    async def _alerts(self, query: str) -> HttpResponse:
        queries.read(query, ())
        view = overview.alerts(self._facts)
        return await _html("alerts", now=view.at, up="", view=view)

    async def _alerts_json(self, query: str) -> HttpResponse:
        queries.read(query, ())
        return await _json(overview.alerts(self._facts))

    async def _why(self, query: str) -> HttpResponse:
        asked = self._why_asked(query)
        now = self._facts.runtime.clock.now()
        names = self._names()
        view = await self._why_view(query) if asked.trace or asked.evaluator else None
        return await _html("why", now=now, up="", view=view, asked=asked, evaluators=names)

    async def _why_json(self, query: str) -> HttpResponse:
        return await _json(await self._why_view(query))

    async def _why_view(self, query: str) -> Why:
        if self._facts.asked is None:
            raise BadQueryError("nobody can say")
        return await explaining.why(self._facts.asked, self._why_asked(query), self._facts.runtime.clock.now())

    def _why_asked(self, query: str) -> queries.WhyQuery:
        return queries.why(queries.read(query, queries.WHY), self._facts.runtime.clock.now())

    async def _openapi(self, query: str) -> HttpResponse:
        from monitor.web.openapi import document  # noqa: PLC0415 - asked for once in a while

        queries.read(query, ())
        return HttpResponse(200, _JSON, await anyio.to_thread.run_sync(document), HEADERS)

    async def _icon(self, query: str) -> HttpResponse:
        state = queries.read(query, ("state",)).get("state", "")
        colour = {"critical": "#c62828", "warning": "#c77700", "ok": "#2e7d4f"}.get(state, "#6b7280")
        drawn = (
            '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16">'
            f'<circle cx="8" cy="8" r="7" fill="{colour}"/>'
            '<path d="M3 9h2.5l1.5-4 2 7 1.5-3H13" fill="none" stroke="#fff" stroke-width="1.5"/></svg>'
        )
        return HttpResponse(200, _SVG, drawn.encode(), HEADERS)

    async def _fault(self, path: str, status: HTTPStatus, message: str, why: str = "") -> HttpResponse:
        if path.startswith(_API):
            return await _json(Fault(error=message), status)
        up = "../" if path.startswith(("/case/", "/tried/")) else ""
        now = self._facts.runtime.clock.now()
        return await _html("fault", status, now=now, up=up, title=status.phrase, message=message, why=why)
