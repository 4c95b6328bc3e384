"""Counts conversations: how many were judged, and how many of them had at least one defective answer.

A session is what the service calls one (`session.id`). It counts once for each evaluator: as judged with its first
scored answer, as defective with its first defect, and again after 24 hours without an answer. With sampling not all
answers of a session are judged, so the share of defective ones is at most that of all sessions.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Final

from monitor.model.outcome import EvaluationResult
from monitor.telemetry.metrics import Metrics

AT_MOST: Final = 10_000
"""Sessions that are remembered, the latest ones: a forgotten session that goes on counts as another."""
IDLE: Final = 24 * 3600.0
"""Seconds without a scored answer after which a session is over."""


@dataclass(slots=True)
class _Session:
    """The evaluators, with their versions, that have scored an answer of a session; those that found a defect."""

    seen_at: float
    judged: set[tuple[str, str]] = field(default_factory=set)
    defective: set[tuple[str, str]] = field(default_factory=set)


class SessionMetrics:
    """Counts the sessions of live results."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._sessions: OrderedDict[tuple[str, str], _Session] = OrderedDict()

    def prepare(self, app: str, evaluator: str, version: str) -> None:
        """Create the series of an app (its label) and an evaluator, at 0."""
        self._metrics.sessions.labels(app, evaluator, version)
        self._metrics.sessions_defective.labels(app, evaluator, version)

    def count(self, app: str, result: EvaluationResult) -> None:
        """Count a live score of `app`, which is the app's label. An answer without a session counts nowhere."""
        if not result.case.session_id:
            return
        key, by = (app, result.case.session_id), (result.evaluator, result.version)
        session = self._sessions.get(key)
        if session is None or result.evaluated_at - session.seen_at > IDLE:
            session = self._sessions[key] = _Session(result.evaluated_at)
        session.seen_at = max(session.seen_at, result.evaluated_at)
        self._sessions.move_to_end(key)
        if len(self._sessions) > AT_MOST:
            self._sessions.popitem(last=False)
        if by not in session.judged:
            session.judged.add(by)
            self._metrics.sessions.labels(app, *by).inc()
        if result.defect and by not in session.defective:
            session.defective.add(by)
            self._metrics.sessions_defective.labels(app, *by).inc()
