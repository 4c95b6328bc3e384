"""`rag-monitor rules`: the configured alerts as a Prometheus rules file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from monitor.cli.run import ConfigPath


def rules(
    config: ConfigPath = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write to this file instead of printing.")
    ] = None,
) -> None:
    """Write the configured alerts as a Prometheus rules file: the same policy that runs in process."""
    from monitor import config as configuration  # noqa: PLC0415
    from monitor.alerts.rules import render  # noqa: PLC0415

    loaded = configuration.load(config)
    text = render(loaded.alerts, runbooks=loaded.runbooks)
    if output is None:
        typer.echo(text, nl=False)
    else:
        output.write_text(text, encoding="utf-8")
        typer.echo(f"wrote {output}", err=True)
