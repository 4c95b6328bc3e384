"""The uniform sampler: one probability for all."""

from __future__ import annotations

import pytest

from monitor import registry
from monitor.errors import ConfigError
from monitor.model.case import Case
from monitor.stages import Sampler


def test_every_case_has_the_configured_probability() -> None:
    sampler = registry.read("samplers", {"type": "uniform", "rate": "10%"}, Sampler, "sample")
    assert {sampler.probability(Case(request_id=i, response=i)) for i in ("a", "b")} == {0.1}


def test_without_a_rate_everything_is_judged() -> None:
    sampler = registry.read("samplers", {"type": "uniform"}, Sampler, "sample")
    assert sampler.probability(Case(request_id="a")) == 1.0


@pytest.mark.parametrize("rate", [1.5, -0.1, "110%", "often"])
def test_a_rate_outside_of_0_to_1_is_refused_with_its_place(rate: object) -> None:
    with pytest.raises(ConfigError, match=r"sample.rate: "):
        registry.read("samplers", {"type": "uniform", "rate": rate}, Sampler, "sample")
