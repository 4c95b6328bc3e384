"""What a reviewer can do: see an answer, label it, get the next, look through labels. For the pages and the API."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from http import HTTPStatus
from typing import Annotated, Final, Literal, NamedTuple

import anyio
import anyio.to_thread
from pydantic import BaseModel, ConfigDict, Field

from monitor.errors import InvalidData
from monitor.jobs.review.orders import ReviewOrder, WantedOrder
from monitor.model.label import Label, LabelVerdict
from monitor.telemetry.events import Event
from monitor.telemetry.site import VIEWER
from monitor.web import queries
from monitor.web.context import PageContext, ReviewParts
from monitor.web.post_guard import RefusedError
from monitor.web.queries import BadQueryError
from monitor.web.review.views import (
    JudgeView,
    LabelView,
    ReviewCaseView,
    ReviewLabelsView,
    ReviewQueueView,
    ReviewView,
    case_view,
)
from monitor.web.texts import moment, to_review, whole

GONE: Final = "This answer has been deleted in the meantime: after its retention, or on request. Nothing was saved."
LONGEST_COMMENT: Final = 4_000
_NEWEST: Final = 200
_DISPUTED_AMONG: Final = 20_000
"""Disagreements are searched for among this many of the newest labels."""
_QUEUES: Final = 30
"""Queues shown at once: each has to be read from the history."""
_ORDERS: Final[Mapping[ReviewOrder, str]] = {
    ReviewOrder.MEASURE: "drawn at random, to measure the judge",
    ReviewOrder.CONTRADICTIONS: "the judge's explanation contradicts its verdict",
    ReviewOrder.FLIPS: "the judge said otherwise when asked again",
    ReviewOrder.USERS: "the user's feedback contradicts the judge",
    ReviewOrder.DISAGREED: "people disagree",
    ReviewOrder.NEWEST: "newest first",
}

ShortText = Annotated[str, Field(max_length=512)]


class LabelRequest(BaseModel):
    """A label to save."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    result: Annotated[str, Field(min_length=1, max_length=256)]
    """The id of the result."""
    verdict: Literal["good", "defect", "cannot_tell"]
    """The reviewer's verdict."""
    level: ShortText | None
    """A level of the evaluator; null or empty if none is chosen."""
    comment: Annotated[str, Field(max_length=LONGEST_COMMENT)]
    seen: ShortText | None
    """When the reviewer's current label of this answer was given, as the form showed it; empty if there was none. If
    the label has changed since then, nothing is saved. Null: replace any label."""


class ReviewQuery(NamedTuple):
    """A queue and a position in it. `result` is the answer to label, `last` the one labelled before."""

    app: str = ""
    evaluator: str = ""
    by: str = ""
    result: str = ""
    last: str = ""

    @property
    def address(self) -> str:
        """The page, relative to the root of the UI."""
        return to_review("label", **self._asdict())


class StaleLabelError(Exception):
    """The reviewer has labelled this result since the form was shown, in another tab, or has deleted the label."""

    def __init__(self, now: LabelView | None) -> None:
        said = now.verdict.replace("_", " ") if now is not None else ""
        what = f"you have since labelled this answer ({said})" if said else "your label has since been deleted"
        super().__init__(f"Nothing was changed: {what}. Choose once more to replace it.")


