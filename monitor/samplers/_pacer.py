"""A budget of judgements spread over the day: from the traffic so far, the share of it that can be judged.

Paced by the day and capped by the hour. Pacing by the hour would thin out a burst of traffic, whose cases then weigh
ten to a hundred times the others and halve what the sample tells; a cap alone does that only to bursts beyond it. The
pacer sees probabilities and risks, never a verdict, and a case's probability rests on the past and on the case itself:
so rates stay unbiased. Constants by simulation over daily cycles and bursts.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

from monitor.samplers._learner import PRIOR_RATE

CAP: Final = 4.0
"""The default cap of an hour, as a multiple of the day's mean hour."""

FLOOR: Final = 0.5
"""The part of the target share that every case keeps: half of the budget stays spread evenly, so that a failure which
no model sees still shows. No more than a fiftieth of the gain is lost by it."""

_DAY, _BURST = 1440.0, 10.0  # minutes that the two averages of the traffic reach back
_FIRST_GUESS = 0.1  # the share that the budget is taken for at start
_FIRST_GUESS_MINUTES = 10.0  # that it counts for
_BUCKET_HOURS = 1 / 6
_ROOM = 0.9  # of the cap that a steady burst may use
_RATIO = 8.0  # between the share of the day and that of a burst: beyond it, upper limits of rates begin to fail
_THINNEST = 0.001
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

    @property
    def value(self) -> float:
        return max(self._cases / self._minutes, 1e-9)


class Pacer:
    """One evaluator's budget. `per_day` may be set anew at any time; `per_hour` caps the expectation of an hour.

    Args:
        now: seconds of a monotonic clock, as in `draw`.
    """

    def __init__(self, per_day: float, per_hour: float, now: float) -> None:
        self.per_day, self.per_hour = per_day, per_hour
        guess = per_day / _DAY / _FIRST_GUESS
        self._slow = _Average(_DAY, guess, _FIRST_GUESS_MINUTES)
        self._fast = _Average(_BURST, guess, _FIRST_GUESS_MINUTES)
        self._minute = now
        self._refilled = now
        self.level = self.size / 2
        self._cases = 0
        self._mean_risk = PRIOR_RATE
        self._risk_sum, self._deviation_sum = PRIOR_RATE * _RISK_CASES, deviation(PRIOR_RATE, PRIOR_RATE) * _RISK_CASES
        self._risk_cases = _RISK_CASES
        self._scale = 1.0
        self._raw = self._wanted = self._uncorrected = 0.0
        self.target = 0.0
        self._plan()

    @property
    def size(self) -> float:
        """How many judgements may be made at once, after a quiet time: ten minutes of the cap."""
        return self.per_hour * _BUCKET_HOURS

    def draw(self, risk: float | None, now: float, trust: float = 1.0) -> Paced:
        """The probability, above 0, of the case that has come.

        `risk` is that of a defect, None where it is unknown; `trust`, 0 to 1, how much of it is gone by.
        """
        self._pass_time(now)
        self._cases += 1
        target = self.target
        wanted = target if risk is None else self._boosted(risk, trust, target)
        room = max(min(1.0, self.level / (self.size / 2)), _THINNEST)
        probability = wanted * room
        self.level = max(self.level - probability, 0.0)
        return Paced(probability, target, room < 1)

    def _boosted(self, risk: float, trust: float, target: float) -> float:
        one = deviation(risk, self._mean_risk)
        mean = self._deviation_sum / self._risk_cases
        self._risk_sum += risk
        self._deviation_sum += one
        self._risk_cases += 1
        if target >= 1:
            return 1.0
        wanted = self._scale * target * (trust * one / mean + 1 - trust)
        wanted = min(max(wanted, target * FLOOR), 1.0)
        self._raw += wanted
        self._wanted += target
        self._uncorrected += 1
        return wanted

    def _pass_time(self, now: float) -> None:
        self.level = min(self.level + self.per_hour * max(now - self._refilled, 0.0) / 3600, self.size)
        self._refilled = now
        minutes = int((now - self._minute) // 60)
        if minutes < 1:
            return
        self._minute += 60.0 * minutes
        self._slow.add(self._cases, minutes)
        self._fast.add(self._cases, minutes)
        self._cases = 0
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
        self.target = min(1.0, of_the_day, of_a_burst)


def deviation(risk: float, mean: float) -> float:
    """What a case of this risk adds to the variance of the rate, as a standard deviation: sqrt(E[(defect - mean)^2]).

    The share that is best for the ratio of two weighted sums. sqrt(risk (1 - risk)), which is best for a sum, would
    leave out certain defects, and be worse than an even draw from rates of some 30 % on.
    """
    return math.sqrt(max(risk * (1 - 2 * mean) + mean * mean, 1e-12))
