"""Alerts on the monitor's own state, in process: evaluations that are missing or come to no verdict, a spent budget, a
judge that is paused or has changed, answers that wait.

The names, texts and limits here are those of the Prometheus rules as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from monitor.alerts.conditions import missing
from monitor.alerts.conditions.judge_drift import Canaries
from monitor.alerts.conditions.missing import Expectations
from monitor.alerts.policy import Severity
from monitor.alerts.state import Finding, Status, Subject
from monitor.clock import Clock
from monitor.model.outcome import Judged, Score, Unscored, UnscoredReason
from monitor.quantities import format_duration, precise_percent
from monitor.statistics.rates import estimate
from monitor.statistics.windows import Windows

_HOUR = 3600.0


@dataclass(frozen=True, slots=True)
class Trouble:
    """An alert that needs no policy. `hold`: seconds without a finding that end it."""

    name: str
    summary: str
    hold: float = 0.0


MISSING = Trouble("RagEvaluationsMissing", "Requests arrive, but none of them is evaluated any more.")
UNSCORED = Trouble("RagUnscoredHigh", "Many evaluations come to no verdict.", hold=900.0)
BUDGET = Trouble("RagJudgeBudgetSpent", "The judge's budget is spent: evaluations stay without a verdict.", hold=1800.0)
DRIFTED = Trouble("RagJudgeDrifted", "The judge no longer says of the canary set what it said at first.", hold=3600.0)
PAUSED = Trouble("RagEvaluatorPaused", "A judge is not asked until somebody acts: its key, its bill or its model.")
LAG = Trouble("RagLagHigh", "Answers wait long to be judged.", hold=300.0)

MISSING_AT_LEAST = missing.AT_LEAST
UNSCORED_ABOVE = {Severity.CRITICAL: 0.5, Severity.WARNING: 0.1}
"""The share of evaluations without a verdict above which the rates rest on too little of what was sampled: less than
nine tenths, less than half. Those that a spent budget left out do not count: they are a choice, and told as such."""
UNSCORED_Z = 3.09
BUDGET_WITHIN = 900.0
"""For how many seconds one evaluation that the budget left out is a sign that it is spent."""
LAG_ABOVE = 1800.0
"""Seconds that the oldest trace may wait. By the defaults a trace is complete after 10 minutes at the latest, and a
judgement given up after 10 more."""


class Troubles:
    """What there is to know for these alerts: sums for each app and evaluator, the canary's runs, and the oldest trace.

    `oldest_pending` gives the wall-clock second at which the oldest trace that is not yet done arrived, 0 for none.
    """

    def __init__(self, clock: Clock, oldest_pending: Callable[[], float]) -> None:
        self.expectations = Expectations(clock)
        """What is received and evaluated, to know what is missing."""
        self.canaries = Canaries()
        """The runs of the canary set."""
        self.paused: Callable[[], Iterable[tuple[str, str]]] = tuple
        """Each evaluator that asks a judge, and why that is paused; empty where it is not."""
        self._outcomes = Windows(clock, longest=_HOUR)
        self._within_budget = Windows(clock, longest=BUDGET_WITHIN)
        self._oldest_pending = oldest_pending

    def saw(self, judged: Judged, app: str) -> None:
        """Count an outcome; `app` is a label value."""
        unscored = isinstance(judged.outcome, Unscored)
        if isinstance(judged.outcome, Unscored) and judged.outcome.reason is UnscoredReason.BUDGET:
            self._within_budget.add("", judged.evaluator, judged.judged_at, 1.0, defect=True)
        elif unscored or isinstance(judged.outcome, Score):
            self._outcomes.add(app, judged.evaluator, judged.judged_at, 1.0, defect=unscored)
        if isinstance(judged.outcome, Score):
            self.expectations.judged(app, judged.evaluator, judged.judged_at)

    def find(self, now: float) -> Iterator[tuple[Trouble, Subject, Finding]]:
        """All that could be wrong at the wall-clock second `now`, and whether it is."""
        for app, evaluator, finding in self.expectations.find(now):
            yield MISSING, Subject(MISSING.name, Severity.WARNING, app, evaluator), finding
        for app, evaluator in self._outcomes.keys():  # noqa: SIM118 - not a mapping
            for severity, above in UNSCORED_ABOVE.items():
                finding = self._unscored(app, evaluator, above, now)
                yield UNSCORED, Subject(UNSCORED.name, severity, app, evaluator), finding
        for _, evaluator in self._within_budget.keys():  # noqa: SIM118 - not a mapping
            yield BUDGET, Subject(BUDGET.name, Severity.WARNING, evaluator=evaluator), self._budget(evaluator, now)
        for evaluator, why in self.paused():
            finding = Finding(Status.FIRING if why else Status.OK, f"{evaluator}: {why or 'its judge is asked.'}")
            yield PAUSED, Subject(PAUSED.name, Severity.WARNING, evaluator=evaluator), finding
        for evaluator, version, finding in self.canaries.find(now):
            yield DRIFTED, Subject(DRIFTED.name, Severity.WARNING, evaluator=evaluator, version=version), finding
        yield LAG, Subject(LAG.name, Severity.WARNING), self._lag(now)

    def _unscored(self, app: str, evaluator: str, above: float, now: float) -> Finding:
        found = estimate(self._outcomes.sums(app, evaluator, _HOUR, now), UNSCORED_Z)
        if found is None:
            nothing = f"{evaluator} evaluated no answer of {app} in the last {format_duration(_HOUR)}."
            return Finding(Status.NOT_ENOUGH_DATA, nothing, above, _HOUR)
        status = Status.FIRING if found.lower > above else Status.OK
        text = (
            f"{precise_percent(found.rate)} of the evaluations of {app} by {evaluator} in the last"
            f" {format_duration(_HOUR)} came to no verdict (at least {precise_percent(found.lower)},"
            f" {found.judged} due); the limit is {precise_percent(above)}."
        )
        return Finding(status, text, above, _HOUR, found)

    def _budget(self, evaluator: str, now: float) -> Finding:
        lost = self._within_budget.sums("", evaluator, BUDGET_WITHIN, now).judged
        text = (
            f"The budget of its judge left {lost} evaluations by {evaluator} without a verdict in the last"
            f" {format_duration(BUDGET_WITHIN)}."
        )
        return Finding(Status.FIRING if lost else Status.OK, text, window=BUDGET_WITHIN)

    def _lag(self, now: float) -> Finding:
        oldest = self._oldest_pending()
        waited = max(now - oldest, 0.0) if oldest else 0.0
        limit = format_duration(LAG_ABOVE)
        text = f"The oldest trace that is not yet done has waited for {waited / 60:.0f} minutes; the limit is {limit}."
        return Finding(Status.FIRING if waited > LAG_ABOVE else Status.OK, text)
