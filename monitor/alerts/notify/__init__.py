"""Notifies people of alerts: the log, a webhook, Prometheus Alertmanager, Slack, and many services through Apprise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, ClassVar, Final

from pydantic import Field, ValidationError

from monitor.alerts.catalogue import DIAGNOSIS
from monitor.alerts.notify.apprise import Apprise
from monitor.alerts.notify.delivery_state import DeliveryState, Notice
from monitor.alerts.notify.receiver import HttpNotifier, Inbox, Notifier, ScheduledMessage, serve
from monitor.alerts.notify.slack import Slack
from monitor.alerts.policy import Severity
from monitor.errors import ConfigError
from monitor.errors.explanation import explain, nearest
from monitor.quantities import Duration, human_duration
from monitor.stages import Runtime
from monitor.telemetry.events import Event

__all__ = [
    "TYPES",
    "Alertmanager",
    "Apprise",
    "Inbox",
    "Log",
    "Notifier",
    "ScheduledMessage",
    "Slack",
    "Webhook",
    "named_notifiers",
    "read_notifier",
    "read_notifiers",
]

_SAID: Final = ("description", DIAGNOSIS)
_FORGETS_AFTER: Final = 4  # resend intervals: three may fail before Alertmanager ends an alert


class Log(Notifier):
    """Alerts as log lines and in `ragmonitor_events_total`. Always active, even if not configured."""

    takes_messages: ClassVar[bool] = False  # they may quote questions, which must not be logged

    async def run(self, inbox: Inbox, runtime: Runtime) -> None:
        """Log when an alert fires (at level error if it is critical), gets its diagnosis later, and is resolved."""

        async def write(notices: Sequence[Notice]) -> None:
            for notice in notices:
                state = notice.state
                if notice.late:
                    runtime.events.info(Event.ALERT_DIAGNOSED, state.annotations[DIAGNOSIS], **dict(state.labels))
                elif notice.ended is None:
                    say = runtime.events.error if state.severity is Severity.CRITICAL else runtime.events.warning
                    said = " ".join(state.annotations[name] for name in _SAID if state.annotations.get(name))
                    say(Event.ALERT_FIRING, said, **dict(state.labels))
                else:
                    lasted = human_duration(max(notice.ended - state.since, 0))
                    message = f"{state.labels['alertname']} was resolved after {lasted}"
                    runtime.events.info(Event.ALERT_RESOLVED, message, **dict(state.labels))

        await serve(inbox, runtime, name="log", delivery=DeliveryState(late_diagnosis=True), send=write)


class Webhook(HttpNotifier):
    """One JSON POST for all new notifications. Each alert is sent when it fires and when it is resolved; if its
    diagnosis comes later, it is sent once more while it fires, with the annotation.

    `{"version": 1, "alerts": [{"status": "firing" | "resolved",
    "labels": {alertname, app, evaluator, severity, version, defect_rule},
    "annotations": {summary, description, diagnosis, incident, runbook_url, answers_url, diagnosis_url, incident_url},
    "startsAt", "endsAt": RFC 3339 or null, "threshold", "rate", "lower", "upper", "evaluated", "defects",
    "window_seconds"}]}`. Rates are shares from 0 to 1;
    `lower` and `upper` are the one-sided limits at the z of the window that fired. For a regression, the threshold is
    the margin times the rate of the week before, and the limits are those of a 95 % interval. An alert that is not
    about an app or a rate has no such labels, and null in the other fields; `defect_rule` is present only if the alert
    has a defect rule of its own. An alert explained by another one is held back while that one fires (docs/runbooks).
    Any response other than 2xx is retried, first after 1 second and in the end every minute; a receiver that accepts a
    delivery but responds too late gets it again.
    A digest is `{"version": 1, "digest": {...}, "title", "text"}`, with the object of `rag-monitor digest --format
    json`.
    """

    late_diagnosis: bool = True
    """Whether an alert that was sent without its diagnosis is followed, once, by a message with it. An alert waits at
    most 5 seconds for its diagnosis."""

    async def run(self, inbox: Inbox, runtime: Runtime) -> None:
        """Post until cancelled."""
        delivery = DeliveryState(late_diagnosis=self.late_diagnosis)
        await self.post_until_cancelled(
            inbox, runtime, name="webhook", url=self.url, delivery=delivery, body=_webhook_body
        )

    async def deliver(self, message: ScheduledMessage, place: int = 0) -> None:  # noqa: ARG002 - it has one place
        """Post a message. Raises `NotDelivered`."""
        body = {"version": 1, "digest": message.content, "title": message.title, "text": "\n".join(message.lines)}
        await self.post_once(self.url, body)


class Alertmanager(HttpNotifier):
    """Prometheus Alertmanager, API v2. Grouping, silences and inhibition are configured there.

    Configure each member of a cluster as a separate entry. Firing alerts are sent again every `resend_interval`. If the
    monitor disappears, they resolve by themselves after four times that interval.
    """

    resend_interval: Annotated[Duration, Field(ge=1, le=3600)] = 60.0
    """Time between two sends of a firing alert, `1s` to `1h`."""

    takes_messages: ClassVar[bool] = False

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
        await self.post_until_cancelled(inbox, runtime, name="alertmanager", url=url, delivery=delivery, body=body)


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
    """Format a time as RFC 3339, in UTC with milliseconds."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


TYPES: Mapping[str, type[Notifier]] = {
    "log": Log,
    "webhook": Webhook,
    "alertmanager": Alertmanager,
    "slack": Slack,
    "apprise": Apprise,
}


def read_notifier(entry: Mapping[str, Any], place: str) -> Notifier:
    """Make the receiver that a configuration entry describes.

    Raises `ConfigError` with the place and what is allowed. It does not repeat the values of `url`, `urls` and
    `token`, which may contain a secret.
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


def named_notifiers(notifiers: Sequence[Notifier]) -> Mapping[str, Notifier | None]:
    """Return the receivers by name, or by type if they have none; None for a name that several share."""
    types = {kind: name for name, kind in TYPES.items()}
    found: dict[str, Notifier | None] = {}
    for one in notifiers:
        name = one.name or types[type(one)]
        found[name] = None if name in found else one
    return found
