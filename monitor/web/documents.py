"""Documents behind bad answers, and unanswered questions: pages, JSON and a CSV file."""

from __future__ import annotations

from typing import Any, Literal

import anyio.to_thread

from monitor.jobs.documents import (
    Change,
    DocumentsReport,
    DocumentsRequest,
    DocumentUse,
    as_csv,
    as_objects,
    found_in,
    in_order,
)
from monitor.jobs.unanswered import UnansweredReport, UnansweredRequest, UnansweredTopic, is_readable
from monitor.statistics.rates import Estimate
from monitor.statistics.topics import OTHER, topic_words
from monitor.telemetry.site import WebResponse
from monitor.web import queries
from monitor.web.context import PageContext
from monitor.web.queries import ListQuery
from monitor.web.responses import HEADERS, html_response, json_response
from monitor.web.texts import whole
from monitor.web.view_audit import ViewAudit
from monitor.web.views import ApiModel

ON_A_PAGE = 50


class IntervalView(ApiModel):
    """A weighted rate of all requests, with 95 % limits."""

    rate: float
    lower: float
    upper: float


class DocumentUseView(ApiModel):
    """A document, and the answers for which it was retrieved."""

    document: str
    """Its URI or id, or else a hash."""
    answers: int
    bad: int
    bad_rate: IntervalView
    surely_worse: bool
    """Worse than the answers without it, by more than chance explains."""
    beside: str
    """A worse document: without its answers, this one is like the rest. Else empty."""
    compared: bool
    """False if it has too few answers to compare, or nearly all of them."""
    use_known: int
    """The number of answers for which it is known whether they use it."""
    used: IntervalView | None
    """The share of these answers that use it."""
    never_used: bool
    before: IntervalView | None
    """The rate of bad answers in the period before."""
    change: Literal["rise", "fall", ""]
    """How the rate differs significantly from the period before; empty if it does not."""
    example: str
    """The request of the newest bad answer; else empty."""


class DocumentsView(ApiModel):
    """One page of the documents of a period."""

    at: float
    app: str
    evaluator: str
    since: float
    answers: int
    answers_before: int
    without: int
    """Answers for which no document was retrieved."""
    cut: bool
    """Whether only the newest 10,000 answers were read."""
    bad_rate: IntervalView | None
    compared: int
    """How many documents were compared with the rest."""
    left_out: int
    """Documents that are not listed because they were retrieved less often."""
    other_versions: int
    """Answers judged by an older version of the evaluator; no figure includes them."""
    matching: int
    """How many documents match the search."""
    page: int
    pages: int
    documents: list[DocumentUseView]


class UnansweredQuestionView(ApiModel):
    """A question that was not answered. The text is null if it is not stored."""

    request_id: str
    at: float
    question: str | None
    nothing_found: bool
    refused: bool


class UnansweredTopicView(ApiModel):
    """The questions of one topic."""

    topic: str
    asked: int
    unanswered: int
    nothing_found: int
    refused: int
    requests: float
    """How many requests the unanswered questions stand for."""
    share: float
    """The topic's share of all unanswered questions."""
    rate: IntervalView
    before: IntervalView | None
    change: Literal["rise", "fall", ""]
    surely_more: bool
    """More often unanswered than other topics, by more than chance explains."""
    others: bool
    """True for the questions that belong to no topic."""
    examples: list[UnansweredQuestionView]


class UnansweredView(ApiModel):
    """Unanswered questions, by topic."""

    at: float
    app: str
    since: float
    questions: int
    cut: bool
    unanswered: int
    requests: float
    rate: IntervalView | None
    before: IntervalView | None
    change: Literal["rise", "fall", ""]
    readable: bool
    """False if topics are hashes, because the words of questions are not stored."""
    topics: list[UnansweredTopicView]


