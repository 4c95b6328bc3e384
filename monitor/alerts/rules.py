"""The alert policies as Prometheus rules: what `engine.py` decides in process, in PromQL over any number of replicas.

Names follow `level:metric:operations` and the guidelines of monitoring mixins. Thresholds are those that the monitor
exports (`ragmonitor_alert_threshold_ratio`). So where all policies have the same windows and `resolve_after` they share
one rule for each severity, and the file changes with neither thresholds nor apps; else each has rules of its own.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from monitor.alerts.engine import ALERT_NAME, SUMMARY, Z_OVER
from monitor.alerts.policy import DEFAULT_WINDOWS, AlertPolicy, Severity
from monitor.quantities import format_duration

HOUR = 3600.0
MISSING_AT_LEAST = 10
"""How many evaluations must have been due in an hour without one: by chance that happens once in 22 000 hours."""
UNSCORED_ABOVE = 0.1
"""The share of evaluations without a verdict above which the rates rest on too little of what was sampled."""

Rule = dict[str, Any]

_HEADER = "# Written by `rag-monitor rules` from the alert policies of the configuration. Do not edit.\n"
_THRESHOLD = "app_evaluator_severity:ragmonitor_alert_threshold_ratio:max"
_PAIR = "app_evaluator:ragmonitor_"


def render(policies: Sequence[AlertPolicy], *, runbooks: str = "", interval: float = 60.0) -> str:
    """A rules file for Prometheus 2.42 or newer, the same for the same policies.

    `runbooks` is the address that `/<alert>.md` is added to for `runbook_url`; empty: no link. `interval` is how many
    seconds lie between two evaluations.
    """
    shapes = {(policy.by_length, policy.resolve_after) for policy in policies}
    windows = {policy.by_length for policy in policies} or {DEFAULT_WINDOWS}
    limits: dict[float, tuple[set[float], set[float]]] = {}  # window -> z of its lower limits, z of its upper limits
    for ordered in windows:
        for one in ordered:
            limits.setdefault(one.window, (set(), set()))[0].add(one.z)
        limits[ordered[0].window][1].add(Z_OVER)

    groups = [
        (f"ragmonitor-rates-{format_duration(window)}", _rates(window, *zs)) for window, zs in sorted(limits.items())
    ]
    alerts = [_record(_THRESHOLD, "max by (app, evaluator, severity) (ragmonitor_alert_threshold_ratio)")]
    if len(shapes) > 1:
        alerts += [
            _defect_rate_high(policy, severity, runbooks, _selector(policy, policies), _labels(policy))
            for policy in policies
            for severity in policy.thresholds
        ]
    else:
        common = policies[0] if policies else AlertPolicy(evaluator="any", critical=0.5)
        alerts += [_defect_rate_high(common, severity, runbooks) for severity in reversed(Severity)]
    groups += [("ragmonitor-alerts", alerts), ("ragmonitor-health", _health(HOUR in limits, runbooks))]
    document = {
        "groups": [{"name": name, "interval": format_duration(interval), "rules": rules} for name, rules in groups]
    }
    return _HEADER + yaml.dump(document, Dumper=_Dumper, sort_keys=False, width=10_000, allow_unicode=True)


def _rates(window: float, lower_zs: set[float], upper_zs: set[float]) -> list[Rule]:
    """Sums, rate and limits of one window. The formulas are those of `estimates/rates.py`."""
    span = format_duration(window)
    weight, defects = f"{_PAIR}evaluation_weight:increase{span}", f"{_PAIR}defect_weight:increase{span}"
    squares, effective = f"{_PAIR}defect_weight_squares:increase{span}", f"{_PAIR}effective_defects:increase{span}"
    judged, rate = f"{_PAIR}evaluations:increase{span}", f"{_PAIR}defect_ratio:rate{span}"
    pseudo = f"{_PAIR}pseudo_defect_weight:increase{span}"

    def summed(metric: str, *, defective: bool) -> str:
        every = f"sum by (app, evaluator) (increase({metric}[{span}]))"
        if not defective:
            return every
        return f'sum by (app, evaluator) (increase({metric}{{defect="true"}}[{span}]))\nor\n{every} * 0'

    rules = [
        _record(judged, summed("ragmonitor_evaluations_total", defective=False)),
        _record(weight, summed("ragmonitor_evaluation_weight_total", defective=False)),
        _record(defects, summed("ragmonitor_evaluation_weight_total", defective=True)),
        _record(squares, summed("ragmonitor_evaluation_weight_squares_total", defective=True)),
        _record(rate, f"{defects} / ({weight} > 0)"),
        _record(effective, f"{defects} ^ 2 / ({squares} > 0)\nor\n{weight} * 0"),
    ]
    for z in sorted(lower_zs):
        factor = f"1 - 1 / (9 * ({effective} > 0)) - {z:g} / (3 * sqrt({effective} > 0))"
        limit = f"{rate}\n* clamp_min({factor}, 0) ^ 3\nor\n{rate}"
        rules.append(_record(f"{_PAIR}defect_ratio:lower{span}", limit, z=f"{z:g}"))
    if upper_zs:
        mean = f"{weight} / ({judged} > 0)"
        rules.append(_record(pseudo, f"{squares} / ({defects} > 0) > {mean}\nor\n{mean}"))
    for z in sorted(upper_zs):
        count = f"(({defects} + {pseudo}) ^ 2 / ({squares} + {pseudo} ^ 2))"
        factor = f"1 - 1 / (9 * {count}) + {z:g} / (3 * sqrt({count}))"
        limit = f"clamp_max(\n  ({defects} + {pseudo}) / ({weight} > 0)\n  * ({factor}) ^ 3,\n  1\n)"
        rules.append(_record(f"{_PAIR}defect_ratio:upper{span}", limit, z=f"{z:g}"))
    return rules


def _defect_rate_high(
    policy: AlertPolicy,
    severity: Severity,
    runbooks: str,
    selector: str = "",
    labels: Mapping[str, str] | None = None,
) -> Rule:
    """Any window surely above, unless the shortest is likely below; `selector`: which thresholds it is about."""
    windows = policy.by_length
    threshold = f'{_THRESHOLD}{{severity="{severity}"{selector}}}'
    span = format_duration(windows[0].window)
    fires = "\n  or\n".join(
        f'  {_PAIR}defect_ratio:lower{format_duration(one.window)}{{z="{one.z:g}"}} > on (app, evaluator) {threshold}'
        for one in windows
    )
    over = f'{_PAIR}defect_ratio:upper{span}{{z="{Z_OVER:g}"}} < on (app, evaluator) {threshold}'
    description = (
        "At least {{ $value | humanizePercentage }} of the answers of {{ $labels.app }} are defective as"
        " {{ $labels.evaluator }} sees them; the threshold is "
        + _asked(_THRESHOLD, "humanizePercentage", severity)
        + f". In the last {span}: "
        + _asked(f"{_PAIR}defect_ratio:rate{span}", "humanizePercentage")
        + " of "
        + _asked(f"{_PAIR}evaluations:increase{span}", 'printf "%.0f"')
        + " judged."
    )
    return _alert(
        ALERT_NAME,
        expr=f"(\n{fires}\n)\nunless on (app, evaluator)\n{over}",
        keep_firing_for=policy.resolve_after,
        labels={"severity": severity.value, **(labels or {})},
        annotations=_annotations(ALERT_NAME, SUMMARY, description, runbooks),
    )


def _selector(policy: AlertPolicy, policies: Sequence[AlertPolicy]) -> str:
    """The thresholds that come from `policy`: those of its app, or of every app without a policy of its own."""
    of = f",evaluator={_quoted(policy.evaluator)}"
    if policy.app is not None:
        return f"{of},app={_quoted(policy.app)}"
    own = [other.app for other in policies if other.evaluator == policy.evaluator and other.app is not None]
    return of + "".join(f",app!={_quoted(app)}" for app in own)


def _labels(policy: AlertPolicy) -> dict[str, str]:
    """Labels that the alert has anyway: stated, they tell rules of the same name apart."""
    stated = {"evaluator": policy.evaluator, **({"app": policy.app} if policy.app is not None else {})}
    return {name: value.replace("{{", '{{ "{{" }}') for name, value in stated.items()}


def _quoted(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)


def _asked(metric: str, shown_by: str, severity: Severity | None = None) -> str:
    """A template that looks another series of the same app and evaluator up."""
    more = f",severity={json.dumps(severity.value)}" if severity is not None else ""
    selector = json.dumps(f"{metric}{{app=%q,evaluator=%q{more}}}")
    return (
        f"{{{{ with printf {selector} $labels.app $labels.evaluator | query }}}}"
        f"{{{{ . | first | value | {shown_by} }}}}{{{{ else }}}}?{{{{ end }}}}"
    )


def _health(hour_is_recorded: bool, runbooks: str) -> list[Rule]:
    """Whether the rates can be trusted: evaluations take place, and come to verdicts."""
    judged, received = f"{_PAIR}evaluations:increase1h", "app:ragmonitor_traces_received:increase1h"
    unscored, ratio = f"{_PAIR}unscored:increase1h", f"{_PAIR}unscored_ratio:rate1h"
    rules = [
        _record(received, "sum by (app) (increase(ragmonitor_traces_received_total[1h]))"),
        _record(unscored, "sum by (app, evaluator) (increase(ragmonitor_unscored_total[1h]))"),
        _record(ratio, f"{unscored} / ({unscored} + {judged} > 0)"),
    ]
    if not hour_is_recorded:
        rules.insert(0, _record(judged, "sum by (app, evaluator) (increase(ragmonitor_evaluations_total[1h]))"))
    missing = (
        f"avg_over_time({judged}[3d])\n* on (app) group_left ()\n"
        f"({received} / (avg_over_time({received}[3d]) > 0))\n"
        f"> {MISSING_AT_LEAST}\nunless on (app, evaluator)\n{judged} > 0"
    )
    surely = f"clamp_min(1 - 1 / (9 * ({unscored} > 0)) - 3.09 / (3 * sqrt({unscored} > 0)), 0) ^ 3"
    warning = {"severity": Severity.WARNING.value}
    return [
        *rules,
        _alert(
            "RagEvaluationsMissing",
            expr=missing,
            pending_for=600,
            labels=warning,
            annotations=_annotations(
                "RagEvaluationsMissing",
                "Requests arrive, but none of them is evaluated any more.",
                "{{ $labels.evaluator }} judged no answer of {{ $labels.app }} in the last hour; by its traffic and by"
                ' the last three days about {{ $value | printf "%.0f" }} were due.',
                runbooks,
            ),
        ),
        _alert(
            "RagUnscoredHigh",
            expr=f"{ratio}\n* {surely}\n> {UNSCORED_ABOVE:g}",
            keep_firing_for=900,
            labels=warning,
            annotations=_annotations(
                "RagUnscoredHigh",
                "Many evaluations come to no verdict.",
                "At least {{ $value | humanizePercentage }} of the evaluations of {{ $labels.app }} by"
                " {{ $labels.evaluator }} in the last hour came to no verdict; ragmonitor_unscored_total says why.",
                runbooks,
            ),
        ),
    ]


def _record(name: str, expression: str, **labels: str) -> Rule:
    return {"record": name, "expr": expression, **({"labels": labels} if labels else {})}


def _alert(
    name: str,
    *,
    expr: str,
    labels: Mapping[str, str],
    annotations: Mapping[str, str],
    pending_for: float = 0,
    keep_firing_for: float = 0,
) -> Rule:
    times = {"for": pending_for, "keep_firing_for": keep_firing_for}
    return {
        "alert": name,
        "expr": expr,
        **{key: format_duration(seconds) for key, seconds in times.items() if seconds},
        "labels": dict(labels),
        "annotations": dict(annotations),
    }


def _annotations(name: str, summary: str, description: str, runbooks: str) -> dict[str, str]:
    link = {"runbook_url": f"{runbooks.rstrip('/')}/{name}.md"} if runbooks else {}
    return {"summary": summary, "description": description, **link}


class _Dumper(yaml.SafeDumper):
    """Lists indented under their key, expressions of several lines as blocks."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:  # noqa: ARG002 - that is the point
        return super().increase_indent(flow, indentless=False)


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _text)
