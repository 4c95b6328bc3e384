"""Spreads a budget of evaluations over the day: estimates the affordable share of cases from the traffic so far.

The pace is set by the day, with an hourly cap. A pace set by the hour would thin out each burst of traffic; its cases
would then weigh ten to a hundred times as much as others and halve the information of the sample. A cap does that only
to bursts beyond it. The pacer sees probabilities and risks, never a verdict, and a case's probability depends only on
the past and on the case itself, so rates stay unbiased. Constants were chosen by simulation over daily cycles and
bursts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final, NamedTuple

from monitor.statistics.defect_model import PRIOR_RISK
from monitor.statistics.limits import TokenBucket

CAP: Final = 4.0
"""The default hourly cap, as a multiple of the mean hour of the day."""

FLOOR: Final = 0.5
"""The part of the target share that every case keeps. Half of the budget stays spread evenly, so that a failure that
the model does not foresee still shows. This costs at most a fiftieth of the gain."""

_DAY, _BURST = 1440.0, 10.0  # time constants of the two averages of the traffic, in minutes
_FIRST_GUESS = 0.1  # the share that the budget is assumed to be at start
_FIRST_GUESS_MINUTES = 10.0  # the weight of that assumption
_RECENT = 120.0  # time constant, in minutes, of the average that plans the rest of the first day
_ROOM = 0.9  # part of the cap that a steady burst may use
_RATIO = 8.0  # between the day's share and a burst's share: beyond it, upper limits of rates fail
_RISK_FADES = 0.99  # per minute
_RISK_CASES = 50.0  # the weight of the first guess of the mean risk
_CORRECTED_EVERY = 30.0  # at least this many cases
_CORRECTION = 0.1
_CORRECTED_AT_MOST = 16.0
_KEPT = ("spent", "cases", "mean_risk", "risk_sum", "deviation_sum", "risk_cases", "scale")  # across a restart


class Paced(NamedTuple):
    """The probability of a case, the mean share of all cases at that time, and whether the cap has lowered it."""

    probability: float
    target: float
    thinned: bool


class _Average:
    """An exponentially weighted average of cases per minute. Starts with a guess that weighs some minutes."""

    def __init__(self, reach: float, guess: float, minutes: float) -> None:
        self._keeps = math.exp(-1 / reach)
        self._cases, self._minutes = guess * minutes, minutes

    def add(self, cases: float, minutes: int) -> None:
        """Add `minutes`: `cases` in the first one, and none in the rest."""
        kept = self._keeps**minutes
        self._minutes = self._minutes * kept + (1 - kept) / (1 - self._keeps)
        self._cases = self._cases * kept + cases * kept / self._keeps

    def scale(self, factor: float) -> None:
        self._cases *= factor

    def state(self) -> dict[str, float]:
        return {"cases": self._cases, "minutes": self._minutes}

    def restore(self, cases: float, minutes: float) -> None:
        self._cases, self._minutes = cases, max(minutes, 1e-9)

    @property
    def value(self) -> float:
        return max(self._cases / self._minutes, 1e-9)


class BudgetPacer:
    """Paces one evaluator's budget. `per_day` may be set at any time; `per_hour` caps the expectation of each hour.

    `now` is in seconds of a monotonic clock, as in `draw`.
    """

    def __init__(self, per_day: float, per_hour: float, now: float) -> None:
        self.per_day = per_day
        self._bucket = TokenBucket(per_hour, now)
        guess = per_day / _DAY / _FIRST_GUESS
        self._slow = _Average(_DAY, guess, _FIRST_GUESS_MINUTES)
        self._recent = _Average(_RECENT, guess, _FIRST_GUESS_MINUTES)
        self._fast = _Average(_BURST, guess, _FIRST_GUESS_MINUTES)
        self._began = self._minute = now
        self._spent = 0.0
        self._cases = 0.0
        self._mean_risk = PRIOR_RISK
        self._risk_sum, self._deviation_sum = PRIOR_RISK * _RISK_CASES, deviation(PRIOR_RISK, PRIOR_RISK) * _RISK_CASES
        self._risk_cases = _RISK_CASES
        self._scale = 1.0
        self._raw = self._wanted = self._uncorrected = 0.0
        self.target = 0.0
        self._plan()

    @property
    def per_hour(self) -> float:
        """The hourly cap."""
        return self._bucket.limit

    @per_hour.setter
    def per_hour(self, per_hour: float) -> None:
        self._bucket.limit = per_hour

    @property
    def level(self) -> float:
        """Evaluations that may be made at once now."""
        return self._bucket.level

    @property
    def size(self) -> float:
        """Evaluations that may be made at once after a quiet time: ten minutes of the cap."""
        return self._bucket.size

    def scale(self, factor: float) -> None:
        """Adapt to `factor` (above 0) times the traffic and the budget, from now on."""
        self.per_day *= factor
        self._bucket.scale(factor)
        for average in (self._slow, self._recent, self._fast):
            average.scale(factor)
        self._cases *= factor
        self._spent *= factor

    def state(self, now: float) -> dict[str, float]:
        """Return the state for `restore`, as numbers by name."""
        self._pass_time(now)
        averages = {f"{name}_{part}": value for name, one in self._averages() for part, value in one.state().items()}
        return {**averages, **{name: getattr(self, f"_{name}") for name in _KEPT}, "age": now - self._began,
                "level": self._bucket.level}  # fmt: skip

    def restore(self, state: Mapping[str, object], now: float, away: float, factor: float = 1.0) -> None:
        """Continue from the `state` of a process that ended `away` seconds ago; ignore it if it is not a valid state.

        The bucket has filled in the meantime. The traffic is assumed to be `factor` times what it was then.
        """
        found = {name: float(value) for name, value in state.items() if isinstance(value, int | float)}
        names = {f"{name}_{part}" for name, one in self._averages() for part in one.state()} | {*_KEPT, "age", "level"}
        if not names <= found.keys() or not all(math.isfinite(found[one]) and found[one] >= 0 for one in names):
            return
        for name, one in self._averages():
            one.restore(found[f"{name}_cases"], found[f"{name}_minutes"])
            one.scale(factor)
        for name in _KEPT:
            setattr(self, f"_{name}", found[name])
        self._scale = min(max(self._scale, 1 / _CORRECTED_AT_MOST), _CORRECTED_AT_MOST)
        self._risk_cases = max(self._risk_cases, 1.0)
        self._cases *= factor
        self._spent *= factor
        self._began = now - found["age"] - away
        self._bucket.restore(found["level"] * factor, now, away)
        self._plan()

    def _averages(self) -> tuple[tuple[str, _Average], ...]:
        return ("slow", self._slow), ("recent", self._recent), ("fast", self._fast)

    def draw(self, risk: float | None, now: float, part: float = 1.0) -> Paced:
        """Return the probability, above 0, of the case that has arrived.

        `risk` is its probability of a defect, None if unknown. `part`, above 0 to 1, is the part of the probability
        that the caller will use; the budget counts the case accordingly.
        """
        self._pass_time(now)
        self._cases += part
        target = self.target
        wanted = target if risk is None else self._boosted(risk, target, part)
        room = self._bucket.room
        probability = wanted * room
        self._bucket.take(probability * part)
        self._spent += probability * part
        return Paced(probability, target, room < 1)

    def _boosted(self, risk: float, target: float, part: float) -> float:
        one = deviation(risk, self._mean_risk)
        mean = self._deviation_sum / self._risk_cases
        self._risk_sum += part * risk
        self._deviation_sum += part * one
        self._risk_cases += part
        if target >= 1:
            return 1.0
        wanted = self._scale * target * one / mean
        wanted = min(max(wanted, target * FLOOR), 1.0)
        self._raw += part * wanted
        self._wanted += part * target
        self._uncorrected += part
        return wanted

    def _pass_time(self, now: float) -> None:
        self._bucket.refill(now)
        minutes = int((now - self._minute) // 60)
        if minutes < 1:
            return
        self._minute += 60.0 * minutes
        for average in (self._slow, self._recent, self._fast):
            average.add(self._cases, minutes)
        self._cases = 0.0
        kept = _RISK_FADES**minutes
        self._mean_risk = self._risk_sum / self._risk_cases
        # Not below the weight of the first guess: after a quiet night the mean must not depend on one case.
        kept = max(kept, min(1.0, _RISK_CASES / self._risk_cases))
        self._risk_sum, self._deviation_sum, self._risk_cases = (
            kept * one for one in (self._risk_sum, self._deviation_sum, self._risk_cases)
        )
        if self._uncorrected >= _CORRECTED_EVERY:
            # Floor and ceiling move the mean away from the target; this corrects it.
            scale = self._scale * (self._wanted / self._raw) ** _CORRECTION
            self._scale = min(max(scale, 1 / _CORRECTED_AT_MOST), _CORRECTED_AT_MOST)
            self._raw = self._wanted = self._uncorrected = 0.0
        self._plan()

    def _plan(self) -> None:
        of_the_day = self.per_day / _DAY / self._slow.value
        of_a_burst = max(_ROOM * self.per_hour / 60 / self._fast.value, of_the_day / _RATIO)
        self.target = min(1.0, of_the_day, of_a_burst, self._of_the_first_day(of_the_day))

    def _of_the_first_day(self, of_the_day: float) -> float:
        """Return the share that the rest of the first day's budget allows at the present traffic; at least half.

        The mean of a day is unknown until one has passed. After a start in a quiet hour, the share would be too large
        for the busy hours, and the day's budget overspent by up to a third.
        """
        left = _DAY - (self._minute - self._began) / 60
        if left <= 0:
            return of_the_day
        busy = max(self._slow.value, self._recent.value)
        return max((self.per_day - self._spent) / left / busy, of_the_day * FLOOR)


def deviation(risk: float, mean: float) -> float:
    """Return what a case of this risk adds to the rate's variance, as a standard deviation: sqrt(E[(defect - mean)^2]).

    Sampling in proportion to it is optimal for the ratio of two weighted sums. sqrt(risk (1 - risk)), optimal for a
    sum, would leave out certain defects, and from rates of about 30 % on it is worse than an even draw.
    """
    return math.sqrt(max(risk * (1 - 2 * mean) + mean * mean, 1e-12))
