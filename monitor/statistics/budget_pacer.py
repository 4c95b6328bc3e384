"""A budget of judgements spread over the day: from the traffic so far, the share of it that can be judged.

Paced by the day and capped by the hour. Pacing by the hour would thin out a burst of traffic, whose cases then weigh
ten to a hundred times the others and halve what the sample tells; a cap alone does that only to bursts beyond it. The
pacer sees probabilities and risks, never a verdict, and a case's probability rests on the past and on the case itself:
so rates stay unbiased. Constants by simulation over daily cycles and bursts.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

from monitor.statistics.defect_model import PRIOR_RATE
from monitor.statistics.limits import TokenBucket

CAP: Final = 4.0
"""The default cap of an hour, as a multiple of the day's mean hour."""

FLOOR: Final = 0.5
"""The part of the target share that every case keeps: half of the budget stays spread evenly, so that a failure which
no model sees still shows. No more than a fiftieth of the gain is lost by it."""

_DAY, _BURST = 1440.0, 10.0  # minutes that the two averages of the traffic reach back
_FIRST_GUESS = 0.1  # the share that the budget is taken for at start
_FIRST_GUESS_MINUTES = 10.0  # that it counts for
_RECENT = 120.0  # minutes that the average of the traffic reaches back by which the first day's rest is planned
_ROOM = 0.9  # of the cap that a steady burst may use
_RATIO = 8.0  # between the share of the day and that of a burst: beyond it, upper limits of rates begin to fail
_RISK_FADES = 0.99  # a minute
_RISK_CASES = 50.0  # that the first guess of the mean risk stands for
_CORRECTED_EVERY = 30.0  # cases at least
_CORRECTION = 0.1
_CORRECTED_AT_MOST = 16.0


class Paced(NamedTuple):
    """The probability of a case; the share that all cases had then, on average; whether the cap has lowered it."""

    probability: float
    target: float
    thinned: bool


class _Average:
    """Cases a minute, fading; begins with a guess that counts for some minutes."""

    def __init__(self, reach: float, guess: float, minutes: float) -> None:
        self._keeps = math.exp(-1 / reach)
        self._cases, self._minutes = guess * minutes, minutes

    def add(self, cases: float, minutes: int) -> None:
        """`cases` came in the first of these minutes, none in the others."""
        kept = self._keeps**minutes
        self._minutes = self._minutes * kept + (1 - kept) / (1 - self._keeps)
        self._cases = self._cases * kept + cases * kept / self._keeps

    def scale(self, factor: float) -> None:
        self._cases *= factor

    @property
    def value(self) -> float:
        return max(self._cases / self._minutes, 1e-9)


class BudgetPacer:
    """One evaluator's budget. `per_day` may be set anew at any time; `per_hour` caps the expectation of an hour.

    Args:
        now: seconds of a monotonic clock, as in `draw`.
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
        self._mean_risk = PRIOR_RATE
        self._risk_sum, self._deviation_sum = PRIOR_RATE * _RISK_CASES, deviation(PRIOR_RATE, PRIOR_RATE) * _RISK_CASES
        self._risk_cases = _RISK_CASES
        self._scale = 1.0
        self._raw = self._wanted = self._uncorrected = 0.0
        self.target = 0.0
        self._plan()

    @property
    def per_hour(self) -> float:
        """The cap of an hour."""
        return self._bucket.limit

    @per_hour.setter
    def per_hour(self, per_hour: float) -> None:
        self._bucket.limit = per_hour

    @property
    def level(self) -> float:
        """How many judgements may be made at once now."""
        return self._bucket.level

    @property
    def size(self) -> float:
        """How many judgements may be made at once, after a quiet time: ten minutes of the cap."""
        return self._bucket.size

    def scale(self, factor: float) -> None:
        """From now on this process sees `factor` (above 0) times the traffic, and has as many times the budget."""
        self.per_day *= factor
        self._bucket.scale(factor)
        for average in (self._slow, self._recent, self._fast):
            average.scale(factor)
        self._cases *= factor
        self._spent *= factor

    def draw(self, risk: float | None, now: float, trust: float = 1.0, part: float = 1.0) -> Paced:
        """The probability, above 0, of the case that has come.

        `risk` is that of a defect, None where it is unknown; `trust`, 0 to 1, how much of it is gone by. `part`, above
        0 to 1, is how much of the probability will be used: the case is so much of a case to the budget.
        """
        self._pass_time(now)
        self._cases += part
        target = self.target
        wanted = target if risk is None else self._boosted(risk, trust, target, part)
        room = self._bucket.room
        probability = wanted * room
        self._bucket.take(probability * part)
        self._spent += probability * part
        return Paced(probability, target, room < 1)

    def _boosted(self, risk: float, trust: float, target: float, part: float) -> float:
        one = deviation(risk, self._mean_risk)
        mean = self._deviation_sum / self._risk_cases
        self._risk_sum += part * risk
        self._deviation_sum += part * one
        self._risk_cases += part
        if target >= 1:
            return 1.0
        wanted = self._scale * target * (trust * one / mean + 1 - trust)
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
        # Down to what the first guess counted for, no further: a quiet night must not leave the mean to one case.
        kept = max(kept, min(1.0, _RISK_CASES / self._risk_cases))
        self._risk_sum, self._deviation_sum, self._risk_cases = (
            kept * one for one in (self._risk_sum, self._deviation_sum, self._risk_cases)
        )
        if self._uncorrected >= _CORRECTED_EVERY:
            # Floor and ceiling move the mean off the target; this brings it back.
            scale = self._scale * (self._wanted / self._raw) ** _CORRECTION
            self._scale = min(max(scale, 1 / _CORRECTED_AT_MOST), _CORRECTED_AT_MOST)
            self._raw = self._wanted = self._uncorrected = 0.0
        self._plan()

    def _plan(self) -> None:
        of_the_day = self.per_day / _DAY / self._slow.value
        of_a_burst = max(_ROOM * self.per_hour / 60 / self._fast.value, of_the_day / _RATIO)
        self.target = min(1.0, of_the_day, of_a_burst, self._of_the_first_day(of_the_day))

    def _of_the_first_day(self, of_the_day: float) -> float:
        """What is left of the first day's budget, if the traffic stays as busy as it is; half of the share at least.

        Until a day has been seen its mean is not known: begun in a quiet hour, the share would be too large when the
        busy ones come, and the day's budget overspent by up to a third.
        """
        left = _DAY - (self._minute - self._began) / 60
        if left <= 0:
            return of_the_day
        busy = max(self._slow.value, self._recent.value)
        return max((self.per_day - self._spent) / left / busy, of_the_day * FLOOR)


def deviation(risk: float, mean: float) -> float:
    """What a case of this risk adds to the variance of the rate, as a standard deviation: sqrt(E[(defect - mean)^2]).

    The share that is best for the ratio of two weighted sums. sqrt(risk (1 - risk)), which is best for a sum, would
    leave out certain defects, and be worse than an even draw from rates of some 30 % on.
    """
    return math.sqrt(max(risk * (1 - 2 * mean) + mean * mean, 1e-12))
