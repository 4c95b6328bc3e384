"""The part of the alerts' state that survives a restart: which fire, since when, and how long nothing has been wrong.

A state is kept as JSON in the state file. Anything else there, or a state of another version, is ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from pydantic import TypeAdapter, ValidationError

from monitor.alerts.catalogue import DIAGNOSIS
from monitor.alerts.incidents import DOWN_AFTER
from monitor.alerts.state import AlertState, AlertTracker
from monitor.stages.kept_state import StateValue

KEPT_AT_MOST: Final = 500
"""Alerts of one list that are kept, the newest. After a restart the rest fire as if for the first time."""

_STATE: Final = TypeAdapter(AlertState)
_LATEST: Final = 1e11  # seconds since 1970: anything later is not a date


def as_kept(state: AlertState) -> dict[str, object]:
    """Return a state in plain JSON types, without its diagnosis, which may name words of questions.

    Half a surrogate pair, which is not valid UTF-8, becomes a question mark.
    """
    state = replace(
        state,
        app=_written(state.app),
        evaluator=_written(state.evaluator),
        labels={name: _written(value) for name, value in state.labels.items()},
        annotations={name: _written(value) for name, value in state.annotations.items() if name != DIAGNOSIS},
    )
    made: dict[str, object] = _STATE.dump_python(state, mode="json")
    return made


def from_kept(value: object) -> AlertState | None:
    """Return the alert that fired, or None if the value is not one."""
    try:
        state = _STATE.validate_python(value)
    except ValidationError:
        return None
    ours = state.firing and state.name and 0 <= state.since < _LATEST and 0 <= (state.window or 0.0) < _LATEST
    return state if ours else None


def moment(value: object) -> float | None:
    """Return a stored timestamp (seconds since 1970), or None if it is not one."""
    return float(value) if isinstance(value, int | float) and 0 <= value < _LATEST else None


def restored(kept: StateValue | None, now: float) -> AlertTracker:
    """Return the alerts of the previous process, to continue at the wall-clock second `now`.

    After `DOWN_AFTER` seconds without a check they start over: nothing is known about that time.
    """
    tracker = AlertTracker()
    found = kept or {}
    checked, alerts = moment(found.get("checked")), found.get("alerts")
    if checked is None or abs(now - checked) > DOWN_AFTER or not isinstance(alerts, list):
        return tracker
    tracker.checked = checked
    for one in alerts:
        state = from_kept(one.get("state")) if isinstance(one, Mapping) else None
        if state is not None:
            tracker.restore(state, quiet_since=moment(one.get("quiet_since")))
    return tracker


def kept_of(tracker: AlertTracker) -> Callable[[], StateValue]:
    """Return a function that lists the tracker's firing alerts for storage. It returns {} while none fires."""

    def current() -> StateValue:
        firing = sorted(tracker.firing(), key=lambda one: one[0].since, reverse=True)[:KEPT_AT_MOST]
        if not firing:
            return {}
        alerts = [{"state": as_kept(state), "quiet_since": quiet_since} for state, quiet_since in firing]
        return {"checked": tracker.checked, "alerts": alerts}

    return current


def _written(text: str) -> str:
    return text.encode("utf-8", "replace").decode("utf-8")
