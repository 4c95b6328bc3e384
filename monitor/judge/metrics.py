"""The judge's own metrics. Every series exists from the start."""

from __future__ import annotations

from typing import Literal

from monitor.model.outcome import UnscoredReason
from monitor.telemetry.metrics import Metrics

# Reasons that never come from a call: the pipeline decides them before it asks the judge.
_ELSEWHERE = frozenset(
    {
        UnscoredReason.INJECTION_SUSPECTED,
        UnscoredReason.INCOMPLETE_TRACE,
        UnscoredReason.OVERLOADED,
        UnscoredReason.ERROR,
    }
)


class JudgeMetrics:
    """The metrics of one model."""

    def __init__(self, model: str, metrics: Metrics) -> None:
        label = metrics.model(model)
        reasons = [reason for reason in UnscoredReason if reason not in _ELSEWHERE]
        self._outcomes = {name: metrics.judge_requests.labels(label, str(name)) for name in ("ok", "cached", *reasons)}
        self._input = metrics.judge_tokens.labels(label, "input")
        self._output = metrics.judge_tokens.labels(label, "output")
        self._dollars = metrics.judge_cost.labels(label)
        self._seconds = metrics.judge_duration.labels(label)
        self._breaker = metrics.judge_breaker_open.labels(label)
        self._breaker.set(0)

    def outcome(self, outcome: Literal["ok", "cached"] | UnscoredReason) -> None:
        """Count how a call ended, or why there was none."""
        self._outcomes[outcome].inc()

    def spent(self, input_tokens: int, output_tokens: int, dollars: float, seconds: float) -> None:
        """Count what a call used."""
        self._input.inc(input_tokens)
        self._output.inc(output_tokens)
        self._dollars.inc(dollars)
        self._seconds.observe(seconds)

    def breaker(self, is_open: bool) -> None:
        """Record whether the circuit breaker is open."""
        self._breaker.set(int(is_open))
