"""User votes, our results on the same requests, and answers that may still get a thumbs-down."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeAlias, TypeVar

from monitor.clock import Clock
from monitor.errors import MonitorError
from monitor.extraction import slices as facts
from monitor.model.case import RESPONSE_ID, Case, Request, Traffic
from monitor.model.external import ExternalScore, ScoreSource, is_vote
from monitor.model.outcome import EvaluationResult, Score
from monitor.pipeline.configured_evaluator import ConfiguredEvaluator
from monitor.telemetry.metrics import Metrics

T = TypeVar("T")

REMEMBERED: Final = 50_000
"""Requests of which it is remembered how their users, or our evaluators, judged them; the newest."""

_HOUR: Final = 3600.0
_KNOWN: Final = 10_000  # cases that are remembered without their texts
_OVERHEAD: Final = 2_048  # what a case takes beside its texts, in bytes


@dataclass(slots=True)
class Vote:
    """A user's feedback on a request; the first counts. `counted` are the evaluators it was compared with."""

    down: bool
    counted: set[str] = field(default_factory=set)


class Agreement:
    """Counts, once per request and own evaluator, whether it agrees with the user."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._votes: OrderedDict[str, Vote] = OrderedDict()
        self._own_results: OrderedDict[str, dict[str, bool]] = OrderedDict()

    def vote_on(self, request_id: str) -> Vote | None:
        """Return the user's vote on the request; None if there is none, or it is no longer remembered."""
        return self._votes.get(request_id)

    def voted(self, request_id: str, app: str, *, down: bool, earlier: Mapping[str, bool]) -> None:
        """Note a user's vote. `earlier`: by own evaluator, whether the history has a defect for this request."""
        if request_id in self._votes:
            return
        vote = self._votes[request_id] = Vote(down)
        _bound(self._votes)
        for evaluator, defect in {**earlier, **self._own_results.get(request_id, {})}.items():
            self._count(vote, app, evaluator, defect=defect)

    def evaluated(self, request_id: str, app: str, evaluator: str, *, defect: bool) -> None:
        """Note the result of an own evaluator."""
        self._own_results.setdefault(request_id, {})[evaluator] = defect
        _bound(self._own_results)
        vote = self._votes.get(request_id)
        if vote is not None:
            self._count(vote, app, evaluator, defect=defect)

    def on_result(self, result: EvaluationResult) -> None:
        """Process a published result: own scores of production traffic count."""
        case = result.case
        if (
            result.score_source is ScoreSource.OWN
            and isinstance(result.outcome, Score)
            and case.traffic is Traffic.PRODUCTION
        ):
            self.evaluated(case.request_id, case.app, result.evaluator, defect=result.defect)

    def _count(self, vote: Vote, app: str, evaluator: str, *, defect: bool) -> None:
        if evaluator in vote.counted:
            return
        vote.counted.add(evaluator)
        label = self._metrics.app(app)
        for judge in ("defect", "passed"):
            for user in ("down", "up"):
                series = self._metrics.feedback_agreement.labels(label, evaluator, judge, user)
                series.inc(judge == ("defect" if defect else "passed") and user == ("down" if vote.down else "up"))


class RecentCases:
    """The newest cases, without their texts, to find the case of a score that arrives later."""

    def __init__(self) -> None:
        self._cases: OrderedDict[str, Case] = OrderedDict()
        self._answers: OrderedDict[str, str] = OrderedDict()
        self._within: OrderedDict[str, str] = OrderedDict()  # by trace and span, where a trace holds several

    def add(self, case: Case, attributes: Mapping[str, str], response_id: str) -> None:
        """Remember `case` with no more than `attributes`; `response_id` is the provider's id of its answer."""
        self._cases[case.request_id] = without_texts(replace(case, attributes=attributes))
        _bound(self._cases, _KNOWN)
        if response_id:
            self._answers[response_id] = case.request_id
            _bound(self._answers, _KNOWN)
        if case.request_id != case.trace_id:
            for span_id in {case.span_id, ""}:
                self._within[f"{case.trace_id} {span_id}"] = case.request_id
            _bound(self._within, _KNOWN)

    def of(self, request_id: str, span_id: str = "") -> Case | None:
        """Return the case, None if it is not remembered. `response:ID` finds it by the provider's id of its answer.

        In a trace with several requests it is the one of the span, else the last.
        """
        kind, _, answer = request_id.partition(":")
        if kind == "response":
            return self._cases.get(self._answers.get(answer, ""))
        within = (f"{request_id}/{span_id}", self._within.get(f"{request_id} {span_id}", ""))
        several = (*within, self._within.get(f"{request_id} ", ""))
        return next((self._cases[one] for one in (request_id, *several) if one in self._cases), None)


