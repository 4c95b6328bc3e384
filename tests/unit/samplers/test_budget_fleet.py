"""A fleet at the largest size that docs/scaling.md plans, over simulated days: its budget, its shares, its rate."""

from __future__ import annotations

import math
import random
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import NamedTuple

import pytest

from benchmarks.simulation import cycle
from monitor.clock import ManualClock
from monitor.samplers.budget import BudgetSampler
from monitor.stages import Sampling
from monitor.statistics.rates import Sums, estimate
from tests.support.rubrics import shipped
from tests.support.runtime import runtime
from tests.support.sampled import case

REPLICAS, PARTITIONS, PER_DAY = 15, 30, 12_000
PER_MINUTE = 60  # kept requests of the whole fleet
RATE = 0.02
SPENT_AT_MOST = 1.02  # docs/scaling.md


class Fleet(NamedTuple):
    """What was spent (the sum of probabilities) by day and by replica, and the judged cases."""

    by_day: defaultdict[int, float]
    by_replica: defaultdict[int, float]
    drawn_by_day: Counter[int]
    judged: list[Sums]
    defects: int
    cases: int


def run(days: int, holders: Sequence[Sequence[int]], *, moved: Sequence[Sequence[int]] | None = None) -> Fleet:
    """Play days of traffic with a daily cycle; the partitions belong to `holders`, after half of them to `moved`.

    Each entry is the list of partitions that a replica holds.
    """
    rng, clock, one = random.Random(18), ManualClock(), case()
    owner: dict[int, int] = {}
    lent = [runtime(clock) for _ in holders]

    def assign(held: Sequence[Sequence[int]]) -> None:
        owner.update({partition: replica for replica, mine in enumerate(held) for partition in mine})
        for each, mine in zip(lent, held, strict=True):
            each.share.set("kafka", len(mine) / PARTITIONS)

    assign(holders)
    samplings: list[Sampling] = [BudgetSampler(per_day=PER_DAY).open(shipped("fluency"), each) for each in lent]
    fleet = Fleet(defaultdict(float), defaultdict(float), Counter(), [], 0, 0)
    defects = cases = 0
    for minute in range(days * 1440):
        if moved is not None and minute == days * 720:
            assign(moved)
        came = round(PER_MINUTE * cycle(minute))
        for _ in range(came):
            replica = owner[rng.randrange(PARTITIONS)]
            probability = samplings[replica].draw(one, {}).probability
            fleet.by_day[minute // 1440] += probability
            fleet.by_replica[replica] += probability
            defect = rng.random() < RATE
            defects, cases = defects + defect, cases + 1
            if rng.random() < probability:
                fleet.drawn_by_day[minute // 1440] += 1
                fleet.judged.append(Sums.of(1 / probability, defect=defect))
        clock.advance(60)
    return fleet._replace(defects=defects, cases=cases)


EVEN = [[2 * replica, 2 * replica + 1] for replica in range(REPLICAS)]


@pytest.fixture(scope="module")
def steady() -> Fleet:
    return run(2, EVEN)


def test_a_fleet_spends_its_budget_and_no_more(steady: Fleet) -> None:
    for day in range(2):
        assert 0.75 * PER_DAY < steady.by_day[day] <= SPENT_AT_MOST * PER_DAY
        assert abs(steady.drawn_by_day[day] - steady.by_day[day]) < 5 * math.sqrt(steady.by_day[day])


def test_every_replica_spends_its_share(steady: Fleet) -> None:
    whole = math.fsum(steady.by_replica.values())
    for replica in range(REPLICAS):
        assert steady.by_replica[replica] / whole == pytest.approx(1 / REPLICAS, rel=0.1)


def test_the_rate_of_the_fleet_is_that_of_its_traffic(steady: Fleet) -> None:
    found = estimate(Sums.total(steady.judged), 4.0)
    assert found is not None
    assert found.lower < steady.defects / steady.cases < found.upper
    assert math.fsum(one.weight for one in steady.judged) == pytest.approx(steady.cases, rel=0.03)


def test_when_a_replica_leaves_the_others_take_over_its_share_of_the_budget() -> None:
    moved = [[*mine] for mine in EVEN]
    for number, partition in enumerate(moved[0]):
        moved[number + 1].append(partition)
    moved[0] = []
    fleet = run(2, EVEN, moved=moved)
    for day in range(2):
        assert 0.75 * PER_DAY < fleet.by_day[day] <= SPENT_AT_MOST * PER_DAY
    assert fleet.by_replica[1] / fleet.by_replica[REPLICAS - 1] == pytest.approx(1.25, rel=0.1)
    found = estimate(Sums.total(fleet.judged), 4.0)
    assert found is not None
    assert found.lower < fleet.defects / fleet.cases < found.upper
