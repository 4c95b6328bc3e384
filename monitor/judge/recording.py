"""What goes over the wire and comes back, word for word, for commands that show it. Stands in front of a provider."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from monitor.judge.provider import Loadable, Reply
from monitor.judge.retry import CallFault
from monitor.model.outcome import UnscoredReason


@dataclass(frozen=True, slots=True)
class Exchange:
    """One call: what was sent, and the reply or, where there was none, the fault in words."""

    messages: tuple[dict[str, str], ...]
    max_tokens: int
    response_format: dict[str, Any] | None
    temperature: float | None
    logprobs: bool
    reply: Reply | None = None
    fault: str = ""


class Recording:
    """The provider behind it, unchanged; each call is kept in `exchanges`, in the order of their ends.

    `send` False: nothing is sent, and every call fails for good, so that what would be sent is known for nothing.
    """

    def __init__(self, provider: Loadable, exchanges: list[Exchange], *, send: bool = True) -> None:
        self.label = provider.label
        self._provider = provider
        self._exchanges = exchanges
        self._send = send

    def load(self) -> None:
        """That of the provider, where something will be sent."""
        if self._send:
            self._provider.load()

    async def aclose(self) -> None:
        """That of the provider."""
        await self._provider.aclose()

    async def complete(
        self,
        messages: Sequence[dict[str, str]],
        *,
        max_tokens: int,
        response_format: dict[str, Any] | None = None,
        temperature: float | None = None,
        logprobs: bool = False,
    ) -> Reply:
        """One call of the provider. Raises what that raises."""
        sent = (tuple(dict(one) for one in messages), max_tokens, response_format, temperature, logprobs)
        if not self._send:
            self._exchanges.append(Exchange(*sent, fault="not sent"))
            raise CallFault(UnscoredReason.SHUTDOWN, "not sent")
        try:
            reply = await self._provider.complete(
                messages,
                max_tokens=max_tokens,
                response_format=response_format,
                temperature=temperature,
                logprobs=logprobs,
            )
        except CallFault as fault:
            self._exchanges.append(Exchange(*sent, fault=str(fault)))
            raise
        except BaseException:
            self._exchanges.append(Exchange(*sent, fault="cut off at the time limit"))
            raise
        self._exchanges.append(Exchange(*sent, reply=reply))
        return reply
