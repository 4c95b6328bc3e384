"""`rag-monitor coverage`: how complete the telemetry of services is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import orjson
import typer

from monitor import config as configuration
from monitor.cli._options import CaFile, ConfigPath, Json, MetricsUrl, Token, TokenFile, client_of
from monitor.cli.console.output import echo_lines, report
from monitor.errors import ConfigError, MonitorError
from monitor.extraction.coverage import FIELDS
from monitor.operations.instrumentation import AppCoverage, of_files, of_monitor
from monitor.operations.monitor_client import DEFAULT_URL


def coverage(
    paths: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[PATH...]", help="Captures or rows, as for `cases`. Default: ask a running monitor."),
    ] = None,
    url: MetricsUrl = DEFAULT_URL,
    *,
    token: Token = None,
    token_file: TokenFile = None,
    ca_file: CaFile = None,
    config: ConfigPath = None,
    as_json: Json = False,
) -> None:
    """Print by app and dialect the share of requests that have a question, context, answer, model, session, tokens.

    Below the table is, for each field that is missing, the smallest change of the service's instrumentation. Exit
    status 1 when nothing could be read.
    """
    try:
        if paths:
            found = of_files(paths, configuration.load(config).extraction, report=report)
        else:
            found = of_monitor(client_of(url, token, token_file, ca_file))
    except ConfigError:
        raise
    except MonitorError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from None
    if not found:
        typer.echo("no request has been read yet", err=True)
        raise typer.Exit(1)
    if as_json:
        typer.echo(to_json(found))
    else:
        echo_lines(lines(found))


def to_json(found: Sequence[AppCoverage]) -> str:
    """Return one JSON object: by app and dialect the requests, how many have each field, and advice."""
    apps = [
        {"app": one.app, "dialect": one.dialect, "requests": one.requests, "fields": one.fields, "advice": one.advice}
        for one in found
    ]
    return orjson.dumps({"apps": apps}, option=orjson.OPT_INDENT_2).decode()


def lines(found: Sequence[AppCoverage]) -> Iterator[str]:
    """Yield a table, then the advice."""
    rows: list[Sequence[str]] = [("app", "dialect", "requests", *FIELDS)]
    for one in found:
        shares = (_percent(one.fields[name] / one.requests) for name in FIELDS)
        rows.append((one.app, one.dialect, str(one.requests), *shares))
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    for row in rows:
        names = (text.ljust(width) for text, width in zip(row[:2], widths[:2], strict=True))
        numbers = (text.rjust(width) for text, width in zip(row[2:], widths[2:], strict=True))
        yield "  ".join((*names, *numbers)).rstrip()
    for one in found:
        for field, advice in one.advice.items():
            yield ""
            yield f"{one.app} ({one.dialect}): no {field} in {one.missing(field)} of {one.requests} requests"
            yield from (f"  {line}".rstrip() for line in advice.splitlines())


def _percent(share: float) -> str:
    return f"{share:.0%}" if share in (0, 1) else f"{share:.1%}"
