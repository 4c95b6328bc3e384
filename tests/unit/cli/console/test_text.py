from __future__ import annotations

import pytest

from monitor.cli.console.text import dollars


@pytest.mark.parametrize(
    ("amount", "shown"), [(0, "-"), (0.000042, "$4.2e-05"), (0.00042, "$0.00042"), (0.132, "$0.13"), (12.6, "$12.60")]
)
def test_an_amount_shows_the_price_of_a_single_evaluation(amount, shown):
    assert dollars(amount) == shown
