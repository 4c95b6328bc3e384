"""Classifies failed calls: the reason, whether to retry, and when.

Faults are classified here and handled in one loop (`client.py`). litellm's own retries are off.
"""

from __future__ import annotations

import json
import math
import os
import random
import re
import socket
import ssl
from collections.abc import Iterable
from contextlib import suppress
from email.utils import parsedate_to_datetime
from http import HTTPStatus

from monitor.errors import JudgeError
from monitor.judge.setup import REDIRECTED, SAID, UNREACHABLE, PauseCause
from monitor.judge.words import own_words
from monitor.model.outcome import UnscoredReason
from monitor.transport.http.client import RefusedAddressError

_BASE, _LONGEST = 0.5, 20.0  # seconds
_UNAUTHORISED = frozenset({401, 403})
_GONE = frozenset({404, 410})
_PASSING = frozenset({408, 409, 429})
_HEAD = 400  # characters of an error that are searched: beyond them it may repeat the prompt
_UNPAID = re.compile(
    r"insufficient_(quota|balance|credits|funds)|billing_(hard_limit|not_active)|exceeded_current_quota_error"
    r"|credit balance is too low|used all available credits|insufficient (balance|credits)",
    re.IGNORECASE,
)
# Google uses the same words for too many requests per minute, and then adds details of the quota.
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
# In litellm's words and the SDKs', before anything is sent.
_NO_PROVIDER = re.compile(r"LLM Provider NOT provided", re.IGNORECASE)
_NO_ADDRESS = re.compile(
    r"(must provide|is required|missing|not (set|provided)).{0,60}\b(base_url|azure_endpoint|api_base|api base)\b"
    r"|\b(base_url|azure_endpoint|api_base|api base)\b.{0,40}(is required|must be|missing|not (set|provided))",
    re.IGNORECASE,
)
_NO_KEY = re.compile(
    r"missing credentials|missing .{0,30}api.?key|no (api )?key (is )?(set|provided|found)|api.?key.{0,30}(is required"
    r"|must be set|(is|are) not (set|provided|found)|is missing)|unable to locate credentials|no credentials"
    r"|(could not|cannot|unable to) .{0,20}(find|load|locate).{0,20}credentials",
    re.IGNORECASE,
)
_NO_CREDENTIALS = frozenset({"NoCredentialsError", "PartialCredentialsError", "DefaultCredentialsError"})
_RECEIVED = re.compile(
    r"Original Response:|Received:|[Ii]nvalid response|Unexpected string response|Unable to get json"
)
_BROKEN = frozenset({"RemoteProtocolError", "ReadError", "WriteError", "ServerDisconnectedError", "ClientPayloadError"})
_WAITS = (ssl.SSLWantReadError, ssl.SSLWantWriteError)  # not faults: TLS waits for the other side
_DEEPEST = 12  # exceptions in a row that are looked at


