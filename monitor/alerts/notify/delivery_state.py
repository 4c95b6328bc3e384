"""Tracks what one receiver knows, and what must still be sent. No I/O, no clock.

It compares the current state with what was sent, rather than queueing events: a receiver that was down for an hour
learns the current state once, and memory is bounded by the number of alerts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from monitor.alerts.catalogue import DIAGNOSIS, held_back
from monitor.alerts.policy import Severity
from monitor.alerts.state import AlertState


@dataclass(frozen=True, slots=True)
class Notice:
    """One notification: `state`, as it last fired, fires or was resolved at the wall-clock second `ended`.

    `late`: the receiver knows that it fires, and now gets its diagnosis.
    """

    state: AlertState
    ended: float | None = None
    late: bool = False


_Key = tuple[str, str, str, str, Severity]


@dataclass(slots=True)
class _StoredAlert:
    state: AlertState
    ended: float | None = None
    announced: bool = False  # that it fires
    announced_at: float = 0.0
    diagnosed: bool = False  # it was announced with its diagnosis, or was sent it later


class DeliveryState:
    """What one receiver knows. Times are monotonic seconds, except `ended` and `wall`.

    A firing alert is sent again after `resend` seconds, because the receiver forgets it; None: sent once. After
    `forgets_after` seconds without a notification the receiver ends it by itself, so its resolution is not sent; None:
    never. `inhibits`: hold an alert back while another one that explains it fires (`inhibition.py`). `late_diagnosis`:
    send an alert's diagnosis that was not ready when the alert was sent, once.
    """

    def __init__(
        self,
        *,
        resend: float | None = None,
        forgets_after: float | None = None,
        inhibits: bool = True,
        late_diagnosis: bool = False,
    ) -> None:
        self._resend = resend
        self._forgets_after = forgets_after
        self._inhibits = inhibits
        self._late_diagnosis = late_diagnosis
        self._entries: dict[_Key, _StoredAlert] = {}
        self._held_back: frozenset[_Key] = frozenset()

    def resume(self, before: DeliveryState) -> None:
        """Take over what the receiver knows from the state that was kept until a reload, which stays as it is."""
        self._entries = {key: replace(entry) for key, entry in before._entries.items()}

    def update(self, states: Iterable[AlertState], now: float, wall: float) -> int:
        """Take the current states at `now`, which is `wall` on the wall clock.

        Returns how many changes no longer need to be sent: alerts that ended before they were sent, and resolutions
        overtaken by the same alert or by the receiver forgetting it.
        """
        firing = {_key(state): state for state in states if state.firing}
        superseded = 0
        for key, entry in list(self._entries.items()):
            if key in firing:
                superseded += entry.ended is not None
            elif not entry.announced:
                superseded += key not in self._held_back
                del self._entries[key]
            elif entry.ended is None:
                entry.ended = max(wall, entry.state.since)
            elif self._forgets_after is not None and now - entry.announced_at >= self._forgets_after:
                superseded += 1
                del self._entries[key]
        for key, state in firing.items():
            entry = self._entries.setdefault(key, _StoredAlert(state))
            entry.state, entry.ended = state, None
        if self._inhibits:
            self._held_back = frozenset(_key(state) for state in held_back(list(firing.values())))
        return superseded

    def due(self, now: float) -> list[Notice]:
        """Return the notifications to send at `now`, resolutions first."""
        due = [
            Notice(entry.state, entry.ended, late=entry.ended is None and self._lacks_diagnosis(entry))
            for entry in self._entries.values()
            if self._due_at(entry) <= now
        ]
        return sorted(due, key=lambda notice: notice.ended is None)

    def sent(self, notices: Sequence[Notice], now: float) -> None:
        """Record that the receiver accepted these notifications, which were due since the last `update`."""
        for notice in notices:
            key = _key(notice.state)
            entry = self._entries.get(key)
            if entry is None:
                continue
            if notice.ended is None:
                entry.announced, entry.announced_at = True, now
                entry.diagnosed |= DIAGNOSIS in notice.state.annotations
            else:
                del self._entries[key]

    def next_due(self) -> float:
        """Return when something must be sent again if nothing changes; infinity if nothing must."""
        return min((self._due_at(entry) for entry in self._entries.values()), default=float("inf"))

    def _due_at(self, entry: _StoredAlert) -> float:
        if entry.ended is not None:
            return 0.0
        if not entry.announced:
            return float("inf") if _key(entry.state) in self._held_back else 0.0
        if self._lacks_diagnosis(entry) and _key(entry.state) not in self._held_back:
            return 0.0
        return entry.announced_at + self._resend if self._resend is not None else float("inf")

    def _lacks_diagnosis(self, entry: _StoredAlert) -> bool:
        """Return whether the receiver knows of an alert and not of its diagnosis, which there is."""
        known = entry.diagnosed or not entry.announced
        return self._late_diagnosis and not known and DIAGNOSIS in entry.state.annotations


def _key(state: AlertState) -> _Key:
    return state.name, state.app, state.evaluator, state.labels.get("defect_rule", ""), state.severity
