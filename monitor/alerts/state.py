"""Values shared by evaluation, notification and display: findings, alert states, and how long states last."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final

from monitor.alerts.policy import Severity
from monitor.statistics.rates import Estimate

DEFECTIVE: Final = "are defective"
"""What a text says about defective answers if the defect rule is not known in words."""


class AlertStatus(StrEnum):
    """The status of an alert."""

    OK = "ok"
    NOT_ENOUGH_DATA = "not_enough_data"
    FIRING = "firing"


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertState:
    """The state of one alert.

    `app` and `evaluator` are empty if it is not about one. `threshold` is the share above which it fires; for a
    regression, the margin times the baseline rate; None if there is no threshold. `since` is the wall-clock second at
    which `status` began. `estimate` and `window` (seconds) are the deciding ones: for a firing alert, those of the
    shortest window that fired at the last check at which any did. None if nothing was scored, or the alert is not about
    a share. `labels` identify the alert and are the same in every replica; `annotations` explain it and may change
    while it fires.
    """

    status: AlertStatus
    severity: Severity
    app: str
    evaluator: str
    threshold: float | None
    since: float
    window: float | None = None
    estimate: Estimate | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)

    @property
    def firing(self) -> bool:
        """Whether it fires."""
        return self.status is AlertStatus.FIRING

    @property
    def name(self) -> str:
        """The name of the alert, such as `RagDefectRateHigh`."""
        return self.labels.get("alertname", "")


@dataclass(frozen=True, slots=True)
class ConditionResult:
    """The result of one check. `holds`: not enough to fire, but an alert that already fires continues."""

    status: AlertStatus
    description: str
    threshold: float | None = None
    window: float | None = None
    estimate: Estimate | None = None
    holds: bool = False


@dataclass(frozen=True, slots=True)
class Subject:
    """What an alert is about: its identity from one check to the next."""

    name: str
    severity: Severity
    app: str = ""
    evaluator: str = ""
    version: str = ""
    defect_rule: str = ""

    @classmethod
    def of(cls, state: AlertState) -> Subject:
        """Return what the alert of a state is about."""
        labels = state.labels
        version, rule = labels.get("version", ""), labels.get("defect_rule", "")
        return cls(state.name, state.severity, state.app, state.evaluator, version, rule)

    @property
    def labels(self) -> dict[str, str]:
        """The labels of the alert, without empty ones."""
        all_labels = {
            "alertname": self.name,
            "app": self.app,
            "evaluator": self.evaluator,
            "version": self.version,
            "defect_rule": self.defect_rule,
            "severity": self.severity.value,
        }
        return {name: value for name, value in all_labels.items() if value}


class AlertTracker:
    """Tracks the states of all alerts of a process: an alert ends once nothing has fired for its hold time.

    `runbooks` is the URL that `/<alert>.md` is appended to; empty: no link.
    """

    def __init__(self, runbooks: str = "") -> None:
        self._runbooks = runbooks.rstrip("/")
        self._states: dict[Subject, AlertState] = {}
        self._quiet_since: dict[Subject, float] = {}
        self._of_before: dict[Subject, AlertState] = {}
        self.checked = 0.0
        """The wall-clock second of the last finding."""

    def on_reload(self, runbooks: str) -> None:
        """Continue with a new configuration. States not used before the next reload are forgotten then."""
        self._runbooks = runbooks.rstrip("/")
        if self._states:
            self._of_before, self._states = self._states, {}
            self._quiet_since = {one: at for one, at in self._quiet_since.items() if one in self._of_before}

    def firing(self) -> Iterator[tuple[AlertState, float | None]]:
        """Yield the firing states, each with the second since when nothing has been wrong; None: something is."""
        for subject, state in (self._states or self._of_before).items():
            if state.firing:
                yield state, self._quiet_since.get(subject)

    def restore(self, state: AlertState, *, quiet_since: float | None) -> None:
        """Continue a state that fired in the previous process."""
        subject = Subject.of(state)
        self._states[subject] = state
        if quiet_since is not None:
            self._quiet_since[subject] = quiet_since

    def advance(
        self, subject: Subject, finding: ConditionResult, *, summary: str, hold: float, now: float
    ) -> AlertState:
        """Return the state after a finding at wall-clock second `now`. It ends after `hold` seconds without firing."""
        self.checked = now
        before = self._states.get(subject) or self._of_before.pop(subject, None)
        if before is not None and before.firing and finding.status is not AlertStatus.FIRING:
            self._states[subject] = before
            if finding.holds:
                self._quiet_since.pop(subject, None)
                return before
            # If the wall clock was set back, the hold starts over instead of lasting as long as the jump.
            quiet_since = min(self._quiet_since.setdefault(subject, now), now)
            self._quiet_since[subject] = quiet_since
            if now - quiet_since < hold:
                return before
        self._quiet_since.pop(subject, None)
        link = {"runbook_url": f"{self._runbooks}/{subject.name}.md"} if self._runbooks else {}
        state = AlertState(
            status=finding.status,
            severity=subject.severity,
            app=subject.app,
            evaluator=subject.evaluator,
            threshold=finding.threshold,
            since=now,
            window=finding.window,
            estimate=finding.estimate,
            labels=subject.labels,
            annotations={"summary": summary, "description": finding.description, **link},
        )
        if before is not None and before.status is state.status:
            state = replace(state, since=before.since)
        self._states[subject] = state
        return state
