"""The effect of bad answers in sessions on intervals and alerts: counted by session, as in the product, and by answer.

Products of sessions come from `SessionMemory`, in the order of the answers.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import NamedTuple

from monitor.alerts.policy import DEFAULT_WINDOWS
from monitor.alerts.threshold import Z_OVER
from monitor.clock import ManualClock
from monitor.statistics.power import LOOK, LOOKS_A_DAY, episodes
from monitor.statistics.rates import Sums, estimate
from monitor.statistics.session_products import SessionMemory

_EVALUATOR = ("any", "1")
_BETWEEN = 180.0  # seconds between two answers of a session
_MONTH = 30


class Traffic(NamedTuple):
    """Answers that come in sessions of `size`; `agreeing` is the correlation of two verdicts of a session, 0 to 1.

    Each answer is judged with the probability `sampled`.
    """

    size: int
    agreeing: float
    sampled: float

    def session(self, rate: float, rng: random.Random) -> list[bool]:
        """Return the verdicts of a session, some of which may be unknown."""
        if self.agreeing >= 1:
            share = float(rng.random() < rate)
        elif self.agreeing <= 0:
            share = rate
        else:
            scale = 1 / self.agreeing - 1
            share = rng.betavariate(rate * scale, (1 - rate) * scale)
        return [rng.random() < share for _ in range(self.size)]


def coverage(traffic: Traffic, rate: float, sessions: int, samples: int) -> tuple[float, float]:
    """Return how often the 95 % interval contains the rate: by answer, and by session."""
    rng = random.Random(f"sessions {traffic} {rate} {sessions}")
    held = [0, 0]
    for _ in range(samples):
        memory = SessionMemory(ManualClock(), most=sessions)
        parts = []
        for number in range(sessions):
            key = number.to_bytes(4, "big")
            verdicts = [one for one in traffic.session(rate, rng) if rng.random() < traffic.sampled]
            parts += [_judged(memory, key, 1 / traffic.sampled, defect=defect) for defect in verdicts]
        sums = Sums.total(parts)
        for place, one in enumerate((_by_answer(sums), sums)):
            found = estimate(one)
            held[place] += found is None or found.lower <= rate <= found.upper
    return held[0] / samples, held[1] / samples


def alarms(traffic: Traffic, rate: float, threshold: float, per_hour: float, seed: str) -> tuple[int, int]:
    """Return false alarms of `RagDefectRateHigh` in 30 days of a steady low rate: by answer, by session."""
    rng, clock = random.Random(seed), ManualClock(0.0)
    memory = SessionMemory(clock)
    warm = round(max(one.window for one in DEFAULT_WINDOWS) / LOOK)
    looks = warm + _MONTH * LOOKS_A_DAY
    by_look: list[list[Sums]] = [[] for _ in range(looks)]
    for at, key, defect in _answers(traffic, rate, per_hour, looks * LOOK, rng):
        clock.advance(max(at - clock.monotonic(), 0.0))
        by_look[int(at // LOOK)].append(_judged(memory, key, 1 / traffic.sampled, defect=defect))
    totals = list(accumulate((Sums.total(one) for one in by_look), initial=Sums()))
    usual = 1 / traffic.sampled
    found = []
    for by_session in (False, True):
        firing = [_fires(totals, look, threshold, usual, by_session=by_session) for look in range(warm + 1, looks + 1)]
        found.append(episodes(firing))
    return found[0], found[1]


def _answers(
    traffic: Traffic, rate: float, per_hour: float, seconds: float, rng: random.Random
) -> Iterator[tuple[float, bytes, bool]]:
    """Yield the judged answers of sessions that begin at random times: time, session, and whether a defect."""
    found = []
    pace = per_hour / 3600 / traffic.size / traffic.sampled  # sessions a second
    at, number = 0.0, 0
    while (at := at + rng.expovariate(pace)) < seconds:
        number += 1
        for place, defect in enumerate(traffic.session(rate, rng)):
            when = at + place * _BETWEEN
            if rng.random() < traffic.sampled and when < seconds:
                found.append((when, number.to_bytes(4, "big"), defect))
    found.sort()
    yield from found


def _fires(totals: Sequence[Sums], look: int, threshold: float, usual: float, *, by_session: bool) -> bool:
    """Decide like `alerts/threshold.py` at the end of a look."""
    for number, one in enumerate(sorted(DEFAULT_WINDOWS, key=lambda one: one.window)):
        sums = _between(totals[look - round(one.window / LOOK)], totals[look])
        sums = sums if by_session else _by_answer(sums)
        if number == 0:
            likely = estimate(sums, Z_OVER, usual=usual)
            if likely is not None and likely.upper < threshold:
                return False
        surely = estimate(sums, one.z, usual=usual)
        if surely is not None and surely.lower > threshold:
            return True
    return False


def _between(before: Sums, after: Sums) -> Sums:
    """Return the sums counted in between; all answers have the same weight."""
    return Sums(
        after.judged - before.judged,
        after.defects - before.defects,
        after.weight - before.weight,
        after.defect_weight - before.defect_weight,
        after.defect_weight_squares - before.defect_weight_squares,
        after.good_weight_squares - before.good_weight_squares,
        after.top,
        after.defect_products - before.defect_products,
        after.every_products - before.every_products,
        after.both_products - before.both_products,
    )


def _judged(memory: SessionMemory, key: bytes, weight: float, *, defect: bool) -> Sums:
    return Sums.of(weight, defect=defect, products=memory.add(key, _EVALUATOR, weight, defect=defect))


def _by_answer(sums: Sums) -> Sums:
    return replace(sums, defect_products=0.0, every_products=0.0, both_products=0.0)
