"""The review for programs: the content of its pages as JSON, with a reviewer's token in a header."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from http import HTTPStatus
from typing import Final

from monitor.errors import Overloaded
from monitor.telemetry.site import WebResponse
from monitor.web import queries
from monitor.web.post_guard import PostGuard, RefusedError
from monitor.web.queries import BadQueryError
from monitor.web.responses import json_response
from monitor.web.review.access import ReviewAccess
from monitor.web.review.work import LabelRequest, ReviewQuery, ReviewWork, StaleLabelError, viewing_as
from monitor.web.view_audit import ViewAudit
from monitor.web.views import ErrorView

_API: Final = "/api/v1/"
_NEEDS_TOKEN: Final = "the header `X-Review-Token` needs the token of a reviewer"  # noqa: S105 - a message


class ReviewApi:
    """Responds to programs."""

    def __init__(self, work: ReviewWork, access: ReviewAccess, guard: PostGuard, audit: ViewAudit) -> None:
        self._work = work
        self._access = access
        self._guard = guard
        self._audit = audit

    async def get(self, path: str, query: str, headers: Mapping[str, str]) -> WebResponse:
        """Return the resource at `path`. Raises `BadQueryError`, and `MonitorError` if files cannot be read."""
        try:
            who = await self._access.of_program(headers)
        except Overloaded as error:
            found = await json_response(ErrorView(error=str(error)), HTTPStatus.TOO_MANY_REQUESTS)
            return replace(found, headers={**found.headers, "retry-after": f"{error.retry_after:.0f}"})
        if who is None:
            return await json_response(ErrorView(error=_NEEDS_TOKEN), HTTPStatus.UNAUTHORIZED)
        with viewing_as(who):
            return await self._shown(who, path, query)

    async def _shown(self, who: str, path: str, query: str) -> WebResponse:
        if path == f"{_API}review":
            app = queries.read(query, queries.REVIEW_QUEUES).get("app", "")
            return await json_response(await self._work.overview(who, app))
        if path == f"{_API}review/judge":
            return await json_response(await self._work.judge(**queries.judge(query)))
        if path == f"{_API}review/labels":
            return await json_response(
                await self._work.labels(who, queries.labels(queries.read(query, queries.REVIEW_LABELS)))
            )
        asked = ReviewQuery(**queries.read(query, queries.REVIEW_NEXT))
        if not asked.result:
            if not (asked.app and asked.evaluator):
                raise BadQueryError("app, evaluator: both are needed, or a result")
            asked = await self._work.next(who, asked)
        view = await self._work.case(who, asked.result) if asked.result else None
        if view is None:
            nothing = ErrorView(error="there is nothing to label here, or the answer has been deleted")
            return await json_response(nothing, HTTPStatus.NOT_FOUND)
        await self._audit.texts_shown(f"{_API}review/case", [view.request_id])
        return await json_response(view)

    async def post(self, headers: Mapping[str, str], body: bytes) -> WebResponse:
        """Save a label. Raises `RefusedError`, `Overloaded` and other `MonitorError`s."""
        given = self._guard.admit(headers, body, LabelRequest, json=True)
        who = await self._access.of_program(headers)
        if who is None:
            raise RefusedError(HTTPStatus.UNAUTHORIZED, _NEEDS_TOKEN)
        with viewing_as(who):
            try:
                view = await self._work.save(who, given)
            except StaleLabelError as error:
                raise RefusedError(HTTPStatus.CONFLICT, str(error)) from None
            return await json_response(view)
