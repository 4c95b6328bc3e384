"""Watches a running monitor at intervals, and reports its status."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from monitor.alerts.policy import DEFAULT_WINDOWS
from monitor.errors import MonitorError
from monitor.operations.monitor_client import MonitorClient, ServerRefused
from monitor.operations.watch.scrapes import NAMES, JudgeUsage, RateKey, Scrape, Scrapes, read
from monitor.operations.watch.worst import PATH, WatchedOrder, read_orders
from monitor.pipeline.introspection.evaluator_status import EvaluatorStatus, State
from monitor.statistics.rates import Sums, doubled, estimate, judged_to_tell

RateState: TypeAlias = Literal["critical", "warning", "not_enough_data", "ok", "no_alert"]
"""How a rate compares with its alert thresholds; `no_alert`: no alert is configured."""

SEVERITY_ORDER: Final[tuple[RateState, ...]] = ("critical", "warning", "not_enough_data", "ok", "no_alert")

_STATES: Final[Mapping[str, RateState]] = {
    "critical": "critical",
    "warning": "warning",
    "ok": "ok",
    "not_enough_data": "not_enough_data",
    "no_scores": "not_enough_data",
    "no_alert": "no_alert",
}
"""States by their name in the JSON API."""

_ABOUT: Final = ("app", "evaluator", "defect_rule")
_ALERTS_EVERY: Final = 10.0  # seconds; the monitor evaluates its alerts no more often
_SURE: Final = DEFAULT_WINDOWS[0].z


@dataclass(frozen=True, slots=True, kw_only=True)
class RateStatus:
    """The defect rate of one evaluator on one app; `defect_rule` names an alert's own rule, else it is empty.

    `since_start` are the sums since the monitor started, `window` those of the time that it was watched. `trend` has
    the defect rates of consecutive steps of 10 s, oldest first, None for a step without a score. `unscored` counts
    since the start; `pending` is how many are waiting now.
    """

    app: str
    evaluator: str
    version: str
    defect_rule: str
    state: RateState
    thresholds: Mapping[str, float]
    since_start: Sums
    window: Sums
    trend: Sequence[float | None]
    unscored: int
    pending: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FiringAlert:
    """A firing alert; fields that do not apply to it are empty."""

    name: str
    severity: str
    app: str
    evaluator: str
    description: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MonitorStatus:
    """The status of a monitor.

    `at` is the wall-clock second of the latest scrape, `started_at` that of the monitor's start (None: unknown);
    `watched` is the number of seconds between the first and the latest scrape, and `long_enough` whether that is enough
    for rates. `problem` says why the monitor did not respond to the last scrape; empty if it did. Rates per second and
    dollars per hour are None after one scrape. `unscored` counts by app and evaluator since the start, `skipped` also
    by reason. `oldest_pending` is the age in seconds of the oldest pending trace, 0 if there is none; `lag` is the
    number of messages in Kafka that the monitor has not read, None without Kafka. `ledger` has the traces received, by
    outcome, and those pending. `contexts` has the shares of answers since the start by app and context status. Alerts
    and the worst answers, by app, are known only if the monitor serves its UI.
    """

    at: float
    url: str
    version: str
    started_at: float | None
    watched: float
    long_enough: bool
    problem: str
    rates: Sequence[RateStatus]
    alerts: Sequence[FiringAlert]
    worst: Sequence[WatchedOrder]
    evaluators: Mapping[str, EvaluatorStatus]
    unscored: Mapping[tuple[str, str], int]
    skipped: Mapping[tuple[str, str, str], int]
    ledger: Mapping[str, int]
    contexts: Mapping[str, Mapping[str, float]]
    received_per_second: float | None
    scored_per_second: float | None
    oldest_pending: float
    lag: int | None
    judges: Mapping[str, JudgeUsage]
    dollars_per_hour: Mapping[str, float | None]


class Watcher:
    """Scrapes a monitor at each look. If it serves its UI, the states of rates are those of its own alerts."""

    def __init__(self, client: MonitorClient) -> None:
        self._client = client
        self._scrapes = Scrapes()
        self._problem = ""
        self._overview: Mapping[str, Any] | None = None
        self._overview_at = 0.0
        self._worst: Sequence[WatchedOrder] = ()

    def look(self, now: float, *, patient: bool = False) -> None:
        """Scrape the monitor at the wall-clock second `now`.

        Raises `MonitorError` if it does not respond; if `patient`, only if a retry would not help.
        """
        try:
            scrape = read(self._client.samples(NAMES), now)
            if now - self._overview_at >= _ALERTS_EVERY:
                self._overview, self._overview_at = self._client.document("/api/v1/overview"), now
                self._worst = read_orders(self._client.document(PATH) if self._overview is not None else None)
        except ServerRefused:
            raise
        except MonitorError as error:
            if not patient:
                raise
            self._problem = str(error)
            return
        self._problem = ""
        self._scrapes.add(scrape)

    def status(self) -> MonitorStatus:
        """Return the status as of the latest scrape with a response; there must have been one."""
        scrapes, newest = self._scrapes, self._scrapes.newest
        received, scored = scrapes.per_second() or (None, None)
        return MonitorStatus(
            at=newest.at,
            url=self._client.url,
            version=newest.version,
            started_at=newest.started or None,
            watched=scrapes.seconds,
            long_enough=scrapes.long_enough,
            problem=self._problem,
            rates=[self._rate(key, sums) for key, sums in newest.rates.items()],
            alerts=list(self._alerts()),
            worst=self._worst,
            evaluators=evaluator_states(newest.states, self._explanations()),
            unscored=newest.unscored,
            skipped=newest.skipped,
            ledger=newest.ledger,
            contexts={
                app: {status: weight / sum(found.values()) for status, weight in found.items()}
                for app, found in newest.contexts.items()
                if sum(found.values())
            },
            received_per_second=received,
            scored_per_second=scored,
            oldest_pending=max(newest.at - newest.oldest, 0.0) if newest.oldest else 0.0,
            lag=newest.lag,
            judges=newest.judges,
            dollars_per_hour={model: scrapes.dollars_per_hour(model) for model in newest.judges},
        )

    def _rate(self, key: RateKey, total: Sums) -> RateStatus:
        newest, pair = self._scrapes.newest, key[:2]
        window = self._scrapes.window(key)
        return RateStatus(
            **key._asdict(),
            state=self._state(newest, key, total, window),
            thresholds=dict(newest.thresholds.get((*pair, key.defect_rule), {})),
            since_start=total,
            window=window,
            trend=self._scrapes.trend(key),
            unscored=newest.unscored.get(pair, 0),
            pending=newest.pending.get(pair, 0),
        )

    def _state(self, newest: Scrape, key: RateKey, total: Sums, window: Sums) -> RateState:
        """Return the state from the JSON API, else compare the window, or all scores if that has too few."""
        for app in _objects(self._overview, "apps"):
            for rate in _objects(app, "rates"):
                if (rate.get("app"), rate.get("evaluator")) != key[:2]:
                    continue
                by_rule = [one for one in _objects(rate, "by_rule") if one.get("defect_rule") == key.defect_rule]
                shown = by_rule[0] if by_rule else {} if key.defect_rule else rate
                if shown.get("state") in _STATES:
                    return _STATES[shown["state"]]
        thresholds = newest.thresholds.get((*key[:2], key.defect_rule), {})
        if not thresholds:
            return "no_alert"
        looked_at = (window if self._scrapes.long_enough else Sums(), total)
        usual = total.typical_weight
        known = (state for sums in looked_at if (state := _compared(thresholds, sums, usual)) is not None)
        return next(known, "not_enough_data")

    def _explanations(self) -> dict[str, dict[str, str]]:
        """Return what the JSON API says about the states of evaluators."""
        found = {}
        for one in _objects(self._overview, "evaluators"):
            texts = {key: text for key in ("state", "why", "remedy") if isinstance(text := one.get(key), str)}
            if isinstance(one.get("name"), str):
                found[one["name"]] = texts
        return found

    def _alerts(self) -> Iterator[FiringAlert]:
        """Yield the firing alerts; for each incident, only the most severe."""
        rates = [rate for app in _objects(self._overview, "apps") for rate in _objects(app, "rates")]
        firing = [one for rate in rates for one in _objects(rate, "firing")] + _objects(self._overview, "alerts")
        seen: set[tuple[object, ...]] = set()
        for one in sorted(firing, key=lambda one: one.get("severity") != "critical"):
            key = (one.get("incident") or one.get("name"), *(one.get(name) for name in _ABOUT))
            if key not in seen:
                seen.add(key)
                yield FiringAlert(
                    **{name: str(one.get(name, "")) for name in ("name", "severity", "app", "evaluator", "description")}
                )


def evaluator_states(
    states: Mapping[str, str], explanations: Mapping[str, Mapping[str, str]]
) -> dict[str, EvaluatorStatus]:
    """Return the states in a scrape, each with its explanation if that is about the same state.

    States unknown to this version are left out.
    """
    found = {}
    for name, state in states.items():
        if state in set(State):
            explanation = explanations.get(name, {})
            same = explanation if explanation.get("state") == state else {}
            found[name] = EvaluatorStatus(State(state), same.get("why", ""), same.get("remedy", ""))
    return found


def _compared(thresholds: Mapping[str, float], sums: Sums, usual: float) -> RateState | None:
    """Compare a rate with its thresholds; None if too little was scored to tell."""
    surely, likely = estimate(sums, _SURE, usual=usual), estimate(sums, usual=usual)
    if surely is None or likely is None:
        return None
    for severity in ("critical", "warning"):
        if severity in thresholds and surely.lower > thresholds[severity]:
            return severity
    known = (
        likely.upper < threshold or sums.judged >= judged_to_tell(threshold, doubled(threshold), _SURE)
        for threshold in thresholds.values()
    )
    return "ok" if all(known) else None


def _objects(value: Mapping[str, Any] | None, key: str) -> list[dict[str, Any]]:
    """Return the objects of a list in a response, which may come from another version of the monitor."""
    found = value.get(key) if value is not None else None
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []
