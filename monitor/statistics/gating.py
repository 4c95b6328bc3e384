"""Decides whether a release may proceed, by the interval of its defect rate: pass, fail or undecided. From sums alone.

A rate is compared with a limit by the interval of `rates.estimate`, and two rates by the ratio test of `change`,
solved for the ratio to give an interval. Both limits are at 1.96, so each is missed 25 times in 1000. Repeating the
decision until it is not undecided errs more often than that.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from monitor.statistics import change
from monitor.statistics.rates import Z_95, Sums, estimate

MOST_MORE: Final = 1_000_000
"""The largest number of further answers to report. Beyond it the rate is too close to the limit to decide."""


class GateDecision(StrEnum):
    """The decision of a gate."""

    PASS = "pass"  # noqa: S105 - not a password
    FAIL = "fail"
    NOT_ENOUGH_DATA = "not_enough_data"
    NOT_JUDGED = "not_judged"  # there were answers, and every attempt to score one failed


@dataclass(frozen=True, slots=True)
class Decision:
    """The value decided on, a rate or a ratio of rates, with 95 % limits; None if nothing was scored.

    `upper` may be infinite. `more` is the number of further scored answers needed, if they are like those so far: 0 if
    decided, None if it would take too many.
    """

    answer: GateDecision
    value: float | None
    lower: float | None
    upper: float | None
    more: int | None


@dataclass(frozen=True, slots=True)
class Base:
    """The baseline of a release, and how much its rate varies over time anyway.

    `spread` is a relative variance; 0 if both run side by side and see the same hours.
    """

    sums: Sums
    spread: float = 0.0

    @classmethod
    def of(cls, blocks: Sequence[Sums]) -> Base:
        """Make the baseline from earlier periods, each as long as the window compared with them."""
        judged = [one for one in blocks if one.judged]
        sums = sum(judged, Sums())
        return cls(sums, change.spread(judged) * (1 + 1 / len(judged)) if judged else 0.0)


def below(now: Sums, limit: float, *, usual: float = 0.0) -> Decision:
    """Decide whether the rate is clearly above `limit` (fail), clearly below (pass), or neither. 0 < limit <= 1.

    `usual` as in `estimate`.
    """

    def decide(sums: Sums) -> Decision:
        found = estimate(sums, usual=usual)
        if found is None:
            return Decision(GateDecision.NOT_ENOUGH_DATA, None, None, None, None)
        return _decided(found.rate, found.lower, found.upper, limit)

    return _with_more(decide, now)


def at_most_times(now: Sums, base: Base, times: float) -> Decision:
    """Decide whether the rate is clearly more than `times` that of `base` (fail), clearly less (pass), or neither."""

    def decide(sums: Sums) -> Decision:
        found = ratio(sums, base)
        if found is None:
            return Decision(GateDecision.NOT_ENOUGH_DATA, None, None, None, None)
        return _decided(*found, times)

    # Without a defect in the base, no result of the release can bound the ratio.
    return _with_more(decide, now) if base.sums.judged else decide(now)


def ratio(now: Sums, base: Base) -> tuple[float, float, float] | None:
    """Return the ratio of two rates with 95 % limits; None if either side has no results.

    The lower limit has one more pseudo defect in the base, the upper one in the release: with few defects neither side
    is certain. Without a defect in the base, the ratio and its upper limit are infinite (without any at all: 0).
    """
    old = base.sums
    if not (now.judged and old.judged):
        return None
    value = _times(now, old) if old.defects else math.inf if now.defects else 0.0
    lower = _solved(now, _one_more(old), base.spread, 1) if now.defects else 0.0
    upper = _solved(_one_more(now), old, base.spread, -1) if old.defects else math.inf
    return value, min(lower, value), max(upper, value)


def _solved(now: Sums, old: Sums, spread: float, side: int) -> float:
    """Solve Paulson's z = `side` * 1.96 for the ratio: a quadratic equation."""
    b1 = now.defect_session_squares / now.defect_weight**2 / 9
    b2 = (old.defect_session_squares / old.defect_weight**2 + spread) / 9
    a, c, d = (1 - b1) ** 2 - Z_95**2 * b1, (1 - b1) * (1 - b2), (1 - b2) ** 2 - Z_95**2 * b2
    root = c * c - a * d
    if b2 >= 1 or root < 0 or a <= 0:
        return 0.0 if side > 0 else math.inf
    x = (c + side * math.sqrt(root)) / a
    if x <= 0:
        return math.inf
    return _times(now, old) / x**3


def _times(now: Sums, old: Sums) -> float:
    return now.defect_weight / now.weight / (old.defect_weight / old.weight)


def _one_more(sums: Sums) -> Sums:
    """Add a pseudo defect that weighs as much as a typical answer or a typical session's defects, whichever is more."""
    squares, pseudo = sums.defect_session_squares, sums.weight / sums.judged
    if sums.defects:
        pseudo = max(pseudo, squares / sums.defect_weight)
    return replace(
        sums,
        defects=sums.defects + 1,
        defect_weight=sums.defect_weight + pseudo,
        defect_weight_squares=sums.defect_weight_squares + pseudo**2,
        defect_products=squares + pseudo**2,
    )


def _decided(value: float, lower: float, upper: float, limit: float) -> Decision:
    if lower > limit:
        return Decision(GateDecision.FAIL, value, lower, upper, 0)
    if upper < limit:
        return Decision(GateDecision.PASS, value, lower, upper, 0)
    return Decision(GateDecision.NOT_ENOUGH_DATA, value, lower, upper, None)


def _with_more(decide: Callable[[Sums], Decision], now: Sums) -> Decision:
    """Decide; if undecided, compute how many further answers like those so far are needed.

    If nothing was scored so far, compute how many are needed if all are good.
    """
    found = decide(now)
    if found.answer is not GateDecision.NOT_ENOUGH_DATA:
        return found
    shape = now if now.judged else Sums.counted(1, 0)
    few, many = now.judged, now.judged + MOST_MORE
    if decide(shape.scaled(many)).answer is GateDecision.NOT_ENOUGH_DATA:
        return found
    while many - few > 1:
        middle = (few + many) // 2
        if decide(shape.scaled(middle)).answer is GateDecision.NOT_ENOUGH_DATA:
            few = middle
        else:
            many = middle
    return replace(found, more=many - now.judged)
