"""What judging may cost: reserved before a call by estimate, settled after at its real price."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from monitor.clock import Clock
from monitor.errors import JudgeError
from monitor.judge.settings import Budget
from monitor.model.outcome import UnscoredReason
from monitor.share import Share
from monitor.statistics.limits import CalendarCap

_HOUR, _DAY = 3600.0, 86_400.0


@dataclass(slots=True)
class _Cap:
    name: str
    cap: CalendarCap
    told: int = -1
    """The last period in which it was said that nothing is left."""


@dataclass(frozen=True, slots=True)
class Reservation:
    """Money and judgements set aside for one call, each with the period it was taken from."""

    amount: float
    taken: tuple[tuple[CalendarCap, int], ...]


class BudgetTracker:
    """The caps of a budget. Knows nothing of calls: it gives out reservations and takes them back.

    Periods are calendar hours and days (UTC) as the wall clock stood at the start; a later jump of it neither opens a
    new period nor repeats one.

    Args:
        budget: the caps, of all replicas together.
        clock: time.
        group: which part of them is this process's; as it changes, so does the part of what is left of a period.
        spent: called once a period for each cap that was reached, with its name and when it opens again, in words.
    """

    def __init__(
        self,
        budget: Budget,
        clock: Clock,
        spent: Callable[[str, str], None] = lambda _cap, _until: None,
        group: Share | None = None,
    ) -> None:
        self._clock = clock
        self._group = group if group is not None else Share()
        self._offset = clock.now() - clock.monotonic()
        self._spent = spent
        self._money = _caps(
            ("dollars_per_hour", budget.dollars_per_hour, _HOUR), ("dollars_per_day", budget.dollars_per_day, _DAY)
        )
        self._judgements = _caps(("evaluations_per_day", budget.evaluations_per_day, _DAY))

    def reserve_dollars(self, dollars: float) -> Reservation:
        """Set `dollars` aside for a call. Raises `JudgeError(budget)` where it does not fit any more."""
        return self._reserve(self._money, dollars)

    def reserve_judgement(self) -> Reservation:
        """Set one judgement aside. Raises `JudgeError(budget)` where it does not fit any more."""
        return self._reserve(self._judgements, 1.0)

    def settle(self, reservation: Reservation, amount: float) -> None:
        """The call took place and `amount` is what it really took; 0 gives everything back."""
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
    """Tokens of a prompt, rather too many than too few: four ASCII characters, or one other character, a token."""
    total = 0.0
    for text in texts:
        ascii_only = len(text.encode("ascii", "ignore"))
        total += ascii_only / 4 + (len(text) - ascii_only)
    return math.ceil(total)


def _caps(*limits: tuple[str, float | None, float]) -> tuple[_Cap, ...]:
    return tuple(_Cap(name, CalendarCap(limit, period)) for name, limit, period in limits if limit is not None)
