"""The interface of a provider: one call in, one reply out. Implemented in `litellm_provider.py` and `classifier.py`.

`RecordingProvider` wraps one for commands that show or price its calls.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from monitor.judge.retry import CallFault
from monitor.model.outcome import UnscoredReason


@dataclass(frozen=True, slots=True)
class ModelCall:
    """One call to a model, as it goes over the wire.

    `messages` have a `role` and a `content`. `response_format` is a JSON Schema for the provider to enforce, in the
    form of OpenAI's API, or None. A `temperature` of None stands for the configured one. `logprobs` asks for
    `Reply.tokens`.
    """

    messages: tuple[Mapping[str, str], ...]
    max_tokens: int
    response_format: Mapping[str, Any] | None = None
    temperature: float | None = None
    logprobs: bool = False


@dataclass(frozen=True, slots=True)
class Reply:
    """A model's answer. Token counts are None if the provider did not send them."""

    text: str | None
    finish: str
    refused: bool = False
    model: str = ""
    input_tokens: int | None = None
    output_tokens: int | None = None
    tokens: tuple[tuple[str, float], ...] = ()
    """Each token of the text with the natural logarithm of its probability, if requested and sent."""
    date: str = ""
    """The provider's clock, from the HTTP header `Date`; empty if not sent."""


class Provider(Protocol):
    """Completes chats."""

    async def complete(self, call: ModelCall) -> Reply:
        """Make one call, without retries. May be cancelled at any point. Raises `CallFault`, nothing else."""
        ...


class Loadable(Provider, Protocol):
    """A provider that must load something heavy before its first call. `label` names it in messages."""

    label: str

    def load(self) -> None:
        """Get ready. May take seconds of processor time. Called once, in a worker thread."""
        ...

    async def aclose(self) -> None:
        """Release what `load` created. May be called even if `load` was not."""
        ...


@dataclass(frozen=True, slots=True)
class Exchange:
    """One call with its reply or, if there was none, the fault in words."""

    call: ModelCall
    reply: Reply | None = None
    fault: str = ""


class RecordingProvider:
    """Wraps a provider and appends each call to `exchanges` when it ends.

    With `send` False nothing is loaded or sent: each call is recorded, then fails with `CallFault(shutdown)`. This way
    calls can be shown and priced without paying for them.
    """

    def __init__(self, provider: Loadable, exchanges: list[Exchange], *, send: bool = True) -> None:
        self.label = provider.label
        self._provider = provider
        self._exchanges = exchanges
        self._send = send

    def load(self) -> None:
        """Load the wrapped provider, unless nothing will be sent."""
        if self._send:
            self._provider.load()

    async def aclose(self) -> None:
        """Close the wrapped provider."""
        await self._provider.aclose()

    async def complete(self, call: ModelCall) -> Reply:
        """Pass the call on and record how it ends. Raises what the wrapped provider raises."""
        if not self._send:
            self._exchanges.append(Exchange(call, fault="not sent"))
            raise CallFault(UnscoredReason.SHUTDOWN, "not sent")
        try:
            reply = await self._provider.complete(call)
        except CallFault as fault:
            self._exchanges.append(Exchange(call, fault=str(fault)))
            raise
        except BaseException:
            self._exchanges.append(Exchange(call, fault="cut off at the time limit"))
            raise
        self._exchanges.append(Exchange(call, reply=reply))
        return reply
