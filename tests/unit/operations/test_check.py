"""What `rag-monitor check` warns of in a configuration that is valid."""

from __future__ import annotations

from typing import Any

import pytest

from monitor import config
from monitor.operations.check import warnings

JUDGE: dict[str, Any] = {"model": "openai/gpt-4o-mini", "api_key": "none"}


@pytest.mark.parametrize("cap", ["dollars_per_day", "dollars_per_hour"])
def test_a_budget_below_what_an_ordinary_call_may_cost_is_warned_of_with_its_place(cap: str) -> None:
    given = config.parse({"judges": {"small": {**JUDGE, "budget": {cap: 0.0005}}}, "judge": JUDGE})
    (warned,) = warnings(given)
    assert warned == (
        f"judges.small.budget: one call may cost up to $0.00091, more than {cap} (0.0005); evaluations will stay"
        " unscored. To fix it: raise that limit"
    )


@pytest.mark.parametrize("budget", [{"dollars_per_day": 0.01}, {"evaluations_per_day": 1}, {}])
def test_a_budget_for_at_least_a_call_is_not_warned_of(budget: dict[str, float]) -> None:
    assert list(warnings(config.parse({"judge": {**JUDGE, "budget": budget}}))) == []


def test_a_budget_for_a_model_that_costs_nothing_is_not_warned_of() -> None:
    free = {"input_per_million": 0, "output_per_million": 0}
    given = config.parse({"judge": {**JUDGE, "price": free, "budget": {"dollars_per_day": 0.0001}}})
    assert list(warnings(given)) == []
