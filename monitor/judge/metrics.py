"""The judge's series, every one of them there from the start."""

from __future__ import annotations

from typing import Literal

from monitor.model.outcome import UnscoredReason
from monitor.telemetry.metrics import Metrics

# Reasons that never come from a call: they are decided before the judge is asked.
_ELSEWHERE = frozenset(
    {
        UnscoredReason.INJECTION_SUSPECTED,
        UnscoredReason.INCOMPLETE_TRACE,
        UnscoredReason.OVERLOADED,
        UnscoredReason.ERROR,
    }
)


class JudgeMetrics:
    """Counts for one model."""

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
        """A call, or what came instead of one."""
        self._outcomes[outcome].inc()

    def spent(self, input_tokens: int, output_tokens: int, dollars: float, seconds: float) -> None:
        """What a call took."""
        self._input.inc(input_tokens)
        self._output.inc(output_tokens)
        self._dollars.inc(dollars)
        self._seconds.observe(seconds)

    def breaker(self, is_open: bool) -> None:
        """The breaker opened or closed."""
        self._breaker.set(int(is_open))
