"""`RagDefectRateRegression`: decides whether a defect rate is clearly above that of the week before.

The arithmetic is that of `statistics/change.py`, in process and, over recorded blocks, in PromQL. A block is a
recorded increase at a whole multiple of its length, so a subquery with that step reads the blocks. Blocks with
incidents are left out (`clean`). Prometheus must keep ten days and evaluate the groups at least every five minutes:
otherwise there is no sample at the whole hour.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from textwrap import indent

from monitor.alerts.policy import Family, Severity
from monitor.alerts.prometheus.promql import RateSeries, Rule, alert, annotate, lookup, record
from monitor.alerts.prometheus.rates import between, defect_session_squares
from monitor.alerts.rate_names import OWN, rate_alert
from monitor.alerts.state import DEFECTIVE, AlertStatus, ConditionResult
from monitor.quantities import format_duration, precise_percent
from monitor.statistics import change
from monitor.statistics.change import DAY, HOUR, MARGIN, WINDOWS, ChangeWindow, IncidentLimit, RateChange
from monitor.statistics.rates import estimate
from monitor.statistics.windows import Windows

NAME = "RagDefectRateRegression"
SUMMARY = "The defect rate is clearly higher than in the week before."
HOLD = 3 * 3600.0
"""Seconds without a window that fires or holds (`change.HELD`) after which the alert ends. A later firing is a new
alarm, and `benchmarks/rates.py` counts it as one."""


def decide(
    family: Family, windows: Windows, app: str, evaluator: str, now: float, *, predicate: str = DEFECTIVE
) -> ConditionResult:
    """Decide whether the rate has risen; `predicate` says what defective answers are.

    The status is not enough data with less than three days to compare with, or without scores.
    """
    changes, days = windows.changes(app, evaluator, now)
    if days < change.CLEAN_DAYS_NEEDED or not changes:
        share = f"the share of answers from {app} that {rate_alert(evaluator).finding(predicate, evaluator)}"
        latest = f"nothing was scored in the last {format_duration(3 * DAY)}"
        if days < change.CLEAN_DAYS_NEEDED:
            known = f"it has {days} of the {change.CLEAN_DAYS_NEEDED} incident-free days that it needs"
            text = f"No baseline for {share}: {known}{f', and {latest}' if not changes else ''}."
        else:
            text = f"No recent value to compare for {share}: {latest}."
        return ConditionResult(AlertStatus.NOT_ENOUGH_DATA, text)
    usual = windows.usual(app, evaluator, now)
    found = change.fired(changes, change.FAMILIES[family])
    if found:
        return _found(AlertStatus.FIRING, changes[found[0]], found, app, evaluator, predicate=predicate, usual=usual)
    longest = max(changes)
    found_ok = _found(AlertStatus.OK, changes[longest], (longest,), app, evaluator, predicate=predicate, usual=usual)
    return replace(found_ok, holds=change.held(changes))


def _found(
    status: AlertStatus,
    one: RateChange,
    windows: Sequence[float],
    app: str,
    evaluator: str,
    *,
    predicate: str,
    usual: float,
) -> ConditionResult:
    spans = [format_duration(window) for window in windows]
    text = (
        f"{precise_percent(one.rate)} of the answers from {app} in the last {spans[0]}"
        f" {rate_alert(evaluator).finding(predicate, evaluator)} ({one.now.judged} scored): {one.ratio:.3g} times the"
        f" {precise_percent(one.base_rate)} of the {change.BASELINE_DAYS} days before."
    )
    if status is AlertStatus.FIRING:
        text += f" The rise is clear (more than {MARGIN:g} times) in the last {', '.join(spans)}."
    return ConditionResult(status, text, min(MARGIN * one.base_rate, 1.0), windows[0], estimate(one.now, usual=usual))


_FAMILIES = ("evaluations", "evaluation_weight", "defect_weight", "defect_weight_squares", "defect_products")
_OF_BLOCKS = ("evaluation_weight", "defect_weight", "defect_session_squares")
"""The sums that the spread is computed from."""
_WEEK, _THREE_DAYS = "167h59m", "71h59m"  # 168 and 72 whole hours, even if a range includes its older end
_MISSED, _LOOKED_BACK = 1.5, 300.0
"""How far back the rule looks for its own alert: this many evaluations, but at least this many seconds."""
_SPREAD_FACTOR = f"{change.BASELINE_DAYS + 1} / {change.BASELINE_DAYS}"


def records(series: RateSeries) -> list[Rule]:
    """Record the baseline, the spread and the z of every window, then the blocks for later baselines."""
    longest, recorded = WINDOWS[-1], series.recorded
    span = format_duration(longest.length)
    rules = [
        record(f"{recorded}{family}:increase{span}", f"sum_over_time({recorded}{family}:increase1h[{_THREE_DAYS}:1h])")
        for family in _FAMILIES
    ]
    rules.append(defect_session_squares(span, series))
    for gap in sorted({window.gap for window in WINDOWS}):
        rules += _baseline(gap, series)
    for window in WINDOWS:
        rules += _comparison(window, series)
    for block in sorted({window.block for window in WINDOWS}):
        lost = _lost(change.DAYS_LOST if block == DAY else change.HOURS_LOST, series)
        span = format_duration(block)
        rules += [
            record(
                f"{recorded}{family}:clean{span}",
                f"{recorded}{family}:increase{span}\nunless {series.on_version}\n{lost}",
            )
            for family in (dict.fromkeys((*_FAMILIES, *_OF_BLOCKS)) if block == HOUR else _OF_BLOCKS)
        ]
    return rules


def alerts(runbooks: str, interval: float, series: RateSeries) -> list[Rule]:
    """Make one alert for each severity, with the thresholds that the monitor exports (`ragmonitor_alert_regression_z`).

    `interval` is the number of seconds between two evaluations.
    """
    needed = record(series.regression_z, series.largest(series.exported("alert_regression_z"), "severity", "window"))
    return [needed, *(_regression(severity, runbooks, interval, series) for severity in reversed(Severity))]


def _base(gap: float) -> str:
    """Return the name of the baseline that ended `gap` seconds ago."""
    return f"base{change.BASELINE_DAYS}d" + ("" if gap == DAY else f"_{format_duration(gap)}")


def _baseline(gap: float, series: RateSeries) -> list[Rule]:
    base, offset, recorded = _base(gap), format_duration(gap), series.recorded
    judged, weight, defects, squares, products = (f"{recorded}{family}:{base}" for family in _FAMILIES)
    in_sessions = f"{recorded}defect_session_squares:{base}"
    pseudo = f"{recorded}pseudo_defect_weight:{base}"
    mean = f"{weight} / ({judged} > 0)"
    return [
        *(
            record(
                f"{recorded}{family}:{base}", f"sum_over_time({recorded}{family}:clean1h[{_WEEK}:1h] offset {offset})"
            )
            for family in _FAMILIES
        ),
        record(in_sessions, between(squares, products, f"{defects} ^ 2")),
        record(pseudo, f"{in_sessions} / ({defects} > 0) > {mean}\nor\n{mean}"),
        record(f"{recorded}defect_ratio:{base}", f"({defects} + {pseudo}) / ({weight} > 0)"),
        record(
            f"{recorded}defect_ratio:{base}_sampling_variance",
            f"({in_sessions} + {pseudo} ^ 2) / ({defects} + {pseudo}) ^ 2",
        ),
    ]


def _comparison(window: ChangeWindow, series: RateSeries) -> list[Rule]:
    span, base, recorded = format_duration(window.length), _base(window.gap), series.recorded
    weight, defects = (f"{recorded}{family}:increase{span}" for family in _FAMILIES[1:3])
    ratio, spread = f"{recorded}defect_ratio:ratio_to_base{span}", f"{recorded}defect_ratio:spread_variance{span}"
    b1 = f"{recorded}defect_session_squares:increase{span} / ({defects} > 0) ^ 2 / 9"
    b2 = f"({recorded}defect_ratio:{base}_sampling_variance + {spread} * {_SPREAD_FACTOR}) / 9"
    return [
        record(spread, _spread(window, series)),
        record(ratio, f"{defects} / ({weight} > 0) / {recorded}defect_ratio:{base} > 0"),
        record(
            f"{recorded}defect_ratio:regression_z{span}",
            f"((1 - {b1}) * ({ratio} / {MARGIN:g}) ^ (1 / 3) - (1 - {b2}))\n"
            f"/ sqrt({b1} * ({ratio} / {MARGIN:g}) ^ (2 / 3) + {b2})",
        ),
    ]


def _spread(window: ChangeWindow, series: RateSeries) -> str:
    """Write `change.spread` over the clean blocks of a baseline; its lower bound if there are too few."""
    block, recorded = format_duration(window.block), series.recorded
    weight, defects, squares = (f"{recorded}{family}:clean{block}" for family in _OF_BLOCKS)

    def over(function: str, of: str) -> str:
        return f"{function}({of}[{_WEEK}:{block}] offset {format_duration(window.gap)})"

    rate = f"{over('sum_over_time', defects)} / ({over('sum_over_time', weight)} > 0)"
    some_rate = f"({over('sum_over_time', defects)} > 0) / ({over('sum_over_time', weight)} > 0)"
    weights = over("sum_over_time", f"({weight} ^ 2)")
    count = over("count_over_time", weight)
    return (
        "clamp_min(\n  (\n    (\n"
        f"      {over('sum_over_time', f'({defects} ^ 2)')}\n"
        f"      - 2 * {rate} * {over('sum_over_time', f'({defects} * {weight})')}\n"
        f"      + ({rate}) ^ 2 * {weights}\n"
        f"    ) * {count} / ({count} - 1 > 0)\n"
        f"    - {over('sum_over_time', squares)}\n"
        f"  ) / (({some_rate}) ^ 2 * {weights}),\n"
        f"  {change.FLOOR**2:g}\n)\nor\n{recorded}evaluation_weight:{_base(window.gap)} * 0 + {change.FLOOR**2:g}"
    )


def _lost(limits: tuple[IncidentLimit, ...], series: RateSeries) -> str:
    found, recorded = [], series.recorded
    for limit in limits:
        span = format_duration(limit.length)
        z, ratio = f"{recorded}defect_ratio:regression_z{span}", f"{recorded}defect_ratio:ratio_to_base{span}"
        found.append(f"  ({z} > {limit.z:g} and {ratio} > {limit.ratio:g})")
    return "(\n" + "\n  or\n".join(found) + "\n)"


def _regression(severity: Severity, runbooks: str, interval: float, series: RateSeries) -> Rule:
    """Make the rule: any window is clearly above its baseline; the three-day window only while its last day is, too.

    An alert that fired at the last evaluation keeps firing while some window is still high enough (`HELD`). A version
    is compared only with itself: a new version is silent until it has three days of its own.
    """
    fires, holds, recorded = [], [], series.recorded
    for window in WINDOWS:
        span = format_duration(window.length)
        z = f"{recorded}defect_ratio:regression_z{span}"
        needed = f'{series.regression_z}{{window="{span}",severity="{severity}"}}'
        lately = (
            f"\n  and {series.on_version}\n  {recorded}defect_ratio:ratio_to_base{format_duration(DAY)} > {MARGIN:g}"
        )
        also = lately if window.length > DAY else ""
        fires.append(f"  {z} > {series.of_policy} {needed}{also}")
        if change.HELD[window.length] < math.inf:
            holds.append(f"  {z} > {change.HELD[window.length]:g}{also}")
    before = (
        f"last_over_time({series.firing(NAME, severity)}[{format_duration(max(_MISSED * interval, _LOOKED_BACK))}])"
    )
    days = f"count_over_time({recorded}evaluation_weight:clean1d[6d23h59m:1d] offset 1d)"
    hour, day = (_said(window, series) for window in (HOUR, DAY))
    description = (
        f"{_more()} than in the"
        f" {change.BASELINE_DAYS} days before ("
        + lookup(f"{recorded}defect_ratio:{_base(DAY)}", "humanizePercentage")
        + f"): {hour}; {day}."
        + series.defect_words
    )
    return alert(
        NAME,
        expr="(\n"
        + "\n  or\n".join(fires)
        + "\n  or\n  (\n"
        + indent("\n  or\n".join(holds), "  ")
        + f"\n  )\n  and {series.on_version}\n  {before}"
        + f"\n)\nand {series.on_version}\n{days} >= {change.CLEAN_DAYS_NEEDED}\n{series.judging}",
        keep_firing_for=HOLD,
        labels=series.alert_labels({"severity": severity.value}),
        texts=annotate(NAME, SUMMARY, description, runbooks),
    )


def _more() -> str:
    """Write the template that says what more answers are: in the alert's own words, or else by the evaluator."""
    choices = "{{ else }}".join(
        f'{{{{ if eq $labels.evaluator "{evaluator}" }}}}More answers from {{{{ $labels.app }}}} {about.predicate}'
        for evaluator, about in OWN.items()
    )
    others = "According to {{ $labels.evaluator }}, more answers from {{ $labels.app }} are defective"
    return f"{choices}{{{{ else }}}}{others}{'{{ end }}' * len(OWN)}"


def _said(window: float, series: RateSeries) -> str:
    span, recorded = format_duration(window), series.recorded
    rate = lookup(f"{recorded}defect_ratio:rate{span}", "humanizePercentage")
    judged = lookup(f"{recorded}evaluations:increase{span}", 'printf "%.0f"')
    ratio = lookup(f"{recorded}defect_ratio:ratio_to_base{span}", 'printf "%.3g"')
    return f"in the last {span} {rate} of {judged} scored, {ratio} times as many"
