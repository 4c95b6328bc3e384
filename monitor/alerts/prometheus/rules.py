"""Writes the alerts as Prometheus rules: what `engine.py` decides in process, over any number of replicas.

Names follow `level:metric:operations` and the guidelines for monitoring mixins. Thresholds are read from the series
that the monitor exports. So policies with the same windows and the same `resolve_after` share one rule for each
severity, and the file depends on neither thresholds nor apps. Otherwise each policy has rules of its own.
"""

from __future__ import annotations

from collections.abc import Sequence

from monitor.alerts import regression
from monitor.alerts.catalogue import in_rule
from monitor.alerts.policy import DEFAULT_WINDOWS, AlertPolicy, Severity, needs_baselines
from monitor.alerts.prometheus import calibration, severe
from monitor.alerts.prometheus.promql import BY_EVALUATOR, RateSeries, Rule, alert, annotate, dump, record
from monitor.alerts.prometheus.rates import SHOWN, rates
from monitor.alerts.rate_names import OWN, rate_alert
from monitor.alerts.self_alert import SelfAlert, self_alerts
from monitor.alerts.threshold import Z_OVER, defect_rate_high, selector, stated_labels
from monitor.quantities import format_duration
from monitor.statistics.change import DAY, WINDOWS
from monitor.statistics.rates import Z_95

_NEEDED = tuple(window.length for window in WINDOWS if window.length <= DAY)
"""Windows with sums that other groups read: for baselines, and for the usual weight of a day."""
_BY_RULE = "-by-rule"  # suffix of groups by the alerts' own defect rules
HEADER = "# Written by `rag-monitor rules` from the alert policies of the configuration. Do not edit.\n"


def render(policies: Sequence[AlertPolicy], *, runbooks: str = "", interval: float = 60.0, page: str = "") -> str:
    """Write a rules file for Prometheus 2.42 or newer, the same for the same policies.

    `runbooks` is the URL that `/<alert>.md` is appended to for `runbook_url`; empty: no link. `interval` is the number
    of seconds between two evaluations. `page` is the URL of the web UI, for `answers_url`; empty: no link.
    """
    return HEADER + dump({"groups": groups(policies, runbooks, interval, page)})


def render_resource(
    policies: Sequence[AlertPolicy], *, runbooks: str = "", interval: float = 60.0, page: str = ""
) -> str:
    """Write the same as a PrometheusRule, the resource of the Prometheus operator."""
    resource = {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": {"name": "rag-monitor", "labels": {"app.kubernetes.io/name": "rag-monitor"}},
        "spec": {"groups": groups(policies, runbooks, interval, page)},
    }
    return HEADER + dump(resource)


def groups(policies: Sequence[AlertPolicy], runbooks: str = "", interval: float = 60.0, page: str = "") -> list[Rule]:
    """Return the groups of a rules file; groups whose records are read by others come first."""
    own = [one for one in policies if one.defect is not None]
    found = _on_rates([one for one in policies if one.defect is None], runbooks, interval, BY_EVALUATOR)
    if own:
        groups_of_own = _on_rates(own, runbooks, interval, RateSeries(by_rule=True))
        found += [(f"{name}{_BY_RULE}", rules) for name, rules in groups_of_own]
    if any(one.severe is not None for one in policies):
        found.append(("ragmonitor-severe", [*severe.records(), *severe.alerts(runbooks)]))
    found.append(("ragmonitor-health", _health(runbooks)))
    found.append(("ragmonitor-calibration", calibration.records()))
    for name, rules in found:
        for rule in rules:
            if "alert" in rule:
                rule["annotations"] |= in_rule(rule["alert"], page, by_rule=name.endswith(_BY_RULE))
    return [{"name": name, "interval": format_duration(interval), "rules": rules} for name, rules in found]


