"""Tells people about alerts: the log, a webhook, Prometheus Alertmanager."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any
from urllib.parse import urlsplit

import anyio
from pydantic import AfterValidator, Field, SecretStr, ValidationError

from monitor import __version__
from monitor.alerts.notify.delivery_state import DeliveryState, Notice
from monitor.alerts.policy import Severity
from monitor.alerts.state import AlertState
from monitor.errors import ConfigError
from monitor.errors.explanation import explain, nearest
from monitor.quantities import Duration
from monitor.stages import Component, Runtime
from monitor.telemetry.events import Event
from monitor.transport.http.client import webhook_url

_FIRST_RETRY, _LAST_RETRY = 1.0, 60.0  # seconds; doubled after each failure
_FORGETS_AFTER = 4  # resend intervals: three may fail before Alertmanager ends an alert

Send = Callable[[Sequence[Notice]], Awaitable[None]]


class _NotDelivered(Exception):  # noqa: N818 - stays in this file
    """A receiver did not accept a delivery. The message says why and holds no secret."""


class Inbox:
    """The current alert states for one receiver. It holds only the latest list, so it is never full."""

    def __init__(self) -> None:
        self.states: Sequence[AlertState] = ()
        self._changed = anyio.Event()

    def put(self, states: Sequence[AlertState]) -> None:
        """Replace the states and wake the receiver. Never waits."""
        self.states = states
        self._changed.set()

    async def wait(self, seconds: float) -> None:
        """Wait until there are new states, at most `seconds`."""
        with anyio.move_on_after(seconds):
            await self._changed.wait()
        self._changed = anyio.Event()


class Notifier(Component, ABC):
    """One receiver of alerts."""

    @abstractmethod
    async def run(self, inbox: Inbox, runtime: Runtime) -> None:
        """Send the states in `inbox` to the receiver until cancelled. Never raises because the receiver is down."""


class Log(Notifier):
    """Alerts as log lines and in `ragmonitor_events_total`. Always active, even if not configured."""

    async def run(self, inbox: Inbox, runtime: Runtime) -> None:
        """Write a line when an alert fires, at level error if it is critical, and when it is resolved."""

        async def write(notices: Sequence[Notice]) -> None:
            for notice in notices:
                state = notice.state
                if notice.ended is None:
                    say = runtime.events.error if state.severity is Severity.CRITICAL else runtime.events.warning
                    say(Event.ALERT_FIRING, state.annotations.get("description", ""), **dict(state.labels))
                else:
                    lasted = round(notice.ended - state.since)
                    message = f"{state.labels['alertname']} was resolved after {lasted} s"
                    runtime.events.info(Event.ALERT_RESOLVED, message, **dict(state.labels))

        await _serve(inbox, runtime, name="log", delivery=DeliveryState(), send=write)


class _Http(Notifier):
    """A receiver over HTTP. Redirects are not followed: token and data go only where the configuration says."""

    url: Annotated[str, AfterValidator(webhook_url)] = Field(examples=["https://hooks.example/alerts"])
    """URL of the receiver, `http://` or `https://`."""

    token: SecretStr | None = None
    """Sent as `Authorization: Bearer ...`. Use an environment variable: `${ALERT_TOKEN}`."""

    timeout: Annotated[Duration, Field(gt=0, le=60)] = 10.0
    """Time limit for one delivery, including the connection; at most `60s`."""

    async def _post_until_cancelled(
        self,
        inbox: Inbox,
        runtime: Runtime,
        *,
        name: str,
        url: str,
        delivery: DeliveryState,
        body: Callable[[Sequence[Notice]], object],
    ) -> None:
        import httpx  # noqa: PLC0415 - takes 0.13 s, and most monitors are alerted on by Prometheus

        headers = {"User-Agent": f"rag-monitor/{__version__}"}
        if self.token is not None:
            headers["Authorization"] = f"Bearer {self.token.get_secret_value()}"

        async def post(notices: Sequence[Notice]) -> None:
            try:
                with anyio.fail_after(self.timeout):
                    async with client.stream("POST", url, json=body(notices)) as answer:
                        status = answer.status_code
            except TimeoutError:
                raise _NotDelivered(f"no response within {self.timeout:g} s") from None
            except (httpx.HTTPError, httpx.StreamError, httpx.InvalidURL, OSError) as error:
                raise _NotDelivered(f"{type(error).__name__}: {error}") from None
            if not 200 <= status < 300:  # noqa: PLR2004
                raise _NotDelivered(f"responded with {status}")

        async with httpx.AsyncClient(headers=headers, timeout=self.timeout, follow_redirects=False) as client:
            await _serve(inbox, runtime, name=name, delivery=delivery, send=post, where=urlsplit(url).netloc)


class Webhook(_Http):
    """One JSON POST for all new notifications. Each alert is sent when it fires and when it is resolved.

    `{"version": 1, "alerts": [{"status": "firing" | "resolved",
    "labels": {alertname, app, evaluator, severity, version, defect_rule},
    "annotations": {summary, description, runbook_url, answers_url}, "startsAt", "endsAt": RFC 3339 or null,
    "threshold", "rate", "lower", "upper", "evaluated", "defects", "window_seconds"}]}`. Rates are shares from 0 to 1;
    `lower` and `upper` are the one-sided limits at the z of the window that fired. For a regression, the threshold is
    the margin times the rate of the week before, and the limits are those of a 95 % interval. An alert that is not
    about an app or a rate has no such labels, and null in the other fields; `defect_rule` is there only where the alert
    brings its own. An alert that another one explains is held
    back while that one fires (docs/runbooks). Any response but 2xx is retried, first after 1 second and in the end
    every minute; a receiver that accepts a delivery but responds too late gets it again.
    """

    async def run(self, inbox: Inbox, runtime: Runtime) -> None:
        """Post until cancelled."""
        await self._post_until_cancelled(
            inbox, runtime, name="webhook", url=self.url, delivery=DeliveryState(), body=_webhook_body
        )


class Alertmanager(_Http):
    """Prometheus Alertmanager, API v2. Grouping, silences and inhibition are configured there.

    Configure each member of a cluster as a separate entry. Firing alerts are sent again every `resend_interval`. If the
    monitor disappears, they end by themselves after four times that.
    """

    resend_interval: Annotated[Duration, Field(ge=1, le=3600)] = 60.0
    """Time between two sends of a firing alert, `1s` to `1h`."""

    async def run(self, inbox: Inbox, runtime: Runtime) -> None:
        """Post until cancelled."""
        lasts = _FORGETS_AFTER * self.resend_interval
        delivery = DeliveryState(resend=self.resend_interval, forgets_after=lasts, inhibits=False)

        def body(notices: Sequence[Notice]) -> list[dict[str, Any]]:
            now = runtime.clock.now()
            return [
                {
                    "labels": dict(notice.state.labels),
                    "annotations": dict(notice.state.annotations),
                    "startsAt": _stamp(min(notice.state.since, now)),
                    "endsAt": _stamp(notice.ended if notice.ended is not None else now + lasts),
                }
                for notice in notices
            ]

        url = self.url.rstrip("/") + "/api/v2/alerts"
        await self._post_until_cancelled(inbox, runtime, name="alertmanager", url=url, delivery=delivery, body=body)


async def _serve(
    inbox: Inbox, runtime: Runtime, *, name: str, delivery: DeliveryState, send: Send, where: str = ""
) -> None:
    """Keep one receiver informed until cancelled."""
    counted = {
        outcome: runtime.metrics.notifications.labels(name, outcome) for outcome in ("sent", "failed", "superseded")
    }
    retry, retry_at = _FIRST_RETRY, -math.inf
    while True:
        now = runtime.clock.monotonic()
        counted["superseded"].inc(delivery.update(inbox.states, now, runtime.clock.now()))
        due = delivery.due(now) if now >= retry_at else []
        if due:
            try:
                await send(due)
            except _NotDelivered as failure:
                counted["failed"].inc(len(due))
                runtime.events.warning(
                    Event.NOTIFICATION_FAILED,
                    f"{len(due)} alert notification(s) not accepted, next attempt in {retry:g} s: {failure}",
                    receiver=name,
                    address=where,
                )
                retry_at = runtime.clock.monotonic() + retry
                retry = min(retry * 2, _LAST_RETRY)
            else:
                counted["sent"].inc(len(due))
                delivery.sent(due, runtime.clock.monotonic())
                retry, retry_at = _FIRST_RETRY, -math.inf
        await inbox.wait(max(delivery.next_due(), retry_at) - runtime.clock.monotonic())


def _webhook_body(notices: Sequence[Notice]) -> dict[str, Any]:
    return {"version": 1, "alerts": [_webhook_alert(notice) for notice in notices]}


def _webhook_alert(notice: Notice) -> dict[str, Any]:
    state, found = notice.state, notice.state.estimate
    return {
        "status": "firing" if notice.ended is None else "resolved",
        "labels": dict(state.labels),
        "annotations": dict(state.annotations),
        "startsAt": _stamp(state.since),
        "endsAt": _stamp(notice.ended) if notice.ended is not None else None,
        "threshold": state.threshold,
        "rate": found.rate if found else None,
        "lower": found.lower if found else None,
        "upper": found.upper if found else None,
        "evaluated": found.judged if found else 0,
        "defects": found.defects if found else 0,
        "window_seconds": state.window,
    }


def _stamp(seconds: float) -> str:
    """RFC 3339, UTC, milliseconds."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


