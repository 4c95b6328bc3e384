"""`rag-monitor incident`: one incident with all that is known about it, or a note on it."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from monitor import config as configuration
from monitor.cli._options import ConfigPath
from monitor.cli.console.incident_report import markdown, text
from monitor.cli.console.output import echo_json, echo_lines, exit_status_1
from monitor.clock import SystemClock
from monitor.model.incident import as_object
from monitor.operations import incidents as operation


def incident(
    name: Annotated[str, typer.Argument(metavar="ID", help="The id of the incident: see `rag-monitor incidents`.")],
    *,
    form: Annotated[
        Literal["text", "markdown", "json"],
        typer.Option("--format", help="`markdown` is the draft of a post-mortem."),
    ] = "text",
    note: Annotated[
        str | None, typer.Option("--note", metavar="TEXT", help="Add a note under your name; print nothing.")
    ] = None,
    config: ConfigPath = None,
) -> None:
    """Show an incident: when it began, how far the rate rose, what changed, and the worst answers.

    Reads the storage folder, whether a monitor is running or not. Exit status 1 when there is no such incident.
    """
    settings, now = configuration.load(config), SystemClock().now()
    with exit_status_1():
        if note is not None:
            operation.note_incident(settings, name, note)
            return
        found = operation.incident(settings, name)
    if form == "json":
        echo_json(as_object(found))
    else:
        echo_lines(markdown(found, now) if form == "markdown" else text(found, now))
