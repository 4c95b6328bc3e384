"""Receiver `apprise`: everything that the library Apprise can notify, each service by its own URL.

Apprise blocks, so each service has a thread of its own while it is notified. Its messages may quote a URL: all parts of
it are removed before they are logged.
"""

from __future__ import annotations

import asyncio
import logging
import re
import threading
from collections.abc import Sequence
from contextlib import suppress
from functools import cached_property
from importlib.util import find_spec
from typing import Annotated, Any, Final
from urllib.parse import unquote, urlsplit

import anyio
from pydantic import AfterValidator, Field, SecretStr

from monitor.alerts.notify.delivery_state import DeliveryState, Notice
from monitor.alerts.notify.receiver import (
    PERHAPS_PASSED_ON,
    Inbox,
    NotDelivered,
    Notifier,
    ScheduledMessage,
    serve,
)
from monitor.alerts.notify.text import description, links, status, title
from monitor.alerts.policy import Severity
from monitor.errors.explanation import nearest
from monitor.quantities import Duration
from monitor.stages import Runtime
from monitor.transport.http.client import checked_connections, hands_out_credentials

_SERVICES: Final = "https://appriseit.com/services/ lists all"
_LONGEST_DESCRIPTION: Final = 1_000
_LONGEST_REASON: Final = 200
_SHORTEST_SECRET: Final = 3
_STATUS: Final = re.compile(r"\berror=([0-9]{3})\b")
_NO_ANSWER: Final = re.compile(r"timed out|Connection aborted|unexpectedly closed")
_NOT_CONNECTED: Final = "Max retries exceeded"  # as urllib3 says it
_KINDS: Final = {Severity.CRITICAL: "failure", Severity.WARNING: "warning"}


def _usable(url: SecretStr) -> SecretStr:
    _service(url.get_secret_value())
    return url


class Apprise(Notifier):
    """Any service that [Apprise](https://appriseit.com/services/) can notify: PagerDuty, Opsgenie, Microsoft Teams,
    e-mail, Telegram, Google Chat, ntfy and a hundred others.

    Needs the extra `rag-monitor[notify]`, which our images include. Each service is notified separately of each alert,
    when it fires (`failure` if it is critical, else `warning`) and when it is resolved (`success`). The title is the
    same both times, so that pagers close what they opened (PagerDuty with `?action=map`). Redirects are not followed.
    An alert explained by another one is held back while that one fires (docs/runbooks). Failed deliveries are retried
    as for a webhook.
    """

    urls: tuple[Annotated[SecretStr, AfterValidator(_usable)], ...] = Field(
        min_length=1, examples=[["ntfys://ntfy.example/rag-alerts"]]
    )
    """URLs of the services, as [Apprise](https://appriseit.com/services/) writes them. Use environment variables for
    keys and passwords: `pagerduty://${INTEGRATION_KEY}@${API_KEY}?action=map`."""

    severity: Severity | None = None
    """Send only alerts of this severity, `critical` or `warning`. Default: all."""

    timeout: Annotated[Duration, Field(gt=0, le=300)] = 30.0
    """Time limit for one delivery; at most `5m`. Some services are called at most once in five seconds."""

    late_diagnosis: bool = True
    """Whether an alert that was sent without its diagnosis is followed, once, by a message with it. An alert waits at
    most 5 seconds for its diagnosis."""

    async def run(self, inbox: Inbox, runtime: Runtime) -> None:
        """Notify each service until cancelled."""
        inboxes = [Inbox(inbox.known) for _ in self.urls]
        async with anyio.create_task_group() as tasks:
            for number, url in enumerate(self.urls):
                tasks.start_soon(self._serve, inboxes[number], runtime, number, url.get_secret_value())
            while True:
                if inbox.filled:
                    for one in inboxes:
                        one.put(inbox.states)
                await inbox.wait(float("inf"))

    @property
    def places(self) -> int:
        """The number of services."""
        return len(self.urls)

    async def deliver(self, message: ScheduledMessage, place: int = 0) -> None:
        """Deliver a message to one service, as `info`. Raises `NotDelivered`."""
        service = _Service(self.urls[place].get_secret_value(), f"urls[{place}]", self.timeout)
        await service.send("\n".join(message.lines), title=message.title, kind="info")

    async def _serve(self, inbox: Inbox, runtime: Runtime, number: int, url: str) -> None:
        service = _Service(url, f"urls[{number}]", self.timeout)

        async def send(notices: Sequence[Notice]) -> None:
            for notice in notices:
                await service.notify(notice)

        where = f"urls[{number}] ({urlsplit(url).scheme})"
        await serve(
            inbox,
            runtime,
            name="apprise",
            delivery=DeliveryState(late_diagnosis=self.late_diagnosis),
            send=send,
            where=where,
            identity=url,
            severity=self.severity,
            at_most=1,
        )


