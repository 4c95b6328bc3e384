"""`rag-monitor rules`: write the configured alerts for Prometheus or Grafana."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
import yaml

from monitor import config as configuration
from monitor.alerts.prometheus.grafana_rules import DATASOURCE
from monitor.cli._options import ConfigPath, requires
from monitor.cli.console.output import report, writing
from monitor.operations.rules import RuleFormat, render_rules


def rules(
    config: ConfigPath = None,
    form: Annotated[
        RuleFormat,
        typer.Option(
            "--format",
            help="A rules file; a PrometheusRule resource for the operator; Grafana-managed rules for provisioning;"
            " or promtool tests of rules.yml.",
        ),
    ] = RuleFormat.PROMETHEUS,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write to this file instead of printing.")
    ] = None,
    datasource: Annotated[
        str | None,
        typer.Option(
            "--datasource",
            metavar="UID",
            help="With --format grafana: the uid of the Prometheus data source. Default: ragmonitor-prometheus.",
        ),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Write JSON, which Prometheus and Grafana read as well.")
    ] = False,
) -> None:
    """Write the configured alerts for Prometheus or Grafana: the same policy that the monitor evaluates itself."""
    if form is not RuleFormat.GRAFANA:
        requires("--datasource", datasource, "--format grafana", other_given=False)
    text = render_rules(configuration.load(config), form, datasource=datasource or DATASOURCE)
    if as_json:
        text = json.dumps(yaml.safe_load(text), indent=2, ensure_ascii=False) + "\n"
    if output is None:
        typer.echo(text, nl=False)
        return
    with writing("--output", output):
        output.write_text(text, encoding="utf-8")
    report(f"wrote {output}")