class DocumentPages:
    """Responds to requests for both lists."""

    def __init__(self, context: PageContext, audit: ViewAudit) -> None:
        self._context = context
        self._audit = audit

    async def documents(self, query: str) -> WebResponse:
        """Return the page of documents."""
        asked = self._asked(query, queries.DOCUMENTS)
        view = await self._documents_view(asked)
        return await html_response("documents", now=view.at, up="", view=view, asked=asked, **self._choices(asked))

    async def documents_json(self, query: str) -> WebResponse:
        """Return a page of documents as JSON."""
        return await json_response(await self._documents_view(self._asked(query, queries.DOCUMENTS)))

    async def documents_csv(self, query: str) -> WebResponse:
        """Return all matching documents as a file for a spreadsheet."""
        asked = self._asked(query, queries.DOCUMENTS)
        report = await self._report(asked)

        def write() -> bytes:
            chosen = in_order(found_in(report.documents, asked.search), asked.order)
            return as_csv(as_objects(report, chosen)).encode("utf-8", "replace")

        headers = {**HEADERS, "content-disposition": 'attachment; filename="documents.csv"'}
        return WebResponse(200, "text/csv; charset=utf-8", await anyio.to_thread.run_sync(write), headers)

    async def unanswered(self, query: str) -> WebResponse:
        """Return the page of unanswered questions."""
        asked = self._asked(query, queries.UNANSWERED)
        view = await self._unanswered_view(asked, "/unanswered")
        return await html_response("unanswered", now=view.at, up="", view=view, asked=asked, **self._choices(asked))

    async def unanswered_json(self, query: str) -> WebResponse:
        """Return the unanswered questions as JSON."""
        asked = self._asked(query, queries.UNANSWERED)
        return await json_response(await self._unanswered_view(asked, "/api/v1/unanswered"))

    def _asked(self, query: str, allowed: tuple[str, ...]) -> ListQuery:
        """Read the query. Defaults are the first app, and the first evaluator with scores for the app."""
        asked = queries.listing(queries.read(query, allowed), self._context.runtime.clock.now())
        pairs = self._pairs()
        app = asked.app or min((app for app, _ in pairs), default="")
        configured = [one.evaluator.name for one in self._context.configured]
        scored = [name for name in configured if (app, name) in pairs]
        evaluator = asked.evaluator or next(iter([*scored, *configured]), "")
        return asked._replace(app=app, evaluator=evaluator)

    def _pairs(self) -> set[tuple[str, str]]:
        return set(self._context.windows.keys())

    def _choices(self, asked: ListQuery) -> dict[str, Any]:
        configured = [one.evaluator.name for one in self._context.configured]
        return {
            "apps": sorted({app for app, _ in self._pairs()} | ({asked.app} - {""})),
            "evaluators": list(dict.fromkeys([*configured, *([asked.evaluator] if asked.evaluator else [])])),
        }

    async def _report(self, asked: ListQuery) -> DocumentsReport:
        return await self._context.reports.documents(DocumentsRequest(asked.app, asked.evaluator, asked.window))

    async def _documents_view(self, asked: ListQuery) -> DocumentsView:
        report = await self._report(asked)
        return await anyio.to_thread.run_sync(documents_view, report, asked)

    async def _unanswered_view(self, asked: ListQuery, path: str) -> UnansweredView:
        view = unanswered_view(
            await self._context.reports.unanswered(UnansweredRequest(asked.app, asked.window)),
            texts=self._context.keeps_texts,
        )
        shown = [one.request_id for topic in view.topics for one in topic.examples if one.question]
        await self._audit.texts_shown(path, shown)
        return view


def documents_view(report: DocumentsReport, asked: ListQuery) -> DocumentsView:
    """Return the requested page of a report, or the last page if there are fewer."""
    chosen = in_order(found_in(report.documents, asked.search), asked.order)
    pages = max(1, -(-len(chosen) // ON_A_PAGE))
    page = min(asked.page, pages)
    return DocumentsView(
        at=report.until,
        app=report.app,
        evaluator=report.evaluator,
        since=report.since,
        answers=report.answers,
        answers_before=report.answers_before,
        without=report.without,
        cut=report.cut,
        bad_rate=_interval(report.rate),
        compared=report.compared,
        left_out=report.left_out,
        other_versions=report.other_versions,
        matching=len(chosen),
        page=page,
        pages=pages,
        documents=[_document(one) for one in chosen[(page - 1) * ON_A_PAGE : page * ON_A_PAGE]],
    )


def unanswered_view(report: UnansweredReport, *, texts: bool) -> UnansweredView:
    """Return a report as it is shown; unless `texts` is set, without the texts of questions."""
    return UnansweredView(
        at=report.until,
        app=report.app,
        since=report.since,
        questions=report.questions,
        cut=report.cut,
        unanswered=report.unanswered,
        requests=report.requests,
        rate=_interval(report.rate),
        before=_interval(report.before),
        change=report.change,
        readable=is_readable(report),
        topics=[_topic(one, texts=texts) for one in report.topics],
    )


def _document(one: DocumentUse) -> DocumentUseView:
    change: Change = one.change
    return DocumentUseView(
        document=whole(one.address),
        answers=one.answers,
        bad=one.bad,
        bad_rate=_shown(one.rate),
        surely_worse=one.surely_worse,
        beside=whole(one.beside),
        compared=one.compared,
        use_known=one.known_use,
        used=_interval(one.used),
        never_used=one.never_used,
        before=_interval(one.before),
        change=change,
        example=whole(one.example),
    )


def _topic(one: UnansweredTopic, *, texts: bool) -> UnansweredTopicView:
    return UnansweredTopicView(
        topic=whole(topic_words(one.name)),
        asked=one.asked,
        unanswered=one.unanswered,
        nothing_found=one.nothing_found,
        refused=one.refused,
        requests=one.requests,
        share=one.share,
        rate=_shown(one.rate),
        before=_interval(one.before),
        change=one.change,
        surely_more=one.surely_more,
        others=one.name == OTHER,
        examples=[
            UnansweredQuestionView(
                request_id=whole(example.request_id),
                at=example.at,
                question=whole(example.text) if texts and example.text else None,
                nothing_found=example.nothing_found,
                refused=example.refused,
            )
            for example in one.examples
        ],
    )


def _interval(one: Estimate | None) -> IntervalView | None:
    return _shown(one) if one is not None else None


def _shown(one: Estimate) -> IntervalView:
    return IntervalView(rate=one.rate, lower=one.lower, upper=one.upper)
