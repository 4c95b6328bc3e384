"""The pace once more, minute by minute from its definition, and a restart that changes nothing."""

from __future__ import annotations

import math

import pytest

from monitor.statistics.budget_pacer import BudgetPacer, deviation
from monitor.statistics.defect_model import PRIOR_RISK


class Traffic:
    """An average of the cases per minute that forgets; at first ten minutes of a guess."""

    def __init__(self, reach: float, guess: float) -> None:
        self.keeps = math.exp(-1 / reach)
        self.cases, self.minutes = 10 * guess, 10.0

    def minute(self, cases: float) -> None:
        self.cases = self.cases * self.keeps + cases
        self.minutes = self.minutes * self.keeps + 1

    @property
    def mean(self) -> float:
        return self.cases / self.minutes


class Pace:
    """What the pacer promises, one minute after the other."""

    def __init__(self, per_day: float, per_hour: float) -> None:
        self.per_day, self.per_hour = per_day, per_hour
        guess = per_day / 1440 / 0.1
        self.day, self.recent, self.burst = (Traffic(reach, guess) for reach in (1440, 120, 10))
        self.gone, self.spent = 0, 0.0
        self.mean, self.weight, self.scale = PRIOR_RISK, 50.0, 1.0
        self.risks, self.deviations = 50 * PRIOR_RISK, 50 * deviation(PRIOR_RISK, PRIOR_RISK)
        self.raw = self.wanted = self.seen = 0.0
        self.came = 0.0

    @property
    def target(self) -> float:
        day = self.per_day / 1440 / self.day.mean
        burst = max(0.9 * self.per_hour / 60 / self.burst.mean, day / 8)
        left = 1440 - self.gone
        first = day
        if left > 0:
            first = max((self.per_day - self.spent) / left / max(self.day.mean, self.recent.mean), day / 2)
        return min(1.0, day, burst, first)

    def case(self, risk: float | None, part: float, target: float) -> float:
        self.came += part
        probability = target
        if risk is not None:
            own, usual = deviation(risk, self.mean), self.deviations / self.weight
            self.risks, self.deviations, self.weight = (
                self.risks + part * risk,
                self.deviations + part * own,
                self.weight + part,
            )
            probability = 1.0
            if target < 1:
                probability = min(max(self.scale * target * own / usual, target / 2), 1.0)
                self.raw, self.wanted, self.seen = (
                    self.raw + part * probability,
                    self.wanted + part * target,
                    self.seen + part,
                )
        self.spent += part * probability
        return probability

    def minutes_pass(self, minutes: int) -> None:
        self.gone += minutes
        for number in range(minutes):
            for average in (self.day, self.recent, self.burst):
                average.minute(self.came if number == 0 else 0.0)
        self.came = 0.0
        self.mean = self.risks / self.weight
        kept = max(0.99**minutes, min(1.0, 50 / self.weight))
        self.risks, self.deviations, self.weight = kept * self.risks, kept * self.deviations, kept * self.weight
        if self.seen >= 30:
            self.scale = min(max(self.scale * (self.wanted / self.raw) ** 0.1, 1 / 16), 16)
            self.raw = self.wanted = self.seen = 0.0


RISKS = (None, 0.02, 0.4, 0.001, 0.9, None, 0.05, 0.2)


def traffic(minutes: int, at_most: int) -> list[tuple[int, list[tuple[float | None, float]]]]:
    """By minute, the risks of the cases and the parts of their probability that are used; some minutes are quiet."""
    found, minute = [], 0
    for number in range(minutes):
        minute += 1 if number % 6 else 4
        came = 1 + number * 7 % at_most
        found.append((minute, [(RISKS[(number + at) % 8], 1.0 if at % 3 else 0.4) for at in range(came)]))
    return found


@pytest.mark.parametrize(
    ("per_day", "per_hour", "at_most"),
    [(1440.0, 1e6, 9), (1440.0, 1e6, 60), (600.0, 700.0, 120), (20_000.0, 1e6, 9)],
    ids=["quiet", "busy", "capped", "enough for all"],
)
def test_chances_follow_the_traffic_of_the_day_and_of_the_last_minutes(
    per_day: float, per_hour: float, at_most: int
) -> None:
    pacer, pace, last = BudgetPacer(per_day, per_hour, now=500.0), Pace(per_day, per_hour), 0
    assert pacer.target == pytest.approx(pace.target, rel=1e-9)
    for minute, cases in traffic(700, at_most):
        pace.minutes_pass(minute - last)
        last, target = minute, pace.target
        for at, (risk, part) in enumerate(cases):
            found = pacer.draw(risk, 500.0 + 60 * minute + 30 * at / len(cases), part)
            assert found.thinned is False
            assert found.target == pytest.approx(target, rel=1e-8)
            assert found.probability == pytest.approx(pace.case(risk, part, target), rel=1e-8)


def test_a_bucket_that_is_less_than_half_full_lowers_the_chance_in_proportion() -> None:
    pacer = BudgetPacer(1000.0, 24.0, now=0.0)
    assert (pacer.size, pacer.level) == (4.0, 2.0)
    first, second = pacer.draw(None, 0.0), pacer.draw(None, 0.0)
    assert (first.probability, first.thinned) == (pacer.target, False)
    assert second.thinned is True
    assert second.probability == pytest.approx(pacer.target * (2 - pacer.target) / 2, rel=1e-12)
    assert pacer.level == pytest.approx(2 - first.probability - second.probability, rel=1e-12)


