"""What the demo shows of the monitor in this process: its windows, alerts, counters and results."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import ClassVar

from pydantic import PrivateAttr

from monitor.alerts import regression, threshold
from monitor.alerts.policy import Severity
from monitor.alerts.state import AlertState, AlertStatus
from monitor.cli.console.view import AlertRow, RateRow, State, WorstAnswer
from monitor.model.outcome import EvaluationResult, Score
from monitor.stages import Sink
from monitor.statistics.rates import estimate
from monitor.statistics.windows import Windows
from monitor.telemetry.metrics import Metrics, samples, total

SHOWN_WINDOW = 60.0
_STEP, _STEPS = 10.0, 12
_LATEST, _SHOWN = 200, 3
_RATES = (threshold.NAME, regression.NAME)


def rates(windows: Windows, states: Sequence[AlertState], now: float) -> list[RateRow]:
    """Return a row for each app and evaluator that has scores, over the last `SHOWN_WINDOW` seconds."""
    rows = []
    for app, evaluator in windows.keys():  # noqa: SIM118 - not a mapping
        sums = windows.sums(app, evaluator, SHOWN_WINDOW, now)
        found = estimate(sums, usual=windows.usual(app, evaluator, now))
        own = [one for one in states if (one.name, one.app, one.evaluator) == (threshold.NAME, app, evaluator)]
        rows.append(
            RateRow(
                evaluator=evaluator,
                app=app,
                rate=found.rate if found else None,
                lower=found.lower if found else None,
                upper=found.upper if found else None,
                judged=found.judged if found else 0,
                trend=_trend(windows, app, evaluator, now),
                state=_state(own, judged=found is not None),
                threshold=min((one.threshold for one in own if one.threshold is not None), default=None),
            )
        )
    return rows


def alerts(states: Sequence[AlertState], now: float) -> list[AlertRow]:
    """Return the firing alert of each app and evaluator; if two fire, the critical one."""
    rows: dict[tuple[str, str], AlertRow] = {}
    for state in sorted(states, key=lambda one: one.severity is not Severity.CRITICAL):
        if state.firing and state.name in _RATES and state.estimate is not None and state.threshold is not None:
            rows.setdefault(
                (state.app, state.evaluator),
                AlertRow(
                    name=state.name,
                    severity=state.severity.value,
                    evaluator=state.evaluator,
                    app=state.app,
                    rate=state.estimate.rate,
                    lower=state.estimate.lower,
                    threshold=state.threshold,
                    window=state.window or 0.0,
                    firing_for=max(now - state.since, 0.0),
                ),
            )
    return list(rows.values())


def ledger(metrics: Metrics) -> Mapping[str, int]:
    """Return the traces received and pending, and the outcomes of requests and of traces without any, over all apps."""
    counted = {"received": int(total(metrics.traces_received))}
    for labels, number in (*samples(metrics.requests_ended), *samples(metrics.traces)):
        if labels["outcome"] != "read":
            counted[labels["outcome"]] = counted.get(labels["outcome"], 0) + int(number)
    return {**counted, "pending": int(total(metrics.traces_pending))}


class Latest(Sink):
    """Keeps the latest defective answers in memory."""

    follows: ClassVar[bool] = False
    _kept: deque[EvaluationResult] = PrivateAttr(default_factory=lambda: deque(maxlen=_LATEST))

    async def deliver(self, results: Sequence[EvaluationResult]) -> None:
        """Keep defects."""
        self._kept.extend(one for one in results if one.defect)

    def worst(self, since: float) -> list[WorstAnswer]:
        """Return the answers with the lowest scores since the wall-clock second `since`, each question once."""
        recent = [one for one in self._kept if one.evaluated_at >= since]
        found: dict[str, WorstAnswer] = {}
        scored = [(one.outcome, one) for one in recent if isinstance(one.outcome, Score)]
        for score, judged in sorted(scored, key=lambda one: (one[0].value, -one[1].evaluated_at)):
            places = [one.place for one in score.evidence if one.verdict != "supported"]
            answer = WorstAnswer(
                evaluator=judged.evaluator,
                app=judged.case.app,
                question=judged.case.request.query,
                answer=judged.case.response,
                score=score.value,
                explanation=score.explanation,
                unsupported=[place for place in places if place is not None],
            )
            found.setdefault(answer.question, answer)
        return list(found.values())[:_SHOWN]


def _trend(windows: Windows, app: str, evaluator: str, now: float) -> list[float | None]:
    """Return the defect rates of consecutive intervals of 10 s, oldest first; the newest includes the running interval.

    They are differences of ever longer windows.
    """
    sums = [windows.sums(app, evaluator, _STEP * steps, now) for steps in range(1, _STEPS + 1)]
    found: list[float | None] = []
    for shorter, longer in pairwise(sums):
        weight = longer.weight - shorter.weight
        defects = longer.defect_weight - shorter.defect_weight
        found.append(min(max(defects / weight, 0.0), 1.0) if longer.judged > shorter.judged else None)
    newest = sums[0].defect_weight / sums[0].weight if sums[0].judged else None
    return [*reversed(found), newest]


def _state(states: Sequence[AlertState], *, judged: bool) -> State:
    firing = {state.severity for state in states if state.firing}
    if Severity.CRITICAL in firing:
        return "critical"
    if Severity.WARNING in firing:
        return "warning"
    unknown = any(state.status is AlertStatus.NOT_ENOUGH_DATA for state in states)
    return "ok" if judged and states and not unknown else "not enough data"
