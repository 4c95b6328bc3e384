"""`RagEvaluationsMissing`: requests arrive that used to be evaluated, but none is evaluated now.

The expected number is the usual number of evaluations in an hour, scaled by the traffic of the last hour relative to
the usual traffic. In process, evaluations from before a restart are restored from the history, but arrivals are not. So
for the first day after a restart the usual traffic is unknown, and no more evaluations are expected than took place at
the same time of day on the days before: a restart during a quiet night raises no alarm.

A trace is received under the service whose part of it came first, such as a gateway, and its answers are scored under
the service that answered. An app that is scored but has received no trace under its own name is compared with the
traffic of all apps together. In process that is known once the app has been scored since the start: for an app known
only from the history, the process cannot tell whether it is behind another one or gone.

The evaluators of `context_rates` score the same answers as other evaluators. So that one outage raises one alert, they
raise it only in an app where no other evaluator scores enough answers to notice.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from textwrap import indent
from typing import Any, Final

from monitor.alerts.policy import Severity
from monitor.alerts.prometheus.promql import EVALUATIONS, OWN_EVALUATORS, record
from monitor.alerts.prometheus.promtool import (
    HOUR,
    OTHER,
    STEP,
    Series,
    Test,
    counter_values,
    evaluation_counters,
    expect_firing,
    input_series,
    promtool_test,
)
from monitor.alerts.rate_names import OWN
from monitor.alerts.self_alert import Condition, Observed, PrometheusRule, SelfAlert
from monitor.alerts.state import AlertStatus, ConditionResult, Subject
from monitor.model.outcome import EvaluationResult, Score

NAME: Final = "RagEvaluationsMissing"

AT_LEAST: Final = 10
"""The fewest expected evaluations for an hour without any to raise the alert: by chance, one hour in 22 000."""
PENDING: Final = 600.0
"""Seconds for which evaluations must be missing before the alert fires."""
USUAL: Final = 3 * 86400.0
"""How many past seconds define the usual traffic."""

_HOUR, _DAY, _STEP = 3600.0, 86400.0, 600
_KEPT = math.ceil(USUAL / _STEP) + 1


class _TrafficCounts:
    """Counts events in steps of ten minutes; `since` is how far back the counts reach."""

    def __init__(self, since: float) -> None:
        self.since = since
        self._newest = since
        self._steps: dict[int, int] = {}

    def add(self, at: float, number: int) -> None:
        step = math.floor(at / _STEP)
        self.since, self._newest = min(self.since, at), max(self._newest, at)
        if step not in self._steps:
            for old in [one for one in self._steps if one <= step - _KEPT]:
                del self._steps[old]
        self._steps[step] = self._steps.get(step, 0) + number

    def between(self, since: float, until: float) -> float:
        """Return the number between two times; a step that is only partly inside counts in proportion."""
        total = 0.0
        for step in range(math.floor(since / _STEP), math.floor(until / _STEP) + 1):
            number = self._steps.get(step)
            if number:
                start, end = step * _STEP, (step + 1) * _STEP
                share = end - max(start, since)
                if end <= self._newest:  # all of a step that has not ended lies before now
                    share -= max(end - until, 0.0)
                total += number * share / _STEP
        return total

    def per_hour(self, now: float) -> float:
        """Return the mean per hour over the known part of the last three days."""
        known = min(max(now - self.since, _HOUR), USUAL)
        return self.between(now - known, now) * _HOUR / known


class EvaluationsMissing(Condition):
    """Compares evaluations by app and evaluator with the number expected from the traffic and the last three days."""

    def __init__(self, observed: Observed) -> None:
        super().__init__(observed)
        self._clock = observed.clock
        self._began = self._clock.now()
        self._arrived: defaultdict[str, int] = defaultdict(int)
        self._received: dict[str, _TrafficCounts] = {}
        self._of_all = _TrafficCounts(self._began)
        self._scored_here: set[str] = set()
        self._scored: dict[tuple[str, str], _TrafficCounts] = {}
        self._missing_since: dict[tuple[str, str], float] = {}

    def on_received(self, app: str, traces: int) -> None:
        """Count arrivals. Quick: it is called for every trace."""
        self._arrived[app] += traces

    def on_result(self, result: EvaluationResult, app: str) -> None:
        """Count a score."""
        if isinstance(result.outcome, Score):
            self._scored_here.add(app)
            self.on_history(app, result.evaluator, result.evaluated_at, 1)

    def on_reload(self, evaluators: Collection[str]) -> None:
        """Expect nothing from evaluators that are gone."""
        self._scored = {key: counts for key, counts in self._scored.items() if key[1] in evaluators}
        self._missing_since = {key: since for key, since in self._missing_since.items() if key[1] in evaluators}

    def on_history(self, app: str, evaluator: str, at: float, scored: int) -> None:
        """Count answers that were scored at `at`; ignore those older than three days."""
        now = self._clock.now()
        if at <= now - USUAL:
            return
        counts = self._scored.setdefault((app, evaluator), _TrafficCounts(now))
        counts.add(min(at, now), scored)

    def find(self, now: float) -> Iterator[tuple[Subject, ConditionResult]]:
        """Yield one finding for each app and evaluator."""
        for app, number in self._arrived.items():
            self._received.setdefault(app, _TrafficCounts(now)).add(now, number)
            self._of_all.add(now, number)
        self._arrived.clear()
        noticed = {
            app
            for (app, evaluator), scored in self._scored.items()
            if evaluator not in OWN and scored.per_hour(now) > AT_LEAST
        }
        for (app, evaluator), scored in self._scored.items():
            subject = Subject(NAME, Severity.WARNING, app, evaluator)
            if evaluator in OWN and app in noticed:
                self._missing_since.pop((app, evaluator), None)
                text = f"If answers from {app} are no longer evaluated, the alert for another evaluator says so."
                yield subject, ConditionResult(AlertStatus.OK, text, window=_HOUR)
            else:
                yield subject, self._decide(app, evaluator, scored, now)

    def _decide(self, app: str, evaluator: str, scored: _TrafficCounts, now: float) -> ConditionResult:
        expected = 0.0 if scored.between(now - _HOUR, now) else self._expected(app, scored, now)
        if expected <= AT_LEAST:
            self._missing_since.pop((app, evaluator), None)
            text = f"{evaluator} scores answers from {app}, or too few are expected to tell."
            return ConditionResult(AlertStatus.OK, text, window=_HOUR)
        since = min(self._missing_since.setdefault((app, evaluator), now), now)
        text = (
            f"{evaluator} scored no answers from {app} in the last hour. Given its traffic and the last three days,"
            f" about {expected:.0f} were expected."
        )
        return ConditionResult(AlertStatus.FIRING if now - since >= PENDING else AlertStatus.OK, text, window=_HOUR)

    def _expected(self, app: str, scored: _TrafficCounts, now: float) -> float:
        """Return how many evaluations the last hour should have had."""
        received = self._received.get(app, self._of_all if app in self._scored_here else None)
        arrived = received.between(now - _HOUR, now) if received is not None else 0.0
        if received is None or not arrived:
            return 0.0
        expected = scored.per_hour(now) * arrived / received.per_hour(now)
        if scored.since < self._began and now - self._began < _DAY:
            return min(expected, _same_hour(scored, now))
        return expected


def _same_hour(scored: _TrafficCounts, now: float) -> float:
    """Return the mean at this time of day over the known previous days; 0 if none is known."""
    days = [now - day * _DAY for day in (1, 2, 3) if scored.since <= now - day * _DAY - _HOUR]
    return sum(scored.between(at - _HOUR, at) for at in days) / len(days) if days else 0.0


_RECEIVED = record(
    "app:ragmonitor_traces_received:increase1h", "sum by (app) (increase(ragmonitor_traces_received_total[1h]))"
)
_EVALUATED, _ARRIVED = EVALUATIONS["record"], _RECEIVED["record"]

_RATES_OF_CONTEXT = "|".join(OWN)
_OTHERS = f'avg_over_time({_EVALUATED}{{evaluator!~"{_RATES_OF_CONTEXT}"}}[3d]) > {AT_LEAST}\n{OWN_EVALUATORS}'

_OF_ALL = f"sum({_ARRIVED}) / (sum(avg_over_time({_ARRIVED}[3d])) > 0)"
_EXPRESSION = (
    f"avg_over_time({_EVALUATED}[3d])\n* on (app) group_left () (\n"
    f"  {_ARRIVED} / (avg_over_time({_ARRIVED}[3d]) > 0)\n"
    f"  or on (app)\n  group by (app) (avg_over_time({_EVALUATED}[3d])) * on () group_left () ({_OF_ALL})\n)\n"
    f"> {AT_LEAST}\nunless on (app, evaluator)\n{_EVALUATED} > 0\n{OWN_EVALUATORS}\n"
    f'unless on (app, evaluator) (\n  {_EVALUATED}{{evaluator=~"{_RATES_OF_CONTEXT}"}}\n  and on (app) (\n'
    f"{indent(_OTHERS, ' ' * 4)}\n  )\n)"
)


def _tests() -> Iterator[Test]:
    pair = ("shop", "any")

    def received(pieces: Sequence[tuple[int, float]], app: str = "shop", **how: Any) -> list[Series]:
        of = {"app": app, "source": "otlp_grpc"}
        return [input_series("ragmonitor_traces_received_total", of, counter_values(pieces, **how))]

    busy = received([(8 * HOUR, 100)])
    stops = [(4 * HOUR, 10.0, 0.0), (4 * HOUR, 0.0, 0.0)]
    steady = [(8 * HOUR, 10.0, 0.0)]
    replaced = [
        *evaluation_counters(*pair, [(4 * HOUR, 10.0, 0.0)]),
        *evaluation_counters(*pair, [(4 * HOUR, 10.0, 0.0)], version=OTHER, since=4 * HOUR),
    ]
    few = [(minutes, each / 50, rate) for minutes, each, rate in stops]
    gateway = received([(8 * HOUR, 100)], app="gateway")
    idle_gateway = received([(4 * HOUR, 100), (4 * HOUR, 0)], app="gateway")
    behind = received([(8 * HOUR, 0)])
    idle = received([(4 * HOUR, 100), (4 * HOUR, 0)])
    of_context = evaluation_counters("shop", next(iter(OWN)), stops)
    cases: tuple[tuple[str, list[Series], str], ...] = (
        ("requests, but no evaluations", [*busy, *evaluation_counters(*pair, stops)], "any"),
        (
            "no evaluations after a restart",
            [*busy, *evaluation_counters(*pair, stops, reset_at=4 * HOUR + STEP)],
            "any",
        ),
        ("evaluations", [*busy, *evaluation_counters(*pair, steady)], ""),
        ("evaluations, one replica gone", [*busy, *evaluation_counters(*pair, steady, gone_at=4 * HOUR)], ""),
        ("evaluations by a new version of the evaluator", [*busy, *replaced], ""),
        ("requests behind a gateway", [*gateway, *behind, *evaluation_counters(*pair, stops)], "any"),
        ("evaluations behind a gateway", [*gateway, *behind, *evaluation_counters(*pair, steady)], ""),
        ("no requests behind a gateway either", [*idle_gateway, *behind, *evaluation_counters(*pair, stops)], ""),
        ("no requests, but another app has some", [*gateway, *idle, *evaluation_counters(*pair, stops)], ""),
        ("no requests either", [*idle, *evaluation_counters(*pair, stops)], ""),
        ("too few were ever expected", [*busy, *evaluation_counters(*pair, few)], ""),
        (
            "a rate of context as well as another evaluator",
            [*busy, *of_context, *evaluation_counters(*pair, stops)],
            "any",
        ),
        ("a rate of context alone", [*busy, *of_context], next(iter(OWN))),
        ("a rate of context, few by another", [*busy, *of_context, *evaluation_counters(*pair, few)], next(iter(OWN))),
        ("no data", [], ""),
    )
    end = 6 * HOUR
    for name, series, fires in cases:
        checks = [expect_firing(NAME, end)]
        if fires:
            labels = {"app": "shop", "evaluator": fires, "severity": "warning"}
            checks = [expect_firing(NAME, 4 * HOUR), expect_firing(NAME, end, labels)]
        yield promtool_test(f"{NAME}: {name}: {'fires' if fires else 'silent'}", series, checks)


ALERT = SelfAlert(
    name=NAME,
    summary="Requests arrive, but none of them is evaluated.",
    condition=EvaluationsMissing,
    records=(EVALUATIONS, _RECEIVED),
    rules=(
        PrometheusRule(
            _EXPRESSION,
            "{{ $labels.evaluator }} scored no answers from {{ $labels.app }} in the last hour. Given its traffic and"
            ' the last three days, about {{ $value | printf "%.0f" }} were expected.',
        ),
    ),
    pending_for=PENDING,
    tests=_tests,
)
