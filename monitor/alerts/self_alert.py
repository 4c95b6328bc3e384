"""Defines an alert on the monitor itself: one object in a file of its own under `self_alerts/`.

Everything else is derived from that object: the check in process, the Prometheus rules and their promtool tests, the
inhibition rules, the links to answers, and the tables in docs/alerts.md and docs/runbooks/README.md. A new alert needs
a new file in that folder, and a runbook `docs/runbooks/NAME.md`.
"""

from __future__ import annotations

import importlib
import pkgutil
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple, TypeAlias

from monitor.alerts.policy import Severity
from monitor.alerts.prometheus.promql import Rule
from monitor.alerts.prometheus.promtool import Test
from monitor.alerts.rule_windows import RuleWindows
from monitor.alerts.state import ConditionResult, Subject
from monitor.clock import Clock
from monitor.model.canary import CanaryRun
from monitor.model.external import ScoreSource
from monitor.model.outcome import EvaluationResult, RateScope, Score
from monitor.statistics.rates import Sums
from monitor.statistics.windows import Windows
from monitor.telemetry.metrics import UNKNOWN_APP

_FOLDER = "monitor.alerts.self_alerts"

Sample: TypeAlias = tuple[Mapping[str, str], float]
"""The labels of a series, and its current value."""


class Increases:
    """By how much counters have grown within the last `window` seconds, as seen at each call."""

    def __init__(self, window: float) -> None:
        self._window = window
        self._seen: dict[str, deque[tuple[float, float]]] = {}

    def of(self, name: str, value: float, now: float) -> float:
        """Note the current value of the counter `name`, and return its increase. Counters start at 0."""
        seen = self._seen.setdefault(name, deque([(now, 0.0)]))
        last = seen[-1][1]
        if value < last:  # it was reset, as at a reload
            seen = self._seen[name] = deque((at, known - last) for at, known in seen)
        seen.append((now, value))
        while len(seen) > 1 and now - seen[1][0] >= self._window:
            seen.popleft()
        return value - seen[0][1]


@dataclass(frozen=True, slots=True)
class Observed:
    """Facts about the process that a condition can read at any time.

    `oldest_pending` returns the wall-clock second at which the oldest unfinished trace arrived, 0 for none. `pauses`
    returns, for each evaluator that asks a judge, why that judge is paused; empty if it is not. `reload_failed` returns
    why the last reload of the configuration failed; empty if it did not. The rest return the labels and values of
    `ragmonitor_workers_replaced_total`, `ragmonitor_database_failing`, `ragmonitor_database_unwritten_records_total`
    and `ragmonitor_judge_as_good_probability`.
    """

    clock: Clock
    oldest_pending: Callable[[], float] = lambda: 0.0
    pauses: Callable[[], Iterable[tuple[str, str]]] = tuple
    replaced_workers: Callable[[], Iterable[Sample]] = tuple
    failing_databases: Callable[[], Iterable[Sample]] = tuple
    unwritten_records: Callable[[], Iterable[Sample]] = tuple
    judges_as_good: Callable[[], Iterable[Sample]] = tuple
    reload_failed: Callable[[], str] = str


class Condition(ABC):
    """Decides in process whether an alert fires. Created once per process; `observed` is replaced when the
    configuration is reloaded.

    A condition overrides the methods for the events that it needs; they must be quick, since they are called for every
    trace and every result.
    """

    def __init__(self, observed: Observed) -> None:
        self.observed = observed

    def on_received(self, app: str, traces: int) -> None:  # noqa: B027 - optional
        """Note that `traces` arrived; `app` is a label value."""

    def on_result(self, result: EvaluationResult, app: str) -> None:  # noqa: B027 - optional
        """Note the end of a live evaluation by an evaluator of this monitor; `app` is a label value."""

    def on_history(self, app: str, evaluator: str, at: float, scored: int) -> None:  # noqa: B027 - optional
        """Note that `scored` answers were scored at the wall-clock second `at`, before this process began."""

    def on_canary_run(self, run: CanaryRun) -> None:  # noqa: B027 - optional
        """Note a canary run that was compared with its reference."""

    def on_reload(self, evaluators: Collection[str]) -> None:  # noqa: B027 - optional
        """Forget evaluators that are no longer configured; `evaluators` has the names from now on."""

    @abstractmethod
    def find(self, now: float) -> Iterator[tuple[Subject, ConditionResult]]:
        """Everything that could be wrong at the wall-clock second `now`, and whether it is."""


class PrometheusRule(NamedTuple):
    """One alerting rule. `description` is a template; it may look at `$labels` and `$value`."""

    expr: str
    description: str
    severity: Severity = Severity.WARNING


class Inhibits(NamedTuple):
    """Alerts that are not sent while this one fires, because this one explains them.

    Only alerts with the same labels `equal` are held back. `at` and `target_severity` restrict the rule to one
    severity of this alert and of the targets; None means any. A target is never more severe than the alert that holds
    it back.
    """

    targets: tuple[str, ...]
    why: str
    at: Severity | None = None
    target_severity: Severity | None = None
    equal: tuple[str, ...] = ("app", "evaluator")


