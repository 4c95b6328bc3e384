"""Whether answers with a factor are worse than a rise common to all would make them, and their share of the rise.

A common rise may multiply the usual risk of a factor or add to it: the larger of the two is expected. z compares two
gamma variables by their cube roots, as `statistics.change` does, on effective counts (Fay and Feuer, Statistics in
Medicine 16, 1997, p. 791): the exact binomial tail at any number and any weights.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from monitor.statistics.change import gamma_ratio_z
from monitor.statistics.diagnosis.cases import CaseSums, WeighedCase

HIGHEST: Final = 0.98
"""The highest rate expected for any factor."""

PRIOR: Final = 4.0
"""Pseudo bad answers at the usual rate, for a factor that was no worse than others: the long-term risks of documents
and words differ by a standard deviation of about one half. A factor known to be worse gets only one: shrinking its risk
would make refusals a cause."""

LEAST_UNITS: Final = 3
"""The units with bad cases that a factor needs since the onset. With fewer no z can reach the limit."""

_Z_90: Final = 1.644854  # a two-sided interval of 90 %
_Z_80: Final = 0.841621  # 4 times in 5
_BAD_OF_VISIBLE: Final = 0.7


class Sides(NamedTuple):
    """Sums since the onset and before it."""

    now: CaseSums
    past: CaseSums


@dataclass(frozen=True, slots=True)
class RiseShare:
    """The share of the rise that a factor explains, with a 90 % interval. It may be below 0 or above 1."""

    value: float
    lower: float
    upper: float


class _Usual(NamedTuple):
    """What was usual before the onset: the rate without the factor, the factor's own rate over it, and the counts.

    `seen`: effective bad answers of the factor; `due`: those that the rate of the rest would have made.
    """

    rest: float
    rest_count: float
    seen: float
    due: float
    unit: float

    def prior(self) -> float:
        return PRIOR if self.seen <= self.due else 1.0

    def times(self, prior: float) -> float:
        return (self.seen + prior) / (self.due + prior)


def _usual(own: CaseSums, every: CaseSums) -> _Usual:
    unit = every.unit_weight
    rest = (every.bad_weight - own.bad_weight + unit / 2) / (every.weight - own.weight + unit / 2)
    rest_count = max((every.bad_weight - own.bad_weight) / unit, 1.0)
    own_unit = own.unit_weight or unit
    return _Usual(rest, rest_count, own.bad_weight / own_unit, own.weight * rest / own_unit, own_unit)


def _kept(own: Sides, every: Sides, *, outcome: bool) -> float:
    """Return the share of a factor's cases that would remain if it were as frequent as before."""
    if outcome or own.now.weight <= 0:
        return 1.0
    return min(1.0, (own.past.weight / every.past.weight) / (own.now.weight / every.now.weight))


def excess_z(own: Sides, every: Sides, *, outcome: bool = False) -> float:
    """Return how far a factor's cases are worse than a rise common to all makes them, in standard deviations.

    `every` are all cases, including those with the factor; both have bad cases. -infinity: nothing is bad.

    Args:
        own: the cases with the factor.
        every: all cases.
        outcome: whether the factor is a property of the answer, so that it is not more frequent for another reason.
    """
    now, total = own.now, every.now
    if now.bad_weight <= 0:
        return -math.inf
    usual = _usual(own.past, every.past)
    out = max(total.bad_weight - now.bad_weight, 0.0)
    out_unit = (total.bad_squares - now.bad_squares) / out if out > 0 else 0.0
    out_unit = out_unit if out_unit > 0 else total.unit_weight
    out_count = out / out_unit + 1  # one more, since the rest would look like 0 once the factor has most of them
    rate_out = max(out_count * out_unit / max(total.timed - now.timed, out_unit), usual.rest)
    prior = usual.prior()
    times = usual.times(prior)
    common = rate_out * now.timed
    raised = min(max(common * times, common + now.weight * usual.rest * (times - 1)), HIGHEST * now.weight)
    kept = _kept(own, every, outcome=outcome)
    mixed = kept * raised + (1 - kept) * common
    expected = min(mixed / now.weight, HIGHEST)
    of_own = kept * raised / mixed
    variance = 1 / out_count + of_own**2 * (1 / (usual.seen + prior) + 1 / usual.rest_count)
    good = max(now.weight - now.bad_weight, 0.0)
    bad_count = now.bad_weight**2 / now.bad_squares
    good_count = (good**2 / now.good_squares if now.good_squares > 0 else 0.0) + 1
    # One more good answer. If bad answers are judged more often than good ones, it weighs as much as a usual good one.
    all_good = total.weight - total.bad_weight
    good_unit = total.good_squares / all_good if all_good > 0 else 0.0
    odds = now.bad_weight / (good + max(now.unit_weight, good_unit))
    return gamma_ratio_z(
        odds * (1 - expected) / expected,
        1 / bad_count,
        1 / good_count,
        variance / (1 - expected) ** 2,
    )


def expected_of(own: Sides, every: Sides, *, outcome: bool = False) -> float:
    """Return the rate that a factor's cases would have without any rise, 0 to `HIGHEST`."""
    usual = _usual(own.past, every.past)
    kept = _kept(own, every, outcome=outcome)
    return kept * own_rate(own.past, every.past) + (1 - kept) * min(usual.rest, HIGHEST)


def own_rate(own: CaseSums, every: CaseSums) -> float:
    """Return the rate of a factor before the onset, with one pseudo bad answer at the rate of the rest."""
    usual = _usual(own, every)
    return min(usual.rest * usual.times(1.0), HIGHEST)


