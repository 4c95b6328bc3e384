"""How everything stands: the rate of each app and evaluator with its state and why, alerts, and where traces ended."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, cast, get_args

import anyio.lowlevel

from monitor import __version__
from monitor.model.external import ScoreSource
from monitor.statistics.change import CLEAN_DAYS_NEEDED, DAY
from monitor.statistics.correction import JudgeQuality
from monitor.statistics.rates import interval_95
from monitor.web import slices, views
from monitor.web.counted import Counted, Ledger, counted
from monitor.web.facts import Alert, Facts
from monitor.web.queries import WINDOWS, Window, windows

SHOWN: Final = 100
"""Rates of one overview at most."""

_A_STEP, _FEWEST_STEPS = 20, 6
"""How many should have been judged in a step of a trend, and into how few steps it may be drawn together for that."""

_WEEK: Final = 7 * DAY
_GRAVITY: Final = {state: place for place, state in enumerate(get_args(views.State))}
_FIRING, _TOO_FEW = "firing", "not_enough_data"


async def overview(facts: Facts, *, window: str, app: str, started_at: float) -> views.Overview:
    """How things stand over `window`, one of `WINDOWS`; of one app, or of all where that is empty.

    Others have their turn between two rates.
    """
    now = facts.runtime.clock.now()
    known = counted(facts.runtime.metrics)
    people = slices.qualities(facts.runtime.metrics, facts.versions)
    alerts = [alert_view(one) for one in facts.alerts()]
    by_pair: defaultdict[tuple[str, str], list[views.Alert]] = defaultdict(list)
    for alert in alerts:
        by_pair[alert.app, alert.evaluator].append(alert)
    pairs = sorted(
        (pair for pair in _pairs(facts, known) if app in ("", pair[0])),
        key=lambda pair: (_GRAVITY[_firing_state(by_pair[pair])], pair),
    )
    rates = []
    for pair in pairs[:SHOWN]:
        one = _rate(facts, pair, by_pair[pair], known, people.get(pair[1]), window=window, now=now)
        rates.append(one)
        await anyio.lowlevel.checkpoint()
    apps = _apps(rates, {name: one for name, one in known.ledgers.items() if app in ("", name)})
    elsewhere = [one for one in alerts if one.status == _FIRING and not one.app]
    states = [one.state for one in rates] + [one.severity for one in elsewhere]
    return views.Overview(
        at=now,
        started_at=started_at,
        monitor_version=__version__,
        state=cast("views.State", min(states, key=_GRAVITY.__getitem__, default="no_verdicts")),
        window=window,
        windows=windows(facts.windows.longest),
        ready=facts.runtime.health.ready,
        waiting_for=list(facts.runtime.health.reasons),
        listening={name: at for name, at in facts.runtime.health.addresses.items() if name != "prometheus"},
        apps=apps,
        left_out=max(len(pairs) - SHOWN, 0),
        alerts=gravest_first(elsewhere),
        evaluators=evaluators(facts),
        missed=[
            views.Missed(evaluator=one.evaluator, number=one.number, since=one.since, until=one.until)
            for one in facts.missed()
        ],
    )


def alerts(facts: Facts) -> views.Alerts:
    """All alerts, those that fire first."""
    return views.Alerts(at=facts.runtime.clock.now(), alerts=gravest_first(alert_view(one) for one in facts.alerts()))


def gravest_first(given: Iterable[views.Alert]) -> list[views.Alert]:
    """Those that fire, the graver first; then those for which too little is known; then those that are ok."""
    place = {_FIRING: 0, _TOO_FEW: 1, "ok": 2}
    return sorted(
        given, key=lambda one: (place[one.status], one.severity != "critical", one.name, one.app, one.evaluator)
    )


def alert_view(state: Alert) -> views.Alert:
    """An alert as it is shown."""
    found = state.estimate
    return views.Alert.model_validate(
        {
            "name": state.name,
            "status": str(state.status),
            "severity": str(state.severity),
            "app": state.app,
            "evaluator": state.evaluator,
            "version": state.labels.get("version", ""),
            "since": state.since,
            "summary": state.annotations.get("summary", ""),
            "description": state.annotations.get("description", ""),
            "threshold": state.threshold,
            "window_seconds": state.window,
            "rate": found.rate if found else None,
            "judged": found.judged if found else 0,
            "runbook_url": state.annotations.get("runbook_url", ""),
        }
    )


def evaluators(facts: Facts) -> list[views.Evaluator]:
    """Those at work, then those that are off."""
    found, standings = [], facts.standings()
    for one in facts.assigned:
        standing = standings[one.evaluator.name]
        evaluator, scale = one.evaluator, one.evaluator.scale
        found.append(
            views.Evaluator(
                name=evaluator.name,
                state=cast("views.EvaluatorState", str(standing.state)),
                why=standing.why,
                remedy=standing.remedy,
                works=evaluator.name not in facts.idle,
                cost=evaluator.cost,
                judge=facts.models.get(evaluator.name, ""),
                version=facts.versions.get(evaluator.name, ""),
                lowest=scale.lowest,
                highest=scale.highest,
                better=scale.better,
                levels=[level.name for level in scale.levels],
                defect=str(one.defect),
                definition=evaluator.definition,
            )
        )
    return sorted(found, key=lambda one: not one.works)


def _pairs(facts: Facts, known: Counted) -> set[tuple[str, str]]:
    """What was judged, or begun to be; and what an alert expects."""
    active = {one.evaluator.name for one in facts.assigned if one.evaluator.name not in facts.idle}
    active |= known.foreign.keys()
    begun = {pair for pair, number in known.selected.items() if number}
    expected = {(one.app, one.evaluator) for one in facts.alerts() if one.app and one.evaluator}
    return {pair for pair in begun.union(facts.windows.keys(), expected) if pair[1] in active}


def _rate(
    facts: Facts,
    pair: tuple[str, str],
    alerts: Sequence[views.Alert],
    known: Counted,
    judge: JudgeQuality | None,
    *,
    window: str,
    now: float,
) -> views.Rate:
    sums = facts.windows.sums(*pair, WINDOWS[window].seconds, now)
    found = interval_95(sums)
    firing = gravest_first(one for one in alerts if one.status == _FIRING)
    ever = bool(found) or facts.windows.sums(*pair, facts.windows.longest, now).judged > 0
    state, why = _state(facts, pair, alerts, known, ever=ever)
    changed = facts.changed(*pair)
    return views.Rate(
        app=pair[0],
        evaluator=pair[1],
        source=known.foreign.get(pair[1], ScoreSource.OWN),
        state=state,
        why=why,
        firing=firing,
        rate=found.rate if found else None,
        lower=found.lower if found else None,
        upper=found.upper if found else None,
        corrected=slices.corrected(sums, judge),
        judged=found.judged if found else 0,
        defects=found.defects if found else 0,
        thresholds=dict(facts.thresholds(*pair)),
        trend=_trend(facts, pair, WINDOWS[window], found.judged if found else 0, now),
        week_before=_week_before(facts, pair, now),
        changed=views.Changed(at=changed.at, text=changed.text) if changed and now - changed.at < _WEEK else None,
        slices=slices.by_slice(facts.sliced, *pair) if facts.sliced is not None else [],
        unscored=dict(known.unscored.get(pair, {})),
    )


def _firing_state(alerts: Iterable[views.Alert]) -> views.State:
    firing = {one.severity for one in alerts if one.status == _FIRING}
    return "critical" if "critical" in firing else "warning" if firing else "ok"


def _state(
    facts: Facts, pair: tuple[str, str], alerts: Sequence[views.Alert], known: Counted, *, ever: bool
) -> tuple[views.State, str]:
    """How a rate stands, and why."""
    firing = gravest_first(one for one in alerts if one.status == _FIRING)
    if firing:
        return firing[0].severity, firing[0].description
    if not ever:
        return "no_verdicts", _why_no_verdicts(pair, known)
    about = [one for one in alerts if one.name == facts.decisive] or [
        one for one in alerts if one.status == _TOO_FEW or one.threshold is not None
    ]
    if not about:
        return "not_watched", "No alert is configured for this rate."
    too_few = [one for one in about if one.status == _TOO_FEW]
    return ("not_enough_data", too_few[0].description) if too_few else ("ok", about[-1].description)


def _why_no_verdicts(pair: tuple[str, str], known: Counted) -> str:
    reasons = {**known.unscored.get(pair, {}), **known.skipped.get(pair, {})}
    if reasons:
        told = ", ".join(f"{number} {reason}" for reason, number in sorted(reasons.items(), key=lambda one: -one[1]))
        return f"No answer was scored: {told}."
    if known.selected.get(pair):
        return "The first answers are being judged."
    ledger = known.ledgers.get(pair[0], Ledger())
    if not ledger.received:
        return "No trace of this app has come since the process started."
    if ledger.ended.get("evaluated"):
        return "None of the answers was in its sample yet."
    return f"None of the {ledger.received} traces is judged: {ledger.in_words}."


def _trend(facts: Facts, pair: tuple[str, str], window: Window, judged: int, now: float) -> list[views.Step]:
    """In steps in which enough were judged to see something, or as few as there may be."""
    factors = [
        one for one in range(1, window.steps) if window.steps % one == 0 and window.steps // one >= _FEWEST_STEPS
    ]
    factor = next((one for one in factors if judged * one >= _A_STEP * window.steps), factors[-1])
    step, steps = window.step * factor, window.steps // factor
    first = (now // step - steps + 1) * step
    found = []
    for place, sums in enumerate(facts.windows.series(*pair, step, steps, now)):
        at = interval_95(sums)
        found.append(
            views.Step(
                at=first + place * step,
                judged=sums.judged,
                rate=at.rate if at else None,
                lower=at.lower if at else None,
                upper=at.upper if at else None,
            )
        )
    return found


def _week_before(facts: Facts, pair: tuple[str, str], now: float) -> views.WeekBefore | None:
    """The last day beside the week before, or what there is of the shorter windows."""
    changes, days = facts.windows.changes(*pair, now)
    if days < CLEAN_DAYS_NEEDED or not changes:
        return None
    length = min(changes, key=lambda one: abs(one - DAY))
    one = changes[length]
    return views.WeekBefore(window_seconds=length, rate=one.rate, base_rate=one.base_rate, ratio=one.ratio)


def _apps(rates: Sequence[views.Rate], ledgers: Mapping[str, Ledger]) -> list[views.App]:
    """The apps with a rate that is shown, and those whose traces came to none; the gravest first."""
    by_app: defaultdict[str, list[views.Rate]] = defaultdict(list)
    for rate in rates:
        by_app[rate.app].append(rate)
    found = []
    for app in [*by_app, *(name for name in ledgers if name not in by_app)]:
        own, ledger = sorted(by_app[app], key=lambda one: (_GRAVITY[one.state], one.evaluator)), ledgers.get(app)
        ledger = ledger if ledger is not None else Ledger()
        state = own[0].state if own else "no_verdicts"
        found.append(
            views.App(
                app=app, state=state, rates=own, received=ledger.received, pending=ledger.pending, ended=ledger.ended
            )
        )
    return sorted(found, key=lambda one: (_GRAVITY[one.state], one.app))