def _on_rates(
    policies: Sequence[AlertPolicy], runbooks: str, interval: float, series: RateSeries
) -> list[tuple[str, list[Rule]]]:
    """Return the groups about rates, by name; those by evaluator also record series for other groups and dashboards."""
    with_baselines, shown = needs_baselines(policies), not series.by_rule
    asked = _limits(policies)
    limits = {window: asked.get(window, (set(), set())) for window in {*asked, *(SHOWN if shown else _NEEDED)}}
    for window in SHOWN if shown else ():
        lower, upper = limits[window]
        limits[window] = (lower | {Z_95}, upper | {Z_95})
    found = [
        (
            f"ragmonitor-rates-{format_duration(window)}",
            rates(window, *limits[window], of_hours=window not in asked, series=series),
        )
        for window in sorted(limits, key=lambda one: (one != DAY, one))  # all read the usual weight of a day
    ]
    if with_baselines:
        found.append(("ragmonitor-baselines", regression.records(series)))
    found.append(("ragmonitor-alerts", _alerts(policies, runbooks, series)))
    if with_baselines:
        found.append(("ragmonitor-regression", regression.alerts(runbooks, interval, series)))
    return found


def _health(runbooks: str) -> list[Rule]:
    """Return the alerts on the monitor itself, after the records that they read."""
    records: dict[str, Rule] = {}
    for one in self_alerts():
        for rule in one.records:
            if records.setdefault(rule["record"], rule) != rule:
                raise ValueError(f"{one.name} records {rule['record']} differently than an alert before it")
    return [*records.values(), *(rule for one in self_alerts() for rule in _self_alert(one, runbooks))]


def _self_alert(one: SelfAlert, runbooks: str) -> list[Rule]:
    return [
        alert(
            one.name,
            expr=rule.expr,
            pending_for=one.pending_for,
            keep_firing_for=one.keep_firing_for,
            labels={"severity": rule.severity.value},
            texts=annotate(one.name, one.summary, rule.description, runbooks),
        )
        for rule in one.rules
    ]


def _limits(policies: Sequence[AlertPolicy]) -> dict[float, tuple[set[float], set[float]]]:
    """Return, for each window, the z of the lower limits and the z of the upper limits that it needs."""
    windows = {policy.by_length for policy in policies if policy.thresholds} or {DEFAULT_WINDOWS}
    found: dict[float, tuple[set[float], set[float]]] = {}
    for ordered in windows:
        for one in ordered:
            found.setdefault(one.window, (set(), set()))[0].add(one.z)
        found[ordered[0].window][1].add(Z_OVER)
    return found


def _alerts(policies: Sequence[AlertPolicy], runbooks: str, series: RateSeries) -> list[Rule]:
    with_thresholds = [policy for policy in policies if policy.thresholds]
    alerts = [record(series.threshold, series.largest(series.exported("alert_threshold_ratio"), "severity"))]
    corrected = [policy for policy in with_thresholds if policy.rate == "corrected"]
    if corrected or len({(policy.by_length, policy.resolve_after) for policy in with_thresholds}) > 1:
        limits = {(one.window, "lower") for policy in corrected for one in policy.by_length}
        limits |= {(policy.by_length[0].window, "upper") for policy in corrected}
        alerts += calibration.surely_corrected(sorted(limits))
        return alerts + [
            defect_rate_high(
                policy,
                severity,
                runbooks,
                series=series,
                which=selector(policy, policies),
                labels=stated_labels(policy),
                about=rate_alert(policy.evaluator),
            )
            for policy in with_thresholds
            for severity in policy.thresholds
        ]
    common = with_thresholds[0] if with_thresholds else AlertPolicy(evaluator="any", critical=0.5)
    others = f',evaluator!~"{"|".join(OWN)}"'
    alerts += [
        defect_rate_high(common, severity, runbooks, series=series, which=others) for severity in reversed(Severity)
    ]
    return alerts + [
        defect_rate_high(common, severity, runbooks, series=series, which=f',evaluator="{evaluator}"', about=about)
        for evaluator, about in OWN.items()
        for severity in reversed(Severity)
    ]