class ReviewWork:
    """The work of reviewers. Its methods raise `MonitorError` if files cannot be read or written."""

    def __init__(self, context: PageContext, review: ReviewParts) -> None:
        self._context = context
        self._queue = review.queue
        self._blind = review.blind
        self._saving = anyio.Lock()

    async def overview(self, who: str, app: str = "") -> ReviewView:
        """Return the queues of one app or of all, those of judges first.

        Local evaluators that look at no response have no queue: what they say of a request is a fact, not an opinion.
        """
        own = [one.evaluator for one in self._context.configured if one.defect.kind != "never"]
        judges = {one.name for one in own if one.cost == "judge"}
        worth_labels = judges | {one.name for one in own if "response" in one.needs}
        places = {place for place in self._context.windows.keys() if app in ("", place[0])}  # noqa: SIM118 - no mapping
        known = [place for place in places if place[1] in self._context.versions and place[1] in worth_labels]
        known.sort(key=lambda place: (place[1] not in judges, *place))
        return ReviewView(
            at=self._now(),
            reviewer=whole(who),
            blind=self._blind,
            orders={one.value: words for one, words in _ORDERS.items()},
            queues=[await self._with_choices(*place) for place in known[:_QUEUES]],
            left_out=max(len(known) - _QUEUES, 0),
        )

    async def queue(self, app: str, evaluator: str) -> ReviewQueueView:
        """Return one queue. Raises `InvalidData` for an evaluator that is not configured."""
        return ReviewQueueView.of(await self._queue.status(app, evaluator))

    async def judge(self, app: str, evaluator: str) -> JudgeView:
        """Return how good the judge of a queue is, and where it errs. Raises `BadQueryError`."""
        if not (app and evaluator):
            raise BadQueryError("app and evaluator: both are required")
        try:
            measured, errors = await self._queue.measured(evaluator, app), await self._queue.errors(app, evaluator)
        except InvalidData as error:
            raise BadQueryError(str(error)) from None
        return JudgeView.of(app, measured, errors, self._now())

    async def _with_choices(self, app: str, evaluator: str) -> ReviewQueueView:
        """Return one queue with the orders that only it has."""
        view, found = await self.queue(app, evaluator), await self._queue.choices(app, evaluator)
        incidents = {
            WantedOrder(ReviewOrder.INCIDENT, one.id).name: f"of {moment(one.fired)} UTC, {one.worst}"
            for one in found.incidents
        }
        topics = {WantedOrder(ReviewOrder.TOPIC, one).name: whole(one) for one in found.topics}
        return view.model_copy(update={"incidents": incidents, "topics": topics})

    async def labels(self, who: str, show: queries.Show) -> ReviewLabelsView:
        """Return the newest labels, or those about which people disagree."""
        mine, limit = (who if show == "mine" else None), (_DISPUTED_AMONG if show == "disagreements" else _NEWEST)
        found = await anyio.to_thread.run_sync(partial(self._queue.labels.find, reviewer=mine, limit=limit))
        shown = _disputed(found) if show == "disagreements" else found
        newest = [LabelView.of(one) for one in reversed(shown[-_NEWEST:])]
        return ReviewLabelsView(at=self._now(), show=show, labels=newest)

    async def next(self, who: str, asked: ReviewQuery) -> ReviewQuery:
        """Return the query of the next answer to label; without a `result` if there is none. Raises `BadQueryError`."""
        try:
            found = await self._queue.next(asked.app, asked.evaluator, who, asked.by)
        except InvalidData as error:
            raise BadQueryError(str(error)) from None
        return asked._replace(result=found.result_id if found is not None else "")

    async def case(self, who: str, result: str) -> ReviewCaseView | None:
        """Return an answer as this reviewer may see it; None if it, or its text, is no longer kept."""
        found = await self._queue.case(result, who)
        if found is None or not found.texts_kept:
            return None
        changes = await anyio.to_thread.run_sync(self._queue.labels.changes_of, result)
        shown = partial(case_view, found, self._context.configured, changes, self._now())
        return await anyio.to_thread.run_sync(shown)

    async def save(self, who: str, given: LabelRequest) -> ReviewCaseView:
        """Save a label, and return the answer with it.

        Raises `RefusedError` if the answer is gone, `StaleLabelError`, and `InvalidData` for a wrong level.
        """
        level, comment = given.level or None, given.comment.strip()
        async with self._saving:
            view = await self.case(who, given.result)
            if view is None:
                raise RefusedError(HTTPStatus.GONE, GONE)
            before = view.own
            said = (given.verdict, level, whole(comment))
            if before is not None and (before.verdict, before.level, before.comment) == said:
                return view  # a second click
            if given.seen is not None and given.seen != stamp(before):
                raise StaleLabelError(before)
            saved = await self._queue.record(
                given.result, who, LabelVerdict(given.verdict), level=level, comment=comment
            )
            after = await self.case(who, given.result) if saved is not None else None
        if after is None:
            raise RefusedError(HTTPStatus.GONE, GONE)
        message = "an answer was labelled" if before is None else "a label was changed"
        await self._record(message, after, given.verdict)
        return after

    async def _record(self, message: str, view: ReviewCaseView, verdict: str) -> None:
        viewer, events = VIEWER.get(), self._context.runtime.events
        ids = {"requests": [view.request_id], "evaluator": view.evaluator, "verdict": verdict}
        record = partial(events.info, Event.ANSWER_LABELLED, message, who=viewer.who, peer=viewer.peer, **ids)
        await anyio.to_thread.run_sync(record)  # it is written to a file, too

    def _now(self) -> float:
        return self._context.runtime.clock.now()


def _disputed(labels: Sequence[Label]) -> list[Label]:
    """Return the labels of results that some people call good and some a defect."""
    said: dict[str, set[LabelVerdict]] = {}
    for one in labels:
        said.setdefault(one.result_id, set()).add(one.verdict)
    return [one for one in labels if {LabelVerdict.GOOD, LabelVerdict.DEFECT} <= said[one.result_id]]


def stamp(label: LabelView | None) -> str:
    """Return a stamp that distinguishes a label from the same reviewer's earlier or later one; empty for no label."""
    return "" if label is None else repr(label.at)


@contextmanager
def viewing_as(reviewer: str) -> Iterator[None]:
    """Let the audit log name the reviewer."""
    before = VIEWER.get()
    token = VIEWER.set(before._replace(who=f"reviewer {reviewer}"))
    try:
        yield
    finally:
        VIEWER.reset(token)
