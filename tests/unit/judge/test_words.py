from __future__ import annotations

import json
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.judge.words import LONGEST, own_words, secrets_of


class ForeignError(Exception):
    """An exception as litellm's look; `body` is that of the response, if it is passed on."""

    def __init__(self, message: str, body: object = None) -> None:
        super().__init__(message)
        self.body = body


def words(message: str, body: object = None, **hidden: list[str]) -> str:
    return own_words(ForeignError(message, body), **hidden)


@pytest.mark.parametrize(
    ("message", "said"),
    [
        (
            "litellm.InternalServerError: InternalServerError: OpenAIException - Missing credentials.",
            "Missing credentials",
        ),
        ("litellm.APIError: AzureException APIError - Must provide `base_url`", "Must provide `base_url`"),
        ("litellm.AuthenticationError: BedrockException Invalid Authentication - No credentials", "No credentials"),
        (
            'litellm.BadRequestError: litellm.APIError: AnthropicException - {"error": {"message": "no credit"}}',
            "no credit",
        ),
        ('AnthropicException - {"error": {"message": "über"}}. Handle with `litellm.APIError`.', "über"),
        ('[{"error": {"code": 400, "message": "API key not valid"}}]', "API key not valid"),
        ('{"error": {"message": "cut off", "param": ', "cut off"),
        ("litellm.APIConnectionError: No key\nTraceback (most recent call last):\n  File x", "No key"),
        ("OpenAIException - Error code: 401", ""),
        ("OpenAIException - Error code: 307 - {}", ""),
        ("<html><head><title>502 Bad Gateway</title></head><body>nginx</body></html>", "502 Bad Gateway"),
        (
            "Cannot connect to host a:9 ssl:<ssl.SSLContext object at 0x7fa1> [refused]",
            "Cannot connect to host a:9 [refused]",
        ),
        ("no\x1b[31m colour\x07\u202e here", "no [31m colour here"),
        ("", ""),
        ("   \n\n  second line", "second line"),
    ],
)
def test_the_words_of_the_provider_are_taken_out_of_their_wrapping(message, said):
    assert words(message) == said


def test_the_body_of_the_response_comes_before_the_exception_s_text():
    assert words("APIError: whatever", {"error": {"message": "Insufficient Balance"}}) == "Insufficient Balance"
    assert words("APIError: the text", {"error": {}}) == "the text"


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ("API key provided: sk-proj-abcdefghijklmnop1234. Look it up", "API key provided: [hidden] Look it up"),
        ("Incorrect API key provided: sk-pr******1234", "Incorrect API key provided: [hidden]"),
        ("Your api key: ****1234 is invalid", "Your api key: [hidden] is invalid"),
        ("API Key = sk-...1234, Hash =88dc28d0f030c55ed4ab77ed", "API Key = [hidden], Hash =[hidden]"),
        ("GET https://x.dev/v1?key=AIzaSyA1234567890123&alt=1", "GET https://x.dev/v1?key=[hidden]&alt=1"),
        ("proxy http://user:pass@proxy:3128 refused", "proxy http://[hidden]@proxy:3128 refused"),
        ("the model claude-3-5-haiku-20241022 does not exist", "the model claude-3-5-haiku-20241022 does not exist"),
        ("no model anthropic.claude-3-haiku-20240307-v1:0", "no model anthropic.claude-3-haiku-20240307-v1:0"),
    ],
)  # fmt: skip
def test_what_looks_like_a_key_is_hidden_even_if_it_is_not_ours(message, shown):
    assert words(message) == shown


KEY = "9f8Qw2-LmXz71-TtKkPp03"


@pytest.mark.parametrize("part", [KEY, KEY[:5], KEY[-5:], KEY[4:14], f"key-{KEY}!", f"{KEY[:4]}"])
def test_a_part_of_our_key_is_hidden_wherever_it_stands(part):
    said = words(f"no access with {part} today", secrets=[KEY])
    assert part not in said
    assert said.startswith("no access with")
    assert said.endswith("today")


def test_keys_in_the_environment_are_secrets_too():
    found = secrets_of({"OPENAI_API_KEY": "sk-canary-secret", "HOME": "/root", "X_TOKEN": "short"}, None, "given-one")
    assert found == ["given-one", "sk-canary-secret"]


@pytest.mark.parametrize(
    "message",
    [
        "input_value='Alice Smith lives in Berlin', input_type=str",
        'invalid: "Alice   Smith\\nlives in Berlin"',
        "your prompt was ALICE SMITH LIVES IN BERLIN and more",
    ],
)
def test_words_that_repeat_the_prompt_are_not_shown(message):
    said = words(message, prompt=["Question: where?\nAlice Smith lives in Berlin, since 2001."])
    assert "alice" not in said.casefold()
    assert "berlin" not in said.casefold()


def test_a_short_quote_from_the_prompt_is_hidden_and_the_words_around_it_stay():
    assert words("unexpected value 'Bob' in field", prompt=["Bob said so, and went."]) == (
        "unexpected value '[hidden]' in field"
    )


@given(st.text(max_size=6000), st.text(min_size=8, max_size=60), st.text(max_size=300))
def test_any_words_are_one_bounded_line_without_the_key(message, key, before):
    said = own_words(ForeignError(f"{before}{key}{message}"), secrets=[key])
    assert len(said) <= LONGEST + 2
    assert not any(unicodedata.category(one)[0] == "C" for one in said)
    assert "\n" not in said
    assert key not in said


@given(
    st.text("abcdefgh ijklm.nop,qrst", min_size=40, max_size=200).filter(lambda one: len(one.replace(" ", "")) > 30),
    st.text(max_size=50),
)
def test_a_prompt_is_never_repeated_in_runs(prompt, before):
    plain = "".join(one for one in prompt if one.isalnum())
    said = own_words(ForeignError(json.dumps({"error": {"message": f"{before} {prompt}"}})), prompt=[prompt])
    shown = "".join(one for one in said.casefold() if one.isalnum())
    assert not any(plain[at : at + 20] in shown for at in range(max(len(plain) - 20, 0) + 1) if len(plain) >= 20)
