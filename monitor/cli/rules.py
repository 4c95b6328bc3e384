"""`rag-monitor rules`: the configured alerts for Prometheus."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
import yaml

from monitor.cli.run import ConfigPath


class Format(StrEnum):
    """What is written."""

    PROMETHEUS = "prometheus"
    PROMETHEUSRULE = "prometheusrule"
    TESTS = "tests"


def rules(
    config: ConfigPath = None,
    form: Annotated[
        Format,
        typer.Option(
            "--format",
            help="A rules file; the same as a PrometheusRule, for the operator; or tests of rules.yml for promtool.",
        ),
    ] = Format.PROMETHEUS,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write to this file instead of printing.")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="For machines: the same as JSON, which Prometheus reads as well.")
    ] = False,
) -> None:
    """Write the configured alerts for Prometheus: the same policy that runs in process."""
    from monitor import config as configuration  # noqa: PLC0415
    from monitor.alerts.prometheus.rule_tests import render_tests  # noqa: PLC0415
    from monitor.alerts.prometheus.rules import render, render_resource  # noqa: PLC0415

    loaded = configuration.load(config)
    if form is Format.TESTS:
        text = render_tests(loaded.alerts)
    else:
        write = render if form is Format.PROMETHEUS else render_resource
        text = write(loaded.alerts, runbooks=loaded.runbooks_url, page=loaded.ui.url)
    if as_json:
        text = json.dumps(yaml.safe_load(text), indent=2, ensure_ascii=False) + "\n"
    if output is None:
        typer.echo(text, nl=False)
    else:
        output.write_text(text, encoding="utf-8")
        typer.echo(f"wrote {output}", err=True)
