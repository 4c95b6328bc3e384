"""What `rag-monitor top` shows: a running monitor's figures as a `View` for people, as an object for machines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal, cast

from monitor.alerts.policy import DEFAULT_WINDOWS
from monitor.cli.console.status_lines import told, troubled
from monitor.cli.console.text import dollars
from monitor.cli.scrape import Port, Refused
from monitor.cli.view import RateRow, State, View
from monitor.cli.watched import NAMES, WINDOW, Rated, Reading, Watched, as_object, read
from monitor.errors import MonitorError
from monitor.quantities import human_duration
from monitor.statistics.rates import Sums, doubled, estimate, interval_95, judged_to_tell

_STATES: Final = {
    "critical": "critical",
    "warning": "warning",
    "ok": "ok",
    "not_enough_data": "not enough data",
    "no_verdicts": "not enough data",
    "not_watched": "no alert",
}
"""By the page's word for it."""

_GRAVITY: Final = ("critical", "warning", "not enough data", "ok", "no alert")
_ALERTS_EVERY: Final = 10.0  # seconds; the monitor itself looks no more often
_MOST_ALERTS: Final = 5
_ABOUT: Final = ("app", "evaluator", "description")
_SURE: Final = DEFAULT_WINDOWS[0].z


class Outlook:
    """Looks at a monitor now and then. The state of a rate is that of its alerts, where the monitor's page tells it."""

    def __init__(self, port: Port) -> None:
        self._port = port
        self._watched = Watched()
        self._began = 0.0
        self._trouble = ""
        self._overview: Mapping[str, Any] | None = None
        self._overview_at = 0.0

    def look(self, now: float, *, patient: bool = False) -> None:
        """Read the monitor's counters at the wall-clock second `now`.

        Raises `MonitorError` where it does not answer, unless `patient`: then what was seen last stays.
        """
        try:
            reading = read(self._port.samples(NAMES), now)
            if now - self._overview_at >= _ALERTS_EVERY:
                self._overview, self._overview_at = self._port.document("/api/v1/overview"), now
        except Refused:
            raise
        except MonitorError as error:
            if not patient:
                raise
            self._trouble = str(error)
            return
        self._trouble = ""
        self._watched.add(reading)
        self._began = self._began or now

    def view(self, now: float) -> View:
        """The picture."""
        newest, watched = self._watched.newest, self._watched
        rows = [self._row(rated, sums) for rated, sums in newest.rates.items() if sums.judged]
        return View(
            elapsed=now - self._began,
            phase=f"no answer: {self._trouble}" if self._trouble else f"version {newest.version} at {self._port.base}",
            window=min(float(round(watched.seconds)), WINDOW) if watched.long_enough else None,
            rates=sorted(rows, key=lambda row: (_GRAVITY.index(row.state), row.app, row.evaluator)),
            ledger=newest.ledger,
            notes=tuple(self._notes(newest, now)),
        )

    def as_object(self, now: float) -> dict[str, Any]:
        """The same for machines: times in seconds, rates as shares, US dollars; null where nothing is known."""
        newest, watched = self._watched.newest, self._watched
        per_second = watched.per_second()
        return {
            "at": now,
            "url": self._port.base,
            "version": newest.version,
            "started_at": newest.started or None,
            "window_seconds": watched.seconds or None,
            "rates": [self._rate_object(rated, sums) for rated, sums in newest.rates.items()],
            "alerts": list(self._firing()),
            "evaluators": [
                {"evaluator": name, "state": str(one.state), "why": one.why, "remedy": one.remedy}
                for name, one in told(newest.states, self._standings()).items()
            ],
            "ledger": dict(newest.ledger),
            "received_per_second": per_second[0] if per_second else None,
            "judged_per_second": per_second[1] if per_second else None,
            "oldest_pending_seconds": max(newest.at - newest.oldest, 0.0) if newest.oldest else 0.0,
            "consumer_lag_messages": newest.lag,
            "judges": [
                {
                    "model": model,
                    "requests": one.requests,
                    "failed": one.failed,
                    "tokens": one.tokens,
                    "dollars": one.dollars,
                    "dollars_per_hour": watched.dollars_per_hour(model),
                }
                for model, one in newest.judges.items()
            ],
        }

    def _row(self, rated: Rated, total: Sums) -> RateRow:
        watched = self._watched
        shown = watched.window(rated) if watched.long_enough else total
        found, ever = interval_95(shown), interval_95(total)
        thresholds = self._watched.newest.thresholds.get(rated[:2], {})
        return RateRow(
            evaluator=rated.evaluator,
            app=rated.app,
            rate=found.rate if found else None,
            lower=found.lower if found else None,
            upper=found.upper if found else None,
            judged=shown.judged,
            trend=watched.trend(rated),
            state=self._state(rated, total),
            threshold=min(thresholds.values(), default=None),
            since_start=(ever.rate, ever.judged) if ever and watched.long_enough else None,
        )

    def _rate_object(self, rated: Rated, total: Sums) -> dict[str, Any]:
        watched, newest = self._watched, self._watched.newest
        window = watched.window(rated)
        return {
            **rated._asdict(),
            "state": self._state(rated, total).replace(" ", "_"),
            "thresholds": dict(newest.thresholds.get(rated[:2], {})),
            "since_start": as_object(total, interval_95(total)),
            "window": as_object(window, interval_95(window)),
            "unscored": newest.unscored.get(rated[:2], 0),
            "pending": newest.pending.get(rated[:2], 0),
        }

    def _state(self, rated: Rated, total: Sums) -> State:
        """As the page has it; else as an alert would on what is shown, or on all where that is too little."""
        for app in _list(self._overview, "apps"):
            for rate in _list(app, "rates"):
                if (rate.get("app"), rate.get("evaluator")) == rated[:2] and rate.get("state") in _STATES:
                    return cast("State", _STATES[rate["state"]])
        thresholds = self._watched.newest.thresholds.get(rated[:2], {})
        if not thresholds:
            return "no alert"
        window = self._watched.window(rated) if self._watched.long_enough else Sums()
        known = (state for sums in (window, total) if (state := _against(thresholds, sums)) is not None)
        return next(known, "not enough data")

    def _standings(self) -> dict[str, dict[str, str]]:
        """The sentences that go with the states of evaluators, where there is a page."""
        found = {}
        for one in _list(self._overview, "evaluators"):
            texts = {key: text for key in ("state", "why", "remedy") if isinstance(text := one.get(key), str)}
            if isinstance(one.get("name"), str):
                found[one["name"]] = texts
        return found

    def _notes(self, newest: Reading, now: float) -> Iterator[str]:
        per_second = self._watched.per_second()
        parts = [f"up {human_duration(newest.at - newest.started)}"] if newest.started else []
        if per_second is not None:
            parts += [f"{per_second[0]:.3g} traces a second in", f"{per_second[1]:.3g} verdicts a second out"]
        if newest.oldest and newest.at - newest.oldest >= 1:
            parts.append(f"the oldest pending for {human_duration(newest.at - newest.oldest)}")
        if newest.lag is not None:
            parts.append(f"Kafka lag {newest.lag:,} messages")
        if self._trouble:
            parts.append(f"the last answer {human_duration(now - newest.at)} ago")
        yield ", ".join(parts)
        for model, one in newest.judges.items():
            hourly = self._watched.dollars_per_hour(model)
            failed = f" ({one.failed:,} failed)" if one.failed else ""
            rate = f", {dollars(hourly)} an hour now" if hourly else ""
            cost = f", {dollars(one.dollars)} since start" if one.dollars else ""
            yield f"judge {model}: {one.requests:,} calls{failed}, {one.tokens:,} tokens{cost}{rate}"
        yield from troubled(told(newest.states, self._standings()))
        lost = [f"{number:,} by {name} of {app}" for (app, name), number in sorted(newest.unscored.items()) if number]
        if lost:
            yield f"not scored since start: {', '.join(lost)}"
        for alert in list(self._firing())[:_MOST_ALERTS]:
            about = " ".join(text for text in (alert["app"], alert["evaluator"]) if text)
            yield f"ALERT {alert['severity']} {alert['name']} {about}".rstrip()

    def _firing(self) -> Iterator[dict[str, str]]:
        """The gravest of the alerts that fire, where the page tells them."""
        rates = [rate for app in _list(self._overview, "apps") for rate in _list(app, "rates")]
        firing = [one for rate in rates for one in _list(rate, "firing")] + _list(self._overview, "alerts")
        told: set[tuple[object, ...]] = set()
        for one in sorted(firing, key=lambda one: one.get("severity") != "critical"):
            key = (one.get("name"), one.get("app"), one.get("evaluator"))
            if key not in told:  # else a graver one has told it
                told.add(key)
                yield {name: str(one.get(name, "")) for name in ("name", "severity", *_ABOUT)}


def _against(thresholds: Mapping[str, float], sums: Sums) -> State | None:
    """How a rate stands against its thresholds; None where too little was judged to say."""
    surely, likely = estimate(sums, _SURE), interval_95(sums)
    if surely is None or likely is None:
        return None
    severities: tuple[Literal["critical", "warning"], ...] = ("critical", "warning")
    for severity in severities:
        if severity in thresholds and surely.lower > thresholds[severity]:
            return severity
    known = (
        likely.upper < threshold or sums.judged >= judged_to_tell(threshold, doubled(threshold), _SURE)
        for threshold in thresholds.values()
    )
    return "ok" if all(known) else None


def _list(value: Mapping[str, Any] | None, key: str) -> list[dict[str, Any]]:
    """The objects of a list in an answer that another version of the monitor may have written."""
    found = value.get(key) if value is not None else None
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []
