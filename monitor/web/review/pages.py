"""The review pages: signing in, the queues, an answer to label, labels."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from http import HTTPStatus
from importlib.resources import files
from typing import Annotated, Final, NamedTuple

from pydantic import BaseModel, ConfigDict, Field

from monitor.errors import InvalidData, MonitorError, Overloaded
from monitor.telemetry.site import WebResponse
from monitor.web import queries
from monitor.web.context import PageContext, ReviewParts
from monitor.web.post_guard import PostGuard, RefusedError
from monitor.web.queries import BadQueryError
from monitor.web.responses import HEADERS, html_response, json_response
from monitor.web.review.access import ReviewAccess
from monitor.web.review.api import ReviewApi
from monitor.web.review.views import ReviewCaseView
from monitor.web.review.work import (
    GONE,
    LONGEST_COMMENT,
    LabelRequest,
    ReviewQuery,
    ReviewWork,
    ShortText,
    StaleLabelError,
    viewing_as,
)
from monitor.web.settings import UiSettings
from monitor.web.view_audit import ViewAudit
from monitor.web.views import ErrorView

_API: Final = "/api/v1/"
_API_PAGES: Final = frozenset(f"{_API}review{page}" for page in ("", "/next", "/labels", "/judge"))
REVIEW_PAGES: Final = _API_PAGES | {"/review", "/review/label", "/review/labels", "/review/judge"}
"""The paths served here."""
_SCRIPT: Final = files("monitor.web").joinpath("templates/review.js").read_text(encoding="utf-8").strip()


class _LabelForm(LabelRequest):
    """A label from the form of a page, and the queue it belongs to."""

    level: ShortText = ""
    comment: Annotated[str, Field(max_length=LONGEST_COMMENT)] = ""
    seen: ShortText = ""
    app: ShortText = ""
    evaluator: ShortText = ""
    by: ShortText = ""


class _SignInForm(BaseModel):
    """A reviewer's token, and a label that was not saved because the session had ended."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    secret: ShortText
    result: ShortText = ""
    verdict: ShortText = ""
    level: ShortText = ""
    comment: Annotated[str, Field(max_length=LONGEST_COMMENT)] = ""
    app: ShortText = ""
    evaluator: ShortText = ""
    by: ShortText = ""


class _SignOutForm(BaseModel):
    """An empty form: only the token of the page."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class ReviewDraft(NamedTuple):
    """A label that has been filled in but not saved."""

    verdict: str = ""
    level: str = ""
    comment: str = ""


class ReviewPages:
    """The pages of the review, for reviewers who have signed in, and its API, for programs with a reviewer's token."""

    def __init__(self, context: PageContext, review: ReviewParts, settings: UiSettings, audit: ViewAudit) -> None:
        self._context = context
        self._audit = audit
        self._access = ReviewAccess(review.reviewers, context.runtime)
        self._guard = PostGuard(settings.names)
        self._work = ReviewWork(context, review)
        self._api = ReviewApi(self._work, self._access, self._guard, audit)

    async def get(self, path: str, headers: Mapping[str, str], query: str) -> WebResponse:
        """Return a page or its JSON. Raises `BadQueryError`, and `MonitorError` if files cannot be read."""
        if path.startswith(_API):
            return await self._api.get(path, query, headers)
        who = self._access.signed_in(headers)
        if who is None:
            return await self._sign_in_page(up="../" if path.count("/") > 1 else "")
        with viewing_as(who):
            if path == "/review/label":
                return await self._label_page(who, ReviewQuery(**queries.read(query, queries.REVIEW_CASE)))
            if path == "/review/labels":
                view = await self._work.labels(who, queries.labels(queries.read(query, queries.REVIEW_LABELS)))
                return await html_response("labels", now=view.at, up="../", view=view, who=who, token=self._guard.token)
            if path == "/review/judge":
                judge = await self._work.judge(**queries.judge(query))
                return await html_response("judge", now=judge.at, up="../", view=judge, who=who)
            app = queries.read(query, queries.REVIEW_QUEUES).get("app", "")
            view_of_all = await self._work.overview(who, app)
            return await html_response(
                "review", now=view_of_all.at, up="", view=view_of_all, who=who, token=self._guard.token
            )

    async def post(self, path: str, headers: Mapping[str, str], body: bytes) -> WebResponse:
        """Sign someone in or out, or save a label. Never raises for bad input."""
        respond = {"/review/in": self._sign_in, "/review/out": self._sign_out, "/review/label": self._save_form}
        try:
            return await respond.get(path, self._api.post)(headers, body)
        except RefusedError as error:
            return await self._refuse(path, error.status, str(error))
        except Overloaded as error:
            wait = {"retry-after": f"{error.retry_after:.0f}"}
            found = await self._refuse(path, HTTPStatus.TOO_MANY_REQUESTS, f"{error}: wait a minute and try again.")
            return replace(found, headers={**found.headers, **wait})
        except MonitorError as error:
            return await self._refuse(path, *_why(error))

    async def _sign_in(self, headers: Mapping[str, str], body: bytes) -> WebResponse:
        given, is_own = self._guard.admit_form(headers, body, _SignInForm)
        if not is_own:
            message = "The monitor has restarted since this form was shown. Please sign in again."
            return await self._sign_in_page(message, HTTPStatus.FORBIDDEN, given)
        try:
            cookie = await self._access.sign_in(given.secret, headers)
        except Overloaded as error:
            message = f"Too many wrong tokens. Wait {error.retry_after:.0f} seconds and try again."
            return await self._sign_in_page(message, HTTPStatus.TOO_MANY_REQUESTS, given)
        who = self._access.signed_in({"cookie": cookie}) if cookie is not None else None
        if cookie is None or who is None:
            return await self._sign_in_page("This is not a reviewer's token.", HTTPStatus.UNAUTHORIZED, given)
        if not given.result:
            return _redirect("../review", {"set-cookie": cookie})
        with viewing_as(who):
            draft = ReviewDraft(given.verdict, given.level, given.comment)
            asked = ReviewQuery(given.app, given.evaluator, given.by, given.result)
            message = "You are signed in again. This label is not saved yet: choose once more."
            page = await self._label_page(who, asked, draft, message)
        return replace(page, headers={**page.headers, "set-cookie": cookie})

    async def _sign_out(self, headers: Mapping[str, str], body: bytes) -> WebResponse:
        self._guard.admit(headers, body, _SignOutForm, json=False)
        return _redirect("../review", {"set-cookie": self._access.sign_out(headers)})

    async def _save_form(self, headers: Mapping[str, str], body: bytes) -> WebResponse:
        given, is_own = self._guard.admit_form(headers, body, _LabelForm)
        who = self._access.signed_in(headers)
        if who is None:
            message = "Your session has ended, and this label is not saved yet. Sign in, and it is shown again."
            kept = _SignInForm(secret="", **given.model_dump(exclude={"seen"}))
            return await self._sign_in_page(message, HTTPStatus.UNAUTHORIZED, kept)
        asked = ReviewQuery(given.app, given.evaluator, given.by, given.result)
        draft = ReviewDraft(given.verdict, given.level, given.comment)
        with viewing_as(who):
            if not is_own:
                message = "Nothing was saved: the monitor has restarted since this page was shown. Choose once more."
                return await self._label_page(who, asked, draft, message, HTTPStatus.FORBIDDEN)
            try:
                await self._work.save(who, given)
            except StaleLabelError as error:
                return await self._label_page(who, asked, draft, str(error), HTTPStatus.CONFLICT)
            except (RefusedError, MonitorError) as error:
                return await self._unsaved_page(asked, draft, *_why(error))
            following = asked._replace(result="", last=given.result) if asked.by else asked
            return _redirect(f"../{(await self._following(who, following)).address}")

    async def _following(self, who: str, asked: ReviewQuery) -> ReviewQuery:
        """Return `asked` with the next answer of its queue; unchanged if it has an answer, or none can be found."""
        if asked.result:
            return asked
        with suppress(BadQueryError, MonitorError):
            return await self._work.next(who, asked)
        return asked

    async def _label_page(
        self,
        who: str,
        asked: ReviewQuery,
        draft: ReviewDraft | None = None,
        message: str = "",
        status: HTTPStatus = HTTPStatus.OK,
    ) -> WebResponse:
        """Return the page of an answer to label; without a `result`, redirect to the next answer."""
        if not asked.result:
            following = await self._work.next(who, asked)
            if following.result:
                return _redirect(f"../{following.address}")
        view = await self._work.case(who, asked.result) if asked.result else None
        if asked.result and view is None:
            return await self._unsaved_page(asked, draft or ReviewDraft(), HTTPStatus.GONE, GONE)
        last = await self._work.case(who, asked.last) if asked.last else None
        shown = [one.request_id for one in (view, last) if one is not None]
        await self._audit.texts_shown("/review/label", shown)
        app, evaluator = (view.app, view.evaluator) if view is not None else (asked.app, asked.evaluator)
        known = evaluator in self._context.versions
        return await html_response(
            "label",
            status,
            script=_SCRIPT,
            now=self._context.runtime.clock.now(),
            up="../",
            view=view,
            last=last,
            asked=asked,
            queue=await self._work.queue(app, evaluator) if known else None,
            draft=draft or _draft_of(view),
            seen=_stamp_of(view),
            message=message,
            who=who,
            token=self._guard.token,
        )

    async def _unsaved_page(
        self, asked: ReviewQuery, draft: ReviewDraft, status: HTTPStatus, message: str
    ) -> WebResponse:
        """Return a page with the reason why nothing was saved, and with what was typed."""
        now = self._context.runtime.clock.now()
        following = asked._replace(result="") if asked.by else None
        return await html_response(
            "unsaved", status, now=now, up="../", message=message, draft=draft, following=following
        )

    async def _sign_in_page(
        self, message: str = "", status: HTTPStatus = HTTPStatus.OK, kept: _SignInForm | None = None, up: str = "../"
    ) -> WebResponse:
        now = self._context.runtime.clock.now()
        fields = kept.model_dump(exclude={"secret"}) if kept is not None and kept.result else {}
        return await html_response(
            "sign_in", status, now=now, up=up, message=message, kept=fields, token=self._guard.token
        )

    async def _refuse(self, path: str, status: HTTPStatus, message: str) -> WebResponse:
        if path.startswith(_API):
            return await json_response(ErrorView(error=message), status)
        now = self._context.runtime.clock.now()
        return await html_response("error", status, now=now, up="../", title=status.phrase, message=message, why="")


def _why(error: RefusedError | MonitorError) -> tuple[HTTPStatus, str]:
    """Return the status and the message for a label that was not saved."""
    if isinstance(error, RefusedError):
        return error.status, str(error)
    if isinstance(error, InvalidData):
        return HTTPStatus.BAD_REQUEST, f"Nothing was saved: {error}"
    return HTTPStatus.SERVICE_UNAVAILABLE, f"Nothing was saved: labels cannot be written now: {error}"


def _stamp_of(view: ReviewCaseView | None) -> str:
    return "" if view is None or view.own is None else repr(view.own.at)


def _draft_of(view: ReviewCaseView | None) -> ReviewDraft:
    """Return the initial content of the form: the reviewer's own label, to be changed."""
    own = view.own if view is not None else None
    return ReviewDraft() if own is None else ReviewDraft(own.verdict, own.level or "", own.comment)


def _redirect(where: str, headers: Mapping[str, str] | None = None) -> WebResponse:
    return WebResponse(HTTPStatus.SEE_OTHER, "text/plain", b"", {**HEADERS, "location": where, **(headers or {})})
