"""Every exception that crosses a module boundary, on one page.

Three troubles are types of their own, because each calls for another act: `Overloaded` (try again later), `InvalidData`
(never try again), and anything else (a fault of ours). Foreign exceptions are mapped where the foreign call is made.
"""

from __future__ import annotations

from monitor.model.outcome import Attempt, UnscoredReason


class MonitorError(Exception):
    """The root of all exceptions that this package raises on purpose."""


class ConfigError(MonitorError):
    """The configuration is wrong. The message names the place, the value and what is allowed."""


class InvalidData(MonitorError):  # noqa: N818 - named after the trouble, as the caller's `except` reads
    """Data that will not become valid by sending it again. The message names the place and what is wrong."""


class TooLarge(InvalidData):
    """Data beyond a configured limit, before or after decompression."""


class Overloaded(MonitorError):  # noqa: N818
    """No room at this moment: the sender should try again.

    Args:
        message: what is full, in words for the sender.
        retry_after: seconds until another try makes sense; between 1 and 2, since the exporters of the OpenTelemetry
            SDKs give up after about seven seconds in all.
    """

    def __init__(self, message: str, retry_after: float = 1.0) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class Unauthenticated(MonitorError):  # noqa: N818
    """A client without a token, or with one that is not valid.

    Args:
        message: what is missing, in words for the client.
        challenge: the value of the `WWW-Authenticate` header (RFC 6750).
    """

    def __init__(self, message: str, challenge: str) -> None:
        super().__init__(message)
        self.challenge = challenge


class JudgeError(MonitorError):
    """A judgement that did not come about, with the reason it is counted under.

    Args:
        reason: the closed-set reason of the resulting `Unscored`.
        message: what happened, in words; never prompt text, never a secret.
        tries: the calls that were made for it, in their order.
    """

    def __init__(self, reason: UnscoredReason, message: str, tries: tuple[Attempt, ...] = ()) -> None:
        super().__init__(message)
        self.reason = reason
        self.tries = tries
