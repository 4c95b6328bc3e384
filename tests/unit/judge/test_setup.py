from __future__ import annotations

import pytest

from monitor.judge.settings import JudgeSettings
from monitor.judge.setup import SAID, PauseCause, before_a_call, cause_in, place_of, remedy


def missing(environment: dict[str, str] | None = None, **settings: str) -> PauseCause | None:
    found = before_a_call(JudgeSettings.model_validate(settings), environment or {}, "judge")
    return found.cause if found is not None else None


@pytest.mark.parametrize(
    ("settings", "environment", "cause"),
    [
        ({"model": "openai/gpt-4o-mini"}, {}, PauseCause.NO_KEY),
        ({"model": "openai/gpt-4o-mini", "api_key": ""}, {}, PauseCause.NO_KEY),
        ({"model": "openai/x", "api_base": "http://127.0.0.1:9"}, {}, PauseCause.NO_KEY),
        ({"model": "openai/gpt-4o-mini"}, {"OPENAI_API_KEY": "k"}, None),
        ({"model": "openai/gpt-4o-mini"}, {"OPENAI_API_KEY": ""}, PauseCause.NO_KEY),
        ({"model": "openai/gpt-4o-mini", "api_key": "k"}, {}, None),
        ({"model": "openai/gpt-4o-mini", "api_key_file": "/run/key"}, {}, None),
        ({"model": "anthropic/claude"}, {}, PauseCause.NO_KEY),
        ({"model": "anthropic/claude"}, {"ANTHROPIC_AUTH_TOKEN": "k"}, None),
        ({"model": "azure/gpt4"}, {}, PauseCause.NO_KEY),
        ({"model": "azure/gpt4", "api_key": "k"}, {}, PauseCause.NO_ADDRESS),
        ({"model": "azure/gpt4", "api_key": "k"}, {"AZURE_API_BASE": "https://x"}, None),
        ({"model": "azure/gpt4", "api_key": "k", "api_base": "https://x.dev"}, {}, None),
        ({"model": "mistral/small"}, {}, PauseCause.NO_KEY),
        ({"model": "mistral/small", "api_base": "http://127.0.0.1:9"}, {}, None),
        ({"model": "ollama_chat/llama3"}, {}, None),
        ({"model": "hosted_vllm/x", "api_base": "http://127.0.0.1:9"}, {}, None),
        ({"model": "someone_new/x"}, {}, None),
        ({"model": "gpt-4o-mini"}, {}, None),
        ({"model": "classifier/x"}, {}, None),
    ],
)
def test_a_missing_key_or_address_is_known_before_the_first_call(settings, environment, cause):
    assert missing(environment, **settings) is cause


def test_the_sentence_names_the_option_of_this_judge_and_the_variable():
    found = before_a_call(JudgeSettings(model="openai/gpt-4o-mini"), {}, place_of("small"))
    assert found is not None
    assert "judges.small.api_key" in found.why
    assert "OPENAI_API_KEY" in found.why


@pytest.mark.parametrize("cause", PauseCause)
def test_every_cause_is_recognised_in_its_message_and_has_a_remedy_that_names_the_judge(cause):
    assert cause_in(f'the judge is paused: {SAID[cause]} (HTTP 400): "words"') is cause
    assert "judges.small" in remedy(cause, "judges.small", model="openai/x")
    assert "{" not in remedy(cause, "judge", key_file=True)


def test_another_message_has_no_cause():
    assert cause_in("the provider failed (HTTP 500)") is None
