"""The request that a verdict of somebody else's is on: remembered, else looked up among earlier results."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Protocol

from monitor.errors import MonitorError
from monitor.extraction import slices as facts
from monitor.model.case import Case, Traffic
from monitor.model.external import ExternalScore, ScoreSource, is_vote
from monitor.pipeline.feedback.boost import RecentCases


class Past(Protocol):
    """What earlier results say of a request."""

    async def by_trace(self, trace_id: str) -> list[dict[str, Any]]:
        """The rows of all results of the request. Raises `MonitorError`."""
        ...


class CaseLookup:
    """Requests that came lately, and those of which `past` knows; `slices` as for `Desk`."""

    def __init__(self, past: Past, slices: Sequence[str]) -> None:
        self._past = past
        self._slices = tuple(slices)
        self._requests = RecentCases()

    def remember(self, case: Case) -> None:
        """Know `case`, without its texts."""
        self._requests.add(case, facts.allowed(case, self._slices), facts.value(case, facts.RESPONSE_ID))

    async def of(self, verdict: ExternalScore) -> tuple[Case, dict[str, bool]]:
        """The case that a verdict is on, as far as it is known, and what our evaluators said of it before.

        By evaluator, whether it was a defect; nothing where a user has spoken before: that was counted then.
        """
        known = self._requests.of(verdict.request_id)
        request_id = known.request_id if known is not None else verdict.request_id
        rows: list[dict[str, Any]] = []
        if request_id and (known is None or verdict.by_user):
            with suppress(MonitorError):
                rows = await self._past.by_trace(request_id)
        earlier = {} if any(map(_is_vote, rows)) else {row["evaluator"]: row["defect"] for row in rows if _counts(row)}
        if known is None:
            own = next((row for row in rows if row.get("score_source", ScoreSource.OWN) == ScoreSource.OWN), {})
            known = _bare(verdict, own)
        return known, earlier


def _is_vote(row: dict[str, Any]) -> bool:
    """Whether a row is what a user said of the answer."""
    return row.get("outcome") == "score" and is_vote(row.get("score_source"), row.get("evaluator"), row.get("label"))


def _counts(row: dict[str, Any]) -> bool:
    """Whether a row is a verdict of ours on production traffic."""
    ours = row.get("score_source", ScoreSource.OWN) == ScoreSource.OWN and row.get("traffic") == Traffic.PRODUCTION
    return ours and row.get("outcome") == "score" and isinstance(row.get("defect"), bool)


def _bare(verdict: ExternalScore, row: dict[str, Any]) -> Case:
    """A case of which no more is known than an earlier result says, or the verdict itself."""
    if not row:
        return Case(request_id=verdict.request_id, app=verdict.app)
    return Case(
        request_id=verdict.request_id,
        app=row["app"],
        source=row["source"],
        session_id=row["session_id"],
        model=row["model"],
        span_id=row["span_id"],
        convention=row["convention"],
        attributes=row["attributes"],
        traffic=Traffic(row["traffic"]),
    )
