"""How many severe cases it takes to page, so that false pages stay rare: pure functions.

A case is confirmed when it was judged severe twice. The confirmed sessions of 30 days that were not called right are an
upper bound for the false ones. A page needs so many sessions within an hour that false ones alone rarely reach that
number: the expected false pages stay within the accepted number at every volume, which a test checks. The tables of
docs/alerts.md are printed by `benchmarks/rates.py`.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Final

MONTH, HOUR = 30 * 86400.0, 3600.0
FALSE_PAGES: Final = 3.0
"""False pages accepted in 30 days unless configured otherwise, for each app and evaluator."""

MOST_SESSIONS: Final = 10
"""The most sessions within an hour that a page may need. Above the limit for this many, nothing pages."""

_HOURS: Final = MONTH / HOUR


def tail(mean: float, least: int) -> float:
    """Return the probability that a Poisson count with this mean (>= 0) is `least` or more."""
    return max(1.0 - sum(_probability(mean, number) for number in range(least)), 0.0)


def sessions_to_page(unexplained: float, false_pages: float = FALSE_PAGES) -> int | None:
    """Return how many confirmed sessions within an hour page; None: no number up to `MOST_SESSIONS` does.

    Args:
        unexplained: confirmed sessions of the 30 days before that hour that were not called right.
        false_pages: false pages accepted in 30 days, above 0. Infinity: every session pages.
    """
    for sessions in range(1, MOST_SESSIONS + 1):
        if unexplained <= unexplained_limits(false_pages)[sessions - 1]:
            return sessions
    return None


@cache
def unexplained_limits(false_pages: float = FALSE_PAGES) -> tuple[float, ...]:
    """Return, for 1 to `MOST_SESSIONS` sessions, the most unexplained ones at which this many page; -1: never.

    With more than the last limit, nothing pages.
    """
    if false_pages == math.inf:
        return (math.inf,) * MOST_SESSIONS
    return tuple(_limit(sessions, false_pages) for sessions in range(1, MOST_SESSIONS + 1))


def _limit(sessions: int, accepted: float) -> float:
    """Return the largest whole x with which x + 1 sessions in 30 days begin a page at most `accepted` times.

    A page begins with a session if the hour before it has at least one session less than a page needs.
    """

    def seldom(unexplained: int) -> bool:
        expected = unexplained + 1
        return expected * tail(expected / _HOURS, sessions - 1) <= accepted

    low, high = -1, 1
    while seldom(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if seldom(middle) else (low, middle)
    return float(low)


def expected_false_pages(confirmed: float, false_pages: float = FALSE_PAGES) -> float:
    """Return the false pages to expect in 30 days from `confirmed` false sessions, which come independently.

    A page begins with a session if the hour before it has one session less than a page needs.
    """
    if confirmed <= 0:
        return 0.0
    if false_pages == math.inf:
        return confirmed
    mean_of_hour, total = confirmed / _HOURS, 0.0
    reach = int(confirmed + 12 * math.sqrt(confirmed) + 12)
    for unexplained in range(reach + 1):
        needed = sessions_to_page(unexplained, false_pages)
        if needed is not None:
            total += _probability(confirmed, unexplained) * _probability(mean_of_hour, needed - 1)
    return confirmed * total


def all_wrong(error: float, calls: int, correlation: float) -> float:
    """Return the probability that all `calls` judgements of a harmless answer are severe.

    Beta-binomial: `error` is the probability for one judgement (0 to 1), `correlation` (0 to 1) how far errors repeat.
    At 0 they are independent, at 1 every judgement repeats the first.
    """
    if correlation >= 1:
        return error
    spread = correlation / (1 - correlation)
    return math.prod((error + one * spread) / (1 + one * spread) for one in range(calls))


def _probability(mean: float, number: int) -> float:
    if mean <= 0:
        return float(number == 0)
    return math.exp(number * math.log(mean) - mean - math.lgamma(number + 1))
