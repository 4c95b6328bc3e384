"""A budget over simulated days: kept on average, never far beyond its cap, and no case without a chance."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.answers import binormal
from benchmarks.simulation import bursts, closed_loop, cycle, steady
from monitor.statistics.budget_pacer import BudgetPacer

ROWS = binormal(0.9, 500, random.Random(0))


@pytest.mark.parametrize("boost", [False, True])
@pytest.mark.parametrize(
    ("load", "least"),
    [(steady, 0.9), (cycle, 0.9), (bursts(10), 0.8), (bursts(40), 0.65)],
    ids=["steady", "cycle", "bursts of ten minutes", "bursts of forty"],
)
def test_a_budget_is_spent_over_the_day_and_no_hour_takes_more_than_its_cap(load, least, boost) -> None:
    run = closed_loop(ROWS, per_day=600, per_minute=8, minutes=3 * 1440, rng=random.Random(4), load=load, boost=boost)
    last_day = math.fsum(run.by_hour[-1440:])
    assert least * 600 < last_day < 1.15 * 600
    assert run.busiest() <= 4 * 600 / 24 * 7 / 6


@pytest.mark.parametrize("begun", [0, 4, 8, 12, 16, 20])
def test_the_first_day_keeps_to_its_budget_at_whatever_hour_of_a_daily_cycle_it_begins(begun) -> None:
    pacer, spent = BudgetPacer(600, 100, now=0.0), 0.0
    for minute in range(1440):
        came = round(8 * cycle(minute + 60 * begun))
        for number in range(came):
            one = pacer.draw(None, (minute + number / came) * 60)
            assert one.probability > 600 / 1440 / 8 / 4
            spent += one.probability
    assert 0.75 * 600 < spent < 1.02 * 600


def test_a_traffic_that_doubles_for_good_overspends_for_a_day_only() -> None:
    def load(minute: int) -> float:
        return 1.0 if minute < 2 * 1440 else 2.0

    run = closed_loop(ROWS, per_day=600, per_minute=8, minutes=6 * 1440, rng=random.Random(5), load=load)
    days = [math.fsum(run.by_hour[day * 1440 : (day + 1) * 1440]) / 600 for day in range(6)]
    assert max(days) < 1.75
    assert days[3] < 1.35
    assert 0.9 < days[5] < 1.1


@given(
    waits=st.lists(st.floats(0, 7200), min_size=1, max_size=80),
    risks=st.lists(st.none() | st.floats(0, 1), min_size=1, max_size=20),
    per_day=st.floats(0.01, 1e6),
)
def test_every_case_has_a_chance_whatever_came_before_it(waits, risks, per_day) -> None:
    pacer, now = BudgetPacer(per_day, per_day / 6, now=0.0), 0.0
    for number, wait in enumerate(waits):
        now += wait
        paced = pacer.draw(risks[number % len(risks)], now)
        assert 0 < paced.probability <= 1
        assert 0 < paced.target <= 1
        assert 0 <= pacer.level <= pacer.size


@given(count=st.integers(1, 3000), per_hour=st.floats(1, 1000))
def test_a_flood_takes_no_more_than_ten_minutes_of_the_cap(count, per_hour) -> None:
    pacer = BudgetPacer(per_hour * 6, per_hour, now=0.0)
    spent = sum(pacer.draw(None, 1.0).probability for _ in range(count))
    assert spent <= pacer.size + 1 + 0.001 * count


def test_until_the_cap_is_near_every_case_keeps_half_of_the_mean_chance() -> None:
    rng, pacer = random.Random(6), BudgetPacer(1440, 240, now=0.0)
    drawn = [pacer.draw(rng.random() ** 4, minute * 30.0) for minute in range(5000)]
    assert all(one.probability >= one.target / 2 for one in drawn if not one.thinned)
    assert sum(one.thinned for one in drawn) < 50


def test_boosting_moves_the_budget_and_does_not_raise_it() -> None:
    rng, pacer = random.Random(7), BudgetPacer(600, 100, now=0.0)
    drawn = [pacer.draw(rng.betavariate(0.2, 6), number * 10.0) for number in range(30_000)][15_000:]
    mean = sum(one.probability for one in drawn) / sum(one.target for one in drawn)
    assert 0.95 < mean < 1.05


def test_a_case_that_is_likelier_a_defect_is_likelier_judged_up_to_one() -> None:
    pacer = BudgetPacer(1440, 240, now=0.0)
    chances = [pacer.draw(risk, 0.0).probability for risk in (0.001, 0.03, 0.3, 0.9)]
    assert chances == sorted(chances)
    assert chances[0] == pytest.approx(pacer.target / 2)


def test_where_the_budget_is_enough_for_all_everything_is_judged_once_that_is_known() -> None:
    pacer = BudgetPacer(5000, 1000, now=0.0)
    drawn = [pacer.draw((None, 0.0001, 0.9)[minute % 3], minute * 60.0) for minute in range(300)]
    assert {one.probability for one in drawn[240:]} == {1.0}


def test_a_risk_that_is_unknown_gets_the_mean_chance() -> None:
    paced = BudgetPacer(1440, 240, now=0.0).draw(None, 0.0)
    assert paced.probability == paced.target
