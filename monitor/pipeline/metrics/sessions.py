"""Counts sessions: the conversations that were judged, and how answers of one session correlate.

A session is defined by the service (`session.id`). It counts once for each evaluator: as judged with its first scored
answer, as defective with its first defect, and again when `SessionMemory` treats it as new. With sampling, not all
answers of a session are judged, so the measured share of defective sessions is a lower bound.

For confidence limits, an answer without a session belongs to its user, or else is a session of its own. Without a
memory, every answer is a session of its own.
"""

from __future__ import annotations

from typing import Final

from prometheus_client import Counter

from monitor.model.case import Case
from monitor.model.outcome import EvaluationResult, SessionProducts
from monitor.statistics.session_products import SessionMemory, alone, session_key
from monitor.telemetry.metrics import Metrics

PAIRS: Final = ("defects", "all", "both")
"""The label `of`, in the order of `SessionProducts`."""


class SessionMetrics:
    """Counts the sessions of live scores, and the products of weights within them."""

    def __init__(self, metrics: Metrics, memory: SessionMemory | None) -> None:
        self._metrics = metrics
        self._memory = memory
        self._products: dict[tuple[str, str, str], tuple[Counter, ...]] = {}

    def prepare(self, app: str, evaluator: str, version: str, rules: tuple[str, ...] = ()) -> None:
        """Create the series of an app (its label) and an evaluator, at 0; `rules` are the alerts' own defect rules."""
        metrics = self._metrics
        metrics.sessions.labels(app, evaluator, version)
        metrics.sessions_defective.labels(app, evaluator, version)
        self._products[app, evaluator, ""] = tuple(
            metrics.session_products.labels(app, evaluator, version, of) for of in PAIRS
        )
        for rule in rules:
            self._products[app, evaluator, rule] = tuple(
                metrics.rule_session_products.labels(app, evaluator, version, rule, of) for of in PAIRS
            )

    def count(self, app: str, result: EvaluationResult) -> dict[str, SessionProducts]:
        """Count a live score of `app`, which is the app's label.

        Returns what it adds to the products of its session, by the name of an alert's own rule; an empty name is the
        evaluator's own rule.
        """
        session = session_of(app, result.case) if self._memory is not None else None
        found = {
            rule: self._added(session, result, rule, defect=defect)
            for rule, defect in {"": result.defect, **result.alert_defects}.items()
        }
        for rule, products in found.items():
            for counter, product in zip(self._products[app, result.evaluator, rule], products, strict=True):
                counter.inc(product)
        if session is not None and result.case.session_id:
            self._count_conversation(app, result, found[""])
        return found

    def _added(self, session: bytes | None, result: EvaluationResult, rule: str, *, defect: bool) -> SessionProducts:
        if self._memory is None or session is None:
            return alone(result.weight, defect=defect)
        return self._memory.add(session, (result.evaluator, result.version, rule), result.weight, defect=defect)

    def _count_conversation(self, app: str, result: EvaluationResult, products: SessionProducts) -> None:
        """Count the session at its first scored answer and at its first defect: these form no pair with another."""
        square, by = result.weight * result.weight, (app, result.evaluator, result.version)
        if products.every == square:
            self._metrics.sessions.labels(*by).inc()
        if result.defect and products.defects == square:
            self._metrics.sessions_defective.labels(*by).inc()


def session_of(app: str, case: Case) -> bytes | None:
    """Return the key of the session of a case: the conversation, else the user; None if neither is known."""
    kind, name = ("session", case.session_id) if case.session_id else ("user", case.user_id)
    return session_key(app, kind, name) if name else None
