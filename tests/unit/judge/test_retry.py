from __future__ import annotations

import asyncio
import random
import ssl
from email.utils import formatdate

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.judge.retry import backoff, classify, retry_after
from monitor.judge.setup import PauseCause
from monitor.model.outcome import UnscoredReason

NOW = 1_700_000_000.0


class ForeignError(Exception):
    """An exception as litellm's look: a status, a body, headers."""

    def __init__(self, status: int | None, message: str = "", headers: dict[str, str] | None = None) -> None:
        super().__init__(message)
        if status is not None:
            self.status_code = status
        self.litellm_response_headers = headers


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (408, UnscoredReason.TIMEOUT),
        (409, UnscoredReason.PROVIDER_ERROR),
        (429, UnscoredReason.RATE_LIMITED),
        (500, UnscoredReason.PROVIDER_ERROR),
        (502, UnscoredReason.PROVIDER_ERROR),
        (529, UnscoredReason.PROVIDER_ERROR),
        (None, UnscoredReason.PROVIDER_ERROR),
    ],
)
def test_passing_faults_are_retried_and_speak_of_the_providers_health(status, reason):
    """J4."""
    fault = classify(ForeignError(status), NOW)
    assert (fault.reason, fault.again, fault.sick) == (reason, True, True)


@pytest.mark.parametrize(
    ("status", "message", "reason", "sick"),
    [
        (401, "", UnscoredReason.AUTH, False),
        (403, "", UnscoredReason.AUTH, False),
        (403, "your input was flagged by moderation", UnscoredReason.CONTENT_FILTER, False),
        (404, "", UnscoredReason.PROVIDER_ERROR, False),
        (400, "", UnscoredReason.PROVIDER_ERROR, False),
        (422, "", UnscoredReason.PROVIDER_ERROR, False),
        (400, "flagged by our content policy", UnscoredReason.CONTENT_FILTER, False),
        (400, "ResponsibleAIPolicyViolation", UnscoredReason.CONTENT_FILTER, False),
        (400, "exceeds the maximum context length of 8192", UnscoredReason.TOO_LARGE, False),
    ],
)
def test_lasting_faults_are_not_retried(status, message, reason, sick):
    """J5: a content filter is no rate limit, whatever else it says."""
    fault = classify(ForeignError(status, message), NOW)
    assert (fault.reason, fault.again, fault.sick) == (reason, False, sick)


_PLAN = "You exceeded your current quota, please check your plan and billing details."


@pytest.mark.parametrize(
    ("status", "message", "cause"),
    [
        (401, "", PauseCause.REFUSED),
        (403, "", PauseCause.REFUSED),
        (402, "", PauseCause.UNPAID),
        (429, f"{_PLAN} insufficient_quota", PauseCause.UNPAID),
        (429, f"litellm.RateLimitError: AzureException RateLimitError - {_PLAN}", PauseCause.UNPAID),
        (400, 'AnthropicException - {"error": {"message": "Your credit balance is too low"}}', PauseCause.UNPAID),
        (403, "Your team has used all available credits", PauseCause.UNPAID),
        (404, "", PauseCause.GONE),
        (410, "", PauseCause.GONE),
        (400, "The model `m-1` has been decommissioned and is no longer supported.", PauseCause.GONE),
        (429, "", None),
        (429, "Rate limit reached for requests", None),
        (429, f"{_PLAN} * Quota exceeded for metric: requests_per_minute. Please retry in 7s.", None),
        (400, "", None),
        (408, "", None),
        (409, "", None),
        (422, "", None),
        (500, "insufficient_quota", None),
        (503, "model_not_found", None),
        (None, "402", None),
    ],
)
def test_what_nothing_but_an_act_of_somebody_mends_pauses_and_nothing_else_does(status, message, cause):
    fault = classify(ForeignError(status, message), NOW)
    assert fault.pauses is cause
    if cause is not None:
        assert (fault.again, fault.sick) == (False, False)


def test_a_spent_quota_that_says_when_it_comes_back_is_a_rate_limit():
    assert classify(ForeignError(429, _PLAN, {"retry-after": "7"}), NOW).pauses is None


def test_a_prompt_that_a_provider_repeats_pauses_nothing():
    told = f"1 validation error {'.' * 400} 'input': 'Your credit balance is too low, model_decommissioned'"
    assert classify(ForeignError(400, told), NOW).pauses is None


