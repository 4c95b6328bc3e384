"""`rag-monitor rules`: write the configured alerts for Prometheus."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
import yaml

from monitor import config as configuration
from monitor.cli._options import ConfigPath
from monitor.cli.console.output import report, writing
from monitor.operations.rules import RuleFormat, render_rules


def rules(
    config: ConfigPath = None,
    form: Annotated[
        RuleFormat,
        typer.Option(
            "--format",
            help="A rules file; a PrometheusRule resource for the operator; or tests of rules.yml for promtool.",
        ),
    ] = RuleFormat.PROMETHEUS,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write to this file instead of printing.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Write JSON, which Prometheus reads as well.")] = False,
) -> None:
    """Write the configured alerts for Prometheus: the same policy that the monitor evaluates itself."""
    text = render_rules(configuration.load(config), form)
    if as_json:
        text = json.dumps(yaml.safe_load(text), indent=2, ensure_ascii=False) + "\n"
    if output is None:
        typer.echo(text, nl=False)
        return
    with writing("--output", output):
        output.write_text(text, encoding="utf-8")
    report(f"wrote {output}")
