"""Common parts of all receivers: the base classes, how deliveries are retried, and how a message is posted."""

from __future__ import annotations

import json
import math
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Final, TypeAlias
from urllib.parse import urlsplit

import anyio
from pydantic import AfterValidator, Field, SecretStr

from monitor import __version__
from monitor.alerts.notify.delivery_state import DeliveryState, Notice
from monitor.alerts.notify.known import KnownAlerts
from monitor.alerts.policy import Severity
from monitor.alerts.state import AlertState
from monitor.quantities import Duration
from monitor.stages import Component, Runtime
from monitor.telemetry.events import Event
from monitor.transport.http.client import webhook_url

FIRST_RETRY, LAST_RETRY = 1.0, 60.0
"""The first and the longest pause between two attempts at a delivery, in seconds; doubled after each failure."""

PERHAPS_PASSED_ON: Final = frozenset({502, 504, 520, 524})
"""Statuses by which a gateway reports a bad or missing answer from the server behind it, which may have received the
delivery. 520 and 524 are Cloudflare's. Any other status except 2xx is a refusal."""

Send: TypeAlias = Callable[[Sequence[Notice]], Awaitable[None]]


class NotDelivered(Exception):  # noqa: N818 - the loop below acts on it
    """A receiver did not accept a delivery. The message says why and contains no secret.

    `perhaps`: it may have arrived all the same, for example if no response came in time.
    """

    def __init__(self, message: str, *, perhaps: bool = False) -> None:
        super().__init__(message)
        self.perhaps = perhaps


class Inbox:
    """The current alert states for one receiver. It holds only the latest list, so it is never full.

    `known` keeps what the receiver was sent; None: it is kept across a reload only.
    """

    def __init__(self, known: KnownAlerts | None = None) -> None:
        self.known = known
        self.states: Sequence[AlertState] = ()
        self.filled = False
        """Whether any states have arrived yet."""
        self._changed = anyio.Event()

    def put(self, states: Sequence[AlertState]) -> None:
        """Replace the states and wake the receiver. Never waits."""
        self.states, self.filled = states, True
        self._changed.set()

    async def wait(self, seconds: float) -> None:
        """Wait for new states, for at most `seconds`."""
        with anyio.move_on_after(seconds):
            await self._changed.wait()
        self._changed = anyio.Event()


@dataclass(frozen=True, slots=True)
class ScheduledMessage:
    """A message that is sent at a set time rather than because of an alert, such as a digest.

    Names from traces must have passed through `text.plain` before they appear in `lines`. `content` is the same in
    plain JSON types, for programs; there, names are unchanged.
    """

    title: str
    lines: Sequence[str]
    content: Mapping[str, Any]


class Notifier(Component, ABC):
    """One receiver of alerts."""

    name: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_-]{0,63}$")] | None = None
    """Name of this receiver, for use in `digest.to`. Default: its type."""

    takes_messages: ClassVar[bool] = True
    """Whether it can be sent a `ScheduledMessage`."""

    @property
    def places(self) -> int:
        """The number of places to which a message is delivered, each separately."""
        return 1

    async def deliver(self, message: ScheduledMessage, place: int = 0) -> None:
        """Deliver a message once, to one of its places. Raises `NotDelivered`."""
        raise NotDelivered(f"place {place} takes alerts only, and not {message.title!r}")

    @abstractmethod
    async def run(self, inbox: Inbox, runtime: Runtime) -> None:
        """Send the states in `inbox` to the receiver until cancelled. Never raises because the receiver is down."""


