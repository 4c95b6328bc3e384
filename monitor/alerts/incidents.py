"""Turns the alerts on rates into incidents: when one begins, what happens in it, and what ends it.

Pure: the caller keeps the incidents on disk, and passes the open ones to the next process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Final

from monitor.alerts import regression
from monitor.alerts.catalogue import RATES
from monitor.alerts.policy import AlertPolicy, Severity, longest_window, policies_for
from monitor.alerts.state import AlertState, AlertStatus
from monitor.model.incident import (
    STEPS_AT_MOST,
    FiredAlert,
    Incident,
    IncidentEnd,
    IncidentStep,
    RatePeak,
    incident_id,
)
from monitor.quantities import human_duration, percent

ID_ANNOTATION: Final = "incident"
URL_ANNOTATION: Final = "incident_url"

DOWN_AFTER: Final = 600.0
"""If an incident is over at the first check after this many seconds without one, it ended during the stop."""

_SAVED_EVERY: Final = 60.0
_AT_MOST: Final = 500  # open ones
_Key = tuple[str, str, str]


class IncidentTracker:
    """The incidents that are open in this process.

    Args:
        policies: what the configuration asks for.
        page: the URL of the web UI, for links; empty: none.
        changed: called with each incident that began, gained a step or ended, and with open ones once a minute.
    """

    def __init__(
        self, policies: Sequence[AlertPolicy], *, page: str = "", changed: Callable[[Incident], None] = lambda _: None
    ) -> None:
        self._policies = tuple(policies)
        self._page = page
        self._changed = changed
        self._open: dict[_Key, Incident] = {}
        self._saved: dict[_Key, float] = {}
        self._restored: dict[_Key, float | None] = {}

    @property
    def open(self) -> tuple[Incident, ...]:
        """The open incidents, oldest first."""
        return tuple(sorted(self._open.values(), key=lambda one: (one.fired, one.id)))

    def of(self, state: AlertState) -> Incident | None:
        """Return the incident that an alert belongs to, or None."""
        return self._open.get(_rate_of(state))

    def restore(self, known: Iterable[Incident]) -> None:
        """Continue the incidents that were open when an earlier process stopped. For each rate, the newest counts."""
        for one in sorted(known, key=lambda one: one.fired):
            if one.open:
                self._open[_key(one)] = one
                self._restored[_key(one)] = None

    def advance(self, states: Sequence[AlertState], now: float) -> list[AlertState]:
        """Take the states of a check at the wall-clock second `now`; return them, the firing ones with their incident.

        Its id is the annotation `incident`, its link `incident_url`.
        """
        by_rate: dict[_Key, list[AlertState]] = {}
        for state in states:
            if state.name in RATES:
                by_rate.setdefault(_rate_of(state), []).append(state)
        for key in [key for key in self._restored if self._outlived(key, now)]:
            self._end(key, IncidentEnd.MONITOR_STOPPED, now)
        for key in [*by_rate, *(key for key in self._open if key not in by_rate)]:
            own = by_rate.get(key, [])
            firing = sorted((one for one in own if one.firing), key=lambda one: one.severity is not Severity.CRITICAL)
            if firing:
                self._fires(key, firing, now)
            elif key in self._open:
                self._quiet(key, own, now)
        return [self._linked(one) for one in states]

    def _fires(self, key: _Key, firing: Sequence[AlertState], now: float) -> None:
        found = self._open.get(key)
        if found is None and len(self._open) >= _AT_MOST:
            return
        restored = key in self._restored
        self._restored.pop(key, None)
        severity = firing[0].severity.value
        if found is None:
            one = Incident(
                id=incident_id(*key, now),
                app=key[0],
                evaluator=key[1],
                defect_rule=key[2],
                version=firing[0].labels.get("version", ""),
                fired=now,
                checked=now,
                severity=severity,
                worst=severity,
                alerts=(),
                window=firing[0].window or 0.0,
            )
            fresh, was = list(firing), severity
        else:
            known = {(alert.name, alert.severity) for alert in found.alerts}
            fresh = [state for state in firing if (state.name, state.severity.value) not in known]
            one, was = found, found.severity
            if restored and now - found.checked > DOWN_AFTER:
                stopped = f"The monitor was stopped for {human_duration(now - found.checked)}. The alert still fires."
                one = _with_steps(one, [IncidentStep(now, stopped)])
        steps = [IncidentStep(now, f"{state.name} ({state.severity.value}) fires: {_said(state)}") for state in fresh]
        if found is not None and not fresh and was != severity:
            steps.append(IncidentStep(now, f"The severity is now {severity}; it was {was}."))
        one = _with_steps(
            replace(
                one,
                checked=max(now, one.checked),
                severity=severity,
                worst=Severity.CRITICAL.value if Severity.CRITICAL.value in (severity, one.worst) else one.worst,
                alerts=_merged(one.alerts, firing),
                peak=_higher(one.peak, firing, now),
            ),
            steps,
        )
        self._keep(key, one, now, step=one.steps != (found.steps if found is not None else ()))

    def _quiet(self, key: _Key, own: Sequence[AlertState], now: float) -> None:
        one, policy = self._open[key], self._policy(key)
        end = _reconfigured(one, own, policy)
        if end is None and key in self._restored:
            began = self._restored[key]
            self._restored[key] = began = now if began is None or began > now else began
            # The alert's hold from before the restart is not over.
            if now - began < (policy.resolve_after if policy is not None else 0.0):
                return
            if began - one.checked > DOWN_AFTER:
                end = IncidentEnd.MONITOR_STOPPED
        if end is None:
            involved = [state for state in own if _involved(one, state)]
            unknown = not involved or any(state.status is AlertStatus.NOT_ENOUGH_DATA for state in involved)
            end = IncidentEnd.TOO_LITTLE_TRAFFIC if unknown else IncidentEnd.FELL_BACK
        self._end(key, end, now)

    def _policy(self, key: _Key) -> AlertPolicy | None:
        return next((one for one in policies_for(self._policies, *key[:2]) if _name_of(one) == key[2]), None)

    def _outlived(self, key: _Key, now: float) -> bool:
        """Return whether the monitor was stopped for longer than an alert looks back, so that what fires now is new.

        After its first check this process knows of no stop.
        """
        policy = self._policy(key)
        if policy is None or self._restored[key] is not None:
            return False
        return now - self._open[key].checked > longest_window((policy,)) + policy.resolve_after

    def _end(self, key: _Key, end: IncidentEnd, now: float) -> None:
        one = self._open.pop(key)
        ended = one.checked if end is IncidentEnd.MONITOR_STOPPED else max(now, one.fired)
        one = _with_steps(replace(one, ended=ended, end=end), [IncidentStep(ended, end.words)])
        self._saved.pop(key, None)
        self._restored.pop(key, None)
        self._changed(one)

    def _keep(self, key: _Key, one: Incident, now: float, *, step: bool) -> None:
        self._open[key] = one
        saved = self._saved.get(key)
        if step or saved is None or not 0 <= now - saved < _SAVED_EVERY:
            self._saved[key] = now
            self._changed(one)

    def _linked(self, state: AlertState) -> AlertState:
        one = self._open.get(_rate_of(state)) if state.firing and state.name in RATES else None
        if one is None:
            return state
        link = {URL_ANNOTATION: f"{self._page}/incidents/{one.id}"} if self._page else {}
        return replace(state, annotations={**state.annotations, ID_ANNOTATION: one.id, **link})


def _key(one: Incident) -> _Key:
    return one.app, one.evaluator, one.defect_rule


def _rate_of(state: AlertState) -> _Key:
    return state.app, state.evaluator, state.labels.get("defect_rule", "")


def _name_of(policy: AlertPolicy) -> str:
    return policy.defect.name if policy.defect is not None else ""


def _involved(one: Incident, state: AlertState) -> bool:
    return any((state.name, state.severity.value) == (alert.name, alert.severity) for alert in one.alerts)


def _reconfigured(one: Incident, own: Sequence[AlertState], policy: AlertPolicy | None) -> IncidentEnd | None:
    """Return how the configuration ended an incident, or None if it did not."""
    if policy is None:
        return IncidentEnd.ALERT_REMOVED
    if not own:
        return None
    involved = [state for state in own if _involved(one, state)]
    if not involved:
        return IncidentEnd.ALERT_REMOVED
    if any(state.labels.get("version", "") != one.version for state in involved):
        return IncidentEnd.EVALUATOR_CHANGED
    was = {(alert.name, alert.severity): alert.threshold for alert in one.alerts}
    fixed = [state for state in involved if state.name != regression.NAME]  # its threshold follows the week before
    if any(was[state.name, state.severity.value] != state.threshold for state in fixed):
        return IncidentEnd.THRESHOLD_CHANGED
    return None


def _merged(known: Sequence[FiredAlert], firing: Sequence[AlertState]) -> tuple[FiredAlert, ...]:
    found = {(one.name, one.severity): one for one in known}
    for state in firing:
        found[state.name, state.severity.value] = FiredAlert(state.name, state.severity.value, state.threshold)
    return tuple(found.values())


def _higher(peak: RatePeak | None, firing: Sequence[AlertState], now: float) -> RatePeak | None:
    for state in firing:
        found = state.estimate
        if found is not None and (peak is None or found.rate > peak.rate):
            peak = RatePeak(now, found.rate, found.lower, found.upper, found.judged, found.defects, state.window or 0.0)
    return peak


def _said(state: AlertState) -> str:
    found = state.estimate
    if found is None:
        return state.annotations.get("summary", "")
    over = f" over the last {human_duration(state.window)}" if state.window else ""
    return f"{percent(found.rate)} of the answers are bad{over}, at least {percent(found.lower)}."


def _with_steps(one: Incident, steps: Sequence[IncidentStep]) -> Incident:
    found = [*one.steps, *steps]
    if len(found) > STEPS_AT_MOST:
        first = STEPS_AT_MOST // 3
        found = [*found[:first], *found[first - STEPS_AT_MOST :]]
    return replace(one, steps=tuple(found))
