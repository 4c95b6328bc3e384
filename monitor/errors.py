"""All exceptions that cross module boundaries, and how a faulty configuration is explained.

Each calls for another reaction: `Overloaded` (try again later), `InvalidData` (never try again), anything else (a bug).
Exceptions of libraries are mapped to these where the library is called.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from monitor.model.outcome import Attempt, UnscoredReason

if TYPE_CHECKING:
    from pydantic import BaseModel, ValidationError

_SECRET: Final = frozenset(
    {"api_key", "api_base", "token", "password", "secret", "secret_key", "url", "endpoint", "headers"}
)
"""Options whose value no message repeats."""


class MonitorError(Exception):
    """The base of all exceptions that this package raises on purpose."""


class ConfigError(MonitorError):
    """The configuration is wrong. The message names the place, the value and what is allowed."""


class InvalidData(MonitorError):  # noqa: N818 - named after the trouble, as the caller's `except` reads
    """The data is invalid, and sending it again will not help. The message names the place and the fault."""


class TooLarge(InvalidData):
    """The data exceeds a configured limit, before or after decompression."""


class Overloaded(MonitorError):  # noqa: N818
    """There is no room now. The sender should try again.

    Args:
        message: says what is full, for the sender.
        retry_after: seconds until the next try makes sense. Between 1 and 2, since exporters of OpenTelemetry SDKs give
            up after about seven seconds in total.
    """

    def __init__(self, message: str, retry_after: float = 1.0) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class Unauthenticated(MonitorError):  # noqa: N818
    """The client sent no token, or an invalid one.

    Args:
        message: says what is missing, for the client.
        challenge: the value of the `WWW-Authenticate` header (RFC 6750).
    """

    def __init__(self, message: str, challenge: str) -> None:
        super().__init__(message)
        self.challenge = challenge


class JudgeError(MonitorError):
    """A judge gave no verdict.

    Args:
        reason: the reason of the resulting `Unscored`.
        message: says what happened, without prompt text and secrets.
        tries: the calls that were made, in order.
    """

    def __init__(self, reason: UnscoredReason, message: str, tries: tuple[Attempt, ...] = ()) -> None:
        super().__init__(message)
        self.reason = reason
        self.tries = tries


def explain(error: ValidationError, place: str, model: type[BaseModel]) -> str:
    """Explain a pydantic error of `model`, one line for each fault: the key, the value given, and what is allowed.

    What may hold a secret is not repeated: the value of an option that is one, and whole sections.
    """
    lines = []
    for fault in error.errors(include_url=False):
        where = ".".join(str(part) for part in fault["loc"])
        telling = fault["type"] not in ("missing", "extra_forbidden") and not _SECRET.intersection(fault["loc"])
        given = f" (given: {shown(fault['input'])})" if telling and where else ""
        message = fault["msg"].removeprefix("Value error, ")
        if fault["type"] == "extra_forbidden":
            allowed = _keys_at(model, fault["loc"][:-1])
            message = "unknown key" + (f"; allowed: {', '.join(allowed)}" if allowed else "")
        lines.append(f"{place}: {where}: {message}{given}" if where else f"{place}: {message}{given}")
    return "\n".join(lines)


def _keys_at(model: type[BaseModel], path: Sequence[int | str]) -> tuple[str, ...]:
    """Return the keys allowed in a nested section; empty if unknown."""
    fields: Mapping[str, Any] = model.model_fields
    for part in path:
        fields = getattr(fields[str(part)].annotation, "model_fields", {}) if str(part) in fields else {}
    return tuple(fields)


def shown(value: object) -> str:
    """Format a value for an error message: plain values as written, sections only by kind."""
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, (list, tuple)):
        return "a list"
    return f"{value!r:.80}"
