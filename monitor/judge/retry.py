"""Classifies failed calls: the reason, whether to retry, and when.

Faults are classified here and handled in one loop (`client.py`). litellm's own retries are off.
"""

from __future__ import annotations

import math
import random
import re
from email.utils import parsedate_to_datetime
from http import HTTPStatus

from monitor.errors import JudgeError
from monitor.judge.pause import PauseCause
from monitor.model.outcome import UnscoredReason

_BASE, _LONGEST = 0.5, 20.0  # seconds
_UNAUTHORISED = frozenset({401, 403})
_GONE = frozenset({404, 410})
_PASSING = frozenset({408, 409, 429})
_HEAD = 400  # characters of an error that are searched: further on it may repeat the prompt
_UNPAID = re.compile(
    r"insufficient_(quota|balance|credits|funds)|billing_(hard_limit|not_active)|exceeded_current_quota_error"
    r"|credit balance is too low|used all available credits|insufficient (balance|credits)",
    re.IGNORECASE,
)
# Google uses the same words for too many requests per minute, and then says more about the quota.
_QUOTA = re.compile(r"exceeded your current quota, please check your plan and billing", re.IGNORECASE)
_A_MINUTE = re.compile(r"RESOURCE_EXHAUSTED|quota exceeded for metric|quotaMetric|retry in \d", re.IGNORECASE)
_MODEL_GONE = re.compile(
    r"model_(decommissioned|not_found|deprecated)|\bmodel\b.{0,80}\b(has been|was) (decommissioned|retired|shut down)",
    re.IGNORECASE,
)
_FLAGGED = re.compile(r"moderation|\bflagged\b", re.IGNORECASE)
_CONTEXT = re.compile(
    r"context.{0,20}(length|window|limit|size)|context_length_exceeded|prompt is too long", re.IGNORECASE
)
_FILTER = re.compile(r"content.?(filter|policy|management)|responsible.?ai", re.IGNORECASE)
_FORMAT = re.compile(r"response.?format|json.?schema|structured.?output", re.IGNORECASE)


class CallFault(JudgeError):  # noqa: N818 - named like VerdictFault: a failed call, not a crash
    """One call that failed.

    Args:
        reason: the reason counted if no further call succeeds.
        message: the fault in our own words. No text of the provider: it may repeat the prompt or the key.
        again: whether a retry may succeed.
        sick: whether it is a sign of the provider's bad health. Such faults open the circuit breaker.
        pauses: why no call can succeed until someone acts; None if one may.
        retry_after: seconds that the provider asks to wait, if it does.
        plain: whether the provider rejects structured output, so that the question should be asked without it.
    """

    def __init__(
        self,
        reason: UnscoredReason,
        message: str,
        *,
        again: bool = False,
        sick: bool = False,
        retry_after: float | None = None,
        plain: bool = False,
        pauses: PauseCause | None = None,
    ) -> None:
        super().__init__(reason, message)
        self.again = again
        self.sick = sick
        self.retry_after = retry_after
        self.plain = plain
        self.pauses = pauses


def classify(error: Exception, now: float) -> CallFault:  # noqa: PLR0911 - a table of faults, in order
    """Map an exception from litellm to a fault. `now` is in wall-clock seconds, for a `Retry-After` that is a date."""
    status = getattr(error, "status_code", None)
    what = f"{type(error).__name__}" + (f", HTTP {status}" if isinstance(status, int) else "")
    reply = f"{error} {getattr(error, 'body', '')}"
    if not isinstance(status, int):
        # litellm raises a plain IndexError or TypeError for a reply that is JSON but no completion.
        return CallFault(UnscoredReason.PROVIDER_ERROR, f"no usable completion ({what})", again=True, sick=True)
    lasting = _lasting(status, reply, error, what)
    if lasting is not None:
        return lasting
    if status in _PASSING or status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        reason = {429: UnscoredReason.RATE_LIMITED, 408: UnscoredReason.TIMEOUT}.get(
            status, UnscoredReason.PROVIDER_ERROR
        )
        wait = retry_after(getattr(error, "litellm_response_headers", None), now)
        return CallFault(reason, f"the provider failed ({what})", again=True, sick=True, retry_after=wait)
    if type(error).__name__ == "ContextWindowExceededError" or (
        status == HTTPStatus.BAD_REQUEST and _CONTEXT.search(reply)
    ):
        return CallFault(UnscoredReason.TOO_LARGE, f"longer than the model's context ({what})")
    if type(error).__name__ == "ContentPolicyViolationError" or (
        status == HTTPStatus.BAD_REQUEST and _FILTER.search(reply)
    ):
        return CallFault(UnscoredReason.CONTENT_FILTER, f"stopped by the provider's content filter ({what})")
    if status in (HTTPStatus.BAD_REQUEST, HTTPStatus.UNPROCESSABLE_ENTITY) and _FORMAT.search(reply):
        return CallFault(UnscoredReason.PROVIDER_ERROR, f"no structured output ({what})", plain=True)
    return CallFault(UnscoredReason.PROVIDER_ERROR, f"the provider rejects the call ({what})")


