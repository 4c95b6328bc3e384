"""Records each call and its reply word for word, for commands that show or price them."""

from __future__ import annotations

from dataclasses import dataclass

from monitor.judge.provider import Loadable, ModelCall, Reply
from monitor.judge.retry import CallFault
from monitor.model.outcome import UnscoredReason


@dataclass(frozen=True, slots=True)
class Exchange:
    """One call with its reply or, if there was none, the fault in words."""

    call: ModelCall
    reply: Reply | None = None
    fault: str = ""


class RecordingProvider:
    """Wraps a provider and appends each call to `exchanges` when it ends.

    With `send` False nothing is loaded or sent: each call is recorded, then fails with `CallFault(shutdown)`. So calls
    can be shown and priced without paying for them.
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