class ResultSelector(NamedTuple):
    """Which results an alert is about: those with the same values of `labels`, and with this outcome."""

    labels: tuple[str, ...]
    outcome: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SelfAlert:
    """An alert on the monitor itself. It needs no policy in the configuration.

    Args:
        name: of the alert and of its runbook, `docs/runbooks/NAME.md`.
        summary: what is wrong, in one sentence, for the annotation and the tables of the docs.
        rules: one for each severity.
        tests: test cases for promtool: when the alert fires, and when it does not.
        condition: the same decision in process; None for an alert that only Prometheus can raise.
        records: recording rules that the expressions read. Alerts may name the same record, with the same expression.
        pending_for: seconds for which an expression must hold before the alert fires.
        keep_firing_for: seconds without a finding that end the alert, in process and in Prometheus.
        inhibits: which other alerts this one explains.
        answers: which results it is about, for the link to the web UI; None: it is not about results.
    """

    name: str
    summary: str
    rules: tuple[PrometheusRule, ...]
    tests: Callable[[], Iterable[Test]]
    condition: Callable[[Observed], Condition] | None = None
    records: tuple[Rule, ...] = ()
    pending_for: float = 0.0
    keep_firing_for: float = 0.0
    inhibits: tuple[Inhibits, ...] = ()
    answers: ResultSelector | None = None

    @property
    def severities(self) -> tuple[Severity, ...]:
        """The severities it can have, the least severe first."""
        return tuple(severity for severity in Severity if severity in {rule.severity for rule in self.rules})


@cache
def self_alerts() -> tuple[SelfAlert, ...]:
    """Return all alerts on the monitor itself, by the name of their file.

    Raises `TypeError` for a file that does not define exactly one, or a name that two files define.
    """
    package = importlib.import_module(_FOLDER)
    files = sorted(found.name for found in pkgutil.iter_modules(package.__path__) if not found.name.startswith("_"))
    alerts = tuple(_only_alert(f"{_FOLDER}.{name}") for name in files)
    if len({alert.name for alert in alerts}) < len(alerts):
        raise TypeError(f"two files in {_FOLDER} define the same alert: {', '.join(alert.name for alert in alerts)}")
    return alerts


def _only_alert(module_name: str) -> SelfAlert:
    module = importlib.import_module(module_name)
    found = [member for member in vars(module).values() if isinstance(member, SelfAlert)]
    if len(found) != 1:
        raise TypeError(f"{module_name} must define one SelfAlert, it defines {len(found)}")
    return found[0]


class SelfAlertChecks:
    """The conditions of all alerts on the monitor itself, in one process; see `Condition` for the events they get."""

    def __init__(self, observed: Observed) -> None:
        self.evaluators: frozenset[str] | None = None
        """The names of the configured evaluators; None: any evaluator counts."""
        self._conditions = tuple((one, one.condition(observed)) for one in self_alerts() if one.condition is not None)
        conditions = [condition for _, condition in self._conditions]
        self._counting = [one for one in conditions if type(one).on_received is not Condition.on_received]

    def on_reload(self, observed: Observed, evaluators: Collection[str]) -> None:
        """Continue with a new configuration: with these evaluators and this `observed`."""
        self.evaluators = frozenset(evaluators)
        for _, condition in self._conditions:
            condition.observed = observed
            condition.on_reload(self.evaluators)

    def on_received(self, app: str, traces: int) -> None:
        """Pass on that traces arrived, only to conditions that use it: it is called for every delivery."""
        for condition in self._counting:
            condition.on_received(app, traces)

    def on_result(self, result: EvaluationResult, app: str) -> None:
        """Pass on a live evaluation by an evaluator of this monitor."""
        for _, condition in self._conditions:
            condition.on_result(result, app)

    def on_history(self, app: str, evaluator: str, at: float, scored: int) -> None:
        """Pass on answers that were scored before this process began."""
        for _, condition in self._conditions:
            condition.on_history(app, evaluator, at, scored)

    def on_canary_run(self, run: CanaryRun) -> None:
        """Pass on a run of the canary set."""
        for _, condition in self._conditions:
            condition.on_canary_run(run)

    def find(self, now: float) -> Iterator[tuple[SelfAlert, Subject, ConditionResult]]:
        """Everything that could be wrong at the wall-clock second `now`, and whether it is."""
        for alert, condition in self._conditions:
            for subject, finding in condition.find(now):
                if self.evaluators is None or not subject.evaluator or subject.evaluator in self.evaluators:
                    yield alert, subject, finding


class AlertFeed:
    """Passes results on to the rate windows and to the alerts on the monitor itself; `ruled`: windows by alerts' rules.

    Only live results count, as in the series that the Prometheus rules read. External scores count in the rates; but if
    they are missing or unreadable, that says nothing about this monitor. `app_label` turns the name of an app into a
    label value.
    """

    def __init__(
        self, windows: Windows, ruled: RuleWindows, checks: SelfAlertChecks, app_label: Callable[[str], str]
    ) -> None:
        self._windows = windows
        self._ruled = ruled
        self._checks = checks
        self._app_label = app_label

    def on_result(self, result: EvaluationResult) -> None:
        """Count a result. A score counts at the time of its answer, if that is known."""
        if result.scope is not RateScope.LIVE:
            return
        app = self._app_label(result.case.app or UNKNOWN_APP)
        if result.score_source is ScoreSource.OWN:
            self._checks.on_result(result, app)
        if isinstance(result.outcome, Score):
            at = result.case.answered_at or result.evaluated_at
            one = Sums.of(result.weight, defect=result.defect, products=result.session_products.get(""))
            self._windows.add_sums(app, result.evaluator, at, one)
            self._ruled.add(result, app, at)
