"""`rag-monitor health`: whether a running monitor is healthy, as an exit status."""

from __future__ import annotations

from typing import Annotated

import typer

from monitor.cli._options import CaFile, MetricsUrl, Token, TokenFile, client_of
from monitor.errors import MonitorError
from monitor.operations.monitor_client import DEFAULT_URL


def health(
    url: MetricsUrl = DEFAULT_URL,
    *,
    ready: Annotated[bool, typer.Option("--ready", help="Check whether it is ready for traffic.")] = False,
    token: Token = None,
    token_file: TokenFile = None,
    ca_file: CaFile = None,
) -> None:
    """Check a running monitor: exit status 0 when it is healthy, else 1. For images without a shell or curl.

    `/-/healthy` needs no token. With --ready it asks `/-/ready`, which needs the token of the port, and prints what the
    monitor is waiting for. Gives up after 5 seconds.
    """
    try:
        healthy, said = client_of(url, token, token_file, ca_file).health(ready=ready)
    except MonitorError as error:  # exit status 2 is reserved by Docker
        healthy, said = False, str(error)
    typer.echo(said, err=not healthy)
    if not healthy:
        raise typer.Exit(1)
