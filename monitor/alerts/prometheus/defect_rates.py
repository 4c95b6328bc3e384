"""`RagDefectRateHigh` in PromQL, and the sums, rates and limits that it rests on.

Thresholds are those that the monitor exports (`ragmonitor_alert_threshold_ratio`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from monitor.alerts.conditions.threshold import NAME, SUMMARY, Z_OVER
from monitor.alerts.policy import AlertPolicy, Severity
from monitor.alerts.prometheus.format import (
    BY_VERSION,
    JUDGING,
    OF_PAIR,
    ON_VERSION,
    VERSION,
    Rule,
    alert,
    annotate,
    lookup,
    quoted,
    record,
)
from monitor.quantities import format_duration

THRESHOLD = "app_evaluator_severity:ragmonitor_alert_threshold_ratio:max"


def rates(window: float, lower_zs: set[float], upper_zs: set[float]) -> list[Rule]:
    """Record the sums, the rate and its limits over one window, by the formulas of `statistics/rates.py`."""
    span = format_duration(window)
    weight, defects = f"{VERSION}evaluation_weight:increase{span}", f"{VERSION}defect_weight:increase{span}"
    squares, effective = f"{VERSION}defect_weight_squares:increase{span}", f"{VERSION}effective_defects:increase{span}"
    judged, rate = f"{VERSION}evaluations:increase{span}", f"{VERSION}defect_ratio:rate{span}"
    pseudo = f"{VERSION}pseudo_defect_weight:increase{span}"

    def summed(metric: str, *, defective: bool) -> str:
        every = f"sum {BY_VERSION} (increase({metric}[{span}]))"
        if not defective:
            return every
        return f'sum {BY_VERSION} (increase({metric}{{defect="true"}}[{span}]))\nor\n{every} * 0'

    rules = [
        record(judged, summed("ragmonitor_evaluations_total", defective=False)),
        record(weight, summed("ragmonitor_evaluation_weight_total", defective=False)),
        record(defects, summed("ragmonitor_evaluation_weight_total", defective=True)),
        record(squares, summed("ragmonitor_evaluation_weight_squares_total", defective=True)),
        record(rate, f"{defects} / ({weight} > 0)"),
        record(effective, f"{defects} ^ 2 / ({squares} > 0)\nor\n{weight} * 0"),
    ]
    for z in sorted(lower_zs):
        factor = f"1 - 1 / (9 * ({effective} > 0)) - {z:g} / (3 * sqrt({effective} > 0))"
        limit = f"{rate}\n* clamp_min({factor}, 0) ^ 3\nor\n{rate}"
        rules.append(record(f"{VERSION}defect_ratio:lower{span}", limit, z=f"{z:g}"))
    if upper_zs:
        mean = f"{weight} / ({judged} > 0)"
        rules.append(record(pseudo, f"{squares} / ({defects} > 0) > {mean}\nor\n{mean}"))
    for z in sorted(upper_zs):
        count = f"(({defects} + {pseudo}) ^ 2 / ({squares} + {pseudo} ^ 2))"
        factor = f"1 - 1 / (9 * {count}) + {z:g} / (3 * sqrt({count}))"
        limit = f"clamp_max(\n  ({defects} + {pseudo}) / ({weight} > 0)\n  * ({factor}) ^ 3,\n  1\n)"
        rules.append(record(f"{VERSION}defect_ratio:upper{span}", limit, z=f"{z:g}"))
    return rules


def defect_rate_high(
    policy: AlertPolicy,
    severity: Severity,
    runbooks: str,
    which: str = "",
    labels: Mapping[str, str] | None = None,
) -> Rule:
    """Fires if any window is surely above the threshold, unless the shortest is likely below it.

    Thresholds are by app and evaluator, so each version has an alert of its own, as long as some process uses it.
    `which` selects the thresholds; `labels` are added to the alert.
    """
    windows = policy.by_length
    threshold = f'{THRESHOLD}{{severity="{severity}"{which}}}'
    span = format_duration(windows[0].window)
    fires = "\n  or\n".join(
        f'  max {BY_VERSION} ({VERSION}defect_ratio:lower{format_duration(one.window)}{{z="{one.z:g}"}})'
        f" > {OF_PAIR} {threshold}"
        for one in windows
    )
    over = f'{VERSION}defect_ratio:upper{span}{{z="{Z_OVER:g}"}} < {OF_PAIR} {threshold}'
    description = (
        "At least {{ $value | humanizePercentage }} of the answers from {{ $labels.app }} are defective according to"
        " {{ $labels.evaluator }}. The threshold is "
        + lookup(THRESHOLD, "humanizePercentage", severity)
        + f". In the last {span}: "
        + lookup(f"{VERSION}defect_ratio:rate{span}", "humanizePercentage")
        + " of "
        + lookup(f"{VERSION}evaluations:increase{span}", 'printf "%.0f"')
        + " scored."
    )
    return alert(
        NAME,
        expr=f"(\n{fires}\n)\nunless {ON_VERSION}\n{over}\n{JUDGING}",
        keep_firing_for=policy.resolve_after,
        labels={"severity": severity.value, **(labels or {})},
        texts=annotate(NAME, SUMMARY, description, runbooks),
    )


def selector(policy: AlertPolicy, policies: Sequence[AlertPolicy]) -> str:
    """Select the thresholds that come from `policy`: of its app, or of all apps without a policy of their own."""
    of = f",evaluator={quoted(policy.evaluator)}"
    if policy.app is not None:
        return f"{of},app={quoted(policy.app)}"
    own = [other.app for other in policies if other.evaluator == policy.evaluator and other.app is not None]
    return of + "".join(f",app!={quoted(app)}" for app in own)


def stated_labels(policy: AlertPolicy) -> dict[str, str]:
    """Labels that the alert has anyway; written out, they tell rules of the same name apart."""
    stated = {"evaluator": policy.evaluator, **({"app": policy.app} if policy.app is not None else {})}
    return {name: value.replace("{{", '{{ "{{" }}') for name, value in stated.items()}