TYPES: Mapping[str, type[Notifier]] = {"log": Log, "webhook": Webhook, "alertmanager": Alertmanager}


def read_notifier(entry: Mapping[str, Any], place: str) -> Notifier:
    """Make the receiver that a configuration entry describes.

    Raises `ConfigError` with the place and what is allowed. It does not repeat the values of `url` and `token`, which
    may hold a secret.
    """
    options = dict(entry)
    chosen = TYPES.get(str(options.pop("type", "")))
    if chosen is None:
        given = entry.get("type")
        hint = "" if given is None else f" (given: {given!r:.80}){nearest(str(given), TYPES)}"
        raise ConfigError(f"{place}: needs a `type`, one of: {', '.join(TYPES)}{hint}")
    try:
        return chosen.model_validate(options)
    except ValidationError as error:
        raise ConfigError(explain(error, chosen, options, place=place, also=("type",))) from None


def read_notifiers(entries: Sequence[Mapping[str, Any]], place: str = "notify") -> tuple[Notifier, ...]:
    """Make all configured receivers, and the log even if it is not configured. Raises `ConfigError`."""
    named = [read_notifier(entry, f"{place}[{number}]") for number, entry in enumerate(entries)]
    return tuple(named if any(isinstance(one, Log) for one in named) else [Log(), *named])
