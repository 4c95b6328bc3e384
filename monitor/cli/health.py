"""`rag-monitor health`: whether a running monitor is well, as an exit status."""

from __future__ import annotations

import http.client
from typing import Annotated

import typer

from monitor.cli.scrape import DEFAULT_URL
from monitor.cli.top import CaFile, MetricsUrl, Token, TokenFile
from monitor.errors import ConfigError, MonitorError


def health(
    url: MetricsUrl = DEFAULT_URL,
    *,
    ready: Annotated[bool, typer.Option("--ready", help="Whether it takes traffic, not just lives.")] = False,
    token: Token = None,
    token_file: TokenFile = None,
    ca_file: CaFile = None,
) -> None:
    """Ask a running monitor how it is: exit status 0 when it is well, else 1. For images without a shell or curl.

    `/-/healthy` needs no token; `--ready` asks `/-/ready`, which needs that of the port, and prints what it waits for.
    Gives up after 5 seconds.
    """
    from monitor.cli.scrape import Port, token_of  # noqa: PLC0415

    try:
        status, said = Port(url, token=token_of(token, token_file), ca_file=ca_file).says(
            "/-/ready" if ready else "/-/healthy"
        )
    except (ConfigError, MonitorError) as error:  # two would mean something of its own to Docker
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from None
    if status != http.client.OK:
        typer.echo(said or f"{url}: answers with {status}", err=True)
        raise typer.Exit(1)
    typer.echo(said)
