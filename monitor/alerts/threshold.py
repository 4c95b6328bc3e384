"""`RagDefectRateHigh`: decides whether a defect rate is above its threshold, in process and in PromQL.

A window fires if the lower limit of its rate is above the threshold. The alert fires if any window does, unless the
upper limit of the shortest window shows that the rate is below the threshold again: long windows remember incidents
that are over.

In process, an alert that does not fire is `ok` only if there is evidence: the upper limit of some window is below the
threshold, or a window has enough scores to detect a rate clearly above it (`doubled`, 9 times in 10) and did not.
Otherwise the state is `not_enough_data`, and its text says how many scores are needed. The rules read the thresholds
that the monitor exports (`ragmonitor_alert_threshold_ratio`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from monitor.alerts.policy import AlertPolicy, AlertWindow, Severity
from monitor.alerts.prometheus.promql import DEFECT_RULE, RateSeries, Rule, alert, annotate, lookup, quoted
from monitor.alerts.rate_names import DEFECT_RATE, RateAlert, rate_alert
from monitor.alerts.state import DEFECTIVE, AlertStatus, ConditionResult
from monitor.quantities import format_duration, precise_percent
from monitor.statistics.correction import JudgeQuality, surely_corrected
from monitor.statistics.rates import Estimate, doubled, estimate, judged_to_tell
from monitor.statistics.windows import Windows

NAME = DEFECT_RATE.name
Z_OVER = 1.645
"""How certain the shortest window must be that the rate is below the threshold again: wrong once in 20."""


@dataclass(frozen=True, slots=True)
class WindowEstimate:
    """The rate over one window, with limits at the window's own z (`surely`) and at `Z_OVER` (`likely`)."""

    at: AlertWindow
    surely: Estimate | None
    likely: Estimate | None


def estimate_windows(
    policy: AlertPolicy, windows: Windows, app: str, evaluator: str, now: float
) -> list[WindowEstimate]:
    """Estimate the rate over each window of a policy, the shortest first."""
    usual = windows.usual(app, evaluator, now)
    sums = [(one, windows.sums(app, evaluator, one.window, now)) for one in policy.by_length]
    return [
        WindowEstimate(one, estimate(found, one.z, usual=usual), estimate(found, Z_OVER, usual=usual))
        for one, found in sums
    ]


def corrected(estimates: Sequence[WindowEstimate], quality: JudgeQuality) -> list[WindowEstimate]:
    """Correct all estimates by human labels; without enough labels they stay as they are."""

    def of(one: Estimate | None) -> Estimate | None:
        return None if one is None else surely_corrected(one, quality) or one

    return [WindowEstimate(one.at, of(one.surely), of(one.likely)) for one in estimates]


def corrected_words(quality: JudgeQuality | None) -> str:
    """Say which rate is used by an alert that asks for the corrected one."""
    if quality is None or surely_corrected(Estimate(0.0, 0.0, 0.0, 1, 0), quality) is None:
        return _NOT_CORRECTED
    return f"{_CORRECTED} ({quality.defects:,} defects, {quality.good:,} good answers)."


_CORRECTED = "The rate is corrected by human labels"
_NOT_CORRECTED = "The rate is the judge's own: there are too few human labels to correct it."


def decide(
    estimates: Sequence[WindowEstimate], threshold: float, app: str, evaluator: str, *, predicate: str = DEFECTIVE
) -> ConditionResult:
    """Decide whether the alert fires; `estimates` has the shortest window first.

    `predicate` names defective answers in the text.
    """
    over = estimates[0].likely is not None and estimates[0].likely.upper < threshold
    fired = [one for one in estimates if one.surely is not None and one.surely.lower > threshold]
    if fired and not over:
        return _found(AlertStatus.FIRING, fired[0], threshold, app, evaluator, predicate=predicate)
    able = [one for one in estimates if _could_tell(one, threshold)]
    if able:
        return _found(AlertStatus.OK, able[0], threshold, app, evaluator, predicate=predicate)
    return _found(AlertStatus.NOT_ENOUGH_DATA, estimates[-1], threshold, app, evaluator, predicate=predicate)


def _could_tell(one: WindowEstimate, threshold: float) -> bool:
    if one.likely is None:
        return False
    return one.likely.upper < threshold or one.likely.judged >= judged_to_tell(threshold, doubled(threshold), one.at.z)