class _Service:
    """One service of Apprise, notified in a thread. `place` names it in errors."""

    def __init__(self, url: str, place: str, timeout: float) -> None:
        self._url = url
        self._place = place
        self._timeout = timeout
        self._running: threading.Thread | None = None

    @cached_property
    def _made(self) -> Any:
        return _service(self._url)

    async def notify(self, notice: Notice) -> None:
        """Deliver one notification. Raises `NotDelivered`."""
        pages = [f"{name}: {url}" for name, url in links(notice)]
        lines = [f"{status(notice)}: {description(notice, _LONGEST_DESCRIPTION)}", *pages]
        kind = _KINDS[notice.state.severity] if notice.ended is None else "success"
        await self.send("\n".join(lines), title=title(notice), kind=kind)

    async def send(self, body: str, *, title: str, kind: str) -> None:
        """Deliver a text. Raises `NotDelivered`."""
        if self._running is not None and self._running.is_alive():
            raise NotDelivered("the previous delivery has not ended yet")
        loop = asyncio.get_running_loop()
        done: asyncio.Future[NotDelivered | None] = loop.create_future()

        def end(failure: NotDelivered | None) -> None:
            if not done.done():
                done.set_result(failure)

        def run() -> None:
            failure = self._deliver(body, title, kind)
            with suppress(RuntimeError):  # the loop has closed in the meantime
                loop.call_soon_threadsafe(end, failure)

        # A thread that hangs must not delay the end of the process, as a pool's threads would.
        self._running = threading.Thread(target=run, name=f"notify apprise {self._place}", daemon=True)
        self._running.start()
        try:
            with anyio.fail_after(self._timeout):
                failure = await done
        except TimeoutError:
            raise NotDelivered(f"not delivered within {self._timeout:g} s", perhaps=True) from None
        if failure is not None:
            raise failure

    def _deliver(self, body: str, title: str, kind: str) -> NotDelivered | None:
        """Deliver in this thread; return why it failed, or nothing."""
        _unanswered.seen = False
        try:
            service = self._made
            with checked_connections():
                ended = service.notify(body=body, title=title, notify_type=kind, body_format="text")
            if ended:
                return None
            said = "; ".join(dict.fromkeys(entry.message for entry in ended.logs()))
        except Exception as error:  # noqa: BLE001 - a plug-in of Apprise may raise anything
            said = type(error).__name__
        passed_on = any(int(status) in PERHAPS_PASSED_ON for status in _STATUS.findall(said))
        why = without_parts(said, self._url)[:_LONGEST_REASON] or "not accepted"
        return NotDelivered(why, perhaps=passed_on or _unanswered.seen)


class _Seen(threading.local):
    seen = False


_unanswered: Final = _Seen()


class _Unanswered(logging.Filter):
    """Notes for each thread that a connection, once made, broke or got no answer in time.

    Apprise reports this only in its debug messages, which quote URLs: no handler gets them.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """See the class."""
        if record.levelno >= logging.WARNING:
            return True
        text = record.getMessage() if "Socket Exception" in str(record.msg) else ""
        if _NO_ANSWER.search(text) and _NOT_CONNECTED not in text:
            _unanswered.seen = True
        return False


def without_parts(text: str, url: str) -> str:
    """Return `text` on one line, without any part of `url` except its scheme."""
    found = re.split(r"[/:@?&=#+,;]+", url.partition("://")[2])
    parts = {one for part in found for one in (part, unquote(part)) if len(one) >= _SHORTEST_SECRET}
    for part in sorted(parts, key=len, reverse=True):
        text = re.sub(re.escape(part), "***", text, flags=re.IGNORECASE)
    return " ".join("".join(one if one.isprintable() else " " for one in text).split())


def _service(url: str) -> Any:
    """Make the service that a URL names. Raises `ValueError`, which quotes only the scheme of the URL."""
    if find_spec("apprise") is None:
        raise ValueError("needs the extra `notify`: pip install 'rag-monitor[notify]'")
    import apprise  # noqa: PLC0415 - takes a second and 20 MB, and most monitors have none

    quiet = logging.getLogger("apprise")  # its messages quote URLs; those about a failure come with the result
    quiet.propagate = False
    if not any(isinstance(one, _Unanswered) for one in quiet.filters):
        quiet.addHandler(logging.NullHandler())
        quiet.addFilter(_Unanswered())
        quiet.setLevel(logging.DEBUG)
    if hands_out_credentials(url):
        raise ValueError("the host is a link-local or metadata address")
    asset = apprise.AppriseAsset(
        app_id="rag-monitor",
        app_desc="rag-monitor",
        app_url="",
        image_url_mask="",
        image_url_logo="",
        http_redirects=False,
        async_mode=False,  # in the calling thread
        service_timeout=0,
        interpret_emojis=False,
    )
    service = apprise.Apprise.instantiate(url, asset=asset)
    if service is None:
        scheme = url.partition("://")[0].lower() if "://" in url else ""
        loaded: Any = apprise.manager_plugins.NotificationManager
        schemes = list(loaded().schemas())
        if scheme in schemes:
            raise ValueError(f"Apprise refuses this {scheme}:// URL: something in it is missing or wrong; {_SERVICES}")
        hint = nearest(scheme, schemes) if scheme else ""
        raise ValueError(f"Apprise has no service for this URL{hint}; {_SERVICES}")
    return apprise.Apprise(service, asset=asset)
