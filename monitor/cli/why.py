"""`rag-monitor why`: why a trace, or an evaluator, has the verdicts it has, or none."""

from __future__ import annotations

from typing import Annotated

import typer

from monitor.cli._options import CaFile, ConfigPath, Token, TokenFile, client_of
from monitor.clock import SystemClock
from monitor.errors import MonitorError


def why(
    trace: Annotated[
        str | None, typer.Argument(metavar="[TRACE_ID]", help="A trace id, or the id of a row.", show_default=False)
    ] = None,
    *,
    evaluator: Annotated[
        str | None, typer.Option("--evaluator", "-e", help="Without a trace: why it ran as often as it did.")
    ] = None,
    since: Annotated[str, typer.Option("--since", help="For --evaluator alone: of which time, up to now.")] = "24h",
    app: Annotated[str | None, typer.Option("--app", help="For --evaluator alone: of this service.")] = None,
    config: ConfigPath = None,
    url: Annotated[
        str | None, typer.Option("--url", help="Ask a running monitor, which also knows what is under way.")
    ] = None,
    token: Token = None,
    token_file: TokenFile = None,
    ca_file: CaFile = None,
    as_json: Annotated[bool, typer.Option("--json", help="For machines: one JSON object instead of lines.")] = False,
) -> None:
    """Explain why there is a verdict or none: each step on the way, and the one setting that would change it.

    By default from the storage folder of the configuration, also beside the monitor that writes it. Exit status 1 when
    nothing is known of it.
    """
    from monitor.cli import because  # noqa: PLC0415
    from monitor.errors import ConfigError  # noqa: PLC0415

    if trace is None and evaluator is None:
        raise ConfigError("why: give the id of a trace, or an evaluator by --evaluator")
    wanted = because.Wanted(trace or "", evaluator or "", since, app or "")
    try:
        if url is None:
            found = because.from_disk(config, wanted, SystemClock().now())
        else:
            found = because.from_monitor(client_of(url, token, token_file, ca_file), wanted)
    except ConfigError:
        raise
    except MonitorError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from None
    if as_json:
        typer.echo(because.as_json(found))
    else:
        because.show(found)
    if not because.is_known(found):
        raise typer.Exit(1)