def _found(
    status: AlertStatus, one: WindowEstimate, threshold: float, app: str, evaluator: str, *, predicate: str
) -> ConditionResult:
    span = format_duration(one.at.window)
    limit = precise_percent(threshold)
    found = one.surely
    if found is None:
        nothing = f"{evaluator} scored no answers from {app} in the last {span}."
        return ConditionResult(status, nothing, threshold, one.at.window)
    about = rate_alert(evaluator)
    measured = (
        f"{precise_percent(found.rate)} of the answers from {app} in the last {span}"
        f" {about.finding(predicate, evaluator)} (at least {precise_percent(found.lower)}, {found.judged} scored)."
        f" The threshold is {limit}."
    )
    if status is AlertStatus.NOT_ENOUGH_DATA:
        clear = doubled(threshold)
        needed = judged_to_tell(threshold, clear, one.at.z)
        measured += (
            f" Not enough data: about {needed} scored answers are needed to detect a rate of {precise_percent(clear)}."
        )
    if status is AlertStatus.FIRING and about.advice:
        measured += f" {about.advice}"
    return ConditionResult(status, measured, threshold, one.at.window, found)


def defect_rate_high(
    policy: AlertPolicy,
    severity: Severity,
    runbooks: str,
    *,
    series: RateSeries,
    which: str = "",
    labels: Mapping[str, str] | None = None,
    about: RateAlert = DEFECT_RATE,
) -> Rule:
    """Make the rule: any window is clearly above the threshold, unless the shortest is likely below it.

    Thresholds are by app and evaluator; each version has an alert of its own, as long as some process uses it. `series`
    selects the defect rules, `which` the thresholds; `labels` are added to the alert; `about` is its name and wording.
    """
    windows, recorded = policy.by_length, series.recorded
    limit = partial(_corrected_or_judged if policy.rate == "corrected" else _judged, series)
    threshold = f'{series.threshold}{{severity="{severity}"{which}}}'
    span = format_duration(windows[0].window)
    fires = "\n  or\n".join(
        f"  {limit('lower', one.window, one.z)} > {series.of_policy} {threshold}" for one in windows
    )
    over = f"{limit('upper', windows[0].window, Z_OVER)} < {series.of_policy} {threshold}"
    description = (
        "At least {{ $value | humanizePercentage }} of the answers from {{ $labels.app }}"
        f" {about.finding(DEFECTIVE, '{{ $labels.evaluator }}')}. The threshold is "
        + lookup(series.threshold, "humanizePercentage", severity)
        + f". In the last {span}: "
        + lookup(f"{recorded}defect_ratio:rate{span}", "humanizePercentage")
        + " of "
        + lookup(f"{recorded}evaluations:increase{span}", 'printf "%.0f"')
        + " scored."
        + (f" {about.advice}" if about.advice else series.defect_words)
        + (_IN_RULES if policy.rate == "corrected" else "")
    )
    return alert(
        about.name,
        expr=f"(\n{fires}\n)\nunless {series.on_version}\n{over}\n{series.judging}",
        keep_firing_for=policy.resolve_after,
        labels=series.alert_labels({"severity": severity.value, **(labels or {})}),
        texts=annotate(about.name, about.summary, description, runbooks),
    )


def _judged(series: RateSeries, which: str, window: float, z: float) -> str:
    limit = f'{series.recorded}defect_ratio:{which}{format_duration(window)}{{z="{z:g}"}}'
    return f"max {series.by_version} ({limit})" if which == "lower" else limit


def _corrected_or_judged(series: RateSeries, which: str, window: float, z: float) -> str:
    found = f'{series.recorded}surely_corrected_defect_ratio:{which}{format_duration(window)}{{z="{z:g}"}}'
    return f"(max {series.by_version} ({found}) or {_judged(series, which, window, z)})"


_IN_RULES = (
    '{{ with printf "evaluator_version:ragmonitor_power:ratio{evaluator=%q,version=%q}" $labels.evaluator'
    f" $labels.version | query }}}} {_CORRECTED}.{{{{ else }}}} {_NOT_CORRECTED}{{{{ end }}}}"
)


def selector(policy: AlertPolicy, policies: Sequence[AlertPolicy]) -> str:
    """Select the thresholds that come from `policy`: for its app, or for all apps without a policy of their own."""
    of = f",evaluator={quoted(policy.evaluator)}"
    if policy.defect is not None:
        of += f",{DEFECT_RULE}={quoted(policy.defect.name)}"
    if policy.app is not None:
        return f"{of},app={quoted(policy.app)}"
    same = [one for one in policies if (one.evaluator, one.defect) == (policy.evaluator, policy.defect)]
    own = [other.app for other in same if other.app is not None]
    return of + "".join(f",app!={quoted(app)}" for app in own)


def stated_labels(policy: AlertPolicy) -> dict[str, str]:
    """Return labels that the alert has anyway; written out, they distinguish rules of the same name."""
    stated = {"evaluator": policy.evaluator, **({"app": policy.app} if policy.app is not None else {})}
    if policy.defect is not None:
        stated[DEFECT_RULE] = policy.defect.name
    return {name: value.replace("{{", '{{ "{{" }}') for name, value in stated.items()}
