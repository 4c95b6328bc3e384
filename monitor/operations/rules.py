"""Renders the configured alerts for Prometheus or Grafana: the same policy that the monitor evaluates itself."""

from __future__ import annotations

from enum import StrEnum

from monitor.alerts.prometheus.grafana_rules import DATASOURCE, render_grafana
from monitor.alerts.prometheus.rule_tests import render_tests
from monitor.alerts.prometheus.rules import render, render_resource
from monitor.config import Config


class RuleFormat(StrEnum):
    """A rules file; the same as a PrometheusRule resource for the operator, or as a Grafana provisioning file; or
    promtool tests of `rules.yml`.
    """

    PROMETHEUS = "prometheus"
    PROMETHEUSRULE = "prometheusrule"
    GRAFANA = "grafana"
    TESTS = "tests"


def render_rules(config: Config, form: RuleFormat = RuleFormat.PROMETHEUS, *, datasource: str = DATASOURCE) -> str:
    """Return the alerts of `config` as YAML. `datasource` is the uid of the Prometheus data source in Grafana."""
    config = config.as_run()
    runbooks, page = config.runbooks_url, config.ui.url
    if form is RuleFormat.TESTS:
        return render_tests(config.alerts)
    if form is RuleFormat.GRAFANA:
        return render_grafana(config.alerts, runbooks=runbooks, page=page, datasource=datasource)
    write = render if form is RuleFormat.PROMETHEUS else render_resource
    return write(config.alerts, runbooks=runbooks, page=page)
