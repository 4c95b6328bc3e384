"""Estimates the defect rate of all traffic, with limits, from a weighted sample: additive sums, and one estimate.

One formula gives every limit that is shown, recorded or tested. It adds one answer of a heavy weight on the limit's
side, takes the beta distribution with the resulting mean and variance, and its quantile by cube roots (Paulson, Annals
of Mathematical Statistics 13, 1942, p. 233), which PromQL can compute too. With equal weights it is the exact interval
of Clopper and Pearson (Biometrika 26, 1934, p. 404), with few defects the gamma limits of Fay and Feuer (Statistics in
Medicine 16, 1997, p. 791).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple

from monitor.model.outcome import SessionProducts
from monitor.statistics.session_products import LONGEST, alone

Z_95 = 1.959964
"""Half the width, in standard deviations, of a two-sided 95 % interval."""

_Z_POWER = 1.281552  # 90 times in 100


@dataclass(frozen=True, slots=True)
class Sums:
    """The sums of a sample. Sums over time, replicas and slices can simply be added.

    `judged` and `defects` are counts. `weight` and `defect_weight` sum 1 / probability over all scored answers and over
    the defects. `defect_weight_squares` sums its square over the defects and `good_weight_squares` over the rest. `top`
    is the largest weight, 0 if it is not known. The products are those of `SessionProducts`, 0 if they were not kept:
    then each answer counts as a session of its own.
    """

    judged: int = 0
    defects: int = 0
    weight: float = 0.0
    defect_weight: float = 0.0
    defect_weight_squares: float = 0.0
    good_weight_squares: float = 0.0
    top: float = 0.0
    defect_products: float = 0.0
    every_products: float = 0.0
    both_products: float = 0.0

    def __add__(self, other: Sums) -> Sums:
        return Sums(
            self.judged + other.judged,
            self.defects + other.defects,
            self.weight + other.weight,
            self.defect_weight + other.defect_weight,
            self.defect_weight_squares + other.defect_weight_squares,
            self.good_weight_squares + other.good_weight_squares,
            max(self.top, other.top),
            self.defect_products + other.defect_products,
            self.every_products + other.every_products,
            self.both_products + other.both_products,
        )

    @classmethod
    def of(cls, weight: float, *, defect: bool, products: SessionProducts | None = None) -> Sums:
        """Make the sums of one scored answer; without `products` it is a session of its own.

        Raises `ValueError` unless `weight` is positive and finite.
        """
        if not (weight > 0 and math.isfinite(weight)):
            raise ValueError(f"{weight!r} is not a weight: it is 1 / probability, positive and finite")
        square = weight * weight
        products = products or alone(weight, defect=defect)
        if defect:
            return cls(1, 1, weight, weight, square, 0.0, weight, *products)
        return cls(1, 0, weight, 0.0, 0.0, square, weight, *products)

    @classmethod
    def total(cls, parts: Iterable[Sums]) -> Sums:
        """Add many at once, faster than one by one: this is most of the cost of evaluating alerts."""
        judged = defects = 0
        weight = defect_weight = defect_squares = good_squares = top = 0.0
        defect_products = every_products = both_products = 0.0
        for part in parts:
            judged += part.judged
            defects += part.defects
            weight += part.weight
            defect_weight += part.defect_weight
            defect_squares += part.defect_weight_squares
            good_squares += part.good_weight_squares
            top = max(top, part.top)
            defect_products += part.defect_products
            every_products += part.every_products
            both_products += part.both_products
        products = (defect_products, every_products, both_products)
        return cls(judged, defects, weight, defect_weight, defect_squares, good_squares, top, *products)

    @classmethod
    def counted(cls, judged: int, defects: int, per_session: int = 1) -> Sums:
        """Make the sums of answers of weight 1, in sessions of `per_session` that are wholly bad or wholly good."""
        bad = defects * per_session
        top = 1.0 if judged else 0.0
        good = judged - defects
        return cls(judged, defects, judged, defects, defects, good, top, bad, judged * per_session, bad)

    @classmethod
    def by_session(cls, verdicts: Iterable[tuple[Hashable, bool]]) -> Sums:
        """Make the sums of answers of weight 1 from the session of each and whether it is a defect.

        As in the running monitor, a session of more than `LONGEST` answers counts as several.
        """
        numbers: Counter[Hashable] = Counter()
        judged: Counter[tuple[Hashable, int]] = Counter()
        defects: Counter[tuple[Hashable, int]] = Counter()
        for session, defect in verdicts:
            part = session, numbers[session] // LONGEST
            numbers[session] += 1
            judged[part] += 1
            defects[part] += defect
        return replace(
            cls.counted(judged.total(), defects.total()),
            defect_products=float(sum(bad * bad for bad in defects.values())),
            every_products=float(sum(every * every for every in judged.values())),
            both_products=float(sum(every * defects[part] for part, every in judged.items())),
        )

    @property
    def typical_weight(self) -> float:
        """The mean weight, each answer counted by its weight: the sum of squares over the sum. 0 if nothing was scored.

        Its value over a day is the `usual` of `estimate` for shorter windows.
        """
        return (self.defect_weight_squares + self.good_weight_squares) / self.weight if self.weight > 0 else 0.0

    @property
    def defect_session_squares(self) -> float:
        """The products of defects, at least their squares and at most the square of their weight.

        A window's products may also be with answers before it.
        """
        return max(min(self.defect_products, self.defect_weight**2), self.defect_weight_squares)

    def scaled(self, judged: int) -> Sums:
        """Scale to `judged` scored answers of the same weights, sessions and share of defects. Needs one or more."""
        factor = judged / self.judged
        return Sums(
            judged,
            math.ceil(self.defects * factor),
            self.weight * factor,
            self.defect_weight * factor,
            self.defect_weight_squares * factor,
            self.good_weight_squares * factor,
            self.top,
            self.defect_products * factor,
            self.every_products * factor,
            self.both_products * factor,
        )


@dataclass(frozen=True, slots=True)
class Estimate:
    """A defect rate of all traffic, 0 <= lower <= rate <= upper <= 1, and the number of answers behind it."""

    rate: float
    lower: float
    upper: float
    judged: int
    defects: int


def estimate(sums: Sums, z: float = Z_95, *, usual: float = 0.0) -> Estimate | None:
    """Estimate the weighted rate with two one-sided limits, each missed with the normal tail probability of `z`.

    None if nothing was scored: no data is not a rate of 0.

    Args:
        sums: of the window.
        z: 0 or more, in standard deviations; by default both limits make an interval of 95 %.
        usual: `typical_weight` of a longer window of the same answers; 0: unknown. It stands in for heavy weights that
            a short window has not seen yet.
    """
    if z < 0:
        raise ValueError(f"z must be 0 or more, got {z}")
    if sums.judged == 0:
        return None
    bad, good = _sides(sums)
    # A sum of weights is kept for years, so it may differ from its parts in the last digit.
    rate = min(bad.weight / sums.weight, 1.0)
    typical = (bad.squares + good.squares) / sums.weight
    pseudo = max((typical + max(sums.top, typical)) / 2, usual)
    across = max(sums.both_products - sums.defect_products, 0.0)
    # The additional good answer is as large a session as any: a session that has just begun may still grow.
    every = max(min(sums.every_products, sums.weight**2), bad.squares + good.squares) - bad.squares - good.squares
    lower = 1 - _upper_limit(good, bad, across, pseudo + max(good.in_session, every / sums.weight), z)
    upper = _upper_limit(bad, good, across, pseudo + bad.in_session, z)
    return Estimate(rate, min(lower, rate), max(upper, rate), sums.judged, sums.defects)


class _Side(NamedTuple):
    """The defects, or the good answers: weight, squares, and products within sessions.

    Products lie between the squares and the square of the weight; a window's may also be with answers before it.
    """

    weight: float
    squares: float
    products: float

    @property
    def in_session(self) -> float:
        """The weight of the other answers of this side in the session of a typical one."""
        return (self.products - self.squares) / self.weight if self.weight > 0 else 0.0


def _sides(sums: Sums) -> tuple[_Side, _Side]:
    """Return the defects and the good answers."""
    bad, good = _Side(0.0, 0.0, 0.0), _Side(0.0, 0.0, 0.0)
    if sums.defects:
        bad = _side(sums.defects, sums.defect_weight, sums.defect_weight_squares, sums.defect_products)
    if sums.judged > sums.defects:
        products = sums.every_products - 2 * sums.both_products + sums.defect_products
        weight = max(sums.weight - sums.defect_weight, 0.0)
        good = _side(sums.judged - sums.defects, weight, sums.good_weight_squares, products)
    return bad, good


def _side(number: int, weight: float, squares: float, products: float) -> _Side:
    squares = max(squares, weight * weight / number)  # their minimum, even if they were not kept
    return _Side(weight, squares, max(min(products, weight * weight), squares))


def _upper_limit(side: _Side, rest: _Side, across: float, pseudo: float, z: float) -> float:
    """Return the upper limit of the share of `side` as if there were one more session of the weight `pseudo` in it."""
    if rest.weight <= 0:
        return 1.0
    weight = side.weight + pseudo
    plain = side.squares / weight / weight + (pseudo / weight) ** 2 + rest.squares / rest.weight / rest.weight
    sessions = (side.products - side.squares) / weight / weight - 2 * across / weight / rest.weight
    sessions += (rest.products - rest.squares) / rest.weight / rest.weight
    error = (plain + max(sessions, 0.0)) / 9
    if not math.isfinite(error):
        return 1.0
    share = weight / (weight + rest.weight)
    of_rest, of_side = error * (1 - share), error * share
    below = (1 - of_side) ** 2 - z * z * of_side
    if not below > 0 or of_side >= 1:
        return 1.0
    root = math.sqrt(max((1 - of_rest) ** 2 * of_side + (1 - of_side) ** 2 * of_rest - z * z * of_rest * of_side, 0.0))
    cube = max(((1 - of_rest) * (1 - of_side) + z * root) / below, 0.0)
    odds = weight / rest.weight * cube**3
    return odds / (1 + odds) if math.isfinite(odds) else 1.0


def effective_judged(sums: Sums) -> float:
    """Return the number of equally weighted answers with the same uncertainty of the rate; 0 if none was scored.

    It follows from the variance of the weighted rate, by session, and is never more than Kish's number, which depends
    on the weights alone (Survey Sampling, 1965, section 11.7). If all answers are alike, their sessions count. Needs
    `good_weight_squares`.
    """
    if not sums.judged:
        return 0.0
    squares = sums.defect_weight_squares + sums.good_weight_squares
    rate = min(sums.defect_weight / sums.weight, 1.0)
    variance = _variance(sums, rate)
    if 0 < rate < 1 and variance > 0:
        return min(sums.weight**2 / squares, rate * (1 - rate) * sums.weight**2 / variance)
    return sums.weight**2 / max(sums.every_products, squares)


def _variance(sums: Sums, rate: float) -> float:
    """Sum (weight * (defect - rate))^2 over all sessions. Divided by `weight`^2: the variance of the rate.

    It is never less than the same sum over all answers.
    """
    return max(
        sums.defect_weight_squares * (1 - rate) ** 2 + sums.good_weight_squares * rate**2,
        sums.defect_products - 2 * rate * sums.both_products + rate**2 * sums.every_products,
    )


def doubled(threshold: float) -> float:
    """Return the rate that means "clearly above": twice the threshold, or halfway from it to 1 if that is less."""
    return min(2 * threshold, (1 + threshold) / 2)


def judged_to_tell(threshold: float, rate: float, z: float) -> int:
    """Return how many results it takes until the lower limit at `z` of a true `rate` exceeds `threshold` 9 times in 10.

    A planning figure for equal weights, from the square-root approximation of a Poisson count: within about a tenth of
    the exact figure for rates up to 20 %, conservative above. Both are shares, 0 < threshold < rate <= 1.
    """
    if not 0 < threshold < rate <= 1:
        raise ValueError(f"needs 0 < threshold < rate <= 1, got threshold {threshold} and rate {rate}")
    return math.ceil(((z + _Z_POWER) / 2 / (math.sqrt(rate) - math.sqrt(threshold))) ** 2)


def score_interval(share: float, number: float, z: float) -> tuple[float, float]:
    """Return the score interval of a share (Wilson, Journal of the American Statistical Association 22, 1927, p. 209).

    `number` (> 0) may be an effective number, which is not whole. `z` is half the width in standard deviations.
    """
    shrink = 1 + z * z / number
    middle = (share + z * z / (2 * number)) / shrink
    half = z / shrink * math.sqrt(share * (1 - share) / number + z * z / (4 * number * number))
    return max(middle - half, 0.0), min(middle + half, 1.0)


class Difference(NamedTuple):
    """The second share minus the first, -1 to 1, with limits."""

    value: float
    lower: float
    upper: float

    @property
    def clear(self) -> bool:
        """Whether the interval excludes 0."""
        return self.lower > 0 or self.upper < 0


def difference(first: Sums, second: Sums, z: float) -> Difference | None:
    """Compare the rates before and after; None if nothing was scored on one side.

    It is the hybrid score interval, number 10 of the eleven that Newcombe compares ("Interval estimation for the
    difference between independent proportions", Statistics in Medicine 17, 1998, p. 873): Wilson's limits of both
    shares, combined as two legs of a triangle. It is valid at shares near 0, where the textbook interval fails. `z` is
    half its width in standard deviations. Answers of one session count as `effective_judged` says. The samples are
    treated as independent; for the same questions before and after, which mostly fail together, it is somewhat too
    wide.
    """
    if not first.judged or not second.judged:
        return None
    before, after = (min(one.defect_weight / one.weight, 1.0) for one in (first, second))
    low_before, high_before = score_interval(before, effective_judged(first), z)
    low_after, high_after = score_interval(after, effective_judged(second), z)
    value = after - before
    return Difference(
        value,
        value - math.hypot(after - low_after, high_before - before),
        value + math.hypot(high_after - after, before - low_before),
    )