class HttpNotifier(Notifier):
    """A receiver over HTTP. Redirects are not followed: token and data go only where the configuration says."""

    url: Annotated[str, AfterValidator(webhook_url)] = Field(examples=["https://hooks.example/alerts"])
    """URL of the receiver, `http://` or `https://`."""

    token: SecretStr | None = None
    """Sent as `Authorization: Bearer ...`. Use an environment variable: `${ALERT_TOKEN}`."""

    severity: Severity | None = None
    """Send only alerts of this severity, `critical` or `warning`. Default: all."""

    timeout: Annotated[Duration, Field(gt=0, le=60)] = 10.0
    """Time limit for one delivery, including the connection; at most `60s`."""

    async def post_until_cancelled(
        self,
        inbox: Inbox,
        runtime: Runtime,
        *,
        name: str,
        url: str,
        delivery: DeliveryState,
        body: Callable[[Sequence[Notice]], object],
        at_most: int | None = None,
    ) -> None:
        """Post the due notifications in the form that `body` gives them, `at_most` at once; otherwise as in `serve`."""
        async with self._posting(url) as post:
            await serve(
                inbox,
                runtime,
                name=name,
                delivery=delivery,
                send=lambda notices: post(body(notices)),
                where=urlsplit(url).netloc,
                identity=url,
                severity=self.severity,
                at_most=at_most,
            )

    async def post_once(self, url: str, body: object) -> None:
        """Post one body. Raises `NotDelivered`."""
        async with self._posting(url) as post:
            await post(body)

    @asynccontextmanager
    async def _posting(self, url: str) -> AsyncIterator[Callable[[object], Awaitable[None]]]:
        """Yield a function that posts a body as JSON and raises `NotDelivered`."""
        import httpx  # noqa: PLC0415 - takes 0.13 s, and most monitors are alerted on by Prometheus

        from monitor.transport.http.pinned import pinned  # noqa: PLC0415

        headers = {"User-Agent": f"rag-monitor/{__version__}", "Content-Type": "application/json"}
        if self.token is not None:
            headers["Authorization"] = f"Bearer {self.token.get_secret_value()}"

        async def post(body: object) -> None:
            # Names from traces may contain half a surrogate pair, which is not valid UTF-8.
            content = json.dumps(body, ensure_ascii=False, allow_nan=False).encode("utf-8", "replace")
            begun = False

            async def once_connected() -> AsyncIterator[bytes]:
                nonlocal begun
                begun = True
                yield content

            length = {"Content-Length": str(len(content))}
            try:
                with anyio.fail_after(self.timeout):
                    async with client.stream("POST", url, content=once_connected(), headers=length) as answer:
                        status = answer.status_code
            except TimeoutError:
                raise NotDelivered(f"no response within {self.timeout:g} s", perhaps=begun) from None
            except (httpx.HTTPError, httpx.StreamError, httpx.InvalidURL, OSError) as error:
                raise NotDelivered(f"{type(error).__name__}: {error}", perhaps=begun) from None
            if not 200 <= status < 300:  # noqa: PLR2004
                raise NotDelivered(f"responded with {status}", perhaps=status in PERHAPS_PASSED_ON)

        async with pinned(httpx.AsyncClient(headers=headers, timeout=self.timeout, follow_redirects=False)) as client:
            yield post


async def serve(
    inbox: Inbox,
    runtime: Runtime,
    *,
    name: str,
    delivery: DeliveryState,
    send: Send,
    where: str = "",
    identity: str = "",
    severity: Severity | None = None,
    at_most: int | None = None,
) -> None:
    """Keep one receiver informed until cancelled. What `send` refuses is sent again after 1 s, in the end every minute.

    Args:
        inbox: holds the current states.
        runtime: provides clock, events and metrics.
        name: the type of the receiver, in events and metrics.
        delivery: what the receiver knows.
        send: delivers notifications, all or none of them; raises `NotDelivered`.
        where: the receiver's address in events, without secrets.
        identity: its whole URL, which identifies it across a reload or restart. Only a hash of it is kept.
        severity: the only severity that the receiver is sent; None: all.
        at_most: how many notifications `send` gets at once; None: all that are due.
    """
    counted = {
        outcome: runtime.metrics.notifications.labels(name, outcome) for outcome in ("sent", "failed", "superseded")
    }
    retry, retry_at = FIRST_RETRY, -math.inf
    known = inbox.known or KnownAlerts(runtime, receivers=1)
    known.begin(name, f"{severity or ''} {identity}", delivery)
    if not inbox.filled:  # an empty list would look like a resolution
        await inbox.wait(math.inf)
    while True:
        now = runtime.clock.monotonic()
        states = [one for one in inbox.states if severity is None or one.severity is severity]
        counted["superseded"].inc(delivery.update(states, now, runtime.clock.now()))
        due = delivery.due(now)[:at_most] if now >= retry_at else []
        if due:
            delivery.sending(due, now, runtime.clock.now())
            await known.flush()
            try:
                await send(due)
            except NotDelivered as failure:
                delivery.refused(due, perhaps=failure.perhaps)
                counted["failed"].inc(len(due))
                runtime.events.warning(
                    Event.NOTIFICATION_FAILED,
                    f"{len(due)} alert notification(s) not accepted, next attempt in {retry:g} s: {failure}",
                    receiver=name,
                    address=where,
                )
                retry_at = runtime.clock.monotonic() + retry
                retry = min(retry * 2, LAST_RETRY)
            else:
                counted["sent"].inc(len(due))
                delivery.sent(due, runtime.clock.monotonic(), runtime.clock.now())
                retry, retry_at = FIRST_RETRY, -math.inf
        await inbox.wait(max(delivery.next_due(), retry_at) - runtime.clock.monotonic())
