"""`rag-monitor incidents`: the incidents that a monitor has stored."""

from __future__ import annotations

from typing import Annotated

import typer

from monitor import config as configuration
from monitor.cli import _options
from monitor.cli._options import ConfigPath, Json
from monitor.cli.console.incident_report import rows
from monitor.cli.console.output import align, echo_json, echo_lines, exit_status_1
from monitor.clock import SystemClock
from monitor.model.incident import as_object
from monitor.operations import incidents as operation
from monitor.quantities import parse_duration


def incidents(
    *,
    since: Annotated[
        str, typer.Option("--since", metavar="DURATION", help="Incidents that were open at some time since then.")
    ] = "30d",
    app: Annotated[str | None, typer.Option("--app", callback=_options.app, help="Only this service.")] = None,
    only_open: Annotated[bool, typer.Option("--open", help="Only open incidents.")] = False,
    config: ConfigPath = None,
    as_json: Json = False,
) -> None:
    """List incidents, newest first. An incident lasts from the first alert on a rate until all its alerts are over.

    Reads the storage folder, even while a monitor runs. `rag-monitor incident ID` shows one of them.
    """
    now = SystemClock().now()
    begin = now - _options.read("--since", parse_duration, since)
    with exit_status_1():
        found = operation.incidents(configuration.load(config), since=begin, app=app, only_open=only_open)
    if as_json:
        echo_json({"incidents": [as_object(one) for one in found]})
    elif not found:
        echo_lines([f"No incidents in the last {since}."])
    else:
        echo_lines(align(rows(found, now), left=6))
