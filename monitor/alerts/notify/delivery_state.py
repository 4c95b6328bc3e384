"""Tracks what one receiver knows, and what must still be sent. No I/O, no clock.

It compares the current state with what was sent, rather than queueing events: a receiver that was down for an hour
learns the current state once, and memory is bounded by the number of alerts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from monitor.alerts.catalogue import DIAGNOSIS, held_back
from monitor.alerts.kept import KEPT_AT_MOST, as_kept, from_kept, moment
from monitor.alerts.policy import Severity
from monitor.alerts.state import AlertState


@dataclass(frozen=True, slots=True)
class Notice:
    """One notification: `state`, as it last fired, either fires or was resolved at the wall-clock second `ended`.

    `late`: the receiver was already told that it fires, and now gets its diagnosis.
    """

    state: AlertState
    ended: float | None = None
    late: bool = False


_Key = tuple[str, str, str, str, Severity]


@dataclass(slots=True)
class _StoredAlert:
    state: AlertState
    ended: float | None = None
    announced: bool = False  # as firing; no resolution can have arrived since then
    trying: bool = False  # a delivery that changes what the receiver knows is in progress, or its outcome is unknown
    perhaps: bool = False  # the last delivery was not confirmed, but may have arrived
    announced_at: float = 0.0  # monotonic; if none was confirmed, of the latest delivery that may have arrived
    told_at: float = 0.0  # the same on the wall clock
    diagnosed: bool = False  # it was announced with its diagnosis, or was sent it later
    kept: Mapping[str, object] | None = None  # what was first announced, in plain JSON types

    @property
    def known(self) -> bool:
        """Whether the receiver knows, or may know, that it fires: then it must also be sent the resolution."""
        return self.announced or self.trying or self.perhaps


class DeliveryState:
    """What one receiver knows. Times are monotonic seconds, except `ended` and `wall`.

    A firing alert is sent again after `resend` seconds, because the receiver forgets it; None: sent once. After
    `forgets_after` seconds without a notification the receiver ends it by itself, so its resolution is not sent; None:
    never. `inhibits`: hold an alert back while another one that explains it fires (`catalogue.held_back`).
    `late_diagnosis`: send, once, a diagnosis that was not ready when its alert was sent.
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
        """Take over what the receiver knows from the state before a reload, which is not changed."""
        self._entries = {
            key: replace(
                entry,
                announced=entry.announced and not entry.trying,
                perhaps=entry.perhaps or entry.trying,
                trying=False,
            )
            for key, entry in before._entries.items()
        }

    def restore(self, kept: object, now: float, wall: float) -> None:
        """Take over what `kept` returned in the previous process; ignore what cannot be read.

        A receiver that forgets is sent all firing alerts again at once: the restart may have outlasted its memory.
        """
        for one in kept if isinstance(kept, list) else ():
            found = one if isinstance(one, Mapping) else {}
            state, told_at = from_kept(found.get("alert")), moment(found.get("told_at"))
            if state is None or told_at is None:
                continue
            sure = found.get("announced") is True and self._resend is None
            self._entries[_key(state)] = _StoredAlert(
                state,
                ended=moment(found.get("ended")),
                announced=sure,
                perhaps=not sure,
                announced_at=now - max(wall - told_at, 0.0),
                told_at=told_at,
                diagnosed=found.get("diagnosed") is True,
                kept=as_kept(state),
            )

    def kept(self) -> list[dict[str, object]]:
        """Return what the receiver knows, in plain JSON types, at most `KEPT_AT_MOST` alerts. It rarely changes."""
        known = sorted((one for one in self._entries.values() if one.known), key=lambda one: -one.told_at)
        return [
            {
                "alert": one.kept,
                "announced": one.announced and not one.trying,
                "told_at": one.told_at,
                "diagnosed": one.diagnosed,
                **({"ended": one.ended} if one.ended is not None else {}),
            }
            for one in known[:KEPT_AT_MOST]
        ]

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
            elif not entry.known:
                superseded += key not in self._held_back
                del self._entries[key]
            elif self._forgets_after is not None and now - entry.announced_at >= self._forgets_after:
                superseded += 1
                del self._entries[key]
            elif entry.ended is None:
                entry.ended = max(wall, entry.state.since)
        for key, state in firing.items():
            entry = self._entries.setdefault(key, _StoredAlert(state))
            # For the receiver it began when it was first announced, even if that was before a long stop.
            since = min(state.since, entry.state.since) if entry.known else state.since
            entry.state, entry.ended = replace(state, since=since), None
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

    def sending(self, notices: Sequence[Notice], now: float, wall: float) -> None:
        """Note that these notifications are being delivered. Until `sent` or `refused` they may have arrived."""
        for entry, notice in self._of(notices):
            entry.trying = notice.ended is not None or not entry.announced
            if entry.trying and notice.ended is None:
                entry.announced_at, entry.told_at = now, wall
                entry.kept = as_kept(notice.state)

    def refused(self, notices: Sequence[Notice], *, perhaps: bool) -> None:
        """Record that these notifications were not accepted. `perhaps`: they may have arrived all the same."""
        for entry, _ in self._of(notices):
            if entry.trying and perhaps:
                entry.announced, entry.perhaps = False, True
            entry.trying = False

    def sent(self, notices: Sequence[Notice], now: float, wall: float) -> None:
        """Record that the receiver accepted these notifications, which were due since the last `update`."""
        for entry, notice in self._of(notices):
            if notice.ended is None:
                entry.announced, entry.trying, entry.perhaps = True, False, False
                entry.announced_at = now
                if self._forgets_after is not None:
                    entry.told_at = wall
                entry.diagnosed |= DIAGNOSIS in notice.state.annotations
            else:
                del self._entries[_key(notice.state)]

    def _of(self, notices: Sequence[Notice]) -> list[tuple[_StoredAlert, Notice]]:
        found = ((self._entries.get(_key(notice.state)), notice) for notice in notices)
        return [(entry, notice) for entry, notice in found if entry is not None]

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
        """Return whether the receiver was told about an alert but not about its diagnosis, although one exists."""
        known = entry.diagnosed or not entry.announced
        return self._late_diagnosis and not known and DIAGNOSIS in entry.state.annotations


def _key(state: AlertState) -> _Key:
    return state.name, state.app, state.evaluator, state.labels.get("defect_rule", ""), state.severity
