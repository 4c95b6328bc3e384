from __future__ import annotations

import pytest
from pydantic import ValidationError

from monitor.errors import ConfigError
from monitor.judge.budget import Tariff, tariff
from monitor.judge.settings import Budget, CacheSettings, JudgeSettings, Price
from monitor.operations.reference import docstrings


@pytest.mark.parametrize(
    "url",
    [
        "https://api.openai.com/v1",
        "http://127.0.0.1:8000/v1",
        "http://localhost:11434",
        "http://10.1.2.3:8000",
        "http://[::1]:8000",
        "https://gateway.internal/llm",
    ],
)
def test_an_ordinary_address_is_taken(url):
    assert JudgeSettings(model="m", api_base=url).api_base == url


@pytest.mark.parametrize(
    ("url", "what"),
    [
        ("ftp://host/v1", "scheme"),
        ("file:///etc/passwd", "scheme"),
        ("api.openai.com/v1", "scheme"),
        ("http://", "no host"),
        ("http://host:port/", "not a URL"),
        ("http://[::1", "not a URL"),
        ("https://user:hunter2@host/v1", "credentials"),
        ("https://host/v1?key=hunter2", "query"),
        ("http://169.254.169.254/latest", "link-local"),
        ("http://2852039166/", "link-local"),
        ("http://0xa9fea9fe/", "link-local"),
        ("http://169.254.43518/", "link-local"),
        ("http://0251.0376.0251.0376/", "link-local"),
        ("http://[::ffff:169.254.169.254]/", "link-local"),
        ("http://[fe80::1%25eth0]/", "link-local"),
        ("http://[fd00:ec2::254]/", "metadata"),
        ("http://100.100.100.200/", "metadata"),
        ("http://metadata.google.internal/", "metadata"),
        ("http://METADATA.google.internal./", "metadata"),
    ],
)
def test_an_address_that_may_hand_out_credentials_is_refused_in_words_without_its_secrets(url, what):
    """S13."""
    with pytest.raises(ValueError, match=what) as caught:
        JudgeSettings(model="m", api_base=url)
    assert "api_base: " in str(caught.value)
    assert "hunter2" not in str(caught.value)


def test_a_link_local_address_can_be_allowed():
    """S13."""
    JudgeSettings(model="m", api_base="http://169.254.1.1:8000", allow_link_local=True)


def test_unknown_keys_and_impossible_limits_are_refused():
    for wrong in ({"modle": "x"}, {"timeout": 0}, {"max_attempts": 0}, {"budget": {"dollars_per_day": -1}}):
        with pytest.raises(ValidationError):
            JudgeSettings.model_validate(wrong)


def test_durations_read_as_people_write_them():
    settings = JudgeSettings.model_validate({"timeout": "1m30s", "cache": {"ttl": "2d"}})
    assert (settings.timeout, settings.cache.ttl) == (90.0, 172_800.0)


def test_the_key_is_in_no_repr():
    """S10."""
    assert "sk-secret" not in repr(JudgeSettings.model_validate({"model": "m", "api_key": "sk-secret"}))


def test_every_option_is_documented():
    for component in (JudgeSettings, Budget, Price, CacheSettings):
        assert docstrings(component).keys() >= component.model_fields.keys()


def test_a_known_model_has_its_list_price_with_and_without_its_provider():
    assert tariff(JudgeSettings(model="openai/gpt-4o-mini")) == Tariff(0.15e-6, 0.6e-6)
    assert tariff(JudgeSettings(model="gpt-4o-mini")) == Tariff(0.15e-6, 0.6e-6)


def test_the_configured_price_wins():
    settings = JudgeSettings(model="openai/gpt-4o-mini", price=Price(input_per_million=1, output_per_million=2))
    found = tariff(settings)
    assert found is not None
    assert found.dollars(1_000_000, 500_000) == pytest.approx(2.0)


def test_another_providers_model_of_the_same_name_has_no_price():
    assert tariff(JudgeSettings(model="ollama/gpt-4o-mini")) is None


@pytest.mark.parametrize("budget", [Budget(dollars_per_day=1), Budget(dollars_per_hour=1)])
def test_a_budget_in_dollars_without_a_price_is_refused(budget):
    """J9: it would never be spent."""
    with pytest.raises(ConfigError, match=r"judge\.price"):
        tariff(JudgeSettings(model="openai/my-own-model", budget=budget))


def test_a_budget_in_judgements_needs_no_price():
    assert tariff(JudgeSettings(model="openai/my-own-model", budget=Budget(evaluations_per_day=1))) is None