def _lasting(status: int, reply: str, error: Exception, what: str) -> CallFault | None:
    """Return the fault if it lasts until someone acts, else None."""
    head = f"{str(error)[:_HEAD]} {getattr(error, 'code', '')} {_code(error)}"
    if status == HTTPStatus.FORBIDDEN and (_FLAGGED.search(head) or _FILTER.search(head)):
        return CallFault(UnscoredReason.CONTENT_FILTER, f"stopped by the provider's content filter ({what})")
    if _is_unpaid(status, head, reply, error):
        message = f"the provider demands payment, or the account has reached a limit ({what})"
        reason = UnscoredReason.RATE_LIMITED if status in _PASSING else UnscoredReason.PROVIDER_ERROR
        return CallFault(reason, message, pauses=PauseCause.UNPAID)
    if status in _UNAUTHORISED:
        return CallFault(UnscoredReason.AUTH, f"the provider rejects the key ({what})", pauses=PauseCause.REFUSED)
    if status in _GONE or (status == HTTPStatus.BAD_REQUEST and _MODEL_GONE.search(head)):
        message = f"the provider has no such model, or there is nothing at this address ({what})"
        return CallFault(UnscoredReason.PROVIDER_ERROR, message, pauses=PauseCause.GONE)
    return None


def _is_unpaid(status: int, head: str, reply: str, error: Exception) -> bool:
    if status == HTTPStatus.PAYMENT_REQUIRED:
        return True
    if status == HTTPStatus.TOO_MANY_REQUESTS and _QUOTA.search(head):
        wait = retry_after(getattr(error, "litellm_response_headers", None), 0.0)
        return bool(_UNPAID.search(head)) or not (_A_MINUTE.search(reply) or wait is not None)
    asked = (HTTPStatus.BAD_REQUEST, HTTPStatus.FORBIDDEN, HTTPStatus.TOO_MANY_REQUESTS)
    return status in asked and bool(_UNPAID.search(head))


def _code(error: Exception) -> str:
    """Return the provider's own name for the fault, if litellm passes the body on."""
    body = getattr(error, "body", None)
    return f"{body.get('type')} {body.get('code')}" if isinstance(body, dict) else ""


def retry_after(headers: object, now: float) -> float | None:
    """Return the seconds (>= 0) that the headers of a reply ask to wait; None if they do not or are unreadable."""
    try:
        found = {str(name).lower(): str(value) for name, value in dict(headers).items()}  # type: ignore[call-overload]
    except (TypeError, ValueError):
        return None
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        value = found.get(name, "")
        try:
            seconds = float(value) * unit
        except ValueError:
            continue
        if math.isfinite(seconds) and seconds >= 0:
            return seconds
    try:
        return max(0.0, parsedate_to_datetime(found.get("retry-after", "")).timestamp() - now)
    except ValueError:
        return None


def backoff(failures: int, rng: random.Random) -> float:
    """Return the seconds to wait after `failures` (>= 1), with full jitter: calls that failed together spread out."""
    return rng.uniform(0.0, min(_LONGEST, _BASE * 2.0 ** (failures - 1)))