def test_a_fault_quotes_the_provider_but_neither_the_key_nor_the_prompt():
    fault = classify(ForeignError(400, "Incorrect key sk-1234, prompt was: hello"), NOW, prompt=["hello"])
    assert str(fault) == "the provider rejects the call (HTTP 400)"
    fault = classify(ForeignError(400, "Incorrect key sk-1234"), NOW, secrets=["sk-1234"], prompt=["hello"])
    assert str(fault) == 'the provider rejects the call (HTTP 400): "Incorrect key [hidden]"'


def test_a_provider_that_does_not_know_structured_output_is_recognised():
    assert classify(ForeignError(400, "Unknown parameter: response_format"), NOW).plain
    assert not classify(ForeignError(500, "response_format"), NOW).plain


ATTACK = (
    "Does response_format json_schema reach the maximum context length, by content policy? "
    "model_not_found: billing_not_active"
)


@pytest.mark.parametrize("status", [400, 403, 404, 422, 429])
def test_d21_an_error_that_repeats_the_prompt_is_classified_by_its_status_alone(status):
    plain = classify(ForeignError(status, "it failed"), NOW)
    for said in (f"it failed for {ATTACK}", ATTACK, f'it failed: "{ATTACK[:60]}"'):
        found = classify(ForeignError(status, said), NOW, prompt=[f"Question: {ATTACK}"])
        assert (found.reason, found.plain, found.pauses) == (plain.reason, plain.plain, plain.pauses), said


def test_d21_the_code_of_the_provider_counts_where_its_text_repeats_the_prompt():
    error = ForeignError(400, f"Invalid: {ATTACK}")
    error.body = {"error": {"message": ATTACK, "param": "response_format", "code": None}}
    assert classify(error, NOW, prompt=[ATTACK]).plain


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"Retry-After": "7"}, 7.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after-ms": "250", "retry-after": "1"}, 0.25),
        ({"retry-after": formatdate(NOW + 30, usegmt=True)}, 30.0),
        ({"retry-after": formatdate(NOW - 30, usegmt=True)}, 0.0),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "-1"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": f"Mon, {'9' * 20} Jan 2026 00:00:00 GMT"}, None),
        ({}, None),
        (None, None),
        (42, None),
    ],
)
def test_retry_after_is_read_as_seconds_milliseconds_or_a_date(headers, seconds):
    """J4."""
    assert retry_after(headers, NOW) == seconds


@given(st.text())
def test_no_retry_after_header_is_an_exception(value):
    found = retry_after({"retry-after": value}, NOW)
    assert found is None or found >= 0


def raised(error: Exception, *causes: BaseException) -> Exception:
    """The error, raised while the causes were handled, the nearest first."""
    before: BaseException = error
    for cause in causes:
        before.__context__ = cause
        before = cause
    return error


def of_litellm() -> Exception:
    """What litellm makes of any time limit: a 408 that nobody sent."""
    error = ForeignError(408, "litellm.Timeout: APITimeoutError - Request timed out.")
    error.__class__ = type("Timeout", (ForeignError,), {"__module__": "litellm.exceptions"})
    return error


def request_for(seconds: float) -> httpx.Request:
    return httpx.Request("POST", "https://llm.example/v1", extensions={"timeout": {"connect": seconds}})


def test_a_connection_that_was_not_made_in_time_is_named_and_not_charged():
    timeout = httpx.ConnectTimeout("", request=request_for(10.0))
    found = classify(raised(of_litellm(), timeout, TimeoutError(), asyncio.CancelledError()), NOW)
    assert str(found) == "the provider cannot be reached: no connection to llm.example:443 within 10 s"
    assert (found.reason, found.again, found.sick) == (UnscoredReason.PROVIDER_ERROR, True, True)
    assert not found.charged


@pytest.mark.parametrize("tls", [(), (ssl.SSLWantReadError(2, "The operation did not complete"),)])
def test_a_time_limit_of_the_client_after_the_call_was_sent_is_charged_with_tls_and_without(tls):
    timeout = httpx.ReadTimeout("", request=request_for(10.0))
    found = classify(raised(of_litellm(), timeout, TimeoutError(), asyncio.CancelledError(), *tls), NOW)
    assert found.reason is UnscoredReason.TIMEOUT
    assert found.charged


def test_a_time_limit_that_the_provider_says_it_met_is_not_charged():
    assert not classify(ForeignError(408), NOW).charged


@given(st.integers(1, 100), st.integers())
def test_the_jitter_is_full_and_bounded(failures, seed):
    """J4."""
    assert 0 <= backoff(failures, random.Random(seed)) <= min(20, 0.5 * 2 ** (failures - 1))
