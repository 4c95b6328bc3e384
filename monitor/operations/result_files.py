"""Files of results written by the sinks `jsonl` and `kafka`: those of all replicas together replace the history.

read = ResultFiles(paths, "shop", "groundedness")
read.judged_answers("shop", "groundedness", 0.0, read.now + 1, 10_000)
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, NamedTuple

from monitor.errors import MonitorError
from monitor.model.case import ContextStatus
from monitor.model.external import ScoreSource
from monitor.model.outcome import EvaluationResult, RateScope, Score, Skipped, SkippedReason
from monitor.privacy.pseudonyms import UserKey
from monitor.storage.history.answers import AskedQuestion, JudgedAnswer, beginning, unit_of
from monitor.storage.history.features import CaseFeatures, features_of
from monitor.storage.history.rows import from_json, load

_LONGEST_LINE: Final = 4 * 1024**2
_REFUSALS, _EMPTY = "refusal_pattern", "retrieval_empty"
_LOOKED: Final = frozenset({_REFUSALS, _EMPTY, "overlap_groundedness"})
"""Evaluators that say whether a question was answered."""

_FILE_KEY: Final = UserKey(bytes(32))  # nothing computed with it is stored


class _Judged(NamedTuple):
    evaluated_at: float
    at: float
    weight: float
    defect: bool
    score: float
    label: str
    version: str


@dataclass(slots=True)
class _KnownRequest:
    """What the results of one request say. `evaluated_at` is the time of the last evaluation of the question."""

    features: CaseFeatures | None = None
    used: str = ""
    text: str = ""
    session: str = ""
    judged: _Judged | None = None
    refusal: bool | None = None
    evaluated_at: float = -math.inf
    answered_at: float = math.inf
    weight: float = math.inf
    refused: bool = False
    nothing_found: bool = False


@dataclass(slots=True)
class ResultFiles:
    """The results of one app, in memory: the judged answers of `evaluator`, and the questions.

    Rows without texts have no words, documents and lengths. `now` is the time of the newest result, 0 without results;
    `unread` counts lines that are not results. Raises `MonitorError` if a file cannot be read.
    """

    paths: Iterable[Path]
    app: str
    evaluator: str = ""
    now: float = 0.0
    unread: int = 0
    _requests: dict[str, _KnownRequest] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for line in _lines(self.paths):
            try:
                one = from_json(load(line))
                if one.case.app == self.app:
                    self._add(one)
            except (ValueError, TypeError, AttributeError, KeyError):  # a foreign row may contain anything
                self.unread += 1

    def judged_answers(
        self, app: str, evaluator: str, since: float, until: float, limit: int, *, newest: bool = True
    ) -> list[JudgedAnswer]:
        """Return the newest answers from `since` up to `until`, oldest first, as the history does.

        `newest`: if false, the answers that were judged first.
        """
        if (app, evaluator) != (self.app, self.evaluator):
            return []
        sign = -1 if newest else 1
        found = [
            (sign * one.judged.evaluated_at, name, one.judged, one.features, one.refusal, one.session)
            for name, one in self._requests.items()
            if one.judged is not None and one.features is not None and since <= one.judged.evaluated_at < until
        ]
        chosen = heapq.nsmallest(limit, found, key=lambda each: each[:2])[::sign]
        return [
            JudgedAnswer(
                name,
                one.at,
                one.weight,
                one.defect,
                one.score,
                features,
                refused,
                one.label,
                one.evaluated_at,
                one.version,
                unit_of(features, session),
            )
            for _, name, one, features, refused, session in chosen
        ]

    def asked_questions(self, app: str, since: float, until: float, limit: int) -> list[AskedQuestion]:
        """Return the newest questions from `since` up to `until`, oldest first, as the history does."""
        if app != self.app:
            return []
        found = [
            (-one.evaluated_at, name, one, one.features)
            for name, one in self._requests.items()
            if one.features is not None and since <= one.evaluated_at < until
        ]
        return [
            AskedQuestion(
                name,
                min(one.answered_at, one.evaluated_at),
                one.weight,
                one.refused,
                _seen(one, features),
                unit_of(features, one.session),
            )
            for _, name, one, features in reversed(heapq.nsmallest(limit, found, key=lambda each: each[:2]))
        ]

    def question_texts(self, ids: Collection[str]) -> dict[str, str]:
        """Return the beginnings of questions by request, without questions that are not in the files."""
        return {name: self._requests[name].text for name in ids if name in self._requests and self._requests[name].text}

    def _add(self, one: EvaluationResult) -> None:
        """Add a result. Raises `ValueError`, `TypeError`, `AttributeError` if it is not a result."""
        evaluated_at, weight = float(one.evaluated_at), float(one.weight)
        at = min(float(one.case.answered_at or evaluated_at), evaluated_at)
        if not (math.isfinite(at) and math.isfinite(evaluated_at) and math.isfinite(weight) and weight > 0):
            raise ValueError("times and weights must be finite, and a weight above 0")
        score = one.outcome if isinstance(one.outcome, Score) else None
        own, live = one.score_source is ScoreSource.OWN, one.scope is RateScope.LIVE
        known = self._requests.get(str(one.case.request_id), _KnownRequest())
        if score is not None and own and (known.features is None or (score.used_sources and not known.used)):
            known.used = known.used or score.used_sources
            known.features = features_of(one.case, one.service_version, _FILE_KEY, used=known.used)
            known.text, known.session = beginning(one.case.request.query), one.case.session_id
        if score is not None and live and one.evaluator == self.evaluator:
            said = bool(one.defect), float(score.value), str(score.label or "")
            judged = _Judged(evaluated_at, at, weight, *said, str(one.version))
            known.judged = max(known.judged or judged, judged)
        if score is not None and one.evaluator == _REFUSALS != self.evaluator:
            known.refusal = bool(one.defect)
        if live and one.evaluator in _LOOKED and isinstance(one.outcome, Score | Skipped):
            known.evaluated_at = max(known.evaluated_at, evaluated_at)
            known.answered_at, known.weight = min(known.answered_at, at), min(known.weight, weight)
            known.refused |= (one.evaluator == _REFUSALS and bool(one.defect)) or (
                isinstance(one.outcome, Skipped) and one.outcome.reason is SkippedReason.REFUSAL
            )
            known.nothing_found |= one.evaluator == _EMPTY and bool(one.defect)
        self._requests[str(one.case.request_id)] = known
        self.now = max(self.now, evaluated_at)


def _seen(one: _KnownRequest, features: CaseFeatures) -> CaseFeatures:
    """Return the features of a question; only rows with texts contain its context status."""
    return replace(features, context=str(ContextStatus.RETRIEVED_NOTHING)) if one.nothing_found else features


def _lines(paths: Iterable[Path]) -> Iterator[bytes]:
    for path in paths:
        try:
            with path.open("rb") as file:
                while line := file.readline(_LONGEST_LINE):
                    if line.strip():
                        yield line
        except OSError as error:
            raise MonitorError(f"{path}: {error.strerror}") from None
