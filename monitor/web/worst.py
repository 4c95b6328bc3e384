"""The worst answers by the leading order: of all scored answers, or of those that no judge has seen."""

from __future__ import annotations

from typing import Literal

import anyio.to_thread

from monitor.pipeline.learned import LearnedOrder
from monitor.statistics.verdict_learning import NEEDED
from monitor.telemetry.metrics import UNKNOWN_APP
from monitor.web.cases import by_trace
from monitor.web.context import PageContext
from monitor.web.queries import WorstQuery
from monitor.web.views import AnswerView, ApiModel

_MOST_APPS = 5


class RankedAnswerView(AnswerView):
    """An answer with its scores by both orders, as they were when it arrived; null if there is none."""

    before: float | None
    learned: float | None


class OrderView(ApiModel):
    """The worst answers of one app, and how well both orders predicted the verdicts on it."""

    app: str
    order: str
    """The evaluator by whose scores the answers are ordered: the learned one only while it leads."""
    taught: int
    """The verdicts and labels that the learned order has learned from."""
    verdicts: int
    """The newest verdicts, at most 2,000, by which both orders are compared, each with the scores from before it."""
    defects: int
    """How many of them found a defect."""
    defects_needed: int
    """An order is assessed only from this many defects, and as many good answers, on."""
    auroc_before: float | None
    """The AUROC of the order that learning began with; null with too few defects."""
    auroc_learned: float | None
    """The AUROC of the learned order; null with too few defects."""
    answers: list[RankedAnswerView]
    more: bool
    """Whether there are more than `limit`."""


class WorstView(ApiModel):
    """The worst answers by app."""

    at: float
    since: float
    judged: Literal["no", "any"]
    """`no`: only answers that the judged evaluator has not scored."""
    before: str
    """The evaluator that learning began with."""
    learned: str
    """The evaluator that learns; empty if none is configured."""
    teacher: str
    """The judged evaluator that teaches it; empty if there is none."""
    apps: list[OrderView]
    texts_kept: bool
    empty_reason: str
    """Why there are no answers; else empty."""


async def worst(context: PageContext, query: WorstQuery) -> WorstView:
    """Return the worst answers of an app, or of the first five. Raises `MonitorError` if there is no history."""
    order, name = (
        context.learned,
        next((one.evaluator.name for one in context.configured if one.evaluator.rescores), ""),
    )
    seen = sorted({app for app, _ in context.windows.keys()})  # noqa: SIM118 - not a mapping
    apps = [query.app] if query.app else seen[:_MOST_APPS]
    found = [await _of(context, order, name, app, query) for app in apps] if order is not None else []
    return WorstView(
        at=context.runtime.clock.now(),
        since=query.since,
        judged=query.judged,
        before=order.measured_by if order is not None else "",
        learned=name,
        teacher=order.teacher if order is not None else "",
        apps=found,
        texts_kept=context.keeps_texts,
        empty_reason="" if any(one.answers for one in found) else _empty_reason(name, query),
    )


async def _of(context: PageContext, order: LearnedOrder, name: str, app: str, query: WorstQuery) -> OrderView:
    names = ("", app) if app == UNKNOWN_APP else (app,)
    standing = max((order.standing(one) for one in names), key=lambda one: one.taught)
    leading, other = (name, order.measured_by) if standing.learned_leads else (order.measured_by, name)
    rows = await context.history.search(
        apps=names,
        evaluator=leading,
        since=query.since,
        outcome="score",
        order="worst",
        unjudged_by=order.teacher if query.judged == "no" else "",
        limit=query.limit + 1,
    )
    shown = await anyio.to_thread.run_sync(by_trace, rows[: query.limit])  # may be megabytes
    scores = await context.history.scores_by([one.request_id for one in shown], other)
    learned_first = leading == name
    answers = []
    for one in shown:
        own, beside = one.results[0].score, scores.get(one.request_id)
        before, learned = (beside, own) if learned_first else (own, beside)
        answers.append(RankedAnswerView(**dict(one), before=before, learned=learned))
    return OrderView(
        app=app,
        order=leading,
        taught=standing.taught,
        verdicts=standing.verdicts,
        defects=standing.defects,
        defects_needed=NEEDED,
        auroc_before=standing.before,
        auroc_learned=standing.learned,
        answers=answers,
        more=len(rows) > query.limit,
    )


def _empty_reason(name: str, query: WorstQuery) -> str:
    if not name:
        return "Add `- type: learned_groundedness` to `evaluators`: it orders all answers, judged or not."
    if query.judged == "no":
        return "In this period, every answer with a score was judged, or none has a score. Try a longer period."
    return "No answer of this period has a score. Try a longer period."
