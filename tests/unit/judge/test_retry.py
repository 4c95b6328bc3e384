from __future__ import annotations

import random
from email.utils import formatdate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.judge.retry import backoff, classify, retry_after
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
        (401, "", UnscoredReason.AUTH, True),
        (403, "", UnscoredReason.AUTH, True),
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


def test_a_fault_repeats_nothing_that_the_provider_wrote():
    fault = classify(ForeignError(400, "Incorrect key sk-1234, prompt was: hello"), NOW)
    assert "sk-1234" not in str(fault)
    assert "hello" not in str(fault)
    assert "HTTP 400" in str(fault)


def test_a_provider_that_does_not_know_structured_output_is_recognised():
    assert classify(ForeignError(400, "Unknown parameter: response_format"), NOW).plain
    assert not classify(ForeignError(500, "response_format"), NOW).plain


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


@given(st.integers(1, 100), st.integers())
def test_the_jitter_is_full_and_bounded(failures, seed):
    """J4."""
    assert 0 <= backoff(failures, random.Random(seed)) <= min(20, 0.5 * 2 ** (failures - 1))
