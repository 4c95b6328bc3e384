"""What is simulated is what the alerts do."""

from __future__ import annotations

import random
from statistics import fmean, variance

import pytest

from monitor.alerts.engine import AlertEngine
from monitor.alerts.policy import DEFAULT_WINDOWS, AlertPolicy
from monitor.alerts.threshold import Z_OVER
from monitor.clock import ManualClock
from monitor.statistics.blocks import Blocks
from monitor.statistics.change import DAY, FAMILIES, WINDOWS, fired
from monitor.statistics.power import (
    LOOK,
    LOOKS_A_DAY,
    High,
    Regression,
    SimulatedCounts,
    episodes,
    high_alarms,
    high_delay,
    regression_delay,
    stream,
)
from monitor.statistics.rates import Sums
from monitor.statistics.session_products import SessionMemory
from monitor.statistics.windows import Windows

DEFAULTS = [(one.window, one.z) for one in DEFAULT_WINDOWS]


@pytest.mark.parametrize("per_look", [1.0, 10.0, 80.0])
def test_the_level_fires_at_the_same_looks_as_the_engine(per_look: float) -> None:
    """Verdicts fall into every other interval, so that both see the same ones: the engine counts tens of minutes."""
    rng = random.Random(7)
    clock = ManualClock(1_700_000_400.0)
    windows = Windows(clock)
    policy = AlertPolicy.model_validate({"evaluator": "grounded", "warning": "3%", "resolve_after": "0s"})
    engine, rule = AlertEngine([policy], windows), High(DEFAULTS, 0.03, Z_OVER)
    draws = stream([rate for rate in (0.02, 0.12, 0.02, 0.06, 0.01) for _ in range(100)], per_look, rng)
    parts: list[tuple[int, int]] = []
    seen, expected = [], []
    for look in range(1, 501):
        judged, defects = draws.window(LOOK, look)
        parts += [(judged - defects, defects), (0, 0)]
        clock.advance(LOOK)
        windows.add_sums("shop", "grounded", clock.now() - LOOK / 2, Sums.counted(judged, defects))
        clock.advance(LOOK)
        seen.append(any(state.firing for state in engine.evaluate(clock.now())))
    counts = SimulatedCounts(parts)
    expected = [rule.fires(counts, look) for look in range(2, len(parts) + 1, 2)]
    assert seen == expected
    assert any(seen)
    assert not all(seen)


@pytest.mark.parametrize("rate", [0.02, 0.03, 0.05])
def test_the_change_is_that_of_the_blocks_that_the_engine_reads(rate: float) -> None:
    rng = random.Random(3)
    start, days = 1_699_920_000, 11
    parts = [
        stream([0.02 if day < days else rate], 80, rng).window(LOOK, 1)
        for day in range(days + 1)
        for _ in range(LOOKS_A_DAY)
    ]
    blocks = Blocks()
    for look, (judged, defects) in enumerate(parts):
        blocks.add(start + look * LOOK, Sums.counted(judged, defects))
    now = start + len(parts) * LOOK
    counts = SimulatedCounts([(judged - defects, defects) for judged, defects in parts])
    up_to_a_day = {
        one.length: Sums.counted(*counts.window(one.length, len(parts))) for one in WINDOWS if one.length <= DAY
    }
    changes = blocks.changes(up_to_a_day, now)

    hours = [counts.window(3600, (hour + 1) * 12) for hour in range(24 * days)]
    rule = Regression(FAMILIES["default"], [(judged - defects, defects) for judged, defects in hours[-7 * 24 :]])
    assert rule.fires(counts, len(parts)) == bool(fired(changes, FAMILIES["default"]))
    assert rule.fires(counts, len(parts)) == (rate > 0.03)


@pytest.mark.parametrize("mean", [0.0, 0.2, 3.0, 83.0, 9000.0])
def test_so_many_are_judged_as_are_expected_and_they_vary_as_chance_does(mean: float) -> None:
    counts = stream([0.25] * 2000, mean, random.Random(1))
    judged = [counts.window(LOOK, look)[0] for look in range(1, 2001)]
    assert fmean(judged) == pytest.approx(mean, rel=0.05, abs=0.03)
    assert variance(judged) == pytest.approx(mean, rel=0.15, abs=0.03)
    assert counts.window(2000 * LOOK, 2000)[1] == pytest.approx(0.25 * sum(judged), rel=0.1)


def test_alarms_less_than_an_hour_apart_are_one() -> None:
    hour = [False] * 12
    assert episodes([]) == 0
    assert episodes([*hour, True, True, False, True, *hour]) == 1
    assert episodes([True, *hour[:11], True]) == 1
    assert episodes([True, *hour, True]) == 2


def test_a_rise_to_nowhere_is_not_noticed_and_one_to_everything_at_once() -> None:
    rule, rng = High(DEFAULTS, 0.03, Z_OVER), random.Random(1)
    never = high_delay(rule, 0.001, 0.002, 100, runs=3, days=2, rng=rng)
    assert (never.median, never.within_a_day) == (None, 0)
    soon = high_delay(rule, 0.001, 0.9, 1000, runs=3, days=2, rng=rng)
    assert soon.median is not None
    assert soon.median <= 2 / 12
    assert soon.within_a_day == 1
    soon = regression_delay(FAMILIES["default"], 0.01, 0.9, 1000, runs=3, rng=rng)
    assert soon.median is not None
    assert soon.median <= 2 / 12


def test_what_is_simulated_by_session_has_the_products_that_a_memory_of_sessions_sums_up() -> None:
    memory = SessionMemory(ManualClock())
    parts = []
    for number, defect in enumerate([True, False, False, True, False]):
        for _ in range(3):
            products = memory.add(bytes([number]), ("grounded", "1"), 1.0, defect=defect)
            parts.append(Sums.of(1.0, defect=defect, products=products))
    assert Sums.total(parts) == Sums.counted(15, 6, per_session=3)


def test_no_single_session_of_bad_answers_fires_the_level_where_ten_of_them_alone_do() -> None:
    assert High(DEFAULTS, 0.03, Z_OVER).fires(SimulatedCounts([(87, 10)]), 1)
    assert not High(DEFAULTS, 0.03, Z_OVER, per_session=10).fires(SimulatedCounts([(9, 1)]), 1)


def test_a_rise_takes_a_regression_by_session_longer() -> None:
    rng = random.Random(4)
    alone = regression_delay(FAMILIES["default"], 0.05, 0.3, 300, runs=20, rng=rng)
    in_sessions = regression_delay(FAMILIES["default"], 0.05, 0.3, 300, runs=20, rng=rng, per_session=10)
    assert alone.median is not None
    assert in_sessions.median is None or in_sessions.median > 2 * alone.median


def test_a_steady_rate_below_the_threshold_seldom_raises_alarms_and_one_above_does() -> None:
    rng = random.Random(5)
    assert high_alarms(High(DEFAULTS, 0.03, Z_OVER), 0.005, 100, days=5, rng=rng) == 0
    assert high_alarms(High(DEFAULTS, 0.03, Z_OVER, per_session=5), 0.3, 100, days=5, rng=rng) > 0
