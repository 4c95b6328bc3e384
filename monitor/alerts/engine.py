"""Decides in process which alerts fire, from what this process saw: the same alerts that `prometheus/` writes as rules.

`threshold.py`, `regression.py`, `severe.py` and `self_alerts/` find out what is wrong now; the engine turns that into
lasting states.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Final

import anyio

from monitor.alerts import regression, severe, threshold
from monitor.alerts.catalogue import explained, linked
from monitor.alerts.diagnosed import DiagnosedAlerts
from monitor.alerts.incidents import IncidentTracker
from monitor.alerts.notify import Inbox, Notifier
from monitor.alerts.notify.known import KnownAlerts
from monitor.alerts.policy import AlertPolicy, export_thresholds, policies_for
from monitor.alerts.rate_names import rate_alert
from monitor.alerts.rule_windows import RuleWindows
from monitor.alerts.self_alert import SelfAlertChecks
from monitor.alerts.severe import SevereLog
from monitor.alerts.state import DEFECTIVE, AlertState, AlertStatus, AlertTracker, ConditionResult, Subject
from monitor.model.service_version import VersionChange
from monitor.quantities import format_duration
from monitor.stages import Runtime
from monitor.statistics.correction import JudgeQuality
from monitor.statistics.windows import Windows

CHECK_INTERVAL: Final = 15.0
"""Seconds between two checks of all alerts."""

_CHANGE_IS_RECENT = 7 * 86400.0
"""Seconds for which a change of the service may explain an alert."""


class AlertEngine:
    """The alerts of one process.

    Args:
        policies: what the configuration asks for.
        windows: the sums of scores by app and evaluator, with only one version of each evaluator.
        runbooks: the URL that `/<alert>.md` is appended to; empty: no link.
        checks: the alerts on the monitor itself; None: there are none.
        ruled: the same sums by the policies' own defect rules.
        severe: the confirmed severe cases; None: no policy asks for them.
        defects: each evaluator's own defect rule in words, as a predicate: answers that `are of level high`.
        versions: the version of each evaluator in this process, by its name: the label `version` of alerts on rates.
        changed: the latest change of the service behind the answers of an app and evaluator. An alert that fires
            names it if it is not older than a week.
        page: the URL of the web UI; an alert that fires links to the answers it is about. Empty: no link.
        incidents: the open ones; None: incidents are not kept.
        tracker: the states so far, to continue from; None: there are none.
    """

    def __init__(
        self,
        policies: Sequence[AlertPolicy],
        windows: Windows,
        *,
        ruled: RuleWindows | None = None,
        severe: SevereLog | None = None,
        defects: Mapping[str, str] = MappingProxyType({}),
        runbooks: str = "",
        checks: SelfAlertChecks | None = None,
        versions: Mapping[str, str] = MappingProxyType({}),
        changed: Callable[[str, str], VersionChange | None] = lambda _app, _evaluator: None,
        page: str = "",
        incidents: IncidentTracker | None = None,
        qualities: Callable[[], Mapping[str, JudgeQuality]] = dict,
        tracker: AlertTracker | None = None,
    ) -> None:
        self.policies = tuple(policies)
        self._windows = windows
        self._ruled = ruled
        self._severe = severe
        self._defects = defects
        self._checks = checks
        self._versions = versions
        self._changed = changed
        self._page = page
        self._incidents = incidents
        self._qualities = qualities
        self._tracker = tracker if tracker is not None else AlertTracker(runbooks)

    def apps(self) -> tuple[str, ...]:
        """Return the apps with scores so far, and those named in a policy."""
        named = {policy.app for policy in self.policies if policy.app is not None}
        return tuple(sorted(named.union(app for app, _ in self._windows.keys())))  # noqa: SIM118 - not a mapping

    def evaluate(self, now: float) -> list[AlertState]:
        """Check everything at the wall-clock second `now`.

        Returns, for each app, evaluator and defect rule, one state for each threshold, the more severe first, then one
        for a regression; after these the alerts on single severe cases and those on the monitor itself.
        """
        pairs = set(self._windows.keys())
        pairs.update((policy.app, policy.evaluator) for policy in self.policies if policy.app is not None)
        states = []
        for app, evaluator in sorted(pairs):
            for policy in policies_for(self.policies, app, evaluator):
                states += self._rates(policy, app, evaluator, now)
        states += self._severe_cases(sorted(pairs), now)
        if self._checks is not None:
            for alert, subject, finding in self._checks.find(now):
                states.append(
                    self._tracker.advance(subject, finding, summary=alert.summary, hold=alert.keep_firing_for, now=now)
                )
        if self._incidents is not None:
            states = self._incidents.advance(states, now)
        return [linked(state, self._page) for state in states]

    def _severe_cases(self, pairs: Sequence[tuple[str, str]], now: float) -> list[AlertState]:
        if self._severe is None:
            return []
        states = []
        for subject, finding, request_id in self._severe.find(pairs, now):
            state = self._tracker.advance(subject, finding, summary=severe.SUMMARY, hold=0.0, now=now)
            states.append(explained(state, self._page, request_id) if request_id else state)
        return states

    def _rates(self, policy: AlertPolicy, app: str, evaluator: str, now: float) -> list[AlertState]:
        states = []
        version, rule = self._versions.get(evaluator, ""), policy.defect.name if policy.defect is not None else ""
        predicate = policy.defect.predicate if policy.defect is not None else self._defects.get(evaluator, DEFECTIVE)
        windows = (self._ruled.of(evaluator, rule) if rule and self._ruled is not None else None) or self._windows
        estimates = threshold.estimate_windows(policy, windows, app, evaluator, now) if policy.thresholds else []
        quality = self._qualities().get(evaluator) if policy.rate == "corrected" else None
        if quality is not None:
            estimates = threshold.corrected(estimates, quality)
        for severity, limit in policy.thresholds.items():
            about = rate_alert(evaluator)
            subject = Subject(about.name, severity, app, evaluator, version, rule)
            found = threshold.decide(estimates, limit, app, evaluator, predicate=predicate)
            if policy.rate == "corrected":
                found = replace(found, description=f"{found.description} {threshold.corrected_words(quality)}")
            finding = self._explained(found, app, evaluator, now)
            states.append(
                self._tracker.advance(subject, finding, summary=about.summary, hold=policy.resolve_after, now=now)
            )
        if policy.regression is not None:
            subject = Subject(regression.NAME, policy.regression_severity, app, evaluator, version, rule)
            finding = regression.decide(policy.regression, windows, app, evaluator, now, predicate=predicate)
            finding = self._explained(finding, app, evaluator, now)
            states.append(
                self._tracker.advance(subject, finding, summary=regression.SUMMARY, hold=regression.HOLD, now=now)
            )
        return states

    def _explained(self, finding: ConditionResult, app: str, evaluator: str, now: float) -> ConditionResult:
        """Add the latest change of the service to a finding that fires."""
        change = self._changed(app, evaluator) if finding.status is AlertStatus.FIRING else None
        if change is None or now - change.at > _CHANGE_IS_RECENT:
            return finding
        ago = format_duration(max(60.0, (now - change.at) // 60 * 60))
        return replace(finding, description=f"{finding.description} Last change {ago} ago: {change.text}.")


async def run_alerts(
    engine: AlertEngine,
    notifiers: Sequence[Notifier],
    runtime: Runtime,
    *,
    every: float = CHECK_INTERVAL,
    show: Callable[[Sequence[AlertState]], None] | None = None,
    diagnosed: DiagnosedAlerts | None = None,
) -> None:
    """Check the alerts every `every` seconds and notify the receivers, until cancelled; the first check is at once.

    Exports the thresholds of apps as they appear. `show` gets each list of states, for the web UI; it must not block.
    `diagnosed` adds diagnoses.
    """
    apps: tuple[str, ...] | None = None
    async with anyio.create_task_group() as receivers:
        known = KnownAlerts(runtime, sum(notifier.places for notifier in notifiers))
        inboxes = [Inbox(known) for _ in notifiers]
        for notifier, inbox in zip(notifiers, inboxes, strict=True):
            receivers.start_soon(notifier.run, inbox, runtime)
        while True:
            if apps != (apps := engine.apps()):
                export_thresholds(engine.policies, apps, runtime.metrics)
            states = engine.evaluate(runtime.clock.now())
            if diagnosed is not None:
                states = await diagnosed.annotated(states, receivers)
            for inbox in inboxes:
                inbox.put(states)
            if show is not None:
                show(states)
            await anyio.sleep(every)