def rise_share(own: Sides, every: Sides, *, outcome: bool = False) -> float:
    """Return the share of the rise that a factor explains. The rise, in bad weight, must be above 0."""
    rise = every.now.bad_weight - every.now.weight * every.past.rate
    return (own.now.bad_weight - own.now.weight * expected_of(own, every, outcome=outcome)) / rise


def share_interval(
    own: Sides, every: Sides, rows: Sequence[WeighedCase], having: Collection[int], *, outcome: bool = False
) -> RiseShare:
    """Return the `rise_share` with its interval: by unit for the cases since the onset, and from the counts before it.

    Args:
        own: the cases with the factor.
        every: all cases.
        rows: all cases since the onset.
        having: the positions in `rows` of the cases with the factor.
        outcome: as in `excess_z`.
    """
    share = rise_share(own, every, outcome=outcome)
    expected, before = expected_of(own, every, outcome=outcome), every.past.rate
    rise = every.now.bad_weight - every.now.weight * before
    by_unit: dict[int, float] = defaultdict(float)
    for index, row in enumerate(rows):
        part = -share * (row.bad - before)
        if index in having:
            part += row.bad - expected
        by_unit[row.unit] += row.weight * part
    variance = sum(one * one for one in by_unit.values()) / rise**2
    half = _Z_90 * math.sqrt(variance + _past_variance(own, every, share, outcome=outcome) / rise**2)
    return RiseShare(share, share - half, share + half)


def _past_variance(own: Sides, every: Sides, share: float, *, outcome: bool) -> float:
    """Return the variance of the share, times the square of the rise, by what was counted before the onset."""
    usual = _usual(own.past, every.past)
    unit, kept = every.past.unit_weight, _kept(own, every, outcome=outcome)
    of_rate = share * every.now.weight / every.past.weight
    by_own = of_rate - own.now.weight * kept / (own.past.weight + usual.unit / usual.rest)
    outside = every.past.weight - own.past.weight + unit / 2
    shrunk = kept * usual.times(1.0) / (usual.due + 1)
    by_rest = of_rate - own.now.weight * (shrunk + 1 - kept) / outside
    own_bad = own.past.bad_weight + usual.unit
    return by_own**2 * own_bad * usual.unit + by_rest**2 * max(every.past.bad_weight - own.past.bad_weight, unit) * unit


class Mix(NamedTuple):
    """How certain it is that a factor became more frequent, and that it was worse than the rest before. 0 or more.

    `z` is the less certain of the two. `share` is the part of the rise due to the extra cases at their earlier rate,
    with one pseudo bad answer at the rate of the rest; `plain_share` is the same without it.
    """

    z: float
    share: float
    plain_share: float


def mix(own: Sides, every: Sides, *, squares: float, past_squares: float) -> Mix | None:
    """Compare the frequency of a factor now and before. None: it is no more frequent, or was no worse.

    Args:
        own: the cases with the factor.
        every: all cases.
        squares: `unit_squares` of its cases since the onset.
        past_squares: `unit_squares` of its cases before the onset.
    """
    now, past, total, total_past = own.now, own.past, every.now, every.past
    usual = _usual(past, total_past)
    extra = now.weight - total.weight * past.weight / total_past.weight
    rest_weight = total_past.weight - past.weight
    rest_bad = max(total_past.bad_weight - past.bad_weight, 0.0)
    own_before = own_rate(past, total_past)
    if extra <= 0 or past.bad_weight <= 0 or rest_weight <= 0 or own_before <= usual.rest:
        return None
    rest_squares = max(total_past.bad_squares - past.bad_squares, 0.0)
    rest_count = rest_bad**2 / rest_squares + 1 if rest_squares > 0 else 1.0
    rest_rate = max(rest_bad, total_past.unit_weight) / rest_weight
    more = gamma_ratio_z(
        (now.weight / total.weight) / (past.weight / total_past.weight),
        squares / now.weight**2,
        past_squares / past.weight**2,
    )
    worse = gamma_ratio_z(past.rate / rest_rate, past.bad_squares / past.bad_weight**2, 1 / rest_count)
    rise = total.bad_weight - total.weight * total_past.rate
    shares = (extra * (rate - usual.rest) / rise for rate in (own_before, past.rate))
    return Mix(min(more, worse), *shares)


def visible_share(every: Sides, limit: float) -> float | None:
    """Return the smallest share of the rise at which a factor would have been found 4 times in 5.

    It assumes a factor whose answers were as good as others before, and 70 in 100 of which have been bad since the
    onset, and that all cases have the same weight.
    """
    rise = every.now.bad_weight - every.now.weight * every.past.rate
    before = every.past.rate
    if rise <= 0 or before >= _BAD_OF_VISIBLE or not math.isfinite(limit):
        return None
    unit, wanted = every.now.unit_weight, limit + _Z_80

    def seen(share: float) -> bool:
        weight = min(share * rise / (_BAD_OF_VISIBLE - before), every.now.weight)
        bad = min(_BAD_OF_VISIBLE * weight, every.now.bad_weight)
        part = weight / every.now.weight
        past = every.past
        now = CaseSums(
            units=1,
            weight=weight,
            timed=weight,
            bad_weight=bad,
            bad_squares=bad * unit,
            good_squares=(weight - bad) * unit,
        )
        own_past = CaseSums(
            weight=part * past.weight, bad_weight=part * past.bad_weight, bad_squares=part * past.bad_squares
        )
        return bad >= LEAST_UNITS * unit and excess_z(Sides(now, own_past), every) >= wanted

    shares = [number / 100 for number in range(10, 101)]
    return next((share for share in shares if seen(share)), None)
