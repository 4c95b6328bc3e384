"""What the pages read from the running monitor."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from monitor.alerts.policy import AlertPolicy, own_rules, policy_for
from monitor.alerts.rule_windows import RuleWindows
from monitor.alerts.state import AlertState
from monitor.jobs.backfill.store import Missed
from monitor.jobs.incidents import IncidentKeeper
from monitor.jobs.reports import HistoryReports
from monitor.jobs.review import ReviewQueue
from monitor.jobs.review.reviewers import Reviewers
from monitor.jobs.trial.queue import TrialQueue
from monitor.model.outcome import DefectRule
from monitor.model.service_version import VersionChange
from monitor.pipeline.configured_evaluator import ConfiguredEvaluator
from monitor.pipeline.introspection.evaluator_status import EvaluatorStatus
from monitor.pipeline.introspection.explain import Explanation
from monitor.pipeline.learned import LearnedOrder
from monitor.sinks.history import HistorySink
from monitor.stages import Runtime
from monitor.statistics.slice_sums import Sliced
from monitor.statistics.windows import Windows


class ReviewParts(NamedTuple):
    """What the review pages work with. `blind`: the judge's verdict is shown only after the reviewer's own."""

    queue: ReviewQueue
    reviewers: Reviewers
    blind: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PageContext:
    """What the pages show. The functions are called for each request; all are quick except the two that explain.

    Attributes:
        alerts: the state of every alert.
        policies: the configured alerts on rates; `ruled` are the sums by the defect rules defined in the alerts.
        configured: the configured evaluators; `idle` names the judged ones that have no model.
        versions: the version of each configured evaluator, by name.
        models: the model that each judged evaluator asks, by name.
        statuses: the status of each configured evaluator, by name.
        changed: the latest change of the service or the judge behind an app and evaluator.
        sliced: sums by slice; `slices` are the names of the configured ones.
        explain_trace: why a trace has the results it has; the second argument names one evaluator, or is empty.
        explain_evaluator: why an evaluator ran as often as it did since a wall-clock second, for one app or all.
        missed: evaluations that were skipped while a judge was paused, and that no backfill has requested yet.
        retention: how many seconds the history keeps results; `keeps_texts`: with question, context and answer.
        incidents: the incidents, and the notes on them.
        reports: diagnoses of rates, and lists of documents and of unanswered questions; they raise `MonitorError`.
        learned: the learned order of answers; None if no evaluator learns.
        review: lets people label answers; None if review is switched off.
        trials: runs an evaluator on one case; None if trials are switched off.
    """

    runtime: Runtime
    windows: Windows
    history: HistorySink
    alerts: Callable[[], Sequence[AlertState]]
    policies: Sequence[AlertPolicy]
    ruled: RuleWindows
    configured: Sequence[ConfiguredEvaluator]
    idle: Sequence[str]
    versions: Mapping[str, str]
    models: Mapping[str, str]
    statuses: Callable[[], Mapping[str, EvaluatorStatus]]
    changed: Callable[[str, str], VersionChange | None]
    sliced: Sliced
    slices: Sequence[str]
    explain_trace: Callable[[str, str], Awaitable[Explanation]]
    explain_evaluator: Callable[[str, float, str], Awaitable[Explanation]]
    missed: Callable[[], Sequence[Missed]]
    retention: float
    keeps_texts: bool
    incidents: IncidentKeeper
    reports: HistoryReports
    learned: LearnedOrder | None = None
    review: ReviewParts | None = None
    trials: TrialQueue | None = None

    def alert_rules(self, evaluator: str) -> tuple[DefectRule, ...]:
        """Return the defect rules that are defined in alerts on an evaluator."""
        return own_rules(self.policies).get(evaluator, ())

    def thresholds(self, app: str, evaluator: str, defect: DefectRule | None = None) -> dict[str, float]:
        """Return the defect rates above which an alert fires, by severity; empty if no alert is configured.

        `defect` is a rule defined in an alert; None stands for the evaluator's own rule.
        """
        policy = policy_for(self.policies, app, evaluator, defect)
        return {severity.value: rate for severity, rate in policy.thresholds.items()} if policy is not None else {}
