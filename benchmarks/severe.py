"""Alerts on single severe cases: how many pages are false, in simulated months with the product's own decisions.

False confirmed sessions arrive at random times. The rule is evaluated at each arrival: it knows the sessions of the
hour before it and those of the 30 days before that hour.
"""

from __future__ import annotations

import random
from bisect import bisect_left
from collections.abc import Iterator
from statistics import fmean

from monitor.statistics.severe_cases import HOUR, MONTH, all_wrong, expected_false_pages, sessions_to_page

VOLUMES = (0.3, 1.0, 3.0, 10.0, 30.0, 46.0, 60.0, 100.0, 150.0, 290.0, 400.0, 740.0)
"""False confirmed sessions in 30 days, including values around the limits."""

CALLS, CORRELATIONS = (1, 2, 3), (0.0, 0.2, 0.5, 0.8)
HARMLESS = ((1_000, 0.99), (1_000, 0.999), (10_000, 0.999), (10_000, 0.9999))
"""Harmless answers judged per day, and the specificity of one judgement."""

SENSITIVITY, SEVERE_IN = 0.9, 10_000
"""The share of severe answers that one judgement finds; the number of answers per severe one."""


def simulated(volume: float, months: int, seed: str) -> tuple[float, float]:
    """Pages in 30 days by false confirmed sessions alone, and the share of single true cases that page at once."""
    rng = random.Random(seed)
    end = (months + 1) * MONTH
    times, at = [], 0.0
    while (at := at + rng.expovariate(volume / MONTH)) < end:
        times.append(at)
    pages = sum(_begins_page(times, index) for index in range(bisect_left(times, MONTH + HOUR), len(times)))
    looks = [rng.uniform(MONTH + HOUR, end) for _ in range(2_000)]
    return pages / months, fmean(_pages(times, one) for one in looks)


def _begins_page(times: list[float], index: int) -> bool:
    """Return whether this session is the one with which the hour has enough."""
    first = bisect_left(times, times[index] - HOUR)
    needed = sessions_to_page(first - bisect_left(times, times[index] - HOUR - MONTH))
    return needed is not None and index - first + 1 == needed


def _pages(times: list[float], at: float) -> bool:
    """Return whether one more session at this moment would page."""
    first, last = bisect_left(times, at - HOUR), bisect_left(times, at)
    needed = sessions_to_page(first - bisect_left(times, at - HOUR - MONTH))
    return needed is not None and last - first + 1 >= needed


def expected(volume: float) -> float:
    """The same by the formula that `plan` uses."""
    return expected_false_pages(volume)


def repeated() -> Iterator[list[str]]:
    """Yield false confirmed answers in 30 days, by how often the judge is asked and how often its errors repeat."""
    for a_day, specificity in HARMLESS:
        error = 1 - specificity
        cells = [
            " / ".join(f"{30 * a_day * all_wrong(error, calls, one):.3g}" for calls in CALLS) for one in CORRELATIONS
        ]
        yield [f"{a_day:,}", f"{specificity:g}", *cells]


def right() -> Iterator[list[str]]:
    """Yield how often a page for a single case is right, and how many severe cases are found, at correlation 0.5."""
    for specificity in (0.999, 0.9999):
        cells = []
        for calls in CALLS:
            found = 1 - _any_missed(calls)
            true, false = found / SEVERE_IN, (1 - 1 / SEVERE_IN) * all_wrong(1 - specificity, calls, 0.5)
            cells.append(f"{true / (true + false):.0%}".replace("%", " %") + f" ({found:.2f})")
        yield [f"{specificity:g}", *cells]


def _any_missed(calls: int) -> float:
    """Return the probability that one of this many judgements misses a severe answer; misses repeat as errors do."""
    return 1 - all_wrong(SENSITIVITY, calls, 0.5)