@dataclass(frozen=True, slots=True)
class _Kept:
    case: Case
    evaluators: tuple[ConfiguredEvaluator, ...]
    size: int
    until: float


class Unchosen:
    """Answers that judged evaluators did not choose, in case their users dislike them.

    `wait`: seconds for which one is kept. `at_most`: bytes that all may take.
    """

    def __init__(self, clock: Clock, *, wait: float, at_most: int) -> None:
        self._clock = clock
        self._wait = wait
        self._at_most = at_most
        self._kept: OrderedDict[str, _Kept] = OrderedDict()
        self.size = 0
        """Bytes of what is kept."""

    def keep(self, case: Case, evaluators: Iterable[ConfiguredEvaluator]) -> None:
        """Keep `case` for the evaluators of `assignments`; the oldest go where there is no room."""
        size = _OVERHEAD + 2 * case.text_length  # two bytes a character, roughly
        if size > self._at_most:
            return
        self._remove(case.request_id)
        now = self._clock.monotonic()
        self._kept[case.request_id] = _Kept(case, tuple(evaluators), size, now + self._wait)
        self.size += size
        while self._kept and (self.size > self._at_most or next(iter(self._kept.values())).until <= now):
            self._remove(next(iter(self._kept)))

    def take(self, request_id: str) -> tuple[Case, tuple[ConfiguredEvaluator, ...]] | None:
        """Remove and return the case and the evaluators that did not choose it; None if it is not kept."""
        found = self._remove(request_id)
        if found is None or found.until <= self._clock.monotonic():
            return None
        return found.case, found.evaluators

    def _remove(self, request_id: str) -> _Kept | None:
        found = self._kept.pop(request_id, None)
        if found is not None:
            self.size -= found.size
        return found


def without_texts(case: Case) -> Case:
    """Return `case` without its texts."""
    return replace(
        case,
        request=Request(),
        retrieved_context=(),
        prompt=(),
        response="",
        expected_response=None,
        expected_retrieved_context=None,
    )


def _bound(kept: OrderedDict[str, T], at_most: int = REMEMBERED) -> None:
    while len(kept) > at_most:
        kept.popitem(last=False)


Past: TypeAlias = Callable[[str], Awaitable[list[dict[str, Any]]]]
"""Gives the rows of all earlier results of a request. Raises `MonitorError`."""


class CaseLookup:
    """Requests that came lately, and those of which `past` knows; `slices` as for `FeedbackProcessor`."""

    def __init__(self, past: Past, slices: Sequence[str]) -> None:
        self._past = past
        self._slices = tuple(slices)
        self._requests = RecentCases()

    def remember(self, case: Case) -> None:
        """Know `case`, without its texts."""
        self._requests.add(case, facts.allowed(case, self._slices), facts.value(case, RESPONSE_ID))

    async def of(self, score: ExternalScore) -> tuple[Case, dict[str, bool]]:
        """Return the case that `score` is for, as far as it is known, and the earlier results of own evaluators.

        By evaluator, whether it was a defect; nothing where a user has spoken before: that was counted then.
        """
        known = self._requests.of(score.request_id, score.span_id)
        request_id = known.request_id if known is not None else score.request_id
        rows: list[dict[str, Any]] = []
        if request_id and (known is None or score.by_user):
            with suppress(MonitorError):
                rows = await self._past(request_id)
        earlier = {} if any(map(_is_vote, rows)) else {row["evaluator"]: row["defect"] for row in rows if _counts(row)}
        if known is None:
            own = next((row for row in rows if row.get("score_source", ScoreSource.OWN) == ScoreSource.OWN), {})
            known = _bare(score, own)
        return known, earlier


def _is_vote(row: dict[str, Any]) -> bool:
    """Return whether a row is a user's vote on the answer."""
    return row.get("outcome") == "score" and is_vote(row.get("score_source"), row.get("evaluator"), row.get("label"))


def _counts(row: dict[str, Any]) -> bool:
    """Return whether a row is an own score of production traffic."""
    ours = row.get("score_source", ScoreSource.OWN) == ScoreSource.OWN and row.get("traffic") == Traffic.PRODUCTION
    return ours and row.get("outcome") == "score" and isinstance(row.get("defect"), bool)


def _bare(score: ExternalScore, row: dict[str, Any]) -> Case:
    """Build a case from an earlier result, or else from the external score alone."""
    if not row:
        return Case(request_id=score.request_id, app=score.app)
    return Case(
        request_id=score.request_id,
        app=row["app"],
        source=row["source"],
        session_id=row["session_id"],
        model=row["model"],
        span_id=row["span_id"],
        convention=row["convention"],
        attributes=row["attributes"],
        traffic=Traffic(row["traffic"]),
    )
