"""Streams of judged answers as services have them, and what `RagDefectRateRegression` makes of them.

| scenario | the defect rate, and how many are judged |
|---|---|
| none | steady |
| drift | a daily cycle of +-25 % and 15 % noise from day to day |
| weekvol | drift; a third more on weekends; four times as many judged by day as by night, half as many on weekends |
| slow | drift, and 10 % more every week |
| burst | drift; every day half an hour of five times the traffic, with a rate of its own (sd 40 %) |
| badday | drift, and five times the rate for 12 hours, three days before the month that counts |
| step | drift, and three times the rate from the first day of the month on, for good |
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from monitor.estimates.blocks import Blocks
from monitor.estimates.change import CLEAN_DAYS_NEEDED, DAY, FAMILIES, HOUR, WINDOWS, fired
from monitor.estimates.noticing import LOOK, LOOKS_A_DAY, Counts, counted, episodes

SCENARIOS: Final = ("none", "drift", "weekvol", "slow", "burst", "badday", "step")
WARM_DAYS: Final = 11
"""Before what counts: the seven days of the longest window's baseline, and the three days of its gap and a day."""
MONTH: Final = 30
SETTLED_DAYS: Final = 8
"""Until a rise that lasts has become the baseline, by design."""
_START = 1_699_920_000  # 14 November 2023, 00:00 UTC, a Tuesday
_EPISODE_LOOKS = round(HOUR / LOOK)


@dataclass(frozen=True, slots=True)
class Month:
    """What the rule made of 30 days: alarms, those of them that began when `SETTLED_DAYS` were over, and the hours from
    the start to the first one and to the last look of it, None where there was none.
    """

    alarms: int
    late: int
    first: float | None
    held_until: float | None


def looks(
    scenario: str, rate: float, per_hour: float, *, days: int, start: int, rng: random.Random
) -> Iterator[tuple[int, int]]:
    """Good and defective answers judged between one look and the next, for `WARM_DAYS` + `days`."""
    per_look = per_hour * LOOK / HOUR
    for day in range(WARM_DAYS + days):
        noise = max(rng.gauss(1, 0.15), 0.3) if scenario != "none" else 1.0
        weekend = (start // 86400 + day + 3) % 7 >= 5
        burst_at, burst_rate = rng.randrange(LOOKS_A_DAY - 6), max(rng.gauss(1, 0.4), 0.1)
        for look in range(LOOKS_A_DAY):
            phase = math.sin(2 * math.pi * look / LOOKS_A_DAY)
            share, volume = rate * noise, per_look
            if scenario != "none":
                share *= 1 + 0.25 * phase
            if scenario == "weekvol":
                share *= 1.3 if weekend else 1.0
                volume *= (1 + 0.6 * phase) * (0.5 if weekend else 1.0) * 7 / 6
            elif scenario == "slow":
                share *= 1.1 ** ((day + look / LOOKS_A_DAY) / 7)
            elif scenario == "burst" and burst_at <= look < burst_at + 6:
                share, volume = rate * burst_rate, volume * 5
            elif scenario == "badday" and day == WARM_DAYS - 3 and look < LOOKS_A_DAY / 2:
                share *= 5
            elif scenario == "step" and day >= WARM_DAYS:
                share *= 3
            share = min(share, 1.0)
            yield poisson(volume * (1 - share), rng), poisson(volume * share, rng)


def firing(parts: list[tuple[int, int]], start: int, family: str) -> list[bool]:
    """Whether the rule fires, look by look from the end of the warm-up on; `parts` as `looks` has them."""
    counts, blocks = Counts(parts), Blocks()
    short = [window.length for window in WINDOWS if window.length <= DAY]
    found = []
    for look, (good, defects) in enumerate(parts, 1):
        now = start + look * LOOK
        blocks.add(now - LOOK / 2, counted(good + defects, defects))
        if look > WARM_DAYS * LOOKS_A_DAY:
            windows = {length: counted(*counts.window(length, look)) for length in short}
            changes = blocks.changes(windows, now)
            enough = blocks.clean_days(now) >= CLEAN_DAYS_NEEDED
            found.append(enough and bool(fired(changes, FAMILIES[family])))
    return found


def month(scenario: str, rate: float, per_hour: float, family: str, seed: str) -> Month:
    """One month of a scenario."""
    rng = random.Random(seed)
    start = _START + rng.randrange(7) * 86400
    found = firing(list(looks(scenario, rate, per_hour, days=MONTH, start=start, rng=rng)), start, family)
    starts = [at for at, one in enumerate(found) if one and not any(found[max(at - _EPISODE_LOOKS, 0) : at])]
    if not starts:
        return Month(0, 0, None, None)
    assert len(starts) == episodes(found)
    ends = next((at for at in range(starts[0], len(found)) if not any(found[at : at + _EPISODE_LOOKS])), len(found))
    late = sum(at > SETTLED_DAYS * LOOKS_A_DAY for at in starts)
    return Month(len(starts), late, (starts[0] + 1) * LOOK / HOUR, ends * LOOK / HOUR)


def delay(scenario: str, before: float, after: float, per_hour: float, *, family: str, seed: str) -> float | None:
    """Hours until a rise that begins when the month does is noticed; None where it takes longer than four days.

    The scenario goes on: after the rise all of its rates are `after` / `before` times as high.
    """
    rng = random.Random(seed)
    start = _START + rng.randrange(7) * 86400
    parts = list(looks(scenario, before, per_hour, days=0, start=start, rng=rng))
    # The days after the warm-up, with the higher rate: the last four of a stream of its own.
    later = list(looks(scenario, after, per_hour, days=4, start=start, rng=rng))[WARM_DAYS * LOOKS_A_DAY :]
    found = firing(parts + later, start, family)
    return next(((at + 1) * LOOK / HOUR for at, one in enumerate(found) if one), None)


def poisson(mean: float, rng: random.Random) -> int:
    """How many events there were of which `mean` (up to 700) were expected, by inversion."""
    chance = math.exp(-mean)
    rest, number = rng.random() - chance, 0
    while rest > 0 and chance > 0:
        number += 1
        chance *= mean / number
        rest -= chance
    return number