@pytest.mark.parametrize(("risk", "mean"), [(0.3, 0.1), (0.02, 0.4), (1.0, 0.2), (0.0, 0.7), (0.6, 0.5)])
def test_the_deviation_of_a_case_is_that_of_its_verdict_from_the_mean(risk: float, mean: float) -> None:
    assert deviation(risk, mean) == pytest.approx(math.sqrt(risk * (1 - mean) ** 2 + (1 - risk) * mean**2), rel=1e-9)


def test_the_deviation_is_never_quite_0() -> None:
    assert deviation(0.0, 0.0) == 1e-6


def busy(pacer: BudgetPacer, since: float, minutes: int) -> list[float]:
    return [
        pacer.draw(RISKS[(minute + at) % 8], since + 60.0 * minute + at).probability
        for minute in range(minutes)
        for at in range(1 + minute % 5)
    ]


def test_a_pacer_goes_on_after_a_restart_as_if_there_had_been_none() -> None:
    stayed, left = BudgetPacer(900.0, 400.0, now=0.0), BudgetPacer(900.0, 400.0, now=0.0)
    assert busy(stayed, 0.0, 90) == busy(left, 0.0, 90)
    now = 60.0 * 90
    state, again = left.state(now), BudgetPacer(900.0, 400.0, now=now)
    stayed.state(now)
    again.restore(state, now, 0.0)
    assert again.state(now) == pytest.approx(state)
    assert (again.target, again.level) == pytest.approx((stayed.target, stayed.level))
    assert busy(again, now, 20) == pytest.approx(
        busy(stayed, now, 20), rel=0.02
    )  # what a correction had gathered is lost


def test_while_it_is_away_the_bucket_fills_and_the_first_day_goes_on() -> None:
    left = BudgetPacer(900.0, 60.0, now=0.0)
    busy(left, 0.0, 30)
    state = left.state(1800.0)
    again = BudgetPacer(900.0, 60.0, now=50.0)
    again.restore(state, 50.0, 120.0)
    assert again.level == pytest.approx(min(state["level"] + 2.0, 10.0))
    assert again.state(50.0)["age"] == pytest.approx(1800.0 + 120.0)


def test_a_part_of_the_traffic_is_taken_over_with_that_part_of_what_was_counted_and_spent() -> None:
    left = BudgetPacer(900.0, 400.0, now=0.0)
    busy(left, 0.0, 30)
    state = left.state(1790.0)
    again = BudgetPacer(450.0, 200.0, now=0.0)
    again.restore(state, 0.0, 0.0, 0.5)
    found = again.state(0.0)
    for name in ("slow_cases", "recent_cases", "fast_cases", "cases", "spent", "level"):
        assert found[name] == pytest.approx(0.5 * state[name]), name
    for name in ("slow_minutes", "mean_risk", "risk_sum", "risk_cases", "scale"):
        assert found[name] == pytest.approx(state[name]), name


def test_twice_the_traffic_and_the_budget_leave_the_chances_as_they_are() -> None:
    one, two = BudgetPacer(900.0, 400.0, now=0.0), BudgetPacer(900.0, 400.0, now=0.0)
    busy(one, 0.0, 30)
    busy(two, 0.0, 30)
    before = two.state(1800.0)
    two.scale(2.0)
    after = two.state(1800.0)
    assert (two.per_day, two.per_hour) == (1800.0, 800.0)
    for name in ("slow_cases", "recent_cases", "fast_cases", "cases", "spent", "level"):
        assert after[name] == pytest.approx(2 * before[name]), name
    two.draw(None, 1860.0)
    one.draw(None, 1860.0)
    one.draw(None, 1861.0)
    assert one.draw(None, 1920.0).target == pytest.approx(two.draw(None, 1920.0).target, rel=0.02)


@pytest.mark.parametrize("wrong", [-1.0, math.inf, math.nan, "5", None])
@pytest.mark.parametrize("name", ["spent", "age", "level", "fast_minutes", "scale"])
def test_a_state_that_is_none_leaves_a_new_pacer_as_it_is(name: str, wrong: object) -> None:
    left = BudgetPacer(900.0, 400.0, now=0.0)
    busy(left, 0.0, 30)
    again = BudgetPacer(900.0, 400.0, now=0.0)
    again.restore({**left.state(1800.0), name: wrong}, 0.0, 0.0)
    assert again.state(0.0) == BudgetPacer(900.0, 400.0, now=0.0).state(0.0)
    again.restore({}, 0.0, 0.0)
    assert again.state(0.0) == BudgetPacer(900.0, 400.0, now=0.0).state(0.0)


@pytest.mark.parametrize(("scale", "expected"), [(0.0, 1 / 16), (99.0, 16.0), (2.0, 2.0)])
def test_a_correction_is_at_most_16_times_either_way(scale: float, expected: float) -> None:
    pacer = BudgetPacer(900.0, 400.0, now=0.0)
    pacer.restore({**pacer.state(0.0), "scale": scale, "risk_cases": 0.0}, 0.0, 0.0)
    assert pacer.state(0.0)["scale"] == expected
    assert pacer.state(0.0)["risk_cases"] == 1.0
