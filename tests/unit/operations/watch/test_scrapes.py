"""What two scrapes of a monitor say of the time between them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.operations.watch.scrapes import NAMES, WINDOW, RateKey, Scrapes, read
from monitor.statistics.rates import Sums
from tests.support.fake_monitor import FakeMonitor

SHOP = RateKey("shop", "groundedness", "v1")
START = 1_700_000_000.0


def test_the_rate_since_the_start_is_that_of_all_traffic() -> None:
    fake = FakeMonitor()
    fake.judge(100, 20, weight=1.0)
    fake.judge(10, 8, weight=50.0)
    (sums,) = read(fake.samples(NAMES), START).rates.values()
    assert sums == Sums(110, 28, 600.0, 420.0, 20 + 8 * 2500.0, 80 + 2 * 2500.0)


def test_a_rate_by_the_own_rule_of_an_alert_counts_by_session_as_the_page_does() -> None:
    """Ten bad answers of one conversation among a hundred in ten."""
    fake, rule = FakeMonitor(), ("shop", "groundedness", "v1", "ungrounded")
    for defect, number in (("true", 10), ("false", 90)):
        for family in (fake.metrics.rule_evaluations, fake.metrics.rule_weight, fake.metrics.rule_weight_squares):
            family.labels(*rule, defect).inc(number)
    for of, products in (("defects", 100), ("all", 1000), ("both", 100)):
        fake.metrics.rule_session_products.labels(*rule, of).inc(products)
    fake.metrics.weight_max.labels("shop", "groundedness").set(1.0)
    found = read(fake.samples(NAMES), START).rates[RateKey(*rule)]
    assert found == Sums.counted(100, 10, per_session=10)


@given(st.lists(st.tuples(st.integers(0, 50), st.floats(0, 1), st.floats(1, 1e6)), min_size=2, max_size=8))
def test_the_window_holds_what_came_while_it_was_watched_and_no_more(steps: list[tuple[int, float, float]]) -> None:
    fake, found = FakeMonitor(), Scrapes()
    for at, (number, share, weight) in enumerate(steps):
        fake.judge(number, int(number * share), weight)
        found.add(read(fake.samples(NAMES), START + at))
    window = found.window(SHOP)
    assert window.judged == sum(number for number, _, _ in steps[1:])
    assert window.defects == sum(int(number * share) for number, share, _ in steps[1:])
    assert window.weight == pytest.approx(sum(number * weight for number, _, weight in steps[1:]), rel=1e-6, abs=1e-3)
    assert (window.defect_weight > 0) == (window.defects > 0)


def test_the_window_is_five_minutes_at_most() -> None:
    fake, found = FakeMonitor(), Scrapes()
    for minute in range(20):
        fake.judge(10, 1)
        found.add(read(fake.samples(NAMES), START + 60 * minute))
    assert found.seconds == WINDOW
    assert found.window(SHOP).judged == 50


def test_after_a_restart_it_begins_anew() -> None:
    fake, found = FakeMonitor(), Scrapes()
    fake.judge(100, 50)
    found.add(read(fake.samples(NAMES), START))
    again = FakeMonitor()
    again.judge(3, 0)
    found.add(read(again.samples(NAMES), START + 2))
    assert found.seconds == 0
    assert found.newest.scored == 3


def test_throughput_and_cost_are_those_of_the_time_that_it_is_watched() -> None:
    fake, found = FakeMonitor(), Scrapes()
    fake.judge(1000, 0)
    fake.metrics.judge_cost.labels("openai/x").inc(5.0)
    found.add(read(fake.samples(NAMES), START))
    assert found.per_second() is None
    fake.judge(30, 0)
    fake.metrics.judge_cost.labels("openai/x").inc(0.01)
    found.add(read(fake.samples(NAMES), START + 10))
    assert found.per_second() == (3.0, 3.0)
    assert found.dollars_per_hour("openai/x") == pytest.approx(3.6)


def test_a_trend_is_the_rate_of_each_ten_seconds() -> None:
    fake, found = FakeMonitor(), Scrapes()
    for step in range(4):
        found.add(read(fake.samples(NAMES), START + 10 * step))
        fake.judge(10, 10 * (step % 2)) if step != 2 else None
    assert found.trend(SHOP) == [0.0, 1.0, None]
