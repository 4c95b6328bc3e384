"""Renders the configured alerts for Prometheus: the same policy that the monitor evaluates itself."""

from __future__ import annotations

from enum import StrEnum

from monitor.alerts.prometheus.rule_tests import render_tests
from monitor.alerts.prometheus.rules import render, render_resource
from monitor.config import Config


class RuleFormat(StrEnum):
    """A rules file, the same as a PrometheusRule resource for the operator, or tests of `rules.yml` for promtool."""

    PROMETHEUS = "prometheus"
    PROMETHEUSRULE = "prometheusrule"
    TESTS = "tests"


def render_rules(config: Config, form: RuleFormat = RuleFormat.PROMETHEUS) -> str:
    """Return the alerts of `config` as YAML."""
    config = config.as_run()
    if form is RuleFormat.TESTS:
        return render_tests(config.alerts)
    write = render if form is RuleFormat.PROMETHEUS else render_resource
    return write(config.alerts, runbooks=config.runbooks_url, page=config.ui.url)
