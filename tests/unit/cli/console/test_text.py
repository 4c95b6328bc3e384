from __future__ import annotations

import pytest

from monitor.cli.console.text import dollars, timing


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(0.00041, "0.41 ms"), (0.0123, "12.3 ms"), (0.5, "500 ms"), (1.25, "1.25 s"), (42.0, "42.0 s")],
)
def test_a_duration_has_three_digits(seconds, shown):
    assert timing(seconds) == shown


@pytest.mark.parametrize(
    ("amount", "shown"), [(0, "-"), (0.000042, "$4.2e-05"), (0.00042, "$0.00042"), (0.132, "$0.13"), (12.6, "$12.60")]
)
def test_an_amount_shows_the_price_of_a_single_evaluation(amount, shown):
    assert dollars(amount) == shown
