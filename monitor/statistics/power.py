"""Simulates how soon the alert rules detect a worse rate, and how often they are wrong; there is no formula for it.

The rules are evaluated every five minutes over answers scored at random times, all with the same weight. `High` does
with counts what the engine does with sums; a test compares them. Answers may come in sessions that are wholly bad or
wholly good, the worst case: then all counts are of sessions, and `per_session` says how many answers each has.
"""

from __future__ import annotations

import random
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from statistics import median

from monitor.statistics.change import BASELINE_DAYS, HOUR, WINDOWS, RateChange, change, fired, spread
from monitor.statistics.rates import Sums, estimate

LOOK = 300.0
"""Seconds between two evaluations of the rules."""
LOOKS_A_DAY = 288
_LOOKS_AN_HOUR = 12


@dataclass(frozen=True, slots=True)
class Noticed:
    """Detection times of many runs: the median in hours (None: most never detected it) and the share within a day."""

    median: float | None
    within_a_day: float


class SimulatedCounts:
    """Scored and defective answers, or sessions, of a simulated stream, cumulative by evaluation."""

    def __init__(self, parts: Sequence[tuple[int, int]]) -> None:
        self._good = list(accumulate((good for good, _ in parts), initial=0))
        self._defects = list(accumulate((defects for _, defects in parts), initial=0))

    def __len__(self) -> int:
        return len(self._good) - 1

    def window(self, seconds: float, look: int) -> tuple[int, int]:
        """Return the scored and defective answers of the window that ends with evaluation number `look` (from 1)."""
        first = max(look - round(seconds / LOOK), 0)
        defects = self._defects[look] - self._defects[first]
        return self._good[look] - self._good[first] + defects, defects


class High:
    """`RagDefectRateHigh` with one threshold, on counts.

    `windows` are (seconds, z), the shortest first. `z_over` is the certainty at which the shortest resolves the alert.
    """

    def __init__(
        self, windows: Sequence[tuple[float, float]], threshold: float, z_over: float, per_session: int = 1
    ) -> None:
        self.windows = tuple(windows)
        self.threshold = threshold
        self.per_session = per_session
        self._z_over = z_over
        self._fewest: dict[tuple[int, float], int] = {}
        self._most: dict[int, int] = {}

    def fires(self, counts: SimulatedCounts, look: int) -> bool:
        """Return whether it fires at an evaluation."""
        judged, defects = counts.window(self.windows[0][0], look)
        if judged and defects <= self._most_below(judged):
            return False
        for seconds, z in self.windows:
            judged, defects = counts.window(seconds, look)
            if defects and defects >= self._fewest_above(judged, z):
                return True
        return False

    def _fewest_above(self, judged: int, z: float) -> int:
        """Return the fewest defects for which the lower limit at `z` is above the threshold."""
        known = self._fewest.get((judged, z))
        if known is None:
            known = bisect_left(range(judged + 1), 1, key=lambda defects: self._lower(judged, defects, z))
            self._fewest[judged, z] = known
        return known

    def _most_below(self, judged: int) -> int:
        """Return the most defects for which the upper limit at `z_over` is below the threshold; -1 if there is none."""
        known = self._most.get(judged)
        if known is None:
            known = bisect_left(range(judged + 1), 1, key=lambda defects: self._upper(judged, defects)) - 1
            self._most[judged] = known
        return known

    def _lower(self, judged: int, defects: int, z: float) -> bool:
        found = estimate(_sums(judged, defects, self.per_session), z)
        return found is not None and found.lower > self.threshold

    def _upper(self, judged: int, defects: int) -> bool:
        found = estimate(_sums(judged, defects, self.per_session), self._z_over)
        return found is not None and found.upper >= self.threshold


class Regression:
    """`RagDefectRateRegression` of one family, against a week with a steady rate."""

    def __init__(self, family: Mapping[float, float], hours: Sequence[tuple[int, int]], per_session: int = 1) -> None:
        self._family = family
        self._per_session = per_session
        base = _added(hours, per_session)
        self._baselines = {
            window.length: (
                base,
                spread([_added(block, per_session) for block in _blocks(hours, round(window.block / HOUR))]),
            )
            for window in WINDOWS
        }

    def fires(self, counts: SimulatedCounts, look: int) -> bool:
        """Return whether it fires at an evaluation."""
        changes: dict[float, RateChange] = {}
        for window in WINDOWS:
            judged, defects = counts.window(window.length, look)
            if judged:
                now = _sums(judged, defects, self._per_session)
                found = change(now, *self._baselines[window.length])
                if found is not None:
                    changes[window.length] = found
        return bool(fired(changes, self._family))


