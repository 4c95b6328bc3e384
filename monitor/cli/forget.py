"""`rag-monitor forget`: deletes what is kept of one request, or of all requests of one user."""

from __future__ import annotations

from typing import Annotated

import typer

from monitor.cli._options import ConfigPath
from monitor.clock import SystemClock


def forget(
    *,
    trace: Annotated[
        str | None, typer.Option("--trace", metavar="ID", help="The id of a trace, or of a row (`request_id`).")
    ] = None,
    user: Annotated[
        str | None, typer.Option("--user", metavar="ID", help="A user's id, as the service's traces tell it.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be deleted, and leave it.")] = False,
    config: ConfigPath = None,
) -> None:
    """Delete every result, text and trail of a request, or of a user, and what still waits to be judged.

    A running monitor goes on: what it has in hand is dropped when it comes to it. Sums of verdicts stay, they tell of
    nobody. What was sent elsewhere is named, to be deleted there. Exit status 1 when nothing was found.
    """
    from monitor import config as configuration  # noqa: PLC0415
    from monitor.cli import forgetting  # noqa: PLC0415
    from monitor.errors import ConfigError  # noqa: PLC0415

    if (trace is None) == (user is None) or not (trace or user):
        raise ConfigError("give either --trace ID or --user ID")
    found = forgetting.forget(
        configuration.load(config), forgetting.Wanted(trace or "", user or ""), dry_run=dry_run, now=SystemClock().now()
    )
    for line in forgetting.lines(found, dry_run=dry_run):
        typer.echo(line)
    if not found.rows:
        raise typer.Exit(1)
