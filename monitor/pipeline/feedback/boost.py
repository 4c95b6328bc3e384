"""Users' votes, our results on the same requests, and answers that may still get a thumbs-down."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias

from monitor.clock import Clock
from monitor.errors import MonitorError
from monitor.extraction import slices as facts
from monitor.model.case import RESPONSE_ID, Case, Request, Traffic, app_name, changed
from monitor.model.external import ExternalScore, ScoreSource, is_vote
from monitor.model.outcome import EvaluationResult, RateScope, Score
from monitor.pipeline.configured_evaluator import ConfiguredEvaluator
from monitor.storage.spool.memory import RecentIds, RecentPairs
from monitor.telemetry.metrics import UNKNOWN_APP, Metrics

CASES_BYTES: Final = 16 * 1024**2
"""Bytes for remembered requests, unless the memory limit dictates otherwise."""

_CASE: Final = 500  # bytes of a case without any texts
_OVERHEAD: Final = 2_048  # bytes of a case in addition to its texts


class Agreement:
    """Counts, once per request and own evaluator, whether it agrees with the user.

    `max_bytes` bounds the memory of votes and results: the newest are remembered.
    """

    def __init__(self, metrics: Metrics, max_bytes: int = CASES_BYTES // 2) -> None:
        self._metrics = metrics
        self._votes = RecentPairs(max_bytes // 4)
        self._results = RecentIds(max_bytes // 2)
        self._counted = RecentIds(max_bytes // 4)
        self._evaluators: set[str] = set()

    def disliked(self, request_id: str) -> bool | None:
        """Return whether the user disliked the answer; None if there is no vote, or it is no longer remembered."""
        vote = self._votes.get(request_id)
        return None if vote is None else bool(vote[0])

    def voted(self, request_id: str, app: str, *, down: bool, earlier: Mapping[str, bool]) -> None:
        """Record a user's first vote on a request.

        `earlier`: by own evaluator, whether its result in the history is a defect.
        """
        if self._votes.get(request_id) is not None:
            return
        self._votes.put(request_id, down, 0.0)
        known = dict(earlier)
        for evaluator in self._evaluators:
            for defect in (False, True):
                if _result_key(request_id, evaluator, defect=defect) in self._results:
                    known[evaluator] = defect
        for evaluator, defect in known.items():
            self._count(request_id, app, evaluator, defect=defect, down=down)

    def evaluated(self, request_id: str, app: str, evaluator: str, *, defect: bool) -> None:
        """Record the result of one of our own evaluators."""
        self._evaluators.add(evaluator)
        self._results.first(_result_key(request_id, evaluator, defect=defect))
        down = self.disliked(request_id)
        if down is not None:
            self._count(request_id, app, evaluator, defect=defect, down=down)

    def on_result(self, result: EvaluationResult) -> None:
        """Process a published result: own scores of production traffic count."""
        case = result.case
        if (
            result.score_source is ScoreSource.OWN
            and isinstance(result.outcome, Score)
            and case.traffic is Traffic.PRODUCTION
            and result.scope is not RateScope.RANKING
        ):
            self.evaluated(case.request_id, case.app, result.evaluator, defect=result.defect)

    def _count(self, request_id: str, app: str, evaluator: str, *, defect: bool, down: bool) -> None:
        if not self._counted.first(f"{request_id}\0{evaluator}"):
            return
        labels = (self._metrics.app(app), evaluator, "defect" if defect else "passed", "down" if down else "up")
        self._metrics.feedback_agreement.labels(*labels).inc()


def _result_key(request_id: str, evaluator: str, *, defect: bool) -> str:
    return f"{request_id}\0{evaluator}\0{defect}"


class _Known(NamedTuple):
    case: Case
    answer: str
    spans: tuple[str, ...]
    size: int


class RecentCases:
    """The newest cases, without their texts, to find the case of a score that arrives later; up to `max_bytes`."""

    def __init__(self, max_bytes: int = CASES_BYTES // 2) -> None:
        self._max_bytes = max_bytes
        self._cases: OrderedDict[str, _Known] = OrderedDict()
        self._answers: dict[str, str] = {}
        self._within: dict[str, str] = {}  # by trace and span, if a trace contains several
        self.size = 0
        """Bytes used."""

    def add(self, case: Case, attributes: Mapping[str, str], response_id: str) -> None:
        """Remember `case` with only `attributes`; `response_id` is the provider's id of its answer.

        A case that would take more than 1/64 of the memory is not remembered.
        """
        self._remove(case.request_id)
        bare = changed(without_texts(case), attributes=attributes)
        several = case.request_id != case.trace_id
        spans = tuple(f"{case.trace_id} {span_id}" for span_id in {case.span_id, ""}) if several else ()
        size = _CASE + _bytes_of(bare) + 2 * _text_bytes(response_id, *spans)
        if size * 64 > self._max_bytes:
            return
        self._cases[case.request_id] = _Known(bare, response_id, spans, size)
        self.size += size
        if response_id:
            self._answers[response_id] = case.request_id
        for span in spans:
            self._within[span] = case.request_id
        while self.size > self._max_bytes:
            self._remove(next(iter(self._cases)))

    def _remove(self, request_id: str) -> None:
        found = self._cases.pop(request_id, None)
        if found is None:
            return
        self.size -= found.size
        for key, index in ((found.answer, self._answers), *((span, self._within) for span in found.spans)):
            if index.get(key) == request_id:
                del index[key]

    def of(self, request_id: str, span_id: str = "") -> Case | None:
        """Return the case, None if it is not remembered. `response:ID` finds it by the provider's id of its answer.

        In a trace with several requests, it is the request of the span, else the last one.
        """
        kind, _, answer = request_id.partition(":")
        if kind == "response":
            found = self._cases.get(self._answers.get(answer, ""))
            return found.case if found is not None else None
        within = (f"{request_id}/{span_id}", self._within.get(f"{request_id} {span_id}", ""))
        several = (*within, self._within.get(f"{request_id} ", ""))
        return next((self._cases[one].case for one in (request_id, *several) if one in self._cases), None)


def _bytes_of(case: Case) -> int:
    texts = (case.request_id, case.span_id, case.app, case.session_id, case.user_id, case.model)
    return _text_bytes(*texts, *case.attributes, *case.attributes.values())


def _text_bytes(*texts: str) -> int:
    """Return an upper bound on the bytes of texts: a character of a text that is not ASCII takes up to four."""
    return sum(64 + len(text) * (1 if text.isascii() else 4) for text in texts)


@dataclass(frozen=True, slots=True)
class _Kept:
    case: Case
    evaluators: tuple[ConfiguredEvaluator, ...]
    size: int
    until: float


class Unchosen:
    """Answers that judged evaluators did not choose, kept in case users dislike them.

    `wait`: how many seconds an answer is kept. `at_most`: maximum bytes of all of them.
    """

    def __init__(self, clock: Clock, *, wait: float, at_most: int) -> None:
        self._clock = clock
        self._wait = wait
        self._at_most = at_most
        self._kept: OrderedDict[str, _Kept] = OrderedDict()
        self.size = 0
        """Bytes used."""

    def keep(self, case: Case, evaluators: Iterable[ConfiguredEvaluator]) -> None:
        """Keep `case` for `evaluators`; the oldest cases are dropped if there is no room."""
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
    return changed(
        case,
        request=Request(),
        retrieved_context=(),
        prompt=(),
        response="",
        expected_response=None,
        expected_retrieved_context=None,
    )


Past: TypeAlias = Callable[[str], Awaitable[list[dict[str, Any]]]]
"""Returns the rows of all earlier results of a request. Raises `MonitorError`."""


class CaseLookup:
    """Looks up recent requests, and older ones through `past`; `slices` and `topic` are as in `FeedbackProcessor`.

    `max_bytes` bounds the memory of the recent requests.
    """

    def __init__(
        self,
        past: Past,
        slices: Sequence[str],
        max_bytes: int = CASES_BYTES // 2,
        topic: Callable[[Case], str] | None = None,
    ) -> None:
        self._past = past
        self._slices = tuple(slices)
        self._topic = topic
        self._requests = RecentCases(max_bytes)

    def remember(self, case: Case) -> None:
        """Remember `case`, without its texts."""
        self._requests.add(case, self.facts_of(case), facts.value(case, RESPONSE_ID))

    def facts_of(self, case: Case) -> dict[str, str]:
        """Return the facts of a case that may leave the monitor, with the topic if the question is known."""
        found = facts.allowed(case, self._slices)
        if self._topic is not None and case.request.query:
            found.setdefault("topic", self._topic(case))
        return found

    async def of(self, score: ExternalScore) -> tuple[Case, dict[str, bool]]:
        """Return the case that `score` is for, as far as it is known, and the earlier results of our own evaluators.

        The results are, by evaluator, whether it was a defect; empty if a user has voted before, since agreement was
        counted then.
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
    """Return whether a row is a score of our own on production traffic."""
    ours = row.get("score_source", ScoreSource.OWN) == ScoreSource.OWN and row.get("traffic") == Traffic.PRODUCTION
    return ours and row.get("outcome") == "score" and isinstance(row.get("defect"), bool)


def _bare(score: ExternalScore, row: dict[str, Any]) -> Case:
    """Build a case from an earlier result, or else from the external score alone."""
    if not row:
        return Case(request_id=score.request_id, app=score.app or UNKNOWN_APP)
    return Case(
        request_id=score.request_id,
        app=app_name(row["app"]),
        source=row["source"],
        session_id=row["session_id"],
        model=row["model"],
        span_id=row["span_id"],
        convention=row["convention"],
        attributes=row["attributes"],
        traffic=Traffic(row["traffic"]),
    )
