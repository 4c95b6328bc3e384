"""What the judge needs of a provider: one call in, one reply out. `litellm_provider.py` and `classifier.py` are two."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class ModelCall:
    """One call to a model, as it goes over the wire.

    `messages` have a `role` and a `content`. `response_format` is a JSON Schema for the provider to enforce, in the
    form of OpenAI's API; None asks for none. `temperature` None stands for the configured one. `logprobs` asks for
    `Reply.tokens`.
    """

    messages: tuple[Mapping[str, str], ...]
    max_tokens: int
    response_format: Mapping[str, Any] | None = None
    temperature: float | None = None
    logprobs: bool = False


@dataclass(frozen=True, slots=True)
class Reply:
    """What a model answered. Token counts are None where the provider sent none."""

    text: str | None
    finish: str
    refused: bool = False
    model: str = ""
    input_tokens: int | None = None
    output_tokens: int | None = None
    tokens: tuple[tuple[str, float], ...] = ()
    """Each token of the text with the natural logarithm of its probability, if they were asked for and sent."""
    date: str = ""
    """The provider's clock, from the HTTP header `Date`; empty where it sends none."""


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
        """Release what `load` has made, whether or not it was called."""
        ...
