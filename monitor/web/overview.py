"""The overview and the list of alerts: the rates of every app, evaluators, alerts, and how traces ended."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final, cast, get_args

import anyio.lowlevel

from monitor import __version__
from monitor.alerts.catalogue import DIAGNOSIS, RATES
from monitor.alerts.incidents import ID_ANNOTATION
from monitor.alerts.state import AlertState
from monitor.stages.reloads import ReloadReport
from monitor.web.context import PageContext
from monitor.web.counters import CounterValues, Pair, TraceCounts, read_counters
from monitor.web.queries import windows
from monitor.web.rate_views import (
    AlertsView,
    AlertView,
    AppView,
    EvaluatorView,
    MissedView,
    Overview,
    RateState,
    RateView,
    ReloadView,
)
from monitor.web.rates import firing_first, firing_state, qualities, rate_view

MAX_RATES: Final = 100
"""Maximum number of rates in one overview."""

_SEVERITY: Final = {state: place for place, state in enumerate(get_args(RateState))}


async def overview(context: PageContext, *, window: str, app: str, started_at: float) -> Overview:
    """Return the state of everything over `window`, one of `WINDOWS`, for one app, or for all if `app` is empty.

    Lets other tasks run between two rates.
    """
    now = context.runtime.clock.now()
    counters = read_counters(context.runtime.metrics)
    quality = qualities(context.runtime.metrics, context.versions)
    alerts = [_alert_view(one) for one in context.alerts()]
    by_pair: defaultdict[Pair, list[AlertView]] = defaultdict(list)
    for alert in alerts:
        by_pair[alert.app, alert.evaluator].append(alert)
    pairs = sorted(
        (pair for pair in _pairs(context, counters) if app in ("", pair[0])),
        key=lambda pair: (_SEVERITY[firing_state(by_pair[pair])], pair),
    )
    rates = []
    for pair in pairs[:MAX_RATES]:
        rates.append(rate_view(context, pair, by_pair[pair], counters, quality.get(pair[1]), window=window, now=now))
        await anyio.lowlevel.checkpoint()
    elsewhere = [one for one in alerts if one.status == "firing" and not one.app]
    states = [one.state for one in rates] + [one.severity for one in elsewhere]
    return Overview(
        at=now,
        started_at=started_at,
        monitor_version=__version__,
        state=cast("RateState", min(states, key=_SEVERITY.__getitem__, default="no_scores")),
        window=window,
        windows=windows(context.windows.longest),
        ready=context.runtime.health.ready,
        waiting_for=list(context.runtime.health.reasons),
        listening={name: at for name, at in context.runtime.health.addresses.items() if name != "prometheus"},
        reload=_reload(context.runtime.reloads.last),
        repaired=list(context.runtime.health.repaired.values()),
        apps=_apps(rates, {name: one for name, one in counters.traces.items() if app in ("", name)}),
        left_out=max(len(pairs) - MAX_RATES, 0),
        alerts=firing_first(elsewhere),
        evaluators=evaluators(context),
        missed=[
            MissedView(evaluator=one.evaluator, count=one.number, since=one.since, until=one.until)
            for one in context.missed()
        ],
    )


def _reload(last: ReloadReport | None) -> ReloadView | None:
    if last is None:
        return None
    return ReloadView(at=last.at, by=last.by, ok=last.ok, text=last.text, changed=list(last.changed))


def alerts(context: PageContext) -> AlertsView:
    """Return all alerts, firing ones first."""
    found = firing_first(_alert_view(one) for one in context.alerts())
    return AlertsView(at=context.runtime.clock.now(), alerts=found)


def by_rate(alerts: Sequence[AlertView]) -> list[list[AlertView]]:
    """Return the firing alerts, grouped by rate and most severe first: alerts on the same rate are one problem."""
    found: dict[tuple[str, ...], list[AlertView]] = {}
    for one in firing_first(alerts):
        rate = one.app, one.evaluator, one.defect_rule
        if one.status == "firing":
            found.setdefault(rate if one.name in RATES else (*rate, one.name, one.severity, one.version), []).append(
                one
            )
    return list(found.values())


def _alert_view(state: AlertState) -> AlertView:
    found = state.estimate
    return AlertView(
        name=state.name,
        status=state.status.value,
        severity=state.severity.value,
        app=state.app,
        evaluator=state.evaluator,
        defect_rule=state.labels.get("defect_rule", ""),
        version=state.labels.get("version", ""),
        since=state.since,
        summary=state.annotations.get("summary", ""),
        description=state.annotations.get("description", ""),
        threshold=state.threshold,
        window_seconds=state.window,
        rate=found.rate if found else None,
        evaluated=found.judged if found else 0,
        runbook_url=state.annotations.get("runbook_url", ""),
        diagnosis=state.annotations.get(DIAGNOSIS, ""),
        incident=state.annotations.get(ID_ANNOTATION, ""),
    )


def evaluators(context: PageContext) -> list[EvaluatorView]:
    """Return the configured evaluators; those that are off come last."""
    found, statuses = [], context.statuses()
    for one in context.configured:
        status = statuses[one.evaluator.name]
        evaluator, scale = one.evaluator, one.evaluator.scale
        found.append(
            EvaluatorView(
                name=evaluator.name,
                state=status.state.value,
                why=status.why,
                remedy=status.remedy,
                works=evaluator.name not in context.idle,
                cost=evaluator.cost,
                judge=context.models.get(evaluator.name, ""),
                version=context.versions.get(evaluator.name, ""),
                lowest=scale.lowest,
                highest=scale.highest,
                better=scale.better,
                levels=[level.name for level in scale.levels],
                defect=one.defect.words,
                definition=evaluator.definition,
            )
        )
    return sorted(found, key=lambda one: not one.works)


def _pairs(context: PageContext, counters: CounterValues) -> set[Pair]:
    """Return the pairs that have been scored or selected, or that an alert expects, for active evaluators.

    Evaluators that only rank answers have no rate.
    """
    rated = (one for one in context.configured if one.defect.kind != "never")
    active = {one.evaluator.name for one in rated if one.evaluator.name not in context.idle}
    active |= counters.external.keys()
    selected = {pair for pair, number in counters.selected.items() if number}
    expected = {(one.app, one.evaluator) for one in context.alerts() if one.app and one.evaluator}
    return {pair for pair in selected.union(context.windows.keys(), expected) if pair[1] in active}


def _apps(rates: Sequence[RateView], traces: Mapping[str, TraceCounts]) -> list[AppView]:
    """Return the apps, with or without a rate to show, most severe first."""
    by_app: defaultdict[str, list[RateView]] = defaultdict(list)
    for rate in rates:
        by_app[rate.app].append(rate)
    found = []
    for app in [*by_app, *(name for name in traces if name not in by_app)]:
        own = sorted(by_app[app], key=lambda one: (_SEVERITY[one.state], one.evaluator))
        counts = traces.get(app, TraceCounts())
        state = own[0].state if own else "no_scores"
        found.append(
            AppView(
                app=app,
                state=state,
                rates=own,
                received=counts.received,
                pending=counts.pending,
                ended=counts.ended,
                contexts=counts.context_shares,
            )
        )
    return sorted(found, key=lambda one: (_SEVERITY[one.state], one.app))
