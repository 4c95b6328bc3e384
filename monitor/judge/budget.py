"""What judging may cost: reserved before a call by estimate, settled after at its real price. And the pace of calls."""

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

_HOUR, _DAY = 3600.0, 86_400.0


@dataclass(slots=True)
class _Cap:
    """One limit in one period: `limit` is the part of `of_group` that is this process's now."""

    name: str
    of_group: float
    period: float
    limit: float = 0.0
    share: float = 1.0
    index: int = -1
    used: float = 0.0
    told: bool = False

    def turn(self, now: float, share: float) -> None:
        index = int(now // self.period)
        if index > self.index:
            self.index, self.used, self.told = index, 0.0, False
            self.limit, self.share = self.of_group * share, share
        elif share != self.share:
            # What the group has left is what this process has left, by its share: all have spent alike.
            self.limit = self.used + max(self.limit - self.used, 0.0) * share / self.share
            self.share = share


@dataclass(frozen=True, slots=True)
class Reservation:
    """Money and judgements set aside for one call, each with the period it was taken from."""

    amount: float
    taken: tuple[tuple[_Cap, int], ...]


class Purse:
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
                cap.used += amount - reservation.amount

    def _reserve(self, caps: tuple[_Cap, ...], amount: float) -> Reservation:
        now = self._clock.monotonic() + self._offset
        for cap in caps:
            cap.turn(now, self._group.of_budget)
            if cap.used + amount > cap.limit * (1 + 1e-12):
                until = dt.datetime.fromtimestamp((cap.index + 1) * cap.period, dt.UTC)
                if not cap.told:
                    cap.told = True
                    self._spent(cap.name, f"{until:%Y-%m-%d %H:%M} UTC")
                raise JudgeError(UnscoredReason.BUDGET, f"{cap.name} ({cap.limit:g}) is spent until {until:%H:%M} UTC")
        for cap in caps:
            cap.used += amount
        return Reservation(amount, tuple((cap, cap.index) for cap in caps))


class Pacer:
    """Spreads calls evenly: at most so many a minute, of which this process makes its share."""

    def __init__(self, per_minute: float | None, clock: Clock, group: Share | None = None) -> None:
        self._every = 60.0 / per_minute if per_minute else 0.0
        self._clock = clock
        self._group = group if group is not None else Share()
        self._next = -math.inf

    def turn(self) -> float:
        """Take the next free place; seconds to wait for it, >= 0."""
        now = self._clock.monotonic()
        mine = max(self._next, now)
        self._next = mine + self._every / self._group.of_budget
        return mine - now


def estimate_tokens(texts: Iterable[str]) -> int:
    """Tokens of a prompt, rather too many than too few: four ASCII characters, or one other character, a token."""
    total = 0.0
    for text in texts:
        ascii_only = len(text.encode("ascii", "ignore"))
        total += ascii_only / 4 + (len(text) - ascii_only)
    return math.ceil(total)


def _caps(*limits: tuple[str, float | None, float]) -> tuple[_Cap, ...]:
    return tuple(_Cap(name, limit, period) for name, limit, period in limits if limit is not None)
