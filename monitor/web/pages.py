"""Responds to requests: pages for people, and the same content as JSON. Never raises.

Data that must be consistent is read on the event loop; files are read and pages rendered in a thread.
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
from monitor.telemetry.site import WebResponse
from monitor.web import cases, diagnosis, overview, queries, why, worst
from monitor.web.context import PageContext
from monitor.web.counters import external_evaluators
from monitor.web.documents import DocumentPages
from monitor.web.incidents import IncidentPages, IncidentReportView
from monitor.web.queries import BadQueryError
from monitor.web.rate_views import Overview
from monitor.web.responses import HEADERS, JSON, html_response, json_response
from monitor.web.review.pages import REVIEW_PAGES, ReviewPages
from monitor.web.settings import NOTE_PATHS, REVIEW_PATHS, UiSettings
from monitor.web.texts import plain, to_why
from monitor.web.trials import TrialPages
from monitor.web.view_audit import ViewAudit
from monitor.web.views import CaseView, ErrorView

_CONCURRENT: Final = 4
"""Requests handled at the same time."""
_MAX_WAITING: Final = 50
"""Requests that may wait; further ones are asked to retry."""
_LONGEST_ID: Final = 512
_LONGEST_VALUE: Final = 256
_API: Final = "/api/v1/"
_NO_INCIDENT: Final = "There is no incident with this id, or it has been deleted after its retention."

_Response = Awaitable[WebResponse]


class Pages:
    """The handler to mount."""

    def __init__(self, context: PageContext, settings: UiSettings, *, started_at: float) -> None:
        self._context = context
        self._settings = settings
        self._started_at = started_at
        self._audit = ViewAudit(context.runtime)
        trials = context.trials
        self._trials = TrialPages(context, trials, settings, self._audit) if trials is not None else None
        review = context.review
        self._review = ReviewPages(context, review, settings, self._audit) if review is not None else None
        self._incidents = IncidentPages(context, settings, self._audit)
        lists = DocumentPages(context, self._audit)
        self._slots = anyio.Semaphore(_CONCURRENT)
        self._waiting = 0
        self._pages: Mapping[str, Callable[[str], _Response]] = {
            "/": self._overview,
            "/answers": self._answers,
            "/worst": self._worst,
            "/alerts": self._alerts,
            "/incidents": self._incident_list,
            "/why": self._why,
            "/diagnosis": self._diagnosis,
            "/documents": lists.documents,
            "/documents.csv": lists.documents_csv,
            "/unanswered": lists.unanswered,
            f"{_API}documents": lists.documents_json,
            f"{_API}unanswered": lists.unanswered_json,
            "/review": self._no_review,
            "/favicon.svg": self._icon,
            f"{_API}overview": self._overview_json,
            f"{_API}answers": self._answers_json,
            f"{_API}worst": self._worst_json,
            f"{_API}alerts": self._alerts_json,
            f"{_API}incidents": self._incidents_json,
            f"{_API}why": self._why_json,
            f"{_API}diagnosis": self._diagnosis_json,
            f"{_API}openapi.json": self._openapi,
        }
        self._pages_by_id: Mapping[str, Callable[[str, str], _Response]] = {
            "/case/": self._case,
            "/tried/": self._tried,
            "/incidents/": self._incident,
            f"{_API}cases/": self._case_json,
            f"{_API}incidents/": self._incident_json,
        }

    async def __call__(self, path: str, query: str, headers: Mapping[str, str]) -> WebResponse | None:
        """Return the page at `path`; None if there is no page."""
        page = self._page(path, headers)
        if page is None:
            return None
        if self._waiting >= _MAX_WAITING:
            body = b"too many requests at once; try again\n"
            return WebResponse(503, "text/plain; charset=utf-8", body, {"retry-after": "2"})
        self._waiting += 1
        try:
            async with self._slots:
                return await page(query)
        except BadQueryError as error:
            return await self._error(path, HTTPStatus.BAD_REQUEST, str(error))
        except MonitorError as error:
            return await self._error(path, HTTPStatus.SERVICE_UNAVAILABLE, f"Results cannot be read now: {error}")
        finally:
            self._waiting -= 1

    async def post(self, path: str, headers: Mapping[str, str], body: bytes) -> WebResponse:
        """Respond to a POST to `path`."""
        if self._review is not None and path in REVIEW_PATHS:
            return await self._review.post(path, headers, body)
        if path in NOTE_PATHS:
            return await self._incidents.post(path, headers, body)
        if self._trials is None:
            return await self._error(path, HTTPStatus.NOT_FOUND, "Trials are switched off.")
        return await self._trials.post(path, headers, body)

    def _page(self, path: str, headers: Mapping[str, str]) -> Callable[[str], _Response] | None:
        if self._review is not None and path in REVIEW_PAGES:
            return partial(self._review.get, path, headers)
        for start, page in self._pages_by_id.items():
            if path.startswith(start) and len(path) > len(start):
                return partial(page, path[len(start) :])
        return self._pages.get(path)

    async def _overview(self, query: str) -> WebResponse:
        view = await self._overview_view(query)
        app = queries.read(query, queries.OVERVIEW).get("app", "")
        since = view.at - queries.WINDOWS[view.window].seconds
        try:
            shown = (await cases.answers(self._context, queries.AnswersQuery(app=app, since=since))).answers
        except MonitorError:  # rates do not depend on the history
            shown = []
        await self._audit.answers_shown("/", shown)
        return await html_response(
            "overview",
            now=view.at,
            up="",
            view=view,
            app=app,
            worst=shown,
            ranks=self._context.learned is not None,
            texts_kept=self._context.keeps_texts,
            by_rate=overview.by_rate,
        )

    async def _overview_json(self, query: str) -> WebResponse:
        return await json_response(await self._overview_view(query))

    async def _overview_view(self, query: str) -> Overview:
        given = queries.read(query, queries.OVERVIEW)
        window = queries.window(given, self._context.windows.longest)
        return await overview.overview(
            self._context, window=window, app=given.get("app", ""), started_at=self._started_at
        )

    async def _answers(self, query: str) -> WebResponse:
        asked = self._answers_query(query)
        view = await cases.answers(self._context, asked)
        await self._audit.answers_shown("/answers", view.answers)
        seen = {app for app, _ in self._context.windows.keys()}  # noqa: SIM118 - not a mapping
        return await html_response(
            "answers",
            now=view.at,
            up="",
            view=view,
            asked=asked,
            ranks=self._context.learned is not None,
            apps=sorted(seen.union({asked.app} - {""})),
            evaluators=self._evaluators(),
            levels=self._levels(asked.evaluator),
        )

    async def _answers_json(self, query: str) -> WebResponse:
        view = await cases.answers(self._context, self._answers_query(query))
        await self._audit.answers_shown(f"{_API}answers", view.answers)
        return await json_response(view)

    def _answers_query(self, query: str) -> queries.AnswersQuery:
        given = queries.read(query, queries.ANSWERS)
        now = self._context.runtime.clock.now()
        evaluator = given.get("evaluator", "")
        rules = [rule.name for rule in self._context.alert_rules(evaluator)]
        return queries.answers(given, now, self._levels(evaluator), rules)

    def _evaluators(self) -> list[str]:
        """Return the names of the configured evaluators, then those of external ones that have sent scores."""
        own = (one.evaluator.name for one in self._context.configured)
        return [*own, *external_evaluators(self._context.runtime.metrics)]

    def _levels(self, evaluator: str) -> list[str]:
        """Return the levels of one evaluator, or of all."""
        found: dict[str, None] = {}
        for one in self._context.configured:
            if evaluator in ("", one.evaluator.name):
                found.update(dict.fromkeys(level.name for level in one.evaluator.scale.levels))
        return list(found)

    async def _worst(self, query: str) -> WebResponse:
        asked = self._worst_query(query)
        view = await worst.worst(self._context, asked)
        await self._audit.answers_shown("/worst", [one for app in view.apps for one in app.answers])
        seen = {app for app, _ in self._context.windows.keys()}  # noqa: SIM118 - not a mapping
        apps = sorted(seen.union({asked.app} - {""}))
        return await html_response("worst", now=view.at, up="", view=view, asked=asked, apps=apps)

    async def _worst_json(self, query: str) -> WebResponse:
        view = await worst.worst(self._context, self._worst_query(query))
        await self._audit.answers_shown(f"{_API}worst", [one for app in view.apps for one in app.answers])
        return await json_response(view)

    def _worst_query(self, query: str) -> queries.WorstQuery:
        return queries.worst(queries.read(query, queries.WORST), self._context.runtime.clock.now())

    async def _case(self, trace_id: str, query: str) -> WebResponse:
        view = await self._case_view(trace_id, query)
        if view is None:
            link = to_why(trace=trace_id) if len(trace_id) <= _LONGEST_VALUE else ""
            return await self._error("/case/", HTTPStatus.NOT_FOUND, self._no_case(trace_id), link)
        await self._audit.answers_shown("/case", [view])
        return await html_response(
            "case",
            now=view.at,
            up="../",
            view=view,
            scales={one.name: one for one in overview.evaluators(self._context)},
            trying=self._trials.form(view) if self._trials is not None else None,
            labelled=self._review is not None,
        )

    async def _case_json(self, trace_id: str, query: str) -> WebResponse:
        view = await self._case_view(trace_id, query)
        if view is None:
            return await self._error(_API, HTTPStatus.NOT_FOUND, self._no_case(trace_id))
        await self._audit.answers_shown(f"{_API}cases", [view])
        return await json_response(view)

    async def _case_view(self, trace_id: str, query: str) -> CaseView | None:
        queries.read(query, ())
        return await cases.case(self._context, self._settings, trace_id) if len(trace_id) <= _LONGEST_ID else None

    async def _tried(self, name: str, query: str) -> WebResponse:
        queries.read(query, ())
        found = await self._trials.page(name) if self._trials is not None else None
        gone = "There is no trial at this address. Trials are kept in memory only, for an hour."
        return found if found is not None else await self._error("/tried/", HTTPStatus.NOT_FOUND, gone)

    def _no_case(self, trace_id: str) -> str:
        kept = human_duration(self._context.retention)
        return f"No result of the trace {plain(trace_id[:80])!r} is stored. Results are kept for {kept}."

    async def _alerts(self, query: str) -> WebResponse:
        queries.read(query, ())
        view = overview.alerts(self._context)
        return await html_response("alerts", now=view.at, up="", view=view, alarms=overview.by_rate(view.alerts))

    async def _alerts_json(self, query: str) -> WebResponse:
        queries.read(query, ())
        return await json_response(overview.alerts(self._context))

    async def _incident_list(self, query: str) -> WebResponse:
        queries.read(query, ())
        return await self._incidents.list_page()

    async def _incidents_json(self, query: str) -> WebResponse:
        queries.read(query, ())
        return await json_response(await self._incidents.all())

    async def _incident(self, name: str, query: str) -> WebResponse:
        queries.read(query, ())
        found = await self._incidents.page(name) if len(name) <= _LONGEST_ID else None
        return found if found is not None else await self._error("/incidents/", HTTPStatus.NOT_FOUND, _NO_INCIDENT)

    async def _incident_json(self, name: str, query: str) -> WebResponse:
        queries.read(query, ())
        view: IncidentReportView | None = None
        if len(name) <= _LONGEST_ID:
            view = await self._incidents.one(name, f"{_API}incidents")
        return await (json_response(view) if view else self._error(_API, HTTPStatus.NOT_FOUND, _NO_INCIDENT))

    async def _no_review(self, query: str) -> WebResponse:
        queries.read(query, ())
        return await html_response("no_review", now=self._context.runtime.clock.now(), up="")

    async def _why(self, query: str) -> WebResponse:
        asked = self._why_query(query)
        view = await why.explain(self._context, asked) if asked.trace or asked.evaluator else None
        now = self._context.runtime.clock.now()
        return await html_response("why", now=now, up="", view=view, asked=asked, evaluators=self._evaluators())

    async def _why_json(self, query: str) -> WebResponse:
        return await json_response(await why.explain(self._context, self._why_query(query)))

    def _why_query(self, query: str) -> queries.WhyQuery:
        return queries.why(queries.read(query, queries.WHY), self._context.runtime.clock.now())

    async def _diagnosis(self, query: str) -> WebResponse:
        asked = self._diagnosis_query(query)
        view = await self._diagnosed(asked, "/diagnosis") if asked.app and asked.evaluator else None
        now = self._context.runtime.clock.now()
        seen = {app for app, _ in self._context.windows.keys()}  # noqa: SIM118 - not a mapping
        return await html_response(
            "diagnosis",
            now=now,
            up="",
            view=view,
            asked=asked,
            apps=sorted(seen.union({asked.app} - {""})),
            evaluators=self._evaluators(),
        )

    async def _diagnosis_json(self, query: str) -> WebResponse:
        return await json_response(await self._diagnosed(self._diagnosis_query(query), f"{_API}diagnosis"))

    async def _diagnosed(self, asked: queries.DiagnosisQuery, path: str) -> diagnosis.DiagnosisView:
        view = await diagnosis.diagnosis(self._context, asked)
        await self._audit.texts_shown(path, diagnosis.shown_questions(view))
        return view

    def _diagnosis_query(self, query: str) -> queries.DiagnosisQuery:
        given = queries.read(query, queries.DIAGNOSIS)
        rules = [rule.name for rule in self._context.alert_rules(given.get("evaluator", ""))]
        return queries.diagnosis(given, self._context.runtime.clock.now(), rules)

    async def _openapi(self, query: str) -> WebResponse:
        from monitor.web.openapi import document  # noqa: PLC0415 - rarely requested

        queries.read(query, ())
        return WebResponse(200, JSON, await anyio.to_thread.run_sync(document), HEADERS)

    async def _icon(self, query: str) -> WebResponse:
        state = queries.read(query, ("state",)).get("state", "")
        colour = {"critical": "#c62828", "warning": "#c77700", "ok": "#2e7d4f"}.get(state, "#6b7280")
        drawn = (
            '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16">'
            f'<circle cx="8" cy="8" r="7" fill="{colour}"/>'
            '<path d="M3 9h2.5l1.5-4 2 7 1.5-3H13" fill="none" stroke="#fff" stroke-width="1.5"/></svg>'
        )
        return WebResponse(200, "image/svg+xml", drawn.encode(), HEADERS)

    async def _error(self, path: str, status: HTTPStatus, message: str, link: str = "") -> WebResponse:
        if path.startswith(_API):
            return await json_response(ErrorView(error=message), status)
        up = "../" if path.startswith(("/case/", "/tried/", "/incidents/", "/review/")) else ""
        now = self._context.runtime.clock.now()
        return await html_response("error", status, now=now, up=up, title=status.phrase, message=message, why=link)