class CallFault(JudgeError):  # noqa: N818 - named like VerdictFault: a failed call, not a crash
    """One call that failed.

    Args:
        reason: the reason counted if no further call succeeds.
        message: the fault in our own words, possibly followed by the provider's, cleaned by `own_words`.
        again: whether a retry may succeed.
        sick: whether it suggests that the provider is unhealthy. Such faults open the circuit breaker.
        pauses: why no call can succeed until someone acts; None if a later call may succeed.
        retry_after: seconds that the provider asks to wait, or None.
        plain: whether the provider rejects structured output, so that the question should be asked without it.
        charged: whether the provider may charge for it: the call was sent and no reply came in time, or a success came
            back that cannot be used.
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
        charged: bool = False,
    ) -> None:
        super().__init__(reason, message)
        self.again = again
        self.sick = sick
        self.retry_after = retry_after
        self.plain = plain
        self.pauses = pauses
        self.charged = charged


def classify(  # noqa: PLR0911 - a table of faults, in order
    error: Exception, now: float, *, secrets: Iterable[str] = (), prompt: Iterable[str] = ()
) -> CallFault:
    """Map an exception of the one call site to a fault.

    `now` is in wall-clock seconds, for a `Retry-After` that is a date. The message ends with the provider's own words,
    without `secrets` and without anything that repeats a text of `prompt`.
    """
    chain = _chain(error)
    words = own_words(error, secrets=secrets, prompt=prompt)
    said = f': "{words}"' if words else ""
    unanswered = None if _is_answered(error, chain) else _unanswered(error, chain, said)
    if unanswered is not None:
        return unanswered
    status = getattr(error, "status_code", None)
    # Not the whole text: it may repeat the prompt, whose words must not decide anything.
    reply = f"{words} {getattr(error, 'code', '')} {_code(error)}"
    if not isinstance(status, int):
        # litellm raises a plain IndexError or TypeError for a reply that is JSON but not a completion.
        message = f"no usable completion ({type(error).__name__})"
        return CallFault(UnscoredReason.PROVIDER_ERROR, message, again=True, sick=True)
    received = _answered_with(error, chain)
    what = f" (HTTP {received}){said}" if received is not None else said
    if received is not None and HTTPStatus.MULTIPLE_CHOICES <= received < HTTPStatus.BAD_REQUEST:
        return CallFault(UnscoredReason.PROVIDER_ERROR, f"{REDIRECTED}{what}")
    lasting = _lasting(status, reply, error, what)
    if lasting is not None:
        return lasting
    if status in _PASSING or status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        reason = {429: UnscoredReason.RATE_LIMITED, 408: UnscoredReason.TIMEOUT}.get(
            status, UnscoredReason.PROVIDER_ERROR
        )
        wait = retry_after(getattr(error, "litellm_response_headers", None), now)
        charged = reason is UnscoredReason.TIMEOUT and received is None  # litellm's 408 for its own time limit
        return CallFault(reason, f"the provider failed{what}", again=True, sick=True, retry_after=wait, charged=charged)
    if type(error).__name__ == "ContextWindowExceededError" or (
        status == HTTPStatus.BAD_REQUEST and _CONTEXT.search(reply)
    ):
        return CallFault(UnscoredReason.TOO_LARGE, f"longer than the model's context{what}")
    if type(error).__name__ == "ContentPolicyViolationError" or (
        status == HTTPStatus.BAD_REQUEST and _FILTER.search(reply)
    ):
        return CallFault(UnscoredReason.CONTENT_FILTER, f"stopped by the provider's content filter{what}")
    if status in (HTTPStatus.BAD_REQUEST, HTTPStatus.UNPROCESSABLE_ENTITY) and _FORMAT.search(reply):
        return CallFault(UnscoredReason.PROVIDER_ERROR, f"no structured output{what}", plain=True)
    return CallFault(UnscoredReason.PROVIDER_ERROR, f"the provider rejects the call{what}")


def _unanswered(error: Exception, chain: list[BaseException], said: str) -> CallFault | None:
    """Return the fault if no readable HTTP response came back; None for any other kind of fault."""
    if _is_no_completion(error, chain):  # without its words: they could come from the prompt or a reply
        return CallFault(UnscoredReason.PROVIDER_ERROR, "the reply is not a completion", again=True, sick=True)
    unreachable = _unreachable(chain)
    if unreachable is not None:
        message = f"{UNREACHABLE}: {unreachable}"
        return CallFault(UnscoredReason.PROVIDER_ERROR, message, again=True, sick=True)
    cause = _unset(chain, f"{error!s:.{_HEAD}}")
    if cause is None:
        return None
    reason = UnscoredReason.AUTH if cause is PauseCause.NO_KEY else UnscoredReason.PROVIDER_ERROR
    return CallFault(reason, f"{SAID[cause]}{said}", pauses=cause)


def _chain(error: BaseException) -> list[BaseException]:
    """Return an exception and its causes, the latest first."""
    found: list[BaseException] = []
    one: BaseException | None = error
    while one is not None and one not in found and len(found) < _DEEPEST:
        found.append(one)
        one = one.__cause__ or one.__context__
    return found


def _is_answered(error: BaseException, chain: list[BaseException]) -> bool:
    """Return whether the error comes from an HTTP response. litellm makes up a status for errors of its own."""
    if any(type(one).__name__.endswith("HTTPStatusError") for one in chain):
        return True
    return len(chain) == 1 and not type(error).__module__.startswith("litellm")


def _answered_with(error: Exception, chain: list[BaseException]) -> int | None:
    """Return the HTTP status that came back, even if litellm reports a different one; None if no response came."""
    for one in reversed(chain):
        status = getattr(getattr(one, "response", None), "status_code", None)
        if type(one).__name__.endswith("HTTPStatusError") and isinstance(status, int):
            return status
    return getattr(error, "status_code", None) if _is_answered(error, chain) else None


def _is_no_completion(error: BaseException, chain: list[BaseException]) -> bool:
    """Return whether a success came back without a completion. The text of its body could be anything."""
    if isinstance(chain[-1], OSError):
        return False
    unread = any(
        isinstance(one, json.JSONDecodeError) or getattr(one, "status_code", 0) == HTTPStatus.OK for one in chain
    )
    return unread or bool(_RECEIVED.search(f"{error!s:.{_HEAD}}"))


def _unreachable(chain: list[BaseException]) -> str | None:  # noqa: PLR0911 - a table of faults, in order
    """Return why a connection could not be made, or broke; None if the connection is not at fault."""
    where = next(filter(None, map(_address, reversed(chain))), "")
    for one in reversed(chain):
        if isinstance(one, _WAITS):
            continue
        if isinstance(one, ConnectionRefusedError):
            return f"connection refused{f' by {where}' if where else ''}"
        if isinstance(one, RefusedAddressError):
            return str(one)
        if type(one).__name__ == "ConnectTimeout":
            what = "TLS connection" if any(isinstance(other, _WAITS) for other in chain) else "connection"
            return f"no {what}{f' to {where}' if where else ''}{_within(chain)}"
        if isinstance(one, socket.gaierror):
            host = where.rpartition(":")[0] or where
            return f"the host name {host} does not resolve" if host else "its host name does not resolve"
        if isinstance(one, ssl.SSLError):
            reason = one.verify_message if isinstance(one, ssl.SSLCertVerificationError) else (one.reason or "")
            words = " ".join(str(reason).replace("_", " ").split()).lower()
            return f"TLS{f' with {where}' if where else ''} failed{f': {words}' if words else ''}"
        if type(one).__name__ in _BROKEN or isinstance(one, (ConnectionResetError, BrokenPipeError)):
            return f"the connection{f' to {where}' if where else ''} broke"
        if isinstance(one, OSError) and one.errno is not None and not isinstance(one, TimeoutError):
            return f"{os.strerror(one.errno).lower()}{f' ({where})' if where else ''}"
    return None


def _address(error: BaseException) -> str:
    """Return the host and port that a library's exception names, if any. litellm's are ignored: it makes some up."""
    if type(error).__module__.startswith("litellm"):
        return ""
    host, port = getattr(error, "host", None), getattr(error, "port", None)
    if isinstance(host, str) and host:
        return f"{host}:{port}" if isinstance(port, int) else host
    url = None
    with suppress(AttributeError, RuntimeError):  # only httpx has it, and it may be unset
        url = error.request.url  # type: ignore[attr-defined]
    if url is None or not url.host:
        return ""
    return f"{url.host}:{url.port or (443 if url.scheme == 'https' else 80)}"


def _within(chain: list[BaseException]) -> str:
    """Return, in words, how long a connection was waited for, if an exception of httpx says so."""
    for one in chain:
        with suppress(AttributeError, RuntimeError, KeyError, TypeError, ValueError):
            return f" within {one.request.extensions['timeout']['connect']:.3g} s"  # type: ignore[attr-defined]
    return ""


def _unset(chain: list[BaseException], head: str) -> PauseCause | None:
    """Return what is missing from the setup, judging by the message of a library that made no call."""
    if _NO_PROVIDER.search(head):
        return PauseCause.NO_PROVIDER
    if _NO_ADDRESS.search(head):
        return PauseCause.NO_ADDRESS
    if _NO_KEY.search(head) or type(chain[-1]).__name__ in _NO_CREDENTIALS:
        return PauseCause.NO_KEY
    return PauseCause.NO_PACKAGE if isinstance(chain[-1], ImportError) else None


def _lasting(status: int, reply: str, error: Exception, what: str) -> CallFault | None:
    """Return the fault if it lasts until someone acts, else None."""
    if status == HTTPStatus.FORBIDDEN and (_FLAGGED.search(reply) or _FILTER.search(reply)):
        return CallFault(UnscoredReason.CONTENT_FILTER, f"stopped by the provider's content filter{what}")
    if _is_unpaid(status, reply, error):
        reason = UnscoredReason.RATE_LIMITED if status in _PASSING else UnscoredReason.PROVIDER_ERROR
        return CallFault(reason, f"{SAID[PauseCause.UNPAID]}{what}", pauses=PauseCause.UNPAID)
    if status in _UNAUTHORISED:
        return CallFault(UnscoredReason.AUTH, f"{SAID[PauseCause.REFUSED]}{what}", pauses=PauseCause.REFUSED)
    if status in _GONE or (status == HTTPStatus.BAD_REQUEST and _MODEL_GONE.search(reply)):
        return CallFault(UnscoredReason.PROVIDER_ERROR, f"{SAID[PauseCause.GONE]}{what}", pauses=PauseCause.GONE)
    return None


def _is_unpaid(status: int, reply: str, error: Exception) -> bool:
    if status == HTTPStatus.PAYMENT_REQUIRED:
        return True
    if status == HTTPStatus.TOO_MANY_REQUESTS and _QUOTA.search(reply):
        wait = retry_after(getattr(error, "litellm_response_headers", None), 0.0)
        whole = f"{error} {getattr(error, 'body', '')}"
        return bool(_UNPAID.search(reply)) or not (_A_MINUTE.search(whole) or wait is not None)
    asked = (HTTPStatus.BAD_REQUEST, HTTPStatus.FORBIDDEN, HTTPStatus.TOO_MANY_REQUESTS)
    return status in asked and bool(_UNPAID.search(reply))


def _code(error: Exception) -> str:
    """Return the provider's own error codes, if litellm passes the body on."""
    body = getattr(error, "body", None)
    if not isinstance(body, dict):
        return ""
    inner = body.get("error")
    fields = inner if isinstance(inner, dict) else body
    return " ".join(str(fields.get(name)) for name in ("type", "code", "param", "status"))


def retry_after(headers: object, now: float) -> float | None:
    """Return the seconds (>= 0) that a reply's headers ask to wait, or None if they do not or are unreadable."""
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
    except (ValueError, OverflowError):  # such as a day or a year of many digits
        return None


def backoff(failures: int, rng: random.Random) -> float:
    """Return the seconds to wait after `failures` (>= 1), with full jitter: calls that failed together spread out."""
    return rng.uniform(0.0, min(_LONGEST, _BASE * 2.0 ** (failures - 1)))
