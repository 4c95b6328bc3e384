"""The sampler with a probability for each kind of case."""

from __future__ import annotations

import pytest

from monitor import registry
from monitor.errors import ConfigError
from monitor.model.case import Case
from monitor.stages import Sampler


def test_the_rate_of_an_app_is_found_by_its_name_as_its_service_states_it() -> None:
    rates = {" a\u3000b ": "10%", "gold": "50%"}
    sampler = registry.read("samplers", {"type": "by_attribute", "attribute": "app", "rates": rates}, Sampler, "sample")
    found = [sampler.probability(Case(request_id="1", app=app)) for app in ("a b", "gold", "other")]
    assert found == [0.1, 0.5, 1.0]


def test_the_values_of_other_attributes_are_taken_as_they_are() -> None:
    options = {"type": "by_attribute", "attribute": "tenant", "rates": {" a\u3000b ": "10%"}}
    sampler = registry.read("samplers", options, Sampler, "sample")
    assert sampler.probability(Case(request_id="1", attributes={"tenant": " a\u3000b "})) == 0.1


def test_two_rates_for_one_app_are_refused() -> None:
    options = {"type": "by_attribute", "attribute": "app", "rates": {"a b": "10%", "a\u00a0b": "20%"}}
    with pytest.raises(ConfigError, match="two entries for the app 'a b'"):
        registry.read("samplers", options, Sampler, "sample")
