"""What evaluations may cost: the estimate is reserved before a call and settled at the real price after it."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from monitor.clock import Clock
from monitor.errors import JudgeError
from monitor.judge.settings import Budget
from monitor.model.outcome import UnscoredReason
from monitor.stages.replica_share import ReplicaShare
from monitor.statistics.limits import CalendarCap

_HOUR, _DAY = 3600.0, 86_400.0


@dataclass(slots=True)
class _Cap:
    name: str
    cap: CalendarCap
    told: int = -1
    """The last period in which reaching the cap was reported."""


@dataclass(frozen=True, slots=True)
class Reservation:
    """An amount set aside, with the period of each cap that it was taken from."""

    amount: float
    taken: tuple[tuple[CalendarCap, int], ...]


class BudgetTracker:
    """Enforces the caps of a budget. Knows nothing about calls: it hands out reservations and settles them.

    Periods are calendar hours and days (UTC), counted from the wall clock at start: if the clock jumps later, no period
    is skipped or repeated.

    Args:
        budget: the caps for all replicas together.
        clock: the clock to read.
        group: this process's share of the caps. When it changes, so does its share of what is left of the period.
        spent: called once per period for each cap that is reached, with its name and the time it resets, as text.
    """

    def __init__(
        self,
        budget: Budget,
        clock: Clock,
        spent: Callable[[str, str], None] = lambda _cap, _until: None,
        group: ReplicaShare | None = None,
    ) -> None:
        self._clock = clock
        self._group = group if group is not None else ReplicaShare()
        self._offset = clock.now() - clock.monotonic()
        self._spent = spent
        self._money = _caps(
            ("dollars_per_hour", budget.dollars_per_hour, _HOUR), ("dollars_per_day", budget.dollars_per_day, _DAY)
        )
        self._judgements = _caps(("evaluations_per_day", budget.evaluations_per_day, _DAY))

    def reserve_dollars(self, dollars: float) -> Reservation:
        """Reserve `dollars` for a call. Raises `JudgeError(budget)` if they no longer fit."""
        return self._reserve(self._money, dollars)

    def reserve_judgement(self) -> Reservation:
        """Reserve one evaluation. Raises `JudgeError(budget)` if it no longer fits."""
        return self._reserve(self._judgements, 1.0)

    def settle(self, reservation: Reservation, amount: float) -> None:
        """Replace a reservation by the real `amount`; 0 gives all of it back."""
        for cap, index in reservation.taken:
            if cap.index == index:
                cap.use(amount - reservation.amount)

    def _reserve(self, caps: tuple[_Cap, ...], amount: float) -> Reservation:
        now = self._clock.monotonic() + self._offset
        for one in caps:
            cap = one.cap
            cap.turn(now, self._group.of_budget)
            if not cap.fits(amount):
                until = dt.datetime.fromtimestamp(cap.ends, dt.UTC)
                if one.told != cap.index:
                    one.told = cap.index
                    self._spent(one.name, f"{until:%Y-%m-%d %H:%M} UTC")
                raise JudgeError(UnscoredReason.BUDGET, f"{one.name} ({cap.limit:g}) is spent until {until:%H:%M} UTC")
        for one in caps:
            one.cap.use(amount)
        return Reservation(amount, tuple((one.cap, one.cap.index) for one in caps))


def estimate_tokens(texts: Iterable[str]) -> int:
    """Estimate the tokens of a prompt, on the high side: a token for four ASCII characters or one other character."""
    total = 0.0
    for text in texts:
        ascii_only = len(text.encode("ascii", "ignore"))
        total += ascii_only / 4 + (len(text) - ascii_only)
    return math.ceil(total)


def _caps(*limits: tuple[str, float | None, float]) -> tuple[_Cap, ...]:
    return tuple(_Cap(name, CalendarCap(limit, period)) for name, limit, period in limits if limit is not None)
