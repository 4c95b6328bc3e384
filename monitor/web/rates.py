"""The defect rate of an app according to an evaluator: state, interval, trend, slices, correction."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from monitor.alerts import rate_names, regression
from monitor.alerts.policy import policies_for
from monitor.model.external import ScoreSource
from monitor.model.outcome import skipped_in_words
from monitor.quantities import number_of
from monitor.statistics.change import CLEAN_DAYS_NEEDED, DAY
from monitor.statistics.correction import ConfusionCell, JudgeQuality, by_quality, quality_of
from monitor.statistics.rates import Sums, effective_judged, estimate
from monitor.statistics.review import by_cells
from monitor.statistics.slice_sums import Sliced
from monitor.telemetry.metrics import OVERFLOW, Metrics, samples
from monitor.web.context import PageContext
from monitor.web.counters import CounterValues, Pair, TraceCounts
from monitor.web.queries import WINDOWS, Window
from monitor.web.rate_views import (
    AlertView,
    ChangeView,
    CorrectedRateView,
    RateState,
    RateView,
    RuleRateView,
    SliceRateView,
    SliceView,
    TrendStepView,
    WeekBeforeView,
)

SLICE_MINIMUM: Final = 20
"""With fewer (equally weighted) scored answers, the rate of a slice means nothing."""

_PER_STEP, _FEWEST_STEPS = 20, 6
"""Scored answers that a step of a trend should have, and the fewest steps: steps are joined down to this number."""

_WEEK: Final = 7 * DAY


def rate_view(
    context: PageContext,
    pair: Pair,
    alerts: Sequence[AlertView],
    counters: CounterValues,
    quality: JudgeQuality | None,
    *,
    window: str,
    now: float,
) -> RateView:
    """Return the rate of an app and evaluator over `window`, one of `WINDOWS`.

    Args:
        context: the source of the data.
        pair: the app and the evaluator.
        alerts: the alerts on this rate.
        counters: the current counters.
        quality: how well the judge agrees with human labels; None: unknown.
        window: the name of the window.
        now: wall-clock seconds.
    """
    sums = context.windows.sums(*pair, WINDOWS[window].seconds, now)
    usual = context.windows.usual(*pair, now)
    found = estimate(sums, usual=usual)
    judged = found.judged if found else 0
    ever = bool(found) or context.windows.sums(*pair, context.windows.longest, now).judged > 0
    alerted = bool(policies_for(context.policies, *pair))
    state, why = _state(pair, alerts, counters, ever=ever, alerted=alerted)
    changed = context.changed(*pair)
    return RateView(
        app=pair[0],
        evaluator=pair[1],
        source=counters.external.get(pair[1], ScoreSource.OWN),
        state=state,
        why=why,
        firing=firing_first(one for one in alerts if one.status == "firing"),
        rate=found.rate if found else None,
        lower=found.lower if found else None,
        upper=found.upper if found else None,
        corrected=_corrected(sums, quality),
        evaluated=judged,
        defects=found.defects if found else 0,
        defect=next((one.defect.words for one in context.configured if one.evaluator.name == pair[1]), ""),
        thresholds=context.thresholds(*pair),
        by_rule=_by_rule(context, pair, alerts, WINDOWS[window].seconds, now, usual=usual),
        trend=_trend(context, pair, WINDOWS[window], judged, now, usual=usual),
        week_before=_week_before(context, pair, now),
        changed=ChangeView(at=changed.at, text=changed.text) if changed and now - changed.at < _WEEK else None,
        slices=_by_slice(context.sliced, pair, usual),
        unscored=dict(counters.unscored.get(pair, {})),
        skipped=dict(most_first(counters.skipped.get(pair, {}))),
    )


def _by_rule(
    context: PageContext, pair: Pair, alerts: Sequence[AlertView], seconds: float, now: float, *, usual: float
) -> list[RuleRateView]:
    """Return the rates by the defect rules of alerts, in the order of the configuration."""
    found = []
    for policy in policies_for(context.policies, *pair):
        rule = policy.defect
        windows = context.ruled.of(pair[1], rule.name) if rule is not None else None
        if rule is None or windows is None:
            continue
        own = [one for one in alerts if one.defect_rule == rule.name]
        rate = estimate(windows.sums(*pair, min(seconds, windows.longest), now), usual=usual)
        states: dict[str, RateState] = {"firing": firing_state(own), "not_enough_data": "not_enough_data", "ok": "ok"}
        found.append(
            RuleRateView(
                defect_rule=rule.name,
                defect=rule.words,
                state=states[firing_first(own)[0].status] if own else "no_scores",
                rate=rate.rate if rate else None,
                lower=rate.lower if rate else None,
                upper=rate.upper if rate else None,
                evaluated=rate.judged if rate else 0,
                defects=rate.defects if rate else 0,
                thresholds=context.thresholds(*pair, rule),
            )
        )
    return found


def most_first(counts: Mapping[str, int]) -> list[tuple[str, int]]:
    """Return reasons and counts, largest first."""
    return sorted(counts.items(), key=lambda one: -one[1])


def firing_first(alerts: Iterable[AlertView]) -> list[AlertView]:
    """Return firing alerts, most severe first; then those with too little data; then those that are ok."""
    place = {"firing": 0, "not_enough_data": 1, "ok": 2}
    return sorted(
        alerts, key=lambda one: (place[one.status], one.severity != "critical", one.name, one.app, one.evaluator)
    )


def firing_state(alerts: Iterable[AlertView]) -> RateState:
    """Return the highest severity that fires, or `ok`."""
    firing = {one.severity for one in alerts if one.status == "firing"}
    return "critical" if "critical" in firing else "warning" if firing else "ok"


def _state(
    pair: Pair, alerts: Sequence[AlertView], counters: CounterValues, *, ever: bool, alerted: bool
) -> tuple[RateState, str]:
    """Return the state and the reason for it. `ever`: there are scores; `alerted`: there is an alert on the rate."""
    firing = firing_first(one for one in alerts if one.status == "firing")
    if firing:
        return firing[0].severity, firing[0].description
    if not ever:
        return "no_scores", _why_no_scores(pair, counters)
    own = [one for one in alerts if not one.defect_rule] or alerts
    about = [one for one in own if one.name in rate_names.NAMES] or [one for one in own if one.name == regression.NAME]
    if not about and alerted:
        return "not_enough_data", "Its alerts have not been checked yet."
    if not about:
        return "no_alert", "No alert is configured for this rate."
    too_few = [one for one in about if one.status == "not_enough_data"]
    return ("not_enough_data", too_few[0].description) if too_few else ("ok", about[-1].description)


def _why_no_scores(pair: Pair, counters: CounterValues) -> str:
    unscored, skipped = counters.unscored.get(pair, {}), counters.skipped.get(pair, {})
    if unscored or skipped:
        parts = [f"{number:,} {reason}" for reason, number in most_first(unscored)]
        parts += [f"{number:,} skipped ({skipped_in_words(reason)})" for reason, number in most_first(skipped)]
        return f"No answer was scored: {', '.join(parts)}."
    if counters.selected.get(pair):
        return "The first answers are being evaluated."
    traces = counters.traces.get(pair[0], TraceCounts())
    if not traces.received and not traces.ended:
        return "No trace of this app has arrived since the monitor started."
    if traces.ended.get("evaluated"):
        return "No answer has been sampled for this evaluator yet."
    if not traces.not_evaluated:
        return f"{number_of(traces.received, 'trace')} began here; other services answered."
    ended = sum(traces.ended.values())
    arrived = number_of(traces.received, "trace") if traces.received else number_of(ended, "request")
    return f"None of {arrived} was evaluated: {traces.not_evaluated}."


def _trend(
    context: PageContext, pair: Pair, window: Window, judged: int, now: float, *, usual: float
) -> list[TrendStepView]:
    """Return the trend in steps with enough scored answers to mean something, but in no fewer than the fewest steps."""
    factors = [
        one for one in range(1, window.steps) if window.steps % one == 0 and window.steps // one >= _FEWEST_STEPS
    ]
    factor = next((one for one in factors if judged * one >= _PER_STEP * window.steps), factors[-1])
    step, steps = window.step * factor, window.steps // factor
    first = (now // step - steps + 1) * step
    found = []
    for place, sums in enumerate(context.windows.series(*pair, step, steps, now)):
        at = estimate(sums, usual=usual)
        found.append(
            TrendStepView(
                at=first + place * step,
                evaluated=sums.judged,
                rate=at.rate if at else None,
                lower=at.lower if at else None,
                upper=at.upper if at else None,
            )
        )
    return found


def _week_before(context: PageContext, pair: Pair, now: float) -> WeekBeforeView | None:
    """Compare the last day, or the window closest to a day, with the week before it."""
    changes, days = context.windows.changes(*pair, now)
    if days < CLEAN_DAYS_NEEDED or not changes:
        return None
    length = min(changes, key=lambda one: abs(one - DAY))
    one = changes[length]
    return WeekBeforeView(window_seconds=length, rate=one.rate, base_rate=one.base_rate, ratio=one.ratio)


def _by_slice(sliced: Sliced, pair: Pair, usual: float) -> list[SliceView]:
    return [
        SliceView(name=name, since=sliced.since, values=_values(values, usual))
        for name, values in sliced.of(*pair).items()
        if set(values) != {""}  # an attribute that this app never sets is not one of its slices
    ]


def _values(values: Mapping[str, Sums], usual: float) -> list[SliceRateView]:
    return sorted((_value(value, sums, usual) for value, sums in values.items()), key=_place)


def _value(value: str, sums: Sums, usual: float) -> SliceRateView:
    found = estimate(sums, usual=usual)
    return SliceRateView(
        value=value,
        others=value == OVERFLOW,
        evaluated=sums.judged,
        defects=sums.defects,
        rate=found.rate if found else None,
        lower=found.lower if found else None,
        upper=found.upper if found else None,
        enough=effective_judged(sums) >= SLICE_MINIMUM,
    )


def _place(one: SliceRateView) -> tuple[bool, bool, float, str]:
    return one.others, not one.enough, -(one.rate or 0.0), one.value


def qualities(metrics: Metrics, versions: Mapping[str, str]) -> dict[str, JudgeQuality]:
    """Return, by evaluator, what human labels say about the current version."""
    parts = (metrics.calibration_labels, metrics.calibration_label_weight, metrics.calibration_label_weight_squares)
    sums: defaultdict[tuple[str, bool, bool], list[float]] = defaultdict(list)
    for gauge in parts:
        for at, value in samples(gauge):
            if versions.get(at["evaluator"]) == at["version"]:
                sums[at["evaluator"], at["verdict"] == "defect", at["truth"] == "defect"].append(value)
    cells: defaultdict[str, list[ConfusionCell]] = defaultdict(list)
    for (evaluator, verdict, truth), (labels, weight, squares) in sums.items():
        cells[evaluator].append(ConfusionCell(verdict, truth, int(labels), weight, squares))
    drawn = {at["evaluator"] for at, _ in samples(metrics.calibration_results)}
    return {evaluator: quality_of(found, at_random=evaluator in drawn) for evaluator, found in cells.items()}


def _corrected(sums: Sums, quality: JudgeQuality | None) -> CorrectedRateView | None:
    if quality is None:
        return None
    found = by_quality(sums, quality)
    if found is None and quality.at_random:
        found = by_cells(sums, quality.cells)
    if found is None:
        return None
    return CorrectedRateView(
        rate=found.rate,
        lower=found.lower,
        upper=found.upper,
        labelled_defects=quality.defects,
        labelled_good=quality.good,
    )
