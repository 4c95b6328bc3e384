"""Realistic streams of judged answers, and the alarms that `RagDefectRateRegression` raises on them.

| scenario | the defect rate, and how many are judged |
|---|---|
| none | steady |
| drift | a daily cycle of +-25 % and 15 % noise from day to day |
| weekvol | drift; a third more on weekends; four times as many judged by day as by night, half as many on weekends |
| slow | drift, and 10 % more every week |
| burst | drift; every day half an hour of five times the traffic, with a rate of its own (sd 40 %) |
| badday | drift, and five times the rate for 12 hours, three days before the month that counts |
| step | drift, and three times the rate from the first day of the month on, for good |

If answers come in sessions, all answers of a session are bad or good together and arrive at once, and sessions are
counted.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from monitor.alerts.policy import Severity
from monitor.alerts.regression import HOLD, NAME
from monitor.alerts.state import AlertStatus, AlertTracker, ConditionResult, Subject
from monitor.statistics.blocks import Blocks
from monitor.statistics.change import CLEAN_DAYS_NEEDED, DAY, FAMILIES, HOUR, WINDOWS, fired, held
from monitor.statistics.power import LOOK, LOOKS_A_DAY, SimulatedCounts, episodes
from monitor.statistics.rates import Sums

SCENARIOS: Final = ("none", "drift", "weekvol", "slow", "burst", "badday", "step")
WARM_DAYS: Final = 11
"""Days before the month that counts: seven for the longest window's baseline, three for its gap, and one more."""
MONTH: Final = 30
SETTLED_DAYS: Final = 8
"""Days until a permanent rise has become the baseline, by design."""
_START = 1_699_920_000  # 14 November 2023, 00:00 UTC, a Tuesday
_SUBJECT = Subject(NAME, Severity.WARNING)


@dataclass(frozen=True, slots=True)
class Month:
    """The rule's notifications in 30 days.

    `alarms`: how many began; `late`: those of them that began when `SETTLED_DAYS` were over; `first`, `ended`: the
    hours from the start to the first one and to its end, None if there was none; `bare`: how many there would have been
    if nothing were held, and alarms an hour apart or less counted as one.
    """

    alarms: int
    late: int
    first: float | None
    ended: float | None
    bare: int


def looks(
    scenario: str, rate: float, per_hour: float, *, days: int, start: int, rng: random.Random
) -> Iterator[tuple[int, int]]:
    """Yield the good and defective answers judged between successive looks, for `WARM_DAYS` + `days`."""
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


def findings(parts: list[tuple[int, int]], start: int, family: str, per_session: int = 1) -> Iterator[ConditionResult]:
    """Yield what each look finds from the end of the warm-up on; `parts` as in `looks`, counted in sessions."""

    def sums(number: int, defects: int) -> Sums:
        return Sums.counted(number * per_session, defects * per_session, per_session)

    counts, blocks = SimulatedCounts(parts), Blocks()
    short = [window.length for window in WINDOWS if window.length <= DAY]
    days = 0
    for look, (good, defects) in enumerate(parts, 1):
        now = start + look * LOOK
        blocks.add(now - LOOK / 2, sums(good + defects, defects))
        if now % HOUR == 0:
            days = blocks.clean_days(now)
        if look > WARM_DAYS * LOOKS_A_DAY:
            windows = {length: sums(*counts.window(length, look)) for length in short}
            changes = blocks.changes(windows, now)
            if days < CLEAN_DAYS_NEEDED:
                yield ConditionResult(AlertStatus.NOT_ENOUGH_DATA, "")
            elif fired(changes, FAMILIES[family]):
                yield ConditionResult(AlertStatus.FIRING, "")
            else:
                yield ConditionResult(AlertStatus.OK, "", holds=held(changes))


def alarms_of(found: list[ConditionResult]) -> list[tuple[int, int]]:
    """Return the first look of each alarm and the first after it, by the states that the monitor would go through."""
    tracker, alarms, on = AlertTracker(), list[tuple[int, int]](), False
    for look, finding in enumerate(found):
        if not on and finding.status is not AlertStatus.FIRING:
            continue
        state = tracker.advance(_SUBJECT, finding, summary="", hold=HOLD, now=look * LOOK)
        if state.firing and not on:
            alarms.append((look, len(found)))
        elif on and not state.firing:
            alarms[-1] = alarms[-1][0], look
        on = state.firing
    return alarms


def month(  # noqa: PLR0917 - the job of a pool has positions only
    scenario: str, rate: float, per_hour: float, family: str, seed: str, per_session: int = 1
) -> Month:
    """Simulate one month of a scenario, in sessions of `per_session` answers."""
    rng = random.Random(seed)
    start = _START + rng.randrange(7) * 86400
    parts = list(looks(scenario, rate, per_hour / per_session, days=MONTH, start=start, rng=rng))
    found = list(findings(parts, start, family, per_session))
    alarms = alarms_of(found)
    late = sum(begin >= SETTLED_DAYS * LOOKS_A_DAY for begin, _ in alarms)
    first, ended = ((alarms[0][0] + 1) * LOOK / HOUR, alarms[0][1] * LOOK / HOUR) if alarms else (None, None)
    return Month(len(alarms), late, first, ended, episodes([one.status is AlertStatus.FIRING for one in found]))


def delay(
    scenario: str, before: float, after: float, per_hour: float, *, family: str, seed: str, per_session: int = 1
) -> float | None:
    """Return the hours until a rise at the start of the month is noticed, or None if that takes longer than four days.

    The scenario continues: after the rise all of its rates are `after` / `before` times as high.
    """
    rng = random.Random(seed)
    start = _START + rng.randrange(7) * 86400
    sessions = per_hour / per_session
    parts = list(looks(scenario, before, sessions, days=0, start=start, rng=rng))
    # The days after the warm-up, with the higher rate: the last four of a separate stream.
    later = list(looks(scenario, after, sessions, days=4, start=start, rng=rng))[WARM_DAYS * LOOKS_A_DAY :]
    found = findings(parts + later, start, family, per_session)
    return next(((at + 1) * LOOK / HOUR for at, one in enumerate(found) if one.status is AlertStatus.FIRING), None)


def poisson(mean: float, rng: random.Random) -> int:
    """Return a Poisson count with this mean (up to 700), by inversion."""
    chance = math.exp(-mean)
    rest, number = rng.random() - chance, 0
    while rest > 0 and chance > 0:
        number += 1
        chance *= mean / number
        rest -= chance
    return number
