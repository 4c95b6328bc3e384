"""Decides in process, over `Windows`, which alerts fire: the same policy as the Prometheus rules of `rules.py`.

A window fires where the lower limit of its rate is above the threshold. A rate fires when any window does, unless the
shortest shows by its upper limit that the rate is below the threshold by now: a long window remembers an incident that
is over. What fires goes on firing until no window has fired for `resolve_after`.

What does not fire is `ok` only if somebody could know: some window shows by its upper limit that the rate is below the
threshold, or judged as many as it takes to notice a rate clearly above it (`doubled`, 9 times in 10) and did not.
Otherwise it is `not_enough_data`, with the figures that are missing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from monitor.alerts.policy import AlertPolicy, AlertWindow, Severity, policy_for
from monitor.estimates.rates import Estimate, doubled, estimate, judged_to_tell
from monitor.estimates.windows import Windows
from monitor.quantities import format_duration

ALERT_NAME = "RagDefectRateHigh"
SUMMARY = "The share of defective answers is above its threshold."
Z_OVER = 1.645
"""How sure the shortest window must be that the rate is below the threshold again: wrong once in 20."""


class Status(StrEnum):
    """What is known of a defect rate and its threshold."""

    OK = "ok"
    NOT_ENOUGH_DATA = "not_enough_data"
    FIRING = "firing"


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertState:
    """One threshold of one app and evaluator, as it stands.

    `since` is the wall-clock second at which `status` began. `estimate` and `window` (seconds) are what decided: for a
    firing alert the shortest window that fired when one last did. None where nothing was judged.
    `labels` identify the alert, the same in every replica; `annotations` explain it and may change while it fires.
    """

    status: Status
    severity: Severity
    app: str
    evaluator: str
    threshold: float
    since: float
    window: float | None = None
    estimate: Estimate | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)

    @property
    def firing(self) -> bool:
        """Whether somebody should know."""
        return self.status is Status.FIRING


@dataclass(frozen=True, slots=True)
class _Finding:
    """What one look at the windows says."""

    status: Status
    window: float | None
    estimate: Estimate | None
    description: str


@dataclass(frozen=True, slots=True)
class _Look:
    """One window's estimate, once at its own z and once at `Z_OVER`."""

    at: AlertWindow
    surely: Estimate | None
    likely: Estimate | None


_Key = tuple[str, str, Severity]


class AlertEngine:
    """The alerts of one process. `runbooks` is the address that `/RagDefectRateHigh.md` is added to; empty: no link."""

    def __init__(self, policies: Sequence[AlertPolicy], windows: Windows, *, runbooks: str = "") -> None:
        self.policies = tuple(policies)
        self._windows = windows
        self._runbook = {"runbook_url": f"{runbooks.rstrip('/')}/{ALERT_NAME}.md"} if runbooks else {}
        self._states: dict[_Key, AlertState] = {}
        self._quiet_since: dict[_Key, float] = {}

    def apps(self) -> tuple[str, ...]:
        """The apps that were judged so far and those that a policy names."""
        named = {policy.app for policy in self.policies if policy.app is not None}
        return tuple(sorted(named.union(app for app, _ in self._windows.keys())))  # noqa: SIM118 - not a mapping

    def evaluate(self, now: float) -> list[AlertState]:
        """Look at everything at the wall-clock second `now`: one state a threshold, by app, evaluator, graver first."""
        pairs = set(self._windows.keys())
        pairs.update((policy.app, policy.evaluator) for policy in self.policies if policy.app is not None)
        states = []
        for app, evaluator in sorted(pairs):
            policy = policy_for(self.policies, app, evaluator)
            if policy is None:
                continue
            sums = [(one, self._windows.sums(app, evaluator, one.window, now)) for one in policy.by_length]
            looks = [_Look(one, estimate(found, one.z), estimate(found, Z_OVER)) for one, found in sums]
            for severity, threshold in policy.thresholds.items():
                finding = _judge(looks, threshold, app, evaluator)
                states.append(self._advance((app, evaluator, severity), threshold, finding, policy.resolve_after, now))
        return states

    def _advance(self, key: _Key, threshold: float, finding: _Finding, resolve_after: float, now: float) -> AlertState:
        """The state after a finding: hysteresis, and since when."""
        before = self._states.get(key)
        if before is not None and before.firing and finding.status is not Status.FIRING:
            # The wall clock may have been set back: then the wait begins again rather than lasting as long as the jump.
            quiet_since = min(self._quiet_since.setdefault(key, now), now)
            self._quiet_since[key] = quiet_since
            if now - quiet_since < resolve_after:
                return before
        self._quiet_since.pop(key, None)
        app, evaluator, severity = key
        state = AlertState(
            status=finding.status,
            severity=severity,
            app=app,
            evaluator=evaluator,
            threshold=threshold,
            since=now,
            window=finding.window,
            estimate=finding.estimate,
            labels={"alertname": ALERT_NAME, "app": app, "evaluator": evaluator, "severity": severity.value},
            annotations={"summary": SUMMARY, "description": finding.description, **self._runbook},
        )
        if before is not None and before.status is state.status:
            state = replace(state, since=before.since)
        self._states[key] = state
        return state


def _judge(looks: Sequence[_Look], threshold: float, app: str, evaluator: str) -> _Finding:
    """Whether a rate fires; `looks` has the shortest window first."""
    over = looks[0].likely is not None and looks[0].likely.upper < threshold
    fired = [look for look in looks if look.surely is not None and look.surely.lower > threshold]
    if fired and not over:
        return _found(Status.FIRING, fired[0], threshold, app, evaluator)
    able = [look for look in looks if _could_tell(look, threshold)]
    if able:
        return _found(Status.OK, able[0], threshold, app, evaluator)
    return _found(Status.NOT_ENOUGH_DATA, looks[-1], threshold, app, evaluator)


def _could_tell(look: _Look, threshold: float) -> bool:
    if look.likely is None:
        return False
    return look.likely.upper < threshold or look.likely.judged >= judged_to_tell(
        threshold, doubled(threshold), look.at.z
    )


def _found(status: Status, look: _Look, threshold: float, app: str, evaluator: str) -> _Finding:
    span = format_duration(look.at.window)
    limit = _percent(threshold)
    found = look.surely
    if found is None:
        return _Finding(
            status, look.at.window, None, f"No answer of {app} was judged by {evaluator} in the last {span}."
        )
    measured = (
        f"{_percent(found.rate)} of the answers of {app} in the last {span} are defective as {evaluator} sees them"
        f" (at least {_percent(found.lower)}, {found.judged} judged); the threshold is {limit}."
    )
    if status is Status.NOT_ENOUGH_DATA:
        clear = doubled(threshold)
        needed = judged_to_tell(threshold, clear, look.at.z)
        measured += f" Too few to tell: a rate of {_percent(clear)} shows from about {needed} judged on."
    return _Finding(status, look.at.window, found, measured)


def _percent(share: float) -> str:
    """Three significant digits: `0.125 %`, `4.2 %`, `15 %`."""
    return f"{share * 100:.3g} %"
