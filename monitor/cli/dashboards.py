"""`rag-monitor dashboards`: install the dashboards in Grafana."""

from __future__ import annotations

import os
from collections import Counter
from enum import StrEnum
from typing import Annotated

import typer

from monitor.alerts.prometheus.grafana_rules import FOLDER
from monitor.cli._options import CaFile
from monitor.cli.console.output import clean, exit_status_1, report
from monitor.operations.dashboards import BoardChange, Grafana, boards


class DashboardAction(StrEnum):
    """What to do with the dashboards."""

    INSTALL = "install"


def dashboards(
    action: Annotated[DashboardAction, typer.Argument(help="Create or update them.")],  # noqa: ARG001 - the only one
    *,
    url: Annotated[
        str, typer.Option("--url", metavar="URL", help="The address of Grafana, such as http://localhost:3000.")
    ],
    token_env: Annotated[
        str,
        typer.Option("--token-env", metavar="NAME", help="The variable that holds the token of a service account."),
    ] = "GRAFANA_TOKEN",  # noqa: S107 - its name
    folder: Annotated[
        str, typer.Option("--folder", metavar="TITLE", help="The folder; created if it does not exist.")
    ] = FOLDER,
    datasource: Annotated[
        str | None,
        typer.Option(
            "--datasource",
            metavar="UID",
            help="The uid of the Prometheus data source. Default: ragmonitor-prometheus, or the only one.",
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace what people changed in Grafana.")] = False,
    ca_file: CaFile = None,
) -> None:
    """Create or update the dashboards in a folder of Grafana 10 or newer, over its HTTP API.

    A second run changes nothing. Redirects are not followed. Exit status 1 when something could not be done.
    """
    with exit_status_1():
        grafana = Grafana(url, token=os.environ.get(token_env, ""), ca_file=ca_file)
        version = grafana.check()
        report(f"Grafana {clean(version)} at {grafana.url}" if version else f"Grafana at {grafana.url}")
        uid, note = grafana.data_source(datasource)
        if note:
            report(clean(note))
        counts: Counter[BoardChange] = Counter()
        for one in grafana.install(boards(), folder=folder, datasource=uid, force=force):
            counts[one.change] += 1
            typer.echo(f"{one.change:9}  {one.title}  {one.url}")
    if counts.keys() == {BoardChange.UNCHANGED}:
        typer.echo("nothing to change")
