"""What a release must meet is checked where it is written, for commands and for Python programs alike."""

from __future__ import annotations

import pytest

from monitor.errors import ConfigError
from monitor.operations.gate import Criteria, Limit, Previous, Side

LIMIT = Limit("groundedness", 0.05)


def test_a_limit_is_an_evaluator_and_a_rate() -> None:
    assert Limit.of("groundedness:5%") == LIMIT
    assert Limit.of("groundedness") == Limit("groundedness", None)


@pytest.mark.parametrize("text", ["", ":5%", "groundedness:lots", "groundedness:0", "groundedness:120%"])
def test_a_limit_that_makes_no_sense_is_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        Limit.of(text)


def test_a_side_is_an_app_or_one_value_of_a_slice() -> None:
    assert Side.of("app=shop") == Side("shop")
    assert Side.of("service.version=2.0=rc") == Side(None, "service.version", "2.0=rc")
    with pytest.raises(ConfigError, match="KEY=VALUE"):
        Side.of("shop")


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"limits": []}, "limits"),
        ({"limits": [Limit("groundedness", None)]}, "limits"),
        ({"since": 59.0}, "since"),
        ({"against": Previous(baseline=1.0)}, "baseline"),
        ({"times": 0.5}, "times"),
        ({"side": Side("a"), "against": Side("a")}, "against"),
        ({"side": Side(None, "version", "2"), "against": Side("a")}, "against"),
    ],
)
def test_criteria_that_make_no_sense_are_refused_by_the_name_of_the_field(fields: dict[str, object], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        Criteria(**{"limits": [LIMIT], **fields})  # type: ignore[arg-type]
