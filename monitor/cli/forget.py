"""`rag-monitor forget`: delete one request, or all requests of one user."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import typer

from monitor import config as configuration
from monitor.cli._options import ConfigPath
from monitor.cli.console.output import echo_lines
from monitor.errors import ConfigError
from monitor.operations.erase import Erased, erase


def forget(
    *,
    trace: Annotated[
        str | None, typer.Option("--trace", metavar="ID", help="The id of a trace, or the `request_id` of a row.")
    ] = None,
    user: Annotated[
        str | None, typer.Option("--user", metavar="ID", help="The id of a user, as in the service's traces.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be deleted; delete nothing.")] = False,
    config: ConfigPath = None,
) -> None:
    """Delete all results, texts and log records of a request or of a user, and requests still to be evaluated.

    A running monitor keeps running, and drops such requests in progress. Aggregated counts stay: they identify no one.
    Copies in other systems are listed, to be deleted there. Exit status 1 when nothing was found.
    """
    if (trace is None) == (user is None) or not (trace or user):
        raise ConfigError("give either --trace ID or --user ID")
    erased = erase(configuration.load(config), trace=trace or "", user=user or "", dry_run=dry_run)
    echo_lines(lines(erased, dry_run=dry_run))
    if not erased.rows:
        raise typer.Exit(1)


def lines(erased: Erased, *, dry_run: bool) -> Iterator[str]:
    """Yield what was deleted, and what must be deleted elsewhere."""
    verb = "would be deleted" if dry_run else "deleted"
    for where, number in erased.rows.items():
        yield f"{where}: {number} {verb}"
    if not erased.rows:
        yield "nothing found"
    if not dry_run:
        yield "Requests that wait in the spool or are being evaluated are dropped when the monitor reaches them."
    for path in erased.damaged:
        yield f"This damaged file was set aside and may contain more; delete it by hand: {path}"
    if erased.copies:
        yield "Copies in other systems must be deleted there:"
        yield from (f"  {one}" for one in erased.copies)
