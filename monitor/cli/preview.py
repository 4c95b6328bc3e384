"""`rag-monitor preview`: what a configuration would do with recorded traffic, and what a month of it would cost."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from monitor.cli._options import ConfigPath

if TYPE_CHECKING:
    from monitor.cli.previewed import Previewed


def preview(
    paths: Annotated[
        list[Path] | None, typer.Argument(metavar="FILE", help="Captures or rows, as for `cases`: files or folders.")
    ] = None,
    *,
    since: Annotated[
        str | None, typer.Option(metavar="6h", help="Instead of files: what a running monitor has recorded of so long.")
    ] = None,
    traffic: Annotated[
        str | None, typer.Option(metavar="N/day", help="Requests a day. Default: by the time span of what is recorded.")
    ] = None,
    tokens_out: Annotated[int, typer.Option("--tokens-out", min=0, help="Of an answer of the judge, assumed.")] = 200,
    prompt: Annotated[bool, typer.Option("--prompt", help="Print what would be sent for the first case.")] = False,
    config: ConfigPath = None,
) -> None:
    """Say which recorded requests would be kept and judged under this configuration, and what a month would cost.

    No judge is asked. Exit status 1 when a file or row could not be read.
    """
    if (since is None) == (not paths):
        raise typer.BadParameter("give files, or --since", param_hint="FILE")
    from monitor import config as configuration  # noqa: PLC0415
    from monitor.cli import outlook_of, previewed, recorded, trailed  # noqa: PLC0415
    from monitor.clock import SystemClock  # noqa: PLC0415
    from monitor.operations.event_loop import run_async  # noqa: PLC0415
    from monitor.quantities import parse_duration  # noqa: PLC0415
    from monitor.telemetry import logs  # noqa: PLC0415

    loaded = configuration.load(config)
    logs.configure("ERROR", "text", sys.stderr)
    a_day = outlook_of.a_day(traffic)
    if since is None:
        found = recorded.of_files(loaded, paths or [], sys.stderr)
    else:
        try:
            seconds = parse_duration(since)
        except ValueError as error:
            raise typer.BadParameter(str(error), param_hint="--since") from None
        found = recorded.of_history(loaded, seconds, SystemClock().now())
    done: list[Previewed] = []

    async def main() -> None:
        done.append(await previewed.run(loaded, found, trailed.LISTED))

    run_async(main)
    for line in outlook_of.lines(loaded, done[0], a_day, tokens_out, prompt=prompt):
        typer.echo(line)
    if found.unreadable:
        raise typer.Exit(1)
