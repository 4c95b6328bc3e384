"""All exceptions that cross module boundaries.

Each calls for a different reaction: `Overloaded` (try again later), `InvalidData` (never try again), anything else (a
bug). Exceptions of libraries are mapped to these where the library is called.

`explanation.py` explains a faulty configuration; `reading.py` and `strict_yaml.py` read files that people write, with
limits; `surrogates.py` repairs JSON of cut texts.
"""

from __future__ import annotations

from collections.abc import Collection

from monitor.model.outcome import Cost, UnscoredReason


class MonitorError(Exception):
    """The base of all exceptions that this package raises on purpose."""


class ConfigError(MonitorError):
    """The configuration is wrong. The message names the place, the value and what is allowed."""


class InvalidData(MonitorError):  # noqa: N818 - named after the problem, so that a caller's `except` reads well
    """The data is invalid, and sending it again will not help. The message names the place and the fault."""


class TooLarge(InvalidData):
    """The data exceeds a configured limit, before or after decompression."""


class ResultsRefused(InvalidData):
    """The results with these `ids` can never be accepted by a sink; the other results of the batch were accepted."""

    def __init__(self, message: str, ids: Collection[str]) -> None:
        super().__init__(message)
        self.ids = frozenset(ids)


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
        spent: the cost of the calls that were made anyway, with these calls in order.
    """

    def __init__(self, reason: UnscoredReason, message: str, spent: Cost | None = None) -> None:
        super().__init__(message)
        self.reason = reason
        self.spent = spent or Cost()