def stream(rates: Sequence[float], judged_per_look: float, rng: random.Random) -> SimulatedCounts:
    """Simulate answers, or sessions, at random times: a rate for each evaluation, and a mean number between them."""
    draws: dict[float, tuple[Callable[[], int], Callable[[], int]]] = {}
    parts = []
    for rate in rates:
        pair = draws.get(rate)
        if pair is None:
            pair = draws[rate] = (_poisson(judged_per_look * (1 - rate), rng), _poisson(judged_per_look * rate, rng))
        parts.append((pair[0](), pair[1]()))
    return SimulatedCounts(parts)


def high_delay(
    rule: High, before: float, after: float, judged_per_hour: float, *, runs: int, days: int, rng: random.Random
) -> Noticed:
    """Simulate how soon a lasting rise from `before` to `after` makes the rule fire, within `days`.

    `judged_per_hour` are answers.
    """
    warm = max(round(seconds / LOOK) for seconds, _ in rule.windows)
    rates = [before] * warm + [after] * (days * LOOKS_A_DAY)
    found = []
    for _ in range(runs):
        counts = stream(rates, judged_per_hour / rule.per_session / _LOOKS_AN_HOUR, rng)
        found.append(_first(rule, counts, warm))
    return _noticed(found)


def high_alarms(rule: High, rate: float, judged_per_hour: float, *, days: int, rng: random.Random) -> int:
    """Simulate `days` of a steady rate, after a warm-up as long as the longest window, and count the alarms."""
    warm = max(round(seconds / LOOK) for seconds, _ in rule.windows)
    counts = stream([rate] * (warm + days * LOOKS_A_DAY), judged_per_hour / rule.per_session / _LOOKS_AN_HOUR, rng)
    return episodes([rule.fires(counts, look) for look in range(warm + 1, len(counts) + 1)])


def regression_delay(
    family: Mapping[float, float],
    before: float,
    after: float,
    judged_per_hour: float,
    *,
    runs: int,
    rng: random.Random,
    per_session: int = 1,
) -> Noticed:
    """Do the same for a regression against a steady week, within a day: later the rise is in the baseline."""
    warm = round(WINDOWS[-1].length / LOOK)
    rates = [before] * warm + [after] * LOOKS_A_DAY
    found = []
    sessions = judged_per_hour / per_session
    good, defects = (_poisson(sessions * share, rng) for share in (1 - before, before))
    for _ in range(runs):
        hours = [(good(), defects()) for _ in range(BASELINE_DAYS * 24)]
        rule = Regression(family, hours, per_session)
        counts = stream(rates, sessions / _LOOKS_AN_HOUR, rng)
        found.append(_first(rule, counts, warm))
    return _noticed(found)


def episodes(firing: Iterator[bool] | Sequence[bool], merged_within: float = HOUR) -> int:
    """Count alarms as a person would: firing evaluations at most an hour apart are one alarm."""
    alarms, quiet = 0, merged_within / LOOK
    for one in firing:
        if one:
            alarms += quiet >= merged_within / LOOK
            quiet = 0
        else:
            quiet += 1
    return alarms


def _first(rule: High | Regression, counts: SimulatedCounts, warm: int) -> float | None:
    """Return the hours from the end of the warm-up to the first evaluation that fires."""
    for look in range(warm + 1, len(counts) + 1):
        if rule.fires(counts, look):
            return (look - warm) / _LOOKS_AN_HOUR
    return None


def _noticed(found: Sequence[float | None]) -> Noticed:
    # Runs without detection count as longest: the median is known if they are fewer than half.
    middle = median(float("inf") if hours is None else hours for hours in found)
    day = sum(hours is not None and hours <= 24 for hours in found) / len(found)  # noqa: PLR2004 - a day
    return Noticed(None if middle == float("inf") else middle, day)


def _added(hours: Sequence[tuple[int, int]], per_session: int) -> Sums:
    good, defects = (sum(column) for column in zip(*hours, strict=True))
    return _sums(good + defects, defects, per_session)


def _sums(judged: int, defects: int, per_session: int) -> Sums:
    return Sums.counted(judged * per_session, defects * per_session, per_session)


def _blocks(hours: Sequence[tuple[int, int]], size: int) -> Iterator[Sequence[tuple[int, int]]]:
    return (hours[at : at + size] for at in range(0, len(hours), size))


def _poisson(mean: float, rng: random.Random) -> Callable[[], int]:
    """Draws Poisson numbers with mean `mean`, by inverting the distribution function."""
    if mean <= 0:
        return lambda: 0
    reach = 12 * mean**0.5 + 20
    first, last = max(int(mean - reach), 0), int(mean + reach)
    shares = [1.0]
    for number in range(first + 1, last + 1):
        shares.append(shares[-1] * mean / number)
        if shares[-1] > 1e250:  # noqa: PLR2004 - far from the limits of floats
            shares = [one * 1e-250 for one in shares]
    whole = list(accumulate(shares))
    total = whole[-1]
    return lambda: first + bisect_left(whole, rng.random() * total)
